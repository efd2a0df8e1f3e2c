"""Archives over the API that no server writes, and restores by whoever should not: what a tenant can do with them.

Both servers play the same archives; what is not the same is named below, with what leafd does. Archives that are cut or
garbled at the ends are interop/test_backup.py's, bombs test_bombs.py's, memory interop/test_memory_walk.py's, numbers
of consumers test_archive.py's, rights of what is restored interop/test_names_attacks.py's.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import random
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from tests.hostile.wires import Asker, varz
from tests.interop.test_backup import END, MAGIC, STAMP, entry, number, s2, state
from tests.interop.test_old_backup import RECORDED
from tests.rig.reloads import reloaded
from tests.rig.waiting import eventually
from tests.servers import KINDS, LEAFD, Server, running
from tests.unit.jetstream.test_archive_tar import recorded

CONFIGURATION: Final = """
listen: 127.0.0.1:{port}
http: 127.0.0.1:{http_port}
jetstream { store_dir: "{store}", max_file_store: 256MB, max_memory_store: 16MB }
accounts {
  A {
    jetstream: { max_file: 8MB, max_mem: 1MB, max_streams: 100 }
    users: [
      { user: a, password: a }
      { user: low, password: low, permissions: {
          publish: { deny: ["$JS.SNAPSHOT.>", "$JS.API.STREAM.RESTORE.>"] }, subscribe: { deny: "$JS.SNAPSHOT.>" } } }
    ]
  }
  B { jetstream: enabled, users: [ { user: b, password: b } ] }
  E { jetstream: { max_consumers: 2 }, users: [ { user: e, password: e } ] }
}
"""
MB: Final = 1 << 20
PATIENCE_S: Final = 20.0
LAST: Final = 2**64 - 2
NUMBERS: Final = itertools.count(1)


def message(subject: bytes = b"q", sequence: int = 1, header: bytes = b"", payload: bytes = b"x", **told: int) -> bytes:
    """An entry, with sizes and a time that may be told otherwise."""
    stamp = told.get("stamp", STAMP)
    sizes = told.get("header_size", len(header)), told.get("payload_size", len(payload))
    numbers = told.get("name_size", len(subject)), (stamp << 1 ^ stamp >> 63) & (1 << 64) - 1, sequence, *sizes
    return b"".join(map(number, numbers)) + subject + header + payload


def whole(*messages: bytes, **more: int) -> bytes:
    """An archive of these."""
    told = {"messages": len(messages), "first_seq": 1, "last_seq": max(len(messages), 1)} | more
    return MAGIC + state(**told) + b"".join(messages) + END


def consumer(name: str, config: dict[str, Any], delivered: int = 0, floor: int = 0, **pending: int) -> bytes:
    """A consumer's entry. pending: s1=5 says that sequence 1 is its fifth delivery."""
    position: dict[str, Any] = {
        "delivered": {"consumer_seq": delivered, "stream_seq": delivered},
        "ack_floor": {"consumer_seq": floor, "stream_seq": floor},
        "pending": {key[1:]: {"Sequence": value, "Timestamp": STAMP} for key, value in pending.items()},
    }
    return entry(f"consumers/{name}", 0, b"", json.dumps({"config": config, "state": position}).encode())


def with_consumers(*consumers: bytes) -> bytes:
    """An archive of one message and these."""
    return MAGIC + state(messages=1, last_seq=1, consumer_count=len(consumers)) + b"".join(consumers) + message() + END


def header(*lines: bytes) -> bytes:
    """A block of headers."""
    return b"NATS/1.0\r\n" + b"".join(line + b"\r\n" for line in lines) + b"\r\n"


