"""Rows as messages, and their ids: a batch that runs again, its rows dealt out anew, publishes each row once."""

from __future__ import annotations

import base64
import itertools
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from leafd_spark.fetch import api, dial
from leafd_spark.options import Options
from leafd_spark.sink.outgoing import Report, RowError, RowWriter, missing
from leafd_spark.sink.publish import PublishError, Window
from leafd_spark.sink.writers import Published, finish

from tests import servers

from .hub import Hub, running

Row = tuple[str, str]  # subject and data


@pytest.fixture(params=servers.KINDS)
def hub(request: pytest.FixtureRequest) -> Iterator[Hub]:
    with running(request.param) as found:
        found.create(duplicate_window=120_000_000_000)
        yield found


def table(rows: Sequence[Row]) -> Any:
    subjects, data = [subject for subject, _ in rows], [data for _, data in rows]
    return pa.record_batch({"subject": pa.array(subjects, pa.string()), "data": pa.array(data, pa.string())})


def task(options: Options, batch: Any, partition: int = 0, scope: str = "scope") -> Published:
    window = Window(options)
    try:
        report = RowWriter(options, batch.schema.names, scope, partition, window).write([batch])
    finally:
        window.close()
    return Published(window.stored, window.duplicates, window.tally.streams, report, 0.0)


def stored(hub: Hub, stream: str = "S") -> list[dict[str, Any]]:
    """Every message of the stream, as the server's own API tells it."""
    last = hub.call(f"STREAM.INFO.{stream}")["state"]["last_seq"]
    options = hub.options()
    with dial(options) as connection:
        answers = [api(connection, options, f"STREAM.MSG.GET.{stream}", {"seq": n}) for n in range(1, last + 1)]
    return [answer["message"] for answer in answers]


def contents(hub: Hub, stream: str = "S") -> Counter[Row]:
    return Counter((each["subject"], base64.b64decode(each.get("data", "")).decode()) for each in stored(hub, stream))


def headers(message: dict[str, Any]) -> dict[str, str]:
    lines = base64.b64decode(message["hdrs"]).decode().split("\r\n")[1:]
    return dict(line.split(": ", 1) for line in lines if line)


def deal(rows: Sequence[Row], partitions: int, order: random.Random) -> list[list[Row]]:
    """The rows in another order, over other partitions: what a shuffle may do from one run to the next."""
    mixed = order.sample(rows, len(rows))
    bounds = sorted(order.randint(0, len(rows)) for _ in range(partitions - 1))
    return [mixed[start:stop] for start, stop in itertools.pairwise([0, *bounds, len(rows)])]


def rows_with_equals(order: random.Random) -> list[Row]:
    """Two hundred rows, of which fifty are copies of five contents."""
    return [("s.a", f"row {n}") for n in range(150)] + [(f"s.{order.randint(0, 4)}", "same") for _ in range(50)]


def test_equal_rows_of_several_tasks_are_all_stored(hub: Hub) -> None:
    """Tasks that know nothing of one another publish equal rows; when the batch ends the stream has every copy."""
    order = random.Random(1)
    rows = rows_with_equals(order)
    finish(hub.options(), [task(hub.options(), table(part), n) for n, part in enumerate(deal(rows, 4, order))])
    assert Counter(rows) == contents(hub)


def test_a_batch_that_dies_at_any_stage_and_runs_again_shuffled_stores_each_row_once(hub: Hub) -> None:
    """Runs that end amid a task, between tasks, before and amid the end of the batch; then a whole one."""
    for seed in range(6):
        order = random.Random(seed)
        rows = [(subject, f"{seed} {data}") for subject, data in rows_with_equals(order)]
        scope = f"batch-{seed}"
        for dying in range(4):
            parts = deal(rows, order.randint(1, 5), order)
            # The task that dies has published some of its rows, those before it all, those behind it none.
            last = order.randrange(len(parts))
            done = [task(hub.options(), table(part), n, scope) for n, part in enumerate(parts[:last])]
            task(hub.options(), table(parts[last][: order.randint(0, len(parts[last]))]), last, scope)
            if dying == 3:  # all tasks were done, and the driver dies amid the end
                done += [task(hub.options(), table(part), n, scope) for n, part in enumerate(parts[last:], last)]
                for each in missing([one.report for one in done])[:1]:
                    assert each.count > 0
                finish(hub.options(), done)
        again = [task(hub.options(), table(part), n, scope) for n, part in enumerate(deal(rows, 3, order))]
        finish(hub.options(), again)
        hub_has = contents(hub)
        assert Counter(rows) == Counter({row: n for row, n in hub_has.items() if row[1].startswith(f"{seed} ")})


