"""The plane of a server: opened on its store, with a directory for memory streams that goes when the server does.

Not here: where a store lies and how much it may hold (store.py), the rooms that stand on the plane (server.py).
"""

from __future__ import annotations

from pathlib import Path

from leafd import native_types as t
from leafd.daemon.compiled import Compiled
from leafd.daemon.current import Current
from leafd.daemon.store import (
    MemoryDirectory,
    check_members,
    explain,
    make_directory,
    plane_limits,
    store_directory,
    store_keys,
)
from leafd.guard import Guard
from leafd.host import memory as bounds, start_signals
from leafd.host.log import Log
from leafd.native_plane import Plane
from leafd.records import dataclass


@dataclass(slots=True)
class Opened:
    """A plane, and what it stands on."""

    plane: Plane
    current: Current
    memory: MemoryDirectory | None
    """The directory of memory streams; None: there is no JetStream."""

    def close(self) -> None:
        """Frees the plane and what lay in memory; once."""
        self.plane.close()
        if self.memory is not None:
            self.memory.remove()


def open_plane(compiled: Compiled, log: Log, guard: Guard) -> Opened:
    """Opens the store and what was journaled for it. Raises StartError."""
    Plane.hide()  # passwords, keys and seeds are in memory from here on
    config, store, temporary, keys = compiled.config, None, False, None
    memory: MemoryDirectory | None = None
    if compiled.serves_jetstream:
        keys = store_keys(config)
        store, temporary = store_directory(config)
        make_directory(store)
        check_members(store)
        memory = MemoryDirectory()
    limits = plane_limits(config, store)
    if text := bounds.warning(limits):
        log.warning(text)
    if temporary:
        log.warning(f"Temporary storage directory used, data could be lost on system reboot: {store}")
    try:
        with start_signals.watched():
            plane = Plane.open(limits, store, memory.path if memory else None, guard, keys)
    except t.PlaneError as error:
        if memory is not None:
            memory.remove()
        raise explain(error, store or Path()) from error
    return Opened(plane, Current(compiled, limits, store, guard), memory)
