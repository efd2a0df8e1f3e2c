"""What the log of a running daemon says of clients that are refused something: the reference's lines, safe to read."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import unicodedata

import pytest

from tests.rig.waiting import eventually
from tests.servers import KINDS, LEAFD, REFERENCE, Server, running

CONFIGURATION = """
listen: 127.0.0.1:{port}
server_name: box
max_payload: 64
max_control_line: 512
accounts {
  A {
    users: [
      {user: "a b", password: a, permissions: {publish: {allow: ["ok.>"]}, subscribe: {deny: ["no.>"]}}}
      {user: free, password: f}
    ]
  }
}
"""
HOSTILE = 'eve\n[1] 2026/01/01 00:00:00.000000 [INF] Server is ready\x1b[2J\u202e"'


def say(server: Server, user: str, *parts: bytes, password: str = "a", **options: object) -> bytes:
    """Logs in, sends, and hears the answers until a PONG behind them or the end, which may be a reset."""
    body = {"verbose": False, "pedantic": False, "headers": True, "user": user, "pass": password} | options
    with socket.create_connection(("127.0.0.1", server.port), 10) as sock, sock.makefile("rb") as file:
        sock.sendall(f"CONNECT {json.dumps(body)}\r\n".encode() + b"".join(parts) + b"PING\r\n")
        heard = b""
        with contextlib.suppress(ConnectionResetError):
            for line in file:
                heard += line
                if line == b"PONG\r\n":
                    break
        return heard


def told(server: Server, count: int) -> list[str]:
    """The lines of level ERR without what differs from run to run."""

    def lines() -> list[str]:
        return re.findall(r"\[ERR\] 127\.0\.0\.1:\d+ - cid:\d+ - (.*)", server.log)

    eventually(lambda: len(lines()) >= count, lines)
    return [re.sub(r"state=\d+, i=\d+: |\.\.\.$", "", line).replace("'", "") for line in lines()]


@pytest.mark.parametrize(
    "parts",
    [
        b"PUB no 1\r\nx\r\n",
        b"PUB no 1\r\nx\r\nPUB no 1\r\ny\r\n",
        b"PUB ok.x $JS.ACK.x 1\r\nx\r\n",
        b"PUB ok.x _R_.x 1\r\nx\r\n",
        b"PUB _GR_.x 1\r\nx\r\n",
        b"PUB $NRG.x 1\r\nx\r\n",
        b"SUB no.x 1\r\n",
        b"SUB no.x q 2\r\n",
        b"PUB ok.x 100\r\n",
        b"HPUB ok.x 12 100\r\n",
        b"PUB " + b"x" * 600 + b" 1\r\nx\r\n",
        b'PUB n\xff\x1b[2J"\\ 1\r\nx\r\n',
    ],
    ids=lambda parts: parts[:20].decode("latin-1").encode("unicode_escape").decode(),
)
def test_a_refusal_is_logged_as_by_the_reference(parts: bytes) -> None:
    """Each refusal is a line with the reference's words, and none more: which client, what it wanted."""
    lines: dict[str, list[str]] = {}
    for kind in KINDS:
        with running(kind, CONFIGURATION) as server:
            say(server, "a b", parts)
            lines[kind] = told(server, 1)

    assert lines[REFERENCE]
    assert lines[REFERENCE] == lines[LEAFD]


def test_nonsense_is_logged_with_its_beginning() -> None:
    """Input that is no protocol is a line of the log, bounded and escaped."""
    with running(LEAFD, CONFIGURATION) as server:
        say(server, "a b", b"\x1b[2JFOO" + b"y" * 300 + b"\r\n")
        (line,) = told(server, 1)

    assert line.startswith(r'"A/user:a b" - Client parser ERROR: proto="\x1b[2JFOOyyy')
    assert len(line) < 120


def test_a_name_forges_no_line() -> None:
    """A user's name with new lines, escapes and a change of direction is one line of plain text in quotes."""
    with running(LEAFD, CONFIGURATION) as server:
        say(server, HOSTILE, password="wrong")
        say(server, "free", b"PUB a 100\r\n", password="f", name=HOSTILE)
        lines = told(server, 2)
        written = server.log

    assert (
        r'authentication error - User "eve\n[1] 2026/01/01 00:00:00.000000 [INF] Server is ready\x1b[2J\u202e\""'
        == lines[0]
    )
    assert {"\n"} == {one for one in written if unicodedata.category(one) in ("Cc", "Cf", "Zl", "Zp")}
    assert 1 == len(re.findall(r"^\[\d+\] \S+ \S+ \[INF\] Server is ready$", written, re.MULTILINE))


def test_a_flood_of_refusals_does_not_fill_the_disk() -> None:
    """A client that publishes what it may not, without a pause, costs some lines and no more."""
    with running(LEAFD, CONFIGURATION) as server:
        heard = say(server, "a b", b"PUB no 1\r\nx\r\n" * 5000)
        say(server, "free", b"PUB a 100\r\n", password="f")
        lines = told(server, 17)

    assert 5000 == heard.count(b"Permissions Violation")
    assert len(lines) < 100
    assert lines[-1].endswith("maximum payload exceeded: 100 vs 64")
