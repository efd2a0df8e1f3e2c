"""Consumers: create in all its forms, info, names, list, delete, pause, reset, unpin.

Not here: what a configuration may be (consumer_rules.py), what copies of a stream hear (positions.py), pull requests
(the plane answers MSG.NEXT).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from secrets import choice
from string import ascii_letters, digits
from typing import Any, Final

from leafd import native_types as t
from leafd.cluster.consumers import replicas_of
from leafd.gotime import SECOND, ZERO_TIME, format_time, now_ns, plane_time, until as time_until
from leafd.jetstream import errors, group_events
from leafd.jetstream.catalogue import Consumer, Settings, Stream, consumer_definition
from leafd.jetstream.context import Context
from leafd.jetstream.copiers import is_of_a_copy
from leafd.jetstream.endpoints import streams
from leafd.jetstream.endpoints.infos import consumer_info, group_of
from leafd.jetstream.endpoints.pages import cut, page_of, texts_size
from leafd.jetstream.endpoints.positions import look_at_start, tell_epochs, tell_position
from leafd.jetstream.endpoints.streams import LIST_LIMIT, LISTED_WEIGHT, NAMES_LIMIT, check_led, gathered, refused
from leafd.jetstream.flat import flat_consumer
from leafd.jetstream.models.consumer import (
    ACK_EXPLICIT,
    DELIVER_ALL,
    DELIVER_BY_START_SEQUENCE,
    DELIVER_BY_START_TIME,
    ConsumerConfig,
)
from leafd.jetstream.models.requests import (
    ACTION_CREATE,
    ACTION_UPDATE,
    ConsumerCreateRequest,
    ConsumersRequest,
    PauseRequest,
    ResetRequest,
    UnpinRequest,
)
from leafd.jetstream.models.stream import WORKQUEUE
from leafd.jetstream.registry import BODY_FIRST, Body, Call, Check, Counted, Lock, endpoint
from leafd.jetstream.rules import consumer_rules as rules
from leafd.jetstream.rules.consumer_create import wanted_consumer
from leafd.jetstream.rules.versioning import (
    HEARTBEAT_HEADER,
    IDENTITY_HEADER,
    comparable,
    has_header,
    header_value,
    static_consumer,
    stream_identity,
)
from leafd.jetstream.subjects import SubjectSet
from leafd.turns import ITEM_WEIGHT, Pause, aside

_ALPHABET: Final = digits + ascii_letters
HEARTBEAT_DIGITS_MAX: Final = 4
_NO_PAGE: Final = {"total": 0, "offset": 0, "limit": 0}


def random_name() -> str:
    """A name for a consumer that came without one."""
    return "".join(choice(_ALPHABET) for _ in range(8))


async def put(
    context: Context, stream: Stream, consumer: Consumer, *, stored: bytes = b"", held: bool = False
) -> t.ConsumerState:
    """Makes the plane hold the consumer as it is described; the state is from before any delivery. stored: its
    definition, at start. held: a new one delivers nothing before _begin()."""
    config = consumer.config
    flat = flat_consumer(stream.account.id, config)
    if stream.group is not None:  # one in memory is to outlive a change of the leader, as with nats-server
        flat = replace(flat, flags=flat.flags & ~t.ConsumerFlag.MEMORY)
    if held:
        flat = replace(flat, flags=flat.flags | t.ConsumerFlag.HELD)
    definition = stored or await aside(consumer.weight, consumer_definition, consumer)
    with stream.coming(consumer):
        return await context.plane.consumer_put(
            stream.id,
            consumer.id,
            flat,
            name=consumer.name,
            definition=definition,
            deliver_subject=config.deliver_subject,
            deliver_group=config.deliver_group,
            backoff_ns=config.backoff,
            priority_groups=config.priority_groups,
            filters=config.filters,
            loading=bool(stored),
        )


_CREATE: Final = "consumer_create_response"


@endpoint(
    "CONSUMER.DURABLE.CREATE.*.*", _CREATE, ConsumerCreateRequest, body=Body.PARSED, checks=BODY_FIRST, lock=Lock.STREAM
)
@endpoint("CONSUMER.CREATE.*", _CREATE, ConsumerCreateRequest, body=Body.PARSED, checks=BODY_FIRST, lock=Lock.STREAM)
@endpoint("CONSUMER.CREATE.*.>", _CREATE, ConsumerCreateRequest, body=Body.PARSED, checks=BODY_FIRST, lock=Lock.STREAM)
async def create(call: Call, request: ConsumerCreateRequest) -> dict[str, Any]:
    """Makes a consumer, or updates the one of that name."""
    wanted = wanted_consumer(call.tokens, request)
    context, config = call.context, wanted.config
    stream = _served(call, wanted.stream)
    if config.num_replicas > 1 and stream.group is None:
        raise errors.STREAM_REPLICAS_NOT_SUPPORTED.error()
    config = wanted.for_stream(stream.config, random_name)
    _check_identity(call, stream, config)
    await tell_position(call, stream, config)
    await look_at_start(call, stream, config)
    await tell_epochs(call, stream)
    name = config.durable_name or config.name
    if name in stream.aside:
        raise errors.CONSUMER_OFFLINE_REASON.error(err=stream.aside[name].reason)
    existing, before = stream.consumers.get(name), None
    if existing is not None and (before := await _state(context, stream, existing)) is None:
        removed(context, stream, existing)
        existing = None
    if existing is not None:
        config = _kept(existing, config)
    surroundings = context.for_consumers(stream)
    config = rules.with_defaults(static_consumer(config), surroundings, pedantic=request.pedantic)
    await aside(len(call.body) + ITEM_WEIGHT * len(stream.config.subjects), rules.check, config, surroundings)
    if existing is not None and before is not None:
        state = await _update(call, stream, existing, config, request.action, before)
        context.copiers.begun(stream, existing, state.taken)
        await _spare(call, stream, existing)
        call.weight = existing.weight
        return await _shown(context, stream, existing, state)
    if request.action == ACTION_UPDATE:
        raise errors.CONSUMER_DOES_NOT_EXIST.error()
    config = rules.with_threshold(config, ephemeral=rules.is_ephemeral(config))
    made = context.copiers.asked_again(stream, config)
    begun = await _state(context, stream, made) if made is not None else None
    if made is None or begun is None:
        return await _add(call, stream, config)
    await _spare(call, stream, made)
    call.weight = made.weight
    return await _shown(context, stream, made, begun)


def identity_header(stream: Stream) -> bytes:
    """The header block that tells a puller which stream it has."""
    return b"NATS/1.0\r\n%s: %s\r\n\r\n" % (IDENTITY_HEADER, stream_identity(stream.created).encode())


def _check_identity(call: Call, stream: Stream, config: ConsumerConfig) -> None:
    """Mirrors and sources say which stream they have seen last; a namesake of it is not the same stream."""
    if not (config.direct or config.sourcing):
        return
    identity = stream_identity(stream.created)
    expected = header_value(call.header, IDENTITY_HEADER).decode("utf-8", "replace")
    if expected and expected != identity:
        raise errors.CONSUMER_STREAM_IDENTITY_MISMATCH.error(msg=identity)
    call.reply_header = identity_header(stream)


def _kept(existing: Consumer, config: ConsumerConfig) -> ConsumerConfig:
    """The configuration with the fields that an update cannot touch taken over from the existing one, whatever the
    request says."""
    config = replace(config, pause_until=existing.config.pause_until)
    if config.sourcing and config.durable_name:
        old = existing.config
        config = replace(
            config,
            deliver_policy=old.deliver_policy,
            opt_start_seq=old.opt_start_seq,
            opt_start_time=old.opt_start_time,
        )
    return config


async def _state(context: Context, stream: Stream, consumer: Consumer) -> t.ConsumerState | None:
    """The plane's state of the consumer. None: its inactivity has removed it in this very moment."""
    try:
        return await context.plane.consumer_state(stream.id, consumer.id)
    except t.PlaneError as error:
        if error.status != t.Status.NOT_FOUND:
            raise refused(error, errors.STREAM_GENERAL) from None
        check_led(stream)
        return None


