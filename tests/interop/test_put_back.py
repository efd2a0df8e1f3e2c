"""A box whose store was put back from an older copy: a leafd hub notices it and collects what is new, nothing twice.
With other hubs it is done as packaging/doc/guide.md tells.

Not here: backups of single streams (test_backup.py), damage (tests/crash/).
"""

from __future__ import annotations

import asyncio
import base64
import shutil
from pathlib import Path
from typing import Any, Final

import nats
import pytest
from leafd.copies import copies
from leafd.status import STREAMS_PAGE

from tests import servers
from tests.crash.histories import clocks
from tests.held import ask, held_of
from tests.rig.reports import report
from tests.rig.waiting import PATIENCE_S, eventually, logged, until

HUB: Final = (
    "listen: 127.0.0.1:{port}\nhttp: 127.0.0.1:{http_port}\nserver_name: hub\n"
    'jetstream { store_dir: "{store}", domain: hub }\nleafnodes { listen: 127.0.0.1:{leaf_port} }\n'
)
BOX: Final = (
    "listen: 127.0.0.1:{port}\nhttp: 127.0.0.1:{http_port}\nserver_name: box\n"
    'jetstream { store_dir: "{store}", domain: box }\nleafnodes { remotes: [ { url: "nats-leaf://127.0.0.1:HUB" } ] }\n'
)
L: Final = servers.LEAFD
WORDS: Final = (b"early", b"late", b"new", b"newer")
YEAR_S: Final = 365 * 24 * 3600
SOURCE: Final = {"name": "T", "external": {"api": "$JS.box.API"}}


async def publish(box: servers.Server, words: list[bytes], *, purge_to: int = 0) -> None:
    client = await nats.connect(box.url)
    if purge_to:
        await ask(client, "STREAM.PURGE.T", {"seq": purge_to})
    for word in words:
        await client.jetstream().publish("t.x", word, timeout=PATIENCE_S)
    await client.close()


async def collected(hub: servers.Server, wanted: list[bytes]) -> None:
    """The hub has these messages, in this order, and no others."""
    client = await nats.connect(hub.url)

    async def whole() -> bool:
        return bool((await ask(client, "STREAM.INFO.T", {}))["state"]["messages"] >= len(wanted))

    await until(whole, "the hub does not collect them")
    subscription = await client.jetstream().subscribe(">", stream="T", ordered_consumer=True)
    held = [(await subscription.next_msg(timeout=PATIENCE_S)).data for _ in wanted]
    assert wanted == held
    await client.close()


async def made(server: servers.Server, config: dict[str, Any]) -> None:
    client = await nats.connect(server.url)
    await ask(client, "STREAM.CREATE.T", {"name": "T", "storage": "file"} | config)
    await client.close()


def test_a_box_that_was_put_back_is_collected_again_once_its_stream_is_moved_on(tmp_path: Path) -> None:
    """The copy is older than what the hub has; with the purge of the guide nothing new is passed over or doubled."""
    for name in ("hub", "box"):
        (tmp_path / name).mkdir()
    hub = servers.make(servers.LEAFD, HUB, tmp_path / "hub")
    box = servers.make(servers.LEAFD, BOX.replace("HUB", str(hub.ports["leaf_port"])), tmp_path / "box")
    store, copy = tmp_path / "box" / "store", tmp_path / "copy"
    early, late, new = ([b"%s-%d" % (word, number) for number in range(5)] for word in (b"early", b"late", b"new"))
    hub.start()
    try:
        box.start()
        asyncio.run(made(box, {"subjects": ["t.>"]}))
        asyncio.run(made(hub, {"sources": [SOURCE]}))
        asyncio.run(publish(box, early))
        asyncio.run(collected(hub, early))
        box.stop()
        shutil.copytree(store, copy)
        box.start()
        asyncio.run(publish(box, late))
        asyncio.run(collected(hub, early + late))
        box.stop()
        shutil.rmtree(store)
        shutil.copytree(copy, store)
        box.start()
        asyncio.run(publish(box, new, purge_to=1_000_000))
        asyncio.run(collected(hub, early + late + new))
    finally:
        box.stop()
        hub.stop()


# ---- noticed by the hub

KINDS_OF_COPY: Final = ("P", "D", "W", "V")
"""Of each box: a plain source and a durable one (D, V), of a stream and of a work queue (W, V)."""


def is_durable(name: str) -> bool:
    return name in "DV"


