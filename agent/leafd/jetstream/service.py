"""JetStream's API as the daemon sees it: accounts, requests and events of the plane
go in, replies and advisories come out.

    read_records()   between the plane's open and start: the stored definitions
    load()           after its start, before anybody may connect: the plane opens the streams and consumers
    run()            serves until cancelled; message(), advisory(), alarm(), allowance() and consumer_gone() feed it
                     from the pump

Not here: how requests take turns (serving.py), what any of them does.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import trio

from leafd import native_types as t
from leafd.gojson import dump
from leafd.guard import Guard
from leafd.jetstream import errors
from leafd.jetstream.advisories import Advisories
from leafd.jetstream.asides import Asides, insisted, reason_of
from leafd.jetstream.backup import restore, snapshots
from leafd.jetstream.catalogue import (
    TEMPLATE_RECORD,
    Catalogue,
    Consumer,
    JetStreamAccount,
    JetStreamLimits,
    Settings,
    Stream,
    is_half,
    names_in,
    read_consumer,
    read_stream,
    stored_stream,
)
from leafd.jetstream.context import Context
from leafd.jetstream.copiers import Copiers
from leafd.jetstream.endpoints import (
    account as _account_endpoints,
    clustering as _clustering_endpoints,
    consumers,
    messages,
    streams,
)
from leafd.jetstream.models.stream import FILE, MEMORY
from leafd.jetstream.ordered import is_order, is_unheard
from leafd.jetstream.passed_over import PassedOver
from leafd.jetstream.plain import PlainStreams
from leafd.jetstream.ports import SERVER, Alone, Asker, Everywhere, Neighbours, Placing
from leafd.jetstream.registry import API, TYPE, Answer, Call, answer, find
from leafd.jetstream.serving import Guest, Serving
from leafd.native_commands import Commands
from leafd.operator_log import Log
from leafd.quoting import quoted
from leafd.turns import together

if TYPE_CHECKING:
    from leafd.jetstream.elsewhere import Elsewhere
    from leafd.jetstream.endpoints.templates import Templates
    from leafd.jetstream.leads import Leads

# Importing an endpoint's module is what makes it known.
ENDPOINT_MODULES: Final = (_account_endpoints, _clustering_endpoints, snapshots, consumers, messages, restore, streams)

LOADED_TOGETHER: Final = 64
"""Streams, or consumers, that the plane is asked to take up together at start."""

_Record = TypeVar("_Record")


class JetStream:
    """One server's JetStream: the facade that daemon/server.py holds."""

    def __init__(
        self,
        plane: Commands,
        settings: Settings,
        log: Log,
        neighbours: Neighbours | None = None,
        guard: Guard | None = None,
    ) -> None:
        self.catalogue = Catalogue()
        self.tight: dict[tuple[str, str, int], int] = {}
        """Accounts, with the storage, whose streams have nearly all that they may, and how much that is."""
        self.copiers = Copiers(plane, self.catalogue, (neighbours or Alone()).lets_go)
        self.passed_over = PassedOver(plane, self.catalogue, log, guard or Guard())
        self.plain = PlainStreams(plane, self.catalogue, self.copiers)
        self._context = Context(
            self.catalogue,
            plane,
            neighbours or Alone(),
            settings,
            Advisories(plane, settings),
            log,
            self._make_templates,
            self.copiers,
            self.passed_over,
        )
        self._plane = plane
        self._log = log
        self._guard = guard or Guard()
        self._stream_records: list[tuple[int, bytes]] = []
        self._consumer_records: list[tuple[int, int, bytes]] = []
        self._leads: Leads | None = None
        # Of accounts that are not known, or have no JetStream: they may come later.
        self._waiting: list[tuple[int, bytes]] = []
        self._waiting_consumers: list[tuple[int, int, bytes]] = []
        self._asides = Asides(self.catalogue, log)
        self._template_records: list[bytes] = []
        self._waiting_templates: list[bytes] = []
        self._templates: Templates | None = None
        self._nursery: trio.Nursery | None = None
        self.elsewhere: Elsewhere | None = None
        self._serving = Serving(self._context, lambda: (self.elsewhere or self).answer, self._guard)

    # ---- accounts and settings

    def add_account(
        self,
        account_id: int,
        name: str,
        limits: JetStreamLimits | None = None,
        *,
        enabled: bool = True,
        system: bool = False,
    ) -> JetStreamAccount:
        """Makes an account known, or changes its limits. enabled: it has JetStream; others hear that they lack it."""
        known = self.catalogue.by_name.get(name)
        if known is not None:
            known.limits, known.enabled, known.system = limits or JetStreamLimits(), enabled and not system, system
            return known
        account = JetStreamAccount(
            account_id, name, limits or JetStreamLimits(), enabled=enabled and not system, system=system
        )
        account.cluster = self.settings.cluster
        self.catalogue.add_account(account)
        return account

    @property
    def settings(self) -> Settings:
        """The settings of today."""
        return self._context.settings

    def set_settings(self, settings: Settings) -> None:
        """Takes over settings that a reload changed."""
        self._context.settings = settings

    def place_by(self, placing: Placing) -> Elsewhere:
        """Streams are those of all servers of a group."""
        from leafd.jetstream.elsewhere import Elsewhere
        from leafd.jetstream.leads import Leads

        self._context.placing = placing
        source, define = partial(streams.sourced, self._context), partial(streams.defined, self._context)
        made = self._plane.stream_consumers_made
        self._leads = Leads(self._context, placing, self._load_consumers, source, define, made)
        self.elsewhere = Elsewhere(self._context, placing, self.answer)
        return self.elsewhere

    async def judge_again(self) -> None:
        """Judges by the rights that their authors have now where streams publish by themselves."""
        await streams.judge_again(self._context)

    # ---- start

    def read_records(self) -> None:
        """Reads the stored definitions; only between the plane's open and start."""
        for key, value in self._plane.records(t.Record.STREAM):
            self._stream_records.append((int.from_bytes(key[:4], "big"), value))
        for key, value in self._plane.records(t.Record.CONSUMER):
            stream_id, consumer_id = int.from_bytes(key[:4], "big"), int.from_bytes(key[4:8], "big")
            self._consumer_records.append((stream_id, consumer_id, value))
        self._asides.read(self._plane, {number for number, _ in self._stream_records})
        for key, value in self._plane.records(t.Record.CONTROL):
            self.passed_over.load(key, value)
            if key.startswith(TEMPLATE_RECORD):
                self._template_records.append(value)

    def waiting_accounts(self) -> set[str]:
        """Accounts that have stored streams which are not served yet."""
        found = {names_in(record)[0] for _, record in (*self._stream_records, *self._waiting)}
        return found | self._asides.accounts()

    async def take_up(self) -> None:
        """Serves the stored streams of accounts that were not known when the others were loaded and are known now."""
        known = {name for name, one in self.catalogue.by_name.items() if one.enabled} if self._waiting else set()
        ready = [one for one in self._waiting if names_in(one[1])[0] in known]
        if not ready:
            await self._settle_asides()
            self._load_templates(self._waiting_templates)
            return
        streams_ready = {number for number, _ in ready}
        self._waiting = [one for one in self._waiting if one[0] not in streams_ready]
        consumers_left, self._waiting_consumers = self._waiting_consumers, []
        self._stream_records, self._consumer_records = ready, consumers_left
        await self.load()

    async def load(self) -> None:
        """Has the plane take up everything stored. What cannot be served keeps its data and is complained about."""
        removed: set[int] = set()
        for some in _chunks(self._stream_records):
            await self._load_streams(some, removed)
        for consumers_some in _chunks(self._consumer_records):
            await self._load_consumers(consumers_some, removed)
        await self._settle_asides()
        self._stream_records.clear()
        self._consumer_records.clear()
        self._load_templates([*self._template_records, *self._waiting_templates])
        self._template_records.clear()

    async def _settle_asides(self) -> None:
        """Puts aside what is lost; a stream removes nothing that consumers which are aside may want."""
        self._asides.settle()
        for stream in self.catalogue.streams():
            if stream.lacks_consumers and stream.id not in self.catalogue.lacking:
                with self._guard.around("keeping what consumers that are aside may want"):
                    await insisted(consumers.keep_for_asides, self._context, stream)

    async def _load_streams(self, records: list[tuple[int, bytes]], removed: set[int]) -> None:
        """Some streams, for which the plane is asked together. removed: gets what is there no more. What is wrong comes
        last: it is called by its name only where no stream that is served has that name."""
        read: dict[tuple[int, str], tuple[Stream, bytes]] = {}
        wrong: list[tuple[int, bytes, Exception]] = []
        for stream_id, record in records:
            self.catalogue.keep_ids(stream=stream_id)
            try:
                if is_half(record) and await self._remove_half(stream_id, record):
                    removed.add(stream_id)
                elif (stream := self._read_stream(stream_id, record)) is not None:
                    key = (stream.account.id, stream.name)
                    if key in read or stream.name in stream.account.streams:
                        raise ValueError(f"there are two streams {stream.name!r}")
                    read[key] = (stream, record)
            except Exception as error:
                wrong.append((stream_id, record, error))
        put = partial(insisted, streams.put, self._context)
        states = await together([partial(put, stream, stored=record) for stream, record in read.values()])
        for (stream, record), state in zip(read.values(), states, strict=True):
            if isinstance(state, Exception):
                wrong.append((stream.id, record, state))
                continue
            self.catalogue.add_stream(stream)
            with self._guard.around("taking up a stored mirror or sources"):
                self._context.neighbours.stream_changed(stream, state.last_seq)
        for stream_id, record, why in wrong:
            self._asides.stream(stream_id, record, why)

    async def _load_consumers(self, records: list[tuple[int, int, bytes]], removed: set[int]) -> None:
        """Some consumers; of streams that are there no more, none. What is wrong comes last, as with streams."""
        read: dict[tuple[int, str], tuple[Stream, Consumer, bytes]] = {}
        wrong: list[tuple[Stream, int, bytes, Exception]] = []
        for stream_id, consumer_id, record in records:
            self.catalogue.keep_ids(consumer=consumer_id)
            owner = self.catalogue.stream(stream_id)
            if stream_id in removed:
                continue
            if owner is None:
                self._waiting_consumers.append((stream_id, consumer_id, record))
                continue
            if owner.group is not None and not owner.lead:
                continue  # they come when this server leads (leads.py)
            try:
                name, created, config = read_consumer(record)
                if (stream_id, name) in read or name in owner.consumers:
                    raise ValueError(f"there are two consumers {name!r}")
                read[stream_id, name] = (owner, Consumer(consumer_id, name, config, created), record)
            except Exception as error:
                wrong.append((owner, consumer_id, record, error))
        put = partial(insisted, consumers.put, self._context)
        states = await together([partial(put, owner, one, stored=record) for owner, one, record in read.values()])
        for (owner, consumer, record), state in zip(read.values(), states, strict=True):
            if isinstance(state, t.PlaneError) and state.status == t.Status.CLOSED:
                continue  # another server leads the stream already
            if isinstance(state, Exception):
                wrong.append((owner, consumer.id, record, state))
            else:
                owner.add_consumer(consumer)
        for owner, consumer_id, record, why in wrong:
            self._asides.consumer(owner, consumer_id, record, why)

    def _load_templates(self, records: list[bytes]) -> None:
        """Serves stored templates of accounts that are known, which have their streams by now; the others wait."""
        self._waiting_templates = []
        for record in records:
            account = self.catalogue.by_name.get(names_in(record)[0])
            if account is None or not account.enabled:
                self._waiting_templates.append(record)
                continue
            try:
                self._make_templates().load(account, record)
            except Exception as error:
                self._log.warning(
                    f"a stream template of account {quoted(account.name)} stays on disk unserved: {reason_of(error)}",
                    event="template_set_aside",
                    account=account.name,
                )

    async def _remove_half(self, stream_id: int, record: bytes) -> bool:
        """The server ended while a backup became this stream. False: its account is not known yet."""
        account_name, name = names_in(record)
        account = self.catalogue.by_name.get(account_name)
        if account is None or not account.enabled:
            return False
        await streams.remove_unserved(self._plane, stream_id, name, record, account.id)
        self._log.warning(
            f"stream {quoted(name)} of account {quoted(account.name)} was being restored when the server ended: what "
            "there was of it is removed; restore it again",
            event="restore_cut_short",
            account=account.name,
            stream=name,
        )
        return True

    def _read_stream(self, stream_id: int, record: bytes) -> Stream | None:
        """A stored stream; None: its account is not known yet. Raises when it cannot be read."""
        account_name, created, config = read_stream(record)
        account = self.catalogue.by_name.get(account_name)
        if account is not None and account.enabled:
            return stored_stream(stream_id, account, created, config, record)
        self._waiting.append((stream_id, record))
        self._log.warning(
            f"stream {config.name!r} of account {account_name!r} stays on disk unserved: "
            "the configuration has no such account with JetStream",
            event="stream_set_aside",
            account=account_name,
            stream=config.name,
        )
        return None

    # ---- serving

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serves requests until cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self.passed_over.run)
            if self._templates is not None:
                nursery.start_soon(self._templates.run)
            await nursery.start(self._serving.run)
            task_status.started()
            try:
                await trio.sleep_forever()
            finally:
                self._nursery = None

    def _make_templates(self) -> Templates:
        if self._templates is None:
            from leafd.jetstream.endpoints.templates import Templates

            self._templates = Templates(self._context, self._log, self._guard)
            if self._nursery is not None:
                self._nursery.start_soon(self._templates.run)
        return self._templates

    def message(self, message: t.Message) -> bool:
        """A request of the subscription to SUBJECT in some account; for Plane.subscribe as its handler."""
        return self._serving.message(message)

    def guest(self, message: t.Message, guest: Guest) -> bool:
        """A request that came in the system account, of a client of a server without JetStream."""
        return self._serving.guest(message, guest)

    async def answer(
        self,
        account: JetStreamAccount,
        subject: str,
        header: bytes,
        body: bytes,
        asker: Asker = SERVER,
        everywhere: Everywhere | None = None,
    ) -> Answer | None:
        """The answer of this server to one request. None: no answer at all."""
        tokens = subject.removeprefix(API).split(".")
        line = find(tokens) if self._has_endpoint(account, tokens) else None
        if self._context.placing is not None and is_order(account, tokens):
            return Answer(await self._context.placing.order(tokens, body))
        if account.system and is_unheard(tokens, header):
            return None
        if account.system and tokens[:2] == ["ACCOUNT", "PURGE"] and len(tokens) == 3:
            return await self._purge(tokens[2])
        if account.system and tokens != ["INFO"]:
            error = errors.NOT_ENABLED_FOR_ACCOUNT.error().fields()
            return Answer({"type": f"{TYPE}system_response", "error": error}, error=True)
        if line is None:
            return None
        return await answer(line, Call(self._context, account, subject, tokens, header, body, asker, everywhere))

    def _has_endpoint(self, account: JetStreamAccount, tokens: list[str]) -> bool:
        """Whether the account may ask that: of templates nothing but to make one, until there has been one."""
        if tokens[:2] != ["STREAM", "TEMPLATE"]:
            return True
        if account.templates is None and (tokens[2:3] != ["CREATE"] or not account.enabled):
            return False
        self._make_templates()
        return True

    async def _purge(self, name: str) -> Answer:
        """All streams of an account go: an operator's order. Of an account that is not known there are none."""
        account = self.catalogue.by_name.get(name)
        if self.elsewhere is not None:
            return await self.elsewhere.purge(name)
        if account is not None:
            for template in list(account.templates or ()):
                await self.answer(account, f"{API}STREAM.TEMPLATE.DELETE.{template}", b"", b"")
        for stream in account.sorted_streams() if account is not None else ():
            await self.answer(stream.account, f"{API}STREAM.DELETE.{stream.name}", b"", b"")
        return Answer({"type": f"{TYPE}account_purge_response", "initiated": True})

    async def look(self, account: str, request: str) -> dict[str, Any]:
        """The members of the answer to a request without a body, for monitoring; none if it is refused."""
        known = self.catalogue.by_name.get(account)
        answered = await self.answer(known, f"{API}{request}", b"", b"") if known is not None else None
        return dict(answered.members) if answered is not None and not answered.error else {}

    async def order(self, account: str, request: str, body: dict[str, Any] | None = None) -> str:
        """Has something done for the server itself. The reason for which it was refused, or nothing."""
        known = self.catalogue.by_name.get(account)
        if known is None:
            return "its account is not served"
        payload = dump(body) if body is not None else b""
        answered = await (self.elsewhere or self).answer(known, f"{API}{request}", b"", payload, SERVER)
        if answered is not None and answered.after is not None:
            await answered.after()
        error = answered.members.get("error") if answered is not None else {"description": "no answer"}
        return str(error["description"]) if error else ""

    # ---- events of the plane

    def consumer_gone(self, event: t.ConsumerGone) -> None:
        """The plane removed an ephemeral that nobody used."""
        found, stream = self.catalogue.consumer(event.stream, event.consumer), self.catalogue.stream(event.stream)
        if found is not None:
            self.copiers.ended(*found, event.taken)
            consumers.removed(self._context, *found)
        elif stream is not None:
            stream.gone_early(event.consumer)

    def led(self, event: t.Led) -> None:
        """Goes to those who want it: this server leads a stream of several, or no more."""
        if self._leads is not None:
            self._leads.take(event)

    def named(self, stream: int) -> dict[str, str]:
        """The names of a stream and of its account, for the log; empty: it is not known."""
        found = self.catalogue.stream(stream)
        return {} if found is None else {"stream": found.config.name, "account": found.account.name}

    def alarm(self, event: t.Alarm) -> None:
        """The store found damage, of which stream is not always known; or it has room again."""
        if event.code == t.AlarmCode.DISK_OK:
            self.passed_over.epochs.room()
        stream = self.catalogue.stream(event.stream)
        if event.code == t.AlarmCode.CORRUPT and stream is not None:
            self._context.advisories.damage(stream, event)
        placing = self._context.placing
        if event.code == t.AlarmCode.SHARED and stream is not None and placing is not None:
            placing.copy_anew(stream)

    def allowance(self, event: t.Allowance) -> None:
        """An account's streams have come nearer to what they may have, or away from it: once for each crossing."""
        account = self.catalogue.accounts.get(event.account)
        if account is None:
            return
        kind, key = (FILE, "max_file") if event.storage == 0 else (MEMORY, "max_mem")
        self._context.advisories.usage(account, kind, event)
        if event.level == t.AllowanceLevel.BELOW:
            self.tight.pop((account.name, kind, event.tier), None)
        else:
            self.tight[account.name, kind, event.tier] = event.limit
        about = {"event": "account_storage", "account": account.name}
        kind, key = (kind, key) if not event.tier else (f"R{event.tier} {kind}", f"limits of the tier R{event.tier}")
        if event.level == t.AllowanceLevel.NEAR:
            self._log.warning(
                f"account {account.name} has {event.bytes} of the {event.limit} bytes that its {kind} streams may "
                f"have: beyond them what it publishes is refused; remove messages, or raise its {key}",
                **about,
            )
        elif event.level == t.AllowanceLevel.FULL:
            self._log.warning(
                f"account {account.name} has {event.bytes} of the {event.limit} bytes that its {kind} streams may "
                f"have: what does not fit is refused (10002); remove messages, or raise its {key}",
                **about,
            )

    def advisory(self, event: t.Advisory) -> None:
        """The plane tells of a message of a consumer, or of a batch of a stream."""
        if event.code == t.AdvisoryCode.BATCH_ABANDONED:
            stream = self.catalogue.stream(event.stream)
            if stream is not None:
                self._context.advisories.batch_abandoned(stream, event.text, event.consumer)
            return
        found = self.catalogue.consumer(event.stream, event.consumer)
        if found is not None and event.code == t.AdvisoryCode.PUT_BACK:
            self.passed_over.told(found[0], event.stream_seq, event.consumer_seq, certain=True)
        elif found is not None:
            self._context.advisories.plane_event(*found, event)


def _chunks(records: list[_Record]) -> Iterator[list[_Record]]:
    """All of them, so many at a time as the plane is asked for together."""
    return (records[begin : begin + LOADED_TOGETHER] for begin in range(0, len(records), LOADED_TOGETHER))
