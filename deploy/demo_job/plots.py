"""The charts of the report, as SVG text: where values lie on a page, axes, and one function a chart.

Colours are names of the page's style sheet, which has them for light and for dark; only the heat of a day is a colour
of its own, from one scale that can be told apart on both. Not here: the page around them (report.py).
"""

from __future__ import annotations

import html
from collections import defaultdict
from dataclasses import dataclass
from datetime import date

from .observations import STATIONS, Aggregate
from .record import Record

WIDTH = 920
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 12, 28
CELL, GAP = 13, 3
QUIET_SECONDS = 3.0  # of a chart's end, behind the last row
HEAT = (
    (10.0, (38, 84, 148)),
    (32.0, (108, 166, 214)),
    (52.0, (222, 226, 190)),
    (70.0, (243, 172, 92)),
    (92.0, (190, 58, 40)),
)
Daily = dict[tuple[str, str], Aggregate]


@dataclass(frozen=True, slots=True)
class Frame:
    """The places of a chart's values on the page."""

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


def svg(height: int, label: str, *parts: str) -> str:
    head = f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{html.escape(label)}">'
    return f'<div class="chart">{head}{"".join(parts)}</svg></div>'


def name_of(station: str) -> str:
    return text(LEFT + 8, TOP + 12, station, more=f'class="name {station}"')


