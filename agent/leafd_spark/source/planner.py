"""The planner of a query: it asks the server for the state of its streams, and decides where batches begin and end.

Here: finding streams, where a query begins, limits of a batch, going on after a loss, and the partitions.
Not here: Spark's interface (`source`), what a loss is (`losses`), the connection (`standing`), reading (`fetch`).

Spark asks for the latest offset some fifty times a second while nothing comes. The server is asked at most
REQUESTS_MAX times a second then: between two answers the last one holds. So a message waits at most a quarter of a
second until it is seen, and an idle query costs the server four small requests a second. After a batch it is asked at
once, so that the next one has all that came meanwhile.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from leafd_spark.fetch import ApiError, api, sequence_at
from leafd_spark.option_values import EARLIEST, LATEST, Place
from leafd_spark.options import Options
from leafd_spark.ranges import Dealing, Offset, Range, StreamState, deal, end_of, seconds_of, shares
from leafd_spark.standing import Standing
from leafd_spark.wire import Connection

from .losses import Missing, missing, resume
from .offsets import Offsets
from .pushed import Bounds
from .reader import size_admitted
from .sizes import admitted

REQUESTS_MAX = 4  # a second, while nothing new comes
NOT_FOUND = 404
SECOND_LOOK = 3.0  # seconds; a new leader may not know all yet, an old one may not know that it leads no more

States = Mapping[str, StreamState]


class Piece(NamedTuple):
    """One task's share."""

    stream: str
    wanted: Range
    created: str  # when the stream was made that the sequences are of


