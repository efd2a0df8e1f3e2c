"""What was measured of MQTT as a table: medians of each row and server, and what they come to of the goals.

Not here: how it is measured (devices.py).
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Final

from tests import servers

Figures = dict[str, float]
RATE: Final = 1.3
"""The least rate, as a multiple of the better one of the others."""
TIME: Final = 0.5
"""The most processor time, likewise."""
MEMORY: Final = {servers.REFERENCE: 1.0, "mosquitto": 1.5}
"""The most memory, as a multiple of theirs."""
_RATES: Final = ("rate", "back_rate", "read_rate")
_TIMES: Final = ("cpu_us", "back_cpu_us", "read_cpu_us")
_MEMORIES: Final = ("memory_mb", "bytes_each")


def report(rows: Sequence[str], kinds: Sequence[str], found: Mapping[tuple[str, str], Sequence[Figures]]) -> str:
    """A line for each figure of each row: the servers' medians, in the order of `kinds`, and how many rounds there
    were; then how far the goal is met."""
    lines = [f"| row | figure | {' / '.join(kinds)} | rounds | goal |", "|---|---|---|---|---|"]
    for row in rows:
        medians = {kind: _medians(found[row, kind]) for kind in kinds}
        rounds = max((len(found[row, kind]) for kind in kinds), default=0)
        for name in dict.fromkeys(name for kind in kinds for name in medians[kind]):
            shown = " / ".join(_shown(medians[kind].get(name)) for kind in kinds)
            lines.append(f"| {row} | {name} | {shown} | {rounds} | {_verdict(name, medians)} |")
    return "\n".join(lines)


def _medians(rounds: Sequence[Figures]) -> Figures:
    return {name: statistics.median(one[name] for one in rounds) for name in rounds[0]} if rounds else {}


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:,.2f}"


def _verdict(name: str, medians: Mapping[str, Figures]) -> str:
    """What the figure is of the others', and whether that meets the goal; nothing where there is no goal for it."""
    own = medians[servers.LEAFD].get(name)
    others = {kind: medians[kind][name] for kind in MEMORY if name in medians.get(kind, {})}
    if own is None or not others:
        return ""
    if name in _RATES:
        return _of(own, max(others.values()), RATE, least=True)
    if name in _TIMES:
        return _of(own, min(others.values()), TIME, least=False)
    if name in _MEMORIES:
        return ", ".join(f"{kind}: {_of(own, other, MEMORY[kind], least=False)}" for kind, other in others.items())
    return ""


def _of(own: float, other: float, goal: float, *, least: bool) -> str:
    if other <= 0:
        return ""
    ratio = own / other
    met = ratio >= goal if least else ratio <= goal
    return f"{ratio:.2f} of {goal}{': met' if met else ''}"
