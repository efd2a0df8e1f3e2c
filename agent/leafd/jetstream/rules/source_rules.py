"""Rules for the mirrors and sources of a stream.

Pure, like stream_rules.py, and called by it in the reference's order. Not here: taking the messages
(links/).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from leafd.config.transforms import INVALID_SUBJECT, TransformError, check_mapping, valid_subject
from leafd.jetstream import errors
from leafd.jetstream.errors import ApiError
from leafd.jetstream.models.stream import SourceConsumer, StreamConfig, StreamSource
from leafd.jetstream.rules.versioning import hash8
from leafd.jetstream.subjects import Steps, SubjectSet, collide, literal, valid_name
from leafd.records import dataclass

API_PREFIX: Final = "$JS.API"
Lookup = Callable[[str], StreamConfig | None]


def _invalid(text: str) -> ApiError:
    return errors.STREAM_INVALID_CONFIG.error(err=text)


@dataclass(frozen=True, slots=True)
class MirrorCheck:
    """The configuration with what it takes over from its origin, and the origin's subjects if it is here."""

    config: StreamConfig
    subjects: tuple[str, ...] = ()


def check_mirror(config: StreamConfig, lookup: Lookup, pedantic: bool) -> MirrorCheck:
    """Checks a mirror's configuration, and takes over direct gets from a local origin."""
    mirror = config.mirror
    if mirror is None:
        return MirrorCheck(config)
    for wrong, error in (
        (config.first_seq > 0, errors.MIRROR_WITH_FIRST_SEQUENCE),
        (bool(config.subjects), errors.MIRROR_WITH_SUBJECTS),
        (bool(config.sources), errors.MIRROR_WITH_SOURCES),
        (config.allow_msg_counter, errors.MIRROR_WITH_COUNTERS),
        (config.allow_atomic, errors.MIRROR_WITH_ATOMIC_PUBLISH),
        (config.allow_batched, errors.MIRROR_WITH_BATCH_PUBLISH),
        (config.allow_msg_schedules, errors.MIRROR_WITH_MESSAGE_SCHEDULES),
        (not _consumer_fits(mirror), errors.MIRROR_DURABLE_CONSUMER_CONFIG_INVALID),
        (bool(mirror.filter_subject and mirror.subject_transforms), errors.MIRROR_MULTIPLE_FILTERS_NOT_ALLOWED),
    ):
        if wrong:
            raise error.error()
    if config.subject_delete_marker_ttl > 0:
        raise _invalid("subject delete markers forbidden on mirrors")
    _check_mirror_transforms(mirror)
    if mirror.external is not None:
        return MirrorCheck(config)
    if not valid_name(mirror.name):
        raise errors.MIRROR_INVALID_STREAM_NAME.error()
    origin = lookup(mirror.name)
    if origin is None:
        return MirrorCheck(config)
    if 0 < config.max_msg_size < origin.max_msg_size:
        raise errors.MIRROR_MAX_MESSAGE_SIZE_TOO_BIG.error()
    if pedantic and config.mirror_direct != origin.allow_direct:
        raise errors.PEDANTIC.error(err="origin stream has direct get set, mirror has it disabled")
    return MirrorCheck(replace(config, mirror_direct=origin.allow_direct), origin.subjects)


def _consumer_fits(source: StreamSource) -> bool:
    consumer = source.consumer
    return consumer is None or (
        valid_name(consumer.name)
        and valid_subject(consumer.deliver_subject)
        and literal(consumer.deliver_subject)
        and not source.opt_start_seq
        and source.opt_start_time is None
        and not source.filter_subject
    )


def _check_mirror_transforms(mirror: StreamSource) -> None:
    transforms = mirror.subject_transforms
    meeting = SubjectSet(transform.source for transform in transforms).meets_itself()
    steps = Steps()
    for index, transform in enumerate(transforms):
        if transform.source and not valid_subject(transform.source):
            raise errors.MIRROR_INVALID_SUBJECT_FILTER.error(err=f"{INVALID_SUBJECT} {transform.source}")
        try:
            check_mapping(transform.source, transform.destination)
        except TransformError as error:
            raise errors.MIRROR_INVALID_TRANSFORM_DESTINATION.error(err=error) from None
        # Only to find the first of a pair: the order of the refusals is the reference's.
        for other in (*transforms[:index], *transforms[index + 1 :]) if meeting else ():
            steps.take(1)
            if collide(transform.source, other.source):
                raise errors.MIRROR_OVERLAPPING_SUBJECT_FILTERS.error()


def index_name(source: StreamSource) -> tuple[str, str, str]:
    """The key that tells two sources of a stream apart: origin, filters, destinations."""
    name = source.name
    if source.external is not None:
        name += ":" + hash8(source.external.api)
    if source.consumer is not None:
        name += ":C=" + hash8(source.consumer.name)
    if not source.subject_transforms:
        return name, source.filter_subject or ">", ">"
    filters = "\f".join(transform.source or ">" for transform in source.subject_transforms)
    destinations = "\f".join(transform.destination or ">" for transform in source.subject_transforms)
    return name, filters, destinations


