"""JWTs of accounts by HTTP: GET <url><key>, as nats-account-server and nsc's own server answer it.

Loaded where a configuration has such a resolver. Blocks: for a worker thread. Redirections are not followed, and
answers are bounded in size and time. Not here: whether a JWT counts.
"""

from __future__ import annotations

import http.client
import ssl
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from leafd.auth.jwt import TOKEN_MAX
from leafd.auth.nkeys import PREFIX_ACCOUNT, is_public_key
from leafd.auth.resolver import Keepless, ResolverError

if TYPE_CHECKING:
    from leafd.config.schema.tls import Tls

_OK: Final = 200
_GONE: Final = (404, 410)


def client_context(tls: Tls) -> ssl.SSLContext:
    """How it is asked over TLS: whom to trust, and what to show. Raises ResolverError."""
    from leafd.config.tls_files import as_file

    material = tls.material
    try:
        context = ssl.create_default_context(cadata=material.ca.decode("ascii", "replace") if material.ca else None)
        context.minimum_version = ssl.TLSVersion.TLSv1_3 if tls.min_version == "1.3" else ssl.TLSVersion.TLSv1_2
        if tls.insecure:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        for pair in material.pairs:
            with as_file(pair.chain) as chain, as_file(pair.key) as key:
                context.load_cert_chain(chain, key)
    except (ssl.SSLError, ValueError) as error:
        raise ResolverError(f"resolver_tls: {error}") from error
    return context


class Url(Keepless):
    """One address."""

    def __init__(self, url: str, timeout_s: float, tls: Tls | None = None) -> None:
        self._parts = urlsplit(url)
        self._timeout_s = timeout_s
        self._context = client_context(tls) if tls is not None and self._parts.scheme == "https" else None

    def _connection(self) -> http.client.HTTPConnection:
        parts = self._parts
        host = parts.hostname or ""
        if parts.scheme == "https":
            return http.client.HTTPSConnection(host, parts.port, timeout=self._timeout_s, context=self._context)
        return http.client.HTTPConnection(host, parts.port, timeout=self._timeout_s)

    def load(self, name: str) -> str:
        if not is_public_key(name, PREFIX_ACCOUNT):
            raise ResolverError("not the key of an account")
        connection = self._connection()
        try:
            connection.request("GET", f"{self._parts.path.rstrip('/')}/{name}", headers={"Accept": "application/jwt"})
            answer = connection.getresponse()
            raw = answer.read(TOKEN_MAX + 1)
        except (OSError, ValueError, http.client.HTTPException) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise ResolverError(f"could not fetch <{self._shown()}>: {reason}") from error
        finally:
            connection.close()
        if answer.status in _GONE:
            return ""
        if answer.status != _OK or len(raw) > TOKEN_MAX:
            raise ResolverError(f"could not fetch <{self._shown()}>: {answer.status} {answer.reason}"[:300])
        return raw.decode("ascii", "replace").strip()

    def _shown(self) -> str:
        """The address without what may be secret."""
        return f"{self._parts.scheme}://{self._parts.hostname}{self._parts.path}"
