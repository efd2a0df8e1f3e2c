"""Rules for consumer configurations: which are allowed, and the defaults that are filled in before they are stored.

    with_defaults(request)  -->  configuration   ;   check(configuration)   ;   check_update(old, new)

Pure. The order of the checks and their texts are nats-server's. Not here: whether the name is taken, and
what others of the stream have (consumers.py), since that needs the catalogue.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final

from leafd.cluster.consumers import replicas_of
from leafd.config.transforms import INVALID_SUBJECT, valid_subject
from leafd.gotime import SECOND, format_duration
from leafd.jetstream import errors
from leafd.jetstream.catalogue import JetStreamLimits, Settings
from leafd.jetstream.errors import ApiError
from leafd.jetstream.models.consumer import (
    ACK_ALL,
    ACK_EXPLICIT,
    ACK_FLOW_CONTROL,
    ACK_NONE,
    DELIVER_ALL,
    DELIVER_BY_START_SEQUENCE,
    DELIVER_BY_START_TIME,
    DELIVER_LAST_PER_SUBJECT,
    PRIORITY_NONE,
    PRIORITY_PINNED,
    ConsumerConfig,
)
from leafd.jetstream.models.stream import LIMITS, WORKQUEUE, StreamConfig
from leafd.jetstream.rules.account_limits import granted
from leafd.jetstream.rules.stream_rules import (
    DESCRIPTION_SIZE_MAX,
    METADATA_SIZE_MAX,
    invalid,
    metadata_size,
    pedantic_error,
)
from leafd.jetstream.subjects import Steps, SubjectSet, check_list, literal, subset, valid_name
from leafd.records import dataclass

MAX_WAITING_DEFAULT: Final = 512
ACK_WAIT_DEFAULT: Final = 30 * SECOND
MAX_ACK_PENDING_DEFAULT: Final = 1000
PINNED_DEFAULT: Final = 120 * SECOND
SOURCING_HEARTBEAT: Final = SECOND
BACKOFF_MAX: Final = 10_000
EPHEMERAL_THRESHOLD: Final = 5 * SECOND
# In the order in which a pedantic request hears of them.
_LOWEST: Final = {
    "max_deliver": -1,
    "max_waiting": 0,
    "max_ack_pending": -1,
    "max_batch": 0,
    "max_expires": 0,
    "max_bytes": 0,
    "idle_heartbeat": 0,
    "inactive_threshold": 0,
    "priority_timeout": 0,
}
_SHORTEST_HEARTBEAT: Final = SECOND // 10
_SHORTEST_EXPIRES: Final = SECOND // 1000
_GROUP: Final = re.compile(r"[a-zA-Z0-9/_=-]{1,16}")
_SAMPLE: Final = re.compile(r"[+-]?[0-9]+")
_INT64_DIGITS: Final = 18  # that every int of 64 bits has room for


@dataclass(frozen=True, slots=True)
class ConsumerContext:
    """The facts that a decision about a consumer depends on beside its configuration."""

    stream: StreamConfig
    settings: Settings
    limits: JetStreamLimits


def with_defaults(config: ConsumerConfig, context: ConsumerContext, *, pedantic: bool) -> ConsumerConfig:
    """The configuration with everything filled in that was left to the server."""
    config = _without_negatives(config, pedantic)
    changes: dict[str, Any] = {}
    if not config.deliver_subject and config.max_waiting == 0:
        changes["max_waiting"] = MAX_WAITING_DEFAULT
    if config.ack_wait == 0 and config.ack_policy in (ACK_EXPLICIT, ACK_ALL):
        changes["ack_wait"] = ACK_WAIT_DEFAULT
    if config.backoff:
        if pedantic and changes.get("ack_wait", config.ack_wait) != config.backoff[0]:
            raise pedantic_error("first backoff value has to equal batch AckWait")
        changes["ack_wait"] = config.backoff[0]
    limits = context.stream.consumer_limits
    if config.max_ack_pending == 0:
        if pedantic and limits.max_ack_pending > 0:
            raise pedantic_error("max_ack_pending must be set if it's configured in stream limits")
        changes["max_ack_pending"] = limits.max_ack_pending or _default_ack_pending(config, context)
    if config.inactive_threshold == 0:
        if pedantic and limits.inactive_threshold > 0:
            raise pedantic_error("inactive_threshold must be set if it's configured in stream limits")
        changes["inactive_threshold"] = limits.inactive_threshold
    if not config.deliver_subject and config.max_batch == 0 and context.settings.max_request_batch > 0:
        if pedantic:
            raise pedantic_error("max_request_batch must be set if it's JetStream limits are set")
        changes["max_batch"] = context.settings.max_request_batch
    if config.priority_policy == PRIORITY_PINNED and config.priority_timeout == 0:
        changes["priority_timeout"] = PINNED_DEFAULT
    if config.ack_policy == ACK_FLOW_CONTROL and not pedantic:
        changes |= {"flow_control": True, "idle_heartbeat": SOURCING_HEARTBEAT}
    return replace(config, **changes)


def _without_negatives(config: ConsumerConfig, pedantic: bool) -> ConsumerConfig:
    """Numbers below what means something become what means nothing."""
    changes: dict[str, Any] = {}
    for name, lowest in _LOWEST.items():
        if getattr(config, name) < lowest:
            if pedantic:
                raise pedantic_error(f"{name} must " + ("be set to -1" if lowest else "not be negative"))
            changes[name] = lowest
    if config.max_deliver == 0:
        changes["max_deliver"] = -1
    return replace(config, **changes)


def _default_ack_pending(config: ConsumerConfig, context: ConsumerContext) -> int:
    if config.ack_policy == ACK_NONE:
        return 0
    bounds = (context.settings.max_ack_pending, _limits(config, context).max_ack_pending)
    return min(MAX_ACK_PENDING_DEFAULT, *(bound for bound in bounds if bound > 0), MAX_ACK_PENDING_DEFAULT)


def _limits(config: ConsumerConfig, context: ConsumerContext) -> JetStreamLimits:
    """The account's limits on it. Raises ApiError: it may not have so many replicas."""
    return granted(context.limits, replicas_of(config, context.stream))