async def make_origins(box: servers.Server) -> None:
    client = await nats.connect(box.url)
    for name in KINDS_OF_COPY:
        retention = "workqueue" if name in "WV" else "limits"
        body = {"name": name, "subjects": [f"{name}.x"], "storage": "file", "retention": retention}
        await ask(client, f"STREAM.CREATE.{name}", body)
        config = {"durable_name": "c", "deliver_subject": f"d.{name}", "ack_policy": "flow_control"}
        if is_durable(name):
            consumer = {"stream_name": name, "config": {**config, "max_ack_pending": 100}}
            await ask(client, f"CONSUMER.CREATE.{name}.c", consumer)
    await client.close()


def source_of(name: str) -> dict[str, Any]:
    source: dict[str, Any] = {"name": name, "external": {"api": "$JS.box.API", "deliver": ""}}
    return source | ({"consumer": {"name": "c", "deliver_subject": f"d.{name}"}} if is_durable(name) else {})


async def make_copies(hub: servers.Server) -> None:
    client = await nats.connect(hub.url)
    for name in KINDS_OF_COPY:
        await ask(client, f"STREAM.CREATE.{name}", {"name": name, "storage": "file", "sources": [source_of(name)]})
    await client.close()


async def publish_each(box: servers.Server, words: list[bytes]) -> None:
    client = await nats.connect(box.url)
    for name in KINDS_OF_COPY:
        for word in words:
            await client.jetstream().publish(f"{name}.x", word, timeout=PATIENCE_S)
    await client.close()


async def until_each_is(hub: servers.Server, wanted: list[bytes]) -> None:
    """Every copy has these messages, in this order; a second later, too."""
    client = await nats.connect(hub.url)
    found: dict[str, list[bytes]] = {}

    async def same() -> bool:
        found.update({name: await held_of(client, name) for name in KINDS_OF_COPY})
        return found == dict.fromkeys(KINDS_OF_COPY, wanted)

    await until(same, lambda: {name: b" ".join(held) for name, held in found.items() if held != wanted})
    await asyncio.sleep(1)
    assert await same(), found
    await client.close()


@pytest.mark.parametrize("hub_restarts", [False, True], ids=["hub-stays", "hub-restarts"])
@pytest.mark.parametrize("count", [3, 9], ids=["behind", "passed"])
@pytest.mark.parametrize("kind", servers.KINDS)
def test_a_hub_notices_a_box_that_was_put_back(tmp_path: Path, kind: str, count: int, hub_restarts: bool) -> None:
    """Whether the box has stored less than the hub had of it, or more, when they meet again: what is new is collected,
    nothing twice, and both say what happened."""
    for name in ("hub", "box"):
        (tmp_path / name).mkdir()
    hub = servers.make(servers.LEAFD, HUB, tmp_path / "hub")
    box = servers.make(kind, BOX.replace("HUB", str(hub.ports["leaf_port"])), tmp_path / "box")
    store, copy = tmp_path / "box" / "store", tmp_path / "copy"
    early, late = ([b"%s-%d" % (word, number) for number in range(5)] for word in (b"early", b"late"))
    new, newest = ([b"%s-%d" % (word, number) for number in range(count)] for word in (b"new", b"newest"))
    hub.start()
    try:
        box.start()
        asyncio.run(make_origins(box))
        asyncio.run(make_copies(hub))
        asyncio.run(publish_each(box, early))
        asyncio.run(until_each_is(hub, early))
        box.stop()
        shutil.copytree(store, copy)
        box.start()
        asyncio.run(publish_each(box, late))
        asyncio.run(until_each_is(hub, early + late))
        if hub_restarts:
            hub.stop()
        box.stop()
        shutil.rmtree(store)
        shutil.copytree(copy, store)
        box.start()
        asyncio.run(publish_each(box, new))
        if hub_restarts:
            hub.start()
        asyncio.run(until_each_is(hub, early + late + new))
        asyncio.run(publish_each(box, newest))
        asyncio.run(until_each_is(hub, early + late + new + newest))
        assert "was put back to an earlier state at its origin" in hub.log
        told = {one.stream for one in copies(report(hub, STREAMS_PAGE.removeprefix("/"))) if one.put_back}
        assert told == {*KINDS_OF_COPY}
        assert kind != servers.LEAFD or count > 5 or "this store was put back to an earlier state" in box.log
    finally:
        box.stop()
        hub.stop()


# ---- a hub that does not notice


async def at_the_box(box: servers.Server, name: str, sequences: range) -> list[bytes]:
    client = await nats.connect(box.url)
    found = [(await ask(client, f"STREAM.MSG.GET.{name}", {"seq": sequence}))["message"] for sequence in sequences]
    await client.close()
    return [base64.b64decode(message["data"]) for message in found]


def alarms(box: servers.Server) -> list[str]:
    """What it says that a copy elsewhere passes over; its health has the same."""
    found = report(box, "varz")["leafd"].get("passed_over", [])
    assert found == report(box, "healthz").get("passed_over", [])
    return list(found)


