"""The enumerations of native/abi.h: each takes its numbers from the header, by way of native.py.

A member is added here when Python has a use for its name; tests/unit/test_native.py sees that none is missing. The rest
of Python finds them in native_types.py. Not here: what the numbers are used in (native_types.py).
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Final

from leafd.native import abi

STATE_LISTED_MAX: Final[int] = abi.STATE_LISTED_MAX
"""Deleted sequences, and subjects, that one answer about a stream's state lists at most."""
KNOWN_WEB: Final[int] = abi.KNOWN_WEB
"""A flag of a known login, beside ConnKind: it came over WebSocket."""


class Status(IntEnum):
    """How a command ended (STATUS_* of abi.h)."""

    OK = abi.STATUS_OK
    NOT_FOUND = abi.STATUS_NOT_FOUND
    FULL = abi.STATUS_FULL
    NO_MEMORY = abi.STATUS_NO_MEMORY
    IO = abi.STATUS_IO
    CORRUPT = abi.STATUS_CORRUPT
    VERSION = abi.STATUS_VERSION
    IN_USE = abi.STATUS_IN_USE
    INVALID = abi.STATUS_INVALID
    EXISTS = abi.STATUS_EXISTS
    NO_SPACE = abi.STATUS_NO_SPACE
    CLOSED = abi.STATUS_CLOSED
    AGAIN = abi.STATUS_AGAIN


STATUS_NAMES: Final[dict[int, str]] = {
    Status.NOT_FOUND: "not found",
    Status.FULL: "full",
    Status.NO_MEMORY: "out of memory",
    Status.IO: "input/output error",
    Status.CORRUPT: "corrupt",
    Status.VERSION: "written by a newer version",
    Status.IN_USE: "in use",
    Status.INVALID: "invalid",
    Status.EXISTS: "exists already",
    Status.NO_SPACE: "no space left",
    Status.CLOSED: "closed",
    Status.AGAIN: "nothing now",
}


class ConnKind(IntEnum):
    """The protocol of a connection (CONN_* of abi.h)."""

    CLIENT = abi.CONN_CLIENT
    LEAF = abi.CONN_LEAF
    ROUTE = abi.CONN_ROUTE
    GATEWAY = abi.CONN_GATEWAY
    MQTT = abi.CONN_MQTT


class ListenFlag(IntFlag):
    """The layers before a connection's own protocol (LISTEN_* of abi.h)."""

    SECURE = abi.LISTEN_SECURE
    WEB = abi.LISTEN_WEB
    PROXIED = abi.LISTEN_PROXIED


class Doubt(IntEnum):
    """The doubts about a link that we dialled (DOUBT_* of abi.h)."""

    NONE = abi.DOUBT_NONE
    ALL = abi.DOUBT_ALL
    LARGE = abi.DOUBT_LARGE
    FIRST = abi.DOUBT_FIRST


class CloseReason(IntEnum):
    """Why a connection ended (CLOSE_* of abi.h)."""

    CLIENT = abi.CLOSE_CLIENT
    PROTOCOL = abi.CLOSE_PROTOCOL
    AUTHENTICATION = abi.CLOSE_AUTHENTICATION
    SLOW = abi.CLOSE_SLOW
    STALE = abi.CLOSE_STALE
    WRITE = abi.CLOSE_WRITE
    SHUTDOWN = abi.CLOSE_SHUTDOWN
    LOOP = abi.CLOSE_LOOP
    PERMISSION = abi.CLOSE_PERMISSION
    LIMIT = abi.CLOSE_LIMIT
    DUPLICATE = abi.CLOSE_DUPLICATE
    TLS = abi.CLOSE_TLS
    KICKED = abi.CLOSE_KICKED


class SecureFlag(IntFlag):
    """How a connection gets TLS (SECURE_* of abi.h)."""

    FIRST = abi.SECURE_FIRST
    OPTIONAL = abi.SECURE_OPTIONAL


class SecuredFlag(IntFlag):
    """How a handshake ended (SECURED_* of abi.h)."""

    RESUMED = abi.SECURED_RESUMED
    PLAIN = abi.SECURED_PLAIN
    FIRST = abi.SECURED_FIRST


class TlsFlag(IntFlag):
    """The purpose of a TLS context (TLS_* of abi.h)."""

    CLIENT = abi.TLS_CLIENT
    VERIFY = abi.TLS_VERIFY


class VerdictFlag(IntFlag):
    """Properties of an admitted connection (VERDICT_* of abi.h)."""

    VERBOSE = abi.VERDICT_VERBOSE
    PEDANTIC = abi.VERDICT_PEDANTIC
    ECHO = abi.VERDICT_ECHO
    HEADERS = abi.VERDICT_HEADERS
    NO_RESPONDERS = abi.VERDICT_NO_RESPONDERS
    PROTOCOL_1 = abi.VERDICT_PROTOCOL_1
    SPOKE = abi.VERDICT_SPOKE
    IMPLICIT = abi.VERDICT_IMPLICIT
    TRACES = abi.VERDICT_TRACES
    ISOLATED = abi.VERDICT_ISOLATED


