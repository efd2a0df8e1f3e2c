"""Events of the system account: who came, who went, whose login failed, what accounts and the server come to.

    $SYS.ACCOUNT.<account>.CONNECT, .DISCONNECT                 a client or leaf link, when it comes and goes
    $SYS.SERVER.<id>.CLIENT.AUTH.ERR                            a login that was refused
    $SYS.ACCOUNT.<account>.SERVER.CONNS                         an account's numbers: after a change, and every 30 s
    $SYS.SERVER.<id>.STATSZ                                     the server's: at the start often, then every 10 s
    $SYS.SERVER.<id>.LAMEDUCK, .SHUTDOWN                        its end
    $SYS.SERVER.<id>.LEAFD.BOXES                                boxes that have come to it, for the other servers

They are made only while somebody may hear them: the system account has a client, a link or an importer.
Not here: reports that are asked for (services.py), advisories of JetStream (jetstream/advisories.py).
"""

from __future__ import annotations

import secrets
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio

from leafd import native_types as t
from leafd.accounts.graph import Account, Graph
from leafd.auth.connect import MQTT_CLIENT
from leafd.auth.policy import GLOBAL_ACCOUNT
from leafd.auth.verdict import SHOWN_TYPES, Called
from leafd.gojson import dump
from leafd.monitor import reports
from leafd.monitor.closed import Gone, gone, reason
from leafd.monitor.connections import issuer_of, shown_user, told_of
from leafd.monitor.facts import Facts, stamp
from leafd.turns import Pause

if TYPE_CHECKING:
    from leafd.monitor.rooms import ClientFacts, LeftFacts, LinkFacts

CONNECTED: Final = "io.nats.server.advisory.v1.client_connect"
DISCONNECTED: Final = "io.nats.server.advisory.v1.client_disconnect"
BOX_DOUBLED: Final = "io.leafd.server.advisory.v1.box_doubled"
CONNECTIONS: Final = "io.nats.server.advisory.v1.account_connections"
STATS_FIRST_S: Final = 0.25
STATS_S: Final = 10.0
CONNECTIONS_S: Final = 30.0
SETTLE_S: Final = 0.25
"""Changes of accounts within this time make one event each: a thousand leaves that come back make a few."""


