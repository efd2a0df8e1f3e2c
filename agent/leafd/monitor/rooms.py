"""What monitoring reads of the rooms that it must not import: one Protocol for each, with what is read and no more.

Every member is a property, so that a room's own narrower types satisfy it. What does not live here: what is read of
the configuration and the account graph, which stand below monitoring and are imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from leafd import native_types as t
from leafd.accounts.graph import Account
from leafd.auth.policy import Rights

if TYPE_CHECKING:
    from leafd.auth.verdict import Proof


class PlaneFacts(Protocol):
    """native.Plane: counters and rows."""

    def stats(self) -> t.Stats: ...
    def disk_took(self) -> Mapping[str, t.Histogram]: ...
    def publish(
        self, account: int, subject: str, payload: bytes, *, reply: str = "", header: bytes = b"", flags: int = 0
    ) -> None: ...
    def memory(self) -> dict[str, Any]: ...
    async def settled(self) -> None: ...
    async def connections(self) -> list[t.ConnectionRow]: ...
    async def subscriptions(self, connection: int, bucket: int) -> t.SubscriptionSlice: ...


class ClientFacts(Protocol):
    """One client connection."""

    @property
    def peer(self) -> str: ...
    @property
    def opened_ns(self) -> int: ...
    @property
    def connect(self) -> Mapping[str, Any]: ...
    @property
    def account(self) -> Account | None: ...
    @property
    def user(self) -> str: ...
    @property
    def rights(self) -> Rights: ...
    @property
    def proof(self) -> Proof | None: ...
    @property
    def tls(self) -> t.Secured | None: ...
    @property
    def kind(self) -> str: ...


class ClientsFacts(Protocol):
    """daemon.clients.Clients."""

    def get(self, connection: int) -> ClientFacts | None: ...
    def count(self, account: int) -> int: ...


class LinkFacts(Protocol):
    """One leaf link that is up."""

    @property
    def connection(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def account(self) -> str: ...
    @property
    def peer(self) -> str: ...
    @property
    def spoke(self) -> bool: ...
    @property
    def compression(self) -> str: ...
    @property
    def version(self) -> str: ...


class RemoteFacts(Protocol):
    """One hub that is dialled, connected or not."""

    @property
    def account_name(self) -> str: ...
    @property
    def urls(self) -> Sequence[str]: ...
    @property
    def connected(self) -> bool: ...
    @property
    def last_error(self) -> str: ...


class LeafsFacts(Protocol):
    """links.leafs.Leafs."""

    @property
    def remotes(self) -> Sequence[RemoteFacts]: ...
    def links(self) -> Sequence[LinkFacts]: ...


class ConsumerFacts(Protocol):
    """A stream's consumer, known by its name."""

    @property
    def name(self) -> str: ...
    @property
    def hidden(self) -> bool: ...


class StreamConfigFacts(Protocol):
    """Whether a stream is a copy of others."""

    @property
    def mirror(self) -> object: ...
    @property
    def sources(self) -> Sequence[object]: ...


class StreamFacts(Protocol):
    """One stream."""

    @property
    def name(self) -> str: ...
    @property
    def config(self) -> StreamConfigFacts: ...
    @property
    def consumers(self) -> Mapping[str, ConsumerFacts]: ...
    def listed(self) -> Iterable[ConsumerFacts]: ...


class JetStreamAccountFacts(Protocol):
    """One account's JetStream."""

    @property
    def name(self) -> str: ...
    @property
    def enabled(self) -> bool: ...
    @property
    def api_total(self) -> int: ...
    @property
    def api_errors(self) -> int: ...
    @property
    def streams(self) -> Mapping[str, StreamFacts]: ...
    def sorted_streams(self) -> Iterable[StreamFacts]: ...


class CatalogueFacts(Protocol):
    """Every account that JetStream knows, also those that may not use it."""

    @property
    def by_name(self) -> Mapping[str, JetStreamAccountFacts]: ...


class JetStreamFacts(Protocol):
    """jetstream.service.JetStream."""

    @property
    def catalogue(self) -> CatalogueFacts: ...
    async def look(self, account: str, request: str) -> dict[str, Any]: ...
