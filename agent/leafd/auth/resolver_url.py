"""JWTs of accounts by HTTP: GET <url><key>, as nats-account-server and nsc's own server answer it.

Loaded where a configuration has such a resolver. Blocks: for a worker thread. Redirections are not followed, and
answers are bounded in size and time. What does not live here: whether a JWT counts.
"""

from __future__ import annotations

import http.client
from typing import Final
from urllib.parse import urlsplit

from leafd.auth.jwt import TOKEN_MAX
from leafd.auth.nkeys import PREFIX_ACCOUNT, is_public_key
from leafd.auth.resolver import DIGEST_SIZE, ResolverError

_OK: Final = 200
_GONE: Final = (404, 410)


class Url:
    """One address."""

    keeps = False
    complete = False

    def __init__(self, url: str, timeout_s: float) -> None:
        self._parts = urlsplit(url)
        self._timeout_s = timeout_s

    def _connection(self) -> http.client.HTTPConnection:
        parts = self._parts
        make = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        return make(parts.hostname or "", parts.port, timeout=self._timeout_s)

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

    def save(self, name: str, token: str, issued_s: int, *, newer: bool = True) -> bool:
        return False

    def delete(self, name: str) -> bool:
        raise ResolverError("delete accounts request is not supported by this resolver")

    def names(self) -> list[str]:
        return []

    def digest(self) -> bytes:
        return bytes(DIGEST_SIZE)
