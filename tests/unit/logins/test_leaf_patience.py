"""How long leaf nodes may take to log in (logins/leaf_logins.py); time is trio's mock clock."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import trio
import trio.testing
from leafd.guard import Guard
from leafd.logins.deadlines import AT_ONCE_S
from leafd.logins.leaf_logins import PATIENT_MAX, LeafLogins, LeafTerms

from tests.rig.planes import Unwilling


class Links(Unwilling):
    """Knows who is not through yet."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: set[int] = set()
        self.closed: list[tuple[float, int]] = []
        self.spoken: set[int] = set()
        """Whose CONNECT has come, as the plane knows."""

    def bind_of(self, connection: int) -> None:
        return None

    def logging_in(self, connection: int) -> bool:
        return connection in self.waiting

    def end_silence(self, connection: int, text: str) -> None:
        if connection in self.waiting - self.spoken:  # as the plane, which ignores the order for one that has gone
            self.waiting.discard(connection)
            self.closed.append((trio.current_time(), connection))


def play(count: int, timeout_s: float, connections_max: int = 65536) -> list[tuple[float, int]]:
    """So many strangers connect and say nothing: when each of them was closed."""
    links = Links()

    async def run() -> None:
        terms = cast("LeafTerms", SimpleNamespace(timeout_s=timeout_s))
        logins = LeafLogins(
            links, terms, cast("Any", None), Guard(), links=cast("Any", links), connections_max=connections_max
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(logins.run)
            for connection in range(count):
                links.waiting.add(connection)
                logins.opened(connection)
            await trio.sleep(2 * timeout_s)
            nursery.cancel_scope.cancel()

    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))
    return links.closed


def test_a_leaf_far_away_has_all_the_time_of_a_login() -> None:
    """And not a second more."""
    ((at, connection),) = play(1, 60.0)
    assert connection == 0
    assert 60.0 <= at < 60.5


def test_who_is_slow_to_log_in_is_bounded_by_number() -> None:
    """Of those that are not through at once the last ones are waited for; the others go."""
    closed = play(PATIENT_MAX + 10, 60.0)
    early = [connection for at, connection in closed if at < AT_ONCE_S + 1]
    assert early == list(range(10))
    assert len(closed) == PATIENT_MAX + 10


def test_a_thousand_boxes_behind_one_slow_line_are_all_waited_for() -> None:
    """They come back at once, and their logins take up to half a minute."""
    assert all(at >= 60.0 for at, _ in play(1000, 60.0))


def test_slow_logins_take_a_part_of_the_connections_at_most() -> None:
    """Where there are few, as with few file descriptors, strangers who say nothing leave most of them."""
    closed = play(50, 60.0, connections_max=40)
    assert [connection for at, connection in closed if at < AT_ONCE_S + 1] == list(range(40))


def test_a_short_patience_is_kept() -> None:
    """What the configuration says is less than what is waited for at once."""
    ((at, _),) = play(1, 0.5)
    assert 0.5 <= at < 1.0


def test_what_a_leaf_has_said_and_nobody_has_looked_at_is_not_late() -> None:
    """It waits for its turn among a thousand others; from then on its time runs as before."""
    links = Links()

    async def run() -> None:
        terms = cast("LeafTerms", SimpleNamespace(timeout_s=3.0))

        def waits(connection: int) -> bool:
            return trio.current_time() < 10.0

        logins = LeafLogins(links, terms, cast("Any", None), Guard(), links=cast("Any", links), waits=waits)
        async with trio.open_nursery() as nursery:
            await nursery.start(logins.run)
            links.waiting.add(7)
            logins.opened(7)
            await trio.sleep(20.0)
            nursery.cancel_scope.cancel()

    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))
    ((at, connection),) = links.closed
    assert connection == 7
    assert 10.0 <= at < 14.0


def test_a_leaf_whose_connect_has_come_is_not_silent() -> None:
    """Its line may be on its way to control for seconds, when a thousand come at once. When it has said something that
    was no login, and then nothing, its time is over a moment later."""
    links = Links()

    async def run() -> None:
        terms = cast("LeafTerms", SimpleNamespace(timeout_s=3.0))
        logins = LeafLogins(links, terms, cast("Any", None), Guard(), links=cast("Any", links))
        async with trio.open_nursery() as nursery:
            await nursery.start(logins.run)
            for connection in (1, 2, 3):
                links.waiting.add(connection)
                logins.opened(connection)
            links.spoken |= {1, 2}
            await trio.sleep(6.0)
            assert [3] == [connection for _, connection in links.closed]
            links.waiting.discard(1)  # it is up
            links.spoken.discard(2)
            await trio.sleep(6.0)
            nursery.cancel_scope.cancel()

    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))
    assert [3, 2] == [connection for _, connection in links.closed]
