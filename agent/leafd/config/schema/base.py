"""What every block of the configuration is made of: the frozen model, the field helper, sizes and durations.

A field says all there is to know about its key: default, bounds, help, other spellings that nats-server takes
(aliases), and whether
a reload takes it up (live) or only a restart. Reading (bind.py), -t, reload (reload.py) and configs/reference.conf
derive from that.
What does not live here: any key.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

SECOND: Final = 1_000_000_000
_UNITS_NS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}
_DURATION_PART: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_BINARY: Final = {"K": 10, "M": 20, "G": 30, "T": 40}


class Takes(StrEnum):
    """When a changed value takes effect."""

    LIVE = "live"
    RESTART = "restart"


class Support(StrEnum):
    """What this build does with a key that nats-server knows."""

    FULL = "full"
    IGNORED = "ignored"  # accepted, one line in the log
    REFUSED = "refused"  # ignoring it would weaken security or lose messages


class Section(BaseModel):
    """A block: unknown keys are errors, nothing changes after reading."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


def option(
    default: Any = ...,
    help: str = "",
    *,
    aliases: tuple[str, ...] = (),
    takes: Takes = Takes.RESTART,
    support: Support = Support.FULL,
    why: str = "",
    example: str = "",
    **bounds: Any,
) -> Any:
    """One key. why: for ignored and refused keys, what the operator is told."""
    extra: dict[str, Any] = {
        "aliases": list(aliases),
        "takes": takes.value,
        "support": support.value,
        "why": why,
        "example": example,
    }
    if isinstance(default, type) or callable(default):
        return Field(default_factory=default, description=help, json_schema_extra=extra, **bounds)
    return Field(default, description=help, json_schema_extra=extra, **bounds)


def later(why: str, *, refuse: bool, aliases: tuple[str, ...] = ()) -> Any:
    """A key that nats-server knows and this build does not act upon."""
    support = Support.REFUSED if refuse else Support.IGNORED
    return option(None, "", aliases=aliases, support=support, why=why)


def parse_duration(value: object) -> int:
    """Nanoseconds from Go's notation ("1h30m", "250ms"); a bare number is seconds, as in old configurations."""
    if isinstance(value, bool):
        raise ValueError('a duration is expected, for example "10s"')
    if isinstance(value, int | float):
        return round(value * SECOND)
    if not isinstance(value, str):
        raise ValueError('a duration is expected, for example "10s"')
    text = value.strip()
    sign = -1 if text.startswith("-") else 1
    text = text.lstrip("+-")
    if text == "0":
        return 0
    total, position = 0.0, 0
    for part in _DURATION_PART.finditer(text):
        if part.start() != position:
            break
        total += float(part.group(1)) * _UNITS_NS[part.group(2)]
        position = part.end()
    if position != len(text) or not text:
        raise ValueError(f'{value!r} is no duration: write it like "500ms", "10s", "2m" or "1h30m"')
    return sign * round(total)


def parse_storage_size(value: object) -> int:
    """Bytes: a number (the lexer knows 64K, 1GB), or a string with K, M, G or T, which are powers of 1024 there."""
    if isinstance(value, bool):
        raise ValueError("a size is expected, for example 10GB")
    if isinstance(value, int):
        return value
    if isinstance(value, str) and value[-1:] in _BINARY and value[:-1].isdigit():
        return int(value[:-1]) << _BINARY[value[-1]]
    raise ValueError(
        f'{value!r} is no size: write a number like 10GB, or a string that ends in K, M, G or T like "10G"'
    )


def _listen(value: object) -> tuple[str, int]:
    host, port = _host_and_port(value)
    if not -1 <= port <= 65535:
        raise ValueError(f"port {port} is out of range: 1 to 65535, or -1 for any free port")
    return host, port


def _host_and_port(value: object) -> tuple[str, int]:
    if isinstance(value, int) and not isinstance(value, bool):
        return "", value
    if isinstance(value, str):
        host, colon, port = value.rpartition(":")
        if colon and re.fullmatch(r"-?\d+", port):
            return host.strip("[]"), int(port)
    if isinstance(value, tuple):
        return str(value[0]), int(value[1])
    raise ValueError(f"{value!r} is neither a port nor host:port")


def _strings(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _strict_int(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"a whole number is expected, not {value!r}")
    return value


def _strict_str(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError(f"a string is expected, not {value!r}: put quotes around it")
    return value


def _strict_bool(value: object) -> object:
    if not isinstance(value, bool):
        raise ValueError(f"true or false is expected, not {value!r}")
    return value


def zero_means_default(default: int) -> BeforeValidator:
    """For keys in which 0 stands for the default."""
    return BeforeValidator(lambda value: default if value == 0 and not isinstance(value, bool) else value)


Duration = Annotated[int, BeforeValidator(parse_duration)]
StorageSize = Annotated[int, BeforeValidator(parse_storage_size)]
Listen = Annotated[tuple[str, int], BeforeValidator(_listen)]
Number = Annotated[int, BeforeValidator(_strict_int)]
Text = Annotated[str, BeforeValidator(_strict_str)]
Flag = Annotated[bool, BeforeValidator(_strict_bool)]
Strings = Annotated[tuple[Text, ...], BeforeValidator(_strings)]
