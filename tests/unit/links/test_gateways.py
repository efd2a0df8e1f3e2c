"""Which clusters are dialled and how often, how many there are at a time, and who is told of what.

The plane is played here: what it is ordered is written down, and what it would tell is handed in. The lines themselves
are test_gateway.py's.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing
from leafd import native_types as t
from leafd.links import servers as room
from leafd.links.gateway import Supercluster
from leafd.links.gateways import CLUSTERS_MAX, FIRST_S, Gateways, Remote, Terms
from leafd.links.route_info import LETTERS, URLS_MAX, Place
from leafd.links.servers import AGAIN_MAX_S, DIALS_MAX

from tests.rig.logs import KeptLog
from tests.unit.links.logging_in import ServersPlane, logins_are_bounded


class Plane(ServersPlane):
    """Takes orders, and says what it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.admitted: dict[int, tuple[t.GatewayTerms, str]] = {}
        self.secured: dict[int, str] = {}

    def secure(
        self, connection: int, how: t.Secure, *, before: bytes = b"", behind: bytes = b"", name: str = ""
    ) -> None:
        self.secured[connection] = name

    def end_silence(self, connection: int, text: str) -> None:
        self.close_connection(connection, text)

    def admit_gateway(self, connection: int, terms: t.GatewayTerms, name: str) -> None:
        self.admitted[connection] = terms, name


def remote(name: str, *places: Place, secure: t.Secure | None = None) -> Remote:
    return Remote(name, places or (Place("10.0.1.1", 7222),), explicit=True, secure=secure)


class Stage:
    """Gateways with a plane that is played."""

    def __init__(self, *remotes: Remote, rejects: bool = False, **terms: Any) -> None:
        self.plane, self.log = Plane(), KeptLog()
        self.dialled: list[tuple[float, Place]] = []
        self.hangs = False
        own = Supercluster("NOWN", "own", "2.15.1", "A", user="u", password="p", url="own:1", urls=("own:1",))
        own.rejects_unknown = rejects
        self.gateways = Gateways(self.plane, own, Terms(remotes=remotes, **terms), self.log)

    async def reach(self, place: Place, attempt: int) -> trio.SocketStream:
        """In place of the network: a connection to each place that is called 10..., and to none else."""
        self.dialled.append((trio.current_time(), place))
        if self.hangs:
            await trio.sleep_forever()
        if not place.host.startswith("10."):
            raise ConnectionRefusedError(111, "refused")
        ours, theirs = trio.socket.socketpair()
        theirs.close()
        return trio.SocketStream(ours)

    def accept(self, number: int) -> None:
        self.gateways.handle(t.Opened(number, t.ConnKind.GATEWAY, 5, f"10.0.0.{number % 200}:1"))

    def hear(self, number: int, kind: t.LineKind, name: str = "B", **fields: Any) -> None:
        base: dict[str, Any] = {"gateway": name, "user": "u", "pass": "p", "name": f"N{number}"}
        if kind == t.LineKind.INFO:
            base = {"server_id": f"N{number}", "server_name": f"s{number}", "gateway": name, "headers": True}
            base |= {"proto": 3, "gateway_urls": [f"10.0.0.{number % 200}:7222"], "gateway_iom": True}
        self.gateways.handle(t.Line(number, kind, json.dumps(base | fields).encode()))

    def join(self, number: int, name: str = "B", **fields: Any) -> None:
        """An inbound one."""
        self.accept(number)
        self.hear(number, t.LineKind.CONNECT, name)
        self.hear(number, t.LineKind.INFO, name, **fields)

    def tell(self, number: int, **fields: Any) -> None:
        self.gateways.handle(t.LeafInfo(number, json.dumps(fields).encode()))

    def end(self, number: int) -> None:
        self.gateways.handle(t.Closed(number, int(t.CloseReason.CLIENT), ""))

    def gossip(self, number: int) -> dict[str, list[str]]:
        """The other clusters that a connection was told of."""
        return {
            said["gateway"]: said["gateway_urls"]
            for to, verb, said in self.plane.said
            if to == number and said.get("gateway_cmd") == 1
        }


