"""Files and directories of the tables: names that say what is in them, and changes that are whole or did not happen.

A partition is a directory, `day=2026-11-22` or `month=2026-11`, in UTC. A reader goes to one by its path: the
directory above, which has one entry for each day of years, is listed by maintenance only.

Bronze, dead and silver have files that never change, called TAG.LOW-HIGH.ROWS.ID.parquet, where LOW and HIGH bound
what the table is searched by: the stream's sequences (bronze, dead) or the observations' times (silver). A new file is
written aside and renamed into its partition. Where files replace others (compaction, a day made anew), an intent is
written first: once it is there the change is carried out, by the next job if need be, and before that nothing has
changed.

A partition of gold is one file, `part.parquet`, which rename replaces.

Readers see no name that begins with _ or a dot; so does Spark. What is renamed is on disk before (fsync), and so is
its new name before a batch ends. All paths are of a file system that the driver and the executors share.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from .job import DAY, Schema

RUN, COMPACT = "run", "compact"
US_DAY = 86_400_000_000
US_HOUR = 3_600_000_000
WIDTH = 20  # digits of a bound in a name: of any 64-bit number
SUFFIX = ".parquet"
PART = "part.parquet"
ROW_GROUP_ROWS = 32_768  # what a search by bounds reads at least
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")


class TableError(Exception):
    """The tables are not as they have to be, or somebody else works on them."""


def safe_name(text: str) -> str:
    """A text as one token of a subject, key of a bucket or part of a file's name: other bytes as =XX. Reversible."""
    return "".join(chr(byte) if byte in PLAIN else f"={byte:02X}" for byte in text.encode(errors="surrogatepass"))


@dataclass(frozen=True, slots=True)
class Span:
    """An immutable data file, as its name describes it."""

    path: Path
    tag: str
    low: int
    high: int
    rows: int

    def overlaps(self, low: int, high: int) -> bool:
        return self.low <= high and low <= self.high


def span_name(tag: str, low: int, high: int, rows: int) -> str:
    return f"{tag}.{low:0{WIDTH}}-{high:0{WIDTH}}.{rows}.{uuid.uuid4().hex[:12]}{SUFFIX}"


def span_of(path: Path) -> Span | None:
    """The span in a file's name; None for a file that is not the job's, or hidden."""
    parts = path.name.removesuffix(SUFFIX).split(".")
    if not path.name.endswith(SUFFIX) or path.name[0] in "_." or len(parts) != 4:
        return None
    low, _, high = parts[1].partition("-")
    if not (low.isdigit() and high.isdigit() and parts[2].isdigit()):
        return None
    return Span(path, parts[0], int(low), int(high), int(parts[2]))


def _names(partition: Path) -> set[str]:
    try:
        return set(os.listdir(partition))
    except FileNotFoundError:
        return set()


def spans(partition: Path) -> list[Span]:
    """The data files of a partition, by their lower bound. A partition that isn't there has none.

    The system hands out a directory of hundreds of names in pieces. Compaction may come between two of them: its new
    file is then not seen any more, and of the old ones some are gone. So what counts is what two listings agree about.
    """
    names = _names(partition)
    while names != (again := _names(partition)):
        names = again
    found = [span for name in names if (span := span_of(partition / name))]
    return sorted(found, key=lambda span: (span.low, span.path.name))


def partition_of(unit: str, time: int) -> str:
    """The directory of a time in microseconds since 1970."""
    moment = EPOCH + timedelta(microseconds=time)
    return f"{unit}={moment:%Y-%m-%d}" if unit == DAY else f"{unit}={moment:%Y-%m}"


def partition_days(name: str) -> tuple[date, date]:
    """The first day of a partition and the first one after it."""
    unit, _, value = name.partition("=")
    if unit == DAY:
        first = date.fromisoformat(value)
        return first, first + timedelta(days=1)
    first = date.fromisoformat(f"{value}-01")
    return first, (first + timedelta(days=31)).replace(day=1)


def partition_bounds(name: str) -> tuple[int, int]:
    """The first and the last microsecond of a partition."""
    first, after = ((day - EPOCH.date()).days * US_DAY for day in partition_days(name))
    return first, after - 1


def sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_parquet(table: Any, path: Path, *, durable: bool = True) -> None:
    """A file that is on disk when this returns, if it is to be durable; its name may not be yet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, compression="zstd", row_group_size=ROW_GROUP_ROWS)
    if durable:
        sync(path)


def make_directory(path: Path) -> None:
    """A directory whose name, and the names above it that are new, are on disk."""
    if path.is_dir():
        return
    make_directory(path.parent)
    with contextlib.suppress(FileExistsError):
        path.mkdir()
    sync(path.parent)


def put(staged: Path, target: Path) -> None:
    """Rename a file to its place, over what is there."""
    make_directory(target.parent)
    os.replace(staged, target)
    sync(target.parent)


def write_json(path: Path, value: Any) -> None:
    aside = path.with_name(f"_{uuid.uuid4().hex}")
    make_directory(path.parent)
    aside.write_text(json.dumps(value, indent=1, sort_keys=True))
    sync(aside)
    put(aside, path)


def read_json(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


class Layout:
    """The places of a job's tables and of its own notes."""

    def __init__(self, tables: Path, work: str = RUN) -> None:
        self.root = tables
        self.bronze = tables / "bronze"
        self.dead = tables / "dead"
        self._work = work
        self.notes = tables / "_leafd"
        self.dirty = self.notes / "dirty"
        # Each of the two that may work at the same time has its own files in hand.
        self.stage = self.notes / work / "stage"
        self.intents = self.notes / work / "intents"

    def silver(self, name: str) -> Path:
        return self.root / "silver" / name

    def gold(self, name: str, kind: str) -> Path:
        return self.root / "gold" / name / kind

    def last(self, name: str) -> Path:
        return self.root / "gold" / name / "last" / PART

    def sources(self, name: str, partition: str) -> Path:
        """Notes which days of bronze a partition of silver has rows from."""
        return self.silver(name) / partition / "_from"

    def shape(self, name: str) -> Path:
        """Notes the types of a table of silver."""
        return self.silver(name) / "_shape.json"

    def aside(self) -> Path:
        """A name for a file that is being written."""
        self.stage.mkdir(parents=True, exist_ok=True)
        return self.stage / f"{uuid.uuid4().hex}{SUFFIX}"

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Alone at this work, with what an earlier process left of it brought to its end."""
        make_directory(self.notes)
        with (self.notes / f"{self._work}.lock").open("a+") as file:  # the lock ends with the process
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                holder = file.read().strip() or "unknown"
                raise TableError(
                    f"{self.root}: another {self._work} is at work on these tables (process {holder})"
                ) from None
            file.seek(0)
            file.truncate()
            file.write(f"{os.getpid()}\n")
            file.flush()
            self._recover()
            yield

    def replace(self, gone: list[Path], come: list[tuple[Path, Path]]) -> None:
        """Files come in the place of others, all or none: (staged, target) each."""
        intent = self.intents / f"{uuid.uuid4().hex}.json"
        make_directory(self.stage)
        sync(self.stage)  # the names that the intent speaks of are on disk before it is
        write_json(intent, {"gone": [str(path) for path in gone], "come": [[str(a), str(b)] for a, b in come]})
        self._carry_out(intent)

    def _carry_out(self, intent: Path) -> None:
        wanted = read_json(intent)
        for staged, target in wanted["come"]:
            if Path(staged).exists():
                put(Path(staged), Path(target))
            elif not Path(target).exists():  # else it was renamed when this was begun before
                raise TableError(f"{staged} is gone, which {intent} puts in the place of others; nothing was removed")
        for path in map(Path, wanted["gone"]):
            path.unlink(missing_ok=True)
        for folder in {Path(path).parent for path in wanted["gone"]}:
            if folder.is_dir():
                sync(folder)
        intent.unlink()

    def heal(self, work: str) -> None:
        """Bring to its end what a process that was killed at some other work left, unless one is at it."""
        other = Layout(self.root, work)
        if other._begun():
            with contextlib.suppress(TableError), other.locked():
                pass

    def _begun(self) -> list[Path]:
        return sorted(self.intents.glob("[!_]*.json")) if self.intents.is_dir() else []

    def _recover(self) -> None:
        """Carry out what was begun, and remove what was written aside and not used."""
        for intent in self._begun():
            self._carry_out(intent)
        shutil.rmtree(self.stage, ignore_errors=True)


def check_shape(layout: Layout, schema: Schema) -> None:
    """A table keeps the types that it began with: a file of another type would make it unreadable."""
    note = layout.shape(schema.name)
    now: dict[str, Any] = {"partition": schema.partition, "fields": {field.name: field.type for field in schema.fields}}
    if note.exists():
        before = read_json(note)
        if before["partition"] != now["partition"]:
            raise TableError(
                f"silver {schema.name} has partitions by {before['partition']}, not {now['partition']}: "
                "keep that, or give the table another name"
            )
        for name, kind in now["fields"].items():
            was = before["fields"].get(name, kind)
            if was != kind:
                raise TableError(
                    f"silver {schema.name}: the field {name} is {was} in the table and {kind} in the job: "
                    "give the field or the table another name"
                )
        now["fields"] = before["fields"] | now["fields"]
        if now == before:
            return
    write_json(note, now)
