"""A hub that is dialled beside a link in doubt: which of the two connections stays, by what happens first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing
from leafd.links import leaf
from leafd.links.hub_servers import HubServers
from leafd.links.link import Link, RemoteStatus
from leafd.links.packets import SMALL
from leafd.links.reach import Hold
from leafd.links.second_dial import HEARD_S, HELD, HELD_MIN_S, HELD_NEAR_S, OVERTAKEN, Beside
from leafd.native_types import Doubt, Permissions

BOUND = leaf.Bind(1, "A", False, Permissions(), "", "", "hub", "H", "A", True, 1 << 20, False)
MACHINE: Any = None
REMOTE: Any = None


class Stage:
    """A link that is up, and what comes of dialling beside it: each dial takes a second."""

    def __init__(self) -> None:
        self.older = self.link(bound=True)
        self.dialled: list[Link] = []
        self.closed: list[int] = []
        self.refuses = False
        self.trip_s: float | None = None
        self.held_s = 0.0
        self.fails: BaseException | None = None
        self.status = RemoteStatus(
            REMOTE, True, servers=HubServers(("nats-leaf://a:1", "nats-leaf://b:1"), in_order=True)
        )
        self.status.servers.next()
        self.beside = Beside(self.status, self.dial, self.log_in, self.close, reconnect_s=1.0)
        self.last: Link | None = None

    def link(self, *, bound: bool = False) -> Link:
        made = Link(1 + len(getattr(self, "dialled", ())), "hub", MACHINE, url="nats-leaf://a:1")
        made.bind = BOUND if bound else None
        return made

    async def dial(self, status: RemoteStatus, url: str, hold: Hold) -> Link | None:
        assert url == f"nats-leaf://{'ab'[(status.attempts - 1) % 2]}:1"
        await trio.sleep(1)
        if self.fails is not None:
            raise self.fails
        if self.trip_s is not None:
            began = trio.current_time()
            await hold(self.trip_s)
            self.held_s = trio.current_time() - began
        self.dialled.append(Link(2 + len(self.dialled), "hub", MACHINE, url=url))
        return self.dialled[-1]

    async def log_in(self, link: Link) -> None:
        await trio.sleep(1)
        if self.refuses:
            link.gone.set()
        else:
            link.bind = BOUND

    def close(self, connection: int, text: str, reason: int) -> None:
        self.closed.append(connection)
        {one.connection: one for one in (self.older, *self.dialled)}[connection].gone.set()

    def play(self, story: Callable[[], Awaitable[None]]) -> None:
        """What happens meanwhile; then everything that is there ends."""

        async def stay() -> None:
            self.last = await self.beside.stay(self.older)

        async def both() -> None:
            with trio.fail_after(10_000):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(stay)
                    await story()
                    for one in (self.older, *self.dialled):
                        one.gone.set()

        trio.run(both, clock=trio.testing.MockClock(autojump_threshold=0))


def test_the_newer_connection_is_the_link_as_soon_as_it_is_logged_in() -> None:
    """The older one stays until then: the hub may refuse the newer one."""
    stage = Stage()

    async def story() -> None:
        stage.older.doubt(Doubt.ALL)
        await trio.sleep(1.5)
        stage.dialled[0].heard.set()
        await trio.sleep(0.5)
        assert not stage.older.gone.is_set()
        await trio.sleep(1)
        assert stage.closed == [stage.older.connection]
        assert stage.older.last_error == OVERTAKEN
        assert stage.status.connected
        assert stage.status.attempts == 0
        await trio.sleep(100)

    stage.play(story)
    assert stage.last is stage.dialled[0]
    assert len(stage.dialled) == 1


def test_a_link_that_is_well_again_stays_and_what_was_dialled_beside_it_goes() -> None:
    stage = Stage()

    async def story() -> None:
        stage.older.doubt(Doubt.ALL)
        await trio.sleep(1.5)
        stage.older.doubt(Doubt.NONE)
        await trio.sleep(100)
        assert stage.closed == [stage.dialled[0].connection]
        assert stage.status.attempts == 0
        stage.older.doubt(Doubt.ALL)  # and once more
        await trio.sleep(0.5)
        stage.older.doubt(Doubt.NONE)
        await trio.sleep(100)

    stage.play(story)
    assert stage.last is stage.older
    assert len(stage.dialled) == 1


def test_a_link_that_goes_on_as_soon_as_the_line_is_back_stays_before_anything_is_said_to_the_hub() -> None:
    stage = Stage()
    stage.trip_s = 2.0

    async def story() -> None:
        stage.older.doubt(Doubt.ALL)
        await trio.sleep(3)  # the dial has come about, and TCP of the older link tries again
        stage.older.doubt(Doubt.NONE)
        await trio.sleep(100)

    stage.play(story)
    assert stage.last is stage.older
    assert stage.dialled == []
    assert stage.held_s == 0.0


@pytest.mark.parametrize(
    ("older_s", "newer_s", "held_s"),
    [(0.2, 0.2, HELD_NEAR_S), (1.0, 1.0, HELD_MIN_S), (5.0, 5.0, 5 * HELD), (2.0, 0.0, HELD_MIN_S)],
)
def test_a_newer_connection_waits_for_the_older_one_as_long_as_that_may_take_to_try_again(
    older_s: float, newer_s: float, held_s: float
) -> None:
    """A hub may give a near login two seconds."""
    stage = Stage()
    stage.older.round_trip_s, stage.trip_s = older_s, newer_s

    async def story() -> None:
        stage.older.doubt(Doubt.ALL)
        await trio.sleep(20)
        stage.dialled[0].heard.set()
        await trio.sleep(100)

    stage.play(story)
    assert stage.last is stage.dialled[0]
    assert held_s == pytest.approx(stage.held_s)


def test_a_connection_that_has_come_about_goes_on_at_once_when_the_older_link_ends() -> None:
    """Another one would begin two round trips later."""
    stage = Stage()
    stage.trip_s = 2.0

    async def story() -> None:
        stage.older.doubt(Doubt.ALL)
        stage.status.linked(stage.older)
        await trio.sleep(1.5)
        stage.older.gone.set()
        await trio.sleep(0.5)
        assert not stage.status.connected
        stage.dialled[0].heard.set()
        await trio.sleep(2)
        assert stage.status.connected
        await trio.sleep(100)

    stage.play(story)
    assert stage.last is stage.dialled[0]
    assert len(stage.dialled) == 1
    assert stage.held_s == pytest.approx(0.5)
    assert stage.closed == []


def test_a_hub_that_ends_the_older_link_and_wants_a_pause_has_it() -> None:
    stage = Stage()
    stage.trip_s = 0.1

    async def story() -> None:
        stage.older.doubt(Doubt.ALL)
        await trio.sleep(1 + HELD_NEAR_S + 0.5)
        stage.older.delay_s = 30.0
        stage.older.gone.set()
        await trio.sleep(100)

    stage.play(story)
    assert stage.last is stage.older
    assert stage.closed == [stage.dialled[0].connection]


def test_a_dial_that_has_not_come_about_when_the_older_link_ends_is_left_to_who_dials_anew() -> None:
    stage = Stage()

    async def story() -> None:
        stage.older.doubt(Doubt.ALL)
        await trio.sleep(0.5)
        stage.older.gone.set()
        await trio.sleep(100)

    stage.play(story)
    assert stage.last is stage.older
    assert stage.dialled == []
    assert stage.status.attempts == 1


def test_a_hub_that_has_spoken_counts_even_if_the_older_link_is_well_in_that_moment() -> None:
    """It may have ended the older one already, whose place the newer one takes."""
    stage = Stage()

    async def story() -> None:
        stage.older.doubt(Doubt.ALL)
        await trio.sleep(1.5)
        stage.dialled[0].heard.set()
        stage.older.doubt(Doubt.NONE)
        await trio.sleep(100)

    stage.play(story)
    assert stage.closed == [stage.older.connection]
    assert stage.last is stage.dialled[0]


def test_a_hub_that_refuses_the_newer_connection_is_dialled_again_while_the_older_one_stays() -> None:
    stage = Stage()
    stage.refuses = True

    async def story() -> None:
        stage.older.doubt(Doubt.ALL)
        for number in range(3):
            while len(stage.dialled) == number:
                await trio.sleep(0.1)
            stage.dialled[number].delay_s = 30
            stage.dialled[number].heard.set()
            await trio.sleep(30)  # and what it takes to log in, to wait and to dial
            assert len(stage.dialled) == number + 1
        stage.older.doubt(Doubt.NONE)
        await trio.sleep(100)

    stage.play(story)
    assert stage.closed in ([], [stage.dialled[-1].connection])
    assert stage.last is stage.older


def test_attempts_that_fail_go_on_until_the_older_link_is_dead_and_are_counted_on_then() -> None:
    """What is dialled after the link's end is dialled with as much patience as if it had gone at once."""
    stage = Stage()
    stage.fails = OSError("no route")

    async def story() -> None:
        stage.older.doubt(Doubt.ALL)
        await trio.sleep(45)
        stage.older.gone.set()

    stage.play(story)
    assert stage.last is stage.older
    assert 20 < stage.status.attempts < 45
    assert stage.closed == []


