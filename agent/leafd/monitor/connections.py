"""connz: the connections of clients, and leaf links with them; those that are there, and the latest that have gone.

Not here: subscriptions in it (subscriptions.py), which connections that have gone are kept (closed.py).
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Mapping
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from leafd import native_types as t
from leafd.auth.connect import MQTT_CLIENT, claimed_user
from leafd.auth.policy import GLOBAL_ACCOUNT
from leafd.auth.verdict import CLIENT_TYPE, SHOWN_TYPES, Called
from leafd.config.schema.sharing import collide
from leafd.monitor import subscriptions
from leafd.monitor.closed import Gone
from leafd.monitor.encoding import Rows
from leafd.monitor.facts import Facts, elapsed, round_trip, stamp
from leafd.monitor.options import Options, flag, number, text
from leafd.records import dataclass
from leafd.turns import Pause

if TYPE_CHECKING:
    from leafd.monitor.rooms import ClientFacts, LinkFacts

CONNECTIONS_MAX: Final = 1024
_SORT: Final = {
    "cid": ("connection", False), "start": ("connection", False), "subs": ("subscriptions", True),
    "pending": ("pending_bytes", True), "msgs_to": ("out_msgs", True), "msgs_from": ("in_msgs", True),
    "bytes_to": ("out_bytes", True), "bytes_from": ("in_bytes", True), "last": ("last_wall_ns", True),
    "idle": ("last_wall_ns", False), "uptime": ("start_wall_ns", True), "rtt": ("rtt_ns", True),
    "stop": ("stop_wall_ns", True), "reason": ("reason", False),
}  # fmt: skip
"""By the word of the request: what counts, and whether the largest comes first."""
_ENDED_ONLY: Final = ("stop", "reason")
_STATES: Final = {
    "": (True, False), "open": (True, False), "closed": (False, True), "any": (True, True), "all": (True, True),
    0: (True, False), 1: (False, True), 2: (True, True),
}  # fmt: skip
"""By the word of HTTP, or the number of a JSON request: whether open ones are wanted, and closed ones."""
_Row = t.ConnectionRow | Gone
_Shown = Callable[[], dict[str, Any]]


def shown_user(client: ClientFacts, connect: Mapping[str, Any]) -> str:
    """The user of a client, without what proves it; of a client that was not let in, the user that it claims to be in
    connect, the fields of its CONNECT."""
    return client.user or claimed_user(connect)


def issuer_of(client: ClientFacts) -> str:
    """The issuer of a login by an nkey of the configuration: the reference says its account."""
    by_nkey = client.proof is None and client.user and client.user == client.connect.get("nkey")
    return client.account.name if by_nkey and client.account is not None else ""


def told_of(client: ClientFacts, connect: Mapping[str, Any], *, auth: bool) -> dict[str, Any]:
    """The members of the report about a client, beside its numbers and its account; connect: the fields of its CONNECT,
    which of a device are read from its packet, so once; auth: with its login."""
    found = _handshake(client.tls, auth)
    if client.tls is not None and client.tls.flags & t.SecuredFlag.FIRST and client.kind == CLIENT_TYPE:
        found["tls_first"] = True
    for name in ("name", "lang", "version", MQTT_CLIENT):
        if connect.get(name):
            found[name] = connect[name]
    return found


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The options of a request."""

    account: str
    user: str
    connection: int
    open: bool
    closed: bool
    sort: str
    filter: str
    mqtt: str

    @classmethod
    def of(cls, options: Options) -> _Wanted:
        """Raises ValueError for what cannot be asked."""
        word = options.get("state", "")
        state = _STATES.get(word.lower() if isinstance(word, str) else word)
        if state is None:
            raise ValueError(f"Error decoding state for {str(word)[:100]}")
        sort = text(options, "sort")
        if sort and sort not in _SORT:
            raise ValueError(f"invalid sorting option: {sort[:100]}")
        if sort in _ENDED_ONLY and state != (False, True):
            raise ValueError(f"sort by {sort} only valid on closed connections")
        account, subject = text(options, "acc"), text(options, "filter_subject")
        if subject not in ("", ">") and not account:
            raise ValueError("filter by subject only valid with account filtering")
        return cls(
            account,
            text(options, "user"),
            number(options, "cid", 0),
            *state,
            sort,
            "" if subject == ">" else subject,
            text(options, "mqtt_client"),
        )

    def takes(self, row: _Row, user: str, told: Mapping[str, Any] | None) -> bool:
        """Whether one of the wanted account is wanted."""
        if self.connection:
            return row.connection == self.connection
        mqtt = told.get(MQTT_CLIENT) if told is not None else None
        return self.mqtt in ("", mqtt) and self.user in ("", user)


