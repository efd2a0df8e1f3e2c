"""Who is dialled and how often, how many servers and logins there are at a time, and who is told of what.

The plane is played here: what it is ordered is written down, and what it would tell is handed in. The lines themselves
are test_route.py's.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.lowlevel
import trio.testing
from leafd import native_types as t
from leafd.links import servers as room
from leafd.links.peers import PEERS_MAX, Peers
from leafd.links.route import Cluster
from leafd.links.route_info import LOWER_DIALS, Place, places_of
from leafd.links.route_links import Terms
from leafd.links.routes import Routes
from leafd.links.servers import DIALS_MAX

from tests.rig.logs import KeptLog
from tests.unit.links.logging_in import ServersPlane, logins_are_bounded

THERE = Place("10.0.0.2", 6222)


class Plane(ServersPlane):
    """Takes orders, and says what it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: set[int] = set()
        self.admitted: dict[int, tuple[int, t.RouteTerms]] = {}
        self.regranted: list[tuple[int, t.Permissions, bool]] = []
        self.regrants: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint

    def secure(self, connection: int, how: t.Secure, **said: Any) -> None: ...
    def compress(self, connection: int, how: t.Compress, **said: Any) -> None: ...

    def end_silence(self, connection: int, text: str) -> None:
        if connection not in self.heard:  # what has come is known here before anybody looks at it
            self.close_connection(connection, text)

    def admit_route(
        self, connection: int, account: int, terms: t.RouteTerms, permissions: t.Permissions, server_id: str = ""
    ) -> None:
        self.admitted[connection] = account, terms

    async def change_route_rights(self, connection: int, permissions: t.Permissions, *, refused: bool = False) -> None:
        self.regranted.append((connection, permissions, refused))
        await self.regrants()


class Stage:
    """Routes with a plane that is played."""

    def __init__(self, **terms: Any) -> None:
        self.plane, self.log = Plane(), KeptLog()
        self.dialled: list[tuple[float, Place]] = []
        self.hangs = False
        cluster = Cluster("NOWN", "own", "2.15.1", "C", host="0.0.0.0", port=6222, user="u", password="p")
        self.routes = Routes(
            self.plane, cluster, Peers(3, ("$SYS",)), Terms(**terms), self.log, account_id=lambda name: 9
        )

    async def reach(self, place: Place, attempt: int) -> trio.SocketStream | None:
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
        self.routes.handle(t.Opened(number, t.ConnKind.ROUTE, 4, f"10.0.0.{number % 200}:1"))

    def hear(self, number: int, kind: t.LineKind, **fields: Any) -> None:
        base: dict[str, Any] = {"cluster": "C", "user": "u", "pass": "p", "name": f"N{number}"}
        if kind == t.LineKind.INFO:
            base = {"server_id": f"N{number}", "server_name": f"s{number}", "cluster": "C", "port": 6222}
            base |= {"route_pool_size": 3, "connect_urls": [f"10.0.0.{number % 200}:4222"]}
        self.routes.handle(t.Line(number, kind, json.dumps(base | fields).encode()))

    def join(self, number: int, **fields: Any) -> None:
        self.accept(number)
        self.hear(number, t.LineKind.CONNECT)
        self.hear(number, t.LineKind.INFO, **fields)

    def tell(self, number: int, **fields: Any) -> None:
        self.routes.handle(t.LeafInfo(number, json.dumps(fields).encode()))

    def end(self, number: int) -> None:
        self.routes.handle(t.Closed(number, int(t.CloseReason.CLIENT), ""))


