"""News of a stream for a copy of it elsewhere that asks for its consumer: where it ends, which start of the server
stored what, and so whether the store was put back from an old copy.

Not here: consumers (consumers.py), what a copy makes of it (links/replica.py), copies that say themselves how far they
are (native/consume/copy.h).
"""

from __future__ import annotations

from typing import Final

from leafd import native_types as t
from leafd.jetstream.catalogue import Stream
from leafd.jetstream.models.consumer import DELIVER_BY_START_SEQUENCE, ConsumerConfig
from leafd.jetstream.registry import Call
from leafd.jetstream.rules.versioning import (
    EPOCH_HEADER,
    EPOCHS_HEADER,
    NEW_HEADER,
    POSITION_HEADER,
    TAKEN_HEADER,
    header_value,
)
from leafd.lineage import behind, parts, text_of

SEQUENCE_MAX: Final = 2**64 - 1
SEQUENCE_DIGITS_MAX: Final = 20


def _number(word: bytes) -> int | None:
    return min(int(word), SEQUENCE_MAX) if word.isdigit() and len(word) <= SEQUENCE_DIGITS_MAX else None


def _taken(call: Call) -> int | None:
    """The sequence that the puller took last; None: it does not say."""
    return _number(header_value(call.header, TAKEN_HEADER))


def _asked_epoch(call: Call) -> tuple[int, str] | None:
    """The sequence that the puller took last, and the epoch of that, which it may not know; None: it does not say."""
    words = header_value(call.header, EPOCH_HEADER).split()
    sequence = _number(words[0]) if words else None
    return None if sequence is None else (sequence, b"".join(words[1:2]).decode("utf-8", "replace"))


async def tell_epochs(call: Call, stream: Stream) -> None:
    """A puller that asks for the epochs of the stream hears them, from the one on that it has come to."""
    asked = _asked_epoch(call)
    if asked is None or not call.reply_header:
        return
    context, (taken, epoch) = call.context, asked
    ends = (await context.plane.stream_state(stream.id)).last_seq
    lineage = await context.passed_over.epochs.comes(stream)
    if lineage is not None:
        if parts(lineage, taken, epoch):
            _say_put_back(call, stream, ends, taken)
        line = b"%s: %s\r\n\r\n" % (EPOCHS_HEADER, text_of(behind(lineage, epoch)).encode())
        call.reply_header = call.reply_header.removesuffix(b"\r\n") + line


async def tell_position(call: Call, stream: Stream, config: ConsumerConfig) -> None:
    """A puller that says what it took last hears where the stream ends, and what stamp that message has. If this store
    was put back from an old copy, one of them is not what the puller knows. If it asks by time, since it knows that, it
    hears behind which sequence all is new to it."""
    taken = _taken(call)
    if not call.reply_header or taken is None:
        return
    plane = call.context.plane
    state = await plane.stream_state(stream.id)
    message = await plane.message_get(stream.id, t.Query.SEQUENCE, sequence=taken) if taken <= state.last_seq else None
    position = b"%s: %d %d\r\n\r\n" % (POSITION_HEADER, state.last_seq, message.ts if message is not None else 0)
    new = await _new_behind(call, stream, config, taken)
    call.reply_header = call.reply_header.removesuffix(b"\r\n") + new + position
    if taken > state.last_seq:
        _say_put_back(call, stream, state.last_seq, taken)


def _say_put_back(call: Call, stream: Stream, ends: int, taken: int) -> None:
    if stream.told_put_back:
        return
    stream.told_put_back = True
    call.context.log.warning(
        f"{stream.config.name} ends at sequence {ends}, and a copy of it elsewhere has other messages up to {taken}:"
        " this store was put back to an earlier state",
        event="put_back_behind_copy",
        account=stream.account.name,
        stream=stream.config.name,
    )


async def look_at_start(call: Call, stream: Stream, config: ConsumerConfig) -> None:
    """A copy that does not say what it took last (nats-server's) asks for what comes behind that. The first one to ask
    since the start has nothing of this process: what it has beyond what this store may have given is of a newer one.
    A copy that says it, and is further, will ask anew, by time or behind a lower sequence: before that nothing newer
    counts as given. So will one that says an epoch, and without it if none that it hears of is known to it."""
    if not (config.direct or config.sourcing):
        return
    given, taken, asked = stream.given_upto, _taken(call), _asked_epoch(call)
    taken = asked[0] if taken is None and asked is not None and asked[1] else taken
    begins = config.opt_start_seq if config.deliver_policy == DELIVER_BY_START_SEQUENCE else 0
    if given is not None and stream.group is None:
        if taken is not None and begins and taken > given and not stream.known:
            return
        if taken is None and begins > given + 1 and not stream.copied:
            call.context.passed_over.told(stream, begins - 1, given, certain=False)
            await call.context.passed_over.write()
    stream.copied = True
    await call.context.passed_over.given.comes(stream)


async def _new_behind(call: Call, stream: Stream, config: ConsumerConfig, taken: int) -> bytes:
    """The header that says so, where by its stamps less would be new: a machine without a clock has an old time until
    it is told today's. A copy that has come no further than this store may have given when it began knows it as it is.
    A copy may then have taken what this process has stored, as before a virtual machine was put back with its memory.
    """
    given = stream.given_upto
    copies = stream.config.mirror is not None or stream.config.sources
    if given is None or stream.group is not None or copies or stream.known:
        return b""
    if taken <= given:
        stream.known = True
        return b""
    if config.deliver_policy != "by_start_time" or config.opt_start_time is None:
        return b""
    plane = call.context.plane
    first = await plane.message_get(stream.id, t.Query.NEXT_BY_SUBJECT, sequence=given + 1, subject=">")
    if first is not None and first.ts >= config.opt_start_time:
        return b""  # where nothing is new yet, it may come before the consumer is made
    return b"%s: %d\r\n" % (NEW_HEADER, given)
