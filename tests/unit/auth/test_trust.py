"""Operator mode's verdicts: which JWTs let somebody in, and as whom. test_operator.py of tests/interop asks nats-server
the same."""

from __future__ import annotations

import time
from typing import Any

import pytest
from leafd.auth.jwt import JwtError
from leafd.auth.jwt_claims import UserLimits
from leafd.auth.operators import read_account, read_operators
from leafd.auth.policy import Policy, Rights
from leafd.auth.scopes import SUBJECTS_MAX
from leafd.auth.trust import Denied, Trust
from leafd.auth.verdict import Refusal, Verdict, judge_again, judge_client
from leafd.errors import ConfigError

from tests.jwts import Account, Key, Operator, User, encode

NONCE = "SHvuptVUTR3Oa8s"
NOW = 1_800_000_000.0


class World:
    """An operator with two accounts, as a server trusts them."""

    def __init__(self, **operator: Any) -> None:
        self.operator = Operator("O", **operator)
        self.a = self.operator.account("A", disk_storage=-1)
        self.other = Operator("X").account("XA")

    def policy(self, now_s: float | None = None, **more: Any) -> Policy:
        keys = read_operators((self.operator.token(),), ()).keys
        accounts = {one.public: read_account(one.token(), keys) for one in self.operator.accounts}
        trust = Trust(keys, accounts, clock=lambda: time.time() if now_s is None else now_s, **more)
        return Policy({}, {}, open=False, trust=trust)

    def judge(self, user: User, *, now_s: float | None = None, host: str = "127.0.0.1", **more: Any) -> Any:
        return judge_client(user.connect(NONCE) | more, NONCE, self.policy(now_s), host=host)


@pytest.fixture
def world() -> World:
    return World()


def why(found: Verdict | Refusal) -> str:
    assert isinstance(found, Refusal), found
    assert found.text == "Authorization Violation"
    return found.why


def test_a_user_of_an_account_is_let_in(world: World) -> None:
    """Who it is is its key, and where it belongs is its account's."""
    user = world.a.user("u", pub={"allow": ["x.>"]}, sub={"deny": ["y"]}, payload=10, subs=3)
    found = world.judge(user)

    assert (world.a.public, user.key.public) == (found.account, found.user)
    assert Rights(("x.>",), (), (), ("y",)) == found.rights
    assert (10, 3, 0) == (found.max_payload, found.max_subscriptions, found.expires_ns)


def test_without_a_jwt_nobody_is(world: World) -> None:
    """Users and passwords are no logins with an operator, nor is a JWT without a signature of the nonce."""
    user = world.a.user("u")
    for connect in ({}, {"user": "u", "pass": "p"}, {"nkey": user.key.public, "sig": "x"}, {"jwt": user.token}):
        refused = judge_client(connect, NONCE, world.policy())
        assert isinstance(refused, Refusal)
        assert "Authorization Violation" == refused.text
    assert "not signed by the user's key" in why(world.judge(user, sig=world.a.user("v").connect(NONCE)["sig"]))
    assert "not signed by the user's key" in why(judge_client(user.connect("n2"), NONCE, world.policy()))


def test_another_operators_accounts_are_unknown(world: World) -> None:
    """A JWT that is signed, but by an account of which nothing is known, names that account."""
    found = world.judge(world.other.user("u"))

    assert world.other.public == found.unknown
    with pytest.raises(JwtError, match="trusted operator"):
        read_account(world.other.token(), read_operators((world.operator.token(),), ()).keys)


def test_signing_keys_sign_for_their_owners(world: World) -> None:
    """An operator's signing key vouches for accounts, an account's for users; a stranger's does not."""
    key = Key("account")
    stranger = world.a.user("u", signer=Key("account"))
    world.a.nats["signing_keys"] = [key.public]
    assert isinstance(world.judge(world.a.user("u", signer=key)), Verdict)
    assert "not signed by its account" in why(world.judge(stranger))

    key = Key("operator")
    operator = Operator("O", signing_keys=[key.public], strict_signing_key_usage=True)
    keys = read_operators((operator.token(),), ()).keys
    account = operator.account("A")
    assert account.public == read_account(account.token(signer=key), keys).claims.sub
    with pytest.raises(JwtError):  # strict: the operator's own key does not sign
        read_account(account.token(), keys)


