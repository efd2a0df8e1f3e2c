"""Services that judge logins and lie, users that lie to them, and others who answer in their place, beside nats-server.

Tokens are signed by tests/jwts.py, which knows nothing of leafd. Not here: what a service that means
well is asked and may say (interop/test_callout.py, interop/test_callout_operator.py), reloads with users of it.
"""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import nats
import pytest
from leafd.auth import xkeys
from leafd.auth.nkeys import new_seed
from nats.aio.client import Client
from nats.aio.msg import Msg

from tests import servers
from tests.interop.callout_service import CURVE, Answer, Request, judging, read, serving, talk
from tests.interop.jwt_peer import HEAD
from tests.interop.test_callout import CONFIGURATION, VIOLATION, ignore, play
from tests.jwts import PREFIXES, USER_LIMITS, Key, Operator, b64, encode
from tests.servers import KINDS, LEAFD, Server

PREFIXES.setdefault("server", 0x68)
ISSUER, STRANGER, SERVER = Key("account"), Key("account"), Key("server")
IN: Final = b"PONG\r\n"
EXPIRED: Final = b"-ERR 'User Authentication Expired'\r\n"
NOW: Final = int(time.time())
MB: Final = 1_000_000
SILENT_S: Final = 8
"""A slow machine needs seconds for a thousand logins."""
FORGED: Final = "a\r\n[1] 2026/11/24 00:00:00 [INF] forged\x1b[2J\0\x7f\u202e"
Judge = Callable[[Request], Answer]


def person(request: Request, body: Request | None = None, signer: Key = ISSUER, **outer: Any) -> str:
    """The JWT of the user that a request is about, in the account APP."""
    claims = {"sub": request["nats"]["user_nkey"], "aud": "APP"} | outer
    return encode(claims | {"nats": {"type": "user", "version": 2} | USER_LIMITS | (body or {})}, signer)


def answer(request: Request, jwt: str = "", signer: Key = ISSUER, body: Request | None = None, **outer: Any) -> str:
    """An answer, with that user unless it says something else."""
    said = {"type": "authorization_response", "version": 2} | (body or {"jwt": jwt or person(request)})
    claims = {"sub": request["nats"]["user_nkey"], "aud": request["nats"]["server_id"]["id"]} | outer
    return encode(claims | {"nats": said}, signer)


def granting(**body: Any) -> Judge:
    """A service whose users' JWTs say this."""
    return lambda request: answer(request, person(request, body))


def header_of(header: str) -> Judge:
    """A service whose answers begin with that header, signed or not."""
    return lambda request: ".".join([b64(header.encode()), *answer(request).split(".")[1:]])


