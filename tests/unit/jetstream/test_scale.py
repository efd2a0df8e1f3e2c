"""What a request costs among many streams and consumers, counted in steps of the interpreter; and that what is kept so
that nobody has to look at all of them says what a look at all of them says."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import leafd
import pytest
import trio
import trio.lowlevel
from leafd.jetstream.models.stream import FILE, MEMORY
from leafd.jetstream.subject_index import SubjectIndex
from leafd.jetstream.subjects import SubjectSet, collide

from tests.unit.jetstream.conftest import Bench
from tests.unit.jetstream.test_subjects import drawn

FEW = 20
_ROOM = str(Path(leafd.__file__).parent)


def steps(function: Callable[[], Any]) -> int:
    """How many instructions of leafd's own Python it takes; a plane in memory is not leafd's."""
    count = 0

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal count
        if not frame.f_code.co_filename.startswith(_ROOM):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(None)
    return count


def many_streams(bench: Bench, count: int) -> None:
    """As applications and key-value buckets name them, some with a reservation, each with a consumer."""
    for n in range(count):
        bench.stream(f"S{n}", subjects=[f"app.{n}.>"], max_bytes=1000 if n % 2 else -1)
        bench.stream(f"KV_{n}", subjects=[f"$KV.{n}.>"], allow_direct=True)
        bench.consumer(f"S{n}", "c0", durable_name="c0")


def many_consumers(bench: Bench, count: int) -> None:
    """On one workqueue, each with a filter of its own, as it has to be."""
    bench.stream("S0", subjects=["app.0.>"], retention="workqueue", max_consumers=10_000)
    for n in range(count):
        bench.consumer("S0", f"c{n}", durable_name=f"c{n}", ack_policy="explicit", filter_subject=f"app.0.{n}")


NEW = {"durable_name": "new", "ack_policy": "explicit", "filter_subject": "app.0.new"}
CHANGED = {"name": "S0", "subjects": ["app.0.>", "more"], "max_consumers": 10_000}
REQUESTS: list[tuple[str, Any]] = [
    ("STREAM.CREATE.NEW", {"name": "NEW", "subjects": ["new.>"], "max_bytes": 5}),
    ("STREAM.CREATE.BAD", {"name": "BAD", "subjects": ["app.0.x"]}),
    ("STREAM.INFO.S0", ""),
    ("STREAM.NAMES", {"subject": "app.0.>"}),
    ("STREAM.LIST", {"subject": "app.0.x"}),
    ("CONSUMER.CREATE.S0.new", {"stream_name": "S0", "config": NEW}),
    ("CONSUMER.INFO.S0.c0", ""),
    ("CONSUMER.DELETE.S0.c0", ""),
]
OF_STREAMS: list[tuple[str, Any]] = [("STREAM.UPDATE.S0", CHANGED), ("STREAM.DELETE.S0", "")]
OF_CONSUMERS: list[tuple[str, Any]] = [("STREAM.UPDATE.S0", CHANGED | {"retention": "workqueue"})]


@pytest.mark.parametrize(
    ("made", "requests"), [(many_streams, REQUESTS + OF_STREAMS), (many_consumers, REQUESTS + OF_CONSUMERS)]
)
def test_a_request_costs_the_same_among_ten_times_as_many(
    make_bench: Callable[..., Bench], made: Callable[[Bench, int], None], requests: list[tuple[str, Any]]
) -> None:
    """Streams or consumers: what is asked of one of them looks at no other."""
    # From Python 3.12 on a function's first call under a trace is not counted whole: the first bench has all of these.
    first, few, many = make_bench(), make_bench(), make_bench()
    for bench, count in ((first, FEW), (few, FEW), (many, 10 * FEW)):
        made(bench, count)
    for subject, body in requests:
        counts = []
        for bench in (first, few, many):
            bench.asked("STREAM.NAMES", {"subject": "none"})  # takes up what was noted before
            counts.append(steps(partial(bench.asked, subject, body)))
        assert counts[2] < 1.2 * counts[1] + 100, (subject, counts)


async def asked(index: SubjectIndex, subjects: Iterable[str], beside: str) -> tuple[bool, set[str]]:
    """Both questions to an index."""
    return await index.met(SubjectSet(subjects), beside=beside), await index.owners(SubjectSet(subjects))


def test_an_index_of_subjects_answers_what_pairs_of_subjects_do() -> None:
    """In a seeded duel owners come, change and go, and each question has the answer of all pairs together."""
    draw = random.Random(11)

    async def duel() -> None:
        index, model = SubjectIndex(), dict[str, list[str]]()
        for _ in range(12):
            owner = draw.choice("ABCDE")
            if draw.random() < 0.3:
                index.drop(owner)
                model.pop(owner, None)
            else:
                model[owner] = drawn(draw)
                index.put(owner, tuple(model[owner]))
            if draw.random() < 0.3:
                continue  # several changes before the next question
            mine = drawn(draw)
            pairs = ((name, one, two) for name, theirs in model.items() for one in mine for two in theirs)
            met = {name for name, one, two in pairs if collide(one, two)}
            assert (bool(met - {owner}), met) == await asked(index, mine, owner), (mine, model)
        for owner in "ABCDE":
            index.drop(owner)
        assert (False, set()) == await asked(index, [">"], "")
        assert {} == index._root

    async def main() -> None:
        for _ in range(300):
            await duel()

    trio.run(main)


def test_an_owner_that_changes_while_an_answer_is_made_is_in_the_index_as_it_is_then() -> None:
    """One task is cancelled while it takes up thousands of subjects, and they change meanwhile: the next question finds
    what is there then, and nothing else."""
    index = SubjectIndex()

    async def main() -> None:
        index.put("A", tuple(f"a.{n}" for n in range(20_000)))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(index.met, SubjectSet(("x",)))
            await trio.lowlevel.checkpoint()
            index.put("A", tuple(f"b.{n}" for n in range(20_000)))
            nursery.cancel_scope.cancel()
        assert await index.owners(SubjectSet(("b.19999",))) == {"A"}
        assert not await index.met(SubjectSet(("a.*",)))
        index.drop("A")
        assert not await index.met(SubjectSet((">",)))

    trio.run(main)


def test_what_is_kept_of_streams_and_consumers_is_what_a_look_at_all_of_them_finds(bench: Bench) -> None:
    """A seeded run of requests, of which many are refused: sums, counts and orders are those of the streams there
    are."""
    draw, other = random.Random(5), bench.service.add_account(2, "B")
    accounts = (bench.account, other)

    async def request() -> None:
        bench.account = draw.choice(accounts)
        name, consumer = f"S{draw.randrange(6)}", f"c{draw.randrange(4)}"
        config = {
            "name": name,
            "subjects": [f"{name}.>"],
            "max_bytes": draw.choice((-1, 0, 700, 5000)),
            "storage": draw.choice(("file", "memory")),
            "retention": draw.choice(("workqueue", "limits")),
        }
        wanted = {"name": consumer, "durable_name": consumer, "ack_policy": "explicit", "direct": draw.random() < 0.2}
        wanted |= {"filter_subject": draw.choice((f"{name}.{consumer}", ""))}
        subject, body = draw.choice(
            (
                (f"STREAM.CREATE.{name}", config),
                (f"STREAM.UPDATE.{name}", config),
                (f"STREAM.DELETE.{name}", ""),
                (f"CONSUMER.CREATE.{name}.{consumer}", {"stream_name": name, "config": wanted}),
                (f"CONSUMER.CREATE.{name}.{consumer}", {"stream_name": name, "config": wanted}),
                (f"CONSUMER.PAUSE.{name}.{consumer}", {"pause_until": "2999-01-01T00:00:00Z"}),
                (f"CONSUMER.DELETE.{name}.{consumer}", ""),
            )
        )
        await bench.ask(subject, body)

    async def main() -> None:
        for _ in range(1500):
            await request()
            check()

    def check() -> None:
        for storage in (FILE, MEMORY):
            for account in accounts:
                reserving = [
                    (one.name, max(one.config.max_bytes, 0))
                    for one in account.streams.values()
                    if one.config.storage == storage
                ]
                assert sum(count for _, count in reserving) == account.taken.reserved(storage)
                for without in account.streams:
                    left = sum(count for name, count in reserving if name != without)
                    assert left == account.taken.reserved(storage, without=without)
            together = sum(account.taken.reserved(storage) for account in accounts)
            assert together == bench.service.catalogue.reserved.of(storage)
        for account in accounts:
            assert sorted(account.streams) == account.names
            assert sum(one.visible for one in account.streams.values()) == account.consumers
            for stream in account.streams.values():
                assert sorted(one.name for one in stream.consumers.values() if not one.hidden) == stream.names
                counted = [one for one in stream.consumers.values() if one.counted]
                unfiltered = [one for one in counted if not one.config.filters]
                assert (len(counted), len(unfiltered)) == (stream.counted, stream.unfiltered)

    trio.run(main)
    assert any(account.streams for account in accounts)
