"""Logins that a service judges where accounts come from JWTs (auth callout in operator mode), on leafd and on the
reference."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import nats
import pytest
from leafd.auth import xkeys
from leafd.auth.jwt_write import write
from leafd.auth.nkeys import PREFIX_ACCOUNT, PREFIX_OPERATOR, PREFIX_USER, new_seed
from nats.aio.client import Client
from nats.aio.msg import Msg
from nkeys import from_seed  # type: ignore[import-untyped]

from tests import servers
from tests.interop.callout_service import CURVE, Answer, Request, judging, public, read, response, user
from tests.interop.test_callout import VIOLATION, play

OPERATOR = new_seed(PREFIX_OPERATOR)
SYSTEM, AUTH, APP, OTHER = (new_seed(PREFIX_ACCOUNT) for _ in range(4))
SIGNING, SCOPED = new_seed(PREFIX_ACCOUNT), new_seed(PREFIX_ACCOUNT)
SERVICE, SENTINEL, PLAIN, FREE = (new_seed(PREFIX_USER) for _ in range(4))
CONFIGURATION = """
listen: "127.0.0.1:{port}"
server_name: "judged"
operator: {operator}
resolver: MEMORY
resolver_preload: { {preload} }
authorization { timeout: 1 }
"""
LIMITS = {
    "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": True, "conn": -1, "leaf": -1
}  # fmt: skip
USER = {"subs": -1, "data": -1, "payload": -1}


def account(seed: str, name: str, **body: Any) -> str:
    """An account's JWT."""
    return write("account", public(seed), {"limits": LIMITS} | body, OPERATOR, int(time.time()), name=name)


def token(seed: str, signer: str, **body: Any) -> str:
    """A user's JWT."""
    return write("user", public(seed), USER | body, signer, int(time.time()), name="somebody")


def configuration(**authorization: Any) -> dict[str, str]:
    """What is filled in: AUTH has the service, APP is one of the accounts that it may place users in."""
    found = {"auth_users": [public(SERVICE)], "allowed_accounts": [public(APP)]} | authorization
    scope = {"kind": "user_scope", "key": public(SCOPED), "role": "r", "template": USER | {"pub": {"allow": ["t.>"]}}}
    accounts = {
        SYSTEM: account(SYSTEM, "SYS"),
        AUTH: account(AUTH, "AUTH", authorization=found),
        APP: account(APP, "APP", signing_keys=[public(SIGNING), scope]),
        OTHER: account(OTHER, "OTHER"),
    }
    operator = write("operator", public(OPERATOR), {"system_account": public(SYSTEM)}, OPERATOR, int(time.time()))
    return {
        "operator": operator,
        "preload": ", ".join(f"{public(seed)}: {jwt}" for seed, jwt in accounts.items()),
    }


