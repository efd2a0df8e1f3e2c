"""Streams: create, update, delete, info, names, list, purge.

Not here: what a configuration may be (stream_rules.py), single messages (messages.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

import trio

from leafd import native_types as t
from leafd.gojson import JsonError
from leafd.gotime import now_ns
from leafd.jetstream import errors
from leafd.jetstream.catalogue import (
    Group,
    JetStreamAccount,
    Stream,
    author_of,
    read_stream,
    stored_config,
    stream_definition,
)
from leafd.jetstream.context import Context
from leafd.jetstream.copiers import COPIERS_MAX, SHOWN_MAX
from leafd.jetstream.endpoints.infos import stream_info
from leafd.jetstream.endpoints.pages import cut, page_of, stream_size
from leafd.jetstream.errors import ApiError, Row
from leafd.jetstream.flat import flat_stream
from leafd.jetstream.models.requests import PurgeRequest, StreamInfoRequest, StreamListRequest, StreamNamesRequest
from leafd.jetstream.models.stream import MEMORY, ConsumerLimits, StreamConfig, StreamConfigRequest
from leafd.jetstream.ports import SERVER, Everywhere
from leafd.jetstream.publishing import author_for, judge, republishes
from leafd.jetstream.registry import Among, Body, Call, Lock, endpoint
from leafd.jetstream.rules.account_limits import check_new_stream, check_update_room
from leafd.jetstream.rules.source_rules import check_filters
from leafd.jetstream.rules.stream_rules import check_made, check_update, checked, invalid, refuse_unsupported
from leafd.jetstream.rules.versioning import comparable, static_stream
from leafd.jetstream.subjects import SubjectSet
from leafd.native_commands import Commands
from leafd.quoting import quoted
from leafd.turns import ITEM_WEIGHT, WEIGHT_MAX, Held, Pause, aside

NAMES_LIMIT: Final = 1024
LIST_LIMIT: Final = 256
SUBJECTS_LIMIT: Final = 100_000
LISTED_WEIGHT: Final = 512
SHARE_ATTEMPTS: Final = 20
SHARE_AGAIN_S: Final = 0.1
SHARED_S: Final = 5.0
"""How long an answer waits for this server to lead, and to know its consumers again."""
_GENERAL: Final = errors.STREAM_GENERAL
_State = TypeVar("_State")
_Item = TypeVar("_Item")
_Made = TypeVar("_Made")
_NO_PAGE: Final = {"total": 0, "offset": 0, "limit": 0}


def refused(error: t.PlaneError, row: Row) -> ApiError:
    """The client's error for a command that the store refused."""
    if error.status == t.Status.NO_SPACE:
        return errors.STORAGE_RESOURCES_EXCEEDED.error()
    if error.status in (t.Status.CLOSED, t.Status.AGAIN):  # another server leads, or none does
        return errors.CLUSTER_NOT_AVAILABLE.error()
    return row.error(err=error)


def check_led(stream: Stream) -> None:
    """Only the leader of a stream of several takes messages and knows its consumers: a client that is told of the
    stream may rely on both. Raises ApiError."""
    if stream.group is not None and not stream.led:
        raise errors.CLUSTER_NOT_AVAILABLE.error()


async def put(context: Context, stream: Stream, *, stored: bytes = b"") -> t.StreamState:
    """Makes the plane hold the stream as it is described; returns when that is durable. stored: its definition, at
    start. Raises PlaneError, ValueError: it is a stream of several servers, and this one is in no group of servers."""
    if stream.group is not None and context.placing is None:
        raise ValueError("several servers keep it, and this one is in no group of servers (jetstream's meta_size)")
    await judge(context, stream)
    transform = stream.config.subject_transform
    republish = stream.config.republish if republishes(stream.config) not in stream.denied else None
    flat = flat_stream(stream.account.id, stream.config)
    flat = replace(flat, flags=flat.flags | stream.flags)
    state = await context.plane.stream_put(
        stream.id,
        flat,
        name=stream.name,
        definition=stored or await aside(stream.weight, stream_definition, stream),
        domain=context.settings.domain,
        subjects=stream.config.subjects,
        transform=(transform.source, transform.destination) if transform is not None else ("", ""),
        republish=(republish.source, republish.destination) if republish is not None else ("", ""),
        loading=bool(stored),
    )
    context.catalogue.note_lacking(stream.id, lacks=bool(flat.flags & t.StreamFlag.LACKS_CONSUMERS))
    await context.passed_over.began(stream, state.last_seq, stored=bool(stored))
    return state


