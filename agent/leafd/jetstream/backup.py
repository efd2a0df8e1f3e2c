"""Snapshot and restore: not done here yet, and said so at once, so that nobody waits for a timeout.

What a request must have is judged as the reference does, so that its own mistakes are named first.
"""

from __future__ import annotations

from typing import Any, Final

from leafd.config.transforms import valid_subject
from leafd.jetstream import errors
from leafd.jetstream.models.requests import RestoreRequest, SnapshotRequest
from leafd.jetstream.registry import Body, Call, endpoint
from leafd.jetstream.subjects import literal

_NOT_YET: Final = "not supported by this server yet"


@endpoint("STREAM.SNAPSHOT.*", "stream_snapshot_response", SnapshotRequest, body=Body.REQUIRED)
async def snapshot(call: Call, request: SnapshotRequest) -> dict[str, Any]:
    """Refuses to send a stream's content."""
    call.stream(call.name(2))
    if not (valid_subject(request.deliver_subject) and literal(request.deliver_subject)):
        raise errors.SNAPSHOT_DELIVER_SUBJECT_INVALID.error()
    raise errors.STREAM_SNAPSHOT.error(err=_NOT_YET)


@endpoint(
    "STREAM.RESTORE.*",
    "stream_restore_response",
    RestoreRequest,
    body=Body.REQUIRED,
    failed={"deliver_subject": ""},
)
async def restore(call: Call, request: RestoreRequest) -> dict[str, Any]:
    """Refuses to take a stream's content."""
    name = call.name(2)
    if request.config.name not in ("", name):
        raise errors.STREAM_MISMATCH.error()
    if "/" in name or "\\" in name:
        raise errors.STREAM_NAME_CONTAINS_PATH_SEPARATORS.error()
    if name in call.account.streams:
        raise errors.STREAM_NAME_EXIST_RESTORE_FAILED.error()
    raise errors.STREAM_RESTORE.error(err=_NOT_YET)
