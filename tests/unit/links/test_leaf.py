"""The leaf handshake's machines: what each end says to each line (tests/wire/leaf.md)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from leafd.links import leaf
from leafd.links.leaf_info import Advertised
from leafd.native_types import CloseReason, LineKind, Permissions

HUB = leaf.Identity("NHUB", "hub1", "2.15.1", domain="hub", jetstream=True)
LEAF = leaf.Identity("NLEAF", "leaf1", "2.15.1", domain="leaf", jetstream=True)


def accept_all(connect: dict[str, Any], nonce: str) -> leaf.Login | None:
    return leaf.Login(7, "A") if connect.get("user") == "a" and connect.get("pass") == "a" else None


def acceptor() -> leaf.Acceptor:
    return leaf.Acceptor(HUB, 6, "SRQnM_JFpLj_KmM", Advertised("127.0.0.1", 7422, ("127.0.0.1:7422",)))


def frame_json(action: leaf.Action, verb: bytes) -> dict[str, Any]:
    assert isinstance(action, leaf.Send)
    assert action.frame.startswith(verb + b" {")
    assert action.frame.endswith(b"\r\n")
    value: dict[str, Any] = json.loads(action.frame[len(verb) :])
    return value


def connect_line(**fields: Any) -> bytes:
    base = {"version": "2.15.1", "user": "a", "pass": "a", "name": "leaf1", "cluster": "leaf1", "headers": True}
    return json.dumps(base | {"domain": "leaf", "remote_account": "A", "server_id": "NLEAF"} | fields).encode()


def test_first_info_has_what_a_dialling_server_depends_on() -> None:
    """A real server takes a port for a leaf port only with client_id and leafnode_urls or info_on_connect."""
    (send,) = acceptor().opened()
    info = frame_json(send, b"INFO")

    assert info["client_id"] == 6
    assert info["leafnode_urls"] == ["127.0.0.1:7422"]
    assert info["info_on_connect"] is True
    assert info["nonce"] == "SRQnM_JFpLj_KmM"
    assert info["compression"] == "off"
    assert info["domain"] == "hub"


def test_a_leaf_that_is_far_is_promised_nothing_and_has_the_second_info_all_the_same() -> None:
    """nats-server would wait for two seconds and give up. A leafd knows that it comes."""
    machine = acceptor()
    machine.far = True
    (send,) = machine.opened()
    first = frame_json(send, b"INFO")
    assert "info_on_connect" not in first
    confirmed, bind = machine.line(LineKind.CONNECT, connect_line(), accept_all)
    assert frame_json(confirmed, b"INFO")["remote_account"] == "A"
    assert isinstance(bind, leaf.Bind)

    dialling = solicitor()
    said = dialling.line(LineKind.INFO, json.dumps(first).encode())
    assert [type(one) for one in said] == [leaf.Send, leaf.Resume]
    assert isinstance(confirmed, leaf.Send)
    assert isinstance(dialling.line(LineKind.INFO, confirmed.frame[len(b"INFO ") :])[0], leaf.Bind)


def test_good_connect_is_confirmed_and_bound() -> None:
    """The second INFO says connect_info and the account, and carries no nonce."""
    send, bind = acceptor().line(LineKind.CONNECT, connect_line(), accept_all)
    info = frame_json(send, b"INFO")

    assert info["connect_info"] is True
    assert info["remote_account"] == "A"
    assert "nonce" not in info
    assert isinstance(bind, leaf.Bind)
    assert (bind.account, bind.spoke, bind.remote_domain, bind.cluster) == (7, False, "leaf", "leaf1")


def test_domains_keep_the_two_jetstreams_apart() -> None:
    """With different domains the unprefixed API stays home, and so does the own domain's prefix."""
    _, bind = acceptor().line(LineKind.CONNECT, connect_line(), accept_all)

    assert isinstance(bind, leaf.Bind)
    assert set(bind.permissions.publish_deny) == {"$JS.API.>", "$KV.>", "$OBJ.>", "$JS.hub.API.>"}
    assert set(bind.permissions.subscribe_deny) == {"$JS.API.>", "$KV.>", "$OBJ.>"}


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"pass": "wrong"}, "Authorization Violation"),
        ({"lang": "go"}, "attempted to connect to leaf node port"),
        ({"cluster": "a b"}, "cluster name cannot contain spaces"),
        ({"cluster": "_"}, "cluster name is reserved"),
        ({"gateway": "g"}, "attempted to connect to wrong port"),
    ],
)
def test_bad_connect_is_refused_with_the_references_text(fields: dict[str, Any], text: str) -> None:
    """Each refusal has the text that a real server's leaf knows."""
    (close,) = acceptor().line(LineKind.CONNECT, connect_line(**fields), accept_all)

    assert isinstance(close, leaf.Close)
    assert close.text == text


def test_anything_but_connect_is_an_authorization_violation() -> None:
    """Before CONNECT only CONNECT is legal on a port without compression."""
    (close,) = acceptor().line(LineKind.INFO, b"{}", accept_all)

    assert isinstance(close, leaf.Close)
    assert close.text == "Authorization Violation"


def test_user_permissions_are_mirrored_for_the_hub_and_told_to_the_leaf() -> None:
    """What the user may publish is what the leaf may send (export), and what may come in at the hub."""
    granted = Permissions(publish_allow=("foo.>",), publish_deny=("foo.secret",), subscribe_allow=("_INBOX.>", "bar.>"))
    send, bind = acceptor().line(
        LineKind.CONNECT, connect_line(deny_pub=["hub.x"]), lambda *_: leaf.Login(1, "A", granted)
    )
    info = frame_json(send, b"INFO")

    assert info["import"] == {"allow": ["_INBOX.>", "bar.>"]}
    assert info["export"] == {"allow": ["foo.>"], "deny": ["foo.secret"]}
    assert isinstance(bind, leaf.Bind)
    assert bind.permissions.publish_allow == ("_INBOX.>", "bar.>")
    assert "hub.x" in bind.permissions.publish_deny
    assert bind.permissions.subscribe_allow == ("foo.>",)


