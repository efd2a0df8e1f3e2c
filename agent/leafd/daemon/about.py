"""The server's descriptions of itself: INFO, the ports file, the first lines of the log, and the facts for monitoring.

Not here: the reports that monitoring makes of the facts (monitor/), what a leaf link is told
(links/leaf.py).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from leafd.config.schema.server import ServerConfig
from leafd.host.listeners import ANYWHERE, Sockets, address_of, advertised, reachable
from leafd.host.log import Log
from leafd.links.addresses import host_port
from leafd.logins.handshakes import info_of
from leafd.records import dataclass

VERSION: Final = "2.15.1"
"""The protocol level clients gate their features on; the version of this program is another matter."""
API_LEVEL: Final = 5


@dataclass(frozen=True, slots=True)
class About:
    """The facts that stay the same from start to stop, also over a reload."""

    server_id: str
    name: str
    domain: str
    jetstream: bool
    host: str
    port: int
    leaf: tuple[str, int] | None
    monitor: tuple[str, int] | None
    monitor_scheme: str = "http"
    web: tuple[str, int] | None = None
    web_scheme: str = "ws"
    client_scheme: str = "nats"
    mqtt: tuple[str, int] | None = None
    route: tuple[str, int] | None = None
    route_scheme: str = "nats"

    def info(self, config: ServerConfig) -> dict[str, Any]:
        """The part of INFO that is the same for every client."""
        info: dict[str, Any] = {
            "server_id": self.server_id,
            "server_name": self.name,
            "version": VERSION,
            "proto": 1,
            "go": "none",
            "host": self.host,
            "port": self.port,
            "headers": not config.no_header_support,
            "max_payload": config.max_payload,
            "api_lvl": API_LEVEL,
        }
        if self.jetstream:
            info["jetstream"] = True
        if self.domain:
            info["domain"] = self.domain
        if config.client_advertise:
            info["host"], info["port"] = advertised(config.client_advertise, self.port)
        return info | info_of(config.tls, optional=config.allow_non_tls)

    def ports(self) -> str:
        """The text of the ports file, in the reference's form."""
        found = {"nats": _urls(self.client_scheme, (self.host, self.port))}
        if self.monitor is not None:
            found["monitoring"] = _urls(self.monitor_scheme, self.monitor)
        if self.route is not None:
            found["cluster"] = _urls(self.route_scheme, self.route)
        if self.leaf is not None:
            found["leafnodes"] = _urls("nats-leaf", self.leaf)
        if self.web is not None:
            found["websocket"] = _urls(self.web_scheme, self.web)
        return json.dumps(found)

    def log_start(self, log: Log, store: Path | None) -> None:
        """The lines that say that the server is ready. store: where its data lies."""
        log.info(f"  Name:     {self.name}")
        log.info(f"  ID:       {self.server_id}")
        if store is not None:
            log.info(f"  Store:    {store}")
        if self.domain:
            log.info(f"  Domain:   {self.domain}")
        if self.monitor is not None:
            log.info(f"Starting {self.monitor_scheme} monitor on {host_port(*self.monitor)}")
        log.info("Server is ready", event="ready")


def _urls(scheme: str, address: tuple[str, int]) -> list[str]:
    """The URLs of a listener. Without an address of its own: one for each of this machine, loopback first."""
    host, port = address
    hosts = ["127.0.0.1", *reachable(host)] if host == ANYWHERE else [host]
    return [f"{scheme}://{host_port(one, port)}" for one in dict.fromkeys(hosts)]


def about(server_id: str, config: ServerConfig, sockets: Sockets, domain: str) -> About:
    """The facts about a server with this configuration and these sockets."""
    host, port = address_of(sockets.client)
    return About(
        server_id=server_id,
        name=config.server_name or server_id,
        domain=domain,
        jetstream=config.jetstream is not None and config.jetstream.enabled,
        host=host,
        port=port,
        leaf=address_of(sockets.leaf) if sockets.leaf is not None else None,
        monitor=address_of(sockets.monitor) if sockets.monitor is not None else None,
        monitor_scheme="https" if config.monitors_securely else "http",
        web=address_of(sockets.web) if sockets.web is not None else None,
        web_scheme="wss" if config.websocket is not None and config.websocket.tls is not None else "ws",
        mqtt=address_of(sockets.mqtt) if sockets.mqtt is not None else None,
        client_scheme="tls" if config.tls is not None and not config.allow_non_tls else "nats",
        route=address_of(sockets.route) if sockets.route is not None else None,
        route_scheme="tls" if config.cluster is not None and config.cluster.tls is not None else "nats",
    )
