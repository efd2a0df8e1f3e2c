"""Spark's connection: addresses, the login, requests. (Lines and messages: tests/unit/wire_client.)"""

from __future__ import annotations

import pytest
from leafd_spark.identity import Login
from leafd_spark.wire import (
    Address,
    Connection,
    NoResponders,
    Refused,
    WireError,
    parse_servers,
)

from tests import servers


def test_server_addresses() -> None:
    """Scheme, login and port may be missing, and several addresses stand in one option."""
    found = parse_servers("nats://u:p%40@a:1, b ,tls://t@c")
    assert (
        Address("a", 1, False, Login("u", "p@")),
        Address("b", 4222, False, Login()),
        Address("c", 4222, True, Login(token="t")),
    ) == found
    for wrong in ("", "http://a", "nats://"):
        with pytest.raises(ValueError, match="address"):
            parse_servers(wrong)


def test_a_request_gets_its_reply_and_a_lonely_one_is_told_so() -> None:
    """Against the reference server: an API request is answered, a subject nobody listens on fails at once."""
    with (
        servers.running(servers.REFERENCE, STREAMS) as server,
        Connection(parse_servers(server.url), Login(), "test") as connection,
    ):
        answer = connection.request_json("$JS.API.INFO", {})
        assert "io.nats.jetstream.api.v1.account_info_response" == answer["type"]
        with pytest.raises(NoResponders):
            connection.request("nobody.here", b"")


def test_a_wrong_password_is_refused_and_not_tried_again() -> None:
    """A login that the server rejects is told apart from a server that is away."""
    configuration = "listen: 127.0.0.1:{port}\nauthorization { user: a, password: b }\n"
    with servers.running(servers.REFERENCE, configuration) as server:
        with Connection(parse_servers(server.url), Login("a", "b"), "test") as connection:
            assert connection.info["auth_required"]
        with pytest.raises(Refused, match="Authorization Violation"):
            Connection(parse_servers(server.url), Login("a", "wrong"), "test")
    with pytest.raises(WireError) as failure:
        Connection(parse_servers(server.url), Login("a", "b"), "test")
    assert not isinstance(failure.value, Refused)


STREAMS = 'listen: 127.0.0.1:{port}\njetstream { store_dir: "{store}" }\n'
