"""Snapshots and restores over the plane in memory: flow control, what is in an archive, what a bad one leaves behind.

What the archives' messages are to the real plane, and whether the reference takes them, is tested in
tests/native/test_plane_backup.c and tests/interop/test_backup.py.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any
from unittest.mock import AsyncMock

import pytest
import trio
import trio.testing
from leafd import native_types as t
from leafd.jetstream.backup import s2, snapshots
from leafd.jetstream.backup.archive import END, MAGIC, ArchiveError, Entry, entry, read_entry, read_state
from leafd.jetstream.registry import Answer
from leafd.native_functions import crc32c

from tests.unit.jetstream.conftest import Bench
from tests.unit.jetstream.fake_backup import BackupPlane, Row, packed

POSITION = t.Position(7, 5, 3, 2, (t.PendingEntry(3, 4, 1_700_000_000_000_000_000, 1), t.PendingEntry(5, 6, 5, 3)))


class BackupBench(Bench):
    """A bench whose plane can do backups."""

    plane: BackupPlane

    def __init__(self, **settings: Any) -> None:
        super().__init__(BackupPlane(), **settings)

    async def begun(self, subject: str, body: dict[str, Any]) -> Answer:
        """The answer to a request, with what goes on behind it."""
        found = await self.service.answer(self.account, f"$JS.API.{subject}", b"", json.dumps(body).encode())
        assert found is not None
        return found

    async def snapshot(self, **options: Any) -> Answer:
        """Takes the stream S; chunks are where the plane keeps them."""
        found = await self.begun("STREAM.SNAPSHOT.S", {"deliver_subject": "to"} | options)
        assert found.after is not None
        await found.after()
        return found

    async def restore(self, archive: bytes, size: int = 1000, **config: Any) -> list[bytes]:
        """Sends an archive in chunks and its end; every answer."""
        found = await self.begun("STREAM.RESTORE.S", {"config": {"name": "S"} | config, "state": {}})
        assert found.after is not None, found.members
        before = len(self.plane.published)
        chunk = self.plane.heard[found.members["deliver_subject"]]
        for part in (*(archive[at : at + size] for at in range(0, len(archive), size)), b""):
            chunk(t.Message(1, 1, 1, 1, "", "answer", b"", part))
        await found.after()
        return [payload for _, subject, _, payload in self.plane.published[before:] if subject == "answer"]


def filled() -> BackupBench:
    """A stream of eight messages without the third and the last, and one consumer."""
    bench = BackupBench()
    bench.stream("S", subjects=["s.>"])
    for number in range(1, 9):
        payload = random.Random(number).randbytes(number * 100)  # which S2 does not make smaller
        bench.plane.store("S", f"s.{number}", payload, b"NATS/1.0\r\nA: b\r\n\r\n" if number == 2 else b"")
    stream = next(iter(bench.plane.streams.values()))
    stream.messages = [one for one in stream.messages if one.sequence not in (3, 8)]
    bench.consumer("S", "c", durable_name="c", ack_policy="explicit")
    bench.plane.positions["c"] = POSITION
    return bench


def archive_of(bench: BackupBench) -> bytes:
    """All that was sent."""
    return b"".join(chunk for _, chunk in bench.plane.chunks)


def error_of(answer: bytes) -> str:
    """The description of an error's answer."""
    return str(json.loads(answer)["error"]["description"])


def test_a_backup_makes_the_same_stream() -> None:
    """Messages with their sequences, times and headers, the gaps, and where consumers stand go there and back."""
    source, target = filled(), BackupBench()
    trio.run(source.snapshot)

    answers = trio.run(target.restore, archive_of(source))

    assert b"" == b"".join(answers[:-1])
    assert "error" not in json.loads(answers[-1])
    was, now = (next(iter(bench.plane.streams.values())) for bench in (source, target))
    assert (was.messages, was.last_seq) == (now.messages, now.last_seq)
    assert POSITION == target.plane.positions["c"]
    assert ["c"] == target.asked("CONSUMER.NAMES.S")["consumers"]


def test_a_backup_without_consumers_has_none() -> None:
    """The count in the archive's state is that of its entries."""
    source, target = filled(), BackupBench()

    async def take() -> None:
        await source.snapshot(no_consumers=True)

    trio.run(take)
    trio.run(target.restore, archive_of(source))
    assert [] == target.asked("CONSUMER.NAMES.S")["consumers"]


