"""The meeting place of rooms that must not know each other: JetStream's streams become slots of mirrors and sources,
connections become names. No decision is made here; both sides' types are translated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from leafd import native_types as t
from leafd.daemon.authors import AuthorRights
from leafd.gotime import format_time
from leafd.jetstream.catalogue import Stream
from leafd.jetstream.models.stream import StreamSource
from leafd.jetstream.ports import Asker, SourceStatus
from leafd.jetstream.publishing import asks
from leafd.links.lag import NO_NEARER
from leafd.links.leafs import Leafs
from leafd.links.origin import Origin, consumer_name
from leafd.links.replica import Slot
from leafd.links.replicas import Replicas
from leafd.logins.askers import asker_of
from leafd.logins.clients import Clients


class JetStreamNeighbours:
    """The other rooms, as leafd.jetstream sees them."""

    def __init__(
        self,
        clients: Clients,
        leafs: Leafs,
        authors: AuthorRights,
        replicas: Replicas,
        account_name: Callable[[int], str],
        server_name: str,
        domain: str,
    ) -> None:
        self._clients = clients
        self._leafs = leafs
        self._authors = authors
        self._replicas = replicas
        self._account_name = account_name
        self._server_name = server_name
        self._domain = domain
        self._ways: dict[int, dict[int, tuple[int, str]]] = {}
        """By stream and slot: the account, and the domain of the slot's origin, where it is another one."""

    def stream_changed(self, stream: Stream, last_sequence: int) -> None:
        """Tells the mirrors and sources what this stream takes from where. Of several servers the leader takes in."""
        leads = stream.group is None or stream.led
        slots = tuple(slots_of(stream, self._domain)) if leads else ()
        if leads:
            self._replicas.set_slots(stream.id, slots, last_sequence)
        else:
            self._replicas.remove_stream(stream.id, handed_on=True)
        ways = {
            one.number: (one.account, one.origin.domain) for one in slots if one.origin.domain not in ("", one.domain)
        }
        if ways:
            self._ways[stream.id] = ways
        else:
            self._ways.pop(stream.id, None)

    def stream_led(self, stream: Stream, last_sequence: int, positions: dict[str, tuple[int, int]]) -> None:
        """The stream's slots begin behind these positions."""
        self._replicas.begin_anew(stream.id, positions)
        self.stream_changed(stream, last_sequence)

    def stream_removed(self, stream: Stream) -> None:
        """Ends the stream's slots."""
        self._replicas.remove_stream(stream.id)
        self._ways.pop(stream.id, None)

    async def source_statuses(self, stream: int, slots: Sequence[int]) -> list[SourceStatus]:
        """Lag and activity of each slot."""
        found: list[SourceStatus] = []
        ways = self._ways.get(stream, {})
        for slot, one in zip(slots, await self._replicas.infos([(stream, slot) for slot in slots]), strict=True):
            way = ways.get(slot)
            held = self._leafs.sending.held(*way, there=True) if way is not None else ""
            if held:  # it is its owner's will that it waits
                one = replace(one, held=held, error=None if one.error == NO_NEARER else one.error)
            found.append(one)
        return found

    def asker(self, message: t.Message) -> Asker:
        """The sender of a request."""
        return asker_of(message, self._clients, self._leafs, self._server_name)

    async def denied(self, stream: Stream, subjects: tuple[str, ...]) -> tuple[str, ...]:
        """The subjects that the stream's author may not use today."""
        return await self._authors.denied(stream.author, stream.account.name, subjects)

    def has_leafs(self, account: int) -> bool:
        """Whether leaf links are bound to the account."""
        name = self._account_name(account)
        return self._leafs.linked(name) > 0

    def lets_go(self, account: int, domain: str) -> str:
        """Whether this end's budget lets an API request go to that domain."""
        return self._leafs.sending.held(account, domain, there=False)


def slots_of(stream: Stream, domain: str) -> Iterator[Slot]:
    """The slots of a stream: one for a mirror, or one a source; without those that its author may not ask for."""
    config = stream.config
    if config.mirror is not None and asks(config.mirror) not in stream.denied:
        yield _slot(stream, config.mirror, 0, domain, shared=False)
    names = Counter(source.name for source in config.sources)
    for number, source in enumerate(config.sources, start=1):
        if asks(source) not in stream.denied:
            yield _slot(stream, source, number, domain, shared=names[source.name] > 1)


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
