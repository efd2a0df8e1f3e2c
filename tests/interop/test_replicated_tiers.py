"""What an account may have where its limits are by number of replicas, and what it is told that it has, as at three
nats-servers.

The same requests go to three nats-servers and to three leafd, and the answers are compared: what is made, what is
refused with which code, and the account's info. Not here: limits at a lone server (test_operator.py, test_limits.py),
the bytes that messages take (test_account_storage.py).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import servers
from tests.interop.jwt_peer import Peer, close_all
from tests.interop.test_meta_group import led
from tests.jwts import Account, Operator
from tests.rig.comparison import told_alike
from tests.rig.waiting import eventually

CONFIG = """
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{http_port}"
server_name: "{name}"
server_tags: ["{name}"]
OPERATOR
jetstream { store_dir: "{store}", {meta} }
cluster { name: C, listen: "127.0.0.1:{route_port}", routes: [ "nats-route://127.0.0.1:{first}" ] }
"""
ONE = {"disk_storage": 100_000, "mem_storage": 5_000, "streams": 2, "consumer": 3}
THREE = {"disk_storage": 50_000, "streams": 5, "consumer": 2, "disk_max_stream_bytes": 30_000, "max_ack_pending": 10}
STREAMS: list[tuple[str, dict[str, Any]]] = [
    ("A3", {"num_replicas": 3, "max_bytes": 4_000}),
    ("B3", {"num_replicas": 3, "max_bytes": 13_000}),
    ("C3", {"num_replicas": 3, "max_bytes": 10_000}),
    ("LARGE3", {"num_replicas": 3, "max_bytes": 40_000}),
    ("MORE3", {"num_replicas": 3, "max_bytes": 23_001}),
    ("MEMORY3", {"num_replicas": 3, "storage": "memory"}),
    ("A2", {"num_replicas": 2}),
    ("A1", {"max_bytes": 4_000}),
    ("B1", {"max_bytes": 1_000, "storage": "memory"}),
    ("C1", {"max_bytes": 1_000}),
    ("D3", {"num_replicas": 3, "max_bytes": 23_000}),
]
CONSUMERS: list[tuple[str, dict[str, Any]]] = [
    ("A3", {"durable_name": "one", "num_replicas": 1}),
    ("A3", {"durable_name": "three", "num_replicas": 3}),
    ("A3", {"durable_name": "as_the_stream"}),
    ("A3", {"name": "ephemeral"}),
    ("B3", {"durable_name": "pending", "ack_policy": "explicit", "max_ack_pending": 11}),
    ("B3", {"durable_name": "default", "ack_policy": "explicit"}),
]


def full(peer: Peer) -> list[object]:
    """A stream of three takes so many messages of 9,000 bytes as fit beside one of 100: what it says then, also of one
    that would fit, and once it is empty."""
    asked(peer, "STREAM.DELETE.D3")
    asked(peer, "STREAM.CREATE.FULL", {"name": "FULL", "subjects": ["FULL"], "num_replicas": 3})

    def publish(size: int) -> object:
        acknowledged: dict[str, Any] = json.loads(peer.answers("FULL", b"x" * size, seconds=20)[0])
        return acknowledged.get("error", acknowledged.get("seq"))

    def until_all_count() -> None:
        """A nats-server hears of the others' copies within two seconds."""
        eventually(lambda: told(peer, 1)["tiers"]["R3"]["storage"] > 3 * 5 * 9_000, lambda: asked(peer, "INFO"))

    found = [publish(9_000) for _ in range(5)]
    until_all_count()
    found += [publish(9_000), publish(100), publish(9_000)]
    asked(peer, "STREAM.PURGE.FULL")
    eventually(lambda: told(peer, 1)["tiers"]["R3"]["storage"] < 9_000, lambda: asked(peer, "INFO"))
    return [*found, publish(9_000)]


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    close_all()


def same_at_both(
    walk: Callable[[list[servers.Server], Account], list[Any]], tmp_path: Path, **limits: Any
) -> list[Any]:
    """What both tell of an account with those limits. Streams can be placed by a server's name."""

    def told(kind: str, folder: Path) -> list[Any]:
        operator = Operator()
        account = operator.account("A", **limits)
        with led(kind, folder, CONFIG.replace("OPERATOR", operator.configuration())) as made:
            return walk(made, account)

    return told_alike(told, tmp_path)


def asked(peer: Peer, subject: str, body: object = None) -> dict[str, Any]:
    """The answer. A nats-server that has just begun may say nothing to a creation, or that there are no suitable peers
    (10005) while it has not heard from the others: it is asked again."""
    payload = json.dumps(body).encode() if body is not None else b""

    def answered() -> dict[str, Any]:
        with contextlib.suppress(TimeoutError):
            found: dict[str, Any] = json.loads(peer.answers(f"$JS.API.{subject}", payload)[0])
            early = peer.server.kind == servers.REFERENCE and found.get("error", {}).get("err_code") == 10005
            return {} if early else found
        return {}

    return eventually(answered, f"{subject} is not answered")


def made_or_not(peer: Peer) -> list[object]:
    """What each of the streams and consumers is answered: an error's code, or what was made."""
    found: list[object] = []
    for name, config in STREAMS:
        answer = asked(peer, f"STREAM.CREATE.{name}", {"name": name, "subjects": [name], **config})
        found.append((name, answer.get("error", {}).get("err_code")))
    for stream, config in CONSUMERS:
        name = config.get("durable_name") or config["name"]
        answer = asked(peer, f"CONSUMER.CREATE.{stream}.{name}", {"stream_name": stream, "config": config})
        pending = answer.get("config", {}).get("max_ack_pending")
        found.append((stream, name, answer.get("error", {}).get("err_code"), pending))
    return found