def test_the_window_is_kept() -> None:
    """No more chunks are in flight than fit the window, and an acknowledgement lets the next one go."""
    bench = filled()
    flying = 0
    most = 0

    def receive(reply: str, chunk: bytes) -> None:
        nonlocal flying, most
        flying += bool(reply)
        most = max(most, flying)

    async def acknowledge() -> None:
        nonlocal flying
        while True:
            await trio.testing.wait_all_tasks_blocked()
            if flying:
                flying -= 1
                subject = next(iter(bench.plane.heard))
                bench.plane.heard[subject](t.Message(1, 1, 1, 1, "", "", b"", b""))

    async def run() -> None:
        bench.plane.receive = receive
        async with trio.open_nursery() as nursery:
            nursery.start_soon(acknowledge)
            await bench.snapshot(chunk_size=1024, window_size=2048)
            nursery.cancel_scope.cancel()

    trio.run(run)
    assert 2 == most
    assert [1024] * (len(bench.plane.chunks) - 1) == [len(chunk) for reply, chunk in bench.plane.chunks if reply]
    assert b"NATS/1.0 204\r\n\r\n" == bench.plane.published[-2][2]


@pytest.mark.parametrize(
    ("listeners", "status"), [(1, b"NATS/1.0 408 No Flow Response\r\n\r\n"), (0, b"NATS/1.0 408 No Interest\r\n\r\n")]
)
def test_nobody_is_waited_for_for_ever(listeners: int, status: bytes) -> None:
    """Who does not acknowledge, or is not there, gets an end with a status."""
    bench = filled()
    bench.plane.listeners = listeners

    async def run() -> None:
        await bench.snapshot(chunk_size=1024, window_size=1024)

    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))
    ends = [header for _, subject, header, payload in bench.plane.published if subject == "to" and not payload]
    assert [status] == ends


class Far:
    """Somebody who asks over a slow line."""

    author = ""
    far = True

    def info(self) -> dict[str, Any]:
        return {}

    async def denied(self, _subjects: tuple[str, ...]) -> tuple[str, ...]:
        return ()


async def asked_from_afar(bench: BackupBench, **options: Any) -> None:
    """The snapshot of S that such a one asks for, in the largest chunks."""
    body = json.dumps({"deliver_subject": "to", "chunk_size": 1 << 20, "window_size": 1024} | options).encode()
    found = await bench.service.answer(bench.account, "$JS.API.STREAM.SNAPSHOT.S", b"", body, Far())
    assert found is not None
    assert found.after is not None
    await found.after()


def test_chunks_grow_with_what_a_far_client_acknowledges() -> None:
    """They begin small, and where acknowledgements come at once they are as large as they may be."""
    bench = filled()
    bench.plane.store("S", "s.large", random.Random(9).randbytes(300_000))

    async def run() -> None:
        def acknowledge(reply: str, _chunk: bytes) -> None:
            if reply:
                next(iter(bench.plane.heard.values()))(t.Message(1, 1, 1, 1, "", "", b"", b""))

        bench.plane.receive = acknowledge
        await asked_from_afar(bench, window_size=1 << 20)

    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))
    sizes = [len(chunk) for reply, chunk in bench.plane.chunks if reply]
    assert (4096, 65536) == (sizes[0], sizes[-1])
    assert sizes == sorted(sizes)
    assert [b"NATS/1.0 204\r\n\r\n"] == ends(bench)[-1:]


@pytest.mark.parametrize(("pause_s", "whole"), [(100, True), (130, False)])
def test_a_far_client_has_minutes_for_each_chunk_of_a_restore(pause_s: float, *, whole: bool) -> None:
    """A chunk that takes a slow line longer than five seconds is waited for; one that never comes is not."""
    source, target = filled(), BackupBench()
    trio.run(source.snapshot)
    sent = archive_of(source)

    async def run() -> None:
        body = json.dumps({"config": {"name": "S"}, "state": {}}).encode()
        found = await target.service.answer(target.account, "$JS.API.STREAM.RESTORE.S", b"", body, Far())
        assert found is not None
        assert found.after is not None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(found.after)
            for part in (sent[:1000], sent[1000:], b""):
                await trio.sleep(pause_s)
                for heard in list(target.plane.heard.values()):
                    heard(t.Message(1, 1, 1, 1, "", "answer", b"", part))

    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))
    assert (["S"] if whole else None) == target.asked("STREAM.NAMES")["streams"]


