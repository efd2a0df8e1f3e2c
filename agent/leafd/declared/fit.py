"""Whether what a plan would do fits together: the rules of the API that look at several streams or consumers at once,
as subjects that overlap, room, and the partitions of a workqueue.

It goes through the steps as provision.py does, on configurations alone: what is removed first; then the streams, once
more while some of them are taken, since one may wait for another to give up a subject; then consumers. Not here: what
one configuration may be by itself (plan.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from leafd.declared.steps import DELETED, MADE, Key, Present, Step
from leafd.jetstream import errors
from leafd.jetstream.errors import ApiError
from leafd.jetstream.models.consumer import ConsumerConfig
from leafd.jetstream.models.stream import WORKQUEUE, StreamConfig
from leafd.jetstream.rules import consumer_rules
from leafd.jetstream.rules.account_limits import check_number, check_room, granted, more_reserved
from leafd.jetstream.subjects import SubjectSet
from leafd.jetstream.taken import Taken


def fitting_streams(steps: Sequence[Step], wanted: Mapping[Key, StreamConfig], present: Present) -> list[Step]:
    """The steps, with the error of each that would not be taken. wanted: their configurations, as they were checked."""
    known = list(steps)
    while True:
        found = _Streams(known, wanted, present).judged()
        pairs = list(zip(known, found, strict=True))
        # What is refused is not removed either: the others are judged once more, beside it.
        if all(new.action not in DELETED or bool(new.refused) == bool(old.refused) for old, new in pairs):
            return found
        known = [new if new.action in DELETED else old for old, new in pairs]


class _Streams:
    """One way through the steps."""

    def __init__(self, steps: Sequence[Step], wanted: Mapping[Key, StreamConfig], present: Present) -> None:
        gone = {one.asset.key[1] for one in steps if one.action in DELETED and not one.refused}
        self._steps = steps
        self._wanted = wanted
        self._present = present
        self._configs = {name: one.config for name, one in present.streams.items() if name not in gone}
        self._taken = Taken()
        for config in self._configs.values():
            self._taken.put(config)
        self._apart = self._nothing_overlaps()

    def _nothing_overlaps(self) -> bool:
        """Whether no subject that some of the streams has or gets overlaps another: then none has to be compared."""
        subjects: list[str] = []
        for config in self._configs.values():
            subjects += config.subjects
        for step in self._made():
            before = self._configs.get(step.asset.key[1])
            subjects += set(self._wanted[step.asset.key].subjects) - set(before.subjects if before else ())
        try:
            return not SubjectSet(subjects).meets_itself()
        except ApiError:  # too many wildcards
            return False

    def _made(self) -> Iterable[Step]:
        return (one for one in self._steps if one.action in MADE and not one.refused)

    def judged(self) -> list[Step]:
        """All of the steps."""
        left, failed = list(self._made()), dict[Key, str]()
        while left:
            failed = {}
            for step in left:
                try:
                    self._take(self._wanted[step.asset.key])
                except ApiError as error:
                    failed[step.asset.key] = error.description
            if len(failed) == len(left):
                break
            left = [step for step in left if step.asset.key in failed]
        return [replace(one, error=failed.get(one.asset.key, one.error)) for one in self._steps]

    def _take(self, config: StreamConfig) -> None:
        """Raises ApiError where the API would not take it now."""
        before = self._configs.get(config.name)
        replicas = config.num_replicas
        limits, tier = granted(self._present.limits, replicas), self._present.limits.tier(replicas)
        if before is None:
            there = len(self._configs)
            check_number(limits, self._taken.number(there, tier) if tier else there)
        more = config.max_bytes if before is None else more_reserved(before, config)
        mine = self._taken.reserved(config.storage)
        others = self._taken.reserved(config.storage, without=config.name, replicas=tier)
        check_room(
            limits,
            self._present.settings,
            config,
            add_bytes=more,
            account_reserved=others + (max(config.max_bytes - more, 0) if before is not None else 0),
            all_reserved=mine + self._present.elsewhere.get(config.storage, 0),
        )
        if not self._apart and (before is None or before.subjects != config.subjects):
            theirs = (one.subjects for name, one in self._configs.items() if name != config.name)
            if _overlap(config.subjects, theirs):
                raise errors.STREAM_SUBJECT_OVERLAP.error()
        self._taken.put(config)
        self._configs[config.name] = config


def _overlap(subjects: tuple[str, ...], others: Iterable[tuple[str, ...]]) -> bool:
    mine = SubjectSet(subjects)
    return any(mine.meets(SubjectSet(theirs)) for theirs in others)


def fitting_consumers(
    steps: Sequence[Step], wanted: Mapping[Key, ConsumerConfig], streams: Mapping[str, StreamConfig], present: Present
) -> list[Step]:
    """The same for consumers. streams: as they will be; present: without those that are made anew."""
    there = {name: dict(one.consumers) for name, one in present.streams.items()}
    for step in steps:
        if step.action in DELETED and not step.refused:
            there.get(step.asset.key[1], {}).pop(step.asset.key[2], None)
    found = []
    for step in steps:
        error = ""
        if step.action in MADE and not step.refused:
            _, stream, name = step.asset.key
            consumers, config = there.setdefault(stream, {}), wanted[step.asset.key]
            others = [one for other, one in consumers.items() if other != name and not (one.direct or one.sourcing)]
            try:
                if name not in consumers:
                    consumer_rules.check_number(streams[stream], config, present.limits, present.settings, len(others))
                _check_partition(streams[stream], config, others, new=name not in consumers)
            except ApiError as refused:
                error = refused.description
            else:
                consumers[name] = config
        found.append(replace(step, error=error or step.error))
    return found


def _check_partition(
    stream: StreamConfig, config: ConsumerConfig, others: Sequence[ConsumerConfig], *, new: bool
) -> None:
    """Raises ApiError where a workqueue's message would belong to two consumers."""
    if new and not consumer_rules.needs_partition(stream, config, len(others)):
        return
    shared = bool(config.filters) and not all(one.filters for one in others)
    if stream.retention == WORKQUEUE and (shared or _overlap(config.filters, (one.filters for one in others))):
        raise errors.CONSUMER_WORKQUEUE_CONSUMER_NOT_UNIQUE.error()