class Planner:
    def __init__(self, options: Options) -> None:
        self._options = options
        self._standing = Standing(options)
        self._states: dict[str, StreamState] = {}
        self._absent: list[ApiError] = []  # what was said of streams that the options name and that are not there
        self._asked = float("-inf")
        self._interval = 0.0
        self._target: Offsets | None = None
        self._at_end: dict[str, StreamState] = {}  # as streams were when the last batch went to their ends
        self._said: set[tuple[str, str]] = set()
        self._passed: dict[str, int] = {}  # sequences gone unread, by stream
        self._read: Offsets | None = None  # where the batch that was planned last ends
        self._batch_at = float("-inf")  # when it was planned
        self._busy = False  # the last question found something to read

    def close(self) -> None:
        self._standing.close()

    # -- the streams ------------------------------------------------------

    def states(self, *, fresh: bool = False) -> States:
        """How the query's streams stand, as of a moment ago."""
        if fresh or time.monotonic() - self._asked >= self._interval:
            asked = time.monotonic()
            self._states, requests = self._standing.ask(self._ask_states)
            self._asked, self._interval = asked, requests / REQUESTS_MAX
        return self._states

    def _ask_states(self, connection: Connection) -> tuple[dict[str, StreamState], int]:
        """The streams that are there, in the order of the options, and how many requests it took."""
        if not self._options.streams:
            return self._matching(connection)
        found = {}
        self._absent = []
        for name in self._options.streams:
            try:
                found[name] = StreamState.of(api(connection, self._options, f"STREAM.INFO.{name}", {}))
            except ApiError as error:
                if error.code != NOT_FOUND:
                    raise
                self._absent.append(error)
        return found, len(self._options.streams)

    def _matching(self, connection: Connection) -> tuple[dict[str, StreamState], int]:
        wanted = re.compile(self._options.stream_pattern)
        found: dict[str, StreamState] = {}
        seen, requests, total = 0, 0, 1
        while seen < total:
            answer = api(connection, self._options, "STREAM.LIST", {"offset": seen})
            listed = answer.get("streams") or []
            for info in listed:
                name = str(info["config"]["name"])
                if wanted.fullmatch(name):
                    found[name] = StreamState.of(info)
            seen, requests, total = seen + len(listed), requests + 1, int(answer["total"])
            if not listed:
                break
        return dict(sorted(found.items())), requests

    # -- beginning and end of a query -------------------------------------

    def _all(self) -> States:
        """All streams that the options name; an error if one is not there."""
        states = self.states(fresh=True)
        if self._absent:
            raise self._absent[0]
        return states

    def begin(self) -> Offsets:
        """The offsets at which reading begins without a checkpoint."""
        states = self._all()
        found = {}
        for name, state in states.items():
            offset = self._begin(name, state)
            if offset.next > state.last + 1:
                what = f"the query is to begin at {offset.next}, but the stream ends at {state.last}"
                self._settle(Missing(name, what, "", 0))
                offset = end_of(state, replace(offset, next=state.last + 1))
            found[name] = offset
        return Offsets(found)

    def _begin(self, name: str, state: StreamState) -> Offset:
        instant = _of_stream(self._options.starting_time, name, "")
        if instant:
            return end_of(state, Offset(state.created, self._at(name, instant, state)))
        place: Place = _of_stream(self._options.starting, name, EARLIEST)
        if place == EARLIEST:
            return Offset(state.created, state.first)
        if place == LATEST:
            return end_of(state, Offset(state.created, state.last + 1))
        # A given sequence before the stream's first is a wish for everything from there on that still exists.
        return Offset(state.created, max(int(place), state.first))

    def _at(self, name: str, instant: str, state: StreamState) -> int:
        """The first message at or after an instant, or the stream's end."""
        named = replace(self._options, stream=name)
        found = self._standing.ask(lambda connection: sequence_at(connection, named, instant))
        return found if found is not None else state.last + 1

    def whole(self, bounds: Bounds) -> list[Piece]:
        """The pieces of a batch read."""
        states = self._all()
        wholes = {}
        for name, state in states.items():
            bounded = bounds.within(self._begin(name, state).next, self._last(name, state))
            if bounds.since:
                bounded = bounded.within(self._at(name, bounds.since, state), None)
            if bounds.before:
                bounded = bounded.within(0, self._at(name, bounds.before, state) - 1)
            if bounded.last is not None:
                wholes[name] = Range(bounded.first, bounded.last)
        return self._deal(wholes, states)

    def _last(self, name: str, state: StreamState) -> int:
        instant = _of_stream(self._options.ending_time, name, "")
        if instant:
            return self._at(name, instant, state) - 1
        place: Place = _of_stream(self._options.ending, name, LATEST)
        return state.last if place == LATEST else min(int(place), state.last)

    # -- batches of a streaming query -------------------------------------

    def ends(self) -> Offsets:
        """The offsets at which the streams end, for a query that takes all there is."""
        return Offsets(_ends(self.states()))

    def aim(self) -> None:
        """From now on no batch goes beyond what there is now."""
        self.states(fresh=True)
        self._target = self.ends()

    def latest(self, start: Offsets, rows: int, size: int, *, at_least: int = 0) -> Offsets | None:
        """The end of the next batch: all there is, or as much as so many rows and bytes (0: any) admit.

        None if there is nothing to read, or if there are less than `at_least` rows and there is time to wait for more.
        """
        states = self._sure_states(start, fresh=self._busy)
        self._busy = False
        start = self._named(start, states)
        begins = self._resumed(start, states)
        ends = self._reach(begins, states)
        open_rows = {name: ends[name].next - begins[name].next for name in begins if name in ends}
        if self._target is None and self._holds_back(sum(open_rows.values()), at_least):
            return None
        if rows:
            admitted = shares(open_rows, rows)
            for name, count in admitted.items():
                ends[name] = end_of(states[name], replace(begins[name], next=begins[name].next + count))
        if size:
            ends = self._within_bytes(begins, ends, states, size)
        # A stream that is gone, which was settled above, is left out: should one of its name come it is a new one.
        found = self._read = Offsets(ends)
        if _same(found, start):
            return None
        self._batch_at = time.monotonic()
        self._busy = True
        return found

    def _holds_back(self, there: int, at_least: int) -> bool:
        return 0 < there < at_least and time.monotonic() - self._batch_at < self._options.max_trigger_delay

    def _reach(self, begins: Mapping[str, Offset], states: States) -> dict[str, Offset]:
        """The end of each stream for this query: the target of Trigger.AvailableNow if there is one."""
        ends = {}
        for name, end in _ends(states).items():
            begin = begins.get(name)
            if begin is None:
                # A stream that appeared: this batch takes note of where it begins, the next one reads it.
                ends[name] = Offset(end.created, states[name].first)
                continue
            reached = min(end.next, self._aimed(name, begin, end).next)
            ends[name] = end_of(states[name], replace(begin, next=max(reached, begin.next)))
        return ends

    def _aimed(self, name: str, begin: Offset, end: Offset) -> Offset:
        if self._target is None:
            return end
        target = self._target.get(name)
        if target is None:
            return begin  # it appeared after the target was set
        if target.created != end.created:
            # Made anew since then. What it holds now is taken along, so that the query stands behind it.
            self._target = Offsets({**self._target.streams, name: end})
            return end
        return target

    def _within_bytes(
        self, begins: Mapping[str, Offset], ends: Mapping[str, Offset], states: States, size: int
    ) -> dict[str, Offset]:
        found = dict(ends)
        wanted = {name: ends[name].next - begins[name].next for name in begins if name in ends}
        total = sum(wanted.values())
        for name, count in wanted.items():
            share = max(1, size * count // total) if total else size
            if count and self._bytes_at_most(name, begins[name], states[name]) > share:
                whole = Range(begins[name].next, ends[name].next - 1)
                after = self._cut(name, whole, states[name], share)
                found[name] = end_of(states[name], replace(begins[name], next=after))
        self._at_end = {name: states[name] for name in found if found[name].next == states[name].last + 1}
        return found

    def _bytes_at_most(self, name: str, begin: Offset, state: StreamState) -> int:
        """The bytes that the messages from there to the stream's end can hold, by the stream's own figures.

        A query that keeps up began a batch where the stream ended before. If nothing was removed since, what the
        stream grew by is what has come.
        """
        before = self._at_end.get(name)
        if before is None or before.created != state.created or begin.next != before.last + 1:
            return state.bytes
        came = state.last - before.last
        if state.first != before.first or state.messages - before.messages != came:
            return state.bytes
        return state.bytes - before.bytes

    def _cut(self, name: str, whole: Range, state: StreamState, size: int) -> int:
        named = replace(self._options, stream=name)
        if state.rules.retention != "limits":
            return size_admitted(named, whole, size)
        guess = min(len(whole), size * state.messages // max(1, state.bytes))
        return admitted(self._standing, named, whole, size, guess)

    def pieces(self, start: Offsets, end: Offsets) -> list[Piece]:
        """The pieces of a batch, or of what is left of it when it is run again after a loss."""
        states = self._sure_states(start, end)
        start, end = self._named(start, states), self._named(end, states)
        begins = self._resumed(start, states)
        wholes = {}
        for name, after in end.streams.items():
            state, begin = states.get(name), begins.get(name)
            if state is None or begin is None:
                continue  # lost, which was settled above, or a stream of which nothing is to be read yet
            if after.created != state.created:
                if after != start.get(name):  # otherwise it was settled above
                    self._settle(missing(name, after, state))
                continue
            if after.next > state.last + 1:
                self._settle(missing(name, after, state))
            wholes[name] = Range(begin.next, min(after.next - 1, state.last))
        return self._deal(wholes, states)

    def _deal(self, wholes: Mapping[str, Range], states: States) -> list[Piece]:
        options = self._options
        dealing = Dealing(
            options.partitions, options.partition_rows_min, options.partitions_min, options.partition_rows_max
        )
        return [Piece(name, wanted, states[name].created) for name, wanted in deal(wholes, dealing)]

    # -- losses -----------------------------------------------------------

    def _named(self, offsets: Offsets, states: States) -> Offsets:
        return offsets.named({name: state.created for name, state in states.items()})

    def _sure_states(self, *offsets: Offsets, fresh: bool = False) -> States:
        """How the streams stand; asked again where one is not there, or ends before what was read of it."""
        states = self.states(fresh=fresh)
        deadline = time.monotonic() + SECOND_LOOK
        while self._is_odd(states, offsets) and time.monotonic() < deadline:
            time.sleep(1 / REQUESTS_MAX)
            states = self.states(fresh=True)
        return states

    def _is_odd(self, states: States, offsets: Iterable[Offsets]) -> bool:
        for several in offsets:
            for name, offset in self._named(several, states).streams.items():
                state = states.get(name)
                if state is not None and (offset.created != state.created or offset.next <= state.last + 1):
                    continue
                gone = missing(name, offset, state)
                if gone is not None and (gone.stream, gone.what) not in self._said:
                    return True
        return False

    def _resumed(self, start: Offsets, states: States) -> dict[str, Offset]:
        """The offsets at which reading goes on in the streams that are there, once every loss is settled."""
        found = {}
        for name, offset in start.streams.items():
            state = states.get(name)
            self._settle(missing(name, offset, state))
            if state is not None:
                found[name] = resume(offset, state)
        return found

    def _settle(self, gone: Missing | None) -> None:
        if gone is None or (gone.stream, gone.what) in self._said:
            return
        gone.settle(self._options.fail_on_data_loss)
        self._said.add((gone.stream, gone.what))
        self._passed[gone.stream] = self._passed.get(gone.stream, 0) + gone.count

    # -- progress ---------------------------------------------------------

    def report(self) -> dict[str, Any]:
        """The streams' ends, for the query's progress: with what is not read yet, its age, and what went unread."""
        states = self.states()
        found = self.ends().as_json()
        for name, state in states.items():
            found["streams"][name] |= self._lag(name, state)
        return found

    def _lag(self, name: str, state: StreamState) -> dict[str, Any]:
        read = self._read.get(name) if self._read is not None else None
        lag: dict[str, Any] = {"goneUnread": self._passed.get(name, 0), "gaps": _gaps(state)}
        if read is not None and read.created == state.created:
            lag["backlog"] = max(0, state.last + 1 - max(read.next, state.first))
            oldest = state.first_time if read.next <= state.first else read.stored
            since, now = seconds_of(oldest), seconds_of(state.asked) or time.time()
            if lag["backlog"] and since is not None:
                lag["ageSecondsAtMost"] = round(max(0.0, now - since), 3)
        return lag


def _ends(states: States) -> dict[str, Offset]:
    return {name: end_of(state, Offset(state.created, state.last + 1)) for name, state in states.items()}


def _gaps(state: StreamState) -> int:
    """Sequences between first and last that hold no message."""
    return max(0, state.last - state.first + 1 - state.messages)


def _of_stream(given: Any, name: str, default: Any) -> Any:
    """An option's value for one stream: it may have one for all, or one for each."""
    return given.get(name, default) if isinstance(given, Mapping) else given


def _same(left: Offsets, right: Offsets) -> bool:
    """Whether two offsets read the same messages."""

    def places(offsets: Offsets) -> Iterable[tuple[str, str, int]]:
        return sorted((name, offset.created, offset.next) for name, offset in offsets.streams.items())

    return places(left) == places(right)
