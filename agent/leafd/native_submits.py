"""How a command is submitted, and what its answer is: for native_commands.py; native_plane.py fills it in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import trio

from leafd.native_packing import NO_STRINGS, Strings


class Completion:
    """The answer to one command, waited for by exactly one task."""

    __slots__ = ("arg", "arg2", "done", "header", "payload", "status", "subject")

    def __init__(self) -> None:
        self.done = trio.Event()
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
        turn for it in place of one for each; who asks looks at the statuses."""
