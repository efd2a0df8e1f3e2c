"""Rules for stream configurations: which are allowed, and the defaults that are filled in before they are stored.

    checked(request)  -->  configuration with defaults, or ApiError        (create, update)
    check_update(old, new)  -->  what an update may not change

Pure: the account's other streams come in as a lookup. The order of the checks is nats-server's, since a request that
is wrong twice shows it; so are the texts. Not here: mirrors and sources (source_rules.py), storage
limits (account_limits.py), whether the name is taken (streams.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from leafd.config.transforms import INVALID_SUBJECT, TransformError, check_mapping, check_transform, valid_subject
from leafd.gotime import SECOND, format_duration
from leafd.jetstream import errors
from leafd.jetstream.catalogue import JetStreamLimits, Settings
from leafd.jetstream.errors import ApiError
from leafd.jetstream.models.stream import FILE, LIMITS, MEMORY, WORKQUEUE, Placement, StreamConfig, StreamSource
from leafd.jetstream.rules.account_limits import granted
from leafd.jetstream.rules.source_rules import check_cycle, check_mirror, check_prefixes, check_sources, index_name
from leafd.jetstream.subjects import check_list, collide, first_overlap, subset, valid_name
from leafd.records import dataclass

NAME_SIZE_MAX: Final = 255
DESCRIPTION_SIZE_MAX: Final = 4 * 1024
METADATA_SIZE_MAX: Final = 128 * 1024
REPLICAS_MAX: Final = 5
SOURCES_MAX: Final = 10_000
SOURCE_HEADER_SIZE_MAX: Final = 2048
WINDOW_DEFAULT: Final = 120 * SECOND
SHORTEST: Final = SECOND // 10
_RESERVED_STARTS: Final = ("$", "*", ">")

Lookup = Callable[[str], StreamConfig | None]


@dataclass(frozen=True, slots=True)
class StreamContext:
    """The facts that a decision about a stream depends on beside its configuration."""

    lookup: Lookup
    settings: Settings
    limits: JetStreamLimits


_PROTECTED: Final = frozenset({"$JS", "$SYS", "$NRG", "$GR", "_GR_", "_R_"})
"""First tokens of what the server alone speaks to."""


def invalid(text: str) -> ApiError:
    """The error of nearly all of these rules."""
    return errors.STREAM_INVALID_CONFIG.error(err=text)


def pedantic_error(text: str) -> ApiError:
    """The error for pedantic requests where others are helped."""
    return errors.PEDANTIC.error(err=text)


def checked(config: StreamConfig, context: StreamContext, *, pedantic: bool) -> StreamConfig:
    """The configuration as it may be stored, or the ApiError that says why not."""
    check_sizes(config)
    _check_texts(config)
    config = _with_limits(config, pedantic)
    config = _with_window(config, context.settings, pedantic)
    config = _with_features(config, pedantic)
    mirror = check_mirror(config, context.lookup, pedantic)
    config = mirror.config
    origins = check_sources(config, context.lookup)
    check_prefixes(config, (*mirror.subjects, *origins))
    check_cycle(config, context.lookup)
    config = _with_subjects(config)
    _check_account(config, granted(context.limits, config.num_replicas))
    config = _with_transforms(config, pedantic)
    if config.placement == Placement():
        config = replace(config, placement=None)
    if config.placement is not None and config.placement.preferred:
        raise invalid("preferred server not permitted in placement")
    return config


def metadata_size(metadata: dict[str, str] | None) -> int:
    """The size that counts against the limit on metadata."""
    return sum(len(key.encode()) + len(value.encode()) for key, value in (metadata or {}).items())


def check_sizes(config: StreamConfig) -> None:
    """Bounds that no user meets, before anything is compared with anything."""
    check_list(config.subjects, len(config.subjects), "subjects")
    sources = (*config.sources, *((config.mirror,) if config.mirror else ()))
    if len(sources) > SOURCES_MAX:
        raise invalid(f"more than {SOURCES_MAX} sources")
    renamed = [one for source in sources for one in source.subject_transforms]
    ends = [end for one in renamed for end in (one.source, one.destination)]
    ends += [source.filter_subject for source in sources]
    for pair in (config.subject_transform, config.republish):
        ends += [pair.source, pair.destination] if pair is not None else []
    for external in (source.external for source in sources if source.external is not None):
        ends += [external.api, external.deliver]
    check_list(ends, len(renamed), "subjects of sources and transforms")


def _check_texts(config: StreamConfig) -> None:
    if not valid_name(config.name):
        raise invalid("stream name is required and can not contain '.', '*', '>', '\\', '/'")
    if len(config.name.encode()) > NAME_SIZE_MAX:
        raise invalid(f"stream name is too long, maximum allowed is {NAME_SIZE_MAX}")
    if len(config.description.encode()) > DESCRIPTION_SIZE_MAX:
        raise invalid(f"stream description is too long, maximum allowed is {DESCRIPTION_SIZE_MAX}")
    if metadata_size(config.metadata) > METADATA_SIZE_MAX:
        raise invalid(f"stream metadata exceeds maximum size of {METADATA_SIZE_MAX} bytes")


def _with_limits(config: StreamConfig, pedantic: bool) -> StreamConfig:
    if config.num_replicas > REPLICAS_MAX:
        raise invalid(f"maximum replicas is {REPLICAS_MAX}")
    if config.num_replicas < 0:
        raise errors.REPLICAS_COUNT_CANNOT_BE_NEGATIVE.error()
    changes: dict[str, Any] = {"num_replicas": config.num_replicas or 1}
    for name in ("max_msgs", "max_msgs_per_subject", "max_bytes", "max_msg_size", "max_consumers"):
        value = getattr(config, name)
        if pedantic and value < -1:
            raise pedantic_error(f"{name} must be set to -1")
        changes[name] = value if value > 0 else -1
    if config.max_age < 0:
        raise invalid("max age can not be negative")
    if 0 < config.max_age < SHORTEST:
        raise invalid("max age needs to be >= 100ms")
    return replace(config, **changes)


def _with_window(config: StreamConfig, settings: Settings, pedantic: bool) -> StreamConfig:
    """The window in which message ids are remembered: its default, and its bounds."""
    window = config.duplicate_window
    if window == 0 and config.mirror is None and not config.sources:
        window = WINDOW_DEFAULT
        if 0 < settings.duplicate_window < window:
            if pedantic:
                raise pedantic_error("duplicate window limits are higher than current limits")
            window = settings.duplicate_window
        if 0 < config.max_age < window:
            if pedantic:
                raise pedantic_error("duplicate window cannot be bigger than max age")
            window = config.max_age
    if window < 0:
        raise invalid("duplicates window can not be negative")
    if 0 < config.max_age < window:
        raise invalid("duplicates window can not be larger then max age")
    if 0 < settings.duplicate_window < window:
        limit = format_duration(settings.duplicate_window)
        raise invalid(f"duplicates window can not be larger then server limit of {limit}")
    if 0 < window < SHORTEST:
        raise invalid("duplicates window needs to be >= 100ms")
    return replace(config, duplicate_window=window)


def _with_features(config: StreamConfig, pedantic: bool) -> StreamConfig:
    if config.deny_purge and config.allow_rollup_hdrs:
        raise invalid("roll-ups require the purge permission")
    if config.allow_msg_counter:
        _check_counter(config)
    check_discard_per_subject(config)
    config = _with_markers(config, pedantic)
    if config.allow_msg_schedules:
        if config.discard == "new":
            raise invalid("message scheduling cannot use discard new")
        if not config.allow_rollup_hdrs:
            if pedantic:
                raise invalid("message scheduling cannot be set if roll-ups are disabled")
            config = replace(config, allow_rollup_hdrs=True, deny_purge=False)
    if config.persist_mode == "async":
        if config.storage != FILE:
            raise invalid("async persist mode is only supported on file storage")
        if config.num_replicas > 1:
            raise invalid("async persist mode is not supported on replicated streams")
        if config.allow_atomic:
            raise invalid("async persist mode is not supported with atomic batch publish")
    return config


def _check_counter(config: StreamConfig) -> None:
    if config.discard == "new":
        raise invalid("counter stream cannot use discard new")
    if config.allow_msg_ttl:
        raise invalid("counter stream cannot use message TTLs")
    if config.allow_msg_schedules:
        raise invalid("counter stream cannot use message schedules")
    if config.retention != LIMITS:
        raise invalid("counter stream can only use limits retention")


def check_discard_per_subject(config: StreamConfig) -> None:
    """Discarding new messages per subject needs both of what it is made of."""
    if config.discard_new_per_subject:
        if config.discard != "new":
            raise invalid("discard new per subject requires discard new policy to be set")
        if config.max_msgs_per_subject <= 0:
            raise invalid("discard new per subject requires max msgs per subject > 0")


def _with_markers(config: StreamConfig, pedantic: bool) -> StreamConfig:
    """Delete markers need message TTLs and roll-ups, which they turn on."""
    if config.subject_delete_marker_ttl < 0:
        raise invalid("subject delete marker TTL must not be negative")
    if config.subject_delete_marker_ttl == 0:
        return config
    if config.subject_delete_marker_ttl < SECOND:
        raise invalid("subject delete marker TTL must be at least 1 second")
    if not config.allow_msg_ttl:
        if pedantic:
            raise invalid("subject delete marker cannot be set if message TTLs are disabled")
        config = replace(config, allow_msg_ttl=True)
    if not config.allow_rollup_hdrs:
        if pedantic:
            raise invalid("subject delete marker cannot be set if roll-ups are disabled")
        config = replace(config, allow_rollup_hdrs=True, deny_purge=False)
    return config


def _with_subjects(config: StreamConfig) -> StreamConfig:
    if not config.subjects:
        if config.mirror is None and not config.sources:
            return replace(config, subjects=(config.name,))
        return config
    overlapping = first_overlap(config.subjects)
    for index, subject in enumerate(config.subjects):
        if not valid_subject(subject):
            raise invalid(INVALID_SUBJECT)
        _check_reserved(subject, config)
        if overlapping is not None and index == overlapping[0]:
            other = config.subjects[overlapping[1]]
            # Go quotes the subjects, and so a subject is the one place where a quote would be escaped.
            raise invalid(f'subject "{subject}" overlaps with "{other}"')
    return config


def _check_reserved(subject: str, config: StreamConfig) -> None:
    """The server's own subjects are only captured by streams that do not acknowledge: an ack would be captured too."""
    if subject[:1] not in _RESERVED_STARTS:
        return
    if subject == ">":
        if not config.no_ack:
            raise invalid("capturing all subjects requires no-ack to be true")
        if config.num_replicas != 1:
            raise invalid("capturing all subjects requires replicas of 1")
    if config.no_ack:
        return
    api = any(collide(subject, namespace) for namespace in ("$JS.>", "$JSC.>", "$NRG.>"))
    if api and not subset(subject, "$JS.EVENT.>"):
        raise invalid("subjects that overlap with jetstream api require no-ack to be true")
    if collide(subject, "$SYS.>") and not subset(subject, "$SYS.ACCOUNT.>"):
        raise invalid("subjects that overlap with system api require no-ack to be true")


