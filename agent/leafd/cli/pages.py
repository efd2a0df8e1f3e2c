"""The addresses of a running daemon's pages.

The address comes from the command line, or from the `http` or `https` line of the daemon's own configuration file. Not
here: what the pages mean (status.py).
"""

from __future__ import annotations

import http.client
import json
import os
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from leafd import cli
from leafd.errors import ConfigError, LeafdError
from leafd.files import check_file
from leafd.records import dataclass

CONFIGURATION: Final = Path(cli.CONFIGURATION)
DEFAULT: Final = "http://127.0.0.1:8222"
WAIT_S: Final = 5.0
BYTES_MAX: Final = 64 << 20
"""The most bytes of one page: with more streams a narrower question is needed."""
_EVERYWHERE: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "[::1]"}
"""Addresses to listen at that nobody can connect to."""


class Unreachable(LeafdError):
    """No daemon answers there."""


@dataclass(frozen=True, slots=True)
class Monitor:
    """The monitoring port of a daemon."""

    url: str
    authority: Path | None = None
    """A file of certificates that are trusted in place of the system's, for https."""

    def page(self, path: str, wait_s: float = WAIT_S) -> dict[str, Any]:
        """The JSON object at a path such as "/varz". Raises Unreachable, LeafdError."""
        place = urlsplit(self.url)
        if place.scheme not in ("http", "https") or not place.hostname:
            raise LeafdError(f"{self.url}: expected http://HOST:PORT or https://HOST:PORT")
        connection = self._connection(place.scheme, place.hostname, place.port, wait_s)
        try:
            connection.request("GET", place.path.rstrip("/") + path)
            answer = connection.getresponse()
            body = answer.read(BYTES_MAX + 1)
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(
                f"{self.url}: {_reason(error)}: is leafd running, and is this its monitoring port?"
            ) from error
        finally:
            connection.close()
        if answer.status != 200:
            raise LeafdError(
                f"{self.url}{path}: {answer.status} {answer.reason}: {body[:200].decode(errors='replace').strip()}"
            )
        if len(body) > BYTES_MAX:
            raise LeafdError(f"{self.url}{path}: more than {BYTES_MAX >> 20} MB: ask for one account")
        try:
            found = json.loads(body)
        except ValueError as error:
            raise LeafdError(f"{self.url}{path}: this is not JSON: is something else listening there?") from error
        if not isinstance(found, dict):
            raise LeafdError(f"{self.url}{path}: expected a JSON object")
        return found

    def _connection(self, scheme: str, host: str, port: int | None, wait_s: float) -> http.client.HTTPConnection:
        if scheme == "http":
            return http.client.HTTPConnection(host, port or 80, timeout=wait_s)
        import ssl

        try:
            if self.authority is not None:
                check_file(self.authority)  # OpenSSL would wait for a pipe
            context = ssl.create_default_context(cafile=self.authority)
        except (OSError, ssl.SSLError) as error:
            raise LeafdError(f"{self.authority}: {_reason(error)}") from error
        return http.client.HTTPSConnection(host, port or 443, timeout=wait_s, context=context)


def find(url: str | None, configuration: Path | None, authority: Path | None) -> Monitor:
    """The monitoring port that is meant: the one that was named, that of the configuration file that was named, that of
    the installed daemon, or the usual one. Raises LeafdError."""
    if url:
        return Monitor(url if "://" in url else f"http://{url}", authority)
    if configuration is None and os.access(CONFIGURATION, os.R_OK):
        configuration = CONFIGURATION
    if configuration is None:
        return Monitor(DEFAULT, authority)
    from leafd.config.bind import load_monitoring  # here: with the port named none of it is needed

    told = load_monitoring(configuration)
    found = told.address
    if found is None:
        raise ConfigError(f"{configuration}: no monitoring port: add `http: 127.0.0.1:8222`, or name one with --url")
    host = found[0].strip("[]")
    host = _EVERYWHERE.get(host, f"[{host}]" if ":" in host else host)
    scheme = "https" if told.secure else "http"
    return Monitor(f"{scheme}://{host}:{found[1]}{told.base_path.rstrip('/')}", authority)


def unit_of(configuration: Path | None) -> str:
    """The service that has this configuration: an instance has /etc/leafd/NAME.conf and the unit leafd@NAME."""
    named = configuration is not None and configuration.parent == CONFIGURATION.parent
    if configuration is not None and named and configuration.name != CONFIGURATION.name:
        return f"leafd@{configuration.stem}.service"
    return "leafd.service"


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {WAIT_S:.0f} s"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
