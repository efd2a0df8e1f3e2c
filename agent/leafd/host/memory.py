"""How much memory load may take: the limit that is configured, or a share of what this process may have.

Not here: how the limit is divided (native/plane/memory.c), and who keeps to it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from leafd.config.schema.server import MEMORY_LIMIT_MIN, MEMORY_PAYLOADS, ServerConfig

if TYPE_CHECKING:
    from leafd.native_types import Limits  # a start asks for the limit before it has loaded the C extension

_PART: Final = 10
_OWN: Final = 64 << 20
"""An idle process has 24 MB; the rest is for the store's pages, which the kernel takes back when it needs them."""
_CONNECTION: Final = 8 << 10
_GROUPS: Final = Path("/proc/self/cgroup")
_GROUP_ROOT: Final = Path("/sys/fs/cgroup")


def memory_limit(server: ServerConfig, machine: int | None = None) -> int:
    """The bytes that load may take. machine: bytes of memory that there are, None: of this machine."""
    if server.memory_limit is not None:
        return server.memory_limit
    share = (machine_bytes() if machine is None else machine) // _PART
    return max(share, MEMORY_LIMIT_MIN, MEMORY_PAYLOADS * server.max_payload)


def connections_wanted(server: ServerConfig, limit: int) -> int:
    """How many connections the server is to hold with that memory_limit; 0: as many as it can. A number that is
    configured counts as it is.
    The default's 65,536 are for machines with that much memory: others have one for each 8 KB of the limit, which is
    what a login with the longest name takes."""
    if "max_connections" in server.given:
        return max(server.max_connections, 0)
    return min(server.max_connections, limit // _CONNECTION)


def allowed_by(server: ServerConfig, limit: int) -> tuple[str, int]:
    """The key that bounds the connections, and their number (0: none does)."""
    wanted = connections_wanted(server, limit)
    return ("memory_limit" if 0 < wanted < server.max_connections else "max_connections"), wanted


def machine_bytes() -> int:
    """The memory of the machine, or what a control group leaves of it to this process."""
    own = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([own, *group_limits()])


def needed(limits: Limits) -> int:
    """The memory that a control group should have (MemoryMax= of a unit): the process, what load may take, memory
    streams, and room for pages of the store."""
    return _OWN + limits.memory_limit + limits.max_memory_store


def warning(limits: Limits, groups: Iterable[int] | None = None) -> str:
    """The warning about a control group's limit; empty: the limit is large enough, or there is none."""
    least = min(group_limits() if groups is None else groups, default=0)
    if not least or needed(limits) <= least:
        return ""
    return (
        f"the control group's memory limit (MemoryMax=) is {least >> 20} MB, but memory_limit "
        f"({limits.memory_limit >> 20} MB), max_memory_store ({limits.max_memory_store >> 20} MB) and leafd itself "
        f"({_OWN >> 20} MB) may come to more: raise it, or lower those"
    )


def group_limits(groups: Path = _GROUPS, root: Path = _GROUP_ROOT) -> list[int]:
    """The memory limits of this process's control group and of those around it, of either version of cgroups."""
    found = []
    for line in _text(groups).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers not in ("", "memory"):
            continue
        base, name = (root / "memory", "memory.limit_in_bytes") if controllers else (root, "memory.max")
        inside = Path(path.lstrip("/"))
        found += [_text(base / place / name).strip() for place in (inside, *inside.parents)]
    return [int(limit) for limit in found if limit.isdigit()]


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
