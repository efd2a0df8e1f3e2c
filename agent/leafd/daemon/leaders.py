"""The leaders of streams of several servers, as the servers that keep them say:

    nothing is known   --> all that are there are asked at once, and the first one that knows of a leader is believed
    one led lately     --> the request goes there: one trip instead of two; who leads no more says so, and all are asked

A server far away would else be asked twice, once for the leader and once for what a client wants. Only one that says
in its answer that it leads is remembered: an earlier version would answer as if it did.

Only a configuration with `meta_size` imports this. Not here: what is asked of a leader (jetstream/elsewhere.py).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import trio

from leafd.jetstream import errors
from leafd.records import dataclass

if TYPE_CHECKING:
    from leafd.cluster.table import StreamRow

REMEMBERED_S: Final = 30.0
"""As long as a server that does not answer may be taken for one that is there, where it is far away."""
REMEMBERED_MAX: Final = 10_000

Ask = Callable[[int, str, Mapping[str, Any], bytes, float], Awaitable[tuple[dict[str, Any], bytes] | None]]
"""The answer of another server; None: there is none."""


@dataclass(frozen=True, slots=True)
class _Led:
    """A leader of a stream's group."""

    group: int
    peer: int
    at_s: float


class Leaders:
    """They as one server knows them. here: the leader, as this server says of its own streams; reaches: whether a
    server is there; patience: how long it has for its answer."""

    def __init__(
        self,
        own: int,
        here: Callable[[str, str], Awaitable[int]],
        reaches: Callable[[int], bool],
        ask: Ask,
        patience: Callable[[], float],
    ) -> None:
        self._own, self._here, self._reaches, self._ask, self._patience = own, here, reaches, ask, patience
        self._led: OrderedDict[bytes, _Led] = OrderedDict()

    async def nearest(self, row: StreamRow) -> int:
        """The server to send a request to: who led lately, or who leads. Raises ApiError."""
        known = self._led.get(row.key)
        if known is not None and self._own not in row.peers:
            lately = trio.current_time() - known.at_s < REMEMBERED_S
            if lately and known.group == row.group and known.peer in row.peers and self._reaches(known.peer):
                return known.peer
        return await self.of(row)

    async def of(self, row: StreamRow) -> int:
        """The server that leads. Raises ApiError: nobody, as far as those know that are there."""
        if self._own in row.peers and (leader := await self._here(row.account, row.name)):
            return leader
        found: list[int] = []
        async with trio.open_nursery() as nursery:
            for peer in row.peers:
                if peer != self._own and self._reaches(peer):
                    nursery.start_soon(self._ask_one, row, peer, found, nursery.cancel_scope)
        if not found:
            raise errors.CLUSTER_NOT_AVAILABLE.error()
        return found[0]

    async def _ask_one(self, row: StreamRow, peer: int, found: list[int], others: trio.CancelScope) -> None:
        about = {"account": row.account, "name": row.name}
        answer = await self._ask(peer, "leads", about, b"", self._patience())
        if answer is not None and (leader := int(answer[0]["peer"])):
            found.append(leader)
            others.cancel()

    def led(self, row: StreamRow, peer: int) -> None:
        """Remembers that server, which answered a request as the stream's leader."""
        self._led[row.key] = _Led(row.group, peer, trio.current_time())
        self._led.move_to_end(row.key)
        while len(self._led) > REMEMBERED_MAX:
            self._led.popitem(last=False)

    def forget(self, row: StreamRow) -> None:
        """The one that is remembered leads no more, or says nothing."""
        self._led.pop(row.key, None)
