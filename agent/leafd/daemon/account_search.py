"""The accounts of the servers' streams that nobody has used at this server yet.

An operator's account becomes known where a user of it logs in. A stream of it may be placed on a server where nobody
did, which looks for the account then, again and again as long as there is none. Not here: how it is looked for
(account_book.py), what the server does with the stream (placing.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

if TYPE_CHECKING:
    from leafd.jetstream.catalogue import Catalogue, JetStreamAccount

AGAIN_S: Final = 5.0


class Sought:
    """go_on: begins work that goes on by itself. found: told that an account is known that was not."""

    def __init__(
        self, catalogue: Catalogue, go_on: Callable[[Callable[[], Awaitable[None]]], None], found: Callable[[], None]
    ) -> None:
        self._catalogue, self._go_on, self._found = catalogue, go_on, found
        self._names: set[str] = set()
        """Names of the streams that are looked for."""

    def account(self, name: str) -> JetStreamAccount | None:
        """An account by its name; None: it is not known, and looked for."""
        account = self._catalogue.by_name.get(name)
        if account is None and name not in self._names:
            self._names.add(name)
            self._go_on(partial(self._look_for, name))
        return account

    async def _look_for(self, name: str) -> None:
        try:
            if await self._catalogue.known(name) is not None:
                self._found()
            else:
                await trio.sleep(AGAIN_S)
        finally:
            self._names.discard(name)
