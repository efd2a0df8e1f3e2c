"""Declared streams under attack: by clients of their account, by a kill -9, and by the file itself.

Declarations are leafd's own: there is nothing to compare with. Not here: what a reload does to what was
changed in good faith (interop/test_declared.py), files that are no files or come to too much (test_named_files.py).
"""

from __future__ import annotations

import itertools
import random
import signal
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any, Final

import pytest
from leafd.declared.assets import Declared
from leafd.errors import ConfigError
from leafd.jetstream.models.consumer import ConsumerConfig
from leafd.jetstream.models.stream import StreamConfig

from tests.hostile.wires import Asker, varz
from tests.interop.test_backup import MAGIC, s2
from tests.rig.reloads import REFUSED, reloaded
from tests.rig.waiting import PATIENCE_S
from tests.servers import LEAFD, Server, ServerDied, running
from tests.unit.declared.test_declared import brought, declared
from tests.unit.jetstream.conftest import Bench

CONFIGURATION: Final = """
listen: 127.0.0.1:{port}
http: 127.0.0.1:{http_port}
jetstream { store_dir: "{store}", max_file_store: 64MB, max_memory_store: 8MB }
accounts {
  A {
    jetstream: { max_file: 32MB, max_mem: 4MB, max_streams: 4, max_consumers: 4 }
    users: [ { user: a, password: a } ]
    streams { S { subjects: ["s.>"], max_bytes: 1MB }, M { mirror { name: S } } }
    consumers { S { c { ack_policy: explicit } } }
    kv { K { } }
  }
  B { jetstream: enabled, users: [ { user: b, password: b } ], streams { OTHER { subjects: [other] } } }
}
"""
MB: Final = 1 << 20
NUMBERS: Final = itertools.count(1)
S: Final = {"name": "S", "subjects": ["s.>"], "max_bytes": MB}
Act = tuple[tuple[str, dict[str, Any]], ...]
GONE: Final = ("STREAM.DELETE.S", dict[str, Any]())


@dataclass(frozen=True)
class Attack:
    """Requests of a client, and what the log of the next reload says of the stream, consumer or bucket."""

    acts: Act
    said: str


def changed(**more: Any) -> Act:
    """The declared stream with something else."""
    return (("STREAM.UPDATE.S", S | more),)


def taken(**other: Any) -> Act:
    """Another stream in the place of the declared one."""
    return GONE, (f"STREAM.CREATE.{other['name']}", other)


def consumer(name: str, **more: Any) -> tuple[str, dict[str, Any]]:
    """A consumer of S."""
    config = {"durable_name": name, "name": name, "ack_policy": "explicit"} | more
    return f"CONSUMER.CREATE.S.{name}", {"stream_name": "S", "config": config}


ATTACKS: Final = {
    "deletes it": Attack((GONE,), 'stream "S" of account A created, as declared'),
    "takes its subject": Attack(taken(name="X", subjects=["s.x"]), "subjects overlap with an existing stream"),
    "takes its room": Attack(taken(name="X", subjects=["x"], max_bytes=32 * MB), "insufficient storage resources"),
    "takes the places of streams": Attack(
        (GONE, *((f"STREAM.CREATE.X{n}", {"name": f"X{n}", "subjects": [f"x{n}"]}) for n in range(4))),
        "maximum number of streams reached",
    ),
    "puts it into memory": Attack(taken(name="S", subjects=["s.>"], storage="memory"), "made anew, as declared"),
    "puts it into memory with a message": Attack(
        (*taken(name="S", subjects=["s.>"], storage="memory"), ("s.1", {})), "can not change storage type"
    ),
    "makes a mirror of it": Attack(taken(name="S", mirror={"name": "Z"}), "is as declared again"),
    "seals it": Attack((("s.1", {}), *changed(sealed=True)), "can not unseal a sealed stream"),
    "forbids to delete": Attack(changed(deny_delete=True, deny_purge=True), "can not cancel deny message deletes"),
    "widens it": Attack(changed(subjects=["s.>", "t.>"]), "messages to t.> would not be stored any more"),
    "restores it": Attack((GONE, ("STREAM.RESTORE.S", {"config": S, "state": {}})), "is not as declared"),
    "adds much metadata": Attack(changed(metadata={"x": "\ud800\n[ERR]" * 10_000}), "is as declared again"),
    "takes the consumer": Attack(
        (("CONSUMER.DELETE.S.c", {}), consumer("c", ack_policy="none", deliver_subject="d")),
        "ack policy can not be updated",
    ),
    "takes the places of consumers": Attack(
        (("CONSUMER.DELETE.S.c", {}), *(consumer(f"x{n}") for n in range(4))), "maximum consumers limit reached"
    ),
    "takes the bucket": Attack(
        (("STREAM.DELETE.KV_K", {}), ("STREAM.CREATE.KV_K", {"name": "KV_K", "subjects": ["x"]})),
        "messages to x would not be stored any more",
    ),
    "takes the bucket's subjects": Attack(
        (("STREAM.DELETE.KV_K", {}), ("STREAM.CREATE.X", {"name": "X", "subjects": ["$KV.K.>"]})),
        'bucket "K" of account A is not as declared: subjects overlap',
    ),
    "has a template make it": Attack(
        (
            ("STREAM.TEMPLATE.CREATE.T", {"name": "T", "config": {"subjects": ["s.*"]}, "max_streams": 2}),
            GONE,
            ("s.1", {}),
        ),
        "subjects overlap with an existing stream",
    ),
}