def axis(frame: Frame, unit: str) -> str:
    parts = []
    for value in ticks(frame.y_low, frame.y_high, max(2, frame.height // 60)):
        y = frame.y(value)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(text(LEFT - 8, y + 4, f"{value:,.0f}{unit}", "end"))
    return "".join(parts)


def outages(frame: Frame, record: Record, station: str) -> str:
    parts = []
    for fault in record.faults:
        if fault.station in (station, "hub"):
            left, right = frame.x(fault.began), frame.x(fault.ended)
            size = f'width="{max(2.0, right - left):.1f}" height="{frame.height - TOP - BOTTOM}"'
            parts.append(f'<rect class="shade" x="{left:.1f}" y="{TOP}" {size}/>')
            parts.append(text(left + 4, frame.height - BOTTOM - 6, fault.label))
    return "".join(parts)


def eventful(record: Record) -> int:
    """How many samples there are until nothing moves any more, and those of a moment after that."""
    last = 1
    for station in STATIONS:
        rows, waiting = record.acknowledged[station], record.backlog[station]
        moved = [n for n in range(1, len(rows)) if rows[n] != rows[n - 1] or waiting[n]]
        last = max([last, *moved])
    last = min(last, len(record.times) - 1)
    return sum(time <= record.times[last] + QUIET_SECONDS for time in record.times)


def story(record: Record) -> str:
    """A panel a leaf: rows that it has acknowledged, rows that the hub has of it, and between the two what waits."""
    if not record.times:
        return "<p>There are no samples to draw.</p>"
    panels = []
    end = eventful(record)
    times = record.times[:end]
    for station in STATIONS:
        acknowledged, waiting = record.acknowledged[station][:end], record.backlog[station][:end]
        frame = Frame(0, times[-1], 0, max([1, *acknowledged]) * 1.05, 210)
        leaf = list(zip(times, map(float, acknowledged), strict=True))
        hub = [(x, y - behind) for (x, y), behind in zip(leaf, waiting, strict=True)]
        worst = max(range(len(waiting)), key=waiting.__getitem__)
        marks = [
            text(frame.x(value), frame.height - 8, f"{value:.0f} s", "middle") for value in ticks(0, frame.x_high, 9)
        ]
        if waiting[worst]:
            x, y = frame.x(leaf[worst][0]), frame.y((leaf[worst][1] + hub[worst][1]) / 2)
            marks.append(text(x - 6, y + 4, f"{waiting[worst]:,} rows wait", "end", 'class="name"'))
        panels.append(
            svg(
                frame.height,
                f"Rows of {station}",
                axis(frame, ""),
                outages(frame, record, station),
                f'<polygon class="area {station}" points="{frame.line(leaf + hub[::-1])}"/>',
                f'<polyline class="line hub" points="{frame.line(hub)}"/>',
                f'<polyline class="line {station}" points="{frame.line(leaf)}"/>',
                name_of(station),
                *marks,
            )
        )
    return "".join(panels)


def heat(value: float) -> str:
    """The colour of a temperature: between the two neighbours on the scale."""
    low = HEAT[0]
    for high in HEAT:
        if value <= high[0]:
            share = (value - low[0]) / ((high[0] - low[0]) or 1.0) if value > low[0] else 0.0
            mixed = (round(a + (b - a) * share) for a, b in zip(low[1], high[1], strict=True))
            return "#" + "".join(f"{part:02x}" for part in mixed)
        low = high
    return "#" + "".join(f"{part:02x}" for part in low[1])


def calendar(daily: Daily) -> str:
    """A year of days a station, a column a week, each in the colour of its mean temperature."""
    if not daily:
        return "<p>There are no aggregates to draw.</p>"
    first = min(date.fromisoformat(day) for _, day in daily)
    monday = first.toordinal() - first.weekday()
    panels = []
    for station in STATIONS:
        cells: list[str] = []
        months: dict[tuple[int, int], tuple[int, str]] = {}
        for (name, day), one in sorted(daily.items()):
            if name != station:
                continue
            when = date.fromisoformat(day)
            x = LEFT + (when.toordinal() - monday) // 7 * (CELL + GAP)
            y = 22 + when.weekday() * (CELL + GAP)
            months.setdefault((when.year, when.month), (x, when.strftime("%b")))
            mean = one.temp_mean
            colour = "none" if mean is None else heat(mean)
            told = f"{station}, {day}: " + ("not measured" if mean is None else f"{mean:.0f} °F, {rain(one)}")
            place = f'x="{x}" y="{y}" width="{CELL}" height="{CELL}" rx="2"'
            cells.append(f'<rect class="day" {place} fill="{colour}"><title>{html.escape(told)}</title></rect>')
        heads = [text(x, 14, month) for x, month in list(months.values())[:12]]
        height = 22 + 7 * (CELL + GAP) + 8
        label = text(LEFT - 10, 22 + 4 * (CELL + GAP) - 4, station, "end", f'class="name {station}"')
        panels.append(svg(height, f"Days of {station}", label, *heads, *cells))
    return "".join(panels) + scale()


def rain(one: Aggregate) -> str:
    return f"{one.precip_sum:.2f} in of rain" if one.precip_sum else "dry"


def scale() -> str:
    """The meaning of the colours of days."""
    low, high = int(HEAT[0][0]), int(HEAT[-1][0])
    step = 4
    parts = [
        f'<rect x="{LEFT + n * 3 * step}" y="2" width="{3 * step}" height="10" fill="{heat(low + n * step)}"/>'
        for n in range((high - low) // step + 1)
    ]
    marks = [text(LEFT + (value - low) * 3, 26, f"{value} °F", "middle") for value in range(20, high, 20)]
    return svg(32, "Scale of temperatures", *parts, *marks)


def temperatures(daily: Daily) -> str:
    """A panel a station: the three airports lie so near to each other that one panel would show one curve."""
    days = sorted({day for _, day in daily})
    known = [v for a in daily.values() for v in (a.temp_min, a.temp_max) if v is not None]
    if not known:
        return "<p>There are no aggregates to draw.</p>"
    panels = []
    for station in STATIONS:
        frame = Frame(0, len(days) - 1, min(known) - 2, max(known) + 2, 170)
        rows = [(i, daily[station, day]) for i, day in enumerate(days) if (station, day) in daily]
        rows = [(i, a) for i, a in rows if a.temp_mean is not None]
        top = [(float(i), a.temp_max or 0.0) for i, a in rows]
        bottom = [(float(i), a.temp_min or 0.0) for i, a in rows]
        mean = [(float(i), a.temp_mean or 0.0) for i, a in rows]
        panels.append(
            svg(
                frame.height,
                f"Temperatures at {station}",
                axis(frame, "°F"),
                f'<polygon class="area {station}" points="{frame.line(top + bottom[::-1])}"/>',
                f'<polyline class="line {station}" points="{frame.line(mean)}"/>',
                name_of(station),
                *(
                    text(frame.x(i), frame.height - 8, date.fromisoformat(day).strftime("%b"))
                    for i, day in enumerate(days)
                    if day.endswith("-01") or i == 0
                ),
            )
        )
    return "".join(panels)


def rainfall(daily: Daily) -> str:
    """Rain by month, a bar a station."""
    sums: dict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys(STATIONS, 0.0))
    for (station, day), one in daily.items():
        sums[day[:7]][station] += one.precip_sum or 0.0
    if not sums:
        return "<p>There are no aggregates to draw.</p>"
    months = sorted(sums)
    frame = Frame(0, len(months), 0, max([1.0, *(v for of in sums.values() for v in of.values())]) * 1.1, 190)
    bars = []
    width = (frame.x(1) - frame.x(0)) / (len(STATIONS) + 1)
    for index, month in enumerate(months):
        for place, station in enumerate(STATIONS):
            inches = sums[month][station]
            x, y = frame.x(index) + (place + 0.5) * width, frame.y(inches)
            size = f'width="{width * 0.86:.1f}" height="{frame.y(0) - y:.1f}"'
            told = f"<title>{station}, {month}: {inches:.1f} in</title>"
            bars.append(f'<rect class="bar {station}" x="{x:.1f}" y="{y:.1f}" {size}>{told}</rect>')
        middle = frame.x(index) + 2 * width
        bars.append(text(middle, frame.height - 8, date.fromisoformat(f"{month}-01").strftime("%b"), "middle"))
    names = [text(LEFT + 8 + 48 * n, TOP + 4, name, more=f'class="name {name}"') for n, name in enumerate(STATIONS)]
    return svg(frame.height, "Rain by month", axis(frame, " in"), *bars, *names)
