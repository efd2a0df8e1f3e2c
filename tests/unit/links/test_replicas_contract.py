"""The plane that test_replicas.py writes down its calls on, against the real one: they answer alike."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from leafd import native_types as t
from leafd.native_plane import Plane

from tests.unit.links.replica_stage import FakePlane
from tests.unit.real_plane import ACCOUNT, real_plane

STREAM, SLOT = 10, 1
SOURCE = t.IngestSource("O:h", ">", ">", "", "O:h > >")
Case = Callable[[Any], Awaitable[Any]]


async def answer(request: Awaitable[Any]) -> Any:
    """What it returned, or that it was refused."""
    try:
        return await request
    except t.PlaneError:
        return "refused"


async def a_request_that_somebody_hears(plane: Any) -> Any:
    """The count of hearers, and the answer at the inbox of whoever asked."""
    heard: list[tuple[str, bytes]] = []
    plane.subscribe(ACCOUNT, "_in.box", lambda message: heard.append((message.subject, message.payload)))
    if isinstance(plane, Plane):
        plane.subscribe(ACCOUNT, "api", lambda message: plane.publish(ACCOUNT, message.reply, b"{}"))
    count = await plane.publish_counted(ACCOUNT, "api", b"{}", reply="_in.box")
    if isinstance(plane, FakePlane):
        plane.answer({})
    while not heard:
        await trio.sleep(0.01)
    return count, heard


async def a_request_that_nobody_hears(plane: Any) -> Any:
    """Counts none."""
    if isinstance(plane, FakePlane):
        plane.reachable = False
    return await plane.publish_counted(ACCOUNT, "api", b"{}", reply="_in.box")


async def looks_whether_anybody_would_hear(plane: Any) -> Any:
    """Somebody or nobody; a wildcard counts."""
    if isinstance(plane, Plane):
        plane.subscribe(ACCOUNT, "api.>", lambda message: None)
    seen = [await plane.reaches(ACCOUNT, "api.create")]
    plane.reachable = False
    return [*seen, await plane.reaches(ACCOUNT, "other")]


async def an_inbox_that_was_given_up(plane: Any) -> Any:
    """Is not called again."""
    heard: list[bytes] = []
    inbox = plane.subscribe(ACCOUNT, "_in.box", lambda message: heard.append(message.payload))
    plane.subscribe(ACCOUNT, "_in.other", lambda message: heard.append(message.payload))
    plane.unsubscribe(ACCOUNT, inbox)
    if isinstance(plane, FakePlane):
        await plane.publish_counted(ACCOUNT, "api", b"{}", reply="_in.box")
        plane.answer({})
    else:
        await plane.publish_counted(ACCOUNT, "_in.box", b"{}")
        await trio.sleep(0.05)
    return heard


async def slots_from_start_to_end(plane: Any) -> Any:
    """A slot that runs has a state; starting it again is no error; its progress can be dropped."""
    if isinstance(plane, Plane):
        flat = t.FlatStream(ACCOUNT)
        await plane.stream_put(STREAM, flat, name="S", definition=b"{}", domain="", subjects=())

    def start() -> Awaitable[None]:
        begun: Awaitable[None] = plane.ingest_start(
            STREAM,
            SLOT,
            mirror=False,
            durable_behind=None,
            last_sequence=7,
            silence_ns=10**10,
            deliver_subject="_R_.x",
            consumer="c",
            source=SOURCE,
        )
        return begun

    plane.sequence = 7  # what a fake says is stored
    seen = [await answer(start()), await answer(start())]
    [state] = await plane.ingest_states([(STREAM, SLOT)])
    seen.append((state.last_sequence, bool(state.running)))
    ended = await plane.ingest_stop(STREAM, SLOT)
    seen.append((ended.last_sequence, ended.lag))
    seen.append(await answer(plane.ingest_stand(STREAM, SOURCE.key, 5)))
    seen.append(await answer(plane.ingest_forget(STREAM, SOURCE.key)))
    seen.append(await answer(plane.record_put(b"key", b"value")))
    return seen


CASES: list[Case] = [
    a_request_that_somebody_hears,
    a_request_that_nobody_hears,
    looks_whether_anybody_would_hear,
    an_inbox_that_was_given_up,
    slots_from_start_to_end,
]


@asynccontextmanager
async def in_memory() -> AsyncIterator[FakePlane]:
    yield FakePlane()


@pytest.mark.parametrize("played", CASES, ids=lambda one: one.__name__)
def test_the_fake_answers_as_the_plane(played: Case) -> None:
    """Each case has the same answers over the fake and over the real plane."""

    async def play(plane: Any) -> Any:
        async with plane as opened:
            return await played(opened)

    assert trio.run(play, real_plane()) == trio.run(play, in_memory())
