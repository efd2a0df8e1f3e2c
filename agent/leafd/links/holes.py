"""Holes that damage left in the middle of a mirror or source: what its origins still have of them is fetched again, and
put back.

    RECORD_HOLE (read at the start, or told by ALARM_HOLE) --> for each, while its copy is level with its origin:
        a mirror   STREAM.MSG.GET of the next message --> stream_fill, on disk --> the next one
                   beyond the hole, or none           --> the hole is done
        a source   what of each origin was in it (source_holes.py), asked for from there on --> all of it is known
                   --> stream_fill of one after the other, to the hole's last sequence

One message is asked for at a time, of all holes, and after each there is a pause of four times as long as it took: the
link is for what is new. Nothing is asked of an origin while what is new there is not here, or not heard of; then the
holes of other streams go on. A process that ends goes on where it was at the next start: the record moves with each
message.

Only a hole of which the counts say that each of its sequences had a message is filled, or that of a mirror with a limit
for each subject, which takes out again what it would have taken out: otherwise a message that somebody removed would
come back. Left out are mirrors whose subjects are transformed, streams of counters that have sources, and those whose
acknowledged messages are removed.

Not here: how a message is put below the last one (native/store/fill.c), what lies behind the last one
(replicas.py).
"""

from __future__ import annotations

import contextlib
import json
from base64 import b64decode
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, ClassVar, Final, TypeVar

import trio

from leafd import native_types as t
from leafd.gojson import INT, TEXT, UINT64, JsonError, Nested, Struct, decode, wire
from leafd.gotime import parse_time
from leafd.links.lag import SlotInfo
from leafd.links.origin import header_field, inbox
from leafd.links.replica import Slot
from leafd.links.source_holes import ID_HEADER, Candidate, Side, Span, fitting, merged, span_of, taken
from leafd.native_commands import Commands
from leafd.operator_log import Log
from leafd.records import dataclass

LOOK_S: Final = 2.0
"""Between two looks whether a mirror is level."""
ANSWER_S: Final = 30.0
AGAIN_S: Final = 15.0
"""After a request that was not answered, or a message for which there was no room."""
PAUSE_SHARE: Final = 4
PAUSE_MAX_S: Final = 30.0
NOT_FOUND_CODE: Final = 10037
LOOK_MAX: Final = 20_000
"""Messages that are looked at on each side of a source's hole."""
CANDIDATES_MAX: Final = 20_000
KEPT_MAX: Final = 1 << 20
"""Bytes of messages that are kept from when they are looked at to when they are put back."""
NAMED_MAX: Final = 5
WHOLE: Final = ": all of it"
Answer = TypeVar("Answer")
_PASSING: Final = (t.Status.AGAIN, t.Status.FULL, t.Status.NO_SPACE, t.Status.IO, t.Status.NO_MEMORY)


@dataclass(frozen=True, slots=True)
class Hole:
    """Sequences of a stream that damage took. `first` has not been asked for yet."""

    stream: int
    first: int
    last: int
    certain: bool
    """All of them had a message. Else some had been removed before, and nobody knows which."""


def hole_of(key: bytes, value: bytes) -> Hole | None:
    """A record RECORD_HOLE, as store/fill.h draws it. None: it is none that can be."""
    if len(key) != 12 or len(value) != 9:
        return None
    stream, last = int.from_bytes(key[:4], "big"), int.from_bytes(key[4:], "big")
    first = int.from_bytes(value[:8], "big")
    return Hole(stream, first, last, value[8] != 0) if 0 < first <= last else None


@dataclass(frozen=True, slots=True)
class GetError(Struct):
    """Why the origin does not give a message."""

    go_name: ClassVar[str] = "ApiError"

    code: int = wire(INT, "code")
    err_code: int = wire(INT, "err_code")
    description: str = wire(TEXT, "description")


@dataclass(frozen=True, slots=True)
class Given(Struct):
    """One stored message, as the API tells it."""

    go_name: ClassVar[str] = "StoredMsg"

    subject: str = wire(TEXT, "subject")
    seq: int = wire(UINT64, "seq")
    hdrs: str = wire(TEXT, "hdrs")
    data: str = wire(TEXT, "data")
    time: str = wire(TEXT, "time")


@dataclass(frozen=True, slots=True)
class GetReply(Struct):
    """The origin's answer."""

    go_name: ClassVar[str] = "JSApiMsgGetResponse"

    error: GetError | None = wire(Nested(GetError), "error")
    message: Given | None = wire(Nested(Given), "message")


