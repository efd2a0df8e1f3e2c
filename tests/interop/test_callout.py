"""Logins that a service judges (auth callout), on leafd and on the reference: what the service is asked, and what
follows from its answers."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import nats
import pytest
from leafd.auth import xkeys
from leafd.auth.nkeys import PREFIX_SERVER, PREFIX_USER, new_seed
from nats.aio.client import Client

from tests import servers
from tests.interop.callout_service import (
    CURVE,
    ISSUER,
    STRANGER,
    Answer,
    Request,
    public,
    read,
    response,
    serving,
    talk,
    user,
)
from tests.rig.reloads import exchanged, reloaded
from tests.rig.stopwatch import Stopwatch

NKEY = new_seed(PREFIX_USER)
CONFIGURATION = """
listen: "127.0.0.1:{port}"
server_name: "judged"
server_tags: ["where:here"]
leafnodes { listen: "127.0.0.1:{leaf_port}" }
accounts {
  AUTH { users: [{user: auth, password: auth}, {user: other, password: other}] }
  APP { users: [{user: app, password: app}], default_permissions: { publish: "only.>" } }
  FREE { users: [{user: free, password: free}, {nkey: {nkey}}] }
}
authorization {
  timeout: 1
  auth_callout { issuer: {issuer}, auth_users: [auth], account: AUTH, {more} }
}
"""
VIOLATION = b"-ERR 'Authorization Violation'\r\n"
TEST_SECONDS_MAX = 60.0


def make(kind: str, more: str = "") -> Any:
    return servers.running(kind, CONFIGURATION, issuer=public(ISSUER), more=more, nkey=public(NKEY))


@pytest.fixture(scope="module", params=servers.KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[servers.Server]:
    with make(str(request.param)) as running:
        yield running


@pytest.fixture(scope="module", params=servers.KINDS)
def sealing(request: pytest.FixtureRequest) -> Iterator[servers.Server]:
    """With encryption, and for the users of some accounts only."""
    more = f"xkey: {xkeys.public_of(CURVE)}, allowed_accounts: [APP, AUTH]"
    with make(str(request.param), more) as running:
        yield running


def play(body: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(TEST_SECONDS_MAX):
            await body()

    asyncio.run(run())


def admit(request: Request) -> Answer:
    return response(request, user(request))


# ---- what is asked


def test_question(server: servers.Server) -> None:
    """The request is signed by the server, for a new user key each time, ends with the login's time, and says what the
    client and its CONNECT are."""

    async def body() -> None:
        connect = {"user": "x", "pass": "y", "name": "n", "lang": "py", "version": "1", "sig": "s", "auth_token": "t"}
        async with serving(server, admit) as asked:
            assert b"PONG\r\n" in await talk(server.port, connect | {"protocol": 1, "jwt": "j"})
            assert b"PONG\r\n" in await talk(server.port, {"auth_token": "t"})
        first, second = (read(message.data.decode()) for message in asked)
        claims = first["nats"]
        assert ("nats-authorization-request", public(ISSUER)) == (first["aud"], first["sub"])
        assert first["iss"] == claims["server_id"]["id"]
        assert first["iss"].startswith("N")
        assert 1 == first["exp"] - first["iat"]
        assert claims["user_nkey"].startswith("U")
        assert claims["user_nkey"] != second["nats"]["user_nkey"]
        del claims["server_id"]["id"], claims["user_nkey"], claims["client_info"]["id"]
        nonce = claims["client_info"].pop("nonce")
        assert 15 == len(nonce)
        assert {
            "server_id": {"name": "judged", "host": "127.0.0.1", "version": "2.15.1", "tags": ["where:here"]},
            "client_info": {"host": "127.0.0.1", "user": "x", "name": "n", "kind": "Client", "type": "nats"},
            "connect_opts": connect | {"protocol": 1},
            "type": "authorization_request",
            "version": 2,
        } == claims
        assert "[REDACTED]" == second["nats"]["client_info"]["user"]
        assert {"auth_token": "t", "protocol": 0} == second["nats"]["connect_opts"]
        assert not asked[0].headers

    play(body)


def test_leaf(server: servers.Server) -> None:
    """A leaf node's login is judged by the service, too, and gets the account and the rights of the answer."""

    async def body() -> None:
        connect = {"user": "leaf", "pass": "x", "name": "l", "server_id": "NX", "version": "2.15.1", "protocol": 3}

        def judge(request: Request) -> Answer:
            return response(request, user(request, {"pub": {"allow": ["up.>"]}, "sub": {"deny": ["no.>"]}}))

        async with serving(server, judge) as asked:
            heard = await talk(server.ports["leaf_port"], connect, b"", b"LS+ $LDS")
        claims = read(asked[0].data.decode())["nats"]
        assert {"host": "127.0.0.1", "user": "leaf", "name": "l", "kind": "Leafnode"} == {
            name: value for name, value in claims["client_info"].items() if name != "id"
        }
        info = json.loads(heard[5:].split(b"\r\n")[0])
        assert ("APP", ["up.>"], ["no.>"]) == (
            info["remote_account"], info["export"]["allow"], info["import"]["deny"]
        )  # fmt: skip
        async with serving(server, lambda request: response(request, error="no")):
            assert VIOLATION in await talk(server.ports["leaf_port"], connect, b"", b"LS+ $LDS")

    play(body)


