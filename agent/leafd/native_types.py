"""The plane's flat values as Python sees them: frozen events, configurations and states.

One dataclass per struct of native/abi.h and per event kind; names and units are those of the header, and numbers and
the order of members come from it (native.py). Not here: how they cross between the languages
(native_commands.py, native_plane.py), and what anybody makes of them (auth/, jetstream/, links/).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field

from leafd.native import layout
from leafd.native_allowance import Allowance as Allowance, AllowanceLevel as AllowanceLevel, Allowed as Allowed
from leafd.native_authors import Author as Author, AuthorCode as AuthorCode
from leafd.native_codes import (
    KNOWN_WEB as KNOWN_WEB,
    STATE_LISTED_MAX as STATE_LISTED_MAX,
    STATUS_NAMES as STATUS_NAMES,
    Abandoned as Abandoned,
    AccountFlag as AccountFlag,
    AdvisoryCode as AdvisoryCode,
    AlarmCode as AlarmCode,
    CloseReason as CloseReason,
    ClusteredFlag as ClusteredFlag,
    ConnKind as ConnKind,
    ConsumerFlag as ConsumerFlag,
    Doubt as Doubt,
    GatewayFlag as GatewayFlag,
    ImportKind as ImportKind,
    IngestAt as IngestAt,
    IngestCode as IngestCode,
    LedCode as LedCode,
    LineKind as LineKind,
    ListenFlag as ListenFlag,
    Placed as Placed,
    PublishFlag as PublishFlag,
    Query as Query,
    Record as Record,
    RefusedCode as RefusedCode,
    Response as Response,
    RouteFlag as RouteFlag,
    SecuredFlag as SecuredFlag,
    SecureFlag as SecureFlag,
    Status as Status,
    StreamFlag as StreamFlag,
    SubscribeFlag as SubscribeFlag,
    TlsFlag as TlsFlag,
    VerdictFlag as VerdictFlag,
    WebFlag as WebFlag,
)
from leafd.native_comers import Came as Came, Line as Line, Opened as Opened
from leafd.native_ingests import (
    NO_SPAN as NO_SPAN,
    PACE_UNKNOWN as PACE_UNKNOWN,
    IngestSource as IngestSource,
    IngestState as IngestState,
    Span as Span,
)
from leafd.native_latency import Description as Description, FarLatency as FarLatency, Latency as Latency
from leafd.native_mqtt import MqttFlag as MqttFlag, MqttLimits as MqttLimits
from leafd.native_stats import Histogram as Histogram, Stats as Stats
from leafd.native_traces import MessageTrace as MessageTrace, Trace as Trace
from leafd.native_transports import (
    Compress as Compress,
    GatewayTerms as GatewayTerms,
    Letter as Letter,
    Proxied as Proxied,
    RouteTerms as RouteTerms,
    Secure as Secure,
)
from leafd.records import dataclass


class PlaneError(Exception):
    """A command was refused, or the plane could not be opened. status is a Status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def begins(kind: ConnKind, secure: bool, web: bool, proxied: bool = False) -> int:
    """The layers before a connection's protocol, as LISTEN and ADOPT have them."""
    return kind | ListenFlag.SECURE * secure | ListenFlag.WEB * web | ListenFlag.PROXIED * proxied


@dataclass(frozen=True, slots=True)
class ImportRow:
    """One import of an account (import_row_t of abi.h, with its strings)."""

    exporter: int
    kind: ImportKind
    response: Response
    threshold_ns: int
    subject: str
    local: str
    order: tuple[int, ...]
    traced: bool = False
    shared: bool = False
    placed: bool = False
    sampling: int = 0
    results: str = ""
    """The subject on which the service's times are told; empty: they are not measured."""
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """plane_limits_t: sizes in bytes, times in nanoseconds."""

    max_file_store: int = 0
    max_memory_store: int = 0
    journal_size: int = 0
    sync_interval_ns: int = 0
    memory_limit: int = 0
    max_pending: int = 64 << 20
    write_deadline_ns: int = 10_000_000_000
    ping_interval_ns: int = 120_000_000_000
    batch_timeout_ns: int = 0
    ping_max: int = 2
    max_control_line: int = 4096
    max_payload: int = 1 << 20
    max_connections: int = 64 << 10
    jetstream: int = 0
    trace: int = 0
    batches_per_stream: int = 0
    batches_total: int = 0
    batch_messages: int = 0
    clustered: int = 0
    """ClusteredFlag."""


