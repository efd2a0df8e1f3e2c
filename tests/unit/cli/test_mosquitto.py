"""`leafd init --from-mosquitto`: users keep their passwords, ACLs become permissions, and what is left out is named.

Hashes are those that mosquitto_passwd of mosquitto 2.0.11 made, and those in its package's example.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from pathlib import Path

import pytest
from leafd.auth.passwords import is_hash, matches
from leafd.auth.policy import compile_policy
from leafd.auth.verdict import Verdict, judge_client
from leafd.cli.init import Plan, planned
from leafd.cli.mosquitto import read, subjects_of
from leafd.config.bind import load_text
from leafd.errors import LeafdError

ALICE = (
    "$7$101$7pk9+itFQCeLpVRN$yY/L60Nn5HCt8WnCfbBkVPMy2JXUlk9/OH0WOf16niQ/TsgwVhla8k13l5RBvfTQ2wpAsbavphujT+qfAe34Mw=="
)
BOB = "$7$101$VloY8RWYnk9HLzL8$uSGWYGXpUa6gTiH8sRHzCMsQIdFo3s11GgUh/lnYysIsLT71YrdeKEEaZy8mBl/at8RhJuOvPTNJD3/TcGseZA=="
ROGER = "$6$clQ4Ocu312S0qWgl$Cv2wUxgEN73c6C6jlBkswqR4AkHsvDLWvtEXZZ8NpsBLgP1WAo/qA+WXcmEN/mjDNgdUwcxRAveqNMs2xUVQYA=="
ACL = """
# This affects access control for clients with no username.
topic read public/#

user alice
topic write up/alice/#
topic read down/+
topic deny down/secret
user bob
topic both/ways
pattern write state/%u
pattern read of/%c/only
user carol
topic write x
"""


@pytest.mark.parametrize(
    ("configured", "password"),
    [(ALICE, "secret"), (BOB, "päss"), (ROGER, "password")],
    ids=["pbkdf2", "utf-8", "sha512"],
)
def test_a_password_of_mosquitto_is_the_same_here(configured: str, password: str) -> None:
    """Its hash is read as one, and only the password that it was made of matches."""
    assert is_hash(configured)
    assert matches(configured, password)
    assert not matches(configured, password + "x")
    assert not matches(configured, configured)


def test_a_hash_of_no_password_lets_nobody_in() -> None:
    """As with mosquitto, whose tool makes none: such a line is somebody's mistake."""
    salt = b"0123456789ab"
    kinds = {
        "6": hashlib.sha512(salt).digest(),
        "7$101": hashlib.pbkdf2_hmac("sha512", b"", salt, 101),
    }
    for kind, digest in kinds.items():
        configured = f"${kind}${b64encode(salt).decode()}${b64encode(digest).decode()}"
        assert is_hash(configured)
        assert not matches(configured, "")


@pytest.mark.parametrize(
    "broken",
    [ALICE[:-1], ALICE.replace("$101$", "$0$"), ALICE.replace("$101$", "$99999999$"), "$8$" + ALICE[3:]],
)
def test_what_only_looks_like_such_a_hash_is_a_password_as_it_is(broken: str) -> None:
    """It matches itself alone, so a typing error lets nobody in by another password."""
    assert not is_hash(broken)
    assert not matches(broken, "secret")


@pytest.mark.parametrize(
    ("topic", "subjects"),
    [
        ("a/b", ("a.b",)), ("a.b", ("a//b",)), ("/a", ("/.a",)), ("a/", ("a./",)), ("/", ("/./",)),
        ("a//b", ("a./.b",)), ("+/a", ("*.a",)), ("#", (">",)), ("a/#", ("a", "a.>")), ("$SYS/#", ("$SYS", "$SYS.>")),
    ],
)  # fmt: skip
def test_a_topic_is_the_subject_that_nats_server_makes_of_it(topic: str, subjects: tuple[str, ...]) -> None:
    """As in the walks of tests/interop/mqtt_walks.py, where both servers make them."""
    assert subjects == subjects_of(topic)


def taken_over(folder: Path, text: str) -> tuple[str, str]:
    """leafd.conf, and what is left."""
    file = folder / "mosquitto.conf"
    file.write_text(text)
    made = planned(Plan("leaf", "box", folder, str(folder / "store"), "hub.example.org", mosquitto=file))
    return made.files[folder / "leafd.conf"][0], made.left


