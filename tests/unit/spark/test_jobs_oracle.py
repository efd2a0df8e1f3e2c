"""A job's tables against the oracle: however messages are cut into batches, whatever is repeated, wherever it crashes.

No test here needs a JVM.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from leafd.spark.jobs import compaction, partitions, touched
from leafd.spark.jobs.compaction import compact
from leafd.spark.jobs.partitions import COMPACT, Layout, TableError, spans

from .joboracle import DEVICES, LATE, Hub, check, history, job_in, split, take


@pytest.mark.parametrize("seed", range(2))
def test_tables_are_the_oracle_s_however_the_batches_are_cut(seed: int, tmp_path: Path) -> None:
    """Batches of any size, repeated and in several runs, give one set of tables."""
    chance = random.Random(seed)
    sent, hub, job = history(seed), Hub(), job_in(tmp_path)
    batches = split(sent, chance)
    for begin in range(0, len(batches), 3):
        take(job, hub, batches[max(0, begin - 1) : begin + 3])  # each run begins with the last batch of the one before
    check(job, sent)


class Crash(BaseException):
    """The process is gone."""


@pytest.fixture
def crash_at(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], list[int]]]:
    """Lets the n-th change of a name on the disk be the last thing that happens."""
    for module in (partitions, touched):  # no power fails here, and waiting for the disk would take minutes
        monkeypatch.setattr(module, "sync", lambda path: None)
    replace, unlink = os.replace, Path.unlink

    def arm(at: int) -> list[int]:
        count = [0]

        def step(real: Callable[..., Any], *args: Any, **named: Any) -> Any:
            count[0] += 1
            if count[0] > at:
                raise Crash
            return real(*args, **named)

        monkeypatch.setattr(os, "replace", partial(step, replace))
        monkeypatch.setattr(Path, "unlink", lambda self, **named: step(unlink, self, **named))
        return count

    yield arm
    monkeypatch.undo()


FEW = [*DEVICES[:6], LATE, "New York"]


def test_a_crash_at_any_change_of_the_disk_changes_nothing_in_the_end(
    tmp_path: Path, crash_at: Callable[[int], list[int]]
) -> None:
    """After a crash at the n-th rename or removal, for every n, the run after it gives the oracle's tables."""
    sent = history(9, hours=3, devices=FEW)
    batches = [sent[:30], sent[30:]]

    def published(hub: Hub) -> tuple[list[str], dict[str, str]]:
        """The alarms, and the newest message of each other subject."""
        messages = list(hub.stored.values())
        alarms = sorted(each.subject for each in messages if each.subject.startswith("alarms."))
        return alarms, {each.subject: each.data for each in messages}

    whole = Hub()
    take(job_in(tmp_path / "whole"), whole, batches)
    at = 0
    while True:
        job, hub = job_in(tmp_path / str(at)), Hub()
        crash_at(at)
        try:
            take(job, hub, batches)
            break
        except Crash:
            crash_at(1_000_000)
        take(job, hub, batches)
        check(job, sent)
        assert published(hub) == published(whole)
        at += 1
    assert at > 30


def test_compaction_leaves_few_files_and_the_same_rows(tmp_path: Path) -> None:
    """Files become one for each partition; rows that are merged are there once; a second time does nothing."""
    sent, hub, job = history(4, devices=FEW), Hub(), job_in(tmp_path)
    take(job, hub, [sent[n : n + 10] for n in range(0, len(sent), 10)])
    layout = Layout(job.tables)
    folders = [layout.bronze, layout.silver("obs")]
    before = sum(len(spans(each)) for folder in folders for each in compaction.partitions_of(folder))
    done = compact(job)
    check(job, sent)
    assert before == done.files_before > 20
    assert [1] * done.partitions == [len(spans(e)) for folder in folders for e in compaction.partitions_of(folder)]
    assert compact(job).partitions == 0
    take(job, hub, [sent])  # all of it once more: every row is known
    check(job, sent)


def test_a_compaction_that_is_killed_loses_and_doubles_nothing(
    tmp_path: Path, crash_at: Callable[[int], list[int]]
) -> None:
    """After a crash at the n-th change, for every n, all rows are there, and the next compaction leaves each once."""
    sent = history(5, hours=2, devices=FEW)
    at = 0
    while True:
        job = job_in(tmp_path / str(at))
        take(job, Hub(), [sent[:20], sent[20:]])
        crash_at(at)
        try:
            compact(job)
            break
        except Crash:
            crash_at(1_000_000)
        take(job, Hub(), [sent])  # a run meanwhile
        compact(job)
        check(job, sent)
        at += 1
    assert at > 5


def test_compaction_under_a_running_job(tmp_path: Path) -> None:
    """Merging over and over while batches come disturbs neither."""
    sent, job = history(6, devices=DEVICES[:20]), job_in(tmp_path)
    ended = threading.Event()
    faults: list[BaseException] = []

    def merge() -> None:
        try:
            while not ended.is_set():
                compact(job)
        except BaseException as error:
            faults.append(error)

    thread = threading.Thread(target=merge)
    thread.start()
    try:
        take(job, Hub(), [sent[n : n + 25] for n in range(0, len(sent), 25)])
    finally:
        ended.set()
        thread.join()
    assert not faults
    check(job, sent)


def test_files_of_many_rows_are_left_alone() -> None:
    """Only files of less than half the most are merged, and no merge has more rows than that."""
    rows = [400, 300, 400, 600, 100, 100]
    found = [partitions.Span(Path(str(n)), "t", n, n, count) for n, count in enumerate(rows)]
    assert [[400, 300], [400, 100, 100]] == [[s.rows for s in g] for g in compaction.groups(found, 1000)]


def test_two_runs_at_the_same_time(tmp_path: Path) -> None:
    """The second ends at once and names the process that is at work; compaction has a lock of its own."""
    with Layout(tmp_path).locked():
        said = r"another run is at work on these tables \(process \d+\)"
        with pytest.raises(TableError, match=said), Layout(tmp_path).locked():
            pass
        with Layout(tmp_path, COMPACT).locked():
            pass
    with Layout(tmp_path).locked():
        pass
