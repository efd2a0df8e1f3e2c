"""The HTML report: one file, nothing loaded from anywhere, charts as inline SVG.

Two charts. The temperatures are the Spark job's daily means with the range from minimum to maximum
behind them. The backlog is, for each leaf, how many acknowledged rows the hub did not have yet, with
the outages shaded where they hit.
"""

from __future__ import annotations

import html
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from .checks import Check
from .observations import STATIONS, Aggregate
from .story import Record

COLOURS = {"EWR": "#0a7d6c", "JFK": "#c2570c", "LGA": "#4b4fc4"}
WIDTH = 920
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 12, 28

STYLE = """
:root{color-scheme:light dark;--ink:#1d232b;--soft:#66707c;--line:#d9dee4;--page:#fbfcfd;--shade:#e2574c}
@media(prefers-color-scheme:dark){:root{--ink:#e6eaee;--soft:#98a3ae;--line:#333b44;--page:#14181d;--shade:#e2574c}}
body{margin:0 auto;max-width:980px;padding:2.5rem 1.5rem;background:var(--page);color:var(--ink);
font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.6rem;margin:0}h2{font-size:1.1rem;margin:2.2rem 0 .4rem}p{margin:.3rem 0 1rem;color:var(--soft)}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
td,th{text-align:left;padding:.35rem .9rem .35rem 0;border-bottom:1px solid var(--line);vertical-align:top}
th{font-weight:600;color:var(--soft)}.ok{color:#0a7d6c;font-weight:600}.bad{color:#c8322b;font-weight:600}
svg{width:100%;height:auto;display:block}svg text{fill:var(--soft);font:12px system-ui,sans-serif}
.grid{stroke:var(--line)}.shade{fill:var(--shade);opacity:.15}.name{font-weight:600}
"""


@dataclass(frozen=True, slots=True)
class Frame:
    """Where a chart's values lie on the page."""

    x_low: float
    x_high: float
    y_low: float
    y_high: float
    height: int

    def x(self, value: float) -> float:
        span = (self.x_high - self.x_low) or 1.0
        return LEFT + (value - self.x_low) / span * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        span = (self.y_high - self.y_low) or 1.0
        return self.height - BOTTOM - (value - self.y_low) / span * (self.height - TOP - BOTTOM)

    def line(self, points: list[tuple[float, float]]) -> str:
        return " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)


