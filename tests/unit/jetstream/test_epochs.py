"""Which start stored what of a stream that copies take from, as copies hear it and as the disk has it.

Not here: the text (test_lineage.py), what a copy makes of it (tests/unit/links/test_epochs.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import trio
import trio.testing
from leafd import native_types as t
from leafd.jetstream.epochs import EPOCHS_RECORD, RETRY_S
from leafd.jetstream.rules.versioning import EPOCH_HEADER, EPOCHS_HEADER, header_value
from leafd.lineage import Lineage, lineage_of, text_of

from tests.unit.jetstream.conftest import Bench
from tests.unit.jetstream.test_passed_over import COPY, publish, restarted


def made(**config: object) -> Bench:
    bench = Bench()
    bench.stream("T", **({"subjects": ["t"]} | config))
    return bench


def comes(bench: Bench, says: bytes, **begins: object) -> Lineage:
    """A copy asks for its consumer, and says that of its epoch. The stream's epochs as it is told; (): of none."""
    header = b"NATS/1.0\r\n%s: %s\r\n\r\n" % (EPOCH_HEADER, says)
    config = COPY | ({"deliver_policy": "by_start_sequence"} | begins if begins else {})
    body = json.dumps({"stream_name": "T", "config": config}).encode()
    found = trio.run(bench.service.answer, bench.account, "$JS.API.CONSUMER.CREATE.T.JS_SRC_x", header, body)
    assert found is not None
    assert not found.error, found.members
    text = header_value(bytes(found.header), EPOCHS_HEADER).decode()
    return lineage_of(text) if text else ()


def written(bench: Bench) -> Lineage:
    """What the disk has of it."""
    (text,) = [value.decode() for key, value in bench.plane.controls.items() if key.startswith(EPOCHS_RECORD)] or [""]
    return lineage_of(text) if text else ()


def firsts(lineage: Lineage) -> list[int]:
    return [first for first, _ in lineage]


def test_a_stream_has_epochs_from_when_a_copy_comes() -> None:
    """What was there before is of the first one; a copy hears them from the one on that it is in."""
    bench = made()
    publish(bench, 5)
    assert written(bench) == ()
    told = comes(bench, b"0")
    assert firsts(told) == [0]
    assert written(bench) == told == comes(bench, b"5")
    publish(bench, 3)
    bench = restarted(bench)
    publish(bench, 2)
    assert firsts(written(bench)) == [0, 9]
    later = comes(bench, b"0")
    assert later == written(bench)
    assert later[0] == told[0]
    assert comes(bench, b"10 " + later[1][1].encode()) == later[1:]
    assert comes(bench, b"7 " + later[0][1].encode()) == later
    assert comes(bench, b"10 abcdef") == later
    bench.asked("STREAM.DELETE.T")
    assert written(bench) == ()


def test_a_copy_that_has_another_epoch_is_told_of_in_the_log() -> None:
    """Once; of one that is behind nothing is said."""
    bench = made()
    (first,) = comes(bench, b"0")
    publish(bench, 9)
    bench = restarted(bench)
    comes(bench, b"9 " + first[1].encode())
    assert "put back" not in str(bench.log.lines)
    for _ in range(2):
        comes(bench, b"7 abcdef")
    assert (
        str(bench.log.lines).count("T ends at sequence 9, and a copy of it elsewhere has other messages up to 7") == 1
    )


def test_each_start_is_another_one() -> None:
    """Whether anything was stored or not: an old copy of the store may be behind it."""
    bench = made()
    comes(bench, b"0")
    (first,) = written(bench)
    publish(bench, 3)
    seen = {first[1]}
    for _ in range(3):
        bench = restarted(bench)
        assert written(bench)[0] == first
        assert firsts(written(bench)) == [0, 4]
        seen.add(written(bench)[1][1])
    assert len(seen) == 4


def test_a_copy_that_has_no_epoch_of_the_stream_and_no_stamp_is_one_that_passes_over() -> None:
    """It says its epoch first, and would move if it knew one of those that it hears of."""
    bench = made()
    comes(bench, b"0")
    publish(bench, 5)
    bench = restarted(bench)
    told = comes(bench, b"9 abcdef", opt_start_seq=10)
    assert firsts(told) == [0, 6]
    passed = bench.service.passed_over
    assert trio.run(passed.texts) == []
    assert comes(bench, b"9", opt_start_seq=10) == told
    (text,) = trio.run(passed.texts)
    assert "passes over its sequences up to 9, from 6 at the latest" in text


@contextmanager
def full(bench: Bench) -> Iterator[None]:
    """While the disk takes no record."""
    stored = bench.plane.record_put

    async def refused(key: bytes, value: bytes) -> None:
        raise t.PlaneError(t.Status.IO, "input/output error")

    bench.plane.record_put = refused  # type: ignore[method-assign]
    yield
    bench.plane.record_put = stored  # type: ignore[method-assign]


