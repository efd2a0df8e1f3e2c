"""Requests about streams that other servers of the group have, and about the streams of all of them.

    a client's request --> here: the stream is here, or is to be made here; what needs no stream
                       --> the server that has the stream, or on which it is to be made
                       --> the server that leads the group: names and lists of streams, what an account uses
    another server's question --> here, as if its client had asked this one

The answer comes back the same way, so that a client is answered by the server that it asked. What an author may publish
is judged where he logged in, and goes along. Not here: which server has what (Placing, of daemon/placing.py), the way
to them (cluster/letters.py), any request.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

import trio

from leafd.cluster.placement import NO_ROOM
from leafd.gojson import JsonError, decode, dump, loose
from leafd.jetstream import errors
from leafd.jetstream.catalogue import Group, JetStreamAccount, Stream
from leafd.jetstream.context import Context
from leafd.jetstream.endpoints import streams
from leafd.jetstream.errors import ApiError
from leafd.jetstream.models.stream import MEMORY, StreamConfig
from leafd.jetstream.ports import SERVER, Asker, Placing, Wanted
from leafd.jetstream.publishing import publishes
from leafd.jetstream.registry import API, TYPE, Among, Answer, Endpoint, find, refusal
from leafd.jetstream.rules.account_limits import bytes_in, replicas_in
from leafd.records import dataclass

INFO: Final = ("STREAM", "INFO", "*")
USED: Final = ("memory", "storage", "consumers")
"""Members of an account's info that are the sum of what its servers say."""
CHANGES: Final = (Among.DECIDED, Among.PLACED)
"""Requests that the group decides on. Whatever else concerns a stream does its server, also one of a minority."""
LISTED_S: Final = 4.0
"""As long as nats-server waits for the others, before it says which streams are missing in a list."""

SETTLED_S: Final = 10.0
"""As with nats-server: before that a stream without a leader is not said to have none."""
AFTER_S: Final = 3.0
"""The work that follows an answer begins then at the latest: the server that was asked may have gone."""
LEADERS_ASKED_MAX: Final = 64
"""Streams whose leaders are asked for at once."""

PLACES_TRIED: Final = 4
"""Servers that are asked after the first one to make a stream for which the one before has no room any more."""

Here = Callable[..., Awaitable[Answer | None]]


@dataclass(frozen=True, slots=True)
class _FarAsker:
    """One who asked another server."""

    author: str
    shown: dict[str, Any]
    judged: frozenset[str]
    refused: frozenset[str]
    far: bool

    def info(self) -> dict[str, Any]:
        return self.shown

    async def denied(self, subjects: tuple[str, ...]) -> tuple[str, ...]:
        """Denies also each subject that was not judged where the asker logged in."""
        return tuple(one for one in subjects if one in self.refused or one not in self.judged)


class _LeadsNoMoreError(Exception):
    """The server that a request went to does not lead the stream's group, and did nothing."""