def check(config: ConsumerConfig, context: ConsumerContext) -> None:
    """Raises the ApiError of the first rule that the configuration breaks."""
    stream = context.stream
    check_list(config.filters, len(config.filters), "filter subjects")
    if len(config.backoff) > BACKOFF_MAX:
        raise invalid(f"more than {BACKOFF_MAX} backoff intervals")
    if config.name and not valid_name(config.name):
        raise invalid("consumer name can not contain '.', '*', '>', '\\', '/'")
    if config.durable_name and not valid_name(config.durable_name):
        raise invalid("consumer durable name can not contain '.', '*', '>', '\\', '/'")
    if config.num_replicas > stream.num_replicas:
        raise errors.CONSUMER_REPLICAS_EXCEEDS_STREAM.error()
    if config.num_replicas < 0:
        raise errors.REPLICAS_COUNT_CANNOT_BE_NEGATIVE.error()
    if stream.retention != LIMITS and config.num_replicas not in (0, stream.num_replicas):
        raise errors.CONSUMER_REPLICAS_SHOULD_MATCH_STREAM.error()
    if any(wait < 0 for wait in config.backoff):
        raise errors.CONSUMER_BACKOFF_NEGATIVE.error()
    if config.ack_wait < 0:
        raise errors.CONSUMER_ACK_WAIT_NEGATIVE.error()
    if config.ack_policy == ACK_FLOW_CONTROL:
        _check_flow_control_acks(config)
    check_backoff(config)
    if len(config.description.encode()) > DESCRIPTION_SIZE_MAX:
        raise errors.CONSUMER_DESCRIPTION_TOO_LONG.error(max=DESCRIPTION_SIZE_MAX)
    if config.deliver_subject:
        _check_push(config, stream)
    else:
        _check_pull(config, context)
    _check_bounds(config, context)
    if config.direct:
        if not config.deliver_subject:
            raise errors.CONSUMER_DIRECT_REQUIRES_PUSH.error()
        if config.durable_name:
            raise errors.CONSUMER_DIRECT_REQUIRES_EPHEMERAL.error()
    _check_filters(config)
    _check_start(config)
    _check_rest(config)