async def purged(box: servers.Server, sequence: int) -> None:
    client = await nats.connect(box.url)
    for name in KINDS_OF_COPY:
        await ask(client, f"STREAM.PURGE.{name}", {"seq": sequence})
    await client.close()


@pytest.mark.parametrize(("count", "away"), [(5, False), (12, False), (12, True)], ids=["level", "passed", "away"])
def test_a_box_that_was_put_back_keeps_what_a_hub_of_nats_server_passes_over(
    tmp_path: Path, count: int, away: bool
) -> None:
    """Nothing leaves a work queue that the hub has not stored, what comes behind is collected, and the box says why;
    also when it was started once more before they met, with all that is new."""
    for name in ("hub", "box"):
        (tmp_path / name).mkdir()
    hub = servers.make(servers.REFERENCE, HUB, tmp_path / "hub")
    box = servers.make(servers.LEAFD, BOX.replace("HUB", str(hub.ports["leaf_port"])), tmp_path / "box")
    store, copy = tmp_path / "box" / "store", tmp_path / "copy"
    early, late = ([b"%s-%d" % (word, number) for number in range(5)] for word in (b"early", b"late"))
    new = [b"new-%d" % number for number in range(count)]
    hub.start()
    try:
        box.start()
        asyncio.run(make_origins(box))
        asyncio.run(make_copies(hub))
        asyncio.run(publish_each(box, early))
        asyncio.run(until_each_is(hub, early))
        box.stop()
        shutil.copytree(store, copy)
        box.start()
        asyncio.run(publish_each(box, late))
        asyncio.run(until_each_is(hub, early + late))
        box.stop()
        shutil.rmtree(store)
        shutil.copytree(copy, store)
        if away:
            hub.stop()
        box.start()
        asyncio.run(publish_each(box, new))
        if away:
            box.stop()
            box.start()
            hub.start()
        asyncio.run(until_each_is(hub, early + late + new[5:]))
        for name in KINDS_OF_COPY:
            logged(box, f"{name} was given to a copy elsewhere up to sequence 10, and not by this store")
        for name in "WV":
            assert new[:5] == asyncio.run(at_the_box(box, name, range(6, 11)))
        told = {text.split()[1]: text for text in alarms(box)}
        assert {*told} == {*KINDS_OF_COPY}
        assert "passes over its sequences up to 10, from 6 at the latest: 5 of these are here" in told["P"]
        assert "passes over its sequences 6 to 10: 5 of these are here" in told["V"]
        asyncio.run(purged(box, 11))
        eventually(lambda: not alarms(box), lambda: alarms(box))
    finally:
        box.stop()
        hub.stop()


@pytest.mark.parametrize(
    ("linked", "again"),
    [(False, False), (True, False), (False, True)],
    ids=["before-the-hub-comes", "while-the-hub-is-there", "before-another-start-and-the-hub"],
)
def test_what_a_box_that_was_put_back_stores_by_a_clock_that_is_behind_is_collected_too(
    tmp_path: Path, linked: bool, again: bool
) -> None:
    """A machine without a clock of its own starts with the time of its image, and what it stores until it is told
    today's has stamps older than what the hub has. Nothing comes twice, also after the hub was killed."""
    for name in ("hub", "box"):
        (tmp_path / name).mkdir()
    hub = servers.make(servers.LEAFD, HUB, tmp_path / "hub")
    box = servers.make(servers.LEAFD, BOX.replace("HUB", str(hub.ports["leaf_port"])), tmp_path / "box")
    clock = clocks.Clock(tmp_path / "clock")
    before = clocks.before(L, clocks.built(L, tmp_path), clock)
    store, copy = tmp_path / "box" / "store", tmp_path / "copy"
    early, late, new, newer = ([b"%s-%d" % (word, number) for number in range(5)] for word in WORDS)
    hub.start()
    try:
        box.start(before=before)
        asyncio.run(made(box, {"subjects": ["t.>"]}))
        asyncio.run(made(hub, {"sources": [SOURCE]}))
        asyncio.run(publish(box, early))
        asyncio.run(collected(hub, early))
        box.stop()
        shutil.copytree(store, copy)
        clock.step_to(YEAR_S)
        box.start(before=before)
        asyncio.run(publish(box, late))
        asyncio.run(collected(hub, early + late))
        box.stop()
        hub.stop()
        shutil.rmtree(store)
        shutil.copytree(copy, store)
        clock.step_to(0)
        box.start(before=before)
        if linked:
            hub.start()
            logged(hub, "goes on with what is newer")
        asyncio.run(publish(box, new))
        if again:
            box.stop()
            box.start(before=before)
        if not linked:
            hub.start()
        asyncio.run(collected(hub, early + late + new))
        hub.kill()
        hub.start()
        clock.step_to(YEAR_S)
        asyncio.run(publish(box, newer))
        asyncio.run(collected(hub, early + late + new + newer))
    finally:
        box.stop()
        hub.stop()