def play(stage: Stage, scene: Callable[[], Awaitable[None]], monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stage.gateways.run)
            await trio.testing.wait_all_tasks_blocked()
            await scene()
            nursery.cancel_scope.cancel()

    monkeypatch.setattr(stage.gateways, "_connected", stage.reach)
    monkeypatch.setattr(room, "watch_over", lambda sock: 0.0)
    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_clusters_of_the_configuration_are_dialled_a_second_after_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The own cluster has found together by then. One connection with each, to any of its servers."""
    stage = Stage(remote("B", Place("10.0.1.1", 1), Place("10.0.1.2", 1)), remote("C"))

    async def scene() -> None:
        await trio.sleep(FIRST_S - 0.1)
        assert not stage.dialled
        await trio.sleep(0.2)
        assert len(stage.dialled) == 2
        stage.hear(101, t.LineKind.INFO, stage.gateways._links[101].name)
        await trio.sleep(100)

    play(stage, scene, monkeypatch)
    terms, name = stage.plane.admitted[101]
    assert t.GatewayFlag(terms.flags) == t.GatewayFlag.OUTBOUND | t.GatewayFlag.HEADERS | t.GatewayFlag.TRACES
    assert name == stage.gateways._out[name].name
    assert terms.ping_interval_ns == 15_000_000_000


def test_one_of_the_configuration_is_dialled_for_ever_and_one_that_was_learned_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first is an operator's word, the other a peer's."""
    stage = Stage(remote("B", Place("gone", 1)), retries=2)

    async def scene() -> None:
        stage.gateways.learn("X", (Place("learned", 2),))
        await trio.sleep(3600)

    play(stage, scene, monkeypatch)
    explicit = [at for at, place in stage.dialled if place.host == "gone"]
    learned = [place for _, place in stage.dialled if place.host == "learned"]
    assert len(learned) == 3
    assert "X" not in stage.gateways.remotes
    assert len(explicit) > 3600 / 1.25 - 2
    assert len([text for level, text in stage.log.lines if level == "error" and "gone" in text]) < 10


def test_with_back_off_the_pauses_double_up_to_half_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster that is away for a night is not asked 30,000 times."""
    stage = Stage(remote("B", Place("gone", 1)), backoff=True)

    async def scene() -> None:
        await trio.sleep(600)

    play(stage, scene, monkeypatch)
    assert len(stage.dialled) < 35


def test_who_comes_is_dialled_back_and_told_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """So messages go both ways, and every cluster finds each other one."""
    stage = Stage(remote("C"))

    async def scene() -> None:
        stage.join(1, "B")
        stage.join(2, "C")
        await trio.sleep(0.5)
        assert [place for _, place in stage.dialled] == [Place("10.0.0.1", 7222)]
        assert stage.gossip(1) == {"C": ["10.0.1.1:7222"]}
        assert stage.gossip(2) == {"B": ["10.0.0.1:7222"]}

    play(stage, scene, monkeypatch)
    assert stage.plane.admitted[1][1] == "B"
    assert t.GatewayFlag.OUTBOUND not in t.GatewayFlag(stage.plane.admitted[1][0].flags)


def test_a_cluster_that_is_lost_is_dialled_again_at_any_of_its_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also at those that its servers told of; those that they take back are not kept."""
    stage = Stage(remote("B"))

    async def scene() -> None:
        await trio.sleep(1.5)
        stage.hear(101, t.LineKind.INFO, gateway_urls=["10.9.9.9:1", "10.9.9.8:1"])
        stage.tell(101, gateway="B", gateway_urls=["10.9.9.9:1"])
        for _ in range(40):
            stage.end(stage.plane.last)
            await trio.sleep(2)
            stage.hear(stage.plane.last, t.LineKind.INFO, gateway_urls=["10.9.9.9:1"])

    play(stage, scene, monkeypatch)
    assert {place.host for _, place in stage.dialled[1:]} == {"10.0.1.1", "10.9.9.9"}