def check_backoff(config: ConsumerConfig) -> None:
    """There must be as many deliveries as waits between them."""
    if config.backoff and config.max_deliver != -1 and len(config.backoff) > config.max_deliver:
        raise errors.CONSUMER_MAX_DELIVER_BACKOFF.error()


def _check_flow_control_acks(config: ConsumerConfig) -> None:
    if not config.deliver_subject:
        raise errors.CONSUMER_ACK_FLOW_CONTROL_REQUIRES_PUSH.error()
    if not config.flow_control:
        raise errors.CONSUMER_ACK_FLOW_CONTROL_REQUIRES_FLOW_CONTROL.error()
    if config.idle_heartbeat != SOURCING_HEARTBEAT:
        raise invalid("flow control ack policy heartbeat needs to be 1s")
    if config.max_ack_pending <= 0:
        raise errors.CONSUMER_ACK_FLOW_CONTROL_REQUIRES_MAX_ACK_PENDING.error()
    if config.ack_wait or config.backoff:
        raise errors.CONSUMER_ACK_FLOW_CONTROL_REQUIRES_NO_ACK_WAIT.error()
    if config.max_deliver > 0:
        raise errors.CONSUMER_ACK_FLOW_CONTROL_REQUIRES_NO_MAX_DELIVER.error()


def _check_push(config: ConsumerConfig, stream: StreamConfig) -> None:
    if not literal(config.deliver_subject):
        raise errors.CONSUMER_DELIVER_TO_WILDCARDS.error()
    if not valid_subject(config.deliver_subject):
        raise errors.CONSUMER_INVALID_DELIVER_SUBJECT.error()
    if any(subset(config.deliver_subject, subject) for subject in stream.subjects):
        raise errors.CONSUMER_DELIVER_CYCLE.error()
    if config.max_waiting != 0:
        raise errors.CONSUMER_PUSH_MAX_WAITING.error()
    if config.max_ack_pending > 0 and config.ack_policy == ACK_NONE:
        raise errors.CONSUMER_MAX_PENDING_ACK_POLICY_REQUIRED.error()
    if 0 < config.idle_heartbeat < _SHORTEST_HEARTBEAT:
        raise errors.CONSUMER_SMALL_HEARTBEAT.error()


def _check_pull(config: ConsumerConfig, context: ConsumerContext) -> None:
    if config.ack_policy == ACK_NONE and context.stream.retention == WORKQUEUE:
        raise errors.CONSUMER_PULL_REQUIRES_ACK.error()
    if config.rate_limit_bps > 0:
        raise errors.CONSUMER_PULL_WITH_RATE_LIMIT.error()
    if config.idle_heartbeat > 0:
        raise errors.CONSUMER_HEARTBEAT_REQUIRES_PUSH.error()
    if config.flow_control:
        raise errors.CONSUMER_FLOW_CONTROL_REQUIRES_PUSH.error()
    if 0 < config.max_expires < _SHORTEST_EXPIRES:
        raise errors.CONSUMER_MAX_REQUEST_EXPIRES_TOO_SMALL.error()
    most = context.settings.max_request_batch
    if 0 < most < config.max_batch:
        raise errors.CONSUMER_MAX_REQUEST_BATCH_EXCEEDED.error(limit=most)