@dataclass(frozen=True, slots=True)
class Budget:
    """budget_t: up to which count of its bytes on the wire a link carries what is urgent, high, normal and low."""

    urgent: int
    high: int
    normal: int
    low: int
    tell: int
    pace: int = 0


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """tls_settings_t: what a context of TLS is for, in numbers."""

    flags: int
    min_version: int = 0
    connection_rate: int = 0
    timeout_ns: int = 2_000_000_000


@dataclass(frozen=True, slots=True)
class TlsTexts:
    """The texts of a TLS context: PEM, and names as nats-server has them. certificates: chain, key by turns."""

    ca: bytes = b""
    cipher_suites: tuple[str, ...] = ()
    curves: tuple[str, ...] = ()
    pinned: tuple[str, ...] = ()
    certificates: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Permissions:
    """Allow and deny lists of subject patterns; an empty allow list allows everything.

    For a leaf link `publish` is what may be sent over it, `subscribe` what may come in and be asked for, `mapped_deny`
    where an
    account's mapping or the domain's name must not lead what came in.
    """

    publish_allow: tuple[str, ...] = ()
    publish_deny: tuple[str, ...] = ()
    subscribe_allow: tuple[str, ...] = ()
    subscribe_deny: tuple[str, ...] = ()
    mapped_deny: tuple[str, ...] = ()
    author: str = ""
    """The author in the schedules that the connection stores; empty: nobody logs in."""


@dataclass(frozen=True, slots=True)
class ConnVerdict:
    """conn_verdict_t: what an admitted connection may do."""

    flags: int
    max_payload: int = 1 << 20
    max_subscriptions: int = 0
    response_max: int = 0
    response_ttl_ns: int = 0
    expires_wall_ns: int = 0
    ping_interval_ns: int = 0
    """0: the limits'."""
    domain: int = 0
    """A leaf link's domain at its other end, its name's hash8 as a number; 0: there is none, or it is not known."""
    whole: int = 0
    """A number for the server or the cluster that is there; 0: it is not known."""


@dataclass(frozen=True, slots=True)
class FlatStream:
    """stream_config_t: a validated stream as the store needs it (-1 = no limit, times in ns)."""

    account: int
    flags: int = 0
    storage: int = 0
    retention: int = 0
    discard: int = 0
    replicas: int = 1
    max_msg_size: int = -1
    max_msgs: int = -1
    max_bytes: int = -1
    max_age_ns: int = 0
    max_msgs_per_subject: int = -1
    duplicate_window_ns: int = 0
    first_seq: int = 0
    marker_ttl_ns: int = 0


@dataclass(frozen=True, slots=True)
class FlatConsumer:
    """consumer_config_t: a validated consumer as consume/ needs it."""

    account: int
    flags: int = 0
    deliver_policy: int = 0
    ack_policy: int = 0
    replay_policy: int = 0
    sample_percent: int = 0
    max_deliver: int = -1
    opt_start_seq: int = 0
    opt_start_ts: int = 0
    ack_wait_ns: int = 0
    idle_heartbeat_ns: int = 0
    inactive_threshold_ns: int = 0
    pause_until_ns: int = 0
    max_expires_ns: int = 0
    rate_limit_bps: int = 0
    max_ack_pending: int = -1
    max_waiting: int = 0
    max_batch: int = 0
    max_request_bytes: int = 0
    priority_policy: int = 0
    priority_timeout_ns: int = 0