def test_a_hub_that_takes_a_connection_and_says_nothing_is_waited_for_and_then_dialled_again() -> None:
    stage = Stage()

    async def story() -> None:
        stage.older.doubt(Doubt.ALL)
        await trio.sleep(HEARD_S + 10)

    stage.play(story)
    assert stage.closed[0] == stage.dialled[0].connection
    assert len(stage.dialled) == 2
    assert stage.last is stage.older


def test_a_link_without_doubt_is_stayed_with_until_its_end() -> None:
    stage = Stage()

    async def story() -> None:
        await trio.sleep(1000)

    stage.play(story)
    assert stage.last is stage.older
    assert stage.dialled == []


def test_a_hub_is_dialled_in_small_packets_when_the_line_is_back_and_the_first_full_packet_still_stands() -> None:
    """What was dialled in large ones would stand, too."""
    stage = Stage()
    stage.trip_s = 2.0

    async def story() -> None:
        stage.older.doubt(Doubt.FIRST)
        await trio.sleep(1 + 2 * HELD_MIN_S - 0.1)
        assert stage.status.packets.size(trio.current_time()) == 0
        stage.trip_s = None
        await trio.sleep(5)
        assert stage.status.packets.size(trio.current_time()) == SMALL
        stage.dialled[0].heard.set()
        await trio.sleep(100)

    stage.play(story)
    assert stage.last is stage.dialled[0]
    assert len(stage.dialled) == 1


def test_a_link_whose_first_full_packet_was_in_an_outage_goes_on_in_large_ones() -> None:
    """TCP has two turns after the line is back."""
    stage = Stage()
    stage.trip_s = 2.0

    async def story() -> None:
        stage.older.doubt(Doubt.FIRST)
        await trio.sleep(1 + 2 * HELD_MIN_S - 0.1)
        stage.older.doubt(Doubt.NONE)
        await trio.sleep(100)
        assert stage.status.packets.size(trio.current_time()) == 0

    stage.play(story)
    assert stage.last is stage.older
    assert stage.dialled == []


def test_a_peer_that_is_heard_while_a_first_full_packet_stands_is_dialled_in_small_ones_at_once() -> None:
    stage = Stage()
    stage.older.packets = stage.status.packets

    async def story() -> None:
        stage.older.doubt(Doubt.FIRST)
        await trio.sleep(0.5)
        stage.older.doubt(Doubt.LARGE)
        assert stage.status.packets.size(trio.current_time()) == SMALL
        stage.older.doubt(Doubt.NONE)  # it was well, after all: nothing waits for a doubt that is over
        await trio.sleep(100)

    stage.play(story)
    assert stage.last is stage.older
    assert stage.dialled == []