def _check_account(config: StreamConfig, limits: JetStreamLimits) -> None:
    if limits.max_bytes_required and config.max_bytes <= 0:
        raise errors.STREAM_MAX_BYTES_REQUIRED.error()
    memory = config.storage == MEMORY
    most = limits.memory_max_stream_bytes if memory else limits.store_max_stream_bytes
    if 0 < most < config.max_bytes:
        raise errors.STREAM_MAX_STREAM_BYTES_EXCEEDED.error()


def _with_transforms(config: StreamConfig, pedantic: bool) -> StreamConfig:
    transform = config.subject_transform
    if transform is not None:
        if transform.source and not valid_subject(transform.source):
            raise errors.STREAM_TRANSFORM_INVALID_SOURCE.error(err=f"{INVALID_SUBJECT} {transform.source}")
        try:
            check_mapping(transform.source, transform.destination)
        except TransformError as error:
            raise errors.STREAM_TRANSFORM_INVALID_DESTINATION.error(err=error) from None
    republish = config.republish
    if republish is None:
        return config
    if not republish.source:
        if pedantic:
            raise pedantic_error("republish source can not be empty")
        republish = replace(republish, source=">")
    everything = republish.source == ">" and republish.destination == ">"
    if everything and transform is not None and config.subjects == (transform.source,):
        if pedantic:
            raise pedantic_error("implicit republish based on subject transform")
        republish = replace(republish, source=transform.destination, destination=transform.destination)
    if any(collide(republish.destination, subject) for subject in config.subjects):
        raise invalid("stream configuration for republish destination forms a cycle")
    if republish.destination.partition(".")[0] in _PROTECTED:
        # The server would publish there with rights that the stream's author may not have. The reference takes it.
        raise invalid("stream configuration for republish destination must not be a subject of the server itself")
    try:
        check_transform(republish.source, republish.destination)
    except TransformError:
        pair = f"from '{republish.source}' to '{republish.destination}'"
        raise invalid(f"stream configuration for republish with transform {pair} not valid") from None
    return replace(config, republish=republish)


