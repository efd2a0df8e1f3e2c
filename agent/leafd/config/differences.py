"""Two configurations compared field by field: what a reload of the one to the other takes up at once, what waits for a
restart, and what makes it refuse the whole.

Pure. What does not live here: who takes what up in which order (daemon/takeover.py).
"""

from __future__ import annotations

from typing import Any, TypeVar

from leafd.config.schema.leafnodes import LeafNodes
from leafd.config.schema.section import Path, Section, Support, Takes, hints, repeated
from leafd.config.schema.server import ServerConfig
from leafd.records import dataclass

_Block = TypeVar("_Block", bound=Section)


@dataclass(frozen=True, slots=True)
class Difference:
    """A field that is not the same in both, by the keys and indexes that lead to it, and its two values as they may be
    shown."""

    path: Path
    takes: Takes
    before: str
    after: str


def differences(old: ServerConfig, new: ServerConfig) -> tuple[ServerConfig, list[Difference]]:
    """The old configuration with what of the new one takes effect at once, and all fields that differ."""
    found: list[Difference] = []
    return _compared(old, new, (), found), found


def spelt(path: Path) -> str:
    """A field as people write it."""
    return ".".join(str(part) for part in path)


def _compared(old: _Block, new: _Block, path: Path, found: list[Difference]) -> _Block:
    changes: dict[str, Any] = {}
    for name, one in old.options.items():
        before, after, here = getattr(old, name), getattr(new, name), (*path, name)
        if before == after:
            continue
        if name == "leafnodes":  # none is one without a listener: remotes may come and go
            before, after = before or LeafNodes(), after or LeafNodes()
        known = hints(type(old))[name]
        told = (_told(before, known), _told(after, known))
        if one.support != Support.FULL:  # it has no effect
            changes[name] = after
        elif one.takes == Takes.LIVE:
            found.append(Difference(here, Takes.LIVE, *told))
            changes[name] = after
        elif isinstance(before, Section) and type(before) is type(after):
            changes[name] = _compared(before, after, here, found)
        else:
            found.append(Difference(here, one.takes, *told))
    return old.replaced(**changes)


def _told(value: object, annotation: object) -> str:
    """Short, and no secret: of a block or a list only that it is there."""
    if value is None or value in ("", (), {}):
        return "-"
    return "(...)" if isinstance(value, dict | tuple | Section) else repeated(value, annotation)
