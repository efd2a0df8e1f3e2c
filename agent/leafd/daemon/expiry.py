"""Warnings about certificates that have expired or soon will, at the start, after a reload, and daily.

Not here: when a certificate expires (config/tls_files.py), what monitoring shows of it
(monitor/reports.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import trio

from leafd.config.schema.server import ServerConfig
from leafd.guard import Guard
from leafd.operator_log import Log

LOOK_S: Final = 3600.0
"""More often than daily, because a box without a clock battery may learn the time of day long after its start."""
AGAIN_S: Final = 86400.0 - LOOK_S / 2  # about a day: a look comes a moment earlier or later than the one before


def expiring_in(config: ServerConfig, now_s: float | None = None) -> list[str]:
    """A line for each certificate of the configuration that has expired or is about to."""
    return list(dict.fromkeys(line for block in config.tls_blocks() for line in block.expiring(now_s)))


class Expiry:
    """Says the lines of expiring_in() to the log, each of them once a day."""

    def __init__(
        self,
        config: Callable[[], ServerConfig],
        log: Log,
        guard: Guard,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._config = config
        self._log = log
        self._guard = guard
        self._now_s = now_s
        self._told: dict[str, float] = {}

    async def run(self) -> None:
        """Looks from time to time. Cancel to end it."""
        while True:
            with self._guard.around("looking at certificates"):
                await self.look()
            await trio.sleep(LOOK_S)

    async def look(self) -> None:
        """Now, for example after a reload."""
        now = trio.current_time()
        lines = expiring_in(self._config(), self._now_s())
        self._told = {line: at for line, at in self._told.items() if line in lines}
        for line in lines:
            if now - self._told.get(line, -AGAIN_S) >= AGAIN_S:
                self._told[line] = now
                self._log.warning(line, event="certificate_expires")