@dataclass(frozen=True, slots=True)
class StreamState:
    """stream_state_t, with the lists that were asked for. Stamps are Unix ns, 0 = none."""

    messages: int
    bytes: int
    first_seq: int
    last_seq: int
    first_ts: int
    last_ts: int
    subjects: int
    deleted_count: int
    consumers: int
    subjects_matched: int
    corrupt: int
    deleted: tuple[int, ...] = ()
    subject_counts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConsumerState:
    """consumer_state_t: positions and counts of one consumer. Stamps are Unix ns, 0 = never."""

    delivered_consumer: int
    delivered_stream: int
    floor_consumer: int
    floor_stream: int
    last_delivered_ts: int
    last_acked_ts: int
    ack_pending: int
    redelivered: int
    waiting: int
    pending: int
    push_bound: int
    paused: int
    pause_remaining_ns: int
    pinned_ts: int = 0
    taken: int = 0
    untaken: int = 0
    pin: str = ""


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """One stored message as MESSAGE_GET returns it. ts is Unix ns."""

    sequence: int
    ts: int
    subject: bytes
    header: bytes
    payload: bytes


@dataclass(frozen=True, slots=True)
class PendingEntry:
    """pending_entry_t: one message in flight. delivered_ts is Unix ns."""

    stream_seq: int
    consumer_seq: int
    delivered_ts: int
    deliveries: int


@dataclass(frozen=True, slots=True)
class StoredConsumer:
    """stored_consumer_t: a consumer as a disk has it. known: the rest is. Times are Unix ns."""

    consumer: int
    size: int
    known: int
    delivered_consumer: int
    delivered_stream: int
    floor_consumer: int
    floor_stream: int
    last_delivered_ts: int
    last_acked_ts: int


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a consumer: the four sequences, and what is in flight, ascending."""

    delivered_consumer: int
    delivered_stream: int
    floor_consumer: int
    floor_stream: int
    pending: tuple[PendingEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class Imported:
    """The answer of STREAM_IMPORT to a run: bytes taken, size of the entry behind them (0 = not known), end marker
    seen, messages left out since their subject is not valid."""

    used: int
    needed: int
    end: bool
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class ConnectionRow:
    """connection_row_t: counters of one connection; of connection 0: of those of an account that have gone."""

    connection: int
    account: int
    kind: int
    in_msgs: int
    out_msgs: int
    in_bytes: int
    out_bytes: int
    pending_bytes: int
    subscriptions: int
    admitted: int
    rtt_ns: int
    start_wall_ns: int
    last_wall_ns: int
    compressed: int
    level: int
    slow: int
    heard_ns: int = 0
    window: int = 0
    rate: int = 0
    held: int = 0
    sent: int = 0
    resent: int = 0
    received: int = 0
    trip_ns: int = 0
    trip_min_ns: int = 0
    wire: int = 0
    budgeted: int = 0


@dataclass(frozen=True, slots=True)
class SubscriptionRow:
    """subscription_row_t and its texts. For a leaf link the sid is empty."""

    subject: str
    queue: str
    sid: str
    messages: int
    max: int
    account: int = 0
    """Its number."""


@dataclass(frozen=True, slots=True)
class SubscriptionSlice:
    """Some of a connection's subscriptions; next: place to go on from (0: that was all)."""

    rows: tuple[SubscriptionRow, ...]
    next: int


def subscription_rows(payload: bytes) -> Iterator[SubscriptionRow]:
    """The rows of a completion."""
    head, at = layout("subscription_row_t"), 0
    while at < len(payload):
        row = head.unpack(payload, at)
        at += head.size
        texts = []
        for size in (row["subject_size"], row["queue_size"], row["sid_size"]):
            texts.append(payload[at : at + size].decode("utf-8", "replace"))
            at += size
        yield SubscriptionRow(texts[0], texts[1], texts[2], row["messages"], row["max"], row["account"])


# Events. One class per EVENT_* kind; completions (EVENT_DONE) stay inside native_plane.py.


