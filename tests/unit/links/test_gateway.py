"""A gateway's handshake: what each end says to each line.

Texts of refusals are nats-server's; tests/interop/test_gateway_contract.py holds the same machine against one.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from leafd.links.gateway import Join, Machine, Misnamed, Namesake, Supercluster, Told
from leafd.links.gateway_info import gateway_place, places_in, texts
from leafd.links.handshake import Close
from leafd.links.leaf import Resume, Send
from leafd.links.route_info import LETTERS, URLS_MAX, Place
from leafd.native_types import CloseReason, LineKind

OWN = Supercluster("NOWN", "own", "2.15.1", "A", host="10.0.0.1", port=7222, url="10.0.0.1:7222")
THEIRS: dict[str, Any] = {
    "server_id": "NPEER",
    "server_name": "peer",
    "version": "2.15.1",
    "proto": 3,
    "host": "10.0.0.2",
    "port": 7222,
    "headers": True,
    "max_payload": 1048576,
    "gateway": "B",
    "gateway_urls": ["10.0.0.2:7222"],
    "gateway_url": "10.0.0.2:7222",
    "gateway_nrp": True,
    "gateway_iom": True,
}


def inbound(**own: Any) -> Machine:
    return Machine(replace(OWN, urls=(OWN.url,), **own))


def outbound(place: Place | None = None, **own: Any) -> Machine:
    return Machine(replace(OWN, urls=(OWN.url,), **own), "B", place)


def said(action: object, verb: str) -> dict[str, Any]:
    assert isinstance(action, Send)
    found = action.frame.decode()
    assert found.startswith(f"{verb} {{")
    assert found.endswith(" \r\n")
    value: dict[str, Any] = json.loads(found.removeprefix(verb))
    return value


def connect(**fields: Any) -> bytes:
    return json.dumps({"name": "NPEER", "gateway": "B", "tls_required": False} | fields).encode()


def info(**fields: Any) -> bytes:
    return json.dumps(THEIRS | fields).encode()


def closed(actions: list[Any]) -> Close:
    (last,) = [one for one in actions if isinstance(one, Close)]
    return last


# ---- inbound


def test_who_is_dialled_says_info_first_and_waits_for_connect_then_for_info() -> None:
    """Its INFO says that it tells its interest at once, and where its cluster is reached."""
    here = inbound()
    (first,) = here.opened()
    told = said(first, "INFO")
    assert told["gateway"] == "A"
    assert told["gateway_urls"] == ["10.0.0.1:7222"]
    assert told["gateway_url"] == "10.0.0.1:7222"
    assert told["gateway_nrp"]
    assert told["gateway_iom"]
    assert told["proto"] == 3, "from 3 on a server is sent traces"
    assert "auth_required" not in told
    assert here.line(LineKind.CONNECT, connect()) == [Resume()]
    assert not here.joined
    (join,) = here.line(LineKind.INFO, info())
    assert isinstance(join, Join)
    assert join.info["gateway"] == "B"
    assert here.joined
    assert here.headers


@pytest.mark.parametrize("kind", [LineKind.INFO, LineKind.ERR, 77])
def test_before_connect_nothing_else_is_heard(kind: int) -> None:
    """An INFO without a CONNECT would be one without a login."""
    close = closed(inbound().line(kind, info()))
    assert (close.why, close.told) == ("Authorization Violation", True)


@pytest.mark.parametrize("login", [{}, {"user": "u"}, {"user": "u", "pass": "x"}, {"user": "x", "pass": "p"}])
def test_a_wrong_login_is_told_before_anything_else(login: dict[str, Any]) -> None:
    """Also to a client, and to a cluster that nobody knows."""
    here = inbound(user="u", password="p", rejects_unknown=True, knows=lambda name: False)
    close = closed(here.line(LineKind.CONNECT, connect(gateway="", **login)))
    assert (close.why, close.reason) == ("Authorization Violation", CloseReason.AUTHENTICATION)
    assert inbound(user="u", password="p").line(LineKind.CONNECT, connect(user="u", **{"pass": "p"})) == [Resume()]


@pytest.mark.parametrize("fields", [{"gateway": ""}, {"gateway": "", "lang": "go"}, {"gateway": "", "cluster": "C"}])
def test_clients_and_routes_are_told_that_this_is_the_wrong_port(fields: dict[str, Any]) -> None:
    """In nats-server's words, which its users know."""
    close = closed(inbound().line(LineKind.CONNECT, connect(**fields)))
    assert (close.why, close.told) == ("attempted to connect to gateway port", True)