def test_a_copy_is_told_of_no_epoch_that_the_disk_does_not_have() -> None:
    """It goes by stamps then. Where its record can be written later, it is what it would have been."""
    bench = made()
    with full(bench):
        assert comes(bench, b"0") == () == written(bench)
    assert firsts(comes(bench, b"0")) == [0]
    publish(bench, 4)
    with full(bench):
        bench = restarted(bench)
        publish(bench, 3)
        assert comes(bench, b"4") == ()
        assert firsts(written(bench)) == [0]
    assert firsts(comes(bench, b"4")) == [0, 5]
    assert firsts(written(restarted(bench))) == [0, 5, 8]


@pytest.mark.parametrize("hears", [True, False], ids=["room is told of", "it tries again"])
def test_a_start_that_could_not_write_its_epoch_does_so_without_a_copy(hears: bool) -> None:
    """Else the next start would take what it has stored for messages of the one before it."""
    bench = made()
    (first,) = comes(bench, b"0")
    publish(bench, 4)

    async def room() -> None:
        async with trio.open_nursery() as nursery:
            with full(bench):
                nursery.start_soon(bench.service.passed_over.run)
                await trio.testing.wait_all_tasks_blocked()
            if hears:
                bench.service.alarm(t.Alarm(t.AlarmCode.DISK_OK, 0, 0, ""))
                await trio.testing.wait_all_tasks_blocked()
            else:
                await trio.sleep(RETRY_S + 1)
            nursery.cancel_scope.cancel()

    with full(bench):
        bench = restarted(bench)
    publish(bench, 3)
    trio.run(room, clock=trio.testing.MockClock(autojump_threshold=0 if not hears else float("inf")))
    assert firsts(written(bench)) == [0, 5]
    bench = restarted(bench)
    told = comes(bench, b"7 " + first[1].encode())
    assert (firsts(told), told[0]) == ([0, 5, 8], first)


def test_what_a_stream_with_sources_stores_is_of_no_epoch() -> None:
    """Also when it has none any more: what is told then are other ones."""
    bench = made()
    (first,) = comes(bench, b"0")
    publish(bench, 4)
    bench.stream("U", subjects=["u"])
    with_sources = {"name": "T", "subjects": ["t"], "sources": [{"name": "U"}]}
    assert "error" not in bench.asked("STREAM.UPDATE.T", with_sources)
    assert written(bench) == ()
    publish(bench, 3)
    bench = restarted(bench)
    assert "error" not in bench.asked("STREAM.UPDATE.T", {"name": "T", "subjects": ["t"]})
    bench = restarted(bench)
    (other,) = comes(bench, b"0")
    assert other[0] == 0
    assert other != first


def test_a_stream_that_is_made_with_the_number_of_one_that_is_gone_has_nothing_of_it() -> None:
    """A crash came before the removal of its record."""
    bench = made()
    left = comes(bench, b"0")
    bench.asked("STREAM.DELETE.T")
    bench.plane.controls[EPOCHS_RECORD + b"\0\0\0\1"] = text_of(left).encode()
    bench = restarted(bench)
    bench.stream("T", subjects=["t"])
    assert written(bench) == ()
    publish(bench, 2)
    bench = restarted(bench)
    assert comes(bench, b"0")[0] != left[0]


def test_a_copy_does_not_wait_for_the_record_of_another_stream() -> None:
    """A thousand streams of a box that was just upgraded are asked for together, and each takes a turn of the disk."""
    bench, stored = made(), trio.Event()
    bench.stream("U", subjects=["u"])
    slow, (one, other) = bench.plane.record_put, bench.service.catalogue.streams()
    epochs = bench.service.passed_over.epochs

    async def put(key: bytes, value: bytes) -> None:
        if key == EPOCHS_RECORD + one.id.to_bytes(4, "big"):
            await stored.wait()
        await slow(key, value)

    async def main() -> None:
        bench.plane.record_put = put  # type: ignore[method-assign]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(epochs.comes, one)
            await trio.testing.wait_all_tasks_blocked()
            with trio.fail_after(5):
                assert await epochs.comes(other) is not None
            stored.set()

    trio.run(main)


@pytest.mark.parametrize(
    "config",
    [{"mirror": {"name": "U"}, "subjects": []}, {"sources": [{"name": "U"}]}],
    ids=["a mirror", "with sources"],
)
def test_a_copy_of_another_stream_has_none(config: dict[str, object]) -> None:
    """A mirror's sequences are its origin's, and sources bring once more what was lost."""
    bench = made(**config)
    assert comes(bench, b"0") == () == written(bench)


def test_a_stream_in_memory_has_one_that_is_not_written() -> None:
    """A start finds nothing of it."""
    bench = made(storage="memory")
    publish(bench, 3)
    (epoch,) = comes(bench, b"0")
    assert epoch[0] == 0
    assert written(bench) == ()
    assert comes(bench, b"3 " + epoch[1].encode()) == (epoch,)


@pytest.mark.parametrize("says", [b"", b"x", b"-1", b"9" * 30])
def test_who_does_not_say_what_it_took_is_told_nothing(says: bytes) -> None:
    """A copy of another version, or somebody who makes it up."""
    bench = made()
    assert comes(bench, says) == () == written(bench)
