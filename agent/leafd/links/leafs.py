"""Every leaf link of this server: who is connected, the dial loops, and what happens to events of leaf connections.

    remote --dial--> adopt(fd) --> Solicitor --Bind--> admit_leaf --> UP --Closed--> wait --> dial ...
    listener --Opened--> Acceptor --Bind--> admit_leaf --> UP --Closed--> gone

A link that dies is redialled by the one loop that owns it (_keep). Not here: how long it waits before
that (redial.py), the handshake's lines (leaf.py), the data plane (native/plane), TLS.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import trio

from leafd import native_types as t
from leafd.guard import Guard
from leafd.links import dialling, leaf, reach
from leafd.links.addresses import certificate_name, dial_error, host_port, refusal_advice, split_url
from leafd.links.compression import AUTO, NOT_SUPPORTED, UNCOMPRESSED, Compression, compresses
from leafd.links.leaf_info import Advertised
from leafd.links.link import Link, LinkStatus, RemoteStatus, age, either, spoken_with, status_of, verdict_of, who
from leafd.links.redial import Redial
from leafd.links.second_dial import Beside
from leafd.links.sending import Sending
from leafd.links.twins import Twins
from leafd.links.ways import Ways
from leafd.native_codes import COMPRESSION_LEVELS
from leafd.native_connections import Connections
from leafd.operator_log import Log
from leafd.quoting import quoted
from leafd.turns import Pause

if TYPE_CHECKING:
    from leafd.links.web import Asked

DEFAULT_TLS: Final = 3
"""The plane's context of TLS for hubs of whose TLS the configuration says nothing (logins/handshakes.py)."""
HANDSHAKE_TIMEOUT_S: Final = 60.0
"""At a round trip of seconds, with packets lost; TCP itself finds out about a hub that is gone."""
TOLD_EACH: Final = 600


