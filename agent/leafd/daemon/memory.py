"""How much memory load may take: the limit that is configured, or a share of what this process may have.

What does not live here: how the limit is divided (native/plane/memory.c), and who keeps to it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from leafd.config.schema.server import MEMORY_LIMIT_MIN, MEMORY_PAYLOADS, ServerConfig

_PART: Final = 10
_GROUPS: Final = Path("/proc/self/cgroup")
_GROUP_ROOT: Final = Path("/sys/fs/cgroup")


def memory_limit(server: ServerConfig, machine: int | None = None) -> int:
    """The bytes that load may take. machine: bytes of memory that there are, None: of this machine."""
    if server.memory_limit is not None:
        return server.memory_limit
    share = (machine_bytes() if machine is None else machine) // _PART
    return max(share, MEMORY_LIMIT_MIN, MEMORY_PAYLOADS * server.max_payload)


def machine_bytes() -> int:
    """The memory of the machine, or what a control group leaves of it to this process."""
    own = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([own, *group_limits()])


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
