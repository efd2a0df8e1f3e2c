"""The context of every endpoint: the catalogue, the plane, the neighbours, the settings, and the receivers of events.
Not here: requests (registry.py), the daemon's entry (service.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from leafd.jetstream.advisories import Advisories
from leafd.jetstream.catalogue import Catalogue, JetStreamAccount, Settings, Stream
from leafd.jetstream.copiers import Copiers
from leafd.jetstream.models.stream import StreamConfig
from leafd.jetstream.passed_over import PassedOver
from leafd.jetstream.ports import Neighbours, Placing
from leafd.jetstream.rules.consumer_rules import ConsumerContext
from leafd.jetstream.rules.stream_rules import StreamContext
from leafd.native_commands import Commands
from leafd.operator_log import Log
from leafd.records import dataclass

if TYPE_CHECKING:
    from leafd.jetstream.endpoints.templates import Templates


@dataclass(slots=True)
class Context:
    """One JetStream. make_templates: of service.py, which has the one there is."""

    catalogue: Catalogue
    plane: Commands
    neighbours: Neighbours
    settings: Settings
    advisories: Advisories
    log: Log
    make_templates: Callable[[], Templates]
    copiers: Copiers
    passed_over: PassedOver
    placing: Placing | None = None
    """The group of servers; None: this one is alone."""

    @property
    def templates(self) -> Templates:
        """Stream templates at work; made when they are first asked for."""
        return self.make_templates()

    def for_streams(self, account: JetStreamAccount) -> StreamContext:
        """The context for the rules of streams."""

        def lookup(name: str) -> StreamConfig | None:
            stream = account.streams.get(name)
            if stream is None and self.placing is not None:
                return self.placing.config(account.name, name)
            return stream.config if stream else None

        return StreamContext(lookup, self.settings, account.limits)

    def for_consumers(self, stream: Stream) -> ConsumerContext:
        """The context for the rules of consumers."""
        return ConsumerContext(stream.config, self.settings, stream.account.limits)