def test_service_is_not_asked_about(server: servers.Server) -> None:
    """Users of auth_users log in by the configuration alone, clients and leafs; nobody in the service's account can
    send it a question."""

    async def body() -> None:
        async with serving(server, admit) as asked:
            assert VIOLATION in await talk(server.port, {"user": "auth", "pass": "wrong"})
            publish = b"PUB $SYS.REQ.USER.AUTH 0\r\n\r\nPING\r\n"
            heard = await talk(server.port, {"user": "auth", "pass": "auth"}, publish)
            assert b"-ERR 'Permissions Violation for Publish to \"$SYS.REQ.USER.AUTH\"'\r\nPONG\r\n" == heard
            leaf = {"user": "auth", "pass": "auth", "name": "l", "server_id": "NX", "version": "2.15.1", "protocol": 3}
            assert b'"remote_account":"AUTH"' in await talk(server.ports["leaf_port"], leaf, b"", b"LS+ $LDS")
            assert [] == asked
        async with serving(server, lambda request: response(request, user(request, audience="AUTH"))):
            assert b"Permissions Violation" in await talk(server.port, {"user": "other", "pass": "other"}, publish)

    play(body)


def test_users_of_the_configuration(server: servers.Server) -> None:
    """Any other user of the configuration is asked about, too, right password or not; the permissions are those of the
    answer, not those of the configuration."""

    async def body() -> None:
        async with serving(server, admit) as asked:
            for password in ("app", "wrong"):
                heard = await talk(server.port, {"user": "app", "pass": password}, b"PUB not.only 0\r\n\r\nPING\r\n")
                assert b"PONG\r\n" == heard
            assert 2 == len(asked)
        async with serving(server, lambda request: response(request, error="no")):
            assert VIOLATION in await talk(server.port, {"user": "app", "pass": "app"})

    play(body)


def test_allowed_accounts(sealing: servers.Server) -> None:
    """Users of accounts that are not listed log in by the configuration; leafs, and who fails there, do not."""

    async def body() -> None:
        async with serving(sealing, admit) as asked:
            assert b"PONG\r\n" == await talk(sealing.port, {"user": "free", "pass": "free"})
            assert b"PONG\r\n" == await talk(sealing.port, {"signing": NKEY})
            assert [] == asked
            assert b"PONG\r\n" == await talk(sealing.port, {"user": "free", "pass": "wrong"})
            assert b"PONG\r\n" == await talk(sealing.port, {"user": "app", "pass": "app"})
            leaf = {"user": "free", "pass": "free", "name": "l", "server_id": "NX", "version": "2.15.1", "protocol": 3}
            assert b'"remote_account":"APP"' in await talk(sealing.ports["leaf_port"], leaf, b"", b"LS+ $LDS")
            assert 3 == len(asked)

    play(body)


