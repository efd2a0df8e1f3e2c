"""Requests on $SYS: about this server in the system account, and what every account may ask about itself.

    {"server": {...}, "data": {...}}    or    {"server": {...}, "error": {"code", "description"}}

A server that the request's filter does not mean stays silent. Requests of ordinary accounts about servers stay
unanswered here,
so that they get the reference's 503.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import trio

from leafd import native_types as t
from leafd.accounts.graph import Account
from leafd.auth.verdict import Called
from leafd.config.schema.sharing import is_literal, is_subset
from leafd.fair import FairQueue
from leafd.gojson import JsonError, loose
from leafd.monitor import reports, subscriptions
from leafd.monitor.cluster_report import routez
from leafd.monitor.connections import connz
from leafd.monitor.elsewhere import TOLD
from leafd.monitor.encoding import TooLarge, encode
from leafd.monitor.facts import Facts, stamp
from leafd.monitor.gateway_report import gatewayz
from leafd.monitor.heavy import weight
from leafd.monitor.jetstream_report import healthz, jsz, jsz_account
from leafd.monitor.options import NotMeant
from leafd.native_commands import Commands
from leafd.turns import Pause

SERVER: Final = "$SYS.REQ.SERVER."
ACCOUNT: Final = "$SYS.REQ.ACCOUNT."
USER_INFO: Final = "$SYS.REQ.USER.INFO"
BOXES: Final = "$SYS.SERVER.*.LEAFD.BOXES"
"""The boxes of other servers, as these tell."""
HEARERS: Final = "$SYS.DEBUG.SUBSCRIBERS"
"""How many subscriptions of clients there are: the request is a subject, and perhaps a queue group, the answer a
number. Of the system account, or of the one that imports it as a service."""
AT_WORK_MAX: Final = 4
"""Reports in memory at a time: one may be megabytes, and a client that may ask at all may ask thousands of times a
second."""
Report = Callable[[Facts, Mapping[str, Any]], Awaitable[dict[str, Any]]]
REPORTS: Final[dict[str, Report]] = {
    "VARZ": reports.varz,
    "CONNZ": connz,
    "ROUTEZ": routez,
    "GATEWAYZ": gatewayz,
    "LEAFZ": reports.leafz,
    "JSZ": jsz,
    "SUBSZ": reports.subsz,
    "ACCOUNTZ": reports.accountz,
    "RAFTZ": reports.raftz,
    "IPQUEUESZ": reports.ipqueuesz,
    "EXPVARZ": reports.expvarz,
    "PROFILEZ": reports.profilez,
}


class Refused(Exception):
    """The request is answered with an error."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Services:
    """Owner of the subscriptions below $SYS.REQ."""

    def __init__(
        self, facts: Facts, plane: Commands, reload: Callable[[], None], send_away: Callable[[int], bool]
    ) -> None:
        self._facts = facts
        self._plane = plane
        self._reload = reload
        self._send_away = send_away
        self._served: set[int] = set()
        self._requests: FairQueue[t.Message] = FairQueue(at_work=AT_WORK_MAX, at_work_each=1)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serves until cancelled: accounts and their connections in turn."""
        async with trio.open_nursery() as nursery:
            await self.subscribe()
            task_status.started()
            while True:
                nursery.start_soon(self._serve, await self._requests.take())

    async def subscribe(self) -> None:
        """Subscribes for accounts that are new; again after a reload."""
        pause = Pause()
        for account in list(self._facts.graph.by_id.values()):
            await pause()
            if account.id in self._served:
                continue
            self._served.add(account.id)
            subjects = [USER_INFO]
            if account.system:
                subjects += [f"{SERVER}PING", f"{SERVER}PING.*", f"{SERVER}{self._facts.server_id}.*"]
                subjects += [f"{ACCOUNT}*.*", HEARERS]
            else:
                subjects += [f"{ACCOUNT}PING.CONNZ", f"{ACCOUNT}PING.STATZ", f"{SERVER}PING.CONNZ"]
            for subject in subjects:
                self._plane.subscribe(account.id, subject, self._message)
            for subject in TOLD if account.system and self._facts.gateways is not None else ():
                self._plane.subscribe(account.id, subject, self._facts.elsewhere.hear)
            if account.system and (self._facts.routes is not None or self._facts.gateways is not None):
                self._plane.subscribe(account.id, BOXES, self._facts.leafs.twins.hear)

    def _message(self, message: t.Message) -> bool:
        """Takes a request; while it waits here it counts against its connection's credit."""
        if message.reply:
            self._requests.put(message.payer, message.connection, message)
        return bool(message.reply)

    async def _serve(self, message: t.Message) -> None:
        try:
            with self._facts.guard.around("answering a request on $SYS"):
                async with self._facts.reports.room(self._weight(message)):
                    await self._answer_and_reply(message)
        finally:
            self._requests.done(message.payer, message.connection)
            self._plane.repay(message)

    def _weight(self, message: t.Message) -> int:
        """The share of reports that an answer takes: its rows, and once more as a message."""
        path = f"/{message.subject.rpartition('.')[2].lower()}"
        return 2 * weight(self._facts, path, b"?subs" if b"subscriptions" in message.payload else b"")

    async def _answer_and_reply(self, message: t.Message) -> None:
        account = self._facts.graph.by_id.get(message.account)
        if message.subject == HEARERS:
            self._plane.publish(message.account, message.reply, b"%d" % await self._hearers(message))
            return
        answered: dict[str, Any] | None = None
        try:
            if account is not None:
                answered = await self._answer(account, message)
        except Exception as error:
            self._facts.guard.caught("a request on $SYS", error)
            refused = {"code": 500, "description": "unexpected error"}
            answered = {"server": self._facts.server_info(), "error": refused}
        if answered is not None:
            self._plane.publish(message.account, message.reply, await self._encoded(answered))

    async def _encoded(self, answered: dict[str, Any]) -> bytes:
        """A message is whole before it is sent, so it is no larger than the share of reports."""
        try:
            return await encode(answered, most=self._facts.reports.limit)
        except TooLarge:
            text = "the answer is larger than the share of memory_limit: ask for fewer, with offset and limit"
            refused = {"server": self._facts.server_info(), "error": {"code": 413, "description": text}}
            return await encode(refused)

    async def _answer(self, account: Account, message: t.Message) -> dict[str, Any] | None:
        envelope = {"server": self._facts.server_info()}
        try:
            options = _body(message.payload)
            if not self._is_meant(options):
                return None
            if message.subject == USER_INFO:
                bind = self._facts.leafs.bind_of(message.connection)
                if bind is not None and bind.spoke:
                    return None  # a user of the hub asks, and this answer might come before the hub's
                return envelope | {"data": self._user(account, message.connection)}
            if not account.system:
                return envelope | await self._own(account, message.subject, options)
            if message.subject.startswith(SERVER):
                return await self._server(message.subject.removeprefix(SERVER).split("."), options, envelope)
            found = await self._account(message.subject.removeprefix(ACCOUNT).split("."), options)
            return None if found is None else envelope | found
        except NotMeant:
            return None
        except Refused as error:
            return envelope | {"data": None, "error": {"code": error.code, "description": str(error)}}

    async def _hearers(self, message: t.Message) -> int:
        """The number of subscriptions that hear a subject; of one with wildcards, those of subjects within it."""
        account = self._facts.graph.by_id.get(message.payer or message.account)
        subject, *groups = message.payload.decode("utf-8", "replace").strip().split(" ")
        if account is None or not subject:
            return 0
        literal = is_literal(subject)
        _, rows, _ = await subscriptions.every(self._facts, account.name, subject if literal else "")
        if groups and (literal or groups[0]):
            rows = [row for row in rows if groups[0] and row.get("qgroup") == groups[0]]
        return sum(
            (literal or is_subset(row["subject"], subject)) and self._facts.clients.get(row["cid"]) is not None
            for row in rows
        )

    def _is_meant(self, options: Mapping[str, Any]) -> bool:
        facts = self._facts
        exact = bool(options.get("exact_match"))

        def fits(name: str, own: str) -> bool:
            wanted = options.get(name)
            if not isinstance(wanted, str) or not wanted:
                return True
            return own == wanted if exact else wanted in own

        wanted = options.get("tags")
        tags = wanted if isinstance(wanted, list) else []
        return (
            fits("server_name", facts.name)
            and fits("cluster", facts.cluster)
            and fits("host", facts.host)
            and fits("domain", facts.domain)
            and all(isinstance(tag, str) and tag.strip().lower() in facts.config.server_tags for tag in tags)
        )

    # ---- the requests

    async def _server(
        self, tokens: list[str], options: Mapping[str, Any], envelope: dict[str, Any]
    ) -> dict[str, Any] | None:
        facts = self._facts
        what = tokens[1] if len(tokens) == 2 else "STATSZ"
        if what == "STATSZ":
            return envelope | {"statsz": await reports.statsz(facts, options)}
        if what == "IDZ":
            return {"name": facts.name, "host": facts.host, "id": facts.server_id}
        if what == "HEALTHZ":
            code, report = await healthz(facts, options)
            return envelope | {"data": report | {"status_code": code}}
        if tokens[0] != "PING":
            try:
                if self._order(what, options):
                    return envelope
            except Refused as error:
                return envelope | {"error": {"code": error.code, "description": str(error)}}
        function = REPORTS.get(what)
        if function is None:
            return None
        return envelope | {"data": await _report(function, facts, options)}

    def _order(self, what: str, options: Mapping[str, Any]) -> bool:
        if what == "RELOAD":
            self._reload()
            return True
        connection = options.get("cid")
        if what == "KICK":
            facts = self._facts
            if type(connection) is not int or (
                facts.clients.get(connection) is None and facts.leafs.bind_of(connection) is None
            ):
                raise Refused(500, "no such client or leafnode id")
            self._plane.close_connection(connection, "", t.CloseReason.KICKED)
            return True
        if what == "LDM":
            if type(connection) is not int or not self._send_away(connection):
                raise Refused(500, "no such client id")
            return True
        return False

    async def _account(self, tokens: list[str], options: Mapping[str, Any]) -> dict[str, Any] | None:
        facts = self._facts
        name, what = (tokens[0], tokens[1]) if len(tokens) == 2 else ("", "")
        if name == "PING":
            return {"data": await reports.accstatz(facts, options)} if what == "STATZ" else None
        scoped = {"CONNZ": connz, "SUBSZ": reports.subsz, "LEAFZ": reports.leafz, "JSZ": jsz_account}.get(what)
        if scoped is not None:
            about = {
                **options,
                "acc": name,
                "account": name,
                "subscriptions": options.get("subscriptions", what == "SUBSZ"),
            }
            return {"data": await _report(scoped, facts, about)}
        account = facts.graph.account(name)
        if what == "INFO":
            if account is None:
                raise Refused(500, f"Account {name} does not exist")
            return {"data": await reports.account_info(facts, name)}
        if account is None:
            return None
        if what == "STATZ":
            return {"data": await reports.accstatz(facts, {"accounts": [name], "unused": True})}
        if what == "CONNS":
            event = {
                "type": "io.nats.server.advisory.v1.account_connections",
                "id": secrets.token_hex(11),
                "timestamp": stamp(time.time_ns()),
            }
            return event | reports.account_stat(facts, account, await facts.plane.connections())
        return None

    async def _own(self, account: Account, subject: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """An ordinary account sees itself."""
        if subject.endswith(".STATZ"):
            return {"data": await reports.accstatz(self._facts, {"accounts": [account.name], "unused": True})}
        return {"data": await _report(connz, self._facts, {**options, "acc": account.name, "auth": True})}

    def _user(self, account: Account, connection: int) -> dict[str, Any]:
        client = self._facts.clients.get(connection)
        found: dict[str, Any] = {"user": client.user if client else "", "account": account.name}
        found["account_name"] = account.shown
        if client is not None and client.proof is not None and not isinstance(client.proof, Called):
            found["user_name"] = client.proof.name
        rights = client.rights if client else None
        if rights is None:
            return found
        permissions: dict[str, Any] = {}
        for name, allow, deny in (
            ("publish", rights.publish_allow, rights.publish_deny),
            ("subscribe", rights.subscribe_allow, rights.subscribe_deny),
        ):
            lists = {key: list(value) for key, value in (("allow", allow), ("deny", deny)) if value}
            if lists:
                permissions[name] = lists
        if rights.response_max:
            permissions["responses"] = {"max": rights.response_max, "ttl": rights.response_ttl_ns}
        if permissions:
            found["permissions"] = permissions
        return found


def _body(payload: bytes) -> dict[str, Any]:
    if not payload.strip():
        return {}
    try:
        return loose(payload)
    except JsonError as error:
        raise Refused(400, f"the request is not JSON: {error}") from error


async def _report(function: Report, facts: Facts, options: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return await function(facts, options)
    except NotMeant:
        raise
    except (ValueError, TypeError) as error:
        raise Refused(500, str(error)) from error
