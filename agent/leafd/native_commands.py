"""The plane's commands as methods: what each packs and what its answer means.

Methods that are plain functions are orders without an answer; methods that are async wait for the plane's completion,
and for a change of the store that means: it is on disk. Orders take effect in the order of the calls. Numbers, bodies
and strings of the commands are in the table of native/command/command_table.c. Not here: packing
(native_packing.py), the rings (native_plane.py, which fills in the methods of native_submits.py), and any decision.

One class for each subject, each in a file of its own but the copies of streams and the records, which are here.
"""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence

from leafd import native_types as t
from leafd.holding import Contested, Holding
from leafd.native import abi as lib
from leafd.native_accounts import Accounts
from leafd.native_connections import Connections
from leafd.native_consumers import Consumers
from leafd.native_packing import Strings, decoded, encoded, records_in
from leafd.native_servers import Servers
from leafd.native_streams import Streams
from leafd.native_submits import Completion as Completion
from leafd.native_usage import Usage


class Commands(Connections, Accounts, Streams, Consumers, Usage, Servers):
    """Every COMMAND_* of abi.h as a method. A room takes the class of its subject, or this one where it needs
    several; a test's plane is one of these, too (tests/rig/planes.py)."""

    reports: Holding
    """The share of memory for answers that are being made."""
    archives: Contested
    """The share of memory for backups that are under way."""

    # ---- ingest of mirrors and sources

    async def ingest_start(
        self,
        stream: int,
        slot: int,
        *,
        mirror: bool,
        durable_behind: int | None,
        last_sequence: int,
        silence_ns: int,
        deliver_subject: str,
        consumer: str,
        source: t.IngestSource,
        transforms: Iterable[tuple[str, str]] = (),
        link: int = 0,
        origin: int = 0,
        alone: bool = False,
        begins: int = t.IngestAt.NEXT,
        pending: int | None = None,
        spared: bool = False,
        span: t.Span = t.NO_SPAN,
    ) -> None:
        """Takes up what arrives on deliver_subject. durable_behind: the origin sequence that a durable consumer is
        behind; None when the consumer was made for this start, begins: where it begins then. transforms: source and
        destination of each; the first for a message's subject renames it. link, origin: the connection that its
        messages come by, if known, and that answered, 0: this server. alone: no other link is told that they are
        wanted. pending: how many waited when the consumer was made, if known. spared: its end is told. span: what comes
        before it is acknowledged."""
        config = encoded(
            "ingest_config_t",
            {
                "mirror": int(mirror),
                "durable": int(durable_behind is not None),
                "last_sequence": last_sequence,
                "silence_ns": silence_ns,
                "delivered_sequence": durable_behind or 0,
                "link": link,
                "origin": origin,
                "begins": int(begins),
                "pending_known": int(pending is not None),
                "pending": pending or 0,
                "alone": int(alone),
                "spared": int(spared),
                "span": span.size,
                "span_by_flow": int(span.by_flow),
            },
        )
        strings: Strings = {
            "deliver_subject": deliver_subject,
            "consumer": consumer,
            "name": source.name,
            "filters": source.filters,
            "destinations": source.destinations,
            "identity": source.identity,
            "key": source.key,
            "origin": span.stream,
            "transforms": tuple(text for pair in transforms for text in pair),
        }
        await self._request(
            "INGEST_START",
            "starting an ingest",
            target=stream,
            arg=slot,
            body=config,
            strings=strings,
        )

    async def ingest_stop(self, stream: int, slot: int) -> t.IngestState:
        """Takes nothing more; stored progress stays. Returns where it ended."""
        done = await self._request("INGEST_STOP", "stopping an ingest", target=stream, arg=slot)
        return decoded("ingest_state_t", done.payload, t.IngestState)

    async def ingest_states(self, slots: Sequence[tuple[int, int]]) -> list[t.IngestState | None]:
        """Progress and lag of each, by stream and slot. None: it does not run."""
        found, ordered = dict[tuple[int, int], t.IngestState](), sorted(set(slots))
        for begin in range(0, len(ordered), lib.USAGE_STATES_MAX):
            some = ordered[begin : begin + lib.USAGE_STATES_MAX]
            body = struct.pack(f"={len(some)}Q", *[stream << 32 | slot for stream, slot in some])
            done = await self._request("INGESTS_STATE", "reading ingests' states", body=body)
            states = records_in("ingest_state_t", done.payload, t.IngestState)
            found |= {key: state for key, state in zip(some, states, strict=True) if state.running != lib.STATE_UNKNOWN}
        return [found.get(key) for key in slots]

    async def ingest_forget(self, stream: int, key: str) -> None:
        """Drops the stored progress of a source key."""
        await self._request("INGEST_FORGET", "forgetting a source", target=stream, strings={"key": key})

    async def ingest_stand(self, stream: int, key: str, sequence: int) -> None:
        """Makes the stored progress of a source key that sequence, of no known stamp. Nothing takes by it meanwhile."""
        strings = {"key": key}
        await self._request("INGEST_FORGET", "moving a source", target=stream, arg=sequence, strings=strings)

    # ---- records of the control side

    @abstractmethod
    def records(self, kind: int, *, whole: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Stored records (RECORD_*) in key order; only before the plane starts. Raises PlaneError where the store
        cannot be read: those that are missing then may be there. Damaged ones are left out, and the log says so; whole:
        then it raises PlaneError behind the last one."""

    async def record_put(self, key: bytes, value: bytes) -> None:
        """Stores a small record, or with no value removes it; returns when that is on disk."""
        await self._request("RECORD_PUT", "writing a record", strings={"key": key, "value": value})
