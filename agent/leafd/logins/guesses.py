"""Passwords whose check is slow on purpose (bcrypt: a tenth of a second of CPU), for clients and leafs.

    check(who asks, judge)  -->  queue of that listener and address, by user name  -->  one of few threads  -->  verdict

The control thread never waits for one. Listeners and addresses take turns, and within an address the user names do: 30
connections that guess at the leaf port cost a client one guess of waiting. Guesses of one name from one address wait
behind themselves only, and so do other logins by that name from there. Newest first: a login has a deadline, and a
guess that is checked after it was checked in vain. Several failures from an address make the refusals after them late,
which costs the guesser time and this machine nothing. Nothing about passwords is kept. Not here: what a verdict is
(auth/), the deadline of a login (clients.py, server.py).
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import field
from functools import partial
from typing import Final

import trio

from leafd.auth.verdict import AUTHORIZATION_VIOLATION, Refusal, Verdict
from leafd.fair import FairQueue
from leafd.guard import Guard
from leafd.records import dataclass

WAITING_MAX: Final = 256
"""Guesses that may wait: more could not be checked before their logins' deadlines on any machine."""
FREE_FAILURES: Final = 5
FORGOTTEN_S: Final = 60.0
LATE_S: Final = 1.0
ADDRESSES_MAX: Final = 4096
_NAME_MAX: Final = 128

Judge = Callable[[], Verdict | Refusal]


def workers() -> int:
    """Threads that check passwords: half of the machine's cores, the other half carries the messages."""
    return max(1, min((os.cpu_count() or 1) // 2 + (os.cpu_count() == 2), 4))


@dataclass(slots=True, eq=False)
class _Guess:
    """One login that waits. wanted: whether its connection is still there."""

    group: tuple[str, str]
    name: str
    judge: Judge
    wanted: Callable[[], bool]
    verdict: Verdict | Refusal = field(default_factory=partial(Refusal, AUTHORIZATION_VIOLATION))
    done: trio.Event = field(default_factory=trio.Event)


class Guesses:
    """All slow checks of this server. run() serves them until cancelled."""

    def __init__(self, guard: Guard, threads: int = 0, *, patient: bool = False) -> None:
        """patient: for checks that take no time to speak of and cannot be guessed at (signatures). Each waits for its
        turn, however many there are, and refusals are not late."""
        self._guard = guard
        self._patient = patient
        threads = threads or workers()
        self._queue: FairQueue[_Guess] = FairQueue(
            waiting=WAITING_MAX,
            at_work=threads,
            at_work_each=threads,
            outdated=None if patient else lambda guess: guess.done.set(),
        )
        self._limiter = trio.CapacityLimiter(threads)
        self._failures: OrderedDict[tuple[str, str], tuple[int, float]] = OrderedDict()

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Starts checks in their turns, as many at once as there are threads for them."""
        async with trio.open_nursery() as nursery:
            task_status.started()
            while True:
                nursery.start_soon(self._work, await self._queue.take())

    async def _work(self, guess: _Guess) -> None:
        try:
            if guess.wanted():
                guess.verdict = await trio.to_thread.run_sync(guess.judge, limiter=self._limiter)
        except Exception as error:
            self._guard.caught("checking a password", error)
        finally:
            self._queue.done(guess.group, guess.name)
            guess.done.set()

    async def check(
        self, listener: str, address: str, name: str, judge: Judge, wanted: Callable[[], bool]
    ) -> Verdict | Refusal:
        """The result of `judge`, run on a thread in its turn. judge must be pure."""
        guess = _Guess((listener, address), name[:_NAME_MAX], judge, wanted)
        self._queue.put(guess.group, guess.name, guess)
        await guess.done.wait()
        if isinstance(guess.verdict, Refusal) and not self._patient and self._failed(guess.group) > FREE_FAILURES:
            await trio.sleep(LATE_S)
        return guess.verdict

    def _failed(self, group: tuple[str, str]) -> int:
        """How often an address has failed lately, this time included."""
        now = trio.current_time()
        count, last = self._failures.pop(group, (0, now))
        count = 1 if now - last > FORGOTTEN_S else count + 1
        self._failures[group] = (count, now)
        if len(self._failures) > ADDRESSES_MAX:
            self._failures.popitem(last=False)
        return count
