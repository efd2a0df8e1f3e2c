"""The planes in memory against the real one: each case is played on both, and what they answered must be the same.

So a test that passes over a fake says something about the plane. What the fakes leave out on purpose (deliveries,
limits, times of the wall clock) is no case here.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
import trio
from leafd import native_types as t
from leafd.native_packing import decoded, state_row
from leafd.native_plane import Plane

from tests.unit.jetstream.fake_backup import BackupPlane, Row, packed, unpacked
from tests.unit.real_plane import ACCOUNT, real_plane

S, C = 7, 3  # ids of the stream and of the consumer
FILE, MEMORY = 0, 1
SETTLE_S = 0.01


class Stage:
    """One of the planes, with what the cases do beside its commands."""

    def __init__(self, plane: Any) -> None:
        self.plane = plane

    async def stream(self, *subjects: str, storage: int = FILE, **config: Any) -> t.StreamState:
        """Makes or changes the stream."""
        flat = t.FlatStream(ACCOUNT, storage=storage, **config)
        found: t.StreamState = await self.plane.stream_put(
            S, flat, name="S", definition=b"{}", domain="", subjects=subjects or ("s.>",)
        )
        return found

    async def consumer(self, name: str = "C", number: int = C, **config: Any) -> t.ConsumerState:
        """Makes or changes a consumer."""
        strings = {key: config.pop(key) for key in ("filters", "deliver_subject") if key in config}
        flat = t.FlatConsumer(ACCOUNT, **{"ack_policy": 2, "max_waiting": 512, "ack_wait_ns": 30 * 10**9} | config)
        found: t.ConsumerState = await self.plane.consumer_put(S, number, flat, name=name, definition=b"{}", **strings)
        return found

    async def store(self, *messages: tuple[str, bytes, bytes]) -> None:
        """What publishes would do; returns when all are in the stream."""
        for subject, payload, header in messages:
            if isinstance(self.plane, Plane):
                before = (await self.plane.stream_state(S)).last_seq
                self.plane.publish(ACCOUNT, subject, payload, header=header)
                while await self.plane.message_get(S, 2, sequence=before + 1, subject=">") is None:
                    await trio.sleep(SETTLE_S)
            else:
                self.plane.store("S", subject, payload, header)

    async def filled(self, **config: Any) -> None:
        """A stream with six messages on three subjects."""
        await self.stream(**config)
        await self.store(*((f"s.{n % 3}", b"x" * n, HEADER if n % 2 else b"") for n in range(6)))


Case = Callable[[Stage], Awaitable[Any]]
CASES: list[Case] = []


def case(function: Case) -> Case:
    """Adds to the cases."""
    CASES.append(function)
    return function


def plain(value: Any) -> Any:
    """Without stamps, which no two runs share; whether there is one stays."""
    if isinstance(value, t.StreamState):
        return replace(value, first_ts=bool(value.first_ts), last_ts=bool(value.last_ts))
    if isinstance(value, t.StoredMessage):
        return (value.sequence, value.subject, value.header, value.payload)
    if isinstance(value, tuple | list):
        return [plain(one) for one in value]
    if isinstance(value, t.Position):
        pending = [(one.stream_seq, one.consumer_seq, one.deliveries) for one in value.pending]
        return (value.delivered_consumer, value.delivered_stream, value.floor_consumer, value.floor_stream, pending)
    return value


async def answer(request: Awaitable[Any]) -> Any:
    """What it returned, or the status that it was refused with."""
    try:
        return plain(await request)
    except t.PlaneError as error:
        return f"refused {error.status}"


# ---- streams


@case
async def a_stream_that_is_made(stage: Stage) -> Any:
    return [await answer(stage.stream(storage=kind)) for kind in (FILE,)], await answer(stage.plane.stream_state(S))


@case
async def a_stream_in_memory(stage: Stage) -> Any:
    await stage.filled(storage=MEMORY)
    return await answer(stage.plane.stream_state(S, subjects_filter=">", deleted=True))


@case
async def a_stream_that_begins_later(stage: Stage) -> Any:
    made = await answer(stage.stream(first_seq=100))
    await stage.store(("s.a", b"1", b""))
    return made, await answer(stage.plane.stream_state(S))


@case
async def a_stream_that_is_changed_keeps_its_messages(stage: Stage) -> Any:
    await stage.filled()
    return await answer(stage.stream("s.>", "t.>"))


@case
async def a_stream_that_is_removed_takes_its_consumers_along(stage: Stage) -> Any:
    await stage.filled()
    await stage.consumer()
    return [
        await answer(stage.plane.stream_remove(S)),
        await answer(stage.plane.stream_state(S)),
        await answer(stage.plane.consumer_state(S, C)),
        await answer(stage.stream()),
        await answer(stage.plane.consumer_state(S, C)),
    ]


@case
async def a_stream_that_there_is_not(stage: Stage) -> Any:
    return [
        await answer(stage.plane.stream_state(S)),
        await answer(stage.plane.stream_remove(S)),
        await answer(stage.plane.stream_purge(S)),
        await answer(stage.plane.message_get(S, 0, sequence=1)),
        await answer(stage.plane.message_delete(S, 1)),
        await answer(stage.consumer()),
        await answer(stage.plane.consumer_state(S, C)),
        await answer(stage.plane.consumer_remove(S, C)),
        await answer(stage.plane.consumer_pause(S, C, 0)),
        await answer(stage.plane.consumer_unpin(S, C)),
        await answer(stage.plane.consumer_begin(S, C)),
        await answer(stage.plane.consumer_spare(S, C, 1)),
        await answer(stage.plane.consumer_reset(S, C, 1)),
    ]


@case
async def bytes_of_many_streams_are_counted_together(stage: Stage) -> Any:
    await stage.filled()
    many = range(S, S + 5000)  # more than one command asks for, and only the first is there
    asked: tuple[Sequence[int], ...] = ([S], [S, S + 1, 0, 2**32 - 1], [], [S + 1], many, [*many, S])
    return [await answer(stage.plane.streams_bytes(ids)) for ids in asked]


@case
async def states_of_many_streams_are_told_together(stage: Stage) -> Any:
    await stage.filled()
    await stage.consumer()
    await stage.plane.message_delete(S, 2)
    many = [*range(S, S + 5000), S]  # more than one command asks for; who is not there says so
    asked: tuple[Sequence[int], ...] = ([S], [S, S + 1, 0, 2**32 - 1], [], [S + 1], many)

    async def told(ids: Sequence[int]) -> list[t.StreamState | None]:
        return [row and t.StreamState(*state_row(row)) for row in await stage.plane.streams_states(ids)]

    return [await answer(told(ids)) for ids in asked]


@case
async def states_of_many_consumers_are_told_together(stage: Stage) -> Any:
    await stage.filled()
    await stage.consumer()
    await stage.consumer("D", C + 1, max_deliver=3)
    many = [(S, C), (S, C + 1), (S, C + 2)] * 300  # more than one command asks for
    asked: tuple[Sequence[tuple[int, int]], ...] = (
        [(S, C), (S, C + 1)],
        [(S + 1, C), (0, 0), (S, 2**32 - 1)],
        [],
        many,
    )

    async def told(places: Sequence[tuple[int, int]]) -> list[t.ConsumerState | None]:
        found = await stage.plane.consumers_states(places)
        return [row and decoded("consumer_state_t", row, t.ConsumerState) for row in found]

    return [await answer(told(places)) for places in asked]


@case
async def states_with_lists(stage: Stage) -> Any:
    await stage.filled()
    for sequence in (2, 4):
        await stage.plane.message_delete(S, sequence)
    return [
        await answer(stage.plane.stream_state(S, subjects_filter=subjects, deleted=deleted, offset=offset))
        for subjects, deleted, offset in (
            (">", True, 0),
            ("s.1", False, 0),
            ("s.*", False, 1),
            ("t", False, 0),
            ("", True, 0),
        )
    ]


PURGES: list[dict[str, Any]] = [
    {},
    {"subject": "s.1"},
    {"subject": "s.*"},
    {"sequence": 4},
    {"keep": 2},
    {"keep": 10},
    {"subject": "s.0", "sequence": 4},
    {"subject": "s.0", "keep": 1},
    {"subject": "none"},
    {"sequence": 100},
]


def purging(options: dict[str, Any]) -> Case:
    async def purge(stage: Stage) -> Any:
        await stage.filled()
        gone = await answer(stage.plane.stream_purge(S, **options))
        return gone, await answer(stage.plane.stream_state(S, subjects_filter=">", deleted=True))

    purge.__name__ = f"a_purge_of_{options}"
    return purge


CASES += [purging(options) for options in PURGES]


# ---- messages


@case
async def messages_by_every_question(stage: Stage) -> Any:
    await stage.filled()
    await stage.plane.message_delete(S, 3)
    questions: list[tuple[int, dict[str, Any]]] = [(0, {"sequence": n}) for n in (1, 3, 6, 7)]
    questions += [(1, {"subject": s}) for s in ("s.0", "s.2", "s.*", ">", "none")]
    questions += [(2, {"sequence": n, "subject": s}) for n in (1, 3, 6) for s in ("s.0", "s.2", ">", "none")]
    return [await answer(stage.plane.message_get(S, mode, **question)) for mode, question in questions]


@case
async def messages_from_a_time_on(stage: Stage) -> Any:
    await stage.filled()
    third = await stage.plane.message_get(S, 0, sequence=3)
    after = [await answer(stage.plane.message_get(S, 3, start_ts=third.ts + more)) for more in (0, 1, 10**18)]
    return after, await answer(stage.plane.message_get(S, 2, start_ts=third.ts + 1, subject="s.2"))


@case
async def deleting_is_once(stage: Stage) -> Any:
    await stage.filled()
    deleted = [await answer(stage.plane.message_delete(S, n)) for n in (1, 1, 3, 6, 7, 0)]
    return deleted, await answer(stage.plane.stream_state(S, deleted=True))


@case
async def everything_deleted(stage: Stage) -> Any:
    await stage.filled()
    for sequence in range(1, 7):
        await stage.plane.message_delete(S, sequence)
    emptied = await answer(stage.plane.stream_state(S, deleted=True))
    await stage.store(("s.a", b"", b""))
    return emptied, await answer(stage.plane.stream_state(S, deleted=True))


# ---- consumers

STARTS: list[dict[str, Any]] = [
    *({"deliver_policy": policy} for policy in (0, 1, 2, 5)),
    *({"deliver_policy": policy, "filters": ("s.1",)} for policy in (0, 1, 2, 5)),
    *({"deliver_policy": policy, "filters": ("none",)} for policy in (0, 1, 2, 5)),
    *({"deliver_policy": 3, "opt_start_seq": sequence} for sequence in (1, 4, 6, 7, 100)),
    {"deliver_policy": 3, "opt_start_seq": 4, "filters": ("s.1", "s.2")},
    {"deliver_policy": 4, "opt_start_ts": 1},
    {"deliver_policy": 4, "opt_start_ts": 1 << 62},
]


def starting(options: dict[str, Any], empty: bool) -> Case:
    async def start(stage: Stage) -> Any:
        await (stage.stream() if empty else stage.filled())
        made = await answer(stage.consumer(**options))
        await stage.store(("s.1", b"later", b""))
        return made, await answer(stage.plane.consumer_state(S, C))

    start.__name__ = f"a_consumer_with_{options}_{'empty' if empty else 'filled'}"
    return start


CASES += [starting(options, empty) for options in STARTS for empty in (False, True)]


@case
async def a_consumer_behind_a_purge(stage: Stage) -> Any:
    await stage.filled()
    await stage.consumer()
    seen = []
    for options in ({"subject": "s.1"}, {"sequence": 4}, {}):
        await stage.plane.stream_purge(S, **options)
        seen.append(await answer(stage.plane.consumer_state(S, C)))
    return seen, await answer(stage.consumer("D", C + 1)), await answer(stage.plane.stream_state(S))


@case
async def a_consumer_that_is_removed(stage: Stage) -> Any:
    await stage.filled()
    await stage.consumer()
    return [
        await answer(stage.plane.consumer_remove(S, C)),
        await answer(stage.plane.consumer_state(S, C)),
        await answer(stage.plane.consumer_remove(S, C)),
        await answer(stage.plane.consumer_pause(S, C, 0)),
        await answer(stage.plane.consumer_unpin(S, C)),
        await answer(stage.plane.consumer_begin(S, C)),
        await answer(stage.plane.consumer_spare(S, C, 1)),
        await answer(stage.plane.consumer_reset(S, C, 1)),
    ]


@case
async def a_consumer_that_is_set_back(stage: Stage) -> Any:
    await stage.filled()
    await stage.consumer()
    return [await answer(stage.plane.consumer_reset(S, C, sequence)) for sequence in (4, 0, 1, 6)]


# ---- backups


@case
async def an_archive_of_everything(stage: Stage) -> Any:
    await stage.filled()
    await stage.plane.message_delete(S, 3)
    rows: list[Row] = []
    first = 1
    while first:
        part, first = await stage.plane.stream_export(S, first, 6)
        found, used, end = unpacked(part)
        assert (len(part), False) == (used, end)
        rows += found
    return [(row.sequence, row.subject, row.header, row.payload) for row in rows]


HEADER = b"NATS/1.0\r\nA: b\r\n\r\n"
ENTRIES = [Row(n, 1_700_000_000_000_000_000 + n, f"s.{n}", HEADER if n % 2 else b"", b"p" * n) for n in (2, 3, 7)]
WHOLE = b"".join(map(packed, ENTRIES))
IMPORTS = [WHOLE, WHOLE + bytes(5), WHOLE[:-3], WHOLE[:3], b"", packed(ENTRIES[1]) + packed(ENTRIES[0])]


def importing(entries: bytes) -> Case:
    async def take(stage: Stage) -> Any:
        await stage.stream()
        taken = await answer(stage.plane.stream_import(S, entries))
        if isinstance(taken, t.Imported):
            taken = (taken.used, taken.end)
        await stage.stream()  # what was taken before a refusal is on disk now
        read = [await answer(stage.plane.message_get(S, 0, sequence=n)) for n in (2, 3, 7)]
        return taken, read, await answer(stage.plane.stream_state(S, deleted=True))

    take.__name__ = f"an_import_of_{len(entries)}_bytes"
    return take


CASES += [importing(entries) for entries in IMPORTS]


@case
async def sequences_without_messages(stage: Stage) -> Any:
    await stage.stream()
    await stage.plane.stream_pad(S, 9)
    padded = await answer(stage.plane.stream_state(S))
    await stage.plane.stream_pad(S, 4)
    await stage.store(("s.a", b"", b""))
    return padded, await answer(stage.plane.stream_state(S))


@case
async def a_position_out_and_in(stage: Stage) -> Any:
    await stage.filled()
    position = t.Position(5, 4, 2, 2, (t.PendingEntry(3, 4, 1_700_000_000_000_000_000, 2),))
    await stage.plane.consumer_import(
        S,
        C,
        t.FlatConsumer(ACCOUNT, ack_policy=2, max_waiting=8, ack_wait_ns=30 * 10**9),
        position,
        name="C",
        definition=b"{}",
    )
    return await answer(stage.plane.consumer_export(S, C))


# ---- the test


@asynccontextmanager
async def in_memory() -> AsyncIterator[BackupPlane]:
    yield BackupPlane()


@pytest.mark.parametrize("played", CASES, ids=lambda one: re.sub(r"\W+", "_", one.__name__))
def test_both_planes_answer_alike(played: Case) -> None:
    """What the plane in memory answers in a case, the real plane answers."""

    async def play(plane: Any) -> Any:
        async with plane as opened:
            return await played(Stage(opened))

    real = trio.run(play, real_plane())
    fake = trio.run(play, in_memory())

    assert real == fake