async def judge_again(context: Context) -> None:
    """Judges the streams by the rights that their authors have now: a stream stops publishing where its author may not
    any more, and goes on where the author may again."""
    for stream in context.catalogue.streams():
        if not stream.author:
            continue
        async with stream.account.lock:
            if context.catalogue.stream(stream.id) is stream and await judge(context, stream):
                state = await put(context, stream)
                context.neighbours.stream_changed(stream, state.last_seq)


async def numbered(context: Context, attempt: Callable[[int], Awaitable[_Made]]) -> _Made:
    """The result of the attempt with the first number under which nothing is stored: a number whose definition was lost
    by damage is not given to another stream. Raises PlaneError."""
    while True:
        number = context.catalogue.new_stream_id()
        await context.passed_over.removed(number)
        try:
            return await attempt(number)
        except t.PlaneError as error:
            if error.status != t.Status.EXISTS:
                raise
            context.log.warning(
                f"stream number {number} is not used again: its definition is gone, its messages are not"
            )


@endpoint(
    "STREAM.CREATE.*",
    "stream_create_response",
    StreamConfigRequest,
    body=Body.PARSED,
    lock=Lock.ACCOUNT,
    among=Among.PLACED,
)
async def create(call: Call, request: StreamConfigRequest) -> dict[str, Any]:
    """Makes a stream; the same configuration again is no error and no change."""
    context, account, name = call.context, call.account, call.name(2)
    config = static_stream(stored_config(request))
    if config.name != name:
        raise errors.STREAM_MISMATCH.error()
    if "/" in name or "\\" in name:
        raise errors.STREAM_NAME_CONTAINS_PATH_SEPARATORS.error()
    check_made(config)
    if context.placing is None:  # the servers of a group look at limits last (made), as nats-servers do
        check_new_stream(account, context.catalogue, context.settings, config)
    config = await judged(call, config, pedantic=request.pedantic)
    if config.num_replicas > 1:
        check_replicable(context, config)
    author = await author_for(call.asker, config)
    existing = account.streams.get(name)
    if existing is not None:
        return await _same(call, existing, config)
    stream, state = await made(context, account, config, author=author)
    if stream.group is not None and context.placing is not None:
        account.lock.release()  # others' streams are made meanwhile, here and for other servers
        try:
            await context.placing.led(stream)
        finally:
            with trio.CancelScope(shield=True):
                await account.lock.acquire()
        if account.streams.get(name) is not stream:
            raise errors.STREAM_NOT_FOUND.error()
    call.weight = stream.weight
    return await stream_info(context, stream, state, creating=True) | {"did_create": True}


async def made(
    context: Context, account: JetStreamAccount, config: StreamConfig, template: str = "", *, author: str
) -> tuple[Stream, t.StreamState]:
    """A stream of that configuration, which has been judged; on disk. The caller holds the account's lock."""
    if config.name in account.aside:
        raise errors.STREAM_OFFLINE_REASON.error(err=account.aside[config.name].reason)
    if config.name in account.restoring:
        raise errors.STREAM_NAME_EXIST.error()
    check_new_stream(account, context.catalogue, context.settings, config)
    check_filters(config)
    await check_overlap(account, config)
    refuse_unsupported(config)

    created, group = now_ns(), None
    if context.placing is not None:
        await context.placing.claim(account.name, config, created, author)
        group = context.placing.group(account.name, config.name)
    wanted = Stream(0, account, config, created, template=template, author=author, group=group)
    try:
        stream, state = await placed(context, wanted)
    except ApiError:
        if context.placing is not None:
            await context.placing.drop(account.name, config.name, created)
        raise
    context.advisories.stream(stream, "CREATED", "create")
    return stream, state


async def placed(context: Context, wanted: Stream) -> tuple[Stream, t.StreamState]:
    """A stream like that, with a number of its own. The caller holds the account's lock."""

    async def attempt(number: int) -> tuple[Stream, t.StreamState]:
        stream = replace(wanted, id=number)
        return stream, await put(context, stream)

    try:
        stream, state = await numbered(context, attempt)
    except t.PlaneError as error:
        raise refused(error, errors.STREAM_CREATE) from None
    context.catalogue.add_stream(stream)
    context.neighbours.stream_changed(stream, state.last_seq)
    if stream.group is not None and context.placing is not None:
        await context.placing.join(stream)
    return stream, state


