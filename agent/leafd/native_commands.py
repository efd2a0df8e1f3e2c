"""The plane's commands as methods: what each packs and what its answer means.

Methods that are plain functions are orders without an answer; methods that are async wait for the plane's completion,
and for a change of the store that means: it is on disk. Orders take effect in the order of the calls. Numbers, bodies
and strings of the commands are in the table of native/command/command_table.c. What does not live here: packing
(native_packing.py), the rings (native_plane.py, which fills in the abstract methods at the end), and any decision.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from functools import partial

from leafd import native_types as t
from leafd.native import abi, layout
from leafd.native_packing import (
    Strings,
    as_bytes,
    consumer_state_in,
    consumer_strings,
    decoded,
    encoded,
    import_members,
    pack_pending,
    permission_lists,
    permission_strings,
    record_of,
    stream_state_in,
    vars_of,
)
from leafd.native_servers import Servers
from leafd.native_submits import Completion as Completion
from leafd.native_types import PlaneError, Status
from leafd.native_usage import Usage
from leafd.turns import ITEM_WEIGHT, aside


class Commands(Usage, Servers):
    """Every COMMAND_* of abi.h as a method."""

    def __init__(self) -> None:
        self._next_subscription = 1
        self._handlers: dict[int, t.Handler] = {}

    # ---- connections

    def listen(
        self,
        listener: int,
        fd: int,
        kind: t.ConnKind,
        *,
        secure: bool = False,
        web: bool = False,
        proxied: bool = False,
    ) -> None:
        """Hands a listening socket over; of one that is there only these change. Who comes is not read before its
        secure() (secure), speaks HTTP first (web), may begin with a PROXY protocol header (proxied)."""
        self._submit("LISTEN", target=listener, arg=fd, arg2=t.begins(kind, secure, web, proxied))

    async def put_tls(self, number: int, context: int) -> None:
        """Connections that come to get TLS by that number from now on get it by this context of make_tls(). 0: none."""
        await self._request("TLS", "a context of TLS", target=number, arg=context)

    def secure(
        self, connection: int, how: t.Secure, *, before: bytes = b"", behind: bytes = b"", name: str = ""
    ) -> None:
        """TLS begins, as a server or client by the context. before: said in plain text first; behind: said after a
        handshake that came first; name: as a client, the host whose certificate is expected."""
        self._submit("SECURE", target=connection, body=how, strings={"before": before, "behind": behind, "name": name})

    def unlisten(self, listener: int) -> None:
        """Stops accepting and closes the listening socket."""
        self._submit("UNLISTEN", target=listener)

    async def adopt(self, fd: int, kind: t.ConnKind, *, secure: bool = False, web: bool = False) -> int:
        """Hands a connected socket over (the plane owns the fd); returns the connection id. EVENT_OPENED comes too.
        secure: it is not read before secure() is called. web: it speaks HTTP first."""
        done = await self._request("ADOPT", "adopting a connection", arg=fd, arg2=t.begins(kind, secure, web))
        return done.arg

    def upgrade(self, connection: int, kind: t.ConnKind, flags: t.WebFlag, answer: bytes = b"") -> None:
        """Behind a Line of kind HTTP: answers a request, then the connection speaks WebSocket and is of that kind."""
        self._submit("UPGRADE", target=connection, arg=int(flags), arg2=int(kind), body=answer)

    def compress(self, connection: int, how: t.Compress, *, before: bytes = b"", behind: bytes = b"") -> None:
        """Behind a Line of kind INFO: the link is an S2 stream from here on. Of one that is so: another level."""
        self._submit("COMPRESS", target=connection, body=how, strings={"before": before, "behind": behind})

    def send(self, connection: int, frame: bytes) -> None:
        """Queues a control frame (a whole line with CRLF)."""
        self._submit("SEND", target=connection, body=frame)

    def welcome(self, listener: int, how: t.Secure | None, before: bytes, behind: bytes = b"") -> None:
        """As secure(), of all who come to a listener from now on, without an order for each; before empty: no more."""
        strings = {"before": before, "behind": behind}
        self._submit("WELCOME", target=listener, body=how or t.Secure(0), strings=strings)

    def know(
        self, connect: bytes, account: int, verdict: t.ConnVerdict, permissions: t.Permissions, after_pong: bytes
    ) -> None:
        """As admit(), of all who were welcomed and send this CONNECT, until forget_logins()."""
        strings = {"connect": connect, "after_pong": after_pong} | permission_strings(permissions)
        self._submit("KNOW", account=account, body=verdict, strings=strings)

    def forget_logins(self) -> None:
        """No login is known any more."""
        self._submit("FORGET")

    def tell_author(
        self, ticket: int, verdict: t.ConnVerdict, permissions: t.Permissions | None, *, link: bool
    ) -> None:
        """The answer to an Author event: what it may do, as who logs in with that; None: nothing."""
        lists = permissions or t.Permissions()
        strings = permission_lists(lists) | {"mapped_deny": lists.mapped_deny}
        rights = (abi.AUTHOR_MAY if permissions is not None else 0) | (abi.AUTHOR_LINK if link else 0)
        self._submit("AUTHOR", arg=ticket, arg2=rights, body=verdict, strings=strings)

    def forget_authors(self) -> None:
        """Answers to Author events do not count any more."""
        self._submit("AUTHORS_FORGET")

    def nudge(self) -> None:
        """Makes the plane tick: a command that has no effect."""
        self._submit("RESUME", target=0)

    def describe(self, connection: int, description: t.Description) -> None:
        """What is told of it where everything is to be told. Before it is admitted, or anew."""
        parts = {name: getattr(description, name) for name in ("before", "between", "place", "behind")}
        self._submit("DESCRIBE", target=connection, strings=parts)

    def resume(self, connection: int) -> None:
        """Goes on reading after a Line event that needs no verdict."""
        self._submit("RESUME", target=connection)

    def close_connection(self, connection: int, text: str = "", reason: int = t.CloseReason.CLIENT) -> None:
        """Sends -ERR 'text' (unless empty) and closes."""
        self._submit("CLOSE", target=connection, arg=int(reason), body=as_bytes(text))

    def admit(
        self, connection: int, account: int, verdict: t.ConnVerdict, permissions: t.Permissions, after_pong: bytes
    ) -> None:
        """Admits a client; after_pong is sent behind its first PONG (the second INFO), empty = nothing."""
        strings = {"after_pong": after_pong} | permission_strings(permissions)
        self._submit("ADMIT", target=connection, account=account, body=verdict, strings=strings)

    async def change_rights(
        self, connection: int, account: int, verdict: t.ConnVerdict, permissions: t.Permissions, after_pong: bytes
    ) -> int:
        """Other rights for an admitted client of the same account; returns how many of its subscriptions went. Raises
        PlaneError: NOT_FOUND when it is gone or at its login again, otherwise the plane has closed it."""
        done = await self._request(
            "RIGHTS",
            f"changing the rights of connection {connection}",
            target=connection,
            account=account,
            body=verdict,
            strings={"after_pong": after_pong} | permission_strings(permissions),
        )
        return done.arg

    def admit_leaf(
        self,
        connection: int,
        account: int,
        verdict: t.ConnVerdict,
        permissions: t.Permissions,
        *,
        cluster: str,
        loop_subject: str,
        remote_domain: str,
    ) -> None:
        """Binds a leaf link to an account: interest is exchanged from here on."""
        names: Strings = {"cluster": cluster, "loop_subject": loop_subject, "remote_domain": remote_domain}
        lists = permission_strings(permissions) | {"mapped_deny": permissions.mapped_deny}
        self._submit(
            "ADMIT_LEAF",
            target=connection,
            account=account,
            body=verdict,
            strings={**names, **lists},
        )

    def broadcast(self, template: bytes, *, plain: bool = False) -> None:
        """An INFO line, in which the plane fills in number and address, to each admitted client that speaks protocol 1.
        plain: not over WebSocket."""
        self._submit("BROADCAST", arg=int(plain), body=template)

    async def connections(self) -> list[t.ConnectionRow]:
        """Counters of every connection."""
        done = await self._request("CONNECTIONS", "listing connections")

        def decode() -> list[t.ConnectionRow]:
            return [record_of(t.ConnectionRow, row) for row in layout("connection_row_t").rows(done.payload)]

        return await aside(len(done.payload), decode)

    async def subscriptions(self, connection: int, place: int) -> t.SubscriptionSlice:
        """Some subscriptions of a connection, from a place in its table on."""
        done = await self._request("SUBSCRIPTIONS", "listing subscriptions", target=connection, arg=place)
        return t.SubscriptionSlice(tuple(t.subscription_rows(done.payload)), done.arg)

    def set_limits(self, limits: t.Limits) -> None:
        """The live ones of the limits take effect."""
        self._submit("LIMITS", body=limits)

    # ---- accounts

    def account(self, account: int, name: str, domain: str, flags: int) -> None:
        """Makes or changes an account."""
        self._submit("ACCOUNT", account=account, arg=int(flags), strings={"name": name, "domain": domain})

    def allow(self, account: int, file: int, memory: int) -> None:
        """How many bytes the account's streams may have from now on; -1: no limit."""
        self._submit("ALLOW", account=account, body=encoded("allowed_t", {"file": file, "memory": memory}))

    def traces(self, account: int, destination: str, sampling: int) -> None:
        """Where the account is told what became of messages with traceparent; empty: nowhere."""
        self._submit("TRACES", account=account, arg=sampling, strings={"destination": destination})

    def set_mappings(self, account: int, mappings: Iterable[tuple[str, Iterable[tuple[str, int]]]]) -> None:
        """All mappings of an account, in place of those it had: each source with its destinations, and the share of a
        hundred that a draw must be below for it."""
        texts: list[str] = []
        for source, choices in mappings:
            texts += [source, *(text for subject, below in choices for text in (subject, str(below))), ""]
        self._submit("MAPPING", account=account, strings={"mappings": texts})

    def imports(self, account: int, rows: Iterable[t.ImportRow]) -> None:
        """What the account imports from now on, in place of what it imported before."""
        rows = tuple(rows)
        body = b"".join(encoded("import_row_t", import_members(row)) for row in rows)
        texts = (text for row in rows for text in (row.subject, row.local, bytes(row.order), row.results, row.mark))
        self._submit("IMPORTS", account=account, body=body, strings={"rows": tuple(texts)})

    def subscribe(
        self, account: int, subject: str, handler: t.Handler, *, queue: str = "", flags: int = 0, link: int = 0
    ) -> int:
        """Control subscription: `handler` is called by the pump with each message. link: the only link that is told of
        it; 0: all are. Returns the subscription id."""
        subscription = self._next_subscription
        self._next_subscription += 1
        self._handlers[subscription] = handler
        strings = {"subject": subject, "queue": queue}
        self._submit("SUBSCRIBE", account=account, target=subscription, arg=int(flags), arg2=link, strings=strings)
        return subscription

    def unsubscribe(self, account: int, subscription: int) -> None:
        """Ends a control subscription; its handler is not called again."""
        self._handlers.pop(subscription, None)
        self._submit("UNSUBSCRIBE", account=account, target=subscription)

    def publish(
        self, account: int, subject: str, payload: bytes, *, reply: str = "", header: bytes = b"", flags: int = 0
    ) -> None:
        """Publishes from inside into an account."""
        strings: Strings = {"subject": subject, "reply": reply, "header": header}
        self._submit("PUBLISH", account=account, arg=int(flags), body=payload, strings=strings)

    async def publish_counted(
        self, account: int, subject: str, payload: bytes, *, reply: str = "", header: bytes = b"", flags: int = 0,
        link: int = 0,
    ) -> int:  # fmt: skip
        """As publish(); returns how many took it (a leaf link counts as one). link: out by it, if nobody did."""
        strings: Strings = {"subject": subject, "reply": reply, "header": header}
        flagged = {"account": account, "arg": int(flags), "arg2": link}
        done = await self._request("PUBLISH", "publishing", **flagged, body=payload, strings=strings)
        return done.arg

    # ---- streams

    async def stream_put(
        self,
        stream: int,
        config: t.FlatStream,
        *,
        name: str,
        definition: bytes,
        domain: str,
        subjects: Iterable[str],
        transform: tuple[str, str] = ("", ""),
        republish: tuple[str, str] = ("", ""),
        loading: bool = False,
    ) -> t.StreamState:
        """Creates, updates or (loading) takes up a stored stream. definition is kept verbatim as the durable record.
        transform, republish: source and destination; an empty destination is none."""
        strings: Strings = {
            "name": name,
            "definition": definition,
            "domain": domain,
            "source": transform[0],
            "destination": transform[1],
            "republish_source": republish[0],
            "republish_destination": republish[1],
            "subjects": tuple(subjects),
        }
        done = await self._request(
            "STREAM_PUT",
            f"stream {name}",
            account=config.account,
            target=stream,
            arg=int(loading),
            body=config,
            strings=strings,
        )
        return stream_state_in(done.payload)

    async def stream_remove(self, stream: int) -> None:
        """Removes a stream with its consumers, messages and records."""
        await self._request("STREAM_REMOVE", "removing a stream", target=stream)

    async def stream_state(
        self, stream: int, *, subjects_filter: str = "", deleted: bool = False, offset: int = 0
    ) -> t.StreamState:
        """Counters, and on request the deleted sequences and the count per subject."""
        done = await self._request(
            "STREAM_STATE",
            "reading a stream's state",
            target=stream,
            arg=int(deleted),
            arg2=offset,
            strings={"filter": subjects_filter},
        )
        decode = partial(stream_state_in, done.payload, lists=True, deleted=deleted)
        return await aside(len(done.payload), decode)

    async def stream_purge(self, stream: int, *, subject: str = "", sequence: int = 0, keep: int = 0) -> int:
        """Purges; returns how many messages went."""
        done = await self._request(
            "STREAM_PURGE",
            "purging a stream",
            target=stream,
            arg=sequence,
            arg2=keep,
            strings={"filter": subject},
        )
        return done.arg

    async def message_get(
        self, stream: int, mode: int, *, sequence: int = 0, start_ts: int = 0, subject: str = ""
    ) -> t.StoredMessage | None:
        """One stored message by QUERY_* mode, or None."""
        query = encoded("message_query_t", {"sequence": sequence, "start_ts": start_ts, "mode": mode})
        try:
            done = await self._request(
                "MESSAGE_GET",
                "reading a message",
                target=stream,
                body=query,
                strings={"subject": subject},
            )
        except PlaneError as error:
            if error.status == Status.NOT_FOUND:
                return None
            raise
        return t.StoredMessage(done.arg, done.arg2, done.subject, done.header, done.payload)

    async def message_delete(self, stream: int, sequence: int) -> bool:
        """Deletes one message; False when it was not there."""
        try:
            await self._request("MESSAGE_DELETE", "deleting a message", target=stream, arg=sequence)
        except PlaneError as error:
            if error.status == Status.NOT_FOUND:
                return False
            raise
        return True

    # ---- consumers

    async def consumer_put(
        self,
        stream: int,
        consumer: int,
        config: t.FlatConsumer,
        *,
        name: str,
        definition: bytes,
        deliver_subject: str = "",
        deliver_group: str = "",
        backoff_ns: Iterable[int] = (),
        priority_groups: Iterable[str] = (),
        filters: Iterable[str] = (),
        loading: bool = False,
    ) -> t.ConsumerState:
        """Creates, updates or (loading) takes up a consumer; the answer is its state before any delivery."""
        done = await self._request(
            "CONSUMER_PUT",
            f"consumer {name}",
            account=config.account,
            target=stream,
            arg=consumer,
            arg2=int(loading),
            body=config,
            strings=consumer_strings(
                name, definition, deliver_subject, deliver_group, backoff_ns, priority_groups, filters
            ),
        )
        return consumer_state_in(done.payload)

    async def consumer_remove(self, stream: int, consumer: int) -> None:
        """Removes a consumer and its records."""
        await self._request("CONSUMER_REMOVE", "removing a consumer", target=stream, arg=consumer)

    async def consumer_state(self, stream: int, consumer: int) -> t.ConsumerState:
        """Positions and counts, now."""
        done = await self._request("CONSUMER_STATE", "reading a consumer's state", target=stream, arg=consumer)
        return consumer_state_in(done.payload)

    async def consumer_pause(self, stream: int, consumer: int, until_wall_ns: int) -> None:
        """Pauses until a wall time; 0 resumes."""
        await self._request("CONSUMER_PAUSE", "pausing a consumer", target=stream, arg=consumer, arg2=until_wall_ns)

    async def consumer_begin(self, stream: int, consumer: int) -> None:
        """One that was put with ConsumerFlag.HELD, or reset, may deliver."""
        await self._request("CONSUMER_BEGIN", "beginning to deliver", target=stream, arg=consumer)

    async def consumer_spare(self, stream: int, consumer: int, interval_ns: int) -> None:
        """Has its idle heartbeats come so seldom for as long as somebody subscribes, who is told of its removal."""
        await self._request("CONSUMER_SPARE", "sparing heartbeats", target=stream, arg=consumer, arg2=interval_ns)

    async def consumer_unpin(self, stream: int, consumer: int) -> None:
        """The pinned client, if there is one, is so no longer."""
        await self._request("CONSUMER_UNPIN", "unpinning a client", target=stream, arg=consumer)

    async def consumer_reset(self, stream: int, consumer: int, sequence: int) -> tuple[int, t.ConsumerState]:
        """Moves a consumer back; 0 = ack floor + 1. Returns the sequence and the state."""
        done = await self._request("CONSUMER_RESET", "resetting a consumer", target=stream, arg=consumer, arg2=sequence)
        return done.arg, consumer_state_in(done.payload)

    # ---- backup

    async def interest(self, account: int, subject: str) -> int:
        """How many subscribe to that very subject, without wildcards."""
        done = await self._request("INTEREST", "looking for subscribers", account=account, strings={"subject": subject})
        return done.arg

    async def reaches(self, account: int, subject: str) -> bool:
        """Whether anybody would get a message, here or over a link."""
        done = await self._request(
            "INTEREST", "looking for subscribers", account=account, arg=1, strings={"subject": subject}
        )
        return bool(done.arg)

    async def stream_export(self, stream: int, first: int, last: int) -> tuple[bytes, int]:
        """Some messages as archive entries, and the sequence to go on from (0 = that was all)."""
        done = await self._request("STREAM_EXPORT", "reading messages", target=stream, arg=first, arg2=last)
        return done.payload, done.arg

    async def stream_import(self, stream: int, entries: bytes) -> t.Imported:
        """Stores what is whole of a run of archive entries. Raises PlaneError with the reason for a refusal."""
        done = await self._request("STREAM_IMPORT", "storing messages", target=stream, body=entries)
        needed = int.from_bytes(done.payload[:8], "little")
        end = needed == abi.IMPORT_END
        return t.Imported(done.arg, 0 if end else needed, end, int.from_bytes(done.payload[8:16], "little"))

    async def stream_pad(self, stream: int, last: int) -> None:
        """Takes every sequence up to the last one, without messages."""
        await self._request("STREAM_IMPORT", "taking sequences", target=stream, arg=last)

    async def consumer_export(self, stream: int, consumer: int) -> t.Position:
        """Where a consumer stands, with what is in flight."""
        size = layout("consumer_state_t").size
        rows: list[t.PendingEntry] = []
        after = 0
        while True:
            done = await self._request(
                "CONSUMER_EXPORT", "reading a consumer's position", target=stream, arg=consumer, arg2=after
            )
            rows += [record_of(t.PendingEntry, row) for row in layout("pending_entry_t").rows(done.payload[size:])]
            after = done.arg
            if after == 0:
                break
        state = decoded("consumer_state_t", done.payload, t.ConsumerState)
        return t.Position(
            state.delivered_consumer, state.delivered_stream, state.floor_consumer, state.floor_stream, tuple(rows)
        )

    async def consumer_import(
        self,
        stream: int,
        consumer: int,
        config: t.FlatConsumer,
        position: t.Position,
        *,
        name: str,
        definition: bytes,
        deliver_subject: str = "",
        deliver_group: str = "",
        backoff_ns: Iterable[int] = (),
        priority_groups: Iterable[str] = (),
        filters: Iterable[str] = (),
    ) -> None:
        """Makes a consumer that stands where another one stood."""
        sequences = {one.name: getattr(position, one.name) for one in fields(position) if one.name != "pending"}
        body = encoded("consumer_config_t", vars_of(config)) + encoded("consumer_state_t", sequences)
        body += await aside(len(position.pending) * ITEM_WEIGHT, pack_pending, position.pending)
        await self._request(
            "CONSUMER_IMPORT",
            f"consumer {name}",
            account=config.account,
            target=stream,
            arg=consumer,
            body=body,
            strings=consumer_strings(
                name, definition, deliver_subject, deliver_group, backoff_ns, priority_groups, filters
            ),
        )

    # ---- ingest of mirrors and sources

    async def ingest_start(
        self,
        stream: int,
        slot: int,
        *,
        mirror: bool,
        durable_behind: int | None,
        last_sequence: int,
        silence_ns: int,
        deliver_subject: str,
        consumer: str,
        source: t.IngestSource,
        transforms: Iterable[tuple[str, str]] = (),
        link: int = 0,
        origin: int = 0,
        alone: bool = False,
        by_time: bool = False,
        pending: int | None = None,
        spared: bool = False,
    ) -> None:
        """Takes up what arrives on deliver_subject. durable_behind: the origin sequence that a durable consumer is
        behind; None when the consumer was made for this start, by_time: at what is newer than what was taken.
        transforms: source and destination of each; the first for a message's subject renames it. link, origin: the
        connection that its messages come by, if known, and that answered, 0: this server. alone: no other link is told
        that they are wanted. pending: how many waited when the consumer was made, if known. spared: its end is told."""
        config = encoded(
            "ingest_config_t",
            {
                "mirror": int(mirror),
                "durable": int(durable_behind is not None),
                "last_sequence": last_sequence,
                "silence_ns": silence_ns,
                "delivered_sequence": durable_behind or 0,
                "link": link,
                "origin": origin,
                "by_time": int(by_time),
                "pending_known": int(pending is not None),
                "pending": pending or 0,
                "alone": int(alone),
                "spared": int(spared),
            },
        )
        strings: Strings = {
            "deliver_subject": deliver_subject,
            "consumer": consumer,
            "name": source.name,
            "filters": source.filters,
            "destinations": source.destinations,
            "identity": source.identity,
            "key": source.key,
            "transforms": tuple(text for pair in transforms for text in pair),
        }
        await self._request(
            "INGEST_START",
            "starting an ingest",
            target=stream,
            arg=slot,
            body=config,
            strings=strings,
        )

    async def ingest_stop(self, stream: int, slot: int) -> t.IngestState:
        """Takes nothing more; stored progress stays. Returns where it ended."""
        done = await self._request("INGEST_STOP", "stopping an ingest", target=stream, arg=slot)
        return decoded("ingest_state_t", done.payload, t.IngestState)

    async def ingest_state(self, stream: int, slot: int) -> t.IngestState:
        """Progress and lag of one slot."""
        done = await self._request("INGEST_STATE", "reading an ingest's state", target=stream, arg=slot)
        return decoded("ingest_state_t", done.payload, t.IngestState)

    async def ingest_forget(self, stream: int, key: str) -> None:
        """Drops the stored progress of a source key."""
        await self._request("INGEST_FORGET", "forgetting a source", target=stream, strings={"key": key})

    # ---- records of the control side

    async def record_put(self, key: bytes, value: bytes) -> None:
        """Stores a small record, or with no value removes it; returns when that is on disk."""
        await self._request("RECORD_PUT", "writing a record", strings={"key": key, "value": value})
