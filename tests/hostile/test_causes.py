"""Each input that once ended the daemon: what is answered now, and that everybody else is served as before.

The answers expected are nats-server's, which survived all of them.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pytest

from tests.hostile.wires import Asker, Hub, Wire, http, varz
from tests.servers import LEAFD, Server, running

CONFIGURATION = """
listen: 127.0.0.1:{port}
http: 127.0.0.1:{http_port}
server_name: box
jetstream { store_dir: "{store}", domain: edge, max_file_store: 64MB, max_memory_store: 16MB }
leafnodes { listen: "127.0.0.1:{leaf_port}" }
accounts {
  A { users: [ {user: a, password: a} ], jetstream: enabled }
  N { users: [ {user: n, password: n} ] }
  S { users: [ {user: s, password: s} ] }
}
no_auth_user: a
system_account: S
"""
DEEP = b"[" * 30_000
DIGITS = "9" * 6_000


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """One daemon for all: none of what is sent may change what the next test finds."""
    with running(LEAFD, CONFIGURATION) as one:
        with Asker(one.port) as client:
            client.asked("$JS.API.STREAM.CREATE.KEEP", {"name": "KEEP", "subjects": ["keep.>"]})
        yield one


@pytest.fixture(autouse=True)
def unharmed(server: Server) -> Iterator[None]:
    """Behind every test the daemon serves a new client, and nothing unforeseen was counted."""
    yield
    assert server.process is not None, server.log[-4000:]
    assert server.process.poll() is None, server.log[-4000:]
    with Asker(server.port) as client:
        assert "KEEP" == client.asked("keep.x", b"1")["stream"]
    figures = varz(server.ports["http_port"])["leafd"]
    assert {} == figures["unexpected_errors_in"], server.log[-4000:]


def leaf_refused(server: Server, line: bytes) -> None:
    with Wire(server.ports["leaf_port"]) as wire:
        assert wire.heard().startswith(b"INFO ")
        wire.send(line + b"\r\n")
        rest = wire.rest()
        assert b"INFO" not in rest


def test_nested_leaf_connect(server: Server) -> None:
    """A stranger's CONNECT at the leaf port that is nested 3,000 deep closes that connection."""
    leaf_refused(server, b"CONNECT " + DEEP[:3000])
    leaf_refused(server, b"CONNECT " + DEEP)


def test_leaf_connect_of_wrong_types(server: Server) -> None:
    """A field of a leaf's CONNECT with another type closes that connection."""
    leaf_refused(server, b'CONNECT {"user":"a","pass":"a","headers":"x"}')
    leaf_refused(server, b'CONNECT {"user":"a","pass":"a","cluster":7}')


def test_leaf_connect_with_surrogates(server: Server) -> None:
    """Text that JSON can spell and UTF-8 cannot gets a replacement character, as in Go, and the leaf is admitted."""
    fields = '"user":"a","pass":"a","name":"n","cluster":"\\ud800","deny_pub":["\\ud800","x\\udfff"],"domain":"\\udc80"'
    with Wire(server.ports["leaf_port"]) as wire:
        assert wire.heard().startswith(b"INFO ")
        wire.send(b"CONNECT {" + fields.encode() + b"}\r\nPING\r\n")
        assert json.loads(wire.heard().split(b" ", 1)[1])["connect_info"]
        while line := wire.heard():
            if line == b"PONG":
                return
    raise AssertionError("the leaf was not served")


@pytest.mark.parametrize(
    "target",
    [
        b"//[",
        b"//]",
        b"http://[::1",
        b"/varz?x=%ff%fe&%",
        b"/connz?limit=" + b"9" * 5000,
        b"/connz?offset=-99999999999999999999",
        b"/connz?limit=1e400",
        b"/%00",
        b"/\xff",
    ],
)
def test_http_target(server: Server, target: bytes) -> None:
    """A target that is no URL, or an option that is no number, is answered and costs nobody else anything."""
    assert http(server.ports["http_port"], target).startswith((b"HTTP/1.1 200", b"HTTP/1.1 400", b"HTTP/1.1 404"))


