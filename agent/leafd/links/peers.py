"""The connected servers of the cluster, the connections to each, and which of several connections stays.

    INFO of a peer --place()--> Placed: at this place of the pool | for this account
                                Duplicate: this connection is one too many
                                Wrong: it contradicts the configuration, with the text for the peer
    the connection's end --remove()--> Gone: was it the last one of that server?

Two servers have a pool of connections, over which accounts are spread by their names, and one for each account that is
pinned; a peer without pools has one connection for all. Both ends may dial, so both count places: a newcomer whose
place is taken goes, and the one that stays is dialled again when it ends, whichever end had dialled it.

    one end          the other end           the newcomer at each end would go, and so both:
    dials a --.    .-- dials b               a stays at both if the first end's id is the lower one
               ><                            nats-server and earlier versions keep what is there: here b takes the place
    hears b --'    '-- hears a               of a, as its INFO says that it has one there

Pure.
Not here: the lines (route.py), dialling (routes.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field
from typing import Any, Final

from leafd.links.route_info import GOSSIP, GOSSIP_ANYWAY, LOWER_DIALS, NO_GOSSIP, Place, kept_urls
from leafd.records import dataclass

POOL_MAX: Final = 256
"""More connections than any two servers need; a peer names the size."""
PEERS_MAX: Final = 256
"""Servers of one cluster: each is connected with each other one."""


@dataclass(slots=True)
class Route:
    """One connection with another server of the cluster, in either direction."""

    connection: int
    peer: str
    """Its address, with the port of this connection."""
    dialled: bool = False
    """By this server, or to be dialled by it when it ends."""
    came: bool = False
    """The other server has dialled this connection; the next one may be dialled by either."""
    explicit: bool = False
    """To an address of the configuration."""
    place: Place | None = None
    """The address at which the other server listens, if that is known."""
    gossip_mode: int = GOSSIP
    """Whether those that we are connected with are told of it."""
    account: str = ""
    """The only one that it carries; "": those of its place in the pool."""
    server_id: str = ""
    name: str = ""
    index: int = -1
    """In the pool; -1: it is not, or not yet."""
    pooled: bool = True
    """The peer has pools. Else this one carries all accounts."""
    retry: bool = False
    """The other end's connection went in favour of this one: it is dialled again when it ends."""
    stays_away: bool = False
    """The peer is not dialled again when the connection ends."""
    trip_s: float = 0.0
    """The round trip when it was dialled."""

    @property
    def registered(self) -> bool:
        return self.index >= 0


@dataclass(slots=True)
class Peer:
    """Another server of the cluster that is connected."""

    server_id: str
    name: str
    info: dict[str, Any]
    """Its first INFO, with the address it is reached at."""
    pool: list[Route | None] = field(default_factory=list)
    accounts: dict[str, Route] = field(default_factory=dict)
    connect_urls: tuple[str, ...] = ()
    ws_connect_urls: tuple[str, ...] = ()
    leafnode_urls: tuple[str, ...] = ()
    gateway_urls: tuple[str, ...] = ()

    def routes(self) -> list[Route]:
        return [route for route in self.pool if route is not None]

    @property
    def first(self) -> Route | None:
        """The connection that control lines for the server go by."""
        return next(iter((*self.routes(), *self.accounts.values())), None)

    @property
    def pooled(self) -> bool:
        return all(route.pooled for route in self.routes())


@dataclass(frozen=True, slots=True)
class Placed:
    """The connection is one of the cluster."""

    index: int
    pool_size: int
    """By which accounts are spread over connections with that server; 1: there is no pool."""
    first: bool
    """The first connection of the pool with that server."""
    more: bool
    """A further one of the pool is still missing, and is ours to dial."""
    instead: Route | None = None
    """The connection that had the place, which goes."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """There is one already."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """The peer is told this, and the connection ends."""

    text: str


@dataclass(frozen=True, slots=True)
class Gone:
    """A connection's end, and its meaning for the cluster."""

    peer: Peer
    last: bool
    """No connection with that server is left."""


