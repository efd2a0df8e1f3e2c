"""Single messages by the API: get and delete. DIRECT.GET is answered by the plane."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from leafd import native_types as t
from leafd.gotime import format_time, plane_time
from leafd.jetstream import errors
from leafd.jetstream.endpoints.streams import refused
from leafd.jetstream.models.requests import MessageDeleteRequest, MessageGetRequest
from leafd.jetstream.models.stream import MEMORY
from leafd.jetstream.registry import Body, Call, Counted, endpoint

# QUERY_* of abi.h.


@endpoint("STREAM.MSG.GET.*", "stream_msg_get_response", MessageGetRequest, body=Body.REQUIRED, counted=Counted.ERRORS)
async def get(call: Call, request: MessageGetRequest) -> dict[str, Any]:
    """One stored message by sequence, by subject, or by time."""
    sequence, moment = request.sequence, request.start_time
    last, following = request.last_by_subject, request.next_by_subject
    anchors = (sequence > 0) + bool(last) + (moment is not None)
    if request.batch > 0 or request.max_bytes > 0 or anchors > 1 or (last and following):
        raise errors.BAD_REQUEST.error()
    if not anchors and not following:
        raise errors.BAD_REQUEST.error()
    stream = call.stream(call.name(3))
    if following:
        mode = t.Query.NEXT_BY_SUBJECT
    elif last:
        mode = t.Query.LAST_BY_SUBJECT
    else:
        mode = t.Query.START_TIME if moment is not None else t.Query.SEQUENCE
    start_ts = 0 if moment is None else plane_time(moment)
    try:
        message = await call.context.plane.message_get(
            stream.id, mode, sequence=sequence, start_ts=start_ts, subject=following or last
        )
    except t.PlaneError as error:
        # A record that fails its checksum is never served; the alarm has told the operator. Where other servers have
        # it, it will be: another one leads soon, or this one has a copy.
        if error.status == t.Status.IO and stream.group is not None:
            raise errors.CLUSTER_NOT_AVAILABLE.error() from None
        if error.status != t.Status.CORRUPT:
            raise refused(error, errors.STREAM_GENERAL) from None
        message = None
    if message is None:
        raise errors.NO_MESSAGE_FOUND.error()
    return {"message": _stored(message, headers=not request.no_headers)}


def _stored(message: t.StoredMessage, *, headers: bool) -> dict[str, Any]:
    members: dict[str, Any] = {"subject": message.subject.decode("utf-8", "replace"), "seq": message.sequence}
    if headers and message.header:
        members["hdrs"] = b64encode(message.header).decode()
    if message.payload:
        members["data"] = b64encode(message.payload).decode()
    members["time"] = format_time(message.ts)
    return members


@endpoint("STREAM.MSG.DELETE.*", "stream_msg_delete_response", MessageDeleteRequest, body=Body.REQUIRED)
async def delete(call: Call, request: MessageDeleteRequest) -> dict[str, Any]:
    """Deletes one message; what is missing is told as the reference's two stores tell it."""
    stream = call.stream(call.name(3))
    if stream.config.sealed:
        raise errors.STREAM_SEALED.error()
    if stream.config.deny_delete:
        raise errors.STREAM_MESSAGE_DELETE_FAILED.error(err="message delete not permitted")
    plane, sequence = call.context.plane, request.sequence
    failed = errors.STREAM_MESSAGE_DELETE_FAILED
    try:
        if await plane.message_delete(stream.id, sequence):
            return {"success": True}
        state = await plane.stream_state(stream.id)
    except t.PlaneError as error:
        raise failed.error(err=error).uncounted() from None
    if stream.config.storage != MEMORY:
        if sequence > state.last_seq:
            raise failed.error(err="stream store EOF").uncounted()
        if sequence < state.first_seq:
            raise failed.error(err="no message found").uncounted()
    raise errors.SEQUENCE_NOT_FOUND.error(seq=sequence).uncounted()