def test_report_of_streams_that_come_and_go(server: Server) -> None:
    """/jsz?consumers=1 is answered in full while streams and consumers are made and deleted beside it."""
    stop = threading.Event()

    def churn() -> None:
        with Asker(server.port) as client:
            while not stop.is_set():
                for name in ("X1", "X2", "X3"):
                    client.ask(f"$JS.API.STREAM.CREATE.{name}", {"name": name, "subjects": [name]})
                    body = {"stream_name": name, "config": {"durable_name": "d", "ack_policy": "explicit"}}
                    client.ask(f"$JS.API.CONSUMER.DURABLE.CREATE.{name}.d", body)
                for name in ("X1", "X2", "X3"):
                    client.ask(f"$JS.API.STREAM.DELETE.{name}")

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(40):
            for option in (b"streams=1", b"consumers=1&config=1"):
                head, _, body = http(server.ports["http_port"], b"/jsz?" + option).partition(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 200")
                for account in json.loads(body)["account_details"]:
                    assert all(one["state"] is not None for one in account["stream_detail"])
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize(("user", "err_code"), [("a", 10185), ("n", 10185)])
def test_required_level_of_many_digits(server: Server, user: str, err_code: int) -> None:
    """A required API level that is no number of any type is refused like one that is too high."""
    with Asker(server.port, user=user, password=user) as client:
        assert err_code == client.err_code("$JS.API.INFO", b"", f"Nats-Required-Api-Level: {DIGITS}".encode())


@pytest.mark.parametrize("moment", ["2300-01-01T00:00:00Z", "1600-01-01T00:00:00Z", "9999-12-31T23:59:59-00:01"])
def test_times_outside_of_64_bits(server: Server, moment: str) -> None:
    """A time outside of 1678..2262 is taken: it is before or after everything that is stored."""
    with Asker(server.port) as client:
        found = client.asked("$JS.API.STREAM.MSG.GET.KEEP", {"start_time": moment})
        assert (10037 if moment > "2" else 0) == found.get("error", {}).get("err_code", 0)
        body = {
            "stream_name": "KEEP",
            "config": {"name": "t", "deliver_policy": "by_start_time", "opt_start_time": moment},
        }
        assert 0 == client.err_code("$JS.API.CONSUMER.CREATE.KEEP.t", body)
        assert (moment > "2") is client.asked("$JS.API.CONSUMER.PAUSE.KEEP.t", {"pause_until": moment})["paused"]
        assert "error" not in client.asked("$JS.API.CONSUMER.INFO.KEEP.t")
        assert "error" not in client.asked("$JS.API.CONSUMER.DELETE.KEEP.t")


def test_sequences_that_are_used_up(server: Server) -> None:
    """A purge to the last sequence there is leaves none behind it: a publish is refused, and pulls find nothing."""
    with Asker(server.port) as client:
        assert "error" not in client.asked("$JS.API.STREAM.CREATE.END", {"name": "END", "subjects": ["end"]})
        consumer = {"stream_name": "END", "config": {"durable_name": "c", "ack_policy": "explicit"}}
        assert "error" not in client.asked("$JS.API.CONSUMER.DURABLE.CREATE.END.c", consumer)
        assert "error" not in client.asked("$JS.API.STREAM.PURGE.END", {"seq": (1 << 64) - 1})
        assert 10023 == client.err_code("end", b"1")
        for _ in range(3):
            client.ask("$JS.API.CONSUMER.MSG.NEXT.END.c", {"batch": 1, "expires": 10_000_000})
        assert "error" not in client.asked("$JS.API.STREAM.DELETE.END")


def test_sample_frequency_of_many_digits(server: Server) -> None:
    """A sampling frequency that no int holds is refused in the reference's words."""
    with Asker(server.port) as client:
        config = {"name": "t", "ack_policy": "explicit", "sample_freq": DIGITS[:30]}
        body = {"stream_name": "KEEP", "config": config}
        found = client.asked("$JS.API.CONSUMER.CREATE.KEEP.t", body)["error"]
        assert (10095, f'strconv.Atoi: parsing "{DIGITS[:30]}": value out of range') == (
            found["err_code"],
            found["description"].partition(": ")[2],
        )
        config["sample_freq"] = DIGITS
        assert 10095 == client.err_code("$JS.API.CONSUMER.CREATE.KEEP.t", body)


def test_transform_of_many_digits(server: Server) -> None:
    """A wildcard's index that no int holds is no index."""
    with Asker(server.port) as client:
        transform = {"src": "t.*", "dest": f"x.{{{{wildcard({DIGITS[:3000]})}}}}"}
        body = {"name": "T", "subjects": ["t.*"], "subject_transform": transform}
        found = client.asked("$JS.API.STREAM.CREATE.T", body)
        assert 10156 == found["error"]["err_code"], found


@pytest.mark.parametrize("depth", [20, 600, 20_000])
def test_nested_retention(server: Server, depth: int) -> None:
    """A value that is nested deeply is refused as JSON that is wrong."""
    with Asker(server.port) as client:
        body = '{"name":"R","retention":' + "[" * depth + "]" * depth + "}"
        assert 10025 == client.err_code("$JS.API.STREAM.CREATE.R", body)


@pytest.mark.parametrize(
    "answer", [DEEP, b'{"name":"\\ud800"}', b'{"name":7}', b'{"error":"x"}', b'{"error":{"code":1e400}}', b"\xff", b""]
)
def test_answer_of_an_origin(server: Server, answer: bytes) -> None:
    """Whatever an origin answers, the mirror asks again later and nothing else suffers."""
    with Asker(server.port) as origin, Asker(server.port) as client:
        origin.send(b"SUB far.CONSUMER.CREATE.> 9\r\nPING\r\n")
        assert origin.heard() == b"PONG"
        body = {"name": "FAR", "mirror": {"name": "ORDERS", "external": {"api": "far"}}}
        assert 0 == client.err_code("$JS.API.STREAM.CREATE.FAR", body)
        line = b""
        while b" 9 " not in line:
            line = origin.heard()
        reply = line.split()[3]
        origin.payload(int(line.split()[-1]))
        origin.send(b"PUB %s %d\r\n%s\r\nPING\r\n" % (reply, len(answer), answer))
        assert client.asked("$JS.API.STREAM.INFO.FAR")["config"]["name"] == "FAR"
        assert client.asked("$JS.API.STREAM.DELETE.FAR")["success"]


BOX = """
listen: 127.0.0.1:{port}
http: 127.0.0.1:{http_port}
leafnodes { reconnect: "0.1s", remotes: [ { url: "nats-leaf://127.0.0.1:{hub}" } ] }
"""
INFO = {"server_id": "H", "server_name": "hub", "client_id": 5, "info_on_connect": True, "headers": True}


@pytest.mark.parametrize(
    "lines",
    [
        [b"INFO " + DEEP[:3000] + b"\r\n"],
        [b'INFO {"client_id":5,"leafnode_urls":["x"],"max_payload":"x"}\r\n'],
        [b'INFO {"client_id":5,"leafnode_urls":["x"],"max_payload":1099511627776}\r\n'],
        [b'INFO {"client_id":5,"leafnode_urls":["x"],"max_payload":-1}\r\n'],
        [b'INFO {"client_id":5,"leafnode_urls":["x"],"cluster":"\\ud800","domain":"\\udfff"}\r\n'],
        [
            b"INFO " + json.dumps(INFO).encode() + b"\r\n",
            b'INFO {"connect_info":true,"import":{"deny":["\\ud800",null,""]},"export":{"allow":"x"}}\r\n',
        ],
    ],
    ids=["deep", "text for a number", "2^40", "negative", "surrogates", "permissions"],
)
def test_info_of_a_hub(lines: list[bytes]) -> None:
    """Whatever the hub that a box dials says in its INFO, the box serves its own clients and dials again."""
    hub = Hub()
    try:
        with running(LEAFD, BOX, hub=hub.port) as box:
            hub.greet(*lines)
            hub.greet(*lines)
            with Asker(box.port):
                pass
            assert {} == varz(box.ports["http_port"])["leafd"]["unexpected_errors_in"], box.log
    finally:
        hub.close()


# ---- no stored definition ends a start


def far_mirror() -> dict[str, object]:
    return {"name": "M", "mirror": {"name": "S", "opt_start_time": "2300-01-01T00:00:00Z"}}


def test_mirror_from_a_far_time() -> None:
    """A mirror of a local stream that starts in 2300 is taken, as by the reference, and the next start serves it."""
    with running(LEAFD, CONFIGURATION) as server:
        for _ in range(2):
            with Asker(server.port) as client:
                client.asked("$JS.API.STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
                assert "error" not in client.asked("$JS.API.STREAM.CREATE.M", far_mirror())
                assert "M" == client.asked("$JS.API.STREAM.INFO.M")["config"]["name"]
            server.stop()
            server.start("server.conf")


def test_large_message_that_is_published_again(server: Server) -> None:
    """Messages of more than 64 KB in a stream that publishes them again are stored and acknowledged like small ones."""
    with Asker(server.port) as client:
        again = {"name": "AGAIN", "subjects": ["again"], "republish": {"src": ">", "dest": "out.>"}}
        client.asked("$JS.API.STREAM.CREATE.AGAIN", again)
        for sequence, body in enumerate((b"1", b"x" * 70_000, b"y" * 200_000), 1):
            assert sequence == client.asked("again", body)["seq"]
        assert client.asked("$JS.API.STREAM.DELETE.AGAIN")["success"]


def test_more_deleted_sequences_than_are_listed(server: Server) -> None:
    """An info lists the first 100,000 deleted sequences and counts all of them: a backup may leave out any number."""
    last = 100_010
    with Asker(server.port, 30) as client:
        gaps = {"name": "GAPS", "subjects": ["gaps.*"], "max_msgs_per_subject": 1}
        client.asked("$JS.API.STREAM.CREATE.GAPS", gaps)
        client.asked("gaps.first")
        client.send(b"PUB gaps.x 0\r\n\r\n" * (last - 2))
        assert last == client.asked("gaps.x")["seq"]
        state = client.asked("$JS.API.STREAM.INFO.GAPS", {"deleted_details": True})["state"]
        assert last - 2 == state["num_deleted"]
        assert list(range(2, 100_002)) == state["deleted"]
        assert client.asked("$JS.API.STREAM.DELETE.GAPS")["success"]
