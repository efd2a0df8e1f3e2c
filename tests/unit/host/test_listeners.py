"""Who binds, who listens, and what whoever comes second is told."""

from __future__ import annotations

import socket

import pytest
from leafd.config.bind import load_text
from leafd.errors import StartError
from leafd.host.listeners import bind_all, listen

from tests import servers

ALONE = "listen: 127.0.0.1:{port}"
MEMBER = ALONE + "\ncluster {{ name: C, listen: 127.0.0.1:-1 }}"


def listens(sock: socket.socket) -> bool:
    return bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def bound(text: str) -> dict[str, socket.socket]:
    made = bind_all(load_text(text).server)
    return {name: sock for name in ("client", "route") if (sock := getattr(made, name)) is not None}


def test_only_the_clients_port_of_a_member_opens_later() -> None:
    """Whoever comes to any other waits in its backlog."""
    found = []
    for text in (ALONE, MEMBER):
        made = bound(text.format(port=servers.free_port()))
        found.append({name: listens(sock) for name, sock in made.items()})
        listen(made["client"])
        assert listens(made["client"])
        for sock in made.values():
            sock.close()
    assert found == [{"client": True}, {"client": False, "route": True}]


def test_a_listener_has_the_options_that_its_connections_inherit() -> None:
    """Whoever comes before the plane has the listener has them, too."""
    for sock in bound(ALONE.format(port=servers.free_port())).values():
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        sock.close()


def test_a_port_that_another_opened_is_named_at_once_and_later() -> None:
    """Before the first one listens it cannot be known; the second one is told then."""
    port = servers.free_port()
    text = f"client connections: cannot listen on 127.0.0.1:{port}: the port is in use"
    first, second = (bound(MEMBER.format(port=port)) for _ in range(2))
    listen(first["client"])
    with pytest.raises(StartError, match=text):
        listen(second["client"])
    with pytest.raises(StartError, match=text):
        bound(MEMBER.format(port=port))
    for sock in (*first.values(), *second.values()):
        sock.close()
