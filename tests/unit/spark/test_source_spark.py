"""The data source in a Spark session, against a real server: no row lost, none twice, over restarts of the query."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .hub import Hub, running
from .slow import run_to_the_end

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("default")]  # PySpark's own warnings are not ours


@pytest.fixture
def hub() -> Iterator[Hub]:
    with running() as found:
        yield found


@pytest.fixture
def stream(hub: Hub) -> str:
    hub.create()
    return "S"


def options(hub: Hub, **more: str) -> dict[str, str]:
    return {"servers": hub.server.url, "stream": "S", "numPartitions": "3", "minPartitionMessages": "10"} | more


@pytest.mark.usefixtures("stream")
def test_a_table_of_a_stream(hub: Hub, spark: Any) -> None:
    """A batch read gives every message of the wanted range once, from several partitions, with all its columns."""
    hub.fill(1, 500)
    hub.remove(250)
    table = spark.read.format("nats").options(**options(hub, startingSequence="101", endingSequence="400")).load()
    rows = table.selectExpr(
        "sequence",
        "subject",
        "string(try_element_at(filter(headers, h -> h.key = 'Nats-Msg-Id'), -1).value) as id",
        "string(data) as text",
    ).collect()
    wanted = [n for n in range(101, 401) if n != 250]
    assert wanted == sorted(row.sequence for row in rows)
    assert all(row.id == f"S-{row.sequence}" and int(row.text.split()[0]) == row.sequence for row in rows)
    assert all(row.subject == f"s.{row.sequence % 3}" for row in rows)
    assert 3 == table.rdd.getNumPartitions()


@pytest.mark.usefixtures("stream")
def test_available_now_over_restarts_reads_every_message_once(hub: Hub, spark: Any, tmp_path: Path) -> None:
    """Each run takes what is there, in batches of the limit, and the next run goes on where it ended."""
    seen: dict[int, list[int]] = {}

    def keep(frame: Any, batch: int) -> None:
        assert batch not in seen
        seen[batch] = [row.sequence for row in frame.select("sequence").collect()]

    def run() -> None:
        messages = spark.readStream.format("nats").options(**options(hub, maxMessagesPerTrigger="70")).load()
        query = messages.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path))
        run_to_the_end(query.trigger(availableNow=True))

    hub.fill(1, 200)
    run()
    assert [70, 70, 60] == [len(rows) for rows in seen.values()]
    run()
    assert 3 == len(seen)
    hub.fill(201, 250)
    run()
    assert list(range(1, 251)) == sorted(sequence for rows in seen.values() for sequence in rows)


@pytest.mark.usefixtures("stream")
def test_a_batch_that_failed_reads_the_same_rows_again(hub: Hub, spark: Any, tmp_path: Path) -> None:
    """A query that dies in a batch and is started anew gets that batch's rows again, not the newer ones with them."""
    hub.fill(1, 100)
    runs: list[tuple[int, list[int]]] = []

    def run(fail: bool) -> None:
        def keep(frame: Any, batch: int) -> None:
            runs.append((batch, sorted(row.sequence for row in frame.select("sequence").collect())))
            if fail:
                raise RuntimeError("the driver dies here")

        messages = spark.readStream.format("nats").options(**options(hub)).load()
        query = messages.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path))
        run_to_the_end(query.trigger(availableNow=True))

    with pytest.raises(Exception, match="the driver dies here"):
        run(fail=True)
    hub.fill(101, 150)
    run(fail=False)
    assert [(0, list(range(1, 101))), (0, list(range(1, 101))), (1, list(range(101, 151)))] == runs


@pytest.mark.usefixtures("stream")
def test_a_limit_of_bytes(hub: Hub, spark: Any, tmp_path: Path) -> None:
    """Batches hold as many messages as fit into the bytes allowed."""
    hub.fill(1, 25, size=100)
    sizes: list[int] = []
    messages = spark.readStream.format("nats").options(**options(hub, maxBytesPerTrigger="1000")).load()
    query = messages.writeStream.foreachBatch(lambda frame, _: sizes.append(frame.count()))
    run_to_the_end(query.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True))
    assert [10, 10, 5] == sizes


@pytest.mark.usefixtures("stream")
def test_messages_that_vanished_end_the_query(hub: Hub, spark: Any, tmp_path: Path) -> None:
    """A stream that lost what the checkpoint still wants stops the query, unless it is told to read on."""
    seen: list[int] = []

    def run(**more: str) -> None:
        messages = spark.readStream.format("nats").options(**options(hub, **more)).load()
        query = messages.writeStream.foreachBatch(
            lambda frame, _: seen.extend(row.sequence for row in frame.select("sequence").collect())
        )
        run_to_the_end(query.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True))

    hub.fill(1, 10)
    run()
    hub.fill(11, 30)
    hub.call("STREAM.PURGE.S", {"seq": 21})
    with pytest.raises(Exception, match="messages 11 to 20 are gone"):
        run()
    run(failOnDataLoss="false")
    assert [*range(1, 11), *range(21, 31)] == sorted(seen)