def test_users_and_acls_become_logins_and_permissions(tmp_path: Path) -> None:
    """Each user may do what the file of ACLs says, and nothing else; what permissions cannot say is named."""
    (tmp_path / "acl").write_text(ACL)
    (tmp_path / "passwords").write_text(f"alice:{ALICE}\nbob:{BOB}\ndave:plain\n")
    text, left = taken_over(
        tmp_path,
        f"listener 1884 127.0.0.1\nallow_anonymous true\npassword_file {tmp_path}/passwords\nacl_file {tmp_path}/acl\n"
        "listener 9001\nprotocol websockets\nlistener 1885\nmax_keepalive 100\nconnection bridge\naddress hub:1883\n",
    )
    config = load_text(text, "leafd.conf").server
    assert ("127.0.0.1", 1884) == (config.mqtt.address() if config.mqtt else None)
    assert ("0.0.0.0", 9001) == config.web_address()
    policy = compile_policy(config)
    alice = judge_client({"user": "alice", "pass": "secret"}, "", policy, kind="MQTT")
    assert isinstance(alice, Verdict)
    assert ("up.alice", "up.alice.>", "state.alice") == alice.rights.publish_allow
    assert ("down.*",) == alice.rights.subscribe_allow
    assert ("down.secret",) == alice.rights.subscribe_deny == alice.rights.publish_deny
    bob = judge_client({"user": "bob", "pass": "päss"}, "", policy, kind="MQTT")
    assert isinstance(bob, Verdict)
    assert ("both.ways", "state.bob") == bob.rights.publish_allow
    assert ("both.ways",) == bob.rights.subscribe_allow
    nobody = judge_client({}, "", policy, kind="MQTT")
    assert isinstance(nobody, Verdict)
    assert ("public", "public.>") == nobody.rights.subscribe_allow
    for word in ("dave", "carol", "%c", "1885", "connection bridge", "address hub:1883"):
        assert word in left, word


def test_a_password_of_nobody_is_left_out(tmp_path: Path) -> None:
    """As mosquitto does. The others are taken over."""
    (tmp_path / "passwords").write_text(f":{ALICE}\nbob:{BOB}\n")
    text, left = taken_over(tmp_path, f"listener 1883\npassword_file {tmp_path / 'passwords'}\n")
    policy = load_text(text, "leafd.conf").server.authorization
    assert policy is not None
    assert ["bob"] == [one.user for one in policy.users or ()]
    assert "passwords:1: a password: it has no user" in left


def test_bounds_become_those_of_the_block(tmp_path: Path) -> None:
    """Where mosquitto and leafd have the same one; what is no such number is named."""
    text, left = taken_over(
        tmp_path,
        "listener 1883\nallow_anonymous true\nmax_keepalive 120\nmax_packet_size 65536\nmax_inflight_messages 40\n"
        "persistent_client_expiration 2d\nmax_topic_alias 12\nmaximum_qos 1\nretain_available true\n"
        "max_connections -1\nmax_queued_messages 1000\nmax_queued_bytes 500000\n",
    )
    block = load_text(text, "leafd.conf").server.mqtt
    assert block is not None
    assert (120 * 10**9, 172_800 * 10**9) == (block.max_keep_alive, block.max_session_expiry)
    assert (65_536, 40, 12) == (block.max_packet_size, block.max_ack_pending, block.topic_alias_maximum)
    assert (1000, 500_000, 0) == (block.max_queued, block.max_session_bytes, block.max_queued_bytes)
    assert block.reject_qos2_publish
    assert block.downgrade_qos2_subscribe
    assert left == ""