def test_no_auth_user() -> None:
    """Who sends no credentials is asked about as the no_auth_user, with CONNECT and without."""
    for kind in servers.KINDS:
        configuration = "no_auth_user: app\n" + CONFIGURATION
        with servers.running(kind, configuration, issuer=public(ISSUER), more="", nkey=public(NKEY)) as server:

            async def body(server: servers.Server = server) -> None:
                async with serving(server, admit) as asked:
                    assert b"PONG\r\n" == await talk(server.port, {})
                    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
                    writer.write(b"PING\r\n")
                    assert b"INFO" in await reader.readline()
                    assert b"PONG\r\n" == await reader.readline()
                    writer.close()
                found = [read(message.data.decode())["nats"]["connect_opts"] for message in asked]
                assert [{"user": "app", "pass": "app", "protocol": 0}] * 2 == found

            play(body)


# ---- what is answered


@pytest.mark.parametrize(
    ("judge", "log"),
    [
        pytest.param(lambda r: response(r, error="go away"), "returned an error: go away", id="an error"),
        pytest.param(lambda r: b"", "no reason supplied", id="nothing"),
        pytest.param(lambda r: b"hello", "", id="no token"),
        pytest.param(lambda r: user(r), "", id="the user's token alone"),
        pytest.param(lambda r: response(r, response(r, error="x")), "", id="a user's token of another kind"),
        pytest.param(lambda r: response(r, user(r), error="x"), "Only Error or Jwt can be set", id="both"),
        pytest.param(lambda r: response(r), "Error or Jwt is required", id="neither"),
        pytest.param(
            lambda r: response(r, user(r), audience=public(ISSUER)), "Audience must be a server public key", id="aud"
        ),
        pytest.param(
            lambda r: response(r, user(r), audience=public(new_seed(PREFIX_SERVER))),
            "auth callout response is not for server",
            id="for another server",
        ),
        pytest.param(
            lambda r: response(r, user(r), subject=public(new_seed(PREFIX_USER))),
            "auth callout response is not for expected user",
            id="for another user",
        ),
        pytest.param(
            lambda r: response(r, user(r, subject=public(new_seed(PREFIX_USER)))),
            "Expected authorized user of",
            id="another user inside",
        ),
        pytest.param(
            lambda r: response(r, user(r), seed=STRANGER), "Auth callout signing key is unknown", id="by a stranger"
        ),
        pytest.param(
            lambda r: response(r, user(r, seed=STRANGER)),
            "Wrong issuer for auth callout response on account",
            id="a stranger's user",
        ),
        pytest.param(
            lambda r: response(r, user(r, {"issuer_account": public(ISSUER)}, seed=STRANGER)),
            "attempted to use issuer_account",
            id="a stranger's user for the issuer",
        ),
        pytest.param(lambda r: response(r, user(r, audience="NOPE")), 'No valid account "NOPE"', id="no such account"),
        pytest.param(lambda r: response(r, user(r, audience="")), 'No valid account ""', id="no account"),
        pytest.param(lambda r: response(r, user(r, expires=int(time.time()) - 5)), "expired", id="too late"),
        pytest.param(
            lambda r: response(r, user(r), expires=int(time.time()) - 5), "claim is expired", id="answer too late"
        ),
        pytest.param(
            lambda r: response(r, user(r, {"times": [{"start": "00:00:00", "end": "00:00:00"}]})),
            "outside of valid connect times",
            id="not at this time of the day",
        ),
        pytest.param(lambda r: response(r, user(r, {"pub": {"allow": ["a..b"]}})), 'subject "a..b"', id="no subject"),
        pytest.param(lambda r: response(r, user(r, {"src": ["bad"]})), "bad", id="no network"),
        pytest.param(
            lambda r: response(r, user(r, {"allowed_connection_types": ["X"]})), "connect", id="no connection type"
        ),
        pytest.param(lambda r: None, "", id="nothing in time"),
    ],
)
def test_refusals(server: servers.Server, judge: Callable[[Request], Answer], log: str) -> None:
    """Whatever is wrong with an answer, the login is refused, the client hears no more than that, and the log says
    why."""

    async def body() -> None:
        before = len(server.log)
        async with serving(server, judge) as asked:
            assert VIOLATION == await talk(server.port, {"user": "x", "pass": "y"})
            assert 1 == len(asked)
        async with asyncio.timeout(5):  # the reference writes it behind its answer
            while log not in server.log[before:]:
                await asyncio.sleep(0.05)

    play(body)