def check_sources(config: StreamConfig, lookup: Lookup) -> tuple[str, ...]:
    """Each source by itself and against the others. Returns the subjects of the origins that are here."""
    if config.sources and config.allow_msg_schedules:
        raise errors.SOURCE_WITH_MESSAGE_SCHEDULES.error()
    origins: set[str] = set()
    names: set[tuple[str, str, str]] = set()
    consumers: set[tuple[str, str]] = set()
    subjects: list[str] = []
    for source in config.sources:
        if not valid_name(source.name):
            raise errors.SOURCE_INVALID_STREAM_NAME.error()
        index = index_name(source)
        if index in names:
            raise errors.SOURCE_DUPLICATE_DETECTED.error()
        names.add(index)
        if source.filter_subject and source.subject_transforms:
            raise errors.SOURCE_MULTIPLE_FILTERS_NOT_ALLOWED.error()
        _check_source_transforms(source)
        if source.consumer is not None:
            _check_source_consumer(source, source.consumer, consumers)
        origin = lookup(source.name) if source.external is None else None
        if origin is not None:
            subjects += () if source.name in origins else origin.subjects
            origins.add(source.name)
            if 0 < config.max_msg_size < origin.max_msg_size:
                raise errors.SOURCE_MAX_MESSAGE_SIZE_TOO_BIG.error()
    return tuple(subjects)


def _check_source_transforms(source: StreamSource) -> None:
    transforms = source.subject_transforms
    for transform in transforms:
        if transform.source and not valid_subject(transform.source):
            raise errors.SOURCE_INVALID_SUBJECT_FILTER.error(err=f"{INVALID_SUBJECT} {transform.source}")
        try:
            check_mapping(transform.source, transform.destination)
        except TransformError as error:
            raise errors.SOURCE_INVALID_TRANSFORM_DESTINATION.error(err=error) from None
    together, steps = SubjectSet(transform.source for transform in transforms), Steps()
    if any(together.covers_beside(transform.source, steps) for transform in transforms):
        raise errors.SOURCE_OVERLAPPING_SUBJECT_FILTERS.error()


def _check_source_consumer(source: StreamSource, consumer: SourceConsumer, seen: set[tuple[str, str]]) -> None:
    if not _consumer_fits(source):
        raise errors.SOURCE_DURABLE_CONSUMER_CONFIG_INVALID.error()
    key = (index_name(replace(source, consumer=None, subject_transforms=()))[0], consumer.name)
    if key in seen:
        raise errors.SOURCE_DURABLE_CONSUMER_DUPLICATE_DETECTED.error()
    seen.add(key)


def check_prefixes(config: StreamConfig, subjects: Iterable[str]) -> None:
    """The prefixes of external origins: literal, and not in the way of our own API or of the origins' subjects."""
    sources = (*((config.mirror,) if config.mirror else ()), *config.sources)
    externals = [source.external for source in sources if source.external is not None]
    # Behind a prefix it has more tokens than alone: only a subject that ends with `>` can meet itself.
    open_ended = [subject for subject in subjects if subject.endswith(">")]
    steps = Steps()
    for prefix in (external.deliver for external in externals if external.deliver):
        if not (valid_subject(prefix) and literal(prefix)):
            raise errors.STREAM_INVALID_EXTERNAL_DELIVERY_SUBJECT.error(prefix=prefix)
        for subject in open_ended:
            steps.take(1)
            if collide(subject, f"{prefix}.{subject}"):
                raise errors.STREAM_EXTERNAL_DELIVER_PREFIX_OVERLAPS.error(prefix=prefix, subject=subject)
    for prefix in (external.api for external in externals if external.api):
        if not (valid_subject(prefix) and literal(prefix)):
            raise _invalid(f'stream external api prefix "{prefix}" must be a valid subject without wildcards')
        if collide(prefix, API_PREFIX):
            raise errors.STREAM_EXTERNAL_API_OVERLAP.error(prefix=prefix, subject=API_PREFIX)


def check_cycle(config: StreamConfig, lookup: Lookup) -> None:
    """Local streams that source each other in a ring would copy for ever."""
    waiting = deque([config])
    visited: set[str] = set()
    steps = Steps()
    while waiting:
        current = waiting.popleft()
        visited.add(current.name)
        for source in current.sources:
            if source.external is not None:
                continue
            if source.name in visited:
                wanted = source.filter_subject
                steps.take(len(current.subjects))
                if not wanted or any(collide(subject, wanted) for subject in current.subjects):
                    raise _invalid("detected cycle")
            elif (origin := lookup(source.name)) is not None:
                waiting.append(origin)
        mirror = current.mirror
        if mirror is not None and mirror.external is None:
            if mirror.name in visited:
                raise _invalid("detected cycle")
            if (origin := lookup(mirror.name)) is not None:
                waiting.append(origin)


def check_filters(config: StreamConfig) -> None:
    """Filters of mirrors and sources that are no subjects: only looked at when the stream is made."""
    for source, what in (
        *(((config.mirror, "mirror"),) if config.mirror else ()),
        *((s, "source") for s in config.sources),
    ):
        if not source.subject_transforms and source.filter_subject and not valid_subject(source.filter_subject):
            gap = "" if what == "mirror" else ":"
            text = f"subject filter '{source.filter_subject}' for the {what}{gap} {INVALID_SUBJECT}"
            raise errors.STREAM_CREATE.error(err=text)
