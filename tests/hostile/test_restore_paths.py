"""Restores that come by other ways than a client of the same account: over a leaf link, by a service import, into an
encrypted store; with chunks that come in another order, and with the link, the box or the rights going half way.

Both servers do the same by every way, but where it says so. What the archives themselves may have: test_restore_api.py.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.hostile.test_restore_api import client, message, unharmed, whole
from tests.hostile.wires import Asker
from tests.interop.test_backup import END, MAGIC, s2, state
from tests.rig.reloads import reloaded
from tests.rig.waiting import eventually
from tests.servers import KINDS, LEAFD, REFERENCE, Server, running

BOX: Final = """
server_name: box
listen: 127.0.0.1:{port}
http: 127.0.0.1:{http_port}
jetstream { store_dir: "{store}", max_file_store: 256MB, max_memory_store: 16MB, domain: box MORE }
accounts {
  A { jetstream: enabled
    users: [
      { user: a, password: a }
      { user: r, password: r, permissions: { publish: ["$JS.API.>", "$JS.SNAPSHOT.>", "out.>"], subscribe: ["in.>"] } }
    ]
    exports: [ { service: "$JS.API.STREAM.>" }, { service: "$JS.SNAPSHOT.RESTORE.*.*" } ]
  }
  B { users: [ { user: b, password: b } ]
    imports: [ { service: { account: A, subject: "$JS.API.STREAM.>" }, to: "theirs.>" }
               { service: { account: A, subject: "$JS.SNAPSHOT.RESTORE.*.*" } } ]
  }
  C { users: [ { user: c, password: c } ]
    imports: [ { service: { account: A, subject: "$JS.API.STREAM.>" }, to: "theirs.>" } ]
  }
}
"""
REMOTE: Final = '\nleafnodes { remotes: [ { url: "nats-leaf://a:a@127.0.0.1:{hub_port}", account: A } ] }\n'
HUB: Final = """
server_name: hub
listen: 127.0.0.1:{port}
http: 127.0.0.1:{http_port}
jetstream { store_dir: "{store}", domain: hub }
leafnodes { listen: "127.0.0.1:{leaf_port}" }
accounts { A { jetstream: enabled, users: [ { user: a, password: a } ] } }
"""
FOUR: Final = [message(b"q", number, payload=b"m%d" % number) for number in (1, 2, 3, 4)]
PARTS: Final = (MAGIC + state(messages=4, first_seq=1, last_seq=4), *FOUR, END)
CHUNKS: Final = [s2(part)[10 * bool(number) :] for number, part in enumerate(PARTS)]
"""The archive's state, its messages 1 to 4 and its end; each a chunk, which can be unpacked for itself."""


def orders() -> dict[str, list[bytes]]:
    """The chunks as they are sent, the empty one at the end left out."""
    right, end = CHUNKS, CHUNKS[5]
    return {
        "in order": right,
        "two exchanged": [right[i] for i in (0, 2, 1, 3, 4, 5)],
        "one doubled": [right[i] for i in (0, 1, 2, 2, 3, 4, 5)],
        "one left out": [right[i] for i in (0, 1, 3, 4, 5)],
        "the end first": [end, *right],
        "the end in the middle": [*right[:3], end, *right[3:]],
        "no end": right[:5],
        "nothing": [],
        "some after the end": [*right, right[1], right[2]],
        "an empty one in the middle": [*right[:3], b"", *right[3:]],
        "the last one first": right[::-1],
        "another beginning in the middle": [*right[:3], s2(PARTS[3]), *right[4:]],
    }


@contextlib.contextmanager
def linked(kind: str, more: str = "") -> Iterator[tuple[Server, Server]]:
    """A hub and a box whose link is there."""
    with running(kind, HUB) as hub:
        remote = REMOTE.replace("{hub_port}", str(hub.ports["leaf_port"]))
        with running(kind, BOX.replace("MORE", more) + remote) as box:
            until_linked(hub)
            yield hub, box


def until_linked(hub: Server) -> None:
    with client(hub) as one:
        eventually(lambda: b"account_info" in (one.ask("$JS.box.API.INFO") or b""))


@contextlib.contextmanager
def way(kind: str, name: str) -> Iterator[tuple[Server, Asker, str]]:
    """The box, who asks it, and how the requests of its API about streams begin there."""
    if name == "over a leaf link":
        with linked(kind) as (hub, box), client(hub) as one:
            yield box, one, "$JS.box.API.STREAM"
            unharmed(hub)
    else:
        more = ", key: open-sesame, cipher: aes" if name == "into an encrypted store" else ""
        user, prefix = ("b", "theirs") if name == "by a service import" else ("a", "$JS.API.STREAM")
        with running(kind, BOX.replace("MORE", more)) as box, client(box, user) as one:
            yield box, one, prefix


