"""Streams of which there is nothing to tell but their counters and consumers: neither copies nor copied. And the
consumers of any stream, with their counters.

A hub has thousands of those, and its monitoring is asked every few seconds. What the API tells of one stream costs a
hundred times what a row of these does. Not here: the reports (monitor/), streams with more to tell
(service.py: look()).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from leafd.gojson import written
from leafd.jetstream.catalogue import Catalogue, Consumer, Stream
from leafd.jetstream.copiers import Copiers
from leafd.jetstream.models.consumer import ConsumerConfig
from leafd.jetstream.models.stream import StreamConfig
from leafd.jetstream.rules.versioning import LEVEL_KEY, VERSION_KEY
from leafd.native_commands import Commands
from leafd.native_packing import state_row
from leafd.native_stats import StateRow
from leafd.turns import Pause

TOGETHER: Final = 512
"""So many are asked for at once."""
LISTED_MIN: Final = 32
"""Accounts with fewer streams have nothing kept for the next report: there may be thousands of accounts."""


class PlainConsumer(NamedTuple):
    """A consumer."""

    consumer: Consumer
    state: bytes
    """consumer_state_t"""


class PlainStream(NamedTuple):
    """One of those streams."""

    stream: Stream
    state: bytes
    """stream_state_t"""
    consumers: Sequence[PlainConsumer] = ()
    """Consumers that clients may see, where they were asked for."""


class Run:
    """Streams of an account that follow one another by name, at most TOGETHER: plain ones, or one that is not."""

    __slots__ = ("plain", "streams", "told")

    def __init__(self, streams: list[Stream], *, plain: bool) -> None:
        self.streams = streams
        self.plain = plain
        self.told = dict[str, object]()
        """Texts that reports have made of all but the counters, by kind; gone when a stream changes, as the run is."""


class _Listed(NamedTuple):
    """An account's streams when they were last listed. What a row depends on but for counters, and the runs."""

    streams: list[Stream]
    configs: list[StreamConfig]
    consumers: list[int]
    taken: list[int]
    runs: list[Run]

    def still_so(self, now: _Listed) -> bool:
        """Whether nothing has changed. Objects that stayed the same are compared by identity, in nanoseconds."""
        return self[:-1] == now[:-1]


class PlainStreams:
    """The plain streams of all accounts."""

    def __init__(self, plane: Commands, catalogue: Catalogue, copiers: Copiers) -> None:
        self._plane = plane
        self._catalogue = catalogue
        self._copiers = copiers
        self._listed = dict[str, _Listed]()

    def listed(self, account: str) -> list[Run]:
        """All streams of an account in the order of their names. The runs are the same objects as before while nothing
        changes."""
        known = self._catalogue.by_name.get(account)
        if known is None:
            return []
        streams, taken = known.sorted_streams(), self._copiers.streams
        now = _Listed(
            streams,
            [one.config for one in streams],
            [len(one.names) for one in streams],
            [one.id for one in streams if one.id in taken] if taken else [],
            [],
        )
        before = self._listed.get(account)
        if before is not None and before.still_so(now):
            return before.runs
        now.runs.extend(self._runs(streams))
        self._listed.pop(account, None)
        if len(streams) >= LISTED_MIN:
            there = self._catalogue.by_name
            self._listed = {name: one for name, one in self._listed.items() if name in there} | {account: now}
        return now.runs

    def _runs(self, streams: list[Stream]) -> Iterator[Run]:
        plain = set(self._plain(streams))
        for are_plain, some in groupby(streams, plain.__contains__):
            found = list(some)
            size = TOGETHER if are_plain else 1
            for begin in range(0, len(found), size):
                yield Run(found[begin : begin + size], plain=are_plain)

    async def states(self, run: Run) -> list[bytes | None]:
        """The counters of each stream of a run, as stream_state_t. None: it is gone, or not known yet; the caller looks
        at it by itself."""
        return await self._plane.streams_states([one.id for one in run.streams])

    async def of(self, account: str, *, consumers: bool = False) -> list[PlainStream]:
        """An account's, in the order of their names, with consumers if those are asked for. One that changes meanwhile,
        or whose state is not known yet, is left out: the caller looks at it by itself."""
        known, pause = self._catalogue.by_name.get(account), Pause()
        streams = self._plain(known.sorted_streams()) if known is not None else []
        found: list[PlainStream] = []
        for begin in range(0, len(streams), TOGETHER):
            some = streams[begin : begin + TOGETHER]
            states = await self._plane.streams_states([one.id for one in some])
            taken = await self.consumers(some) if consumers else {}
            plain = set(self._plain(some))
            found += [
                PlainStream(one, state, taken.get(one.id, ()) if taken else ())
                for one, state in zip(some, states, strict=True)
                if state is not None and one in plain
            ]
            await pause()
        return found

    async def named(self, names: Sequence[str]) -> list[tuple[str, StateRow]]:
        """The counters of all accounts' streams with these names, but for those whose first message is still looked
        for."""
        found, pause = list[Stream](), Pause()
        for account in list(self._catalogue.by_name.values()):
            found += [one for name in names if (one := account.streams.get(name)) is not None]
            await pause()
        told = zip(found, await self._plane.streams_states([one.id for one in found]), strict=True)
        return [(one.name, state_row(state)) for one, state in told if state is not None]

    async def consumers(self, streams: Iterable[Stream], *, hidden: bool = False) -> dict[int, list[PlainConsumer]]:
        """Their consumers by the id of the stream: those that clients may see, in the order of their names, or the
        hidden ones. One that is gone meanwhile is left out."""
        found: dict[int, list[PlainConsumer]] = {}
        some, pause = list[tuple[Stream, Consumer]](), Pause()
        for stream in streams:
            if not stream.consumers:
                continue
            for one in list(stream.consumers.values()) if hidden else stream.listed():
                if one.hidden is hidden:
                    some.append((stream, one))
                if len(some) == TOGETHER:
                    await self._ask(some, found)
                    some = []
                    await pause()
        await self._ask(some, found)
        return found

    async def _ask(self, some: list[tuple[Stream, Consumer]], found: dict[int, list[PlainConsumer]]) -> None:
        states = await self._plane.consumers_states([(stream.id, one.id) for stream, one in some])
        for (stream, one), state in zip(some, states, strict=True):
            if state is not None:
                found.setdefault(stream.id, []).append(PlainConsumer(one, state))

    def _plain(self, streams: list[Stream]) -> list[Stream]:
        taken = self._copiers.streams
        return [
            one
            for one in streams
            if one.config.mirror is None and not one.config.sources and one.group is None and one.id not in taken
        ]

    def remembered(self, one: Stream | Consumer, make: Callable[[dict[str, Any]], tuple[object, bool]]) -> object:
        """The result of make() for its configuration, kept until there is another one where make() says so."""
        found = one.shape
        if found is None:
            found, kept = make(stored(one.config))
            one.shape = found if kept else None
        return found


def stored(config: StreamConfig | ConsumerConfig) -> dict[str, Any]:
    """Its members without what an answer of the API adds about the server that gives it."""
    metadata = sorted((config.metadata or {}).items())
    shown = {key: value for key, value in metadata if key not in (VERSION_KEY, LEVEL_KEY)}
    return written(config) | {"metadata": shown}
