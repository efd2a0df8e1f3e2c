"""JWTs as text: what is taken, and that whatever else comes is refused with a reason and nothing else happens."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from leafd.auth.jwt import TOKEN_MAX, JwtError, read
from leafd.auth.jwt_claims import AccountClaims, Claims, OperatorClaims, UserClaims

from tests.jwts import Key, Operator, b64, encode

OPERATOR = Operator("O")
ACCOUNT = OPERATOR.account("A", disk_storage=-1)
USER = ACCOUNT.user("u", pub={"allow": ["x.>"]}, src="10.0.0.0/8,::1/128")
TOKENS = {OperatorClaims: OPERATOR.token(), AccountClaims: ACCOUNT.token(), UserClaims: USER.token}


def test_claims_are_read_with_their_types() -> None:
    """Operators, accounts and users are read as what they say."""
    assert ("O", OPERATOR.system.public) == (
        (operator := read(OperatorClaims, TOKENS[OperatorClaims])).name,
        operator.nats.system_account,
    )
    account = read(AccountClaims, TOKENS[AccountClaims])
    assert (ACCOUNT.public, OPERATOR.key.public, -1, 0) == (
        account.sub,
        account.iss,
        account.nats.limits.disk_storage,
        account.nats.limits.mem_storage,
    )
    user = read(UserClaims, TOKENS[UserClaims])
    assert (ACCOUNT.public, ("x.>",), ("10.0.0.0/8", "::1/128")) == (user.account, user.nats.pub.allow, user.nats.src)


def test_version_1_is_read() -> None:
    """A token of the first version has its type outside, and only its claims are signed."""
    claims = {"sub": Key("user").public, "name": "old", "type": "user", "nats": {"subs": -1}}

    assert "old" == read(UserClaims, encode(claims, ACCOUNT.key, alg="ed25519")).name


@pytest.mark.parametrize("struct", TOKENS)
def test_any_other_character_is_refused(struct: type[Claims]) -> None:
    """A token with one character changed is no token."""
    token = TOKENS[struct]
    for at in range(0, len(token), max(len(token) // 60, 1)):
        if at == len(token) - 1:
            continue  # its last bits are not part of the signature
        other = token[:at] + ("A" if token[at] != "A" else "B") + token[at + 1 :]
        with pytest.raises(JwtError):
            read(struct, other)


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"nats": {"type": "account", "version": 3}}, "nats.version is 3"),
        ({"nats": {"type": "user", "version": 2}}, "nats.type is 'user'"),
        ({"nats": {"type": "account", "limits": {"conn": "many"}}}, "nats.limits.conn"),
        ({"nats": {"type": "account", "exports": [{"subject": 5}]}}, "nats.exports.0.subject"),
        ({"nats": {"type": "account", "revocations": {"*": "x"}}}, "nats.revocations.*"),
        ({"sub": "U" * 56}, "sub: "),
        ({"iss": ACCOUNT.user("x").key.public}, "iss: "),
        ({"exp": 1 << 70}, "exp"),
    ],
)
def test_errors_say_where_and_what(claims: dict[str, Any], reason: str) -> None:
    """What is wrong is named with its place."""
    whole = {"sub": ACCOUNT.public, "nats": {"type": "account", "version": 2}} | claims
    with pytest.raises(JwtError) as error:
        read(AccountClaims, encode(whole, OPERATOR.key))

    assert reason in str(error.value)


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        ("", "expected 3 chunks"),
        ("a.b", "expected 3 chunks"),
        ("a.b.c.d", "expected 3 chunks"),
        ("a.b.c", "not base64url"),
        ("e30.e30.e30=", "typ is"),
        (f"{b64(b'[]')}.e30.AAAA", "header"),
        (f"{b64(json.dumps({'typ': 'JWT', 'alg': 'none'}).encode())}.e30.AAAA", "alg is 'none'"),
        ("x" * (TOKEN_MAX + 1), "at most"),
    ],
)
def test_what_is_no_jwt(token: str, reason: str) -> None:
    """Text that is none is refused before any signature is looked at."""
    with pytest.raises(JwtError) as error:
        read(UserClaims, token)

    assert reason in str(error.value)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
_FIELDS = st.sampled_from(
    ["type", "version", "limits", "imports", "exports", "signing_keys", "revocations", "mappings", "pub", "sub", "resp",
     "times", "src", "tags", "issuer_account", "default_permissions", "authorization", "allowed_connection_types"]
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(nats=st.dictionaries(_FIELDS, _JSON, max_size=6), struct=st.sampled_from([AccountClaims, UserClaims]))
def test_any_claims_are_read_or_refused(nats: dict[str, Any], struct: type[Claims]) -> None:
    """Whatever a signed body holds, it is read with its declared types, or refused: nothing else happens."""
    sub = ACCOUNT.public if struct is AccountClaims else USER.key.public
    nats.setdefault("type", struct.kind)
    try:
        claims = read(struct, encode({"sub": sub, "nats": nats}, ACCOUNT.key))
    except JwtError:
        return
    assert struct.kind == claims.declared


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda raw: f"{b64(raw)}.{b64(raw)}.{b64(raw)}"))
def test_any_text_is_refused(text: str) -> None:
    """No text that nobody signed is taken, and none raises anything else."""
    with pytest.raises(JwtError):
        read(UserClaims, text)
