"""An archive on its way into a stream.

The stream is made when the archive's state has come, without subjects and without retention; messages go into it in
bounded runs, each on disk before the next one; consumers come after them, so that nobody is served from half a stream.
Then it becomes the stream that was asked for; of several servers the others begin with it. What is cut short or damaged
leaves behind what had been restored up to there, as the reference does, as a stream like any other; what fails before
the state leaves nothing. A server that ends before the stream is there removes it at its next start, since its
definition says that it is half (catalogue.py).

What has come and is not stored yet is held against a share of memory_limit (holding.py): where the restores have all of
it, the one with the most is ended. One alone may hold whatever message has to be whole, and consumers up to a bound.
Not here: who sends it (restore.py), the archive's entries (archive.py; those of older servers: archive_tar.py), S2
(s2.py). Reference: tests/wire/jetstream.md, "Backup".
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import trio

from leafd import native_types as t
from leafd.gotime import now_ns
from leafd.jetstream import errors
from leafd.jetstream.backup import archive, s2
from leafd.jetstream.backup.archive import CONSUMER_WEIGHT, TAR_HEAD, ArchiveError, is_tar
from leafd.jetstream.backup.s2 import S2Error
from leafd.jetstream.catalogue import Consumer, JetStreamAccount, Stream, consumer_definition, stream_definition
from leafd.jetstream.context import Context
from leafd.jetstream.endpoints.consumers import check_beside
from leafd.jetstream.endpoints.infos import stream_info
from leafd.jetstream.endpoints.streams import (
    check_overlap,
    numbered,
    put,
    refused,
    shared_anew,
)
from leafd.jetstream.errors import ApiError
from leafd.jetstream.flat import flat_consumer, flat_stream
from leafd.jetstream.models.stream import StreamConfig
from leafd.jetstream.rules import consumer_rules as rules
from leafd.jetstream.rules.account_limits import check_new_stream, no_room
from leafd.jetstream.rules.versioning import static_consumer
from leafd.quoting import quoted
from leafd.turns import Pause, aside

if TYPE_CHECKING:
    from leafd.jetstream.backup.archive_tar import TarArchive

RUN_BYTES: Final = 256 << 10
_PREAMBLE: Final = len(archive.MAGIC)
_STATE_MAX: Final = 4 << 20
_CONSUMERS_MAX: Final = archive.CONSUMER_MAX  # bytes of all consumers' entries
_HEAD_MAX: Final = 64  # an entry's numbers are not longer
_SPACE_SECONDS: Final = 10.0
_STEP_SECONDS: Final = 0.02
_FREED_ROWS: Final = 2000
_LATER: Final = t.StreamFlag.SEALED | t.StreamFlag.DISCARD_NEW_PER_SUBJECT | t.StreamFlag.ALLOW_DIRECT
"""Flags that are off while the stream fills."""
FAILURE: Final = (ArchiveError, S2Error, ApiError, t.PlaneError)


def as_api_error(error: Exception) -> ApiError:
    """The error that a client gets for what ended its restore (FAILURE)."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, t.PlaneError):
        return refused(error, errors.STREAM_RESTORE)
    return errors.STREAM_RESTORE.error(err=error)


def _quoted(error: ApiError) -> str:
    fields = error.fields()
    return f"{fields['description']} ({fields['err_code']})"


