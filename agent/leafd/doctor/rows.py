"""Streams as the two sides report them, with the mirrors and sources of each: rows of /jsz and of STREAM.LIST.

Pure. Not here: what is wrong with them (copies.py, streams.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from leafd.records import dataclass

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Pull:
    """One mirror or source of a stream."""

    stream: Stream
    kind: str
    origin: str
    """The name of the stream that it takes from ..."""
    api: str
    """... behind this prefix, "" for the own account's."""
    deliver: str
    lag: int | None
    """Messages that it is behind; None: that is not known."""
    heard_s: float | None
    """Seconds since the origin was heard of; None: never."""
    error: str

    @property
    def about(self) -> str:
        """The request's name for people."""
        return f"{self.kind} of {self.origin} in {self.stream.about}"

    @property
    def domain(self) -> str:
        """Whose JetStream the prefix means, "" when it is of another shape."""
        tokens = self.api.split(".")
        return tokens[1] if len(tokens) == 3 and tokens[0] == "$JS" and tokens[2] == "API" else ""


@dataclass(frozen=True, slots=True)
class Stream:
    """One stream."""

    name: str
    account: str
    created: str
    config: Row
    state: Row
    copies: tuple[tuple[str, Row], ...]
    """Kind and report of each mirror and source."""
    hub: bool = False
    """The stream is one of the hub's."""

    @property
    def about(self) -> str:
        """The stream's name for people."""
        return f"{self.name} at the hub" if self.hub else self.name

    @property
    def subjects(self) -> tuple[str, ...]:
        """The subjects that the stream captures."""
        found = self.config.get("subjects")
        return tuple(one for one in found if isinstance(one, str)) if isinstance(found, list) else ()

    def count(self, name: str) -> int:
        """A number of its state, 0 where there is none."""
        found = self.state.get(name)
        return found if isinstance(found, int) else 0

    def limit(self, name: str) -> int:
        """A limit of its configuration, 0 where there is none."""
        found = self.config.get(name)
        return found if isinstance(found, int) and found > 0 else 0

    def pulls(self) -> Iterator[Pull]:
        """The stream's mirror and its sources."""
        configured = self.config.get("sources")
        settings = [self.config.get("mirror")] if self.config.get("mirror") else configured or []
        for at, (kind, row) in enumerate(self.copies):
            external = _external(row) or (_external(settings[at]) if at < len(settings) else {})
            active, error, lag = row.get("active"), row.get("error"), row.get("lag")
            yield Pull(
                stream=self,
                kind=kind,
                origin=str(row.get("name", "")),
                api=str(external.get("api") or ""),
                deliver=str(external.get("deliver") or ""),
                lag=_lag(row, lag),
                heard_s=active / 1e9 if isinstance(active, int) and active >= 0 else None,
                error=str(error.get("description", "")) if isinstance(error, dict) else "",
            )


def _lag(row: Row, lag: object) -> int | None:
    """A leafd says whether it knows; of another server the number counts if it has heard of the origin."""
    own, active = row.get("leafd"), row.get("active")
    known = own.get("behind") if isinstance(own, dict) else lag if isinstance(active, int) and active >= 0 else None
    return known if isinstance(known, int) else None


def _external(row: object) -> Row:
    found = row.get("external") if isinstance(row, dict) else None
    return found if isinstance(found, dict) else {}


def stream_of(row: Row, account: str, *, hub: bool = False) -> Stream:
    """From a row of STREAM.LIST, an answer to STREAM.INFO, or a row of /jsz."""
    config, state = row.get("config"), row.get("state")
    config = config if isinstance(config, dict) else {}
    copies = [("mirror", row["mirror"])] if isinstance(row.get("mirror"), dict) else []
    copies += [("source", one) for one in row.get("sources") or () if isinstance(one, dict)]
    return Stream(
        name=str(row.get("name") or config.get("name") or ""),
        account=account,
        created=str(row.get("created", "")),
        config=config,
        state=state if isinstance(state, dict) else {},
        copies=tuple(copies),
        hub=hub,
    )


def streams_here(jsz: Row) -> list[Stream]:
    """All streams of all accounts of the daemon."""
    found = []
    for account in jsz.get("account_details") or ():
        found += [stream_of(one, str(account.get("name", ""))) for one in account.get("stream_detail") or ()]
    return found


def seconds(stamp: object) -> float | None:
    """A server's time as Unix seconds; None: it is none, or the one that stands for "never"."""
    text = str(stamp)[:19] + "+00:00"
    if len(str(stamp)) < 20 or not str(stamp).endswith("Z"):
        return None
    try:
        found = datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None
    fraction = str(stamp)[19:-1]
    return found + (float(fraction) if fraction[:1] == "." and fraction[1:].isdigit() else 0.0) if found > 0 else None