def nested(request: Request) -> str:
    """Claims that are half a megabyte of brackets."""
    return ".".join([answer(request).split(".")[0], b64(b'{"nats":' + b"[" * (MB // 2)), "AAAA"])


def placing(account: str) -> Judge:
    return lambda request: answer(request, person(request, aud=account))


ADMITTED: Final[dict[str, Judge]] = {
    "an answer without flaw": answer,
    "30,000 permissions": granting(pub={"allow": [f"a.{number}" for number in range(30_000)]}),
    "30,000 networks, of which the last counts": granting(src=["10.0.0.0/8"] * 30_000 + ["127.0.0.0/8"]),
    "5,000 tags with lines' ends": granting(tags=["a\r\nb"] * 5_000),
    "a subject of 40,000 tokens": granting(pub={"allow": ["a." * 40_000 + "b"]}),
    "a bearer": granting(bearer_token=True),
    "the largest payload": granting(payload=2**63 - 1),
    "as many subscriptions as none": granting(subs=-(2**63)),
    "answers for 292 years": granting(resp={"max": 2**31, "ttl": 2**63 - 1}),
    "a name with lines' ends": lambda request: answer(request, person(request, name=FORGED)),
    "the system account": placing("$SYS"),
    "the account of who has none": placing("$G"),
    "the service's own account": placing("AUTH"),
}
REFUSED: Final[dict[str, Judge]] = {
    "signed by a stranger": lambda request: answer(request, signer=STRANGER),
    "signed by a stranger for the issuer": lambda request: answer(
        request, signer=STRANGER, body={"jwt": person(request), "issuer_account": ISSUER.public}
    ),
    "signed by a user": lambda request: answer(request, signer=Key("user")),
    "signed by a server": lambda request: answer(request, signer=SERVER),
    "signed by an operator": lambda request: answer(request, signer=Key("operator")),
    "the issuer's name without its signature": lambda request: answer(request, signer=STRANGER, iss=ISSUER.public),
    "a user signed by a stranger": lambda request: answer(request, person(request, signer=STRANGER)),
    "a user signed by itself": lambda request: answer(request, person(request, signer=Key("user"))),
    "for another user": lambda request: answer(request, sub=Key("user").public),
    "another user inside": lambda request: answer(request, person(request, sub=Key("user").public)),
    "for another server": lambda request: answer(request, aud=SERVER.public),
    "for no server": lambda request: answer(request, aud=""),
    "expired": lambda request: answer(request, exp=NOW - 2),
    "not yet valid": lambda request: answer(request, nbf=NOW + 3600),
    "an expired user": lambda request: answer(request, person(request, exp=NOW - 2)),
    "a user that is not yet valid": lambda request: answer(request, person(request, nbf=NOW + 3600)),
    "no algorithm": header_of('{"typ":"JWT","alg":"none"}'),
    "an older algorithm": header_of('{"typ":"JWT","alg":"ed25519"}'),
    "a changed signature": lambda request: answer(request)[:-4] + "AAAA",
    "no signature": lambda request: answer(request).rsplit(".", 1)[0] + ".",
    "an answer inside an answer": lambda request: answer(request, answer(request)),
    "the question": lambda request: b"eyJ" + json.dumps(request).encode(),
    "a megabyte of zeros": lambda request: bytes(MB),
    "a megabyte of a token's beginning": lambda request: b"eyJ" * (MB // 3),
    "a megabyte of dots": lambda request: b"eyJ" + b"." * (MB - 3),
    "half a megabyte of brackets": nested,
    "a line for the log": lambda request: answer(request, body={"error": FORGED}),
    "half a megabyte for the log": lambda request: answer(request, body={"error": "x" * (MB // 2)}),
    "an account that is a line for the log": placing(FORGED),
    "an account of 100,000 characters": placing("A" * 100_000),
    "no account": placing(""),
    "a number that is too large": granting(payload=2**64),
    "an end that is too large": lambda request: answer(request, person(request, exp=2**63)),
    "hours that are none": granting(times=[{"start": "x", "end": "y"}]),
    "a time zone that is a file": granting(
        times=[{"start": "00:00:00", "end": "23:59:59"}], times_location="../../../etc/passwd"
    ),
    "a subject of three words": granting(sub={"allow": ["a q q"]}),
    "the account of a signing key": granting(issuer_account=ISSUER.public),
    "a proxy that has to vouch": granting(proxy_required=True),
}


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with made(str(request.param)) as running:
        yield running


def made(kind: str, more: str = "", seconds: int = 1) -> Any:
    configuration = CONFIGURATION.replace("timeout: 1", f"timeout: {seconds}")
    return servers.running(kind, configuration, issuer=ISSUER.public, more=more, nkey=Key("user").public)


def unforged(log: str) -> bool:
    """Whether each line is one that the server wrote, and nothing in it steers a terminal."""
    lines = log.splitlines()
    return all(one.startswith("[") for one in lines) and log.replace("\n", "").isprintable()


def verdicts(server: Server, judges: dict[str, Judge], end: bytes = IN) -> dict[str, bytes]:
    """What a client hears to its login, for each service, up to `end` or to the connection's end."""
    found: dict[str, bytes] = {}

    async def body() -> None:
        for name, judge in judges.items():
            async with serving(server, judge):
                found[name] = await talk(server.port, {"user": "x", "pass": "y"}, end=end)

    play(body)
    return found


# ---- what is answered


def test_a_service_lets_in_whom_it_may_and_nobody_else(server: Server) -> None:
    """Both servers take the same answers, however large, and the client hears no more than yes or no."""
    expected = dict.fromkeys(ADMITTED, IN) | dict.fromkeys(REFUSED, VIOLATION)
    assert expected == verdicts(server, ADMITTED | REFUSED)
    assert "nexpected error" not in server.log
    assert server.kind != LEAFD or unforged(server.log)


def test_what_leafd_takes_another_way() -> None:
    """A user that ends after the year 2262 does not end, where nats-server sends it away at once; and a permission that
    is no subject refuses the login, where nats-server leaves the permission out."""
    far: dict[str, Judge] = {"an end far away": lambda request: answer(request, person(request, exp=2**62))}
    line = {"a subject with a line's end": granting(pub={"allow": ["a\r\nb"]})}
    found = []
    for kind in KINDS:
        with made(kind) as server:
            # nats-server may have answered the PING before it sends the user away.
            (first,) = verdicts(server, far, IN if kind == LEAFD else EXPIRED).values()
            found.append([first.removesuffix(EXPIRED), EXPIRED in first, *verdicts(server, line).values()])
            assert "nexpected error" not in server.log
    assert [[IN, False, VIOLATION], [found[1][0], True, IN]] == found
    assert found[1][0] in (b"", IN)


def test_an_answer_counts_once(server: Server) -> None:
    """Of several answers the first counts (of nats-server's one at random); one to an earlier question, and one that
    comes too late, count for nothing."""

    async def several(*answers: Judge) -> bytes:
        client: Client = await nats.connect(server.url, user="auth", password="auth", allow_reconnect=False)

        async def say(message: Msg) -> None:
            request = read(message.data.decode())
            for one in answers:
                await client.publish(message.reply, str(one(request)).encode())

        await client.subscribe("$SYS.REQ.USER.AUTH", cb=say)
        await client.flush()
        heard = await talk(server.port, {"user": "x"})
        await client.close()
        return heard

    async def body() -> None:
        refuse: Judge = lambda request: answer(request, body={"error": "no"})  # noqa: E731
        orders = [(answer, refuse), (refuse, answer), (lambda request: "garbage", answer)]
        found = [await several(*order) for order in orders]
        assert set(found) <= {IN, VIOLATION}
        assert server.kind != LEAFD or [IN, VIOLATION, VIOLATION] == found
        early: list[str] = []

        def again(request: Request) -> str:
            early.append(answer(request))
            return early[0]

        async with serving(server, again):
            assert IN == await talk(server.port, {"user": "x"})
            assert VIOLATION == await talk(server.port, {"user": "x"})
        client = await nats.connect(server.url, user="auth", password="auth", allow_reconnect=False)
        asked: list[Msg] = []

        async def keep(message: Msg) -> None:
            asked.append(message)

        await client.subscribe("$SYS.REQ.USER.AUTH", cb=keep)
        await client.flush()
        assert VIOLATION == await talk(server.port, {"user": "x"})
        await asked[0].respond(answer(read(asked[0].data.decode())).encode())
        waiting = asyncio.create_task(talk(server.port, {"user": "x"}))
        while len(asked) < 2:
            await asyncio.sleep(0.01)
        await asked[0].respond(answer(read(asked[0].data.decode())).encode())
        await client.publish(asked[1].reply, str(answer(read(asked[0].data.decode()))).encode())
        assert VIOLATION == await waiting
        await client.close()

    play(body)


def test_a_sealed_answer_is_the_services_alone() -> None:
    """Who seals with a key of his own, for another server, or sends rubbish that looks sealed, lets nobody in; nor does
    an answer in the open that a stranger signed."""

    def sealed(request: Request, curve: str = CURVE, to: str = "") -> bytes:
        return xkeys.seal(curve, to or request["nats"]["server_id"]["xkey"], answer(request).encode())

    def cut(request: Request) -> bytes:
        whole = sealed(request)
        return whole[:-1] + bytes([whole[-1] ^ 1])

    other = xkeys.public_of(new_seed(xkeys.PREFIX_CURVE))
    judges: dict[str, Judge] = {
        "another's seal": lambda request: sealed(request, new_seed(xkeys.PREFIX_CURVE)),
        "for another server": lambda request: sealed(request, to=other),
        "a bit is turned": cut,
        "half of it": lambda request: sealed(request)[:100],
        "the mark alone": lambda request: b"xkv1",
        "the mark and a megabyte": lambda request: b"xkv1" + bytes(MB - 4),
        "the mark and an open answer": lambda request: b"xkv1" + answer(request).encode(),
        "open, by a stranger": lambda request: answer(request, signer=STRANGER),
        "open, by a stranger for the issuer": REFUSED["signed by a stranger for the issuer"],
    }
    for kind in KINDS:
        with made(kind, f"xkey: {xkeys.public_of(CURVE)}") as server:
            assert {"whole": IN} == verdicts(server, {"whole": sealed})
            assert dict.fromkeys(judges, VIOLATION) == verdicts(server, judges)
            assert kind != LEAFD or unforged(server.log)


# ---- who asks and who answers


def test_only_the_services_account_hears_and_answers(server: Server) -> None:
    """A user of another account neither hears a question or an answer nor asks one, whatever it subscribes to. Another
    user of the service's account hears them, and can refuse logins, but lets nobody in."""

    async def body() -> None:
        def place(request: Request) -> Answer:
            return placing("AUTH" if request["nats"]["connect_opts"].get("user") == "near" else "APP")(request)

        stolen: list[str] = []
        heard: list[str] = []

        async def hear(message: Msg) -> None:
            heard.append(message.subject)

        async with serving(server, place) as asked:
            far, near = [
                await nats.connect(server.url, user=name, password="x", allow_reconnect=False, error_cb=ignore)
                for name in ("far", "near")
            ]
            for subject in ("$SYS.REQ.USER.AUTH", "$SYS._INBOX.>", "$SYS.>", ">"):
                await far.subscribe(subject, cb=hear)
            await far.flush()
            before = len(asked)
            assert IN == await talk(server.port, {"user": "x"})
            await far.flush()
            assert ([], before + 1) == (heard, len(asked))
            for client in (far, near):
                await client.publish("$SYS.REQ.USER.AUTH", asked[0].data, reply="r")
                await client.flush()
            assert before + 1 == len(asked)

        async def forge(message: Msg) -> None:
            request = read(message.data.decode())
            stolen.append(message.reply)
            await near.publish(message.reply, answer(request, signer=STRANGER).encode())
            await far.publish(message.reply, answer(request).encode())

        await near.subscribe("$SYS.REQ.USER.AUTH", cb=forge)
        await near.flush()
        assert VIOLATION == await talk(server.port, {"user": "x"})
        assert 1 == len(stolen)
        await far.close()
        await near.close()

    play(body)


def test_what_a_login_says_writes_no_line(server: Server) -> None:
    """The service is told each name as it is, with lines' ends and all, and leafd's log has none as it is."""

    async def body() -> None:
        fields = dict.fromkeys(("user", "pass", "name", "lang", "version", "auth_token"), FORGED)
        for judge, expected in ((answer, IN), (lambda request: None, VIOLATION)):
            async with serving(server, judge) as asked:
                assert expected == await talk(server.port, dict(fields))
            claims = read(asked[0].data.decode())["nats"]
            assert fields | {"protocol": 0} == claims["connect_opts"]
            assert (FORGED, FORGED) == (claims["client_info"]["user"], claims["client_info"]["name"])

    play(body)
    assert server.kind != LEAFD or unforged(server.log)


@pytest.mark.parametrize("kind", KINDS)
def test_a_silent_service_holds_memory_of_nobody(kind: str) -> None:
    """A thousand logins that nothing is said about cost leafd under 25 KB each (nats-server 60 to 75); the service's
    own user logs in beside them, and all are refused in their time. (Another address: interop/test_callout.py.)"""

    async def body(server: Server) -> None:
        silent: Judge = lambda request: None  # noqa: E731
        async with serving(server, silent), asyncio.TaskGroup() as group:
            assert IN == await talk(server.port, {"user": "auth", "pass": "auth"})
            before = server.memory_bytes("RssAnon")
            began = time.monotonic()
            name = "n" * 3000
            strangers = [group.create_task(talk(server.port, {"user": "x", "name": name})) for _ in range(1000)]
            await asyncio.sleep(0.5)
            assert IN == await talk(server.port, {"user": "auth", "pass": "auth"})
            assert time.monotonic() - began < SILENT_S  # before the time of any of them is over
            if server.kind == LEAFD:  # a collector's heap has no bound of its own
                assert server.memory_bytes("RssAnon") - before < 1000 * 25_000
        assert all(stranger.result().startswith((b"-ERR", b"PING\r\n-ERR")) for stranger in strangers)

    with made(kind, seconds=SILENT_S) as server:
        play(lambda: body(server))


# ---- the service is taken away


def test_an_answer_after_the_service_was_taken_away_lets_nobody_in() -> None:
    """Logins that wait when a reload removes the callout are judged by what is left, whatever the service still says.
    nats-server refuses such a reload: a difference on purpose."""
    with made(LEAFD, seconds=2) as server:
        path = server.directory / "server.conf"

        async def body() -> None:
            client = await nats.connect(
                server.url, user="auth", password="auth", allow_reconnect=False, error_cb=ignore
            )
            asked: list[Msg] = []

            async def keep(message: Msg) -> None:
                asked.append(message)

            await client.subscribe("$SYS.REQ.USER.AUTH", cb=keep)
            await client.flush()
            logins = [("x", "y"), ("app", "wrong"), ("app", "app")]
            waiting = [asyncio.create_task(talk(server.port, {"user": a, "pass": b})) for a, b in logins]
            while len(asked) < len(logins):
                await asyncio.sleep(0.01)
            text = path.read_text()
            start = text.index("auth_callout")
            path.write_text(text[:start] + text[text.index("}", start) + 1 :])
            assert server.process is not None
            server.process.send_signal(signal.SIGHUP)
            while "Reloaded server configuration" not in server.log:
                await asyncio.sleep(0.02)
            await client.close()
            other: Client = await nats.connect(server.url, user="other", password="other", allow_reconnect=False)
            for message in asked:
                await other.publish(message.reply, str(answer(read(message.data.decode()))).encode())
            await other.close()
            assert [VIOLATION, VIOLATION, IN] == [await one for one in waiting]

        play(body)


# ---- accounts of JWTs


class Judged:
    """An operator whose account AUTH has the service, and may place users in APP."""

    def __init__(self) -> None:
        self.operator = Operator("O")
        self.auth, self.app, self.other = (self.operator.account(name) for name in ("AUTH", "APP", "OTHER"))
        self.signing, self.scoped = Key("account"), Key("account")
        self.service, self.person = self.auth.user("service"), self.auth.user("person")
        self.auth.nats["signing_keys"] = [self.signing.public]
        self.auth.nats["authorization"] = {
            "auth_users": [self.service.key.public], "allowed_accounts": [self.app.public],
        }  # fmt: skip
        template = USER_LIMITS | {"pub": {"allow": ["t.>"]}}
        self.app.nats["signing_keys"] = [
            {"kind": "user_scope", "key": self.scoped.public, "role": "r", "template": template}
        ]

    def admitted(self) -> dict[str, Judge]:
        own, app, issued = self.auth.key, self.app.key, {"issuer_account": self.auth.public}
        return {
            "the account's key": lambda r: answer(r, person(r, signer=app), own),
            "its signing key": lambda r: answer(r, person(r, signer=app), self.signing),
            "its signing key, which says so": lambda r: answer(
                r, signer=self.signing, body={"jwt": person(r, signer=app)} | issued
            ),
            "a user of the service's account": lambda r: answer(r, person(r, signer=own), own),
            "an audience means nothing": lambda r: answer(r, person(r, signer=app, aud="$SYS"), own),
        }

    def refused(self) -> dict[str, Judge]:
        own, app, issued = self.auth.key, self.app.key, {"issuer_account": self.auth.public}
        for_app = {"issuer_account": self.app.public}
        return {
            "a stranger for the account": lambda r: answer(
                r, signer=STRANGER, body={"jwt": person(r, signer=app)} | issued
            ),
            "an allowed account for the account": lambda r: answer(
                r, signer=app, body={"jwt": person(r, signer=app)} | issued
            ),
            "the account for a stranger": lambda r: answer(
                r, signer=own, body={"jwt": person(r, signer=app), "issuer_account": STRANGER.public}
            ),
            "an allowed account": lambda r: answer(r, person(r, signer=app), app),
            "the system account": lambda r: answer(r, person(r, signer=self.operator.system.key), own),
            "an account that is not allowed": lambda r: answer(r, person(r, signer=self.other.key), own),
            "an account that nobody knows": lambda r: answer(r, person(r, signer=STRANGER), own),
            "a stranger in an account's name": lambda r: answer(r, person(r, for_app, STRANGER), own),
            "the service's key in an account's name": lambda r: answer(r, person(r, for_app, own), own),
            "a scoped key's user with limits": lambda r: answer(r, person(r, for_app, self.scoped), own),
            "a proxy that has to vouch": lambda r: answer(r, person(r, {"proxy_required": True}, app), own),
            "an expired user": lambda r: answer(r, person(r, signer=app, exp=NOW - 2), own),
            "a user of tomorrow": lambda r: answer(r, person(r, signer=app, nbf=NOW + 86400), own),
            "the operator": lambda r: answer(r, person(r, signer=app), self.operator.key),
        }


@pytest.mark.parametrize("kind", KINDS)
def test_a_service_of_an_account_places_users_where_it_may(kind: str) -> None:
    """In operator mode who signs an answer is its signer, whoever's name it has; and nobody gets into an account that
    does not sign its user."""
    judged = Judged()
    with servers.running(kind, HEAD + judged.operator.configuration()) as server:
        file = judged.service.creds(server.directory / "service")

        async def heard(judge: Judge) -> bytes:
            client: Client = await nats.connect(server.url, user_credentials=str(file), allow_reconnect=False)
            async with judging(client, judge):
                return await talk(server.port, {"jwt": judged.person.token, "signing": judged.person.key.seed})

        async def body() -> None:
            found = {name: await heard(judge) for name, judge in (judged.admitted() | judged.refused()).items()}
            assert dict.fromkeys(judged.admitted(), IN) | dict.fromkeys(judged.refused(), VIOLATION) == found

        play(body)
        assert "nexpected error" not in server.log