def removed(context: Context, stream: Stream, consumer: Consumer) -> None:
    """The plane has removed it: by order, or as an ephemeral that nobody used. Told once, by the first that notices."""
    known = stream.by_id.get(consumer.id) is not None
    stream.remove_consumer(consumer)
    if known and not consumer.hidden:
        context.advisories.consumer(stream, consumer, "DELETED", "delete")


async def _update(
    call: Call, stream: Stream, existing: Consumer, config: ConsumerConfig, action: str, state: t.ConsumerState
) -> t.ConsumerState:
    context, old = call.context, existing.config
    if action == ACTION_CREATE:
        wanted = replace(config, metadata=comparable(config.metadata, old.metadata))
        if context.placing is not None:  # a lone nats-server takes an ephemeral made again for another one
            wanted = rules.with_threshold(wanted, ephemeral=rules.is_ephemeral(old))
        if wanted != old:
            raise errors.CONSUMER_ALREADY_EXISTS.error()
        config = old
    if stream.config.retention == WORKQUEUE and not await _partition_free(stream, existing.name, config.filters):
        raise errors.CONSUMER_WORKQUEUE_CONSUMER_NOT_UNIQUE.error()
    rules.check_update(old, config, bound=bool(state.push_bound))
    if old.inactive_threshold:
        config = rules.with_threshold(config, ephemeral=rules.is_ephemeral(old))
    if config != old:
        try:
            state = await put(context, stream, replace(existing, config=config), held=config.sourcing)
        except t.PlaneError as error:
            raise refused(error, errors.CONSUMER_STORE_FAILED) from None
        stream.change_consumer(existing, config)
    if config.sourcing:
        # The puller has forgotten what it had not stored: it wants everything after the ack floor once more.
        _, state = await context.plane.consumer_reset(stream.id, existing.id, 0)
        call.after = partial(_begin, context, stream, existing)
    return state


