"""Stream templates under attack: what who may publish to a template's subjects can make of them.

nats-server has had none since 2.10, and answers no request for them, so there is nothing to compare with.
Not here: what templates do (interop/test_templates.py), names and limits each (unit/jetstream/test_templates.py).
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.hostile.wires import Asker, varz
from tests.rig.reloads import reloaded
from tests.servers import LEAFD, Server, running

CONFIGURATION: Final = """
listen: 127.0.0.1:{port}
http: 127.0.0.1:{http_port}
memory_limit: 64MB
max_control_line: 70000
jetstream { store_dir: "{store}", max_file_store: 1GB }
accounts {
  A {
    jetstream: { max_streams: 300 }
    users: [
      { user: a, password: a }
      { user: one, password: one, permissions: { publish: ["client.>", "deep.>"], subscribe: "in.*" } }
    ]
  }
  B { jetstream: enabled, users: [ { user: b, password: b } ] }
}
"""
PATIENCE_S: Final = 90.0
MB: Final = 1 << 20
NUMBERS: Final = itertools.count(1)
MANY: Final = 5_000
NO_STREAM: Final = {
    "one wildcard": b"client.*",
    "all that follows": b"client.>",
    "a wildcard in between": b"deep.*.x",
    "everything below": b"deep.>",
    "a NUL": b"client.a\0",
    "no UTF-8": b"client.\xff\xfe",
    "a surrogate": b"client.\xed\xa0\x80",
    "a name of 60 KB": b"client." + b"x" * 60_000,
}
ONE_EACH: Final = {
    "part of a token": (b"client.a*b", "C_a_b"),
    "a number behind it": (b"client.a_b", "C_a_b_2"),
    "a backslash": (b"client.a\\b", "C_a_b_3"),
    "letters": ("client.é".encode(), "C_é"),
    "the API": (b"client.$JS", "C_$JS"),
    "case": (b"client.A", "C_A"),
    "two tokens": (b"deep.a.b", "D_a_b"),
    "the same name": (b"deep.a_b", "D_a_b_2"),
}


def client(server: Server, user: str = "a") -> Asker:
    """A client of that user, with reply subjects that no other has."""
    return Asker(server.port, PATIENCE_S, user, next(NUMBERS) * MB, user=user)


def template(one: Asker, name: str, *subjects: str, most: int = 50, **config: Any) -> None:
    """Makes one."""
    body = {"name": name, "config": {"subjects": list(subjects)} | config, "max_streams": most}
    assert 0 == one.err_code(f"$JS.API.STREAM.TEMPLATE.CREATE.{name}", body)


def published(one: Asker, subject: bytes) -> dict[str, Any]:
    """What the publisher of a message hears; nothing where nobody has it."""
    reply = one.ask(subject, b"hi")
    assert reply is not None, subject[:80]
    found: dict[str, Any] = json.loads(reply or b"{}")
    return found


def streams(one: Asker) -> dict[str, list[str]]:
    """The names of all, with their subjects."""
    names = one.asked("$JS.API.STREAM.NAMES")["streams"] or ()
    return {name: one.asked(f"$JS.API.STREAM.INFO.{name}")["config"]["subjects"] for name in names}


@pytest.fixture
def server() -> Iterator[Server]:
    """With two templates of the account A."""
    with running(LEAFD, CONFIGURATION) as found:
        with client(found) as one:
            template(one, "C", "client.*")
            template(one, "D", "deep.>")
        yield found
        assert found.process is not None, found.log[-4000:]
        assert found.process.poll() is None, found.log[-4000:]
        assert {} == varz(found.ports["http_port"])["leafd"]["unexpected_errors_in"], found.log[-4000:]


def test_a_subject_with_wildcards_makes_no_stream(server: Server) -> None:
    """It would take what belongs to all the others. Its publisher is told, and theirs are made after it."""
    with client(server, "one") as user, client(server) as owner:
        for subject in NO_STREAM.values():
            assert "error" in published(user, subject), subject[:80]
        assert {} == streams(owner)
        assert 10003 == published(user, NO_STREAM["one wildcard"])["error"]["err_code"]
        assert {"stream": "C_a", "seq": 1} == published(user, b"client.a")
        assert {"C_a": ["client.a"]} == streams(owner)
        assert "error" in published(user, NO_STREAM["one wildcard"])
        assert 1 == owner.asked("$JS.API.STREAM.INFO.C_a")["state"]["messages"]


def test_each_subject_has_a_stream_of_its_own(server: Server) -> None:
    """Whatever its tokens look like; a restart after kill -9 finds the same ones, which take the next messages."""
    wanted = dict(ONE_EACH.values())
    for turn in (1, 2):
        with client(server, "one") as user:
            for subject, name in wanted.items():
                assert {"stream": name, "seq": turn} == published(user, subject)
        server.kill()
        server.start("server.conf")
    with client(server) as owner:
        assert {name: [subject.decode()] for subject, name in wanted.items()} == streams(owner)


def test_a_flood_of_subjects_makes_no_more_than_the_template_says(server: Server) -> None:
    """Five thousand of them, of which it makes fifty streams; others log in meanwhile, and the log has one line."""
    slow: list[float] = []
    over = threading.Event()

    def look() -> None:
        with client(server, "b") as asker:
            while not over.is_set():
                began = time.monotonic()
                client(server, "b").close()
                asker.asked("$JS.API.INFO")
                slow.append(time.monotonic() - began)

    thread = threading.Thread(target=look)
    thread.start()
    before = server.memory_bytes("RssAnon")
    with client(server, "one") as user:
        for first in range(0, MANY, 1000):
            user.send(b"".join(b"PUB client.z%d 2\r\nhi\r\n" % n for n in range(first, first + 1000)))
        assert 10027 == published(user, b"client.last")["error"]["err_code"]
    over.set()
    thread.join()
    with client(server) as owner:
        assert 50 == owner.asked("$JS.API.INFO")["streams"]
    assert 1 == server.log.count("makes no stream for subject")
    assert sorted(slow)[-3] < 0.5
    assert server.memory_bytes("RssAnon") < before + 40 * MB


def test_templates_make_no_more_streams_than_the_account_may_have(server: Server) -> None:
    """All of them together; what is there goes on."""
    with client(server) as owner, client(server, "one") as user:
        template(owner, "E", "many.*", most=(1 << 32) - 1)
        owner.send(b"".join(b"PUB many.%d 2\r\nhi\r\n" % n for n in range(2000)))
        assert 10027 == published(owner, b"many.last")["error"]["err_code"]
        assert 300 == owner.asked("$JS.API.INFO")["streams"]
        assert 10027 == published(user, b"client.a")["error"]["err_code"]
        assert {"stream": "E_1", "seq": 2} == published(owner, b"many.1")


def test_a_template_that_is_deleted_in_a_flood_leaves_nothing(server: Server) -> None:
    """Nor does the flood bring a stream back, before a restart or after it."""
    with client(server) as owner, client(server, "one") as user:
        user.send(b"".join(b"PUB deep.z%d 2\r\nhi\r\n" % n for n in range(3000)))
        gone = owner.asked("$JS.API.STREAM.TEMPLATE.DELETE.D")
        assert gone["success"]
        assert b"" == user.ask(b"deep.last", b"hi")
        assert {} == streams(owner)
    server.kill()
    server.start("server.conf")
    with client(server) as owner:
        assert {} == streams(owner)
        assert ["C"] == owner.asked("$JS.API.STREAM.TEMPLATE.NAMES")["streams"]


def test_a_stream_is_never_made_where_another_takes_the_message(server: Server) -> None:
    """Made before the template's, after it, and while its messages come: each message is in one stream."""
    with client(server) as owner, client(server, "one") as user:
        user.send(b"".join(b"PUB client.z%d 2\r\nhi\r\n" % (n % 20) for n in range(400)))
        assert b"" != user.ask(b"client.z0", b"hi")
        assert 10065 == owner.err_code("$JS.API.STREAM.CREATE.OWN", {"name": "OWN", "subjects": ["client.*"]})
        assert 0 == owner.err_code("$JS.API.STREAM.CREATE.OWN", {"name": "OWN", "subjects": ["client.own"]})
        assert {"stream": "OWN", "seq": 1} == published(user, b"client.own")
        found = streams(owner)
        assert sorted({one for subjects in found.values() for one in subjects}) == sorted(
            one for subjects in found.values() for one in subjects
        )
        counts = [owner.asked(f"$JS.API.STREAM.INFO.{name}")["state"]["messages"] for name in found]
        assert 402 == sum(counts)


