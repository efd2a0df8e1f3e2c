"""Every error that the JetStream API can answer, in one table, and the exception that carries one.

A row is (err_code, HTTP-like code, description). Clients switch on err_code and some compare descriptions, so both
are those of nats-server 2.15.1, letter by letter; `{name}` in a description is filled in by Row.error(name=...).
Numbers that only replicated streams emit are left out on purpose. Not here: when an error is raised.
"""

from __future__ import annotations

from typing import Any

from leafd.records import dataclass


class ApiError(Exception):
    """One refused API request; becomes the `error` object of the reply."""

    def __init__(self, err_code: int, code: int, description: str) -> None:
        super().__init__(f"{description} ({err_code})")
        self.err_code = err_code
        self.code = code
        self.description = description
        self.counts = True

    def uncounted(self) -> ApiError:
        """The same, for the few refusals that the reference does not count among an account's API errors."""
        self.counts = False
        return self

    def fields(self) -> dict[str, Any]:
        """The JSON object of a reply, in the reference's key order."""
        return {"code": self.code, "err_code": self.err_code, "description": self.description}


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    err_code: int
    code: int
    description: str

    def error(self, **values: object) -> ApiError:
        """The exception to raise, with the description's blanks filled in."""
        description = self.description.format(**values) if values else self.description
        return ApiError(self.err_code, self.code, description)