async def _partition_free(stream: Stream, name: str, filters: tuple[str, ...]) -> bool:
    """On a workqueue each message belongs to one consumer. The caller holds the stream's lock."""
    existing = stream.consumers.get(name)
    own = existing is not None and existing.counted and not existing.config.filters
    if filters and stream.unfiltered - own:
        return False
    if stream.filters is None:
        return True
    mine = await aside(ITEM_WEIGHT * len(filters), SubjectSet, filters)
    return not await stream.filters.met(mine, beside=name)


async def _check_workqueue(stream: Stream, config: ConsumerConfig) -> None:
    if not rules.needs_partition(stream.config, config, stream.counted):
        return
    if not await _partition_free(stream, config.durable_name or config.name, config.filters):
        raise errors.CONSUMER_WORKQUEUE_CONSUMER_NOT_UNIQUE.error()


async def check_beside(settings: Settings, stream: Stream, config: ConsumerConfig) -> None:
    """Whether the stream takes one more beside those that it has, from whatever side it comes. The caller holds its
    lock."""
    limits, others = stream.account.limits, stream.counted
    if limits.tiers:  # those with as many replicas
        replicas = replicas_of(config, stream.config)
        counted = [one.config for one in stream.consumers.values() if one.counted]
        others = sum(replicas_of(one, stream.config) == replicas for one in counted)
    rules.check_number(stream.config, config, limits, settings, others)
    await _check_workqueue(stream, config)


