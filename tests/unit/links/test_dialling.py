"""How long a hub is waited for, and what cuts that short; in places of their own where the line counts."""

from __future__ import annotations

import contextlib
import itertools
import math
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator

import pytest
import trio
import trio.testing
from leafd.links import dialling, ways
from leafd.links.dialling import Patience, patience
from leafd.links.echo import Place

from tests import cell
from tests.cell import HUB, HUB_ADDRESS, LEAF, Link

MISSING = cell.missing()
ROUTERS = 4 * 56
"""What a place that is new asks for routers of IPv6, bytes."""
in_places = pytest.mark.skipif(bool(MISSING), reason=MISSING)


def test_a_hub_is_waited_for_ever_longer_when_each_of_its_servers_was_tried() -> None:
    """The first attempts find out soon what is not there. What a whole night costs the last one decides."""
    alone = [patience(0, attempt) for attempt in range(1, 16)]
    assert [one.seconds for one in alone] == [5, 10, 20, 60, 60, 60, 300, 600, *[1200] * 7]
    apart = [one.again_s for one in alone[3:10]]
    assert apart == sorted(apart)
    assert apart[0] < alone[0].again_s < alone[-1].again_s < apart[-1]
    several = [patience(0, attempt, servers=2) for attempt in range(1, 9)]
    assert [one.seconds for one in several] == [5, 10, 20, 5, 60, 60, 60, 300]
    assert [one.together for one in several] == [1, 1, 1, 1, 2, 2, 2, 2]
    assert patience(0, 5, servers=64) == several[4]
    assert {patience(7, attempt).seconds for attempt in (1, 4, 90)} == {7}


SYN, ECHO = 60, 28
"""Bytes of a packet that opens a connection, and of an echo request."""
LAST_WORDS, WINDOW_AGAIN_S = 100, 3
"""A PING, and what else an idle link had begun to send: so often, while it is not given up (native/plane/window.h)."""


def asks(attempt: int, *, echoes: bool = False, servers: int = 1) -> list[tuple[float, int]]:
    """When a kernel sends the packets of an attempt, and how large they are: a second apart at first, then twice as far
    each time, up to what it was told (Linux 6.15); and the echo requests of it."""
    of = patience(0, attempt, echoes=echoes, servers=servers)
    found = [(number * of.echo_s, ECHO) for number in range(math.ceil(of.seconds / of.echo_s))] if of.echo_s else []
    each_s = of.again_s * of.together * (1 + of.together) / 2
    for turn in range(of.together):
        at = turn * each_s / of.together
        for number in range(1000):
            if at >= of.seconds:
                break
            found.append((at, SYN))
            at += 1.0 if number < 4 else min(2.0 ** (number - 3), each_s)
    return sorted(found)


def outage(*, echoes: bool = False, servers: int = 1) -> list[tuple[float, int]]:
    """When packets are sent in an outage of hours, and how large they are."""
    began, found = 10.0, []  # beside the link, while that is in doubt
    for attempt in range(1, 60):
        found += [(began + at, size) for at, size in asks(attempt, echoes=echoes, servers=servers)]
        began += patience(0, attempt, echoes=echoes, servers=servers).seconds + 0.5
    return found


def unused(packets: list[tuple[float, int]], since: float, until: float) -> float:
    """Seconds of a contact that begins then, at any time: half of the time between two packets, longer ones weigh
    more."""
    apart = [then - at for (at, _), (then, _) in itertools.pairwise(packets) if since <= at < until]
    return sum(one * one for one in apart) / 2 / sum(apart)


@pytest.mark.parametrize(("servers", "echoes"), [(1, False), (1, True), (2, False)])
def test_an_hour_without_signal_costs_20_kb_at_most(servers: int, *, echoes: bool) -> None:
    """What opens a connection, what asks for an echo, and what the lost link sends again in its last minute, together,
    in the first hour and in any other."""
    packets = outage(echoes=echoes, servers=servers) + [(at, LAST_WORDS) for at in range(0, 60, WINDOW_AGAIN_S)]
    for hour in range(4):
        assert sum(size for at, size in packets if 3600 * hour <= at < 3600 * (hour + 1)) <= 20_000


def test_a_contact_after_an_outage_of_minutes_is_found_within_seconds() -> None:
    packets = outage(echoes=False)
    for since, until, most in ((60, 220, 4), (240, 520, 8), (540, 1120, 14), (1140, 3500, 23), (3600, 14_000, 12.5)):
        apart = [then - at for (at, _), (then, _) in itertools.pairwise(packets) if since <= at < until]
        assert max(apart) <= most


