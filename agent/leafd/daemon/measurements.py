"""Measurements for accounts: traced messages, latencies of services, and descriptions of the other end of a connection.

    MessageTrace, Latency, FarLatency --> an event on the subject that asks for it
    a client or a link, where its account shares or measures that --> Description --> the plane

Each room is imported with the first event that needs it. Not here: what an event says
(monitor/traces.py, monitor/latency.py), what a description says (logins/description.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import trio

from leafd.links.origin import hash8
from leafd.turns import Pause

if TYPE_CHECKING:
    from leafd import native_types as t
    from leafd.daemon.current import Current
    from leafd.daemon.together import Together
    from leafd.links.leaf import Bind
    from leafd.links.leafs import Leafs
    from leafd.links.link import Link
    from leafd.logins.client import Client
    from leafd.logins.clients import Clients
    from leafd.monitor.facts import Facts
    from leafd.monitor.latency import Latencies
    from leafd.native_plane import Plane


def reached(together: Together | None) -> tuple[str, ...]:
    """The names of the other clusters that messages go to."""
    gateways = together.gateways if together is not None else None
    return gateways.sent_to if gateways is not None else ()


class Descriptions:
    """The descriptions of connections whose accounts share them. cluster: the name that leaf links belong to; others:
    the clusters that are reached."""

    def __init__(
        self,
        plane: Plane,
        current: Current,
        server_name: str,
        cluster: Callable[[], str],
        others: Callable[[], Sequence[str]],
    ) -> None:
        self._plane, self._current, self._server_name, self._cluster = plane, current, server_name, cluster
        self._others = others
        self._changed = trio.Event()

    def others_changed(self) -> None:
        """Another cluster is reached."""
        self._changed.set()

    async def follow(self, clients: Clients, leafs: Leafs) -> None:
        """Describes those that are here anew after each such change."""
        while True:
            await self._changed.wait()
            self._changed, pause = trio.Event(), Pause()
            leafs.describe_again()
            for client in clients.present.described():
                await pause()
                self.client(client)

    def client(self, client: Client) -> None:
        """Describes a client, where its account is described."""
        from leafd.logins.description import description

        found = description(client, self._server_name, self._cluster(), self._others())
        self._plane.describe(client.connection, found)

    def link(self, link: Link, bind: Bind) -> None:
        """Describes a leaf link, where its account is described."""
        account = self._current.compiled.graph.by_id.get(bind.account)
        if account is None or not account.described:
            return
        from leafd.logins.description import link_description

        self._plane.describe(link.connection, link_description(link, bind, self._cluster(), self._others()))


class Measurements:
    """Takes the plane's events of measured services and of traced messages."""

    def __init__(self, plane: Plane, current: Current, facts: Facts, clients: Clients) -> None:
        self._plane, self._current, self._facts, self._clients = plane, current, facts, clients
        self._latencies: Latencies | None = None

    def begin(self) -> None:
        """From the first account on that imports a measured service."""
        if self._latencies is not None:
            return
        from leafd.monitor.latency import FAR, Latencies

        self._latencies = Latencies(self._facts)
        system = self._current.compiled.graph.system
        if system is not None:
            self._plane.subscribe(system.id, FAR + hash8(self._facts.name), self._latencies.far)

    def tell(self, event: t.Latency) -> None:
        """A service's answer was measured."""
        if self._latencies is not None:
            self._latencies.tell(event)

    def tell_trace(self, event: t.MessageTrace) -> None:
        """A message came to where its trace is told."""
        from leafd.monitor.traces import Traces

        Traces(self._facts).tell(event)

    def tell_far(self, event: t.FarLatency) -> None:
        """To the server that measures it, over a link of the system account."""
        from leafd.logins.description import whole
        from leafd.monitor.latency import far_event

        system, client = self._current.compiled.graph.system, self._clients.get(event.connection)
        if system is None or client is None:
            return
        responder = whole(client, self._facts.name, self._facts.cluster, event.round_trip_ns)
        subject, payload = far_event(event, self._current.account_name(event.account), responder)
        self._plane.publish(system.id, subject, payload)