C: Final = {"durable_name": "c", "ack_policy": "explicit"}
SAME: Final = {
    "a gap of 2^63": whole(message(), message(sequence=2**63), last_seq=2**63),
    "beyond its state": whole(message(sequence=5), last_seq=2),
    "before its state": whole(message(sequence=5), first_seq=10, last_seq=12),
    "more than its state": whole(*[message(sequence=n) for n in range(1, 20)], messages=1, last_seq=2),
    "fewer than its state": whole(message(), messages=1000, last_seq=1000),
    "another stream's subject": whole(message(b"victim.1")),
    "a request": whole(message(b"$JS.API.STREAM.DELETE.VICTIM")),
    "an acknowledgement": whole(message(b"$JS.ACK.VICTIM.c.1.1.1.1.1")),
    "a request of the system": whole(message(b"$SYS.REQ.SERVER.PING")),
    "not UTF-8": whole(message(b"q\xff\xfe")),
    "a subject of 4,000 bytes": whole(message(b"q" * 4000)),
    "before 1970": whole(message(stamp=-5)),
    "the first time": whole(message(stamp=-(2**63))),
    "the last time": whole(message(stamp=2**63 - 1)),
    "going back in time": whole(message(), message(sequence=2, stamp=5)),
    "long numbers": MAGIC + state(messages=1, last_seq=1) + b"\x81\x80\0" + message()[1:] + END,
    "no header": whole(message(header=b"garbage")),
    "a header without end": whole(message(header=b"NATS/1.0")),
    "a rollup": whole(message(), message(sequence=2, header=header(b"Nats-Rollup: all"))),
    "expectations": whole(message(header=header(b"Nats-Expected-Last-Sequence: 77", b"Nats-Incr: 5"))),
    "one id twice": whole(*(message(sequence=n, header=header(b"Nats-Msg-Id: a")) for n in (1, 2))),
    "a second state among messages": whole(message(), entry("state.json", 2, b"", b"{}")),
    "a negative number of consumers": whole(message(), consumer_count=-1),
    "a consumer twice": with_consumers(consumer("c", C), consumer("c", C)),
    "a consumer of another subject": with_consumers(consumer("c", C | {"filter_subject": "other.>"})),
    "a delivery of the far future": with_consumers(consumer("c", C, delivered=1, s1=2**62)),
}
"""The same answer, and the same is stored."""
OTHER_TIMES: Final = ("before 1970", "the first time", "going back in time")
"""In leafd a message is not older than the one before it, and none is older than 1970."""
REFUSED: Final = {
    "a header of 2^63": whole(message(header_size=2**63)),
    "sizes that wrap": whole(message(header_size=2**63, payload_size=2**63 + 2)),
    "a payload of 2^64-1": whole(message(payload_size=2**64 - 1)),
    "a payload of 2^31": whole(message(payload_size=2**31)),
    "a subject of 2^32": whole(message(name_size=2**32)),
    "a number of eleven bytes": MAGIC + state(messages=1, last_seq=1) + b"\x81" * 11 + END,
    "a number of 70 bits": MAGIC + state(messages=1, last_seq=1) + b"\xff" * 9 + b"\x7f" + END,
    "two states": MAGIC + state(messages=1, last_seq=1) * 2 + message() + END,
    "2^31 consumers": whole(message(), consumer_count=2**31),
    "2^63 consumers": whole(message(), consumer_count=2**63 - 1),
}
"""The same error, and nothing is stored."""
OURS: Final = {
    "the last sequence": (whole(message(), message(sequence=LAST + 1), last_seq=LAST + 1), 10062, 0),
    "wildcards": (whole(message(b"q.*"), message(b">", 2), message(b"q", 3)), 0, 1),
    "a NUL": (whole(message(b"q\0x"), message(b"q", 2)), 0, 1),
    "a blank": (whole(message(b"q x\r\n")), 10062, 0),
    "empty tokens": (whole(message(b"q..x")), 10062, 0),
    "no subject": (whole(message(b"")), 10062, 0),
    "a consumer of no name": (with_consumers(consumer("", {})), 10062, 1),
    "a consumer of another folder": (with_consumers(consumer("../../x", {"durable_name": "../../x"})), 10062, 1),
    "a consumer with two names": (with_consumers(consumer("c", C | {"durable_name": "d", "name": "e"})), 10062, 1),
    "a floor above the end": (with_consumers(consumer("c", C, delivered=10**6, floor=10**9)), 10062, 1),
    "no end, and a floor above its end": (
        with_consumers(consumer("c", C, delivered=10**6, floor=10**9)).removesuffix(END),
        10062,
        1,
    ),
    "a hundred thousand times": (with_consumers(consumer("c", C | {"backoff": [1] * 100_000})), 10062, 1),
}
"""nats-server stores what has no valid subject, and drops the messages of a stream whose consumers it refuses. The
error of leafd, and how many messages are there then."""


