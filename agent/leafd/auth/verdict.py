"""CONNECT + nonce + policy -> who it is and what it may do, or the -ERR text the reference would send.

Order of the checks, from the reference: nkey, then user and password, then token; the no_auth_user is for those who
sent none
of them. JWT (operator mode) is not here yet, so a CONNECT that brings only a JWT is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from leafd.auth.nkeys import verify
from leafd.auth.passwords import is_hash, matches
from leafd.auth.policy import GLOBAL_ACCOUNT, Person, Policy, Rights
from leafd.records import dataclass

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
    person = _claimed(connect, policy)
    if person is None or not _proven(connect, nonce, person):
        return Refusal(AUTHORIZATION_VIOLATION)
    return _verdict(person, kind)


def judge_again(connect: Mapping[str, Any], before: Policy, after: Policy, kind: str) -> Verdict | Refusal:
    """Who a login that was accepted is after a reload. Compares configurations, not passwords: a proof holds as long
    as what it was checked against stays the same, hashes are slow, and nobody has to log in again for a new limit.

    As in the reference, a user who is gone or in another account now is sent away without a word."""
    if after.open:
        return Verdict(GLOBAL_ACCOUNT, "")
    old, new = None if before.open else _claimed(connect, before), _claimed(connect, after)
    if old is None or new is None:
        return Refusal("" if old is not None and _names_somebody(connect) else AUTHORIZATION_VIOLATION)
    if old.name != new.name or (_proves_something(connect) and (old.password, old.nkey) != (new.password, new.nkey)):
        return Refusal(AUTHORIZATION_VIOLATION)
    if old.account != new.account:
        return Refusal("")
    return _verdict(new, kind)


def _names_somebody(connect: Mapping[str, Any]) -> bool:
    return bool(_text(connect, "nkey") or _text(connect, "user"))


def _proves_something(connect: Mapping[str, Any]) -> bool:
    return _names_somebody(connect) or bool(_text(connect, "auth_token") or _text(connect, "pass"))


def _claimed(connect: Mapping[str, Any], policy: Policy) -> Person | None:
    """Who the CONNECT says that it is, nothing proven yet."""
    nkey, user = _text(connect, "nkey"), _text(connect, "user")
    if nkey:
        return policy.nkeys.get(nkey)
    if user:
        return policy.users.get(user)
    if not _proves_something(connect):
        return policy.no_auth_user
    return Person("", GLOBAL_ACCOUNT, policy.token) if policy.token else None


def _proven(connect: Mapping[str, Any], nonce: str, person: Person) -> bool:
    if _text(connect, "nkey"):
        return bool(nonce) and verify(person.nkey, nonce, _text(connect, "sig"))
    if _text(connect, "user"):
        return matches(person.password, _text(connect, "pass"))
    if not _proves_something(connect):
        return True
    token = _text(connect, "auth_token")
    return bool(token) and matches(person.password, token)


def _verdict(person: Person, kind: str) -> Verdict | Refusal:
    if person.connection_types and kind not in person.connection_types:
        return Refusal(AUTHORIZATION_VIOLATION)
    return Verdict(person.account, person.name, person.rights)


def _text(connect: Mapping[str, Any], key: str) -> str:
    value = connect.get(key)
    return value if isinstance(value, str) else ""
