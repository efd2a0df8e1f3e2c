"""Every fake of these tests has the signatures of what it stands for: what it takes, the real thing takes.

What they answer is tested in the contracts beside them (test_plane_contract.py, test_replicas_contract.py,
test_clients_contract.py, tests/native/test_fake_store.c).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from leafd.host.log import Log
from leafd.native_plane import Plane

from tests.unit import test_guard, test_page, test_turns
from tests.unit.jetstream import conftest, fake_backup, fake_plane, test_large
from tests.unit.links import replica_stage
from tests.unit.logins import test_clients

FAKES: list[tuple[type, type]] = [
    (fake_plane.FakePlane, Plane),
    (fake_backup.BackupPlane, Plane),
    (replica_stage.FakePlane, Plane),
    (test_clients.Plane, Plane),
    (replica_stage.QuietLog, Log),
    (test_clients.Silent, Log),
    (conftest.Complaints, Log),
    (test_large.Silent, Log),
    (test_guard.Lines, Log),
    (test_turns.Log, Log),
    (test_page.Refused, Log),
]
PAIRS = [
    (fake, real, name)
    for fake, real in FAKES
    for name, member in inspect.getmembers(fake, inspect.isfunction)
    if not name.startswith("_") and hasattr(real, name) and member.__qualname__.split(".")[0] != "object"
]
KEYWORDS = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


def parameters(function: Callable[..., Any]) -> dict[str, tuple[Any, bool]]:
    """Kind of each parameter and whether it may be left out."""
    found = inspect.signature(function).parameters.values()
    return {one.name: (one.kind, one.default is not inspect.Parameter.empty) for one in found if one.name != "self"}


@pytest.mark.parametrize(("fake", "real", "name"), PAIRS, ids=lambda one: getattr(one, "__qualname__", one))
def test_fakes_take_what_the_real_one_takes(fake: type, real: type, name: str) -> None:
    """Names, order and defaults of parameters, and whether it has to be awaited, are those of the real thing."""
    ours, theirs = getattr(fake, name), getattr(real, name)

    assert inspect.iscoroutinefunction(theirs) == inspect.iscoroutinefunction(ours)
    assert parameters(theirs) == parameters(ours)


@pytest.mark.parametrize(("fake", "real"), FAKES, ids=lambda one: one.__module__ + "." + one.__qualname__)
def test_fakes_stand_for_something(fake: type, real: type) -> None:
    """No fake has lost every method of what it stood for."""
    assert any(one is fake and other is real for one, other, _ in PAIRS)