@dataclass(frozen=True, slots=True)
class Secured:
    """A connection's handshake is over. flags: SecuredFlag; version: 0x0303 is TLS 1.2; size: the handshake's bytes on
    the wire; certificate: what the peer showed, DER; chain: those that vouch for it, one behind the other."""

    connection: int
    flags: int
    version: int
    size: int
    cipher: str
    certificate: bytes
    chain: bytes = b""


@dataclass(frozen=True, slots=True)
class Closed:
    """A connection is gone; what it carried (carried_t)."""

    connection: int
    reason: int
    text: str
    in_msgs: int = 0
    out_msgs: int = 0
    in_bytes: int = 0
    out_bytes: int = 0
    subscriptions: int = 0
    rtt_ns: int = 0
    last_wall_ns: int = 0
    wire: int = 0
    rows: bytes = b""
    """The first of its subscriptions, for subscription_rows()."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A client was refused something; left_out refusals of the same connection before it were not told."""

    connection: int
    code: int
    subject: str
    queue: str
    sid: str
    size: int
    left_out: int


@dataclass(frozen=True, slots=True)
class Message:
    """A message for a control subscription. connection 0 = it came from inside; payer: the connection's own account,
    which is another than `account` behind an import; credit: what Plane.repay() gives back."""

    subscription: int
    account: int
    connection: int
    connection_kind: int
    subject: str
    reply: str
    header: bytes
    payload: bytes
    payer: int = 0
    credit: int = 0


Handler = Callable[[Message], bool | None]
"""Takes the messages of a subscription. True: the message is kept, and Plane.repay() gives the credit back."""


@dataclass(frozen=True, slots=True)
class Advisory:
    """About a consumer (ADVISORY_* codes); of a stream's batch, consumer is the reason (ABANDONED_*)."""

    code: int
    stream: int
    consumer: int
    stream_seq: int
    consumer_seq: int
    deliveries: int
    ack_time_ns: int
    text: str


@dataclass(frozen=True, slots=True)
class Ingest:
    """News of a mirror or source slot."""

    stream: int
    slot: int
    code: int
    status: int
    last_sequence: int


@dataclass(frozen=True, slots=True)
class Reached:
    """A link or another server wants what goes to a JetStream's API: `$JS.<domain>.API.` and what covers the creation
    of consumers."""

    account: int
    subject: str


@dataclass(frozen=True, slots=True)
class Carried:
    """A link has carried so many bytes on the wire as control wanted to be told of."""

    connection: int
    wire: int


@dataclass(frozen=True, slots=True)
class Doubted:
    """A link that we dialled is in doubt, or no longer."""

    connection: int
    doubted: int
    """As in Doubt."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """Something the operator must know: corruption, full disk, clock steps, slow consumers."""

    code: int
    stream: int
    sequence: int
    text: str
    upto: int = 0
    """The last sequence, of HOLE .."""
    certain: int = 0
    """.. 1: each of these had a message."""


@dataclass(frozen=True, slots=True)
class LeafError:
    """-ERR from a leaf peer after the handshake; untold: how many came before it and were only counted."""

    connection: int
    text: str
    untold: int = 0


@dataclass(frozen=True, slots=True)
class LeafInfo:
    """INFO from a leaf peer after the handshake."""

    connection: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class ConsumerGone:
    """An ephemeral consumer passed its inactivity threshold and was removed."""

    stream: int
    consumer: int
    taken: int = 0
    """The sequence up to which a mirror or source has said that it stored all."""


@dataclass(frozen=True, slots=True)
class Led:
    """News of a stream that several servers keep, by code: this server leads it now, or no more; a consumer that it
    takes over with the lead; a new definition of the stream, whichever server leads it."""

    stream: int
    code: int
    consumer: int = 0
    definition: bytes = b""


Event = (
    Opened | Came | Proxied | Line | Secured | Closed | Refused | Message | Advisory | Ingest | Alarm | LeafError
    | LeafInfo | Trace | MessageTrace | Latency | FarLatency | ConsumerGone | Allowance | Author | Reached | Carried
    | Doubted
    | Letter | Led
)  # fmt: skip
