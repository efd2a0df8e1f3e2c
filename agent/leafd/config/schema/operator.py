"""Operator mode: who vouches for accounts, and where their JWTs are found. The JWTs themselves are auth/'s business."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

from leafd.config.schema.base import SECOND, Duration, Flag, Number, Text
from leafd.config.schema.section import Reader, Section, Takes, option, shown

_URL: Final = re.compile(r'URL\(\s*"?([^\s"]+?)"?\s*\)', re.IGNORECASE)
"""With quotes around the address or without, as in the reference."""
_TYPES: Final = {"memory": "memory", "mem": "memory", "url": "url", "full": "full", "cache": "cache"}
LIMIT_DEFAULT: Final = 10_000
"""The size of a cache, as in the reference."""


def resolver(value: object) -> object:
    """MEMORY, URL(address) or a map, for the key resolver: a map."""
    if isinstance(value, str):
        if value.lower() in ("memory", "mem"):
            return {"type": "memory"}
        found = _URL.fullmatch(value.strip())
        if found:
            return {"type": "url", "url": found[1]}
        raise ValueError(f"{shown(value)[:80]} is no resolver: write MEMORY, URL(http://...), or a block")
    return value


def _type(value: object) -> object:
    if isinstance(value, str) and value.lower() in _TYPES:
        return _TYPES[value.lower()]
    raise ValueError(f"unknown type of resolver {shown(value)}: full or cache")


class Resolver(Section):
    """The source of accounts' JWTs."""

    type: Annotated[Literal["memory", "url", "full", "cache"], Reader(_type)] = option(
        "memory",
        "full: all JWTs are in the directory, as nsc push puts them there. cache: those that were asked for lately.",
        example="full",
        takes=Takes.LIVE,
    )
    dir: Text = option("", "The directory of the JWTs, one file an account.", takes=Takes.LIVE)
    allow_delete: Flag = option(
        False, "May an operator delete accounts (nsc push --prune)? Their files are kept, renamed.", takes=Takes.LIVE
    )
    hard_delete: Flag = option(False, "Are the files of deleted accounts removed?", takes=Takes.LIVE)
    interval: Duration = option(
        60 * SECOND, "Of full: how often are other servers asked for JWTs that are missing here?", takes=Takes.LIVE
    )
    timeout: Duration = option(
        1900 * SECOND // 1000, "How long may another server take to answer such a question?", takes=Takes.LIVE, gt=0
    )
    limit: Number = option(0, "How many JWTs may be kept? 0: any number; of a cache, 10,000.", takes=Takes.LIVE, ge=0)
    ttl: Duration = option(0, "Of a cache: how long is a JWT kept that nobody asks for?", takes=Takes.LIVE, ge=0)
    url: Text = option("", "The address that the account's key is appended to: URL(...) in short.", takes=Takes.LIVE)

    def check(self) -> None:
        if self.type in ("full", "cache") and not self.dir:
            raise ValueError(f"dir has no value, which a resolver of type {self.type} needs")
        if self.type == "cache" and self.allow_delete:
            raise ValueError("allow_delete is of no use in a cache: remove it")
        if self.type == "url" and not self.url.startswith(("http://", "https://")):
            raise ValueError(f"url {shown(self.url)} is no address of HTTP")


Resolvers = Annotated[Resolver | None, Reader(resolver)]
