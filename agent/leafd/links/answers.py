"""What origins answer waits here and is looked at in slices, so that a client's login passes by a thousand answers.

    plane --message--> put() --in order, in slices--> take() --> repaid, or kept by who took it

A hub that is back asks all its boxes at once, and they answer at once. An answer costs some tenths of a millisecond;
events of the plane are handled in their order, and that of a client that connects a moment later is behind them. What
waits is kept (native_types.Handler): its connection's credit bounds it, and nothing is read behind it. What does not
live here: what an answer means (replica.py), what follows from it (replicas.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import trio

from leafd import native_types as t
from leafd.guard import Guard
from leafd.turns import Pause

Take = Callable[[t.Message], bool]
"""Looks at an answer. Whether it keeps it, and repays it later."""


class Answers:
    """Those of all slots. `run` looks at them."""

    def __init__(self, repay: Callable[[t.Message], None], guard: Guard) -> None:
        self._repay = repay
        self._guard = guard
        self._waiting: deque[tuple[Take, t.Message]] = deque()
        self._work = trio.Event()

    def put(self, take: Take, message: t.Message) -> bool:
        """For a handler: the message is kept."""
        self._waiting.append((take, message))
        self._work.set()
        return True

    async def run(self) -> None:
        """Has them looked at, for ever. Cancel to end it."""
        while True:
            pause = Pause()
            while self._waiting:
                take, message = self._waiting.popleft()
                kept = False
                with self._guard.around("an origin's answer"):
                    kept = take(message)
                if not kept:
                    self._repay(message)
                await pause()
            self._work = trio.Event()
            await self._work.wait()


def header_of(block: bytes, name: str) -> str:
    """A field of a message's header, or ""."""
    for line in block.split(b"\r\n")[1:]:
        field, colon, value = line.partition(b":")
        if colon and field.decode("utf-8", "replace") == name:
            return value.strip().decode("utf-8", "replace")
    return ""
