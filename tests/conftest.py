"""What all tests have in common: they stay on this machine, and can be dealt out to several processes, test by test
(--share) or file by file as each process becomes free (--deal).

Nothing here starts anything; tests/servers.py does that when a test asks.
"""

from __future__ import annotations

import itertools
import os
import random
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", default="", metavar="SEED", help="files, and the tests in each, in the seed's order")
    parser.addoption("--share", default="0/1", metavar="I/N", help="every Nth of the tests chosen, from number I (0..)")
    parser.addoption("--deal", default="", metavar="FOLDER", help="of the files those that no other process has taken")


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


def taken(folder: Path, file: Path) -> bool:
    """Whether the file is this process's: the first to ask has it. A file's tests stay together, since they share
    servers."""
    try:
        (folder / str(file).replace(os.sep, "+")).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """With --deal: the files in their order, those apart that another process of the same folder has taken."""
    folder = session.config.getoption("--deal")
    if not folder or session.config.option.collectonly or session.testsfailed:
        return None  # pytest's own loop, which also says what could not be collected
    for file, items in itertools.groupby(session.items, lambda item: item.path):
        if not taken(Path(folder), file):
            continue
        some = list(items)
        for item, following in zip(some, [*some[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
    return True


@pytest.fixture(autouse=True, scope="session")
def loopback_only() -> None:
    """No test talks to another machine: proxies of the environment are not for us."""
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        os.environ.pop(name, None)
        os.environ.pop(name.upper(), None)
