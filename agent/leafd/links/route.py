"""A route's handshake, both ends, as pure machines: lines in, actions out.

    accepting (the other server dials)                 dialling
    OPENED  -> Send(INFO)                              OPENED -> Send(CONNECT), and INFO where nothing is agreed upon
    CONNECT -> refuse | Rename?, Resume                INFO   -> refuse | Rename? | compress | register, Send(INFO with
    INFO    -> refuse | compress | register, Join                 the place in the pool), Join

    compress: the end that dialled says INFO and both ends switch; the other one says its INFO again behind the switch,
              which begins the last line of either column anew

After Join the C plane exchanges interest and messages; later INFO lines come to update(): another server of the cluster
(gossip), a peer that is about to leave, an account that gets a connection of its own. Not here: sockets,
dialling, who is told of whom (routes.py), which connections there are (peers.py), the fields (route_info.py).
Reference: tests/wire/route.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from leafd.gojson import JsonError, present
from leafd.links.compression import UNCOMPRESSED, Compression, compresses
from leafd.links.handshake import NAME_MAX, Close, has_login, heard, is_name
from leafd.links.leaf import Compress, Resume, Send
from leafd.links.leaf_info import frame, permission
from leafd.links.peers import Duplicate, Peer, Peers, Placed, Route, Wrong
from leafd.links.route_info import (
    DUPLICATE_NAME,
    GATEWAY_GOSSIP,
    GOSSIP_ANYWAY,
    LOWER_DIALS,
    ROUTE_PROTOCOL,
    Place,
    RouteConnect,
    RouteInfo,
    address_text,
    kept_urls,
    place_of,
)
from leafd.native_types import CloseReason
from leafd.quoting import quoted
from leafd.records import dataclass

TO_SELF: Final = "this is a route to this server itself"


@dataclass(slots=True)
class Cluster:
    """The names of this server for others of the cluster, and its terms for them."""

    server_id: str
    server_name: str
    version: str
    name: str
    dynamic: bool = False
    """The name was made up: one that somebody has chosen is taken over, of two made-up ones the greater."""
    host: str = ""
    port: int = 0
    advertised: bool = False
    """Host and port are those that others are told, not those that are listened on."""
    user: str = ""
    password: str = ""
    tls: bool = False
    headers: bool = True
    max_payload: int = 1 << 20
    compression: Compression = UNCOMPRESSED
    imported: dict[str, list[str]] | None = None
    exported: dict[str, list[str]] | None = None
    connect_urls: tuple[str, ...] = ()
    ws_connect_urls: tuple[str, ...] = ()
    leafnode_url: str = ""
    gateway_url: str = ""
    """The address that servers of other clusters connect to."""
    letters: int = 0
    """LETTERS, if this server takes part in a group of servers."""

    def info(self, pool_size: int, **more: Any) -> dict[str, Any]:
        """INFO on a route."""
        found: dict[str, Any] = {
            "server_id": self.server_id,
            "server_name": self.server_name,
            "version": self.version,
            "proto": ROUTE_PROTOCOL,
            "go": "none",
            "host": self.host,
            "port": self.port,
            "headers": self.headers,
            "max_payload": self.max_payload,
            "cluster": self.name,
            "lnoc": True,
            "lnocu": True,
        }
        others = {
            "auth_required": bool(self.user),
            "tls_required": self.tls,
            "tls_verify": self.tls,
            "ip": address_text(self.host, self.port) if self.advertised else "",
            "cluster_dynamic": self.dynamic,
            "connect_urls": list(self.connect_urls),
            "ws_connect_urls": list(self.ws_connect_urls),
            "import": self.imported,
            "export": self.exported,
            "route_pool_size": max(pool_size, 0),
            "leafnode_urls": [self.leafnode_url] if self.leafnode_url else [],
            "gateway_url": self.gateway_url,
            "leafd_letters": self.letters,
            "leafd_dials": LOWER_DIALS,
        }
        return found | {name: value for name, value in (others | more).items() if value}

    def takes(self, theirs: str, *, dynamic: bool) -> bool:
        """Is that other name of the cluster to be taken over?"""
        return self.dynamic and (not dynamic or self.name < theirs)


@dataclass(frozen=True, slots=True)
class Rename:
    """The cluster has another name from here on: connections with all other servers begin anew."""


@dataclass(frozen=True, slots=True)
class Namesake:
    """Another server has the peer's name; None: this one. What streams and groups of servers know of a server is its
    name, so the second one is refused as long as the first is there."""

    there: Peer | None
    elsewhere: bool = False
    """The address is that of a server of another cluster."""


@dataclass(frozen=True, slots=True)
class Join:
    """The connection is one of the cluster: interest and messages are exchanged."""

    placed: Placed
    info: dict[str, Any]
    """The peer's INFO, with the address that it is reached at."""