async def _add(call: Call, stream: Stream, config: ConsumerConfig) -> dict[str, Any]:
    context = call.context
    await check_beside(context.settings, stream, config)
    name = config.durable_name or config.name
    while not name or name in stream.consumers:
        name = random_name()
    if len(config.durable_name.encode()) > 255:
        raise errors.CONSUMER_NAME_TOO_LONG.error(max=255)
    consumer = Consumer(context.catalogue.new_consumer_id(), name, config, now_ns())
    try:
        state = await put(context, stream, consumer, held=bool(config.deliver_subject))
    except t.PlaneError as error:
        if stream.group is not None:  # it may be there, and its log had no room for it
            with suppress(t.PlaneError):
                await context.plane.consumer_remove(stream.id, consumer.id)
        raise refused(error, errors.CONSUMER_STORE_FAILED) from None
    if config.deliver_subject:
        call.after = partial(_begin, context, stream, consumer)
        await _spare(call, stream, consumer)
    served = stream.add_consumer(consumer)
    context.copiers.begun(stream, consumer, state.taken)
    await group_events.made(context, stream, consumer)
    context.advisories.consumer(stream, consumer, "CREATED", "create")
    if not served:
        context.advisories.consumer(stream, consumer, "DELETED", "delete")
    if config.pause_until is not None and config.pause_until > now_ns():
        context.advisories.pause(stream, consumer)
    call.weight = consumer.weight
    return await _shown(context, stream, consumer, state)


async def _shown(context: Context, stream: Stream, consumer: Consumer, state: t.ConsumerState) -> dict[str, Any]:
    group = await group_of(context, stream)
    return await aside(consumer.weight, consumer_info, stream, consumer, state, group)


@contextmanager
def _asking(call: Call, stream: Stream, consumer: Consumer, failed: errors.Row) -> Iterator[None]:
    """While the plane is asked for a consumer: its inactivity may have removed it in this very moment."""
    try:
        yield
    except t.PlaneError as error:
        if error.status != t.Status.NOT_FOUND:
            raise refused(error, failed) from None
        check_led(stream)
        removed(call.context, stream, consumer)
        raise errors.CONSUMER_NOT_FOUND.error() from None


async def _begin(context: Context, stream: Stream, consumer: Consumer) -> None:
    """A push consumer's first message comes behind the answer to its creation or reset, which is on its way now."""
    with suppress(t.PlaneError):  # it is gone again
        await context.plane.consumer_begin(stream.id, consumer.id)


async def _spare(call: Call, stream: Stream, consumer: Consumer) -> None:
    """A puller at the other end of a link may do with few heartbeats."""
    asked = header_value(call.header, HEARTBEAT_HEADER)
    if not asked.isdigit() or len(asked) > HEARTBEAT_DIGITS_MAX or not consumer.config.deliver_subject:
        return
    with suppress(t.PlaneError):  # it is gone again
        await call.context.plane.consumer_spare(stream.id, consumer.id, int(asked) * SECOND)
        line = b"%s: %d\r\n\r\n" % (HEARTBEAT_HEADER, int(asked))
        call.reply_header = (call.reply_header or b"NATS/1.0\r\n\r\n").removesuffix(b"\r\n") + line


def _served(call: Call, name: str) -> Stream:
    stream = call.stream(name)
    check_led(stream)
    return stream


def _found(call: Call) -> tuple[Stream, Consumer]:
    stream = _served(call, call.name(2))
    return stream, call.consumer(stream, call.name(3))


@endpoint("CONSUMER.INFO.*.*", "consumer_info_response", body=Body.EMPTY, checks=BODY_FIRST)
async def info(call: Call, _request: None) -> dict[str, Any]:
    """A consumer's configuration and positions."""
    stream, consumer = _found(call)
    state = await _state(call.context, stream, consumer)
    if state is None:
        raise errors.CONSUMER_NOT_FOUND.error()
    call.weight = consumer.weight
    return await _shown(call.context, stream, consumer, state)


@endpoint(
    "CONSUMER.NAMES.*",
    "consumer_names_response",
    ConsumersRequest,
    body=Body.IF_JSON,
    failed=_NO_PAGE | {"consumers": []},
)
async def names(call: Call, request: ConsumersRequest) -> dict[str, Any]:
    """Names of a stream's consumers, a page at a time."""
    selected, place = page_of(_served(call, call.name(2)).names, request.offset, NAMES_LIMIT)
    return place | {"consumers": selected}


def consumer_size(consumer: Consumer) -> int:
    """How long the texts of its configuration are."""
    return texts_size((consumer.config.description, *consumer.config.filters), consumer.config.metadata)


