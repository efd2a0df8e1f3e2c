"""The checks: what arrived against what was sent, message by message and number by number."""

from __future__ import annotations

import dataclasses
import json
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .observations import Aggregate, Outgoing
from .record import Record

STATISTICS = ("min", "mean", "max", "sum")
EXAMPLES_MAX = 3  # of what is wrong, in a check's text


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the table at the end."""

    what: str
    passed: bool
    found: str


@dataclass(frozen=True, slots=True)
class Arrived:
    """A message as it was read back."""

    message_id: str
    payload: bytes


def arrived(messages: Iterable[Any], subject_prefix: str) -> list[Arrived]:
    """The messages below a subject, in the stream's order."""
    chosen = (message for message in messages if message.subject.startswith(subject_prefix))
    return [Arrived((message.headers or {}).get("Nats-Msg-Id", ""), message.data) for message in chosen]


def exactly_once_in_order(what: str, sent: list[Outgoing], got: list[Arrived]) -> Check:
    """The same messages in the same order, nothing less, nothing twice."""
    wanted = [Arrived(message.message_id, message.payload) for message in sent]
    if got == wanted:
        return Check(what, True, f"{len(got):,} of {len(wanted):,}")
    counted = Counter(message.message_id for message in got)
    known = {message.message_id: message.payload for message in sent}
    wrong = {
        "missing": [name for name in known if name not in counted],
        "twice": [name for name, count in counted.items() if count > 1],
        "unknown": [name for name in counted if name not in known],
        "altered": [m.message_id for m in got if m.message_id in known and m.payload != known[m.message_id]],
        "out of order": _out_of_order([message.message_id for message in wanted], got),
    }
    parts = [f"{len(names):,} {kind} ({', '.join(names[:EXAMPLES_MAX])})" for kind, names in wrong.items() if names]
    return Check(what, False, f"{len(got):,} of {len(wanted):,}: {'; '.join(parts)}")


def _out_of_order(wanted: list[str], got: list[Arrived]) -> list[str]:
    """Messages that came, the first time, behind a newer one."""
    place = {name: index for index, name in enumerate(wanted)}
    seen: set[str] = set()
    newest = -1
    late = []
    for message in got:
        index = place.get(message.message_id)
        if index is None or message.message_id in seen:
            continue
        seen.add(message.message_id)
        if index < newest:
            late.append(message.message_id)
        newest = max(newest, index)
    return late


def cut_was_felt(record: Record, station: str, rows: int, seconds: float) -> Check:
    """While its link was cut a leaf's backlog grew as it published: nothing found a way round the cut."""
    for fault in record.faults:
        if fault.station == station:
            published = rows / seconds * (fault.ended - fault.began)
            highest = record.most_waiting(station, fault)
            return Check(f"{station}: rows waited while the link was cut", highest > published / 2, f"{highest:,} rows")
    return Check(f"{station}: rows waited while the link was cut", False, "the link was never cut")


def table_aggregates(gold: Path) -> dict[tuple[str, str], Aggregate]:
    """The job's days: a row for each station, metric and day, and the number of observations beside them."""
    days: dict[tuple[str, str], dict[str, Any]] = {}
    for row in _rows(gold / "health"):
        days[_day(row)] = {"observations": row["messages"]}
    for row in _rows(gold / "day"):
        days[_day(row)].update({f"{row['metric']}_{statistic}": row[statistic] for statistic in STATISTICS})
    return {key: _aggregate(values) for key, values in days.items()}


def _rows(table: Path) -> list[dict[str, Any]]:
    import pyarrow.dataset  # here: a demo without Spark does without it

    rows: list[dict[str, Any]] = pyarrow.dataset.dataset(table, format="parquet").to_table().to_pylist()
    if len(rows) != len({(*_day(row), row.get("metric")) for row in rows}):
        raise ValueError(f"two rows of one day in {table}")
    return rows


def _day(row: dict[str, Any]) -> tuple[str, str]:
    return str(row["device"]), f"{row['start']:%Y-%m-%d}"


def stream_aggregates(messages: Iterable[Any]) -> dict[tuple[str, str], Aggregate]:
    """The days as the job published them."""
    found: dict[tuple[str, str], Aggregate] = {}
    for message in messages:
        said = json.loads(message.data)
        values: dict[str, Any] = {"observations": said["messages"]}
        for metric, statistics in said["metrics"].items():
            values.update({f"{metric}_{statistic}": statistics[statistic] for statistic in STATISTICS})
        key = (said["device"], said["start"][:10])
        if key in found:
            raise ValueError(f"two messages of {key}")
        found[key] = _aggregate(values)
    return found


def _aggregate(values: dict[str, Any]) -> Aggregate:
    named: dict[str, Any] = {field.name: values.get(field.name) for field in dataclasses.fields(Aggregate)}
    return Aggregate(**named)


def aggregates_equal(
    what: str, wanted: dict[tuple[str, str], Aggregate], got: dict[tuple[str, str], Aggregate]
) -> Check:
    """The same days with the same values (sums of floats may differ in the last digits, by their order)."""
    wrong = [f"{station} {day}" for station, day in sorted(wanted.keys() ^ got.keys())]
    wrong += [" ".join(key) for key in sorted(wanted.keys() & got.keys()) if not _same(wanted[key], got[key])]
    text = f"{len(got):,} of {len(wanted):,} station days"
    if wrong:
        text += f": {len(wrong):,} differ ({', '.join(wrong[:EXAMPLES_MAX])})"
    return Check(what, not wrong and bool(got), text)


def _same(left: Aggregate, right: Aggregate) -> bool:
    pairs = zip(dataclasses.astuple(left), dataclasses.astuple(right), strict=True)
    return all(
        a is b or (a is not None and b is not None and math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)) for a, b in pairs
    )
