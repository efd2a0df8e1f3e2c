"""A gateway's handshake, both ends, as pure machines: lines in, actions out.

    inbound (a server of another cluster dials)          outbound (this server dials)
    OPENED  -> Send(INFO)                                OPENED -> nothing: only CONNECT may come first, and INFO
                                                                   says to whom
    CONNECT -> refuse | Resume                           INFO   -> refuse | Send(CONNECT, INFO), Join
    INFO    -> refuse | Join

After Join the C plane exchanges interest and messages: messages go from the end that dialled to the other one, interest
the other way, so two clusters have a connection in each direction. Later INFO lines come to update(): other addresses
of the peer's cluster, another cluster. Not here: sockets, dialling, who is told of whom (gateways.py), the fields
(gateway_info.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any, Final

from leafd.gojson import JsonError, present
from leafd.links.gateway_info import (
    GATEWAY_PROTOCOL,
    INTEREST_BEGINS,
    INTEREST_ENDS,
    GatewayConnect,
    GatewayInfo,
    places_in,
)
from leafd.links.handshake import NAME_MAX, Close, has_login, heard, is_name
from leafd.links.leaf import Resume, Send
from leafd.links.leaf_info import frame
from leafd.links.route_info import DUPLICATE_NAME, GATEWAY_GOSSIP, LETTERS, Place
from leafd.native_types import CloseReason
from leafd.quoting import quoted
from leafd.records import dataclass

OPTIMISTIC: Final = "a server before 2.9, which sends what nobody has asked for: gateways to it are not supported"


@dataclass(slots=True)
class Supercluster:
    """The names of this server for other clusters, and its terms for them."""

    server_id: str
    server_name: str
    version: str
    name: str
    """The name of its cluster."""
    host: str = ""
    port: int = 0
    user: str = ""
    password: str = ""
    tls: bool = False
    headers: bool = True
    max_payload: int = 1 << 20
    url: str = ""
    urls: tuple[str, ...] = ()
    """The addresses of all servers of this cluster."""
    letters: int = 0
    """LETTERS, NO_LETTERS or, with JetStream of its own, neither (0)."""
    rejects_unknown: bool = False
    knows: Callable[[str], bool] = field(default=lambda name: True)
    """Is another cluster of that name configured, or were we told of it?"""
    has_server: Callable[[str], bool] = field(default=lambda name: False)
    """Is a server of that name in this cluster?"""
    namesake: Callable[[str, str], bool] = field(default=lambda server_id, name: False)
    """Has a server of another cluster with another id that name, and takes part in the same group of servers?"""

    def info(self) -> dict[str, Any]:
        """INFO on a gateway."""
        found: dict[str, Any] = {
            "server_id": self.server_id,
            "server_name": self.server_name,
            "version": self.version,
            "proto": GATEWAY_PROTOCOL,
            "go": "none",
            "host": self.host,
            "port": self.port,
            "headers": self.headers,
            "max_payload": self.max_payload,
        }
        if self.user:
            found["auth_required"] = True
        if self.tls:
            found |= {"tls_required": True, "tls_verify": True}
        if self.letters:
            found["leafd_letters"] = self.letters
        return found | {
            "gateway": self.name,
            "gateway_urls": list(self.urls),
            "gateway_url": self.url,
            "gateway_nrp": True,
            "gateway_iom": True,
        }


@dataclass(frozen=True, slots=True)
class Join:
    """The connection is one between the two clusters: interest or messages go over it."""

    info: dict[str, Any]
    """The peer's."""


@dataclass(frozen=True, slots=True)
class Namesake:
    """Another server of the same group has the peer's name, by which streams and groups know it: the second one is
    refused as long as the first is there. Where there is no group, names may be alike, as with nats-server."""

    server_id: str
    """The peer's."""
    name: str


@dataclass(frozen=True, slots=True)
class Misnamed:
    """The peer's cluster has another name than the configuration says, or this cluster's own, which tells nobody apart:
    it is refused for as long as that is so."""

    name: str
    wanted: str
    """By the configuration; "": the peer has dialled."""


@dataclass(frozen=True, slots=True)
class Told:
    """Another cluster has these addresses. anew: it is the peer's own, and others than these are gone."""

    name: str
    places: tuple[Place, ...]
    anew: bool = False


Action = Send | Resume | Join | Namesake | Misnamed | Close


