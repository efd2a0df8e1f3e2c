"""A job's tables against the oracle: however messages are cut into batches, whatever is repeated, wherever it crashes.

No test here needs a JVM.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from leafd_spark.jobs import compaction, gold, partitions, touched
from leafd_spark.jobs.compaction import compact
from leafd_spark.jobs.ingest import Plan, Staged, ingest
from leafd_spark.jobs.job import DAY, Field, Job
from leafd_spark.jobs.partitions import COMPACT, US_DAY, Layout, TableError, partition_of, spans
from leafd_spark.jobs.rerun import FileDays, rerun
from leafd_spark.jobs.tables import Tables

from .joboracle import (
    BEGIN,
    DEVICES,
    EPOCH,
    LATE,
    SCHEMA,
    US,
    Hub,
    Sent,
    check,
    history,
    job_in,
    rows_of,
    split,
    take,
)


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


GOLD = ("hour", "day", "pulse", "health")
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
    assert [1] * done.places == [len(spans(e)) for folder in folders for e in compaction.partitions_of(folder)]
    assert compact(job).places == 0
    take(job, hub, [sent])  # all of it once more: every row is known
    check(job, sent)


def test_a_compaction_that_is_killed_loses_and_doubles_nothing(
    tmp_path: Path, crash_at: Callable[[int], list[int]]
) -> None:
    """After a crash at the n-th change, for every n, the run after it leaves each row once; so does a compaction."""
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
        take(job, Hub(), [sent])  # a run, which ends what was begun
        check(job, sent)
        compact(job)
        check(job, sent)
        at += 1
    assert at > 5


def test_a_merge_during_a_listing_hides_no_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory of hundreds of files is listed in pieces; one that changes in between is listed again."""
    sent, job, listdir = history(5, hours=1, devices=FEW), job_in(tmp_path), os.listdir
    take(job, Hub(), [sent[n : n + 4] for n in range(0, len(sent), 4)])
    torn: list[Path] = []

    def in_pieces(path: Path) -> list[str]:
        before = sorted(listdir(path))
        if torn or "bronze" not in Path(path).parts:
            return before
        torn.append(path)
        compact(job)
        after = set(listdir(path))
        half = len(before) // 2  # of the names are handed out before the merge
        return [*before[:half], *(name for name in before[half:] if name in after)]

    monkeypatch.setattr(os, "listdir", in_pieces)
    take(job, Hub(), [sent[-4:]])  # once more: the rows are known, in a file that is not seen
    monkeypatch.undo()
    assert torn
    check(job, sent)


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


class LocalDays(FileDays):
    """Whole days without Spark: what its tasks do is done here."""

    def __init__(self, job: Job) -> None:
        super().__init__(None, job)  # type: ignore[arg-type]

    def read_bronze(self, names: list[str]) -> list[Staged]:
        paths = [span.path for name in names for span in spans(self.layout.bronze / name)]
        batches = [batch for path in paths for batch in pq.read_table(path, partitioning=None).to_batches()]
        plan = Plan(self._job.tables, self._job.schemas, bronze=False)
        return [Staged(**row) for report in ingest(plan, iter(batches)) for row in report.to_pylist()]


def anew(job: Job, day: date) -> dict[str, int]:
    days = LocalDays(job)
    with days.layout.locked(), Layout(job.tables, COMPACT).locked(), Tables(job, days, Hub().publish) as tables:
        tables.begin()
        found = rerun(days, job, day)
        tables.refresh()
    return found


def test_any_day_made_anew_is_what_it_was(tmp_path: Path) -> None:
    """Each day that the tables have, twice, and with the stream taken from its begin once more."""
    sent, job = history(11, hours=4, devices=FEW), job_in(tmp_path)
    take(job, Hub(), [sent[:30], sent[30:]])
    days = {partitions.partition_days(path.name)[0] for path in Layout(tmp_path).silver("obs").glob("day=*")}
    assert len(days) == 4  # two, and the two of the device that is late
    for day in [*sorted(days), *sorted(days)]:
        assert anew(job, day)["obs"] == sum(each.time.date() == day for each in once(sent))
        check(job, sent)
    take(job, Hub(), [sent])
    check(job, sent)


def once(sent: list[Sent]) -> list[Sent]:
    return list({(each.device, each.time, each.message_id): each for each in sent}.values())


def killed_amid(folder: Path, crash_at: Callable[[int], list[int]]) -> Iterator[Job]:
    """Copies of the job in "whole" whose day was being made anew until a crash at the n-th change, for every n."""
    at = 0
    while True:
        shutil.copytree(folder / "whole", folder / str(at))
        job = job_in(folder / str(at))
        crash_at(at)
        try:
            anew(job, BEGIN.date())
            break
        except Crash:
            crash_at(1_000_000)
        yield job
        at += 1
    assert at > 5


def test_a_day_made_anew_that_is_killed_is_what_it_was(tmp_path: Path, crash_at: Callable[[int], list[int]]) -> None:
    """After a crash at the n-th change, for every n, the next run has all of it; no second attempt is needed."""
    sent = history(12, hours=3, devices=FEW)
    take(job_in(tmp_path / "whole"), Hub(), [sent[:30], sent[30:]])
    for job in killed_amid(tmp_path, crash_at):
        take(job, Hub(), [])
        check(job, sent)


