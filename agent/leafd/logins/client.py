"""One client connection as control knows it, and the terms that it is judged by. What happens to it is clients.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, Any

from leafd import native_types as t
from leafd.accounts.graph import Account, Graph
from leafd.auth.common import common_rights
from leafd.auth.policy import Policy, Rights
from leafd.auth.verdict import CLIENT_TYPE, WEB_TYPE
from leafd.records import dataclass
from leafd.turns import ITEM_WEIGHT, aside

if TYPE_CHECKING:
    from leafd.auth.verdict import Proof
    from leafd.certificates import Certificate


@dataclass(frozen=True, slots=True)
class Web:
    """Of a client that came over WebSocket."""

    credentials: dict[str, str]
    """Of its cookies, by the names of CONNECT's fields."""
    forwarded: str = ""
    """The address that a proxy tells of."""


@dataclass(slots=True)
class Client:
    """One client connection."""

    connection: int
    peer: str
    nonce: str
    opened_ns: int
    connect: dict[str, Any] = field(default_factory=dict)
    account: Account | None = None
    user: str = ""
    rights: Rights = field(default_factory=Rights)
    proof: Proof | None = None
    """In operator mode: its JWT."""
    policy: Policy | None = None
    """By which it was judged last; None: it is not logged in, or not for long."""
    implicit: bool = False
    described: bool = False
    """The plane knows all of it that may be told."""
    granted: tuple[t.ConnVerdict, t.Permissions] | None = None
    """What the plane was told that it may."""
    max_payload: int = 0
    tls: t.Secured | None = None
    """Its handshake, if it has TLS."""
    web: Web | None = None
    certificate: Certificate | None = None
    """That it has shown."""

    @property
    def kind(self) -> str:
        """What allowed_connection_types calls it."""
        return CLIENT_TYPE if self.web is None else WEB_TYPE

    @property
    def log_name(self) -> str:
        """What lines of the log begin with; behind a proxy, with the address that this tells of."""
        if self.web is None:
            return f"{self.peer} - cid:{self.connection}"
        address = self.web.forwarded
        before = f"[{address}]/" if ":" in address else f"{address}/" if address else ""
        return f"{before}{self.peer} - wid:{self.connection}"

    @property
    def host(self) -> str:
        """The client's address."""
        return self.peer.rpartition(":")[0].strip("[]")

    def told(self, terms: Terms) -> dict[str, Any]:
        """What its INFO says of itself; no address where it may be a proxy's."""
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
    """What counts for every login; replaced as a whole by a reload."""

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
    """What counts over WebSocket."""
    ping_interval_ns: int = 0
    """0: the server's."""
    info: dict[str, Any] = field(default_factory=dict)
    """What INFO says there in place of the rest."""

    def of(self, client: Client) -> Terms:
        """What counts for this one."""
        return self if client.web is None or self.web is None else self.web


def shown_by(event: t.Secured) -> Certificate | None:
    """The certificate that a handshake brought; None: none, or one that cannot be read, which is nobody's."""
    if not event.certificate:
        return None
    from leafd.certificates import Malformed, read_certificate  # here: who has no TLS needs none of it

    try:
        return read_certificate(event.certificate)
    except Malformed:
        return None


def lists_of(rights: Rights, author: str = "") -> t.Permissions:
    """As the plane takes them."""
    return t.Permissions(
        rights.publish_allow, rights.publish_deny, rights.subscribe_allow, rights.subscribe_deny, author=author
    )


async def common(old: Rights, new: Rights) -> Rights:
    """What both allow; worked out aside where it takes long."""
    pairs = len(old.publish_allow) * len(new.publish_allow) + len(old.subscribe_allow) * len(new.subscribe_allow)
    denied = len(old.publish_deny) + len(new.publish_deny) + len(old.subscribe_deny) + len(new.subscribe_deny)
    return await aside(ITEM_WEIGHT * (pairs + denied), common_rights, old, new)
