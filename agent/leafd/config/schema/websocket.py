"""The websocket block: the listener for browsers and other programs that speak NATS over WebSocket, leaf links
included. What a request has to say is logins/web_request.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlsplit

from leafd.config.schema.base import Duration, Flag, Listen, Number, Secret, Strings, Text, zero_means_default
from leafd.config.schema.section import Section, Takes, option
from leafd.config.schema.tls import LINK_TIMEOUT, Tls

if TYPE_CHECKING:
    from leafd.config.schema.mqtt import Mqtt
    from leafd.config.schema.server import ServerConfig

HANDSHAKE_TIMEOUT: Final = LINK_TIMEOUT
_OURS: Final = ("host", "content-length", "connection", "upgrade", "nats-no-masking")


class OwnAuthorization(Section):
    """A login of one listener alone, of WebSocket or MQTT, where there are no users."""

    user: Text = option("", "The user's name.", aliases=("username",), takes=Takes.LIVE)
    password: Secret = option("", "The user's password.", aliases=("pass",), takes=Takes.LIVE)
    token: Secret = option("", "A token in place of name and password.", takes=Takes.LIVE)
    timeout: Duration = option(0, "How long may a login take? 0: as for other clients.", takes=Takes.LIVE, ge=0)


class WebSocket(Section):
    """The websocket block."""

    listen: Listen | None = option(None, "Where WebSocket clients connect to.", example='"0.0.0.0:8443"')
    host: Text = option("", "The address alone. Empty: every address of the machine.", aliases=("net",))
    port: Number = option(0, "The port alone. 0: there is none. -1: any free port.", ge=-1, le=65535)
    advertise: Text = option(
        "", "The address that the other servers of a cluster tell their clients and leaves.", takes=Takes.LIVE
    )
    no_tls: Flag = option(False, "Serve ws:// in place of wss://: passwords and tokens can be read on the way.")
    tls: Tls | None = option(None, "The certificate for wss://.", takes=Takes.LIVE)
    same_origin: Flag = option(False, "Take pages of this very host and port only.", takes=Takes.LIVE)
    allowed_origins: Strings = option(
        (),
        "The origins whose pages are taken (https://example.com:8080). Empty: all.",
        aliases=("allowed_origin", "allow_origins", "allow_origin", "origins", "origin"),
        takes=Takes.LIVE,
    )
    handshake_timeout: Annotated[Duration, zero_means_default(HANDSHAKE_TIMEOUT)] = option(
        HANDSHAKE_TIMEOUT, "How long may it take until the HTTP request is there?", takes=Takes.LIVE, gt=0
    )
    compression: Flag = option(
        False, "Compress messages for clients that ask for it.", aliases=("compress",), takes=Takes.LIVE
    )
    authorization: OwnAuthorization | None = option(
        None, "A login for this listener, where there are no users.", aliases=("authentication",), takes=Takes.LIVE
    )
    jwt_cookie: Text = option(
        "", "The cookie that holds the JWT, if CONNECT has none; with an operator only.", takes=Takes.LIVE
    )
    user_cookie: Text = option("", "Likewise the user's name.", takes=Takes.LIVE)
    pass_cookie: Text = option("", "Likewise the password.", takes=Takes.LIVE)
    token_cookie: Text = option("", "Likewise the token.", takes=Takes.LIVE)
    no_auth_user: Text = option("", "The user that clients are here which send no credentials.", takes=Takes.LIVE)
    headers: dict[str, Text] = option({}, "Headers of the answer to the HTTP request.", takes=Takes.LIVE)
    ping_interval: Duration = option(
        0, "How often are clients and leaf links asked for a PONG here? 0: as elsewhere.", takes=Takes.LIVE, ge=0
    )

    def address(self) -> tuple[str, int] | None:
        """Host and port, None when there is no listener."""
        found = self.listen if self.listen is not None else (self.host, self.port)
        return found if found[1] else None

    def check(self) -> None:
        for name, value in self.headers.items():
            low = name.lower()
            if low in _OURS or low.startswith("sec-websocket-") or any(char in name + value for char in "\r\n"):
                raise ValueError(f"headers: {name!r} is not allowed")
        if self.address() is None:
            return
        if self.tls is None and not self.no_tls:
            raise ValueError("tls is missing: add a tls block, or no_tls: true where plain text is acceptable")
        if self.tls is not None and not self.tls.material.pairs:
            raise ValueError("tls has no certificate, so no client could connect: add cert_file and key_file")
        for origin in self.allowed_origins:
            parts = urlsplit(origin)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError(f"allowed_origins: {origin!r} is no origin: write it like https://example.com")


def check_websocket(server: ServerConfig, known: dict[str, str]) -> None:
    """How the block fits the others. Raises ValueError."""
    block = server.websocket
    if block is None or block.address() is None:
        return
    check_logins("websocket", block, server, known)
    if block.jwt_cookie and not server.operated:
        raise ValueError(f"websocket: jwt_cookie {block.jwt_cookie!r} needs an operator: JWTs mean nothing without one")


def check_logins(name: str, block: WebSocket | Mqtt, server: ServerConfig, known: dict[str, str]) -> None:
    """How the logins of a listener's own fit those of the rest. known: all users, with their accounts."""
    own = block.authorization
    if server.operated and (own is not None or block.no_auth_user):
        raise ValueError(f"{name}: it cannot have logins of its own with an operator: users come from JWTs")
    if block.no_auth_user and block.no_auth_user not in known:
        raise ValueError(f"{name}: no_auth_user {block.no_auth_user!r} is no user of the configuration")
    single = server.authorization is not None and bool(server.authorization.user)
    if own is not None and (own.user or own.token) and known and not single:
        raise ValueError(f"{name}: authorization has a login of its own, which users exclude: keep one")
