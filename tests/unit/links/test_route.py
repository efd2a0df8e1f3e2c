"""A route's handshake and registry: what each end says to each line, and which connection stays (tests/wire/route.md).

Texts of refusals and who is told of whom are nats-server's; tests/interop/test_route_contract.py holds the same machine
against one.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from leafd.links import peers as registry, route as routing
from leafd.links.compression import Compression
from leafd.links.handshake import Close
from leafd.links.leaf import Compress, Resume, Send
from leafd.links.peers import Duplicate, Peers, Placed, Route, Wrong
from leafd.links.route import (
    Cluster,
    Join,
    Learned,
    Leaves,
    Machine,
    Namesake,
    OtherCluster,
    Pinned,
    Prepared,
    Relearned,
    Rename,
)
from leafd.links.route_info import LOWER_DIALS, Place, kept_urls, place_of
from leafd.native_types import CloseReason, LineKind

OWN = Cluster("NOWN", "own", "2.15.1", "C", host="0.0.0.0", port=6222)
THEIRS: dict[str, Any] = {
    "server_id": "NPEER",
    "server_name": "peer",
    "version": "2.15.1",
    "proto": 3,
    "host": "0.0.0.0",
    "port": 6223,
    "headers": True,
    "max_payload": 1048576,
    "cluster": "C",
    "lnoc": True,
    "lnocu": True,
    "compression": "accept",
    "route_pool_size": 3,
    "nonce": "abc",
}


def machine(*, dialled: bool = False, peers: Peers | None = None, account: str = "", **own: Any) -> Machine:
    route = Route(7, "10.0.0.2:40000", dialled=dialled, account=account)
    if dialled:
        route.place = Place("peer", 6222, "u", "p")
    return Machine(replace(OWN, **own), peers if peers is not None else Peers(3, ("$SYS",)), route, "nonce")


def said(action: object, verb: str) -> dict[str, Any]:
    assert isinstance(action, Send | Compress)
    frame = action.frame if isinstance(action, Send) else action.before or action.behind
    found = frame.decode()
    assert found.startswith(f"{verb} {{")
    assert found.endswith(" \r\n")
    value: dict[str, Any] = json.loads(found.removeprefix(verb))
    return value


def connect(**fields: Any) -> bytes:
    return json.dumps({"name": "NPEER", "cluster": "C", "headers": True, "tls_required": False} | fields).encode()


def info(**fields: Any) -> bytes:
    return json.dumps(THEIRS | fields).encode()


def closed(actions: list[Any]) -> Close:
    (last,) = [one for one in actions if isinstance(one, Close)]
    return last


# ---- who accepts


def test_whoever_listens_says_info_first_and_waits_for_connect_then_for_info() -> None:
    """Only the second of the two makes the other server one of the cluster."""
    here = machine()
    (first,) = here.opened()
    told = said(first, "INFO")
    assert (told["server_id"], told["cluster"], told["route_pool_size"], told["nonce"]) == ("NOWN", "C", 3, "nonce")
    assert told["lnoc"]
    assert told["lnocu"]
    assert told["proto"] == 3, "from 3 on a server is sent traces"
    assert "route_pool_idx" not in told
    assert here.line(LineKind.CONNECT, connect()) == [Resume()]
    (join,) = here.line(LineKind.INFO, info(route_pool_idx=2))
    assert isinstance(join, Join)
    assert join.placed == Placed(2, 3, first=True, more=False)
    assert "nonce" not in join.info
    assert join.info["ip"] == "nats-route://10.0.0.2:6223/"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"lang": "go"}, "attempted to connect to route port"),
        ({"gateway": "g"}, 'Rejecting connection from gateway "g" on the Route port'),
        ({"cluster": "D"}, 'Rejecting connection, cluster name "D" does not match "C"'),
        ({"cluster": "D", "cluster_dynamic": True}, 'Rejecting connection, cluster name "D" does not match "C"'),
    ],
)
def test_a_connect_that_does_not_fit_is_refused_in_the_references_words(fields: dict[str, Any], text: str) -> None:
    """The peer's log then says what is wrong."""
    close = closed(machine().line(LineKind.CONNECT, connect(**fields)))
    assert close.told
    assert close.why == text


