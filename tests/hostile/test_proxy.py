"""Headers of the PROXY protocol that lie, by hand, beside nats-server: whom connz shows, or that it is refused.

Not here: headers that a real proxy sends, and how the log tells of bad ones (interop/test_proxied.py).
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.certificates import Authority
from tests.hostile.wires import PATIENCE_S, Wire
from tests.interop.test_proxied import CONFIGURATION, SIGNATURE, V4, connections, second
from tests.interop.test_tls import Files, serving_first
from tests.rig.waiting import eventually
from tests.servers import KINDS, LEAFD, REFERENCE, Server, running

OWN: Final = "its own"
REFUSED: Final = "refused"
LOGIN: Final = b'CONNECT {"verbose":false}\r\nPING\r\n'


def first(source: bytes = b"192.0.2.1", port: bytes = b"40001", family: bytes = b"TCP4", end: bytes = b"\r\n") -> bytes:
    """A header of version 1."""
    target = b"::1" if family == b"TCP6" else b"198.51.100.2"
    return b"PROXY %s %s %s %s 4222%s" % (family, source, target, port, end)


def unknown(length: int) -> bytes:
    """A header of version 1 of that length that tells no address."""
    return b"PROXY UNKNOWN " + b"x" * (length - 16) + b"\r\n"


ADMITTED: Final = {
    "a type of 65,535 bytes": (second(V4 + bytes(65_535 - len(V4))), "192.0.2.1"),
    "LOCAL with 65,535 bytes": (second(bytes(65_535), command=0x20, family=0), OWN),
    "LOCAL that covers a login": (second(LOGIN, command=0x20, family=0), OWN),
    "a TLV that is longer than the header": (second(V4 + b"\x20\xff\xff\x01"), "192.0.2.1"),
    "half a TLV": (second(V4 + b"\x03"), "192.0.2.1"),
    "two CRs": (first(end=b"\r\r\n"), "192.0.2.1"),
    "a blank too many": (first(end=b" \r\n"), "192.0.2.1"),
    "two blanks": (first().replace(b" TCP4", b"  TCP4"), "192.0.2.1"),
    "a tab": (first().replace(b" 4222", b"\t4222"), "192.0.2.1"),
    "a port with zeros": (first(port=b"0040001"), "192.0.2.1"),
    "loopback": (first(b"127.0.0.1"), "127.0.0.1"),
    "everybody": (first(b"255.255.255.255"), "255.255.255.255"),
    "107 bytes": (unknown(107), OWN),
    "LF in UNKNOWN": (b"PROXY UNKNOWN\n\r\n", OWN),
}
KEPT_OUT: Final = {
    "version 1 twice": first() * 2,
    "version 2 twice": second(V4) * 2,
    "version 1, then 2": first() + second(V4),
    "version 2, then 1": second(V4) + first(),
    "a header behind a login": b'CONNECT {"verbose":false}\r\n' + first(),
    "a command that is none": second(V4, command=0x2F),
    "no protocol": second(V4, family=0x10),
    "a family that is none": second(V4, family=0xF1),
    "half an address": second(V4, family=0x21),
    "half a signature": SIGNATURE[:11],
    "LF alone": first(end=b"\n"),
    "CR alone": first(end=b"\r"),
    "NUL at the end": first(end=b"\0\r\n"),
    "tabs alone": first().replace(b" ", b"\t"),
    "small letters": first().lower(),
    "108 bytes": unknown(108),
    "a word that begins with UNKNOWN": b"PROXY UNKNOWNx\r\n",
    "nothing": b"PROXY \n",
    "zeros in an address": first(b"192.000.002.001"),
    "a short address": first(b"127.1"),
    "a hexadecimal address": first(b"0x7f000001"),
    "NUL in an address": first(b"192.0.2.1\0x"),
    "a terminal's order": first(b"\x1b[2J"),
    "a line for the log": first(b"192.0.2.1\r[INF]"),
    "a zone": first(b"fe80::1%lo", family=b"TCP6"),
    "JSON in a zone": first(b'fe80::1%"}', family=b"TCP6"),
    "brackets": first(b"[::1]", family=b"TCP6"),
    "a mapped address as TCP4": first(b"::ffff:192.0.2.1"),
    "+ before the port": first(port=b"+40001"),
    "- before the port": first(port=b"-0"),
    "_ in the port": first(port=b"4_0"),
    "a hexadecimal port": first(port=b"0x10"),
    "port 65536": first(port=b"65536"),
    "a port of 30 digits": first(port=b"9" * 30),
}


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """One for all headers."""
    with running(request.param, CONFIGURATION) as found:
        yield found


def shown(server: Server, header: bytes) -> str:
    """Whom connz shows for a login that is sent at once behind that header."""
    with Wire(server.port) as peer:
        peer.send(header + LOGIN)
        while (line := peer.heard()) != b"PONG":
            if not line:
                assert peer.closed, "it is neither let in nor sent away"
                return REFUSED
        own = tuple(peer.socket.getsockname()[:2])
        # (One that was refused before may be shown for a moment.)
        told = eventually(lambda: found if len(found := connections(server)) == 1 else [], lambda: connections(server))
    eventually(lambda: not connections(server), lambda: connections(server))
    return OWN if told[0] == own else told[0][0]


def test_every_header_is_taken_for_what_it_says_or_refused(server: Server) -> None:
    """Both servers let the same ones in, under the same address, and the rest runs no order behind the header."""
    expected = {name: address for name, (_, address) in ADMITTED.items()} | dict.fromkeys(KEPT_OUT, REFUSED)
    headers = {name: header for name, (header, _) in ADMITTED.items()} | KEPT_OUT
    assert expected == {name: shown(server, header) for name, header in headers.items()}


def test_what_a_header_covers_is_not_run(server: Server) -> None:
    """A login inside a header of 65,535 bytes that does not come whole lets nobody in."""
    with Wire(server.port, patience_s=1) as peer:
        peer.send(SIGNATURE + b"\x20\x00\xff\xff" + LOGIN)
        told = [peer.heard(), peer.heard()]
        assert not [line for line in told if line and not line.startswith(b"INFO ")]


def test_no_header_writes_into_the_log_or_stays(server: Server) -> None:
    """After all of them each line of the log is one that the server wrote, and the next client is served."""
    for header in KEPT_OUT.values():
        shown(server, header)
    assert not [line for line in server.log.splitlines() if not line.startswith("[")]
    assert not [one for one in server.log if ord(one) < 0x20 and one != "\n"]
    assert OWN == shown(server, b"")


def test_a_nul_behind_unknown_is_refused() -> None:
    """leafd takes no NUL in a header's line, nats-server does there; another unprintable byte tells nobody anything."""
    for kind in KINDS:
        with running(kind, CONFIGURATION) as server:
            assert (REFUSED if kind == LEAFD else OWN) == shown(server, b"PROXY UNKNOWN \0\r\n")
            assert OWN == shown(server, b"PROXY UNKNOWN \x1b[2J\r\n")


