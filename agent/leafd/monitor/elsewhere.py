"""Servers of other clusters, as far as they tell of themselves in the system account.

    $SYS.SERVER.<id>.STATSZ      that server is there; it says so every 10 s
    $SYS.SERVER.<id>.SHUTDOWN    it ends

A client that asks all servers for a report waits for as many answers as one of them says there are servers. Pure.
Not here: servers of the own cluster, which routes are made with (cluster_report.py).
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from leafd import native_types as t

TOLD: Final = ("$SYS.SERVER.*.STATSZ", "$SYS.SERVER.*.SHUTDOWN")
SILENT_S: Final = 35.0
"""A server that is silent for so long has gone: three times its interval, and a little more."""
SERVERS_MAX: Final = 4096
ID_MAX: Final = 64


class Elsewhere:
    """The servers that were heard of, the one that was silent for longest first."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._heard: OrderedDict[str, float] = OrderedDict()

    def hear(self, message: t.Message) -> bool:
        """Takes what a server tells of itself."""
        _, _, server_id, what, *more = f"{message.subject}...".split(".")
        if what == "SHUTDOWN":
            self._heard.pop(server_id, None)
        elif what == "STATSZ" and 0 < len(server_id) <= ID_MAX and not any(more):
            self._heard[server_id] = self._clock()
            self._heard.move_to_end(server_id)
            if len(self._heard) > SERVERS_MAX:
                self._heard.popitem(last=False)
        return False

    def servers(self) -> frozenset[str]:
        """The ids of those that are there."""
        long_ago = self._clock() - SILENT_S
        while self._heard and next(iter(self._heard.values())) < long_ago:
            self._heard.popitem(last=False)
        return frozenset(self._heard)