def test_a_login_that_is_refused_is_tried_again_each_second_and_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other side may be mended; the log is not to be flooded meanwhile."""
    stage = Stage(remote("B"))

    async def scene() -> None:
        await trio.sleep(FIRST_S + 0.1)
        for _ in range(20):
            number = stage.plane.last
            stage.gateways.handle(t.Line(number, t.LineKind.ERR, b"Authorization Violation"))
            stage.end(number)
            await trio.sleep(1.2)

    play(stage, scene, monkeypatch)
    assert 18 <= len(stage.dialled) <= 22
    assert len([text for level, text in stage.log.lines if level == "info" and "Violation" in text]) == 1


def test_a_cluster_with_this_one_s_name_or_another_than_configured_is_an_error_told_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As of a site that was copied with its configuration. Whichever end dialled says so."""
    stage = Stage(remote("B"))

    async def scene() -> None:
        for name in ("A", "C"):
            await trio.sleep(FIRST_S + 0.1)
            for _ in range(4):
                number = stage.plane.last
                stage.hear(number, t.LineKind.INFO, name)
                assert "rejected" in stage.plane.closed[number]
                stage.end(number)
                await trio.sleep(1.2)
        stage.join(1, "A")
        assert "rejected" in stage.plane.closed[1]

    play(stage, scene, monkeypatch)
    told = [text.rpartition(" - ")[2] for level, text in stage.log.lines if level == "error"]
    own = 'the cluster there calls itself "A", as this one does: each cluster needs a name of its own'
    other = 'the cluster there calls itself "C", and the configuration here calls it "B"'
    assert told == [own, other, own]


def test_of_a_thousand_clusters_and_addresses_that_a_peer_tells_of_a_bounded_number_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And so many are dialled at a time."""
    stage = Stage()
    stage.hangs = True

    async def scene() -> None:
        stage.gateways.learn("B", (Place("10.0.0.1", 1),))
        for number in range(1000):
            stage.gateways.learn(f"X{number}", (Place(f"10.1.{number >> 8}.{number & 255}", 1),))
            stage.gateways.learn("B", (Place(f"10.2.{number >> 8}.{number & 255}", 1),))
        await trio.sleep(1)
        assert len(stage.dialled) == DIALS_MAX
        assert len(stage.gateways.remotes) == CLUSTERS_MAX
        assert len(stage.gateways.remotes["B"].places) == URLS_MAX

    play(stage, scene, monkeypatch)


def test_clusters_that_are_not_wanted_are_neither_let_in_nor_dialled(monkeypatch: pytest.MonkeyPatch) -> None:
    """reject_unknown_cluster."""
    stage = Stage(remote("B"), rejects=True)

    async def scene() -> None:
        stage.accept(1)
        stage.hear(1, t.LineKind.CONNECT, "X")
        assert stage.plane.closed[1] == 'Connection to gateway "A" rejected'
        stage.join(2, "B")
        await trio.sleep(1.5)
        stage.hear(101, t.LineKind.INFO)
        stage.tell(101, gateway="X", gateway_urls=["10.0.0.9:1"], gateway_cmd=1)
        await trio.sleep(1)
        assert list(stage.gateways.remotes) == ["B"]
        assert 2 in stage.plane.admitted

    play(stage, scene, monkeypatch)


def test_logins_at_a_time_are_bounded_and_have_to_end_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever connects and says nothing takes neither memory nor a place for long, and not the place of another one:
    the oldest that has not logged in makes room."""
    stage = Stage(login_s=2.0)
    play(stage, lambda: logins_are_bounded(stage), monkeypatch)


def test_the_own_clusters_addresses_are_told_to_who_came_and_not_to_who_was_dialled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who dialled us dials another of us when this server goes; who was dialled learns it from who it dials."""
    stage = Stage(remote("B"))

    async def scene() -> None:
        await trio.sleep(1.5)
        stage.hear(101, t.LineKind.INFO)
        stage.join(1, "B")
        del stage.plane.said[:]
        stage.gateways.told_urls(("own:1", "other:1"))
        stage.gateways.told_urls(("other:1", "own:1"))
        assert [(to, said["gateway_urls"]) for to, _, said in stage.plane.said] == [(1, ["own:1", "other:1"])]
        stage.gateways.end()
        assert stage.plane.said[-1][2]["gateway_urls"] == ["other:1"]

    play(stage, scene, monkeypatch)


def test_servers_of_this_cluster_hear_of_each_cluster_that_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """When it is, when its addresses change, and when they join: each server has its own connection with it."""
    stage = Stage(remote("B"))
    told: list[dict[str, Any]] = []
    stage.gateways.on_reached.append(lambda said: told.append(json.loads(said.removeprefix(b"INFO "))))

    async def scene() -> None:
        await trio.sleep(1.5)
        assert stage.gateways.reached() == []
        stage.hear(101, t.LineKind.INFO, gateway_urls=["10.0.1.1:7222"])
        stage.tell(101, gateway="B", gateway_urls=["10.0.1.1:7222", "10.0.1.2:7222"])
        stage.tell(101, gateway="B", gateway_urls=["10.0.1.2:7222", "10.0.1.1:7222"])

    play(stage, scene, monkeypatch)
    assert [one["gateway_urls"] for one in told] == [["10.0.1.1:7222"], ["10.0.1.1:7222", "10.0.1.2:7222"]]
    assert all((one["server_id"], one["gateway"], one["gateway_cmd"]) == ("GWNOWN", "B", 1) for one in told)
    (said,) = stage.gateways.reached()
    assert json.loads(said.removeprefix(b"INFO ")) == told[-1]


def test_the_certificate_is_checked_for_the_name_that_the_configuration_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also at an address that another server told of."""
    stage = Stage(remote("B", Place("10.named", 1), secure=t.Secure(8, int(t.SecureFlag.FIRST))))

    async def scene() -> None:
        stage.gateways.learn("B", (Place("10.0.0.7", 1),))
        await trio.sleep(1.5)

    play(stage, scene, monkeypatch)
    assert list(stage.plane.secured.values()) == ["10.named"]