@pytest.mark.parametrize("login", [{}, {"user": "u"}, {"user": "u", "pass": "x"}, {"user": "x", "pass": "p"}])
def test_a_wrong_login_is_told_before_anything_else(login: dict[str, Any]) -> None:
    """Also where the cluster's name would not fit: nobody without a login learns it."""
    here = machine(user="u", password="p")
    close = closed(here.line(LineKind.CONNECT, connect(cluster="D", **login)))
    assert (close.why, close.reason) == ("Authorization Violation", CloseReason.AUTHENTICATION)
    assert machine(user="u", password="p").line(LineKind.CONNECT, connect(user="u", **{"pass": "p"})) == [Resume()]


def test_before_connect_nothing_else_is_heard() -> None:
    """An INFO without a CONNECT would be one without a login."""
    for kind in (LineKind.INFO, LineKind.ERR, 77):
        assert closed(machine().line(kind, info())).why == "Authorization Violation"


def test_a_route_to_this_server_itself_ends_and_is_not_dialled_again() -> None:
    """As when the own address stands in routes: all servers of a cluster can have the same list."""
    here = machine(dialled=True)
    close = closed(here.line(LineKind.INFO, info(server_id="NOWN", cluster="D")))
    assert not close.told
    assert here._route.stays_away


@pytest.mark.parametrize("dialled", [False, True])
def test_a_server_of_the_same_name_is_refused(dialled: bool) -> None:
    """Reports, streams and groups of servers tell servers apart by their names."""
    here = machine(dialled=dialled)
    if not dialled:
        here.line(LineKind.CONNECT, connect())
    close = closed(here.line(LineKind.INFO, info(server_name="own")))
    assert close.told
    assert close.why == "Duplicate Server Name"


def test_a_server_with_the_name_of_one_of_another_cluster_is_refused() -> None:
    """A box that was cloned into another cluster would else take the first one's place in the group."""
    here = machine(dialled=True)
    here._peers.elsewhere = lambda name: name == "far"
    actions = here.line(LineKind.INFO, info(server_name="far"))
    assert Namesake(None, elsewhere=True) in actions
    assert closed(actions).why == "Duplicate Server Name"


@pytest.mark.parametrize("payload", [b"{", b"[]", b'{"server_id":7}', b'{"server_id":""}', b'{"server_id":"a b"}'])
def test_an_info_that_is_none_ends_the_connection(payload: bytes) -> None:
    """Whatever comes, the answer is an action."""
    assert closed(machine(dialled=True).line(LineKind.INFO, payload)).reason == CloseReason.PROTOCOL


# ---- names of the cluster


def test_a_made_up_name_gives_way_to_a_chosen_one_and_to_a_greater_one() -> None:
    """Two servers without a name would else both give way, or neither."""
    for fields, name, dynamic in (
        ({"cluster": "A"}, "A", False),
        ({"cluster": "Z", "cluster_dynamic": True}, "Z", True),
    ):
        here = machine(dynamic=True)
        assert here.line(LineKind.CONNECT, connect(**fields)) == [Rename(), Resume()]
        assert (here._cluster.name, here._cluster.dynamic) == (name, dynamic)
    here = machine(dynamic=True)
    assert closed(here.line(LineKind.CONNECT, connect(cluster="A", cluster_dynamic=True))).told
    there = machine(dialled=True, dynamic=True)
    actions = there.line(LineKind.INFO, info(cluster="Z"))
    assert actions[0] == Rename()
    assert isinstance(actions[-1], Join)
    assert closed(machine(dialled=True).line(LineKind.INFO, info(cluster="Z"))).told is False


# ---- who dials


def test_whoever_dials_says_connect_at_once_and_info_when_the_place_in_the_pool_is_known() -> None:
    """Its INFO names the place, which depends on who answers."""
    here = machine(dialled=True)
    (first,) = here.opened()
    told = said(first, "CONNECT")
    assert (told["name"], told["user"], told["pass"], told["cluster"]) == ("NOWN", "u", "p", "C")
    second, join = here.line(LineKind.INFO, info())
    assert "route_pool_idx" not in said(second, "INFO")
    assert join == Join(Placed(0, 3, first=True, more=True), here.info)


def test_without_pool_and_compression_info_follows_connect_at_once() -> None:
    """There is nothing to wait for."""
    here = machine(dialled=True, peers=Peers(-1))
    first, second = here.opened()
    said(first, "CONNECT")
    assert "route_pool_size" not in said(second, "INFO")
    (join,) = here.line(LineKind.INFO, info())
    assert isinstance(join, Join)
    assert join.placed.pool_size == 1
    assert not here._route.pooled