class Machine:
    """This server's end of a gateway. wanted: the cluster that is dialled, "" of an inbound one."""

    def __init__(self, own: Supercluster, wanted: str = "", place: Place | None = None, *, tls: bool = False) -> None:
        self._own = own
        self._wanted = wanted
        self._place = place
        self._tls = tls
        self._connected = bool(wanted)
        self._named = ""
        self.info: dict[str, Any] = {}
        """The peer's INFO, when it has joined."""

    @property
    def connected(self) -> bool:
        """Has the other end logged in, or was it dialled?"""
        return self._connected

    @property
    def joined(self) -> bool:
        """Is the handshake over?"""
        return bool(self.info)

    @property
    def headers(self) -> bool:
        """Whether messages with headers may go as they are."""
        return bool(self.info.get("headers")) and self._own.headers

    def opened(self) -> list[Action]:
        """The first lines."""
        return [] if self._wanted else [Send(frame("INFO", self._own.info()))]

    def line(self, kind: int, payload: bytes) -> list[Action]:
        """One line of the handshake."""
        return heard(
            kind, payload, named=self._connected, connect=self._hear_connect, info=self._hear_info, what="gateway"
        )

    # ---- inbound

    def _hear_connect(self, payload: bytes) -> list[Action]:
        own = self._own
        try:
            connect = present(GatewayConnect, payload)
        except JsonError as error:
            return [Close(f"a CONNECT that is none: {error}")]
        if not has_login(connect, own.user, own.password):
            return [Close("Authorization Violation", CloseReason.AUTHENTICATION, told=True)]
        self._named = str(connect.get("gateway") or "")
        if not self._named:
            return [Close("attempted to connect to gateway port", told=True)]
        if not is_name(self._named) or (own.rejects_unknown and not own.knows(self._named)):
            return [self._rejected()]
        self._connected = True
        return [Resume()]

    def _rejected(self) -> Close:
        return Close(f'Connection to gateway "{self._own.name}" rejected', told=True)

    # ---- both

    def _hear_info(self, payload: bytes) -> list[Action]:
        try:
            info = present(GatewayInfo, payload)
        except JsonError as error:
            return [Close(f"an INFO that is none: {error}")]
        own, wanted, theirs = self._own, self._wanted, str(info.get("gateway") or "")
        if wanted and not theirs:
            return [Close(f'Attempt to connect to gateway "{wanted}" using wrong port', told=True)]
        if wanted and theirs != wanted:
            text = (
                f'Connection from "{own.name}" rejected, wanted to connect to "{wanted}", this is "{theirs[:NAME_MAX]}"'
            )
            return [Misnamed(theirs[:NAME_MAX], wanted), Close(text, told=True)]
        if not wanted and (theirs != self._named or theirs == own.name):
            same = [Misnamed(theirs, wanted)] if theirs == own.name else []
            return [*same, self._rejected()]
        server_id, name = str(info.get("server_id") or ""), str(info.get("server_name") or "")
        if not is_name(server_id) or len(name) > NAME_MAX:
            return [Close("an INFO without the server's id")]
        if name == own.server_name or own.has_server(name):
            return [Close(f"Remote server has a duplicate name: {quoted(name)}", CloseReason.DUPLICATE)]
        if own.letters == LETTERS == info.get("leafd_letters") and own.namesake(server_id, name):
            return [Namesake(server_id, name), Close(DUPLICATE_NAME, told=True)]
        if not info.get("gateway_iom"):
            return [Close(OPTIMISTIC, told=True)]
        self.info = info
        return [*(self._answer() if wanted else ()), Join(info)]

    def _answer(self) -> list[Action]:
        own, place = self._own, self._place
        user, password = (place.user, place.password) if place is not None and place.user else (own.user, own.password)
        connect: dict[str, Any] = {
            "verbose": False,
            "pedantic": False,
            **({"user": user, "pass": password} if user else {}),
            "tls_required": self._tls,
            "name": own.server_id,
            "gateway": own.name,
        }
        # Together: the second of two packets would wait for a round trip, as the peer has nothing to say in between.
        return [Send(frame("CONNECT", connect) + frame("INFO", own.info()))]

    # ---- later on

    def update(self, payload: bytes) -> list[Told | Close]:
        """An INFO of a peer that has joined. Only who was dialled has something to tell; what is unclear is passed
        over."""
        if not self._wanted:
            return []
        try:
            info = present(GatewayInfo, payload)
        except JsonError:
            return []
        name, command = str(info.get("gateway") or ""), int(info.get("gateway_cmd") or 0)
        if command in (INTEREST_BEGINS, INTEREST_ENDS):
            return []
        places = places_in(info.get("gateway_urls"))
        if command == GATEWAY_GOSSIP and name != self._wanted:
            unknown = self._own.rejects_unknown and not self._own.knows(name)
            return [Told(name, places)] if is_name(name) and places and not unknown else []
        if name != self._wanted:
            return [Close(f"cluster {quoted(self._wanted)} calls itself {quoted(name[:NAME_MAX])}")]
        return [Told(name, places, anew=True)] if places else []