def _check_bounds(config: ConsumerConfig, context: ConsumerContext) -> None:
    limits = context.stream.consumer_limits
    own = _limits(config, context).max_ack_pending
    for most in (context.settings.max_ack_pending, own, limits.max_ack_pending):
        if 0 < most < config.max_ack_pending:
            raise errors.CONSUMER_MAX_PENDING_ACK_EXCESS.error(limit=most)
    if 0 < limits.inactive_threshold < config.inactive_threshold:
        limit = format_duration(limits.inactive_threshold)
        raise errors.CONSUMER_INACTIVE_THRESHOLD_EXCESS.error(limit=limit)


def _check_filters(config: ConsumerConfig) -> None:
    if config.filter_subject and config.filter_subjects:
        raise errors.CONSUMER_DUPLICATE_FILTER_SUBJECTS.error()
    if config.filter_subject and not valid_subject(config.filter_subject):
        raise invalid(INVALID_SUBJECT)
    if not all(config.filter_subjects):
        raise errors.CONSUMER_EMPTY_FILTER.error()
    filters = config.filters
    together, steps = SubjectSet(filters), Steps()
    for one in filters:
        if not valid_subject(one):
            raise invalid(INVALID_SUBJECT)
        if together.covers_beside(one, steps):
            raise errors.CONSUMER_OVERLAPPING_SUBJECT_FILTERS.error()


def _check_start(config: ConsumerConfig) -> None:
    """Each way to start takes its own option and no other."""
    policy = config.deliver_policy.replace("_", " ")
    sequence, moment = config.opt_start_seq > 0, config.opt_start_time is not None

    def also(what: str) -> ApiError:
        text = f"consumer delivery policy is deliver {policy}, but optional start {what} is also set"
        return errors.CONSUMER_INVALID_POLICY.error(err=text)

    def missing(what: str) -> ApiError:
        text = f"consumer delivery policy is deliver {policy}, but optional {what} is not set"
        return errors.CONSUMER_INVALID_POLICY.error(err=text)

    if config.deliver_policy == DELIVER_BY_START_SEQUENCE:
        if not sequence:
            raise missing("start sequence")
        if moment:
            raise also("time")
        return
    if config.deliver_policy == DELIVER_BY_START_TIME:
        if not moment:
            raise missing("start time")
        if sequence:
            # The reference says "start" twice here.
            raise also("start sequence")
        return
    if sequence:
        raise also("sequence")
    if moment:
        raise also("time")
    if config.deliver_policy == DELIVER_LAST_PER_SUBJECT and not config.filters:
        raise missing("filter subject")


def _check_rest(config: ConsumerConfig) -> None:
    if config.sample_freq:
        frequency = config.sample_freq.removesuffix("%")
        if not _SAMPLE.fullmatch(frequency):
            err = f'strconv.Atoi: parsing "{frequency}": invalid syntax'
            raise errors.CONSUMER_INVALID_SAMPLING.error(err=err)
        if len(frequency.lstrip("+-0")) > _INT64_DIGITS:
            err = f'strconv.Atoi: parsing "{frequency}": value out of range'
            raise errors.CONSUMER_INVALID_SAMPLING.error(err=err)
        if int(frequency) < 0:
            raise errors.CONSUMER_INVALID_SAMPLING.error(err="<nil>")
    if config.flow_control and config.idle_heartbeat == 0:
        raise errors.CONSUMER_WITH_FLOW_CONTROL_NEEDS_HEARTBEATS.error()
    if config.durable_name and config.name and config.name != config.durable_name:
        raise errors.CONSUMER_CREATE_DURABLE_AND_NAME_MISMATCH.error()
    if metadata_size(config.metadata) > METADATA_SIZE_MAX:
        raise errors.CONSUMER_METADATA_LENGTH.error(limit=f"{METADATA_SIZE_MAX // 1024}KB")
    if config.priority_policy == PRIORITY_NONE:
        if config.priority_groups:
            raise errors.CONSUMER_PRIORITY_GROUP_WITH_POLICY_NONE.error()
        if config.priority_timeout > 0:
            raise errors.CONSUMER_PINNED_TTL_WITHOUT_PRIORITY_POLICY_NONE.error()
        return
    if config.deliver_subject:
        raise errors.CONSUMER_PUSH_WITH_PRIORITY_GROUP.error()
    if not config.priority_groups:
        raise errors.CONSUMER_PRIORITY_POLICY_WITHOUT_GROUP.error()
    for group in config.priority_groups:
        check_group_name(group)