def test_bounds_hold_without_a_listener(tmp_path: Path) -> None:
    """As the listener of mosquitto's own, which takes this machine's programs."""
    block = load_text(taken_over(tmp_path, "max_packet_size 70000\n")[0], "leafd.conf").server.mqtt
    assert block is not None
    assert (("127.0.0.1", 1883), 70_000) == (block.address(), block.max_packet_size)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("max_keepalive 65536", "up to 65535"),
        ("max_packet_size many", "a number"),
        ("persistent_client_expiration 2", "h, d, w, m or y"),
        ("max_queued_bytes many", "a number"),
        ("maximum_qos 0", "nothing like it"),
        ("retain_available false", "max_retained"),
        ("max_connections 10", "whole server"),
        ("message_size_limit 10", "max_payload"),
        ("plugin /usr/lib/x.so", "no plugins"),
        ("include_dir /nowhere", "no such directory"),
        ("connection cloud\naddress hub:1883\ntopic # out", "leaf link"),
        ("listner 1884", "nothing like it"),
        ("psk_hint x", "certificates"),
        ("queue_qos0_messages true", "QoS 0 do not wait"),
        ("upgrade_outgoing_qos true", "or less"),
        ("check_retain_source true", "stays"),
        ("max_inflight_bytes 1000", "max_ack_pending"),
        ("memory_limit 1000", "memory_limit at the top"),
        ("ciphers HIGH", "cipher_suites"),
        ("tls_version tlsv1.1", "tlsv1.2 or tlsv1.3"),
        ("allow_zero_length_clientid false", "nothing like it"),
        ("listener 0 /run/mosquitto.sock", "file system"),
    ],
)
def test_what_is_not_taken_over_is_named_with_its_line_and_why(line: str, why: str, tmp_path: Path) -> None:
    """Each line of it."""
    _, left = taken_over(tmp_path, f"listener 1883\nallow_anonymous true\n{line}\n")
    for number, one in enumerate(line.splitlines(), 3):
        (named,) = [said for said in left.splitlines() if f"mosquitto.conf:{number}: {one}: " in said]
        assert why in named


def test_what_stands_behind_a_bridge_is_not_of_it(tmp_path: Path) -> None:
    """A bridge of a file that is included, above all."""
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "bridge.conf").write_text("connection hub\naddress hub:1883\nremote_password secret\n")
    _, left = taken_over(tmp_path, f"include_dir {tmp_path}/parts\nlistener 1883\nallow_anonymous true\nnew_key 5\n")
    assert "mosquitto.conf:4: new_key 5: leafd has nothing like it" in left
    assert "bridge.conf:3: remote_password: it is of a bridge" in left
    assert "secret" not in left


def test_a_file_of_two_listeners_is_read_once(tmp_path: Path) -> None:
    """What cannot be taken of it is named once."""
    (tmp_path / "passwords").write_text(f"bob:{BOB}\ndave:plain\n")
    _, left = taken_over(tmp_path, f"listener 1883\npassword_file {tmp_path}/passwords\n" * 2)
    assert 1 == left.count("dave")


def test_the_least_version_of_tls_is_kept(tmp_path: Path) -> None:
    """Where mosquitto says one."""
    file = tmp_path / "mosquitto.conf"
    file.write_text("listener 8883\ncertfile c.pem\nkeyfile k.pem\ntls_version tlsv1.3\nallow_anonymous true\n")
    taken = read(file)
    assert 'min_version: "1.3"' in taken.blocks()
    assert [] == taken.left


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_nobody_comes_in_by_a_listener_that_was_closed_to_him(order: tuple[int, int], tmp_path: Path) -> None:
    """One listener of this machine lets everybody in, the other one does not, and each has settings of its own."""
    (tmp_path / "passwords").write_text(f"bob:{BOB}\n")
    listeners = (
        "listener 9001 127.0.0.1\nprotocol websockets\nallow_anonymous true\n",
        f"listener 1883\nallow_anonymous false\npassword_file {tmp_path}/passwords\n",
    )
    text, left = taken_over(tmp_path, "per_listener_settings true\n" + "".join(listeners[one] for one in order))
    policy = compile_policy(load_text(text, "leafd.conf").server)
    assert not isinstance(judge_client({}, "", policy, kind="MQTT"), Verdict)
    assert isinstance(judge_client({"user": "bob", "pass": "päss"}, "", policy, kind="MQTT"), Verdict)
    assert "listener 9001: allow_anonymous true" in left


def test_strangers_stay_in_where_each_listener_lets_them_in(tmp_path: Path) -> None:
    """With settings of their own, too; a listener that is not taken over does not count."""
    (tmp_path / "passwords").write_text(f"bob:{BOB}\n")
    text, _ = taken_over(
        tmp_path,
        f"per_listener_settings true\nlistener 1883\nallow_anonymous true\npassword_file {tmp_path}/passwords\n"
        "listener 1884\nallow_anonymous false\n",
    )
    policy = compile_policy(load_text(text, "leafd.conf").server)
    assert isinstance(judge_client({}, "", policy, kind="MQTT"), Verdict)