def test_copies_that_no_task_handed_over_are_read_back_from_the_stream(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large batch that runs again does not go through the driver: what it needs of it is in the stream."""
    monkeypatch.setattr("leafd_spark.sink.outgoing.HANDED_BYTES_MAX", 0)
    parts = [[("s.a", "x"), ("s.b", "y")], [("s.a", "x")], [("s.a", "x")]]
    reports = [task(hub.options(), table(part), n) for n, part in enumerate(parts)]
    finish(hub.options(), reports)
    assert {("s.a", "x"): 3, ("s.b", "y"): 1} == contents(hub)
    hub.call("STREAM.PURGE.S")
    with pytest.raises(PublishError, match=r"2 equal rows of several tasks were not published.*messageIdColumn"):
        finish(hub.options(), reports)


def test_a_stream_that_forgets_at_once_has_no_copies_added() -> None:
    """Where no task heard of a duplicate the stream took every copy, and the end of the batch adds none."""
    digest = bytes(range(16))
    assert [] == missing([Report("s", digest, [3]), Report("s", digest, [2])])
    heard = missing([Report("s", digest, [3]), Report("s", digest, [2], had={digest: 2})])
    assert [(3, 2)] == [(each.first, each.count) for each in heard]


def test_rows_become_messages(hub: Hub) -> None:
    """Subject, headers, id and payload come from their columns; headers are a map, or pairs of key and value."""
    mapped = pa.array([[("K", "v"), ("nats-msg-id", "theirs")], None], pa.map_(pa.string(), pa.string()))
    pair = pa.struct([("key", pa.string()), ("value", pa.binary())])
    pairs = pa.array([[{"key": "K", "value": b"v"}, {"key": "K", "value": b"w"}], []], pa.list_(pair))
    for name, column in (("map", mapped), ("pairs", pairs)):
        batch = pa.record_batch(
            {"subject": ["s.a", None], "data": [b"text", b"more"], "headers": column, "id": [f"{name}-1", f"{name}-2"]}
        )
        task(hub.options(subject="s.default"), batch)
    blocks = [base64.b64decode(each["hdrs"]).decode() for each in stored(hub)]
    assert "NATS/1.0\r\nK: v\r\nNats-Msg-Id: map-1\r\n\r\n" == blocks[0]
    assert "NATS/1.0\r\nNats-Msg-Id: map-2\r\n\r\n" == blocks[1]
    assert "NATS/1.0\r\nK: v\r\nK: w\r\nNats-Msg-Id: pairs-1\r\n\r\n" == blocks[2]
    assert {("s.a", "text"): 2, ("s.default", "more"): 2} == contents(hub)


def test_a_column_holds_the_ids(hub: Hub) -> None:
    """Named by the option or called id; numbers will do. Then the content does not count, and the order does not."""
    batch = pa.record_batch({"data": ["x", "x", "x"], "key": [7, 8, 7], "id": ["a", "b", "c"]})
    task(hub.options(subject="s.x", messageIdColumn="key"), batch)
    task(hub.options(subject="s.x", idColumn="key"), batch)
    task(hub.options(subject="s.x"), batch)
    assert ["7", "8", "a", "b", "c"] == [headers(each)["Nats-Msg-Id"] for each in stored(hub)]


def test_rows_that_cannot_be_published_are_named(hub: Hub) -> None:
    """What is wrong with which row is said in one line, before any row of its batch leaves."""
    with pytest.raises(ValueError, match="need a column data"):
        task(hub.options(), pa.record_batch({"value": ["x"]}))
    with pytest.raises(ValueError, match="column subject, or the option"):
        task(hub.options(), pa.record_batch({"data": ["x"]}))
    with pytest.raises(ValueError, match="names key"):
        task(hub.options(subject="s.x", messageIdColumn="key"), pa.record_batch({"data": ["x"]}))
    with pytest.raises(ValueError, match=r"'s.*' has a wildcard"):
        task(hub.options(subject="s.*"), pa.record_batch({"data": ["x"]}))
    good = ("s.a", "good")
    for wrong, said in (
        (("two words", "x"), "'two words' is not a subject"),
        (("s..a", "x"), "'s..a' is not a subject"),
        (("s.>", "x"), "'s.>' has a wildcard"),
        (("", "x"), "'' is not a subject"),
        (("s.a", None), "it has no data"),
        (("s.a", "x" * (1 << 20)), "bytes, and the server takes 1048576"),
    ):
        with pytest.raises(RowError, match=r"row 1 of partition 3 \(subject .*") as caught:
            task(hub.options(), table([good, wrong, good]), 3)  # type: ignore[list-item]
        assert said in str(caught.value)
        assert "\n" not in str(caught.value)
    for field, said in ((("A", "b\r\nC: d"), "cannot hold"), (("", "x"), "cannot hold")):
        columns = {"subject": ["s.a"], "data": ["x"], "headers": pa.array([[field]], pa.map_(pa.string(), pa.string()))}
        with pytest.raises(RowError, match=said):
            task(hub.options(), pa.record_batch(columns))
    with pytest.raises(RowError, match="column id, its id, is null"):
        columns = {"subject": ["s.a"], "data": ["x"], "id": pa.array([None], pa.string())}
        task(hub.options(), pa.record_batch(columns))
    assert {} == contents(hub)


def test_what_cannot_be_published_goes_to_the_dead_letters(hub: Hub) -> None:
    """With deadLetterSubject a bad row does not hold up good ones; headers say why, its data is cut to what fits."""
    hub.call("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>"], "storage": "file", "max_msg_size": 500_000})
    hub.create("DEAD")
    huge, large = "h" * (1 << 20), "l" * 600_000
    rows = [("s.a", "good"), ("s a", "odd"), ("s.huge", huge), ("s.large", large), ("s.b", "good"), ("s a", "odd")]
    options = hub.options(deadLetterSubject="dead.letters")
    for again in range(2):  # and a second run adds nothing
        finish(options, [task(options, table(part), n) for n, part in enumerate((rows[:4], rows[4:]))])
        assert {("s.a", "good"): 1, ("s.b", "good"): 1} == contents(hub), f"run {again}"
        letters = [(headers(each), base64.b64decode(each["data"]).decode()) for each in stored(hub, "DEAD")]
        found = sorted((told["Dead-Letter-Subject"], told["Dead-Letter-Size"], data[:3]) for told, data in letters)
        odd, size = ("s a", "3", "odd"), str(1 << 20)
        assert [odd, odd, ("s.huge", size, "hhh"), ("s.large", "600000", "lll")] == found
    reasons = {told["Dead-Letter-Subject"]: told["Dead-Letter-Reason"] for told, _ in letters}
    assert "is not a subject" in reasons["s a"]
    assert "max_payload" in reasons["s.huge"]
    assert "message size exceeds maximum allowed" in reasons["s.large"]
    whole = {told["Dead-Letter-Subject"]: data for told, data in letters}
    assert large == whole["s.large"]
    assert len(whole["s.huge"]) > (1 << 20) - 1000


def test_a_row_that_the_stream_finds_too_large_is_named(hub: Hub) -> None:
    """The stream's own bound is known when it answers: then the row is named as well, and nothing is retried."""
    hub.call("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>"], "storage": "file", "max_msg_size": 100})
    with pytest.raises(
        PublishError, match=r"row 1 of partition 0 \(id scope-[0-9a-f]{32}\): s.b: message size exceeds"
    ):
        task(hub.options(retrySeconds="600"), table([("s.a", "x"), ("s.b", "x" * 200)]))


def test_a_stream_that_forgets_ids_too_early_is_warned_of(hub: Hub, caplog: pytest.LogCaptureFixture) -> None:
    """Once when a query begins and whenever a batch runs again; a window that outlasts the retries is not spoken of."""
    hub.create("SHORT", subjects=["short.>"], duplicate_window=2_000_000_000)
    for subject, warned in (("short.x", True), ("s.x", False)):
        for first, stored_before in ((True, False), (False, False), (False, True)):
            caplog.clear()
            done = task(hub.options(), table([(subject, "x")]))
            done.duplicates = int(stored_before)
            finish(hub.options(), [done], first=first)
            assert (warned and (first or stored_before)) == bool(caplog.messages)
    finish(hub.options(), [task(hub.options(), table([("short.x", "x")]))])
    assert "stream SHORT forgets message ids after 2 s (duplicate_window)" in caplog.text
