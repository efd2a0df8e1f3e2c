"""CONNECT + nonce + policy -> who it is and what it may do, or the -ERR text the reference would send.

Order of the checks, from the reference: nkey, then the certificate (verify_and_map), then user and password, then
token; the no_auth_user is for those who sent none of them. In operator mode the JWT alone decides (trust.py), which is
loaded then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from leafd.auth.nkeys import verify
from leafd.auth.passwords import is_hash, matches
from leafd.auth.policy import GLOBAL_ACCOUNT, Callout, Person, Policy, Rights
from leafd.records import dataclass

if TYPE_CHECKING:
    from leafd.auth.jwt_claims import UserClaims
    from leafd.certificates import Certificate

    Proof: TypeAlias = "UserClaims | Called"
    """In operator mode: the user of its JWT, whose signatures were checked. Else: what the callout service said."""

AUTHORIZATION_VIOLATION: Final = "Authorization Violation"
BAD_PROTOCOL: Final = "invalid client protocol"
NEEDS_HEADERS: Final = "no responders requires headers support"
CLIENT_TYPE: Final = "STANDARD"
WEB_TYPE: Final = "WEBSOCKET"
MQTT_TYPE: Final = "MQTT"
MQTT_WEB_TYPE: Final = "MQTT_WS"
SHOWN_TYPES: Final = {CLIENT_TYPE: "nats", WEB_TYPE: "websocket", MQTT_TYPE: "mqtt", MQTT_WEB_TYPE: "mqtt"}
"""The names that reports have for a client's kind of connection."""
LEAF_TYPE: Final = "LEAFNODE"
LEAF_WEB_TYPE: Final = "LEAFNODE_WS"
LEAF_TYPES: Final = (LEAF_TYPE, LEAF_WEB_TYPE)


@dataclass(frozen=True, slots=True)
class Verdict:
    """An admitted connection. -1: no limit but that of account and server. expires_ns: wall time, 0 for never."""

    account: str
    user: str
    rights: Rights = field(default_factory=Rights)
    max_payload: int = -1
    max_subscriptions: int = -1
    expires_ns: int = 0
    proof: Proof | None = None
    """Evidence that a reload needs to judge this login again, where the configuration is not enough."""


@dataclass(frozen=True, slots=True)
class Called:
    """The verdict of a callout service, which is not asked again while the configuration names the same service."""

    callout: Callout
    claims: UserClaims
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Refusal:
    """-ERR and close. authentication: it is the login that was wrong, not the protocol. why: for the log. unknown: the
    account of which nothing is known, in operator mode; when that is found out, the CONNECT can be judged again."""

    text: str
    authentication: bool = True
    why: str = ""
    unknown: str = ""


def judge_client(
    connect: Mapping[str, Any],
    nonce: str,
    policy: Policy,
    certificate: Certificate | None = None,
    host: str = "",
    kind: str = CLIENT_TYPE,
) -> Verdict | Refusal:
    """A client's CONNECT from that address. certificate: the one it has shown and that is trusted."""
    protocol = connect.get("protocol", 0)
    if isinstance(protocol, int) and not 0 <= protocol <= 1:
        return Refusal(BAD_PROTOCOL, authentication=False)
    if connect.get("no_responders") and not connect.get("headers"):
        return Refusal(NEEDS_HEADERS, authentication=False)
    if connect.get("account") or connect.get("new_account"):
        return Refusal(AUTHORIZATION_VIOLATION)
    return identify(connect, nonce, policy, kind, certificate, host)


def takes_time(connect: Mapping[str, Any], policy: Policy, certificate: Certificate | None = None) -> bool:
    """Whether identify() would check a hash, which is slow on purpose, or signatures."""
    if policy.trust is not None:
        return True
    if policy.open or _by_nkey(connect, policy):
        return False
    if _by_certificate(connect, policy):
        return certificate is not None and any(is_hash(one.password) for one in policy.users.values())
    if policy.token:
        return bool(_text(connect, "auth_token") and is_hash(policy.token))
    person = policy.users.get(_text(connect, "user"))
    return person is not None and is_hash(person.password)


def identify(
    connect: Mapping[str, Any],
    nonce: str,
    policy: Policy,
    kind: str,
    certificate: Certificate | None = None,
    host: str = "",
) -> Verdict | Refusal:
    """The verdict on a CONNECT from that address, for clients and leaf links alike."""
    if policy.trust is not None:
        from leafd.auth.jwt_verdict import identify_jwt

        return identify_jwt(connect, nonce, policy.trust, kind, host)
    if policy.open:
        return Verdict(GLOBAL_ACCOUNT, "")
    person = _claimed(connect, policy, kind, certificate)
    if person is None or not _proven(connect, nonce, policy, person):
        return Refusal(AUTHORIZATION_VIOLATION)
    return _verdict(person, kind)