def test_a_restore_ends_soon_when_its_far_client_is_gone() -> None:
    """The link that it came by has ended, so that nobody waits for the answers: the name is free again."""
    source, target = filled(), BackupBench()
    trio.run(source.snapshot)

    async def run() -> None:
        body = json.dumps({"config": {"name": "S"}, "state": {}}).encode()
        found = await target.service.answer(target.account, "$JS.API.STREAM.RESTORE.S", b"", body, Far())
        assert found is not None
        assert found.after is not None
        with trio.fail_after(11):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(found.after)
                for heard in list(target.plane.heard.values()):
                    heard(t.Message(1, 1, 1, 1, "", "answer", b"", archive_of(source)[:1000]))
                target.plane.listeners = 0

    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))
    assert target.asked("STREAM.NAMES")["streams"] is None


def ends(bench: BackupBench) -> list[bytes]:
    """The statuses of the ends that were sent."""
    return [header for _, subject, header, payload in bench.plane.published if subject == "to" and not payload]


def test_a_far_client_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The subscription comes 10 s after the reply, and each acknowledgement a minute after its chunk. All arrives, in
    chunks that leave room for others between them."""
    bench = filled()
    bench.plane.store("S", "s.large", random.Random(9).randbytes(40_000))
    bench.plane.listeners = 0

    async def subscribe() -> None:
        await trio.sleep(10)
        bench.plane.listeners = 1

    async def run() -> None:
        async with trio.open_nursery() as nursery:

            async def acknowledge() -> None:
                await trio.sleep(60)
                handler = next(iter(bench.plane.heard.values()))
                handler(t.Message(1, 1, 1, 1, "", "", b"", b""))

            bench.plane.receive = lambda reply, _chunk: nursery.start_soon(acknowledge) if reply else None
            nursery.start_soon(subscribe)
            await asked_from_afar(bench)

    monkeypatch.setattr(snapshots, "_INTEREST_STEP", 1.0)
    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))
    assert [b"NATS/1.0 204\r\n\r\n"] == ends(bench)[-1:]
    assert [4096] * 10 == [len(chunk) for reply, chunk in bench.plane.chunks if reply]
    target = BackupBench()
    assert "error" not in json.loads(trio.run(target.restore, archive_of(bench))[-1])


@pytest.mark.parametrize(
    ("stays", "status", "most_s"),
    [(True, b"NATS/1.0 408 No Flow Response\r\n\r\n", 301), (False, b"NATS/1.0 408 No Interest\r\n\r\n", 6)],
)
def test_a_far_client_that_goes_is_not_waited_for(*, stays: bool, status: bytes, most_s: float) -> None:
    """The end comes soon after the client's subscription went, and after minutes where that stays and nothing is
    acknowledged."""
    bench = filled()
    bench.plane.store("S", "s.large", random.Random(9).randbytes(40_000))
    bench.plane.receive = lambda _reply, _chunk: setattr(bench.plane, "listeners", int(stays))

    async def run() -> float:
        began = trio.current_time()
        await asked_from_afar(bench)
        return trio.current_time() - began

    took = trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))
    assert [status] == ends(bench)
    assert took < most_s


def test_a_stream_that_goes_away_ends_its_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the plane cannot read is a status 500, not a backup that looks whole."""
    monkeypatch.setattr(s2, "WRITTEN_MAX", 1024)  # so that a chunk is sent before the end
    bench = filled()

    def fail(_reply: str, _chunk: bytes) -> None:
        bench.plane.fail = t.PlaneError(-5, "corrupt")

    async def run() -> None:
        bench.plane.receive = fail
        bench.plane.step = 1
        await bench.snapshot(chunk_size=1024)

    trio.run(run)
    ends = [header for _, subject, header, payload in bench.plane.published if subject == "to" and not payload]
    assert [b"NATS/1.0 500 couldn't load messages: corrupt\r\n\r\n"] == ends