def told(peer: Peer, messages: int = 0) -> dict[str, Any]:
    """The account's info once the servers have told each other of that many messages of A3, but for its calls."""

    def whole() -> dict[str, Any]:
        info = asked(peer, "INFO")
        own = info["tiers"]["R3"] if "tiers" in info else info
        return {**info, "api": None} if bool(own.get("storage")) == bool(messages) and "error" not in info else {}

    return eventually(whole, lambda: asked(peer, "INFO"))


def walk(made: list[servers.Server], account: Account) -> list[Any]:
    peer = Peer(made[0], account.user("u"))
    found: list[Any] = [made_or_not(peer), told(peer)]
    more = {"name": "A1", "subjects": ["A1"], "num_replicas": 3, "max_bytes": 4_000}
    found.append(asked(peer, "STREAM.UPDATE.A1", more).get("error", {}).get("err_code"))
    for stream in ("D3", "LARGE3"):
        found.append(asked(peer, f"STREAM.DELETE.{stream}").get("error", {}).get("err_code"))
    found.append(asked(peer, "STREAM.UPDATE.A1", more).get("error", {}).get("err_code"))
    found.append(told(peer))
    assert peer.answers("A3", b"x" * 100, seconds=20)
    eventually(lambda: asked(peer, "INFO")["tiers"]["R3"]["storage"] > 3 * 100, lambda: asked(peer, "INFO"))
    found.append(told(peer, 1))
    return found


def test_limits_by_number_of_replicas_are_those_of_streams_with_so_many_as_at_nats_servers(tmp_path: Path) -> None:
    """Streams with three replicas use their own tier and no other, each byte counted once; so do consumers."""
    made, info = same_at_both(walk, tmp_path, tiered_limits={"R1": ONE, "R3": THREE})[:2]
    refused = [code for _, code in made[: len(STREAMS)] if code]
    assert len(refused) >= 5
    assert info["tiers"]["R3"]["reserved_storage"] == 50_000


def test_without_a_tier_of_so_many_replicas_there_are_no_such_streams_and_consumers_as_at_nats_servers(
    tmp_path: Path,
) -> None:
    """Of an account that has the tier R3 alone: streams of three, and consumers of three."""

    def until_full(made: list[servers.Server], account: Account) -> list[Any]:
        peer = Peer(made[0], account.user("u"))
        found: list[Any] = [made_or_not(peer)]
        acknowledged = json.loads(peer.answers("A3", b"x" * 100, seconds=20)[0])
        return [*found, acknowledged.get("seq"), acknowledged.get("error"), full(peer)]

    told = same_at_both(until_full, tmp_path, tiered_limits={"R3": {"disk_storage": 50_000}})
    assert told[1] == 1
    assert [one if isinstance(one, int) else one["err_code"] for one in told[3]] == [
        *range(1, 6),
        10002,
        6,
        10002,
        7,
    ]


def test_a_stream_of_three_servers_reserves_its_bytes_once_in_its_account_s_info_as_at_nats_servers(
    tmp_path: Path,
) -> None:
    """And three times of what the account may have, where its limits are for all streams."""

    def reserved(made: list[servers.Server], account: Account) -> list[Any]:
        peer = Peer(made[0], account.user("u"))
        return [made_or_not(peer), told(peer)]

    found = same_at_both(reserved, tmp_path, disk_storage=90_000, mem_storage=30_000, streams=-1, consumer=-1)
    assert found[1]["reserved_storage"]


def at_each(made: list[servers.Server], account: Account) -> list[Any]:
    """A stream at each of three servers, of an account that may have 60,000 bytes. Two take 27,000 each; what the
    account has by then is the same from all of them; so is what each stream says of 9,000 more."""
    peers = [Peer(server, account.user("u")) for server in made]
    for number in range(3):
        name = f"ONE{number}"
        config = {"name": name, "subjects": [name], "placement": {"tags": [f"s{number}"]}}
        assert "error" not in asked(peers[0], f"STREAM.CREATE.{name}", config)

    def publish(name: str, size: int) -> object:
        acknowledged: dict[str, Any] = json.loads(peers[0].answers(name, b"x" * size, seconds=20)[0])
        return acknowledged.get("error", {}).get("err_code", acknowledged.get("seq"))

    found: list[Any] = [publish(f"ONE{number}", 9_000) for number in (0, 1) for _ in range(3)]
    for peer in peers:
        eventually(lambda peer=peer: asked(peer, "INFO")["storage"] > 54_000, lambda peer=peer: asked(peer, "INFO"))  # type: ignore[misc]
        found.append(asked(peer, "INFO")["storage"])
    eventually(lambda: publish("ONE2", 9_000) == 10002, lambda: asked(peers[2], "STREAM.INFO.ONE2"))
    asked(peers[0], "STREAM.PURGE.ONE2")
    asked(peers[0], "STREAM.PURGE.ONE0")
    eventually(lambda: publish("ONE1", 18_000) == 4, lambda: asked(peers[1], "STREAM.INFO.ONE1"))
    return found


def test_what_an_account_has_at_other_servers_counts_as_at_nats_servers(tmp_path: Path) -> None:
    """Streams of one replica at three servers share the account's bytes; each server knows of the others' soon."""
    told = same_at_both(at_each, tmp_path, disk_storage=60_000, mem_storage=0, streams=-1, consumer=-1)
    assert told[:6] == [1, 2, 3, 1, 2, 3]
