"""JWTs that are signed as they should be and say anything: an operator, an account or a user is the attacker.

Each case changes a few places of a JWT that is well, signs it anew and has it judged whole: read, trusted, compiled
into the graph of accounts, made a login. It is let in or refused with a reason; nothing else happens, and not for long.
The cases follow from a seed, which a failure prints (LEAFD_JWT_SEED plays it again, LEAFD_JWT_CASES says how many).
What is no JWT at all is in test_jwt.py.
"""

from __future__ import annotations

import copy
import json
import os
import random
import time
from collections.abc import Iterator
from typing import Any

from leafd.accounts.claims import ClaimedAccounts
from leafd.accounts.graph import Numbers
from leafd.auth.jwt import JwtError
from leafd.auth.operators import read_account, read_operators
from leafd.auth.policy import Policy
from leafd.auth.trust import Trust
from leafd.auth.verdict import Refusal, Verdict, judge_client
from leafd.errors import ConfigError

from tests.jwts import Account, Key, Operator, b64, encode

CASES = int(os.environ.get("LEAFD_JWT_CASES", "400"))
SEED = int(os.environ.get("LEAFD_JWT_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 32)
LONGEST_S = 5.0
NONCE = "SHvuptVUTR3Oa8s"
TIERS: dict[str, Any] = {"tiered_limits": {"R1": {"disk_storage": 100, "streams": -1}, "R3": {"mem_storage": -1}}}
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 1 << 31, 1 << 63, -(1 << 63), 1 << 64, 1 << 200, 0.5, 1e308, -0.0, "", " ", "*",
    ">",
    "a..b", ".", "a.*.>", "$JS.API.>", "a b", "\x00", "\ud800", "é" * 50, "x" * 70_000, "{{subject()}}", "{{tag(x)}}",
    "$1.$2", "{{wildcard(9)}}", "user", "account", "operator", "ed25519", "U" * 56, [], [[]], {}, {"": None},
    [None] * 50,
    {"allow": [">"]}, {"*": 1}, ["a"] * 3000, {"a": {"a": {"a": {"a": []}}}}, "10.0.0.0/99", "25:61:61", "Mars/Base",
)  # fmt: skip


class World:
    """An operator, two accounts that share with each other, a user with every right there is."""

    def __init__(self) -> None:
        self.operator = Operator("O")
        self.signer = Key("account")
        self.a, self.b = (self.operator.account(name, **TIERS) for name in "AB")
        template = {"pub": {"allow": ["{{name()}}.>", "{{tag(t)}}.x"]}, "sub": {"deny": ["y"]}, "subs": 5}
        self.b.export("s.*").export("t.*.>", "stream", account_token_position=2)
        self.a.imported(self.b, "s.x", local_subject="from.b").imported(self.b, "t.A.>", "stream")
        self.a.nats |= {
            "signing_keys": [{"kind": "user_scope", "key": self.signer.public, "role": "r", "template": template}],
            "revocations": {"*": 5},
            "mappings": {"m.*": [{"subject": "n.$1", "weight": 50}]},
            "default_permissions": {"pub": {"deny": ["z"]}},
            "trace": {"dest": "t.r", "sampling": 5},
        }
        self.user = Key("user")

    def user_claims(self) -> dict[str, Any]:
        body = {
            "type": "user", "version": 2, "subs": 5, "data": -1, "payload": 100, "src": ["127.0.0.0/8"],
            "tags": ["t:v"],
            "times": [{"start": "00:00:00", "end": "23:59:59"}], "times_location": "Europe/Oslo", "bearer_token": False,
            "pub": {"allow": ["a.>"], "deny": ["a.b"]}, "sub": {"allow": ["c q"]}, "resp": {"max": 3, "ttl": 5},
            "allowed_connection_types": ["STANDARD"], "issuer_account": self.a.public,
        }  # fmt: skip
        return {"sub": self.user.public, "name": "u", "nats": body}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The ways to every member."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in members:
        yield (*path, key)
        yield from places(inner, (*path, key))


def mutated(rng: random.Random, claims: dict[str, Any]) -> dict[str, Any]:
    """The same but for one to four places: another value, none, one more, or another place's."""
    found: dict[str, Any] = json.loads(json.dumps(claims))
    for _ in range(rng.randint(1, 4)):
        ways = list(places(found))
        if not ways:
            break
        way = rng.choice(ways)
        holder = found
        for step in way[:-1]:
            holder = holder[step]
        match rng.randrange(4):
            case 0:
                del holder[way[-1]]
            case 1 if isinstance(holder, list):
                holder.extend(copy.deepcopy(holder[way[-1]]) for _ in range(rng.choice((1, 40))))
            case 2:
                other: Any = found
                for step in rng.choice(ways):
                    if not isinstance(other, dict | list) or (isinstance(other, list) and step >= len(other)):
                        break
                    other = other.get(step) if isinstance(other, dict) else other[step]
                holder[way[-1]] = json.loads(json.dumps(other))
            case _:
                holder[way[-1]] = copy.deepcopy(rng.choice(ODD))
    return found


def judged(world: World, accounts: list[str], user: str) -> bool:
    """All that is done with JWTs, to the verdict: whether the user is let in."""
    keys = read_operators((world.operator.token(),), ()).keys
    trusted = {}
    for token in accounts:
        try:
            one = read_account(token, keys)
        except JwtError as error:
            assert str(error)
            assert len(str(error)) < 1000
            continue
        trusted[one.claims.sub] = one
    graph = ClaimedAccounts(Numbers(), system=world.operator.system.public, jetstream=True)
    graph.start(trusted.values())
    for row in graph.notes.values():
        assert all(isinstance(one, str) for one in row)
    policy = Policy({}, {}, open=False, trust=Trust(keys, trusted))
    connect = {"jwt": user, "sig": b64(world.user.sign(NONCE.encode()))}
    verdict = judge_client(connect, NONCE, policy, host="127.0.0.1")
    assert isinstance(verdict, Verdict | Refusal)
    if isinstance(verdict, Verdict):
        assert verdict.account in trusted
        assert -1 <= verdict.max_payload < 1 << 63
    return isinstance(verdict, Verdict)


def test_whatever_a_signed_jwt_says_is_taken_or_refused() -> None:
    """No claim of an operator's, account's or user's JWT raises an error that nobody foresaw, or takes seconds."""
    rng, world, let_in = random.Random(SEED), World(), 0
    for number in range(CASES):
        chosen = rng.choice((world.a, world.b, None))
        user = world.user_claims()
        signer = rng.choice((world.a.key, world.signer, world.b.key))
        if signer is world.signer:  # the template says all the rest
            scoped = ("type", "version", "tags", "issuer_account")
            user["nats"] = {name: user["nats"][name] for name in scoped}
        if chosen is None:
            user = mutated(rng, user)
        whole = [world.operator.system.token(), world.a.token(), world.b.token()]
        if chosen is not None:
            claims = {"sub": chosen.public, "name": chosen.name, "nats": json.loads(b64_body(chosen))["nats"]}
            whole[1 if chosen is world.a else 2] = encode(mutated(rng, claims), world.operator.key)
        began = time.process_time()
        try:
            let_in += judged(world, whole, encode(user, signer))
        except Exception as error:
            raise AssertionError(f"LEAFD_JWT_SEED={SEED}, case {number}: {error!r}") from error
        assert time.process_time() - began < LONGEST_S, f"LEAFD_JWT_SEED={SEED}, case {number}"
    assert 0 < let_in < CASES  # both ends are reached


def test_an_operators_jwt_is_taken_or_refused_with_a_line() -> None:
    """The same of the operator's own, which stands in the configuration."""
    rng, world = random.Random(SEED), World()
    body = {"type": "operator", "version": 2, "system_account": world.operator.system.public, "tags": ["x"],
            "signing_keys": [Key("operator").public], "strict_signing_key_usage": False,
            "operator_service_urls": ["nats://x"], "assert_server_version": "2.9.0"}  # fmt: skip
    for number in range(CASES):
        claims = mutated(rng, {"sub": world.operator.key.public, "name": "O", "nats": body})
        try:
            read_operators((encode(claims, world.operator.key),), ())
        except ConfigError as error:
            assert str(error)
        except Exception as error:
            raise AssertionError(f"LEAFD_JWT_SEED={SEED}, case {number}: {error!r}") from error


def b64_body(account: Account) -> bytes:
    """The claims of an account as JSON."""
    import base64

    part = account.token().split(".")[1]
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