@dataclass(frozen=True, slots=True)
class Copy:
    """The facts about a stream that has holes."""

    slots: tuple[Slot, ...]
    """A mirror's only one, or those of its sources."""
    limited: bool
    """The stream has a limit for each subject."""
    counts: bool
    """The stream is one of counters."""
    removes: bool
    """Acknowledged messages go."""
    taken: Mapping[str, tuple[int, int]] | None
    """The origins of which anything was taken, by key, as the start found it: the origin's sequence that was taken
    last, and the newest stamp. None: the damage is younger than the start, and what is known of each slot counts."""


class _Ended(Exception):
    """A hole that is not asked for any more; the text says why, empty: it is not there any more."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """A message, as its origin gave it."""

    seq: int
    ts: int
    subject: str
    header: bytes
    payload: bytes


class Holes:
    """All of them. `fill` fills one; those of one stream wait for each other."""

    def __init__(
        self,
        plane: Commands,
        log: Log,
        copy_of: Callable[[int], Copy | None],
        info: Callable[[int, int], Any],
        may_answer: Callable[[Slot, int], bool],
    ) -> None:
        """copy_of: what a stream copies; None: it is no copy. info, may_answer: those of Replicas."""
        self._plane = plane
        self._log = log
        self._copy_of = copy_of
        self._info = info
        self._may_answer = may_answer
        self._turn = trio.Lock()
        self._streams: dict[int, trio.Lock] = {}
        self.stored = 0
        """Messages that were put back since the start."""

    async def fill(self, hole: Hole, *, young: bool = False) -> None:
        """Fills it; returns when that is done, or said why it is not. young: the store met it while it runs, and counts
        the stream again when it hears that nothing more is put there."""
        lock = self._streams.setdefault(hole.stream, trio.Lock())
        async with lock:
            if not await self._fill(hole) and young:
                await self._leave(hole)
        if not lock.statistics().tasks_waiting:
            self._streams.pop(hole.stream, None)

    async def _leave(self, hole: Hole) -> None:
        with contextlib.suppress(t.PlaneError):  # where it stays, the next start has it
            await self._plane.stream_fill(hole.stream, hole.last, sequence=hole.last)

    async def _fill(self, hole: Hole) -> bool:
        copied = self._copy_of(hole.stream)
        if copied is None or not copied.slots:
            return False
        slot = copied.slots[0]
        try:
            self._judge(hole, copied)
            stored, rest = await (self._fill_mirror(hole, slot) if slot.mirror else self._fill_source(hole, copied))
        except _Ended as end:
            if end.args[0]:
                self._log.warning(
                    f"stream {slot.stream_name} stays without what damage took from message {hole.first} to"
                    f" {hole.last}: {end.args[0]}",
                    event="hole_stays",
                    account=slot.account_name,
                    stream=slot.stream_name,
                )
            return False
        self._log.info(
            f"stream {slot.stream_name}: of what damage took from message {hole.first} to {hole.last},"
            f" {stored} were fetched again{rest}",
            event="hole_filled",
            account=slot.account_name,
            stream=slot.stream_name,
        )
        return True

    def _judge(self, hole: Hole, copied: Copy) -> None:
        mirror = copied.slots[0].mirror
        if mirror and copied.slots[0].origin.transforms:
            raise _Ended("the mirror transforms subjects")
        if not mirror and copied.counts:
            raise _Ended("its messages are counters, whose sums have gone on")
        if copied.removes:
            raise _Ended("acknowledged messages are removed from it, and which ones were is not known")
        if not hole.certain and not (mirror and copied.limited):
            raise _Ended("some of them had been removed before, and which ones is not known")

    async def _fill_mirror(self, hole: Hole, slot: Slot) -> tuple[int, str]:
        at, before = hole.first, self.stored
        while at <= hole.last:
            given = await self._given(slot, at)
            if given is not None and given.seq < at:
                raise _Ended("its origin answers something else than it was asked")
            if given is None or given.seq > hole.last:
                await self._put(hole, slot, hole.last)
                break
            await self._put(hole, slot, given.seq, given)
            at = given.seq + 1
        stored = self.stored - before
        return stored, WHOLE if stored == hole.last - hole.first + 1 else "; more its origin does not have"

    # ---- a source's

    async def _fill_source(self, hole: Hole, copied: Copy) -> tuple[int, str]:
        spans, loose, known, stamps = await self._look_around(hole, copied)
        room = hole.last - hole.first + 1
        wanted = [span for span in spans if not span.empty]
        if wanted and room > CANDIDATES_MAX:
            raise _Ended(f"it is of more than {CANDIDATES_MAX} messages")
        fetched = _Kept()
        lists = [await self._candidates(span, fetched, room) for span in wanted]
        found = fitting(merged(lists), known, room)
        if found is None:
            raise _Ended("its origins have more messages than were lost, and which ones were taken is not known")
        before, low = self.stored, stamps[0]
        # From the hole's begin on: after a restart the way to what stands before it has no gap then.
        for sequence, one in enumerate(found, start=hole.first):
            message = fetched.pop(one) or await self._given(one.slot, one.sequence)
            if message is not None and message.seq != one.sequence:
                message = None  # it is gone by now
            low = max(low, min(one.ts, stamps[1]))
            await self._put(hole, one.slot, sequence, message, ts=low)
        if len(found) < room:
            await self._put(hole, copied.slots[0], hole.last)
        stored = self.stored - before
        return stored, _missing(room - stored, [slot.origin.stream for slot in loose])

    async def _look_around(self, hole: Hole, copied: Copy) -> tuple[list[Span], list[Slot], set[str], tuple[int, int]]:
        """The part of each origin that the hole can have taken, the origins for which that is not known, the ids of
        messages near it, and the stamps between which it has its place."""
        taken = copied.taken if copied.taken is not None else await self._taken_now(copied)
        state = await self._asked(partial(self._plane.stream_state, hole.stream))
        before = await self._side(hole, copied, range(hole.first - 1, 0, -1))
        behind = await self._side(hole, copied, range(hole.last + 1, state.last_seq + 1))
        spans, loose = [], []
        for slot in copied.slots:
            span = span_of(slot, before, behind, *taken.get(slot.origin.key, (0, 0)))
            if span is None:
                loose.append(slot)
            else:
                spans.append(span)
        return spans, loose, before.ids | behind.ids, (before.ts, behind.ts or state.last_ts)

    async def _taken_now(self, copied: Copy) -> dict[str, tuple[int, int]]:
        """How far each slot is, before the stream is looked at: what comes in between lies behind the hole."""
        found = {}
        for slot in copied.slots:
            told: SlotInfo = await self._info(slot.stream, slot.number)
            found[slot.origin.key] = told.sequence, told.newest_ts
        return found

    async def _side(self, hole: Hole, copied: Copy, sequences: range) -> Side:
        side = Side(copied.slots)
        for sequence in sequences[:LOOK_MAX]:
            if (message := await self._here(hole, sequence)) is None:
                return side
            side.see(message)
            if not side.unseen:
                return side
        side.whole = len(sequences) <= LOOK_MAX
        return side

    async def _here(self, hole: Hole, sequence: int) -> t.StoredMessage | None:
        """The stored message; None: there is no message, or it is damaged, too."""
        try:
            return await self._asked(partial(self._plane.message_get, hole.stream, t.Query.SEQUENCE, sequence=sequence))
        except t.PlaneError:
            return None

    async def _asked(self, question: Callable[[], Awaitable[Answer]]) -> Answer:
        """The answer to a question, asked once more where that may help. Raises PlaneError for a message that is
        damaged."""
        while True:
            try:
                return await question()
            except t.PlaneError as error:
                if error.status == t.Status.CORRUPT:
                    raise
                if error.status not in _PASSING:
                    raise _Ended("") from error  # the stream is gone
            await trio.sleep(LOOK_S)

    async def _candidates(self, span: Span, fetched: _Kept, room: int) -> list[Candidate]:
        """The origin's messages between the two, and the proof that it is the same stream."""
        slot, found = span.slot, []
        proven = False
        for pattern in slot.origin.filters or (">",):
            at = max(span.above, 1)
            while at < span.below or (at == span.below and not proven and span.behind is not None):
                given = await self._given(slot, at, pattern)
                if given is None or given.seq > span.below:
                    break
                if given.seq < at or not span.same(taken(given.seq, given.subject, given.payload)):
                    raise _Ended(f"stream {slot.origin.stream} is another one than it was taken from")
                at, beside = given.seq + 1, given.seq in (span.above, span.below)
                proven = proven or beside
                if not beside and _since(slot) <= given.ts:
                    found.append(Candidate(slot, given.seq, given.ts, header_field(given.header, ID_HEADER)))
                    fetched.keep(found[-1], given)
                if len(found) > 2 * room:
                    break  # too many, whatever their ids are
        found.sort(key=lambda one: one.sequence)
        if not proven and any(one.ts > span.newest_ts for one in found):
            raise _Ended(f"stream {slot.origin.stream} is another one than it was taken from")
        return found

    # ---- what origins are asked

    async def _until_level(self, slot: Slot) -> None:
        """Until everything that is new at the origin is here, or under way."""
        while True:
            if (found := self._copy_of(slot.stream)) is None or slot not in found.slots:
                raise _Ended("")
            try:
                told: SlotInfo = await self._info(slot.stream, slot.number)
            except t.PlaneError:
                told = SlotInfo()
            if told.running and told.known and told.lag == 0:
                return
            await trio.sleep(LOOK_S)

    async def _given(self, slot: Slot, sequence: int, pattern: str = "") -> Fetched | None:
        """The origin's first message at or behind the sequence; None: there is none."""
        wanted = {"seq": sequence, "next_by_subj": pattern or slot.origin.filter or ">"}
        body = json.dumps(wanted, separators=(",", ":")).encode()
        subject = f"{slot.origin.api_prefix}.STREAM.MSG.GET.{slot.origin.stream}"
        answer = None
        while answer is None:
            await self._until_level(slot)
            async with self._turn:
                began = trio.current_time()
                answer = await self._request(slot, subject, body)
                await trio.sleep(min((trio.current_time() - began) * PAUSE_SHARE, PAUSE_MAX_S))
            if answer is None:
                await trio.sleep(AGAIN_S)
        try:
            reply = decode(GetReply, answer, strict=False)
            given = reply.message
            if given is not None:
                header, payload = b64decode(given.hdrs), b64decode(given.data)
                return Fetched(given.seq, parse_time(given.time), given.subject, header, payload)
        except (JsonError, ValueError) as error:
            raise _Ended(f"the answer of its origin cannot be read: {error}") from error
        if reply.error is None:
            raise _Ended("the answer of its origin has no message")
        if reply.error.err_code == NOT_FOUND_CODE:
            return None
        raise _Ended(f"its origin answers {reply.error.description} ({reply.error.err_code})")

    async def _request(self, slot: Slot, subject: str, body: bytes) -> bytes | None:
        """The answer to a request; None: no answer in time."""
        answers: list[bytes] = []
        came = trio.Event()

        def answered(message: t.Message) -> None:
            # Any client that hears of the inbox could answer: what is stored under its own name is the origin's to say.
            if self._may_answer(slot, message.connection):
                answers.append(message.payload)
                came.set()

        to = inbox(slot.aim)
        subscription = self._plane.subscribe(slot.account, to, answered)
        try:
            with trio.move_on_after(ANSWER_S):
                if await self._plane.publish_counted(
                    slot.account, subject, body, reply=to, flags=t.PublishFlag.REQUEST
                ):
                    await came.wait()
        finally:
            self._plane.unsubscribe(slot.account, subscription)
        return answers[0] if answers else None

    async def _put(self, hole: Hole, slot: Slot, sequence: int, given: Fetched | None = None, *, ts: int = 0) -> None:
        """ts: the stamp that a source's message gets here."""
        parts: dict[str, Any] = {}
        if given is not None:
            parts = {"ts": ts or given.ts, "subject": given.subject, "header": given.header, "payload": given.payload}
        if given is not None and not slot.mirror:
            parts["origin"] = slot.number, given.seq
        while True:
            try:
                self.stored += await self._plane.stream_fill(hole.stream, hole.last, sequence=sequence, **parts)
                return
            except t.PlaneError as error:
                if error.status in (t.Status.NOT_FOUND, t.Status.INVALID):
                    raise _Ended("") from error  # purged meanwhile, or the stream is another one
                if error.status not in _PASSING:
                    raise _Ended(str(error)) from error
                await trio.sleep(0.0 if error.status == t.Status.AGAIN else LOOK_S)
                if error.status != t.Status.AGAIN:
                    await self._until_level(slot)


class _Kept:
    """Messages that were fetched to be looked at; what is too much is fetched once more when it is put back."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, int], Fetched] = {}
        self._size = 0

    def keep(self, one: Candidate, given: Fetched) -> None:
        size = len(given.subject) + len(given.header) + len(given.payload)
        if self._size + size <= KEPT_MAX:
            self._size += size
            self._kept[one.slot.number, one.sequence] = given

    def pop(self, one: Candidate) -> Fetched | None:
        return self._kept.pop((one.slot.number, one.sequence), None)


def _since(slot: Slot) -> int:
    """Older ones were never asked for."""
    return parse_time(slot.origin.start_time) if slot.origin.start_time else 0


def _missing(count: int, loose: list[str]) -> str:
    if count == 0:
        return WHOLE
    if not loose:
        return f"; the other {count} its origins do not have, or they were published here"
    return (
        f"; of the other {count} the origin is not known: {', '.join(loose[:NAMED_MAX])}"
        + (f" and {len(loose) - NAMED_MAX} more" if len(loose) > NAMED_MAX else "")
        + " are possible"
    )
