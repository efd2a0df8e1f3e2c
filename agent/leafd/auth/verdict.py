"""CONNECT + nonce + policy -> who it is and what it may do, or the -ERR text the reference would send.

Order of the checks, from the reference: nkey, then user and password, then token; the no_auth_user is for those who
sent none
of them. JWT (operator mode) is not here yet, so a CONNECT that brings only a JWT is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from leafd.auth.nkeys import verify
from leafd.auth.passwords import is_hash, matches
from leafd.auth.policy import GLOBAL_ACCOUNT, Person, Policy, Rights

AUTHORIZATION_VIOLATION: Final = "Authorization Violation"
BAD_PROTOCOL: Final = "invalid client protocol"
NEEDS_HEADERS: Final = "no responders requires headers support"
CLIENT_TYPE: Final = "STANDARD"
LEAF_TYPE: Final = "LEAFNODE"


@dataclass(frozen=True, slots=True)
class Verdict:
    """An admitted connection."""

    account: str
    user: str
    rights: Rights = field(default_factory=Rights)


@dataclass(frozen=True, slots=True)
class Refusal:
    """-ERR and close. authentication: it is the login that was wrong, not the protocol."""

    text: str
    authentication: bool = True


def judge_client(connect: Mapping[str, Any], nonce: str, policy: Policy) -> Verdict | Refusal:
    """A client's CONNECT."""
    protocol = connect.get("protocol", 0)
    if isinstance(protocol, int) and not 0 <= protocol <= 1:
        return Refusal(BAD_PROTOCOL, authentication=False)
    if connect.get("no_responders") and not connect.get("headers"):
        return Refusal(NEEDS_HEADERS, authentication=False)
    if connect.get("account") or connect.get("new_account"):
        return Refusal(AUTHORIZATION_VIOLATION)
    return identify(connect, nonce, policy, CLIENT_TYPE)


def takes_time(connect: Mapping[str, Any], policy: Policy) -> bool:
    """Whether identify() would check a hash, which is slow on purpose."""
    if policy.open or _text(connect, "nkey"):
        return False
    person = policy.users.get(_text(connect, "user"))
    if person is not None:
        return is_hash(person.password)
    return bool(not _text(connect, "user") and _text(connect, "auth_token") and is_hash(policy.token))


def identify(connect: Mapping[str, Any], nonce: str, policy: Policy, kind: str) -> Verdict | Refusal:
    """Who sent this CONNECT, for clients and leaf links alike."""
    if policy.open:
        return Verdict(GLOBAL_ACCOUNT, "")
    nkey, user, password, token = (_text(connect, key) for key in ("nkey", "user", "pass", "auth_token"))
    person: Person | None = None
    if nkey:
        person = policy.nkeys.get(nkey)
        if person is not None and not (nonce and verify(nkey, nonce, _text(connect, "sig"))):
            person = None
    elif user:
        person = policy.users.get(user)
        if person is not None and not matches(person.password, password):
            person = None
    elif token or password:
        if policy.token and token and matches(policy.token, token):
            return Verdict(GLOBAL_ACCOUNT, "")
    else:
        person = policy.no_auth_user
    if person is None or (person.connection_types and kind not in person.connection_types):
        return Refusal(AUTHORIZATION_VIOLATION)
    return Verdict(person.account, person.name, person.rights)


def _text(connect: Mapping[str, Any], key: str) -> str:
    value = connect.get(key)
    return value if isinstance(value, str) else ""
