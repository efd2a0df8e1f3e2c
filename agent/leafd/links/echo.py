"""Whether anything reaches a hub's machine: asked by the smallest packet that has an answer, an ICMP echo request
without data (28 bytes by IPv4, 48 by IPv6). A packet that opens a connection has 60 or 80.

    request    type, code 0, checksum, identifier, number      the kernel writes checksum and identifier
    answer     the same, with the type of an answer

    link up --answers()--> the machine answers, or does not
    dial without an answer --unless_heard()--> silence, then an answer: dial anew
                                          `--> answers from the first one on: it is not the way that is missing

So a contact is noticed for half of the bytes. The kernel lets a process without privileges ask where
`net.ipv4.ping_group_range` has its group, as systemd sets it. Where it does not, where a firewall drops what is asked,
or where the hub's machine did not answer while there was a link, nothing is sent, and the dial alone asks. A forged
answer brings about a dial. Not here: how often is asked (dialling.py), who dials (leafs.py).
"""

from __future__ import annotations

import contextlib
import enum
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, TypeVar

import trio

SILENT: Final = 2
"""So many requests without an answer are a silence: one is lost now and then."""
TRIES: Final = 3
TRY_S: Final = 5.0
Stream = TypeVar("Stream")
Address = tuple[str, int] | tuple[str, int, int, int]
Place = tuple[socket.AddressFamily, Address]
"""The address that a connection went to."""
Ask = Callable[[int, float], Awaitable[bool]]
"""(number, seconds): whether any request was answered within that time. If not, all of it has passed."""

_ECHO: Final = {socket.AF_INET: (socket.IPPROTO_ICMP, 8, 28), socket.AF_INET6: (socket.IPPROTO_ICMPV6, 128, 48)}
"""Protocol; type of a request; its bytes with the header of IP."""
_SMALLEST: Final = 28


class Heard(enum.Enum):
    """An answer to an echo request, with which a dial without an answer ends."""

    AGAIN = enum.auto()
    """The machine answers after a silence: now is the time to dial."""
    ALWAYS = enum.auto()
    """The machine answers all the time, and asking it tells nothing of the hub."""


def dearer(place: Place) -> float:
    """So many times as much as by IPv4 a request costs."""
    return _ECHO[place[0]][2] / _SMALLEST


@contextlib.asynccontextmanager
async def asking(place: Place) -> AsyncIterator[Ask | None]:
    """Asks that place. None: the kernel does not let this process ask, or there is no way to it now."""
    family, address = place
    protocol, kind, _ = _ECHO[family]
    try:
        sock = trio.socket.socket(family, socket.SOCK_DGRAM, protocol)
    except OSError:
        yield None
        return
    with sock:
        yield _asker(sock, kind, address)


def _asker(sock: trio.socket.SocketType, kind: int, address: tuple[object, ...]) -> Ask:
    async def ask(number: int, seconds: float) -> bool:
        ends = trio.current_time() + seconds
        with trio.move_on_at(ends):
            try:
                await sock.sendto(struct.pack("!BBHHH", kind, 0, 0, 0, number & 0xFFFF), address)
                while (await sock.recvfrom(64))[1][0] != address[0]:
                    pass
            except OSError:  # no route, or nobody there as a router says: as good as silence
                await trio.sleep_until(ends)
            else:
                return True
        return False

    return ask


async def answers(place: Place) -> bool:
    """Whether that machine answers at all, asked while a link to it is up."""
    async with asking(place) as ask:
        if ask is None:
            return False
        for number in range(TRIES):
            if await ask(number, TRY_S):
                return True
    return False


async def heard(ask: Ask, each_s: float) -> Heard:
    """Asks so often, until there is news."""
    unanswered = number = 0
    while True:
        ends = trio.current_time() + each_s
        if not await ask(number, each_s):
            unanswered += 1
        elif unanswered >= SILENT:
            return Heard.AGAIN
        elif number >= SILENT:
            return Heard.ALWAYS
        else:
            unanswered = 0
            await trio.sleep_until(ends)
        number += 1


async def unless_heard(place: Place, each_s: float, dial: Callable[[], Awaitable[Stream]]) -> Stream | Heard:
    """The dialled stream, or the answer that was heard before. Raises what the dial raises."""
    news: list[Heard] = []
    failures: list[Exception] = []

    async def listen(scope: trio.CancelScope) -> None:
        async with asking(place) as ask:
            if ask is not None:
                news.append(await heard(ask, each_s * dearer(place)))
                scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(listen, nursery.cancel_scope)
        try:
            return await dial()
        except Exception as error:
            failures.append(error)
        finally:
            nursery.cancel_scope.cancel()
    if failures:
        raise failures[0]
    return news[0]
