"""What a listener asks of who connects: read from the other end of real connections."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
import trio
import trio.testing
from leafd.daemon.doorway import SMALL_S, Doorway
from leafd.links import leaf
from leafd.links.leaf_info import Advertised
from leafd.links.link import Link
from leafd.links.packets import SMALL

from tests.rig.logs import QuietLog


@pytest.fixture
def door() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def packet(door: socket.socket) -> int:
    """How many bytes in a packet who connects now may send at most."""
    with socket.create_connection(door.getsockname()[:2], 5) as dialled, door.accept()[0]:
        return dialled.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)


def link_from(peer: str) -> Link:
    return Link(5, peer, leaf.Acceptor(leaf.Identity("N", "n", "2.15.1"), 5, "", Advertised()))


def test_small_packets_are_asked_for_until_all_that_stood_are_back(door: socket.socket) -> None:
    """What others do meanwhile changes nothing; a link that comes from the same host is the one that was lost."""

    async def play() -> None:
        doorway = Doorway(door, QuietLog())
        large = packet(door)
        doorway.stuck(link_from("10.0.0.1:1000"))
        doorway.stuck(link_from("[fd00::1]:1000"))
        assert packet(door) <= SMALL < large
        for peer in ("10.0.0.2:1000", "10.0.0.1:2000"):
            doorway.came(link_from(peer))
            assert packet(door) <= SMALL
        doorway.came(link_from("[fd00::1]:2000"))
        assert packet(door) == large

    trio.run(play)


def test_who_does_not_come_back_makes_packets_small_for_some_minutes(door: socket.socket) -> None:
    """After that time they may be large again, and it is the same once more for one that stands later."""

    async def play() -> None:
        doorway = Doorway(door, QuietLog())
        large = packet(door)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(doorway.run)
            for _ in range(2):
                doorway.stuck(link_from("10.0.0.1:1000"))
                await trio.sleep(SMALL_S - 1)
                doorway.came(link_from("10.0.0.2:1000"))
                assert packet(door) <= SMALL
                await trio.sleep(2)
                assert packet(door) == large
            nursery.cancel_scope.cancel()

    trio.run(play, clock=trio.testing.MockClock(autojump_threshold=0))


def test_a_door_that_is_shut_is_no_error(door: socket.socket) -> None:
    """The link that stands may be told of after the listener was closed."""

    async def play() -> None:
        shut = door.dup()
        doorway = Doorway(shut, QuietLog())
        shut.close()
        doorway.stuck(link_from("10.0.0.1:1000"))
        doorway.came(link_from("10.0.0.1:1000"))

    trio.run(play)
