"""A hub that is dialled a second time, while nothing arrives any more that is sent over the link to it.

    up --doubted--> dial --TCP--> hold --first line of the hub--> log in --up--> the older link goes
         settled <--/ `--no answer--> dial again
                                    `--settled--> the newer connection goes
                                     `--the older link ends--> log in at once

A link in an outage waits as TCP has it: ever longer, where the kernel cannot be told otherwise (before Linux 6.15). And
it waits in vain where the outage gave the machine another address, or made a router forget the connection. Only when
its patience is over would it be known to be dead. A dial costs packets of 60 bytes. Whichever brings something first is
the link: the older one stays until the newer one is logged in, and the newer one goes when the older one is well again
before the hub has said a word.

That the newer connection has come about says that the line is back. Within HELD times the round trip the older link has
sent again what was lost, and has its answer, too: TCP at such a distance tries so often (native/plane/window.h). To go
on with it takes a round trip or two. A login and new consumers take four, and what was under way is sent once more. So
nothing is said over the newer connection until then. Where the way is short, both cost little, and a hub that gives a
login two seconds has to be told in time.

An older link that stands at its first full packet may have met a way that loses each of them. If it still stands when
TCP has had two turns, the hub is dialled again in small packets (packets.py): large ones would stand, too.

Where the older link ends meanwhile, a connection that has come about goes on, and waits for nobody any more: one that
is dialled then would have two round trips to make up for. Unless the hub asked for a pause. One that has not come about
is dialled anew: TCP asks ever more seldom for it.

Not here: when a link is in doubt (native/plane/window.h), how and how often a hub is dialled
(dialling.py), the loop that dials where there is no link (leafs.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import trio

from leafd.links.dialling import NoTunnel
from leafd.links.link import Link, RemoteStatus, either, first_of
from leafd.links.reach import Hold
from leafd.links.redial import Redial
from leafd.native_types import CloseReason

HEARD_S: Final = 60.0
"""So long a hub may take for its first line."""
HELD: Final = 1.3
HELD_MIN_S: Final = 3.2
"""As long as the plane lets TCP wait until it tries again, and a part of a second until its answer is noticed. .."""
HELD_NEAR_S: Final = 1.7
""".. So long where a round trip is less than a second."""
OVERTAKEN: Final = "what was sent did not arrive: another connection to the hub has taken its place"


class Stands(Exception):
    """The line is back, and the older link does not go on: its first full packet does not come through."""


class Beside:
    """A second dial to one hub beside the link that is in doubt. dial: one attempt, which awaits its third argument
    before anything is said to the hub, where the older link may go on; what comes of it then logs in by itself. log_in:
    until that is over. close: ends a connection."""

    def __init__(
        self,
        status: RemoteStatus,
        dial: Callable[[RemoteStatus, str, Hold], Awaitable[Link | None]],
        log_in: Callable[[Link], Awaitable[None]],
        close: Callable[[int, str, int], None],
        reconnect_s: float,
    ) -> None:
        self._status = status
        self._dial = dial
        self._log_in = log_in
        self._close = close
        self._redial = Redial(reconnect_s)
        self._came = False

    async def stay(self, link: Link) -> Link:
        """Until the link has gone, and whatever took its place. The last one of them."""
        while not link.gone.is_set():
            await either(link.doubted, link.gone)
            newer = None if link.gone.is_set() else await self._heard_beside(link)
            if newer is not None:
                await self._log_in(newer)
                if newer.bind is not None:
                    await self._end(link)
                if newer.bind is not None or link.gone.is_set():
                    link = newer
                else:
                    self._status.packets.failed(trio.current_time())
                    await self._pause(newer.delay_s)
            if link.bind is not None and not link.gone.is_set():
                self._status.linked(link)
        return link

    async def _end(self, older: Link) -> None:
        if not older.gone.is_set():
            older.last_error = OVERTAKEN
            self._close(older.connection, "", CloseReason.STALE)
            await older.gone.wait()

    async def _heard_beside(self, older: Link) -> Link | None:
        """A connection by which the hub has said something. None: the older one is well, or has gone."""
        begun: list[Link] = []
        self._redial.alone()
        if not self._status.attempts:
            self._status.servers.again()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(first_of, older.settled, nursery.cancel_scope)
            nursery.start_soon(self._ends_too, older, nursery.cancel_scope)
            while not begun and not older.gone.is_set():
                newer = await self._attempt(older)
                if newer is None or not await self._hears(newer, begun):
                    with trio.move_on_after((newer.delay_s if newer is not None else 0.0) + self._redial.wait_s()):
                        await older.gone.wait()
            nursery.cancel_scope.cancel()
        return begun[0] if begun else None

    async def _ends_too(self, older: Link, scope: trio.CancelScope) -> None:
        """When the older link has gone there is none. A dial goes, too, that has not come about, or if the hub wants a
        pause."""
        await older.gone.wait()
        self._status.connected = False
        if older.delay_s or not self._came:
            scope.cancel()

    async def _attempt(self, older: Link) -> Link | None:
        """Dials once; a failure is not reported while there is a link."""
        status = self._status

        async def hold(trip_s: float) -> None:
            self._came = True
            trip_s = max(trip_s, older.round_trip_s)  # what was dialled for long may not know its own
            turn_s = HELD_NEAR_S if trip_s < 1 else max(HELD_MIN_S, HELD * trip_s)
            with trio.move_on_after(turn_s * (2 if older.stands else 1)):
                await older.gone.wait()
            if older.stands and not older.gone.is_set():
                raise Stands

        status.attempts += 1
        self._came = False
        try:
            newer = await self._dial(status, status.servers.next(), hold)
            self._came = newer is not None
            return newer
        except (OSError, NoTunnel, trio.TooSlowError):
            return None
        except Stands:
            status.packets.stuck(trio.current_time())
            return None

    async def _hears(self, newer: Link, begun: list[Link]) -> bool:
        """Whether the hub says something. With its first line the newer one logs in, and the hub may end the older one
        at any time: so it counts, whatever happens in that moment."""
        try:
            with trio.move_on_after(HEARD_S):
                await either(newer.heard, newer.gone)
        finally:
            if newer.heard.is_set() and not newer.gone.is_set():
                begun.append(newer)
            elif not newer.gone.is_set():
                self._status.packets.failed(trio.current_time())
                self._close(newer.connection, "", CloseReason.CLIENT)
        return bool(begun)

    async def _pause(self, at_least_s: float) -> None:
        await trio.sleep(at_least_s + self._redial.wait_s())