def check_group_name(group: str) -> None:
    """Checks the name of a priority group."""
    if not group:
        raise errors.CONSUMER_EMPTY_GROUP_NAME.error()
    if not _GROUP.fullmatch(group):
        raise errors.CONSUMER_INVALID_GROUP_NAME.error()


def check_update(old: ConsumerConfig, new: ConsumerConfig, *, bound: bool) -> None:
    """Checks that an update changes nothing that must stay. bound: somebody listens on the deliver subject."""
    for name, text in (
        ("deliver_policy", "deliver policy"),
        ("mem_storage", "storage type"),
        ("direct", "direct"),
        ("sourcing", "sourcing"),
        ("opt_start_seq", "start sequence"),
        ("opt_start_time", "start time"),
        ("ack_policy", "ack policy"),
        ("replay_policy", "replay policy"),
        ("idle_heartbeat", "heart beats"),
        ("flow_control", "flow control"),
    ):
        if getattr(old, name) != getattr(new, name):
            raise errors.CONSUMER_CREATE.error(err=f"{text} can not be updated")
    if old.deliver_subject != new.deliver_subject:
        if not old.deliver_subject:
            raise errors.CONSUMER_CREATE.error(err="can not update pull consumer to push based")
        if not new.deliver_subject:
            raise errors.CONSUMER_CREATE.error(err="can not update push consumer to pull based")
        if bound:
            raise errors.CONSUMER_NAME_EXIST.error()
    if old.max_waiting != new.max_waiting:
        raise errors.CONSUMER_CREATE.error(err="max waiting can not be updated")
    check_backoff(new)


def is_ephemeral(config: ConsumerConfig) -> bool:
    """Removed when nobody uses it for a while."""
    return not config.durable_name


def with_threshold(config: ConsumerConfig, *, ephemeral: bool) -> ConsumerConfig:
    """The stored configuration of an ephemeral without an inactive threshold; after the comparison with the existing
    consumer (5.2). An update leaves it what it was made as: with a durable name it keeps a threshold, without one it
    gets none."""
    if ephemeral and config.inactive_threshold == 0:
        return replace(config, inactive_threshold=EPHEMERAL_THRESHOLD)
    return config


def check_number(
    stream: StreamConfig, config: ConsumerConfig, limits: JetStreamLimits, settings: Settings, others: int
) -> None:
    """Whether a stream takes a consumer beside so many others. limits: of the account."""
    limit, most = stream.max_consumers, granted(limits, replicas_of(config, stream)).max_consumers
    if limit <= 0 or 0 < most < limit:
        limit = most
    if limit <= 0:
        limit = settings.default_max_consumers
    if 0 < limit <= others:
        raise errors.MAXIMUM_CONSUMERS_LIMIT.error()


def needs_partition(stream: StreamConfig, config: ConsumerConfig, others: int) -> bool:
    """Whether a new consumer needs subjects that none of so many others has; what else a workqueue asks of it."""
    if stream.retention != WORKQUEUE or config.direct or config.sourcing:
        return False
    if config.ack_policy not in (ACK_EXPLICIT, ACK_FLOW_CONTROL):
        raise errors.CONSUMER_WORKQUEUE_REQUIRES_EXPLICIT_ACK.error()
    if config.deliver_policy != DELIVER_ALL:
        raise errors.CONSUMER_WORKQUEUE_CONSUMER_NOT_DELIVER_ALL.error()
    if others and not config.filters:
        raise errors.CONSUMER_WORKQUEUE_MULTIPLE_UNFILTERED.error()
    return others > 0