def test_a_consumer_that_cannot_be_read_is_not_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A backup with consumers in which one's position is not known is a status 500; one that was deleted meanwhile is
    left out."""
    for error, expected in (
        (t.PlaneError(t.Status.NO_MEMORY, "no memory"), b"NATS/1.0 500 couldn't load messages: no memory\r\n\r\n"),
        (t.PlaneError(t.Status.NOT_FOUND, "not found"), b"NATS/1.0 204\r\n\r\n"),
    ):
        bench = filled()
        monkeypatch.setattr(bench.plane, "consumer_export", AsyncMock(side_effect=error))

        async def run(bench: BackupBench = bench) -> None:
            await bench.snapshot(chunk_size=1024)

        trio.run(run)
        ends = [header for _, subject, header, payload in bench.plane.published if subject == "to" and not payload]
        assert [expected] == ends


def test_a_name_is_taken_while_it_is_restored() -> None:
    """Neither a create nor a second restore gets in between, and the room is set aside; afterwards all is as before."""
    bench = BackupBench(max_store=1000)

    async def run() -> None:
        found = await bench.begun("STREAM.RESTORE.S", {"config": {"name": "S", "max_bytes": 900}, "state": {}})
        assert 10058 == bench_code(await bench.ask("STREAM.CREATE.S", {"name": "S"}))
        assert 10130 == bench_code(await bench.ask("STREAM.RESTORE.S", {"config": {"name": "S"}}))
        assert 10047 == bench_code(await bench.ask("STREAM.CREATE.T", {"name": "T", "max_bytes": 200}))
        assert found.after is not None
        await found.after()
        assert 0 == bench_code(await bench.ask("STREAM.CREATE.S", {"name": "S", "max_bytes": 900}))

    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))


def bench_code(reply: dict[str, Any] | None) -> int:
    """The err_code of a reply, 0 when it is none."""
    assert reply is not None
    return int(reply.get("error", {}).get("err_code", 0))


def test_what_is_cut_short_stays_as_a_stream() -> None:
    """The messages that came are there and the stream takes new ones, under the subjects it was to have."""
    source, target = filled(), BackupBench()
    trio.run(source.snapshot)
    answers = trio.run(target.restore, archive_of(source)[:50])

    assert "restore failed: s2: corrupt input" == error_of(answers[-1])
    assert 10059 == target.code("STREAM.INFO.S")

    rows = [Row(seq, 1, "s.1", b"", b"x") for seq in (1, 2)]
    state = entry("state.json", 1, b'{"messages":3,"bytes":9,"first_seq":1,"last_seq":3,"consumer_count":0}')
    cut = s2.IDENTIFIER + s2.chunks(MAGIC + state + b"".join(map(packed, rows)))
    answers = trio.run(target.restore, cut)
    assert "restore failed: EOF" == error_of(answers[-1])
    stream = next(iter(target.plane.streams.values()))
    assert ([1, 2], ("S",)) == ([one.sequence for one in stream.messages], stream.subjects)
    assert 2 == target.asked("STREAM.INFO.S")["state"]["messages"]


def test_what_the_server_did_not_survive_is_removed() -> None:
    """A stream that was being restored when the server ended is not served at its next start: its messages are
    gone from the disk, and the name is free."""
    source, target = filled(), BackupBench()
    trio.run(source.snapshot)
    rows = [Row(seq, 1, "s.1", b"", b"x") for seq in (1, 2)]
    state = entry("state.json", 1, b'{"messages":3,"bytes":9,"first_seq":1,"last_seq":3,"consumer_count":0}')
    half = s2.IDENTIFIER + s2.chunks(MAGIC + state + b"".join(map(packed, rows)))

    async def cut() -> None:
        found = await target.begun("STREAM.RESTORE.S", {"config": {"name": "S"}, "state": {}})
        assert found.after is not None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(found.after)
            await trio.testing.wait_all_tasks_blocked()
            target.plane.heard[found.members["deliver_subject"]](t.Message(1, 1, 1, 1, "", "answer", b"", half))
            await trio.testing.wait_all_tasks_blocked()
            assert len(target.plane.streams) == 1
            nursery.cancel_scope.cancel()

    trio.run(cut)
    again = Bench(target.plane)
    again.service.read_records()
    trio.run(again.service.load)
    assert {} == again.plane.streams
    assert 'stream "S" of account "A" was being restored when the server ended' in again.log.texts[0]
    again.stream("S")


# ---- S2 and entries -------------------------------------------------------------------------------------------------


def read(data: bytes, size: int) -> bytes:
    """What a stream says that comes in pieces of that size."""
    reader = s2.Reader()
    said = b"".join(part for at in range(0, len(data), size) for part in reader.feed(data[at : at + size]))
    reader.end()
    return said


def test_pieces_of_any_size_say_the_same() -> None:
    """Chunks, skippable ones and a second identifier are read however they are cut."""
    text = bytes(range(256)) * 300
    data = s2.IDENTIFIER + s2.chunks(text) + b"\x99\x05\0\0hello" + s2.IDENTIFIER + s2.chunks(b"end")
    for size in (1, 3, 4, 1000, len(data)):
        assert text + b"end" == read(data, size)


def crc_bit_by_bit(data: bytes) -> int:
    """CRC-32C by its polynomial alone."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@pytest.mark.parametrize("data", [b"", b"a", b"123456789", bytes(range(256)) * 3])
