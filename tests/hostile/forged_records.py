"""A peer that finishes a TLS 1.3 handshake as it should and then sends records that no library would send.

    python -m tests.hostile.forged_records PORT      a line of JSON: what became of each attack on that port

A process of its own, because the one suite that libsodium speaks on every machine has to be asked for by OPENSSL_CONF
before Python loads its ssl module (`outcomes` sees to it). The handshake is Python's; its secret comes from the key
log, and from then on every record that is sent is made here (RFC 8446, 5.2, 7.1 to 7.3).

Not here: what has to become of each attack (test_tls.py).
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from nacl.bindings import crypto_aead_chacha20poly1305_ietf_encrypt as seal

SUITES: Final = """openssl_conf = main
[main]
ssl_conf = parts
[parts]
system_default = suites
[suites]
Ciphersuites = TLS_CHACHA20_POLY1305_SHA256
MinProtocol = TLSv1.3
"""
ALERT, HANDSHAKE, DATA = 21, 22, 23
RECORD_MAX: Final = 16_384
PATIENCE_S: Final = 10.0
QUIET_S: Final = 0.3
# What follows an attack: it is answered if the connection goes on, on whichever port.
CLIENT: Final = b'CONNECT {"verbose":false}\r\nPING\r\n'
HTTP: Final = b"GET /varz HTTP/1.1\r\nHost: localhost\r\n\r\n"
WEBSOCKET: Final = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
ANSWERS: Final = {CLIENT: b"PONG", HTTP: b"HTTP/1.1 200", WEBSOCKET: b"HTTP/1.1 101"}


def expanded(secret: bytes, label: bytes, size: int) -> bytes:
    """HKDF-Expand-Label for at most 32 bytes, without a context."""
    full = b"tls13 " + label
    info = size.to_bytes(2, "big") + bytes([len(full)]) + full + b"\0"
    return hmac.new(secret, info + b"\1", hashlib.sha256).digest()[:size]


class Forger:
    """A connection whose handshake is done. Raises OSError where the port ends the handshake."""

    def __init__(self, stream: socket.socket, context: ssl.SSLContext, *, serves: bool = False) -> None:
        self.stream = stream
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._talk = context.wrap_bio(
            self._incoming, self._outgoing, server_side=serves, server_hostname=None if serves else "localhost"
        )
        with tempfile.NamedTemporaryFile(suffix=".keys") as keys:
            context.keylog_filename = keys.name
            self._shake()
            role = "SERVER" if serves else "CLIENT"
            (found,) = re.findall(role + r"_TRAFFIC_SECRET_0 \w+ (\w+)", Path(keys.name).read_text())
        self._secret = bytes.fromhex(found)
        # A server's tickets went out under the first keys.
        self._number = self._tickets if serves else 0

    def _shake(self) -> None:
        """The handshake, and how many records a server has sent behind it."""
        done = False
        while not done:
            try:
                self._talk.do_handshake()
                done = True
            except ssl.SSLWantReadError:
                self.stream.sendall(self._outgoing.read())
                part = self.stream.recv(65536)
                if not part:
                    raise ConnectionResetError("the handshake was ended") from None
                self._incoming.write(part)
        last = self._outgoing.read()
        self._tickets, at = 0, 0
        while at < len(last):
            self._tickets += 1
            at += 5 + int.from_bytes(last[at + 3 : at + 5], "big")
        self.stream.sendall(last)

    def record(self, content: bytes, kind: int = DATA, padding: int = 0) -> bytes:
        """The next record."""
        inner = content + bytes([kind]) * bool(kind) + bytes(padding)
        head = b"\x17\x03\x03" + (len(inner) + 16).to_bytes(2, "big")
        base = int.from_bytes(expanded(self._secret, b"iv", 12), "big")
        nonce = (base ^ self._number).to_bytes(12, "big")
        self._number += 1
        return head + seal(inner, head, nonce, expanded(self._secret, b"key", 32))

    def key_update(self, asked: bool) -> bytes:
        """A record that changes the keys; the next ones come under the new ones."""
        found = self.record(b"\x18\0\0\1" + bytes([asked]), HANDSHAKE)
        self._secret = expanded(self._secret, b"traffic upd", 32)
        self._number = 0
        return found

    def sends(self, data: bytes) -> None:
        """All of it, or as much as the other side takes."""
        with contextlib.suppress(OSError):
            self.stream.sendall(data)

    def hears(self, wanted: bytes) -> bool:
        """Whether that comes before the connection ends."""
        found = b""
        self.stream.settimeout(PATIENCE_S)
        with contextlib.suppress(OSError, ssl.SSLError):
            while wanted not in found:
                try:
                    part = self._talk.read(65536)
                    if not part:
                        return False  # a farewell
                    found += part
                except ssl.SSLWantReadError:
                    part = self.stream.recv(65536)
                    if not part:
                        return False
                    self._incoming.write(part)
        return wanted in found


def message(kind: int, body: bytes, told: int | None = None) -> bytes:
    """A message of the handshake; told: the length that it claims."""
    return bytes([kind]) + (len(body) if told is None else told).to_bytes(3, "big") + body


def spoiled(peer: Forger) -> bytes:
    found = bytearray(peer.record(b"PING\r\n"))
    found[-1] ^= 1
    return bytes(found)


ATTACKS: Final[dict[str, Callable[[Forger], bytes]]] = {
    "nothing": lambda _: b"",
    "5 records without content": lambda peer: b"".join(peer.record(b"") for _ in range(5)),
    "2,000 records without content": lambda peer: b"".join(peer.record(b"") for _ in range(2000)),
    "padding alone": lambda peer: peer.record(b"", 0, RECORD_MAX),
    "an update of the keys": lambda peer: peer.key_update(False),
    "an update that asks for one": lambda peer: peer.key_update(True),
    "2,000 updates": lambda peer: b"".join(peer.key_update(False) for _ in range(2000)),
    "2,000 updates that ask": lambda peer: b"".join(peer.key_update(True) for _ in range(2000)),
    "an update of a third kind": lambda peer: peer.record(b"\x18\0\0\1\2", HANDSHAKE),
    "an update in two records": lambda peer: peer.record(b"\x18\0", HANDSHAKE) + peer.record(b"PING\r\n"),
    "an update with data behind": lambda peer: peer.record(b"\x18\0\0\1\0\x18\0\0\1\0", HANDSHAKE),
    "2,000 warnings": lambda peer: b"".join(peer.record(b"\1\x5a", ALERT) for _ in range(2000)),
    "a fatal alert": lambda peer: peer.record(b"\2\x28", ALERT),
    "half an alert": lambda peer: peer.record(b"\2", ALERT),
    "an alert without content": lambda peer: peer.record(b"", ALERT),
    "a farewell": lambda peer: peer.record(b"\1\0", ALERT),
    "a hello again": lambda peer: peer.record(message(1, b"\3\3" + bytes(60)), HANDSHAKE),
    "a server's hello": lambda peer: peer.record(message(2, b"\3\3" + bytes(60)), HANDSHAKE),
    "a ticket": lambda peer: peer.record(message(4, bytes(60)), HANDSHAKE),
    "a certificate nobody asked for": lambda peer: peer.record(message(11, b"\0\0\0\0"), HANDSHAKE),
    "a request for a certificate": lambda peer: peer.record(message(13, b"\0\0\0"), HANDSHAKE),
    "the end of a handshake": lambda peer: peer.record(message(20, bytes(32)), HANDSHAKE),
    "a message that is none": lambda peer: peer.record(message(99, b""), HANDSHAKE),
    "a message of 16 MB": lambda peer: (
        peer.record(message(4, bytes(1000), 0xFFFFFF), HANDSHAKE)
        + b"".join(peer.record(bytes(RECORD_MAX), HANDSHAKE) for _ in range(200))
    ),
    "a handshake without content": lambda peer: peer.record(b"", HANDSHAKE),
    "a kind that is none": lambda peer: peer.record(b"PING\r\n", 99),
    "a wrong seal": spoiled,
    "a record out of turn": lambda peer: (peer.record(b"PING\r\n"), peer.record(b"PING\r\n"))[1],
    "too long a record": lambda peer: peer.record(bytes(RECORD_MAX + 1)),
    "the longest length": lambda _: b"\x17\x03\x03\xff\xff" + bytes(65_535),
    "a record of nothing": lambda _: b"\x17\x03\x03\0\0",
    "a seal alone": lambda _: b"\x17\x03\x03\0\x10" + bytes(16),
    "plain text": lambda _: CLIENT,
    "a plain record": lambda _: b"\x17\x03\x03\0\x06PING\r\n",
    "a plain alert": lambda _: b"\x15\x03\x03\0\2\2\x28",
    "a change of ciphers": lambda _: b"\x14\x03\x03\0\1\1",
}


def outcome(port: int, request: bytes, attack: Callable[[Forger], bytes]) -> bool:
    """Whether the connection goes on behind it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # without the machine's authorities, which take longest
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as stream:
        peer = Forger(stream, context)
        peer.sends(attack(peer) + peer.record(request))
        return peer.hears(ANSWERS[request])


def outcomes(port: int, request: bytes = CLIENT) -> dict[str, bool]:
    """Of each attack, whether the connection goes on behind it; on a port that shakes hands at once."""
    with tempfile.NamedTemporaryFile("w", suffix=".cnf") as chosen:
        chosen.write(SUITES)
        chosen.flush()
        words = [sys.executable, "-m", "tests.hostile.forged_records", str(port), request.decode()]
        root = Path(__file__).resolve().parents[2]
        known = os.environ | {"OPENSSL_CONF": chosen.name}
        done = subprocess.run(words, capture_output=True, timeout=100, cwd=root, env=known, check=False)
    assert done.returncode == 0, done.stderr.decode()
    found: dict[str, bool] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    print(json.dumps({name: outcome(int(sys.argv[1]), sys.argv[2].encode(), one) for name, one in ATTACKS.items()}))
