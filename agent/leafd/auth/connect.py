"""The fields of CONNECT that are looked at, of clients and of leaf nodes, and their types.

A field of another type ends the connection, as in the reference; fields that are not named here are ignored.
Not here: what the fields prove (verdict.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from leafd.gojson import FLAG, INT, TEXT, ListOf, Struct, present, wire
from leafd.records import dataclass

SIZE_MAX: Final = 64 << 10
HIDDEN: Final = "[REDACTED]"
MQTT_CLIENT: Final = "mqtt_client"
"""A field that only a CONNECT of MQTT becomes: the client's identifier."""


@dataclass(frozen=True, slots=True)
class _Credentials(Struct):
    """The credentials of a CONNECT, and their proof."""

    nkey: str = wire(TEXT, "nkey")
    jwt: str = wire(TEXT, "jwt")
    signature: str = wire(TEXT, "sig")
    token: str = wire(TEXT, "auth_token")
    user: str = wire(TEXT, "user")
    password: str = wire(TEXT, "pass")


@dataclass(frozen=True, slots=True)
class ClientConnect(_Credentials):
    """A client's CONNECT."""

    go_name: ClassVar[str] = "ClientOpts"

    echo: bool = wire(FLAG, "echo")
    verbose: bool = wire(FLAG, "verbose")
    pedantic: bool = wire(FLAG, "pedantic")
    tls_required: bool = wire(FLAG, "tls_required")
    name: str = wire(TEXT, "name")
    lang: str = wire(TEXT, "lang")
    version: str = wire(TEXT, "version")
    protocol: int = wire(INT, "protocol")
    account: str = wire(TEXT, "account")
    new_account: bool = wire(FLAG, "new_account")
    headers: bool = wire(FLAG, "headers")
    no_responders: bool = wire(FLAG, "no_responders")


@dataclass(frozen=True, slots=True)
class LeafConnect(_Credentials):
    """A leaf node's CONNECT."""

    go_name: ClassVar[str] = "leafConnectInfo"

    server_id: str = wire(TEXT, "server_id")
    name: str = wire(TEXT, "name")
    version: str = wire(TEXT, "version")
    domain: str = wire(TEXT, "domain")
    cluster: str = wire(TEXT, "cluster")
    gateway: str = wire(TEXT, "gateway")
    lang: str = wire(TEXT, "lang")
    remote_account: str = wire(TEXT, "remote_account")
    compress_mode: str = wire(TEXT, "compress_mode")
    compression: str = wire(TEXT, "compression")
    is_hub: bool = wire(FLAG, "is_hub")
    isolate: bool = wire(FLAG, "isolate")
    headers: bool = wire(FLAG, "headers")
    jetstream: bool = wire(FLAG, "jetstream")
    protocol: int = wire(INT, "protocol")
    leafd: int = wire(INT, "leafd")
    leafd_version: str = wire(TEXT, "leafd_version")
    leafd_terse: bool = wire(FLAG, "leafd_terse")
    deny_pub: tuple[str, ...] = wire(ListOf(TEXT, "[]string"), "deny_pub")


def client_connect(body: bytes, *, headers: bool = True) -> dict[str, Any]:
    """The fields that a client sent; what it says of headers counts where this server has any. Raises JsonError."""
    fields = present(ClientConnect, body, size_max=SIZE_MAX)
    return fields if headers else fields | {"headers": False}


def leaf_connect(body: bytes) -> dict[str, Any]:
    """The fields that a leaf node sent. Raises JsonError."""
    return present(LeafConnect, body, size_max=SIZE_MAX)


def claimed_user(connect: Mapping[str, Any]) -> str:
    """The user that a CONNECT claims to be, without the proof; a seed in the place of its public nkey is not shown."""
    nkey = connect.get("nkey") or ""
    named = (HIDDEN if nkey.startswith("S") else nkey) or connect.get("user") or ""
    return str(named) or (HIDDEN if connect.get("auth_token") else "")
