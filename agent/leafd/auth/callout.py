"""Auth callout: a service judges logins. It answers requests on $SYS.REQ.USER.AUTH in the account that the
configuration names, or, in operator mode, in each account whose JWT says so.

    CONNECT --judged by the configuration--> asks()? --question()--> header, payload: a JWT of this server
    what the service answers --answered()--> the user's claims --verdict_of() | trusted_verdict()--> Verdict

The request names a new user key, and the answer has to be for it, for this server and in time, so that none can be
used a second time. Users of `auth_users` (the service itself) are never asked about. The texts of errors are the
reference's; they are for the log, not for the client that tries to log in. Pure: sending, waiting and the number of
questions at a time are logins/callouts.py's business.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final

from leafd.auth import xkeys
from leafd.auth.connect import MQTT_CLIENT, claimed_user
from leafd.auth.jwt import JwtError, read
from leafd.auth.jwt_claims import Claims, UserClaims
from leafd.auth.jwt_verdict import rights_of
from leafd.auth.jwt_write import write
from leafd.auth.nkeys import PREFIX_ACCOUNT, PREFIX_SERVER, PREFIX_USER, is_public_key, new_seed, sign
from leafd.auth.policy import CALLOUT_SUBJECT, GLOBAL_ACCOUNT, Callout, Policy, Rights
from leafd.auth.trust import Denied, Trust, Unknown, check_kind, check_network, check_proxy, check_times, end_ns
from leafd.auth.verdict import LEAF_TYPES, SHOWN_TYPES, Called, Refusal, Verdict
from leafd.config.schema.permissions import is_subject
from leafd.gojson import INT, TEXT, Nested, Struct, wire
from leafd.records import dataclass

AUDIENCE: Final = "nats-authorization-request"
KEY_HEADER: Final = "Nats-Server-Xkey"
EVERY_ACCOUNT: Final = "*"
_JWT_PREFIX: Final = b"eyJ"
_SHOWN: Final = 100
_TLS_1_3: Final = 0x0304


class CalloutError(ValueError):
    """The login is refused because of what the service answered."""


@dataclass(frozen=True, slots=True)
class ResponseBody(Struct):
    """The nats part of an answer."""

    go_name: ClassVar[str] = "AuthorizationResponse"

    type: str = wire(TEXT, "type")
    version: int = wire(INT, "version")
    jwt: str = wire(TEXT, "jwt")
    error: str = wire(TEXT, "error")
    issuer_account: str = wire(TEXT, "issuer_account")


@dataclass(frozen=True, slots=True)
class ResponseClaims(Claims):
    """The answer of a callout service: a user's JWT, or an error."""

    go_name: ClassVar[str] = "AuthorizationResponseClaims"
    kind: ClassVar[str] = "authorization_response"

    nats: ResponseBody = wire(Nested(ResponseBody, pointer=False), "nats")


@dataclass(frozen=True, slots=True)
class ServerKeys:
    """This server's keys towards the callout service. seed: of the nkey that signs requests; curve: of the xkey that
    reads sealed answers."""

    id: str
    name: str
    host: str
    version: str
    seed: str
    curve: str
    cluster: str = ""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Login:
    """Somebody who wants in. connect: with what no_auth_user stands for. nonce: what the connection was to sign."""

    connection: int
    host: str
    kind: str
    connect: Mapping[str, Any]
    nonce: str = ""
    claims: UserClaims | None = None
    """In operator mode: of the user that it has proven to be."""
    tls: Handshake | None = None


@dataclass(frozen=True, slots=True)
class Handshake:
    """How it speaks TLS. certificate: that it has shown, DER; chain: those that vouch for it, one behind the other."""

    version: int
    cipher: str
    certificate: bytes = b""
    chain: bytes = b""
    resumed: bool = False
    """An earlier session goes on, of which only the certificate is known."""


@dataclass(frozen=True, slots=True)
class Question:
    """One request. user: the key that the answer has to be for."""

    user: str
    header: bytes
    payload: bytes


# ---- whom to ask about


def callout_of(policy: Policy, verdict: Verdict | Refusal) -> Callout | None:
    """The service that judges a login: the configuration's, or that of the account whose user has proven to be one.
    None: there is none."""
    trust = policy.trust
    if trust is None:
        return policy.callout
    return account_callout(trust, verdict.account) if isinstance(verdict, Verdict) else None