def ticks(low: float, high: float, about: int) -> list[float]:
    """Round numbers within low..high, about so many."""
    rough = max((high - low) / about, 1e-9)
    magnitude = 10.0 ** (len(str(int(rough))) - 1) if rough >= 1 else 0.1
    step = next(m * magnitude for m in (1, 2, 5, 10, 20, 50, 100) if m * magnitude >= rough)
    first = int(low // step) + (low % step > 0)
    return [step * n for n in range(first, int(high // step) + 1)]


def text(x: float, y: float, words: str, anchor: str = "start", more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {more}>{html.escape(words)}</text>'


def axis(frame: Frame, unit: str) -> str:
    parts = []
    for value in ticks(frame.y_low, frame.y_high, max(2, frame.height // 60)):
        y = frame.y(value)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(text(LEFT - 8, y + 4, f"{value:,.0f}{unit}", "end"))
    return "".join(parts)


def temperatures(daily: dict[tuple[str, str], Aggregate]) -> str:
    """A panel a station: the three airports lie so near to each other that one panel would show one curve."""
    days = sorted({day for _, day in daily})
    if not days:
        return "<p>There are no aggregates to draw.</p>"
    known = [v for a in daily.values() for v in (a.temp_min, a.temp_max) if v is not None]
    panels = []
    for station in STATIONS:
        frame = Frame(0, len(days) - 1, min(known) - 2, max(known) + 2, 170)
        rows = [(i, daily[station, day]) for i, day in enumerate(days) if (station, day) in daily]
        rows = [(i, a) for i, a in rows if a.temp_mean is not None]
        top = [(float(i), a.temp_max or 0.0) for i, a in rows]
        bottom = [(float(i), a.temp_min or 0.0) for i, a in rows]
        colour = COLOURS[station]
        marks = []
        for index, day in enumerate(days):
            if day.endswith("-01") or index == 0:
                marks.append(text(frame.x(index), frame.height - 8, date.fromisoformat(day).strftime("%b")))
        panels.append(
            f'<svg viewBox="0 0 {WIDTH} {frame.height}" role="img" aria-label="Temperatures at {station}">'
            f"{axis(frame, '°F')}"
            f'<polygon points="{frame.line(top + bottom[::-1])}" fill="{colour}" opacity=".22"/>'
            f'<polyline points="{frame.line([(float(i), a.temp_mean or 0.0) for i, a in rows])}" fill="none" '
            f'stroke="{colour}" stroke-width="1.5"/>'
            f'{text(LEFT + 8, TOP + 12, station, more=f"""class="name" style="fill:{colour}" """)}'
            f"{''.join(marks)}</svg>"
        )
    return "".join(panels)


def backlog(record: Record) -> str:
    """A panel a leaf, all on one scale, with the outages that concerned it."""
    if not record.times:
        return "<p>There are no samples to draw.</p>"
    highest = max([1, *(value for values in record.backlog.values() for value in values)])
    panels = []
    for station in STATIONS:
        frame = Frame(0, record.times[-1], 0, highest * 1.08, 170)
        colour = COLOURS[station]
        shades = []
        for fault in record.faults:
            if fault.station not in (station, "hub"):
                continue
            left, right = frame.x(fault.began), frame.x(fault.ended)
            shades.append(
                f'<rect class="shade" x="{left:.1f}" y="{TOP}" width="{max(2.0, right - left):.1f}" '
                f'height="{frame.height - TOP - BOTTOM}"/>' + text(left + 4, TOP + 12, fault.label)
            )
        marks = [
            text(frame.x(value), frame.height - 8, f"{value:.0f} s", "middle") for value in ticks(0, frame.x_high, 9)
        ]
        points = list(zip(record.times, map(float, record.backlog[station]), strict=True))
        area = [(points[0][0], 0.0), *points, (points[-1][0], 0.0)]
        panels.append(
            f'<svg viewBox="0 0 {WIDTH} {frame.height}" role="img" aria-label="Backlog of {station}">'
            f"{axis(frame, '')}{''.join(shades)}"
            f'<polygon points="{frame.line(area)}" fill="{colour}" opacity=".25"/>'
            f'<polyline points="{frame.line(points)}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
            f'{text(LEFT + 8, TOP + 12, station, more=f"""class="name" style="fill:{colour}" """)}'
            f"{''.join(marks)}</svg>"
        )
    return "".join(panels)


def check_table(checks: list[Check]) -> str:
    rows = [
        f'<tr><td class="{"ok" if c.passed else "bad"}">{"passed" if c.passed else "FAILED"}</td>'
        f"<td>{html.escape(c.what)}</td><td>{html.escape(c.found)}</td></tr>"
        for c in checks
    ]
    return f"<table><tr><th>check</th><th>what</th><th>found</th></tr>{''.join(rows)}</table>"


def fact_table(facts: list[tuple[str, str]]) -> str:
    rows = [f"<tr><td>{html.escape(name)}</td><td>{html.escape(value)}</td></tr>" for name, value in facts]
    return f"<table>{''.join(rows)}</table>"


def write_report(
    path: Path,
    title: str,
    checks: list[Check],
    facts: list[tuple[str, str]],
    record: Record,
    daily: dict[tuple[str, str], Aggregate],
) -> None:
    passed = sum(check.passed for check in checks)
    path.write_text(
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style>"
        f"<h1>{html.escape(title)}</h1><p>{passed} of {len(checks)} checks passed.</p>{check_table(checks)}"
        "<h2>Backlog of each leaf</h2><p>Rows that the leaf had acknowledged and the hub did not have yet. "
        f"Shaded: the outages that concerned this leaf.</p>{backlog(record)}"
        "<h2>Temperatures</h2><p>Daily mean, and the range from minimum to maximum, from the Spark job's table "
        f"(days in UTC).</p>{temperatures(daily)}<h2>The run</h2>{fact_table(facts)}</html>\n"
    )
