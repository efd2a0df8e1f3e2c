"""Mirrors and sources of an origin that lies: a leaf by hand is asked for a consumer, and delivers what no server does.

What is stored of it is what nats-server stores, but for what is named below, and it is the same after a kill -9. Not
here: answers of an origin that cannot be read (test_causes.py), names (interop/test_names_attacks.py).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest

from tests.hostile.wires import Asker, Wire
from tests.rig.raw import CLOSED, Message, RawLeaf
from tests.rig.waiting import eventually
from tests.servers import KINDS, LEAFD, Server, running

CONFIGURATION: Final = """
listen: 127.0.0.1:{port}
server_name: box
jetstream { store_dir: "{store}", domain: edge, max_file_store: 64MB, max_memory_store: 16MB }
leafnodes { listen: "127.0.0.1:{leaf_port}" }
"""


@dataclass(frozen=True)
class Frame:
    """One delivery: its place for the consumer, its place in the stream, and what else it says."""

    place: int
    sequence: int
    stamp: int = 1_700_000_000_000_000_000
    pending: int = 5
    header: bytes = b""
    payload: bytes = b"x"


@dataclass(frozen=True)
class Lie:
    """mirrored: sequences that a mirror has of it; sourced: how many messages a source has. ours: leafd alone, because
    nats-server does something else."""

    frames: tuple[Frame, ...]
    mirrored: tuple[int, ...]
    sourced: int
    ours: bool = False


def header(*lines: bytes) -> bytes:
    """A block of headers."""
    return b"NATS/1.0\r\n" + b"".join(line + b"\r\n" for line in lines) + b"\r\n"


def with_headers(*blocks: bytes) -> tuple[Frame, ...]:
    """A delivery with each, and a plain one."""
    return tuple(Frame(n, n, header=block) for n, block in enumerate((*blocks, b""), start=1))


LAST: Final = 2**64 - 2
SOURCES: Final = header(b"Nats-Stream-Source: S 9 * * x"), header(b"Nats-Stream-Source: \xff")
NONE: Final = b"garbage\r\n\r\n", b"NATS/1.0\r\nx", header(b": :", b"a", b"A:" * 1000)
SCHEDULE: Final = header(b"Nats-Schedule: @every 1s", b"Nats-Schedule-Target: any.where")
ORDERS: Final = (
    header(b"Nats-Expected-Last-Sequence: 77"),
    header(b"Nats-Expected-Stream: Z"),
    header(b"Nats-Incr: 5"),
    header(b"Nats-Batch-Id: b", b"Nats-Batch-Sequence: 1"),
    header(b"Nats-Marker-Reason: Purge"),
)
LIVES: Final = (
    header(b"Nats-TTL: never"),
    header(b"Nats-TTL: 1h"),
    header(b"Nats-TTL: -5"),
    header(b"Nats-TTL: \xff"),
    header(b"Nats-TTL: 99999999999999999999h"),
)
ROLLS: Final = (
    header(b"Nats-Rollup: sub"),
    header(b"Nats-Rollup: all"),
    header(b"Nats-Rollup: of"),
    header(b"Nats-Rollup;"),
)
PREDICTS: Final = (
    header(b"Nats-Expected-Last-Subject-Sequence: 99"),
    header(b"Nats-Expected-Last-Msg-Id: z"),
    header(b"Nats-Required-Api-Level: 99"),
    header(b"Nats-Trace-Dest: any.where", b"traceparent: x"),
    header(b"Nats-Request-Info: {}", b"Nats-Schedule-Author: root"),
)
LIES: Final = {
    "goes back": Lie((Frame(1, 1), Frame(2, 5), Frame(3, 4), Frame(4, 6)), (1, 5, 6), 3),
    "says it twice": Lie((Frame(1, 1), Frame(2, 2), Frame(2, 2), Frame(3, 3)), (1, 2, 3), 3),
    "leaves one out": Lie((Frame(1, 1), Frame(3, 3)), (1,), 1),
    "jumps": Lie((Frame(1, 1), Frame(2, 1000), Frame(3, 100_000)), (1, 1000, 100_000), 3),
    "jumps to the end": Lie((Frame(1, 1), Frame(2, LAST), Frame(3, LAST + 1)), (1, LAST), 3, ours=True),
    "has no sequence": Lie((Frame(1, 0), Frame(2, 0)), (), 0, ours=True),
    "has no number": Lie((Frame(1, 1, stamp=2**70), Frame(2, 2, pending=-1), Frame(0, 3)), (), 0, ours=True),
    "claims another source": Lie(with_headers(*SOURCES), (1, 2, 3), 3),
    "sends no headers": Lie(with_headers(*NONE), (1, 2, 3, 4), 4),
    "schedules": Lie(with_headers(SCHEDULE), (1, 2), 2),
    "repeats an id": Lie(with_headers(*[header(b"Nats-Msg-Id: a")] * 2), (1, 2, 3), 3),
    "is large": Lie((Frame(1, 1, payload=b"x" * 900_000), Frame(2, 2)), (1, 2), 2),
    "expects and counts": Lie(with_headers(*ORDERS), (1, 2, 3, 4, 5, 6), 6),
    "lives": Lie(with_headers(*LIVES), (1, 2, 3, 4, 5, 6), 6, ours=True),
    "rolls up": Lie(with_headers(*ROLLS), (1, 2, 3, 4, 5), 5, ours=True),
    "predicts": Lie(with_headers(*PREDICTS), (1, 2, 3, 4, 5, 6), 6),
}
PLAYED: Final = [(kind, name) for kind in KINDS for name, lie in LIES.items() if kind == LEAFD or not lie.ours]


class Origin(RawLeaf):
    """A leaf that answers for streams under far.>."""

    def __init__(self, server: Server, user: str = "") -> None:
        super().__init__(server, "far", user, says={"domain": "hub", "version": "2.10.0"}, patience_s=60.0)
        self.subscribe("far.>")

    def settle(self) -> None:
        """What was sent before was acted on."""
        assert CLOSED not in self.lines(), "the leaf link was closed"

    def request(self, stream: str) -> Message:
        """The next one for a consumer of that stream."""
        while f".CONSUMER.CREATE.{stream}" not in (found := self.message()).subject:
            pass
        return found

    def make(self, stream: str) -> tuple[str, str]:
        """Makes the consumer that is asked for: its name, and where it delivers."""
        request = self.request(stream)
        config = request.document["config"]
        name, to = config["name"], config["deliver_subject"]
        zero = {"consumer_seq": 0, "stream_seq": 0}
        made = {"stream_name": stream, "name": name, "created": "2026-01-01T00:00:00Z", "config": config}
        made |= {"type": "io.nats.jetstream.api.v1.consumer_create_response", "delivered": zero, "ack_floor": zero}
        self.publish(request.reply, json.dumps(made | {"num_pending": 10}))
        time.sleep(0.1)
        return name, to

    def lie(self, stream: str, frames: tuple[Frame, ...]) -> None:
        """Makes the consumer, and delivers these."""
        name, to = self.make(stream)
        for one in frames:
            ack = f"$JS.ACK.{stream}.{name}.1.{one.sequence}.{one.place}.{one.stamp}.{one.pending}@o.a"
            self.publish(to, one.payload, one.header, ack)
        self.settle()


def stored(server: Server, stream: str, sequences: tuple[int, ...]) -> tuple[int, list[int]]:
    """How many messages there are, and which of these."""
    with Asker(server.port) as client:
        count = client.asked(f"$JS.API.STREAM.INFO.{stream}")["state"]["messages"]
        found = [
            one for one in sequences if "message" in client.asked(f"$JS.API.STREAM.MSG.GET.{stream}", {"seq": one})
        ]
    return count, found


def becomes(server: Server, stream: str, sequences: tuple[int, ...], count: int) -> None:
    """These are stored, and no others."""
    wanted = (count, list(sequences))
    eventually(lambda: stored(server, stream, sequences) == wanted, lambda: stored(server, stream, sequences))


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """One for all lies."""
    with running(request.param, CONFIGURATION) as found:
        yield found


@pytest.mark.parametrize(("server", "name"), PLAYED, indirect=["server"])
def test_what_is_stored_of_an_origin_that(server: Server, name: str) -> None:
    """Both servers have the same, and everybody else is served; leafd has it after a crash, too."""
    lie = LIES[name]
    number = list(LIES).index(name)
    external = {"api": "far", "deliver": "dlv"}
    with Origin(server) as origin:
        for stream, count in ((f"M{number}", len(lie.mirrored)), (f"S{number}", lie.sourced)):
            far = {"name": f"O{stream}", "external": external}
            config: dict[str, Any] = {"mirror": far} if stream.startswith("M") else {"sources": [far]}
            with Asker(server.port) as client:
                assert "error" not in client.asked(f"$JS.API.STREAM.CREATE.{stream}", {"name": stream} | config)
            origin.lie(f"O{stream}", lie.frames)
            becomes(server, stream, lie.mirrored if stream.startswith("M") else tuple(range(1, count + 1)), count)


FLOW: Final = """
listen: 127.0.0.1:{port}
server_name: box
jetstream { store_dir: "{store}", domain: edge, max_file_store: 64MB }
accounts { A { jetstream: enabled, users: [
    { user: a, password: a }
    { user: far, password: far, permissions: { publish: { deny: ["victim.>", "$JS.API.>", "$JS.edge.API.>"] } } }
] } }
no_auth_user: a
leafnodes { listen: "127.0.0.1:{leaf_port}" }
"""
ELSEWHERE: Final = (
    b"victim.x",
    b"free.x",
    b">",
    b"*",
    b"a..b",
    b"_R_.x",
    b"$JS.API.STREAM.DELETE.V",
    b"$JS.FC.M.>",
    b"$JS.FC.M.other.x",
)
ONLY_IN_A_HEADER: Final = (b"no subject", b"nul.\x00", b"tab\tx", b"$JS.FC.M.a b", b"$JS.FC.M.nul\x00")


def control(origin: Origin, to: str, how: str, names: tuple[bytes, ...]) -> None:
    """Asks for an answer to flow control at each, as a server does when it delivers, or when nothing came back."""
    for name in names:
        if how == "its reply":
            told = b"NATS/1.0 100 FlowControl Request\r\n\r\n"
            origin.send(b"HMSG %s %s %d %d\r\n%s\r\n" % (to.encode(), name, len(told), len(told), told))
        else:
            told = b"NATS/1.0 100 Idle Heartbeat\r\nNats-Consumer-Stalled: %s\r\n\r\n" % name
            origin.send(b"HMSG %s %d %d\r\n%s\r\n" % (to.encode(), len(told), len(told), told))
    origin.settle()


def heard(watcher: Wire, to: bytes) -> set[bytes]:
    """The subjects that are answered on, until that one is."""
    found: set[bytes] = set()
    while to not in found:
        line = watcher.heard()
        assert line, f"{found}: silence"
        if line.startswith((b"MSG ", b"HMSG ")):
            parts = line.split(b" ")
            watcher.payload(int(parts[-1]))
            if not parts[1].startswith((b"dlv.", b"$JSC.", b"far.", b"$JS.EVENT.", b"$JS.API.STREAM.CREATE.", b"in.")):
                found.add(b" ".join(parts[1 : line.split(b" ").index(b"1")]))
    return found


@pytest.mark.parametrize("how", ["its reply", "a header"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_origin_s_flow_control_is_answered_nowhere_else(kind: str, how: str) -> None:
    """Whatever the origin names, leafd answers to the consumer alone that it takes from. nats-server publishes it
    wherever it is told: into a stream whose subjects are denied to the origin, and to its own API."""
    names = ELSEWHERE + (() if how == "its reply" else ONLY_IN_A_HEADER)
    with running(kind, FLOW) as server, Asker(server.port) as client, Wire(server.port, 60.0) as watcher:
        assert "error" not in client.asked("$JS.API.STREAM.CREATE.V", {"name": "V", "subjects": ["victim.>"]})
        watcher.send(b'CONNECT {"verbose": false, "headers": true}\r\nSUB > 1\r\n')
        with Origin(server, "far") as origin:
            far = {"name": "OM", "external": {"api": "far", "deliver": "dlv"}}
            assert "error" not in client.asked("$JS.API.STREAM.CREATE.M", {"name": "M", "mirror": far})
            name, to = origin.make("OM")
            there = f"$JS.FC.M.{name}.last".encode()
            control(origin, to, how, (*names, there))
        answers = heard(watcher, there)
        victim = client.asked("$JS.API.STREAM.INFO.V").get("state", {"messages": "gone"})["messages"]
    if kind == LEAFD:
        assert (answers, victim) == ({there}, 0)
    else:
        assert {b"victim.x", b"free.x"} < answers
        assert victim in (1, "gone")


def test_it_is_there_after_a_crash() -> None:
    """Whatever an origin said last, a start finds the streams as they were."""
    with running(LEAFD, CONFIGURATION) as server:
        with Origin(server) as origin, Asker(server.port) as client:
            for number, lie in enumerate(LIES.values()):
                far = {"name": f"O{number}", "external": {"api": "far", "deliver": "dlv"}}
                client.asked(f"$JS.API.STREAM.CREATE.M{number}", {"name": f"M{number}", "mirror": far})
                origin.lie(f"O{number}", lie.frames)
                becomes(server, f"M{number}", lie.mirrored, len(lie.mirrored))
        server.kill()
        server.start("server.conf")
        for number, lie in enumerate(LIES.values()):
            assert (len(lie.mirrored), list(lie.mirrored)) == stored(server, f"M{number}", lie.mirrored)