class Peers:
    """The registry. pool_size, accounts: of this server's configuration; pool_size -1: without pools."""

    def __init__(self, pool_size: int, accounts: Iterable[str] = ()) -> None:
        self.pool_size = pool_size
        self.accounts = set(accounts)
        """Accounts that are pinned: here, or by a peer later on."""
        self.all: dict[str, Peer] = {}
        self.elsewhere: Callable[[str], bool] = lambda name: False
        """Has a server of another cluster that name, and takes part in the same group of servers?"""

    def place(self, route: Route, info: dict[str, Any], own_id: str = "") -> Placed | Duplicate | Wrong:
        """Takes a connection whose peer has said its INFO. own_id: this server's."""
        theirs = int(info.get("route_pool_size") or 0)
        if theirs > POOL_MAX:
            return Wrong(f"route pool size {theirs} is too large")
        server_id = str(info["server_id"])
        if server_id not in self.all and len(self.all) >= PEERS_MAX:
            return Wrong("maximum number of servers in a cluster exceeded")
        size, asked = max(self.pool_size, theirs, 1), int(info.get("route_pool_idx") or 0)
        if theirs <= 0 or self.pool_size <= 0:
            if route.account:
                route.stays_away = True
                return Wrong(
                    f'Not possible to have a dedicated route for account "{route.account}" between those servers'
                )
            route.pooled, size, asked = False, 1, 0
        elif route.dialled and asked:
            return Wrong(f"Route pool index should not be set but is set to {asked}")
        elif not route.dialled and not 0 <= asked < size:
            return Wrong(f"Invalid route pool index: {asked} - pool size is {theirs}")
        wins = _wins(route, info, own_id)
        if route.account:
            return self._place_account(route, server_id, info, wins=wins)
        return self._place_pooled(route, server_id, info, size, asked, wins=wins)

    def _place_account(
        self, route: Route, server_id: str, info: dict[str, Any], *, wins: bool
    ) -> Placed | Duplicate | Wrong:
        if route.account not in self.accounts:
            return Wrong(f'No route for account "{route.account}"')
        peer = self._peer(server_id, info)
        there = peer.accounts.get(route.account)
        if there is not None and not _gives_way(there, route, wins=wins):
            _keep(there, route, stays_away=True)
            return Duplicate()
        if there is not None:
            _keep(route, there, stays_away=True)
        peer.accounts[route.account] = route
        _register(route, peer, 0)
        return Placed(0, 1, first=False, more=False, instead=there)

    def _place_pooled(
        self, route: Route, server_id: str, info: dict[str, Any], size: int, asked: int, *, wins: bool
    ) -> Placed | Duplicate:
        peer = self._peer(server_id, info)
        first, index = not peer.routes(), asked
        peer.pool += [None] * (size - len(peer.pool))
        if not first and route.pooled:
            if route.dialled:
                for one in peer.routes():
                    _adopt(one, route)
                index = next((i for i, one in enumerate(peer.pool) if one is None), -1)
            else:
                found = next((one for one in peer.routes() if one.dialled), None)
                if found is not None:
                    _adopt(route, found)
        there = peer.pool[index] if index >= 0 else None
        if index < 0 or (there is not None and not _gives_way(there, route, wins=wins)):
            _keep(there, route, stays_away=index < 0 or not route.pooled)
            return Duplicate()
        if there is not None:
            _keep(route, there, stays_away=not route.pooled)
        peer.pool[index] = route
        _register(route, peer, index)
        if first:
            peer.info, peer.name = info, route.name
            peer.connect_urls = kept_urls(info.get("connect_urls"))
            peer.ws_connect_urls = kept_urls(info.get("ws_connect_urls"))
            leafnode_urls = kept_urls(info.get("leafnode_urls"))
            peer.leafnode_urls = leafnode_urls if len(leafnode_urls) == 1 else ()
            peer.gateway_urls = kept_urls([info.get("gateway_url")])
        more = route.pooled and route.dialled and None in peer.pool
        return Placed(index, size if route.pooled else 1, first=first, more=more, instead=there)

    def _peer(self, server_id: str, info: dict[str, Any]) -> Peer:
        peer = self.all.get(server_id)
        if peer is None:
            peer = self.all[server_id] = Peer(server_id, str(info.get("server_name") or ""), info)
        return peer

    def remove(self, route: Route) -> Gone | None:
        """A connection has ended; None: it was none of the cluster."""
        peer = self.all.get(route.server_id)
        if peer is None or not route.registered:
            return None
        if route.account:
            if peer.accounts.get(route.account) is not route:
                return None
            del peer.accounts[route.account]
        elif route.index < len(peer.pool) and peer.pool[route.index] is route:
            peer.pool[route.index] = None
        else:
            return None
        last = not peer.routes()
        if last:
            peer.pool.clear()
            if not peer.accounts:
                del self.all[peer.server_id]
        return Gone(peer, last and not route.account)

    def namesake(self, server_id: str, name: str) -> Peer | None:
        """The other server that has a newcomer's name."""
        return next(
            (peer for peer in self.all.values() if name and peer.name == name and peer.server_id != server_id), None
        )

    def named(self, name: str) -> bool:
        """Is a server of that name connected?"""
        return any(peer.name == name for peer in self.all.values())

    def told_of(self, route: Route, info: dict[str, Any]) -> list[tuple[Route, int]]:
        """To whom a new server's INFO goes, and with which gossip_mode. Each of them dials it; a server that was
        dialled because of gossip is known to them already."""
        if (route.dialled and not route.explicit and route.gossip_mode != GOSSIP_ANYWAY) or info.get(
            "gossip_mode"
        ) == NO_GOSSIP:
            return []
        found = []
        for peer in self.all.values():
            if peer.server_id == route.server_id:
                continue
            to = peer.accounts.get(route.account) or next(iter(peer.routes()), None)
            if to is None or (route.account and not to.pooled):
                continue
            if route.explicit if route.dialled else to.explicit:
                mode = GOSSIP_ANYWAY
            else:
                mode = GOSSIP if route.dialled else NO_GOSSIP
            found.append((to, mode))
        return found

    def carriers(self, account: str) -> list[Route]:
        """The connections of pools that an account without some of its own goes by, one a server."""
        found = [peer.pool[_place_of(account) % len(peer.pool)] for peer in self.all.values() if peer.pool]
        return [route for route in found if route is not None and route.pooled]

    def urls(self, name: str) -> tuple[str, ...]:
        """connect_urls, ws_connect_urls, leafnode_urls or gateway_urls of all peers, in the order of their coming."""
        return tuple(dict.fromkeys(url for peer in self.all.values() for url in getattr(peer, name)))