class Events:
    """Publishes them; the callbacks are called by the parts that know of connections."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._changed: dict[str, None] = {}
        self._some = trio.Event()
        self._joined = trio.Event()
        self._links = 0
        self._judged: tuple[Graph | None, bool] = (None, False)

    # ---- what happens

    def client_came(self, client: ClientFacts) -> None:
        """A client has logged in."""
        account = client.account
        if account is None or not self.heard():
            return
        self._tell_account(account.name, "CONNECT", CONNECTED, {"client": self._client(client, account.name)})
        self._account_changed(account.name)

    def client_went(self, client: ClientFacts, event: t.Closed) -> None:
        """A connection of a client has ended, logged in or not."""
        account = client.account
        name = account.name if account is not None else ""
        self._facts.closed.add(_gone(client, name, event, time.time_ns()))
        if not self.heard():
            return
        # As in the reference: a client that is not logged in is of the global account.
        about = self._client(client, name or GLOBAL_ACCOUNT, event)
        if account is None and event.reason == t.CloseReason.AUTHENTICATION:
            subject = f"$SYS.SERVER.{self._facts.server_id}.CLIENT.AUTH.ERR"
            self._tell(subject, self._event(DISCONNECTED, _ended(about, event)))
        self._tell_account(name or GLOBAL_ACCOUNT, "DISCONNECT", DISCONNECTED, _ended(about, event))
        if name:
            self._account_changed(name)

    def client_left(self, left: LeftFacts, event: t.Closed) -> None:
        """The same of a device while nobody hears of it: what there was to tell is found out where somebody asks."""
        self._facts.closed.add(partial(_left, left, event, time.time_ns()))

    def link_came(self, link: LinkFacts, opened_ns: int) -> None:
        """A leaf link is up."""
        system = self._facts.graph.system
        self._links += system is not None and link.account == system.name
        if self.heard():
            self._tell_account(link.account, "CONNECT", CONNECTED, {"client": _link(link, opened_ns)})
            self._account_changed(link.account)

    def link_went(self, link: LinkFacts, event: t.Closed, opened_ns: int) -> None:
        """A leaf link has ended."""
        told = {"name": "" if link.spoke else link.name, "version": link.version}
        self._facts.closed.add(
            gone(
                event,
                link=True,
                peer=link.peer,
                account=link.account,
                user=link.user,
                told={name: value for name, value in told.items() if value},
                opened_ns=opened_ns,
                ended_ns=time.time_ns(),
            )
        )
        if self.heard():
            about = _link(link, opened_ns, event)
            self._tell_account(link.account, "DISCONNECT", DISCONNECTED, _ended(about, event))
            self._account_changed(link.account)
        system = self._facts.graph.system
        self._links -= system is not None and link.account == system.name

    def box_doubled(self, box: str, there: str, refused: str) -> None:
        """Another machine has come with the key of an enrolled box that is linked."""
        if self.heard():
            subject = f"$SYS.SERVER.{self._facts.server_id}.LEAFD.BOX.DOUBLED"
            self._tell(subject, self._event(BOX_DOUBLED, {"box": box, "linked": there, "refused": refused}))

    def boxes_here(self, rows: list[list[Any]]) -> None:
        """Other servers are to hear of boxes that are linked to this one (links/far_twins.py)."""
        if self.heard():
            body = {"server": self._facts.server_info(), "boxes": rows}
            self._tell(f"$SYS.SERVER.{self._facts.server_id}.LEAFD.BOXES", body)

    def cluster_grew(self) -> None:
        """A server has joined the cluster, or another cluster is reached: it hears of this one soon."""
        self._joined.set()

    def lame_duck(self) -> None:
        """The server is about to send its clients away."""
        self._tell(f"$SYS.SERVER.{self._facts.server_id}.LAMEDUCK", {})

    def shutdown(self) -> None:
        """The server ends."""
        self._tell(f"$SYS.SERVER.{self._facts.server_id}.SHUTDOWN", {})

    # ---- what is told from time to time

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Tells of accounts and of the server until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._tell_stats)
            nursery.start_soon(self._tell_accounts)
            task_status.started()

    async def _tell_stats(self) -> None:
        pause_s = STATS_FIRST_S
        while True:
            with trio.move_on_after(pause_s):
                await self._joined.wait()
            if self._joined.is_set():
                self._joined = trio.Event()
                await trio.sleep(SETTLE_S)
            pause_s = min(2 * pause_s, STATS_S)
            with self._facts.guard.around("telling what the server comes to"):
                if self.heard():
                    statsz = await reports.statsz(self._facts, {})
                    server = {"server": self._facts.server_info()}
                    self._tell(f"$SYS.SERVER.{self._facts.server_id}.STATSZ", server | {"statsz": statsz})

    async def _tell_accounts(self) -> None:
        while True:
            with trio.move_on_after(CONNECTIONS_S) as waiting:
                await self._some.wait()
            await trio.sleep(SETTLE_S)
            names, self._changed, self._some = self._changed, {}, trio.Event()
            with self._facts.guard.around("telling what accounts come to"):
                if self.heard():
                    await self._tell_connections(None if waiting.cancelled_caught else set(names))

    async def _tell_connections(self, names: set[str] | None) -> None:
        """names None: all that have connections."""
        rows: dict[int, list[t.ConnectionRow]] = {}
        pause = Pause()
        for row in await self._facts.plane.connections():
            rows.setdefault(row.account, []).append(row)
            await pause()
        for account in list(self._facts.graph.by_id.values()):
            await pause()
            if names is not None and account.name not in names:
                continue
            stat = reports.account_stat(self._facts, account, rows.get(account.id, []))
            if names is None and not stat["total_conns"]:
                continue
            for subject in (f"$SYS.SERVER.ACCOUNT.{account.name}.CONNS", f"$SYS.ACCOUNT.{account.name}.SERVER.CONNS"):
                self._tell(subject, self._event(CONNECTIONS, stat))

    # ---- how it is told

    def heard(self) -> bool:
        """Whether anybody may hear of it."""
        graph = self._facts.graph
        system = graph.system
        if system is None:
            return False
        if self._judged[0] is not graph:
            imported = any(one.exporter == system.id for account in graph.by_id.values() for one in account.imports)
            self._judged = graph, imported
        routes, gateways = self._facts.routes, self._facts.gateways
        clustered = (routes is not None and routes.joined) or (gateways is not None and gateways.joined)
        return self._judged[1] or clustered or self._links > 0 or self._facts.clients.count(system.id) > 0

    def _account_changed(self, name: str) -> None:
        self._changed[name] = None
        self._some.set()

    def _client(self, client: ClientFacts, account: str, event: t.Closed | None = None) -> dict[str, Any]:
        shown: Account | None = client.account
        proof, connect = client.proof, client.connect
        found: dict[str, Any] = {
            "start": stamp(client.opened_ns),
            "host": client.host,
            "id": client.connection,
            "acc": account,
            "user": shown_user(client, connect),
            "name": connect.get("name"),
            "lang": connect.get("lang"),
            "ver": connect.get("version"),
            "client_id": connect.get(MQTT_CLIENT),
        }
        found |= _end(event)
        if proof is not None and not isinstance(proof, Called):
            found |= {"jwt": connect.get("jwt"), "issuer_key": proof.iss}
            found |= {"name_tag": shown.shown if shown is not None else account, "tags": list(proof.nats.tags)}
        else:
            found |= {"issuer_key": issuer_of(client), "name_tag": shown.shown if shown is not None else account}
        found |= {"kind": "Client", "client_type": SHOWN_TYPES[client.kind]}
        return {name: value for name, value in found.items() if value}

    def _event(self, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        head = {"type": kind, "id": secrets.token_hex(11), "timestamp": stamp(time.time_ns())}
        return head | {"server": self._facts.server_info()} | body

    def _tell_account(self, account: str, what: str, kind: str, body: dict[str, Any]) -> None:
        self._tell(f"$SYS.ACCOUNT.{account}.{what}", self._event(kind, body))

    def _tell(self, subject: str, event: dict[str, Any]) -> None:
        system = self._facts.graph.system
        if system is not None:
            self._facts.plane.publish(system.id, subject, dump(event or self._facts.server_info()))


def _left(left: LeftFacts, event: t.Closed, ended_ns: int) -> Gone:
    return _gone(left.made(), left.account_name, event, ended_ns)


def _gone(client: ClientFacts, account: str, event: t.Closed, ended_ns: int) -> Gone:
    """The row of a client that has gone; account: its name, or nothing."""
    connect = client.connect
    return gone(
        event,
        link=False,
        peer=client.peer,
        account=account,
        user=shown_user(client, connect),
        told=told_of(client, connect, auth=True) | {"type": SHOWN_TYPES[client.kind]},
        opened_ns=client.opened_ns,
        ended_ns=ended_ns,
    )


def _end(event: t.Closed | None) -> dict[str, Any]:
    return {} if event is None else {"rtt": event.rtt_ns, "stop": stamp(time.time_ns())}


def _ended(about: dict[str, Any], event: t.Closed) -> dict[str, Any]:
    """The traffic of a connection that ended, seen from its side, as in the reference."""
    return {
        "client": about,
        "sent": {"msgs": event.in_msgs, "bytes": event.in_bytes},
        "received": {"msgs": event.out_msgs, "bytes": event.out_bytes},
        "reason": reason(event),
    }


def _link(link: LinkFacts, opened_ns: int, event: t.Closed | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "start": stamp(opened_ns),
        "host": link.peer.rpartition(":")[0].strip("[]"),
        "id": link.connection,
        "acc": link.account,
        "user": link.user,
        "name": link.name,
        "ver": link.version,
    }
    found |= _end(event) | {"name_tag": link.account, "kind": "Leafnode"}
    return {name: value for name, value in found.items() if value}