def test_an_unknown_cluster_is_rejected_where_the_configuration_says_so() -> None:
    """It is told by whom, and not which clusters are known."""
    here = inbound(rejects_unknown=True, knows=lambda name: name == "B")
    assert here.line(LineKind.CONNECT, connect()) == [Resume()]
    close = closed(inbound(rejects_unknown=True, knows=lambda name: False).line(LineKind.CONNECT, connect()))
    assert (close.why, close.told) == ('Connection to gateway "A" rejected', True)
    assert inbound(knows=lambda name: False).line(LineKind.CONNECT, connect()) == [Resume()]


@pytest.mark.parametrize("name", ["C", "", "A"])
def test_a_cluster_that_calls_itself_otherwise_in_its_info_is_rejected(name: str) -> None:
    """Else who is not let in would come under the name of one that is; the own cluster does not come by a gateway."""
    here = inbound()
    assert here.line(LineKind.CONNECT, connect(gateway="B" if name != "A" else "A")) == [Resume()]
    assert closed(here.line(LineKind.INFO, info(gateway=name))).why == 'Connection to gateway "A" rejected'


@pytest.mark.parametrize("name", ["x" * 256, "two words", "line\nfeed"])
def test_a_name_that_no_cluster_can_have_is_rejected(name: str) -> None:
    """It would stand in logs and reports."""
    assert closed(inbound().line(LineKind.CONNECT, connect(gateway=name))).told


# ---- outbound


def test_who_dials_says_nothing_before_info_then_connect_and_its_own_info() -> None:
    """Whatever else came first would end the connection. Both go in one packet. An address's login comes before the
    block's."""
    here = outbound(user="u", password="p", tls=True)
    assert here.opened() == []
    both, join = here.line(LineKind.INFO, info(auth_required=True))
    assert isinstance(both, Send)
    first, second = (Send(line) for line in both.frame.splitlines(keepends=True))
    told = said(first, "CONNECT")
    assert (told["gateway"], told["name"], told["user"], told["pass"]) == ("A", "NOWN", "u", "p")
    assert "lang" not in told
    assert said(second, "INFO")["gateway_urls"] == ["10.0.0.1:7222"]
    assert isinstance(join, Join)
    own = outbound(Place("b", 1, "mine", "secret"), user="u", password="p")
    action = own.line(LineKind.INFO, info())[0]
    assert isinstance(action, Send)
    told = said(Send(action.frame.splitlines(keepends=True)[0]), "CONNECT")
    assert (told["user"], told["pass"]) == ("mine", "secret")


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"gateway": ""}, 'Attempt to connect to gateway "B" using wrong port'),
        ({"gateway": "C"}, 'Connection from "A" rejected, wanted to connect to "B", this is "C"'),
        ({"gateway": "A"}, 'Connection from "A" rejected, wanted to connect to "B", this is "A"'),
    ],
)
def test_a_server_of_another_cluster_than_that_wanted_is_told_so(fields: dict[str, Any], text: str) -> None:
    """In nats-server's words, so that its log says what is wrong here."""
    *said, close = outbound().line(LineKind.INFO, info(**fields))
    assert isinstance(close, Close)
    assert (close.why, close.told) == (text, True)
    assert said == ([Misnamed(fields["gateway"], "B")] if fields["gateway"] else [])


@pytest.mark.parametrize("machine", [inbound, outbound])
def test_a_server_that_has_the_name_of_one_of_this_cluster_is_not_taken(machine: Any) -> None:
    """Reports and events would mix the two up."""
    for own, name in (({}, "own"), ({"has_server": lambda name: name == "peer"}, "peer")):
        here = machine(**own)
        if machine is inbound:
            here.line(LineKind.CONNECT, connect())
        close = closed(here.line(LineKind.INFO, info(server_name=name)))
        assert close.reason == CloseReason.DUPLICATE
        assert "duplicate name" in close.why


@pytest.mark.parametrize("machine", [inbound, outbound])
@pytest.mark.parametrize(("ours", "theirs", "taken"), [(1, 1, False), (0, 1, True), (1, 0, True), (-1, -1, True)])
def test_the_name_of_a_server_of_another_cluster_is_its_own_where_there_is_a_group(
    machine: Any, ours: int, theirs: int, taken: bool
) -> None:
    """Groups know servers by their names. Outside of one, names of different clusters may be alike."""

    def first(server_id: str, name: str) -> bool:
        return (server_id, name) != ("NPEER", "another")

    here = machine(letters=ours, namesake=first)
    if machine is inbound:
        here.line(LineKind.CONNECT, connect())
    actions = here.line(LineKind.INFO, info(leafd_letters=theirs))
    assert here.joined == taken
    if not taken:
        assert LETTERS == theirs
        assert Namesake("NPEER", "peer") in actions
        assert (closed(actions).why, closed(actions).told) == ("Duplicate Server Name", True)