def test_expired_and_not_yet_valid(world: World) -> None:
    """Times of user and account count; the time at which a login ends is in the verdict."""
    exp = int(NOW) + 10
    user = world.a.user("u", outer={"exp": exp})
    assert exp * 1_000_000_000 == world.judge(user, now_s=NOW).expires_ns
    assert "has expired" in why(world.judge(user, now_s=exp))
    assert "not valid yet" in why(world.judge(world.a.user("u", outer={"nbf": int(NOW) + 1}), now_s=NOW))
    world.a.outer["exp"] = exp
    assert "account's JWT has expired" in why(world.judge(world.a.user("u"), now_s=exp))


def test_revoked(world: World) -> None:
    """A revocation takes what was issued until then, of one user or of all."""
    user = world.a.user("u", outer={"iat": 1000})
    for name in (user.key.public, "*"):
        world.a.nats["revocations"] = {name: 999}
        assert isinstance(world.judge(user), Verdict)
        world.a.nats["revocations"] = {name: 1000}
        assert "revoked" == why(world.judge(user))


@pytest.mark.parametrize(
    ("networks", "host", "admitted"),
    [
        (["10.0.0.0/8", "127.0.0.1/32"], "127.0.0.1", True),
        (["10.0.0.0/8"], "127.0.0.1", False),
        (["::1/128"], "::1", True),
        (["10.0.0.0/8"], "::ffff:10.1.1.1", True),
        (["10.0.0.0/8"], "", False),
        (["nonsense"], "127.0.0.1", False),
    ],
)
def test_source_networks(world: World, networks: list[str], host: str, admitted: bool) -> None:
    """A user with networks connects from these."""
    assert admitted == isinstance(world.judge(world.a.user("u", src=networks), host=host), Verdict)


@pytest.mark.parametrize(
    ("start", "end", "zone", "ends"),
    [
        ("07:00:00", "09:00:00", "", 3600),
        ("08:00:01", "09:00:00", "", None),
        ("08:30:00", "11:00:00", "Europe/Berlin", 7200),
        ("22:00:00", "08:30:00", "", 1800),
        ("07:00:00", "22:00:00", "Nowhere/Land", None),
        ("7", "9", "", None),
    ],
)
def test_times_of_the_day(world: World, start: str, end: str, zone: str, ends: int | None) -> None:
    """A user with times connects within them, by the clock of its zone, and is closed at their end."""
    eight = 1_800_000_000 - 1_800_000_000 % 86400 + 8 * 3600
    user = world.a.user("u", times=[{"start": start, "end": end}], times_location=zone)
    found = world.judge(user, now_s=eight)

    if ends is None:
        assert "times of the day" in why(found)
    else:
        assert (eight + ends) * 1_000_000_000 == found.expires_ns


def test_connection_types(world: World) -> None:
    """Names that nobody knows allow nothing."""
    assert isinstance(world.judge(world.a.user("u", allowed_connection_types=["standard", "LATER"])), Verdict)
    for types in (["WEBSOCKET"], ["LATER"]):
        assert "may not connect as" in why(world.judge(world.a.user("u", allowed_connection_types=types)))


def test_bearer_tokens(world: World) -> None:
    """A bearer token needs no signature of the nonce, unless its account takes none."""
    user = world.a.user("u", bearer_token=True)
    assert isinstance(judge_client({"jwt": user.token}, NONCE, world.policy()), Verdict)
    world.a.limits["disallow_bearer"] = True
    assert "no bearer tokens" in why(world.judge(user))


def test_a_sentinel_stands_for_those_who_bring_none(world: World) -> None:
    """Whoever has no JWT is the default sentinel, where there is one."""
    user = world.a.user("s", bearer_token=True)
    found = judge_client({}, NONCE, world.policy(sentinel=user.token))

    assert isinstance(found, Verdict)
    assert user.key.public == found.user


def test_pinned_accounts(world: World) -> None:
    """Of accounts that are not pinned nobody logs in."""
    pinned = world.policy(pinned=frozenset({world.operator.system.public}))
    assert "not pinned" in why(judge_client(world.a.user("u").connect(NONCE), NONCE, pinned))


