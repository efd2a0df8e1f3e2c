"""The fields of a leaf's INFO that are looked at, and the lines of a leaf's handshake. Pure text.

Not here: who says what when (leaf.py), the fields of CONNECT (auth/connect.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Final

from leafd.gojson import FLAG, INT32, TEXT, UINT64, ListOf, Nested, Struct, wire
from leafd.links.addresses import DEFAULT_PORT
from leafd.records import dataclass

if TYPE_CHECKING:
    from leafd.native_types import Permissions

LEAF_PROTOCOL: Final = 3
TRACE_PROTOCOL: Final = 2
"""From which on a peer knows traces of messages."""
LEAFD_PROTOCOL: Final = 3
"""The value of `leafd` in INFO and CONNECT. 1: CONNECT may begin compression. .."""
ORDERLY: Final = 2
""".. From which on answers about a consumer come before its messages. .."""
TERSE: Final = 3
""".. And from which on lines of messages may be said by what is new in them (native/text/terse.h)."""


@dataclass(slots=True)
class Advertised:
    """The addresses in INFO at which leaves reach this server, and the others of its cluster."""

    host: str = "0.0.0.0"
    port: int = DEFAULT_PORT
    own: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    web: tuple[str, ...] = ()
    """The others, over WebSocket."""

    def info(self) -> dict[str, Any]:
        found: dict[str, Any] = {"host": self.host, "port": self.port}
        found["leafnode_urls"] = list(dict.fromkeys((*self.own, *self.others)))
        return found | ({"ws_connect_urls": list(self.web)} if self.web else {})


@dataclass(frozen=True, slots=True)
class InfoPermission(Struct):
    """The subjects that the hub lets through in one direction."""

    go_name: ClassVar[str] = "SubjectPermission"

    allow: tuple[str, ...] = wire(ListOf(TEXT, "[]string"), "allow")
    deny: tuple[str, ...] = wire(ListOf(TEXT, "[]string"), "deny")


@dataclass(frozen=True, slots=True)
class HubInfo(Struct):
    """The fields of a hub's INFO that are looked at; one of another type ends the link, as in the reference."""

    go_name: ClassVar[str] = "Info"

    server_id: str = wire(TEXT, "server_id")
    server_name: str = wire(TEXT, "server_name")
    host: str = wire(TEXT, "host")
    port: int = wire(INT32, "port")
    client_id: int = wire(UINT64, "client_id")
    proto: int = wire(INT32, "proto")
    nonce: str = wire(TEXT, "nonce")
    compression: str = wire(TEXT, "compression")
    cluster: str = wire(TEXT, "cluster")
    domain: str = wire(TEXT, "domain")
    remote_account: str = wire(TEXT, "remote_account")
    jetstream: bool = wire(FLAG, "jetstream")
    leafd: int = wire(INT32, "leafd")
    leafd_held: str = wire(TEXT, "leafd_held")
    headers: bool = wire(FLAG, "headers")
    tls_required: bool = wire(FLAG, "tls_required")
    max_payload: int = wire(INT32, "max_payload")
    leafnode_urls: tuple[str, ...] = wire(ListOf(TEXT, "[]string"), "leafnode_urls")
    ws_connect_urls: tuple[str, ...] = wire(ListOf(TEXT, "[]string"), "ws_connect_urls")
    info_on_connect: bool = wire(FLAG, "info_on_connect")
    connect_info: bool = wire(FLAG, "connect_info")
    try_again_s: int = wire(INT32, "try_again_s")
    imported: InfoPermission | None = wire(Nested(InfoPermission), "import")
    exported: InfoPermission | None = wire(Nested(InfoPermission), "export")


def permission(info: dict[str, Any], name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    found = info.get(name) or InfoPermission()
    return subjects(found.allow), subjects(found.deny)


def permission_fields(permissions: Permissions) -> dict[str, Any]:
    """The members of INFO about a leaf's rights."""

    def lists(allow: tuple[str, ...], deny: tuple[str, ...]) -> dict[str, list[str]]:
        return {key: list(value) for key, value in (("allow", allow), ("deny", deny)) if value}

    # "import" is what the leaf may take, "export" what it may send.
    taken = lists(permissions.subscribe_allow, permissions.subscribe_deny)
    sent = lists(permissions.publish_allow, permissions.publish_deny)
    return {key: value for key, value in (("import", taken), ("export", sent)) if value}


def subjects(listed: Iterable[str]) -> tuple[str, ...]:
    return tuple(filter(None, listed))


def speaks_leafd(said: dict[str, Any], version: int = 1) -> bool:
    return int(said.get("leafd") or 0) >= version


def frame(verb: str, body: dict[str, Any]) -> bytes:
    return verb.encode() + b" " + json.dumps(body, separators=(",", ":")).encode() + b" \r\n"


def busy_text(again_s: int) -> str:
    """The refusal that a hub sends to one leaf of many."""
    return f"Server is busy: try again in {again_s} s"
