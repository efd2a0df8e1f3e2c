"""What a history must be, whatever failed meanwhile: acknowledged numbers are in the stream, once, at the sequence that
the acknowledgement names, in the order in which they were acknowledged; registers changed as if one after the other.
Of a batch all numbers are there, one behind the other, or none. A counter's value is what was added to it, each once,
and what was acknowledged is in it with the value that the acknowledgement names. A consumer has delivered each number
of its subject that was acknowledged to the publisher, and none that a client asks for after its own acknowledgement
was confirmed. A work queue is empty when all are acknowledged.

The order of registers is searched by porcupine (porcupine/main.go), which others made. Not here: what clients saw
(workload.py).
"""

from __future__ import annotations

import bisect
import itertools
import subprocess
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.crash.histories.workload import CONSUMERS, Append, History

PROGRAM: Final = Path(__file__).parent / "porcupine"


@dataclass(frozen=True)
class Counted:
    """A message of a counter: what it added, and the sum."""

    subject: str
    seq: int
    number: int
    value: int


@dataclass
class Verdict:
    """Counts; all but the first six are faults of the servers."""

    numbers: int = 0
    acknowledged: int = 0
    changes: int = 0
    delivered: int = 0
    confirmed: int = 0
    silence_s: tuple[float, float] = (0.0, 0.0)
    """The longest time without any acknowledgement of a number, and the longest while one server at most was at
    fault."""
    lost: list[int] = field(default_factory=list)
    doubled: list[int] = field(default_factory=list)
    misplaced: list[int] = field(default_factory=list)
    """Acknowledged with another sequence than they have."""
    disordered: list[int] = field(default_factory=list)
    """Published after another one was acknowledged, and before it in the stream."""
    foreign: list[int] = field(default_factory=list)
    """In the stream, and refused."""
    torn: list[str] = field(default_factory=list)
    """Batches of which a part is there, or that others stand in."""
    batches: int = 0
    """Acknowledged."""
    miscounted: list[int] = field(default_factory=list)
    """Added to a counter: acknowledged and not in it, in it twice or with another sum, or refused and in it."""
    added: int = 0
    """Acknowledged."""
    undelivered: list[int] = field(default_factory=list)
    """Acknowledged, and delivered to nobody."""
    again: list[int] = field(default_factory=list)
    """Delivered to a pull that was asked for after their acknowledgement was confirmed."""
    phantoms: list[int] = field(default_factory=list)
    """Delivered, and not in the stream, or with another sequence."""
    left: int = 0
    """In the work queue at the end."""
    early: list[int] = field(default_factory=list)
    """Sequences of messages that aged too soon."""
    old: int = 0
    """Messages that did not age."""
    helped: int = 0
    """Servers that had to be started again by hand."""
    registers: str = ""
    differ: str = ""
    """What one server has and another has not."""

    @property
    def good(self) -> bool:
        numbers = (self.lost, self.doubled, self.misplaced, self.disordered, self.foreign, self.torn, self.miscounted)
        consumed = (self.undelivered, self.again, self.phantoms, self.left, self.early, self.old)
        return not any((*numbers, *consumed, self.registers, self.differ))

    def row(self, name: str) -> str:
        """As a line of a table."""
        counts = [self.lost, self.doubled, self.misplaced, self.disordered, self.foreign]
        consumed = [self.undelivered, self.again, self.phantoms]
        cells = [name, self.numbers, self.acknowledged, *map(len, counts), self.confirmed, *map(len, consumed)]
        cells += [self.left, len(self.early), self.old, self.changes]
        cells += [self.registers or "one order", self.differ or "equal"]
        cells += [self.batches, len(self.torn), self.added, len(self.miscounted), self.helped]
        cells += [" / ".join(f"{one:.1f}" for one in self.silence_s)]
        return "| " + " | ".join(map(str, cells)) + " |"


HEAD: Final = (
    "| servers | numbers | acknowledged | lost | doubled | elsewhere | out of order | refused, there | consumed | "
    "undelivered | again | phantoms | left | aged early | not aged | changes | registers | servers at the end | "
    "batches | torn | added | miscounted | started by hand | longest silence, s |\n" + "|---" * 24 + "|"
)


