"""Which logins the plane is told to let in by itself, over a plane that only writes down what it is told."""

from __future__ import annotations

import json
import time

import bcrypt
import pytest
import trio
from leafd import native_types as t
from leafd.accounts.graph import Numbers, compile_graph
from leafd.auth.connect import MQTT_CLIENT
from leafd.auth.policy import compile_policy
from leafd.config.bind import load_text
from leafd.logins.client import Terms
from leafd.logins.clients import Clients
from leafd.logins.devices import Devices
from leafd.logins.known_logins import KNOWN_BYTES, SEEN_MAX, cost
from leafd.logins.present import Left
from leafd.monitor.connections import told_of
from leafd.native import abi

from tests import mqtt
from tests.rig.logs import QuietLog
from tests.unit.logins import test_clients as fakes

LISTENER = 1
PLAIN = "accounts { A { users: [ {user: a, password: a} ] } }"
OPEN = "max_payload: 1000"


def terms_of(text: str) -> Terms:
    server = load_text(text).server
    return Terms(compile_policy(server), compile_graph(server, Numbers()), server.max_payload, 0, 2.0)


def make(text: str, memory_limit: int = 0) -> tuple[fakes.Plane, Clients]:
    plane = fakes.Plane()
    clients = Clients(plane, QuietLog(), lambda: {"server_id": "N"}, terms_of(text), memory_limit=memory_limit)
    clients.listening(LISTENER)
    return plane, clients


def come(clients: Clients, number: int, line: bytes, known: int = 0) -> None:
    """known 2: control hears of both at once."""
    if known == 2:
        clients.handle(t.Came(number, t.ConnKind.CLIENT, "127.0.0.1:5", line))
        return
    clients.handle(t.Opened(number, t.ConnKind.CLIENT, LISTENER, "127.0.0.1:5", 1))
    clients.handle(t.Line(number, t.LineKind.CONNECT, line, known))


def come_device(clients: Clients, number: int, *, known: bool) -> None:
    """A device with the user a. known: the plane has let it in."""
    packet = mqtt.connect(4, f"c{number}", user="a", password="a")
    if known:
        clients.handle(t.Came(number, t.ConnKind.MQTT, "127.0.0.1:5", packet, b"\xc0\0\1a\0\1a"))
        return
    clients.handle(t.Opened(number, t.ConnKind.MQTT, LISTENER, "127.0.0.1:5", 1))
    clients.handle(t.Line(number, t.LineKind.CONNECT, packet, 0))


def line_of(**fields: object) -> bytes:
    return json.dumps(fields).encode()


LOGIN = line_of(user="a", **{"pass": "a"})
names = [line_of(name=f"{number:05}") for number in range(60)]


def known_after(text: str, line: bytes, times: int = 3) -> dict[bytes, tuple[int, t.ConnVerdict, t.Permissions, bytes]]:
    async def main() -> None:
        for number in range(times):
            come(clients, number, line)

    plane, clients = make(text)
    trio.run(main)
    return plane.known


@pytest.mark.parametrize(("text", "line"), [(PLAIN, LOGIN), (OPEN, b"{}"), (OPEN, LOGIN)])
def test_what_comes_twice_is_known(text: str, line: bytes) -> None:
    """The second login by the same CONNECT makes it known, the first does not: most names come once."""
    assert {} == known_after(text, line, 1)
    assert [line] == list(known_after(text, line, 2))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (PLAIN, line_of(user="a", **{"pass": "b"})),
        ("accounts { A { users: [ {user: a, password: a} ], limits { max_conn: 9 } } }", LOGIN),
        (OPEN, line_of(name="x" * 2000)),
        (
            "accounts { A { users: [ {user: a, password: a, permissions: {publish: ["
            + ",".join(f"s{number}" for number in range(100))
            + "]}} ] } }",
            LOGIN,
        ),
    ],
    ids=["refused", "counted", "long", "many rights"],
)
def test_some_are_never_known(text: str, line: bytes) -> None:
    """Not a refusal, nor where places are counted, nor what is large: control judges each of these anew."""
    assert {} == known_after(text, line)


@pytest.mark.parametrize("known", [1, 2], ids=["later", "at once"])
def test_a_known_login_is_what_the_one_before_was(known: int) -> None:
    """Whoever the plane has let in has the account, user and rights of who was judged, and is counted."""

    async def main() -> None:
        for number in range(2):
            come(clients, number, LOGIN)
        come(clients, 2, LOGIN, known)
        first, last = clients.get(0), clients.get(2)
        assert first is not None
        assert last is not None
        assert first.account is not None
        assert (first.account, first.user, first.granted) == (last.account, last.user, last.granted)
        assert 3 == clients.count(first.account.id)
        assert 2 not in plane.admitted
        clients.handle(t.Closed(2, t.CloseReason.CLIENT, ""))
        assert 2 == clients.count(first.account.id)

    plane, clients = make(PLAIN)
    trio.run(main)