def play(stage: Stage, scene: Callable[[], Awaitable[None]], monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stage.routes.run)
            await trio.testing.wait_all_tasks_blocked()
            await scene()
            nursery.cancel_scope.cancel()

    monkeypatch.setattr(stage.routes, "_connected", stage.reach)
    monkeypatch.setattr(room, "watch_over", lambda sock: 0.0)
    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_a_place_of_the_configuration_is_dialled_for_ever_and_one_that_was_learned_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first is an operator's word, the other a peer's."""
    stage = Stage(places=(Place("gone", 1),), retries=2)

    async def scene() -> None:
        stage.join(1)
        stage.tell(1, server_id="NX", ip="nats-route://learned:2/")
        await trio.sleep(3600)

    play(stage, scene, monkeypatch)
    explicit = [at for at, place in stage.dialled if place.host == "gone"]
    learned = [place for _, place in stage.dialled if place.host == "learned"]
    assert len(learned) == 3
    assert len(explicit) > 2 * 3600 / 1.25  # for the pool, and for the system account
    assert len([text for level, text in stage.log.lines if level == "error" and "attempt" in text]) < 10


def test_with_back_off_the_pauses_double_up_to_half_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is away for a night is not asked 30,000 times."""
    stage = Stage(places=(Place("gone", 1),), backoff=True)

    async def scene() -> None:
        await trio.sleep(600)

    play(stage, scene, monkeypatch)
    times = [at for at, _ in stage.dialled]
    assert len(times) < 2 * 35


def test_a_start_has_tried_each_place_when_it_was_answered_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connected is not joined: the place has to answer, or to end the connection. No place is nothing to wait for."""
    alone, stage = Stage(), Stage(places=(THERE, Place("gone", 1), Place("10.0.0.3", 6222)))
    answered: list[bool] = []

    async def scene() -> None:
        ours = [number for number, link in stage.routes._links.items() if not link.route.account]
        answered.append(stage.routes.tried.is_set())
        stage.hear(ours[0], t.LineKind.INFO)
        answered.append(stage.routes.tried.is_set())
        stage.routes.handle(t.LeafInfo(ours[0], b""))
        answered.append(stage.routes.tried.is_set())
        stage.end(ours[1])
        answered.append(stage.routes.tried.is_set())

    async def nothing() -> None:
        answered.append(alone.routes.tried.is_set())

    play(stage, scene, monkeypatch)
    play(alone, nothing, monkeypatch)
    assert answered == [False, False, False, True, True]


def test_the_next_connection_of_a_pool_is_dialled_when_the_one_before_was_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Until then nobody knows whether the login was good."""
    stage = Stage(places=(THERE,))

    async def scene() -> None:
        await trio.sleep(1)
        assert len(stage.dialled) == 2  # the first of the pool, and the system account's
        for place in range(3):
            pooled = next(
                link.connection
                for link in stage.routes._links.values()
                if not link.route.account and not link.machine.joined
            )
            stage.hear(pooled, t.LineKind.INFO, server_id="NP", server_name="p")
            await trio.sleep(1)
            assert len(stage.dialled) == 2 + place
            stage.routes.handle(t.LeafInfo(pooled, b""))
            await trio.sleep(1)

    play(stage, scene, monkeypatch)


def test_the_connection_that_gives_way_ends_before_the_other_one_joins_and_nobody_has_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both ends have dialled for one place, over a way that is longer than the pauses between attempts."""
    stage = Stage(places=(THERE,))
    left: list[None] = []
    order: list[tuple[str, int]] = []
    stage.routes.on_left.append(lambda: left.append(None))
    monkeypatch.setattr(stage.plane, "close_connection", lambda number, *_: order.append(("closed", number)))
    monkeypatch.setattr(stage.plane, "admit_route", lambda number, *_: order.append(("admitted", number)))

    async def scene() -> None:
        ours = next(number for number, link in stage.routes._links.items() if not link.route.account)
        about = {"server_id": "NLOW", "server_name": "low", "leafd_dials": LOWER_DIALS}
        stage.hear(ours, t.LineKind.INFO, **about)
        stage.join(99, **about)
        assert order == [("admitted", ours), ("closed", ours), ("admitted", 99)]
        stage.end(ours)
        assert not left
        stage.end(99)
        assert left

    play(stage, scene, monkeypatch)


def test_who_is_far_is_dialled_again_at_moments_as_far_apart() -> None:
    """Else the two ends dial again at about the same one, for ever: a tenth of a second is enough for who is near."""
    assert max(room.apart_s(0.0) for _ in range(1000)) <= room.APART_S
    far = [room.apart_s(4.0) for _ in range(1000)]
    assert max(far) > 6.0
    assert min(far) < 2.0
    assert [room.dial_s(attempt) for attempt in range(1, 5)] == [5.0, 10.0, 20.0, 5.0]


def test_of_a_thousand_servers_that_a_peer_tells_of_a_bounded_number_is_dialled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And so many at a time."""
    stage = Stage()
    stage.hangs = True

    async def scene() -> None:
        stage.join(1)
        for number in range(1000):
            stage.tell(1, server_id=f"NX{number}", ip=f"nats-route://10.1.{number >> 8}.{number & 255}:6222/")
        await trio.sleep(1)
        assert len(stage.dialled) == DIALS_MAX
        assert len(stage.routes._learned) == PEERS_MAX

    play(stage, scene, monkeypatch)


