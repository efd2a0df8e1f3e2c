"""What fills a mirror's holes believes its origin, and nobody else. Played against a plane that writes down.

Not here: holes that damage made in a real store, and origins of either kind
(crash/test_mirror_holes.py).
"""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import replace
from typing import Any

import trio.testing
from leafd import native_types as t
from leafd.links.holes import Copy, Hole, Holes
from leafd.links.lag import SlotInfo

from tests.rig.logs import QuietLog
from tests.rig.planes import Unwilling
from tests.unit.links.replica_stage import SLOT

ORIGIN, STRANGER = 1, 2
MIRROR = replace(SLOT, number=0, mirror=True)
COPY = Copy((MIRROR,), limited=False, counts=False, removes=False, taken={})


def answer(sequence: int, subject: str) -> bytes:
    """As JetStream's API gives a message."""
    message = {"subject": subject, "seq": sequence, "data": b64encode(b"x").decode(), "time": "2026-01-01T00:00:00Z"}
    return json.dumps({"message": message}).encode()


class Plane(Unwilling):
    """Each request is answered by a stranger first, then by the origin."""

    def __init__(self) -> None:
        super().__init__()
        self.handlers: dict[int, t.Handler] = {}
        self.filled: list[tuple[int, str]] = []

    def subscribe(self, account: int, subject: str, handler: t.Handler, **parts: Any) -> int:
        self.handlers[len(self.handlers) + 1] = handler
        return len(self.handlers)

    def unsubscribe(self, account: int, subscription: int) -> None: ...

    async def publish_counted(
        self, account: int, subject: str, payload: bytes, *, reply: str = "", **parts: Any
    ) -> int:
        handler = self.handlers[len(self.handlers)]
        sequence = json.loads(payload)["seq"]
        for connection, name in ((STRANGER, "forged"), (ORIGIN, "true")):
            handler(t.Message(1, account, connection, 2, reply, "", b"", answer(sequence, name)))
        return 2

    async def stream_fill(self, stream: int, last: int, *, sequence: int, subject: str = "", **parts: Any) -> bool:
        self.filled.append((sequence, subject))
        return True


async def level(stream: int, number: int) -> SlotInfo:
    return SlotInfo(running=True, known=True)


def test_an_answer_of_anybody_but_the_origin_is_not_stored() -> None:
    plane = Plane()
    holes = Holes(plane, QuietLog(), lambda stream: COPY, level, lambda slot, connection: connection == ORIGIN)

    async def fill() -> None:
        await holes.fill(Hole(MIRROR.stream, 5, 7, certain=True))

    trio.run(fill, clock=trio.testing.MockClock(autojump_threshold=0))
    assert [(5, "true"), (6, "true"), (7, "true")] == plane.filled
    assert 3 == holes.stored