WAYS: Final = ("in the account", "over a leaf link", "by a service import", "into an encrypted store")


def begun(one: Asker, prefix: str, name: str, **config: Any) -> str:
    body = {"config": {"name": name, "subjects": [name]} | config, "state": {}}
    return str(one.asked(f"{prefix}.RESTORE.{name}", body)["deliver_subject"])


def played(one: Asker, prefix: str, name: str, chunks: list[bytes]) -> tuple[int, Any]:
    """The error, and what is there then. The stream is deleted."""
    to = begun(one, prefix, name)
    answer = b""
    for chunk in (*chunks, b""):
        answer = one.ask(to, chunk) or b""
        if answer:
            break
    found = one.asked(f"{prefix}.INFO.{name}").get("state")
    seen = found and [found[key] for key in ("messages", "first_seq", "last_seq")]
    if found:
        assert one.asked(f"{prefix}.DELETE.{name}")["success"]
    assert answer
    return int(json.loads(answer).get("error", {}).get("err_code", 0)), seen


SEEN: Final[dict[str, Any]] = {}


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind in KINDS for name in WAYS if (kind, name) != (REFERENCE, "by a service import")],
)
def test_chunks_in_any_order(kind: str, name: str) -> None:
    """By every way they make of it what they make of it in the account, on both servers."""
    with way(kind, name) as (box, one, prefix):
        found = {what: played(one, prefix, f"T{n}", chunks) for n, (what, chunks) in enumerate(orders().items())}
        unharmed(box)
    assert (0, [4, 1, 4]) == found["in order"]
    assert (10062, [1, 2, 2]) == found["two exchanged"]
    assert SEEN.setdefault("orders", found) == found


def test_nats_server_restores_nothing_by_a_service_import() -> None:
    """It answers each chunk, the last one too, with nothing, and there is no stream."""
    with way(REFERENCE, "by a service import") as (_, one, prefix):
        to = begun(one, prefix, "T")
        assert [b""] * 7 == [one.ask(to, chunk) for chunk in (*CHUNKS, b"")]
        assert 10059 == one.err_code(f"{prefix}.INFO.T")


@pytest.mark.parametrize("name", WAYS)
def test_an_archive_that_comes_twice_is_taken_once(name: str) -> None:
    """What follows its end is passed over; nats-server refuses it in the middle of the second, and keeps a part."""
    with way(LEAFD, name) as (box, one, prefix):
        assert (0, [4, 1, 4]) == played(one, prefix, "T", CHUNKS * 2)
        unharmed(box)


