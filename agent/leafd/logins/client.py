"""One client connection as control knows it, and the terms that it is judged by. What happens to it is clients.py."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

from leafd import native_types as t
from leafd.accounts.graph import Account, Graph
from leafd.auth.authors import author_of
from leafd.auth.common import common_rights
from leafd.auth.connect import MQTT_CLIENT
from leafd.auth.mqtt_connect import MqttConnect, credentials_of, level_of, mqtt_connect
from leafd.auth.policy import Policy, Rights
from leafd.auth.verdict import CLIENT_TYPE, MQTT_TYPE, MQTT_WEB_TYPE, WEB_TYPE
from leafd.logins.info_lines import verdict_flags
from leafd.records import dataclass
from leafd.turns import ITEM_WEIGHT, aside

if TYPE_CHECKING:
    from leafd.auth.verdict import Proof, Verdict
    from leafd.certificates import Certificate

ASSIGNED_BYTES: Final = 11
PACKET_KEPT_BYTES: Final = 256
"""A will may be large, and no login needs it."""
_NO_RIGHTS: Final = Rights()
_PAYLOAD_MAX: Final = (1 << 31) - 1
_NUMBERS: Final = {CLIENT_TYPE: "cid", WEB_TYPE: "wid", MQTT_TYPE: "mid", MQTT_WEB_TYPE: "mid_ws"}
"""The names of a connection's number in the log, as with nats-server."""


@dataclass(frozen=True, slots=True)
class Web:
    """The facts about a client that came over WebSocket."""

    credentials: dict[str, str]
    """Credentials from cookies, by the names of CONNECT's fields."""
    forwarded: str = ""
    """The address that a proxy tells of."""
    mqtt: bool = False
    """The visitor speaks MQTT in WebSocket's frames."""


@dataclass(slots=True)
class Mqtt:
    """The facts in the CONNECT of a client that speaks MQTT."""

    said: bytes | MqttConnect | None = None
    """The packet as it came, which is read again where somebody asks; of a large one what a login needs of it."""
    assigned: str = ""
    """The identifier that it was given, having none."""

    @property
    def connect(self) -> MqttConnect | None:
        """The facts of its CONNECT; None: it has not come."""
        return mqtt_connect(self.said) if isinstance(self.said, bytes) else self.said

    @property
    def client_id(self) -> str:
        """The client identifier."""
        connect = self.connect
        return self.assigned or (connect.client_id if connect is not None else "")

    @property
    def level(self) -> int:
        """The number of its version; 0: not known yet."""
        if isinstance(self.said, bytes):
            return level_of(self.said)
        return 0 if self.said is None else self.said.level

    def read(self, packet: bytes) -> dict[str, Any]:
        """CONNECT as the fields of a client's. Raises NoConnect."""
        connect = mqtt_connect(packet)
        self.said = packet if len(packet) <= PACKET_KEPT_BYTES else connect
        self.assigned = "" if connect.client_id else secrets.token_hex(ASSIGNED_BYTES)
        return connect.fields | {MQTT_CLIENT: self.assigned or connect.client_id}

    def let_in(self, packet: bytes) -> None:
        """Keeps the CONNECT of one that the plane has let in, which has an identifier. Raises NoConnect."""
        self.said = packet if len(packet) <= PACKET_KEPT_BYTES else mqtt_connect(packet)

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a client's CONNECT, as the packet that was read last has them."""
        connect = self.connect
        return {} if connect is None else connect.fields | {MQTT_CLIENT: self.assigned or connect.client_id}