def test_default_permissions(world: World) -> None:
    """A user without any has those of its account."""
    world.a.nats["default_permissions"] = {"pub": {"allow": ["d.>"]}, "resp": {"max": 0, "ttl": 0}}
    assert Rights(("d.>",), (), (), (), 1, 120_000_000_000) == world.judge(world.a.user("u")).rights
    assert Rights((), (), (), ("y",)) == world.judge(world.a.user("u", sub={"deny": ["y"]})).rights
    only_answers = world.judge(world.a.user("u", resp={"max": -1, "ttl": -1})).rights
    assert Rights((), (">",), (), (), (1 << 32) - 1, 0) == only_answers


# ---- scopes


def scoped(world: World, template: dict[str, Any], name: str = "box-1", tags: tuple[str, ...] = (), **nats: Any) -> Any:
    key = Key("account")
    world.a.nats["signing_keys"] = [{"kind": "user_scope", "key": key.public, "role": "r", "template": template}]
    user = world.a.user(name, signer=key, scoped=True, tags=list(tags), **nats)
    return user, world.judge(user)


def test_a_scoped_key_gives_its_template(world: World) -> None:
    """Names, subjects and tags stand in for their places; tags multiply."""
    world.a.nats["tags"] = ["site:north"]
    template = {
        "pub": {"allow": ["{{name()}}.>", "{{ Tag(region) }}.{{account-tag(site)}}", "u.{{subject()}}", "plain"]},
        "sub": {"allow": ["{{account-name()}}.x", "{{account-subject()}}.x"], "deny": ["{{tag(region)}}.no"]},
        "subs": 5,
        "payload": 100,
    }
    user, found = scoped(world, template, tags=("region:eu", "region:us"))

    publish = ("box-1.>", "eu.north", "us.north", f"u.{user.key.public}", "plain")
    assert Rights(publish, (), ("A.x", f"{world.a.public}.x"), ("eu.no", "us.no")) == found.rights
    assert (5, 100) == (found.max_subscriptions, found.max_payload)


def test_a_template_that_says_nothing_of_limits_sets_none(world: World) -> None:
    """nsc leaves them out of it, and nats-server lets such a user subscribe; in a user's own JWT they would be 0."""
    _, found = scoped(world, {"sub": {"allow": ["commands.>"]}})

    assert Rights((), (), ("commands.>",), ()) == found.rights
    assert (-1, -1) == (found.max_subscriptions, found.max_payload)


def test_places_that_nothing_fills(world: World) -> None:
    """An allowed subject that cannot be made is left out, and when none is left nothing is allowed; a denied one that
    cannot be made refuses the login."""
    _, found = scoped(world, {"pub": {"allow": ["{{tag(x)}}.a", "b"]}, "sub": {"allow": ["{{tag(x)}}.a"]}})
    assert Rights(("b",), (), (), (">",)) == found.rights
    assert "denied" in why(scoped(world, {"pub": {"deny": ["{{tag(x)}}.a"]}})[1])
    assert "not known" in why(scoped(world, {"pub": {"allow": ["{{magic()}}.a"]}})[1])