def test_permissions_and_name(server: servers.Server) -> None:
    """The permissions are those of the user's JWT, and so is the name, where it has one."""

    async def body() -> None:
        permissions = {"pub": {"allow": ["a.>"], "deny": ["a.b"]}, "sub": {"deny": ["s.>"]}}
        async with serving(server, lambda request: response(request, user(request, permissions, name="bob"))):
            lines = b"PUB a.b 0\r\n\r\nPUB a.c 0\r\n\r\nSUB s.1 1\r\nPING\r\n"
            heard = await talk(server.port, {"user": "x", "pass": "y"}, lines)
            assert [
                b"-ERR 'Permissions Violation for Publish to \"a.b\"'",
                b"-ERR 'Permissions Violation for Subscription to \"s.1\"'",
                b"PONG",
                b"",
            ] == heard.split(b"\r\n")
        for name in ("bob", ""):

            def judge(request: Request, name: str = name) -> Answer:
                return response(request, user(request, name=name))

            async with serving(server, judge):
                client = await nats.connect(server.url, user="x", password="y")
                found = json.loads((await client.request("$SYS.REQ.USER.INFO", b"", timeout=5)).data)["data"]
                await client.close()
                assert (name or "x", "APP") == (found["user"], found["account"])
        answers = {"resp": {"max": 0, "ttl": 0}}
        async with serving(server, lambda request: response(request, user(request, answers))):
            assert b"Permissions Violation for Publish" in await talk(
                server.port, {"user": "x"}, b"PUB a 0\r\n\r\nPING\r\n"
            )

    play(body)


def test_expiry(server: servers.Server) -> None:
    """A login ends to the second with its user's JWT."""

    async def body() -> None:
        async with serving(server, lambda request: response(request, user(request, expires=int(time.time()) + 2))):
            began = time.monotonic()
            heard = await talk(server.port, {"user": "x"}, end=b"Expired")
            heard = heard.replace(b"PING\r\n", b"")  # the server's first one may come before the end
            assert b"PONG\r\n-ERR 'User Authentication Expired" == heard[: heard.index(b"Expired") + 7]
            assert 0.5 < time.monotonic() - began < 4

    play(body)


def granting(claims: dict[str, Any]) -> Callable[[Request], str]:
    """A service that lets everybody in with these claims."""
    return lambda request: response(request, user(request, claims))


def test_restrictions_hold() -> None:
    """Limits, networks and kinds of connections of the user's JWT hold. The reference reads them and lets everybody in:
    a difference on purpose."""
    with make(servers.LEAFD) as server:

        async def body() -> None:
            for restriction in ({"src": ["10.0.0.0/8"]}, {"allowed_connection_types": ["WEBSOCKET"]}):
                async with serving(server, granting(restriction)):
                    assert VIOLATION == await talk(server.port, {"user": "x"})
            for granted in ({"src": ["127.0.0.0/8"]}, {"allowed_connection_types": ["X", "standard"]}, {"subs": 0}):
                async with serving(server, granting(granted)):
                    assert b"PONG\r\n" == await talk(server.port, {"user": "x"})
            async with serving(server, lambda request: response(request, user(request, {"subs": 1, "payload": 4}))):
                heard = await talk(
                    server.port, {"user": "x"}, b"SUB a 1\r\nSUB b 2\r\nPUB c 5\r\nhello\r\n", b"Payload"
                )
                assert (
                    b"-ERR 'maximum subscriptions exceeded'\r\n-ERR 'Maximum Payload"
                    == heard[: heard.index(b"Payl") + 7]
                )

        play(body)


# ---- encryption


