"""Events of the groups that keep streams: who leads a stream and its consumers from now on, and that too few of its
servers are there for a leader. Told in the stream's account, and in the system account with the account's name.

    this server leads, and has its consumers --> STREAM.LEADER_ELECTED, CONSUMER.LEADER_ELECTED of each with replicas
    it led, and nobody has for LOST_S        --> STREAM.QUORUM_LOST, CONSUMER.QUORUM_LOST, if half of them are away

A consumer is led where its stream is. A leaf that copies such a stream goes on at once by the first
(links/leaders.py). Where nobody listens, nothing is written. Not here: other events (advisories.py), leads (leads.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import trio

from leafd.cluster.consumers import replicas_of
from leafd.jetstream.rules.versioning import hash8

if TYPE_CHECKING:
    from leafd.jetstream.catalogue import Consumer, Stream
    from leafd.jetstream.context import Context

LOST_S: Final = 6.0
"""A majority has another leader by then, and a server that stands still counts as away (cluster/presence.py)."""
Row = dict[str, Any]


async def elected(context: Context, stream: Stream) -> None:
    """This server leads the stream from now on, and has its consumers."""
    if not context.plane.advised():
        return
    members = await _members(context, stream)
    context.advisories.group(stream, "", "LEADER_ELECTED", members, _system(context))
    for consumer in shared(stream):
        context.advisories.group(stream, consumer, "LEADER_ELECTED", members, _system(context))


async def made(context: Context, stream: Stream, consumer: Consumer) -> None:
    """A consumer is new in a stream that this server leads."""
    if stream.group is not None and _is_shared(stream, consumer) and context.plane.advised():
        members = await _members(context, stream)
        context.advisories.group(stream, consumer.name, "LEADER_ELECTED", members, _system(context))


async def left(context: Context, stream: Stream, consumers: Iterable[str]) -> None:
    """This server leads the stream no more. consumers: those with replicas that it had."""
    lead = stream.lead
    await trio.sleep(LOST_S)
    if stream.lead != lead or not context.plane.advised() or not _is_lost(context, stream):
        return
    about = await _cluster(context, stream)
    if "leader" in about:
        return
    members = {"replicas": about.get("replicas", [])}
    for name in ("", *consumers):
        context.advisories.group(stream, name, "QUORUM_LOST", members, _system(context))


def shared(stream: Stream) -> list[str]:
    """The names of the consumers that are to have replicas."""
    return [one.name for one in stream.listed() if _is_shared(stream, one)]


def _is_shared(stream: Stream, consumer: Consumer) -> bool:
    return replicas_of(consumer.config, stream.config) > 1 and not consumer.hidden


def _is_lost(context: Context, stream: Stream) -> bool:
    placing = context.placing
    row = placing.table.streams.get(stream.account.name, {}).get(stream.name) if placing is not None else None
    if placing is None or row is None:
        return False
    return 2 * sum(peer == placing.own or placing.reaches(peer) for peer in row.peers) <= len(row.peers)


async def _cluster(context: Context, stream: Stream) -> Row:
    assert context.placing is not None
    return await context.placing.cluster_of(stream)


async def _members(context: Context, stream: Stream) -> Row:
    """The leader's name, and all servers that keep the stream."""
    name = context.settings.server_name
    own: Row = {"name": name, "current": True, "active": 0, "peer": hash8(name)}
    about = await _cluster(context, stream)
    return {"leader": name, "replicas": [own, *about.get("replicas", [])]}


def _system(context: Context) -> int:
    """The plane's number of the system account."""
    return next((one.id for one in context.catalogue.accounts.values() if one.system), 0)
