"""The mirrors and sources elsewhere that copy this server's streams, and how far each of them has come: which messages
have left the box, seen from the box.

    CONSUMER.CREATE of a mirror or source --begun()--> Copier <--ended()-- its consumer has gone
                                                         `--of(stream)--> rows for people

A copy begins behind what it has stored, and its answers to flow control say how far it has come since. When its
consumer is gone, as while the link is cut, it stays known up to where it had come then. COPIERS_MAX are kept, the
latest; they are forgotten with a restart. How fast one comes nearer follows from what was told of it before, so who
asks for the first time is not told. A copy that asks again for the consumer that it asked for is given that one.
Not here: consumers (consumers.py), what is shown of it (leafd.copies).
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Container
from dataclasses import replace
from typing import Any, Final

from leafd import native_types as t
from leafd.gotime import now_ns
from leafd.jetstream.catalogue import Catalogue, Consumer, Stream
from leafd.jetstream.models.consumer import ConsumerConfig
from leafd.native_commands import Commands
from leafd.records import dataclass

COPIERS_MAX: Final = 1024
"""With names of some hundred bytes each."""
SHOWN_MAX: Final = 8
"""In a stream's info: at a hub a thousand boxes may have a mirror of one stream, each of which asks for its info."""
NAME_MAX: Final = 256
READ_MAX: Final = 256 << 10
"""Bytes that are read of a stream at most to tell ages, of one message for each copy .."""
READ_MORE: Final = 4096
""".. with so many around it."""
PACE_SPAN_S: Final = (2.0, 60.0)
"""Between two looks that tell a pace. What is longer tells none of late."""
_KINDS: Final = {"mirror": "_nats.mirror.", "source": "_nats.src."}


@dataclass(slots=True)
class Copier:
    """One mirror or source of a stream, somewhere else or here."""

    consumer: str
    """The name of its latest consumer."""
    kind: str
    """"mirror" or "source"; "copy" where it does not say."""
    copy: str
    """The name of the copying stream; empty: it does not say."""
    account: str
    domain: str
    filtered: bool
    """Only some of the messages are copied."""
    stored: int
    """The sequence up to which the copy has stored all messages."""
    seen_s: float
    """When its consumer last existed."""
    next_after: int = -1
    """The first message behind that sequence .."""
    next_ts: int = 0
    """.. has this stamp; 0: that is not known."""
    mark: tuple[float, int] | None = None
    """When the pace's span began, and how many messages were missing then."""
    pace: float | None = None
    """Messages a second that it came nearer in the span before; None: not known."""


def is_of_a_copy(config: ConsumerConfig) -> bool:
    """Whether it is the consumer of a mirror or source."""
    return config.direct or config.sourcing


def _copier(name: str, config: ConsumerConfig, taken: int) -> Copier:
    metadata = config.metadata or {}
    kind, stream, account, domain = "copy", "", "", ""
    for named, prefix in _KINDS.items():
        if f"{prefix}stream" in metadata:
            kind = named
            stream, account, domain = (
                str(metadata.get(prefix + name, ""))[:NAME_MAX] for name in ("stream", "acc", "domain")
            )
    filtered = bool(config.filters)
    return Copier(name, kind, stream, account, domain, filtered, taken, time.monotonic())


def _key(copier: Copier, config: ConsumerConfig) -> int:
    """The same for all consumers of one copy; of one that does not say who it is, for that consumer alone."""
    if not copier.copy:
        return hash(copier.consumer)
    return hash((copier.kind, copier.copy, copier.account, copier.domain, config.filters))


