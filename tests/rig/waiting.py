"""Waiting for what a server does in its own time: asked again and again until it holds, or until patience ends.

The patience is that of a machine under any load. Whoever measures how long something takes does not wait by these.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from tests import servers

PATIENCE_S: Final = 60.0
AGAIN_S: Final = 0.03
_Found = TypeVar("_Found")
What = str | Callable[[], object]
"""Said where it does not come to that, with the reason that is asked for then."""


def eventually(
    holds: Callable[[], _Found], what: What = "it did not come to that", *, seconds: float = PATIENCE_S
) -> _Found:
    """The first value that counts as true."""
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < deadline, _said(what)
        time.sleep(AGAIN_S)
    return found


async def until(
    holds: Callable[[], object | Awaitable[object]],
    what: What = "it did not come to that",
    *,
    seconds: float = PATIENCE_S,
) -> None:
    """The same for tests on asyncio; what `holds` gives may have to be awaited."""
    deadline = time.monotonic() + seconds
    while True:
        found = holds()
        if await found if isinstance(found, Awaitable) else found:
            return
        assert time.monotonic() < deadline, _said(what)
        await asyncio.sleep(AGAIN_S)


def logged(server: servers.Server, text: str, seen: int = 0) -> str:
    """The first line of the log with that text, behind its first `seen` characters."""

    def line() -> str:
        return next((line for line in server.log[seen:].splitlines() if text in line), "")

    return eventually(line, lambda: f"no {text!r} in:\n{server.log[seen:][-4000:]}")


def _said(what: What) -> object:
    return what() if callable(what) else what