def account_callout(trust: Trust, name: str) -> Callout | None:
    """The callout service that an account's JWT names; None where it names none."""
    account = trust.accounts.get(name)
    if account is None or account.broken or (trust.pinned and name not in trust.pinned):
        return None
    found = account.claims.nats.authorization
    if not found.auth_users:
        return None
    allowed = frozenset(found.allowed_accounts)
    return Callout(name, name, frozenset(account.keys), frozenset(found.auth_users), found.xkey, allowed)


def presented(connect: Mapping[str, Any], policy: Policy) -> dict[str, Any]:
    """The CONNECT as the service sees it: a client that brings nothing brings what no_auth_user has. A JWT means
    nothing where the configuration has the users, and is not passed on."""
    found = dict(connect)
    if policy.trust is not None:
        found["jwt"] = _text(connect, "jwt") or policy.trust.sentinel
        return found
    found.pop("jwt", None)
    person = policy.no_auth_user
    if person is not None and not any(_text(connect, name) for name in ("nkey", "user", "pass", "auth_token")):
        found |= {"nkey": person.nkey} if person.nkey else {"user": person.name, "pass": person.password}
    return found


def asks(callout: Callout, login: Login, verdict: Verdict | Refusal) -> bool:
    """Whether the service has to judge what the configuration has judged."""
    if isinstance(verdict, Refusal) and not verdict.authentication:
        return False
    if isinstance(verdict, Verdict) and isinstance(verdict.proof, UserClaims):
        return verdict.proof.sub not in callout.auth_users
    if isinstance(verdict, Verdict) and login.kind not in LEAF_TYPES and verdict.account != GLOBAL_ACCOUNT:
        delegated = not callout.allowed_accounts or verdict.account in callout.allowed_accounts
        if not delegated:
            return False
    # With a certificate that is mapped the CONNECT may name anybody; without the proof of that it excuses nobody.
    claimed = claimed_user(login.connect)
    return claimed not in callout.auth_users or (isinstance(verdict, Verdict) and verdict.user != claimed)


# ---- asking


def question(callout: Callout, keys: ServerKeys, login: Login, timeout_s: float) -> Question:
    """The request about a login."""
    user = sign(new_seed(PREFIX_USER), "")[0]
    sealing = bool(callout.xkey)
    server = {
        "name": keys.name,
        "host": keys.host,
        "id": keys.id,
        "version": keys.version,
        "cluster": keys.cluster,
        "tags": list(keys.tags),
        "xkey": xkeys.public_of(keys.curve) if sealing else "",
    }
    now_s = int(time.time())
    token = write(
        "authorization_request",
        callout.issuer,
        {
            "server_id": {name: value for name, value in server.items() if value},
            "user_nkey": user,
            "client_info": _client(login),
            "connect_opts": _options(login.connect),
        }
        | ({"client_tls": _handshake(login.tls)} if login.tls is not None else {}),
        keys.seed,
        now_s,
        audience=AUDIENCE,
        expires=now_s + max(int(timeout_s), 1),
    ).encode()
    if not sealing:
        return Question(user, b"", token)
    header = f"NATS/1.0\r\n{KEY_HEADER}: {server['xkey']}\r\n\r\n".encode()
    return Question(user, header, xkeys.seal(keys.curve, callout.xkey, token))


def _client(login: Login) -> dict[str, Any]:
    leaf = login.kind in LEAF_TYPES
    claims = login.claims
    found = {
        "host": login.host,
        "id": login.connection,
        "user": claimed_user(login.connect) or (claims.sub if claims is not None else ""),
        "name": _text(login.connect, "name"),
        "tags": list(claims.nats.tags) if claims is not None else [],
        "name_tag": claims.name if claims is not None else "",
        "kind": "Leafnode" if leaf else "Client",
        "type": SHOWN_TYPES.get(login.kind, ""),
        "mqtt_id": _text(login.connect, MQTT_CLIENT),
        "nonce": login.nonce if _text(login.connect, "sig") else "",
    }
    return {name: value for name, value in found.items() if value}