@dataclass(slots=True)
class Client:
    """One client connection."""

    connection: int
    peer: str
    nonce: str
    opened_ns: int
    said: dict[str, Any] | None = None
    """The fields of its CONNECT; None: it has none yet, or they are in mqtt."""
    account: Account | None = None
    user: str = ""
    rights: Rights = _NO_RIGHTS
    proof: Proof | None = None
    """In operator mode: its JWT."""
    policy: Policy | None = None
    """By which it was judged last; None: it is not logged in, or not for long."""
    implicit: bool = False
    described: bool = False
    """The plane knows all of it that may be told."""
    granted: tuple[t.ConnVerdict, t.Permissions] | None = None
    """The rights that the plane was told."""
    max_payload: int = 0
    tls: t.Secured | None = None
    """Its handshake, if it has TLS."""
    web: Web | None = None
    certificate: Certificate | None = None
    """The certificate that the client has shown."""
    mqtt: Mqtt | None = None

    @property
    def connect(self) -> dict[str, Any]:
        """The fields of its CONNECT."""
        if self.said is not None:
            return self.said
        return {} if self.mqtt is None else self.mqtt.fields

    @connect.setter
    def connect(self, fields: dict[str, Any]) -> None:
        self.said = fields

    def keep_less(self) -> None:
        """Forgets the fields of a device that has logged in: its packet makes them again for reports and reloads."""
        if self.mqtt is not None and (self.web is None or not self.web.credentials):
            self.said = None

    @property
    def kind(self) -> str:
        """The client's kind in the words of allowed_connection_types."""
        if self.mqtt is not None:
            return MQTT_TYPE if self.web is None else MQTT_WEB_TYPE
        return CLIENT_TYPE if self.web is None else WEB_TYPE

    def known_by(self, line: bytes) -> bytes:
        """The part of its CONNECT, which has been read, that decides on its login: of MQTT what it says of the user."""
        return line if self.mqtt is None else credentials_of(line)

    @property
    def known_kind(self) -> int:
        """The plane's word for what it speaks, and whether it came over WebSocket."""
        kind = t.ConnKind.CLIENT if self.mqtt is None else t.ConnKind.MQTT
        return int(kind) | (0 if self.web is None else t.KNOWN_WEB)

    @property
    def log_name(self) -> str:
        """The beginning of log lines about the client; behind a proxy, with the address that the proxy tells of."""
        number = f"{_NUMBERS[self.kind]}:{self.connection}"
        if self.web is None:
            return f"{self.peer} - {number}"
        address = self.web.forwarded
        before = f"[{address}]/" if ":" in address else f"{address}/" if address else ""
        return f"{before}{self.peer} - {number}"

    @property
    def host(self) -> str:
        """The client's address."""
        return self.peer.rpartition(":")[0].strip("[]")

    def logged_in(self, verdict: Verdict, account: Account, terms: Terms) -> None:
        """Whom these terms say that it is."""
        self.account, self.user, self.rights, self.proof = account, verdict.user, verdict.rights, verdict.proof
        self.policy = terms.of(self).policy

    def told(self, terms: Terms) -> dict[str, Any]:
        """The members of INFO about the client itself; no address where that may be a proxy's."""
        shown = {} if terms.proxied and self.web is None else {"client_ip": self.host}
        return {"client_id": self.connection} | shown

    def stands_behind(self, event: t.Proxied, complain: Callable[[str], None]) -> None:
        """A proxy has said whom it speaks for, or something else."""
        if event.fault:
            complain(f"Error reading PROXY protocol header from {self.peer}: {event.fault}")
        else:
            self.peer = event.peer


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of every login; replaced as a whole by a reload."""

    policy: Policy
    graph: Graph
    max_payload: int
    max_subscriptions: int
    timeout_s: float
    max_connections: int = 0
    """0: no limit."""
    secure: t.Secure | None = None
    """How who comes gets TLS, if so."""
    proxied: bool = False
    """A proxy may say whom it speaks for."""
    web: Terms | None = None
    """The terms over WebSocket."""
    mqtt: Terms | None = None
    """The terms of MQTT, also over WebSocket, where only TLS is WebSocket's."""
    ping_interval_ns: int = 0
    """0: the server's."""
    info: dict[str, Any] = field(default_factory=dict)
    """Members of INFO that differ there."""
    patient: bool = False
    """The configuration has no timeout_s, and a client that logs in may be far away."""

    @property
    def required(self) -> dict[str, Any]:
        """The members of INFO about logging in."""
        return {"auth_required": True} if self.policy.auth_required else {}

    def of(self, client: Client) -> Terms:
        """The terms for this client."""
        if client.mqtt is not None and self.mqtt is not None:
            return self.mqtt if client.web is None or self.mqtt.web is None else self.mqtt.web
        return self if client.web is None or self.web is None else self.web


def shown_by(event: t.Secured) -> Certificate | None:
    """The certificate that a handshake brought; None: none, or one that cannot be read, which is nobody's."""
    if not event.certificate:
        return None
    from leafd.certificates import Malformed, read_certificate  # here: without TLS none of it is needed

    try:
        return read_certificate(event.certificate)
    except Malformed:
        return None


def granted(client: Client, verdict: Verdict, account: Account, terms: Terms) -> tuple[t.ConnVerdict, t.Permissions]:
    """The verdict for the plane. Keeps the largest payload with the client."""
    limits, rights = account.limits, verdict.rights
    client.max_payload = min(
        terms.max_payload, *(one for one in (limits.max_payload, verdict.max_payload) if one >= 0), _PAYLOAD_MAX
    )
    max_subscriptions = limits.max_subscriptions if limits.max_subscriptions >= 0 else terms.max_subscriptions
    if verdict.max_subscriptions >= 0:
        max_subscriptions = min(verdict.max_subscriptions, max_subscriptions or verdict.max_subscriptions)
    own = terms.of(client)
    return (
        t.ConnVerdict(
            flags=int(verdict_flags(client.connect, implicit=client.implicit)),
            max_payload=client.max_payload,
            max_subscriptions=max(max_subscriptions, 0),
            response_max=rights.response_max,
            response_ttl_ns=rights.response_ttl_ns,
            expires_wall_ns=verdict.expires_ns,
            ping_interval_ns=own.ping_interval_ns,
        ),
        lists_of(rights, author_of(verdict, own.policy, client.kind)),
    )


def lists_of(rights: Rights, author: str = "") -> t.Permissions:
    """As the plane takes them."""
    return t.Permissions(
        rights.publish_allow, rights.publish_deny, rights.subscribe_allow, rights.subscribe_deny, author=author
    )


async def common(old: Rights, new: Rights) -> Rights:
    """The rights that both allow; worked out aside where that takes long."""
    pairs = len(old.publish_allow) * len(new.publish_allow) + len(old.subscribe_allow) * len(new.subscribe_allow)
    denied = len(old.publish_deny) + len(new.publish_deny) + len(old.subscribe_deny) + len(new.subscribe_deny)
    return await aside(ITEM_WEIGHT * (pairs + denied), common_rights, old, new)
