"""JetStream for clients of servers of the cluster, or of other clusters, that have none.

    a client's $JS.API request --> its server --Nats-Request-Info: who asks--> the system account of one server with
    JetStream --> answered as if the client had asked there --> back to its server, which knows the client

One server gets each: those with JetStream are one queue group. Only routes and gateways hear of it. As in nats-server
a publisher in the system account is believed whose account he names. A client's rights are those that a user of that
name has by this server's configuration. What comes without a name is an order of the system account: one of a server
that has JetStream has been carried out there.

Many clients come by one route. What each may have waiting here, and all of his account, is bounded by the plane, which
refuses what is beyond that (native/plane/guests.h); and each waits for his own turn (jetstream/serving.py).

Only a server of a group imports this. Not here: how a server without JetStream sends requests (accounts/graph.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from leafd import native_types as t
from leafd.auth.authors import NOBODY, jwt_words, written
from leafd.auth.verdict import CLIENT_TYPE, LEAF_TYPE, SHOWN_TYPES
from leafd.gojson import JsonError, loose
from leafd.jetstream.rules.versioning import header_values
from leafd.jetstream.serving import Guest
from leafd.records import dataclass

if TYPE_CHECKING:
    from leafd.daemon.authors import AuthorRights
    from leafd.daemon.current import Current
    from leafd.jetstream.service import JetStream
    from leafd.native_plane import Plane

SUBJECT: Final = "$JS.API.>"
QUEUE: Final = "leafd_jetstream"
"""Another one would answer each request a second time, while versions are mixed."""
HEADER: Final = b"Nats-Request-Info"
TOLD_BY_SERVERS: Final = ("jwt", "alts")
"""Members of that header that advisories do not show."""
_TYPES: Final = {shown: kind for kind, shown in reversed(SHOWN_TYPES.items())}
_TOKEN: Final = "[REDACTED]"


@dataclass(frozen=True, slots=True)
class FarClient:
    """The client of another server, which asks."""

    author: str
    account: str
    shown: dict[str, Any]
    rights: AuthorRights | None
    far: bool = False

    def info(self) -> dict[str, Any]:
        return self.shown

    async def denied(self, subjects: tuple[str, ...]) -> tuple[str, ...]:
        return await self.rights.denied(self.author, self.account, subjects) if self.rights is not None else subjects


class Guests:
    """Takes their requests. has_jetstream: whether the server at the other end of a connection has it."""

    def __init__(
        self,
        plane: Plane,
        jetstream: JetStream,
        current: Current,
        rights: AuthorRights,
        has_jetstream: Callable[[int], bool],
    ) -> None:
        self._plane, self._jetstream, self._current, self._rights = plane, jetstream, current, rights
        self._has_jetstream = has_jetstream

    def begin(self) -> None:
        """From here on."""
        if (system := self._current.compiled.graph.system) is not None:
            flags = int(t.SubscribeFlag.GUESTS)
            self._plane.subscribe(system.id, SUBJECT, self.take, queue=QUEUE, flags=flags)

    def take(self, message: t.Message) -> bool:
        """One request."""
        guest = self._guest(message)
        return guest is not None and self._jetstream.guest(message, guest)

    def _guest(self, message: t.Message) -> Guest | None:
        """The sender of a request; None: it is not to be answered here."""
        system = self._current.compiled.graph.system_name
        told = header_values(message.header, HEADER)
        if len(told) > 1 or message.header.count(HEADER) != len(told):
            return None  # the client wrote one, too, so nobody can tell which one is the server's
        if not told:
            return None if self._has_jetstream(message.connection) else Guest(system, FarClient(NOBODY, "", {}, None))
        try:
            about = loose(told[0])
        except JsonError:
            return None
        own, service = about.get("acc"), about.get("svc")
        account = service or own
        if not isinstance(account, str) or not account or account == system:
            return None
        shown = {name: value for name, value in about.items() if name not in TOLD_BY_SERVERS}
        author = author_in(about) if not service else NOBODY
        client = FarClient(author, account, shown, self._rights, about.get("kind") == "Leafnode")
        return Guest(account, client, (str(own or ""), f"{about.get('server')} {about.get('id')}"))


def author_in(about: dict[str, Any]) -> str:
    """The words for the client's login by which its rights are looked up here."""
    kind = LEAF_TYPE if about.get("kind") == "Leafnode" else _TYPES.get(str(about.get("client_type")), CLIENT_TYPE)
    user, token = about.get("user"), about.get("jwt")
    if token:
        return _author_by_jwt(token, kind)
    if not isinstance(user, str) or not user:
        return written(["anyone", kind])
    return written(["token", kind] if user == _TOKEN else ["user", kind, user])


def _author_by_jwt(token: Any, kind: str) -> str:
    """The words for a login with that JWT; nobody's, where it has permissions of its own: a login judges these."""
    from leafd.auth.jwt import JwtError, read
    from leafd.auth.jwt_claims import UserClaims
    from leafd.auth.trust import has_own_permissions

    try:
        claims = read(UserClaims, token) if isinstance(token, str) else None
    except JwtError:
        return NOBODY
    return NOBODY if claims is None or has_own_permissions(claims) else written(jwt_words(claims, kind))
