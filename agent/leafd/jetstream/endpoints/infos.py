"""Info replies: what the catalogue, the plane and links know of a stream or consumer, put together.

Not here: the requests that ask for it (streams.py, consumers.py).
"""

from __future__ import annotations

from typing import Any

from leafd import native_types as t
from leafd.cluster.consumers import as_asked, replicas_of
from leafd.gojson import written
from leafd.gotime import ZERO_TIME, format_time, now_ns, until as time_until
from leafd.jetstream.catalogue import Consumer, Settings, Stream
from leafd.jetstream.context import Context
from leafd.jetstream.models.consumer import ConsumerConfig, ConsumerInfo, SequenceInfo
from leafd.jetstream.models.stream import StreamInfo, StreamSource, StreamStateReply
from leafd.jetstream.ports import SourceStatus
from leafd.jetstream.publishing import WITHHELD, asks
from leafd.jetstream.rules.versioning import dynamic
from leafd.turns import ITEM_WEIGHT, Pause, aside


def stream_state(visible: int, state: t.StreamState) -> StreamStateReply:
    """Counters as the API tells them. visible: how many consumers clients may see."""
    return StreamStateReply(
        messages=state.messages,
        bytes=state.bytes,
        first_seq=state.first_seq,
        first_ts=state.first_ts or ZERO_TIME,
        last_seq=state.last_seq,
        last_ts=state.last_ts or ZERO_TIME,
        num_subjects=state.subjects,
        subjects=dict(sorted(state.subject_counts.items())) or None,
        num_deleted=state.deleted_count,
        deleted=state.deleted,
        consumer_count=visible,
    )


async def stream_info(
    context: Context,
    stream: Stream,
    state: t.StreamState,
    *,
    creating: bool = False,
    cluster: bool = False,
    metadata: bool = True,
) -> dict[str, Any]:
    """A stream's info. What is in it differs from request to request: CREATE leaves out the domain, and the filter of a
    mirror, which the reference only knows when it has asked the origin. cluster: it is the answer to INFO, which has
    the cluster of a lone server, too, and the mirrors that may be read in its place."""
    config = stream.config
    mirror: dict[str, Any] | None = None
    if config.mirror is not None:
        (status,) = await context.neighbours.source_statuses(stream.id, (0,))
        mirror = _source(stream, config.mirror, status, sequence=False)
        if creating:
            mirror.pop("filter_subject", None)
    sources, pause = [], Pause()
    statuses = await context.neighbours.source_statuses(stream.id, range(1, 1 + len(config.sources)))
    for source, status in zip(config.sources, statuses, strict=True):
        sources.append(_source(stream, source, status, sequence=True))
        await pause()
    place = await group_of(context, stream)
    if place is not None and context.placing is not None and (under_way := await context.placing.desired(stream)):
        place |= {"desired": under_way}
    if place is None and (cluster or context.placing is not None):
        place = _cluster(context.settings)

    def put_together() -> dict[str, Any]:
        info = written(
            StreamInfo(
                config=config,
                created=stream.created,
                state=stream_state(visible, state),
                domain="" if creating else context.settings.domain,
                cluster=place,
                mirror=mirror,
                sources=sources or None,
                alternates=_alternates(context, stream) if cluster else None,
                timestamp=now_ns(),
            )
        )
        return _with_metadata(info) if metadata else info

    visible = stream.visible
    return await aside(stream.weight + ITEM_WEIGHT * (len(state.subject_counts) + len(state.deleted)), put_together)


def _with_metadata(info: dict[str, Any]) -> dict[str, Any]:
    """Adds this server's version and level to an info's configuration, whose metadata is never empty."""
    config = info["config"]
    config["metadata"] = dict(sorted(dynamic(config.get("metadata")).items()))
    return info


def _cluster(settings: Settings) -> dict[str, Any]:
    name = {"name": settings.cluster_name} if settings.cluster_name else {}
    return name | {"leader": settings.server_name}


async def group_of(context: Context, stream: Stream) -> dict[str, Any] | None:
    """The cluster member of the infos of a stream of several servers, and of its consumers: they are where it is led.
    None: it is this server's alone."""
    if stream.group is None or context.placing is None:
        return None
    return await context.placing.cluster_of(stream)