def test_a_second_server_with_the_name_of_one_is_refused_while_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cloned box does not take the place of the first one in streams; who comes back after a cut that ended no
    connection has it after some seconds. Both are named in the log."""
    stage = Stage()

    async def scene() -> None:
        stage.join(1)
        for attempt in (2, 3):
            stage.join(attempt, server_name="s1")
            assert stage.plane.closed[attempt] == "Duplicate Server Name"
            stage.end(attempt)
            await trio.sleep(5)
        assert 1 not in stage.plane.closed
        complaints = [text for level, text in stage.log.lines if level == "error"]
        assert ["10.0.0.1:1" in text and '"s1"' in text for text in complaints] == [True, True]
        stage.plane.dead.add(1)
        stage.join(4, server_name="s1")
        await trio.sleep(5)
        assert stage.plane.closed.keys() == {1, 2, 3, 4}
        stage.end(1)
        stage.join(5, server_name="s1")
        assert 5 in stage.plane.admitted

    play(stage, scene, monkeypatch)


def test_who_is_known_is_not_dialled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its id, or as a place of the configuration."""
    stage = Stage(places=(Place("Named", 7),))

    async def scene() -> None:
        stage.join(1)
        stage.join(2)
        before = len(stage.dialled)
        stage.tell(1, server_id="N2", ip="nats-route://10.0.0.9:1/")
        stage.tell(1, server_id="NZ", ip="nats-route://named:7/")
        stage.tell(1, server_id="NOWN", ip="nats-route://10.0.0.9:1/")
        stage.tell(1, server_id="NZ", ip="nats-route://10.0.0.9:1/", route_account="OTHER")
        await trio.sleep(0.01)
        assert len(stage.dialled) == before

    play(stage, scene, monkeypatch)


def test_logins_at_a_time_are_bounded_and_have_to_end_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever connects and says nothing takes neither memory nor a place for long, and not the place of another one:
    the oldest that has not logged in makes room."""
    stage = Stage(login_s=2.0)
    play(stage, lambda: logins_are_bounded(stage), monkeypatch)


def test_a_server_whose_connect_has_come_is_not_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it said may wait for control longer than a login may take. Who says no more after that is closed, too."""
    stage = Stage(login_s=2.0)

    async def scene() -> None:
        stage.accept(1)
        stage.accept(2)
        stage.plane.heard.add(1)
        await trio.sleep(3)
        assert list(stage.plane.closed) == [2]
        stage.hear(1, t.LineKind.CONNECT)
        stage.plane.heard.discard(1)
        await trio.sleep(3)
        assert list(stage.plane.closed) == [2, 1]

    play(stage, scene, monkeypatch)


def test_addresses_for_clients_come_and_go_with_the_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when a server says that it leaves, and is still there."""
    stage = Stage()
    told: list[tuple[str, ...]] = []
    stage.routes.on_told.append(lambda: told.append(stage.routes.urls("connect_urls")))

    async def scene() -> None:
        stage.join(1)
        stage.join(2)
        stage.tell(2, server_id="N2", ldm=True)
        stage.end(1)
        await trio.lowlevel.checkpoint()

    play(stage, scene, monkeypatch)
    assert told == [("10.0.0.1:4222",), ("10.0.0.1:4222", "10.0.0.2:4222"), ("10.0.0.1:4222",), ()]


def test_others_are_told_of_a_new_server_once_and_with_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for each connection of its pool."""
    stage = Stage()

    async def scene() -> None:
        stage.join(1)
        stage.join(2)
        stage.join(3, server_id="N2", server_name="s2", route_pool_idx=1)
        await trio.lowlevel.checkpoint()

    play(stage, scene, monkeypatch)
    gossip = [(number, said) for number, verb, said in stage.plane.said if said.get("server_id") == "N2"]
    assert [number for number, _ in gossip] == [1]
    assert gossip[0][1]["ip"] == "nats-route://10.0.0.2:6222/"
    assert gossip[0][1]["gossip_mode"] == 1
    assert "nonce" not in gossip[0][1]


