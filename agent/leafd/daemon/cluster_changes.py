"""Changes of a cluster while it runs: by a reload, or because another server asks for one.

    a reload, another cluster block                      accounts' routes --> routes change --> clients and leaves hear
    another server gives an account routes of its own    the same for that account

Only a configuration with a cluster imports this. Not here: how routes change (links/routes.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from leafd.daemon.clustered import Clustered
    from leafd.daemon.current import Current
    from leafd.daemon.tenants import Tenants
    from leafd.host.log import Log

ASKED_MAX: Final = 256
"""Accounts that get routes of their own because other servers ask for them."""
AGREED: Final = ("authorization", "pool_size", "compression")
"""Fields that two servers agree upon when they connect: with a change all routes are made again."""


class ClusterChanges:
    """Owner of which accounts have routes of their own. tell: clients and leaves hear of other addresses."""

    def __init__(
        self, clustered: Clustered, current: Current, tenants: Tenants, log: Log, tell: Callable[[], None]
    ) -> None:
        self._clustered, self._current, self._tenants = clustered, current, tenants
        self._log, self._tell = log, tell
        self._asked: set[str] = set()

    async def follow(self) -> None:
        """After a reload."""
        old, new = self._clustered.block, self._current.config.cluster
        if new is None or new == old:
            return
        self._asked -= set(old.accounts) - set(new.accounts)
        accounts = {*self._clustered.pinned(new), *(self._asked if new.pool_size > 0 else ())}
        await self._give_own_routes(accounts)
        anew = any(getattr(old, name) != getattr(new, name) for name in AGREED)
        self._clustered.change(new, accounts, anew=anew)
        self._tell()
        self._log.info("Reloaded: cluster")

    async def pin(self, name: str) -> bool:
        """Another server gives an account routes of its own; whether it has them here from now on."""
        async with self._current.changing:
            known = self._current.account(name) is not None
            if not known or self._clustered.block.pool_size <= 0 or len(self._asked) >= ASKED_MAX:
                return False
            self._asked.add(name)
            await self._give_own_routes({*self._tenants.pinned, name})
            return True

    async def _give_own_routes(self, accounts: set[str]) -> None:
        """Gives accounts routes of their own, outside of the pool; the plane hears which accounts changed."""
        changed = [self._current.account(name) for name in sorted(self._tenants.pinned ^ accounts)]
        self._tenants.pinned = frozenset(accounts)
        await self._tenants.make_known([account for account in changed if account is not None])
