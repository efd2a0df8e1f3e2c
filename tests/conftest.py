"""What all tests have in common: they stay on this machine, and can be dealt out to several processes.

Nothing here starts anything; tests/servers.py does that when a test asks.
"""

from __future__ import annotations

import os
import random

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", default="", metavar="SEED", help="files, and the tests in each, in the seed's order")
    parser.addoption("--share", default="0/1", metavar="I/N", help="every Nth of the tests chosen, from number I (0..)")


def shuffled(items: list[pytest.Item], seed: str) -> list[pytest.Item]:
    """The same tests in an order that follows from the seed. A file's stay together, since they share servers."""
    chance = random.Random(seed)
    files: dict[object, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    order = list(files.values())
    chance.shuffle(order)
    for some in order:
        chance.shuffle(some)
    return [item for some in order for item in some]


@pytest.hookimpl(trylast=True)  # after -k and -m have chosen
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts the tests in another order, if that is asked for, and deals them out: all shares I/N of one N together are
    every test once."""
    number, shares = map(int, config.getoption("--share").split("/"))
    if not 0 <= number < shares:
        raise pytest.UsageError(f"--share={number}/{shares}: shares are 0/{shares} to {shares - 1}/{shares}")
    if seed := config.getoption("--shuffle"):
        items[:] = shuffled(items, seed)
    config.hook.pytest_deselected(items=[item for index, item in enumerate(items) if index % shares != number])
    items[:] = items[number::shares]


@pytest.fixture(autouse=True, scope="session")
def loopback_only() -> None:
    """No test talks to another machine: proxies of the environment are not for us."""
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        os.environ.pop(name, None)
        os.environ.pop(name.upper(), None)
