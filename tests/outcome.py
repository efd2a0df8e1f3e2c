"""What programs of tests say that they came to: counts, which tests failed, and with which command those run alone.

Not here: running them, and what becomes of a failed test (tests/run). Only the standard library is used, since that
reads this file before there is an environment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Result:
    """What a part came to."""

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
class Failure:
    """A program of a part that failed."""

    command: list[str]
    output: str
    count: int  # of tests
    again: list[str] | None = None  # the command that runs the failed tests alone
    missing: int = 0  # of the count, those that did not run
    environment: dict[str, str] = field(default_factory=dict)  # of that command
    names: list[str] = field(default_factory=list)  # of a C test, whose output names them otherwise than pytest's
    passed: int = 0  # promises of that C test that were kept, and are tried again with the others

    def tests(self) -> list[str]:
        """The names of the failed tests."""
        if self.names:
            return self.names
        names = [name for _, name in self._told()]
        return (names + ["a test without a name"] * self.count)[: self.count - self.missing]

    def _told(self) -> list[tuple[str, str]]:
        """By pytest's summary: FAILED, or ERROR where that was in a set-up or tear-down; the name of the test."""
        return re.findall(r"^(FAILED|ERROR) (\S+::.*?)(?: - .*)?$", self.output, re.MULTILINE)

    def passed_again(self, status: int, output: str) -> int | None:
        """How many tests have passed that had not, by what the command `again` came to; None if not all did."""
        if self.names:
            return counted(output, status).passed - self.passed if status == 0 else None
        result = counted(closing(output), status)
        skipped = sum(map(int, re.findall(r"(\d+) skipped", closing(output))))
        # Exactly those that failed, or it is not known what passed. Those that did not run may be skipped, and count
        # for nothing. So may those with an error before they began: what went wrong in a test that is not for this
        # machine was not its own, and it counts as one that passes when alone.
        errors = sum(word == "ERROR" for word, _ in self._told())
        alike = result.passed + skipped == self.count and skipped <= self.missing + errors
        return result.passed + max(0, skipped - self.missing) if alike and result.failed == 0 else None


@dataclass
class Program:
    """What a C test came to."""

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
    """What sanitizers have said, in short."""
    return re.findall(r"^SUMMARY: (.*)$", output, re.MULTILINE)
