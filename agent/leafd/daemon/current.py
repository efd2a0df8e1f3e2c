"""The configuration of today, the tables compiled from it, and the plane's limits. A reload puts others in their place,
and so does an account's new JWT.

    changing    held while accounts change        adopt() --> followed(): whatever depends on it follows

Not here: how a configuration is compiled (compiled.py), in which order it takes effect (takeover.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import trio

from leafd import native_types as t
from leafd.accounts.graph import Account
from leafd.config.schema.server import ServerConfig
from leafd.daemon.compiled import Compiled
from leafd.guard import Guard


class Current:
    """One server's. store: where its data lies, which only a restart changes."""

    def __init__(self, compiled: Compiled, limits: t.Limits, store: Path | None, guard: Guard) -> None:
        self.compiled = compiled
        self.limits = limits
        self.store = store
        self.changing = trio.Lock()
        self.followers: list[Callable[[], Awaitable[None]]] = []
        self._guard = guard

    @property
    def config(self) -> ServerConfig:
        """The configuration of today."""
        return self.compiled.config

    def account(self, name: str) -> Account | None:
        """The account of that name."""
        return self.compiled.graph.account(name)

    def account_name(self, account: int) -> str:
        """The name of an account; "" where it is gone."""
        found = self.compiled.graph.by_id.get(account)
        return found.name if found else ""

    def adopt(self, compiled: Compiled, limits: t.Limits) -> None:
        """Takes these over; they count from now on."""
        self.compiled, self.limits = compiled, limits

    async def followed(self) -> None:
        """Has everybody follow that depends on accounts and configuration. One that fails does not stop the others."""
        for follow in tuple(self.followers):
            with self._guard.around("what follows a reload"):
                await follow()