class Restoring:
    """The archive on its way into a stream."""

    def __init__(
        self, context: Context, account: JetStreamAccount, config: StreamConfig, told: bytes, author: str
    ) -> None:
        self.config = replace(config, num_replicas=min(config.num_replicas, 1))
        """The stream's configuration while this server has it alone."""
        self._wanted = config
        self._author = author
        self.waiting = trio.CancelScope()  # of the task that waits for more of it
        self.gave_way = False
        self._told = told  # the request's state, which older archives do not have themselves
        self._old: TarArchive | None = None
        self._entries = bytearray()  # of an older archive, not stored yet
        self._context = context
        self._account = account
        self._reader = s2.Reader()
        self._data = bytearray()  # of the archive, not consumed yet
        self._begun = False  # the magic bytes have come
        self._state: archive.ArchivedState | None = None
        self._stream: Stream | None = None
        self._consumers: list[archive.ArchivedConsumer] = []
        self._consumer_bytes = 0
        self._left_out = 0  # messages
        self._needed = 0  # size of the message that the data begins with, as far as known
        self._ended = False
        self._too_much = False  # for what the account may store

    # ---- in

    async def feed(self, chunk: bytes) -> None:
        """Consumes a chunk, which may be thousands of times larger when it is unpacked: piece by piece, with pauses,
        and one restore at a time. What follows the archive's end is ignored."""
        pause, pieces = Pause(), self._reader.feed(chunk)
        while not self._ended:
            async with self._context.plane.archives.turn():
                self._go_on()
                piece = next(pieces, None)
                if piece is None or piece:
                    self._data += piece or b""
                    await self._advance(whole=piece is None)
                self._hold()
            if piece is None:
                return
            await pause()

    def give_way(self) -> None:
        """Ends it, now or where it goes on. Others hold more in their turn only: it waits for its own, where it finds
        nothing of these bytes."""
        self.gave_way = True
        self._drop()
        self._context.log.warning(
            f"the restore of stream {quoted(self.config.name)} of account {quoted(self._account.name)} was ended: "
            "restores have all of their share of memory_limit, and it had most of it",
            event="restore_ended",
            account=self._account.name,
        )
        self.waiting.cancel()

    def _drop(self) -> None:
        """Drops what is not stored yet."""
        self._data.clear()
        self._entries.clear()
        self._reader = s2.Reader()

    def _hold(self) -> None:
        """Counts what it has in memory. Raises ApiError where that is too much."""
        archives, state = self._context.plane.archives, self._state
        size = self._reader.held + len(self._data) + len(self._entries)
        optional = CONSUMER_WEIGHT * self._consumer_bytes + (self._old.held if self._old is not None else 0)
        archives.hold(self, size + optional)
        if state is not None and len(self._consumers) < state.consumers:
            optional += len(self._data)
        self._go_on()
        if archives.alone and optional > archives.alone:
            raise errors.INSUFFICIENT_RESOURCES.error()

    def _go_on(self) -> None:
        """Raises ApiError where it has given way."""
        if self.gave_way:
            raise errors.INSUFFICIENT_RESOURCES.error()

    async def finish(self) -> dict[str, Any]:
        """The archive has come: the info of the stream that it became."""
        async with self._context.plane.archives.turn():
            self._go_on()
            if not self._ended:
                self._reader.end()
            if not self._ended or self._stream is None or self._state is None:
                raise ArchiveError(self._cut_short())
            self._context.plane.archives.hold(self, 0)
            await self._context.plane.stream_pad(self._stream.id, self._state.last_seq)
            state, failure = await self._activate()
            if self._wanted.num_replicas > 1:
                state = await shared_anew(self._context, self._stream, self._wanted, self._author)
        if failure is not None:
            raise failure
        return await stream_info(self._context, self._stream, state, creating=True)

    def _cut_short(self) -> str:
        if self._begun:
            return archive.INVALID if self._data else "EOF"
        return "unexpected EOF" if self._data else "EOF"

    async def give_up(self) -> None:
        """Ends a restore that gets no more messages: those that are there become a stream, unless the account may not
        have it, or the archive is an older one, which as in the reference is restored whole or not at all. Quiet: the
        failure that led here has been told."""
        self._drop()
        if self._stream is None or self._stream.name in self._account.streams:
            return
        if self._too_much or self._old is not None:
            await self._forget(self._stream)
            return
        try:
            await self._activate()
        except FAILURE:
            await self._forget(self._stream)

    async def _forget(self, stream: Stream) -> None:
        """Forgets a stream that cannot even be left half full."""
        try:
            await self._context.plane.stream_remove(stream.id)
            if self._context.placing is not None:
                await self._context.placing.drop(self._account.name, stream.name, stream.created)
        except (t.PlaneError, ApiError):
            return

    async def _advance(self, *, whole: bool) -> None:
        """Goes on with what has come; whole: down to the last message that is there."""
        if not self._begun:
            if len(self._data) < _PREAMBLE:
                return
            if self._data[:_PREAMBLE] == archive.MAGIC:
                del self._data[:_PREAMBLE]
            elif len(self._data) < TAR_HEAD and not whole:
                return
            elif not is_tar(self._data):
                raise ArchiveError("archive/tar: invalid tar header")
            else:
                await self._begin_old()
            self._begun = True
        if self._old is not None:
            await self._advance_old(self._old)
            return
        if self._state is None:
            found = self._entry(_STATE_MAX)
            if found is None:
                return
            await self._begin(await aside(found.size, archive.read_state, found))
        assert self._state is not None
        while len(self._consumers) < self._state.consumers:
            found = self._entry(_CONSUMERS_MAX)
            if found is None:
                return
            self._consumer_bytes += found.size
            if self._consumer_bytes > _CONSUMERS_MAX:
                raise ArchiveError(f"consumers of more than {_CONSUMERS_MAX} bytes")
            self._hold()
            self._consumers.append(await aside(found.size, archive.read_consumer, found))
        await self._messages(whole=whole)

    async def _begin_old(self) -> None:
        """Begins an older archive, with the stream state of the request, as nats-server told it when it wrote the
        archive."""
        from leafd.jetstream.backup.archive_tar import TarArchive  # here: few ever have such an archive

        told = archive.Entry(archive.STATE, self._told, 0)
        state = archive.read_state(told)
        self._old = TarArchive(state.first_seq)
        await self._begin(state)

    async def _advance_old(self, old: TarArchive) -> None:
        while self._data and not old.ended:
            before = len(self._data)
            self._entries += await aside(before, old.take, self._data)
            self._hold()
            await self._store_entries()
            if len(self._data) == before:
                return
        if old.ended and not self._ended:
            if not old.of_stream:
                raise ArchiveError(archive.INVALID)
            self._ended = True
            self._data.clear()
            await self._remove(sorted(old.removed))
            self._consumers = old.consumers

    async def _store_entries(self) -> None:
        """All of them; they are whole."""
        needed = 0
        while self._entries:
            taken = await self._store(bytes(self._entries[: max(RUN_BYTES, needed)]))
            del self._entries[: taken.used]
            needed = taken.needed
            if taken.end or (not taken.used and not 0 < needed <= len(self._entries)):
                raise ArchiveError(archive.INVALID)

    async def _remove(self, sequences: list[int]) -> None:
        """Messages that were removed while others stood before and behind them."""
        assert self._stream is not None
        pause = Pause()
        for sequence in sequences:
            try:
                await self._context.plane.message_delete(self._stream.id, sequence)
            except t.PlaneError as error:
                if error.status != t.Status.NOT_FOUND:
                    raise
            await pause()

    def _entry(self, size_max: int) -> archive.Entry | None:
        found = archive.read_entry(self._data, size_max)
        if found is not None:
            del self._data[: found.size]
        return found

    # ---- the stream

    async def _begin(self, state: archive.ArchivedState) -> None:
        """Makes the stream that messages go into, with room for all of them set aside."""
        context, account, config = self._context, self._account, self.config
        if config.name in account.streams:
            raise errors.STREAM_NAME_EXIST_RESTORE_FAILED.error()
        needs = replace(config, max_bytes=max(config.max_bytes, min(state.bytes, (1 << 62) - 1)))
        account.taken.restored(config.name)  # or it would be in its own way
        try:
            check_new_stream(account, context.catalogue, context.settings, needs)
        finally:
            account.taken.restore(needs)
        try:
            async with account.lock:
                await check_overlap(account, config)
        except ApiError as error:
            if error.fields()["err_code"] != errors.STREAM_SUBJECT_OVERLAP.error().fields()["err_code"]:
                raise
            raise ArchiveError(f"error adding stream: {_quoted(error)}") from None

        async def attempt(number: int) -> Stream:
            stream = Stream(number, account, config, now_ns(), author=self._author)
            await context.plane.stream_put(
                stream.id,
                _filling(flat_stream(account.id, config), state.first_seq),
                name=stream.name,
                definition=stream_definition(stream, restoring=True),
                domain=context.settings.domain,
                subjects=(),
            )
            return stream

        self._stream = await numbered(context, attempt)
        self._state = state

    async def _messages(self, *, whole: bool) -> None:
        """Stores messages in runs of some size."""
        least = 1 if whole else RUN_BYTES
        while len(self._data) >= max(least, self._needed) and not self._ended:
            run = bytes(self._data[: max(RUN_BYTES, self._needed)])
            taken = await self._store(run)
            del self._data[: taken.used]
            self._needed = taken.needed
            self._ended = taken.end
            if self._ended:
                self._data.clear()
            elif taken.used == 0 and not taken.needed:
                return  # the numbers in front of a message are cut

    async def _store(self, run: bytes) -> t.Imported:
        """Stores one run of messages. While the store has no room for the first of them, it tries again."""
        assert self._stream is not None
        deadline = trio.current_time() + _SPACE_SECONDS
        while True:
            try:
                taken = await self._context.plane.stream_import(self._stream.id, run)
            except t.PlaneError as error:
                if error.status == t.Status.INVALID:
                    raise ArchiveError(str(error)) from None
                if error.status == t.Status.FULL:
                    self._too_much = True
                    raise no_room(self.config).error() from None
                if error.status != t.Status.NO_SPACE or trio.current_time() > deadline:
                    raise
            else:
                self._left_out += taken.left_out
                if taken.used or taken.needed or taken.end or len(run) < _HEAD_MAX:
                    return taken
                if trio.current_time() > deadline:
                    raise t.PlaneError(t.Status.NO_SPACE, "the store takes nothing")
            await self._context.plane.archives.away(_STEP_SECONDS)

    async def _activate(self) -> tuple[t.StreamState, ArchiveError | None]:
        """The stream takes its consumers and its configuration, and is there for everybody. Second: why a consumer of
        it is not."""
        assert self._stream is not None
        stream, context = self._stream, self._context
        failure: ArchiveError | None = None
        if context.placing is not None:
            await context.placing.claim(self._account.name, self.config, stream.created, self._author)
        while self._consumers:
            archived = self._consumers.pop(0)
            rows = list(archived.position.pending)
            try:
                await self._add_consumer(stream, archived)
            except (ApiError, t.PlaneError) as error:
                text = _quoted(error) if isinstance(error, ApiError) else str(error)
                failure = failure or ArchiveError(f'failed to add consumer "{archived.name}": {text}')
            del archived
            await _freed(rows)
        state = await put(context, stream)
        context.catalogue.add_stream(stream)
        context.advisories.stream(stream, "CREATED", "create")
        context.neighbours.stream_changed(stream, state.last_seq)
        if self._left_out:
            context.log.warning(
                f"stream {quoted(stream.name)} of account {quoted(stream.account.name)} was restored without "
                f"{self._left_out} messages of its archive, whose subjects are not valid",
                event="restored_in_part",
                account=stream.account.name,
            )
        return state, failure

    async def _add_consumer(self, stream: Stream, archived: archive.ArchivedConsumer) -> None:
        context = self._context
        config = archived.config
        if not config.durable_name:
            config = replace(config, name=config.name or archived.name)
        surroundings = context.for_consumers(stream)
        config = rules.with_defaults(static_consumer(config), surroundings, pedantic=False)
        rules.check(config, surroundings)
        await check_beside(context.settings, stream, config)
        name = config.durable_name or config.name
        consumer = Consumer(context.catalogue.new_consumer_id(), name, config, now_ns())
        await context.plane.consumer_import(
            stream.id,
            consumer.id,
            flat_consumer(stream.account.id, config),
            archived.position,
            name=name,
            definition=consumer_definition(consumer),
            deliver_subject=config.deliver_subject,
            deliver_group=config.deliver_group,
            backoff_ns=config.backoff,
            priority_groups=config.priority_groups,
            filters=config.filters,
        )
        stream.add_consumer(consumer)


async def _freed(rows: list[t.PendingEntry]) -> None:
    """Gives up the last hold of many rows: freeing 90,000 in one go would take the control thread 20 ms."""
    pause = Pause()
    while rows:
        del rows[-_FREED_ROWS:]
        await pause()


def _filling(flat: t.FlatStream, first_seq: int) -> t.FlatStream:
    """The stream while messages go into it: nothing is refused or removed that the archive has, but by its limits."""
    flat = replace(flat, flags=flat.flags & ~_LATER, retention=0, first_seq=max(first_seq, flat.first_seq, 1))
    if flat.discard:
        return replace(flat, discard=0, max_msgs=-1, max_bytes=-1)
    return flat
