"""Requests that wait for their turn: one queue for each connection, served in turn, accounts first.

    put(account, connection, request, size)  -->  accounts in turn > connections in turn > oldest  -->  await take()

A connection's requests stay in their order. What a queue may hold is its share of what all may hold, so that whoever
asks at full speed loses his own requests and nobody else's; whoever asks little is served next. At most AT_WORK_MAX are
at work, and of one connection its share. What does not live here: what a request is.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Final, Generic, TypeVar

import trio

REQUESTS_MAX: Final = 10_000
BYTES_MAX: Final = 64 << 20
LEAST: Final = 8
"""Requests that each connection may have waiting, however many connections there are."""
AT_WORK_MAX: Final = 64
AT_WORK_EACH: Final = 16

_Request = TypeVar("_Request")


class _Queue(Generic[_Request]):
    """One connection's requests: waiting, and how many are at work."""

    __slots__ = ("at_work", "bytes", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[tuple[_Request, int]] = deque()
        self.bytes = 0
        self.at_work = 0


class Requests(Generic[_Request]):
    """All queues. done() must follow each take()."""

    def __init__(self) -> None:
        # Both in the order of their turns; a queue that may not be served at the moment is not in _ready.
        self._ready: OrderedDict[int, OrderedDict[int, None]] = OrderedDict()
        self._queues: dict[tuple[int, int], _Queue[_Request]] = {}
        self._at_work = 0
        self._change = trio.Event()
        self.dropped = 0

    def put(self, account: int, connection: int, request: _Request, size: int) -> bool:
        """False: the connection has too many waiting, and this one is dropped."""
        key = (account, connection)
        queue = self._queues.get(key)
        share = len(self._queues) + (queue is None)
        if queue is not None and queue.waiting:
            many = len(queue.waiting) >= max(REQUESTS_MAX // share, LEAST)
            if many or queue.bytes + size > BYTES_MAX // share:
                self.dropped += 1
                return False
        if queue is None:
            queue = self._queues[key] = _Queue()
        queue.waiting.append((request, size))
        queue.bytes += size
        self._refresh(key, queue)
        return True

    def _refresh(self, key: tuple[int, int], queue: _Queue[_Request]) -> None:
        """A queue with something to serve gets its turn behind the others; an empty one is forgotten."""
        account, connection = key
        if queue.waiting and queue.at_work < AT_WORK_EACH:
            self._ready.setdefault(account, OrderedDict()).setdefault(connection)
            self._change.set()
        elif not queue.waiting and not queue.at_work:
            del self._queues[key]

    async def take(self) -> _Request:
        """The next one; it is at work from now on."""
        await trio.lowlevel.checkpoint()
        while not self._ready or self._at_work >= AT_WORK_MAX:
            self._change = trio.Event()
            await self._change.wait()
        account, connections = self._ready.popitem(last=False)
        connection, _ = connections.popitem(last=False)
        if connections:
            self._ready[account] = connections
        queue = self._queues[account, connection]
        request, size = queue.waiting.popleft()
        queue.bytes -= size
        queue.at_work += 1
        self._at_work += 1
        self._refresh((account, connection), queue)
        return request

    def done(self, account: int, connection: int) -> None:
        """A request that was taken is finished with."""
        queue = self._queues[account, connection]
        queue.at_work -= 1
        self._at_work -= 1
        self._refresh((account, connection), queue)
        self._change.set()