def check_replicable(context: Context, config: StreamConfig, *, later: bool = False) -> None:
    """Can several servers keep such a stream: has their log entries for it (native/jetstream/replicated.h)? later: one
    server has it alone until then. Raises ApiError."""
    if not context.settings.shared:
        raise errors.STREAM_REPLICAS_NOT_SUPPORTED.error()
    if later and config.storage == MEMORY:
        raise invalid("a stream in memory may not get replicas later in leafd")


async def judged(call: Call, config: StreamConfig, *, pedantic: bool) -> StreamConfig:
    """checked(), where it keeps nobody waiting. What it looks up belongs to the holder of the account's lock."""
    origins = sum(source.external is None for source in (*config.sources, config.mirror) if source is not None)
    weight = len(call.body) + (WEIGHT_MAX if origins else 0)
    judge = partial(checked, config, call.context.for_streams(call.account), pedantic=pedantic)
    return await aside(weight, judge)


async def _same(call: Call, existing: Stream, config: StreamConfig) -> dict[str, Any]:
    """A stream of that name is there: fine, if the configurations differ in nothing but versions."""
    config = replace(config, metadata=comparable(config.metadata, existing.config.metadata))
    if config != existing.config:
        raise errors.STREAM_NAME_EXIST.error()
    state = await call.context.plane.stream_state(existing.id)
    call.weight = existing.weight
    members = await stream_info(call.context, existing, state, creating=True)
    return members if call.context.placing is not None else members | {"did_create": True}


async def check_overlap(account: JetStreamAccount, config: StreamConfig) -> None:
    """A message must not go to two streams of an account. The caller holds the account's lock."""
    mine = await aside(ITEM_WEIGHT * len(config.subjects), SubjectSet, config.subjects)
    if await account.taken.subjects.met(mine, beside=config.name):
        raise errors.STREAM_SUBJECT_OVERLAP.error()
    others = [one.subjects for name, one in account.restoring.items() if name != config.name]
    weight = ITEM_WEIGHT * (len(config.subjects) + sum(1 + len(subjects) for subjects in others)) if others else 0
    if await aside(weight, overlaps, mine, others):
        raise errors.STREAM_SUBJECT_OVERLAP.error()


def overlaps(mine: SubjectSet, others: Iterable[tuple[str, ...]]) -> bool:
    """Whether some subject matches one of these and one of the others."""
    return any(mine.meets(SubjectSet(subjects)) for subjects in others)


@endpoint(
    "STREAM.UPDATE.*",
    "stream_update_response",
    StreamConfigRequest,
    body=Body.PARSED,
    lock=Lock.ACCOUNT,
    among=Among.DECIDED,
)
async def update(call: Call, request: StreamConfigRequest) -> dict[str, Any]:
    """Replaces the whole configuration: what is left out goes back to its default."""
    context, account, name = call.context, call.account, call.name(2)
    config = await judged(call, stored_config(request), pedantic=request.pedantic)
    if config.name != name:
        raise errors.STREAM_MISMATCH.error()
    stream = call.stream(name)
    old = stream.config
    config = check_update(old, static_stream(config))
    if stream.group is not None or config.num_replicas > 1:
        check_replicable(context, config, later=stream.group is None)
    check_update_room(account, context.catalogue, context.settings, old, config)
    _check_consumer_limits(stream, config.consumer_limits)
    await check_overlap(call.account, config)
    refuse_unsupported(config)
    author = await author_for(call.asker, config)
    if context.placing is not None:
        await context.placing.change(account.name, config, stream.created, author)
    group = context.placing.group(account.name, name) if context.placing is not None else None
    try:
        if stream.group is None and group is not None:
            state = await shared(context, stream, config, author, group)
        else:
            state = await (changed if stream.group is None else agreed)(context, stream, config, author)
    except ApiError:
        if context.placing is not None and group is None:  # else its servers come to what the table has
            await context.placing.change(account.name, old, stream.created, stream.author)
        raise
    context.advisories.stream(stream, "UPDATED", "modify")
    call.weight = stream.weight
    return await stream_info(context, stream, state)


