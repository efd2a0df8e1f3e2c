"""How a command is submitted, and what its answer is: for native_commands.py; native_plane.py fills it in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import trio

from leafd.native_packing import NO_STRINGS, Strings


class Done:
    """As a trio.Event, made only where somebody waits: most of many commands are answered before that."""

    __slots__ = ("_event", "_set")

    def __init__(self) -> None:
        self._set = False
        self._event: trio.Event | None = None

    def set(self) -> None:
        """Wakes the waiters."""
        self._set = True
        if self._event is not None:
            self._event.set()

    def is_set(self) -> bool:
        """Whether nobody has to wait any more."""
        return self._set

    async def wait(self) -> None:
        """Waits until it is set."""
        if self._event is None:
            self._event = trio.Event()
            if self._set:
                self._event.set()
        await self._event.wait()


class Completion:
    """The answer to one command, waited for by exactly one task."""

    __slots__ = ("arg", "arg2", "done", "header", "payload", "status", "subject")

    def __init__(self) -> None:
        self.done = Done()
        self.status = 0
        self.arg = 0
        self.arg2 = 0
        self.subject = b""
        self.header = b""
        self.payload = b""


class Submits(ABC):
    """Gives commands to the plane."""

    @abstractmethod
    def _submit(
        self,
        op: str,
        *,
        account: int = 0,
        target: int = 0,
        token: int = 0,
        arg: int = 0,
        arg2: int = 0,
        body: Any = b"",
        strings: Strings = NO_STRINGS,
    ) -> None:
        """Queues one command; op is a COMMAND_* name without its prefix, body bytes or a flat value."""

    @abstractmethod
    async def _request(self, op: str, what: str, *, strings: Strings = NO_STRINGS, **parts: Any) -> Completion:
        """Submits and waits for the completion; raises PlaneError when its status is not OK."""

    @abstractmethod
    async def _each(self, op: str, what: str, targets: Sequence[int], args: Iterable[int]) -> list[Completion]:
        """Submits the same for each target and its `arg` at once, and waits for all completions. Both threads have one
        turn for it in place of one for each; the caller looks at the statuses."""
