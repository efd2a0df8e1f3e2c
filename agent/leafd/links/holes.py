"""Holes that damage left in the middle of a mirror: what its origin still has of them is fetched again, and put back.

    RECORD_HOLE (read at the start) --> for each, while its mirror is level with its origin:
        STREAM.MSG.GET of the next message --> stream_fill, on disk --> the next one
        beyond the hole, or none            --> the hole is done

One message of one hole is asked for at a time, and after each there is a pause of four times as long as it took: the
link is for what is new. Nothing is asked while the mirror is behind, or not heard of. A process that ends goes on where
it was at the next start: the record moves with each message.

Only a hole of which the counts say that each of its sequences had a message is filled, or that of a stream with a limit
for each subject, which takes out again what it would have taken out: otherwise a message that somebody removed would
come back. Left out are mirrors whose subjects are transformed, and sources, which have other sequences than their
origins.

What does not live here: how a message is put below the last one (native/store/fill.c), what lies behind the last one
(replicas.py).
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Final, Protocol

import trio

from leafd import native_types as t
from leafd.gojson import INT, TEXT, UINT64, JsonError, Nested, Struct, decode, wire
from leafd.gotime import parse_time
from leafd.links.leafs import Log
from leafd.links.origin import random8
from leafd.links.replica import Slot
from leafd.links.told import SlotInfo
from leafd.records import dataclass

LOOK_S: Final = 2.0
"""Between two looks whether a mirror is level."""
ANSWER_S: Final = 30.0
AGAIN_S: Final = 15.0
"""After a request that was not answered, or a message for which there was no room."""
PAUSE_SHARE: Final = 4
PAUSE_MAX_S: Final = 30.0
NOT_FOUND_CODE: Final = 10037
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


class HolesPlane(Protocol):
    """The part of native.Plane that this room needs."""

    def subscribe(self, account: int, subject: str, handler: t.Handler) -> int: ...
    def unsubscribe(self, account: int, subscription: int) -> None: ...
    async def publish_counted(
        self, account: int, subject: str, payload: bytes, *, reply: str = "", flags: int = 0
    ) -> int: ...
    async def stream_fill(
        self,
        stream: int,
        last: int,
        *,
        sequence: int,
        ts: int = ...,
        subject: str = ...,
        header: bytes = ...,
        payload: bytes = ...,
    ) -> bool: ...


class _Ended(Exception):
    """A hole that is not asked for any more; the text says why, empty: it is not there any more."""


class Holes:
    """All of them. `run` fills them, and returns when none is left."""

    def __init__(
        self,
        plane: HolesPlane,
        log: Log,
        mirror_of: Callable[[int], tuple[Slot, bool] | None],
        info: Callable[[int, int], Any],
        may_answer: Callable[[Slot, int], bool],
    ) -> None:
        """mirror_of: of a stream, the slot that it takes everything by, and whether it has a limit for each subject;
        None: it is no mirror. info, may_answer: those of Replicas."""
        self._plane = plane
        self._log = log
        self._mirror_of = mirror_of
        self._info = info
        self._may_answer = may_answer
        self.stored = 0
        """Messages that were put back since the start."""

    async def run(self, holes: Iterable[Hole]) -> None:
        """Fills one after the other."""
        for hole in holes:
            found = self._mirror_of(hole.stream)
            if found is None:
                continue
            slot, limited = found
            before = self.stored
            try:
                self._judge(hole, slot, limited)
                await self._fill(hole, slot)
            except _Ended as end:
                if end.args[0]:
                    self._log.warning(
                        f"stream {slot.stream_name} stays without what damage took from message {hole.first} to"
                        f" {hole.last}: {end.args[0]}",
                        event="hole_stays",
                        account=slot.account_name,
                        stream=slot.stream_name,
                    )
                continue
            self._log.info(
                f"stream {slot.stream_name}: of what damage took from message {hole.first} to {hole.last},"
                f" {self.stored - before} were fetched again; more its origin does not have",
                event="hole_filled",
                account=slot.account_name,
                stream=slot.stream_name,
            )

    def _judge(self, hole: Hole, slot: Slot, limited: bool) -> None:
        if slot.origin.transforms:
            raise _Ended("the mirror transforms subjects")
        if not hole.certain and not limited:
            raise _Ended("some of them had been removed before, and which ones is not known")

    async def _fill(self, hole: Hole, slot: Slot) -> None:
        at = hole.first
        while at <= hole.last:
            await self._until_level(slot)
            began = trio.current_time()
            given = await self._ask(slot, at)
            if given is not None and given.seq < at:
                raise _Ended("its origin answers something else than it was asked")
            if given is None or given.seq > hole.last:
                await self._put(hole, hole.last)
                return
            self.stored += await self._put(hole, given.seq, given)
            at = given.seq + 1
            await trio.sleep(min((trio.current_time() - began) * PAUSE_SHARE, PAUSE_MAX_S))

    async def _until_level(self, slot: Slot) -> None:
        """Until everything that is new at the origin is here, or under way."""
        while True:
            if (found := self._mirror_of(slot.stream)) is None or found[0] != slot:
                raise _Ended("")
            try:
                told: SlotInfo = await self._info(slot.stream, slot.number)
            except t.PlaneError:
                told = SlotInfo()
            if told.running and told.known and told.lag == 0:
                return
            await trio.sleep(LOOK_S)

    async def _ask(self, slot: Slot, sequence: int) -> Given | None:
        """The origin's first message at or behind the sequence; None: there is none."""
        body = json.dumps({"seq": sequence, "next_by_subj": slot.origin.filter or ">"}, separators=(",", ":"))
        subject = f"{slot.origin.api_prefix}.STREAM.MSG.GET.{slot.origin.stream}"
        while (answer := await self._request(slot, subject, body.encode())) is None:
            await trio.sleep(AGAIN_S)
            await self._until_level(slot)
        try:
            reply = decode(GetReply, answer, strict=False)
        except JsonError as error:
            raise _Ended(f"the answer of its origin cannot be read: {error}") from error
        if reply.error is not None:
            if reply.error.err_code == NOT_FOUND_CODE:
                return None
            raise _Ended(f"its origin answers {reply.error.description} ({reply.error.err_code})")
        if reply.message is None:
            raise _Ended("the answer of its origin has no message")
        return reply.message

    async def _request(self, slot: Slot, subject: str, body: bytes) -> bytes | None:
        """The answer to a request; None: no answer in time."""
        answers: list[bytes] = []
        came = trio.Event()

        def answered(message: t.Message) -> None:
            # Whoever hears of the inbox could answer: what is stored under its own name is the origin's to say.
            if self._may_answer(slot, message.connection):
                answers.append(message.payload)
                came.set()

        inbox = f"$JSC.R.{random8()}"
        subscription = self._plane.subscribe(slot.account, inbox, answered)
        try:
            with trio.move_on_after(ANSWER_S):
                if await self._plane.publish_counted(
                    slot.account, subject, body, reply=inbox, flags=t.PublishFlag.REQUEST
                ):
                    await came.wait()
        finally:
            self._plane.unsubscribe(slot.account, subscription)
        return answers[0] if answers else None

    async def _put(self, hole: Hole, sequence: int, given: Given | None = None) -> bool:
        parts: dict[str, Any] = {}
        if given is not None:
            try:
                parts = {
                    "ts": parse_time(given.time),
                    "subject": given.subject,
                    "header": b64decode(given.hdrs),
                    "payload": b64decode(given.data),
                }
            except ValueError as error:
                raise _Ended(f"the answer of its origin cannot be read: {error}") from error
        while True:
            try:
                return await self._plane.stream_fill(hole.stream, hole.last, sequence=sequence, **parts)
            except t.PlaneError as error:
                if error.status in (t.Status.NOT_FOUND, t.Status.INVALID):
                    raise _Ended("") from error  # purged meanwhile, or the stream is another one
                if error.status not in _PASSING:
                    raise _Ended(str(error)) from error
                await trio.sleep(0.0 if error.status == t.Status.AGAIN else LOOK_S)