def test_the_checksum_of_a_chunk_is_that_of_its_polynomial(data: bytes) -> None:
    assert crc32c(data) == crc_bit_by_bit(data)
    assert crc_bit_by_bit(b"123456789") == 0xE3069283


@pytest.mark.parametrize(
    ("data", "most"),
    [
        (b"".join(b'{"sensor":"box-%d","celsius":21.%d}' % (n % 7, n) for n in range(20_000)), 0.4),
        (random.Random(7).randbytes(600_000), 1.001),
        (b"few", 4.0),
        (b"", 0.0),
    ],
)
def test_what_repeats_itself_is_written_smaller(data: bytes, most: float) -> None:
    """And reads back the same; what does not, and what is very short, grows by the heads of its chunks."""
    chunks = s2.chunks(data)
    assert len(chunks) <= most * len(data)
    reader = s2.Reader()
    assert data == b"".join(reader.feed(s2.IDENTIFIER + chunks))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x01\x05\0\0....x", "s2: corrupt input"),
        (b"\xff\x06\0\0S2sTwo", "s2: corrupt input"),
        (s2.IDENTIFIER + b"\x01\x03\0\0...", "s2: corrupt input"),
        (s2.IDENTIFIER + b"\x00\xff\xff\xff", "s2: corrupt input"),
        (s2.IDENTIFIER + b"\x7f\x01\0\0.", "s2: unsupported input"),
        (s2.IDENTIFIER + b"\x01\x05\0\0....x", "s2: corrupt input, crc mismatch"),
        (s2.IDENTIFIER + b"\x01\x05\0\0...", "s2: corrupt input"),
        (s2.IDENTIFIER + b"\x99\x05\0\0...", "s2: corrupt input"),
    ],
)
def test_what_is_no_s2_is_refused(data: bytes, text: str) -> None:
    """In the reference's words, as soon as it can be known."""
    with pytest.raises(s2.S2Error) as found:
        read(data, 1)
    assert text == str(found.value)


def test_entries_ask_for_more_until_they_are_whole() -> None:
    """Every cut of an entry is no entry yet, and sizes that cannot be are refused before anything is held for them."""
    whole = entry("state.json", 5, b"payload")
    for cut in range(len(whole)):
        assert None is read_entry(bytearray(whole[:cut]), 1000)
    assert Entry("state.json", b"payload", len(whole)) == read_entry(bytearray(whole + END), 1000)
    for bad in (b"\x81\x80\x40\0\0\0\0", b"\1\0\0\0\xff\xff\x7f", b"\xff" * 11):
        with pytest.raises(ArchiveError, match="invalid archive stream"):
            read_entry(bytearray(bad), 1000)


@pytest.mark.parametrize(
    ("first", "last", "count", "sound"),
    [
        (0, 0, 0, True),
        (1, 0, 0, True),
        (8, 7, 0, True),
        (1, 3, 3, True),
        (1, 3, 4, False),
        (0, 3, 0, False),
        (9, 3, 0, False),
    ],
)
def test_states_that_cannot_be_are_refused(first: int, last: int, count: int, *, sound: bool) -> None:
    """The counters of an archive's state have to fit each other."""
    body = json.dumps({"messages": count, "first_seq": first, "last_seq": last})
    found = Entry("state.json", body.encode(), 0)
    if sound:
        assert count == read_state(found).messages
        return
    with pytest.raises(ArchiveError):
        read_state(replace(found))