def test_a_contact_with_one_of_two_servers_is_found_half_as_fast_again() -> None:
    packets = outage(servers=2)
    for since, until, most in (
        (80, 220, 6.6),
        (270, 520, 12.6),
        (600, 1120, 21.6),
        (1200, 3500, 35.1),
        (3600, 14_000, 18.6),
    ):
        apart = [then - at for (at, _), (then, _) in itertools.pairwise(packets) if since <= at < until]
        assert max(apart) <= most


def test_with_echoes_a_contact_is_found_in_time_after_any_outage() -> None:
    """95 % of a contact of 60 s is what remains after 3 s. Spent on requests alone, the budget leaves it after 2.5."""
    packets = outage(echoes=True)
    for since, until, most in ((12, 180, 2.8), (180, 480, 3.4), (480, 3600, 3.9), (3600, 14_000, 3.1)):
        assert unused(packets, since, until) <= most
    assert unused(outage(echoes=False), 1140, 3600) > 9


def test_a_hub_that_has_several_addresses_is_not_waited_for_long_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next address may be the one that answers."""

    async def two(host: str, port: int, **about: object) -> list[tuple[object, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port))] * 2

    async def never(host: str, port: int) -> None:
        await trio.sleep_forever()

    monkeypatch.setattr(trio.socket, "getaddrinfo", two)
    monkeypatch.setattr(trio, "open_tcp_stream", never)

    async def play() -> float:
        began = trio.current_time()
        with pytest.raises(trio.TooSlowError):
            await dialling.connect("hub", 7422, None, Patience(10, 10))
        return trio.current_time() - began

    assert trio.run(play, clock=trio.testing.MockClock(autojump_threshold=0)) == pytest.approx(10)


def test_a_hub_whose_first_addresses_lead_nowhere_is_reached_by_the_first_one_of_another_kind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where a modem's network has IPv6 and nothing behind it, and the hub has two such addresses."""
    dead, dead_too, there = ("2001:db8::1", 7422, 0, 0), ("2001:db8::2", 7422, 0, 0), ("192.0.2.1", 7422)

    async def found(host: str, port: int, **about: object) -> list[tuple[object, ...]]:
        return [
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", dead),
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", dead_too),
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", there),
        ]

    ours, theirs = socket.socketpair()
    answered = trio.SocketStream(trio.socket.from_stdlib_socket(ours))

    async def asked(place: Place, *how: object) -> trio.SocketStream:
        if place[1] != there:
            await trio.sleep_forever()
        return answered

    monkeypatch.setattr(trio.socket, "getaddrinfo", found)
    monkeypatch.setattr(dialling, "_asked", asked)

    async def play() -> trio.SocketStream:
        return await dialling.connect("hub", 7422, None, Patience(60, 5))

    with ours, theirs:
        assert trio.run(play, clock=trio.testing.MockClock(autojump_threshold=0)) is answered


