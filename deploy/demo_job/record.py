"""The notes taken while the stations send, for the checks and the report: which rows waited where, what was broken."""

from __future__ import annotations

from dataclasses import dataclass, field

from .observations import STATIONS


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that was broken from one instant to another (seconds since the start)."""

    station: str  # or "hub"
    label: str
    began: float
    ended: float


@dataclass
class Record:
    """The facts that the report draws."""

    times: list[float] = field(default_factory=list)
    backlog: dict[str, list[int]] = field(default_factory=lambda: {station: [] for station in STATIONS})
    acknowledged: dict[str, list[int]] = field(default_factory=lambda: {station: [] for station in STATIONS})
    faults: list[Fault] = field(default_factory=list)

    def most_waiting(self, station: str, fault: Fault) -> int:
        """Rows of a station that waited at most while something was broken: one number for the check and the report."""
        pairs = zip(self.times, self.backlog[station], strict=True)
        return max((count for instant, count in pairs if fault.began <= instant <= fault.ended), default=0)

    def worst(self) -> int:
        """The same of each fault and the leaves that it concerns."""
        found = (
            self.most_waiting(station, fault)
            for fault in self.faults
            for station in STATIONS
            if fault.station in (station, "hub")
        )
        return max(found, default=0)
