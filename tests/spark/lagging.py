#!/usr/bin/env python3
"""Reads a stream of three replicas while it is published to and its followers are stopped again and again.

    tests/spark/lagging.py [--pauses 100] [--seconds 1] [--rate 20000]

Three nats-servers, a stream on all of them, one publisher. A follower in turn is stopped (SIGSTOP) for a time, goes on,
and answers direct gets with what it has by then. Two readers read what the leader says is there, range after range, as
a query's tasks do: one everything, one with a filter. Every sequence has to come once and in order; the last line says
how many answers were not believed. Status 1 if anything is missing.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from leafd.wire_client import frame_publish
from leafd_spark.fetch import api, dial
from leafd_spark.options import Options
from leafd_spark.ranges import Range
from leafd_spark.source.reader import RangeReader
from leafd_spark.wire import WireError

from tests.spark.cluster import Cluster, paused, running

SUBJECTS = 10
BURST_SECONDS = 0.02


@dataclass
class Tally:
    """What one reader saw."""

    rows: int = 0
    ranges: int = 0
    doubts: int = 0
    wrong: list[str] = field(default_factory=list)


def publish(options: Options, rate: int, ended: threading.Event) -> None:
    """Message after message, without waiting; which of them are stored is the stream's to say."""
    number = 0
    while not ended.is_set():
        try:
            with dial(options) as connection:
                while not ended.is_set():
                    frames = bytearray()
                    for _ in range(int(rate * BURST_SECONDS)):
                        frames += frame_publish(f"s.{number % SUBJECTS}", "", b"", b"%d" % number)
                        number += 1
                    connection.send(frames)
                    time.sleep(BURST_SECONDS)
        except (OSError, WireError):
            time.sleep(0.05)


def last_of(options: Options) -> int:
    with dial(options) as connection:
        return int(api(connection, options, f"STREAM.INFO.{options.stream}", {})["state"]["last_seq"])


def follow(options: Options, subject: str, ended: threading.Event, tally: Tally) -> None:
    """Range after range up to what the leader has, until that is all there will be."""
    position = 1
    while True:
        done = ended.is_set()
        try:
            last = last_of(options)
        except Exception as error:  # a leader is being elected
            print(f"asking again: {error}", flush=True)
            time.sleep(0.2)
            continue
        if last >= position:
            reader = RangeReader(options, Range(position, last))
            found = [(n, s) for batch in reader.batches() for n, s in zip(*_columns(batch), strict=True)]
            tally.rows += len(found)
            tally.ranges += 1
            tally.doubts += reader.doubts
            sequences = [n for n, _ in found]
            if not subject and sequences != list(range(position, last + 1)):
                tally.wrong.append(f"{position} to {last}: {last - position + 1 - len(found)} rows short")
            if sequences != sorted(set(sequences)) or any(s != subject for _, s in found if subject):
                tally.wrong.append(f"{position} to {last}: rows that are not of it")
            position = last + 1
        elif done:
            return


def _columns(batch: object) -> tuple[list[int], list[str]]:
    return batch.column("sequence").to_pylist(), batch.column("subject").to_pylist()  # type: ignore[attr-defined]


def disturb(cluster: Cluster, pauses: int, seconds: float) -> None:
    for count in range(pauses):
        with paused(cluster.followers("S")[count % 2]):
            time.sleep(seconds)
        time.sleep(seconds / 4)
        if count % 10 == 9:
            print(f"{count + 1} pauses", flush=True)


def prove(pauses: int, seconds: float, rate: int) -> tuple[Tally, Tally, int]:
    """What a reader of everything and one of a tenth saw, and how many messages of that tenth there are."""
    with running() as cluster:
        cluster.create("S", storage="file")
        ended, published = threading.Event(), threading.Event()
        every, tenth = Tally(), Tally()
        plain, filtered = cluster.options("S"), cluster.options("S", subject="s.3")
        threads = [
            threading.Thread(target=publish, args=(plain, rate, published)),
            threading.Thread(target=follow, args=(plain, "", ended, every)),
            threading.Thread(target=follow, args=(filtered, "s.3", ended, tenth)),
        ]
        for thread in threads:
            thread.start()
        try:
            disturb(cluster, pauses, seconds)
        finally:
            published.set()
            threads[0].join()
            time.sleep(1)  # what is on its way gets there
            ended.set()
            for thread in threads[1:]:
                thread.join()
        there = cluster.call("STREAM.INFO.S", {"subjects_filter": "s.3"})["state"]["subjects"]["s.3"]
        return every, tenth, int(there)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pauses", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=1.0, help="how long a pause is")
    parser.add_argument("--rate", type=int, default=20_000, help="messages a second")
    given = parser.parse_args()
    every, tenth, there = prove(given.pauses, given.seconds, given.rate)
    wrong = every.wrong + tenth.wrong
    if tenth.rows != there:
        wrong.append(f"of s.3 there are {there} messages, and {tenth.rows} were read")
    for line in wrong:
        print(line)
    print(
        f"{every.rows:,} rows in {every.ranges} ranges, {tenth.rows:,} filtered in {tenth.ranges}; "
        f"{every.doubts + tenth.doubts} answers were not believed; {len(wrong)} ranges wrong"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