def _alternates(context: Context, stream: Stream) -> list[dict[str, Any]] | None:
    """The stream and its mirrors, wherever they are, for the client to choose the nearest; None: there are no
    mirrors."""
    found = context.placing.alternates(stream.account.name, stream.name) if context.placing is not None else []
    domain = {"domain": context.settings.domain} if context.settings.domain else {}
    return [{"name": name} | domain | {"cluster": at} for name, at in found] or None


def _source(stream: Stream, source: StreamSource, status: SourceStatus, *, sequence: bool) -> dict[str, Any]:
    members = written(source)
    info: dict[str, Any] = {"name": source.name}
    if "external" in members:
        info["external"] = members["external"]
    info["lag"] = max(status.lag, 0)
    if sequence and status.sequence:
        info["seq"] = status.sequence
    info["active"] = status.active_ns
    info["leafd"] = _how_far(status)
    if asks(source) in stream.denied:
        info["error"] = WITHHELD.fields()
    elif status.error:
        info["error"] = status.error
    for name in ("filter_subject", "subject_transforms"):
        if name in members:
            info[name] = members[name]
    return info


def _how_far(status: SourceStatus) -> dict[str, Any]:
    """How far a copy is behind: null where that is not known now. `lag` beside it is what was told last, since clients
    know no null there. Times are ns, as those of the reference."""
    behind = status.lag if status.known else None
    back = {} if status.put_back_ns < 0 else {"put_back": status.put_back_ns}
    return back | {
        "behind": behind,
        "behind_bytes": _scaled(behind, status.mean_size),
        "told": _passed(status.told_ns),
        "level": _passed(status.level_ns),
        "oldest": _oldest(behind, status),
        "level_in": _scaled(behind, 1e9 / status.pace if status.pace and status.pace > 0 else None),
        "pace": status.pace,
        "held": status.held or None,
    }


def _scaled(count: int | None, factor: float | None) -> int | None:
    return 0 if count == 0 else None if count is None or factor is None else int(count * factor)


def _passed(ns: int) -> int | None:
    return ns if ns >= 0 else None


def _oldest(behind: int | None, status: SourceStatus) -> int | None:
    """How old the oldest missing message can be: newer than what was taken, and than when nothing was missing."""
    if not behind:
        return behind
    bounds = [max(now_ns() - status.newest_ts, 0)] if status.newest_ts else []
    bounds += [status.level_ns] if status.level_ns >= 0 else []
    return min(bounds, default=None)


def consumer_info(
    stream: Stream,
    consumer: Consumer,
    state: t.ConsumerState,
    group: dict[str, Any] | None = None,
    *,
    metadata: bool = True,
) -> dict[str, Any]:
    """A consumer's info. group: what group_of says."""
    config = consumer.config
    until = config.pause_until
    remaining = 0 if until is None else time_until(until)
    info = written(
        ConsumerInfo(
            stream_name=stream.name,
            name=consumer.name,
            created=consumer.created,
            config=config,
            delivered=SequenceInfo(state.delivered_consumer, state.delivered_stream, state.last_delivered_ts or None),
            ack_floor=SequenceInfo(state.floor_consumer, state.floor_stream, state.last_acked_ts or None),
            num_ack_pending=state.ack_pending,
            # With one delivery there are no redeliveries to tell of, although the plane counts the attempt.
            num_redelivered=0 if config.max_deliver == 1 else state.redelivered,
            num_waiting=state.waiting,
            num_pending=state.pending,
            cluster=as_asked(group, replicas_of(config, stream.config), stream.config)
            if group
            else stream.account.cluster,
            push_bound=bool(state.push_bound),
            paused=remaining > 0,
            pause_remaining=remaining,
            timestamp=now_ns(),
            priority_groups=_priority_groups(config, state),
        )
    )
    return _with_metadata(info) if metadata else info


def _priority_groups(config: ConsumerConfig, state: t.ConsumerState) -> list[dict[str, Any]] | None:
    """The state of the first priority group only, as the reference has it; a pin is the consumer's, whichever group it
    came from."""
    if not config.priority_groups:
        return None
    group: dict[str, Any] = {"group": config.priority_groups[0]}
    if state.pin:
        group["pinned_client_id"] = state.pin
    return [group | {"pinned_ts": format_time(state.pinned_ts or ZERO_TIME)}]