def check_update(old: StreamConfig, new: StreamConfig) -> StreamConfig:
    """Refuses what an update may not change; fills in what sealing brings with it. `new` was checked() already."""
    if new.allow_msg_counter:
        _check_counter(new)  # once more, since delete markers have turned on the TTLs that it refuses
    if new.storage != old.storage:
        raise invalid("stream configuration update can not change storage type")
    if new.retention != old.retention and WORKQUEUE in (new.retention, old.retention):
        raise invalid("stream configuration update can not change retention policy to/from workqueue")
    for lost, text in (
        (old.sealed and not new.sealed, "stream configuration update can not unseal a sealed stream"),
        (old.deny_delete and not new.deny_delete, "stream configuration update can not cancel deny message deletes"),
        (old.deny_purge and not new.deny_purge, "stream configuration update can not cancel deny purge"),
    ):
        if lost:
            raise invalid(text)
    if new.mirror is not None and new.mirror != old.mirror:
        raise errors.STREAM_MIRROR_NOT_UPDATABLE.error()
    if old.allow_msg_ttl and not new.allow_msg_ttl:
        raise invalid("message TTL status can not be disabled")
    if new.allow_msg_counter != old.allow_msg_counter:
        raise invalid("stream configuration update can not change message counter setting")
    if old.allow_msg_schedules and not new.allow_msg_schedules:
        raise invalid("message schedules can not be disabled")
    if old.persist_mode != new.persist_mode:
        raise invalid("stream configuration update can not change persist mode")
    if new.sealed:
        return replace(new, max_age=0, discard="new", deny_delete=True, deny_purge=True, allow_rollup_hdrs=False)
    return new


def _header_size(source: StreamSource) -> int:
    """Bytes that every message of the source carries in its Nats-Stream-Source, beside its own."""
    return sum(len(part.encode()) for part in index_name(source))


def check_made(config: StreamConfig) -> None:
    """Refuses fields that only an update, or the server itself, may set."""
    if config.sealed:
        raise invalid("stream configuration for create can not be sealed")
    if config.mirror_direct and config.mirror is None:
        raise invalid("stream has no mirror but does have mirror direct")


def refuse_unsupported(config: StreamConfig) -> None:
    """Refuses features that do not exist here yet, in the reference's words for features that are off: a field is never
    ignored."""
    if any(_header_size(source) > SOURCE_HEADER_SIZE_MAX for source in config.sources):
        raise invalid("so many subject transforms not supported by this server yet")
