"""The streams of all servers of the group, in this one: joins the group's table (meta_group.py), the letters between
servers (cluster/letters.py) and JetStream.

    a stream is made, changed, deleted --> the leader: does it meet another one? --> a row, when a majority has it
    a row is written --> the leader tells all, so that each knows it at once      --> reconcile: what rows say of this
                                                                                      server is made so
    a server's room changes --> it tells the others (cluster/presence.py)

The leader alone decides, one change after the other, on a table that it knows to be whole. What a server has is never
deleted because a row is missing: only because one says that it is gone.

Only a configuration with `meta_size` imports this. Not here: which request goes where (jetstream/elsewhere.py).
"""

from __future__ import annotations

import json
import random
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio

from leafd import native_types as t
from leafd.cluster.letters import Letters
from leafd.cluster.placement import Site, choose, placed
from leafd.cluster.presence import Presence
from leafd.cluster.sharing import disks_in, dropped, settled, timed
from leafd.cluster.table import Kept, StreamRow, Table, UnreadError, read_row, write_row
from leafd.config.schema.gateway import cluster_name
from leafd.daemon import rescue
from leafd.daemon.account_search import Sought
from leafd.daemon.introduced import introduced
from leafd.daemon.leaders import Leaders
from leafd.daemon.members import Members
from leafd.daemon.moves import Moves
from leafd.daemon.orders import Orders
from leafd.daemon.replicas import FOREIGN, Replicas
from leafd.daemon.stored import StoredElsewhere
from leafd.daemon.stream_rescue import StreamRescue
from leafd.daemon.stream_rows import Sharing, check_account, config_of, group_of, regrouped, shown, spread_of, wish_of
from leafd.gojson import JsonError, dump, written
from leafd.gotime import now_ns
from leafd.jetstream import errors
from leafd.jetstream.catalogue import Group, Stream
from leafd.jetstream.errors import ApiError
from leafd.jetstream.models.stream import FILE, MEMORY, StreamConfig
from leafd.jetstream.ports import Wanted
from leafd.jetstream.subject_index import SubjectIndex
from leafd.jetstream.subjects import SubjectSet
from leafd.turns import beat

if TYPE_CHECKING:
    from leafd.daemon.current import Current
    from leafd.daemon.meta_group import MetaGroup
    from leafd.guard import Guard
    from leafd.host.log import Log
    from leafd.jetstream.service import JetStream
    from leafd.native_plane import Plane

SITE_S: Final = 1.0
LED_AGAIN_S: Final = 0.5
DECIDED_S: Final = 5.0
"""How long the leader has for one decision, longer where the servers are far from each other, .."""
ATTEMPTS, ATTEMPTS_NEW, AGAIN_S = 4, 16, 0.3
""".. and how often it is looked for, if it is another one by then; more often while there is none since a moment."""
UNREAD: Final = "this server cannot read what the servers have agreed on about it"
ANSWERED_S: Final = 60.0
"""As long as a request may take at another server that is there."""
SETTLE_S: Final = 5.0
"""A stream that could not be made as the table has it is tried again after that."""
OK: Final[dict[str, Any]] = {"ok": True}
NOT_LEADER: Final[dict[str, Any]] = {"leader": False}


