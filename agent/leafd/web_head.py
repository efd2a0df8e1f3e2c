"""The heads of the HTTP request and answer that a WebSocket begins with, for both sides: reading them, and the proof
that a request was read. Pure. Not here: what a listener takes (logins/web_request.py), frames
(native/net).
"""

from __future__ import annotations

import base64
import hashlib
from typing import Final

from leafd.records import dataclass

HEADERS_MAX: Final = 100
DEFLATE: Final = "permessage-deflate"
NO_TAKEOVER: Final = f"{DEFLATE}; server_no_context_takeover; client_no_context_takeover"
_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class NoHttp(ValueError):
    """The bytes are no head of HTTP."""


@dataclass(frozen=True, slots=True)
class Request:
    """A head, read: names of headers in small letters."""

    first: tuple[str, str, str]
    """Method, target, version; or version, status, reason."""
    headers: dict[str, list[str]]

    def header(self, name: str) -> str:
        """The first of that name."""
        return (self.headers.get(name) or [""])[0]

    def has(self, name: str, value: str) -> bool:
        """Whether the comma-separated header has a word."""
        words = (word.strip(" \t").lower() for line in self.headers.get(name, ()) for word in line.split(","))
        return value.lower() in words


def read_head(head: bytes) -> Request:
    """Raises NoHttp."""
    lines = head.decode("latin-1").split("\r\n")
    parts = lines[0].split(" ", 2)
    if len(parts) < 2 or len(lines) > HEADERS_MAX:
        raise NoHttp("this is no HTTP")
    headers: dict[str, list[str]] = {}
    for line in lines[1:]:
        if not line:
            break
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip() or any(char <= " " for char in name):
            raise NoHttp("a header is wrong")
        headers.setdefault(name.lower(), []).append(value.strip(" \t"))
    return Request((parts[0], parts[1], parts[2] if len(parts) > 2 else ""), headers)


def accept_key(key: str) -> str:
    """The key that proves that the other side has read the request."""
    return base64.b64encode(hashlib.sha1(key.encode() + _GUID, usedforsecurity=False).digest()).decode()


def offers_deflate(request: Request) -> bool:
    """Whether permessage-deflate is among the extensions."""
    lines = request.headers.get("sec-websocket-extensions", ())
    return any(DEFLATE == part.strip(" \t").lower() for line in lines for part in line.replace(";", ",").split(","))
