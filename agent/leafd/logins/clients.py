"""Client connections until they are admitted, and what is known of them afterwards: INFO, CONNECT, verdict, the
login's deadline.

    Opened --INFO--> Line(CONNECT) --judge--> ADMIT (with the second INFO behind the first PONG) | -ERR and close
    a reload: every admitted client --judge again--> RIGHTS, where they are others now | close
        twice: first with what old and new terms have in common, then with the new ones

Not here: what anybody may do (auth/), what the plane does of this without asking (known_logins.py),
messages (the plane), leaf links (links/).
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio

from leafd import native_types as t
from leafd.accounts.graph import Account
from leafd.auth.connect import client_connect
from leafd.auth.mqtt_connect import NoConnect, level_of
from leafd.auth.policy import Policy, Rights
from leafd.auth.verdict import AUTHORIZATION_VIOLATION, Refusal, Verdict, judge_again, judge_client, takes_time
from leafd.gojson import JsonError
from leafd.guard import Guard
from leafd.logins.client import PACKET_KEPT_BYTES, Client, Mqtt, Terms, Web, common, granted, shown_by
from leafd.logins.client_ports import CallOut
from leafd.logins.deadlines import Awaits, LoginTimes
from leafd.logins.guesses import Guesses
from leafd.logins.info_lines import behind, frame, template
from leafd.logins.known_logins import KnownLogins
from leafd.logins.present import Left, Present
from leafd.logins.refusals import login_line, refusal_line, shown
from leafd.logins.rights_changes import RightsChanges
from leafd.logins.server_info import ServerInfo
from leafd.native_connections import Connections
from leafd.operator_log import Log
from leafd.turns import Pause

if TYPE_CHECKING:
    from leafd.logins.devices import Devices

ACCOUNT_FULL: Final = "maximum account active connections exceeded"
CLIENT_GUESSES: Final = "clients"
SERVER_FULL: Final = "maximum connections exceeded"
CHANGES_AT_ONCE: Final = 256
_KINDS: Final = (int(t.ConnKind.CLIENT), int(t.ConnKind.MQTT))
_OF_CLIENTS: Final = (t.Line, t.Closed, t.Secured, t.Proxied, t.Refused)


class Clients:
    """Owner of all client connections. handle() takes the plane's events of them; run() cuts off the silent ones."""

    def __init__(
        self,
        plane: Connections,
        log: Log,
        info: Callable[[], dict[str, Any]],
        terms: Terms,
        guard: Guard | None = None,
        *,
        look_up: Callable[[str], Awaitable[bool]] | None = None,
        callout: Callable[[], CallOut | None] = lambda: None,
        describe: Callable[[Client], None] | None = None,
        devices: Devices | None = None,
        memory_limit: int = 0,
    ) -> None:
        """look_up: in operator mode, whether an account that was not known is known now. callout: what asks the service
        that judges logins, where there is one by now. describe: tells the plane all that is known of a client, where
        its account shares or measures that. devices: counts clients of MQTT, where there are any."""
        self._plane = plane
        self._log = log
        self.info = ServerInfo(plane, info)
        self._terms = terms
        self._coming: Terms | None = None
        self._held: dict[int, bool] = {}
        """Logins that wait for a reload's end, and whether each is implicit."""
        self._guard = guard or Guard()
        self._changes = RightsChanges(plane, log, self._guard)
        self.guesses = Guesses(self._guard)
        self.proofs = Guesses(self._guard, patient=True)
        self._look_up, self._callout, self._describe = look_up, callout, describe
        self._asked: set[int] = set()
        self.known = KnownLogins(plane.forget_login, memory_limit)
        self._listener: int | None = None
        """The listener at which the plane itself greets."""
        self.present = Present()
        """All of them, logged in or not."""
        self._per_account: dict[int, int] = {}
        self._times = LoginTimes(self._awaits, plane.end_silence, self._guard)
        self._nursery: trio.Nursery | None = None
        self.devices = devices
        self.on_admitted: list[Callable[[Client], None]] = [devices.came] if devices is not None else []
        self.on_closed: list[Callable[[Client, t.Closed], None]] = [devices.went] if devices is not None else []
        self.followed: Callable[[], bool] = lambda: False
        """Whether anybody but the devices' count has to hear of each login."""
        self.on_left: Callable[[Left, t.Closed], None] = lambda *_: None
        """In place of on_closed where nobody has to hear of the end of a device."""

    # ---- what is there

    @property
    def call_out(self) -> CallOut | None:
        """The function that asks a callout service, in its turn; None where no service judges logins."""
        return self._callout()

    def get(self, connection: int) -> Client | None:
        """The client of a connection, to read what is known of it."""
        return self.present.look(connection)

    def count(self, account: int) -> int:
        """Admitted clients of an account."""
        return self._per_account.get(account, 0)

    # ---- a reload: narrow(), then set_terms()

    async def narrow(self, coming: Terms, affected: frozenset[str] | None = None) -> None:
        """Narrows the rights of connected clients to those that both the terms of today and the coming ones allow. A
        login that these judge in another way waits for them: until set_terms(). affected: the accounts of whose users
        alone they are to judge anew."""
        self._coming = coming
        if self._listener is not None:
            self._plane.greet(self._listener, None, b"")
            self._plane.forget_logins()
            await self._plane.settled()  # who was let in by what was known is here
            self.known.forget()
        await self._judge_all_again(coming, affected, narrow=True)

    async def set_terms(self, terms: Terms, affected: frozenset[str] | None = None) -> None:
        """After a reload: new logins are judged by these, and those who are here are judged again. A client that keeps
        the login keeps the connection, with the rights of today; one that does not is closed, and so is the last to
        come where there are more than may be."""
        self._terms, self._coming = terms, None
        self.say_greeting()
        held, self._held = self._held, {}
        pause = Pause()
        for connection, implicit in held.items():
            await pause()
            client = self.present.whole(connection)
            if client is not None:
                self._guarded(connection, partial(self._judge, implicit=implicit), client, b"")
        await self._send_surplus_away(await self._judge_all_again(terms, affected, narrow=False))

    async def _judge_all_again(self, terms: Terms, affected: frozenset[str] | None, *, narrow: bool) -> list[Client]:
        """Judges all logins again, and returns the clients that stay, in the order of their coming. The plane has heard
        of all changes when this returns."""
        pause, slots = Pause(), trio.Semaphore(CHANGES_AT_ONCE)
        known: dict[tuple[int, int], Rights] = {}
        stay: list[Client] = []
        async with trio.open_nursery() as nursery:
            for connection in sorted(self.present.connections()):
                await pause()
                if (client := self.present.whole(connection)) is None:
                    continue
                if affected is not None and client.account is not None and client.account.name not in affected:
                    client.policy = client.policy and terms.of(client).policy
                    stay.append(client)
                    continue
                verdict = self._verdict_again(client, terms)
                if verdict is None:
                    continue
                stay.append(client)
                if narrow:
                    pair = (id(client.rights), id(verdict.rights))  # many clients of a user; both live on in policies
                    if pair not in known:
                        known[pair] = await common(client.rights, verdict.rights)
                    verdict = replace(verdict, rights=known[pair])
                account, told = terms.graph.account(verdict.account), client.granted
                if account is None or not self._is_in(client):
                    continue
                granted = self._grant(client, verdict, account, terms)
                if granted != told:
                    await slots.acquire()
                    nursery.start_soon(self._changes.change, client, account, granted, self._after_pong, slots)
        return stay

    def _is_in(self, client: Client) -> bool:
        """Whether the client is still connected and logged in, which may end during every pause."""
        return client.account is not None and self.present.whole(client.connection) is client

    def _verdict_again(self, client: Client, terms: Terms) -> Verdict | None:
        """The verdict on a logged-in client by these terms; a client whom they refuse is closed."""
        if client.account is None or client.policy is None or not self._is_in(client):
            return None
        policy = terms.of(client).policy
        verdict = judge_again(
            client.connect, client.policy, policy, client.kind, client.certificate, proof=client.proof, host=client.host
        )
        account = None if isinstance(verdict, Refusal) else terms.graph.account(verdict.account)
        if isinstance(verdict, Refusal) or account is None or account.id != client.account.id:
            text = verdict.text if isinstance(verdict, Refusal) else ""
            client.policy = None  # not again in the next pass
            self._plane.close_connection(client.connection, text, t.CloseReason.AUTHENTICATION)
            return None
        return verdict

    async def _send_surplus_away(self, clients: list[Client]) -> None:
        places: dict[int, int] = {}
        pause, number = Pause(), 0
        for client in clients:
            await pause()
            if client.account is None or not self._is_in(client):
                continue
            number += 1
            places[client.account.id] = places.get(client.account.id, 0) + 1
            most = client.account.limits.max_connections
            if 0 <= most < places[client.account.id]:
                self._plane.close_connection(client.connection, ACCOUNT_FULL, t.CloseReason.LIMIT)
            elif 0 < self._terms.max_connections < number:
                self._plane.close_connection(client.connection, SERVER_FULL, t.CloseReason.LIMIT)

    # ---- events of the plane

    def handle(self, event: t.Event) -> bool:
        """Takes an event if it is of a client connection."""
        if isinstance(event, t.Came) or (isinstance(event, t.Opened) and event.kind in _KINDS):
            self._guarded(event.connection, self._came if isinstance(event, t.Came) else self._opened, event)
            return True
        if not isinstance(event, _OF_CLIENTS):
            return False
        if isinstance(event, t.Closed) and self._left(event):
            return True
        find = self.present.look if isinstance(event, t.Closed) else self.present.whole  # who has gone does not change
        if (client := find(event.connection)) is None:
            return False
        match event:
            case t.Line():
                self._guarded(event.connection, self._line, client, event)
            case t.Closed():
                self._closed(client, event)
            case t.Secured():
                self._guarded(event.connection, self._secured, client, event)
            case t.Proxied():
                client.stands_behind(event, self._log.error)
            case t.Refused():
                self._refused(client, event)
        return True

    def _debug(self, client: Client, text: str) -> None:
        if self._log.debug_on:
            self._log.debug(f"{client.log_name} - {text}")

    def _guarded(self, connection: int, work: Callable[..., None], *arguments: Any) -> None:
        """Runs work for a connection: an unforeseen error in it costs that connection alone."""
        try:
            work(*arguments)
        except Exception as error:
            self._guard.caught("a client's login", error)
            self._plane.close_connection(connection, AUTHORIZATION_VIOLATION, t.CloseReason.AUTHENTICATION)

    def _came(self, event: t.Came) -> None:
        """Thousands come at once, and nobody asks for most of them: no more is made of each than has to be."""
        known = self.known.get(event.kind, event.named or event.payload)
        packet = event.payload if event.kind == t.ConnKind.MQTT else b""
        if known is None or len(packet) > PACKET_KEPT_BYTES or self._log.debug_on or self.followed():
            self._opened(event)
            return
        self.present.known(event.connection, known, event.peer, packet, time.time_ns())
        self._per_account[known.account.id] = self.count(known.account.id) + 1
        if self.devices is not None and packet:
            self.devices.count(level_of(packet), 1)

    def _opened(self, event: t.Opened | t.Came) -> None:
        mqtt = Mqtt() if event.kind == t.ConnKind.MQTT else None
        client = Client(event.connection, event.peer, "", time.time_ns(), mqtt=mqtt)
        if isinstance(event, t.Opened) and not event.greeted:
            self._greet(client)
            return
        self.present.add(client)
        self._debug(client, "Client connection created")
        if isinstance(event, t.Came):
            self._let_in(client, event)
        elif (terms := self._terms.of(client)).secure is None:
            self._times.add(client.connection, terms.timeout_s, patient=terms.patient)

    def listening(self, listener: int) -> None:
        """Notes that a listener for clients is open, and that the plane may greet those who come."""
        self._listener = listener
        self.say_greeting()

    def say_greeting(self) -> None:
        """Has the plane send INFO to new connections without asking, where INFO is the same for all."""
        listener, terms = self._listener, self._terms
        if listener is None or self._coming is not None:
            return
        if terms.policy.asks_for_nkeys or terms.proxied:  # each gets a nonce, or is not known yet
            self._plane.greet(listener, None, b"")
            return
        info = self.info.plain() | terms.info | terms.required
        first = terms.secure is not None and bool(terms.secure.flags & t.SecureFlag.FIRST)
        self._plane.greet(listener, terms.secure, template(info), template(behind(info)) if first else b"")

    def greet(self, connection: int, peer: str, web: Web, tls: t.Secured | None) -> None:
        """Begins with a client that has come over WebSocket, once its HTTP request has been answered."""
        client = Client(connection, peer, "", time.time_ns(), web=web, mqtt=Mqtt() if web.mqtt else None)
        self._guarded(connection, self._greet, client)
        if tls is not None and connection in self.present:
            self._guarded(connection, self._secured, client, tls)

    def _greet(self, client: Client) -> None:
        terms = self._terms.of(client)
        self.present.add(client)
        self._debug(client, "Client connection created")
        if client.mqtt is not None:  # who begins, with CONNECT
            self._begin(client, b"", b"")
            return
        info = self._told(client) | client.told(terms) | terms.required
        if terms.policy.asks_for_nkeys:
            info["nonce"] = client.nonce = secrets.token_urlsafe(11)
        first = terms.secure is not None and bool(terms.secure.flags & t.SecureFlag.FIRST)
        self._begin(client, frame(info), frame(behind(info)) if first else b"")

    def _begin(self, client: Client, before: bytes, behind_tls: bytes) -> None:
        """Begins a conversation with INFO. Its time to log in begins with the handshake's end, where it has TLS."""
        terms = self._terms.of(client)
        if terms.secure is not None:
            self._plane.secure(client.connection, terms.secure, before=before, behind=behind_tls)
            return
        self._times.add(client.connection, terms.timeout_s, patient=terms.patient)
        if before:
            self._plane.send(client.connection, before)

    def _secured(self, client: Client, event: t.Secured) -> None:
        if not event.flags & int(t.SecuredFlag.PLAIN):
            client.tls = event if self.call_out is not None or not event.chain else replace(event, chain=b"")
            client.certificate = shown_by(event)
            self._debug(client, f"TLS handshake complete: {event.cipher}")
        terms = self._terms.of(client)
        self._times.add(client.connection, terms.timeout_s, patient=terms.patient)

    def _line(self, client: Client, event: t.Line) -> None:
        if event.known:
            self._let_in(client, event)
            return
        policy = self._terms.of(client).policy
        if event.kind != t.LineKind.CONNECT:
            if not policy.open and policy.no_auth_user is None:
                self._refuse(client, Refusal(AUTHORIZATION_VIOLATION))
                return
            # Defaults of somebody who never introduced himself: the reference keeps verbose on.
            client.connect = {}
            self._judge(client, b"", implicit=True)
            return
        try:
            connect = self._read(client, event.payload)
        except (JsonError, NoConnect):
            self._plane.close_connection(client.connection, "", t.CloseReason.PROTOCOL)
            return
        self._release(client)
        if client.web is not None:  # a cookie stands in for what CONNECT leaves out
            connect = client.web.credentials | {name: value for name, value in connect.items() if value != ""}
        client.connect = connect
        self._judge(client, client.known_by(event.payload))

    def _read(self, client: Client, line: bytes) -> dict[str, Any]:
        """The fields of a CONNECT. Raises JsonError, NoConnect."""
        if client.mqtt is not None:
            return client.mqtt.read(line)
        return client_connect(line, headers=self.info.plain().get("headers", True))

    def _learn(self, client: Client, line: bytes) -> None:
        """Has the plane admit the next one who sends this. line: client.known_by() of a CONNECT just judged, or
        nothing."""
        if not line or client.account is None or self._coming is not None or self._listener is None:
            return
        known = self.known.learn(client.known_kind, line, client)
        if known is not None:
            info = self._connect_info(client, known.account, known.max_payload)
            places = template({key: info[key] for key in info if key not in ("client_id", "client_ip")})
            after_pong = places if client.mqtt is None and client.connect.get("protocol") == 1 else b""
            self._plane.remember(client.known_kind, line, known.account.id, *known.granted, after_pong)

    def _let_in(self, client: Client, event: t.Line | t.Came) -> None:
        """Takes up a client that the plane has let in by itself, since it knows the login."""
        if (known := self.known.get(client.known_kind, event.named or event.payload)) is not None:
            known.give(client, event.payload)
            self._is_in_now(client, known.account)
            return
        # Not any more: other terms, or others were known since. So it keeps the connection by what counts now.
        client.connect = self._read(client, event.payload)
        terms = self._terms.of(client)
        verdict: Verdict | Refusal = Refusal(AUTHORIZATION_VIOLATION)
        if not takes_time(client.connect, terms.policy):  # else it comes again, and waits for its turn
            verdict = judge_client(client.connect, "", terms.policy, client.certificate, kind=client.kind)
        account = None if isinstance(verdict, Refusal) else terms.graph.account(verdict.account)
        if isinstance(verdict, Refusal) or account is None or self._nursery is None:
            self._plane.close_connection(client.connection, AUTHORIZATION_VIOLATION, t.CloseReason.AUTHENTICATION)
            return
        granted = self._grant(client, verdict, account, terms)
        self._is_in_now(client, account)
        self._nursery.start_soon(self._changes.change, client, account, granted, self._after_pong, trio.Semaphore(0))

    def _is_in_now(self, client: Client, account: Account) -> None:
        self._per_account[account.id] = self.count(account.id) + 1
        client.keep_less()
        for callback in self.on_admitted:
            self._guard.run("what follows a login", callback, client)

    def _judge(self, client: Client, line: bytes, *, implicit: bool = False) -> None:
        """line: what the login is known by, if it is let in; nothing where it is not to be."""
        policy = self._terms.of(client).policy
        if (
            takes_time(client.connect, policy, client.certificate) or policy.callout is not None
        ) and self._nursery is not None:
            self._nursery.start_soon(self._judge_slowly, client, client.connect, line, implicit)
        else:
            verdict = judge_client(client.connect, client.nonce, policy, client.certificate, kind=client.kind)
            self._decide(client, verdict, line, implicit=implicit)

    async def _judge_slowly(self, client: Client, connect: dict[str, Any], line: bytes, implicit: bool) -> None:
        """bcrypt takes a tenth of a second on purpose, and a service that judges logins takes what it takes: other
        connections do not wait for it."""

        def wanted() -> bool:
            return self.present.whole(client.connection) is client and client.connect is connect

        verdict: Verdict | Refusal = Refusal(AUTHORIZATION_VIOLATION)
        name, policy = str(client.connect.get("user") or ""), None
        while policy is not self._terms.of(client).policy and wanted():
            # Judged again when a reload has changed who is who meanwhile.
            policy = self._terms.of(client).policy
            judge = partial(
                judge_client, connect, client.nonce, policy, client.certificate, host=client.host, kind=client.kind
            )
            checks = self.guesses if policy.trust is None else self.proofs
            slow = takes_time(connect, policy, client.certificate)
            verdict = await checks.check(CLIENT_GUESSES, client.host, name, judge, wanted) if slow else judge()
            if isinstance(verdict, Refusal) and verdict.unknown and self._look_up is not None:
                policy = None if await self._look_up(verdict.unknown) else policy
            if policy is not None and self.call_out is not None and wanted():
                verdict = await self._call_out(self.call_out, client, policy, verdict)
        if wanted():
            self._guarded(client.connection, partial(self._decide, implicit=implicit), client, verdict, line)

    async def _call_out(
        self, call_out: CallOut, client: Client, policy: Policy, verdict: Verdict | Refusal
    ) -> Verdict | Refusal:
        self._asked.add(client.connection)
        try:
            return await call_out(
                policy,
                client.connection,
                client.host,
                client.kind,
                client.connect,
                client.nonce,
                verdict,
                self._terms.of(client).timeout_s,
                client.tls,
            )
        finally:
            self._asked.discard(client.connection)

    # ---- carrying out

    def _waits(self, client: Client, verdict: Verdict | Refusal) -> bool:
        """Whether a reload is under way that may judge this login in another way."""
        if self._coming is None:
            return False
        if isinstance(verdict, Refusal):
            return verdict.authentication
        before, coming = self._terms.of(client).policy, self._coming.of(client).policy
        return (
            judge_again(
                client.connect, before, coming, client.kind, client.certificate, proof=verdict.proof, host=client.host
            )
            != verdict
        )

    def _decide(self, client: Client, verdict: Verdict | Refusal, line: bytes, *, implicit: bool = False) -> None:
        if self._waits(client, verdict):
            self._held[client.connection] = implicit
            return
        if isinstance(verdict, Refusal):
            self._refuse(client, verdict)
            return
        account = self._terms.graph.account(verdict.account)
        if account is None:
            self._refuse(client, Refusal(AUTHORIZATION_VIOLATION))
            return
        most = account.limits.max_connections
        if 0 <= most <= self.count(account.id):
            self._plane.close_connection(client.connection, ACCOUNT_FULL, t.CloseReason.LIMIT)
            return
        self._admit(client, verdict, account, implicit=implicit)
        self._is_in_now(client, account)
        self._learn(client, line)

    def _admit(self, client: Client, verdict: Verdict, account: Account, *, implicit: bool = False) -> None:
        client.implicit = implicit
        granted, permissions = self._grant(client, verdict, account, self._terms)
        after_pong = self._after_pong(client, account)
        self._plane.admit(client.connection, account.id, granted, permissions, after_pong)

    def _grant(
        self, client: Client, verdict: Verdict, account: Account, terms: Terms
    ) -> tuple[t.ConnVerdict, t.Permissions]:
        client.logged_in(verdict, account, terms)
        if account.described and not client.described and self._describe is not None:
            client.described = True
            self._describe(client)
        client.granted = granted(client, verdict, account, terms)
        return client.granted

    def _after_pong(self, client: Client, account: Account) -> bytes:
        if client.mqtt is not None:
            return client.mqtt.assigned.encode()
        if client.connect.get("protocol") != 1:
            return b""
        return frame(self._connect_info(client, account, client.max_payload))

    def _told(self, client: Client) -> dict[str, Any]:
        """The server's INFO for the client: over WebSocket it is that of the WebSocket listener."""
        return self.info.plain() if client.web is None else self.info.over_web(self._terms.of(client).info)

    def announce(self, **more: Any) -> None:
        """Sends the INFO of today, with these members added, to all logged-in clients."""
        own = self._terms
        web = own.web or own
        self.info.announce(own.required | more, web.info | web.required | more)

    def send_away(self, client: Client) -> None:
        """Asks a client to connect to another server."""
        about = {"client_id": client.connection, "client_ip": client.host, "ldm": True}
        self._plane.send(client.connection, frame(self._told(client) | about))

    def _connect_info(self, client: Client, account: Account, max_payload: int) -> dict[str, Any]:
        info = self._told(client) | {
            "client_id": client.connection,
            "client_ip": client.host,
            "max_payload": max_payload,
            "connect_info": True,
            "remote_account": account.name,
        }
        if not self._terms.of(client).policy.open:
            info["auth_required"] = True
        if account.system:
            info["acc_is_sys"] = True
        return info

    def _refuse(self, client: Client, refusal: Refusal) -> None:
        reason = t.CloseReason.AUTHENTICATION if refusal.authentication else t.CloseReason.PROTOCOL
        if refusal.authentication:
            self._log.error(login_line(client, refusal), event="login_refused")
        self._plane.close_connection(client.connection, refusal.text, reason)

    def _refused(self, client: Client, event: t.Refused) -> None:
        self._log.error(refusal_line(shown(client), event, client.max_payload or self._terms.max_payload))

    def _release(self, client: Client) -> None:
        """Gives back the place that a client takes of its account's connections, before a new login or at the end."""
        client.described = False
        if client.account is not None:
            self._per_account[client.account.id] = self.count(client.account.id) - 1
            client.account = None

    def _left(self, event: t.Closed) -> bool:
        """Whether it was the end of a device of which nobody hears. Thousands go at once, too."""
        if self._log.debug_on or self.followed() or (left := self.present.leave(event.connection)) is None:
            return False
        self._per_account[left.account] = self.count(left.account) - 1
        if self.devices is not None:
            self.devices.count(level_of(left.packet), -1)
        self.on_left(left, event)
        return True

    def _closed(self, client: Client, event: t.Closed) -> None:
        self.present.drop(event.connection)
        self._held.pop(event.connection, None)
        reason = event.text or t.CloseReason(event.reason).name.lower()
        if event.reason == t.CloseReason.TLS:
            self._log.error(f"{client.log_name} - TLS handshake error: {reason}", event="handshake_failed")
        self._debug(client, f"Client connection closed: {reason}")
        for callback in self.on_closed:
            self._guard.run("what follows a client's end", callback, client, event)
        self._release(client)

    # ---- the deadline of logins

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Checks passwords, and closes connections that do not log in in time. Cancel to end it."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            await nursery.start(self.guesses.run)
            await nursery.start(self.proofs.run)
            task_status.started()
            await self._times.run()

    def _awaits(self, connection: int) -> Awaits:
        client = self.present.whole(connection)
        if client is None or client.account is not None:
            return Awaits.NOTHING
        return Awaits.US if connection in self._held or connection in self._asked else Awaits.PEER
