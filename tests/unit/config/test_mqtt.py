"""The mqtt block: what nats-server takes is taken, and what does not fit is told with the key to change.

Not here: how a device logs in (tests/interop/test_mqtt_logins.py)."""

from __future__ import annotations

import pytest
from leafd.auth.mqtt_connect import NoConnect, mqtt_connect
from leafd.config.bind import load_text
from leafd.config.exposure import open_listeners
from leafd.daemon.mqtt import limits_of
from leafd.errors import ConfigError

from tests import mqtt

STORE = "jetstream: enabled\n"


def test_a_block_has_the_keys_of_nats_server() -> None:
    """With their other spellings; the address is listened on as it is written."""
    block = load_text(
        STORE + "mqtt { net: 127.0.0.1, port: 1883, max_inflight: 7, reject_qos2_publish: true, no_auth_user: a }\n"
        "accounts { A { users: [ {user: a, password: b} ] } }",
        "leafd.conf",
    ).server.mqtt
    assert block is not None
    assert ("127.0.0.1", 1883) == block.address()
    assert (7, True, "a") == (block.max_ack_pending, block.reject_qos2_publish, block.no_auth_user)
    assert 0 == limits_of(block).ack_wait_ns  # nats-server has 30 s
    given = load_text(STORE + "mqtt { port: 1883, ackwait: 4s }", "leafd.conf").server.mqtt
    assert given is not None
    assert 4_000_000_000 == limits_of(given).ack_wait_ns


def test_a_part_of_a_second_is_a_second() -> None:
    """Packets say whole ones, where 0 would be no bound."""
    text = STORE + "mqtt { port: 1883, max_keep_alive: 500ms, max_session_expiry: 2500ms }"
    given = load_text(text, "leafd.conf").server.mqtt
    assert given is not None
    assert (1, 3_000_000_000) == (limits_of(given).keep_alive_max, limits_of(given).session_expiry_max_ns)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("mqtt { port: 1883 }", "needs jetstream"),
        (STORE + "mqtt { port: 1883, no_auth_user: nobody }", "no user of the configuration"),
        (
            STORE + "mqtt { port: 1883, authorization { user: a, password: b } }\n"
            "accounts { A { users: [ {user: c, password: d} ] } }",
            "users exclude",
        ),
        (STORE + 'mqtt { port: 1883, versions: ["3.1"] }', "not spoken"),
        (STORE + "mqtt { port: 1883, max_ack_pending: 65536 }", "less than or equal to 65535"),
        (STORE + "mqtt { port: 1883, tls { verify: false } }", "no certificate"),
        (STORE + "mqtt { port: 1883, js_domain: hub }", "own domain"),
        (STORE + "mqtt { port: 1883, stream_replicas: 6 }", "less than or equal to 5"),
        (STORE + "mqtt { port: 1883, max_sessions: -1 }", "greater than or equal to 0"),
        (STORE + "mqtt { port: 1883, unknown: 1 }", "unknown field"),
        (STORE + "mqtt { port: 1883, js_api_timeout: soon }", "js_api_timeout: 'soon' is no duration"),
        (STORE + "mqtt { port: 1883, consumer_auto_cleanup: true }", "a duration is expected"),
        (STORE + "mqtt { port: 1883, consumer_memory_storage: 5 }", "true or false is expected"),
        (STORE + "mqtt { port: 1883, consumer_replicas: three }", "a whole number is expected"),
    ],
)
def test_what_does_not_fit_is_no_configuration(text: str, why: str) -> None:
    """Told in one line, before anything listens."""
    with pytest.raises(ConfigError, match=why):
        load_text(text, "leafd.conf")


def test_a_block_without_a_port_asks_for_nothing() -> None:
    """As with nats-server, which looks at the rest of it only then."""
    assert load_text("mqtt { no_auth_user: nobody }", "leafd.conf").server.mqtt is not None


@pytest.mark.parametrize(("listen", "open_"), [("127.0.0.1:1883", False), ("0.0.0.0:1883", True)])
def test_a_listener_that_takes_anybody_is_named(listen: str, open_: bool) -> None:
    """Where others than programs of the machine reach it, and nobody has to log in."""
    config = load_text(f"listen: 127.0.0.1:4222\n{STORE}mqtt {{ listen: '{listen}' }}", "leafd.conf").server
    assert open_ == any("MQTT clients at" in one.text for one in open_listeners(config))


@pytest.mark.parametrize("level", mqtt.LEVELS)
def test_a_connect_is_read_as_it_was_written(level: int) -> None:
    """All its parts; the will and the properties in between are passed over."""
    will = mqtt.Will("t", b"gone", properties={"will_delay": 3, "user": [("a", "b")]})
    raw = mqtt.connect(
        level, "böx", user="ü", password="p", clean=False, keep_alive=70, will=will, found={"session_expiry": 9}
    )
    found = mqtt_connect(raw)
    assert (level, "böx", False, 70, "ü", "p") == (
        found.level, found.client_id, found.clean, found.keep_alive_s, *found.claimed
    )  # fmt: skip
    assert {"user": "ü", "pass": "p", "auth_token": "p", "verbose": False, "echo": True}.items() <= found.fields.items()
    assert "jwt" not in found.fields


@pytest.mark.parametrize("level", mqtt.LEVELS)
def test_no_beginning_of_a_connect_is_one(level: int) -> None:
    """Each is a fault of its own kind and nothing else; the plane has refused it before."""
    raw = mqtt.connect(level, "c", user="u", password="p", will=mqtt.Will("t", b"x"))
    for size in range(len(raw)):
        with pytest.raises(NoConnect):
            mqtt_connect(raw[:size])