def _place_of(account: str) -> int:
    """FNV-1a of its name, as the plane counts it."""
    found = 0x811C9DC5
    for byte in account.encode():
        found = (found ^ byte) * 0x01000193 & 0xFFFFFFFF
    return found


def _register(route: Route, peer: Peer, index: int) -> None:
    route.server_id, route.index = peer.server_id, index


def _wins(route: Route, info: dict[str, Any], own_id: str) -> bool:
    """Does the newcomer take the place of a connection that the other end has dialled?"""
    if info.get("leafd_dials") == LOWER_DIALS:
        return route.came != (own_id < str(info["server_id"]))
    return route.came and route.pooled and not route.account


def _gives_way(there: Route, route: Route, *, wins: bool) -> bool:
    """The first one stays of two that the same end has dialled."""
    return wins and there.came != route.came


def _adopt(route: Route, other: Route) -> None:
    """One of a pool was dialled: all of it is dialled again, at that address."""
    if not route.dialled or (other.explicit and not route.explicit):
        route.place = other.place
    route.dialled = True
    route.explicit = route.explicit or other.explicit


def _keep(there: Route | None, route: Route, *, stays_away: bool) -> None:
    """Marks the one that goes; the one that stays remembers what was known of it."""
    route.stays_away = route.stays_away or stays_away
    if there is None:
        return
    if route.dialled and not there.dialled:
        there.dialled, there.place = True, route.place
    there.explicit = there.explicit or route.explicit
    there.retry = True
