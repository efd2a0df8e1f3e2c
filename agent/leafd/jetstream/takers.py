"""The copiers elsewhere of this server's streams, and how far each of them is: the messages that have left the box,
seen from the box.

    CONSUMER.CREATE of a mirror or source --begun()--> Taker <--ended()-- its consumer has gone
                                                        `--of(stream)--> rows for people

A copy begins behind what it has stored, and its answers to flow control say how far it has come since. When its
consumer is gone, as while the link is cut, it stays known up to where it had come then. TAKERS_MAX are kept, the
latest; they are forgotten with a restart. A copy that asks again for the consumer that it asked for is given that one.
Not here: consumers (consumers.py), what is shown of it
(leafd.status).
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Container
from dataclasses import replace
from typing import Any, Final

from leafd import native_types as t
from leafd.jetstream.catalogue import Catalogue, Consumer, Stream
from leafd.jetstream.models.consumer import ConsumerConfig
from leafd.native_commands import Commands
from leafd.records import dataclass

TAKERS_MAX: Final = 1024
"""With names of some hundred bytes each."""
NAME_MAX: Final = 256
_KINDS: Final = {"mirror": "_nats.mirror.", "source": "_nats.src."}


@dataclass(slots=True)
class Taker:
    """One mirror or source of a stream, somewhere else or here."""

    consumer: str
    """The name of its latest consumer."""
    kind: str
    """"mirror" or "source"; "copy" where it does not say."""
    copy: str
    """The stream that takes; empty: it does not say."""
    account: str
    domain: str
    filtered: bool
    """It takes some of the messages only."""
    taken: int
    """Up to which sequence it has stored all."""
    seen_s: float
    """When its consumer was there last."""


def takes(config: ConsumerConfig) -> bool:
    """Whether it is the consumer of a mirror or source."""
    return config.direct or config.sourcing


def _taker(name: str, config: ConsumerConfig, taken: int) -> Taker:
    metadata = config.metadata or {}
    kind, stream, account, domain = "copy", "", "", ""
    for named, prefix in _KINDS.items():
        if f"{prefix}stream" in metadata:
            kind = named
            stream, account, domain = (
                str(metadata.get(prefix + name, ""))[:NAME_MAX] for name in ("stream", "acc", "domain")
            )
    filtered = bool(config.filters)
    return Taker(name, kind, stream, account, domain, filtered, taken, time.monotonic())


def _key(taker: Taker, config: ConsumerConfig) -> int:
    """The same for all consumers of one copy; of one that does not say who it is, for that consumer alone."""
    if not taker.copy:
        return hash(taker.consumer)
    return hash((taker.kind, taker.copy, taker.account, taker.domain, config.filters))


class Takers:
    """The takers of all streams."""

    def __init__(
        self, plane: Commands, catalogue: Catalogue, held: Callable[[int, str], str] = lambda account, domain: ""
    ) -> None:
        self._plane = plane
        self._held = held
        self._catalogue = catalogue
        self._known: dict[int, dict[int, Taker]] = {}
        """By stream, and by copy."""
        self._latest: OrderedDict[tuple[int, int], None] = OrderedDict()
        """All of them, the one that was made anew last at the end."""

    def begun(self, stream: Stream, consumer: Consumer, taken: int) -> None:
        """A consumer was made or set back, which begins behind what is stored there."""
        if not takes(consumer.config):
            return
        taker = _taker(consumer.name, consumer.config, taken)
        key = _key(taker, consumer.config)
        self._known.setdefault(stream.id, {})[key] = taker
        self._latest[stream.id, key] = None
        self._latest.move_to_end((stream.id, key))
        if len(self._latest) > TAKERS_MAX:
            self._forget(*next(iter(self._latest)))

    def asked_again(self, stream: Stream, config: ConsumerConfig) -> Consumer | None:
        """The consumer that was made when a copy asked for the same before. Over a slow link the answer may be under
        way: a second consumer would send each message once more. A start of a copy is told from the one before it by
        its deliver subject."""
        if not takes(config):
            return None
        taker = self._known.get(stream.id, {}).get(_key(_taker(config.name, config, 0), config))
        found = stream.consumers.get(taker.consumer) if taker is not None else None
        return found if found is not None and replace(config, name=found.config.name) == found.config else None

    def ended(self, stream: Stream, consumer: Consumer, taken: int) -> None:
        """Reports that a consumer with the far end's name has gone, and how much the far end had stored."""
        if not takes(consumer.config):
            return
        key = _key(_taker(consumer.name, consumer.config, taken), consumer.config)
        taker = self._known.get(stream.id, {}).get(key)
        if taker is None or taker.consumer != consumer.name:
            return
        taker.taken, taker.seen_s = max(taker.taken, taken), time.monotonic()
        if not taker.copy:
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
        """The streams that a taker took from, whose consumer may have gone."""
        return self._known

    async def of(self, account: str, name: str) -> list[dict[str, Any]]:
        """Each copy of a stream that is known, for monitoring: how many messages it has not stored; null: nobody can
        know."""
        known = self._catalogue.by_name.get(account)
        stream = known.streams.get(name) if known is not None else None
        if stream is None:
            return []
        self._find_durable(stream)
        if stream.id not in self._known:
            return []
        found, state = [], await self._plane.stream_state(stream.id)
        for taker in list(self._known.get(stream.id, {}).values()):
            served = stream.consumers.get(taker.consumer)
            now = await self._state(stream, served) if served is not None else None
            if now is not None:
                taker.taken, taker.seen_s = now.taken, time.monotonic()
            behind = now.pending + now.untaken if now is not None else _missing(taker, state)
            found.append(
                {
                    "kind": taker.kind,
                    "copy": taker.copy,
                    "account": taker.account,
                    "domain": taker.domain,
                    "asks": now is not None,
                    "taken": taker.taken,
                    "behind": behind,
                    "behind_bytes": _bytes(behind, state),
                    "held": (self._held(stream.account.id, taker.domain) if taker.domain else "") or None,
                    "seen": int((time.monotonic() - taker.seen_s) * 1e9),
                }
            )
        return found

    def _find_durable(self, stream: Stream) -> None:
        """Finds the durable consumers that were there before the start: the others are made anew."""
        for name in stream.names:
            consumer = stream.consumers[name]
            if consumer.config.sourcing:
                key = _key(_taker(consumer.name, consumer.config, 0), consumer.config)
                if key not in self._known.get(stream.id, ()):
                    self.begun(stream, consumer, 0)

    async def _state(self, stream: Stream, consumer: Consumer) -> t.ConsumerState | None:
        try:
            return await self._plane.consumer_state(stream.id, consumer.id)
        except t.PlaneError:
            return None  # it has gone in this very moment


def _missing(taker: Taker, state: t.StreamState) -> int | None:
    """How many messages lie behind what it has. With gaps between them that is not known to the message: at most."""
    if state.last_seq <= taker.taken:
        return 0
    if taker.filtered:
        return None
    return min(state.messages, state.last_seq - max(taker.taken, state.first_seq - 1))


def _bytes(behind: int | None, state: t.StreamState) -> int | None:
    """As the stream counts them, by their mean."""
    if not behind:
        return behind
    return round(behind * state.bytes / state.messages) if state.messages else None
