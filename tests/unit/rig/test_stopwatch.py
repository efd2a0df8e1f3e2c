"""What the stopwatch of tests counts, and what it takes off."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

from tests.rig.stopwatch import Stopwatch

WORK_S = 0.3


def test_the_time_of_others_is_counted() -> None:
    """Whoever waits for an answer waits."""
    watch = Stopwatch()
    time.sleep(0.2)
    assert watch.seconds() >= 0.2


def test_a_wait_for_a_processor_is_not() -> None:
    """Beside a program that computes on the same processor, work takes twice its time, and the stopwatch shows it
    once."""
    took: list[tuple[float, float]] = []

    def work() -> None:
        os.sched_setaffinity(0, {processor})  # of this thread
        watch, began = Stopwatch(), time.monotonic()
        while time.thread_time() < WORK_S:
            pass
        took.append((watch.seconds(), time.monotonic() - began))

    processor = min(os.sched_getaffinity(0))
    busy = f"import os; os.sched_setaffinity(0, {{{processor}}}); print(flush=True)\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", busy], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        other.kill()
    ((shown, passed),) = took
    assert passed > 1.5 * WORK_S
    assert 0.9 * WORK_S < shown < 1.4 * WORK_S