def test_a_user_called_anonymous_keeps_his_password(tmp_path: Path) -> None:
    """And who has no name is not let in as him; that is named."""
    (tmp_path / "passwords").write_text(f"anonymous:{BOB}\n")
    text, left = taken_over(tmp_path, f"listener 1883\nallow_anonymous true\npassword_file {tmp_path}/passwords\n")
    policy = compile_policy(load_text(text, "leafd.conf").server)
    assert not isinstance(judge_client({}, "", policy, kind="MQTT"), Verdict)
    assert "the user anonymous has a password" in left


def test_a_pattern_is_of_users_with_a_name_of_one_level(tmp_path: Path) -> None:
    """Neither of who has none, nor of one whose name would be a wildcard (mosquitto refuses both)."""
    (tmp_path / "acl").write_text("pattern readwrite own/%u/#\n")
    (tmp_path / "passwords").write_text(f"alice:{ALICE}\n+:{BOB}\n")
    text, left = taken_over(
        tmp_path,
        f"listener 1883\nallow_anonymous true\npassword_file {tmp_path}/passwords\nacl_file {tmp_path}/acl\n",
    )
    policy = compile_policy(load_text(text, "leafd.conf").server)
    for login, allowed in (
        ({"user": "alice", "pass": "secret"}, ("own.alice", "own.alice.>")),
        ({}, ()),
        ({"user": "+", "pass": "päss"}, ()),
    ):
        verdict = judge_client(login, "", policy, kind="MQTT")
        assert isinstance(verdict, Verdict)
        assert allowed == verdict.rights.publish_allow
    assert "the name of +" in left


def test_who_is_not_in_the_file_of_acls_may_do_nothing(tmp_path: Path) -> None:
    """As at mosquitto, and not everything because no list names anything."""
    (tmp_path / "acl").write_text("user bob\ntopic a\n")
    (tmp_path / "passwords").write_text(f"alice:{ALICE}\n")
    text, _ = taken_over(tmp_path, f"password_file {tmp_path}/passwords\nacl_file {tmp_path}/acl\n")
    alice = judge_client({"user": "alice", "pass": "secret"}, "", compile_policy(load_text(text, "x").server))
    assert isinstance(alice, Verdict)
    assert (">",) == alice.rights.publish_deny == alice.rights.subscribe_deny


@pytest.mark.parametrize("text", ["", "listener 1883\nallow_anonymous true\n"])
def test_strangers_are_let_in_where_mosquitto_lets_them_in(text: str, tmp_path: Path) -> None:
    """Without a listener in its configuration mosquitto takes everybody of its own machine."""
    written, _ = taken_over(tmp_path, text)
    policy = compile_policy(load_text(written, "leafd.conf").server)
    assert isinstance(judge_client({}, "", policy, kind="MQTT"), Verdict)


@pytest.mark.parametrize("line", ["password_file", "acl_file"])
def test_a_file_without_a_name_is_named_by_its_line(line: str, tmp_path: Path) -> None:
    """And is not the directory."""
    with pytest.raises(LeafdError, match=f"mosquitto.conf:2: {line}: "):
        taken_over(tmp_path, f"listener 1883\n{line}\n")


def test_a_refusal_names_what_was_left_out(tmp_path: Path) -> None:
    """It may be the reason why nobody could log in."""
    with pytest.raises(LeafdError, match=r"mosquitto.conf:2: plugin x: there are no plugins"):
        taken_over(tmp_path, "listener 1883\nplugin x\n")


@pytest.mark.parametrize("text", ["listener 1883\n", "allow_anonymous false\n"])
def test_a_configuration_that_lets_nobody_in_is_not_taken_over(text: str, tmp_path: Path) -> None:
    """A server without users would take everybody, so no such file is written."""
    with pytest.raises(LeafdError, match="nobody could log in"):
        taken_over(tmp_path, text)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """And nothing is written."""
    with pytest.raises(LeafdError, match="passwords"):
        taken_over(tmp_path, f"password_file {tmp_path}/passwords\n")
