"""JWTs over WebSocket, with leafd and with the reference: in CONNECT, or in a cookie, where a page cannot sign a nonce.

Not here: WebSocket itself, and JWTs elsewhere (test_operator.py).
"""

from __future__ import annotations

import base64
import json
import os
import socket
from collections.abc import Iterator

import pytest

from tests.interop.jwt_peer import HEAD, VIOLATION, Peer, close_all
from tests.jwts import Operator, User
from tests.servers import KINDS, Server, running

WEB = 'websocket { listen: "127.0.0.1:{web_port}", no_tls: true, jwt_cookie: "login" }\n'


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    close_all()


def frame(text: str) -> bytes:
    """A masked binary frame; the mask is zero, which changes nothing."""
    data = text.encode()
    size = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + len(data).to_bytes(2, "big")
    return b"\x82" + size + bytes(4) + data


def said(server: Server, user: User, *, cookie: bool) -> str:
    """PONG or the error that a browser's client hears: its JWT is in a cookie, or in a CONNECT that signs the nonce."""
    with socket.create_connection(("127.0.0.1", server.ports["web_port"]), 10) as connection:
        return logged_in(connection, user, cookie=cookie)


def logged_in(connection: socket.socket, user: User, *, cookie: bool) -> str:
    """The same on a connection that stays open."""
    key = base64.b64encode(os.urandom(16)).decode()
    head = (
        f"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n"
    )
    if cookie:
        head += f"Cookie: other=1; login={user.token}\r\n"
    connection.sendall(f"{head}\r\n".encode())
    received = b""
    while b"}" not in received.partition(b"\r\n\r\n")[2]:
        received += connection.recv(65536)
    info = received[received.index(b"INFO ") + 5 :].partition(b"\r\n")[0]
    body = {"verbose": False} | ({} if cookie else user.connect(json.loads(info)["nonce"]))
    connection.sendall(frame(f"CONNECT {json.dumps(body)}\r\nPING\r\n"))
    received = b""
    while b"PONG" not in received and b"-ERR" not in received:
        piece = connection.recv(65536)
        if not piece:
            break
        received += piece
    return "PONG" if b"PONG" in received else received[received.index(b"-ERR") :].partition(b"\r\n")[0].decode()


@pytest.mark.parametrize("kind", KINDS)
def test_users_of_a_browser(kind: str) -> None:
    """A bearer's JWT in a cookie is a login; types of connections tell WebSocket from the rest."""
    operator = Operator()
    account = operator.account("A")
    web = account.user("w", allowed_connection_types=["WEBSOCKET"])
    plain = account.user("p", allowed_connection_types=["STANDARD"])
    bearer = account.user("b", bearer_token=True)
    with running(kind, HEAD + WEB + operator.configuration()) as server:
        assert ["PONG", VIOLATION, "PONG"] == [said(server, user, cookie=False) for user in (web, plain, bearer)]
        assert [VIOLATION, "PONG"] == [said(server, user, cookie=True) for user in (web, bearer)]
        assert [[VIOLATION, "closed"], []] == [Peer(server, user).lines() for user in (web, plain)]