def tar(*members: tuple[str, bytes], size: bytes = b"") -> bytes:
    """An archive of older servers with these, of a kind each, behind the stream's configuration; the first one's size
    may be told otherwise."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as made:
        for name, kind in (("meta.inf", tarfile.REGTYPE), *members):
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.size = kind, "/etc/passwd", 2 if kind == tarfile.REGTYPE else 0
            made.addfile(info, io.BytesIO(b"{}"))
    data = out.getvalue()
    return data[:124] + size + data[124 + len(size) :]


TARS: Final = {
    "a link": tar(("msgs/1.blk", tarfile.SYMTYPE)),
    "a hard link": tar(("msgs/1.blk", tarfile.LNKTYPE)),
    "a device": tar(("msgs/1.blk", tarfile.CHRTYPE)),
    "a pipe": tar(("msgs/1.blk", tarfile.FIFOTYPE)),
    "a folder": tar(("msgs", tarfile.DIRTYPE)),
    "something else": tar(("msgs/1.blk", b"Z")),
    "a file outside": tar(("../../../evil.blk", tarfile.REGTYPE)),
    "a consumer outside": tar(("obs/../../x/meta.inf", tarfile.REGTYPE)),
    "a negative size": tar(size=b"-0000000001\0"),
    "a size of 64 bits": tar(size=b"\x80\0\0\0" + b"\xff" * 8),
}


def client(server: Server, user: str = "a") -> Asker:
    """A client of that user, with reply subjects that no other has."""
    return Asker(server.port, PATIENCE_S, user, next(NUMBERS) * MB, user=user)


def begun(one: Asker, name: str, **config: Any) -> str:
    """Where the archive of a stream goes."""
    body = {"config": {"name": name, "subjects": [name]} | config, "state": config.pop("state", {})}
    return str(one.asked(f"$JS.API.STREAM.RESTORE.{name}", body)["deliver_subject"])


def sent(one: Asker, to: str, archive: bytes, chunk: int = 100_000) -> dict[str, Any]:
    """The answer that ends it."""
    for at in range(0, len(archive), chunk):
        answer = one.ask(to, archive[at : at + chunk])
        assert answer is not None, "a chunk was not answered"
        if answer:
            break
    else:
        answer = one.ask(to)
        assert answer
    found: dict[str, Any] = json.loads(answer)
    return found


def outcome(server: Server, name: str, archive: bytes) -> tuple[int, int, list[Any]]:
    """The error, how many messages there are then, and what is seen of the first two and of consumers. The stream is
    deleted, so its name is free."""
    with client(server) as one:
        answer = sent(one, begun(one, name), s2(archive))
        info = one.asked(f"$JS.API.STREAM.INFO.{name}")
        seen: list[Any] = [info["state"]["last_seq"]] if "state" in info else []
        for sequence in (1, 2):
            found = one.asked(f"$JS.API.STREAM.MSG.GET.{name}", {"seq": sequence}).get("message", {})
            seen.append({key: found.get(key) for key in ("subject", "hdrs", "data", "time")})
        for found in one.asked(f"$JS.API.CONSUMER.LIST.{name}").get("consumers") or ():
            counts = ("delivered", "ack_floor", "num_ack_pending", "num_redelivered", "num_pending")
            seen.append({key: found[key] for key in counts})
        assert 0 == one.err_code(f"$JS.API.STREAM.DELETE.{name}") or "state" not in info
    return int(answer.get("error", {}).get("err_code", 0)), int(info.get("state", {}).get("messages", 0)), seen


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """One for all archives, with a stream that has to stay as it is."""
    with running(request.param, CONFIGURATION) as found:
        with client(found) as one:
            assert 0 == one.err_code("$JS.API.STREAM.CREATE.VICTIM", {"name": "VICTIM", "subjects": ["victim.>"]})
            one.asked("victim.x", b"mine")
        yield found
        with client(found) as one:
            assert 1 == one.asked("$JS.API.STREAM.INFO.VICTIM")["state"]["messages"]
            assert ["VICTIM"] == one.asked("$JS.API.STREAM.NAMES")["streams"]
        unharmed(found)


def unharmed(server: Server) -> None:
    """It runs, and knows of nothing that it did not foresee."""
    assert server.process is not None, server.log[-4000:]
    assert server.process.poll() is None, server.log[-4000:]
    if server.kind == LEAFD:
        assert {} == varz(server.ports["http_port"])["leafd"]["unexpected_errors_in"], server.log[-4000:]


SEEN: Final[dict[str, Any]] = {}


@pytest.mark.parametrize("name", SAME)
def test_what_becomes_of_an_archive_with(server: Server, name: str) -> None:
    """Both servers answer the same, and have the same of it."""
    found = outcome(server, f"S{list(SAME).index(name)}", SAME[name])
    if name in OTHER_TIMES:
        times = [one.pop("time") for one in found[2][1:3]]
        assert server.kind != LEAFD or sorted(times, key=str) == times >= ["1970-01-01T00:00:00"]
    assert SEEN.setdefault(name, found) == found


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_of_an_archive_with(server: Server, name: str) -> None:
    """It is told in the middle of the archive, and nothing of it is there."""
    error, messages, _ = outcome(server, f"R{list(REFUSED).index(name)}", REFUSED[name])
    assert (10062, 0) == (error, messages)


@pytest.mark.parametrize("name", TARS)
def test_what_is_refused_of_an_older_archive_with(server: Server, name: str) -> None:
    """Whatever is no file of a stream: there is no stream then, and nothing beside it."""
    error, messages, seen = outcome(server, f"T{list(TARS).index(name)}", TARS[name])
    assert (10062, 0) == (error, messages)
    assert not any(isinstance(one, int) for one in seen), "a stream has a last sequence"
    assert not list(server.directory.rglob("*evil*"))


@pytest.mark.parametrize("server", [LEAFD], indirect=True)
@pytest.mark.parametrize("name", OURS)
def test_what_nats_server_takes_of_an_archive_with(server: Server, name: str) -> None:
    """leafd refuses what it could not serve, or leaves it out, and keeps what it has stored by then."""
    archive, *expected = OURS[name]
    assert expected == list(outcome(server, f"O{list(OURS).index(name)}", archive)[:2])


# ---- who sends what, and when ----------------------------------------------------------------------------------------


def test_another_account_cannot_send_to_it(server: Server) -> None:
    """Though it knows where; neither can who is denied that subject in the same account."""
    with client(server) as one, client(server, "b") as stranger, client(server, "low") as low:
        to = begun(one, "T").encode()
        for other in (stranger, low):
            other.send(b"PUB %s out.1 3\r\nabc\r\nPUB %s 0\r\n\r\nPING\r\n" % (to, to))
            while other.heard() != b"PONG":
                pass
        assert 1 == sent(one, to.decode(), s2(whole(message(b"T"))))["state"]["messages"]
        assert 0 == one.err_code("$JS.API.STREAM.DELETE.T")


def several(*configs: dict[str, Any]) -> bytes:
    """An archive of one message and a consumer of each configuration."""
    return with_consumers(
        *(consumer(f"c{n}", {"durable_name": f"c{n}"} | C_ONLY | one) for n, one in enumerate(configs))
    )


C_ONLY: Final = {"ack_policy": "explicit"}
BESIDE: Final[dict[str, tuple[bytes, dict[str, Any], list[str]]]] = {
    "more than the account may have": (several({}, {}, {}), {}, ["c0", "c1"]),
    "more than the stream may have": (several({}, {}), {"max_consumers": 1}, ["c0"]),
    "a workqueue's messages twice": (several({}, {}), {"retention": "workqueue"}, ["c0"]),
    "a workqueue's subject twice": (several(*[{"filter_subject": "q"}] * 2), {"retention": "workqueue"}, ["c0"]),
    "a workqueue's new messages": (several({"deliver_policy": "new"}), {"retention": "workqueue"}, []),
    "a workqueue without acks": (several({"ack_policy": "none"}), {"retention": "workqueue"}, []),
    "those that do not count": (several(*[{"direct": True}] * 3), {}, []),
    "more unacknowledged than the stream grants": (
        several({"max_ack_pending": 9}),
        {"consumer_limits": {"max_ack_pending": 5}},
        [],
    ),
}
"""Consumers that could not be made by a request: what is restored, and which of them."""


@pytest.mark.parametrize("name", BESIDE)
def test_a_restore_brings_no_consumer_that_could_not_be_made(server: Server, name: str) -> None:
    """What a request is asked of a stream's other consumers and limits, an archive is asked, too."""
    archive, config, left = BESIDE[name]
    with client(server, "e") as one:
        answer = sent(one, begun(one, "q", **config), s2(archive))
        assert 10062 == answer["error"]["err_code"]
        assert left == one.asked("$JS.API.CONSUMER.NAMES.q")["consumers"]
        messages = one.asked("$JS.API.STREAM.INFO.q")["state"]["messages"]
        assert messages == (1 if server.kind == LEAFD else 0)  # those of leafd need not be sent again
        assert 0 == one.err_code("$JS.API.STREAM.DELETE.q")
        assert 0 == one.asked("$JS.API.INFO")["consumers"]