async def changed(
    context: Context, stream: Stream, config: StreamConfig, author: str, *, stored: bytes = b""
) -> t.StreamState:
    """The stream is like that when this returns. stored: its definition, if it is on disk already. The caller holds the
    account's lock."""
    new = replace(stream, config=config, author=author, denied=frozenset())
    try:
        state = await put(context, new, stored=stored)
    except t.PlaneError as error:
        raise refused(error, errors.STREAM_UPDATE) from None
    stream.author, stream.denied = new.author, new.denied
    context.catalogue.change_stream(stream, config)
    context.neighbours.stream_changed(stream, state.last_seq)
    return state


async def shared(context: Context, stream: Stream, config: StreamConfig, author: str, group: Group) -> t.StreamState:
    """A stream that this server has had alone is one of several, in a group that begins with what is here. The caller
    holds the account's lock."""
    assert context.placing is not None
    new = replace(stream, config=config, author=author, denied=frozenset(), group=group)
    for attempt in range(SHARE_ATTEMPTS):
        try:
            await put(context, new)
            break
        except t.PlaneError as error:  # AGAIN: a purge is under way, or its consumers wait for the disk
            if error.status != t.Status.AGAIN or attempt + 1 == SHARE_ATTEMPTS:
                raise refused(error, errors.STREAM_UPDATE) from None
            await trio.sleep(SHARE_AGAIN_S)
    stream.author, stream.denied, stream.group = new.author, new.denied, new.group
    context.catalogue.change_stream(stream, config)
    try:
        await context.placing.join(stream)
        with trio.move_on_after(context.placing.patience(SHARED_S)):
            while not stream.led:  # noqa: ASYNC110
                await trio.sleep(SHARE_AGAIN_S)
        await context.placing.led(stream)
        state = await context.plane.stream_state(stream.id)
    except t.PlaneError as error:
        raise refused(error, errors.STREAM_UPDATE) from None
    context.neighbours.stream_changed(stream, state.last_seq)
    return state


async def shared_anew(context: Context, stream: Stream, config: StreamConfig, author: str) -> t.StreamState:
    """A stream that this server has just made is kept by as many servers as that says. Raises ApiError."""
    assert context.placing is not None
    async with stream.account.lock:
        await context.placing.change(stream.account.name, config, stream.created, author)
        group = context.placing.group(stream.account.name, stream.name)
        assert group is not None
        return await shared(context, stream, config, author, group)


async def agreed(context: Context, stream: Stream, config: StreamConfig, author: str) -> t.StreamState:
    """A stream of several, which this server leads, is like that at a majority and here when this returns."""
    definition = await aside(stream.weight, stream_definition, replace(stream, config=config, author=author))
    try:
        await context.plane.stream_define(stream.id, definition)
        if stream.redefined is not None:  # the plane has it, and this side hears of that in a moment
            await stream.redefined.wait()
        return await context.plane.stream_state(stream.id)
    except t.PlaneError as error:
        raise refused(error, errors.STREAM_UPDATE) from None


async def sourced(context: Context, stream: Stream, positions: dict[str, tuple[int, int]] | None) -> None:
    """The mirror or sources of a stream of several begin behind these positions, if it is led; None: they end here."""
    if stream.config.mirror is None and not stream.config.sources:
        return
    state = None
    if positions is not None:
        with suppress(t.PlaneError):  # led by another server again, or gone
            state = await context.plane.stream_state(stream.id)
    if state is not None and positions is not None:
        context.neighbours.stream_led(stream, state.last_seq, positions)
    elif not stream.led:
        context.neighbours.stream_changed(stream, 0)


async def defined(context: Context, stream: Stream, definition: bytes) -> bool:
    """A stream of several is like that, as its log has it. False: not now, as the log says."""
    try:
        _, _, config = await aside(len(definition), read_stream, definition)
        await changed(context, stream, config, author_of(definition), stored=definition)
    except (ApiError, JsonError, ValueError) as error:
        context.log.warning(
            f"stream {quoted(stream.name)} of account {quoted(stream.account.name)} cannot be made as its servers have "
            f"agreed on, and stands still here: {error}"
        )
        return False
    return True


def _check_consumer_limits(stream: Stream, limits: ConsumerLimits) -> None:
    """Limits may not go below what a consumer has already."""
    if limits == stream.config.consumer_limits:
        return
    above = [
        consumer.name
        for consumer in stream.consumers.values()
        if 0 < limits.inactive_threshold < consumer.config.inactive_threshold
        or 0 < limits.max_ack_pending < consumer.config.max_ack_pending
    ]
    if above:
        raise errors.STREAM_UPDATE.error(err=f"change to limits violates consumers: {', '.join(sorted(above))}")