def judge_again(
    connect: Mapping[str, Any],
    before: Policy,
    after: Policy,
    kind: str,
    certificate: Certificate | None = None,
    proof: Proof | None = None,
    host: str = "",
) -> Verdict | Refusal:
    """The verdict after a reload on a login that was accepted before it. Compares configurations, not passwords: a
    proof holds as long as what it was checked against stays the same, hashes are slow, and nobody has to log in again
    for a new limit.

    As in the reference, a user who is gone or in another account now is sent away and told nothing. proof: of the
    verdict before."""
    if isinstance(proof, Called):
        from leafd.auth.callout import Login, let_in_again

        return let_in_again(proof, after, Login(0, host, kind, connect))
    if after.callout != before.callout:
        return Refusal("")
    if after.trust is not None or before.trust is not None:
        from leafd.auth.jwt_verdict import again_jwt

        return again_jwt(proof, after.trust, kind, host)
    if after.open:
        return Verdict(GLOBAL_ACCOUNT, "")
    old = None if before.open else _claimed(connect, before, kind, certificate)
    new = _claimed(connect, after, kind, certificate)
    if old is None or new is None:
        named = _names_somebody(connect, before) or _by_certificate(connect, before)
        return Refusal("" if old is not None and named else AUTHORIZATION_VIOLATION)
    proves = _proves_something(connect, after) or _by_certificate(connect, after)
    if old.name != new.name or (proves and (old.password, old.nkey) != (new.password, new.nkey)):
        return Refusal(AUTHORIZATION_VIOLATION)
    if new.name in after.certificate_only and new is not after.no_auth_user:
        return Refusal(AUTHORIZATION_VIOLATION)
    if old.account != new.account:
        return Refusal("")
    return _verdict(new, kind)


def _names_somebody(connect: Mapping[str, Any], policy: Policy) -> bool:
    return _by_nkey(connect, policy) or bool(_text(connect, "user"))


def _proves_something(connect: Mapping[str, Any], policy: Policy) -> bool:
    return _names_somebody(connect, policy) or bool(_text(connect, "auth_token") or _text(connect, "pass"))


def _by_nkey(connect: Mapping[str, Any], policy: Policy) -> bool:
    # Where nobody has an nkey, one that is sent counts for nothing: a client may carry what other servers ask for.
    return bool(_text(connect, "nkey") and policy.nkeys)


def _by_certificate(connect: Mapping[str, Any], policy: Policy) -> bool:
    return policy.maps_certificates and bool(policy.users) and not _by_nkey(connect, policy)


def _claimed(connect: Mapping[str, Any], policy: Policy, kind: str, certificate: Certificate | None) -> Person | None:
    """The user that the CONNECT claims to be, with nothing proven yet."""
    nkey, user = _text(connect, "nkey"), _text(connect, "user")
    if _by_nkey(connect, policy):
        return policy.nkeys.get(nkey)
    if _by_certificate(connect, policy):
        if not _proves_something(connect, policy) and policy.no_auth_user is not None and policy.no_auth_user.nkey:
            return policy.no_auth_user
        if certificate is None:
            return None
        from leafd.auth.certificate_map import mapped_user  # here: without such a map none of it is needed

        return mapped_user(certificate, policy.users, partial(_may, kind), plain_names=policy.plain_names)
    if not _proves_something(connect, policy):
        return policy.no_auth_user
    if policy.token:  # it decides, whatever else is sent: a client may carry what it needs for several servers
        return Person("", GLOBAL_ACCOUNT, policy.token)
    return policy.users.get(user) if user else None


def _proven(connect: Mapping[str, Any], nonce: str, policy: Policy, person: Person) -> bool:
    if _by_nkey(connect, policy):
        return bool(nonce) and verify(person.nkey, nonce, _text(connect, "sig"))
    if _by_certificate(connect, policy) and not person.nkey:  # the password, if it has one, comes on top of it
        return matches(person.password, _text(connect, "pass"))
    if person.name in policy.certificate_only and person is not policy.no_auth_user:
        return False
    if not _proves_something(connect, policy):
        return True
    if policy.token:
        token = _text(connect, "auth_token")
        return bool(token) and matches(person.password, token)
    return matches(person.password, _text(connect, "pass"))


def _may(kind: str, person: Person) -> bool:
    return not person.connection_types or kind in person.connection_types


def _verdict(person: Person, kind: str) -> Verdict | Refusal:
    if not _may(kind, person):
        return Refusal(AUTHORIZATION_VIOLATION)
    return Verdict(person.account, person.name, person.rights)


def _text(connect: Mapping[str, Any], key: str) -> str:
    value = connect.get(key)
    return value if isinstance(value, str) else ""
