"""The steps that bring about a declaration: one for each stream and consumer, with its losses.

    plan(declared, account name -> Present)  -->  steps: create, update, replace, remove, nothing

Pure: what is there comes in as Present. A step is refused when it would lose messages or a consumer's position and its
block does not say allow_data_loss, or when the API would not take it. Not here: the rules about several
of them at once (fit.py), doing it (provision.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any, Final

from leafd.declared.assets import Declared, DeclaredConsumer, DeclaredStream
from leafd.declared.fit import fitting_consumers, fitting_streams
from leafd.declared.steps import DELETED, Action, Change, Key, Present, PresentStream, Step, reserved_by
from leafd.gojson import DURATION, Struct, written
from leafd.gotime import format_duration, now_ns
from leafd.jetstream import errors
from leafd.jetstream.errors import ApiError
from leafd.jetstream.models.consumer import ConsumerConfig
from leafd.jetstream.models.stream import FILE, INTEREST, LIMITS, MEMORY, StreamConfig
from leafd.jetstream.rules import consumer_rules
from leafd.jetstream.rules.consumer_rules import ConsumerContext
from leafd.jetstream.rules.source_rules import check_filters
from leafd.jetstream.rules.stream_rules import StreamContext, check_made, check_update, checked, refuse_unsupported
from leafd.jetstream.rules.versioning import comparable, static_consumer, static_stream
from leafd.jetstream.subjects import subset

NOT_ASKED: Final = "the servers that have it cannot be asked now"
_TEXT_MAX: Final = 80


def plan(declared: Declared, present: Callable[[str], Present]) -> tuple[Step, ...]:
    """The steps for all that is declared, in the order of the file."""
    steps: list[Step] = []
    added: dict[str, int] = {}
    for account in declared.accounts:
        there = present(account)
        elsewhere = {kind: there.elsewhere.get(kind, 0) + added.get(kind, 0) for kind in (FILE, MEMORY)}
        planning = _Planning(account, declared, replace(there, elsewhere=elsewhere))
        steps += planning.steps()
        for kind in elsewhere:
            added[kind] = added.get(kind, 0) + planning.added(kind)
    return tuple(steps)


class _Planning:
    """One account."""

    def __init__(self, account: str, declared: Declared, present: Present) -> None:
        self._streams = [one for one in declared.streams if one.account == account]
        self._consumers = [one for one in declared.consumers if one.account == account]
        self._present = present
        self._wanted = {one.name: one.config for one in self._streams if one.config is not None}
        self._subjects = tuple(subject for one in self._wanted.values() for subject in one.subjects)
        self._rules = StreamContext(self._look_up, present.settings, present.limits)
        self._stream_configs: dict[Key, StreamConfig] = {}  # as they would be stored
        self._consumer_configs: dict[Key, ConsumerConfig] = {}
        self._after = {name: one.config for name, one in present.streams.items()}  # the streams, once all is done

    def _look_up(self, name: str) -> StreamConfig | None:
        there = self._present.streams.get(name)
        return there.config if there is not None else self._wanted.get(name)

    def steps(self) -> list[Step]:
        """Streams, then consumers."""
        steps = [self._stream(one, self._present.streams.get(one.name)) for one in self._streams]
        steps = fitting_streams(steps, self._stream_configs, self._present)
        done = {one.asset.key[1]: one for one in steps if not one.refused}
        fresh = {name for name, one in done.items() if one.action in DELETED}
        for name, step in done.items():
            if step.action is Action.REMOVE:
                self._after.pop(name, None)
            elif step.asset.key in self._stream_configs:
                self._after[name] = self._stream_configs[step.asset.key]
        kept = {name: one for name, one in self._present.streams.items() if name not in fresh}
        consumers = [self._consumer(one, kept.get(one.stream)) for one in self._consumers]
        present = replace(self._present, streams=kept)
        return steps + fitting_consumers(consumers, self._consumer_configs, self._after, present)

    def added(self, storage: str) -> int:
        """Bytes that the account reserves beyond those of before."""
        before = reserved_by((one.config for one in self._present.streams.values()), storage)
        return reserved_by(self._after.values(), storage) - before

    # ---- streams

    def _stream(self, stream: DeclaredStream, there: PresentStream | None) -> Step:
        if stream.config is None:
            return _removal(stream, there)
        try:
            self._check_replicas(stream.config)
            config = checked(static_stream(stream.config), self._rules, pedantic=False)
            refuse_unsupported(config)
            if there is None:
                check_made(stream.config)
                check_filters(config)
        except ApiError as error:
            return Step(stream, Action.UPDATE if there else Action.CREATE, error=error.description)
        self._stream_configs[stream.key] = config
        if there is None:
            return Step(stream, Action.CREATE)
        config = replace(config, metadata=comparable(config.metadata, there.config.metadata))
        changes = changed(there.config, config)
        if not changes:
            return Step(stream, Action.NOTHING)
        if not there.asked:
            return Step(stream, Action.UPDATE, changes, error=NOT_ASKED)
        try:
            self._stream_configs[stream.key] = config = check_update(there.config, config)
        except ApiError as error:
            loss = _whole(there)
            if loss:
                loss = f"{error.description}; made anew, it would lose {loss}"
            return Step(stream, Action.REPLACE, changes, loss)
        return Step(stream, Action.UPDATE, changes, "; ".join(self._losses(there, config)))

    def _check_replicas(self, config: StreamConfig | ConsumerConfig) -> None:
        if config.num_replicas > 1 and not self._present.settings.shared:
            raise errors.STREAM_REPLICAS_NOT_SUPPORTED.error()

    def _losses(self, there: PresentStream, new: StreamConfig) -> Iterator[str]:
        """The losses that an update would cause."""
        old = there.config
        for subject in old.subjects:
            if not any(subset(subject, one) for one in (*new.subjects, *self._subjects)):
                yield f"messages to {subject} would not be stored any more"
        if not there.messages:
            return
        if old.retention == LIMITS and new.retention == INTEREST:
            yield "retention interest removes what no consumer waits for"
        if _lowered(old.max_msgs, new.max_msgs) and new.max_msgs < there.messages:
            yield f"max_msgs evicts {there.messages - new.max_msgs} of {there.messages} messages"
        if _lowered(old.max_bytes, new.max_bytes) and new.max_bytes < there.bytes:
            yield f"max_bytes evicts messages: it has {there.bytes} bytes"
        if _lowered(old.max_age, new.max_age) and (there.first_ts is None or there.first_ts + new.max_age < now_ns()):
            yield f"max_age {'may remove' if there.first_ts is None else 'removes'} messages that are older"
        # So many has the subject with the most of them, at most.
        most = there.messages - max(there.subjects - 1, 0)
        if _lowered(old.max_msgs_per_subject, new.max_msgs_per_subject) and new.max_msgs_per_subject < most:
            yield "max_msgs_per_subject may evict messages"

    # ---- consumers

    def _consumer(self, consumer: DeclaredConsumer, stream: PresentStream | None) -> Step:
        """stream: None where it has not the consumers that it has now."""
        if stream is not None and not stream.asked:
            return Step(consumer, Action.UPDATE, error=NOT_ASKED)
        there = stream.consumers.get(consumer.name) if stream is not None else None
        if consumer.config is None:
            if stream is None or there is None:
                return Step(consumer, Action.NOTHING)
            held = stream.config.retention == INTEREST and stream.messages > 0
            loss = "messages that only this consumer waits for are removed" if held else ""
            return Step(consumer, Action.REMOVE, loss=loss)
        action = Action.CREATE if there is None else Action.UPDATE
        owner = self._after.get(consumer.stream)
        if owner is None:
            return Step(consumer, action, error=f'there is no stream "{consumer.stream}", and none is made')
        try:
            config = self._filled_in(consumer.config, owner, there)
        except ApiError as error:
            return Step(consumer, action, error=error.description)
        self._consumer_configs[consumer.key] = config
        if there is None:
            return Step(consumer, action)
        config = replace(config, metadata=comparable(config.metadata, there.metadata))
        changes = changed(there, config)
        if not changes:
            return Step(consumer, Action.NOTHING)
        try:
            consumer_rules.check_update(there, config, bound=False)
        except ApiError as error:
            loss = f"{error.description}; made anew, it would lose its position"
            return Step(consumer, Action.REPLACE, changes, loss)
        return Step(consumer, action, changes)

    def _filled_in(self, config: ConsumerConfig, owner: StreamConfig, there: ConsumerConfig | None) -> ConsumerConfig:
        self._check_replicas(config)
        if there is not None:  # pausing is no part of a declaration
            config = replace(config, pause_until=there.pause_until)
        context = ConsumerContext(owner, self._present.settings, self._present.limits)
        config = consumer_rules.with_defaults(static_consumer(config), context, pedantic=False)
        consumer_rules.check(config, context)
        return config


def _removal(stream: DeclaredStream, there: PresentStream | None) -> Step:
    if there is None:
        return Step(stream, Action.NOTHING)
    if not there.asked:
        return Step(stream, Action.REMOVE, error=NOT_ASKED)
    return Step(stream, Action.REMOVE, loss=f"it has {there.messages} messages" if there.messages else "")


def _whole(there: PresentStream) -> str:
    """The loss when a stream is made anew."""
    parts = [f"{there.messages} messages"] if there.messages else []
    parts += [f"the positions of {len(there.consumers)} consumers"] if there.consumers else []
    return " and ".join(parts)


def _lowered(before: int, after: int) -> bool:
    """Whether a limit of that kind became smaller; what is not positive is none."""
    return after > 0 and (before <= 0 or after < before)


def changed(before: Struct, after: Struct) -> tuple[Change, ...]:
    """The keys whose values differ."""
    one, other = written(before), written(after)
    durations = {each.metadata["name"] for each in fields(before) if each.metadata["kind"] is DURATION}
    return tuple(
        Change(key, _told(one.get(key), key in durations), _told(other.get(key), key in durations))
        for key in dict.fromkeys((*one, *other))
        if one.get(key) != other.get(key)
    )


def _told(value: Any, duration: bool) -> str:
    if value is None:
        return "-"
    if duration and isinstance(value, int):
        return format_duration(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _TEXT_MAX else text[: _TEXT_MAX - 3] + "..."