@dataclass(frozen=True, slots=True)
class Learned:
    """There is another server in the cluster, at that place."""

    place: Place
    server_id: str
    account: str
    gossip_mode: int


@dataclass(frozen=True, slots=True)
class Leaves:
    """The peer is about to send its clients away: nobody is to come to it any more."""


@dataclass(frozen=True, slots=True)
class Pinned:
    """An account has connections of its own from here on; the peer waits for that answer."""

    account: str
    answer: bytes


@dataclass(frozen=True, slots=True)
class Prepared:
    """The peer is ready for connections of an account's own, which it was asked for under that number."""

    request: str


@dataclass(frozen=True, slots=True)
class Relearned:
    """The peer takes other interest than before: it has to be told again of what it did not take, by these lists."""

    allow: tuple[str, ...]
    deny: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OtherCluster:
    """There is another cluster, at these addresses: the peer reaches it."""

    name: str
    urls: tuple[str, ...]


Action = Send | Compress | Resume | Rename | Namesake | Join | Close
Update = Send | Learned | Leaves | Pinned | Prepared | Relearned | OtherCluster


class Machine:
    """This server's end of a route."""

    def __init__(
        self, cluster: Cluster, peers: Peers, route: Route, nonce: str, age_ns: Callable[[], int] = lambda: 0
    ) -> None:
        self._cluster = cluster
        self._peers = peers
        self._route = route
        self._nonce = nonce
        self._age_ns = age_ns
        self._compression = cluster.compression
        self._negotiated = False
        self._connected = route.dialled
        self.compression = ""
        """The compression that the two ends have agreed upon."""
        self.info: dict[str, Any] = {}
        """The peer's INFO, when it has joined."""
        self.headers = True

    @property
    def connected(self) -> bool:
        """Has the other end logged in, or was it dialled?"""
        return self._connected

    @property
    def joined(self) -> bool:
        """Is the handshake over?"""
        return bool(self.info)

    @property
    def rules(self) -> dict[str, dict[str, list[str]]]:
        """The members of the peer's INFO about the subjects that it lets through."""
        found = {name: permission(self.info, name) for name in ("import", "export") if self.info.get(name)}
        return {name: {"allow": list(allow), "deny": list(deny)} for name, (allow, deny) in found.items()}

    # ---- what is said

    def opened(self) -> list[Action]:
        """The first lines."""
        route, cluster = self._route, self._cluster
        if not route.dialled:
            return [self._say(self._compression.offered)]
        place = route.place
        assert place is not None
        connect: dict[str, Any] = {
            "echo": True,
            "verbose": False,
            "pedantic": False,
            **({"user": place.user, "pass": place.password} if place.user else {}),
            "tls_required": cluster.tls,
            "headers": cluster.headers,
            "name": cluster.server_id,
            "cluster": cluster.name,
            **({"cluster_dynamic": True} if cluster.dynamic else {}),
            "lnoc": True,
            "lnocu": True,
        }
        said: list[Action] = [Send(frame("CONNECT", connect))]
        return said if self._waits else [*said, self._say(self._compression.offered)]

    @property
    def _waits(self) -> bool:
        """Does this end say its INFO after the peer's?"""
        return self._compression.negotiable or (not self._route.account and self._peers.pool_size > 0)

    def _say(self, compression: dict[str, str], index: int = 0) -> Send:
        more = {
            "nonce": self._nonce,
            "route_pool_idx": index,
            "route_account": self._route.account if self._route.dialled else "",
            "gossip_mode": self._route.gossip_mode if self._route.dialled else 0,
        }
        return Send(frame("INFO", self._cluster.info(self._peers.pool_size, **more, **compression)))

    # ---- what is heard

    def line(self, kind: int, payload: bytes) -> list[Action]:
        """One line of the handshake."""
        return heard(
            kind, payload, named=self._connected, connect=self._hear_connect, info=self._hear_info, what="route"
        )

    def _hear_connect(self, payload: bytes) -> list[Action]:
        cluster = self._cluster
        try:
            connect = present(RouteConnect, payload)
        except JsonError as error:
            return [Close(f"a CONNECT that is none: {error}")]
        if not has_login(connect, cluster.user, cluster.password):
            return [Close("Authorization Violation", CloseReason.AUTHENTICATION, told=True)]
        if connect.get("lang"):
            return [Close("attempted to connect to route port", told=True)]
        if connect.get("gateway"):
            text = f'Rejecting connection from gateway "{connect["gateway"][:NAME_MAX]}" on the Route port'
            return [Close(text, told=True)]
        self._connected, self.headers = True, bool(connect.get("headers"))
        theirs, dynamic = str(connect.get("cluster") or ""), bool(connect.get("cluster_dynamic"))
        if theirs == cluster.name:
            return [Resume()]
        if not is_name(theirs) or not cluster.takes(theirs, dynamic=dynamic):
            text = f'Rejecting connection, cluster name "{theirs[:NAME_MAX]}" does not match "{cluster.name}"'
            return [Close(text, told=True)]
        cluster.name, cluster.dynamic = theirs, dynamic
        return [Rename(), Resume()]

    def _hear_info(self, payload: bytes) -> list[Action]:
        cluster, route = self._cluster, self._route
        try:
            info = present(RouteInfo, payload)
        except JsonError as error:
            return [Close(f"an INFO that is none: {error}")]
        server_id, name = str(info.get("server_id") or ""), str(info.get("server_name") or "")
        if server_id == cluster.server_id:
            route.server_id, route.stays_away = server_id, True
            return [Close(TO_SELF, CloseReason.DUPLICATE)]
        if not is_name(server_id) or len(name) > NAME_MAX:
            return [Close("an INFO without the server's id")]
        begin: list[Action] = []
        theirs = str(info.get("cluster") or "")
        if theirs and theirs != cluster.name:
            if not is_name(theirs) or not cluster.takes(theirs, dynamic=bool(info.get("cluster_dynamic"))):
                return [Close(f"cluster name {quoted(theirs)} does not match {quoted(cluster.name)}")]
            cluster.name = theirs
            route.server_id = server_id
            begin.append(Rename())
        there = self._peers.namesake(server_id, name)
        elsewhere = there is None and name != cluster.server_name and self._peers.elsewhere(name)
        if there is not None or elsewhere or name == cluster.server_name:
            route.server_id, route.name = server_id, name
            return [*begin, Namesake(there, elsewhere), Close(DUPLICATE_NAME, told=True)]
        try:
            switch = self._negotiate(info)
        except ValueError as error:
            return [*begin, Close(str(error), told=True)]
        return [*begin, *(switch or self._register(info, server_id, name))]

    def _negotiate(self, info: dict[str, Any]) -> list[Action]:
        """The actions that begin compression, if both ends want it and it has not begun. Raises ValueError."""
        if self._negotiated:
            return []
        self._negotiated = True
        theirs = str(info.get("compression") or "")
        self.compression = self._compression.agreed(theirs)
        if not compresses(self.compression):
            return []
        how = self._compression.at(self.compression, self._age_ns())
        said = self._say(self._compression.told(self.compression)).frame
        if self._route.dialled:
            return [Compress(how, before=said), Resume()]
        return [Compress(how, behind=said), Resume()]

    def _register(self, info: dict[str, Any], server_id: str, name: str) -> list[Action]:
        route = self._route
        place = self._reached(info)
        if place is None:
            return [Close("an INFO without an address")]
        route.name = name
        if route.place is None:
            route.place = place
        info = {key: value for key, value in info.items() if key != "nonce"}
        if not info.get("ip"):
            info["ip"] = place.url
        if route.dialled and route.account:
            info["route_account"] = route.account
        elif not route.dialled:
            route.account = str(info.get("route_account") or "")
        was_delayed = route.dialled and self._waits
        placed = self._peers.place(route, info, self._cluster.server_id)
        match placed:
            case Duplicate():
                route.server_id = server_id
                return [Close("Duplicate Route", CloseReason.DUPLICATE)]
            case Wrong(text):
                return [Close(text, told=True)]
        self.info = info
        self.headers = self.headers and bool(info.get("headers")) and self._cluster.headers
        said = self._say(self._last_word(), placed.index) if was_delayed else None
        return [*([said] if said is not None else []), Join(placed, info)]

    def _last_word(self) -> dict[str, str]:
        """The compression member of the handshake's last INFO."""
        if not self._compression.negotiable:
            return self._compression.offered
        return self._compression.told(self.compression)

    def _reached(self, info: dict[str, Any]) -> Place | None:
        """The address at which the peer can be dialled: the one that it names, else the one that it came from."""
        try:
            if info.get("ip"):
                return place_of(str(info["ip"]))
            host = self._route.peer.rpartition(":")[0].strip("[]")
            return place_of(address_text(host, int(info.get("port") or 0)))
        except ValueError:
            return None

    # ---- later on

    def update(self, payload: bytes) -> list[Update]:
        """An INFO of a peer that has joined. What it does not say clearly is passed over."""
        try:
            info = present(RouteInfo, payload)
        except JsonError:
            return []
        if info.get("route_acc_add_reqid"):
            account = str(info.get("route_account") or "")
            answer = {key: value for key, value in info.items() if key not in ("route_account", "nonce")}
            return [Pinned(account, frame("INFO", answer)) if account else Prepared(str(info["route_acc_add_reqid"]))]
        if info.get("gateway"):
            name, gossip = str(info["gateway"]), info.get("gateway_cmd") == GATEWAY_GOSSIP
            return [OtherCluster(name, kept_urls(info.get("gateway_urls")))] if gossip and is_name(name) else []
        server_id = str(info.get("server_id") or "")
        if server_id == self._route.server_id:
            if info.get("ldm"):
                return [Leaves()]
            before = permission(self.info, "export")
            self.info |= {key: info.get(key) for key in ("import", "export")}
            return [Relearned(*before)] if permission(self.info, "export") != before else []
        if server_id == self._cluster.server_id or not is_name(server_id):
            return []
        return self._learned(info, server_id)

    def _learned(self, info: dict[str, Any], server_id: str) -> list[Update]:
        cluster = self._cluster
        try:
            place = place_of(str(info.get("ip") or ""))
        except ValueError:
            return []
        if not 0 < place.port <= 65535:
            return []
        bare = Place(place.host, place.port)
        if info.get("auth_required"):
            bare = bare.with_login(cluster.user, cluster.password)
        mode = int(info.get("gossip_mode") or 0)
        account = str(info.get("route_account") or "")
        return [Learned(bare, server_id, account, mode if 0 <= mode <= GOSSIP_ANYWAY else 0)]