def test_a_user_of_mqtt_is_known() -> None:
    """By what CONNECT says of the user, so each client has its own identifier and version, and is counted."""

    async def main() -> None:
        for number, packet in enumerate(packets):
            if number == 3:
                clients.handle(t.Came(number, t.ConnKind.MQTT, "127.0.0.1:5", packet, user))
                continue
            clients.handle(t.Opened(number, t.ConnKind.MQTT, LISTENER, "127.0.0.1:5", 1))
            clients.handle(t.Line(number, t.LineKind.CONNECT, packet, *((1, user) if number == 2 else ())))
        assert [user] == list(plane.known)
        found = [clients.get(number) for number in range(len(packets))]
        assert [f"c{number}" for number in range(len(packets))] == [one.connect[MQTT_CLIENT] for one in found if one]
        assert [4, 5, 5, 4] == [one.mqtt.connect.level for one in found if one and one.mqtt and one.mqtt.connect]
        assert 1 == len({(one.account.id, one.user) for one in found if one and one.account})
        assert [0, 1] == sorted(plane.admitted)

    user = b"\xc0\0\1a\0\1a"
    packets = [
        mqtt.connect(level, f"c{number}", user="a", password="a", will=mqtt.Will("w", b"x") if number == 2 else None)
        for number, level in enumerate((4, 5, 5, 4))
    ]
    plane, clients = make(PLAIN)
    trio.run(main)


def make_counted() -> tuple[Clients, Devices, list[int]]:
    """Where devices are counted; the list has each connection that whoever follows logins hears of."""
    plane, devices, heard = fakes.Plane(), Devices(), list[int]()
    clients = Clients(plane, QuietLog(), lambda: {"server_id": "N"}, terms_of(PLAIN), devices=devices)
    clients.listening(LISTENER)
    clients.on_admitted += [lambda client: heard.append(client.connection)]
    return clients, devices, heard


def test_a_known_login_is_made_whole_where_somebody_asks() -> None:
    """Whoever reads sees what there is to see, whoever may change something has the same one each time, and all are
    counted as they come and go."""

    async def main() -> None:
        for number in range(3):
            come_device(clients, number, known=number == 2)
        assert [0, 1] == heard
        first, second = clients.get(2), clients.get(2)
        assert first is not None
        assert second is not None
        assert first is not second
        assert (first.peer, first.host, first.user) == ("127.0.0.1:5", "127.0.0.1", "a")
        assert first.mqtt is not None
        assert ("c2", 4) == (first.mqtt.client_id, first.mqtt.level)
        assert before <= first.opened_ns == second.opened_ns <= time.time_ns()
        assert [0, 1, 2] == clients.present.connections()
        assert {"3.1.1": 3} == {version: count for version, count in devices.here.items() if count}
        whole = clients.present.whole(2)
        assert whole is not None
        assert whole is clients.present.whole(2) is clients.get(2)
        assert whole.connect == first.connect
        for number in (2, 0, 1):
            clients.handle(t.Closed(number, t.CloseReason.CLIENT, ""))
            assert clients.get(number) is None
        assert [] == clients.present.connections()
        assert {0} == set(devices.here.values())

    before = time.time_ns()
    clients, devices, heard = make_counted()
    trio.run(main)


def test_a_device_that_leaves_unasked_is_made_where_somebody_asks() -> None:
    """With all that a report tells of it; neither its login nor its account stays in memory for that. Whoever follows
    logins hears of the end as of any other."""

    async def main() -> None:
        for number in range(6):
            come_device(clients, number, known=number > 1)
        here = clients.get(2)
        assert here is not None
        assert here.account is not None
        clients.handle(closed(2))
        assert clients.get(2) is None
        ((found, event),) = left
        gone = found.made()
        assert (2, "A") == (event.connection, found.account_name)
        assert (2, "127.0.0.1:5", "a", here.opened_ns) == (gone.connection, gone.peer, gone.user, gone.opened_ns)
        assert "c2" == gone.connect[MQTT_CLIENT]
        assert (here.kind, told_of(here, here.connect, auth=True)) == (
            gone.kind,
            told_of(gone, gone.connect, auth=True),
        )
        assert (None, None, None) == (gone.account, gone.policy, gone.granted)
        clients.present.whole(3)
        clients.handle(closed(3))
        clients.followed = lambda: True
        clients.handle(closed(4))
        assert [3, 4] == ended
        assert 3 == clients.count(here.account.id)
        clients.followed = lambda: False
        clients.handle(closed(5))
        assert [2, 5] == [one.connection for one, _ in left]
        assert {"3.1.1": 2} == {version: count for version, count in devices.here.items() if count}
        assert 2 == clients.count(here.account.id)

    def closed(number: int) -> t.Closed:
        return t.Closed(number, t.CloseReason.CLIENT, "")

    left, ended = list[tuple[Left, t.Closed]](), list[int]()
    clients, devices, _ = make_counted()
    clients.on_left = lambda *told: left.append(told)
    clients.on_closed += [lambda client, _: ended.append(client.connection)]
    trio.run(main)


