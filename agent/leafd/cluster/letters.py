"""Questions and answers between the servers of the group, as letters.

    ask(peer, question) --parts--> serve(peer, question) --parts--> the answer, or None: there is none
    tell(peer, news)    --parts--> heard(peer, news)

    part   0 "LRQ1"  4 kind 1  5 last 1  6 zero 2  8 number 8  16 index 4  20 bytes

A letter is small, so a message travels in parts, of which WINDOW are on their way until the other end says that they
have come. What is lost is lost whole: the asker hears after a while that there is no answer, and asks again or says so.
A server that sends halves without end fills no memory: those of one server are bounded, and the oldest one goes.

How long an answer may take follows how long answers took. A line that has just become slow, or that a copy fills, has
them late, and a server that gives up before they come never hears one. So one that is too late counts, too. It is the
way that is meant, not the work, as a purge may be. On a slow way answers come in the order of their questions, and so
one does not count that another one overtook. The last of a question that was alone counts for a minute at most.

Not here: what is asked (daemon/placing.py), who is reached (the plane).
"""

from __future__ import annotations

import secrets
import struct
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import field
from typing import Final

import trio

from leafd.guard import Guard
from leafd.records import dataclass

MAGIC: Final = b"LRQ1"
QUESTION, ANSWER, NEWS, COME = 1, 2, 3, 4
PART_MAX: Final = 64 << 10
WINDOW: Final = 16
WHOLE_MAX: Final = 64 << 20
"""The largest message; an info with all subjects of a stream is one."""
HALVES_MAX: Final = 256
"""Messages of one server of which a part is missing."""
SERVED_MAX: Final = 256
"""Questions of one server that are being answered; further ones are not heard."""
PART_S: Final = 10.0
TIMES: Final = 3
"""An answer is waited for as many times as long as the last ones took, or as long as the asker says."""
TOOK_MAX_S: Final = 20.0
"""An answer that took longer is one of a server that stood still, and does not count."""
TOOK_AGE_S: Final = 60.0
"""So long is it expected that answers take as long as they did."""
LATE_MAX: Final = 1024
"""Questions without an answer that are remembered, of all servers."""
_HEAD: Final = struct.Struct(">4sBBHQI")


@dataclass(slots=True)
class _Half:
    """A message of which the rest is on its way."""

    parts: list[bytes] = field(default_factory=list)
    size: int = 0


@dataclass(slots=True)
class _Asked:
    """A question that waits for its answer."""

    peer: int
    at_s: float
    done: trio.Event = field(default_factory=trio.Event)
    answer: bytes | None = None


@dataclass(slots=True)
class _Way:
    """To a server and back. took_s: how long its answers take, of late; at_s: when that was noted; newest_s: when the
    question was asked that was asked last of those that it has answered."""

    took_s: float = 0.0
    at_s: float = 0.0
    newest_s: float = 0.0