class RouteFlag(IntFlag):
    """The flags of RouteTerms (ROUTE_* of abi.h)."""

    UNSUB_ORIGIN = abi.ROUTE_UNSUB_ORIGIN
    TRACES = abi.ROUTE_TRACES


class GatewayFlag(IntFlag):
    """The flags of GatewayTerms (GATEWAY_* of abi.h)."""

    OUTBOUND = abi.GATEWAY_OUTBOUND
    HEADERS = abi.GATEWAY_HEADERS
    TRACES = abi.GATEWAY_TRACES


class ClusteredFlag(IntFlag):
    """The kinds of connections to other servers that are allowed (CLUSTERED_* of abi.h)."""

    ROUTES = abi.CLUSTERED_ROUTES
    GATEWAYS = abi.CLUSTERED_GATEWAYS
    META = abi.CLUSTERED_META


class Placed(IntEnum):
    """News of other servers' streams (PLACED_* of abi_meta.h)."""

    STREAM = abi.PLACED_STREAM
    KNOWN = abi.PLACED_KNOWN
    UNKNOWN = abi.PLACED_UNKNOWN


class AccountFlag(IntFlag):
    """Properties of an account (ACCOUNT_* of abi.h)."""

    JETSTREAM = abi.ACCOUNT_JETSTREAM
    REMOVED = abi.ACCOUNT_REMOVED
    SERVES = abi.ACCOUNT_SERVES
    LINKED = abi.ACCOUNT_LINKED
    PINNED = abi.ACCOUNT_PINNED


class ImportKind(IntEnum):
    """The kind of an import (IMPORT_* of abi.h)."""

    STREAM = abi.IMPORT_STREAM
    SERVICE = abi.IMPORT_SERVICE


class Response(IntEnum):
    """How many answers a service gives (RESPONSE_* of abi.h)."""

    SINGLETON = abi.RESPONSE_SINGLETON
    STREAM = abi.RESPONSE_STREAM


class SubscribeFlag(IntFlag):
    """How a control subscription behaves (SUBSCRIBE_* of abi.h)."""

    API = abi.SUBSCRIBE_API
    TEMPLATE = abi.SUBSCRIBE_TEMPLATE
    ALONE = abi.SUBSCRIBE_ALONE
    GUESTS = abi.SUBSCRIBE_GUESTS


class PublishFlag(IntFlag):
    """How a control publish leaves (PUBLISH_* of abi.h)."""

    REQUEST = abi.PUBLISH_REQUEST
    STREAMS = abi.PUBLISH_STREAMS
    BULK = abi.PUBLISH_BULK


class LineKind(IntEnum):
    """Handshake lines that reach Python (LINE_* of abi.h); any other number is an op that came without CONNECT."""

    CONNECT = abi.LINE_CONNECT
    INFO = abi.LINE_INFO
    ERR = abi.LINE_ERR
    HTTP = abi.LINE_HTTP


class WebFlag(IntFlag):
    """How a connection speaks WebSocket (WEB_* of abi.h)."""

    CLIENT = abi.WEB_CLIENT
    UNMASKED = abi.WEB_UNMASKED
    DEFLATE = abi.WEB_DEFLATE
    SMALL = abi.WEB_SMALL
    WHOLE = abi.WEB_WHOLE
    KNOWN = abi.WEB_KNOWN


COMPRESSION_LEVELS: Final = ("s2_uncompressed", "s2_fast", "s2_better", "s2_best")
"""COMPRESS_* of abi.h by number, as they are called on the wire."""


class AdvisoryCode(IntEnum):
    """The kinds of advisories about a consumer or one of its messages (ADVISORY_* of abi.h)."""

    MAX_DELIVERIES = abi.ADVISORY_MAX_DELIVERIES
    NAKED = abi.ADVISORY_NAKED
    TERMINATED = abi.ADVISORY_TERMINATED
    ACK_SAMPLE = abi.ADVISORY_ACK_SAMPLE
    PAUSE_ENDED = abi.ADVISORY_PAUSE_ENDED
    PINNED = abi.ADVISORY_PINNED
    UNPINNED = abi.ADVISORY_UNPINNED
    BATCH_ABANDONED = abi.ADVISORY_BATCH_ABANDONED
    PUT_BACK = abi.ADVISORY_PUT_BACK


class Abandoned(IntEnum):
    """Why an atomic batch was dropped (ABANDONED_* of abi.h)."""

    TIMEOUT = abi.ABANDONED_TIMEOUT
    LARGE = abi.ABANDONED_LARGE
    INCOMPLETE = abi.ABANDONED_INCOMPLETE
    UNSUPPORTED = abi.ABANDONED_UNSUPPORTED


class LedCode(IntEnum):
    """LED_*: this server leads a stream of several no more, or now; one of its consumers; the position of one of
    its sources; that was the last one; the stream's definition is another one."""

    NO_MORE = abi.LED_NO_MORE
    HERE = abi.LED_HERE
    CONSUMER = abi.LED_CONSUMER
    SOURCE = abi.LED_SOURCE
    WHOLE = abi.LED_WHOLE
    DEFINITION = abi.LED_DEFINITION


