"""Commands about one stream: its definition, its messages, and all of it as a backup.

Not here: counters of very many streams (native_usage.py), copies of other streams (native_commands.py).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from functools import partial

from leafd import native_types as t
from leafd.native import abi
from leafd.native_meta import ALONE, FOUNDS, WAITS
from leafd.native_packing import Strings, encoded, stream_state_in
from leafd.native_submits import Submits
from leafd.native_types import PlaneError, Status
from leafd.turns import aside


class Streams(Submits):
    """One stream at a time."""

    async def stream_put(
        self,
        stream: int,
        config: t.FlatStream,
        *,
        name: str,
        definition: bytes,
        domain: str,
        subjects: Iterable[str],
        transform: tuple[str, str] = ("", ""),
        republish: tuple[str, str] = ("", ""),
        loading: bool = False,
    ) -> t.StreamState:
        """Creates, updates or (loading) takes up a stored stream. definition is kept verbatim as the durable record.
        transform, republish: source and destination; an empty destination is none."""
        strings: Strings = {
            "name": name,
            "definition": definition,
            "domain": domain,
            "source": transform[0],
            "destination": transform[1],
            "republish_source": republish[0],
            "republish_destination": republish[1],
            "subjects": tuple(subjects),
        }
        done = await self._request(
            "STREAM_PUT",
            f"stream {name}",
            account=config.account,
            target=stream,
            arg=int(loading),
            body=config,
            strings=strings,
        )
        return stream_state_in(done.payload)

    async def stream_remove(self, stream: int) -> None:
        """Removes a stream with its consumers, messages and records."""
        await self._request("STREAM_REMOVE", "removing a stream", target=stream)

    async def stream_state(
        self, stream: int, *, subjects_filter: str = "", deleted: bool = False, offset: int = 0
    ) -> t.StreamState:
        """Counters, and on request the deleted sequences and the count per subject."""
        done = await self._request(
            "STREAM_STATE",
            "reading a stream's state",
            target=stream,
            arg=int(deleted),
            arg2=offset,
            strings={"filter": subjects_filter},
        )
        decode = partial(stream_state_in, done.payload, lists=True, deleted=deleted)
        return await aside(len(done.payload), decode)

    async def stream_purge(self, stream: int, *, subject: str = "", sequence: int = 0, keep: int = 0) -> int:
        """Purges; returns how many messages went."""
        done = await self._request(
            "STREAM_PURGE",
            "purging a stream",
            target=stream,
            arg=sequence,
            arg2=keep,
            strings={"filter": subject},
        )
        return done.arg

    async def stream_group(self, stream: int, name: int, members: Sequence[tuple[int, int]]) -> None:
        """Joins the group that keeps a stream which several servers keep. members: servers and their disks, which found
        it, if it is not on this disk yet; none: it waits until its leader lets it in. Raises PlaneError."""
        body = b"".join(struct.pack("=QQ", *member) for member in members)
        how = FOUNDS if members else WAITS
        await self._request("STREAM_GROUP", "joining a stream's group", target=stream, arg=name, arg2=how, body=body)

    async def stream_group_alone(self, stream: int, name: int) -> None:
        """The group that this disk has of the stream goes on under that name, without its other members, for good.
        Raises PlaneError: AGAIN: later; INVALID: it has half of a copy; NOT_FOUND: it has none."""
        await self._request("STREAM_GROUP", "leading a stream alone", target=stream, arg=name, arg2=ALONE)

    async def stream_group_alter(self, stream: int, change: int, member: tuple[int, int]) -> None:
        """Changes the members of a stream's group, where this server leads it. Raises PlaneError."""
        body = struct.pack("=QQ", *member)
        await self._request("STREAM_GROUP_ALTER", "changing a stream's members", target=stream, arg=change, body=body)

    async def stream_consumers_made(self, stream: int, lead: int) -> None:
        """All consumers that the plane told of in this lead are made. Raises PlaneError."""
        await self._request("STREAM_CONSUMERS_MADE", "taking up a stream's consumers", target=stream, arg=lead)

    async def stream_group_look(self, stream: int) -> bytes:
        """The group as it is now: native_meta.py reads it. Raises PlaneError."""
        done = await self._request("STREAM_GROUP_LOOK", "looking at a stream's group", target=stream)
        return done.payload

    async def stream_group_transfer(self, stream: int, peer: int = 0) -> None:
        """Hands the lead over to that server, or to any. Raises PlaneError."""
        await self._request("STREAM_GROUP_TRANSFER", "handing over a stream's lead", target=stream, arg=peer)

    async def stream_define(self, stream: int, definition: bytes) -> None:
        """Gives a stream of several another definition, at all its servers; returns when this one has it. Raises
        PlaneError: CLOSED: what becomes of it is not known."""
        await self._request(
            "STREAM_DEFINE", "changing a stream's definition", target=stream, strings={"definition": definition}
        )

    async def message_get(
        self, stream: int, mode: int, *, sequence: int = 0, start_ts: int = 0, subject: str = ""
    ) -> t.StoredMessage | None:
        """One stored message by QUERY_* mode, or None."""
        query = encoded("message_query_t", {"sequence": sequence, "start_ts": start_ts, "mode": mode})
        try:
            done = await self._request(
                "MESSAGE_GET",
                "reading a message",
                target=stream,
                body=query,
                strings={"subject": subject},
            )
        except PlaneError as error:
            if error.status == Status.NOT_FOUND:
                return None
            raise
        return t.StoredMessage(done.arg, done.arg2, done.subject, done.header, done.payload)

    async def message_delete(self, stream: int, sequence: int) -> bool:
        """Deletes one message; False when it was not there."""
        try:
            await self._request("MESSAGE_DELETE", "deleting a message", target=stream, arg=sequence)
        except PlaneError as error:
            if error.status == Status.NOT_FOUND:
                return False
            raise
        return True

    async def stream_export(self, stream: int, first: int, last: int) -> tuple[bytes, int]:
        """Some messages as archive entries, and the sequence to go on from (0 = that was all)."""
        done = await self._request("STREAM_EXPORT", "reading messages", target=stream, arg=first, arg2=last)
        return done.payload, done.arg

    async def stream_import(self, stream: int, entries: bytes) -> t.Imported:
        """Stores what is whole of a run of archive entries. Raises PlaneError with the reason for a refusal."""
        done = await self._request("STREAM_IMPORT", "storing messages", target=stream, body=entries)
        needed = int.from_bytes(done.payload[:8], "little")
        end = needed == abi.IMPORT_END
        return t.Imported(done.arg, 0 if end else needed, end, int.from_bytes(done.payload[8:16], "little"))

    async def stream_pad(self, stream: int, last: int) -> None:
        """Takes every sequence up to the last one, without messages."""
        await self._request("STREAM_IMPORT", "taking sequences", target=stream, arg=last)
