"""How long a server takes for something, on a machine that others keep busy as well.

    watch = Stopwatch(server)
    client.ask(...)
    assert watch.seconds() < 0.5

Linux counts for each thread how long it could have run and had no processor (schedstat). These times are taken off:
those of the thread that asks, and those of the server's two that answer, its control and its plane. On a quiet machine
they are next to nothing, and a server that makes somebody wait for another client has no part in them. Not here:
patience with what only has to happen (waiting.py), processor time (tests/bench).
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

from tests.servers import LEAFD, Server


class Stopwatch:
    """Runs from when it is made. server: the one that is asked, if it is a leafd that runs."""

    def __init__(self, server: Server | None = None) -> None:
        own = Path(f"/proc/self/task/{threading.get_native_id()}")
        self._tasks = [own, *([] if server is None else threads(server))]
        self._waited_s = self._waits_s()
        self._began_s = time.monotonic()

    def seconds(self) -> float:
        """Since it was made, without the waits for a processor."""
        passed_s = time.monotonic() - self._began_s
        return max(passed_s - (self._waits_s() - self._waited_s), 0.0)

    def _waits_s(self) -> float:
        return sum(map(waited_s, self._tasks))


def threads(server: Server) -> list[Path]:
    """The places in /proc of leafd's control thread and its plane; nats-server has no such threads."""
    if server.kind != LEAFD:
        return []
    assert server.process is not None
    return [Path(f"/proc/{server.process.pid}/task/{server.process.pid}"), server.plane_task()]


def waited_s(task: Path) -> float:
    """How long a thread could have run and had no processor, since it began."""
    return int((task / "schedstat").read_text().split()[1]) / 1e9
