"""Whether this machine has got another way to its hubs: a new address or a new route, as a modem's that has found its
network again.

    kernel --netlink: addresses, routes--> Ways.watch() --> a dial that waits for an answer begins anew

The news is only a hint. The kernel says nothing where the signal is gone and the interface stays, and some systems
forbid netlink: dials then go on as without it. A machine that starts containers has news all day, so at most one every
SELDOM_S seconds counts.
Not here: what is dialled, and how often (leafs.py, dialling.py).
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, TypeVar

import trio

GROUPS: Final = 0x10 | 0x40 | 0x100 | 0x400
"""RTMGRP_IPV4_IFADDR, RTMGRP_IPV4_ROUTE, RTMGRP_IPV6_IFADDR, RTMGRP_IPV6_ROUTE."""
NEW_ADDRESS: Final = 20
NEW_ROUTE: Final = 24
SETTLE_S: Final = 0.3
"""An address comes with several routes, and the kernel sends a message for each."""
SELDOM_S: Final = 15.0
"""The shortest time between two news that count."""
Stream = TypeVar("Stream")
_HEADER: Final = struct.Struct("=IHHII")


class Ways:
    """The news of the machine's ways to the network, which ends waits."""

    def __init__(self) -> None:
        self._under_way: set[trio.CancelScope] = set()

    async def unless_news(self, dial: Callable[[], Awaitable[Stream]]) -> Stream | None:
        """The result of the dial; None: there was news first, and the dial was given up."""
        with trio.CancelScope() as scope:
            self._under_way.add(scope)
            try:
                return await dial()
            finally:
                self._under_way.discard(scope)
        return None

    def tell(self) -> None:
        """Wakes all dials that wait, since the machine's ways have changed."""
        for scope in self._under_way:
            scope.cancel()

    async def watch(self) -> None:
        """Listens to the kernel for ever; returns at once where netlink may not be used."""
        try:
            plain = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        except OSError:
            return
        with trio.socket.from_stdlib_socket(plain) as sock:
            try:
                await sock.bind((0, GROUPS))
            except OSError:
                return
            while True:
                try:
                    some = await sock.recv(65536)
                except OSError:  # the kernel has dropped messages, so something has changed
                    some = _HEADER.pack(_HEADER.size, NEW_ADDRESS, 0, 0, 0)
                if not any(kind in (NEW_ADDRESS, NEW_ROUTE) for kind in kinds(some)):
                    continue
                await trio.sleep(SETTLE_S)
                self.tell()
                await trio.sleep(SELDOM_S)


def kinds(messages: bytes) -> Iterator[int]:
    """The type of each netlink message."""
    at = 0
    while at + _HEADER.size <= len(messages):
        size, kind, *_ = _HEADER.unpack_from(messages, at)
        yield kind
        if size < _HEADER.size:
            return
        at += (size + 3) & ~3
