"""The sink in a Spark session, against a real server: no row lost, none twice, over failures and restarts."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .hub import Hub, running
from .slow import run_to_the_end

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("default")]  # PySpark's own warnings are not ours

ROWS = 400


@pytest.fixture
def hub() -> Iterator[Hub]:
    with running() as found:
        found.create("OUT")
        yield found


def stored(hub: Hub, spark: Any) -> Counter[tuple[str, str]]:
    found = spark.read.format("nats").options(servers=hub.server.url, stream="OUT").load()
    rows = found.selectExpr("subject", "string(data) as text").collect()
    return Counter((row.subject, row.text) for row in rows)


def expected() -> Counter[tuple[str, str]]:
    """Half of the rows are alike but for eight subjects; numbers begin at 1 as sequences do."""
    return Counter((f"out.{n % 8}", f"{n}" if n % 2 else "same") for n in range(1, ROWS + 1))


OUTGOING = ("concat('out.', sequence % 8) as subject", "if(sequence % 2 = 1, string(sequence), 'same') as data")


def failing_once(flag: Path, url: str) -> Any:
    """Passes rows on; while the flag is there, the second task dies as soon as another's rows are in the stream."""

    def pass_on(batches: Any) -> Any:
        from leafd_spark.fetch import api, dial
        from leafd_spark.options import parse_options
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        yield from batches
        if context.partitionId() != 1 or not flag.exists():
            return
        options = parse_options({"servers": url, "stream": "OUT"})
        deadline = time.monotonic() + 120
        with dial(options) as connection:
            while not api(connection, options, "STREAM.INFO.OUT", {})["state"]["messages"]:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        raise RuntimeError("the task dies here")

    return pass_on


def test_a_batch_that_dies_and_runs_again_shuffled_stores_each_row_once(hub: Hub, spark: Any, tmp_path: Path) -> None:
    """Killed in a task, then at its end, and dealt out anew each time: none lost, none doubled, equal rows too."""
    hub.create()
    hub.fill(1, ROWS)
    flag = tmp_path / "fail"
    checkpoint = tmp_path / "checkpoint"

    def run(partitions: int) -> None:
        messages = spark.readStream.format("nats").options(servers=hub.server.url, stream="S").load()
        rows = messages.selectExpr(*OUTGOING).repartition(partitions)
        rows = rows.mapInArrow(failing_once(flag, hub.server.url), "subject string, data string")
        query = rows.writeStream.format("nats").options(servers=hub.server.url)
        run_to_the_end(query.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True))

    flag.touch()
    with pytest.raises(Exception, match="the task dies here"):
        run(3)
    assert 0 < sum(stored(hub, spark).values())
    flag.unlink()
    for partitions in (2, 5):
        run(partitions)
        assert expected() == stored(hub, spark)
        # As if the driver had died before it noted the batch as done.
        for name in ("0", ".0.crc"):
            (checkpoint / "commits" / name).unlink(missing_ok=True)


def test_a_batch_write_with_a_name_can_be_made_again(hub: Hub, spark: Any) -> None:
    """The same writeId is the same write, however its rows are dealt out; without one each write stands for itself."""
    rows = spark.range(1, ROWS + 1).withColumnRenamed("id", "sequence").selectExpr(*OUTGOING)

    def write(frame: Any, **more: str) -> None:
        frame.write.format("nats").options(servers=hub.server.url, **more).mode("append").save()

    write(rows.repartition(4), writeId="load-1")
    write(rows.repartition(3), writeId="load-1")
    assert expected() == stored(hub, spark)
    write(rows.repartition(4))
    assert {row: 2 * count for row, count in expected().items()} == stored(hub, spark)


def test_a_row_that_cannot_be_published_ends_the_write_and_is_named(hub: Hub, spark: Any) -> None:
    """One line with the row's place, its subject and what is wrong; nothing is retried."""
    rows = spark.range(3).selectExpr("'out.x' as subject", "if(id = 2, repeat('x', 1048576), 'x') as data")
    with pytest.raises(Exception, match=r"row 2 of partition 0 \(subject 'out.x'\) cannot be published: it has 1048"):
        rows.coalesce(1).write.format("nats").options(servers=hub.server.url).mode("append").save()
