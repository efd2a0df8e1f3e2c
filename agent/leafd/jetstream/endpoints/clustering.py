"""Requests that only make sense in a cluster: each is told so."""

from __future__ import annotations

from typing import Any

from leafd.jetstream import errors
from leafd.jetstream.registry import Call, endpoint


@endpoint("STREAM.LEADER.STEPDOWN.*", "stream_leader_stepdown_response", checks=())
@endpoint("STREAM.PEER.REMOVE.*", "stream_remove_peer_response", checks=())
@endpoint("STREAM.PEER.EVACUATE.*", "stream_evacuate_peer_response", checks=())
@endpoint("STREAM.CANCEL_MOVE.*", "stream_cancel_move_response", checks=())
@endpoint("CONSUMER.LEADER.STEPDOWN.*.*", "consumer_leader_stepdown_response", checks=())
@endpoint("CONSUMER.PEER.REMOVE.*.*", "consumer_remove_peer_response", checks=())
@endpoint("CONSUMER.PEER.EVACUATE.*.*", "consumer_evacuate_peer_response", checks=())
async def refuse(_call: Call, _request: None) -> dict[str, Any]:
    """A lone server has no leaders to step down and no peers to remove."""
    raise errors.CLUSTER_REQUIRED.error()