def test_the_connections_of_a_pool_take_the_places_that_are_free() -> None:
    """Until there is one for each place; one more is closed and not dialled again."""
    peers = Peers(3, ("$SYS",))
    places = []
    for _ in range(3):
        here = machine(dialled=True, peers=peers)
        told, join = here.line(LineKind.INFO, info())
        assert isinstance(join, Join)
        assert said(told, "INFO").get("route_pool_idx", 0) == join.placed.index
        places.append((join.placed.index, join.placed.first, join.placed.more))
    assert places == [(0, True, True), (1, False, True), (2, False, False)]
    last = machine(dialled=True, peers=peers)
    assert closed(last.line(LineKind.INFO, info())).reason == CloseReason.DUPLICATE
    assert last._route.stays_away


def test_an_account_with_a_connection_of_its_own_has_one_and_only_where_it_is_known() -> None:
    """The answer to the other account is the reference's."""
    peers = Peers(3, ("$SYS",))
    for account, text in (("$SYS", ""), ("$SYS", "Duplicate Route"), ("B", 'No route for account "B"')):
        here = machine(peers=peers)
        here.line(LineKind.CONNECT, connect())
        (action,) = here.line(LineKind.INFO, info(route_account=account))
        assert (action.why if isinstance(action, Close) else "") == text
    assert list(peers.all["NPEER"].accounts) == ["$SYS"]


# ---- compression


def test_where_both_want_it_compression_begins_behind_the_info_of_who_dialled() -> None:
    """The one who accepts says its INFO once more, compressed."""
    fast = Compression("s2_fast")
    here = machine(dialled=True, compression=fast)
    switch, resume = here.line(LineKind.INFO, info(compression="s2_fast"))
    assert isinstance(switch, Compress)
    assert said(switch, "INFO")["compression"] == "s2_fast"
    assert switch.before
    assert resume == Resume()
    assert isinstance(here.line(LineKind.INFO, info(compression="s2_fast"))[-1], Join)
    there = machine(compression=fast)
    there.line(LineKind.CONNECT, connect())
    switch, resume = there.line(LineKind.INFO, info(compression="s2_fast"))
    assert isinstance(switch, Compress)
    assert switch.behind
    assert isinstance(there.line(LineKind.INFO, info(compression="s2_fast"))[-1], Join)


@pytest.mark.parametrize("theirs", ["accept", "off", ""])
def test_two_that_only_accept_do_not_compress(theirs: str) -> None:
    """As two servers whose configurations say nothing of it."""
    here = machine(dialled=True, compression=Compression("accept"))
    told, join = here.line(LineKind.INFO, info(compression=theirs))
    assert isinstance(join, Join)
    assert said(told, "INFO")["compression"] == ("off" if theirs else "not supported")


# ---- later


def test_an_info_of_another_server_is_news_of_it_and_one_of_its_own_may_say_that_it_leaves() -> None:
    """The login of the cluster goes only to whom it is asked for."""
    here = machine(dialled=True, user="u", password="p")
    here.line(LineKind.INFO, info())
    other = {"server_id": "NOTHER", "ip": "nats-route://10.0.0.3:6222/"}
    (learned,) = here.update(info(**other, gossip_mode=2))
    assert learned == Learned(Place("10.0.0.3", 6222), "NOTHER", "", 2)
    (learned,) = here.update(info(**other, auth_required=True, route_account="$SYS"))
    assert learned == Learned(Place("10.0.0.3", 6222, "u", "p"), "NOTHER", "$SYS", 0)
    assert here.update(info(ldm=True)) == [Leaves()]
    for nothing in (b"{", info(), info(**other | {"ip": "nats-route://"}), info(**other | {"server_id": "NOWN"})):
        assert here.update(nothing) == []
    assert here.update(info(**other | {"ip": "http://[::1"})) == []


def test_a_peer_that_takes_other_interest_is_told_again_of_what_it_did_not_take() -> None:
    """It has forgotten that. The same rules once more ask for nothing, and what it asks for is its own matter."""
    here = machine(dialled=True)
    here.line(LineKind.INFO, info())
    denies = {"export": {"deny": ["x"]}}
    assert here.update(info(**denies)) == [Relearned((), ())]
    assert here.rules == {"export": {"allow": [], "deny": ["x"]}}
    assert here.update(info(**denies)) == []
    assert here.update(info()) == [Relearned((), ("x",))]
    assert here.update(info(**{"import": {"deny": ["y"]}})) == []
    assert here.rules == {"import": {"allow": [], "deny": ["y"]}}


