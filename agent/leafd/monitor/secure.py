"""HTTPS for the monitoring port: the certificates of the tls block, by Python's ssl module. Loaded only when that port
is configured.

Nobody is asked for a certificate here, as with the reference: all that may reach the port may read it. A reload takes
new certificates. Not here: TLS of connections that speak NATS (native/net).
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Final

import trio

from leafd.config.schema.tls import Tls
from leafd.config.tls_files import as_file

SUITES: Final = "ECDHE+AES128+AESGCM:ECDHE+AESGCM:ECDHE+CHACHA20"
"""The suites of TLS 1.2, as on the other ports (native/net/tls_context.c)."""
GROUP: Final = "prime256v1"
"""The one that everybody has. Python's ssl names one or takes all of OpenSSL's, and of these a handshake with ffdhe8192
costs a server a hundred times as much."""

Stream = trio.SSLStream[trio.SocketStream]


class Secured:
    """Makes a socket's stream one of TLS, with the block of today."""

    def __init__(self, block: Callable[[], Tls | None]) -> None:
        self._block = block
        self._made_of: Tls | None = None
        self._context: ssl.SSLContext | None = None

    def stream(self, plain: trio.SocketStream) -> Stream:
        """Shakes hands with its first use. Raises ValueError when there is no certificate."""
        return trio.SSLStream(plain, self._today(), server_side=True, https_compatible=True)

    def _today(self) -> ssl.SSLContext:
        block = self._block()
        if block is None:
            raise ValueError("https without a tls block")
        if self._context is None or block is not self._made_of:
            self._context, self._made_of = make_context(block), block
        return self._context


def make_context(block: Tls) -> ssl.SSLContext:
    """A server's context with all certificates of a block."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3 if block.min_version == "1.3" else ssl.TLSVersion.TLSv1_2
    context.set_ciphers(SUITES)
    context.set_ecdh_curve(GROUP)
    for pair in block.material.pairs:
        # What was read with the configuration, not what the files hold by now.
        with as_file(pair.chain) as chain, as_file(pair.key) as key:
            context.load_cert_chain(chain, key)
    return context