async def connz(facts: Facts, options: Options) -> dict[str, Any]:
    """The report."""
    wanted = _Wanted.of(options)
    offset, limit = number(options, "offset", 0), number(options, "limit", 0) or CONNECTIONS_MAX
    limit = 1 if wanted.connection else limit
    auth = flag(options, "auth")
    listed, detail = subscriptions.wanted(options)
    links = {link.connection: link for link in facts.leafs.links()}
    total, found = await _found(facts, wanted, links)
    key, falling = _SORT[wanted.sort or "cid"]
    found.sort(key=attrgetter(key), reverse=falling)
    # The clients stay known, their rows are made when they are written: a report of thousands is never whole.
    shown, pause = list[_Shown](), Pause()
    for row in found[offset : offset + limit]:
        await pause()
        if isinstance(row, Gone):
            shown.append(partial(_ended, facts, row, auth))
        elif row.connection in links:
            shown.append(partial(_link, row, links[row.connection], auth))
        elif (client := facts.clients.get(row.connection)) is not None and client.account is not None:
            shown.append(partial(_client, row, client, client.account.name, auth))
    gone = {
        row.connection: (row.rows, {"account": row.account, "account_tag": shown_account(facts, row.account)})
        for row in (found if listed else ())
        if isinstance(row, Gone)
    }
    report = facts.head() | {"num_connections": len(shown), "total": total, "offset": offset, "limit": limit}
    listing = subscriptions.Listing(facts.plane, gone, detail=detail) if listed else None
    report["connections"] = Rows(_rows(shown, listing, report))
    return report


async def _rows(
    shown: list[_Shown], listing: subscriptions.Listing | None, report: dict[str, Any]
) -> AsyncGenerator[dict[str, Any], None]:
    for begin in range(0, len(shown), subscriptions.TOGETHER):
        rows = [make() for make in shown[begin : begin + subscriptions.TOGETHER]]
        if listing is not None:
            await listing.add_each(rows)
        for row in rows:
            yield row
    if listing is not None and not listing.whole:
        report["subscriptions_cut"] = subscriptions.ROWS_MAX


async def _found(facts: Facts, wanted: _Wanted, links: Mapping[int, LinkFacts]) -> tuple[int, list[_Row]]:
    """How many connections there are in the account, and those of them that are wanted."""
    total, found, pause = 0, list[_Row](), Pause()
    for row in await facts.plane.connections() if wanted.open else ():
        await pause()
        link, client = links.get(row.connection), facts.clients.get(row.connection)
        if link is not None:
            account, user, told = link.account, link.user, None
        elif client is not None and client.account is not None:
            told = client.connect
            account, user = client.account.name, shown_user(client, told)
        else:
            continue
        if wanted.account in ("", account):
            total += 1
            if wanted.takes(row, user, told) and await _hears(facts, row, wanted.filter):
                found.append(row)
    for ended in facts.closed.rows() if wanted.closed else ():
        await pause()
        if wanted.account in ("", ended.account):
            total += 1
            if wanted.takes(ended, ended.user, ended.told):
                found.append(ended)
    return total, found


async def _hears(facts: Facts, row: t.ConnectionRow, subject: str) -> bool:
    """Whether it subscribes to what could be published to a subject of that filter."""
    if not subject:
        return True
    rows = await subscriptions.of(facts.plane, row.connection)
    return any(collide(subject, one.subject) for one in rows)


def shown_account(facts: Facts, name: str) -> str:
    """The account's name for people: the one that its JWT has."""
    account = facts.graph.by_name.get(name)
    return account.shown if account is not None else name


