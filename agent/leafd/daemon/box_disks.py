"""How much the boxes of a fleet store, asked of the boxes themselves: what `leafd boxes --disk` shows.

    of(links) --> $JS.NAME.API.INFO to each linked box, with a reply subject of its own --> bytes stored, and the limit

Each box of either kind answers that to clients that may use its JetStream API. The question crosses every link, some of
which cost money: it is asked when somebody wants to know, and of each box once a minute at most. A box that does not
answer is not known. Not here: who is linked (boxes.py), how it is shown (monitor/boxes.py).
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import Final, Protocol

import trio

from leafd import native_types as t
from leafd.records import dataclass
from leafd.turns import Pause

EACH_S: Final = 60.0
PATIENCE_S: Final = 10.0
"""A modem that has to wake up first takes seconds."""
ANSWER_MAX: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class Disk:
    """The disk use of a box's account, in bytes. most: None where its account has no limit."""

    stored: int
    most: int | None


class Asker(Protocol):
    """The part of native.Plane that this room needs."""

    def subscribe(self, account: int, subject: str, handler: t.Handler) -> int: ...
    def unsubscribe(self, account: int, subscription: int) -> None: ...
    def publish(self, account: int, subject: str, payload: bytes, *, reply: str = ...) -> None: ...


@dataclass(slots=True)
class _Known:
    asked_s: float
    disk: Disk | None = None


class BoxDisks:
    """The disk use of all boxes of one server."""

    def __init__(self, plane: Asker) -> None:
        self._plane = plane
        self._known: dict[str, _Known] = {}
        self._asking = trio.Lock()

    async def of(self, account: int, links: Mapping[str, int]) -> Mapping[str, Disk | None]:
        """The disk use by the boxes' names; links: the connection of each."""
        async with self._asking:
            now_s = trio.current_time()
            self._known = {name: one for name, one in self._known.items() if now_s - one.asked_s < EACH_S}
            wanted = {name: number for name, number in links.items() if name not in self._known}
            if wanted:
                self._known |= {name: _Known(now_s) for name in wanted}
                await self._ask(account, wanted)
            return {name: known.disk for name in links if (known := self._known.get(name)) is not None}

    async def _ask(self, account: int, links: Mapping[str, int]) -> None:
        plane, inbox, pause = self._plane, f"_INBOX.{secrets.token_hex(11)}", Pause()
        waiting: dict[str, str] = {}
        done = trio.Event()

        def heard(message: t.Message) -> None:
            name = waiting.get(message.subject, "")
            if links.get(name) != message.connection:  # another box cannot answer for it
                return
            del waiting[message.subject]
            self._known[name].disk = disk_of(message.payload)
            if not waiting:
                done.set()

        subscription = plane.subscribe(account, f"{inbox}.*", heard)
        try:
            for name in links:
                reply = f"{inbox}.{secrets.token_hex(8)}"
                waiting[reply] = name
                plane.publish(account, f"$JS.{name}.API.INFO", b"", reply=reply)
                await pause()
            with trio.move_on_after(PATIENCE_S):
                await done.wait()
        finally:
            plane.unsubscribe(account, subscription)


def disk_of(payload: bytes) -> Disk | None:
    """The disk use in an answer; None where the answer has none."""
    try:
        told = json.loads(payload) if len(payload) <= ANSWER_MAX else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, dict):
        return None
    stored, limits = told.get("storage"), told.get("limits")
    most = limits.get("max_storage") if isinstance(limits, dict) else None
    if type(stored) is not int or not 0 <= stored < 1 << 63:
        return None
    return Disk(stored, most if type(most) is int and 0 < most < 1 << 63 else None)
