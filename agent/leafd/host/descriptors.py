"""File descriptors: as many as the system grants, and how many connections they are enough for.

The hard limit is taken in full at the start. What the rest of the process may need at its busiest (the store,
monitoring, a reload's files, links that dial, connections that are told "too many") is set aside, so that no number of
clients can take the last descriptor from a checkpoint, an import or a log file. Not here: refusing
connections (the plane).
"""

from __future__ import annotations

import resource
from typing import Final

RESERVED: Final = 128
LEAST: Final = 16
"""Connections that are admitted even where descriptors are scarcer than this module thinks decent."""


def raise_limit() -> int:
    """Takes what the hard limit allows; how many descriptors the process may have open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):
            return _count(soft)  # A container may forbid it; what is granted is enough to start.
    return _count(hard)


def _count(limit: int) -> int:
    return 1 << 30 if limit == resource.RLIM_INFINITY else limit


def connections_for(wanted: int, descriptors: int | None = None) -> int:
    """How many connections to allow of those that the configuration wants (0: as many as possible)."""
    limit = _count(resource.getrlimit(resource.RLIMIT_NOFILE)[0]) if descriptors is None else descriptors
    room = max(limit - RESERVED, LEAST)
    return min(wanted, room) if wanted > 0 else min(room, 1 << 31)


def warning(wanted: int, bound: str = "max_connections") -> str:
    """The warning about too few descriptors; empty: there are enough. bound: the key that allows as many as are
    wanted."""
    allowed = connections_for(wanted)
    if allowed >= wanted:
        return ""
    limit = _count(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    return (
        f"{bound} allows {wanted} connections, but {limit} file descriptors (RLIMIT_NOFILE) are enough for {allowed}: "
        "raise the limit (LimitNOFILE= of the systemd unit, or ulimit -n) for more"
    )
