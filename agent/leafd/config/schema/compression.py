"""The value of compression of leaf links and routes: true, false, a mode by any of its names, or a block with a mode
and the round trips at which s2_auto changes its level. What it means is links/compression.py."""

from __future__ import annotations

from typing import Annotated, Any, Final

from leafd.config.schema.base import parse_duration
from leafd.config.schema.section import Reader

AUTO: Final = "s2_auto"
FAST: Final = "s2_fast"
_ON: Final = ("", "on", "enabled", "true")
_MODES: Final = {
    "not supported": "not supported",
    "not_supported": "not supported",
    "disabled": "off",
    "off": "off",
    "false": "off",
    "accept": "accept",
    "auto": AUTO,
    "s2_auto": AUTO,
    "fast": FAST,
    "s2_fast": FAST,
    "better": "s2_better",
    "s2_better": "s2_better",
    "best": "s2_best",
    "s2_best": "s2_best",
}
_BOUNDS: Final = ("rtt_thresholds", "thresholds", "rtts", "rtt")
_DEFAULT_BOUNDS: Final = (10_000_000, 50_000_000, 100_000_000)
BOUNDS_MAX: Final = 4


def _mode(value: object, on: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"mode: a string is expected, not {value!r}")
    found = on if value.lower() in _ON else _MODES.get(value.lower())
    if found is None:
        raise ValueError(
            f"unsupported compression mode {value!r}: one of accept, off, s2_auto, s2_fast, s2_better, s2_best"
        )
    return found


def _bounds(value: object) -> tuple[int, ...]:
    """Reads rtt_thresholds: nanoseconds for each level; 0 leaves that level out."""
    if not isinstance(value, list | tuple):
        raise ValueError(f"rtt_thresholds: a list of durations is expected, not {value!r}")
    found: list[int] = []
    for one in value:
        if not isinstance(one, str):
            raise ValueError(f'rtt_thresholds: a duration is expected, for example "10ms", not {one!r}')
        bound = max(parse_duration(one), 0)
        if bound != 0 and found and bound < max(found):
            raise ValueError("rtt_thresholds: they must be in ascending order")
        found.append(bound)
    while found and found[-1] == 0:
        found.pop()
    if len(found) > BOUNDS_MAX:
        raise ValueError(f"rtt_thresholds: at most {BOUNDS_MAX} are expected")
    if value and not found:
        raise ValueError("rtt_thresholds: one at least must not be 0")
    return tuple(found)


def _compression(value: object, on: str = AUTO) -> tuple[str, tuple[int, ...]]:
    bounds: Any = ()
    if isinstance(value, bool):
        mode = on if value else "off"
    elif isinstance(value, str):
        mode = _mode(value, on)
    elif isinstance(value, dict):
        mode = on
        for key, one in value.items():
            if key.lower() == "mode":
                mode = _mode(one, on)
            elif key.lower() in _BOUNDS:
                bounds = one
            else:
                raise ValueError(f"unknown field {key!r}")
    elif isinstance(value, tuple):
        return value  # it was read before
    else:
        raise ValueError(f"true, false, a mode or a map in braces is expected, not {value!r}")
    return (mode, _bounds(bounds) or _DEFAULT_BOUNDS) if mode == AUTO else (mode, ())


def _route_compression(value: object) -> tuple[str, tuple[int, ...]]:
    return _compression(value, FAST)


Compression = Annotated[tuple[str, tuple[int, ...]], Reader(_compression)]
"""A mode in nats-server's words, and the bounds of s2_auto in nanoseconds. Of leaf links: on is s2_auto."""
RouteCompression = Annotated[tuple[str, tuple[int, ...]], Reader(_route_compression)]
"""The same of routes: on is s2_fast."""
DEFAULT: Final = (AUTO, _DEFAULT_BOUNDS)
