"""How long the control thread was busy with one thing: the longest turn since the start and of the last minute.

A turn is one step of one task, from its wake-up to its next wait; nobody else is served meanwhile. Two clocks: the time
on the wall, and this thread's CPU time, which tells work from waiting (for the interpreter, a disk, the machine's
other programs). Reading the CPU clock is a system call, and turns are far shorter than it is worth: it is read once a
millisecond at most and after a long turn, so a turn's CPU time is an upper bound, too large by at most that
millisecond. Not here: keeping turns short (turns.py).
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any, Final

import trio

from leafd.operator_log import Log
from leafd.records import dataclass

LONG_S: Final = 0.1
"""A turn that is worth a line in the log."""
_COMPLAIN_EVERY_S: Final = 60.0
_CPU_READ_S: Final = 0.001
_SPAN_S: Final = 10.0
_SPANS: Final = 6


@dataclass(slots=True)
class Longest:
    """The longest turns of a span of time, in seconds, and where the one on the wall was."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    place: str = ""

    def take(self, other: Longest) -> None:
        """Becomes the longer of both."""
        if other.wall_s > self.wall_s:
            self.wall_s, self.place = other.wall_s, other.place
        self.cpu_s = max(self.cpu_s, other.cpu_s)


class Gauge(trio.abc.Instrument):
    """An instrument for trio.run()."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._began = 0.0
        self._cpu_read = 0.0
        self._cpu = 0.0
        self._longest = Longest()
        self._spans: deque[tuple[int, Longest]] = deque([(0, Longest())], _SPANS)
        self._span_ends = 0.0
        self._noteworthy_s = 0.0
        self._complaint = -_COMPLAIN_EVERY_S
        self.long_turns = 0

    def begin(self) -> None:
        """The server is ready: what the start took is forgotten."""
        self._longest = Longest()
        self._spans.clear()
        self._spans.append((0, Longest()))
        self._span_ends = self._noteworthy_s = 0.0
        self.long_turns = 0
        # The turn that calls this was part of the start.
        self._began = self._cpu_read = time.perf_counter()
        self._cpu = time.thread_time()

    # ---- called by trio around every step of every task

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """A turn begins."""
        began = self._began = time.perf_counter()
        if began - self._cpu_read > _CPU_READ_S:
            self._cpu_read = began
            self._cpu = time.thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """Ends the measurement of a task's step."""
        now = time.perf_counter()
        # No turn has more CPU time than time on the wall, so a shorter one cannot be the longest by either clock.
        if now - self._began > self._noteworthy_s or now > self._span_ends:
            self._note(task, now)

    def _note(self, task: trio.lowlevel.Task, now: float) -> None:
        if now > self._span_ends:
            self._span_ends = now + _SPAN_S
            self._spans.append((int(now / _SPAN_S), Longest()))
        span = self._spans[-1][1]
        wall_s, cpu = now - self._began, time.thread_time()
        turn = Longest(wall_s, min(wall_s, cpu - self._cpu), place(task) if wall_s > span.wall_s else "")
        self._cpu_read, self._cpu = now, cpu
        span.take(turn)
        self._longest.take(turn)
        self._noteworthy_s = min(span.cpu_s, LONG_S)
        if wall_s > LONG_S:
            self.long_turns += 1
            if now - self._complaint > _COMPLAIN_EVERY_S:
                self._complaint = now
                self._log.warning(
                    f"A turn of the control thread took {wall_s * 1000:.0f} ms and {turn.cpu_s * 1000:.0f} ms of "
                    f"processor time, in {turn.place or place(task)}: other turns waited ({self.long_turns} such turns "
                    "so far)"
                )

    # ---- read by monitoring

    def report(self) -> dict[str, Any]:
        """The part of varz about turns, in milliseconds."""
        minute = Longest()
        oldest = int(time.perf_counter() / _SPAN_S) - _SPANS
        for span, longest in self._spans:
            if span >= oldest:
                minute.take(longest)
        return {
            "longest_turn_ms": _ms(self._longest.wall_s),
            "longest_turn_cpu_ms": _ms(self._longest.cpu_s),
            "longest_turn_place": self._longest.place,
            "longest_turn_minute_ms": _ms(minute.wall_s),
            "longest_turn_minute_cpu_ms": _ms(minute.cpu_s),
            "longest_turn_minute_place": minute.place,
            "long_turns": self.long_turns,
        }


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)


def place(task: trio.lowlevel.Task) -> str:
    """The task, and where in our code it waits now: behind the work that took so long."""
    found = ""
    coroutine: Any = task.coro
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None)
        if frame is None:
            break
        module = frame.f_globals.get("__name__", "")
        if module.startswith("leafd"):
            found = f"{module}.{frame.f_code.co_name}:{frame.f_lineno}"
        coroutine = coroutine.cr_await
    name = task.name.rpartition(".")[2]
    return f"{name} at {found}" if found else name
