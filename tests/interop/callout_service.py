"""A service that judges logins (auth callout), for tests: it reads requests and writes answers, right ones and wrong.

Tokens are signed with the code of leafd/auth/jwt_write.py, which writes what nsc writes; they are read here, by hand.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import nats
from leafd.auth import xkeys
from leafd.auth.jwt_write import write
from leafd.auth.nkeys import PREFIX_ACCOUNT, new_seed, sign
from nats.aio.client import Client
from nats.aio.msg import Msg
from nkeys import from_seed  # type: ignore[import-untyped]

from tests import servers

ISSUER = new_seed(PREFIX_ACCOUNT)
STRANGER = new_seed(PREFIX_ACCOUNT)
CURVE = new_seed(xkeys.PREFIX_CURVE)
Request = dict[str, Any]
Answer = bytes | str | None


def public(seed: str) -> str:
    """The public key of a seed."""
    return sign(seed, "")[0]


def read(token: str) -> Request:
    """The claims of a token whose signature is that of its issuer."""
    header, claims, signature = token.split(".")
    padded = [base64.urlsafe_b64decode(part + "==") for part in (header, claims, signature)]
    assert {"typ": "JWT", "alg": "ed25519-nkey"} == json.loads(padded[0])
    found: Request = json.loads(padded[1])
    key = base64.b32decode(found["iss"] + "=" * (-len(found["iss"]) % 8))[1:33]
    from nacl.signing import VerifyKey

    VerifyKey(key).verify(f"{header}.{claims}".encode(), padded[2])
    return found


def user(request: Request, body: Request | None = None, **parts: Any) -> str:
    """The JWT of the user that a request is about."""
    limits = {"subs": -1, "data": -1, "payload": -1}
    seed, subject = parts.pop("seed", ISSUER), parts.pop("subject", request["nats"]["user_nkey"])
    parts.setdefault("audience", "APP")
    return write("user", subject, limits | (body or {}), seed, int(time.time()), **parts)


def response(request: Request, jwt: str = "", error: str = "", **parts: Any) -> str:
    """An answer to a request."""
    body = {name: value for name, value in (("jwt", jwt), ("error", error)) if value}
    seed, subject = parts.pop("seed", ISSUER), parts.pop("subject", request["nats"]["user_nkey"])
    parts.setdefault("audience", request["nats"]["server_id"]["id"])
    return write("authorization_response", subject, body, seed, int(time.time()), **parts)


@contextlib.asynccontextmanager
async def judging(client: Client, judge: Callable[[Request], Answer]) -> AsyncIterator[list[Msg]]:
    """The service, on a connection that ends with it. Yields the requests as they came; None is no answer at all."""
    asked: list[Msg] = []

    async def answer(message: Msg) -> None:
        asked.append(message)
        data = message.data
        if message.headers:
            data = xkeys.unseal(CURVE, message.headers["Nats-Server-Xkey"], data)
        answer = judge(read(data.decode()))
        if answer is not None:
            await message.respond(answer if isinstance(answer, bytes) else answer.encode())

    await client.subscribe("$SYS.REQ.USER.AUTH", cb=answer)
    await client.flush()
    try:
        yield asked
    finally:
        await client.close()


@contextlib.asynccontextmanager
async def serving(server: servers.Server, judge: Callable[[Request], Answer]) -> AsyncIterator[list[Msg]]:
    """The service, logged in as the user auth."""
    client: Client = await nats.connect(server.url, user="auth", password="auth", allow_reconnect=False)
    async with judging(client, judge) as asked:
        yield asked


async def talk(port: int, connect: Request, lines: bytes = b"PING\r\n", end: bytes = b"PONG\r\n") -> bytes:
    """What a server says to a CONNECT and these lines behind its INFO, up to `end` or to the connection's end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    info = json.loads((await reader.readline())[5:])
    signing = connect.pop("signing", None)
    if signing:
        pair = from_seed(signing.encode())
        signature = base64.urlsafe_b64encode(pair.sign(info["nonce"].encode())).decode().rstrip("=")
        connect |= {"nkey": public(signing), "sig": signature}
    writer.write(b"CONNECT " + json.dumps({"verbose": False} | connect).encode() + b"\r\n" + lines)
    heard = b""
    try:
        # A server that closes with something unread resets the connection: an end like another.
        with contextlib.suppress(ConnectionResetError):
            async with asyncio.timeout(10):
                while end not in heard and (data := await reader.read(1 << 16)):
                    heard += data
    finally:
        writer.close()
    # What comes behind it may come with it, or later.
    return heard[: heard.index(end) + len(end)] if end in heard else heard
