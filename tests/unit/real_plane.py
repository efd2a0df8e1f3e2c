"""The real plane for tests of what stands on it: in a directory of its own, with one account, without a daemon.

The contract tests run the same cases against this and against the fakes (test_contract*.py).
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import trio
from leafd import native_types as t
from leafd.native_plane import Plane

ACCOUNT = 1
LIMITS = t.Limits(max_file_store=64 << 20, max_memory_store=16 << 20, jetstream=1)


@asynccontextmanager
async def real_plane(handler: Callable[[t.Event], None] = lambda event: None) -> AsyncIterator[Plane]:
    """A plane that runs, with account 1, which has JetStream."""
    with tempfile.TemporaryDirectory(prefix="leafd-plane-") as name:
        directory = Path(name)
        (directory / "memory").mkdir()
        (directory / "file").mkdir()
        plane = Plane.open(LIMITS, directory / "file", directory / "memory")
        try:
            plane.start()
            plane.account(ACCOUNT, "A", "", int(t.AccountFlag.JETSTREAM))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(plane.run, handler)
                with trio.fail_after(30):
                    yield plane
                nursery.cancel_scope.cancel()
            await plane.stop()
        finally:
            plane.close()
