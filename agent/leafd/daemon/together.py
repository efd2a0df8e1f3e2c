"""The parts that a cluster and a supercluster add to a server.

    server --handle, info, listen, run, leave--> Together --> Clustered (routes), Supercluster (gateways)

Only a configuration with one of the two imports this. What does not live here: what either does (clustered.py,
supercluster.py); links to hubs and of leaves, which are other servers too (links/leafs.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leafd.daemon.clustered import Clustered
from leafd.daemon.supercluster import Supercluster

if TYPE_CHECKING:
    import trio

    from leafd import native_types as t
    from leafd.daemon.server import Server
    from leafd.links.gateways import Gateways
    from leafd.links.routes import Routes


class Together:
    """Owner of both."""

    def __init__(self, server: Server) -> None:
        config, sockets = server.config, server.sockets
        self.clustered: Clustered | None = None
        self.supercluster: Supercluster | None = None
        if config.cluster is not None and sockets.route is not None:
            self.clustered = Clustered(server, config.cluster)
        if config.gateway is not None and sockets.gateway is not None:
            self.supercluster = Supercluster(server, config.gateway, self.clustered)

    @property
    def routes(self) -> Routes | None:
        """The routes to other servers of the cluster."""
        return self.clustered.routes if self.clustered is not None else None

    @property
    def gateways(self) -> Gateways | None:
        """The gateways to other clusters."""
        return self.supercluster.gateways if self.supercluster is not None else None

    @property
    def cluster(self) -> str:
        """The cluster's name."""
        if self.clustered is not None:
            return self.clustered.routes.cluster.name
        return self.supercluster.gateways.own.name if self.supercluster is not None else ""

    @property
    def joined(self) -> bool:
        """Is there another server, of this cluster or of another?"""
        routes, gateways = self.routes, self.gateways
        return (routes is not None and routes.joined) or (gateways is not None and gateways.joined)

    def info(self) -> dict[str, Any]:
        """The members that a cluster adds to clients' INFO."""
        return self.clustered.info() if self.clustered is not None else {"cluster": self.cluster}

    def handle(self, event: t.Event) -> bool:
        """Takes an event if it is of a route or a gateway."""
        if self.clustered is not None and self.clustered.routes.handle(event):
            return True
        return self.supercluster is not None and self.supercluster.gateways.handle(event)

    def log_name(self, connection: int) -> str | None:
        """The beginning of log lines about a connection; None: it is neither a route nor a gateway."""
        found = self.clustered.routes.log_name(connection) if self.clustered is not None else None
        if found is None and self.supercluster is not None:
            found = self.supercluster.gateways.log_name(connection)
        return found

    def start(self, nursery: trio.Nursery) -> None:
        """Others may come, and are dialled. Gateways first: routes tell of their address."""
        if self.supercluster is not None:
            self.supercluster.listen()
            nursery.start_soon(self.supercluster.gateways.run)
        if self.clustered is not None:
            self.clustered.listen()
            nursery.start_soon(self.clustered.routes.run)

    def unlisten(self) -> None:
        """No other server may come any more, and none is dialled."""
        if self.clustered is not None:
            self.clustered.unlisten()
        if self.supercluster is not None:
            self.supercluster.unlisten()

    def leave(self) -> None:
        """Lame duck mode."""
        if self.clustered is not None:
            self.clustered.leave()
