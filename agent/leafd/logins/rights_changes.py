"""Changes of clients' rights, each until the plane has taken it over. Not here: what rights a client is to have
(clients.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from leafd import native_types as t
from leafd.auth.verdict import AUTHORIZATION_VIOLATION

if TYPE_CHECKING:
    import trio

    from leafd.accounts.graph import Account
    from leafd.guard import Guard
    from leafd.logins.client import Client
    from leafd.native_connections import Connections
    from leafd.operator_log import Log


class RightsChanges:
    """Tells the plane of them."""

    def __init__(self, plane: Connections, log: Log, guard: Guard) -> None:
        self._plane, self._log, self._guard = plane, log, guard

    async def change(
        self,
        client: Client,
        account: Account,
        granted: tuple[t.ConnVerdict, t.Permissions],
        after_pong: Callable[[Client, Account], bytes],
        slots: trio.Semaphore,
    ) -> None:
        """Changes a client's account and rights; a client that cannot be given its new rights does not keep the old
        ones. slots: one of them is given back then."""
        try:
            await self._plane.change_rights(client.connection, account.id, *granted, after_pong(client, account))
        except t.PlaneError as error:
            if error.status == t.Status.NOT_FOUND:  # gone, or at its login again, which these terms judge
                return
            self._log.error(f"{client.log_name} - rights not changed, closed: {error}")
        except Exception as error:
            self._guard.caught("changing a client's rights", error)
        else:
            return
        finally:
            slots.release()
        self._plane.close_connection(client.connection, AUTHORIZATION_VIOLATION, t.CloseReason.AUTHENTICATION)