@endpoint("STREAM.DELETE.*", "stream_delete_response", body=Body.EMPTY, lock=Lock.ACCOUNT, among=Among.DECIDED)
async def delete(call: Call, _request: None) -> dict[str, Any]:
    """Removes a stream with its consumers and messages."""
    if call.name(2) in call.account.aside:
        return await _delete_aside(call, call.name(2))
    await remove(call.context, call.stream(call.name(2)))
    return {"success": True}


async def remove(context: Context, stream: Stream) -> None:
    """A stream and all it has is gone when this returns. The caller holds the account's lock."""
    if context.placing is not None:
        await context.placing.drop(stream.account.name, stream.name, stream.created)
    await removed(context, stream, deleted=True)


async def removed(context: Context, stream: Stream, *, deleted: bool) -> None:
    """A stream is here no more. deleted: nor anywhere else. The caller holds the account's lock."""
    async with Held(stream.lock):
        try:
            await context.plane.stream_remove(stream.id)
        except t.PlaneError as error:
            raise refused(error, errors.STREAM_DELETE) from None
        context.catalogue.remove_stream(stream)
        for consumer in stream.listed() if deleted else ():
            context.advisories.consumer(stream, consumer, "DELETED", "delete")
        if deleted:
            context.advisories.stream(stream, "DELETED", "delete")
        context.neighbours.stream_removed(stream)
        context.copiers.removed(stream)
        await context.passed_over.removed(stream.id)


async def _delete_aside(call: Call, name: str) -> dict[str, Any]:
    """Removes a stream that could not be taken up."""
    found, account = call.account.aside[name], call.account
    try:
        await remove_unserved(call.context.plane, found.id, name, found.definition, account.id)
    except t.PlaneError as error:
        raise refused(error, errors.STREAM_DELETE) from None
    account.aside.pop(name, None)
    return {"success": True}


async def remove_unserved(plane: Commands, stream_id: int, name: str, definition: bytes, account_id: int) -> None:
    """The plane takes it up as a plain one first, which never fails, and then removes it. Raises PlaneError."""
    plain = flat_stream(account_id, StreamConfig(name=name, max_msgs=-1, max_bytes=-1, max_msgs_per_subject=-1))
    await plane.stream_put(stream_id, plain, name=name, definition=definition, domain="", subjects=(), loading=True)
    await plane.stream_remove(stream_id)


@endpoint("STREAM.INFO.*", "stream_info_response", StreamInfoRequest, body=Body.IF_JSON, failed=_NO_PAGE)
async def info(call: Call, request: StreamInfoRequest) -> dict[str, Any]:
    """A stream's configuration and state, and the copies of it elsewhere that are known; on request its deleted
    sequences and its subjects, a page at a time."""
    stream = call.stream(call.name(2))
    if call.asker is not SERVER:  # whose reports tell of what is here, led or not
        check_led(stream)
    offset = max(request.offset, 0)
    try:
        state = await call.context.plane.stream_state(
            stream.id, subjects_filter=request.subjects_filter, deleted=request.deleted_details, offset=offset
        )
    except t.PlaneError as error:
        # Removed in this very moment, or by a request that waits for the disk.
        raise (
            errors.STREAM_NOT_FOUND.error() if error.status == t.Status.NOT_FOUND else refused(error, _GENERAL)
        ) from None
    page = dict(_NO_PAGE)
    call.weight = stream.weight + ITEM_WEIGHT * (len(state.subject_counts) + len(state.deleted))
    if state.subjects_matched:
        listed = len(state.subject_counts)
        # One message has them all: where that would be more than its reader may have waiting, the page ends sooner.
        cut = 0 < listed < min(SUBJECTS_LIMIT, state.subjects_matched - offset)
        page = {"total": state.subjects_matched, "offset": offset, "limit": listed if cut else SUBJECTS_LIMIT}
    told = page | await stream_info(call.context, stream, state, cluster=True)
    most = COPIERS_MAX if call.asker is SERVER else SHOWN_MAX
    copiers = await call.context.copiers.of(stream.account.name, stream.name, most)
    return told | ({"leafd": {"copiers": copiers}} if copiers else {})


