"""What waits for its turn: one queue for each asker, served in turn, groups of askers first.

    put(group, asker, item)  -->  groups in turn > askers in turn > oldest (or newest)  -->  take(), then done()

API requests wait like this (accounts and their connections), and passwords to be checked (addresses and user names). An
asker's items stay in their order, unless asked otherwise. What a queue may hold is its share of what all may hold, so
that whoever asks at full speed loses his own items and nobody else's; whoever asks little is served next. At most
at_work are at work, and of one asker at_work_each. What does not live here: what an item is.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

import trio

LEAST: Final = 64
"""Items that each asker may have waiting, however many askers there are."""

_Item = TypeVar("_Item")


class _Queue(Generic[_Item]):
    """One asker's items: waiting, and how many are at work."""

    __slots__ = ("at_work", "bytes", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[tuple[_Item, int]] = deque()
        self.bytes = 0
        self.at_work = 0


class FairQueue(Generic[_Item]):
    """All queues. waiting, size: how many items, and bytes of them, may wait. done() must follow each take().

    outdated: for items that are worth nothing when they have waited too long. The newest are served first, so that an
    overloaded queue serves some in time instead of each of them too late; where one too many waits, the oldest is
    handed to this function.
    """

    def __init__(
        self,
        *,
        waiting: int,
        size: int,
        at_work: int,
        at_work_each: int,
        outdated: Callable[[_Item], None] | None = None,
    ) -> None:
        self._outdated = outdated
        self._most_waiting = waiting
        self._most_bytes = size
        self._most_at_work = at_work
        self._most_at_work_each = at_work_each
        # Both in the order of their turns; a queue that may not be served at the moment is not in _ready.
        self._ready: OrderedDict[Hashable, OrderedDict[Hashable, None]] = OrderedDict()
        self._queues: dict[tuple[Hashable, Hashable], _Queue[_Item]] = {}
        self._at_work = 0
        self._change = trio.Event()
        self.dropped = 0

    def put(self, group: Hashable, asker: Hashable, item: _Item, size: int = 0) -> bool:
        """False: the asker has too many waiting, and this one is dropped. His first one is always taken up."""
        key = (group, asker)
        queue = self._queues.get(key)
        share = len(self._queues) + (queue is None)
        if queue is not None and queue.waiting:
            many = len(queue.waiting) >= max(self._most_waiting // share, LEAST)
            if many or queue.bytes + size > self._most_bytes // share:
                self.dropped += 1
                if self._outdated is None:
                    return False
                oldest, its_size = queue.waiting.popleft()
                queue.bytes -= its_size
                self._outdated(oldest)
        if queue is None:
            queue = self._queues[key] = _Queue()
        queue.waiting.append((item, size))
        queue.bytes += size
        self._refresh(key, queue)
        return True

    def _refresh(self, key: tuple[Hashable, Hashable], queue: _Queue[_Item]) -> None:
        """A queue with something to serve gets its turn behind the others; an empty one is forgotten."""
        group, asker = key
        if queue.waiting and queue.at_work < self._most_at_work_each:
            self._ready.setdefault(group, OrderedDict()).setdefault(asker)
            self._change.set()
        elif not queue.waiting and not queue.at_work:
            del self._queues[key]

    async def take(self) -> _Item:
        """The next one; it is at work from now on. For one task at a time."""
        await trio.lowlevel.checkpoint()
        while not self._ready or self._at_work >= self._most_at_work:
            self._change = trio.Event()
            await self._change.wait()
        group, askers = self._ready.popitem(last=False)
        asker, _ = askers.popitem(last=False)
        if askers:
            self._ready[group] = askers
        queue = self._queues[group, asker]
        item, size = queue.waiting.popleft() if self._outdated is None else queue.waiting.pop()
        queue.bytes -= size
        queue.at_work += 1
        self._at_work += 1
        self._refresh((group, asker), queue)
        return item

    def done(self, group: Hashable, asker: Hashable) -> None:
        """An item that was taken is finished with."""
        queue = self._queues[group, asker]
        queue.at_work -= 1
        self._at_work -= 1
        self._refresh((group, asker), queue)
        self._change.set()
