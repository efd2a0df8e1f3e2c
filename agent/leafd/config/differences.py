"""Two configurations compared field by field: what a reload of the one to the other takes up at once, what waits for a
restart, and what makes it refuse the whole.

A daemon tells what it runs with as settings(), which hold no secret and of a block that a reload takes up as a whole
only that it is there; changed_settings() compares with these.

Pure. Not here: who takes what up in which order (daemon/takeover.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from leafd.config.bind import inner_models
from leafd.config.schema.leafnodes import LeafNodes
from leafd.config.schema.section import Path, Section, Support, Takes, hints, repeated, shown
from leafd.config.schema.server import ServerConfig
from leafd.records import dataclass

_TEXT_MAX: Final = 200
"""Longer texts are JWTs, or of no use in a table."""
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


def settings(config: Section, before: str = "") -> dict[str, str]:
    """The settings that differ from the default, by the key as people write it."""
    found: dict[str, str] = {}
    known = hints(type(config))
    for name, one in config.options.items():
        value, key = getattr(config, name), f"{before}{name}"
        if one.support != Support.FULL or value == one.default:
            continue
        inside = isinstance(value, Section) and one.takes != Takes.LIVE
        if not inside or name != "leafnodes":  # none is one without a listener
            found[key] = _told(value, known[name])
        if inside:
            found |= settings(value, f"{key}.")
    return found


def changed_settings(running: Mapping[str, str], new: ServerConfig) -> list[Difference]:
    """The differences between a daemon with these settings and the configuration, as far as the settings tell."""
    there = settings(new)
    return [
        Difference(tuple(key.split(".")), _takes(key), running.get(key, "-"), there.get(key, "-"))
        for key in dict.fromkeys((*there, *running))
        if running.get(key) != there.get(key)
    ]


def _takes(key: str) -> Takes:
    """The moment at which a change of that key takes effect; for an unknown key a restart."""
    model: type[Section] = ServerConfig
    for step in key.split("."):
        one = model.options.get(step)
        if one is None or one.takes != Takes.RESTART:
            return one.takes if one is not None else Takes.RESTART
        model = inner_models(hints(model)[step])[0] or model
    return Takes.RESTART


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
            changes[name] = _inside(before, after, here, found)
        elif _are_alike(before, after):
            blocks = zip(before, after, strict=True)
            changes[name] = tuple(_inside(*pair, (*here, number), found) for number, pair in enumerate(blocks))
        else:
            found.append(Difference(here, one.takes, *told))
    return old.replaced(**changes)


def _inside(before: Section, after: Section, here: Path, found: list[Difference]) -> Section:
    """The same of a block within. Where all of it takes effect at once it is the new one, with what it has read from
    files."""
    known = len(found)
    both = _compared(before, after, here, found)
    return after if all(one.takes == Takes.LIVE for one in found[known:]) else both


def _are_alike(before: object, after: object) -> bool:
    """Whether they are lists of as many blocks of the same kind."""
    return (
        isinstance(before, tuple)
        and isinstance(after, tuple)
        and len(before) == len(after)
        and all(isinstance(one, Section) and type(one) is type(other) for one, other in zip(before, after, strict=True))
    )


def _told(value: object, annotation: object) -> str:
    """Short, and no secret: of a block or a list of blocks only that it is there."""
    if value is None or value in ("", (), {}):
        return "-"
    if isinstance(value, tuple) and all(isinstance(one, str | int) for one in value):
        text = shown(":".join(map(str, value)))
        return text if len(text) <= _TEXT_MAX else "(...)"
    text = "" if isinstance(value, dict | tuple | Section) else repeated(value, annotation)
    return text if 0 < len(text) <= _TEXT_MAX else "(...)"