def test_whoever_follows_logins_hears_of_known_ones() -> None:
    """Events of the system account, while somebody may hear them."""

    async def main() -> None:
        for number in range(4):
            clients.followed = lambda: number == 3  # noqa: B023 (it is asked at once)
            come_device(clients, number, known=number > 1)
        assert [0, 1, 3] == heard
        assert {"3.1.1": 4} == {version: count for version, count in devices.here.items() if count}

    clients, devices, heard = make_counted()
    trio.run(main)


def test_a_reload_judges_known_logins_again() -> None:
    """Those that have never been looked at, too, and who may not come any more is closed."""

    async def main() -> None:
        for number in range(4):
            come_device(clients, number, known=number > 1)
        terms = terms_of("accounts { A { users: [ {user: a, password: b} ] } }")
        await clients.narrow(terms)
        await clients.set_terms(terms)
        assert [0, 1, 2, 3] == sorted(plane.closed)

    plane, clients = make(PLAIN)
    trio.run(main)


@pytest.mark.parametrize("known", [1, 2], ids=["later", "at once"])
def test_who_is_not_known_any_more_is_judged(known: int) -> None:
    """What the plane let in by a login that has been forgotten since is judged by the terms of today."""

    async def main() -> None:
        for number in range(2):
            come(clients, number, LOGIN)
        await clients.narrow(terms_of("accounts { A { users: [ {user: a, password: b} ] } }"))
        assert {} == plane.known
        assert (b"", b"") == plane.greetings[-1]
        await clients.set_terms(terms_of("accounts { A { users: [ {user: a, password: b} ] } }"))
        assert plane.greetings[-1][0].startswith(b"INFO ")
        come(clients, 2, LOGIN, known)
        assert "Authorization Violation" == plane.closed[2]

    plane, clients = make(PLAIN)
    trio.run(main)


def test_the_newest_are_known() -> None:
    """Of many logins the last ones are kept, as many as there is memory for, and the plane forgets the others with
    control; one of them that comes again is known again."""

    async def main() -> None:
        for name in names:
            come(clients, 1, name)
            come(clients, 2, name)
        assert names[-50:] == list(plane.known)
        for number in (1, 2):
            come(clients, number, names[0])
        assert [*names[-49:], names[0]] == list(plane.known)

    plane, clients = make(OPEN, memory_limit=8 * 50 * cost(names[0]))
    trio.run(main)


def test_a_fleet_with_a_password_each_is_known() -> None:
    """Ten thousand boxes, each with a user of its own."""
    assert KNOWN_BYTES // cost(names[0]) > 10_000
    assert SEEN_MAX > 10_000


HASHED = PLAIN.replace("password: a", f"password: {bcrypt.hashpw(b'a', bcrypt.gensalt(4)).decode()}")


def test_a_hash_is_checked_once_for_a_login_that_is_known() -> None:
    """The password as it came is known when it has come twice, and no other one."""

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(clients.run)
            for number, line in enumerate((LOGIN, LOGIN, wrong, wrong)):
                come(clients, number, line)
                with trio.fail_after(20):
                    while number not in plane.admitted and number not in plane.closed:
                        await trio.sleep(0.001)
            nursery.cancel_scope.cancel()
        assert [0, 1] == sorted(plane.admitted)
        assert [LOGIN] == list(plane.known)
        come(clients, 4, LOGIN, known=1)
        found = clients.get(4)
        assert found is not None
        assert found.account is not None
        assert 4 not in plane.closed

    wrong = line_of(user="a", **{"pass": "b"})
    plane, clients = make(HASHED)
    trio.run(main)


def test_what_is_said_after_it_is_never_known_by_a_hash_that_was_right() -> None:
    """A client that says another CONNECT while its first one is checked is judged by that one alone."""

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(clients.run)
            for number in range(0, 6, 2):
                come(clients, number, LOGIN)
                clients.handle(t.Line(number, t.LineKind.CONNECT, wrong, 0))
                come(clients, number + 1, wrong)
                clients.handle(t.Line(number + 1, t.LineKind.CONNECT, LOGIN, 0))
                with trio.fail_after(20):
                    while number not in plane.closed or number + 1 not in plane.admitted:
                        await trio.sleep(0.001)
            nursery.cancel_scope.cancel()
        assert [LOGIN] == list(plane.known)
        assert all(number % 2 for number in plane.admitted)

    wrong = line_of(user="a", **{"pass": "b"})
    plane, clients = make(HASHED)
    trio.run(main)


def test_a_greeting_has_places_for_number_and_address() -> None:
    """The plane's INFO is the one that control would send, but for the two values that it fills in."""
    plane, _ = make(PLAIN)
    text = plane.greetings[0][0].decode()
    text = text.replace(chr(abi.GREETING_CONNECTION), "7").replace(chr(abi.GREETING_ADDRESS), "::1")
    expected = {"server_id": "N", "auth_required": True, "client_id": 7, "client_ip": "::1"}
    assert expected == json.loads(text.removeprefix("INFO "))


def test_nobody_is_greeted_where_each_gets_a_nonce() -> None:
    """Where somebody logs in by an nkey, control says INFO."""
    key = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"
    plane, _ = make(f"authorization {{ users: [ {{nkey: {key}}} ] }}")
    assert [(b"", b"")] == plane.greetings
