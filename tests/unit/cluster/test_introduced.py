"""A server that has just come is asked when it has told of itself."""

from __future__ import annotations

import trio
import trio.testing
from leafd.cluster.presence import Presence
from leafd.daemon.introduced import TOLD_S, introduced

NEWS = {"news": "site", "run": 7, "name": "s2", "cluster": "C", "tags": [], "free": 1, "memory": 1, "streams": 0}


def asked_at(told_s: float | None, gone_s: float | None = None) -> tuple[bool, float]:
    """Whether server 2 may be asked, and when that is known. It tells of itself, and goes, so many seconds from now."""
    presence, linked = Presence(1, 1), {2}

    async def main() -> tuple[bool, float]:
        began = trio.current_time()

        async def happens() -> None:
            if told_s is not None:
                await trio.sleep(told_s)
                presence.hear(2, NEWS, told_s)
            if gone_s is not None:
                await trio.sleep(gone_s)
                linked.clear()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(happens)
            await trio.testing.wait_all_tasks_blocked()
            may = await introduced(presence, lambda: linked, 2)
            took_s = trio.current_time() - began
            nursery.cancel_scope.cancel()
        return may, took_s

    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0.0))


def test_who_has_told_of_itself_is_asked_at_once() -> None:
    """There is nothing to wait for."""
    assert asked_at(0.0) == (True, 0.0)


def test_who_has_just_come_is_asked_when_it_has_told_of_itself() -> None:
    """Its answer comes back from then on."""
    may, took_s = asked_at(1.0)
    assert may
    assert 1.0 <= took_s < 1.1


def test_who_goes_or_stays_silent_is_not_asked() -> None:
    """Whoever wants to ask hears of that soon."""
    may, took_s = asked_at(None, 0.5)
    assert not may
    assert took_s < 0.6
    assert asked_at(None) == (False, TOLD_S)