def client(server: Server, user: str = "a") -> Asker:
    """A client of that user, with reply subjects that no other has."""
    return Asker(server.port, PATIENCE_S, user, next(NUMBERS) * MB, user=user)


def done(one: Asker, acts: Act) -> None:
    """Asks for all of that, whatever is answered; a restore is begun."""
    for request, body in acts:
        answer = one.asked(request if request.startswith("s.") else f"$JS.API.{request}", body or b"")
        if "deliver_subject" in answer:
            one.ask(answer["deliver_subject"], s2(MAGIC))


def unharmed(server: Server) -> None:
    """It runs, has what another account declares, and knows of nothing that it did not foresee."""
    assert server.process is not None, server.log[-4000:]
    assert server.process.poll() is None, server.log[-4000:]
    with client(server, "b") as other:
        assert ["OTHER"] == other.asked("$JS.API.STREAM.NAMES")["streams"]
    assert {} == varz(server.ports["http_port"])["leafd"]["unexpected_errors_in"], server.log[-4000:]


@pytest.mark.parametrize("name", ATTACKS)
def test_a_client_keeps_no_reload_from_happening_who(name: str) -> None:
    """The log says of the account's own what is not as declared, in one line; what else the reload says is done."""
    with running(LEAFD, CONFIGURATION) as server:
        with client(server) as one:
            done(one, ATTACKS[name].acts)
            said = reloaded(server, server.configuration.replace("OTHER {", "MORE { subjects: [more] }\nOTHER {"))
        assert ATTACKS[name].said in said
        assert all(line.startswith("[") for line in said.splitlines()), said
        assert len(said) < 20_000
        with client(server, "b") as other:
            assert ["MORE", "OTHER"] == other.asked("$JS.API.STREAM.NAMES")["streams"]
            assert 0 == other.err_code("$JS.API.STREAM.DELETE.MORE")
        unharmed(server)


def test_reloads_while_a_client_changes_what_is_declared() -> None:
    """Ten of them, in a storm of requests: each happens; once it is over, one more brings back what is declared, and a
    start after kill -9 finds it."""
    chance = random.Random(22)
    acts = [attack.acts for name, attack in ATTACKS.items() if "forbids" not in name and "seals" not in name]
    acts += [(("STREAM.PURGE.S", {}),), (("STREAM.DELETE.X", {}),), (("STREAM.DELETE.S", {}), ("STREAM.CREATE.S", S))]
    over = threading.Event()
    with running(LEAFD, CONFIGURATION) as server:

        def storm() -> None:
            with client(server) as one:
                while not over.is_set():
                    done(one, chance.choice(acts))

        threads = [threading.Thread(target=storm) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            for number in range(10):
                reloaded(server, f"{server.configuration}\nmax_payload: {900_000 + number}\n")
        finally:
            over.set()
            for thread in threads:
                thread.join()
        unharmed(server)
        with client(server) as one:
            deadline = time.monotonic() + PATIENCE_S
            while one.asked("$JS.API.STREAM.NAMES")["streams"]:  # a restore that nobody goes on with ends by itself
                one.asked("$JS.API.STREAM.TEMPLATE.DELETE.T")
                for name in one.asked("$JS.API.STREAM.NAMES")["streams"] or ():
                    one.asked(f"$JS.API.STREAM.DELETE.{name}")
                assert time.monotonic() < deadline
            while one.err_code("$JS.API.STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"]}):
                assert time.monotonic() < deadline
                time.sleep(0.1)
        reloaded(server, server.configuration)
        server.kill()
        server.start("server.conf")
        with client(server) as one:
            assert ["KV_K", "M", "S"] == one.asked("$JS.API.STREAM.NAMES")["streams"]
            assert ["c"] == one.asked("$JS.API.CONSUMER.NAMES.S")["consumers"]
            assert MB == one.asked("$JS.API.STREAM.INFO.S")["config"]["max_bytes"]
        unharmed(server)