def test_whatever_a_peer_says_the_gateways_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """What nobody foresaw costs one connection at most."""
    stage = Stage()
    lines = [b"", b"{", b"[]", b"7", b"\xff", b'{"gateway":{}}', b'{"gateway":"B","gateway_urls":"x"}', b"{" * 5000]

    async def scene() -> None:
        for number, line in enumerate(lines, start=1):
            for kind in (t.LineKind.CONNECT, t.LineKind.INFO, t.LineKind.ERR, 99):
                stage.accept(number)
                stage.gateways.handle(t.Line(number, kind, line))
                stage.end(number)
            stage.join(50)
            stage.gateways.handle(t.LeafInfo(50, line or b"-"))
            stage.end(50)
        stage.join(1)

    play(stage, scene, monkeypatch)
    assert [row.remote_id for row in stage.gateways.rows()] == ["N1"]


def test_a_second_server_with_the_name_of_one_is_refused_while_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cloned site does not take the place of the first one in the group, under its cluster's name or another; who
    comes back after a cut that ended no connection has it after some seconds. Both are named in the log."""
    stage = Stage()
    stage.gateways.own.letters = LETTERS

    async def scene() -> None:
        stage.join(1, server_name="box", leafd_letters=LETTERS)
        for attempt, cluster in ((2, "B"), (3, "C")):
            stage.join(attempt, cluster, server_name="box", leafd_letters=LETTERS)
            assert stage.plane.closed[attempt] == "Duplicate Server Name"
            stage.end(attempt)
            await trio.sleep(5)
        assert stage.plane.admitted.keys() & {1, 2, 3} == {1}
        complaints = [text for level, text in stage.log.lines if level == "error" and "duplicate name" in text]
        assert ["10.0.0.1:1" in text and '"box"' in text for text in complaints] == [True, True]
        assert stage.gateways.named("box")
        stage.plane.dead.add(1)
        stage.join(4, server_name="box", leafd_letters=LETTERS)
        await trio.sleep(5)
        assert stage.plane.closed.keys() & {1, 4} == {1, 4}
        stage.end(1)
        stage.join(5, server_name="box", leafd_letters=LETTERS)
        assert 5 in stage.plane.admitted

    play(stage, scene, monkeypatch)


def test_who_is_refused_for_its_name_comes_again_more_and_more_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be a clone that nobody notices for weeks."""
    stage = Stage(remote("B"))
    waits = []

    async def scene() -> None:
        await trio.sleep(FIRST_S + 0.1)
        for number in range(101, 140):
            stage.hear(number, t.LineKind.INFO)
            stage.gateways.handle(t.LeafError(number, "Duplicate Server Name"))
            stage.end(number)
            ended = trio.current_time()
            await trio.sleep(AGAIN_MAX_S + 5)
            waits.append(stage.dialled[-1][0] - ended)

    play(stage, scene, monkeypatch)
    assert 2 <= waits[0] < 3
    assert 5 <= waits[3] < 6
    assert AGAIN_MAX_S <= waits[-1] < AGAIN_MAX_S + 2
