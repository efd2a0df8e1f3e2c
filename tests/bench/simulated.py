"""The simulator of boxes (boxes/, in C) as Python drives it: started, told what to do, its figures awaited.

Not here: what is measured with it (fleet.py).
"""

from __future__ import annotations

import contextlib
import functools
import json
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

HERE = Path(__file__).resolve().parent
WAIT_SECONDS_MAX = 300.0


@dataclass(frozen=True)
class Seen:
    """What all boxes together have seen since they were started, at a moment of the monotonic clock."""

    at: float
    up: int
    """Links that are up now."""
    whole: int
    """Boxes with exactly one consumer that is wanted, which has delivered everything."""
    made: int
    deleted: int
    expired: int
    delivered: int
    unwanted: int
    """Answers to which nobody listened."""
    told: int
    """Lines LS+ of the hub."""
    untold: int
    """Lines LS-."""
    bytes: int
    closed: int
    refused: int
    away: int
    """Times that a box was told when to come again, which it then does."""


@functools.cache
def program() -> Path:
    """Compiles the simulator, once a run."""
    made = Path(tempfile.mkdtemp(prefix="leafd-bench-boxes-")) / "boxes"
    sources = sorted(str(path) for path in (HERE / "boxes").glob("*.c"))
    words = ["cc", "-D_GNU_SOURCE", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(made)]
    subprocess.run([*words, *sources, "-lssl", "-lcrypto"], check=True)
    return made


class Boxes:
    """So many simulated boxes in a process of their own. ports: of the servers that they dial in turn."""

    def __init__(self, ports: int | Sequence[int], count: int, **settings: object) -> None:
        words = [str(program()), "--count", str(count)]
        for port in [ports] if isinstance(ports, int) else ports:
            words += ["--port", str(port)]
        for name, value in settings.items():
            words += ["--" + name.replace("_", "-"), *([] if value is True else [str(value)])]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._news = threading.Condition()
        self._seen: Seen | None = None
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        names = {field.name for field in fields(Seen)}
        for line in self._process.stdout:
            said = json.loads(line)
            with self._news:
                self._seen = Seen(**{name: said[name] for name in names})
                self._news.notify_all()
        with self._news:
            self._news.notify_all()

    def wait(self, until: Callable[[Seen], bool], seconds: float = WAIT_SECONDS_MAX) -> Seen:
        """The first figures of which that holds. Raises TimeoutError with the last ones."""
        deadline = time.monotonic() + seconds
        with self._news:
            while self._seen is None or not until(self._seen):
                if self._process.poll() is not None:
                    raise RuntimeError(f"the simulator ended with {self._process.returncode}")
                left = deadline - time.monotonic()
                if left <= 0 or not self._news.wait(left):
                    raise TimeoutError(f"not within {seconds:g} s: {self._seen}")
            return self._seen

    def tell(self, command: str) -> Seen:
        """Has a command carried out, and gives the figures behind it."""
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        begun = time.monotonic()
        return self.wait(lambda seen: seen.at > begun)

    def fall_silent(self) -> None:
        """Not one of them says anything any more, and no connection ends. Only end() comes after it."""
        self._process.send_signal(signal.SIGSTOP)

    def settled(self, seconds: float = 1.0) -> Seen:
        """The figures when the hub has said nothing to any box for so long, heartbeats' answers aside."""
        last, since = self.wait(lambda _seen: True), time.monotonic()
        while time.monotonic() - since < seconds:
            time.sleep(0.05)
            now = self.wait(lambda _seen: True)
            if (now.told, now.untold, now.up, now.made) != (last.told, last.untold, last.up, last.made):
                last, since = now, time.monotonic()
        return self.wait(lambda _seen: True)

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.send_signal(signal.SIGCONT)
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()


@contextlib.contextmanager
def simulated(ports: int | Sequence[int], count: int, **settings: object) -> Iterator[Boxes]:
    """Boxes, ended when the block is left."""
    boxes = Boxes(ports, count, **settings)
    try:
        yield boxes
    finally:
        boxes.end()
