"""Requests about the servers of a stream: a lone server says so, and with one replica none of them leads another."""

from __future__ import annotations

from typing import Any

from leafd import native_types as t
from leafd.gojson import JsonError, decode
from leafd.jetstream import errors
from leafd.jetstream.catalogue import Stream
from leafd.jetstream.context import Context
from leafd.jetstream.endpoints.infos import stream_info
from leafd.jetstream.endpoints.streams import agreed, changed, check_led, shared
from leafd.jetstream.models.requests import PeerRemoveRequest, StepDownRequest
from leafd.jetstream.models.stream import Placement
from leafd.jetstream.ports import Placing
from leafd.jetstream.registry import Call, Lock, endpoint


def _placing(call: Call) -> Placing:
    """The servers of the group. Raises ApiError: this one is alone."""
    if call.context.placing is None:
        raise errors.CLUSTER_REQUIRED.error()
    return call.context.placing


def _wanted(body: bytes) -> Placement:
    """The server that is to lead, or what it has to be like. Raises ApiError."""
    if not body.strip():
        return Placement()
    try:
        return decode(StepDownRequest, body, strict=False).placement or Placement()
    except JsonError as error:
        raise errors.INVALID_JSON.error(err=error) from None


@endpoint("STREAM.LEADER.STEPDOWN.*", "stream_leader_stepdown_response", checks=())
async def stream_step_down(call: Call, _request: None) -> dict[str, Any]:
    """Another replica leads; the only one stays the leader."""
    placing = _placing(call)
    stream = call.stream(call.name(3))
    if stream.group is not None and stream.config.num_replicas > 1:
        await placing.step_down(stream, _wanted(call.body))
    return {"success": True}


@endpoint("CONSUMER.LEADER.STEPDOWN.*.*", "consumer_leader_stepdown_response", checks=())
async def consumer_step_down(call: Call, _request: None) -> dict[str, Any]:
    """A consumer is where its stream is led: another server leads both."""
    placing = _placing(call)
    stream = _stream_of_consumer(call)
    if stream.group is not None and stream.config.num_replicas > 1:
        await placing.step_down(stream, _wanted(call.body))
    return {"success": True}


@endpoint("STREAM.PEER.REMOVE.*", "stream_remove_peer_response", checks=())
async def remove_peer(call: Call, _request: None) -> dict[str, Any]:
    """Another server keeps the stream in the place of that one."""
    placing = _placing(call)
    stream = call.stream(call.name(3))
    await placing.without(stream, _peer(call))
    return {"success": True}


@endpoint("STREAM.PEER.EVACUATE.*", "stream_evacuate_peer_response", checks=())
async def evacuate_peer(call: Call, _request: None) -> dict[str, Any]:
    """As remove_peer(); a stream that one server alone has moves."""
    placing = _placing(call)
    stream = call.stream(call.name(3))
    await placing.without(stream, _peer(call), moves=True)
    return {"success": True}


def _stream_of_consumer(call: Call) -> Stream:
    """The stream that is named, which this server leads and which has the consumer that is named. Raises ApiError."""
    stream = call.stream(call.name(3))
    check_led(stream)
    call.consumer(stream, call.name(4))
    return stream


def _peer(call: Call) -> str:
    """The server that is named. Raises ApiError: none is."""
    try:
        peer = decode(PeerRemoveRequest, call.body, strict=False).peer if call.body.strip() else ""
    except JsonError as error:
        raise errors.INVALID_JSON.error(err=error) from None
    if not peer:
        raise errors.BAD_REQUEST.error()
    return peer


@endpoint("STREAM.CANCEL_MOVE.*", "stream_cancel_move_response", checks=(), lock=Lock.ACCOUNT)
async def cancel_move(call: Call, _request: None) -> dict[str, Any]:
    """A stream goes back to where it was, and to as many servers, before the change that is under way."""
    placing = _placing(call)
    stream = call.stream(call.name(2))
    await placing.call_off(stream)
    state = await _as_agreed(call.context, stream)
    call.weight = stream.weight
    return await stream_info(call.context, stream, state)


async def _as_agreed(context: Context, stream: Stream) -> t.StreamState:
    """A stream is as the table of all servers has it. The caller holds the account's lock. Raises ApiError."""
    assert context.placing is not None
    account, name = stream.account.name, stream.name
    config, group = context.placing.config(account, name), context.placing.group(account, name)
    if config is None:
        raise errors.STREAM_NOT_FOUND.error()
    if stream.group is None and group is not None:
        return await shared(context, stream, config, stream.author, group)
    return await (changed if stream.group is None else agreed)(context, stream, config, stream.author)


@endpoint("CONSUMER.PEER.REMOVE.*.*", "consumer_remove_peer_response", checks=())
@endpoint("CONSUMER.PEER.EVACUATE.*.*", "consumer_evacuate_peer_response", checks=())
async def move_consumer(call: Call, _request: None) -> dict[str, Any]:
    """A consumer is on the servers of its stream, and moves with that alone."""
    placing = _placing(call)
    stream = _stream_of_consumer(call)
    placing.keeper(stream, _peer(call))
    raise errors.PEER_REMAP.error()
