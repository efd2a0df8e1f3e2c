"""The description of a connection for the plane, beyond its account: the parts of `Nats-Request-Info` where an import
shares it, and the parts about requester and responder in a measurement of a service's latency.

    {"start","host","id", | "acc" | "user","name","lang","ver" | "rtt" | "server","cluster","alts" | "jwt",...,"kind"}
        before                         between                                place                   behind

The plane knows the account and the round-trip time and puts the rest around them. Loaded where an account shares or
measures anything. Not here: which connections are described (clients.py, links/leafs.py).
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from leafd import native_types as t
from leafd.auth.connect import claimed_user
from leafd.auth.jwt_claims import UserClaims
from leafd.auth.verdict import SHOWN_TYPES
from leafd.gojson import dump
from leafd.gotime import format_time
from leafd.links.leaf import Acceptor
from leafd.monitor.connections import issuer_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leafd.links.leaf import Bind
    from leafd.links.link import Link
    from leafd.logins.client import Client

_HIDDEN = "[REDACTED]"


def description(client: Client, server: str, cluster: str, others: Sequence[str] = ()) -> t.Description:
    """The description of a client. server, cluster: this server's names; others: clusters where a stream may be placed
    that this one has no room for."""
    connect, claims = client.connect, claims_of(client)
    before = {"start": format_time(client.opened_ns), "host": client.host, "id": client.connection}
    between = {"user": shown_user(client)} | {
        told: connect.get(name) for told, name in (("name", "name"), ("lang", "lang"), ("ver", "version"))
    }
    behind: dict[str, Any] = {"issuer_key": issuer_of(client)}
    if claims is not None:
        behind = {"jwt": connect.get("jwt"), "issuer_key": claims.iss, "name_tag": claims.name}
        behind["tags"] = list(claims.nats.tags)
    behind |= {"kind": "Client", "client_type": SHOWN_TYPES[client.kind]}
    return _cut(before, between, {"server": server, "cluster": cluster, "alts": list(others)}, behind)


def whole(client: Client, server: str, cluster: str, round_trip_ns: int) -> dict[str, Any]:
    """All that is told of a client, as one object."""
    parts = description(client, server, cluster)
    middle = dump({"acc": client.account.name if client.account is not None else ""})[1:-1]
    trip = f',"rtt":{round_trip_ns}'.encode()
    found: dict[str, Any] = json.loads(
        b"{" + parts.before + middle + parts.between + trip + parts.place + parts.behind + b"}"
    )
    return found


def link_description(link: Link, bind: Bind, cluster: str, others: Sequence[str] = ()) -> t.Description:
    """The description of a leaf link; a link that we dialled has no login."""
    accepted = link.machine.accepted if isinstance(link.machine, Acceptor) else None
    connect = accepted[0] if accepted is not None else {}
    host = link.peer.rpartition(":")[0].strip("[]")
    before = {"start": format_time(time.time_ns()), "host": host, "id": link.connection}
    between = {"user": claimed_user(connect), "name": bind.remote_name, "ver": connect.get("version")}
    place = {"server": bind.remote_name, "cluster": cluster, "alts": list(others)}
    return _cut(before, between, place, {"kind": "Leafnode"})


def claims_of(client: Client) -> UserClaims | None:
    """The user's JWT, where it has logged in with one."""
    proof = client.proof
    return proof if isinstance(proof, UserClaims) else None


def shown_user(client: Client) -> str:
    """The client's user, without what proves it."""
    return client.user or (_HIDDEN if client.connect.get("auth_token") else "")


def _cut(*parts: dict[str, Any]) -> t.Description:
    before, *others = (dump({name: value for name, value in part.items() if value})[1:-1] for part in parts)
    between, place, behind = (b"," + one if one else b"" for one in others)
    return t.Description(before + b"," if before else b"", between, place, behind)