@pytest.mark.parametrize("machine", [inbound, outbound])
def test_a_server_that_would_send_what_nobody_asked_for_is_refused(machine: Any) -> None:
    """Before 2.9 a gateway is sent everything until it objects."""
    here = machine()
    if machine is inbound:
        here.line(LineKind.CONNECT, connect())
    close = closed(here.line(LineKind.INFO, info(gateway_iom=False)))
    assert close.told
    assert "2.9" in close.why


def test_a_refusal_of_the_other_side_is_the_reason_that_is_logged() -> None:
    """As it stands, quoted."""
    close = closed(outbound().line(LineKind.ERR, b'Connection to gateway "B" rejected\n'))
    assert not close.told
    assert "rejected" in close.why
    assert "\n" not in close.why


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b"7", b"\xff", b'{"gateway":{}}', b'{"gateway_urls":7}'])
def test_lines_that_are_none_end_the_connection(line: bytes) -> None:
    """In either direction."""
    assert closed(outbound().line(LineKind.INFO, line))
    assert closed(inbound().line(LineKind.CONNECT, line))
    here = inbound()
    here.line(LineKind.CONNECT, connect())
    assert closed(here.line(LineKind.INFO, line))


# ---- later on


def joined(**own: Any) -> Machine:
    here = outbound(**own)
    here.line(LineKind.INFO, info())
    return here


def test_later_infos_tell_of_other_addresses_and_of_other_clusters() -> None:
    """The first are the peer's whole cluster's; commands of interest are the plane's."""
    here = joined()
    there = (Place("10.0.0.2", 7222), Place("10.0.0.3", 7222))
    assert here.update(info(gateway_urls=texts(there))) == [Told("B", there, anew=True)]
    gossip = {"gateway": "C", "gateway_urls": ["c:1"], "gateway_cmd": 1}
    assert here.update(json.dumps(gossip).encode()) == [Told("C", (Place("c", 1),))]
    for command in (2, 3):
        of_interest = {"gateway": "B", "gateway_cmd": command, "gateway_cmd_payload": "QQ=="}
        assert here.update(json.dumps(of_interest).encode()) == []
    (close,) = here.update(info(gateway="C"))
    assert isinstance(close, Close)


def test_clusters_that_are_not_wanted_are_not_heard_of_either() -> None:
    """reject_unknown_cluster is for both directions."""
    gossip = json.dumps({"gateway": "C", "gateway_urls": ["c:1"], "gateway_cmd": 1}).encode()
    assert joined(rejects_unknown=True, knows=lambda name: name == "B").update(gossip) == []
    assert joined(rejects_unknown=True, knows=lambda name: True).update(gossip) != []


def test_who_dialled_has_nothing_to_tell_later() -> None:
    """As with nats-server."""
    here = inbound()
    here.line(LineKind.CONNECT, connect())
    here.line(LineKind.INFO, info())
    assert here.update(json.dumps({"gateway": "C", "gateway_urls": ["c:1"], "gateway_cmd": 1}).encode()) == []
    assert here.update(info(gateway="X")) == []


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b"\xff", b'{"gateway":{}}', b'{"gateway_urls":[7]}', b"{" * 5000])
def test_what_is_unclear_later_is_passed_over(line: bytes) -> None:
    """The connection works."""
    assert joined().update(line) == []


def test_addresses_of_others_are_bounded_and_can_be_dialled() -> None:
    """A peer names as many as it likes."""
    urls = [f"10.0.{number >> 8}.{number & 255}:7222" for number in range(1000)]
    assert len(places_in(urls)) == URLS_MAX
    assert places_in(["h", "h:x", ":1", "h:0", "h:70000", "u@h:1\n", "good:1", "[::1]:2", "good:1"]) == (
        Place("good", 1),
        Place("::1", 2),
    )
    assert texts((Place("::1", 2, "u", "p"),)) == ["[::1]:2"]
    assert gateway_place("nats://u:p%40@h:7") == Place("h", 7, "u", "p@")
    with pytest.raises(ValueError, match="names no host and port"):
        gateway_place("nats://h")