def test_tags_multiply_within_bounds(world: World) -> None:
    """A template that comes to more subjects than anybody needs refuses the login."""
    tags = tuple(f"t:{number}" for number in range(SUBJECTS_MAX // 60))
    assert "more than" in why(scoped(world, {"pub": {"allow": ["{{tag(t)}}.{{tag(t)}}"]}}, tags=tags)[1])


def test_a_scoped_user_has_no_limits_of_its_own(world: World) -> None:
    """A user that a scoped key has signed may not bring any."""
    for own in ({"subs": 1}, {"pub": {"allow": ["x"]}}, {"bearer_token": True}):
        assert "limits of its own" in why(scoped(world, {}, **own)[1])


# ---- afterwards


def test_after_a_change_of_the_account(world: World) -> None:
    """Somebody who is logged in hears why that ends, and keeps the login with other rights where it does not."""
    key = Key("account")
    world.a.nats["signing_keys"] = [key.public]
    user = world.a.user("u", signer=key)
    before = world.judge(user)
    old = world.policy()

    def now(now_s: float | None = None) -> Any:
        return judge_again({}, old, world.policy(now_s), "STANDARD", proof=before.proof, host="127.0.0.1")

    assert before == now()
    world.a.nats["default_permissions"] = {"pub": {"allow": ["d"]}}
    assert ("d",) == now().rights.publish_allow
    world.a.nats["revocations"] = {user.key.public: int(time.time()) + 1}
    assert "User Authentication Revoked" == now().text
    del world.a.nats["revocations"]
    world.a.outer["exp"] = int(NOW)
    assert "Account Authentication Expired" == now(NOW).text
    del world.a.outer["exp"]
    del world.a.nats["signing_keys"]
    assert "" == now().text


# ---- operators and accounts


def test_operators_of_a_configuration(tmp_path: Any) -> None:
    """A JWT or the file that holds one; what is neither is an error that says what to do."""
    operator = Operator("O")
    file = tmp_path / "o.jwt"
    file.write_text(f"-----BEGIN JWT-----\n{operator.token()}\n-----END JWT-----\n")
    found = read_operators((str(file),), ())
    assert (frozenset({operator.key.public}), operator.system.public) == (found.keys, found.system_account)
    for text, reason in ((str(tmp_path / "no"), "cannot be read"), (operator.system.token(), "nats.type")):
        with pytest.raises(ConfigError, match=reason):
            read_operators((text,), ())
    with pytest.raises(ConfigError, match="trusted_keys"):
        read_operators((), (operator.system.public,))


@pytest.mark.parametrize(
    ("nats", "reason"),
    [
        (
            {"exports": [{"subject": "a.>", "type": "service"}, {"subject": "a.b", "type": "service"}]},
            "already exports",
        ),
        ({"exports": [{"subject": "a..b", "type": "service"}]}, "no valid subject"),
        ({"exports": [{"subject": "a", "type": "queue"}]}, "neither stream nor service"),
        ({"exports": [{"subject": "a.b", "type": "stream", "account_token_position": 2}]}, "account_token_position"),
        ({"imports": [{"subject": "a", "type": "stream"}]}, "account: missing"),
        ({"mappings": {"a": [{"subject": "b", "weight": 60}, {"subject": "c", "weight": 60}]}}, "more than 100"),
        ({"signing_keys": ["OABC"]}, "not a public nkey"),
        ({"default_permissions": {"pub": {"allow": ["a b"]}}}, "no valid subject"),
    ],
)
def test_accounts_with_faults(world: World, nats: dict[str, Any], reason: str) -> None:
    """An account whose JWT breaks a rule cannot be used, and the reason is known."""
    world.a.nats |= nats
    assert reason in why(world.judge(world.a.user("u")))


@pytest.mark.parametrize("limits", [{"exports": 0}, {"exports": 9, "wildcards": False}, {"imports": 0}])
def test_the_operators_limits(world: World, limits: dict[str, Any]) -> None:
    """What an operator does not allow an account to export or import makes its JWT unusable."""
    world.a.export("a.>").imported(world.operator.system, "x")
    assert isinstance(world.judge(world.a.user("u")), Verdict)
    world.a.limits |= limits
    assert "allowed by the operator" in why(world.judge(world.a.user("u")))


def test_nothing_of_a_token_is_in_the_reasons(world: World) -> None:
    """Reasons go to the log, and tokens and signatures do not."""
    user = world.a.user("u")
    for sent in (user.token[:-5], f"{user.token}x", user.token.replace(".", "")):
        reason = why(judge_client({"jwt": sent, "sig": "secret"}, NONCE, world.policy()))
        assert sent[:20] not in reason
        assert "secret" not in reason


def test_limits_are_those_of_the_reference() -> None:
    """A user's template has no limit that its JWT cannot have."""
    assert {"pub", "sub", "resp", "src", "times", "locale", "subs", "data", "payload", "bearer_token", "proxy_required",
            "allowed_connection_types"} == set(UserLimits.__match_args__)  # fmt: skip


def test_a_jwt_is_not_taken_for_another(world: World) -> None:
    """An account's or an activation's JWT lets nobody in, whoever has signed it."""
    account: Account = world.a
    for token in (account.token(signer=account.key), account.activation(account, "x", "stream")):
        assert "nats.type" in why(judge_client({"jwt": token, "sig": "x"}, NONCE, world.policy()))
    forged = encode({"sub": Key("user").public, "nats": {"type": "user"}}, Key("operator"))
    assert "iss" in why(judge_client({"jwt": forged, "sig": "x"}, NONCE, world.policy()))


def test_denied_is_no_error_of_the_program() -> None:
    """What refuses a login is an exception of its own."""
    with pytest.raises(Denied):
        Trust(frozenset()).judge("", "n", "s", "STANDARD", "")