def many(numbers: Iterable[int], text: str) -> str:
    """Declares so many streams with a consumer each, described by that."""
    streams = "\n".join(f"S{n} {{ subjects: [s.{n}], description: {text} }}" for n in numbers)
    consumers = "\n".join(f"S{n} {{ c {{ ack_policy: explicit, description: {text} }} }}" for n in numbers)
    return f"\nstreams {{ {streams} }}\nconsumers {{ {consumers} }}\n"


def test_a_kill_in_the_middle_of_what_is_declared() -> None:
    """Whenever it comes, the next start has all of it as declared, nothing else, and nothing twice."""
    chance, head = random.Random(7), 'listen: 127.0.0.1:{port}\njetstream { store_dir: "{store}" }\n'
    with running(LEAFD, head) as server:
        for round_ in range(4):
            text = server.configuration + many(range(150), "ab"[round_ % 2])
            (server.directory / "server.conf").write_text(text)
            assert server.process is not None
            server.process.send_signal(signal.SIGHUP)
            time.sleep(chance.uniform(0.05, 0.6))
            server.kill()
            server.start("server.conf")
            with Asker(server.port, PATIENCE_S) as one:
                assert sorted(f"S{n}" for n in range(150)) == one.asked("$JS.API.STREAM.NAMES")["streams"]
                for n in (0, 75, 149):
                    assert ["c"] == one.asked(f"$JS.API.CONSUMER.NAMES.S{n}")["consumers"]
                    for what in (f"STREAM.INFO.S{n}", f"CONSUMER.INFO.S{n}.c"):
                        assert "ab"[round_ % 2] == one.asked(f"$JS.API.{what}")["config"]["description"]
        assert "Traceback" not in server.log


# ---- the file --------------------------------------------------------------------------------------------------------

VALUES: Final = (
    "-1", "0", "1", "2026-01-01T00:00:00Z", "18446744073709551616", "-9223372036854775809", "9" * 400, "1e400", "-0.5",
    '""', '"x"', '"*"', '">"', '"a..b"', '"$JS.API.>"', '"a b"', '"\\x00"', f'"{"y" * 70_000}"', '"99999999999999h"',
    '"-5m"', "9999999999999G",
    "true", "null", "[]", "[[]]", '[1, "a", {}]', '["a", "a"]', "{ }", "{ a: { b: 1 } }", "{ name: S, name: T }",
    "9999-12-31T23:59:59Z", "[" + "[" * 90 + "]" * 91, "[" + ",".join(["a"] * 4_000) + "]",
)  # fmt: skip
WHOLE: Final = {
    "two of one name": ("streams { KV_K { subjects: [s] } }\nkv { K { } }", "keep one"),
    "one with a name of a path": ('streams { "../../x" { subjects: [s] } }', "cannot be a stream's name"),
    "one with a name of blanks": ('streams { "a b" { subjects: [s] } }', "cannot be a stream's name"),
    "another name within": ("streams { S { name: T, subjects: [s] } }", "is called"),
    "no map": ("streams { S: 5 }", "a map in braces is expected"),
    "no maps at all": ("streams: 5", "map"),
    "a list": ("streams: [ { S { } } ]", "map"),
    "consumers of nothing": ("consumers { S: [] }", "a map in braces is expected"),
    "a key that nobody knows": ("streams { S { subjects: [s], subject: t } }", "unknown field"),
}


def outcome(text: str) -> Declared | str:
    """What is declared, or what is wrong with it; anything else that is raised fails the test."""
    try:
        return declared(text)
    except ConfigError as error:
        return str(error)


