"""Copies of streams, as rows for people and programs: the mirrors and sources of a server, and copies elsewhere of its
streams.

Pure functions of the JSON of /jsz, and of a part of it.
Not here: the other rows, and what needs attention (status.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from leafd.records import dataclass

Page = Mapping[str, Any]
HELD: Final = {
    "normal": "bulk waits",
    "high": "all waits but what is urgent or has priority",
    "none": "all waits",
}
TOLD_S: Final = 86_400.0
"""So long it is told that an origin was put back."""
SILENT_S: Final = 60.0
"""A mirror or source that is behind and has heard nothing of its origin for so long has lost it."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A mirror or a source of a stream: how far it is behind its origin."""

    stream: str
    account: str
    kind: str
    origin: str
    behind: int | None
    """Messages; None: nobody knows now."""
    heard_s: float | None
    """Seconds since the origin was heard of; None: never."""
    error: str = ""
    bytes_behind: int | None = None
    told: int = 0
    """The last word of how far it is behind, .."""
    told_s: float | None = None
    """.. and how long ago."""
    level_s: float | None = None
    """Since nothing was missing; None: at no time that is known."""
    oldest_s: float | None = None
    """How old the oldest missing message can be; 0: nothing is missing, None: not known."""
    ready_s: float | None = None
    """In which time nothing will be missing, at the pace of late; None: not known, or never."""
    pace: float | None = None
    """Messages a second that it comes nearer."""
    held: str = ""
    """The bulk that waits at its origin for the budget of the link, if any does."""
    put_back_s: float | None = None
    """Since it was noticed that the origin was put back from an old copy; None: that never was, since the start."""

    @property
    def put_back(self) -> str:
        """The words for people about that, for a day. Empty: nothing."""
        if self.put_back_s is None or self.put_back_s > TOLD_S:
            return ""
        return (
            f"{self.kind} {self.origin} of stream {self.stream}: its origin was put back to an older copy of its "
            f"store, as was noticed {self.put_back_s / 60:,.0f} min ago; what is newer is taken, and nothing twice. "
            "If that was not meant, look whether two machines run the same store"
        )

    @property
    def lost(self) -> bool:
        """Whether it does not get what its origin has."""
        return bool(self.error) or self.heard_s is None or self.heard_s > SILENT_S


@dataclass(frozen=True, slots=True)
class Copier:
    """A mirror or source elsewhere that copies a stream of this server."""

    stream: str
    account: str
    kind: str
    copy: str
    """The name of the copying stream, with its domain; empty: it does not say."""
    behind: int | None
    """Messages that it has not stored, as far as it said; None: nobody can know."""
    bytes_behind: int | None
    asks: bool
    """Its consumer is there now."""
    seen_s: float
    """Seconds since its consumer was last there."""
    oldest_s: float | None = None
    """Age of the first message that it has not stored; None: not known."""
    ready_s: float | None = None
    """Seconds until none is missing, at the pace of late; None: not known."""
    pace: float | None = None
    held: str = ""
    """The bulk that waits here for the budget of the link to it, if any does."""


def each_stream(jsz: Page) -> Iterator[tuple[str, Page]]:
    for account in jsz.get("account_details", ()):
        for one in account.get("stream_detail") or ():
            yield account.get("name", ""), one


def copies(jsz: Page) -> Iterator[Copy]:
    """All mirrors and sources."""
    for account, stream in each_stream(jsz):
        sources = [("mirror", stream["mirror"])] if stream.get("mirror") else []
        sources += [("source", one) for one in stream.get("sources") or ()]
        for kind, one in sources:
            active, far = one.get("active", -1), one.get("leafd") or {}
            yield Copy(
                stream=stream["name"],
                account=account,
                kind=kind,
                origin=_origin(one),
                behind=far["behind"] if far else one.get("lag", 0) if active >= 0 else None,
                heard_s=active / 1e9 if active >= 0 else None,
                error=(one.get("error") or {}).get("description", ""),
                bytes_behind=far.get("behind_bytes"),
                told=one.get("lag", 0),
                told_s=seconds(far.get("told")),
                level_s=seconds(far.get("level")),
                oldest_s=seconds(far.get("oldest")),
                ready_s=seconds(far.get("level_in")),
                pace=far.get("pace"),
                held=HELD.get(far.get("held") or "", ""),
                put_back_s=seconds(far.get("put_back")),
            )


def copiers(jsz: Page) -> Iterator[Copier]:
    """All copies elsewhere that are known here."""
    for account, stream in each_stream(jsz):
        for one in (stream.get("leafd") or {}).get("copiers", ()):
            domain = f" ({one['domain']})" if one["domain"] else ""
            yield Copier(
                stream=stream["name"],
                account=account,
                kind=one["kind"],
                copy=one["copy"] + domain if one["copy"] else "",
                behind=one["behind"],
                bytes_behind=one["behind_bytes"],
                asks=one["asks"],
                seen_s=one["seen"] / 1e9,
                oldest_s=seconds(one.get("oldest")),
                ready_s=seconds(one.get("level_in")),
                pace=one.get("pace"),
                held=HELD.get(one.get("held") or "", ""),
            )


def seconds(ns: int | None) -> float | None:
    return None if ns is None else ns / 1e9


def _origin(source: Page) -> str:
    prefix = (source.get("external") or {}).get("api", "")
    return f"{source['name']} ({prefix})" if prefix else str(source["name"])