def test_a_schema_that_takes_less_and_then_again_more(tmp_path: Path, crash_at: Callable[[int], list[int]]) -> None:
    """What a narrower schema made dead letters of comes back, also where a crash at the n-th change came between."""
    sent = history(13, hours=3, devices=FEW)
    bounded = replace(SCHEMA, fields=tuple(replace(each, max=-1000.0) for each in SCHEMA.fields))
    dead = sum(each.temp is not None for each in sent)
    take(job_in(tmp_path / "whole"), Hub(), [sent])
    anew(replace(job_in(tmp_path / "whole"), schemas=(bounded,)), BEGIN.date())
    assert len(rows_of(tmp_path / "whole" / "dead")) == dead
    for job in killed_amid(tmp_path, crash_at):
        anew(job, BEGIN.date())
        check(job, sent)
        assert not rows_of(job.tables / "dead")


def test_files_of_many_rows_are_left_alone() -> None:
    """Only files of less than half the most are merged, and no merge has more rows than that."""
    rows = [400, 300, 400, 600, 100, 100]
    found = [partitions.Span(Path(str(n)), "t", n, n, count) for n, count in enumerate(rows)]
    assert [[400, 300], [400, 100, 100]] == [[s.rows for s in g] for g in compaction.groups(found, 1000)]


@pytest.mark.parametrize("table", ["bronze", "dead", "silver/obs", "silver/before"])
def test_tables_of_delta_are_not_taken_for_parquet(table: str, tmp_path: Path) -> None:
    """Whichever of them is there: files that Delta does not know are what its VACUUM removes."""
    (tmp_path / table / "_delta_log").mkdir(parents=True)
    with pytest.raises(TableError, match="has Delta tables"):
        take(job_in(tmp_path), Hub(), [])


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


@contextlib.contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """How often directories are listed and Parquet files opened."""
    found: Counter[str] = Counter()

    def count(what: str, real: Callable[..., Any], *args: Any, **named: Any) -> Any:
        found[what] += 1
        return real(*args, **named)

    with monkeypatch.context() as patch:
        for module, name in ((os, "listdir"), (os, "scandir"), (pq, "read_table"), (pq, "read_schema")):
            patch.setattr(module, name, partial(count, name, getattr(module, name)))
        yield found


def test_the_work_of_a_batch_does_not_follow_the_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With three hundred days before it a batch lists and opens what it does without; a late row, its day too."""

    def hour(job: Job, number: int, late: list[Sent]) -> Counter[str]:
        messages = [each for each in sent if each.time.hour == 22 and each.time.minute // 20 == number]
        with counted(monkeypatch) as found:
            take(job, Hub(), [[*messages, *late]])
        return found

    sent = [each for each in history(7, hours=1, devices=FEW) if each.device != LATE]
    counts = {}
    for days in (0, 300):
        job = job_in(tmp_path / str(days))
        take(job, Hub(), [[each] for each in sent if each.time.minute < 20][:1])
        layout = Layout(job.tables)
        for table in (layout.bronze, layout.silver("obs"), *(layout.gold("obs", kind) for kind in GOLD)):
            some = next(table.glob("day=*"))
            for back in range(2, days + 2):
                shutil.copytree(some, table / partition_of(DAY, (BEGIN - EPOCH) // US - back * US_DAY))
        old = replace(sent[0], time=sent[0].time - timedelta(days=9), message_id="late")
        counts[days] = (hour(job, 1, []), hour(job, 2, [old]))
    assert counts[0][0] == counts[300][0]
    assert (counts[300][1] - counts[0][1]).total() <= 10


def test_a_field_may_be_added_and_keeps_its_type(tmp_path: Path) -> None:
    """Older rows have null there, also after a merge; another type or partition is refused and changes nothing."""
    sent = history(8, hours=2, devices=FEW)
    job = job_in(tmp_path)
    take(job, Hub(), [sent[:20]])
    wider = replace(job, schemas=(replace(SCHEMA, fields=(*SCHEMA.fields, Field("n", "integer"))),))
    take(wider, Hub(), [sent[20:]])
    compact(wider)
    check(job, sent, metric="temp")
    numbers = {row["sequence"]: row["n"] for row in rows_of(job.tables / "silver" / "obs")}
    assert all(numbers.get(each.sequence) is None for each in sent[:20])
    assert all(numbers.get(each.sequence, each.number) == each.number for each in sent[20:])
    for wrong, said in (
        (replace(SCHEMA, fields=(Field("temp", "string"),)), "the field temp is number in the table and string"),
        (replace(SCHEMA, partition="month"), "has partitions by day, not month"),
    ):
        with pytest.raises(TableError, match=said):
            take(replace(job, schemas=(wrong,)), Hub(), [])
    check(job, sent, metric="temp")


def test_what_an_intent_lost_is_not_removed_for_it(tmp_path: Path) -> None:
    """If the new file of a replacement is gone, which only a damaged disk can bring about, the old ones stay."""
    layout = Layout(tmp_path)
    old = tmp_path / "old.parquet"
    old.touch()
    with pytest.raises(TableError, match="nothing was removed"):
        layout.replace([old], [(layout.aside(), tmp_path / "new.parquet")])
    assert old.exists()


def test_windows_are_computed_in_pieces_that_memory_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few rows may be in memory at a time, the windows are the same."""
    monkeypatch.setattr(gold, "ROWS_AT_ONCE", 5)
    sent, job = history(10, hours=4, devices=FEW), job_in(tmp_path)
    take(job, Hub(), [sent[:30], sent[30:]])
    check(job, sent)