@pytest.fixture(scope="module", params=servers.KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[servers.Server]:
    with servers.running(str(request.param), CONFIGURATION, **configuration()) as running:
        yield running


@pytest.fixture(scope="module", params=servers.KINDS)
def sealing(request: pytest.FixtureRequest) -> Iterator[servers.Server]:
    values = configuration(xkey=xkeys.public_of(CURVE), allowed_accounts=["*"])
    with servers.running(str(request.param), CONFIGURATION, **values) as running:
        yield running


@contextlib.asynccontextmanager
async def serving(server: servers.Server, judge: Callable[[Request], Answer]) -> AsyncIterator[list[Msg]]:
    """The service of AUTH, logged in with its JWT."""
    pair = from_seed(SERVICE.encode())
    client: Client = await nats.connect(
        server.url,
        user_jwt_cb=lambda: token(SERVICE, AUTH).encode(),
        signature_cb=lambda nonce: base64.b64encode(pair.sign(nonce.encode())),
        allow_reconnect=False,
    )
    async with judging(client, judge) as asked:
        yield asked


async def talk(server: servers.Server, jwt: str, seed: str = "", lines: bytes = b"PING\r\n", **connect: Any) -> bytes:
    """What a server says to a client with that JWT, which signs the nonce when there is a seed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    info = json.loads((await reader.readline())[5:])
    if seed:
        signature = from_seed(seed.encode()).sign(info["nonce"].encode())
        connect["sig"] = base64.urlsafe_b64encode(signature).decode().rstrip("=")
    writer.write(b"CONNECT " + json.dumps({"verbose": False, "jwt": jwt} | connect).encode() + b"\r\n" + lines)
    heard = b""
    try:
        async with asyncio.timeout(10):
            while b"PONG\r\n" not in heard and (data := await reader.read(1 << 16)):
                heard += data
    finally:
        writer.close()
    return heard


def placed(request: Request, seed: str = APP, signer: str = "", **body: Any) -> str:
    """A user of that account, signed by its key or by another of its keys."""
    if signer:
        body["issuer_account"] = public(seed)
    return user(request, body, seed=signer or seed, audience="")


def admit(request: Request) -> Answer:
    return response(request, placed(request), seed=AUTH)


def test_question(server: servers.Server) -> None:
    """The service of the account that a JWT belongs to is asked about its users, but for those that it names; the
    request has the JWT, and is for the account's key."""

    async def body() -> None:
        sentinel = token(SENTINEL, AUTH, bearer_token=True)
        async with serving(server, admit) as asked:
            assert b"PONG\r\n" == await talk(server, sentinel, user="x")
            assert b"PONG\r\n" == await talk(server, token(PLAIN, AUTH), PLAIN)
            assert b"PONG\r\n" == await talk(server, token(FREE, OTHER), FREE)
            assert 2 == len(asked)
        claims = read(asked[0].data.decode())
        assert public(AUTH) == claims["sub"]
        assert {"jwt": sentinel, "user": "x", "protocol": 0} == claims["nats"]["connect_opts"]

    play(body)


def test_who_proves_nothing(server: servers.Server) -> None:
    """The service is asked about users of its account only: a JWT whose nonce is not signed, one that has expired and
    none at all are refused without a question."""

    async def body() -> None:
        expired = write("user", public(PLAIN), USER, AUTH, int(time.time()) - 60, expires=int(time.time()) - 30)
        async with serving(server, admit) as asked:
            assert VIOLATION == await talk(server, token(PLAIN, AUTH))
            assert VIOLATION == await talk(server, token(FREE, OTHER))
            assert VIOLATION == await talk(server, expired, PLAIN)
            assert VIOLATION == await talk(server, "")
            assert [] == asked

    play(body)


@pytest.mark.parametrize(
    ("judge", "granted"),
    [
        pytest.param(lambda r: response(r, placed(r), seed=AUTH), True, id="an allowed account"),
        pytest.param(lambda r: response(r, placed(r, AUTH), seed=AUTH), True, id="its own account"),
        pytest.param(lambda r: response(r, placed(r, OTHER), seed=AUTH), False, id="another account"),
        pytest.param(lambda r: response(r, placed(r, APP, SIGNING), seed=AUTH), True, id="a signing key"),
        pytest.param(lambda r: response(r, placed(r, APP, OTHER), seed=AUTH), False, id="a stranger's signature"),
        pytest.param(lambda r: response(r, placed(r), seed=APP), False, id="an answer by another account"),
        pytest.param(lambda r: response(r, error="no", seed=AUTH), False, id="an error"),
        pytest.param(lambda r: None, False, id="nothing in time"),
    ],
)
def test_answers(server: servers.Server, judge: Callable[[Request], Answer], granted: bool) -> None:
    """A user is placed in the account that signs it, which must be the service's or one that its account allows."""

    async def body() -> None:
        async with serving(server, judge):
            heard = await talk(server, token(PLAIN, AUTH), PLAIN)
            assert (b"PONG\r\n" if granted else VIOLATION) == heard

    play(body)


def test_scoped_key(server: servers.Server) -> None:
    """A scoped signing key's template says what the user may do."""

    async def body() -> None:
        def judge(request: Request) -> Answer:
            scoped = {"issuer_account": public(APP)}
            subject = request["nats"]["user_nkey"]
            return response(request, write("user", subject, scoped, SCOPED, int(time.time())), seed=AUTH)

        async with serving(server, judge):
            heard = await talk(server, token(PLAIN, AUTH), PLAIN, b"PUB t.a 0\r\n\r\nPUB other 0\r\n\r\nPING\r\n")
            assert b"-ERR 'Permissions Violation for Publish to \"other\"'\r\nPONG\r\n" == heard

    play(body)


def test_encryption(sealing: servers.Server) -> None:
    """With the account's xkey requests are sealed, and a sealed answer needs no signature of the account."""

    async def body() -> None:
        def sealed(request: Request) -> Answer:
            answer = response(request, placed(request, OTHER), seed=APP).encode()
            return xkeys.seal(CURVE, request["nats"]["server_id"]["xkey"], answer)

        async with serving(sealing, sealed) as asked:
            assert b"PONG\r\n" == await talk(sealing, token(PLAIN, AUTH), PLAIN)
            assert b"xkv1" == asked[0].data[:4]

    play(body)


def test_both_at_once_is_refused(tmp_path: Path) -> None:
    """A service in the configuration beside an operator is an error of the configuration."""
    text = CONFIGURATION.replace(
        "timeout: 1", "timeout: 1, auth_callout { issuer: {issuer}, auth_users: [a], account: B }"
    )
    for kind in servers.KINDS:
        server = servers.make(kind, text, tmp_path, issuer=public(AUTH), **configuration())
        with pytest.raises(servers.ServerDied, match="operators do not allow authorization callouts"):
            server.start()