class Placing:
    """jetstream.ports.Placing."""

    def __init__(
        self, plane: Plane, meta: MetaGroup, current: Current, jetstream: JetStream, log: Log, guard: Guard
    ) -> None:
        self._plane, self._meta, self._current, self._log, self._guard = plane, meta, current, log, guard
        self._jetstream = jetstream
        self.own, self.table, self.soon = meta.peer, Table(), meta.soon
        self.follow: Callable[[StreamRow, StreamConfig | None], None] = lambda row, config: None
        self._subjects: dict[str, SubjectIndex] = {}
        """The subjects of all streams, by account."""
        self._presence = Presence(self.own, random.getrandbits(63))
        self._deciding, self._news = trio.Lock(), trio.Event()
        self._unsettled: dict[bytes, StreamRow] = {}
        """Rows that this server may not be like yet."""
        self._warned: set[tuple[str, str]] = set()
        self._nursery: trio.Nursery | None = None
        self._letters = Letters(plane.meta_send, self._serve, self._heard, guard)
        self.replicas = Replicas(plane, meta, jetstream.catalogue, jetstream.settings, self._site_of)
        self.join, self.step_down = self.replicas.join, self.replicas.step_down
        self.cluster_of, self.begun, self.alone = self.replicas.cluster_of, self.replicas.begun, self.replicas.alone
        self.leads, self.patience = self.replicas.leads, meta.patience
        self._sought = Sought(jetstream.catalogue, self.go_on, lambda: self._news.set())
        self._announcer = rescue.Announcer(self._letters.tell)
        self._stored = StoredElsewhere(plane, jetstream.catalogue, meta, self.reaches, self._letters.tell)
        self.members = here = Members(meta, lambda: self.table, self.replicas, self._ask_leader, self.ask)
        self.without, self.keeper, self.call_off = here.without, here.keeper, here.call_off
        self.copy_anew, self.desired = here.copy_anew, here.desired
        decided_s = partial(meta.patience, DECIDED_S)
        self._leaders = Leaders(self.own, self.replicas.leader_here, self.reaches, self.ask, decided_s)
        hand_on = partial(here.hand_on, leader_of=self._leaders.of)
        asks = self._ask_leader, self._leaders.of, here.arrived_at
        moves = Moves(meta, jetstream.catalogue, lambda: self.table, self._site_of, *asks)
        self._orders = Orders(meta, plane, self._site_of, hand_on, self.go_on, log, moves)
        meta.take_letter = self._letters.receive
        meta.on_rows.append(self._take_rows)
        meta.on_left.append(self._forget)
        self._elsewhere = moves.elsewhere = jetstream.place_by(self)

    # ---- serving

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Takes part until it is cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            await nursery.start(self._letters.run)
            nursery.start_soon(self._tell_site)
            nursery.start_soon(self._reconcile)
            nursery.start_soon(self.replicas.join_all, self._guard)
            nursery.start_soon(self._stored.run, self._guard)
            nursery.start_soon(self.members.run, self._guard)
            lost = StreamRescue(self._current.store, self._meta, self.replicas, self._ask_leader, self._log)
            nursery.start_soon(lost.run, self._guard)
            task_status.started()

    def go_on(self, work: Callable[[], Awaitable[object]]) -> None:
        """Begins what follows an answer."""
        if self._nursery is not None:
            self._nursery.start_soon(self._conversation, work)

    async def _conversation(self, work: Callable[[], Awaitable[object]]) -> None:
        with self._guard.around("a JetStream conversation"):
            await work()

    async def until_led(self) -> None:
        """Returns when a server leads the group, as far as this one knows."""
        while not self._meta.leader:  # noqa: ASYNC110
            await trio.sleep(LED_AGAIN_S)

    # ---- other servers

    def _site(self) -> Site:
        settings, catalogue = self._jetstream.settings, self._jetstream.catalogue
        name, config, most = settings.server_name, self._current.config, (settings.max_store, settings.max_memory)
        free, memory = (
            max(limit - catalogue.reserved.of(storage), 0) for limit, storage in zip(most, (FILE, MEMORY), strict=True)
        )
        count, together = sum(1 for _ in catalogue.streams()), self.table.kept(self.own).shared
        full = self._plane.stats().refuses_files
        return Site(name, cluster_name(config), config.server_tags, free, memory, count, together, full, most)

    async def _tell_site(self) -> None:
        presence, meta = self._presence, self._meta
        while True:
            with self._guard.around("telling other servers of this one"):
                before, now = presence.known, trio.current_time()
                for peer, news in presence.tick(now, self._site(), meta.linked(), meta.leader, meta.members):
                    await self._letters.tell(peer, news)
                await self._announcer.tick(now, meta.rescued, meta.linked())
                for peer in before:
                    if not self.reaches(peer):
                        self._letters.lost(peer)
            await trio.sleep_until(beat(trio.current_time(), SITE_S))

    def _forget(self) -> None:
        self.table, self._subjects, self._unsettled = Table(), {}, {}

    def _site_of(self, peer: int) -> Site | None:
        """A server that is there, as it told of itself."""
        if peer != self.own and (not self.reaches(peer) or self._presence.is_new(peer)):
            return None
        return placed(self._site() if peer == self.own else self._presence.site(peer), self.table.kept(peer))

    def reaches(self, server: int) -> bool:
        """Whether that server is there."""
        if server == self.own:
            return True
        there = self._presence.is_new(server) or self._presence.is_there(server, trio.current_time())
        return there and server in self._meta.linked()

    def missed_s(self, server: int) -> float | None:
        """For how long a member of the group has not been there; None: it is."""
        return self._presence.missed_s(server, trio.current_time())

    def cluster_at(self, server: int) -> str:
        """The cluster that a server told of; "": it has told nothing."""
        site = self._site_of(server)
        return site.cluster if site is not None else ""

    def kept(self, server: int) -> Kept:
        """The streams that a server keeps, as the table says."""
        return self.table.kept(server)

    def others(self) -> list[int]:
        """The servers that are there, without this one."""
        return [peer for peer in self._presence.known if self.reaches(peer)]

    def _heard(self, peer: int, message: bytes) -> None:
        news = json.loads(message)
        if news["news"] in ("site", "away"):
            self._presence.hear(peer, news, trio.current_time())
        elif news["news"] == "stored":
            self._stored.hear(peer, news)
        elif news["news"] == "rescued":
            groups, members = rescue.heard(news)
            self.go_on(partial(self._meta.leave_for, peer, groups, members))
        elif news["news"] == "row" and peer == self.leader:
            try:
                row = read_row(int(news["revision"]), dump(news["row"]))
            except ValueError:
                return  # the next look at the table finds it, and says so
            if self.table.revision(row.account, row.name) < row.revision:
                self._put(row)

    async def ask(
        self, server: int, verb: str, head: Mapping[str, Any], body: bytes, seconds: float = 0, *, exactly: bool = False
    ) -> tuple[dict[str, Any], bytes] | None:
        """The answer of another server; None: there is none. seconds: 0: as long as it is there; exactly: no longer."""
        known = await introduced(self._presence, self._meta.linked, server)
        question, seconds = dump({"verb": verb, **head}) + b"\n" + body, seconds or ANSWERED_S
        answer = await self._letters.ask(server, question, seconds, exactly=exactly) if known else None
        if answer is None:
            return None
        first, _, rest = answer.partition(b"\n")
        return json.loads(first), rest

    async def _serve(self, peer: int, question: bytes) -> bytes:
        first, _, body = question.partition(b"\n")
        head = json.loads(first)
        verb = head["verb"]
        if verb == "table":
            return dump(await self._decide(head)) + b"\n"
        if verb == "order":
            return dump(await self._orders.carry_out(head["tokens"], body)) + b"\n"
        if verb == "leads":
            return dump(await self.members.leads(head["account"], head["name"])) + b"\n"
        if verb == "lets-in":
            stream = self.replicas.stream(head["account"], head["name"])
            return dump({"in": await self.members.lets_in(stream, peer, head)}) + b"\n"
        about, members = await self._elsewhere.serve(verb, head, body)
        return dump(about) + b"\n" + members

    # ---- the table

    @property
    def leader(self) -> int:
        """0: there is none."""
        return self._meta.decider

    @property
    def decides(self) -> bool:
        """Whether this server leads, and its table is whole."""
        return self._meta.decides

    def _take_rows(self, rows: dict[bytes, tuple[int, bytes]], applied: int) -> None:
        for row in self.table.take(rows, applied):
            self._follow(row)
        if self.table.unread > self._meta.unread:
            self._log.warning(
                f"{self.table.unread} of the servers' streams cannot be read by this version of leafd: they are"
                " offline, and no stream is made or changed while this server leads"
            )
        self._meta.unread = self.table.unread

    def _put(self, row: StreamRow) -> None:
        self.table.put(row)
        self._follow(row)

    def _follow(self, row: StreamRow) -> None:
        """A row is like that from here on."""
        index = self._subjects.setdefault(row.account, SubjectIndex())
        try:
            config = config_of(row) if row.config is not None else None
        except (JsonError, ValueError):
            self.table.give_up(row)
            row = StreamRow(row.account, row.name)
            config = None
        if config is None:
            index.drop(row.name)
        else:
            index.put(row.name, config.subjects)
        self.follow(row, config)
        self._unsettled[row.key] = row
        self._news.set()
        self.members.look()

    def _row(self, account: str, name: str) -> StreamRow | None:
        """The row of a stream. Raises ApiError: there is one that cannot be read."""
        try:
            return self.table.get(account, name)
        except UnreadError:
            raise errors.STREAM_OFFLINE_REASON.error(err=UNREAD) from None

    def config(self, account: str, name: str) -> StreamConfig | None:
        """The configuration of a stream, wherever it is. Raises ApiError."""
        row = self._row(account, name)
        return config_of(row) if row is not None and row.config is not None else None

    def alternates(self, account: str, name: str) -> list[tuple[str, str]]:
        """A stream and those that mirror it, each with its cluster; none, if nothing does."""
        return [(row.name, row.cluster) for row in self.table.alternates(account, name)]

    async def names(self, account: str, subject: str) -> list[str]:
        """The names of streams, in their order; with a subject, of those that it concerns."""
        if not subject:
            return sorted(self.table.streams.get(account, ()))
        index = self._subjects.get(account)
        return sorted(await index.owners(SubjectSet((subject,)))) if index is not None else []

    async def server_of(self, account: str, name: str) -> int:
        """The server that has the stream, or leads its group; 0: there is no such stream. Raises ApiError."""
        row = self._row(account, name)
        if (row is None or row.config is None) and not self.decides:
            found = await self._ask_leader({"op": "where", "account": account, "name": name})
            row = self._row(account, name)
            if row is None or not row.members:
                return int(found["peer"])
        if row is None or row.config is None:
            return 0
        return row.peer if not row.members else await self._leaders.nearest(row)

    def heard_of_lead(self, account: str, name: str, server: int, *, leads: bool) -> None:
        """A server to which a request about a stream of several went leads it, or does not."""
        row = self._row(account, name)
        if row is not None and row.members:
            if leads:
                self._leaders.led(row, server)
            else:
                self._leaders.forget(row)

    def group(self, account: str, name: str) -> Group | None:
        """The servers that are to keep the stream together; None: it is a server's alone. Raises ApiError."""
        row = self._row(account, name)
        return group_of(row) if row is not None else None

    def choose(self, wanted: Wanted, *, stays: bool, but: Collection[int] = ()) -> int:
        """The server for a new stream. stays: this one, if it fits. but: none of these."""
        sites = {peer: site for peer in (self.own, *self.others()) if (site := self._site_of(peer)) is not None}
        none_of = [site.name for peer, site in sites.items() if peer in but]
        wish, own = wish_of(wanted, spread_of(self._current.config)), sites.pop(self.own)
        chosen = choose(wish, own, sites.values(), stays=stays, away=self._away(sites), but=none_of)
        if isinstance(chosen, str):
            raise errors.NO_SUITABLE_PEERS.error(why=chosen)
        return next((peer for peer, site in sites.items() if site is chosen), self.own)

    async def led(self, stream: Stream) -> None:
        """Returns when a server leads the stream's group, or none does for long."""
        await self.replicas.led(stream)
        self.members.look()

    # ---- changes of it

    async def claim(self, account: str, config: StreamConfig, created: int, author: str) -> None:
        """The stream is this server's, and nobody else's."""
        await self._ask_leader(self._wish("claim", account, config, created, author))

    async def change(self, account: str, config: StreamConfig, created: int, author: str) -> None:
        """A stream of this server is like that from now on."""
        there = await self.members.arrived(self.replicas.stream(account, config.name))
        await self.members.patiently(self._wish("change", account, config, created, author) | {"arrived": there})

    async def drop(self, account: str, name: str, created: int = 0) -> None:
        """The stream is deleted. created: of that one alone."""
        await self._ask_leader({"op": "drop", "account": account, "name": name, "created": created})

    def _wish(self, op: str, account: str, config: StreamConfig, created: int, author: str) -> dict[str, Any]:
        site = self._site()
        own = {"peer": self.own, "server": site.name, "cluster": site.cluster}
        about = {"op": op, "account": account, "name": config.name, "created": created, "author": author}
        return about | own | {"config": written(config)}

    async def _ask_leader(self, wish: dict[str, Any]) -> dict[str, Any]:
        """The decision. Raises ApiError: it is refused, or there is nobody who could decide."""
        for tried in range(ATTEMPTS_NEW):
            if tried >= ATTEMPTS and not self._meta.is_new:
                break
            found: dict[str, Any] = NOT_LEADER
            if self._meta.leader == self.own:
                found = await self._decide(wish)
            elif leader := self.leader:
                # Where the way to it is full, the answer comes late: each try waits longer.
                said = await self.ask(leader, "table", wish, b"", self._meta.patience(DECIDED_S) * (1 + tried))
                found = said[0] if said is not None else NOT_LEADER
            if "error" in found:
                error = found["error"]
                raise ApiError(error["err_code"], error["code"], error["description"])
            if found.get("leader", True):
                if "row" in found:
                    self._heard(self.leader, dump({"news": "row", **found}))
                return found
            await trio.sleep(AGAIN_S)
            await self._meta.look()
        raise errors.CLUSTER_NOT_AVAILABLE.error()

    async def _decide(self, wish: Mapping[str, Any]) -> dict[str, Any]:
        """One change, where this server leads."""
        async with self._deciding:
            for _ in range(ATTEMPTS):
                if not self.decides:
                    return NOT_LEADER
                try:
                    return await self._decided(wish)
                except ApiError as error:
                    return {"error": error.fields()}
                except t.PlaneError as error:
                    await self._meta.look()
                    if error.status != t.Status.EXISTS:
                        return NOT_LEADER
        return NOT_LEADER

    async def _decided(self, wish: Mapping[str, Any]) -> dict[str, Any]:
        row = self._row(wish["account"], wish["name"]) or StreamRow(wish["account"], wish["name"])
        if self.table.unread and wish["op"] in ("claim", "change"):
            raise errors.CLUSTER_NOT_AVAILABLE.error()  # whose subjects would it meet?
        is_there, known = row.config is not None, row
        if is_there and wish.get("arrived") and wish["created"] == row.created:
            row = settled(row, disks_in(wish["arrived"]))  # what has come about already is no part of what is asked for
        match wish["op"]:
            case "where":
                where = {"peer": row.peer if is_there else 0}
                return where | ({"revision": row.revision, "row": json.loads(write_row(row))} if row.members else {})
            case "claim":
                if is_there and (row.peer, row.created) == (wish["peer"], wish["created"]):
                    return OK
                if is_there:
                    raise errors.STREAM_NAME_EXIST.error()
                found = await self._checked(row, wish)
                if not wish.get("brought"):
                    await self._check_limits(found)
                return await self._write(self._shared(found, Sharing()))
            case "change":
                if not is_there or wish["created"] != row.created or wish["peer"] not in (*row.peers, *row.leaving):
                    raise errors.STREAM_NOT_FOUND.error()
                leader = int(wish["peer"])
                if row.members:
                    wish = {**wish, "peer": row.peer, "server": row.server, "cluster": row.cluster}
                found = await self._checked(row, wish)
                await self._check_limits(found, row)
                return await self._write(self._shared(found, Sharing(leader, before=row)))
            case "drop":
                if not is_there or wish["created"] not in (0, row.created):
                    return OK
                return await self._write(dropped(row))
            case "without" | "members" | "alone" | "fill" | "move" | "back":
                if not is_there or (wish["created"], wish.get("group", row.group)) != (row.created, row.group):
                    raise errors.STREAM_NOT_FOUND.error()
                there = [(one.peer, one.disk) for one in self._meta.members if self.reaches(one.peer)]
                changed = regrouped(row, wish, self._shared, there)
                if isinstance(changed, str):
                    return {"refused": changed}
                return await self._write(changed) if changed != known else OK
            case "gone":
                gone = tuple(one for one in row.gone if one != (wish["peer"], wish["created"]))
                return await self._write(replace(row, gone=gone)) if gone != row.gone else OK
        return NOT_LEADER

    async def _check_limits(self, row: StreamRow, before: StreamRow | None = None) -> None:
        account = await self._jetstream.catalogue.known(row.account)
        check_account(account, self.table.streams.get(row.account, {}), row, before)

    def _shared(self, row: StreamRow, how: Sharing) -> StreamRow:
        """With the servers that are to keep it, of those that are there: as stream_rows.shared. Raises ApiError."""
        members = self._meta.members
        servers = {one.peer: (one.disk, site) for one in members if (site := self._site_of(one.peer)) is not None}
        return how.found(row, servers, self._away(servers), spread_of(self._current.config))

    def _away(self, there: Collection[int]) -> list[Site | None]:
        """The members that are not there, as they told of themselves last; None: they have told nothing."""
        return [self._presence.last_site(one.peer) for one in self._meta.members if one.peer not in (*there, self.own)]

    async def _checked(self, row: StreamRow, wish: Mapping[str, Any]) -> StreamRow:
        wanted = {name: wish[name] for name in ("peer", "server", "cluster", "created", "author", "config")}
        found: StreamRow = replace(row, **wanted)
        index = self._subjects.get(row.account)
        if index is not None and await index.met(SubjectSet(config_of(found).subjects), beside=row.name):
            raise errors.STREAM_SUBJECT_OVERLAP.error()
        return found

    async def _write(self, row: StreamRow) -> dict[str, Any]:
        if row.config is None and not row.gone:
            await self._meta.write(row.key, None, row.revision)
            self.table.remove(row)
            self._follow(row)
            return OK
        row = timed(row, now_ns())
        value = write_row(row)
        revision = await self._meta.write(row.key, value, row.revision)
        self._put(replace(row, revision=revision))
        news = {"revision": revision, "row": json.loads(value)}
        letter = dump({"news": "row", **news})
        for peer in self._meta.linked():
            await self._letters.tell(peer, letter)
        return OK | news

    async def order(self, tokens: list[str], body: bytes) -> dict[str, Any]:
        """Does what the system account asks of the group; the members of the answer."""
        await self.soon(lambda: self.leader)
        if (leader := self.leader) == self.own:
            return await self._orders.carry_out(tokens, body)
        seconds = self._meta.patience(DECIDED_S)
        said = await self.ask(leader, "order", {"tokens": tokens}, body, seconds) if leader else None
        return said[0] if said is not None else self._orders.refused(tokens, errors.CLUSTER_NOT_AVAILABLE.error())

    # ---- this server as the table has it

    async def _reconcile(self) -> None:
        while True:
            with trio.move_on_after(SETTLE_S) as waiting:
                await self._news.wait()
            self._news = trio.Event()
            quiet = waiting.cancelled_caught and self._meta.leader != 0
            await self.until_led()
            rows, self._unsettled = self._unsettled, {}
            for key, row in rows.items():
                settled = False
                with self._guard.around("a stream of the servers' table"):
                    settled = await self._settle(row)
                if not settled:
                    self._unsettled.setdefault(key, row)
            for stream in list(self._jetstream.catalogue.streams()) if quiet else ():
                with self._guard.around("a stream that the servers' table lacks"):
                    await self._adopt(stream.account.name, stream.config, stream.created, stream.author)

    async def _settle(self, row: StreamRow) -> bool:
        """False: not yet."""
        concerned = self.own in row.peers or any(peer == self.own for peer, _ in row.gone)
        account = self._sought.account(row.account) if concerned else None
        if account is None or not account.enabled:
            return not concerned
        try:
            for peer, created in row.gone:
                if peer == self.own:
                    await self._elsewhere.end(account, row.name, created, deleted=row.config is None)
                    about = {"account": row.account, "name": row.name, "created": created}
                    await self._ask_leader({"op": "gone", "peer": self.own, **about})
            if row.config is not None and self.own in row.peers:
                wanted = Stream(0, account, config_of(row), row.created, author=row.author, group=group_of(row))
                made = await self._elsewhere.make(wanted, partial(self._stands, row))
                if made and wanted.group is None:
                    where = shown(row.account, row.name)
                    self._log.warning(f"{where} is placed on this server, which did not have it: made, empty")
        except (ApiError, t.PlaneError) as error:
            own, where = account.streams.get(row.name), shown(row.account, row.name)
            if own is not None and isinstance(error, t.PlaneError) and error.status == FOREIGN:
                with suppress(ApiError):  # later
                    await self._begin_anew(row, own, where)
            else:
                self._warn_once(row.account, row.name, f"{where} is not as the servers have agreed on: {error}")
            return False
        own = account.streams.get(row.name)
        return own is None or own.group is None or row.config is None or own.config == config_of(row)

    async def _begin_anew(self, row: StreamRow, own: Stream, where: str) -> None:
        """The stream goes here, to be copied from others, if that loses nothing, or goes on. Raises ApiError."""
        if await self.members.goes_on(row):
            self._log.warning(f"{where} goes on with what this disk has of it, which has lost something")
        elif await self.members.begins_anew(row, own):
            self._log.warning(f"{where} goes here, since this disk has lost something, and is copied from the others")
            await self._elsewhere.end(own.account, row.name, row.created, deleted=False)
            self._news.set()
        else:
            text = f"{where} stands still here, since this disk has lost something: it waits for the others"
            self._warn_once(row.account, row.name, text)

    def _stands(self, row: StreamRow) -> bool:
        return self.table.revision(row.account, row.name) == row.revision

    async def _adopt(self, account: str, config: StreamConfig, created: int, author: str) -> None:
        """A stream that this server had before there was a group, or that was restored."""
        try:
            row = self.table.get(account, config.name)
        except UnreadError:
            return
        where = shown(account, config.name)
        if row is not None and ((self.own, created) in row.gone or row.config is not None):
            kept = (*row.peers, *row.leaving)
            is_other = row.config is not None and (row.created != created or self.own not in kept)
            if is_other:
                text = f"{where} is another one on {row.server}: this server's is kept, and apart"
                self._warn_once(account, config.name, text)
            return
        try:
            await self._ask_leader(self._wish("claim", account, config, created, author) | {"brought": True})
        except ApiError as error:
            self._warn_once(account, config.name, f"{where} is in no table of the servers: {error}")

    def _warn_once(self, account: str, name: str, text: str) -> None:
        """Says it, if nothing has been said of that stream yet."""
        if (account, name) not in self._warned:
            self._warned.add((account, name))
            self._log.warning(text)