@pytest.mark.parametrize("struct", [StreamConfig, ConsumerConfig], ids=["stream", "consumer"])
def test_a_value_of_any_type_at_each_key(struct: type[StreamConfig | ConsumerConfig]) -> None:
    """It is taken, or it is named with its line; what is taken is made or refused like a request of the API."""
    for key in sorted(one.metadata["name"] for one in fields(struct)):
        for value in VALUES:
            text = f"streams {{ S {{ subjects: [s], {key}: {value} }} }}"
            if struct is ConsumerConfig:
                text = f"streams {{ S {{ subjects: [s] }} }}\nconsumers {{ S {{ c {{ {key}: {value} }} }} }}"
            found = outcome(text)
            if isinstance(found, str):
                assert "box.conf:" in found, (key, value[:50], found[:200])
                assert len(found.splitlines()) < 110
            else:
                brought(Bench(), text)


@pytest.mark.parametrize("name", WHOLE)
def test_a_declaration_of(name: str) -> None:
    """It is refused, with what is wrong and where."""
    text, complaint = WHOLE[name]
    found = outcome(text)
    assert isinstance(found, str)
    assert complaint in found
    assert "box.conf:" in found


BAD: Final[dict[str, Callable[[str], str]]] = {
    "an account without JetStream": lambda text: text.replace("B { jetstream: enabled,", "B {"),
    "an account that is gone": lambda text: text.split("  B {")[0] + "}\nstreams { X { subjects: [x] } }\n",
    "a key that nobody knows": lambda text: text.replace("subjects: [other]", "subjects: [other], nothing: 1"),
    "two that overlap": lambda text: text.replace("OTHER {", "TWO { subjects: [other] }\nOTHER {"),
    "a consumer of no stream": lambda text: text.replace("consumers { S {", "consumers { NONE { d { } }\nS {"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_reload_is_refused_as_a_whole_that_declares(name: str) -> None:
    """Nothing of it happens, and the next start with the old file has everything."""
    with running(LEAFD, CONFIGURATION) as server:
        text = BAD[name](server.configuration).replace("max_bytes: 1MB", "max_bytes: 2MB")
        said = reloaded(server, text, REFUSED)
        assert "server.conf:" in said
        with client(server) as one:
            assert MB == one.asked("$JS.API.STREAM.INFO.S")["config"]["max_bytes"]
        unharmed(server)


LOWERED: Final = {
    "max_streams: 4": ("max_streams: 1", ""),
    "max_consumers: 4": ("max_consumers: 1", ""),
    "max_mem: 4MB": ("max_mem: 1KB", ""),
    "max_file: 32MB": ("max_file: 10KB", "beyond them what it publishes is refused"),
    "max_file: 32MB,": ("max_file: 32MB, max_bytes_required: true,", '"M" of account A is not as declared'),
    "max_mem: 4MB,": ("max_mem: 4MB, disk_max_stream_bytes: 1KB,", '"S" of account A is not as declared'),
    "max_streams: 4,": ("max_streams: 4, max_ack_pending: 1,", '"c" of stream "S" of account A was changed'),
}


@pytest.mark.parametrize("limit", LOWERED)
def test_a_reload_lowers_a_limit_below_what_is_declared(limit: str) -> None:
    """What is there stays, whatever the declarations say now, over a kill -9 as well; the log names what is not as
    declared."""
    lowered, complaint = LOWERED[limit]
    with running(LEAFD, CONFIGURATION) as server:
        with client(server) as one:
            for _ in range(50):
                assert 0 == one.err_code("s.a", "x" * 900)
        assert complaint in reloaded(server, server.configuration.replace(limit, lowered))
        for _ in range(2):
            with client(server) as one:
                assert 50 == one.asked("$JS.API.STREAM.INFO.S")["state"]["messages"]
                assert ["KV_K", "M", "S"] == sorted(one.asked("$JS.API.STREAM.NAMES")["streams"])
                assert ["c"] == one.asked("$JS.API.CONSUMER.NAMES.S")["consumers"]
            unharmed(server)
            server.kill()
            server.start("server.conf")


def test_a_start_with_such_a_file_ends_with_a_line() -> None:
    """No trace of Python is in it."""
    with pytest.raises(ServerDied) as error, running(LEAFD, BAD["a key that nobody knows"](CONFIGURATION)):
        pass
    assert "unknown field 'nothing'" in str(error.value)
    assert "Traceback" not in str(error.value)