@endpoint(
    "CONSUMER.LIST.*",
    "consumer_list_response",
    ConsumersRequest,
    body=Body.IF_JSON,
    failed=_NO_PAGE | {"consumers": []},
)
async def listing(call: Call, request: ConsumersRequest) -> dict[str, Any]:
    """Infos of a stream's consumers, a page at a time."""
    stream = _served(call, call.name(2))
    found, place = page_of(stream.names, request.offset, LIST_LIMIT)
    selected = [stream.consumers[name] for name in found]
    call.size = cut(selected, place, consumer_size, call.context.plane.reports)
    states = await gathered([partial(call.context.plane.consumer_state, stream.id, one.id) for one in selected])
    group = await group_of(call.context, stream)
    page, pause = [], Pause()
    for consumer, state in zip(selected, states, strict=True):
        if state is not None:
            shown = partial(consumer_info, stream, consumer, state, group, metadata=False)
            page.append(await aside(consumer.weight, shown))
            await pause()
    call.weight = sum(LISTED_WEIGHT + consumer.weight for consumer in selected)
    return place | {"consumers": page}


@endpoint("CONSUMER.DELETE.*.*", "consumer_delete_response", body=Body.EMPTY, lock=Lock.STREAM)
async def delete(call: Call, _request: None) -> dict[str, Any]:
    """Removes a consumer."""
    owner = call.account.streams.get(call.name(2))
    if owner is not None and call.name(3) in owner.aside:
        return await _delete_aside(call, owner, call.name(3))
    stream, consumer = _found(call)
    before = await _state(call.context, stream, consumer) if is_of_a_copy(consumer.config) else None
    if before is not None:
        call.context.copiers.ended(stream, consumer, before.taken)
    try:
        await call.context.plane.consumer_remove(stream.id, consumer.id)
    except t.PlaneError as error:
        if error.status != t.Status.NOT_FOUND:  # else its inactivity was quicker: it is gone, as was asked
            raise refused(error, errors.STREAM_GENERAL) from None
    removed(call.context, stream, consumer)
    return {"success": True}


async def _delete_aside(call: Call, stream: Stream, name: str) -> dict[str, Any]:
    """Removes a consumer that could not be taken up: the plane takes it up as a plain one first, which never fails."""
    found, plane = stream.aside[name], call.context.plane
    plain = flat_consumer(stream.account.id, ConsumerConfig(durable_name=name, ack_policy=ACK_EXPLICIT))
    try:
        await plane.consumer_put(stream.id, found.id, plain, name=name, definition=found.definition, loading=True)
        await plane.consumer_remove(stream.id, found.id)
    except t.PlaneError as error:
        raise refused(error, errors.STREAM_GENERAL) from None
    stream.aside.pop(name, None)
    if stream.id in call.context.catalogue.lacking:  # then, since a task that has the account's lock may want this one
        call.after = partial(_keep_no_more, call.context, stream)
    return {"success": True}


async def _keep_no_more(context: Context, stream: Stream) -> None:
    with suppress(t.PlaneError):  # it goes on keeping all until it is changed, or until the next start
        await keep_for_asides(context, stream)


async def keep_for_asides(context: Context, stream: Stream) -> None:
    """The plane knows whether some of a stream's consumers are aside. The account's lock: a put of what the stream is
    now is not to come behind one of what it becomes. Raises as streams.put()."""
    async with stream.account.lock:
        there, told = context.catalogue.stream(stream.id) is stream, stream.id in context.catalogue.lacking
        if there and stream.lacks_consumers != told:
            await streams.put(context, stream)


