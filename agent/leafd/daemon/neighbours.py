"""Where the rooms that must not know each other meet: JetStream's streams become slots of mirrors and sources,
connections become names.

No decision is made here; both sides' types are translated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from leafd.daemon.clients import Clients
from leafd.gotime import format_time
from leafd.jetstream.catalogue import Stream
from leafd.jetstream.models.stream import StreamSource
from leafd.jetstream.ports import SourceStatus
from leafd.links.leafs import Leafs
from leafd.links.origin import Origin, consumer_name
from leafd.links.replica import Slot
from leafd.links.replicas import Replicas


class JetStreamNeighbours:
    """The other rooms, as leafd.jetstream sees them."""

    def __init__(
        self,
        clients: Clients,
        leafs: Leafs,
        replicas: Replicas,
        account_name: Callable[[int], str],
        server_name: str,
        domain: str,
    ) -> None:
        self._clients = clients
        self._leafs = leafs
        self._replicas = replicas
        self._account_name = account_name
        self._server_name = server_name
        self._domain = domain

    def stream_changed(self, stream: Stream, last_sequence: int) -> None:
        """Tells the mirrors and sources what this stream takes from where."""
        self._replicas.set_slots(stream.id, slots_of(stream, self._domain), last_sequence)

    def stream_removed(self, stream: Stream) -> None:
        """Its slots end."""
        self._replicas.remove_stream(stream.id)

    async def source_status(self, stream: int, slot: int) -> SourceStatus:
        """Lag and activity of one slot."""
        return await self._replicas.info(stream, slot)

    def client_info(self, connection: int) -> dict[str, Any]:
        """Who sent a request, as advisories and Nats-Request-Info name him."""
        client = self._clients.get(connection)
        if client is None or client.account is None:
            return {"server": self._server_name}
        found: dict[str, Any] = {
            "start": format_time(client.opened_ns),
            "host": client.host,
            "id": client.connection,
            "acc": client.account.name,
            "user": client.user,
            "name": client.connect.get("name", ""),
            "lang": client.connect.get("lang", ""),
            "ver": client.connect.get("version", ""),
            "server": self._server_name,
            "kind": "Client",
            "client_type": "nats",
        }
        return {key: value for key, value in found.items() if value != ""}

    def has_leafs(self, account: int) -> bool:
        """Whether leaf links are bound to the account."""
        name = self._account_name(account)
        return any(link.account == name for link in self._leafs.links())


def slots_of(stream: Stream, domain: str) -> Iterator[Slot]:
    """The slots of a stream: one for a mirror, or one a source."""
    config = stream.config
    if config.mirror is not None:
        yield _slot(stream, config.mirror, 0, domain, shared=False)
    names = [source.name for source in config.sources]
    for number, source in enumerate(config.sources, start=1):
        yield _slot(stream, source, number, domain, shared=names.count(source.name) > 1)


def _slot(stream: Stream, source: StreamSource, number: int, domain: str, *, shared: bool) -> Slot:
    origin = Origin(
        stream=source.name,
        api=source.external.api if source.external else "",
        deliver=source.external.deliver if source.external else "",
        filter=source.filter_subject,
        transforms=tuple((one.source, one.destination) for one in source.subject_transforms),
        start_seq=source.opt_start_seq,
        durable=source.consumer.name if source.consumer is not None else "",
        durable_deliver=source.consumer.deliver_subject if source.consumer is not None else "",
        start_time=format_time(source.opt_start_time) if source.opt_start_time is not None else "",
    )
    mirror = number == 0
    name = consumer_name(mirror, stream.name, stream.account.name, domain, origin.key if shared else "")
    return Slot(
        stream=stream.id,
        stream_name=stream.name,
        account=stream.account.id,
        account_name=stream.account.name,
        number=number,
        mirror=mirror,
        origin=origin,
        domain=domain,
        consumer=name,
    )
