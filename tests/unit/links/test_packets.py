"""When a hub is dialled in small packets, by what became of the connections before; and what the kernels make of it."""

from __future__ import annotations

import contextlib
import socket
from dataclasses import replace

import pytest
import trio
from leafd.links import dialling
from leafd.links.dialling import patience
from leafd.links.link import Link
from leafd.links.packets import SMALL, SMALL_S, UNANSWERED_S, Packets
from leafd.native_types import Doubt

from tests import cell
from tests.cell import HUB, HUB_ADDRESS, LEAF

MISSING = cell.missing()


def unanswered(packets: Packets, now_s: float) -> float:
    packets.connected(now_s)
    packets.failed(now_s + UNANSWERED_S)
    return now_s + UNANSWERED_S


def test_a_link_that_stands_at_its_first_full_packet_is_dialled_in_small_ones_for_an_hour() -> None:
    """After an hour the way may be another one, so the link is dialled in large packets again."""
    packets = Packets()
    assert packets.size(0.0) == 0
    packets.stuck(10.0)
    assert packets.size(11.0) == SMALL
    packets.logged_in(12.0)
    assert packets.size(9.0 + SMALL_S) == SMALL
    assert packets.size(10.0 + SMALL_S) == 0


def test_two_logins_in_a_row_that_met_silence_are_tried_twice_in_small_packets_and_so_on() -> None:
    """A hub that hangs is not dialled in small packets for ever."""
    packets, now_s = Packets(), 0.0
    sizes = []
    for _ in range(6):
        sizes.append(packets.size(now_s))
        now_s = unanswered(packets, now_s)
    assert sizes == [0, 0, SMALL, SMALL, 0, 0]


def test_what_brought_the_link_up_at_last_is_kept() -> None:
    """In small packets for an hour; in large ones until there is another reason."""
    packets = Packets()
    now_s = unanswered(packets, unanswered(packets, 0.0))
    packets.logged_in(now_s)
    assert packets.size(now_s + 1) == SMALL
    now_s = unanswered(packets, unanswered(packets, now_s))
    assert packets.size(now_s) == 0
    packets.logged_in(now_s)
    assert packets.size(now_s) == 0


def test_a_hub_that_refuses_at_once_has_answered() -> None:
    """A refusal is an answer, whatever size the packets have: no dial in small packets follows."""
    packets = Packets()
    for number in range(4):
        packets.connected(float(number))
        packets.failed(number + UNANSWERED_S / 2)
    assert packets.size(10.0) == 0


@pytest.mark.parametrize(("doubt", "size"), [(Doubt.ALL, 0), (Doubt.NONE, 0), (Doubt.LARGE, SMALL)])
def test_the_plane_tells_of_a_link_what_the_next_dial_does(doubt: Doubt, size: int) -> None:
    """Silence alone is an outage."""

    async def scenario() -> int:
        machine: object = None
        link = Link(1, "hub", machine)  # type: ignore[arg-type]
        link.doubt(doubt)
        return link.packets.size(trio.current_time())

    assert trio.run(scenario) == size


@pytest.mark.skipif(bool(MISSING), reason=MISSING)
@pytest.mark.parametrize("size", [0, SMALL])
def test_both_ends_send_packets_of_that_size(size: int) -> None:
    """By what each kernel then takes for a full one, less what a timestamp takes."""
    with cell.joined(cell.Link()) as joined, contextlib.ExitStack() as ends:
        with joined.at(HUB):
            listener = ends.enter_context(socket.create_server((HUB_ADDRESS, 0)))

        async def scenario() -> list[int]:
            at_least = replace(patience(0, 1), packet=size)
            stream = await dialling.connect(HUB_ADDRESS, listener.getsockname()[1], None, at_least)
            accepted = ends.enter_context(listener.accept()[0])
            sizes = [one.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG) for one in (stream.socket, accepted)]
            await stream.aclose()
            return sizes

        with joined.at(LEAF):
            sizes = trio.run(scenario)
    assert sizes == [(size or cell.MTU - 40) - 12] * 2
