"""Stand-ins for a room's objects, held to what they stand for.

    meta = stand_in(MetaGroup, FakeMeta())      typed as the room; fails where FakeMeta has what a MetaGroup has not

A plane that stands in for the real one is an Unwilling (planes.py), which mypy holds to it.
"""

from __future__ import annotations

import inspect
from typing import Any, TypeVar, cast

import trio

_Real = TypeVar("_Real")


def stand_in(real: type[_Real], fake: object) -> _Real:
    """The fake, as one of the real class. Each of its public members has to be one of that class, each of its methods
    to take the same arguments."""
    members = {name for name in (*vars(type(fake)), *vars(fake)) if not name.startswith("_")}
    begun = inspect.getsource(real.__init__)
    for name in members:
        found: Any = getattr(real, name, None)
        own = getattr(type(fake), name, None)
        assert found is not None or f"self.{name}" in begun, f"a {real.__name__} has no {name}"
        if inspect.isfunction(found) and inspect.isfunction(own):
            assert _taken(found) == _taken(own), f"{real.__name__}.{name} takes other arguments"
    return cast(_Real, fake)


def _taken(function: Any) -> list[tuple[str, Any]]:
    return [(one.name, one.kind) for one in inspect.signature(function).parameters.values()]


async def at_once(*_: object) -> None:
    """A wait that has its end."""
    await trio.lowlevel.checkpoint()