def test_what_the_plane_is_told_of_a_route(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its place in the pool, or its account; the greater of both sides' messages; whether it knows traces."""
    stage = Stage()

    async def scene() -> None:
        stage.join(1, route_pool_idx=2, max_payload=8 << 20, proto=3)
        stage.join(2, server_id="N1", route_account="$SYS", proto=2)
        stage.join(3, route_pool_size=0)
        await trio.lowlevel.checkpoint()

    play(stage, scene, monkeypatch)
    account, terms = stage.plane.admitted[1]
    assert (account, terms.pool_index, terms.pool_size) == (0, 2, 3)
    assert terms.max_payload > 8 << 20
    assert t.RouteFlag.TRACES in t.RouteFlag(terms.flags)
    assert stage.plane.admitted[2][0] == 9
    assert t.RouteFlag.TRACES not in t.RouteFlag(stage.plane.admitted[2][1].flags)
    assert stage.plane.admitted[3][1].pool_size == 0


def test_a_name_that_is_taken_over_ends_the_routes_under_the_old_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """They begin anew, and find out by themselves whether they still belong."""
    stage = Stage()
    stage.routes.cluster.name, stage.routes.cluster.dynamic = "A", True
    renamed: list[str] = []
    stage.routes.on_renamed.append(lambda: renamed.append(stage.routes.cluster.name))

    async def scene() -> None:
        stage.accept(1)
        stage.hear(1, t.LineKind.CONNECT, cluster="A")
        stage.hear(1, t.LineKind.INFO, cluster="A")
        stage.accept(2)
        stage.hear(2, t.LineKind.CONNECT, cluster="C")
        stage.hear(2, t.LineKind.INFO, cluster="C")
        await trio.lowlevel.checkpoint()

    play(stage, scene, monkeypatch)
    assert renamed == ["C"]
    assert 1 in stage.plane.closed
    assert 2 not in stage.plane.closed


def test_whatever_a_peer_says_the_routes_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """What nobody foresaw costs one connection at most."""
    stage = Stage()
    lines = [b"", b"{", b"[]", b"7", b"\xff", b'{"server_id":{}}', b'{"server_id":"N","port":"x"}', b"{" * 5000]

    async def scene() -> None:
        for number, line in enumerate(lines, start=1):
            for kind in (t.LineKind.CONNECT, t.LineKind.INFO, t.LineKind.ERR, 99):
                stage.accept(number)
                stage.routes.handle(t.Line(number, kind, line))
                stage.end(number)
            stage.join(50)
            stage.routes.handle(t.LeafInfo(50, line or b"-"))
            stage.end(50)
        await trio.lowlevel.checkpoint()
        stage.join(1)

    play(stage, scene, monkeypatch)
    assert [row.remote_id for row in stage.routes.rows()] == ["N1"]


def test_a_place_without_a_login_gets_the_clusters() -> None:
    """Each place once, however often it stands in the configuration."""
    places = places_of(("nats://h:1", "nats://x:y@h:2", "nats://h:1"), "u", "p")
    assert places == (Place("h", 1, "u", "p"), Place("h", 2, "x", "y"))


def test_a_peer_that_changes_its_rules_again_and_again_is_dialled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first change is carried out; while it is, its connection is made anew, however often it says so before it
    ends."""
    stage = Stage()
    stage.plane.regrants = trio.sleep_forever

    async def scene() -> None:
        stage.join(1, ip="nats-route://10.0.0.9:6222")
        for number in range(1000):
            stage.tell(1, server_id="N1", export={"deny": [f"x{number}"]})
        await trio.lowlevel.checkpoint()
        await trio.testing.wait_all_tasks_blocked()
        assert [connection for connection, _, _ in stage.plane.regranted] == [1]
        assert list(stage.plane.closed) == [1]
        stage.end(1)
        await trio.sleep(1)
        assert [place.host for _, place in stage.dialled] == ["10.0.0.9"]

    play(stage, scene, monkeypatch)


def test_a_route_stays_while_permissions_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own, of which the peer hears once they hold, or those of the peer. Where the plane cannot carry them out,
    the route is made anew."""
    stage = Stage()
    denies = t.Permissions(publish_deny=("a",))

    async def scene() -> None:
        stage.join(1, ip="nats-route://10.0.0.9:6222", export={"deny": ["x"]})
        told = len(stage.plane.said)
        stage.routes.change(Terms(permissions=denies), 3, ["$SYS"], anew=False)
        await trio.testing.wait_all_tasks_blocked()
        assert [(number, verb) for number, verb, _ in stage.plane.said[told:]] == [(1, "INFO")]
        stage.tell(1, server_id="N1", export={"deny": ["y"]})
        await trio.testing.wait_all_tasks_blocked()
        assert stage.plane.regranted == [(1, denies, False), (1, t.Permissions(subscribe_deny=("x",)), True)]
        assert stage.plane.closed == {}

        async def fails() -> None:
            raise t.PlaneError(t.Status.FULL, "full")

        stage.plane.regrants = fails
        stage.tell(1, server_id="N1", export={"deny": ["z"]})
        await trio.testing.wait_all_tasks_blocked()
        assert list(stage.plane.closed) == [1]

    play(stage, scene, monkeypatch)


@pytest.mark.parametrize(("trip_s", "answers_s", "ready"), [(0.001, 1.9, True), (0.001, 2.1, False), (2.0, 7.9, True)])
def test_others_have_the_time_of_the_way_to_be_ready_for_an_account_of_its_own(
    trip_s: float, answers_s: float, ready: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two seconds are one round trip of a long way: each reload warned there, and its routes were refused at first."""
    stage = Stage()
    stage.plane.trip_s = trip_s

    async def scene() -> None:
        stage.join(1, ip="nats-route://10.0.0.9:6222")
        stage.routes.change(Terms(), 3, ["$SYS", "A"], anew=False)
        await trio.sleep(answers_s)
        asked = [said["route_acc_add_reqid"] for _, _, said in stage.plane.said if "route_acc_add_reqid" in said]
        stage.tell(1, server_id="N1", route_acc_add_reqid=asked[0])
        await trio.sleep(0.01)
        assert ready == (1 in stage.plane.closed and not any("is ready" in text for _, text in stage.log.lines))

    play(stage, scene, monkeypatch)


def test_a_place_that_a_reload_takes_out_is_dialled_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither one that is being dialled nor one that is connected; another one that it brings is dialled at once."""
    gone = Place("gone", 1)
    stage = Stage(places=(gone, THERE))

    async def scene() -> None:
        await trio.sleep(1)
        stage.routes.change(Terms(places=(Place("10.0.0.3", 1),)), 3, ["$SYS"], anew=False)
        for number in list(stage.routes._links):
            if number in stage.plane.closed:
                stage.end(number)
        await trio.sleep(3)
        stage.dialled.clear()
        await trio.sleep(600)

    play(stage, scene, monkeypatch)
    assert {place.host for _, place in stage.dialled} <= {"10.0.0.3"}
    assert "Removed route 10.0.0.2:6222" in [text for _, text in stage.log.lines]


def test_an_account_that_is_not_known_gets_no_routes_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that asks for that is not answered, and its connection stays."""
    stage = Stage()

    async def scene() -> None:
        stage.join(1)
        stage.plane.said.clear()
        for number in range(1000):
            stage.tell(1, route_account=f"A{number}", route_acc_add_reqid="r")
        await trio.sleep(1)

    play(stage, scene, monkeypatch)
    assert stage.routes.peers.accounts == {"$SYS"}
    assert not stage.plane.said
    assert not stage.plane.closed
