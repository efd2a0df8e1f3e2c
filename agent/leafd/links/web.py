"""Our side of the HTTP request with which a leaf link over WebSocket begins: pure. Dialling is leafs.py."""

from __future__ import annotations

import base64
import secrets

from leafd import native_types as t
from leafd.links.addresses import host_port
from leafd.records import dataclass
from leafd.web_head import NO_TAKEOVER, NoHttp, Request, accept_key, offers_deflate, read_head


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that was sent."""

    key: str
    compression: bool
    no_masking: bool
    head: bytes


def ask(host: str, port: int, path: str, *, compression: bool, no_masking: bool) -> Asked:
    """The request to a hub's WebSocket listener."""
    key = base64.b64encode(secrets.token_bytes(16)).decode()
    lines = [
        f"GET {path.rstrip('/')}/leafnode HTTP/1.1",
        f"Host: {host_port(host, port)}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {key}",
        "Sec-WebSocket-Version: 13",
    ]
    if compression:
        lines.append(f"Sec-WebSocket-Extensions: {NO_TAKEOVER}")
    if no_masking:
        lines.append("Nats-No-Masking: true")
    return Asked(key, compression, no_masking, "\r\n".join((*lines, "", "")).encode())


def agreed(asked: Asked, head: bytes) -> t.WebFlag:
    """How frames are to be spoken. Raises NoHttp with what is wrong about the hub's answer."""
    answer = read_head(head)
    if answer.first[1] != "101":
        raise NoHttp(f"the hub answers the WebSocket request with {' '.join(answer.first[1:])!r}")
    proof = answer.header("sec-websocket-accept") == accept_key(asked.key)
    if not (answer.has("upgrade", "websocket") and answer.has("connection", "upgrade") and proof):
        raise NoHttp("the hub's answer to the WebSocket request is wrong")
    flags = t.WebFlag.CLIENT
    if asked.compression and offers_deflate(answer):
        if not _no_takeover(answer):
            raise NoHttp("the hub would compress with context takeover")
        flags |= t.WebFlag.DEFLATE
    if asked.no_masking and answer.header("nats-no-masking") == "true":
        flags |= t.WebFlag.UNMASKED
    return flags


def _no_takeover(answer: Request) -> bool:
    said = {
        part.strip(" \t").lower() for line in answer.headers["sec-websocket-extensions"] for part in line.split(";")
    }
    return {"server_no_context_takeover", "client_no_context_takeover"} <= said
