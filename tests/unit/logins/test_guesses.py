"""Slow password checks: on few threads, in fair turns, and delayed refusals for an address that keeps failing."""

from __future__ import annotations

import threading
import time
from functools import partial

import trio
import trio.testing
from leafd.auth.verdict import AUTHORIZATION_VIOLATION, Refusal, Verdict
from leafd.guard import Guard
from leafd.logins.guesses import FREE_FAILURES, LATE_S, WAITING_MAX, Guesses

GOOD = Verdict("A", "u")
BAD = Refusal(AUTHORIZATION_VIOLATION)


class Checks:
    """Remembers in which order checks began, and on which threads."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.threads: set[int] = set()
        self.at_once = self.most_at_once = 0

    def judge(self, name: str, verdict: Verdict | Refusal = GOOD) -> Verdict | Refusal:
        self.order.append(name)
        self.threads.add(threading.get_ident())
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        time.sleep(0.002)
        self.at_once -= 1
        return verdict


def asked(guesses: Guesses, checks: Checks, *who: tuple[str, str, str]) -> dict[str, Verdict | Refusal]:
    """Everybody asks at once; the verdicts."""
    found = {}

    async def ask(listener: str, address: str, name: str, label: str) -> None:
        found[label] = await guesses.check(listener, address, name, lambda: checks.judge(label), lambda: True)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for number, one in enumerate(who):
                nursery.start_soon(ask, *one, f"{'/'.join(one)}#{number}")
                await trio.testing.wait_all_tasks_blocked()
            await nursery.start(guesses.run)
            while len(found) < len(who):
                await trio.sleep(0.001)
            nursery.cancel_scope.cancel()

    trio.run(main)
    return found


def test_a_flood_of_guesses_costs_others_one_guess_of_waiting() -> None:
    """Thirty leafs guess one name from one address: a client, another address and another name are served at once."""
    checks = Checks()
    flood = [("leafs", "::1", "u")] * 30
    asked(Guesses(Guard(), 1), checks, *flood, ("clients", "::1", "u"), ("leafs", "::2", "u"), ("leafs", "::1", "v"))
    assert {"clients/::1/u#30", "leafs/::2/u#31", "leafs/::1/v#32"} < set(checks.order[:6])


def test_checks_run_on_a_bounded_number_of_threads_and_never_on_the_control_thread() -> None:
    """However many ask at once."""
    checks = Checks()
    asked(Guesses(Guard(), 2), checks, *[("clients", f"::{n}", "u") for n in range(40)])
    assert threading.get_ident() not in checks.threads
    assert checks.most_at_once <= 2
    assert 40 == len(checks.order)


def test_more_guesses_than_can_be_checked_in_time_are_refused_unchecked_the_oldest_first() -> None:
    """One name from one address fills its own queue; newcomers, there and elsewhere, are still taken up."""
    checks = Checks()
    found = asked(Guesses(Guard(), 1), checks, *[("clients", "::1", "u")] * (WAITING_MAX + 10), ("clients", "::2", "u"))
    assert WAITING_MAX + 1 >= len(checks.order)
    assert GOOD == found[f"clients/::2/u#{WAITING_MAX + 10}"]
    assert BAD == found["clients/::1/u#0"]
    assert GOOD == found[f"clients/::1/u#{WAITING_MAX + 9}"]


def test_of_one_name_from_one_address_the_newest_is_checked_first() -> None:
    """Logins have a deadline: a queue that is too long serves the newest in time and not the oldest too late."""
    checks = Checks()
    asked(Guesses(Guard(), 1), checks, *[("leafs", "::1", "u")] * 4)
    assert [f"leafs/::1/u#{n}" for n in (3, 2, 1, 0)] == checks.order


def test_a_guess_whose_connection_has_gone_costs_nothing() -> None:
    """It is not checked any more when its turn comes."""

    async def main() -> None:
        guesses, checks = Guesses(Guard(), 1), Checks()
        async with trio.open_nursery() as nursery:
            await nursery.start(guesses.run)
            assert BAD == await guesses.check("clients", "::1", "u", lambda: checks.judge("x"), lambda: False)
            nursery.cancel_scope.cancel()
        assert not checks.order

    trio.run(main)


def test_a_check_that_raises_is_a_refusal() -> None:
    """An exception in the check of one password ends neither the workers nor the server."""

    async def main() -> None:
        guard = Guard()
        guesses = Guesses(guard, 1)

        def broken() -> Verdict:
            raise ZeroDivisionError

        async with trio.open_nursery() as nursery:
            await nursery.start(guesses.run)
            assert BAD == await guesses.check("clients", "::1", "u", broken, lambda: True)
            assert GOOD == await guesses.check("clients", "::1", "u", lambda: GOOD, lambda: True)
            nursery.cancel_scope.cancel()
        assert 1 == guard.figures()["unexpected_errors"]

    trio.run(main)


def told(verdict: Verdict | Refusal) -> Verdict | Refusal:
    return verdict


def test_the_first_failures_are_told_at_once_and_the_later_ones_late() -> None:
    """A mistyped password costs no patience, a hundred of them do; a good one never waits."""

    async def main() -> None:
        guesses = Guesses(Guard(), 1)
        clock: list[float] = []
        async with trio.open_nursery() as nursery:
            await nursery.start(guesses.run)
            verdicts: list[Verdict | Refusal] = [*[BAD] * (FREE_FAILURES + 2), GOOD]
            for verdict in verdicts:
                before = trio.current_time()
                await guesses.check("clients", "::1", "u", partial(told, verdict), lambda: True)
                clock.append(trio.current_time() - before)
            nursery.cancel_scope.cancel()
        assert all(took < LATE_S for took in (*clock[:FREE_FAILURES], clock[-1]))
        assert all(took >= LATE_S for took in clock[FREE_FAILURES:-1])

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0.05))
