"""When a connection is looked at that has not said in time who it is; time is trio's mock clock."""

from __future__ import annotations

import trio
import trio.testing
from leafd.guard import Guard
from leafd.logins.deadlines import AT_ONCE_S, PATIENT_MAX, Deadlines, LoginTimes


def test_deadlines() -> None:
    """Each connection is looked at when its time is over, in the order of the times."""
    seen: list[tuple[int, float]] = []

    async def main() -> None:
        deadlines = Deadlines(lambda connection: seen.append((connection, trio.current_time() - began)))
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(deadlines.run)
            deadlines.add(1, 2.0)
            await trio.sleep(1)
            deadlines.add(2, 2.0)
            await trio.sleep(5)
            deadlines.add(3, 1.0)
            await trio.sleep(1.5)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert [(1, 2.0), (2, 3.0), (3, 7.0)] == [(connection, round(at, 6)) for connection, at in seen]


def ended(timeouts: list[tuple[float, bool]], through: dict[int, float]) -> dict[int, float]:
    """Connections with a time each, and whether they are patient with it, come at once: when each was ended. through:
    when some have logged in."""
    seen: dict[int, float] = {}

    async def main() -> None:
        def waits(connection: int) -> bool:
            return connection not in seen and trio.current_time() - began < through.get(connection, 1e9)

        def end(connection: int, why: str) -> None:
            assert why
            seen[connection] = round(trio.current_time() - began, 1)

        times = LoginTimes(waits, end, Guard())
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(times.run)
            for connection, (timeout_s, patient) in enumerate(timeouts):
                times.add(connection, timeout_s, patient=patient)
            await trio.sleep(200)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    return seen


def test_a_device_has_longer_than_a_client_and_nobody_waits_behind_it() -> None:
    """Each its own time, whoever came first; and who has logged in none."""
    assert {1: 2.0, 2: 30.0, 0: 60.0} == ended([(60.0, True), (2.0, False), (30.0, False), (60.0, True)], {3: 5.0})


def test_devices_that_are_not_through_at_once_are_bounded_by_number() -> None:
    """Those who came first go."""
    seen = ended([(60.0, True)] * (PATIENT_MAX + 10), {})
    assert all(AT_ONCE_S <= seen[connection] < AT_ONCE_S + 1 for connection in range(10))
    assert all(60.0 <= seen[connection] < 61 for connection in range(10, PATIENT_MAX + 10))
