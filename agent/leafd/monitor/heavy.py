"""How much memory a report may take while it is made and sent: estimated from what there is, before it is begun.

Not here: the share that it is taken from (holding.py), the reports.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qs

from leafd.monitor.facts import Facts
from leafd.monitor.subscriptions import ROWS_MAX

CONNECTION: Final = 1 << 10
SUBSCRIPTION: Final = 512
DEFINITION: Final = 4 << 10
"""A stream or consumer, which is shown with its configuration."""
SHOWS_SUBSCRIPTIONS: Final = ("/connz", "/leafz", "/subsz", "/subscriptionsz")


def weight(facts: Facts, path: str, target: bytes) -> int:
    """The size of the report at that path, in bytes."""
    if path not in (*SHOWS_SUBSCRIPTIONS, "/jsz", "/accountz", "/accstatz", "/boxz"):
        return 0
    stats = facts.plane.stats()
    if path == "/boxz":
        return CONNECTION * stats.connections
    if path in ("/accountz", "/accstatz"):
        return CONNECTION * (stats.connections + len(facts.graph.by_id))
    if path == "/jsz":
        return DEFINITION * (stats.streams + stats.consumers)
    asked = parse_qs(target.decode("latin-1").partition("?")[2], keep_blank_values=True)
    listed = min(stats.subscriptions, ROWS_MAX) if "subs" in asked or "subscriptions" in asked else 0
    return CONNECTION * stats.connections + SUBSCRIPTION * listed