class Letters:
    """One server's. `receive` takes letters at any time; `run` answers them."""

    def __init__(
        self,
        send: Callable[[int, bytes], None],
        serve: Callable[[int, bytes], Awaitable[bytes]],
        heard: Callable[[int, bytes], None],
        guard: Guard,
    ) -> None:
        self._send, self._serve, self._heard, self._guard = send, serve, heard, guard
        self._number = secrets.randbits(63)
        self._asked: dict[int, _Asked] = {}
        self._late: OrderedDict[int, _Asked] = OrderedDict()
        self._ways: dict[int, _Way] = {}
        self._halves: dict[int, dict[tuple[int, int], _Half]] = {}
        self._serving: dict[int, int] = {}
        self._come: dict[tuple[int, int, int], trio.Semaphore] = {}
        """Waiting senders by receiver, kind and number of their message."""
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Answers until it is cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            await trio.sleep_forever()

    # ---- sending

    async def ask(self, peer: int, question: bytes, seconds: float, *, exactly: bool = False) -> bytes | None:
        """The answer; None: none has come. seconds: so long is waited for it at least; exactly: and no longer."""
        self._number += 1
        number = self._number
        asked = self._asked[number] = _Asked(peer, trio.current_time())
        try:
            with trio.move_on_after(seconds if exactly else max(seconds, TIMES * self._took_s(peer))) as waiting:
                await self._say(peer, QUESTION, number, question)
                await asked.done.wait()
            return asked.answer
        finally:
            del self._asked[number]
            if waiting.cancelled_caught:
                self._late[number] = asked
            old_s = trio.current_time() - TOOK_MAX_S
            while self._late and (len(self._late) > LATE_MAX or next(iter(self._late.values())).at_s < old_s):
                self._late.popitem(last=False)

    def _took_s(self, peer: int) -> float:
        way = self._ways.get(peer)
        return way.took_s if way is not None and trio.current_time() - way.at_s < TOOK_AGE_S else 0.0

    async def tell(self, peer: int, news: bytes) -> None:
        """To whom it may concern: nobody answers."""
        self._number += 1
        await self._say(peer, NEWS, self._number, news)

    def lost(self, peer: int) -> None:
        """There is no way to that server any more: what it was asked stays without an answer."""
        self._ways.pop(peer, None)
        for asked in self._asked.values():
            if asked.peer == peer:
                asked.done.set()

    async def _say(self, peer: int, kind: int, number: int, message: bytes) -> None:
        parts = max((len(message) + PART_MAX - 1) // PART_MAX, 1)
        key = peer, kind, number
        come = trio.Semaphore(WINDOW)
        if parts > 1:
            self._come[key] = come
        try:
            for index in range(parts):
                with trio.fail_after(PART_S):
                    await come.acquire()
                part = message[index * PART_MAX : (index + 1) * PART_MAX]
                self._send(peer, _HEAD.pack(MAGIC, kind, index == parts - 1, 0, number, index) + part)
        except trio.TooSlowError:
            return  # the other end has gone
        finally:
            self._come.pop(key, None)

    # ---- receiving

    def receive(self, peer: int, letter: bytes) -> None:
        """A letter; the link says which server sent it."""
        if len(letter) < _HEAD.size:
            return
        magic, kind, last, zero, number, index = _HEAD.unpack_from(letter)
        if magic != MAGIC or zero or last > 1 or not QUESTION <= kind <= COME:
            return
        if kind == COME:
            # index: the kind of what has come
            if (come := self._come.get((peer, index, number))) is not None:
                come.release()
            return
        whole = self._whole(peer, kind, number, index, letter[_HEAD.size :], last=bool(last))
        if not last or index:
            self._send(peer, _HEAD.pack(MAGIC, COME, 1, 0, number, kind))
        if whole is not None:
            self._take(peer, kind, number, whole)

    def _whole(self, peer: int, kind: int, number: int, index: int, part: bytes, *, last: bool) -> bytes | None:
        """All of a message, once its last part has come."""
        if last and index == 0:
            return part
        halves = self._halves.setdefault(peer, {})
        key = kind, number
        half = halves.pop(key, None)
        if half is None:
            half = _Half()
            while len(halves) >= HALVES_MAX:
                del halves[next(iter(halves))]
        if index != len(half.parts) or half.size + len(part) > WHOLE_MAX:
            return None  # some part was lost, and with it all of it
        half.parts.append(part)
        half.size += len(part)
        if last:
            return b"".join(half.parts)
        halves[key] = half
        while sum(one.size for one in halves.values()) > WHOLE_MAX:
            del halves[next(iter(halves))]
        return None

    def _take(self, peer: int, kind: int, number: int, message: bytes) -> None:
        if kind == ANSWER:
            asked = self._asked.get(number) or self._late.pop(number, None)
            if asked is not None and asked.peer == peer:
                self._note(asked)
                asked.answer = message
                asked.done.set()
        elif kind == NEWS:
            with self._guard.around("news of another server"):
                self._heard(peer, message)
        elif self._nursery is not None and self._serving.get(peer, 0) < SERVED_MAX:
            self._serving[peer] = self._serving.get(peer, 0) + 1
            self._nursery.start_soon(self._answer, peer, number, message)

    def _note(self, asked: _Asked) -> None:
        """An answer has come, perhaps too late for its asker. A quick one halves what is expected."""
        now_s, before_s = trio.current_time(), self._took_s(asked.peer)
        way = self._ways.setdefault(asked.peer, _Way())
        if asked.at_s < way.newest_s or now_s - asked.at_s > TOOK_MAX_S:
            return
        way.newest_s, way.at_s, way.took_s = asked.at_s, now_s, max(now_s - asked.at_s, before_s / 2)

    async def _answer(self, peer: int, number: int, question: bytes) -> None:
        try:
            with self._guard.around("a question of another server"):
                answer = await self._serve(peer, question)
                await self._say(peer, ANSWER, number, answer)
        finally:
            self._serving[peer] -= 1