def test_an_address_with_port_0_is_shown() -> None:
    """nats-server shows no address at all beside that port; of the first IPv6 addresses each has its own notation."""
    ends = b"::1.2.3.4"
    for kind, told in {LEAFD: ["192.0.2.1", "::1.2.3.4"], REFERENCE: ["", "::102:304"]}.items():
        with running(kind, CONFIGURATION) as server:
            assert told == [shown(server, first(port=b"0")), shown(server, first(ends, family=b"TCP6"))]


def test_thousands_of_headers_that_lie_or_never_end_keep_nobody_out(server: Server) -> None:
    """A thousand wrong ones and a thousand halves, which stay: the next client logs in, and gets its own address."""
    with contextlib.ExitStack() as stack:
        for number in range(1000):
            with socket.create_connection(("127.0.0.1", server.port), PATIENCE_S) as sock:
                sock.sendall(first(port=b"x%d" % number) + LOGIN)
            half = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), PATIENCE_S))
            half.sendall(second(bytes(65_535))[: 1 + number % 50])
        with Wire(server.port) as peer:
            peer.send(LOGIN)
            while (line := peer.heard()) != b"PONG":
                assert line
            assert tuple(peer.socket.getsockname()[:2]) in connections(server)
    eventually(lambda: not connections(server), lambda: connections(server))
    assert OWN == shown(server, b"")


HALF_HELLO: Final = b"\x16\x03\x01\x00\xc0\x01\x00\x00\xbc\x03\x03" + b"x" * 100
HALVES: Final = (
    second(V4)[:20],
    second(V4) + HALF_HELLO,
    first() + HALF_HELLO[:3],
    HALF_HELLO,
    first() + LOGIN,
    LOGIN,
)


def behind_tls(server: Server, authority: Authority, said: bytes) -> bytes:
    """What comes back behind a header and a handshake; the first INFO is left out."""
    context = ssl.create_default_context(cafile=str(authority.certificate))
    with socket.create_connection(("127.0.0.1", server.port), 60.0) as sock:
        sock.sendall(first(source=b"192.0.2.99"))
        with context.wrap_socket(sock, server_hostname="localhost") as safe:
            safe.sendall(said)
            found = b""
            with contextlib.suppress(OSError):
                while b"PONG\r\n" not in found and (part := safe.recv(65536)):
                    found += part
            if b"PONG" in found:
                assert ("192.0.2.99", 40_001) in connections(server)
            return found.partition(b"\r\n")[2]


@pytest.mark.parametrize("kind", KINDS)
def test_halves_of_headers_and_handshakes_keep_nobody_out(kind: str, tmp_path: Path) -> None:
    """Where TLS comes first, behind the header: a thousand that stay in the middle of either, and a user logs in among
    them under the header's address. A header behind the handshake is no order and no header."""
    authority = Authority(tmp_path)
    files = Files(authority, authority.issue("server"), authority.issue("client"))
    with (
        serving_first(kind, files, "handshake_first: true, timeout: 60", "proxy_protocol: true") as server,
        contextlib.ExitStack() as stack,
    ):
        server.ports["monitor_port"] = server.ports["http_port"]
        for number in range(1000):
            half = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), 60.0))
            with contextlib.suppress(OSError):  # the reference may have closed it
                half.sendall(HALVES[number % len(HALVES)])
        assert b"PONG\r\n" == behind_tls(server, authority, LOGIN)
        assert b"PONG" not in behind_tls(server, authority, first(source=b"192.0.2.7") + LOGIN)
        assert b"PONG\r\n" == behind_tls(server, authority, LOGIN)