def _handshake(tls: Handshake) -> dict[str, Any]:
    found: dict[str, Any] = {"version": "1.3" if tls.version >= _TLS_1_3 else "1.2", "cipher": tls.cipher}
    if tls.certificate:
        from leafd.certificates import pem, split  # here: without TLS none of it is needed

        chain = [pem(der) for der in split(tls.certificate + tls.chain)]
        found |= {"certs": chain} if tls.resumed else {"verified_chains": [chain]}
    return found


def _options(connect: Mapping[str, Any]) -> dict[str, Any]:
    names = ("jwt", "nkey", "sig", "auth_token", "user", "pass", "name", "lang", "version")
    found: dict[str, Any] = {name: _text(connect, name) for name in names if _text(connect, name)}
    protocol = connect.get("protocol")
    return found | {"protocol": protocol if isinstance(protocol, int) else 0}


# ---- the answer


def answered(callout: Callout, keys: ServerKeys, asked: Question, payload: bytes) -> UserClaims:
    """The user's claims of an answer. Raises CalloutError."""
    if not payload:
        raise CalloutError(f'Auth callout violation: "no reason supplied" on account "{callout.account}"')
    sealed = bool(callout.xkey) and not payload.startswith(_JWT_PREFIX)
    if sealed:
        try:
            payload = xkeys.unseal(keys.curve, callout.xkey, payload)
        except ValueError as error:
            where = f'on account "{callout.account}"'
            raise CalloutError(f"Error decrypting auth callout response {where}: {error}") from None
    response = _response(payload)
    if response.sub != asked.user:
        raise CalloutError("Auth callout violation: auth callout response is not for expected user")
    if response.aud != keys.id:
        raise CalloutError("Auth callout violation: auth callout response is not for server")
    body = response.nats
    if body.error:
        raise CalloutError(f"Auth callout service returned an error: {body.error}")
    # Only the service could seal it for this server.
    if not sealed:
        _check_signer(callout, response)
    try:
        claims = read(UserClaims, body.jwt)
    except JwtError as error:
        raise CalloutError(f"Error validating user JWT: {error}") from None
    if claims.sub != asked.user:
        who = f'"{asked.user}" but got "{claims.sub}"'
        raise CalloutError(f'Expected authorized user of {who} on account "{callout.account}"')
    return claims


def _check_signer(callout: Callout, response: ResponseClaims) -> None:
    """The signer is checked, not the account that the answer says it was signed for. Raises CalloutError."""
    if response.iss not in callout.signers:
        raise CalloutError("Auth callout signing key is unknown")
    account = response.nats.issuer_account
    # The configuration's accounts have names, those of JWTs are keys.
    if account not in ("", callout.account) and callout.account in callout.signers:
        raise CalloutError(f'Auth callout response issuer account "{account}" is not the callout account')


def _response(payload: bytes) -> ResponseClaims:
    try:
        response = read(ResponseClaims, payload.decode("ascii", "replace"))
    except JwtError as error:
        raise CalloutError(f"Auth callout response: {error}") from None
    now_s = time.time()
    fault = ""
    if not is_public_key(response.sub, PREFIX_USER):
        fault = "Subject must be a user public key"
    elif not is_public_key(response.aud, PREFIX_SERVER):
        fault = "Audience must be a server public key"
    elif not response.nats.error and not response.nats.jwt:
        fault = "Error or Jwt is required"
    elif response.nats.error and response.nats.jwt:
        fault = "Only Error or Jwt can be set"
    elif not is_public_key(response.iss, PREFIX_ACCOUNT):
        fault = "the issuer is no account"
    elif 0 < response.exp < now_s:
        fault = "claim is expired"
    elif response.nbf > now_s:
        fault = "claim is not yet valid"
    if fault:
        raise CalloutError(f"Authorization response had validation errors: {fault}")
    return response


def configured_account(callout: Callout, claims: UserClaims) -> str:
    """The account of a user where the configuration has the accounts: the audience of the user's JWT. Raises
    CalloutError."""
    where = f'on account "{callout.account}"'
    if claims.nats.issuer_account:
        raise CalloutError(f'Error non operator mode account "{callout.account}": attempted to use issuer_account')
    if claims.iss != callout.issuer:
        wrong = f'expected "{callout.issuer}" got "{claims.iss}"'
        raise CalloutError(f"Wrong issuer for auth callout response {where}, {wrong}")
    return claims.aud


