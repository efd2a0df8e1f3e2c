"""Results of test programs, as they tell them: counts, which tests failed, and with which command those run alone.

Not here: running them, and what becomes of a failed test (tests/run). Only the standard library is used, since that
reads this file before there is an environment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final


@dataclass
class Result:
    """The result of a part."""

    passed: int = 0
    failed: int = 0


def total(results: Iterable[Result]) -> Result:
    """The sum."""
    every = list(results)
    return Result(sum(result.passed for result in every), sum(result.failed for result in every))


def counted(output: str, status: int) -> Result:
    """Adds up every "N passed, N failed" of a program's output, in whatever order and company the words stand."""
    result = Result()
    for line in output.splitlines():
        if re.search(r"\d+ (passed|failed|errors?)\b", line) and not line.startswith(("FAILED", "ERROR")):
            result.passed += sum(map(int, re.findall(r"(\d+) passed", line)))
            result.failed += sum(map(int, re.findall(r"(\d+) (?:failed|errors?)\b", line)))
    if status != 0 and result.failed == 0:
        result.failed = 1  # it broke down, or hung, without a count
    return result


def closing(output: str) -> str:
    """The line in which pytest counts, if it came to its end. The output of a failed test may say anything."""
    lines = [line for line in output.splitlines() if re.search(r" in \d+\.\d+s( \(.*\))?=*$", line.strip())]
    return lines[-1] if lines else ""


@dataclass
class Recorded:
    """The results of tests in pytest's record (tests/conftest.py)."""

    became: dict[str, str] = field(default_factory=dict)
    """By name: passed, failed, error before or behind it, skipped; chosen, where it did not come to its end."""
    theirs: set[str] = field(default_factory=set)
    """The failed ones in which nats-server alone took part."""

    def names(self, *words: str) -> list[str]:
        """The names of the tests that became so."""
        return [name for name, word in self.became.items() if word in words]


def recorded(path: Path) -> Recorded:
    """Reads a record; an empty one where pytest did not come to its first test."""
    found = Recorded()
    for line in path.read_text().splitlines() if path.exists() else []:
        word, _, name = line.partition(" ")
        if word == "theirs":
            found.theirs.add(name)
        else:
            found.became[name] = word
    return found


@dataclass
class Failure:
    """A program of a part that failed."""

    command: list[str]
    output: str
    count: int  # of tests
    again: list[str] | None = None  # the command that runs a C test alone
    environment: dict[str, str] = field(default_factory=dict)  # of that command
    names: list[str] = field(default_factory=list)  # of the promises of a C test
    passed: int = 0  # promises of that C test that were kept, and are tried again with the others
    record: Recorded | None = None  # of pytest, where that was it
    missing: list[str] = field(default_factory=list)  # of the count, tests that did not run

    def tests(self) -> list[str]:
        """The names of what failed."""
        found = self.record.names("failed", "error", "chosen") if self.record else self.names
        return [name for name in found if name not in self.missing]


@dataclass
class Alone:
    """The result of a failure that was tried alone."""

    passed: int = 0
    failed: int = 0
    told: list[tuple[str, str]] = field(default_factory=list)  # how it passed, and which test
    again: list[str] = field(default_factory=list)  # what failed then, too

    def add(self, how: str, name: str) -> None:
        """One that has passed."""
        self.passed += 1
        self.told.append((how, name))


ONCE: Final = "passed only when alone"
TWICE: Final = "passed only when alone for the second time, nats-server having failed by itself at the first"


def tried_promises(failure: Failure, status: int, output: str) -> Alone:
    """Judged by the C test's result then: all of its promises count as kept, or none of those that had failed."""
    if status != 0:
        return Alone(failed=failure.count, again=failure.tests())
    kept = counted(output, status).passed - failure.passed
    return Alone(kept, told=[(ONCE, name) for name in failure.tests()])


def tried_tests(failure: Failure, run: Callable[[list[str]], Recorded]) -> Alone:
    """Tests of Python, each for itself. `run` runs those of these names in a pytest. One that fails again has failed,
    but for a test in which nats-server alone took part until it failed, both times: that is tried once more."""
    assert failure.record is not None
    before = failure.record
    alone = run([*failure.tests(), *failure.missing])
    theirs = [name for name in failure.tests() if name in before.theirs & alone.theirs]
    once_more = run(theirs) if theirs else Recorded()
    found = Alone()
    for name in failure.tests():
        # One with an error before it began may be skipped: what went wrong was not its own.
        passing = ("passed", "skipped") if before.became[name] == "error" else ("passed",)
        if alone.became.get(name) in passing:
            found.add(ONCE, name)
        elif once_more.became.get(name) == "passed":
            found.add(TWICE, name)
        else:
            found.again.append(name)
    found.passed += sum(alone.became.get(name) == "passed" for name in failure.missing)
    found.again += [name for name in failure.missing if alone.became.get(name) not in ("passed", "skipped")]
    found.failed = len(found.again)
    return found


@dataclass
class Program:
    """The result of a C test."""

    name: str
    passed: int  # of its promises
    failed: list[str]  # promises, or how it ended where none of them failed
    output: str
    reported: bool  # by a sanitizer


def programs(logs: Path) -> list[Program]:
    """The C tests of meson's last run, by its notes of them, of whose name a wrapper is part."""
    found = []
    for path in sorted(logs.glob("testlog*.json")):
        for line in path.read_text(errors="replace").splitlines():
            noted = json.loads(line)
            name = re.split(r"[:/] *", noted["name"])[-1]  # behind those of the project and its suite
            output = noted.get("stdout", "") + noted.get("stderr", "")
            failed = [] if noted["result"] == "OK" else ended(output) or [noted["result"]]
            named = [f"{name}: {one}" for one in failed]
            found.append(Program(name, counted(output, 0).passed, named, output, bool(reports(output))))
    return found


def ended(output: str) -> list[str]:
    """The promises that failed in a C test; what a sanitizer says in short, if none did."""
    promises = re.findall(r"^FAILED  (.*)$", output, re.MULTILINE)
    return promises or reports(output)[:1]


def reports(output: str) -> list[str]:
    """The reports of sanitizers, in short."""
    return re.findall(r"^SUMMARY: (.*)$", output, re.MULTILINE)
