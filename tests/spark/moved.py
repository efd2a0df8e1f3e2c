#!/usr/bin/env python3
"""Reads a stream of three nats-servers again and again while its leader is told to step down and is killed.

    tests/spark/moved.py [--rows 200000] [--reads 20]

Each read is of the whole stream in batches of a streaming query (planner and tasks without a Spark session), and of a
range that a consumer pushes. Meanwhile the leader is told to step down every second, and every fourth time killed and
started anew. Every sequence has to come, each once and in order.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from leafd_spark.datasource import NatsStreamReader
from leafd_spark.fetch import TROUBLE
from leafd_spark.options import Options, parse_options
from leafd_spark.sink.publish import Outgoing, Window

from tests.spark import cluster

KILLED_EVERY = 4
PAUSE = 1.0


def fill(options: Options, rows: int) -> None:
    window = Window(options)
    for number in range(rows):
        window.publish(Outgoing(f"s.{number % 3}", b"", b"%d" % number + b"." * 140))
    window.drain()
    window.close()


def move(members: cluster.Cluster, ended: threading.Event, moves: list[str]) -> None:
    """The stream's leader goes, again and again."""
    for number in itertools.count(1):
        if ended.wait(PAUSE):
            return
        with contextlib.suppress(*TROUBLE):  # there may be no leader just now
            if number % KILLED_EVERY:
                members.call("STREAM.LEADER.STEPDOWN.S")
                moves.append("stepped down")
            else:
                leader = members.leader("S")
                assert leader.process is not None
                leader.process.kill()
                leader.process.wait()
                time.sleep(PAUSE)
                leader.start()
                moves.append("killed")


def read(members: cluster.Cluster, limit: str) -> list[int]:
    """The stream as a query with that limit of rows reads it."""
    given = {"maxOffsetsPerTrigger": limit, "parallelism": "2", "retrySeconds": "120", "servers": members.urls}
    reader = NatsStreamReader(parse_options(given | {"stream": "S"}, streaming=True))
    found: list[int] = []
    try:
        start = reader.initialOffset()
        reader.prepareForTriggerAvailableNow()
        while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
            for part in reader.partitions(start, end):
                for batch in reader.read(part):
                    found += batch.column("sequence").to_pylist()
            start = end
    finally:
        reader.stop()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--reads", type=int, default=20)
    given = parser.parse_args()
    with cluster.running() as members:
        members.create("S")
        fill(members.options("S"), given.rows)
        moves: list[str] = []
        ended = threading.Event()
        mover = threading.Thread(target=move, args=(members, ended, moves))
        mover.start()
        try:
            for number in range(given.reads):
                found = read(members, str(given.rows if number % 2 else given.rows // 7))
                wrong = found != list(range(1, given.rows + 1))
                print(f"read {number + 1}: {len(found)} rows, {len(moves)} moves of the leader so far", flush=True)
                if wrong:
                    raise SystemExit("rows are missing, doubled or out of order")
        finally:
            ended.set()
            mover.join()
        print(f"{given.reads} reads while the leader was moved {len(moves)} times, {moves.count('killed')} by kill -9")
    return 0


if __name__ == "__main__":
    sys.exit(main())
