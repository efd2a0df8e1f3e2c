"""What a history must be, whatever failed meanwhile: acknowledged numbers are in the stream, once, at the sequence that
the acknowledgement names, in the order in which they were acknowledged; registers changed as if one after the other.

The order of registers is searched by porcupine (porcupine/main.go), which others made. Not here: what clients saw
(workload.py).
"""

from __future__ import annotations

import subprocess
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.crash.histories.workload import Append, History

PROGRAM: Final = Path(__file__).parent / "porcupine"


@dataclass
class Verdict:
    """Counts; all but the first three are faults of the servers."""

    numbers: int = 0
    acknowledged: int = 0
    changes: int = 0
    lost: list[int] = field(default_factory=list)
    doubled: list[int] = field(default_factory=list)
    misplaced: list[int] = field(default_factory=list)
    """Acknowledged with another sequence than they have."""
    disordered: list[int] = field(default_factory=list)
    """Published after another one was acknowledged, and before it in the stream."""
    foreign: list[int] = field(default_factory=list)
    """In the stream, and refused."""
    registers: str = ""
    differ: str = ""
    """What one server has and another has not."""

    @property
    def good(self) -> bool:
        faults = (self.lost, self.doubled, self.misplaced, self.disordered, self.foreign, self.registers, self.differ)
        return not any(faults)

    def row(self, name: str) -> str:
        """As a line of a table."""
        counts = [self.lost, self.doubled, self.misplaced, self.disordered, self.foreign]
        cells = [name, self.numbers, self.acknowledged, *map(len, counts), self.changes]
        cells += [self.registers or "one order", self.differ or "equal"]
        return "| " + " | ".join(map(str, cells)) + " |"


HEAD: Final = (
    "| servers | numbers | acknowledged | lost | doubled | elsewhere | out of order | refused, there | changes | "
    "registers | servers |\n|---|---|---|---|---|---|---|---|---|---|---|"
)


def judged(history: History, stored: dict[int, int], counted: Counter[int], program: Path | None) -> Verdict:
    """stored: sequence of each number that the stream has at the end; counted: how often it has each. program: the
    judge of registers, None: they are not judged."""
    known = [one for one in history.appends if one.seq]
    changes = sum(one.change and one.done == "yes" for one in history.touches)
    verdict = Verdict(len(history.appends), len(known), changes)
    verdict.lost = [one.number for one in known if one.number not in stored]
    verdict.doubled = [number for number, count in counted.items() if count > 1]
    there = [one for one in known if one.number in stored]
    verdict.misplaced = [one.number for one in there if stored[one.number] != one.seq]
    verdict.disordered = disordered(there)
    verdict.foreign = [one.number for one in history.appends if one.refused and one.number in stored]
    if program is not None:
        done = subprocess.run([program], input=history.touched(), capture_output=True, timeout=1800)
        verdict.registers = "" if done.returncode == 0 else (done.stdout + done.stderr).decode().strip()
    return verdict


def disordered(known: list[Append]) -> list[int]:
    """Those that were published after another one was acknowledged, which has a later sequence."""
    answered = sorted(known, key=lambda one: one.answered)
    found, highest, at = list[int](), 0, 0
    for one in sorted(known, key=lambda one: one.call):
        while at < len(answered) and answered[at].answered < one.call:
            highest = max(highest, answered[at].seq)
            at += 1
        if one.seq < highest:
            found.append(one.number)
    return found


def build(folder: Path) -> Path:
    """The judge of registers, by the Go compiler. Raises OSError, CalledProcessError."""
    program = folder / "registers"
    subprocess.run(["go", "build", "-o", str(program), "."], cwd=PROGRAM, check=True)
    return program