def test_an_account_that_gets_a_connection_of_its_own_later_is_answered_without_its_name() -> None:
    """The peer waits for that before it moves the account."""
    here = machine(dialled=True)
    here.line(LineKind.INFO, info())
    (pinned,) = here.update(info(route_account="A", route_acc_add_reqid="r1"))
    assert isinstance(pinned, Pinned)
    assert pinned.account == "A"
    told = said(Send(pinned.answer), "INFO")
    assert told["route_acc_add_reqid"] == "r1"
    assert "route_account" not in told
    assert here.update(pinned.answer.split(b" ", 1)[1].strip()) == [Prepared("r1")]


# ---- the registry


def route(
    number: int, *, dialled: bool = False, came: bool = False, explicit: bool = False, peer: str = "P", mode: int = 0
) -> Route:
    one = Route(number, f"{peer}:1", dialled=dialled, came=came, explicit=explicit, gossip_mode=mode)
    one.place = Place(peer, 1)
    one.name = peer
    return one


def place(peers: Peers, one: Route, **fields: Any) -> Placed | Duplicate | Wrong:
    peer = one.peer.partition(":")[0]
    return peers.place(one, THEIRS | {"server_id": peer, "server_name": peer} | fields)


def test_of_two_that_dial_each_other_the_one_that_stays_is_dialled_again_when_it_ends() -> None:
    """Else a cluster would fall apart when the one end goes away and comes back."""
    peers = Peers(1)
    stays, goes = route(1), route(2, dialled=True, explicit=True)
    assert isinstance(place(peers, stays, route_pool_size=1), Placed)
    assert place(peers, goes, route_pool_size=1) == Duplicate()
    assert (stays.dialled, stays.explicit, stays.place) == (True, True, goes.place)
    assert goes.stays_away


def test_an_accepted_connection_whose_place_is_taken_makes_the_other_one_be_dialled_again() -> None:
    """Both ends may have closed the other's connection: one of them has to begin anew."""
    peers = Peers(3)
    first, second = route(1, came=True), route(2, came=True)
    assert isinstance(place(peers, first), Placed)
    assert place(peers, second, route_pool_idx=0) == Duplicate()
    assert first.retry
    assert not second.stays_away


@pytest.mark.parametrize(
    ("pool", "account", "first"),
    [
        (3, "", "dialled"),
        (1, "", "dialled"),
        (-1, "", "dialled"),
        (-1, "", "came"),
        (3, "$SYS", "dialled"),
        (3, "$SYS", "came"),
    ],
)
def test_of_two_connections_that_cross_both_ends_keep_the_one_of_the_lower_id(
    pool: int, account: str, first: str
) -> None:
    """Whichever each of them has heard first. Else each would close the other's, for as long as their round trip is
    longer than what they wait before they dial again. (Who has dialled for a pool when the other's connection is there
    already takes the next place of it.)"""
    kept = []
    for own, their in (("NA", "NB"), ("NB", "NA")):
        peers = Peers(pool, ("$SYS",))
        about = {"server_id": their, "leafd_dials": LOWER_DIALS}
        both = {"dialled": route(1, dialled=True), "came": route(2, came=True)}
        there, newcomer = both.pop(first), both.popitem()[1]
        there.account = newcomer.account = account
        placed = peers.place(there, THEIRS | about | {"route_pool_size": max(pool, 0)}, own)
        assert isinstance(placed, Placed)
        assert placed.instead is None
        found = peers.place(newcomer, THEIRS | about | {"route_pool_size": max(pool, 0)}, own)
        stays = newcomer if isinstance(found, Placed) else there
        goes = there if stays is newcomer else newcomer
        if isinstance(found, Placed):
            assert (found.instead, found.first) == (there, False)
        assert peers.all[their].first is stays
        assert peers.remove(goes) is None
        assert stays.retry
        assert goes.stays_away is (pool < 0 or bool(account))
        kept.append((own, stays.came))
    assert kept == [("NA", False), ("NB", True)]


def test_a_server_that_keeps_what_is_there_has_its_own_in_the_place_that_its_info_names() -> None:
    """nats-server, and earlier versions: to keep the own one would cost both."""
    peers = Peers(3)
    ours, theirs = route(1, dialled=True), route(2, came=True)
    place(peers, ours)
    placed = place(peers, theirs, route_pool_idx=0)
    assert isinstance(placed, Placed)
    assert placed.instead is ours
    assert not ours.stays_away
    assert peers.remove(ours) is None
    again = place(peers, route(3, dialled=True))
    assert isinstance(again, Placed)
    assert again.index == 1