@endpoint(
    "CONSUMER.PAUSE.*.*",
    "consumer_pause_response",
    PauseRequest,
    body=Body.IF_JSON,
    checks=BODY_FIRST,
    lock=Lock.STREAM,
    failed={"paused": False, "pause_until": format_time(ZERO_TIME)},
)
async def pause(call: Call, request: PauseRequest) -> dict[str, Any]:
    """Stops deliveries until a time; without one, resumes."""
    stream, consumer = _found(call)
    until = request.pause_until
    config = replace(consumer.config, pause_until=None if until == ZERO_TIME else until)
    changed = replace(consumer, config=static_consumer(config))
    before = consumer.config.pause_until
    with _asking(call, stream, consumer, errors.CONSUMER_STORE_FAILED):
        await call.context.plane.consumer_state(stream.id, consumer.id)
        # The definition keeps it for the next start; the running consumer keeps its pause over a changed definition.
        await put(call.context, stream, changed)
        await call.context.plane.consumer_pause(stream.id, consumer.id, 0 if until == ZERO_TIME else plane_time(until))
    stream.change_consumer(consumer, changed.config)
    if before != consumer.config.pause_until:
        call.context.advisories.pause(stream, consumer)
    remaining = time_until(until)
    reply: dict[str, Any] = {"paused": remaining > 0, "pause_until": format_time(until)}
    return reply | ({"pause_remaining": remaining} if remaining else {})


@endpoint(
    "CONSUMER.RESET.*.*",
    "consumer_reset_response",
    ResetRequest,
    body=Body.PARSED,
    checks=(Check.THERE, Check.LEVEL, Check.ACCOUNT, Check.BODY),
    whole=True,
    counted=Counted.NONE,
    lock=Lock.STREAM,
    failed={"reset_seq": 0},
)
async def reset(call: Call, request: ResetRequest) -> dict[str, Any] | None:
    """Moves a consumer back: to a sequence, or to its ack floor. A missing consumer does not answer at all."""
    stream, consumer = _found(call)
    if has_header(call.header, IDENTITY_HEADER):
        call.reply_header = identity_header(stream)
        await tell_epochs(call, stream)
    await _check_reset(call.context, stream, consumer.config, request.sequence)
    try:
        with _asking(call, stream, consumer, errors.STREAM_GENERAL):
            reached, state = await call.context.plane.consumer_reset(stream.id, consumer.id, request.sequence)
            call.after = partial(_begin, call.context, stream, consumer)
    except errors.ApiError:
        if stream.consumers.get(consumer.name) is None:
            return None
        raise
    await _spare(call, stream, consumer)
    return await _shown(call.context, stream, consumer, state) | {"reset_seq": reached}


async def _check_reset(context: Context, stream: Stream, config: ConsumerConfig, sequence: int) -> None:
    """A reset may not reach messages that the deliver policy has left out."""
    if sequence == 0 or config.deliver_policy == DELIVER_ALL:
        return
    if config.deliver_policy == DELIVER_BY_START_SEQUENCE:
        if sequence < config.opt_start_seq:
            raise errors.CONSUMER_INVALID_RESET.error(err="below start seq")
        return
    if config.deliver_policy != DELIVER_BY_START_TIME:
        raise errors.CONSUMER_INVALID_RESET.error(err="not allowed")
    moment = plane_time(config.opt_start_time or 0)
    first = await context.plane.message_get(stream.id, t.Query.START_TIME, start_ts=moment)
    lowest = first.sequence if first else (await context.plane.stream_state(stream.id)).last_seq + 1
    if sequence < lowest:
        raise errors.CONSUMER_INVALID_RESET.error(err="below start time")


@endpoint(
    "CONSUMER.UNPIN.*.*",
    "consumer_unpin_response",
    UnpinRequest,
    body=Body.PARSED,
    checks=(Check.LEVEL, Check.BODY),
    whole=True,
)
async def unpin(call: Call, request: UnpinRequest) -> dict[str, Any]:
    """Releases the pinned client; the next one that pulls is pinned."""
    if not request.group:
        why = "consumer group not specified" if call.body else "unexpected end of JSON input"
        raise errors.INVALID_JSON.error(err=why)
    rules.check_group_name(request.group)
    call.check_enabled()
    stream, consumer = _found(call)
    if request.group not in consumer.config.priority_groups:
        raise errors.CONSUMER_INVALID_PRIORITY_GROUP.error()
    with _asking(call, stream, consumer, errors.STREAM_GENERAL):
        await call.context.plane.consumer_unpin(stream.id, consumer.id)
    call.context.advisories.unpinned(stream, consumer, request.group, "admin")
    return {}
