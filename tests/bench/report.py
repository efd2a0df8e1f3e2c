"""Medians of the rounds, and the table and the JSON made from them."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.rows import Figures, Goal, Row


@dataclass
class Measured:
    """All rounds of one row, by the variant's place in it."""

    row: Row
    rounds: list[list[Figures]] = field(default_factory=list)
    failure: str = ""

    def median(self, place: int, figure: str) -> float | None:
        if place >= len(self.rounds):
            return None
        values = [figures[figure] for figures in self.rounds[place] if figure in figures]
        return statistics.median(values) if values else None

    def reached(self, goal: Goal) -> float | None:
        """What is held against the goal's bound."""
        ours, theirs = self.median(0, goal.figure), self.median(1, goal.figure)
        if ours is None or not goal.ratio:
            return ours
        return ours / theirs if theirs else None


def text(value: float | None) -> str:
    if value is None:
        return "-"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.2f}"


def met(goal: Goal, value: float | None) -> str:
    if value is None:
        return "?"
    return "yes" if (value <= goal.bound if goal.at_most else value >= goal.bound) else "NO"


HEAD = ["what", "unit", "leafd", "held against", "value", "ratio", "reach", "reached", "peak MB"]


def lines_of(measured: Measured) -> list[list[str]]:
    lines = []
    peaks = f"{text(measured.median(0, 'peak_mb'))} / {text(measured.median(1, 'peak_mb'))}"
    for goal in measured.row.goals:
        ours, theirs = measured.median(0, goal.figure), measured.median(1, goal.figure)
        bound = (
            ("at most " if goal.at_most else "at least ")
            + f"{goal.bound:g}"
            + ("" if goal.ratio else f" {goal.unit.split()[0]}")
        )
        lines.append(
            [
                measured.row.title,
                goal.unit,
                text(ours),
                measured.row.variants[1].name,
                text(theirs),
                text(ours / theirs) if ours is not None and theirs else "-",
                bound,
                met(goal, measured.reached(goal)),
                peaks,
            ]
        )
    if measured.failure:
        lines.append([measured.row.title, "failed: " + measured.failure.splitlines()[0], *[""] * 7])
    return lines


def table(all_measured: list[Measured]) -> str:
    """A Markdown table, its columns aligned so that it reads as plain text too."""
    rows = [HEAD, *[line for measured in all_measured for line in lines_of(measured)]]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEAD))]
    shown = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    shown.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(shown)


def machine() -> dict[str, object]:
    model = "unknown"
    cpus = 0
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("processor"):
            cpus += 1
        if line.startswith(("model name", "Hardware")):
            model = line.split(":", 1)[1].strip()
    memory = int(Path("/proc/meminfo").read_text().split()[1]) // 1024
    kernel = Path("/proc/sys/kernel/osrelease").read_text().strip()
    return {"processor": model, "processors": cpus, "memory_mb": memory, "kernel": kernel}


def as_json(all_measured: list[Measured]) -> dict[str, object]:
    return {
        "machine": machine(),
        "rows": {
            measured.row.name: {
                "title": measured.row.title,
                "variants": [variant.name for variant in measured.row.variants],
                "rounds": measured.rounds,
                "goals": [
                    {
                        "figure": goal.figure,
                        "value": measured.reached(goal),
                        "bound": goal.bound,
                        "at_most": goal.at_most,
                        "ratio": goal.ratio,
                        "reached": met(goal, measured.reached(goal)),
                    }
                    for goal in measured.row.goals
                ],
                "failure": measured.failure,
            }
            for measured in all_measured
        },
    }
