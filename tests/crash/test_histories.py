"""The judge of histories (histories/) finds what is wrong with one, and lets pass what is not.

Servers under faults are a command of their own: python -m tests.crash.histories. The registers' judge needs a Go
compiler, and its test is left out unless LEAFD_HISTORIES is set.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.crash.histories.aging import Aged
from tests.crash.histories.clocks import Clock, before, built
from tests.crash.histories.judge import Counted, Verdict, build, judged, miscounted, silences
from tests.crash.histories.pulling import Delivery, delivery
from tests.crash.histories.workload import CONSUMERS, Append, History, Touch
from tests.servers import LEAFD


def append(number: int, call: int, answered: int = 0, seq: int = 0, refused: str = "") -> Append:
    return Append("n.0", number, call, answered, seq, refused)


GOOD = [append(0, 10, 20, 1), append(1, 15, 30, 2), append(2, 40, 50, 4), append(3, 40), append(4, 60, 70, refused="x")]
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


# ---- batches and counters --------------------------------------------------------------------------------------------

BATCH = [replace(append(number, 10, 20, number), batch="b") for number in (5, 6, 7)]
IN_DOUBT = [replace(one, answered=0, seq=0) for one in BATCH]


def test_a_batch_that_is_there_in_part_or_with_others_between_is_found() -> None:
    assert verdict(BATCH, {5: 5, 6: 6, 7: 7}).good
    assert verdict(IN_DOUBT, {}).good
    assert verdict(IN_DOUBT, {5: 2, 6: 3, 7: 4}).good
    assert verdict(IN_DOUBT, {5: 2, 6: 3}).torn == ["b"]
    assert verdict(IN_DOUBT, {5: 2, 6: 3, 7: 5}).torn == ["b"]


ADDED = [
    Append("k.0", 5, 10, 20, 1, value=5),
    Append("k.0", 7, 10, 20, 3, value=12),
    Append("k.1", 6, 10),
    Append("k.1", 8, 10, 20, refused="x"),
]
ROWS = [Counted("k.0", 1, 5, 5), Counted("k.1", 2, 6, 6), Counted("k.0", 3, 7, 12)]


def test_a_sum_that_is_not_that_of_what_was_added_is_found() -> None:
    assert miscounted(ADDED, ROWS) == []
    assert miscounted(ADDED, [ROWS[0], replace(ROWS[2], seq=2)]) == [7], "at another sequence"
    assert miscounted(ADDED, ROWS[:2]) == [7], "acknowledged, and not there"
    assert miscounted(ADDED, [*ROWS[:2], replace(ROWS[2], value=13)]) == [7, 7], "another sum"
    assert miscounted(ADDED, [*ROWS, Counted("k.1", 4, 6, 12)]) == [6], "twice"
    assert miscounted(ADDED, [*ROWS, Counted("k.1", 4, 8, 14)]) == [8], "refused"
    assert miscounted(ADDED, [*ROWS, Counted("k.1", 4, 9, 15)]) == [9], "by nobody"


# ---- what ages -------------------------------------------------------------------------------------------------------


def test_a_message_that_is_gone_before_its_time_is_found() -> None:
    """One may be gone as soon as its life is over, counted from when it was published; and all have to be."""
    second = 10**9
    aged = [Aged(1, second, 8), Aged(2, second, 8, 9 * second), Aged(3, second, 20, 20 * second)]
    found = judged(History(appends=GOOD, aged=aged), STORED, Counter(STORED.keys()), None)
    assert found.early == [3]
    assert not found.good
    assert judged(History(appends=GOOD, aged=aged[:2]), STORED, Counter(STORED.keys()), None).good
    assert not Verdict(old=1).good


# ---- consumers -------------------------------------------------------------------------------------------------------

H, Q = CONSUMERS["H"], CONSUMERS["Q"]
PULLED = [
    Delivery("H", 0, 1, 25, 35),
    Delivery("H", 1, 2, 30),
    Delivery("H", 1, 2, 50, 60),
    Delivery("H", 2, 4, 55, 70),
]


def consumed(deliveries: list[Delivery]) -> Verdict:
    history = History(appends=GOOD, deliveries=deliveries, consumers=[H])
    return judged(history, STORED, Counter(STORED.keys()), None)


def test_what_is_delivered_again_before_its_acknowledgement_is_confirmed_is_good() -> None:
    assert consumed(PULLED).good
    assert consumed([*PULLED, Delivery("H", 0, 1, 34)]).good, "asked for before, arrived whenever"


def test_a_number_that_is_delivered_to_nobody_is_found() -> None:
    assert consumed(PULLED[:3]).undelivered == [2]
    assert consumed([]).undelivered == [0, 1, 2]


def test_a_number_that_is_asked_for_and_comes_after_its_confirmed_acknowledgement_is_found() -> None:
    assert consumed([*PULLED, Delivery("H", 0, 1, 36)]).again == [0]


def test_a_number_that_is_delivered_and_not_in_the_stream_is_found() -> None:
    assert consumed([*PULLED, Delivery("H", 4, 5, 80)]).phantoms == [4]
    assert consumed([*PULLED, Delivery("H", 3, 2, 80)]).phantoms == [3], "at another sequence"
    for stream in ("H", "Q"):
        assert consumed([*PULLED, delivery(stream, b"v3", 2, 80)]).phantoms == [-2], "a register's value, and no number"
        assert delivery(stream, b"3", 2, 80) == Delivery(stream, 3, 2, 80)


def test_numbers_of_the_work_queue_are_known_by_deliveries_alone() -> None:
    queued = [Append("q", 7, 10, 20, 1), Append("q", 8, 15, 30, 2)]
    history = History(appends=[*GOOD, *queued], consumers=[Q])
    history.deliveries = [Delivery("Q", 7, 1, 40, 50)]
    found = judged(history, STORED, Counter(STORED.keys()), None)
    assert (found.lost, found.undelivered) == ([], [8])


def test_the_longest_silence_is_told_with_and_without_times_of_several_faults() -> None:
    seconds = [1, 2, 9, 10, 15]
    history = History(appends=[append(number, 0, one * 10**9, number + 1) for number, one in enumerate(seconds)])
    assert silences(history, []) == (7.0, 7.0)
    assert silences(history, [(3.0, 4.0)]) == (7.0, 5.0)
    assert silences(history, [(3.0, 4.0), (12.0, 20.0)]) == (7.0, 1.0)


def test_a_clock_that_steps_is_what_a_program_reads_and_elapsed_time_is_not(tmp_path: Path) -> None:
    clock = Clock(tmp_path / "clock")
    text = "import time; print(time.time(), time.clock_gettime(time.CLOCK_BOOTTIME))"
    line = [*before(LEAFD, built(LEAFD, tmp_path), clock), sys.executable, "-c", text]
    for ahead_s in (7200, -86_400, 0):
        clock.step_to(ahead_s)
        wall, elapsed = time.time(), time.clock_gettime(time.CLOCK_BOOTTIME)
        said = [float(word) for word in subprocess.run(line, capture_output=True, check=True).stdout.split()]
        assert 0 <= said[0] - ahead_s - wall < 30
        assert 0 <= said[1] - elapsed < 30


# ---- registers -------------------------------------------------------------------------------------------------------


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
