"""The logins that the plane answers without asking, because control would say the same each time: the INFO, and the
verdict on a CONNECT that has been judged before.

    terms --> greeting --> the plane says it to each who comes, and Opened tells of it
    a CONNECT that comes again --> known --> the plane admits who sends it once more, and Line tells of it

Of a CONNECT of MQTT that is what it says of the user, since each client has its own identifier.

Only a verdict that depends on nothing but the CONNECT and the terms can be known: no nonce was signed, no certificate
looked at, no service asked, no place counted. A password that was checked against a hash is known until the terms
change, as it came. Which logins are known is decided here alone: the plane forgets what it is told to.

Not here: the verdict (auth/), who comes and goes (clients.py).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from leafd import native_types as t
from leafd.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    from leafd.accounts.graph import Account
    from leafd.auth.policy import Policy, Rights
    from leafd.logins.client import Client

KNOWN_BYTES: Final = 24 << 20
"""The most bytes of known logins, here and in the plane: 16,000 with short names. Less where memory_limit is small."""
KNOWN_COST: Final = 1300
"""Bytes that a known login takes here and in the plane, beside its CONNECT, which is there three times: as it came, as
its fields, and in the plane."""
SEEN_MAX: Final = 16384
LINE_MAX: Final = 1024
LISTS_MAX: Final = 64
"""Subjects in the permissions of a login that is known."""

Key = tuple[int, bytes]
"""The kind of connection (Client.known_kind) and the CONNECT."""


@dataclass(frozen=True, slots=True)
class Known:
    """The client that a certain CONNECT makes."""

    connect: dict[str, Any]
    account: Account
    user: str
    rights: Rights
    policy: Policy
    granted: tuple[t.ConnVerdict, t.Permissions]
    max_payload: int

    def give(self, client: Client, line: bytes) -> None:
        """Gives a client that has logged in by this line its account, user and rights, and its CONNECT: a device has
        its own. Raises NoConnect."""
        if client.mqtt is None:
            client.said = self.connect
        else:
            client.mqtt.let_in(line)
        client.account, client.user, client.rights = self.account, self.user, self.rights
        client.policy, client.granted, client.max_payload = self.policy, self.granted, self.max_payload


def cost(line: bytes) -> int:
    """Bytes that a login takes which is known by this."""
    return KNOWN_COST + 3 * len(line)


class KnownLogins:
    """The CONNECTs that the plane admits by itself, or will when it has taken the command."""

    def __init__(self, forgotten: Callable[[int, bytes], None], memory_limit: int = 0) -> None:
        """forgotten: tells the plane of one that is not known any more, since others came. memory_limit: the server's;
        0: none."""
        self._forgotten = forgotten
        self._most = min(KNOWN_BYTES, memory_limit // 8 or KNOWN_BYTES)
        self._known: OrderedDict[Key, Known] = OrderedDict()
        self._seen: OrderedDict[int, None] = OrderedDict()
        """Hashes of CONNECTs, which hold passwords and may be long. Two that share one are both taken as seen."""
        self._bytes = 0

    def get(self, kind: int, line: bytes) -> Known | None:
        """The client that this CONNECT makes; None where the line is not known."""
        return self._known.get((kind, line))

    def forget(self) -> None:
        """Other terms count from now on."""
        self._known.clear()
        self._seen.clear()
        self._bytes = 0

    def learn(self, kind: int, line: bytes, client: Client) -> Known | None:
        """Something new, from a login that was just judged: when the same one has come before, since most come once."""
        key = (kind, line)
        if key in self._known or len(line) > LINE_MAX:
            return None
        seen = hash(key)
        if seen not in self._seen:
            self._seen[seen] = None
            if len(self._seen) > SEEN_MAX:
                self._seen.popitem(last=False)
            return None
        known = _known(client)
        if known is not None:
            del self._seen[seen]
            self._known[key] = known
            self._bytes += cost(line)
            self._make_room()
        return known

    def _make_room(self) -> None:
        """Forgets the oldest ones while all take more than they may."""
        while self._bytes > self._most:
            (kind, line), _ = self._known.popitem(last=False)
            self._bytes -= cost(line)
            self._forgotten(kind, line)


def _known(client: Client) -> Known | None:
    """The known login of a client; None: another sender of its CONNECT may get another verdict."""
    granted, account, policy = client.granted, client.account, client.policy
    if granted is None or account is None or policy is None or account.limits.max_connections >= 0:
        return None
    if account.described:  # each by itself
        return None
    verdict, lists = granted
    count = len(lists.publish_allow) + len(lists.publish_deny) + len(lists.subscribe_allow) + len(lists.subscribe_deny)
    elsewhere = policy.trust is not None or policy.callout is not None or policy.maps_certificates
    proven = client.proof is not None or client.connect.get("nkey")
    # (Of a client over WebSocket a cookie may count, and the plane says INFO to nobody there: to MQTT it needs none.)
    webbed = client.web is not None and (client.mqtt is None or bool(client.web.credentials))
    if elsewhere or proven or webbed or verdict.expires_wall_ns != 0 or count > LISTS_MAX:
        return None
    return Known(client.connect, account, client.user, client.rights, policy, granted, client.max_payload)
