"""A fair queue: one queue for each asker, served in turn, groups of askers first.

    put(group, asker, item)  -->  groups in turn > askers in turn > oldest (or newest)  -->  take(), then done()
    begin(group, asker)      -->  at work at once, where nobody waits; then done()

API requests wait like this (accounts and their connections), and passwords to be checked (addresses and user names). An
asker's items stay in their order, unless asked otherwise. An asker at full speed waits behind himself; one that asks
little is served next. At most at_work are at work, and of one asker at_work_each. Where these differ, places are kept
for newcomers, too: a group takes no more of them than it leaves free, and an asker no more than his group could still
take. Not here: what an item is, and how much may wait, which is the business of the code that puts it in (the plane's
credit for each connection) or of `outdated`.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

import trio

LEAST: Final = 64
"""Items that each asker may have waiting, however many askers there are, before the oldest is outdated."""

_Item = TypeVar("_Item")


class _Queue(Generic[_Item]):
    """One asker's items: waiting, and how many are at work."""

    __slots__ = ("at_work", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[_Item] = deque()
        self.at_work = 0


class FairQueue(Generic[_Item]):
    """All queues. done() must follow each take(), and each begin() that says yes.

    outdated: for items that are worth nothing when they have waited too long. The newest are served first, so that an
    overloaded queue serves some in time instead of each of them too late; of `waiting` items each asker has his share,
    and where one too many waits, the oldest is handed to this function.
    """

    def __init__(
        self,
        *,
        at_work: int,
        at_work_each: int,
        waiting: int = 0,
        outdated: Callable[[_Item], None] | None = None,
    ) -> None:
        self._outdated = outdated
        self._most_waiting = waiting
        self._most_at_work = at_work
        self._most_at_work_each = at_work_each
        # Both in the order of their turns; a queue that has nothing waiting or its most at work is not in _ready.
        self._ready: OrderedDict[Hashable, OrderedDict[Hashable, None]] = OrderedDict()
        self._queues: dict[tuple[Hashable, Hashable], _Queue[_Item]] = {}
        self._groups: dict[Hashable, int] = {}  # at work, where any are
        self._at_work = 0
        self._change = trio.Event()
        self._idle = False  # take() waits

    def put(self, group: Hashable, asker: Hashable, item: _Item) -> None:
        """One more that waits."""
        key = (group, asker)
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = _Queue()
        if self._outdated is not None and len(queue.waiting) >= max(self._most_waiting // len(self._queues), LEAST):
            self._outdated(queue.waiting.popleft())
        queue.waiting.append(item)
        self._refresh(key, queue)

    def begin(self, group: Hashable, asker: Hashable) -> bool:
        """Whether an item may be at work at once, without a turn of take(): nobody waits, and the asker has nothing
        here before which it would be begun. It counts as at work then; else put() it.

        While take() is on its way to something else the answer is no: it could take the asker's next one before what
        is begun here has had its turn."""
        key = (group, asker)
        if not self._idle or self._ready or key in self._queues or self._room(group) <= 0:
            return False
        queue = self._queues[key] = _Queue()
        self._begun(key, queue)
        return True

    def _begun(self, key: tuple[Hashable, Hashable], queue: _Queue[_Item]) -> None:
        queue.at_work += 1
        self._groups[key[0]] = self._groups.get(key[0], 0) + 1
        self._at_work += 1

    def _room(self, group: Hashable) -> int:
        """How many items an asker of that group may have at work."""
        free = self._most_at_work - self._at_work
        if free <= 0:
            return 0
        if self._most_at_work_each == self._most_at_work:
            return self._most_at_work
        return free - self._groups.get(group, 0)

    def _refresh(self, key: tuple[Hashable, Hashable], queue: _Queue[_Item]) -> None:
        """A queue with something to serve gets its turn behind the others; an empty one is forgotten."""
        group, asker = key
        if queue.waiting and queue.at_work < self._most_at_work_each:
            self._ready.setdefault(group, OrderedDict()).setdefault(asker)
            self._change.set()
        elif not queue.waiting and not queue.at_work:
            del self._queues[key]

    def _next(self) -> tuple[Hashable, Hashable] | None:
        """Whose turn it is. Only who has something at work can be passed over, and those are no more than places."""
        if self._at_work >= self._most_at_work:
            return None
        for group, askers in self._ready.items():
            room = self._room(group)
            for asker in askers if room > 0 else ():
                if self._queues[group, asker].at_work < room:
                    return group, asker
        return None

    async def take(self) -> _Item:
        """The next one; it is at work from now on. For one task at a time."""
        await trio.lowlevel.checkpoint()
        while (turn := self._next()) is None:
            self._change = trio.Event()
            self._idle = True
            await self._change.wait()
            self._idle = False
        group, asker = turn
        askers = self._ready.pop(group)
        del askers[asker]
        if askers:
            self._ready[group] = askers
        queue = self._queues[turn]
        item = queue.waiting.popleft() if self._outdated is None else queue.waiting.pop()
        self._begun(turn, queue)
        self._refresh(turn, queue)
        return item

    def done(self, group: Hashable, asker: Hashable) -> None:
        """An item that was taken is finished with."""
        queue = self._queues[group, asker]
        queue.at_work -= 1
        self._groups[group] -= 1
        if not self._groups[group]:
            del self._groups[group]
        self._at_work -= 1
        self._refresh((group, asker), queue)
        if self._ready:
            self._change.set()
