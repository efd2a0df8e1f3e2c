"""Events of the plane, each to the room that takes it.

    an event --> another server's (together.py)?
             --> by its type, one table
             --> of a connection, to the first whose it is:
                 over WebSocket, a leaf node at its login, a client, a leaf link

Not here: what a room does with it, and which rooms there are (server.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeGuard

from leafd import native_types as t
from leafd.host.listeners import LEAF_LISTENER, WEB_LISTENER
from leafd.logins.arrivals import Arrivals, Event as Arriving

if TYPE_CHECKING:
    from leafd.daemon.together import Together
    from leafd.links.leafs import Leafs
    from leafd.logins.clients import Clients
    from leafd.logins.leaf_logins import LeafLogins
    from leafd.logins.web import Webs

Take = Callable[[Any], object]
OfConnection = t.Opened | t.Proxied | t.Secured | t.Line | t.Closed | t.Refused


class Dispatch:
    """The one who hears all of the plane's events."""

    def __init__(
        self,
        rows: Mapping[type[t.Event], Take],
        together: Together | None,
        webs: Webs | None,
        arrivals: Arrivals,
        clients: Clients,
        leafs: Leafs,
        leaf_logins: LeafLogins,
    ) -> None:
        """rows: what takes the events that are of no connection, by their type."""
        self._rows: dict[type[t.Event], Take] = {**rows, **dict.fromkeys(OfConnection.__args__, self._connection)}
        self._together, self._webs, self._arrivals = together, webs, arrivals
        self._clients, self._leafs, self._leaf_logins = clients, leafs, leaf_logins

    def take(self, event: t.Event) -> None:
        """One event, in the order in which the plane told them. A type without a row is for rooms that this server
        does not have."""
        if self._together is not None and self._together.handle(event):
            return
        take = self._rows.get(type(event))
        if take is not None:
            take(event)

    def leaf(self, event: t.Event) -> None:
        """One of a leaf node's connection, whose turn it is."""
        if isinstance(event, t.Opened) and event.listener == LEAF_LISTENER and not self._leafs.secure:
            self._leaf_logins.opened(event.connection)
        if isinstance(event, t.Secured) and self._leafs.accepted(event.connection):
            self._leaf_logins.opened(event.connection)
        self._leafs.handle(event)

    def _connection(self, event: OfConnection) -> None:
        if self._webs is not None and (not isinstance(event, t.Opened) or event.listener == WEB_LISTENER):
            taken = self._webs.handle(event)
            if taken or isinstance(event, t.Opened):
                return
        if not (self._arrives(event) and self._arrivals.put(event)) and not self._clients.handle(event):
            self.leaf(event)

    def _arrives(self, event: OfConnection) -> TypeGuard[Arriving]:
        """Whether it is of a leaf node that logs in here, and can wait for its turn."""
        if isinstance(event, t.Opened):
            return event.listener == LEAF_LISTENER
        if self._arrivals.waits(event.connection):
            return isinstance(event, t.Secured | t.Line | t.Closed)
        return isinstance(event, t.Line) and self._leafs.logging_in(event.connection, accepted=True)
