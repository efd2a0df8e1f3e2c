"""INFO as it is the same for all clients of a listener: of the clients' own, and of the one for WebSocket.

    info() --> plain()                                    host, port, TLS and connect_urls of the clients' listener
           --> over_web() <-- address, urls()             the same of the WebSocket listener

Not here: what INFO says to one client (clients.py, client.py), its bytes (info_lines.py), what a cluster adds
(daemon/clustered.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from leafd.logins.info_lines import template

_OF_PLAIN: Final = ("tls_required", "tls_available", "tls_verify", "connect_urls")
"""Members about the clients' own listener."""


class Broadcasts(Protocol):
    """The part of native.Plane that this room needs."""

    def broadcast(self, template: bytes, *, web: bool = False) -> None: ...


class ServerInfo:
    """INFO of today. info: that of the clients' own listener."""

    def __init__(self, plane: Broadcasts, info: Callable[[], dict[str, Any]]) -> None:
        self._plane = plane
        self.plain = info
        self.web_address: tuple[str, int] | None = None
        """The address of WebSocket clients; None: there is no such listener."""
        self.web_urls: Callable[[], list[str]] = list
        """The URLs at which WebSocket clients reach the servers of a cluster, where there are others."""

    def over_web(self, of_listener: dict[str, Any]) -> dict[str, Any]:
        """INFO for WebSocket clients. of_listener: the listener's members about TLS."""
        info = {name: value for name, value in self.plain().items() if name not in _OF_PLAIN}
        if self.web_address is not None:
            info["host"], info["port"] = self.web_address
        if urls := self.web_urls():
            info["connect_urls"] = urls
        return info | of_listener

    def announce(self, more: dict[str, Any], more_over_web: dict[str, Any]) -> None:
        """Says it to all who have logged in, with these members more."""
        self._plane.broadcast(template(self.plain() | more))
        if self.web_address is not None:
            self._plane.broadcast(template(self.over_web(more_over_web)), web=True)