def _account(name: str, shown: str) -> dict[str, Any]:
    return ({"account": name} if name != GLOBAL_ACCOUNT else {}) | {"name_tag": shown}


def _client(row: t.ConnectionRow, client: ClientFacts, account: str, auth: bool) -> dict[str, Any]:
    found = {"cid": row.connection, "kind": "Client", "type": SHOWN_TYPES[client.kind]} | _figures(
        row, client.peer, client.opened_ns
    )
    connect = client.connect
    found |= told_of(client, connect, auth=auth)
    if auth:
        user = shown_user(client, connect)
        found |= {"authorized_user": user} if user else {}
        found |= _account(account, client.account.shown if client.account is not None else account) | _jwt(client)
    return found


def _link(row: t.ConnectionRow, link: LinkFacts, auth: bool) -> dict[str, Any]:
    found = {"cid": row.connection, "kind": "Leafnode"} | _figures(row, link.peer, row.start_wall_ns)
    if link.name and not link.spoke:
        found["name"] = link.name
    if link.version:
        found["version"] = link.version
    if auth:
        found |= {"authorized_user": link.user} if link.user else {}
        found |= _account(link.account, link.account)
    return found


def _ended(facts: Facts, row: Gone, auth: bool) -> dict[str, Any]:
    kind = {"kind": "Leafnode"} if row.link else {"kind": "Client", "type": row.told.get("type", "nats")}
    found = {"cid": row.connection} | kind | _figures(row, row.peer, row.start_wall_ns)
    found |= {name: value for name, value in row.told.items() if name != "type"}
    if auth:
        found |= {"authorized_user": row.user} if row.user else {}
        found |= _account(row.account, shown_account(facts, row.account)) if row.account else {}
    return found


def _figures(row: _Row, peer: str, opened_ns: int) -> dict[str, Any]:
    host, _, port = peer.rpartition(":")
    start_ns, last_ns = row.start_wall_ns or opened_ns, row.last_wall_ns or opened_ns
    found: dict[str, Any] = {
        "ip": host.strip("[]"),
        "port": int(port) if port.isdigit() else 0,
        "start": stamp(start_ns),
        "last_activity": stamp(last_ns),
    }
    now_ns = time.time_ns()
    if isinstance(row, Gone):
        now_ns = row.stop_wall_ns
        found |= {"stop": stamp(now_ns), "reason": row.reason}
    return found | {
        "rtt": round_trip(row.rtt_ns),
        "uptime": elapsed(now_ns - start_ns),
        "idle": elapsed(now_ns - last_ns),
        "pending_bytes": row.pending_bytes,
        "in_msgs": row.in_msgs,
        "out_msgs": row.out_msgs,
        "in_bytes": row.in_bytes,
        "out_bytes": row.out_bytes,
        "subscriptions": row.subscriptions,
    }


def _handshake(tls: t.Secured | None, auth: bool) -> dict[str, Any]:
    """The protocol and cipher of a TLS connection, and the certificates that the peer showed."""
    if tls is None:
        return {}
    found: dict[str, Any] = {"tls_version": "1.3" if tls.version >= 0x0304 else "1.2", "tls_cipher_suite": tls.cipher}
    if not auth or not tls.certificate:
        return found
    from hashlib import sha256

    from leafd.certificates import Malformed, name_text, read_certificate

    try:
        shown = read_certificate(tls.certificate)
    except Malformed:
        return found
    certificate = {
        "subject": name_text(shown.subject, all_types=True),
        "spki_sha256": sha256(shown.public_key).hexdigest(),
        "cert_sha256": sha256(tls.certificate).hexdigest(),
    }
    return found | {"tls_peer_certs": [certificate]}


def _jwt(client: ClientFacts) -> dict[str, Any]:
    """The members about a client's JWT. The JWT itself is shown unless it is all that a login takes."""
    proof, found = client.proof, dict[str, Any]()
    if proof is None or isinstance(proof, Called):
        return {"issuer_key": issuer_of(client)} if issuer_of(client) else found
    token = client.connect.get("jwt")
    if token and not proof.nats.bearer_token:
        found["jwt"] = token
    found["issuer_key"] = proof.iss
    if proof.nats.tags:
        found["tags"] = list(proof.nats.tags)
    return found