@pytest.mark.parametrize("resolver", ["says nothing", "has no answer"])
def test_a_hub_whose_name_nobody_resolves_is_dialled_where_it_was(
    resolver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A resolver is out of reach with the hub, and may be back later. A name that is known to be none is an error."""

    async def unresolved(host: str, port: int, **about: object) -> list[tuple[object, ...]]:
        if resolver == "says nothing":
            await trio.sleep_forever()
        raise socket.gaierror(socket.EAI_AGAIN if resolver == "has no answer" else socket.EAI_NONAME, "no")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        monkeypatch.setattr(trio.socket, "getaddrinfo", unresolved)

        async def dial() -> bool:
            last = (socket.AF_INET, ("127.0.0.1", port))
            async with await dialling.connect("hub.example", port, None, Patience(60, 1), last):
                return True

        assert trio.run(dial)
        resolver = "knows better"
        with pytest.raises(socket.gaierror):
            trio.run(dial)


@in_places
def test_a_hub_that_comes_into_reach_is_connected_to_within_the_time_between_two_packets() -> None:
    """However long it was out of reach: the kernel does not wait ever longer. Each packet is one of 60 bytes."""
    with cell.joined(Link(loss=1.0)) as joined:
        with joined.at(HUB):
            listener = socket.create_server(("0.0.0.0", 0))

        async def dial() -> float:
            async with await dialling.connect(HUB_ADDRESS, listener.getsockname()[1], None, Patience(60, 60, 2.0)):
                return time.monotonic()

        def comes_back() -> None:
            time.sleep(13.5)
            tried.append(joined.tried[HUB])
            joined.change(Link(delay=0.1))
            returned.append(time.monotonic())

        tried: list[int] = []
        returned: list[float] = []
        thread = threading.Thread(target=comes_back)
        thread.start()
        with joined.at(LEAF), listener:
            connected = trio.run(dial)
        thread.join()
        assert connected - returned[0] < 2.0 + 0.5
        assert 8 * 60 <= tried[0] <= 12 * 60 + ROUTERS


async def cut_short(tell: trio.Event) -> bool:
    """Whether a dial that gets no answer ended when there was news."""
    found = ways.Ways()
    await trio.sleep(3)  # until the kernel has said all of a place that is new
    async with trio.open_nursery() as nursery:
        nursery.start_soon(found.watch)
        await trio.sleep(0.2)
        with trio.move_on_after(8):
            tell.set()
            await found.unless_news(trio.sleep_forever)
            nursery.cancel_scope.cancel()
            return True
        nursery.cancel_scope.cancel()
    return False


@in_places
@pytest.mark.parametrize(("change", "counts"), [("address add 10.99.0.1/32 dev lo", True), ("neigh flush all", False)])
def test_a_dial_begins_anew_when_the_machine_has_another_address(change: str, counts: bool) -> None:
    """As a modem's that has found its network: packets that began with the old one will have no answer."""
    with cell.joined(Link(loss=1.0)) as joined, joined.at(LEAF):

        async def play() -> bool:
            tell = trio.Event()
            ended = False

            async def dial() -> None:
                nonlocal ended
                ended = await cut_short(tell)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(dial)
                await tell.wait()
                subprocess.run(["ip", *change.split()], check=True)
            return ended

        assert trio.run(play) is counts


def test_kinds_of_netlink_messages_are_read_whatever_comes() -> None:
    """One after the other, each at a multiple of four bytes; a length that cannot be ends it."""
    one = struct.pack("=IHHII", 18, 20, 0, 0, 0) + b"xx" + bytes(2)
    assert list(ways.kinds(one * 2 + struct.pack("=IHHII", 3, 24, 0, 0, 0) + one)) == [20, 20, 24]
    assert list(ways.kinds(one[:15])) == []


@contextlib.contextmanager
def silent() -> Iterator[int]:
    """The port of a server that answers to no packet: its queue of connections is full."""
    with socket.socket() as listener, contextlib.ExitStack() as stack:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                client.connect(listener.getsockname())
        yield listener.getsockname()[1]


def first_of(*ports: int, seconds: float = 300.0) -> int:
    async def play() -> int:
        hosts = [("127.0.0.1", port) for port in ports]
        stream, which = await dialling.connect_first(hosts, Patience(seconds, 0.5, 0.5, together=len(ports)))
        async with stream:
            assert stream.socket.getpeername()[1] == ports[which]
        return which

    return trio.run(play)


@pytest.mark.parametrize("place", [0, 1])
def test_of_two_servers_that_are_dialled_at_once_the_one_that_answers_is_linked_to(place: int) -> None:
    """Whichever of them that is, and while the other one says nothing."""
    with silent() as port, socket.create_server(("127.0.0.1", 0)) as there:
        ports = [port]
        ports.insert(place, there.getsockname()[1])
        assert first_of(*ports) == place


def test_a_machine_that_refuses_shortens_the_wait_for_the_others() -> None:
    """Something answers again: who says nothing then is not there."""
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    with silent() as one, pytest.raises((ConnectionRefusedError, trio.TooSlowError)):
        first_of(one, port)


@in_places
def test_one_of_several_servers_comes_into_reach_and_is_connected_to() -> None:
    """However long all of them were out of reach."""
    with cell.joined(Link(loss=1.0)) as joined:
        with joined.at(HUB):
            listener = socket.create_server((HUB_ADDRESS, 0))
        with listener, joined.at(LEAF):

            async def play() -> int:
                async def back() -> None:
                    await trio.sleep(4)
                    joined.change(Link())

                async with trio.open_nursery() as nursery:
                    nursery.start_soon(back)
                    hosts = [(HUB_ADDRESS, 9), (HUB_ADDRESS, listener.getsockname()[1])]
                    stream, which = await dialling.connect_first(hosts, Patience(300, 60, 1.0, together=2))
                    async with stream:
                        return which

            assert trio.run(play) == 1


def test_a_handshake_goes_on_soon_after_a_loss_at_both_ends() -> None:
    """The kernel would wait for three round trips, and then twice as long each time: at 5 s two losses are 45 s, and a
    link had 60 for all of it. Whoever comes to the listener has what it was told."""

    async def play() -> tuple[int, int]:
        each = socket.IPPROTO_TCP, dialling.TCP_RTO_MAX_MS
        with socket.create_server(("127.0.0.1", 0)) as listener:
            dialling.hurry(listener)
            stream = await dialling.connect("127.0.0.1", listener.getsockname()[1], None, patience(0, 1))
            taken, _ = listener.accept()
        async with stream:
            with taken:
                return stream.socket.getsockopt(*each), taken.getsockopt(*each)

    with socket.socket() as probe:
        try:
            probe.getsockopt(socket.IPPROTO_TCP, dialling.TCP_RTO_MAX_MS)
        except OSError:
            pytest.skip("this kernel cannot be told (Linux 6.15)")
    assert trio.run(play) == (8_000, 8_000)