class AlarmCode(IntEnum):
    """The alarms for the operator (ALARM_* of abi.h)."""

    CORRUPT = abi.ALARM_CORRUPT
    DISK_FULL = abi.ALARM_DISK_FULL
    DISK_OK = abi.ALARM_DISK_OK
    IO = abi.ALARM_IO
    CLOCK = abi.ALARM_CLOCK
    SLOW = abi.ALARM_SLOW
    COMMAND = abi.ALARM_COMMAND
    KEY = abi.ALARM_KEY
    INTEREST = abi.ALARM_INTEREST
    DROPPED = abi.ALARM_DROPPED
    MEND = abi.ALARM_MEND
    WAITS = abi.ALARM_WAITS
    SHARED = abi.ALARM_SHARED
    HOLE = abi.ALARM_HOLE
    INPUT = abi.ALARM_INPUT
    MEMORY = abi.ALARM_MEMORY


class Query(IntEnum):
    """The kinds of queries for a message of a stream (QUERY_* of abi.h)."""

    SEQUENCE = abi.QUERY_SEQUENCE
    LAST_BY_SUBJECT = abi.QUERY_LAST_BY_SUBJECT
    NEXT_BY_SUBJECT = abi.QUERY_NEXT_BY_SUBJECT
    START_TIME = abi.QUERY_START_TIME


class Cipher(IntEnum):
    """How the store is encrypted (CIPHER_* of abi.h)."""

    CHACHA = abi.CIPHER_CHACHA
    AES = abi.CIPHER_AES


class Record(IntEnum):
    """Kinds of stored records (RECORD_* of abi.h)."""

    STREAM = abi.RECORD_STREAM
    CONSUMER = abi.RECORD_CONSUMER
    CONTROL = abi.RECORD_CONTROL
    SOURCE = abi.RECORD_SOURCE
    LOST = abi.RECORD_LOST
    HOLE = abi.RECORD_HOLE


class StreamFlag(IntFlag):
    """Properties of a stream (STREAM_* of abi.h)."""

    NO_ACK = abi.STREAM_NO_ACK
    DISCARD_NEW_PER_SUBJECT = abi.STREAM_DISCARD_NEW_PER_SUBJECT
    SEALED = abi.STREAM_SEALED
    DENY_PURGE = abi.STREAM_DENY_PURGE
    ALLOW_ROLLUP = abi.STREAM_ALLOW_ROLLUP
    ALLOW_DIRECT = abi.STREAM_ALLOW_DIRECT
    ALLOW_TTL = abi.STREAM_ALLOW_TTL
    MIRROR = abi.STREAM_MIRROR
    ALLOW_BATCHED = abi.STREAM_ALLOW_BATCHED
    ALLOW_ATOMIC = abi.STREAM_ALLOW_ATOMIC
    COUNTER = abi.STREAM_COUNTER
    REPUBLISH_HEADERS = abi.STREAM_REPUBLISH_HEADERS
    ALLOW_SCHEDULES = abi.STREAM_ALLOW_SCHEDULES
    GRANTS_SCHEDULES = abi.STREAM_GRANTS_SCHEDULES
    COMPRESS = abi.STREAM_COMPRESS
    REPLICATED = abi.STREAM_REPLICATED
    LACKS_CONSUMERS = abi.STREAM_LACKS_CONSUMERS


class ConsumerFlag(IntFlag):
    """Properties of a consumer (CONSUMER_* of abi.h)."""

    PUSH = abi.CONSUMER_PUSH
    FLOW_CONTROL = abi.CONSUMER_FLOW_CONTROL
    HEADERS_ONLY = abi.CONSUMER_HEADERS_ONLY
    MEMORY = abi.CONSUMER_MEMORY
    DIRECT = abi.CONSUMER_DIRECT
    HELD = abi.CONSUMER_HELD


class IngestAt(IntEnum):
    """The places where the consumer of an ingest begins (BEGINS_* of abi.h)."""

    NEXT = abi.BEGINS_NEXT
    TIME = abi.BEGINS_TIME
    NEW = abi.BEGINS_NEW


class IngestCode(IntEnum):
    """The kinds of events of an ingest (INGEST_* of abi.h)."""

    GAP = abi.INGEST_GAP
    SILENT = abi.INGEST_SILENT
    REFUSED = abi.INGEST_REFUSED
    FIRST = abi.INGEST_FIRST
    BACK = abi.INGEST_BACK
    SPAN = abi.INGEST_SPAN
    ROOM = abi.INGEST_ROOM


class RefusedCode(IntEnum):
    """REFUSED_*: what a client was refused."""

    PUBLISH = abi.REFUSED_PUBLISH
    REPLY = abi.REFUSED_REPLY
    SUBSCRIBE = abi.REFUSED_SUBSCRIBE
    SUBSCRIPTIONS = abi.REFUSED_SUBSCRIPTIONS
    PAYLOAD = abi.REFUSED_PAYLOAD
    CONTROL_LINE = abi.REFUSED_CONTROL_LINE
    PROTOCOL = abi.REFUSED_PROTOCOL
    REMOVED = abi.REFUSED_REMOVED
