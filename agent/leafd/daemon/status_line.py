"""The line of `systemctl status`: what the box is linked to, how far its copies are behind, how many are connected, how
much room there is.

    linked to hub, 0 behind, 61 GB free         2 leafs, 12 clients, 61 GB free

Loaded only where systemd listens. Not here: how it is sent (systemd.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import trio

from leafd.host.systemd import Notifier
from leafd.links.addresses import place_of
from leafd.links.lag import Behind
from leafd.links.link import LinkStatus, RemoteStatus
from leafd.native_types import Stats
from leafd.quoting import listed
from leafd.records import dataclass

if TYPE_CHECKING:
    from leafd.guard import Guard
    from leafd.links.leafs import Leafs
    from leafd.links.replicas import Replicas
    from leafd.native_plane import Plane

EVERY_S: Final = 5.0
SHARE: Final = 100
"""The line takes at most this part of the control thread's time, however many mirrors and sources there are."""
_UNITS: Final = ("B", "kB", "MB", "GB")


@dataclass(frozen=True, slots=True)
class Seen:
    """The facts in the status line."""

    remotes: tuple[RemoteStatus, ...]
    links: tuple[LinkStatus, ...]
    takes_leafs: bool
    behind: Behind
    stats: Stats


def compose(seen: Seen) -> str:
    """The line."""
    stats = seen.stats
    parts = list(_hubs(seen))
    if seen.takes_leafs:
        parts.append(_count(sum(not link.spoke for link in seen.links), "leaf"))
    if not seen.remotes:
        parts.append(_count(stats.connections - stats.leafs, "client"))
    if seen.behind.running:
        parts.append(f"{seen.behind.messages} behind")
    if seen.behind.stopped:
        parts.append(f"{_count(seen.behind.stopped, 'mirror or source', 'mirrors or sources')} without origin")
    parts += [f"{storage} store full" for storage in stats.refused_storage()]
    if stats.disk_free:
        parts.append(f"{_size(stats.disk_free)} free")
    return ", ".join(parts)


def _hubs(seen: Seen) -> Iterable[str]:
    """The hubs that we dial."""
    if any(one.connected for one in seen.remotes):
        yield f"linked to {listed(link.name for link in seen.links if link.spoke)}"
    away = [place_of(one.urls[0]) for one in seen.remotes if not one.connected]
    if away:
        yield f"not linked to {listed(away)}"


def _count(number: int, one: str, several: str = "") -> str:
    return f"{number} {one if number == 1 else several or f'{one}s'}"


def _size(count: float) -> str:
    for unit in _UNITS:
        if count < 1000 or unit == _UNITS[-1]:
            break
        count /= 1000
    return f"{count:.0f} {unit}"


class StatusLine:
    """The status line of a server. takes_leafs: whether leaf nodes may connect to it."""

    def __init__(self, plane: Plane, leafs: Leafs, replicas: Replicas, *, takes_leafs: bool, guard: Guard) -> None:
        self._plane, self._leafs, self._replicas = plane, leafs, replicas
        self._takes_leafs, self._guard = takes_leafs, guard

    async def now(self) -> str:
        """The line of this moment."""
        remotes, links = tuple(self._leafs.remotes), tuple(self._leafs.links())
        behind = await self._replicas.behind()
        return compose(Seen(remotes, links, self._takes_leafs, behind, self._plane.stats()))

    async def tell(self, notifier: Notifier, told: str) -> None:
        """Tells systemd of each change, for ever. told: the line that it knows."""
        wait_s = EVERY_S
        while True:
            await trio.sleep(wait_s)
            began = trio.current_time()
            with self._guard.around("the status line"):
                line = await self.now()
                if line != told and notifier.status(line):
                    told = line
            wait_s = max(EVERY_S, (trio.current_time() - began) * SHARE)
