"""The judge of histories (histories/) finds what is wrong with one, and lets pass what is not.

Servers under faults are a command of their own: python -m tests.crash.histories. The registers' judge needs a Go
compiler, and its test is left out unless LEAFD_HISTORIES is set.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.crash.histories.judge import Verdict, build, judged
from tests.crash.histories.workload import Append, History, Touch

GOOD = [Append(0, 10, 20, 1), Append(1, 15, 30, 2), Append(2, 40, 50, 4), Append(3, 40), Append(4, 60, 70, refused="x")]
STORED = {0: 1, 1: 2, 3: 3, 2: 4}


def verdict(appends: list[Append], stored: dict[int, int], doubled: int | None = None) -> Verdict:
    counted = Counter([*stored, *([] if doubled is None else [doubled])])
    return judged(History(appends=appends), stored, counted, None)


def test_a_number_without_an_answer_may_be_there_or_not() -> None:
    assert verdict(GOOD, STORED).good
    assert verdict(GOOD, {number: seq for number, seq in STORED.items() if number != 3}).good


def test_an_acknowledged_number_that_is_gone_is_found() -> None:
    assert verdict(GOOD, {number: seq for number, seq in STORED.items() if number != 1}).lost == [1]


def test_a_number_that_is_there_twice_is_found() -> None:
    assert verdict(GOOD, STORED, doubled=3).doubled == [3]


def test_a_number_with_another_sequence_than_was_acknowledged_is_found() -> None:
    assert verdict(GOOD, {**STORED, 2: 5}).misplaced == [2]


def test_a_refused_number_that_is_there_is_found() -> None:
    assert verdict(GOOD, {**STORED, 4: 5}).foreign == [4]


def test_a_number_before_one_that_was_acknowledged_earlier_is_found() -> None:
    late = [replace(GOOD[0], seq=3), GOOD[1], replace(GOOD[2], seq=1)]
    assert verdict(late, {0: 3, 1: 2, 2: 1}).disordered == [2]


@pytest.fixture(scope="module")
def registers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if "LEAFD_HISTORIES" not in os.environ:
        pytest.skip("LEAFD_HISTORIES is not set: this compiles a program in Go")
    return build(tmp_path_factory.mktemp("registers"))


def read(value: str, call: int, answered: int) -> Touch:
    return Touch(0, 0, False, value, "", call, answered, "yes")


def changed(value: str, call: int, answered: int, done: str = "yes") -> Touch:
    return Touch(0, 0, True, value, "", call, answered, done)


@pytest.mark.parametrize(
    ("touches", "good"),
    [
        ([changed("a", 1, 2), read("a", 3, 4)], True),
        ([changed("a", 1, 2), read("", 3, 4)], False),  # of yesterday
        ([changed("a", 1, 4), read("", 3, 5)], True),  # at the same time
        ([changed("a", 1, 2), changed("b", 3, 4)], False),  # both from one value
        ([changed("a", 1, 2, "no"), read("", 3, 4)], False),  # refused without a reason
        ([changed("a", 1, 0, "unknown"), read("a", 9, 10)], True),  # done after all
        ([changed("a", 1, 0, "unknown"), read("", 9, 10)], True),  # or not
        ([changed("a", 1, 0, "unknown"), read("a", 3, 4), read("", 5, 6)], False),  # once seen, it stays
    ],
)
def test_registers_are_judged(registers: Path, touches: list[Touch], good: bool) -> None:
    assert judged(History(touches=touches), {}, Counter(), registers).good == good