@pytest.mark.parametrize(
    ("dialled", "fields", "text"),
    [
        (True, {"route_pool_idx": 1}, "Route pool index should not be set but is set to 1"),
        (False, {"route_pool_idx": 3}, "Invalid route pool index: 3 - pool size is 3"),
        (False, {"route_pool_idx": -1}, "Invalid route pool index: -1 - pool size is 3"),
        (False, {"route_pool_size": 1 << 40}, f"route pool size {1 << 40} is too large"),
    ],
)
def test_a_place_that_there_is_not_is_refused(dialled: bool, fields: dict[str, Any], text: str) -> None:
    """The numbers are the peer's."""
    assert place(Peers(3), route(1, dialled=dialled), **fields) == Wrong(text)


def test_the_greater_of_two_pools_counts_and_none_at_one_end_means_none() -> None:
    """So servers of a cluster can be changed one after the other."""
    for ours, theirs, size in ((3, 5, 5), (5, 3, 5), (3, 0, 1), (-1, 3, 1)):
        placed = place(Peers(ours), route(1), route_pool_size=theirs)
        assert isinstance(placed, Placed)
        assert placed.pool_size == size


def test_there_is_a_greatest_number_of_servers_in_a_cluster() -> None:
    """Each INFO has an id of its choice, and each server takes memory."""
    peers = Peers(3)
    for number in range(registry.PEERS_MAX):
        assert isinstance(place(peers, route(number, peer=f"P{number}")), Placed)
    assert isinstance(place(peers, route(999, peer="one-more")), Wrong)
    assert peers.remove(next(iter(peers.all.values())).routes()[0]) is not None
    assert isinstance(place(peers, route(999, peer="one-more")), Placed)


@pytest.mark.parametrize(
    ("new", "told"),
    [
        ({"dialled": True, "explicit": True}, 2),
        ({"dialled": False}, 1),
        ({"dialled": True, "mode": 2}, 0),
        ({"dialled": True}, None),
    ],
)
def test_who_is_told_of_a_new_server_and_whether_it_tells_others(new: dict[str, Any], told: int | None) -> None:
    """An accepted one is dialled by everybody who hears of it, and these need not tell each other. One that was dialled
    because of gossip is known to whoever told of it."""
    peers = Peers(3)
    place(peers, route(1, peer="A"))
    one = route(2, peer="B", **new)
    place(peers, one)
    assert [(to.connection, mode) for to, mode in peers.told_of(one, THEIRS)] == ([] if told is None else [(1, told)])
    assert peers.told_of(one, THEIRS | {"gossip_mode": 1}) == []


def test_addresses_of_a_server_are_there_as_long_as_one_of_its_pool_is() -> None:
    """Clients and leaves are told of them."""
    peers = Peers(3)
    first, second = route(1), route(2)
    place(peers, first, connect_urls=["10.0.0.2:4222", "no port", ""], leafnode_urls=["10.0.0.2:7422"])
    place(peers, second, route_pool_idx=1)
    assert peers.urls("connect_urls") == ("10.0.0.2:4222",)
    gone = peers.remove(first)
    assert gone is not None
    assert not gone.last
    gone = peers.remove(second)
    assert gone is not None
    assert gone.last
    assert peers.remove(second) is None
    assert peers.urls("leafnode_urls") == ()


# ---- small things


def test_places_are_read_from_urls_with_and_without_a_login() -> None:
    """As they stand in configurations and in INFO."""
    assert place_of("nats-route://a%40:b@host:1/") == Place("host", 1, "a@", "b")
    assert place_of("host") == Place("host", 6222)
    assert place_of("nats-route://[::1]:7/").url == "nats-route://[::1]:7/"
    for wrong in ("nats-route://", "nats-route://h:70000", "x" * 2000):
        with pytest.raises(ValueError, match=r"."):
            place_of(wrong)


def test_of_the_addresses_that_a_peer_names_only_places_are_kept_and_not_too_many() -> None:
    """They go into the INFO of each client."""
    assert kept_urls(["a:1", "a:1", "b:x", "c", "d:2\r\nPING", "e:" + "1" * 300, "[::1]:4"]) == ("a:1", "[::1]:4")
    assert len(kept_urls(f"h:{number}" for number in range(1000))) == 64


def test_every_action_is_carried_out_by_the_routes() -> None:
    """A new one here needs a line there."""
    assert set(routing.Action.__args__) == {Send, Compress, Resume, Rename, Namesake, Join, Close}
    assert set(routing.Update.__args__) == {Send, Learned, Leaves, Pinned, Prepared, Relearned, OtherCluster}