class Copiers:
    """The known copiers of all streams."""

    def __init__(
        self, plane: Commands, catalogue: Catalogue, held: Callable[[int, str], str] = lambda account, domain: ""
    ) -> None:
        self._plane = plane
        self._held = held
        self._catalogue = catalogue
        self._known: dict[int, dict[int, Copier]] = {}
        """By stream, and by copy."""
        self._latest: OrderedDict[tuple[int, int], None] = OrderedDict()
        """All of them, the one that was made anew last at the end."""

    def begun(self, stream: Stream, consumer: Consumer, taken: int) -> None:
        """A consumer was made or set back, which begins behind what is stored there."""
        if not is_of_a_copy(consumer.config):
            return
        copier = _copier(consumer.name, consumer.config, taken)
        key = _key(copier, consumer.config)
        self._known.setdefault(stream.id, {})[key] = copier
        self._latest[stream.id, key] = None
        self._latest.move_to_end((stream.id, key))
        if len(self._latest) > COPIERS_MAX:
            self._forget(*next(iter(self._latest)))

    def asked_again(self, stream: Stream, config: ConsumerConfig) -> Consumer | None:
        """The consumer that was made when a copy asked for the same before. Over a slow link the answer may be under
        way: a second consumer would send each message once more. A start of a copy is told from the one before it by
        its deliver subject."""
        if not is_of_a_copy(config):
            return None
        copier = self._known.get(stream.id, {}).get(_key(_copier(config.name, config, 0), config))
        found = stream.consumers.get(copier.consumer) if copier is not None else None
        return found if found is not None and replace(config, name=found.config.name) == found.config else None

    def ended(self, stream: Stream, consumer: Consumer, taken: int) -> None:
        """Reports that a consumer with the far end's name has gone, and how much the far end had stored."""
        if not is_of_a_copy(consumer.config):
            return
        key = _key(_copier(consumer.name, consumer.config, taken), consumer.config)
        copier = self._known.get(stream.id, {}).get(key)
        if copier is None or copier.consumer != consumer.name:
            return
        copier.stored, copier.seen_s = max(copier.stored, taken), time.monotonic()
        if not copier.copy:
            self._forget(stream.id, key)  # its next consumer has another name

    def removed(self, stream: Stream) -> None:
        """The stream is gone."""
        for key in list(self._known.get(stream.id, ())):
            self._forget(stream.id, key)

    def _forget(self, stream: int, key: int) -> None:
        del self._latest[stream, key], self._known[stream][key]
        if not self._known[stream]:
            del self._known[stream]

    @property
    def streams(self) -> Container[int]:
        """The streams that have a known copier, whose consumer may have gone."""
        return self._known

    async def of(self, account: str, name: str, most: int = COPIERS_MAX) -> list[dict[str, Any]]:
        """Each copy of a stream that is known: how many messages it has not stored, how old the first of them is, and
        when none will be missing; null: nobody can know. Times are ns. Where there are more than `most`, none is
        looked at."""
        known = self._catalogue.by_name.get(account)
        stream = known.streams.get(name) if known is not None else None
        if stream is None:
            return []
        self._find_durable(stream)
        copiers = list(self._known.get(stream.id, {}).values())
        if not copiers or len(copiers) > most:
            return []
        found, state = [], await self._plane.stream_state(stream.id)
        few = (state.bytes // max(state.messages, 1) + READ_MORE) * len(copiers) <= READ_MAX
        for copier in copiers:
            served = stream.consumers.get(copier.consumer)
            now = await self._state(stream, served) if served is not None else None
            if now is not None:
                copier.stored, copier.seen_s = now.taken, time.monotonic()
            behind = now.pending + now.untaken if now is not None else _missing(copier, state)
            pace = _pace(copier, behind if now is not None else None)
            found.append(
                {
                    "kind": copier.kind,
                    "copy": copier.copy,
                    "account": copier.account,
                    "domain": copier.domain,
                    "asks": now is not None,
                    "stored": copier.stored,
                    "behind": behind,
                    "behind_bytes": _bytes(behind, state),
                    "oldest": await self._oldest(stream, copier, behind, state, few=few),
                    "level_in": _level_in(behind, pace),
                    "pace": pace,
                    "held": (self._held(stream.account.id, copier.domain) if copier.domain else "") or None,
                    "seen": int((time.monotonic() - copier.seen_s) * 1e9),
                }
            )
        return found

    async def _oldest(
        self, stream: Stream, copier: Copier, behind: int | None, state: t.StreamState, *, few: bool
    ) -> int | None:
        """The age of the first message that it has not stored. One that was removed since counts until it stores
        more."""
        if not behind:
            return behind
        if copier.filtered:
            return None  # to look for the first one that is for it may take long
        stamp = state.first_ts
        if state.first_seq <= copier.stored:
            if copier.next_after != copier.stored:
                copier.next_ts = await self._stamp_behind(stream, copier.stored) if few else 0
                copier.next_after = copier.stored
            stamp = copier.next_ts
        return max(now_ns() - stamp, 0) if stamp else None

    async def _stamp_behind(self, stream: Stream, sequence: int) -> int:
        try:
            found = await self._plane.message_get(
                stream.id, t.Query.NEXT_BY_SUBJECT, sequence=sequence + 1, subject=">"
            )
        except t.PlaneError:
            return 0  # it cannot be read now, or the stream has gone
        return found.ts if found is not None else 0

    def _find_durable(self, stream: Stream) -> None:
        """Finds the durable consumers that were there before the start: the others are made anew."""
        if stream.copies is None:
            return  # a stream may have thousands of consumers, and be asked for its info all the time
        for name in sorted(stream.copies):
            consumer = stream.consumers[name]
            key = _key(_copier(consumer.name, consumer.config, 0), consumer.config)
            if key not in self._known.get(stream.id, ()):
                self.begun(stream, consumer, 0)
        stream.copies = None

    async def _state(self, stream: Stream, consumer: Consumer) -> t.ConsumerState | None:
        try:
            return await self._plane.consumer_state(stream.id, consumer.id)
        except t.PlaneError:
            return None  # it has gone in this very moment


def _missing(copier: Copier, state: t.StreamState) -> int | None:
    """How many messages lie behind what it has. With gaps between them that is not known to the message: at most."""
    if state.last_seq <= copier.stored:
        return 0
    if copier.filtered:
        return None
    return min(state.messages, state.last_seq - max(copier.stored, state.first_seq - 1))


def _pace(copier: Copier, behind: int | None) -> float | None:
    """The pace of a copy of which so much is missing now. None: it is away, and so comes no nearer."""
    now_s = time.monotonic()
    passed_s = now_s - copier.mark[0] if copier.mark is not None else 0.0
    if behind is None:
        copier.mark = copier.pace = None
    elif copier.mark is None or passed_s > PACE_SPAN_S[1]:
        copier.mark, copier.pace = (now_s, behind), None
    elif passed_s >= PACE_SPAN_S[0]:
        copier.mark, copier.pace = (now_s, behind), (copier.mark[1] - behind) / passed_s
    return copier.pace


def _level_in(behind: int | None, pace: float | None) -> int | None:
    if not behind:
        return behind
    return int(behind * 1e9 / pace) if pace is not None and pace > 0 else None


def _bytes(behind: int | None, state: t.StreamState) -> int | None:
    """As the stream counts them, by their mean."""
    if not behind:
        return behind
    return round(behind * state.bytes / state.messages) if state.messages else None