async def gathered(questions: list[Callable[[], Awaitable[_State]]]) -> list[_State | None]:
    """Asks the plane many things at once. None: it was deleted while the page was put together. ApiError: of one
    of them it is not known."""
    answers: list[_State | None] = [None] * len(questions)
    unknown: list[t.PlaneError] = []

    async def one(index: int) -> None:
        try:
            answers[index] = await questions[index]()
        except t.PlaneError as error:
            if error.status != t.Status.NOT_FOUND:
                unknown.append(error)

    async with trio.open_nursery() as nursery:
        for index in range(len(questions)):
            nursery.start_soon(one, index)
    if unknown:
        raise refused(unknown[0], errors.STREAM_GENERAL)
    return answers


async def _matching(call: Call, subject: str) -> list[str]:
    """The names of the account's streams, in their order; with a subject, of those that could take or hold messages of
    it."""
    account = call.account
    if not subject:
        return account.names
    asked = await aside(len(call.body), SubjectSet, (subject,))
    return sorted(await account.taken.subjects.owners(asked))


@endpoint(
    "STREAM.NAMES",
    "stream_names_response",
    StreamNamesRequest,
    body=Body.IF_JSON,
    failed=_NO_PAGE | {"streams": None},
    among=Among.LEADER,
)
async def names(call: Call, request: StreamNamesRequest) -> dict[str, Any]:
    """Names of streams, a page at a time."""
    everywhere = call.everywhere
    found = _matching(call, request.subject) if everywhere is None else everywhere.names(call.account, request.subject)
    selected, place = page_of(await found, request.offset, NAMES_LIMIT)
    return place | {"streams": selected or None}


@endpoint(
    "STREAM.LIST",
    "stream_list_response",
    StreamListRequest,
    body=Body.IF_JSON,
    failed=_NO_PAGE | {"streams": []},
    among=Among.LEADER,
)
async def listing(call: Call, request: StreamListRequest) -> dict[str, Any]:
    """Infos of streams, a page at a time."""
    if call.everywhere is not None:
        return await _listing_everywhere(call, call.everywhere, request)
    found, place = page_of(await _matching(call, request.subject), request.offset, LIST_LIMIT)
    selected = [call.account.streams[name] for name in found]
    call.size = cut(selected, place, stream_size, call.context.plane.reports)
    page = await infos(call.context, selected)
    call.weight = sum(LISTED_WEIGHT + stream.weight for stream in selected)
    answer = place | {"streams": page}
    offline = {name: aside.reason for name, aside in sorted(call.account.aside.items())}
    return answer | ({"offline": offline} if offline and not request.subject else {})


async def infos(context: Context, selected: list[Stream]) -> list[dict[str, Any]]:
    """The infos of these, as lists have them; without those that are deleted meanwhile."""
    states = await gathered([partial(context.plane.stream_state, stream.id) for stream in selected])
    page, pause = [], Pause()
    for stream, state in zip(selected, states, strict=True):
        if state is not None:
            page.append(await stream_info(context, stream, state, metadata=False))
            await pause()
    return page


async def _listing_everywhere(call: Call, everywhere: Everywhere, request: StreamListRequest) -> dict[str, Any]:
    """As a lone server's, of all servers; streams whose server does not answer are named as missing."""
    names, place = page_of(await everywhere.names(call.account, request.subject), request.offset, LIST_LIMIT)
    found = await everywhere.infos(call.account, names)
    missing = [name for name in names if name not in found]
    call.weight = LISTED_WEIGHT * len(found)
    answer = place | {"streams": [found[name] for name in names if name in found]}
    return answer | ({"missing": missing} if missing else {})


@endpoint("STREAM.PURGE.*", "stream_purge_response", PurgeRequest, body=Body.IF_JSON, failed={"purged": 0})
async def purge(call: Call, request: PurgeRequest) -> dict[str, Any]:
    """Removes messages: all, of some subjects, below a sequence, or all but the newest."""
    if request.sequence and request.keep:
        raise errors.BAD_REQUEST.error()
    stream = call.stream(call.name(2))
    if stream.config.sealed:
        raise errors.STREAM_SEALED.error()
    if stream.config.deny_purge:
        raise errors.STREAM_PURGE_FAILED.error(err="stream purge not permitted")
    try:
        purged = await call.context.plane.stream_purge(
            stream.id, subject=request.subject, sequence=request.sequence, keep=request.keep
        )
    except t.PlaneError as error:
        raise refused(error, errors.STREAM_GENERAL) from None
    return {"success": True, "purged": purged}