@pytest.mark.parametrize("gone", ["silent", "disconnected", "without a reply"])
def test_a_name_is_free_again_when_its_restore_ends(server: Server, gone: str) -> None:
    """Whoever begins one and goes on in no way keeps nobody from that name for more than some seconds."""
    with client(server) as other:
        with client(server) as one:
            to = begun(one, "T")
            assert b"" == one.ask(to, s2(MAGIC))
            if gone == "without a reply":
                one.send(b"PUB %s 3\r\nabc\r\n" % to.encode())
            if gone == "silent":
                time.sleep(0.5)
        eventually(lambda: not other.err_code("$JS.API.STREAM.CREATE.T", {"name": "T", "subjects": ["t"]}))
        assert 0 == other.err_code("$JS.API.STREAM.DELETE.T")


def test_two_restores_of_one_name_make_one_stream(server: Server) -> None:
    """nats-server lets both begin, and one of them end."""
    with client(server) as one, client(server) as other:
        to = begun(one, "T")
        second = other.asked("$JS.API.STREAM.RESTORE.T", {"config": {"name": "T", "subjects": ["T"]}, "state": {}})
        answers = [sent(one, to, s2(whole(message(b"T"))))]
        if "error" not in second:
            answers.append(sent(other, second["deliver_subject"], s2(whole(message(b"T"), message(b"T", 2)))))
        else:
            assert 10130 == second["error"]["err_code"]
        assert 1 == sum("error" not in answer for answer in answers)
        assert 1 == one.asked("$JS.API.STREAM.INFO.T")["state"]["messages"]
        assert 0 == one.err_code("$JS.API.STREAM.DELETE.T")