def test_a_durable_source_takes_what_is_new_whatever_the_clock_of_the_box_that_was_put_back_says(
    tmp_path: Path,
) -> None:
    """No stamp tells what is new where the stream's last one is of a time to come, as all that follow have the same.
    Nothing leaves a work queue that the hub has not stored, nothing comes twice, also after both lost power."""
    for name in ("hub", "box"):
        (tmp_path / name).mkdir()
    hub = servers.make(servers.LEAFD, HUB, tmp_path / "hub")
    box = servers.make(servers.LEAFD, BOX.replace("HUB", str(hub.ports["leaf_port"])), tmp_path / "box")
    clock = clocks.Clock(tmp_path / "clock")
    before = clocks.before(L, clocks.built(L, tmp_path), clock)
    store, copy = tmp_path / "box" / "store", tmp_path / "copy"
    early, late, new, newer = ([b"%s-%d" % (word, number) for number in range(3)] for word in WORDS)
    clock.step_to(YEAR_S)
    hub.start()
    try:
        box.start(before=before)
        asyncio.run(make_origins(box))
        asyncio.run(make_copies(hub))
        asyncio.run(publish_each(box, early))
        asyncio.run(until_each_is(hub, early))
        box.stop()
        shutil.copytree(store, copy)
        box.start(before=before)
        asyncio.run(publish_each(box, late))
        asyncio.run(until_each_is(hub, early + late))
        box.stop()
        shutil.rmtree(store)
        shutil.copytree(copy, store)
        clock.step_to(0)
        box.start(before=before)
        asyncio.run(publish_each(box, new))
        asyncio.run(until_each_is(hub, early + late + new))
        for name in KINDS_OF_COPY:
            logged(hub, f"stream {name} was put back to an earlier state at its origin")
        assert not alarms(box)
        for server in (hub, box):
            server.kill()
        hub.start()
        box.start(before=before)
        asyncio.run(publish_each(box, newer))
        asyncio.run(until_each_is(hub, early + late + new + newer))
    finally:
        box.stop()
        hub.stop()


def test_where_the_epochs_of_a_box_and_its_hub_part_no_clock_is_asked(tmp_path: Path) -> None:
    """All stamps are the same, as the stream's last one is of a time to come. A box that was put back is started twice
    before its hub is there again, each time with messages; then a newer copy is put back in place of the older one."""
    for name in ("hub", "box"):
        (tmp_path / name).mkdir()
    hub = servers.make(servers.LEAFD, HUB, tmp_path / "hub")
    box = servers.make(servers.LEAFD, BOX.replace("HUB", str(hub.ports["leaf_port"])), tmp_path / "box")
    clock = clocks.Clock(tmp_path / "clock")
    before = clocks.before(L, clocks.built(L, tmp_path), clock)
    store, older, newer = tmp_path / "box" / "store", tmp_path / "older", tmp_path / "newer"
    words = iter([b"%s-%d" % (word, number) for number in range(3)] for word in (*WORDS, b"newest", b"last"))
    wanted = list[bytes]()

    def publishes() -> None:
        wanted.extend(word := next(words))
        asyncio.run(publish_each(box, word))

    def starts_from(copy: Path) -> None:
        shutil.rmtree(store, ignore_errors=True)
        shutil.copytree(copy, store)
        box.start(before=before)

    clock.step_to(YEAR_S)
    hub.start()
    try:
        box.start(before=before)
        asyncio.run(make_origins(box))
        asyncio.run(make_copies(hub))
        publishes()
        asyncio.run(until_each_is(hub, wanted))
        for copy in (older, newer):
            box.stop()
            shutil.copytree(store, copy)
            box.start(before=before)
            clock.step_to(0)
            publishes()
            asyncio.run(until_each_is(hub, wanted))
        box.stop()
        hub.stop()
        starts_from(older)
        for _ in range(2):
            publishes()
            box.stop()
            box.start(before=before)
        hub.start()
        asyncio.run(until_each_is(hub, wanted))
        for name in KINDS_OF_COPY:
            logged(hub, f"stream {name} was put back to an earlier state at its origin, up to sequence 3")
        box.stop()
        hub.kill()
        starts_from(newer)
        publishes()
        hub.start()
        asyncio.run(until_each_is(hub, wanted))
        assert not alarms(box)
    finally:
        box.stop()
        hub.stop()
