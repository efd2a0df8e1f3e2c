"""The declared streams, consumers and buckets, as requests of the JetStream API, each with its place in the file. Not
here: how it is read (read.py), what is to be done about it (plan.py)."""

from __future__ import annotations

from dataclasses import replace

from leafd.jetstream.models.consumer import ConsumerConfig
from leafd.jetstream.models.stream import StreamConfig, StreamSource
from leafd.records import dataclass


@dataclass(frozen=True, slots=True)
class BoxSource:
    """One source for each enrolled box of a pattern. source: its configuration, without the place of the box."""

    pattern: str
    source: StreamSource


@dataclass(frozen=True, slots=True)
class DeclaredStream:
    """A stream, or a bucket's stream. config: as a client would send it; None: it is to be removed. shown: what the
    file calls it."""

    account: str
    name: str
    config: StreamConfig | None
    may_lose: bool
    shown: str
    place: str = ""
    boxes: tuple[BoxSource, ...] = ()

    @property
    def key(self) -> tuple[str, ...]:
        """The key that tells a declared stream from all others."""
        return self.account, self.name


@dataclass(frozen=True, slots=True)
class DeclaredConsumer:
    """A durable consumer of a stream, declared or not."""

    account: str
    stream: str
    name: str
    config: ConsumerConfig | None
    may_lose: bool
    place: str = ""

    @property
    def key(self) -> tuple[str, ...]:
        """The key that tells a declared consumer from all others."""
        return self.account, self.stream, self.name

    @property
    def shown(self) -> str:
        """The consumer's name as the file has it."""
        return f'consumer "{self.name}" of stream "{self.stream}"'


Asset = DeclaredStream | DeclaredConsumer


@dataclass(frozen=True, slots=True)
class Declared:
    """All that a configuration declares, in the order of the file."""

    streams: tuple[DeclaredStream, ...] = ()
    consumers: tuple[DeclaredConsumer, ...] = ()

    @property
    def assets(self) -> tuple[Asset, ...]:
        """Streams before consumers."""
        return (*self.streams, *self.consumers)

    @property
    def accounts(self) -> tuple[str, ...]:
        """The accounts that something is declared for."""
        return tuple(dict.fromkeys(one.account for one in self.assets))

    def since(self, before: Declared | None) -> frozenset[tuple[str, ...]]:
        """The keys of assets that were not declared before, or otherwise; their place in the file does not count."""
        known = {one.key: replace(one, place="") for one in before.assets} if before is not None else {}
        return frozenset(one.key for one in self.assets if known.get(one.key) != replace(one, place=""))