@pytest.mark.parametrize("server", [LEAFD], indirect=True)
def test_nobody_takes_the_subjects_of_a_stream_that_is_being_restored(server: Server) -> None:
    """Neither its name nor its subjects: a stream that somebody makes meanwhile is refused, and the restore goes on."""
    with client(server) as one, client(server) as other:
        to = begun(one, "T")
        assert 10058 == other.err_code("$JS.API.STREAM.CREATE.T", {"name": "T", "subjects": ["t"]})
        assert 10065 == other.err_code("$JS.API.STREAM.CREATE.U", {"name": "U", "subjects": ["T"]})
        assert 10059 == other.err_code("$JS.API.STREAM.DELETE.T")
        assert 1 == sent(one, to, s2(whole(message(b"T"))))["state"]["messages"]
        assert 0 == one.err_code("$JS.API.STREAM.DELETE.T")


def test_a_flood_of_chunks_without_waiting_holds_up_nobody(server: Server) -> None:
    """Fifty megabytes in chunks of 50 KB, and a hundred thousand in chunks of one byte: somebody else logs in and is
    answered meanwhile, and the names are free at the end."""
    with client(server) as one, client(server, "b") as other:
        slow: list[float] = []
        over = threading.Event()

        def look() -> None:
            while not over.is_set():
                began = time.monotonic()
                client(server, "b").close()
                other.asked("$JS.API.INFO")
                slow.append(time.monotonic() - began)

        thread = threading.Thread(target=look)
        thread.start()
        to = begun(one, "T").encode()
        one.ask(to, s2(MAGIC + state(messages=10**6, last_seq=10**6)))
        raw = b"\x99" + (40_000).to_bytes(3, "little") + bytes(40_000)
        one.send((b"PUB %s out.9 %d\r\n%s\r\n" % (to, len(raw), raw)) * 1000)
        to = begun(one, "U").encode()
        one.send(b"".join(b"PUB %s out.9 1\r\n%c\r\n" % (to, byte) for byte in s2(MAGIC)))
        one.send(b"PUB %s out.9 1\r\nx\r\n" % to * 100_000)
        one.asked("$JS.API.INFO")
        over.set()
        thread.join()
        assert sorted(slow)[-3] < 1.0
    free(server, "T", "U")