def trusted_verdict(callout: Callout, trust: Trust, claims: UserClaims, login: Login) -> Verdict:
    """The verdict where accounts come from JWTs: the user's own account, which must be the service's or one that its
    account allows. Raises CalloutError, and Unknown."""
    allowed = {callout.account, *callout.allowed_accounts}
    if claims.account not in allowed and EVERY_ACCOUNT not in allowed:
        where = f'for auth callout for account "{callout.account}"'
        raise CalloutError(f'account "{claims.account}" not permitted as valid account option {where}')
    try:
        proven = trust.judge_again(claims, login.kind, login.host)
    except Denied as error:
        raise CalloutError(f"Error validating user JWT: {error}") from None
    limits = proven.limits
    return Verdict(
        proven.account,
        claims.name,
        rights_of(proven.permissions),
        limits.payload if limits.payload > 0 else -1,
        limits.subs if limits.subs > 0 else -1,
        proven.expires_ns,
    )


def verdict_of(claims: UserClaims, login: Login, account: str) -> Verdict:
    """The verdict that a user's JWT gives in that account. Its limits of 0 are none, since a service that says nothing
    of limits writes such. Raises CalloutError."""
    body = claims.nats
    where = f'on account "{account}"'
    try:
        check_times(claims, time.time())
        check_kind(body, login.kind)
        check_network(body.src, login.host)
        check_proxy(body)
    except Denied as error:
        raise CalloutError(f"Error validating user JWT: {error}") from None
    _check_subjects(claims)
    ends = [claims.exp] if claims.exp > 0 else []
    if body.times:
        from leafd.auth.hours import open_until  # here: a box without such users needs no time zones

        until_s = open_until(body.times, body.locale, time.time())
        if until_s is None:
            raise CalloutError(f"Authorized user {where} outside of valid connect times")
        ends.append(until_s)
    return Verdict(
        account,
        claims.name,
        rights_of(body),
        body.payload if body.payload > 0 else -1,
        body.subs if body.subs > 0 else -1,
        end_ns(ends),
    )


def _check_subjects(claims: UserClaims) -> None:
    for permission, words_max in ((claims.nats.sub, 2), (claims.nats.pub, 1)):
        for text in (*permission.allow, *permission.deny):
            words = text.split(" ")
            if len(words) > words_max or not all(is_subject(word) for word in words):
                raise CalloutError(f'Error validating user JWT: subject "{text[:_SHOWN]}" is not valid')


def let_in(callout: Callout, login: Login, claims: UserClaims, verdict: Verdict) -> Verdict:
    """The verdict by the user's JWT, as it counts from then on. A client in the service's own account may not ask
    it."""
    rights = verdict.rights
    if verdict.account == callout.account:
        rights = without_questions(rights)
    made = replace(verdict, user=verdict.user or claimed_user(login.connect), rights=rights)
    return replace(made, proof=Called(callout, claims, made))


def let_in_again(called: Called, after: Policy, login: Login) -> Verdict | Refusal:
    """After a reload or a change of an account: the same, as long as the same is said of the service, and of the user's
    account, where that is its JWT's."""
    trust = after.trust
    if trust is None:
        return replace(called.verdict, proof=called) if after.callout == called.callout else Refusal("")
    if account_callout(trust, called.callout.account) != called.callout:
        return Refusal("")
    try:
        made = trusted_verdict(called.callout, trust, called.claims, login)
    except (CalloutError, Unknown) as error:
        return Refusal("", why=str(error))
    made = replace(made, user=called.verdict.user)
    if made.account == called.callout.account:
        made = replace(made, rights=without_questions(made.rights))
    return replace(made, proof=Called(called.callout, called.claims, made))


def without_questions(rights: Rights) -> Rights:
    """The same rights, but that of asking the service."""
    return replace(rights, publish_deny=(*rights.publish_deny, CALLOUT_SUBJECT))


def _text(connect: Mapping[str, Any], key: str) -> str:
    value = connect.get(key)
    return value if isinstance(value, str) else ""
