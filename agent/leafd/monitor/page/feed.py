"""Views as server-sent events: made once for all readers, and only while there are any.

    readers wanted? --> view --> the readers that saw the one before get what changed, the others get the whole

A reader has no queue: a slow one gets the view of the moment when he comes round, and one that does not take it within
SEND_S is let go. Making views takes at most a tenth of the time, however many streams there are.
Not here: what a view is (view.py), who may read (routes.py).
"""

from __future__ import annotations

import json
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import trio

from leafd.monitor.facts import Facts
from leafd.monitor.page.history import History
from leafd.turns import ITEM_WEIGHT, aside

if TYPE_CHECKING:
    from leafd.monitor.page.view import View

READERS_MAX: Final = 12
"""The most readers, of the monitoring port's 32 connections."""
PERIOD_S: Final = 2.0
PERIOD_MAX_S: Final = 30.0
SHARE: Final = 10
"""A view that took a second to make is followed by nine of rest."""
SEND_S: Final = 10.0
KEEPALIVE_S: Final = 15.0
LIFE_S: Final = 600.0
"""Then the browser comes again, and is asked anew who it is."""
RETRY_MS: Final = 1000
_ROW: Final = 2 * ITEM_WEIGHT

Send = Callable[[bytes], Awaitable[None]]


class Feed:
    """The views of one server. run() makes them; follow() hands them to one reader until he leaves."""

    def __init__(self, facts: Facts, history: History) -> None:
        self._facts = facts
        self._history = history
        self._readers: OrderedDict[trio.CancelScope, str] = OrderedDict()
        self._wanted = trio.Event()
        self._fresh = trio.Event()
        self._number = 0
        self._view: View | None = None
        self._whole: bytes | None = None
        self._changes = b""

    # ---- making views

    async def run(self) -> None:
        """Views while there are readers, until cancelled."""
        while True:
            if not self._readers:
                self._view = self._whole = None
                self._wanted = trio.Event()
                await self._wanted.wait()
            began = time.monotonic()
            with self._facts.guard.around("the status page's view"):
                await self._make()
            await trio.sleep(min(max(PERIOD_S, (SHARE - 1) * (time.monotonic() - began)), PERIOD_MAX_S))

    async def _make(self) -> None:
        from leafd.monitor.page.view import changes, view

        before, made = self._view, await view(self._facts, self._history, self._view)
        rows = len(made.streams) + len(made.consumers)
        if before is not None:
            self._changes = await aside(rows * _ROW, self._event, "change", changes(before, made, self._history))
        self._view, self._whole, self._number = made, None, self._number + 1
        self._fresh.set()
        self._fresh = trio.Event()

    @staticmethod
    def _event(kind: str, what: dict[str, Any]) -> bytes:
        # JSON has no line breaks of its own, so one line of data is enough.
        return f"event: {kind}\ndata: {json.dumps(what, separators=(',', ':'))}\n\n".encode()

    async def _everything(self) -> bytes:
        from leafd.monitor.page.view import whole

        seen = self._view
        if self._whole is None and seen is not None:
            rows = len(seen.streams) + len(seen.consumers)
            made = await aside(rows * _ROW, self._event, "whole", whole(seen, self._history))
            if seen is self._view:
                self._whole = made
            return made
        return self._whole or b""

    # ---- readers

    @contextmanager
    def seat(self, address: str) -> Iterator[trio.CancelScope | None]:
        """A reader's place until LIFE_S is over, or None when there is none. Where all are taken, the address that has
        most of them gives up its oldest one for an address that has fewer."""
        if len(self._readers) >= READERS_MAX:
            taken = Counter(self._readers.values())
            most, number = taken.most_common(1)[0]
            if taken[address] + 1 >= number:
                yield None
                return
            oldest = next(scope for scope, owner in self._readers.items() if owner == most)
            del self._readers[oldest]
            oldest.cancel()
        with trio.move_on_after(LIFE_S) as scope:
            self._readers[scope] = address
            self._wanted.set()
            try:
                yield scope
            finally:
                self._readers.pop(scope, None)

    async def follow(self, send: Send) -> None:
        """Sends one reader what there is to be seen, as long as he takes it and nobody has reloaded the users."""
        loaded, seen = self._facts.loaded_ns, 0
        takes = await self._send(send, f"retry: {RETRY_MS}\n\n".encode())
        while takes and loaded == self._facts.loaded_ns:
            fresh, number = self._fresh, self._number
            if self._view is None or seen == number:
                with trio.move_on_after(KEEPALIVE_S) as waiting:
                    await fresh.wait()
                if waiting.cancelled_caught:
                    takes = await self._send(send, b": still here\n\n")
                continue
            text = self._changes if seen and seen == number - 1 else await self._everything()
            takes, seen = await self._send(send, text), number

    @staticmethod
    async def _send(send: Send, text: bytes) -> bool:
        """False: he did not take it in time."""
        with trio.move_on_after(SEND_S) as sending:
            await send(text)
        return not sending.cancelled_caught
