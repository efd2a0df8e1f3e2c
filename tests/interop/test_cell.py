"""Two leafd with a cell modem between them: real TCP over a line with rate, delay and loss (tests/cell.py).

What takes minutes is a bench (tests/bench/cell.py). Where this machine lets nobody make namespaces, each test says so
and is skipped.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import json
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from leafd.links.replica import ANSWER_TIMEOUT_S
from leafd.links.second_dial import OVERTAKEN

from tests import cell, servers
from tests.bench.process import Api, Process
from tests.cell import HUB, HUB_ADDRESS, LEAF, Cell, Link
from tests.certificates import Authority
from tests.rig.waiting import PATIENCE_S, eventually

MISSING = cell.missing()
pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)

FAR = Link(rate=50_000, delay=0.5, loss=0.02)
MESSAGES = 60
SIZE = 200

HUB_TEXT = """
server_name: hub
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{monitor_port}"
jetstream { store_dir: "{store}", domain: hub, max_mem: 64MB, max_file: 256MB }
leafnodes { listen: "0.0.0.0:{leaf_port}" }
"""
PATIENT = {servers.LEAFD: ("", ""), servers.REFERENCE: ('dial_timeout: "30s",', ', first_info_timeout: "60s"')}
"""What a leaf has to be told, for its hub and for all of them, to be one at this distance."""
LEAF_TEXT = f"""
server_name: leaf
listen: "127.0.0.1:{{port}}"
http: "127.0.0.1:{{monitor_port}}"
jetstream {{ store_dir: "{{store}}", domain: leaf, max_mem: 64MB, max_file: 256MB }}
leafnodes {{ {{all}} remotes: [ {{ url: "nats-leaf://{HUB_ADDRESS}:{{hub_leaf_port}}" {{one}} }} ] }}
"""
"""all, one: what is said of all remotes, with a comma behind it, and of this one, with a comma before it."""
COPY = {"name": "COPY", "storage": "file", "sources": [{"name": "T", "external": {"api": "$JS.leaf.API"}}]}


class Pair:
    """A hub and a leaf, each in its place."""

    def __init__(self, joined: Cell, hub: Process, leaf: Process, ends: contextlib.ExitStack) -> None:
        self._joined = joined
        self._ends = ends
        self._servers = (hub, leaf)

    def api(self, place: int) -> Api:
        with self._joined.at(place):
            made = Api(self._servers[place].port)
        self._ends.callback(made.close)
        return made

    def linked_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            counts = []
            for place in (HUB, LEAF):
                with self._joined.at(place):
                    counts.append(self._servers[place].leaf_links())
            if counts == [1, 1]:
                return True
            time.sleep(0.1)
        return False

    def log(self, place: int) -> str:
        return self._servers[place].server.log

    def kill(self, place: int) -> None:
        """It is ended at once, and begins again on what its disk has."""
        process = self._servers[place].server.process
        assert process is not None
        process.kill()
        process.wait()
        with self._joined.at(place):
            self._servers[place].start()

    def consumers(self) -> int:
        """How many consumers of copies a nats-server as the leaf has for its streams."""
        address = f"http://127.0.0.1:{self._servers[LEAF].server.ports['monitor_port']}/jsz"
        with self._joined.at(LEAF), urlopen(f"{address}?consumers=1&direct-consumers=1", timeout=5) as answer:
            found = json.load(answer)
        streams = [stream for account in found["account_details"] for stream in account.get("stream_detail", [])]
        return sum(len(stream.get("direct_consumer_detail", [])) for stream in streams)


@contextlib.contextmanager
def pair(
    joined: Cell, kind: str = servers.LEAFD, *, hub_text: str = HUB_TEXT, leaf_text: str = LEAF_TEXT
) -> Iterator[Pair]:
    """Both, started; whether they are linked is another matter."""
    with tempfile.TemporaryDirectory(prefix="leafd-cell-") as directory, contextlib.ExitStack() as ends:
        base = Path(directory)
        (base / "hub").mkdir()
        (base / "leaf").mkdir()
        hub = Process(servers.make(servers.LEAFD, hub_text, base / "hub"))
        with joined.at(HUB):
            hub.start()
        ends.callback(hub.server.stop)
        ports = {f"hub_{name}": port for name, port in hub.server.ports.items()}
        every, one = PATIENT[kind]
        leaf = Process(servers.make(kind, leaf_text, base / "leaf", all=every, one=one, **ports))
        with joined.at(LEAF):
            leaf.start()
        ends.callback(leaf.server.stop)
        yield Pair(joined, hub, leaf, ends)


def all_of(api: Api, stream: str) -> list[dict[str, Any]]:
    last = api.must(f"$JS.API.STREAM.INFO.{stream}")["state"]["last_seq"]
    return [api.must(f"$JS.API.STREAM.MSG.GET.{stream}", {"seq": seq}) for seq in range(1, last + 1)]


def publish(api: Api, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        api.must("t.a", {"n": number, "box": "box-0001", "pad": "x" * (SIZE - 40)})


def test_with_defaults_a_link_comes_up_at_two_seconds_round_trip() -> None:
    """nats-server gives a leaf two seconds to log in, and its leaf gives the hub one second to speak."""
    with cell.joined(Link(rate=1e6, delay=1.0)) as joined, pair(joined) as both:
        assert both.linked_within(30)


def test_with_defaults_a_link_over_wss_comes_up_at_two_seconds(tmp_path: Path) -> None:
    """Its request comes behind a TLS handshake: three round trips after the connection was taken."""
    own = (authority := Authority(tmp_path)).issue("hub", names=f"IP:{HUB_ADDRESS}")
    keys = f'tls {{ cert_file: "{own.certificate}", key_file: "{own.key}" }}'
    hub_text = f'{HUB_TEXT}websocket {{ listen: "0.0.0.0:{{web_port}}", {keys} }}\n'
    trust = f', tls {{ ca_file: "{authority.certificate}" }}'
    secure = LEAF_TEXT.replace("nats-leaf:", "wss:").replace("hub_leaf_port", "hub_web_port")
    line, leaf_text = Link(rate=1e6, delay=1.0), secure.replace('" {one}', f'"{trust}')
    with cell.joined(line) as joined, pair(joined, hub_text=hub_text, leaf_text=leaf_text) as both:
        assert both.linked_within(60)


def test_a_nats_server_two_seconds_away_becomes_a_leaf_and_brings_what_it_has() -> None:
    """It gives up on a hub that promises an answer to its CONNECT and takes two seconds for it."""
    with cell.joined(Link(rate=1e6, delay=1.1)) as joined, pair(joined, servers.REFERENCE) as both:
        assert both.linked_within(120)
        at_leaf, at_hub = both.api(LEAF), both.api(HUB)
        at_leaf.must("$JS.API.STREAM.CREATE.T", {"name": "T", "storage": "file", "subjects": ["t.>"]})
        publish(at_leaf, 10)
        at_hub.must("$JS.API.STREAM.CREATE.COPY", COPY)
        comes_to(at_hub, "COPY", 10, seconds=120)
        assert both.linked_within(1)


@pytest.mark.minutes(12)  # it waits up to ten for its copy
def test_a_nats_server_behind_a_line_that_comes_and_goes_has_little_on_its_way_and_drains() -> None:
    """By itself it gives its link a megabyte at once, as one block of compressed messages, which is of no use before
    all of it has come, and none of the contacts is long enough for that."""
    rows = [{"n": number, "pad": random.randbytes(120).hex()} for number in range(1_500)]
    with cell.joined(Link(rate=2e6, delay=0.25)) as joined, pair(joined, servers.REFERENCE) as both:
        assert both.linked_within(120)
        at_leaf, at_hub = both.api(LEAF), both.api(HUB)
        at_leaf.must("$JS.API.STREAM.CREATE.T", {"name": "T", "storage": "file", "subjects": ["t.>"]})
        for row in rows:
            at_leaf.publish("t.a", json.dumps(row).encode())
        at_leaf.must("t.a", {"n": len(rows)})
        joined.change(Link(rate=150_000, delay=0.25, loss=0.01, schedule=(10, 14)))
        before = joined.carried[HUB]
        at_hub.must("$JS.API.STREAM.CREATE.COPY", COPY)
        deadline, copied = time.monotonic() + 600, 0
        while copied <= len(rows) and time.monotonic() < deadline:
            time.sleep(0.5)
            found = at_hub.messages_in("COPY")
            assert found >= copied
            copied = found
        joined.change(Link(rate=2e6, delay=0.25))
        assert copied == len(rows) + 1
        last = at_hub.must("$JS.API.STREAM.MSG.GET.COPY", {"seq": copied})["message"]["data"]
        assert json.loads(base64.b64decode(last)) == {"n": len(rows)}
        assert joined.carried[HUB] - before < 2 * len(rows) * 250


def test_a_nats_server_that_was_asked_twice_for_a_consumer_is_left_with_one() -> None:
    """It makes one for each request, with the same deliver subject. A link that was near becomes slow just then, and
    the first answer takes longer than the hub waits for it."""
    near = Link(rate=1e6, delay=0.002)
    with cell.joined(near) as joined, pair(joined, servers.REFERENCE) as both:
        assert both.linked_within(60)
        at_leaf, at_hub = both.api(LEAF), both.api(HUB)
        at_leaf.must("$JS.API.STREAM.CREATE.T", {"name": "T", "storage": "file", "subjects": ["t.>"]})
        at_leaf.must("$JS.API.STREAM.CREATE.A", {"name": "A", "subjects": ["$JS.EVENT.ADVISORY.API"]})
        publish(at_leaf, MESSAGES)
        joined.change(Link(rate=1e6, delay=ANSWER_TIMEOUT_S * 0.55))
        at_hub.must("$JS.API.STREAM.CREATE.COPY", COPY)
        comes_to(at_hub, "COPY", MESSAGES, seconds=90)
        joined.change(near)
        eventually(lambda: both.consumers() == 1, lambda: both.consumers())
        asked = [json.loads(base64.b64decode(one["message"]["data"]))["subject"] for one in all_of(at_leaf, "A")]
        assert asked.count("$JS.API.CONSUMER.CREATE.T") > 1
        publish(at_leaf, 1)
        comes_to(at_hub, "COPY", MESSAGES + 1)


def test_a_source_drains_over_a_slow_lossy_link() -> None:
    """Each message is stored once, and hardly anything is sent in vain: the consumer is not made anew for want of
    patience."""
    with cell.joined(Link(rate=1e6, delay=FAR.delay)) as joined, pair(joined) as both:
        assert both.linked_within(20)
        at_leaf, at_hub = both.api(LEAF), both.api(HUB)
        at_leaf.must("$JS.API.STREAM.CREATE.T", {"name": "T", "storage": "file", "subjects": ["t.>"]})
        publish(at_leaf, MESSAGES)
        joined.change(FAR)
        before = joined.carried[HUB]
        at_hub.must("$JS.API.STREAM.CREATE.COPY", COPY)
        comes_to(at_hub, "COPY", MESSAGES)
        time.sleep(2.0)  # for one that would come twice
        assert at_hub.messages_in("COPY") == MESSAGES
        found = [at_hub.must("$JS.API.STREAM.MSG.GET.COPY", {"seq": seq}) for seq in range(1, MESSAGES + 1)]
        assert [json.loads(base64.b64decode(one["message"]["data"]))["n"] for one in found] == list(range(MESSAGES))
        assert joined.carried[HUB] - before < 2 * MESSAGES * SIZE


def test_what_a_work_queue_gives_to_a_hub_over_a_bad_line_leaves_the_box_when_it_is_on_disk_there() -> None:
    """Whatever is killed meanwhile: of each message one of the two knows, and the hub stores each once, in order."""
    count = published = 8 * MESSAGES
    with cell.joined(Link(rate=1e6, delay=FAR.delay)) as joined, pair(joined) as both:
        assert both.linked_within(20)
        at_leaf, at_hub = both.api(LEAF), both.api(HUB)
        work = {"name": "T", "storage": "file", "subjects": ["t.>"], "retention": "workqueue"}
        at_leaf.must("$JS.API.STREAM.CREATE.T", work)
        publish(at_leaf, count)
        joined.change(dataclasses.replace(FAR, schedule=(12, 4)))
        at_hub.must("$JS.API.STREAM.CREATE.COPY", COPY)
        deadline, kills, stored, left = time.monotonic() + 240, [HUB, LEAF], 0, count
        while (kills or stored < published or left) and time.monotonic() < deadline:
            time.sleep(0.3)
            left = at_leaf.messages_in("T")
            stored = at_hub.messages_in("COPY")
            assert left + stored >= published
            if kills and not left:  # a kill finds a backlog, however quickly the last one went
                publish(at_leaf, count, published)
                published += count
            elif kills and stored > (2 - len(kills)) * count // 4:
                both.kill(kills.pop(0))
                at_leaf, at_hub = both.api(LEAF), both.api(HUB)
        assert (stored, left, kills) == (published, 0, [])
        found = [json.loads(base64.b64decode(one["message"]["data"]))["n"] for one in all_of(at_hub, "COPY")]
        assert found == list(range(published))


def comes_to(api: Api, stream: str, count: int, seconds: float = PATIENCE_S) -> None:
    """The stream has so many messages within that time, and no more."""
    eventually(lambda: api.messages_in(stream) >= count, lambda: api.messages_in(stream), seconds=seconds)
    assert count == api.messages_in(stream)


def drains(both: Pair, seconds: float) -> None:
    """A backlog of the leaf is at the hub within that time."""
    at_leaf, at_hub = both.api(LEAF), both.api(HUB)
    at_leaf.must("$JS.API.STREAM.CREATE.T", {"name": "T", "storage": "file", "subjects": ["t.>"]})
    for _ in range(MESSAGES):
        at_leaf.publish("t.a", random.randbytes(SIZE))
    at_hub.must("$JS.API.STREAM.CREATE.COPY", COPY)
    comes_to(at_hub, "COPY", MESSAGES, seconds=seconds)


def test_a_way_that_loses_large_packets_without_a_word_carries_a_backlog_in_small_ones() -> None:
    """The link stands at its first full packet. Each is lost, and no router says so."""
    with cell.joined(Link(rate=1e6, delay=0.05, packet=1000)) as joined, pair(joined) as both:
        assert both.linked_within(20)
        drains(both, 60)


def test_a_nats_server_that_dials_over_such_a_way_is_told_to_send_small_packets() -> None:
    """The hub notices, ends the link, and its listener asks for small packets: the backlog then comes through."""
    with cell.joined(Link(rate=1e6, delay=0.05, packet=1000)) as joined, pair(joined, servers.REFERENCE) as both:
        assert both.linked_within(60)
        drains(both, 120)
        assert "No full packet comes through" in both.log(HUB)


def test_a_live_link_is_not_closed_for_being_slow() -> None:
    """More is published than the link carries within `write_deadline` (10 s): it stays up, and brings all of it."""
    with cell.joined(Link(rate=1e6, delay=0.25)) as joined, pair(joined) as both:
        assert both.linked_within(20)
        at_leaf, at_hub = both.api(LEAF), both.api(HUB)
        at_hub.must("$JS.API.STREAM.CREATE.EVENTS", {"name": "EVENTS", "storage": "file", "subjects": ["ev.>"]})
        time.sleep(1.0)
        joined.change(Link(rate=20_000, delay=0.25, loss=0.01))
        body = bytes(range(256)) * 4
        for number in range(40):
            at_leaf.publish(f"ev.{number}", body)
        comes_to(at_hub, "EVENTS", 40)
        assert "closed" not in both.log(HUB)


def test_what_waits_in_an_outage_is_there_seconds_after_it() -> None:
    """The link outlives it, and what was lost is sent again each three seconds: TCP alone would wait as long again as
    the outage was."""
    good = Link(rate=1e6, delay=0.1)
    with cell.joined(good) as joined, pair(joined) as both:
        assert both.linked_within(20)
        at_leaf, at_hub = both.api(LEAF), both.api(HUB)
        at_hub.must("$JS.API.STREAM.CREATE.EVENTS", {"name": "EVENTS", "storage": "file", "subjects": ["ev.>"]})
        time.sleep(1.0)
        joined.change(Link(loss=1.0))
        at_leaf.publish("ev.1", b"it waits")
        time.sleep(20)
        joined.change(good)
        comes_to(at_hub, "EVENTS", 1, seconds=10)  # a try each 3 s; TCP's own would come after 20
        assert both.linked_within(1)


def test_another_connection_takes_the_place_of_one_that_brings_nothing_any_more() -> None:
    """A router forgets the connection in an outage, as those do that translate addresses. Nothing says so to the leaf,
    whose patience is a minute: it dials beside the link, and what it dials is the link then."""
    with cell.joined(Link(rate=1e6, delay=0.1)) as joined, pair(joined) as both:
        assert both.linked_within(60)
        at_leaf, at_hub = both.api(LEAF), both.api(HUB)
        at_hub.must("$JS.API.STREAM.CREATE.EVENTS", {"name": "EVENTS", "storage": "file", "subjects": ["ev.>"]})
        joined.forget()

        def published_until(holds: Callable[[], object]) -> None:
            def held() -> object:
                at_leaf.publish("ev.a", b"x")
                time.sleep(0.2)
                return holds()

            eventually(held, seconds=120)

        published_until(lambda: OVERTAKEN in both.log(LEAF))
        assert "nothing sent is acknowledged" not in both.log(LEAF)
        assert both.linked_within(60)
        published_until(lambda: at_hub.messages_in("EVENTS"))
