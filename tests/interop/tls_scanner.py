"""Asks a TLS server what it offers, as testssl does: hellos made by hand, so that what is asked for does not depend on
what this machine's OpenSSL can do. A suite or group that the server chooses is left out of the next hello, until it
refuses; what it chose is what it offers.

    facts(port)         what the server says of itself, by the names of the table in tests/wire/tls.md

Only the answer to the first hello is read, which is plain text in all versions. Not here: handshakes
that end (test_tls.py), what ought to be offered (test_tls_offer.py).
"""

from __future__ import annotations

import hashlib
import os
import socket
import struct
from dataclasses import dataclass, field
from typing import Final

VERSIONS: Final = {0x0300: "SSL 3", 0x0301: "1.0", 0x0302: "1.1", 0x0303: "1.2", 0x0304: "1.3"}
SUITES_13: Final = {
    0x1301: "AES_128_GCM_SHA256",
    0x1302: "AES_256_GCM_SHA384",
    0x1303: "CHACHA20_POLY1305_SHA256",
    0x1304: "AES_128_CCM_SHA256",
    0x1305: "AES_128_CCM_8_SHA256",
}
SUITES: Final = {
    0xC009: "AES_128_CBC_SHA",
    0xC00A: "AES_256_CBC_SHA",
    0xC013: "AES_128_CBC_SHA",
    0xC014: "AES_256_CBC_SHA",
    0xC02B: "AES_128_GCM_SHA256",
    0xC02C: "AES_256_GCM_SHA384",
    0xC02F: "AES_128_GCM_SHA256",
    0xC030: "AES_256_GCM_SHA384",
    0xCCA8: "CHACHA20_POLY1305_SHA256",
    0xCCA9: "CHACHA20_POLY1305_SHA256",
}
"""With ECDHE, which the names leave out, as they do the kind of certificate. Any other is shown as its number."""
GROUPS: Final = {
    0x11EC: "X25519MLKEM768",
    0x11EB: "SecP256r1MLKEM768",
    0x11ED: "SecP384r1MLKEM1024",
    29: "X25519",
    23: "P-256",
    24: "P-384",
    25: "P-521",
}
ALL_SUITES: Final = [*range(0x0001, 0x00FF), *range(0xC001, 0xC0B0), *range(0xCCA8, 0xCCAF)]
"""Every suite of SSL 3 to TLS 1.2 that has a number, and the gaps between them; 0x00FF is none."""
ALL_GROUPS: Final = [*range(1, 42), *range(256, 262), 0x11EB, 0x11EC, 0x11ED, 0x6399, 0x639A]
ALL_SIGNATURES: Final = [0x0401, 0x0501, 0x0601, 0x0403, 0x0503, 0x0603, 0x0804, 0x0805, 0x0806, 0x0807, 0x0201, 0x0203]
FALLBACK: Final = 0x5600
RETRY: Final = hashlib.sha256(b"HelloRetryRequest").digest()
INAPPROPRIATE_FALLBACK: Final = 86
CLOSED: Final = 256
"""Where an alert's number should be: the server ended the connection without one."""
SECONDS_MAX: Final = 10.0

NAME, GROUP_LIST, POINTS, SIGNATURES, HEARTBEAT, ALPN, MASTER, TICKET = 0, 10, 11, 13, 15, 16, 23, 35
SHOWN_VERSIONS, MODES, SHARE, RENEGOTIATION = 43, 45, 51, 0xFF01


@dataclass
class Answer:
    """What came back: an alert's number, or the server's hello."""

    alert: int = -1
    version: int = 0
    random: bytes = b""
    suite: int = 0
    compression: int = 0
    extensions: dict[int, bytes] = field(default_factory=dict)


def _sized(size: int, body: bytes) -> bytes:
    return len(body).to_bytes(size, "big") + body


def _numbers(values: list[int]) -> bytes:
    return b"".join(struct.pack(">H", value) for value in values)


def _hello(version: int, suites: list[int], groups: list[int]) -> bytes:
    """A record with a client's hello, which also asks for whatever a server had better not have."""
    found = {
        NAME: _sized(2, b"\0" + _sized(2, b"localhost")),
        GROUP_LIST: _sized(2, _numbers(groups)),
        POINTS: _sized(1, b"\0"),
        SIGNATURES: _sized(2, _numbers(ALL_SIGNATURES)),
        HEARTBEAT: b"\1",
        ALPN: _sized(2, _sized(1, b"h2") + _sized(1, b"http/1.1")),
        MASTER: b"",
        TICKET: b"",
        RENEGOTIATION: b"\0",
    }
    if version == 0x0304:
        found |= {SHOWN_VERSIONS: _sized(1, _numbers([version])), SHARE: _sized(2, b""), MODES: b"\1\1"}
    legacy = struct.pack(">H", min(version, 0x0303))
    compressions = b"\0" if version == 0x0304 else b"\1\0"
    body = legacy + os.urandom(32) + _sized(1, os.urandom(32)) + _sized(2, _numbers(suites)) + _sized(1, compressions)
    if version > 0x0300:
        body += _sized(2, b"".join(struct.pack(">H", kind) + _sized(2, value) for kind, value in found.items()))
    return b"\x16" + struct.pack(">H", min(version, 0x0301)) + _sized(2, b"\1" + _sized(3, body))


