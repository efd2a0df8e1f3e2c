"""The types of single values: texts, numbers, switches, sizes, durations, addresses. Not here: any key,
and what a block is (section.py)."""

from __future__ import annotations

import re
from typing import Annotated, Final

from leafd.config.credentials import credential_file
from leafd.config.schema.section import Reader, shown

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
        raise ValueError(f'{shown(value)} is no duration: write it like "500ms", "10s", "2m" or "1h30m"')
    return sign * round(total)


def duration_text(ns: int) -> str:
    """A duration as people write it."""
    if ns < 0:
        return "-" + duration_text(-ns)
    for unit, size in (("h", 3600 * SECOND), ("m", 60 * SECOND), ("s", SECOND), ("ms", SECOND // 1000)):
        if ns and ns % size == 0:
            return f"{ns // size}{unit}"
    return f"{ns}ns" if ns else "0s"


def parse_storage_size(value: object) -> int:
    """Bytes: a number (the lexer knows 64K, 1GB), or a string with K, M, G or T, which are powers of 1024 there."""
    if isinstance(value, bool):
        raise ValueError("a size is expected, for example 10GB")
    if isinstance(value, int):
        return value
    if isinstance(value, str) and value[-1:] in _BINARY and value[:-1].isdigit():
        return int(value[:-1]) << _BINARY[value[-1]]
    raise ValueError(
        f'{shown(value)} is no size: write a number like 10GB, or a string that ends in K, M, G or T like "10G"'
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
    raise ValueError(f"{shown(value)} is neither a port nor host:port")


def _strings(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _tags(value: object) -> object:
    """As nats-server keeps them, since people and tools ask by these names: lower case, each once."""
    found = _strings(value)
    if not isinstance(found, tuple | list):
        return found
    each = [one.strip().lower() if isinstance(one, str) else one for one in found]
    return tuple(one for number, one in enumerate(each) if one != "" and one not in each[:number])


def _strict_int(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"a whole number is expected, not {shown(value)}")
    return value


def _strict_str(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError(f"a string is expected, not {shown(value)}: put quotes around it")
    return value


def _strict_bool(value: object) -> object:
    if not isinstance(value, bool):
        raise ValueError(f"true or false is expected, not {shown(value)}")
    return value


def _secret(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError("a string is expected: put quotes around it")
    return value


def zero_means_default(default: int) -> Reader:
    """For keys in which 0 stands for the default."""
    return Reader(lambda value: default if value == 0 and not isinstance(value, bool) else value)


DURATION: Final = Reader(parse_duration, said=duration_text)
Duration = Annotated[int, DURATION]
StorageSize = Annotated[int, Reader(parse_storage_size)]
Listen = Annotated[tuple[str, int], Reader(_listen)]
Number = Annotated[int, Reader(_strict_int)]
Text = Annotated[str, Reader(_strict_str)]
Secret = Annotated[str, Reader(_secret, secret=True)]
"""A text that no complaint repeats."""
File = Annotated[str, Reader(credential_file), Reader(_strict_str)]
"""The name of a file, or of a credential of systemd."""
Flag = Annotated[bool, Reader(_strict_bool)]
Strings = Annotated[tuple[Text, ...], Reader(_strings)]
Tags = Annotated[tuple[Text, ...], Reader(_tags)]