def until_free(one: Asker, name: str = "T") -> None:
    """The name can be used again, at the latest some seconds after the restore fell silent."""

    def free() -> bool:
        one.asked(f"$JS.API.STREAM.DELETE.{name}")
        return not one.err_code(f"$JS.API.STREAM.CREATE.{name}", {"name": name, "subjects": [name]})

    eventually(free, f"the name {name} is not free")
    assert one.asked(f"$JS.API.STREAM.DELETE.{name}")["success"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_link_that_is_cut_half_way(kind: str) -> None:
    """The restore ends, the box goes on and has the name free; when the link is back, it is restored over it."""
    with linked(kind) as (hub, box), client(box) as own:
        with client(hub) as one:
            to = begun(one, "$JS.box.API.STREAM", "T")
            for chunk in CHUNKS[:3]:
                assert b"" == one.ask(to, chunk)
            hub.kill()
        until_free(own)
        hub.start("server.conf")
        until_linked(hub)
        with client(hub) as one:
            assert (0, [4, 1, 4]) == played(one, "$JS.box.API.STREAM", "T", CHUNKS)
            assert (10062, None) == played(one, "$JS.box.API.STREAM", "T", [])
        unharmed(box)


@pytest.mark.parametrize("more", ["", ", key: open-sesame"], ids=["in plain", "encrypted"])
def test_a_box_that_is_killed_half_way(more: str) -> None:
    """Its next start has nothing of it; what had come is nowhere to be read where the store is encrypted."""
    archive = [s2(MAGIC + state(messages=900, first_seq=1, last_seq=900))]
    archive += [s2(message(b"q", n, payload=b"Word-%d" % n * 100))[10:] for n in range(1, 900)]
    with linked(LEAFD, more) as (hub, box):
        with client(hub) as one:
            to = begun(one, "$JS.box.API.STREAM", "T")
            for chunk in archive:
                assert b"" == one.ask(to, chunk)
        box.kill()
        files = [one for one in (box.directory / "store").rglob("*") if one.is_file()]
        assert bool(more) != any(b"Word-7" in one.read_bytes() for one in files)
        box.start("server.conf")
        until_linked(hub)
        with client(hub) as one:
            assert 10059 == one.err_code("$JS.box.API.STREAM.INFO.T")
            assert (0, [4, 1, 4]) == played(one, "$JS.box.API.STREAM", "T", CHUNKS)
        unharmed(box)


# ---- who may ---------------------------------------------------------------------------------------------------------


def test_an_import_that_lacks_the_chunks_subject() -> None:
    """Who may begin a restore and not send anything keeps nobody from that name."""
    with running(LEAFD, BOX.replace("MORE", "")) as box, client(box, "c") as one, client(box) as own:
        to = begun(one, "theirs", "T")
        assert b"" == one.ask(to, CHUNKS[0])  # nobody is there
        until_free(own)
        unharmed(box)


def test_an_importer_restores_nothing_that_publishes_by_itself() -> None:
    """He may publish nothing in the account whose API he asks: neither republish nor another JetStream."""
    api = {"api": "$JS.elsewhere.API", "deliver": "in.x"}
    with running(LEAFD, BOX.replace("MORE", "")) as box, client(box, "b") as one:
        for config in ({"republish": {"src": ">", "dest": "out.>"}}, {"sources": [{"name": "S", "external": api}]}):
            body = {"config": {"name": "T", "subjects": ["T"]} | config, "state": {}}
            assert 10052 == one.err_code("theirs.RESTORE.T", body)
        unharmed(box)


REMOVED: Final = {
    "the chunks' subject": (', "$JS.SNAPSHOT.>"', ""),
    "the user": ("{ user: r, password: r,", "{ user: s, password: s,"),
    "his password": ("{ user: r, password: r,", "{ user: r, password: t,"),
}


@pytest.mark.parametrize("what", REMOVED)
def test_rights_that_go_half_way(what: str) -> None:
    """From the reload on nothing more of it is taken, and the name is free some seconds later."""
    with running(LEAFD, BOX.replace("MORE", "")) as box, client(box) as own:
        with client(box, "r") as one:
            to = begun(one, "$JS.API.STREAM", "T")
            for chunk in CHUNKS[:3]:
                assert b"" == one.ask(to, chunk)
            assert REMOVED[what][0] in box.configuration
            reloaded(box, box.configuration.replace(*REMOVED[what]))
            for chunk in (*CHUNKS[3:], b""):
                one.send(b"PUB %s in.x %d\r\n%s\r\n" % (to.encode(), len(chunk), chunk))
            one.send(b"PING\r\n")
            assert b"Permissions Violation" in one.heard() or one.closed or what != "the chunks' subject"
        time.sleep(0.2)
        assert own.asked("$JS.API.STREAM.INFO.T").get("state", {}).get("messages", 0) <= 2
        until_free(own)
        unharmed(box)


def test_a_right_to_republish_that_goes_half_way() -> None:
    """The stream is restored and publishes nothing in the name of who may not any more; with the right it goes on."""
    with running(LEAFD, BOX.replace("MORE", "")) as box, client(box) as own, client(box, "r") as one:
        to = begun(one, "$JS.API.STREAM", "T", republish={"src": "T", "dest": "out.x"})
        for chunk in CHUNKS[:3]:
            assert b"" == one.ask(to, chunk)
        reloaded(box, box.configuration.replace(', "out.>"', ""))
        for chunk in CHUNKS[3:]:
            assert b"" == one.ask(to, chunk)
        assert 4 == one.asked(to)["state"]["messages"]
        assert 0 == heard(box, own)
        assert 'stream "T" of account "A" does not publish to "out.x"' in box.log
        reloaded(box, box.configuration)
        assert 1 == heard(box, own)
        unharmed(box)


def heard(box: Server, own: Asker) -> int:
    """How much of one message in T is republished."""
    with client(box) as listener:
        listener.send(b"SUB out.x 9\r\nPING\r\n")
        while listener.heard() != b"PONG":
            pass
        assert "error" not in own.asked("T", b"hello")
        listener.send(b"PING\r\n")
        count = 0
        while (line := listener.heard()) != b"PONG":
            count += b"out.x" in line
        return count


def test_whole_archives_of_other_tests_go_over_a_link() -> None:
    """In chunks of one byte, of three, and in one: each is the same stream."""
    archive = s2(whole(*FOUR, last_seq=4))
    with linked(LEAFD) as (hub, box), client(hub) as one:
        for number, size in enumerate((1, 3, 100_000)):
            chunks = [archive[at : at + size] for at in range(0, len(archive), size)]
            assert (0, [4, 1, 4]) == played(one, "$JS.box.API.STREAM", f"T{number}", chunks)
        unharmed(box)