def _read(sock: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        part = sock.recv(size - len(found))
        if not part:
            raise EOFError
        found += part
    return found


def ask(port: int, version: int, suites: list[int], groups: list[int] | None = None) -> Answer:
    """One connection, one hello, and what the server says to it."""
    with socket.create_connection(("127.0.0.1", port), SECONDS_MAX) as sock:
        sock.sendall(_hello(version, suites, ALL_GROUPS if groups is None else groups))
        try:
            head = _read(sock, 5)
            body = _read(sock, int.from_bytes(head[3:], "big"))
        except (EOFError, ConnectionResetError):
            return Answer(alert=CLOSED)
    if head[0] == 21:
        return Answer(alert=body[1])
    assert (head[0], body[0]) == (22, 2), f"neither an alert nor a hello: {head.hex()} {body[:20].hex()}"
    at = 39 + body[38]  # behind the session's id
    answer = Answer(
        version=int.from_bytes(body[4:6], "big"),
        random=body[6:38],
        suite=int.from_bytes(body[at : at + 2], "big"),
        compression=body[at + 2],
    )
    at, end = at + 5, 4 + int.from_bytes(body[1:4], "big")
    while at < end:
        kind, size = struct.unpack(">HH", body[at : at + 4])
        answer.extensions[kind] = body[at + 4 : at + 4 + size]
        at += 4 + size
    if SHOWN_VERSIONS in answer.extensions:
        answer.version = int.from_bytes(answer.extensions[SHOWN_VERSIONS], "big")
    return answer


def versions(port: int) -> list[int]:
    found = []
    for version in VERSIONS:
        answer = ask(port, version, list(SUITES_13) if version == 0x0304 else ALL_SUITES)
        if answer.alert < 0 and answer.version == version:
            found.append(version)
    return found


def suites(port: int, version: int) -> list[int]:
    """All that the server would take."""
    left, found = list(SUITES_13) if version == 0x0304 else list(ALL_SUITES), []
    while (answer := ask(port, version, left)).alert < 0:
        found.append(answer.suite)
        left.remove(answer.suite)
    return found


def groups(port: int) -> list[int]:
    """Of TLS 1.3, in the server's order: a hello without a key share is answered with the group that is to have one."""
    left, found = list(ALL_GROUPS), []
    while (answer := ask(port, 0x0304, list(SUITES_13), left)).alert < 0:
        assert answer.random == RETRY
        found.append(int.from_bytes(answer.extensions[SHARE][:2], "big"))
        left.remove(found[-1])
    return found


def _named(names: dict[int, str], found: list[int]) -> str:
    return ", ".join(names.get(one, hex(one)) for one in found) or "none"


def _chooses(port: int, version: int, suites: list[int]) -> str:
    return "server" if len({ask(port, version, order).suite for order in (suites, suites[::-1])}) == 1 else "client"


def _yes(truth: bool) -> str:
    return "yes" if truth else "no"


def facts(port: int) -> dict[str, str]:
    """What the server offers, a row each."""
    named, newer = suites(port, 0x0303), suites(port, 0x0304)
    older = ask(port, 0x0303, ALL_SUITES)
    fallback = ask(port, 0x0303, [*ALL_SUITES, FALLBACK])
    return {
        "versions": _named(VERSIONS, versions(port)),
        "suites of 1.3": _named(SUITES_13, sorted(newer)),
        "suites of 1.2, all ECDHE": _named(SUITES, sorted(named)),
        "who chooses among those": _chooses(port, 0x0303, named[:2]),
        "groups": _named(GROUPS, groups(port)),
        "compression": _yes(older.compression != 0),
        "heartbeat": _yes(HEARTBEAT in older.extensions),
        "ALPN": _yes(ALPN in older.extensions),
        "secure renegotiation (RFC 5746)": _yes(RENEGOTIATION in older.extensions),
        "extended master secret": _yes(MASTER in older.extensions),
        "tickets in 1.2": _yes(TICKET in older.extensions),
        "a downgrade is marked (RFC 8446 4.1.3)": _yes(older.random.endswith(b"DOWNGRD\1")),
        "a needless fallback is refused (RFC 7507)": _yes(fallback.alert in (INAPPROPRIATE_FALLBACK, CLOSED)),
    }
