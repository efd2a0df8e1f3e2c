"""The HTTP request that a WebSocket begins with, and our answer: pure functions of bytes and the websocket block.

    head of the request --read_request()--> Request --judge()--> Accepted (101, flags, cookies) | Refused (4xx)

Texts and their order are the reference's. Not here: connections (web.py), reading heads
(web_head.py), frames (native/net).
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
from typing import Final
from urllib.parse import urlsplit

from leafd import native_types as t
from leafd.config.schema.websocket import WebSocket
from leafd.records import dataclass
from leafd.web_head import NO_TAKEOVER, Request, accept_key, offers_deflate

_PATHS: Final = {"/leafnode": t.ConnKind.LEAF, "/mqtt": t.ConnKind.MQTT}
"""How the paths end that are not for NATS clients."""
_REASONS: Final = {400: "Bad Request", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed"}


@dataclass(frozen=True, slots=True)
class Accepted:
    """The answer after which the connection speaks WebSocket."""

    kind: t.ConnKind
    flags: t.WebFlag
    answer: bytes
    credentials: dict[str, str]
    """Credentials from cookies, by the names of CONNECT's fields."""
    forwarded: str


@dataclass(frozen=True, slots=True)
class Refused:
    """An HTTP error."""

    status: int
    reason: str

    @property
    def answer(self) -> bytes:
        """The bytes that go out before the connection is closed."""
        body = f"{_REASONS[self.status]}\n"
        return (
            f"HTTP/1.1 {self.status} {_REASONS[self.status]}\r\nContent-Type: text/plain; charset=utf-8\r\n"
            f"Sec-Websocket-Version: 13\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}"
        ).encode()


def judge(request: Request, block: WebSocket, *, secure: bool, leafs: bool, mqtt: bool) -> Accepted | Refused:
    """secure: it came over TLS. leafs, mqtt: leaf links and MQTT clients are taken."""
    method, target, _ = request.first
    path = target.split("?", 1)[0]
    kind = next((kind for end, kind in _PATHS.items() if path.endswith(end)), t.ConnKind.CLIENT)
    if (kind == t.ConnKind.MQTT and not mqtt) or (kind == t.ConnKind.LEAF and not leafs):
        return Refused(404, "there is no such endpoint")
    refused = _fault(request, method)
    if refused is not None:
        return refused
    why = _origin_fault(request, block, secure)
    if why:
        return Refused(403, f"origin not allowed: {why}")
    flags = t.WebFlag(0)
    answer = [
        "HTTP/1.1 101 Switching Protocols",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Accept: {accept_key(request.header('sec-websocket-key'))}",
    ]
    if block.compression and offers_deflate(request):
        flags |= t.WebFlag.DEFLATE
        answer.append(f"Sec-WebSocket-Extensions: {NO_TAKEOVER}")
    if request.header("nats-no-masking") == "true":
        flags |= t.WebFlag.UNMASKED
        answer.append("Nats-No-Masking: true")
    if kind == t.ConnKind.MQTT:
        answer.append("Sec-WebSocket-Protocol: mqtt")
    answer += [f"{name}: {value}" for name, value in block.headers.items()]
    if kind != t.ConnKind.LEAF:
        flags |= _browser(request.header("user-agent"))
    credentials = {} if kind == t.ConnKind.LEAF else _credentials(request, block)
    if kind == t.ConnKind.MQTT and not credentials:
        flags |= t.WebFlag.KNOWN
    return Accepted(kind, flags, "\r\n".join((*answer, "", "")).encode("latin-1"), credentials, _forwarded(request))


def _fault(request: Request, method: str) -> Refused | None:
    if method != "GET":
        return Refused(405, "request method must be GET")
    if not request.header("host"):
        return Refused(400, "'Host' missing in request")
    for name, value in (("upgrade", "websocket"), ("connection", "Upgrade")):
        if not request.has(name, value):
            return Refused(400, f"invalid value for header '{name.capitalize()}'")
    key = request.header("sec-websocket-key")
    if not key:
        return Refused(400, "key missing")
    try:
        whole = len(base64.b64decode(key, validate=True)) == 16
    except (binascii.Error, ValueError):
        whole = False
    if not whole:
        return Refused(400, "invalid websocket key")
    return None if request.has("sec-websocket-version", "13") else Refused(400, "invalid version")


def _browser(agent: str) -> t.WebFlag:
    if not agent.startswith("Mozilla/"):
        return t.WebFlag(0)
    safari = "Version/" in agent and "Safari/" in agent
    return t.WebFlag.SMALL | (t.WebFlag.WHOLE if safari else t.WebFlag(0))


def _origin_fault(request: Request, block: WebSocket, secure: bool) -> str:
    """Why a page of that origin is not taken; empty: it is, or it is no page."""
    origin = request.header("origin") or request.header("sec-websocket-origin")
    if not origin or not (block.same_origin or block.allowed_origins):
        return ""
    found = _place(origin)
    if found is None:
        return "it cannot be read"
    if block.same_origin and found != _place(f"{'https' if secure else 'http'}://{request.header('host')}"):
        return "not same origin"
    if block.allowed_origins and found not in [_place(one) for one in block.allowed_origins]:
        return "not in the allowed list"
    return ""


def _place(origin: str) -> tuple[str, str, int] | None:
    try:
        parts = urlsplit(origin)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return None
    return (parts.scheme, parts.hostname, port) if parts.hostname else None


def _credentials(request: Request, block: WebSocket) -> dict[str, str]:
    names = {block.jwt_cookie: "jwt", block.user_cookie: "user", block.pass_cookie: "pass"}
    names |= {block.token_cookie: "auth_token"}
    found: dict[str, str] = {}
    for line in request.headers.get("cookie", ()):
        for cookie in line.split(";"):
            name, equals, value = cookie.strip().partition("=")
            if equals and name and name in names:
                found[names[name]] = value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value
    return found


def _forwarded(request: Request) -> str:
    address = request.header("x-forwarded-for")
    try:
        return str(ipaddress.ip_address(address)) if address else ""
    except ValueError:
        return ""