def solicitor(**fields: Any) -> leaf.Solicitor:
    return leaf.Solicitor(LEAF, leaf.Remote(("nats://h",), 3, "A", **fields), "a", "secret")


INFO = {"server_id": "NHUB", "server_name": "hub1", "client_id": 6, "headers": True, "domain": "hub", "nonce": "n"}


def test_soliciting_end_connects_after_info_and_binds_after_the_second() -> None:
    """CONNECT answers the first INFO; the link counts only after connect_info."""
    machine = solicitor()
    send, resume = machine.line(LineKind.INFO, json.dumps(INFO | {"info_on_connect": True}).encode())
    connect = frame_json(send, b"CONNECT")
    (bind,) = machine.line(LineKind.INFO, json.dumps(INFO | {"connect_info": True, "remote_account": "X"}).encode())

    assert isinstance(resume, leaf.Resume)
    assert (connect["user"], connect["pass"], connect["cluster"]) == ("a", "secret", "leaf1")
    assert "lang" not in connect
    assert isinstance(bind, leaf.Bind)
    assert bind.spoke is True
    assert (bind.account, bind.remote_account, bind.remote_domain) == (3, "X", "hub")


def test_old_hub_without_confirmation_is_bound_at_once() -> None:
    """A server that does not promise info_on_connect sends no second INFO."""
    actions = solicitor().line(LineKind.INFO, json.dumps(INFO | {"leafnode_urls": ["h:1"]}).encode())

    assert isinstance(actions[1], leaf.Bind)


def test_a_client_port_is_not_taken_for_a_leaf_port() -> None:
    """The INFO of a client port has neither leafnode_urls nor info_on_connect."""
    (close,) = solicitor().line(LineKind.INFO, json.dumps(INFO).encode())

    assert isinstance(close, leaf.Close)
    assert close.text == "attempted to connect to wrong port"


def test_the_hubs_import_and_export_become_our_permissions() -> None:
    """export is what we may send, import what we may take; the remote's own denies are added."""
    machine = solicitor(deny_imports=("in.no",), deny_exports=("out.no",))
    info = INFO | {"info_on_connect": True}
    send, _ = machine.line(LineKind.INFO, json.dumps(info).encode())
    confirmed = info | {"connect_info": True, "export": {"allow": ["up.>"]}, "import": {"deny": ["down.x"]}}
    (bind,) = machine.line(LineKind.INFO, json.dumps(confirmed).encode())

    assert frame_json(send, b"CONNECT")["deny_pub"] == ["in.no"]
    assert isinstance(bind, leaf.Bind)
    assert bind.permissions.publish_allow == ("up.>",)
    assert "out.no" in bind.permissions.publish_deny
    assert {"down.x", "in.no"} <= set(bind.permissions.subscribe_deny)


@pytest.mark.parametrize(
    ("text", "reason", "delay_s"),
    [
        ('Loop detected for leafnode account="A". Delaying attempt to reconnect for 30s', CloseReason.LOOP, 30),
        ("remote leafnode has same cluster name", CloseReason.DUPLICATE, 30),
        ('connection rejected since minimum version required is "2.9.0"', CloseReason.PROTOCOL, 5),
        ('Permissions Violation for Publish to "s"', CloseReason.PERMISSION, 30),
        ("Authorization Violation", CloseReason.AUTHENTICATION, 0),
    ],
)
def test_refusals_keep_us_away_as_long_as_the_reference_stays(text: str, reason: int, delay_s: float) -> None:
    """Each -ERR of tests/wire/leaf.md has its delay."""
    (close,) = solicitor().line(LineKind.ERR, text.encode())

    assert isinstance(close, leaf.Close)
    assert (close.reason, close.delay_s) == (reason, delay_s)


def test_a_leaf_stays_away_as_long_as_a_busy_hub_says() -> None:
    """Also where the link would have TLS, which has not begun then; a day is not waited for."""
    for tls_info in ({}, {"tls_required": True}):
        said, closed = acceptor().busy(12, tls_info, hidden=False)
        info = frame_json(said, b"INFO")
        assert isinstance(closed, leaf.Close)
        assert closed.text == "Server is busy: try again in 12 s"
        (away,) = solicitor().line(LineKind.INFO, json.dumps(info).encode())
        assert isinstance(away, leaf.Close)
        assert away.delay_s == 12
        (away,) = solicitor().line(LineKind.INFO, json.dumps(info | {"try_again_s": 86_400}).encode())
        assert isinstance(away, leaf.Close)
        assert away.delay_s == leaf.AGAIN_MAX_S
        (sent, *_) = solicitor().line(LineKind.INFO, json.dumps(info | {"try_again_s": -1}).encode())
        assert isinstance(sent, leaf.Send | leaf.Handshake)


def test_a_busy_hub_says_nothing_in_plain_where_tls_comes_first() -> None:
    (closed,) = acceptor().busy(12, {"tls_required": True}, hidden=True)
    assert isinstance(closed, leaf.Close)
    assert closed.text == ""


def test_garbage_ends_the_handshake_and_nothing_else() -> None:
    """JSON that is none, or no object, closes the link at both ends."""
    for payload in (b"{", b"[]", b"17", b"\xff"):
        assert isinstance(acceptor().line(LineKind.CONNECT, payload, accept_all)[0], leaf.Close)
        assert isinstance(solicitor().line(LineKind.INFO, payload)[0], leaf.Close)