def judged(
    history: History,
    stored: dict[int, int],
    counted: Counter[int],
    program: Path | None,
    counters: Iterable[Counted] = (),
) -> Verdict:
    """stored: sequence of each number that the stream has at the end; counted: how often it has each; counters: all
    that those have. program: the judge of registers, None: they are not judged."""
    kept = [one for one in history.appends if one.subject != CONSUMERS["Q"].subject]
    known = [one for one in kept if one.seq]
    changes = sum(one.change and one.done == "yes" for one in history.touches)
    verdict = Verdict(len(history.appends), sum(one.seq > 0 for one in history.appends), changes)
    verdict.lost = [one.number for one in known if one.number not in stored]
    verdict.doubled = [number for number, count in counted.items() if count > 1]
    there = [one for one in known if one.number in stored]
    verdict.misplaced = [one.number for one in there if stored[one.number] != one.seq]
    verdict.disordered = disordered(there)
    verdict.foreign = [one.number for one in history.appends if one.refused and one.number in stored]
    verdict.torn, verdict.batches = torn(kept, stored), len({one.batch for one in known if one.batch})
    verdict.miscounted = miscounted(history.added, counters)
    verdict.added = sum(one.seq > 0 for one in history.added)
    verdict.early = [one.seq for one in history.aged if one.early]
    _judge_consumers(history, stored, verdict)
    if program is not None:
        done = subprocess.run([program], input=history.touched(), capture_output=True, timeout=1800)
        verdict.registers = "" if done.returncode == 0 else "; ".join((done.stdout + done.stderr).decode().splitlines())
    return verdict


def torn(appends: Iterable[Append], stored: dict[int, int]) -> list[str]:
    """Batches that are neither whole nor absent."""
    found, batches = list[str](), dict[str, list[int]]()
    for one in appends:
        if one.batch:
            batches.setdefault(one.batch, []).append(stored.get(one.number, 0))
    for batch, seqs in batches.items():
        whole = all(seqs) and seqs == list(range(seqs[0], seqs[0] + len(seqs)))
        if any(seqs) and not whole:
            found.append(batch)
    return found


def miscounted(added: Iterable[Append], counters: Iterable[Counted]) -> list[int]:
    """Numbers that are not in their counter as they should be. counters: what is stored, in its order."""
    found, there, sums = list[int](), dict[int, Counted](), Counter[str]()
    for row in counters:
        sums[row.subject] += row.number
        if row.number in there or row.value != sums[row.subject]:
            found.append(row.number)
        there[row.number] = row
    known = dict[int, Append]()
    for one in added:
        known[one.number] = one
        row_of = there.get(one.number)
        if (one.seq and (row_of is None or (row_of.seq, row_of.value) != (one.seq, one.value))) or (
            one.refused and row_of is not None
        ):
            found.append(one.number)
    return [*found, *(number for number, row in there.items() if number not in known)]


def _judge_consumers(history: History, stored: dict[int, int], verdict: Verdict) -> None:
    subjects = {consumer.subject for consumer in history.consumers}
    named = {one.number: one.seq for one in history.appends if one.seq}
    delivered = {one.number for one in history.deliveries}
    first = dict[int, int]()
    for one in history.deliveries:
        if one.confirmed:
            first[one.number] = min(first.get(one.number, one.confirmed), one.confirmed)
    verdict.delivered, verdict.confirmed = len(history.deliveries), len(first)
    known = (one for one in history.appends if one.seq and one.subject in subjects)
    verdict.undelivered = [one.number for one in known if one.number not in delivered]
    verdict.again = [one.number for one in history.deliveries if one.pulled > first.get(one.number, one.pulled)]
    for one in history.deliveries:
        there = stored if one.stream == CONSUMERS["H"].stream else named
        if one.number < 0 or there.get(one.number, one.seq if there is named else 0) != one.seq:
            verdict.phantoms.append(one.number)


def silences(history: History, several: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """The longest time in which no number was acknowledged, and the longest one that has nothing of these times, in
    which several servers were at fault."""
    moments = sorted(one.answered / 1e9 for one in history.appends if one.seq)
    times = sorted(several)
    ends = [end for _, end in times]
    longest, apart = 0.0, 0.0
    for before, after in itertools.pairwise(moments):
        longest = max(longest, after - before)
        at = bisect.bisect_left(ends, before)
        if at == len(times) or times[at][0] > after:
            apart = max(apart, after - before)
    return longest, apart


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