def test_encryption(sealing: servers.Server) -> None:
    """With an xkey the request is sealed for the service; its answer may be sealed for the server, by the service's key
    and by no other, or signed in the open."""

    async def body() -> None:
        def sealed(request: Request, curve: str = CURVE, seed: str = ISSUER) -> bytes:
            answer = response(request, user(request), seed=seed).encode()
            return xkeys.seal(curve, request["nats"]["server_id"]["xkey"], answer)

        async with serving(sealing, sealed) as asked:
            assert b"PONG\r\n" == await talk(sealing.port, {"user": "x"})
            assert b"xkv1" == asked[0].data[:4]
            request = read(xkeys.unseal(CURVE, (asked[0].headers or {})["Nats-Server-Xkey"], asked[0].data).decode())
            assert (asked[0].headers or {})["Nats-Server-Xkey"] == request["nats"]["server_id"]["xkey"]
        async with serving(sealing, admit):
            assert b"PONG\r\n" == await talk(sealing.port, {"user": "x"})
        async with serving(sealing, lambda request: sealed(request, seed=STRANGER)):
            assert b"PONG\r\n" == await talk(sealing.port, {"user": "x"})
        async with serving(sealing, lambda request: sealed(request, new_seed(xkeys.PREFIX_CURVE))):
            assert VIOLATION == await talk(sealing.port, {"user": "x"})
        assert "Error decrypting auth callout response" in sealing.log

    play(body)


# ---- many, and changes


def test_flood() -> None:
    """A thousand strangers of one address, about whom the service says nothing, do not keep somebody of another address
    out, nor the service's own login, for as long as they wait; each of them is refused in its time."""
    configuration = CONFIGURATION.replace("timeout: 1\n", "timeout: 5\n")

    def login(port: int, user: str, host: str = "127.0.0.1") -> socket.socket:
        one = socket.create_connection(("127.0.0.1", port), 20, (host, 0))
        one.sendall(b'CONNECT {"user":"%s","verbose":false}\r\nPING\r\n' % user.encode())
        return one

    def said(one: socket.socket) -> bytes:
        """The line behind INFO."""
        with one, one.makefile("rb") as lines:
            return [lines.readline(), lines.readline()][1]

    with servers.running(servers.LEAFD, configuration, issuer=public(ISSUER), more="", nkey=public(NKEY)) as server:

        async def body() -> None:
            def judge(request: Request) -> Answer:
                return None if request["nats"]["connect_opts"]["user"] == "stranger" else admit(request)

            # In threads: this loop is the service's.
            async with serving(server, judge):
                strangers = await asyncio.to_thread(lambda: [login(server.port, "stranger") for _ in range(1000)])
                watch = Stopwatch(server)
                assert b"PONG\r\n" == await asyncio.to_thread(lambda: said(login(server.port, "x", "127.0.0.2")))
                assert watch.seconds() < 3
                assert b"PONG\r\n" == await talk(server.port, {"user": "auth", "pass": "auth"})
                refusals = await asyncio.to_thread(lambda: {said(one) for one in strangers})
            assert refusals == {VIOLATION}

        play(body)


def test_reload() -> None:
    """Who was let in by the service stays over a reload that leaves it as it is, and is sent away by one that changes
    it, as everybody is who would have to be asked about now. The reference sends away whoever was let in at any reload:
    a difference on purpose."""
    with make(servers.LEAFD) as server:
        path = server.directory / "server.conf"

        async def reload(old: str, new: str) -> None:
            await asyncio.to_thread(exchanged, server, old, new)

        async def gone(client: Client) -> bool:
            try:
                await client.flush(5)
            except Exception:
                return True
            return client.is_closed

        async def body() -> None:
            async with serving(server, admit):
                one = await nats.connect(server.url, user="x", password="y", allow_reconnect=False, error_cb=ignore)
                own = await nats.connect(server.url, user="auth", password="auth", allow_reconnect=False)
                await reload("password: free", "password: freed")
                assert not await gone(one)
                await reload("auth_users: [auth]", "auth_users: [auth, other]")
                assert await gone(one)
                assert await gone(own)
            await own.close()
            text = path.read_text()
            await reload(text[text.index("auth_callout") : text.index("}", text.index("auth_callout")) + 1], "")
            plain = await nats.connect(server.url, user="app", password="app", allow_reconnect=False, error_cb=ignore)
            await asyncio.to_thread(reloaded, server, text)
            assert await gone(plain)
            async with serving(server, admit):
                assert b"PONG\r\n" == await talk(server.port, {"user": "x"})

        play(body)


async def ignore(error: Exception) -> None:
    """What nats-py would print."""