def free(server: Server, *names: str) -> None:
    """These names can be used again, at the latest when their restores have been silent for long enough."""
    with client(server) as one:
        for name in names:
            deadline = time.monotonic() + PATIENCE_S
            while one.err_code(f"$JS.API.STREAM.CREATE.{name}", {"name": name, "subjects": [name]}):
                assert time.monotonic() < deadline
                one.asked(f"$JS.API.STREAM.DELETE.{name}")
                time.sleep(0.1)
            assert 0 == one.err_code(f"$JS.API.STREAM.DELETE.{name}")


@pytest.mark.parametrize("server", [LEAFD], indirect=True)
def test_an_archive_that_never_ends_ends_at_the_accounts_limit(server: Server) -> None:
    """It may store eight megabytes, and what would be more leaves nothing; nats-server stores whatever comes."""
    body = s2(MAGIC + state(messages=10**6, last_seq=10**6))
    with client(server) as one:
        to, answer, sequence = begun(one, "T"), b"", 0
        assert b"" == one.ask(to, body)
        while not answer and sequence < 4000:
            part = b"".join(message(b"T", sequence + n, payload=b"x" * 8000) for n in range(1, 6))
            answer, sequence = one.ask(to, s2(part)[10:]) or b"", sequence + 5
        assert 10047 == json.loads(answer)["error"]["err_code"]
        assert sequence * 8000 < 10 * MB
        assert 10059 == one.err_code("$JS.API.STREAM.INFO.T")
        assert one.asked("$JS.API.INFO")["storage"] < 1000
    free(server, "T")


# ---- reloads, and many archives --------------------------------------------------------------------------------------