ACCOUNT_RESOURCES_EXCEEDED = Row(10002, 400, "resource limits exceeded for account")
BAD_REQUEST = Row(10003, 400, "bad request")
NO_SUITABLE_PEERS = Row(10005, 400, "no suitable peers for placement{why}")
NO_SUITABLE_PEERS_FOR = Row(10005, 400, "{why}")
CLUSTER_NOT_AVAILABLE = Row(10008, 503, "JetStream system temporarily unavailable")
CLUSTER_REQUIRED = Row(10010, 503, "JetStream clustering support required")
CONSUMER_CREATE = Row(10012, 500, "{err}")
CONSUMER_NAME_EXIST = Row(10013, 400, "consumer name already in use")
CONSUMER_NOT_FOUND = Row(10014, 404, "consumer not found")
SNAPSHOT_DELIVER_SUBJECT_INVALID = Row(10015, 400, "deliver subject not valid")
CONSUMER_DURABLE_NAME_NOT_IN_SUBJECT = Row(
    10016, 400, "consumer expected to be durable but no durable name set in subject"
)
CONSUMER_DURABLE_NAME_NOT_MATCH_SUBJECT = Row(
    10017, 400, "consumer name in subject does not match durable name in request"
)
CONSUMER_DURABLE_NAME_NOT_SET = Row(10018, 400, "consumer expected to be durable but a durable name was not set")
CONSUMER_EPHEMERAL_WITH_DURABLE_NAME = Row(
    10020, 400, "consumer expected to be ephemeral but a durable name was set in request"
)
STREAM_EXTERNAL_API_OVERLAP = Row(10021, 400, "stream external api prefix {prefix} must not overlap with {subject}")
STREAM_EXTERNAL_DELIVER_PREFIX_OVERLAPS = Row(
    10022, 400, "stream external delivery prefix {prefix} overlaps with stream subject {subject}"
)
INSUFFICIENT_RESOURCES = Row(10023, 503, "insufficient resources")
STREAM_INVALID_EXTERNAL_DELIVERY_SUBJECT = Row(
    10024, 400, "stream external delivery prefix {prefix} must not contain wildcards"
)
INVALID_JSON = Row(10025, 400, "invalid JSON: {err}")
MAXIMUM_CONSUMERS_LIMIT = Row(10026, 400, "maximum consumers limit reached")
MAXIMUM_STREAMS_LIMIT = Row(10027, 400, "maximum number of streams reached")
MEMORY_RESOURCES_EXCEEDED = Row(10028, 500, "insufficient memory resources available")
MIRROR_CONSUMER_SETUP_FAILED = Row(10029, 500, "{err}")
MIRROR_MAX_MESSAGE_SIZE_TOO_BIG = Row(10030, 400, "stream mirror must have max message size >= source")
MIRROR_WITH_SOURCES = Row(10031, 400, "stream mirrors can not also contain other sources")
MIRROR_WITH_SUBJECTS = Row(10034, 400, "stream mirrors can not contain subjects")
NO_ACCOUNT = Row(10035, 503, "account not found")
NO_MESSAGE_FOUND = Row(10037, 404, "no message found")
NOT_EMPTY_REQUEST = Row(10038, 400, "expected an empty request payload")
NOT_ENABLED_FOR_ACCOUNT = Row(10039, 503, "JetStream not enabled for account")
RESTORE_SUBSCRIBE_FAILED = Row(10042, 500, "JetStream unable to subscribe to restore snapshot {subject}: {err}")
SEQUENCE_NOT_FOUND = Row(10043, 400, "sequence {seq} not found")
CLUSTER_PEER_NOT_MEMBER = Row(10040, 400, "peer not a member")
CLUSTER_SERVER_NOT_MEMBER = Row(10044, 400, "server is not a member of the cluster")
SOURCE_CONSUMER_SETUP_FAILED = Row(10045, 500, "{err}")
SOURCE_MAX_MESSAGE_SIZE_TOO_BIG = Row(10046, 400, "stream source must have max message size >= target")
STORAGE_RESOURCES_EXCEEDED = Row(10047, 500, "insufficient storage resources available")
STREAM_CREATE = Row(10049, 500, "{err}")
STREAM_DELETE = Row(10050, 500, "{err}")
STREAM_GENERAL = Row(10051, 500, "{err}")
STREAM_INVALID_CONFIG = Row(10052, 500, "{err}")
STREAM_LIMITS = Row(10053, 500, "{err}")
STREAM_MESSAGE_EXCEEDS_MAXIMUM = Row(10054, 400, "message size exceeds maximum allowed")
STREAM_MIRROR_NOT_UPDATABLE = Row(10055, 400, "stream mirror configuration can not be updated")
STREAM_MISMATCH = Row(10056, 400, "stream name in subject does not match request")
STREAM_MESSAGE_DELETE_FAILED = Row(10057, 500, "{err}")
STREAM_NAME_EXIST = Row(10058, 400, "stream name already in use with a different configuration")
STREAM_NOT_FOUND = Row(10059, 404, "stream not found")
STREAM_NOT_MATCH = Row(10060, 400, "expected stream does not match")
STREAM_RESTORE = Row(10062, 500, "restore failed: {err}")
STREAM_SEQUENCE_NOT_MATCH = Row(10063, 503, "expected stream sequence does not match")
STREAM_SNAPSHOT = Row(10064, 500, "snapshot failed: {err}")
STREAM_SUBJECT_OVERLAP = Row(10065, 400, "subjects overlap with an existing stream")
STREAM_UPDATE = Row(10069, 500, "{err}")
STREAM_WRONG_LAST_MESSAGE_ID = Row(10070, 400, "wrong last msg ID: {id}")
STREAM_WRONG_LAST_SEQUENCE = Row(10071, 400, "wrong last sequence: {seq}")
STREAM_REPLICAS_NOT_SUPPORTED = Row(10074, 500, "replicas > 1 not supported in non-clustered mode")
PEER_REMAP = Row(10075, 503, "peer remap failed")
NOT_ENABLED = Row(10076, 503, "JetStream not enabled")
STREAM_STORE_FAILED = Row(10077, 503, "{err}")
CONSUMER_CONFIG_REQUIRED = Row(10078, 400, "consumer config required")
CONSUMER_DELIVER_TO_WILDCARDS = Row(10079, 400, "consumer deliver subject has wildcards")
CONSUMER_PUSH_MAX_WAITING = Row(10080, 400, "consumer in push mode can not set max waiting")
CONSUMER_DELIVER_CYCLE = Row(10081, 400, "consumer deliver subject forms a cycle")
CONSUMER_MAX_PENDING_ACK_POLICY_REQUIRED = Row(10082, 400, "consumer requires ack policy for max ack pending")
CONSUMER_SMALL_HEARTBEAT = Row(10083, 400, "consumer idle heartbeat needs to be >= 100ms")
CONSUMER_PULL_REQUIRES_ACK = Row(10084, 400, "consumer in pull mode requires explicit ack policy on workqueue stream")
CONSUMER_PULL_WITH_RATE_LIMIT = Row(10086, 400, "consumer in pull mode can not have rate limit set")
CONSUMER_MAX_WAITING_NEGATIVE = Row(10087, 400, "consumer max waiting needs to be positive")
CONSUMER_HEARTBEAT_REQUIRES_PUSH = Row(10088, 400, "consumer idle heartbeat requires a push based consumer")
CONSUMER_FLOW_CONTROL_REQUIRES_PUSH = Row(10089, 400, "consumer flow control requires a push based consumer")
CONSUMER_DIRECT_REQUIRES_PUSH = Row(10090, 400, "consumer direct requires a push based consumer")
CONSUMER_DIRECT_REQUIRES_EPHEMERAL = Row(10091, 400, "consumer direct requires an ephemeral consumer")
CONSUMER_INVALID_POLICY = Row(10094, 400, "{err}")
CONSUMER_INVALID_SAMPLING = Row(10095, 400, "failed to parse consumer sampling configuration: {err}")
STREAM_INVALID = Row(10096, 500, "stream not valid")
STREAM_HEADER_EXCEEDS_MAXIMUM = Row(10097, 400, "header size exceeds maximum allowed of 64k")
CONSUMER_WORKQUEUE_REQUIRES_EXPLICIT_ACK = Row(10098, 400, "workqueue stream requires explicit ack")
CONSUMER_WORKQUEUE_MULTIPLE_UNFILTERED = Row(
    10099, 400, "multiple non-filtered consumers not allowed on workqueue stream"
)
CONSUMER_WORKQUEUE_CONSUMER_NOT_UNIQUE = Row(10100, 400, "filtered consumer not unique on workqueue stream")
CONSUMER_WORKQUEUE_CONSUMER_NOT_DELIVER_ALL = Row(10101, 400, "consumer must be deliver all on workqueue stream")
CONSUMER_NAME_TOO_LONG = Row(10102, 400, "consumer name is too long, maximum allowed is {max}")
CONSUMER_BAD_DURABLE_NAME = Row(10103, 400, "durable name can not contain '.', '*', '>'")
CONSUMER_STORE_FAILED = Row(10104, 500, "error creating store for consumer: {err}")
CONSUMER_EXISTING_ACTIVE = Row(10105, 400, "consumer already exists and is still active")
CONSUMER_REPLACEMENT_WITH_DIFFERENT_NAME = Row(10106, 400, "consumer replacement durable config not the same")
CONSUMER_DESCRIPTION_TOO_LONG = Row(10107, 400, "consumer description is too long, maximum allowed is {max}")
CONSUMER_WITH_FLOW_CONTROL_NEEDS_HEARTBEATS = Row(10108, 400, "consumer with flow control also needs heartbeats")
STREAM_SEALED = Row(10109, 400, "invalid operation on sealed stream")
STREAM_PURGE_FAILED = Row(10110, 500, "{err}")
STREAM_ROLLUP_FAILED = Row(10111, 500, "{err}")
CONSUMER_INVALID_DELIVER_SUBJECT = Row(10112, 400, "invalid push consumer deliver subject")
STREAM_MAX_BYTES_REQUIRED = Row(10113, 400, "account requires a stream config to have max bytes set")
CONSUMER_MAX_REQUEST_BATCH_NEGATIVE = Row(10114, 400, "consumer max request batch needs to be > 0")
CONSUMER_MAX_REQUEST_EXPIRES_TOO_SMALL = Row(10115, 400, "consumer max request expires needs to be >= 1ms")
CONSUMER_MAX_DELIVER_BACKOFF = Row(10116, 400, "max deliver is required to be > length of backoff values")
STREAM_OFFLINE = Row(10118, 500, "stream is offline")
NO_LIMITS = Row(10120, 400, "no JetStream default or applicable tiered limit present")
CONSUMER_MAX_PENDING_ACK_EXCESS = Row(10121, 400, "consumer max ack pending exceeds system limit of {limit}")
STREAM_MAX_STREAM_BYTES_EXCEEDED = Row(10122, 400, "stream max bytes exceeds account limit max stream bytes")
STREAM_MOVE_AND_SCALE = Row(10123, 400, "can not move and scale a stream in a single update")
CONSUMER_MAX_REQUEST_BATCH_EXCEEDED = Row(10125, 400, "consumer max request batch exceeds server limit of {limit}")
CONSUMER_REPLICAS_EXCEEDS_STREAM = Row(10126, 400, "consumer config replica count exceeds parent stream")
CONSUMER_NAME_CONTAINS_PATH_SEPARATORS = Row(10127, 400, "Consumer name can not contain path separators")
STREAM_NAME_CONTAINS_PATH_SEPARATORS = Row(10128, 400, "Stream name can not contain path separators")
STREAM_RECONFIGURE_NOT_IN_PROGRESS = Row(10129, 400, "stream reconfiguration not in progress")
STREAM_NAME_EXIST_RESTORE_FAILED = Row(10130, 400, "stream name already in use, cannot restore")
CONSUMER_CREATE_FILTER_SUBJECT_MISMATCH = Row(
    10131, 400, "Consumer create request did not match filtered subject from create subject"
)
CONSUMER_CREATE_DURABLE_AND_NAME_MISMATCH = Row(
    10132, 400, "Consumer Durable and Name have to be equal if both are provided"
)
REPLICAS_COUNT_CANNOT_BE_NEGATIVE = Row(10133, 400, "replicas count cannot be negative")
CONSUMER_REPLICAS_SHOULD_MATCH_STREAM = Row(
    10134, 400, "consumer config replicas must match interest retention stream's replicas"
)
CONSUMER_METADATA_LENGTH = Row(10135, 400, "consumer metadata exceeds maximum size of {limit}")
CONSUMER_DUPLICATE_FILTER_SUBJECTS = Row(
    10136, 400, "consumer cannot have both FilterSubject and FilterSubjects specified"
)
CONSUMER_MULTIPLE_FILTERS_NOT_ALLOWED = Row(
    10137, 400, "consumer with multiple subject filters cannot use subject based API"
)
CONSUMER_OVERLAPPING_SUBJECT_FILTERS = Row(10138, 400, "consumer subject filters cannot overlap")
CONSUMER_EMPTY_FILTER = Row(10139, 400, "consumer filter in FilterSubjects cannot be empty")
SOURCE_DUPLICATE_DETECTED = Row(10140, 400, "duplicate source configuration detected")
SOURCE_INVALID_STREAM_NAME = Row(10141, 400, "sourced stream name is invalid")
MIRROR_INVALID_STREAM_NAME = Row(10142, 400, "mirrored stream name is invalid")
MIRROR_WITH_FIRST_SEQUENCE = Row(10143, 400, "stream mirrors can not have first sequence configured")
SOURCE_MULTIPLE_FILTERS_NOT_ALLOWED = Row(
    10144, 400, "source with multiple subject transforms cannot also have a single subject filter"
)
SOURCE_INVALID_SUBJECT_FILTER = Row(10145, 400, "source transform source: {err}")
SOURCE_INVALID_TRANSFORM_DESTINATION = Row(10146, 400, "source transform: {err}")
SOURCE_OVERLAPPING_SUBJECT_FILTERS = Row(10147, 400, "source filters can not overlap")
CONSUMER_ALREADY_EXISTS = Row(10148, 400, "consumer already exists")
CONSUMER_DOES_NOT_EXIST = Row(10149, 400, "consumer does not exist")
MIRROR_MULTIPLE_FILTERS_NOT_ALLOWED = Row(
    10150, 400, "mirror with multiple subject transforms cannot also have a single subject filter"
)
MIRROR_INVALID_SUBJECT_FILTER = Row(10151, 400, "mirror transform source: {err}")
MIRROR_OVERLAPPING_SUBJECT_FILTERS = Row(10152, 400, "mirror subject filters can not overlap")
CONSUMER_INACTIVE_THRESHOLD_EXCESS = Row(10153, 400, "consumer inactive threshold exceeds system limit of {limit}")
MIRROR_INVALID_TRANSFORM_DESTINATION = Row(10154, 400, "mirror transform: {err}")
STREAM_TRANSFORM_INVALID_SOURCE = Row(10155, 400, "stream transform source: {err}")
STREAM_TRANSFORM_INVALID_DESTINATION = Row(10156, 400, "stream transform: {err}")
PEDANTIC = Row(10157, 400, "pedantic mode: {err}")
CONSUMER_PRIORITY_POLICY_WITHOUT_GROUP = Row(
    10159, 400, "Setting PriorityPolicy requires at least one PriorityGroup to be set"
)
CONSUMER_INVALID_PRIORITY_GROUP = Row(10160, 400, "Provided priority group does not exist for this consumer")
CONSUMER_EMPTY_GROUP_NAME = Row(10161, 400, "Group name cannot be an empty string")
CONSUMER_INVALID_GROUP_NAME = Row(
    10162, 400, "Valid priority group name must match A-Z, a-z, 0-9, -_/=)+ and may not exceed 16 characters"
)
STREAM_WRONG_LAST_SEQUENCE_CONSTANT = Row(10164, 400, "wrong last sequence")
MESSAGE_TTL_INVALID = Row(10165, 400, "invalid per-message TTL")
MESSAGE_TTL_DISABLED = Row(10166, 400, "per-message TTL is disabled")
STREAM_TOO_MANY_REQUESTS = Row(10167, 429, "too many requests")
MESSAGE_INCREMENT_DISABLED = Row(10168, 400, "message counters is disabled")
MESSAGE_INCREMENT_MISSING = Row(10169, 400, "message counter increment is missing")
MESSAGE_INCREMENT_PAYLOAD = Row(10170, 400, "message counter has payload")
MESSAGE_INCREMENT_INVALID = Row(10171, 400, "message counter increment is invalid")
MESSAGE_COUNTER_BROKEN = Row(10172, 400, "message counter is broken")
MIRROR_WITH_COUNTERS = Row(10173, 400, "stream mirrors can not also calculate counters")
ATOMIC_PUBLISH_DISABLED = Row(10174, 400, "atomic publish is disabled")
ATOMIC_PUBLISH_MISSING_SEQUENCE = Row(10175, 400, "atomic publish sequence is missing")
ATOMIC_PUBLISH_INCOMPLETE_BATCH = Row(10176, 400, "atomic publish batch is incomplete")
ATOMIC_PUBLISH_UNSUPPORTED_HEADER_BATCH = Row(10177, 400, "atomic publish unsupported header used: {header}")
CONSUMER_PUSH_WITH_PRIORITY_GROUP = Row(10178, 400, "priority groups can not be used with push consumers")
ATOMIC_PUBLISH_INVALID_BATCH_ID = Row(10179, 400, "atomic publish batch ID is invalid")
CONSUMER_ACK_POLICY_INVALID = Row(10181, 400, "consumer ack policy invalid")
CONSUMER_REPLAY_POLICY_INVALID = Row(10182, 400, "consumer replay policy invalid")
CONSUMER_ACK_WAIT_NEGATIVE = Row(10183, 400, "consumer ack wait needs to be positive")
CONSUMER_BACKOFF_NEGATIVE = Row(10184, 400, "consumer backoff needs to be positive")
REQUIRED_API_LEVEL = Row(10185, 412, "JetStream minimum api level required")
MIRROR_WITH_MESSAGE_SCHEDULES = Row(10186, 400, "stream mirrors can not also schedule messages")
SOURCE_WITH_MESSAGE_SCHEDULES = Row(10187, 400, "stream source can not also schedule messages")
MESSAGE_SCHEDULES_DISABLED = Row(10188, 400, "message schedules is disabled")
MESSAGE_SCHEDULES_PATTERN_INVALID = Row(10189, 400, "message schedules pattern is invalid")
MESSAGE_SCHEDULES_TARGET_INVALID = Row(10190, 400, "message schedules target is invalid")
MESSAGE_SCHEDULES_TTL_INVALID = Row(10191, 400, "message schedules invalid per-message TTL")
MESSAGE_SCHEDULES_ROLLUP_INVALID = Row(10192, 400, "message schedules invalid rollup")
STREAM_EXPECTED_LAST_SEQUENCE_PER_SUBJECT_INVALID = Row(
    10193, 400, "missing sequence for expected last sequence per subject"
)
STREAM_OFFLINE_REASON = Row(10194, 500, "stream is offline: {err}")
CONSUMER_OFFLINE_REASON = Row(10195, 500, "consumer is offline: {err}")
CONSUMER_PRIORITY_GROUP_WITH_POLICY_NONE = Row(10196, 400, "consumer can not have priority groups when policy is none")
CONSUMER_PINNED_TTL_WITHOUT_PRIORITY_POLICY_NONE = Row(
    10197, 400, "PinnedTTL cannot be set when PriorityPolicy is none"
)
MIRROR_WITH_ATOMIC_PUBLISH = Row(10198, 400, "stream mirrors can not also use atomic publishing")
ATOMIC_PUBLISH_TOO_LARGE_BATCH = Row(10199, 400, "atomic publish batch is too large: {size}")
ATOMIC_PUBLISH_INVALID_BATCH_COMMIT = Row(10200, 400, "atomic publish batch commit is invalid")
ATOMIC_PUBLISH_CONTAINS_DUPLICATE_MESSAGE = Row(10201, 400, "atomic publish batch contains duplicate message id")
MESSAGE_SCHEDULES_SOURCE_INVALID = Row(10203, 400, "message schedules source is invalid")
CONSUMER_INVALID_RESET = Row(10204, 400, "invalid reset: {err}")
BATCH_PUBLISH_DISABLED = Row(10205, 400, "batch publish is disabled")
BATCH_PUBLISH_INVALID_PATTERN = Row(10206, 400, "batch publish pattern is invalid")
BATCH_PUBLISH_INVALID_BATCH_ID = Row(10207, 400, "batch publish ID is invalid")
BATCH_PUBLISH_UNKNOWN_BATCH_ID = Row(10208, 400, "batch publish ID unknown")
MIRROR_WITH_BATCH_PUBLISH = Row(10209, 400, "stream mirrors can not also use batch publishing")
ATOMIC_PUBLISH_TOO_MANY_INFLIGHT = Row(10210, 429, "atomic publish too many inflight")
BATCH_PUBLISH_TOO_MANY_INFLIGHT = Row(10211, 429, "batch publish too many inflight")
MESSAGE_SCHEDULES_SCHEDULER_INVALID = Row(10212, 400, "message schedules invalid scheduler")
MIRROR_DURABLE_CONSUMER_CONFIG_INVALID = Row(10213, 400, "stream mirror consumer config is invalid")
MIRROR_CONSUMER_REQUIRES_ACK_FLOW_CONTROL = Row(10214, 400, "stream mirror consumer requires flow control ack policy")
SOURCE_DURABLE_CONSUMER_CONFIG_INVALID = Row(10215, 400, "stream source consumer config is invalid")
SOURCE_DURABLE_CONSUMER_DUPLICATE_DETECTED = Row(10216, 400, "duplicate stream source consumer detected")
SOURCE_CONSUMER_REQUIRES_ACK_FLOW_CONTROL = Row(10217, 400, "stream source consumer requires flow control ack policy")
CONSUMER_ACK_FLOW_CONTROL_REQUIRES_PUSH = Row(10218, 400, "flow control ack policy requires a push based consumer")
CONSUMER_ACK_FLOW_CONTROL_REQUIRES_FLOW_CONTROL = Row(10219, 400, "flow control ack policy requires flow control")
CONSUMER_ACK_FLOW_CONTROL_REQUIRES_MAX_ACK_PENDING = Row(10220, 400, "flow control ack policy requires max ack pending")
CONSUMER_ACK_FLOW_CONTROL_REQUIRES_NO_ACK_WAIT = Row(10221, 400, "flow control ack policy requires unset ack wait")
CONSUMER_ACK_FLOW_CONTROL_REQUIRES_NO_MAX_DELIVER = Row(
    10222, 400, "flow control ack policy requires unset max deliver"
)
MESSAGE_SCHEDULES_TIME_ZONE_INVALID = Row(10223, 400, "message schedules time zone is invalid")
CLUSTER_RESCUE = Row(10224, 400, "JetStream system rescue not applied: {err}")
CONSUMER_STREAM_IDENTITY_MISMATCH = Row(10225, 400, "consumer's stream identity does not match: {msg}")
MESSAGE_SOURCE_HEADER_NOT_ALLOWED = Row(10227, 400, "message stream source header is not allowed")
SOURCE_CONSUMER_STALLED = Row(10228, 500, "stream source consumer stalled on flow control")
