"""The answers of an origin to the requests of a mirror or source: the fields that are looked at.

Not here: what an answer means for the copy (replica.py), where it comes (asking.py).
Reference: tests/wire/jetstream.md, "Mirrors and sources".
"""

from __future__ import annotations

from typing import ClassVar, Final

from leafd.gojson import INT, TEXT, UINT64, JsonError, Nested, Struct, decode, wire
from leafd.records import dataclass

NUMBER_SIZE_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class CreateError(Struct):
    """Why the origin refuses."""

    go_name: ClassVar[str] = "ApiError"

    code: int = wire(INT, "code")
    err_code: int = wire(INT, "err_code")
    description: str = wire(TEXT, "description")


@dataclass(frozen=True, slots=True)
class CreatedConfig(Struct):
    """The fields of the created consumer's configuration that are looked at."""

    go_name: ClassVar[str] = "ConsumerConfig"

    ack_policy: str = wire(TEXT, "ack_policy")
    idle_heartbeat: int = wire(INT, "idle_heartbeat")


@dataclass(frozen=True, slots=True)
class CreatedPosition(Struct):
    """The fields of the created consumer's position that are looked at."""

    go_name: ClassVar[str] = "SequenceInfo"

    stream_seq: int = wire(UINT64, "stream_seq")


@dataclass(frozen=True, slots=True)
class Created(Struct):
    """The fields of the origin's answer to a consumer create that are looked at."""

    go_name: ClassVar[str] = "JSApiConsumerCreateResponse"

    name: str = wire(TEXT, "name")
    error: CreateError | None = wire(Nested(CreateError), "error")
    config: CreatedConfig | None = wire(Nested(CreatedConfig), "config")
    delivered: CreatedPosition | None = wire(Nested(CreatedPosition), "delivered")
    num_pending: int = wire(UINT64, "num_pending")


def made(body: bytes) -> str:
    """The name of the consumer that an answer tells of; empty: none was made."""
    try:
        return decode(Created, body, strict=False).name
    except JsonError:
        return ""


@dataclass(frozen=True, slots=True)
class OriginState(Struct):
    """The fields of a stream's state that are looked at."""

    go_name: ClassVar[str] = "StreamState"

    last_seq: int = wire(UINT64, "last_seq")


@dataclass(frozen=True, slots=True)
class OriginCluster(Struct):
    """The fields of a stream's cluster that are looked at."""

    go_name: ClassVar[str] = "ClusterInfo"

    name: str = wire(TEXT, "name")


@dataclass(frozen=True, slots=True)
class OriginInfo(Struct):
    """The fields of the origin's answer to a stream info that are looked at."""

    go_name: ClassVar[str] = "JSApiStreamInfoResponse"

    cluster: OriginCluster | None = wire(Nested(OriginCluster), "cluster")
    state: OriginState | None = wire(Nested(OriginState), "state")


def is_number(word: str) -> bool:
    """Whether a header's word is a sequence, or a stamp."""
    return word.isascii() and word.isdigit() and len(word) <= NUMBER_SIZE_MAX