def test_a_template_and_its_streams_go_with_their_accounts_right(server: Server) -> None:
    """A reload in a flood takes JetStream from the account: nothing is made any more, nobody else notices, and with the
    right they are back."""
    with client(server, "one") as user, client(server, "b") as other:
        user.send(b"".join(b"PUB client.z%d 2\r\nhi\r\n" % n for n in range(1000)))
        reloaded(server, server.configuration.replace("jetstream: { max_streams: 300 }", ""))
        assert "streams" in other.asked("$JS.API.INFO")
        reloaded(server, server.configuration)
    with client(server) as owner, client(server, "one") as user:
        assert ["C", "D"] == owner.asked("$JS.API.STREAM.TEMPLATE.NAMES")["streams"]
        assert all(name.startswith("C_z") for name in streams(owner))
        assert {"stream": "D_a", "seq": 1} == published(user, b"deep.a")


def test_who_may_only_publish_makes_no_template(server: Server) -> None:
    """Nor reads or deletes one; nor does another account by its name."""
    with client(server, "one") as user, client(server, "b") as other, client(server) as owner:
        body = json.dumps({"name": "X", "config": {"subjects": ["x.*"]}, "max_streams": 1}).encode()
        for subject in (b"CREATE.X", b"DELETE.C", b"INFO.C"):
            user.send(b"PUB $JS.API.STREAM.TEMPLATE.%s %d\r\n%s\r\n" % (subject, len(body), body))
            other.send(b"PUB $JS.API.STREAM.TEMPLATE.%s 0\r\n\r\n" % subject)
        assert 1 == published(user, b"client.a")["seq"]
        other.asked("$JS.API.INFO")
        assert ["C", "D"] == owner.asked("$JS.API.STREAM.TEMPLATE.NAMES")["streams"]