CHANGES: Final[dict[str, Callable[[str], str]]] = {
    "the account goes": lambda text: text.split("  A {")[0] + "  B {" + text.split("  B {")[1],
    "its JetStream goes": lambda text: text.replace("max_streams: 100 }", "max_streams: 100 }\n#").replace(
        "    jetstream: { max_file: 8MB", "    #"
    ),
    "it may store less": lambda text: text.replace("max_file: 8MB", "max_file: 1000"),
    "it may have no stream": lambda text: text.replace("max_streams: 100", "max_streams: 1"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_reload_in_the_middle_of_a_restore(change: str) -> None:
    """Whatever it takes away, the restore ends, everybody else is served, and a restart finds what is served."""
    with running(LEAFD, CONFIGURATION) as server:
        with client(server) as one:
            assert 0 == one.err_code("$JS.API.STREAM.CREATE.OLD", {"name": "OLD", "subjects": ["old"]})
            to, archive = begun(one, "T"), s2(whole(*(message(b"T", n, payload=b"x" * 1000) for n in range(1, 5))))
            assert b"" == one.ask(to, archive[: len(archive) // 2])
            reloaded(server, CHANGES[change](server.configuration))
            with contextlib.suppress(AssertionError):
                sent(one, to, archive[len(archive) // 2 :])
        time.sleep(0.2)
        with client(server, "b") as other:
            assert 0 == other.err_code("$JS.API.STREAM.CREATE.T", {"name": "T", "subjects": ["T"]})
        unharmed(server)
        server.kill()
        server.start("server.conf")
        with client(server, "b") as other:
            assert ["T"] == other.asked("$JS.API.STREAM.NAMES")["streams"]
        unharmed(server)


def mutated(archive: bytes, chance: random.Random) -> bytes:
    """With some bytes changed, removed, doubled or moved."""
    found = bytearray(archive)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        at, size = chance.randrange(len(found)), chance.choice((1, 1, 2, 8, 100))
        match chance.randrange(5):
            case 0:
                found[at] ^= 1 << chance.randrange(8)
            case 1:
                found[at : at + size] = chance.choice((b"\xff", b"\0", b"\x80", b"9")) * size
            case 2:
                del found[at : at + size]
            case 3:
                found[at:at] = found[at : at + size]
            case _:
                other = chance.randrange(len(found))
                found[at : at + size] = found[other : other + size]
    return bytes(found)


def test_backups_with_random_changes() -> None:
    """Three hundred, in today's format and that of older servers: each is answered, what is left of it can be asked
    for and deleted, and a restart after kill -9 finds what is served."""
    today = with_consumers(
        consumer("c", C, delivered=1, s1=1), consumer("d", {"durable_name": "d", "deliver_subject": "d"})
    )
    chance = random.Random(22)
    with running(LEAFD, CONFIGURATION) as server, client(server) as one:
        for round_ in range(300):
            archive, config, told = (
                (today, {"name": "S", "subjects": ["q"]}, {})
                if round_ % 2
                else (recorded(), RECORDED["config"], RECORDED["state"])
            )
            body = {"config": config, "state": told}
            to = one.asked("$JS.API.STREAM.RESTORE.S", body)["deliver_subject"]
            sent(one, to, s2(mutated(archive, chance)), chance.choice((500, 100_000)))
            if round_ % 30 == 29:
                before = [one.asked(f"$JS.API.{what}.S") for what in ("STREAM.INFO", "CONSUMER.LIST")]
                server.kill()
                server.start("server.conf")
                one.close()
                one.__init__(server.port, PATIENCE_S, "a", round_ * MB, user="a")  # type: ignore[misc]
                after = [one.asked(f"$JS.API.{what}.S") for what in ("STREAM.INFO", "CONSUMER.LIST")]
                assert before[0].get("state") == after[0].get("state"), round_
                assert before[1].get("total") == after[1].get("total"), round_
            one.asked("$JS.API.STREAM.DELETE.S")
        unharmed(server)