class Elsewhere:
    """One server's JetStream as a part of that of all of them. here: answers a request by itself."""

    def __init__(self, context: Context, placing: Placing, here: Here) -> None:
        self._context, self._placing, self._here = context, placing, here
        self._number, self._began_s = 0, time.monotonic()
        self._after: dict[int, trio.Event] = {}
        """Set when the answer with that number has been sent to the client, at the server that it asked."""

    # ---- a client's request

    async def answer(
        self, account: JetStreamAccount, subject: str, header: bytes, body: bytes, asker: Asker
    ) -> Answer | None:
        """The answer, wherever it is found. None: nobody answers at all."""
        tokens = subject.removeprefix(API).split(".")
        line = find(tokens)
        if line is None or not account.enabled or account.system:
            return await self._here(account, subject, header, body, asker)
        if line.among is Among.NONE:
            return None  # as with nats-server
        try:
            try:
                found = await self._answered_by(line, account, subject, header, body, asker)
            except _LeadsNoMoreError:  # who was remembered: all are asked
                found = await self._answered_by(line, account, subject, header, body, asker)
        except _LeadsNoMoreError:
            return await self._by_a_keeper(line, account, subject, body, errors.CLUSTER_NOT_AVAILABLE.error())
        except ApiError as error:
            return await self._by_a_keeper(line, account, subject, body, error)
        if found is not None and "alternates" in found.members:  # the nearest first: the asker is of this cluster
            near = self._context.settings.cluster_name
            found.members["alternates"].sort(key=lambda one: one["cluster"] != near)
        return found

    async def _answered_by(
        self,
        line: Endpoint,
        account: JetStreamAccount,
        subject: str,
        header: bytes,
        body: bytes,
        asker: Asker,
    ) -> Answer | None:
        """The answer, by the server whose it is. Raises ApiError, _LeadsNoMoreError."""
        tokens = subject.removeprefix(API).split(".")
        server = await self._server_for(line, account, tokens, body, asker)
        found = await self._answered_at(server, line, account, subject, header, body, asker)
        tried: list[int] = []
        while line.among is Among.PLACED and _has_no_room(found) and len(tried) < PLACES_TRIED:
            tried.append(server)  # another stream has taken that room since it was chosen
            try:
                server = self._chosen(body, stays=asker is SERVER, but=tried)
            except ApiError:
                break
            found = await self._answered_at(server, line, account, subject, header, body, asker)
        return found

    async def _answered_at(
        self,
        server: int,
        line: Endpoint,
        account: JetStreamAccount,
        subject: str,
        header: bytes,
        body: bytes,
        asker: Asker,
    ) -> Answer | None:
        tokens = subject.removeprefix(API).split(".")
        if server != self._placing.own:
            found = await self._forwarded(server, line, account, subject, header, body, asker)
            if line.among is not Among.PLACED or not _is_strange(found) or self._chosen(body) != self._placing.own:
                return found
        everywhere = self if line.among is Among.LEADER else None
        await self._begun(line, account, tokens)
        return await self._here(account, subject, header, body, asker, everywhere)

    async def _server_for(
        self, line: Endpoint, account: JetStreamAccount, tokens: list[str], body: bytes, asker: Asker
    ) -> int:
        """The server that answers. Raises ApiError."""
        placing = self._placing
        name = _stream_in(line, tokens)
        stream = account.streams.get(name)
        here = stream is not None and stream.group is None
        if not placing.leader and (stream is None or line.among in CHANGES):
            await placing.soon(lambda: placing.leader)
            if not placing.leader:
                raise errors.CLUSTER_NOT_AVAILABLE.error()
        if line.among is Among.LEADER:
            return placing.leader
        if here or not name:
            return placing.own
        server = await placing.server_of(account.name, name)
        if server:
            return server
        if line.among is not Among.PLACED:
            return placing.own
        return self._chosen(body, stays=asker is SERVER)  # its own clients' and box's: they go on with it

    def _chosen(self, body: bytes, *, stays: bool = True, but: Collection[int] = ()) -> int:
        """The server for a new stream, none of `but`. Raises ApiError."""
        return self._placing.choose(wanted_of(body), stays=stays, but=but)

    async def _forwarded(
        self,
        server: int,
        line: Endpoint,
        account: JetStreamAccount,
        subject: str,
        header: bytes,
        body: bytes,
        asker: Asker,
    ) -> Answer | None:
        if not self._placing.reaches(server):
            return await self._away(account, subject)
        name = _stream_in(line, subject.removeprefix(API).split("."))
        shared = bool(name) and self._placing.group(account.name, name) is not None
        head: dict[str, Any] = {
            "leads": shared,
            "account": account.name,
            "subject": subject,
            "header": header.decode("latin-1"),
            "author": asker.author,
            "client": asker.info(),
            "far": asker.far,
        }
        if line.among in CHANGES and line.request is not None:  # the stream's configuration, which has an author
            judged = _published(body)
            head |= {"judged": judged, "denied": list(await asker.denied(tuple(judged)))}
        said = await self._placing.ask(server, "api", head, body)
        if shared and (said is None or "leads" in said[0]):
            self._placing.heard_of_lead(account.name, name, server, leads=said is not None and said[0]["leads"])
        if said is None:
            raise errors.STREAM_OFFLINE.error()
        about, members = said
        if not about.get("leads", True):
            raise _LeadsNoMoreError
        if about.get("silent"):
            return None
        after = partial(self._answered, server, about["after"]) if about.get("after") else None
        return _answer_in(about, members, after)

    async def _by_a_keeper(
        self, line: Endpoint, account: JetStreamAccount, subject: str, body: bytes, error: ApiError
    ) -> Answer:
        """A stream's info where nobody leads it: as one of the servers has it that keep it, as with nats-server. Else
        the error, with which all other requests are refused."""
        server = 0
        if line.pattern == INFO and error.err_code == errors.CLUSTER_NOT_AVAILABLE.err_code:
            server = self._keeper(account, subject.rpartition(".")[2])
        found: Answer | None = None
        if server == self._placing.own:
            found = await self._here(account, subject, b"", body, SERVER)
        elif server:
            head = {"account": account.name, "subject": subject, "header": "", "author": "", "client": {}, "kept": True}
            said = await self._placing.ask(server, "api", head, body)
            if said is not None and not said[0].get("silent"):
                found = _answer_in(*said)
        return refusal(line, error) if found is None or found.error else found

    @property
    def _settled(self) -> bool:
        """Whether groups have had the time to find their leaders since this server began."""
        return time.monotonic() - self._began_s >= SETTLED_S

    def _keeper(self, account: JetStreamAccount, name: str) -> int:
        """A server that is there and keeps that stream; 0: there is none, or somebody may be about to lead it."""
        if not self._settled:
            return 0
        row = self._placing.table.streams.get(account.name, {}).get(name)
        there = [peer for peer in row.peers if self._placing.reaches(peer)] if row is not None else []
        return self._placing.own if name in account.streams else next(iter(there), 0)

    async def _answered(self, server: int, number: int) -> None:
        """Begins there, now that the answer is on its way, what follows it: messages are not to come before it."""
        seconds = self._placing.patience(AFTER_S)
        await self._placing.ask(server, "after", {"number": number}, b"", seconds, exactly=True)

    async def _away(self, account: JetStreamAccount, subject: str) -> Answer:
        """The answer of a server that is away. A stream of it can be deleted all the same, and goes there later."""
        line = find(subject.removeprefix(API).split("."))
        if line is None or line.pattern != ("STREAM", "DELETE", "*"):
            raise errors.STREAM_OFFLINE.error()
        await self._placing.drop(account.name, subject.rpartition(".")[2])
        return Answer({"type": line.type_name, "success": True})

    # ---- another server's question

    async def serve(self, verb: str, head: Mapping[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
        """The answer to what another server asks, whose client's request it may be."""
        if verb == "after":
            if (waiting := self._after.get(int(head["number"]))) is not None:
                waiting.set()
            return {}, b""
        # What is only asked for a sum, an account that nobody has used here adds nothing to.
        adds = verb == "infos" or not head.get("everywhere", True)
        catalogue, name = self._context.catalogue, str(head["account"])
        account = catalogue.by_name.get(name) if adds else await catalogue.known(name)
        if account is None:
            return {"silent": True}, b""
        if verb == "infos":
            return {}, dump({"infos": await self.infos_here(account, [str(name) for name in head["names"]])})
        asker: Asker = _FarAsker(
            str(head["author"]),
            dict(head["client"]),
            frozenset(head.get("judged", ())),
            frozenset(head.get("denied", ())),
            bool(head.get("far")),
        )
        if head.get("kept"):
            if not self._settled:
                return {"silent": True}, b""
            asker = SERVER  # who is told of what is here, led or not
        subject, header = str(head["subject"]), str(head["header"]).encode("latin-1")
        tokens = subject.removeprefix(API).split(".")
        line = find(tokens)
        leads = line is not None and line.among is Among.LEADER and head.get("everywhere", True)
        everywhere = self if leads else None
        if line is not None:
            try:
                await self._check_asked(line, account, tokens, everywhere is not None)
            except ApiError as error:
                return _as_letter(refusal(line, error))
            if head.get("leads") and not await self._leads(account, _stream_in(line, tokens)):
                return {"leads": False}, b""
            await self._begun(line, account, tokens)
        answered = await self._here(account, subject, header, body, asker, everywhere)
        about, members = _as_letter(answered)
        if head.get("leads"):
            about["leads"] = True
        if answered is not None and answered.after is not None:
            self._number += 1
            self._after[self._number] = trio.Event()
            self._placing.go_on(partial(self._follow, self._number, answered.after))
            about["after"] = self._number
        return about, members

    async def _leads(self, account: JetStreamAccount, name: str) -> bool:
        stream = account.streams.get(name)
        return stream is not None and stream.group is not None and await self._placing.leads(stream)

    async def _check_asked(self, line: Endpoint, account: JetStreamAccount, tokens: list[str], leads: bool) -> None:
        """Raises ApiError: another server took this one for the one that knows, and it does not."""
        placing = self._placing
        if leads and placing.leader == placing.own:
            await placing.soon(lambda: placing.decides or placing.leader != placing.own)
        if leads and not placing.decides:
            raise errors.CLUSTER_NOT_AVAILABLE.error()
        name = _stream_in(line, tokens)
        if name and name not in account.streams:
            self._placing.config(account.name, name)  # what cannot be read there is not "not there"

    async def _begun(self, line: Endpoint, account: JetStreamAccount, tokens: list[str]) -> None:
        """A server that has begun to lead a stream knows its consumers a moment later: its askers wait for that."""
        stream = account.streams.get(_stream_in(line, tokens))
        if stream is not None and stream.group is not None and not stream.led:
            await self._placing.begun(stream)

    async def _follow(self, number: int, after: Callable[[], Awaitable[None]]) -> None:
        with trio.move_on_after(self._placing.patience(AFTER_S)):
            await self._after[number].wait()
        del self._after[number]
        await after()

    # ---- of all servers

    def configs(self, account: str) -> dict[str, StreamConfig]:
        """The streams of an account as the table has them, without those that this version cannot read."""
        found: dict[str, StreamConfig] = {}
        for name, row in self._placing.table.streams.get(account, {}).items():
            with suppress(JsonError, ValueError):
                if row.config is not None:
                    found[name] = decode(StreamConfig, dump(dict(row.config)), strict=False)
        return found

    async def names(self, account: JetStreamAccount, subject: str) -> list[str]:
        """The names of an account's streams; with a subject, of those that could take or hold messages of it."""
        return await self._placing.names(account.name, subject)

    async def infos(self, account: JetStreamAccount, names: list[str]) -> dict[str, dict[str, Any]]:
        """The infos of these streams, by their servers; without those whose server says nothing."""
        by_server: dict[int, list[str]] = {}
        asking = trio.CapacityLimiter(LEADERS_ASKED_MAX)

        async def find_server(name: str) -> None:
            try:
                async with asking:
                    server = await self._placing.server_of(account.name, name)
            except ApiError:  # nobody leads it just now
                server = self._keeper(account, name)
            if server:
                by_server.setdefault(server, []).append(name)

        async with trio.open_nursery() as nursery:
            for name in names:
                nursery.start_soon(find_server, name)
        found: dict[str, dict[str, Any]] = {}

        async def ask(server: int, wanted: list[str]) -> None:
            if server == self._placing.own:
                infos = await self.infos_here(account, wanted)
            elif not self._placing.reaches(server):
                infos = []
            else:
                head = {"account": account.name, "names": wanted}
                seconds = self._placing.patience(LISTED_S)
                said = await self._placing.ask(server, "infos", head, b"", seconds, exactly=True)
                infos = json.loads(said[1])["infos"] if said is not None and said[1] else []
            found.update({info["config"]["name"]: info for info in infos})

        async with trio.open_nursery() as nursery:
            for server, wanted in by_server.items():
                nursery.start_soon(ask, server, wanted)
        return found

    async def infos_here(self, account: JetStreamAccount, names: list[str]) -> list[dict[str, Any]]:
        """The infos of those that this server has."""
        there = [account.streams[name] for name in names if name in account.streams]
        return await streams.infos(self._context, there)

    async def purge(self, account: str) -> Answer:
        """All streams of an account go, on whichever servers they are: an operator's order."""
        shown: dict[str, Any] = {"type": f"{TYPE}account_purge_response"}
        try:
            for name in await self._placing.names(account, ""):
                await self._placing.drop(account, name)
        except ApiError as error:
            return Answer(shown | {"error": error.fields()}, error=True)
        return Answer(shown | {"initiated": True})

    async def add_others(self, account: JetStreamAccount, members: dict[str, Any]) -> None:
        """Adds to an account's info what it uses of the other servers."""
        head = {"account": account.name, "subject": f"{API}INFO", "header": "", "author": "", "client": {}}
        said: list[dict[str, Any]] = []

        async def ask(server: int) -> None:
            seconds = self._placing.patience(LISTED_S)
            asked = head | {"everywhere": False}
            answered = await self._placing.ask(server, "api", asked, b"", seconds, exactly=True)
            if answered is not None and answered[1]:
                said.append(json.loads(answered[1]))

        async with trio.open_nursery() as nursery:
            for server in self._placing.others():
                nursery.start_soon(ask, server)
        for other in said:
            _add(members, other, USED)
            _add(members["api"], other.get("api", {}), ("total", "errors"))
            for name, tier in members.get("tiers", {}).items():
                _add(tier, other.get("tiers", {}).get(name, {}), USED)
        rows = [row.config or {} for row in self._placing.table.streams.get(account.name, {}).values()]
        members |= _reserved(rows)
        for name, tier in members.get("tiers", {}).items():
            tier |= _reserved([row for row in rows if name == f"R{replicas_in(row)}"])

    # ---- as the table has it

    async def make(self, wanted: Stream, stands: Callable[[], bool]) -> bool:
        """A stream that is placed here is here, and is like that. Returns whether it had to be made. stands: whether
        the table still says so, once nobody else changes the account's streams. Raises PlaneError, ApiError."""
        account, name = wanted.account, wanted.name
        async with account.lock:
            stream = account.streams.get(name)
            if not stands():
                return False
            if stream is None:
                if name not in account.aside and name not in account.restoring:
                    await streams.placed(self._context, wanted)
                    return True
            elif stream.created == wanted.created and stream.group is None and wanted.group is not None:
                await streams.shared(self._context, stream, wanted.config, wanted.author, wanted.group)
            elif stream.created == wanted.created and stream.group is not None:
                if wanted.group is not None and wanted.group.name != stream.group.name:
                    await self._go_on_alone(stream, wanted.group)
                await self._placing.join(stream)
                if stream.led and stream.config != wanted.config:  # the leader before came to no end with the change
                    await streams.agreed(self._context, stream, wanted.config, wanted.author)
            elif stream.created == wanted.created and stream.config != wanted.config:
                await streams.changed(self._context, stream, wanted.config, wanted.author)
        return False

    async def _go_on_alone(self, stream: Stream, group: Group) -> None:
        """A stream whose group has lost its majority is this server's, in a group that others join. In this order: a
        start between the two finds the old definition, and comes here again. Raises PlaneError."""
        await self._placing.alone(stream, group)
        await streams.put(self._context, replace(stream, group=group))
        stream.group = group

    async def end(self, account: JetStreamAccount, name: str, created: int, *, deleted: bool) -> None:
        """A stream that was deleted, or is others' now, is not here any more. Raises ApiError."""
        async with account.lock:
            stream = account.streams.get(name)
            if stream is not None and stream.created == created:
                await streams.removed(self._context, stream, deleted=deleted)


def _stream_in(line: Endpoint, tokens: list[str]) -> str:
    """The stream that a request names; "": none."""
    return tokens[line.pattern.index("*")] if "*" in line.pattern else ""


def _reserved(rows: list[Mapping[str, Any]]) -> dict[str, int]:
    """How many streams there are, and what they reserve: as in nats-server, each once, on how many servers it is."""
    in_memory = [row for row in rows if row.get("storage") == MEMORY]
    memory = sum(bytes_in(row) for row in in_memory)
    return {
        "reserved_memory": memory,
        "reserved_storage": sum(bytes_in(row) for row in rows) - memory,
        "streams": len(rows),
    }


def _add(to: dict[str, Any], more: Mapping[str, Any], names: tuple[str, ...]) -> None:
    for name in names:
        to[name] = to.get(name, 0) + more.get(name, 0)


def _as_letter(answered: Answer | None) -> tuple[dict[str, Any], bytes]:
    if answered is None:
        return {"silent": True}, b""
    about = {
        "header": answered.header.decode("latin-1"),
        "weight": answered.weight,
        "size": answered.size,
        "counted": answered.counted,
        "error": answered.error,
    }
    return about, dump(answered.members)


def _answer_in(about: Mapping[str, Any], members: bytes, after: Callable[[], Awaitable[None]] | None = None) -> Answer:
    return Answer(
        json.loads(members),
        about["header"].encode("latin-1"),
        about["weight"],
        about["size"],
        about["counted"],
        about["error"],
        after,
    )


def _is_strange(found: Answer | None) -> bool:
    """Whether the answer comes from a server that does not know the account, or knows it without JetStream: before a
    reload, or for good."""
    code = errors.NOT_ENABLED_FOR_ACCOUNT.err_code
    return found is None or (found.error and found.members.get("error", {}).get("err_code") == code)


def _has_no_room(found: Answer | None) -> bool:
    """Whether the server that was to make a stream has no room for it, or others that were to keep it have none."""
    error = found.members.get("error", {}) if found is not None and found.error else {}
    code = error.get("err_code")
    if code == errors.NO_SUITABLE_PEERS.err_code:
        return NO_ROOM in str(error.get("description", ""))
    return code in (errors.STORAGE_RESOURCES_EXCEEDED.err_code, errors.MEMORY_RESOURCES_EXCEEDED.err_code)


def _config_in(body: bytes) -> dict[str, Any]:
    try:
        found = loose(body)
    except JsonError:
        return {}
    config = found.get("config", found)
    return config if isinstance(config, dict) else {}


def wanted_of(body: bytes) -> Wanted:
    """The place that a new stream asks for, as far as it can be read: the server that makes it refuses what cannot."""
    config = _config_in(body)
    try:
        read = decode(StreamConfig, json.dumps(config).encode(), strict=False)
    except (JsonError, ValueError):
        return Wanted()
    placement, size, replicas = read.placement, max(read.max_bytes, 0), max(read.num_replicas, 1)
    cluster, tags = (placement.cluster, placement.tags) if placement is not None else ("", ())
    return Wanted(cluster, tags, size, read.storage, replicas)


def _published(body: bytes) -> list[str]:
    """The subjects to which the stream in a request would publish."""
    try:
        return list(publishes(decode(StreamConfig, json.dumps(_config_in(body)).encode(), strict=False)))
    except (JsonError, ValueError):
        return []
