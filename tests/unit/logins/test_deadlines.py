"""How long logins may take (logins/deadlines.py); time is trio's mock clock."""

from __future__ import annotations

from collections.abc import Callable

import trio
import trio.testing
from leafd.guard import Guard
from leafd.logins.deadlines import AT_ONCE_S, PATIENT_MAX, Awaits, LoginTimes


def ended(
    timeouts: list[tuple[float, bool]],
    through: dict[int, float],
    ours: Callable[[int, float], bool] = lambda connection, second: False,
    every_s: float = 0.0,
) -> dict[int, float]:
    """Connections with a time each, and whether they are patient with it, come one after the other: when each was
    ended. through: when some have logged in. ours: which of them waits for us at a time."""
    seen: dict[int, float] = {}

    async def main() -> None:
        def awaits(connection: int) -> Awaits:
            second = trio.current_time() - began
            if connection in seen or second >= through.get(connection, 1e9):
                return Awaits.NOTHING
            return Awaits.US if ours(connection, second) else Awaits.PEER

        def end(connection: int, why: str) -> None:
            assert why == "Authentication Timeout"
            seen[connection] = round(trio.current_time() - began, 1)

        times = LoginTimes(awaits, end, Guard())
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(times.run)
            for connection, (timeout_s, patient) in enumerate(timeouts):
                times.add(connection, timeout_s, patient=patient)
                if every_s:
                    await trio.sleep(every_s)
            await trio.sleep(200)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    return seen


def test_each_login_has_its_time_from_its_own_beginning() -> None:
    """A shorter time that begins later may end sooner."""
    assert {0: 2.0, 1: 3.0, 2: 2.5} == ended([(2.0, False), (2.0, False), (0.5, False)], {}, every_s=1.0)


def test_a_device_has_longer_than_a_client_and_nobody_waits_behind_it() -> None:
    """Each its own time, whoever came first; and a peer that has logged in none."""
    assert {1: 2.0, 2: 30.0, 0: 60.0} == ended([(60.0, True), (2.0, False), (30.0, False), (60.0, True)], {3: 5.0})


def test_devices_that_are_not_through_at_once_are_bounded_by_number() -> None:
    """Those who came first go."""
    seen = ended([(60.0, True)] * (PATIENT_MAX + 10), {})
    assert all(AT_ONCE_S <= seen[connection] < AT_ONCE_S + 1 for connection in range(10))
    assert all(60.0 <= seen[connection] < 61 for connection in range(10, PATIENT_MAX + 10))


def test_slow_logins_that_are_through_take_no_place() -> None:
    """The first of many is far away, and the others behind it log in after three seconds each: it has all its time."""
    others = 4 * PATIENT_MAX
    seen = ended([(60.0, True)] * (1 + others), {1 + one: 3.0 + one * 0.01 for one in range(others)}, every_s=0.01)
    assert list(seen) == [0]
    assert 60.0 <= seen[0] < 61


def test_a_login_that_waits_for_us_is_not_ended() -> None:
    """Be it looked at when it should be through at once, or when its time is over; then the peer's time runs again."""
    early = ended([(60.0, True)], {}, lambda connection, second: second < 10)
    assert 60.0 <= early[0] < 75
    late = ended([(2.0, False), (60.0, True)], {}, lambda connection, second: second < 10 or 50 < second < 70)
    assert 10.0 <= late[0] < 13
    assert 70.0 <= late[1] < 73
