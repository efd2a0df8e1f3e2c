"""The subjects of many owners in one trie: which owners' subjects meet these?

    put(), drop()   at once, and cost nothing: an owner's subjects are noted
    met(), owners() first work off what was noted since the last question, then walk the trie with what is asked

So a question costs what its own subjects cost and what it finds, however many owners there are. Only a `*` has to look
at all there is in its place. Both pause (turns.py), and both put up with a change while they do. Streams of an account
and consumers of a workqueue are owners, by name. Not here: what two subjects are to each other
(subjects.py), counting bytes (taken.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import trio

from leafd.jetstream.subjects import END, REST, STEPS_MAX, Node, Steps, SubjectSet
from leafd.turns import Pause

_NOBODY: Final[tuple[str, ...]] = ()


class SubjectIndex:
    """All owners and their subjects. A node is that of a SubjectSet, with the owners in place of the numbers."""

    def __init__(self) -> None:
        self._root: Node = {}
        self._wanted: dict[str, tuple[str, ...]] = {}
        self._held: dict[str, tuple[str, ...]] = {}  # at least what the trie has of each
        self._stale: dict[str, None] = {}
        self._lock = trio.Lock()
        self._subjects = 0

    def put(self, owner: str, subjects: tuple[str, ...]) -> None:
        """Sets the owner's subjects, in place of the earlier ones."""
        self._subjects += len(subjects) - len(self._wanted.get(owner, ()))
        self._wanted[owner] = subjects
        self._stale[owner] = None

    def drop(self, owner: str) -> None:
        """The owner has none any more."""
        self._subjects -= len(self._wanted.pop(owner, ()))
        self._stale[owner] = None

    async def met(self, subjects: SubjectSet, *, beside: str = "") -> bool:
        """Whether one of these meets a subject of another owner. Raises the ApiError where wildcards on both sides take
        too many steps."""
        pause = Pause()
        await self._settle(pause)
        # An owner's own subjects are found, too, and stepped over: no more than it has.
        for owner in self._walk(subjects):
            if owner is not None and owner != beside and owner in self._wanted:
                return True
            await pause()
        return False

    async def owners(self, subjects: SubjectSet) -> set[str]:
        """All whose subjects meet one of these. Raises as met()."""
        pause, found = Pause(), set()
        await self._settle(pause)
        for owner in self._walk(subjects):
            if owner is not None:
                found.add(owner)
            await pause()
        return found & self._wanted.keys()

    def _walk(self, subjects: SubjectSet) -> Iterator[str | None]:
        return walk(subjects.root, self._root, Steps(STEPS_MAX + self._subjects))

    async def _settle(self, pause: Pause) -> None:
        """Works off what was noted; in most cases that is one owner, and nobody has to wait."""
        if not self._stale and not self._lock.locked():
            return
        try:
            self._lock.acquire_nowait()
        except trio.WouldBlock:
            await self._lock.acquire()
        try:
            while self._stale:
                owner = next(iter(self._stale))
                del self._stale[owner]
                await self._renew(owner, pause)
        finally:
            self._lock.release()

    async def _renew(self, owner: str, pause: Pause) -> None:
        """Makes the trie have what is wanted. A cancelled call leaves the owner to the next question."""
        held, wanted = self._held.get(owner, ()), self._wanted.get(owner, ())
        self._held[owner] = held + wanted
        try:
            for subject in held:
                self._take_out(owner, subject)
                await pause()
            for subject in wanted:
                self._put_in(owner, subject)
                await pause()
        except trio.Cancelled:
            self._stale[owner] = None
            raise
        if wanted:
            self._held[owner] = wanted
        else:
            del self._held[owner]

    def _put_in(self, owner: str, subject: str) -> None:
        node, end = self._root, END
        for token in subject.split("."):
            if token == ">":
                end = REST
                break
            found = node.get(token)
            if found is None:
                found = node[token] = {}
            node = found
        owners = node.get(end, _NOBODY)
        if owner not in owners:
            node[end] = (*owners, owner)

    def _take_out(self, owner: str, subject: str) -> None:
        node, end = self._root, END
        path: list[tuple[Node, str]] = []
        for token in subject.split("."):
            if token == ">":
                end = REST
                break
            if token not in node:
                return
            path.append((node, token))
            node = node[token]
        left = tuple(one for one in node.get(end, _NOBODY) if one != owner)
        if left:
            node[end] = left
        else:
            node.pop(end, None)
        while path and not node:
            node, token = path.pop()
            del node[token]


def walk(asked: Node, held: Node, steps: Steps) -> Iterator[str | None]:
    """The owners below `held` whose subjects meet one below `asked`, and a None for each step. What was put in or
    taken out while the caller held the iterator may be missed."""
    pairs = [(asked, held)]
    while pairs:
        one, other = pairs.pop()
        steps.take(1)
        yield None
        if END in one:
            yield from other.get(END, _NOBODY)
        if REST in one:
            yield from other.get(REST, _NOBODY)
            yield from _below(other, steps)
            continue  # nothing of this pair is left to be found
        if REST in other and len(one) > (END in one):
            yield from other[REST]
        star, other_star = one.get("*"), other.get("*")
        if star is not None:
            pairs += [(star, child) for token, child in other.items() if token not in (END, REST)]
        if other_star is not None:
            pairs += [(child, other_star) for token, child in one.items() if token not in (END, REST, "*")]
        small, large = (one, other) if len(one) <= len(other) else (other, one)
        pairs += [(one[t], other[t]) for t in small if t in large and t not in (END, REST, "*")]


def _below(node: Node, steps: Steps) -> Iterator[str | None]:
    """All owners of subjects that go on behind this node."""
    waiting: list[Any] = [child for token, child in node.items() if token not in (END, REST)]
    while waiting:
        node = waiting.pop()
        steps.take(1)
        yield None
        yield from node.get(END, _NOBODY)
        yield from node.get(REST, _NOBODY)
        waiting += [child for token, child in node.items() if token not in (END, REST)]
