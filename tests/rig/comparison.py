"""The same walk at servers of leafd and at nats-servers, and whether both tell the same of it.

A nats-server on a busy machine says for a moment what it does not say afterwards: no place for a replica before it has
heard of the others, no responders, a list without what was just made. So leafd walks once, and nats-servers that tell
something else, or break off, walk once more, by new servers: what leafd does in another way is another way each time.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from tests import servers
from tests.rig import reference
from tests.rig.waiting import AGAIN_S

WALKS: Final = 3
WALKS_S: Final = 150.0
"""The time after which no walk begins: a test that takes much longer counts as one that hangs."""
EARLY_S: Final = 15.0
EARLY: Final = (10005, 10008, 10009)
"""No suitable peers, nobody leads or JetStream is not there yet: errors that may be gone a moment later."""
Told = TypeVar("Told")
Walk = Callable[[str, Path], Told]
"""Servers of that kind walk, with their files in that folder, which is a new one."""


def told_alike(walk: Walk[Told], folder: Path) -> Told:
    """The tales of both kinds of servers."""

    def place(name: str) -> Path:
        made = folder / name
        made.mkdir()
        return made

    began = time.monotonic()
    ours = walk(servers.LEAFD, place("ours"))
    for number in range(1, WALKS + 1):
        last = number == WALKS or time.monotonic() - began > WALKS_S
        try:
            theirs = walk(servers.REFERENCE, place(f"theirs-{number}"))
        except Exception as error:
            if last:
                error.add_note(reference.NOTE)
                raise
            continue
        if theirs == ours:
            return ours
        assert not last, difference(theirs, ours)
    raise AssertionError("there is no last walk")


@dataclass(frozen=True, slots=True)
class Pair:
    """One server of each kind with the same configuration, at which many walks follow each other."""

    ours: servers.Server
    theirs: servers.Server
    configuration: str

    def told_alike(self, walk: Callable[[servers.Server], Told], folder: Path) -> Told:
        """The tales of both. A nats-server that is to walk once more is another one."""
        untried = [self.theirs]

        def told(kind: str, _: Path) -> Told:
            if kind == servers.LEAFD or untried:
                return walk(self.ours if kind == servers.LEAFD else untried.pop())
            with servers.running(kind, self.configuration) as anew:
                return walk(anew)

        return told_alike(told, folder)


@contextlib.contextmanager
def pair(configuration: str) -> Iterator[Pair]:
    """Both are up."""
    with (
        servers.running(servers.LEAFD, configuration) as ours,
        servers.running(servers.REFERENCE, configuration) as theirs,
    ):
        yield Pair(ours, theirs, configuration)


def difference(theirs: object, ours: object) -> str:
    """The first thing that is told in another way."""
    if isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        pairs = zip(theirs, ours, strict=True)
        return next(f"{number}: {difference(*pair)}" for number, pair in enumerate(pairs) if pair[0] != pair[1])
    return f"nats-server tells {theirs!r}, leafd {ours!r}"


def is_early(answer: Any) -> bool:
    """Whether it may be the answer of a nats-server that will soon give another one."""
    if not isinstance(answer, dict) or not answer:
        return True
    cluster = answer.get("cluster", {"leader": "somebody"})
    return answer.get("error", {}).get("err_code") in EARLY or not cluster.get("leader") or answer.get("total") == 0


async def asked_again(ask: Callable[[], Awaitable[Any]], agrees: Callable[[Any], bool]) -> Any:
    """A nats-server's answer: the first answer that agrees with leafd's, or that is not early."""
    ends_at = time.monotonic() + EARLY_S
    while not agrees(answer := await ask()) and is_early(answer) and time.monotonic() < ends_at:
        await asyncio.sleep(AGAIN_S)
    return answer