class Leafs:
    """Owner of all leaf links. `run` dials; `handle` takes the plane's events of leaf connections."""

    def __init__(
        self,
        plane: Connections,
        identity: leaf.Identity,
        log: Log,
        *,
        authenticate: Callable[[Link, dict[str, Any], str], leaf.Login | leaf.Refused | leaf.Later | None],
        loop_subject: Callable[[int], str],
        nonce: Callable[[], str],
        reconnect_s: float = 1.0,
        guard: Guard | None = None,
        need_default_tls: Callable[[], Awaitable[None]] | None = None,
        describe: Callable[[Link, leaf.Bind], None] = lambda link, bind: None,
        serves: Callable[[int], bool] = lambda account: True,
        sending: Callable[[dict[int, Link]], Sending] | None = None,
    ) -> None:
        """describe: tells the plane all that is known of a link, where its account shares or measures that. serves:
        whether an account is still there: a reload may take it away from a remote."""
        self._plane = plane
        self._need_default_tls = need_default_tls
        self.secure: t.Secure | None = None
        """How who connects gets TLS, if so."""
        self._tls_info: dict[str, Any] = {}
        self.compression = UNCOMPRESSED
        """The compression of links that others dial."""
        self._links: dict[int, Link] = {}
        self._linked: Counter[str] = Counter()
        """How many of them are up, by account: each login asks, in a fleet thousands of times a second."""
        self.sending = sending(self._links) if sending else Sending(plane, log, guard or Guard(), self._links)
        self._identity, self._log = identity, log
        self._authenticate = authenticate
        self._loop_subject, self._nonce = loop_subject, nonce
        self._reconnect_s = reconnect_s
        self._guard = guard or Guard()
        self._dialled: dict[int, Link] = {}
        self._accepted_as: dict[tuple[object, ...], int] = {}
        """The connection of each server, account and remote account that dialled us."""
        self._early: dict[int, list[t.Opened | t.Line | t.Closed]] = {}
        self._advertised = Advertised()
        self._nursery: trio.Nursery | None = None
        self._ways = Ways()
        self.web_ping_interval_ns = 0
        """The interval of links over WebSocket that begin from now on; 0: the server's."""
        self.told_each = TOLD_EACH, TOLD_EACH
        """The failed attempts to dial that are logged besides the first one, before a first link and after it."""
        self.min_version = ""
        """The lowest that a server that dials us may have; "": any."""
        self.isolates = False
        """Whether leaves are not told what other links want."""
        self.remotes: list[RemoteStatus] = []
        self.twins = Twins(plane, log, self._guard, lambda: self._identity)
        self.on_up: list[Callable[[Link], None]] = [self.twins.came]
        self.on_down: list[Callable[[Link], None]] = [self.twins.went]
        self.on_doubt: list[Callable[[Link, int], None]] = [Link.doubt]
        self._describe, self._serves = describe, serves

    # ---- what is there

    def listening(self, host: str, port: int, *, told: bool) -> None:
        """Tells what the accepting side's INFO says of the listener."""
        self._advertised.host, self._advertised.port = host, port
        self._advertised.own = (host_port(host, port),) if told else ()

    def tell_urls(self, urls: tuple[str, ...], web: tuple[str, ...]) -> None:
        """Leaves hear where the other servers of the cluster are reached, and where over WebSocket."""
        self._advertised.others, self._advertised.web = urls, web
        if self._nursery is not None:
            self._nursery.start_soon(self._tell_urls)

    async def _tell_urls(self) -> None:
        pause = Pause()
        for link in list(self._links.values()):
            await pause()
            if link.bind is not None and isinstance(link.machine, leaf.Acceptor) and not link.gone.is_set():
                self._plane.send(link.connection, link.machine.again())

    def secured_by(self, secure: t.Secure | None, info: dict[str, Any]) -> None:
        """Tells how who connects from now on gets TLS, and what INFO says of it."""
        self.secure, self._tls_info = secure, info

    def accepted(self, connection: int) -> bool:
        """Is it a link that the other side dialled?"""
        link = self._links.get(connection)
        return link is not None and isinstance(link.machine, leaf.Acceptor)

    def log_name(self, connection: int) -> str:
        """The beginning of log lines about that connection, also when it has gone."""
        link = self._links.get(connection)
        return f"cid:{connection}" if link is None else link.log_name

    def bind_of(self, connection: int) -> leaf.Bind | None:
        """The account and rights that a link is bound to, if the connection is one that is up."""
        link = self._links.get(connection)
        return link.bind if link is not None else None

    def links(self) -> list[LinkStatus]:
        """Every link that is up."""
        return [link.status() for link in self._links.values() if link.bind is not None]

    def linked(self, account_name: str) -> int:
        """How many links of an account are up."""
        return self._linked[account_name]

    def logging_in(self, connection: int, *, accepted: bool = False) -> bool:
        """Is it there, and not up yet? accepted: only if the other side dialled."""
        link = self._links.get(connection)
        return link is not None and link.bind is None and (not accepted or isinstance(link.machine, leaf.Acceptor))

    def connected(self, account: int, domain: str) -> bool:
        """Is a link of that account to that remote domain up?"""
        return any(
            link.bind is not None and link.bind.account == account and link.bind.remote_domain == domain
            for link in self._links.values()
        )

    # ---- a reload

    async def judge_again(
        self, judge: Callable[[dict[str, Any], leaf.Login, str], leaf.Login | leaf.Refused | None]
    ) -> None:
        """Accepted links whose login no longer holds are closed; so are those that may do something else now: the
        rights of a link do not change in its life, and its leaf is back with the new ones at once."""
        pause = Pause()
        for link in list(self._links.values()):
            await pause()
            if not isinstance(link.machine, leaf.Acceptor) or link.machine.accepted is None or link.gone.is_set():
                continue
            connect, login = link.machine.accepted
            now = judge(connect, login, link.peer)
            if now is None or isinstance(now, leaf.Refused):
                text = "Authorization Violation" if now is None else now.text
                self._plane.close_connection(link.connection, text, t.CloseReason.AUTHENTICATION)
            elif now != login:
                self._log.info(f"{link.log_name} - Its rights have changed: it has to log in again")
                self._plane.close_connection(link.connection, "", t.CloseReason.AUTHENTICATION)

    def compress_anew(self, wanted: Compression) -> None:
        """From now on links that others dial are compressed like this. One that is there only does more or less for it,
        but where the two ends have to agree anew: such a link is closed, and its leaf is back at once."""
        self.compression = wanted
        for link in list(self._links.values()):
            machine = link.machine
            if not isinstance(machine, leaf.Acceptor) or link.bind is None or link.web:
                continue
            if machine.compression in (NOT_SUPPORTED, wanted.mode) and wanted.mode != AUTO:
                continue
            if compresses(machine.compression) and wanted.mode in (AUTO, *COMPRESSION_LEVELS):
                beyond_ns = wanted.bounds_ns[0] + 1 if wanted.bounds_ns else 0  # the second level, until the next PONG
                self._plane.compress(link.connection, wanted.at(wanted.mode, beyond_ns))
                machine.compression = wanted.mode
            elif machine.compression != NOT_SUPPORTED:
                self._log.info(f"{link.log_name} - Compression has changed: the link begins anew")
                self._plane.close_connection(link.connection)

    # ---- events of the plane

    def handle(self, event: t.Event) -> bool:
        """Takes an event if it is of a leaf connection; False when it is not ours.

        What goes wrong with it in a way that nobody foresaw costs that connection.
        """
        try:
            return self._handle(event)
        except Exception as error:
            self._guard.caught("a leaf link's conversation", error)
            if isinstance(event, t.Opened | t.Line | t.LeafError | t.LeafInfo):
                self._plane.close_connection(event.connection, "", t.CloseReason.PROTOCOL)
            return True

    def _handle(self, event: t.Event) -> bool:
        match event:
            case t.Opened(kind=t.ConnKind.LEAF, listener=0):
                # Adopted: the dialler learns the id from its completion; what comes before that waits.
                self._early.setdefault(event.connection, [])
                return True
            case t.Opened(kind=t.ConnKind.LEAF):
                self._accepted(event)
                return True
            case t.Line():
                return self._line(event)
            case t.Secured() if event.connection in self._links:
                self._secured(self._links[event.connection], event)
                return True
            case t.Closed():
                return self._closed(event)
            case t.LeafError():
                return self._peer_error(event)
            case t.Carried():
                return self.sending.carried(event)
            case t.Doubted():
                if link := self._links.get(event.connection):
                    for told in self.on_doubt:
                        told(link, event.doubted)
                return True
            case t.LeafInfo():
                return self.sending.heard(event)
        return False

    def _secured(self, link: Link, event: t.Secured) -> None:
        link.tls = event
        again = ", a session taken up again" if event.flags & t.SecuredFlag.RESUMED else ""
        self._log.debug(f"{link.log_name} - TLS handshake complete: {event.cipher}, {event.size} bytes{again}")

    def _acceptor(self, connection: int, compression: Compression = UNCOMPRESSED) -> leaf.Acceptor:
        machine = leaf.Acceptor(self._identity, connection, self._nonce(), self._advertised, compression, age())
        machine.min_version, machine.isolates = self.min_version, self.isolates
        return machine

    def _accepted(self, event: t.Opened) -> None:
        machine = self._acceptor(event.connection, self.compression)
        machine.far = event.round_trip_ns >= leaf.FAR_NS
        link = self._links[event.connection] = Link(event.connection, event.peer, machine)
        link.round_trip_s = event.round_trip_ns / 1e9
        if self.secure is None:
            self._act(link, machine.opened())
            return
        machine.tls_info = self._tls_info
        said = b"".join(one.frame for one in machine.opened() if isinstance(one, leaf.Send))
        self._plane.secure(link.connection, self.secure, before=said, behind=said)

    def turn_away(self, event: t.Opened, again_s: int) -> None:
        """So many log in that this one is told when to come again. Nothing is kept of it."""
        machine = self._acceptor(event.connection)
        hidden = self.secure is not None and self.secure.flags & t.SecureFlag.FIRST != 0
        self._act(Link(event.connection, event.peer, machine), machine.busy(again_s, self._tls_info, hidden=hidden))

    def accept_web(self, connection: int, peer: str, tls: t.Secured | None) -> None:
        """One has come over WebSocket, whose request was answered; TLS, if any, lies below that."""
        machine = self._acceptor(connection)
        link = self._links[connection] = Link(connection, peer, machine, web=True, tls=tls)
        self._act(link, machine.opened())

    def _line(self, event: t.Line) -> bool:
        link = self._links.get(event.connection)
        if link is None:
            waiting = self._early.get(event.connection)
            if waiting is not None:
                waiting.append(event)
            return waiting is not None
        if isinstance(link.machine, leaf.Acceptor):
            self._act(link, link.machine.line(event.kind, event.payload, partial(self._authenticate, link)))
            return True
        if event.kind == t.LineKind.HTTP:
            self._agree(link, event.payload)
            return True
        link.heard.set()
        if event.kind == t.LineKind.ERR:
            link.last_error = event.payload.decode("utf-8", "replace")
        self._act(link, link.machine.line(event.kind, event.payload))
        return True

    def _agree(self, link: Link, head: bytes) -> None:
        """The hub has answered the request of a link over WebSocket."""
        from leafd.links.web import agreed
        from leafd.web_head import NoHttp

        try:
            if link.asked is None:
                raise NoHttp("an answer to no request")
            flags = agreed(link.asked, head)
        except NoHttp as error:
            link.last_error = str(error)
            self._plane.close_connection(link.connection, "", t.CloseReason.PROTOCOL)
        else:
            self._plane.upgrade(link.connection, t.ConnKind.LEAF, flags)

    def judged(self, link: Link, login: leaf.Login | leaf.Refused | None) -> None:
        """The verdict on a login that was checked later; the link may be gone in the meantime."""
        if self._links.get(link.connection) is link and isinstance(link.machine, leaf.Acceptor):
            self._act(link, link.machine.judged(login))

    def _peer_error(self, event: t.LeafError) -> bool:
        link = self._links.get(event.connection)
        if link is None:
            return False
        link.last_error = event.text
        closing = leaf.error_close(event.text)
        link.delay_s = max(link.delay_s, closing.delay_s)
        untold = f" ({event.untold} more before it)" if event.untold else ""
        self._log.error(f"{link.log_name} - Leafnode Error {quoted(event.text)}{untold}", event="link_error")
        return True

    def _closed(self, event: t.Closed) -> bool:
        link = self._links.pop(event.connection, None)
        if link is None:
            waiting = self._early.get(event.connection)
            if waiting is not None:
                waiting.append(event)
            return waiting is not None
        link.closed = event
        self.sending.down(link, event.wire)
        link.gone.set()
        self._dialled.pop(event.connection, None)
        if event.reason == t.CloseReason.LOOP:
            link.delay_s = max(link.delay_s, leaf.DELAY_LOOP_S)
            link.last_error = link.last_error or "loop detected"
        said = quoted(link.last_error) if link.last_error else ""
        why = event.text or said or t.CloseReason(event.reason).name.lower()
        link.last_error = link.last_error or why
        if link.remote is None or link.bind is not None:
            # What we dialled and was never up is the dial loop's to tell, once in a while.
            account = link.bind.account_name if link.bind is not None else ""
            self._log.info(f"{link.log_name} - Leafnode connection closed: {why}", event="link_down", account=account)
        if link.bind is not None and self._accepted_as.get(who(link, link.bind)) == link.connection:
            del self._accepted_as[who(link, link.bind)]
        if link.bind is not None:
            self._linked[link.bind.account_name] -= 1
            if not self._linked[link.bind.account_name]:
                del self._linked[link.bind.account_name]
            for callback in self.on_down:
                with self._guard.around("what follows a leaf link's end"):
                    callback(link)
        return True

    # ---- carrying out

    def _act(self, link: Link, actions: list[leaf.Action]) -> None:
        for number, action in enumerate(actions):
            match action:
                case leaf.Send(frame):
                    self._plane.send(link.connection, frame)
                case leaf.Handshake() if link.remote is not None and link.remote.context == 0:
                    if self._nursery is not None:
                        self._nursery.start_soon(self._secure_by_default, link, actions[number + 1 :])
                    return
                case leaf.Handshake():
                    self._secure(link)
                case leaf.Compress(how, before, behind):
                    self._plane.compress(link.connection, how, before=before, behind=behind)
                case leaf.Resume():
                    self._plane.resume(link.connection)
                case leaf.Close(text, reason, delay_s, why):
                    link.delay_s = max(link.delay_s, delay_s)
                    link.last_error = text or why or link.last_error
                    self._plane.close_connection(link.connection, text, reason)
                case leaf.Bind():
                    self._bind(link, action)

    def _secure(self, link: Link, flags: int = 0) -> None:
        assert link.remote is not None
        how = t.Secure(link.remote.context or DEFAULT_TLS, flags)
        self._plane.secure(link.connection, how, name=certificate_name(link.host, link.remote.urls))

    async def _secure_by_default(self, link: Link, rest: list[leaf.Action]) -> None:
        """The hub asks for TLS, of which the remote says nothing."""
        with self._guard.around("TLS with a hub"):
            if self._need_default_tls is not None:
                await self._need_default_tls()
            if not link.gone.is_set():
                self._secure(link)
                self._act(link, rest)

    def _bind(self, link: Link, bind: leaf.Bind) -> None:
        link.bound(bind)
        self._evict_duplicate(link, bind)
        self._linked[bind.account_name] += 1
        self._describe(link, bind)
        self._plane.admit_leaf(
            link.connection,
            bind.account,
            verdict_of(link, bind, self.web_ping_interval_ns if link.web else 0),
            bind.permissions,
            cluster=bind.cluster,
            loop_subject=self._loop_subject(bind.account),
        )
        self.sending.up(link)
        account = bind.account_name
        self._log.info(
            f"{link.log_name} - Leafnode connection created for account: {account}", event="link_up", account=account
        )
        if not bind.system and (self._identity.domain or bind.remote_domain):
            self._log.info(
                f"{link.log_name} - JetStream using domains: "
                f'local "{self._identity.domain}", remote {quoted(bind.remote_domain)}'
            )
        link.up.set()
        for callback in self.on_up:
            with self._guard.around("what follows a leaf link's start"):
                callback(link)

    def _evict_duplicate(self, link: Link, bind: leaf.Bind) -> None:
        """The same server, account and remote account twice: the old connection is a dead one that has not noticed
        yet."""
        if not isinstance(link.machine, leaf.Acceptor) or not bind.remote_account:
            return
        before = self._accepted_as.get(who(link, bind))
        self._accepted_as[who(link, bind)] = link.connection
        if before is not None:
            if before in self._links:
                self.twins.replaced(self._links[before], link)
            text = "Duplicate Remote LeafNode Connection"
            self._plane.close_connection(before, text, t.CloseReason.DUPLICATE)

    # ---- dialling

    async def run(self, remotes: list[leaf.Remote]) -> None:
        """Keeps a link to every remote, for ever. Cancel to end it."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self.sending.run)
            nursery.start_soon(self._ways.watch)
            nursery.start_soon(self.twins.run)
            self.dial(remotes)
            await trio.sleep_forever()

    def belong_to(self, cluster: str) -> None:
        """After a reload: links that begin from now on are told of this cluster, and the plane of those that are up."""
        self._identity = replace(self._identity, cluster=cluster)
        self.describe_again()

    def describe_again(self) -> None:
        """The server's part of what requests over links say has changed."""
        for link in self._links.values():
            if link.bind is not None:
                self._describe(link, link.bind)

    def dial(self, remotes: Iterable[leaf.Remote]) -> None:
        """Keeps a link to each of these, too."""
        for remote in remotes:
            status = status_of(remote)
            self.remotes.append(status)
            if self._nursery is not None:
                self._nursery.start_soon(self._keep_until_forgotten, status)

    def forget(self, remotes: Iterable[leaf.Remote]) -> None:
        """Ends the links to these hubs, which are not dialled any more."""
        gone = list(remotes)
        for remote in gone:
            self.sending.forget(remote)
        for status in self.remotes:
            if any(status.remote is one for one in gone):
                status.scope.cancel()
        self.remotes = [status for status in self.remotes if not status.scope.cancel_called]

    async def _keep_until_forgotten(self, status: RemoteStatus) -> None:
        with status.scope:
            await self._keep(status)
        for link in list(self._links.values()):
            if link.remote is status.remote:
                self._plane.close_connection(link.connection, "", t.CloseReason.CLIENT)

    async def _keep(self, status: RemoteStatus) -> None:
        redial = Redial(self._reconnect_s)
        while True:
            if not self._serves(status.remote.account):
                await trio.sleep(self._reconnect_s)
                continue
            status.attempts += 1
            url = status.servers.next()
            delay_s = 0.0
            try:
                link = await self._dial(status, url)
                if link is None:
                    redial.alone()
                else:
                    await self._logged_in(link)
                    if link.bind is not None:
                        status.linked(link)
                        self._learn(status)
                    link = await self._beside(status).stay(link)
                    reason = link.closed.reason if link.closed is not None else t.CloseReason.CLIENT
                    redial.ended(reason, refused=link.turned_out or link.astray)
                    if link.bind is not None:
                        status.servers.ended(silent=reason == t.CloseReason.STALE)
                    delay_s = link.delay_s
                    status.last_error = link.ended_by
                    if link.bind is None:
                        status.packets.failed(trio.current_time())
                        self._dial_failed(status, url, refusal_advice(link.last_error, astray=link.astray))
            except OSError as error:
                self._dial_failed(status, url, dial_error(error))
            except dialling.NoTunnel as error:
                self._dial_failed(status, url, str(error))
            except trio.TooSlowError:
                self._dial_failed(status, url, "no answer in time")
            except Exception as error:
                self._guard.caught("dialling a hub", error)
                status.last_error = "unexpected error"
            finally:
                status.connected = False
            await trio.sleep(delay_s + redial.wait_s())

    def _learn(self, status: RemoteStatus) -> None:
        if self._nursery is not None:
            self._nursery.start_soon(reach.learn_echoes, status, self._guard)

    def _beside(self, status: RemoteStatus) -> Beside:
        return Beside(status, self._dial, self._logged_in, self._plane.close_connection, self._reconnect_s)

    def _dial_failed(self, status: RemoteStatus, url: str, why: str) -> None:
        host, port, _, _ = split_url(url)
        if status.failed(why, self.told_each[status.ever]):
            self._log.error(
                f"Error trying to connect as leafnode to remote server {host}:{port} (attempt {status.attempts}): "
                f"{why}",
                event="link_failed",
                account=status.account_name,
            )

    async def _dial(self, status: RemoteStatus, url: str, hold: reach.Hold | None = None) -> Link | None:
        found = await reach.connected(status, self._ways, url, hold)
        if found is None:
            return None
        stream, url = found
        host, port, user, password = split_url(url)
        remote, parts = status.remote, urlsplit(url)
        web: Asked | None = None
        if parts.scheme in ("ws", "wss"):
            from leafd.links.web import ask

            web = ask(host, port, parts.path, compression=remote.ws_compression, no_masking=remote.ws_no_masking)
        first = remote.tls if web is not None else remote.tls_first
        sock = stream.socket
        round_trip_s = dialling.watch_over(sock)
        with trio.CancelScope(shield=True):  # a connection that nobody waits for would belong to nobody
            if first and remote.context == 0 and self._need_default_tls is not None:
                await self._need_default_tls()
            connection = await self._plane.adopt(sock.detach(), t.ConnKind.LEAF, secure=first, web=web is not None)
        # Over WebSocket TLS, if any, comes before all else, whatever INFO says of it.
        spoken = spoken_with(remote, parts.scheme)
        machine = leaf.Solicitor(self._identity, spoken, user, password, age())
        machine.learned = status.servers.is_learned(url)
        link = self._links[connection] = Link(
            connection, f"{host}:{port}", machine, remote, host=host, url=url, asked=web, web=web is not None
        )
        link.servers, link.packets, link.round_trip_s = status.servers, status.packets, round_trip_s
        if first:
            self._secure(link, t.SecureFlag.FIRST)
        if web is not None:
            self._plane.send(connection, web.head)
        for event in self._early.pop(connection, []):
            self.handle(event)
        return link

    async def _logged_in(self, link: Link) -> None:
        assert link.remote is not None
        if info_s := link.remote.info_s or link.first_word_s:
            await self._wait_for(link, link.heard, info_s, "INFO of the hub")
        await self._wait_for(link, link.up, HANDSHAKE_TIMEOUT_S, "leaf handshake")

    async def _wait_for(self, link: Link, event: trio.Event, seconds: float, what: str) -> None:
        with trio.move_on_after(seconds):
            await either(event, link.gone)
        if not event.is_set() and not link.gone.is_set():
            self._log.warning(f"{link.peer} - no {what} within {seconds:g} s: closing")
            self._plane.close_connection(link.connection, "Stale Leaf Node Connection - Closing", t.CloseReason.STALE)
            await link.gone.wait()
