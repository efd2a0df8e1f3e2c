"""Operator mode: whose signature counts, and what a user's JWT comes to.

    operator --signs--> account --signs, or one of its signing keys does--> user --signs--> the nonce

    Trust.judge(token, ...)  -->  Proven, or Denied with what was wrong; Unknown when the account has to be looked up
    Trust.judge_again(...)   the same for a user who has proven its identity before: after a change of its account

Pure but for the clock, which is handed in. Judging takes two or three checks of signatures, a tenth of a millisecond
each, so it is for a worker thread, but for the short JWTs of leaves, which come in slices (logins/arrivals.py). Not
here: how accounts get here (resolver*.py), how a verdict is put into words (verdict.py), what an account may use
(accounts/claims.py).
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Any, Final

from leafd.auth.jwt import USER_TOKEN_MAX, JwtError, read
from leafd.auth.jwt_claims import (
    NO_LIMIT,
    USER_SCOPE,
    AccountBody,
    AccountClaims,
    AccountLimits,
    Claims,
    Permissions,
    SigningKey,
    UserClaims,
    UserLimits as Limits,
)
from leafd.auth.nkeys import verify
from leafd.auth.scopes import ScopeError, filled_in, has_own_limits
from leafd.config.schema.permissions import CONNECTION_TYPES
from leafd.records import dataclass

SECOND: Final = 1_000_000_000
_CLOCK_MAX_NS: Final = (1 << 63) - 1
EVERYBODY: Final = "*"
"""In revocations: all users."""
REVOKED: Final = "revoked"
ACCOUNT_EXPIRED: Final = "the account's JWT has expired"


class Denied(Exception):
    """The login is refused. The text is for the operator's log, not for the client."""


class Expired(Denied):
    """The account's time is over."""

    def __init__(self, account: str) -> None:
        super().__init__(ACCOUNT_EXPIRED)
        self.account = account


class Unknown(Exception):
    """An account that is not known here and may be looked up. Only raised for JWTs that are well-formed and signed."""

    def __init__(self, account: str) -> None:
        super().__init__(f"the account {account} is not known")
        self.account = account


@dataclass(frozen=True, slots=True)
class TrustedAccount:
    """An account's JWT, signed by an operator who counts."""

    token: str
    claims: AccountClaims
    keys: Mapping[str, SigningKey | None]
    """The keys that sign its users, each with its scope, if it has one."""
    broken: str = ""
    """Why it cannot be used although it is signed; empty when it can."""

    def expired(self, now_s: float) -> bool:
        """Whether its time is over."""
        return 0 < self.claims.exp <= now_s


def trusted_account(token: str, claims: AccountClaims, broken: str = "") -> TrustedAccount:
    """The account of a JWT whose signature and issuer were checked."""
    keys: dict[str, SigningKey | None] = {claims.sub: None}
    keys |= {one.key: one if one.kind else None for one in claims.nats.signing_keys}
    return TrustedAccount(token, claims, keys, broken)


def bootstrap_account(name: str) -> TrustedAccount:
    """A system account whose JWT is not there yet: its users, signed by its own key, can log in and bring it."""
    limits = AccountLimits(subs=NO_LIMIT, payload=NO_LIMIT, conn=NO_LIMIT, leaf=NO_LIMIT)
    return trusted_account("", AccountClaims(sub=name, nats=AccountBody(limits=limits)))


@dataclass(frozen=True, slots=True)
class Proven:
    """A user's JWT that lets its bearer in. expires_ns: wall time, 0 for never."""

    account: str
    claims: UserClaims
    permissions: Permissions
    limits: Limits
    expires_ns: int


@dataclass(frozen=True, slots=True)
class Trust:
    """The rules that decide about a JWT. A change of one account replaces the whole; accounts that are only added are
    put into the table."""

    operator_keys: frozenset[str]
    """Whose signature an account needs: operators and their signing keys."""
    accounts: dict[str, TrustedAccount] = field(default_factory=dict)
    pinned: frozenset[str] = frozenset()
    sentinel: str = ""
    """The JWT of those who bring none."""
    clock: Callable[[], float] = time.time

    def judge(self, token: str, nonce: str, signature: str, kind: str, host: str) -> Proven:
        """The user that sent a CONNECT with this JWT. Raises Denied and Unknown."""
        token = token or self.sentinel
        if not token:
            raise Denied("no JWT")
        try:
            user = read(UserClaims, token, size_max=USER_TOKEN_MAX)
        except JwtError as error:
            raise Denied(f"the user's JWT: {error}") from None
        account, limits = self._limits(user)
        if limits.bearer_token:
            if account.claims.nats.limits.disallow_bearer:
                raise Denied("the account takes no bearer tokens")
        elif not nonce or not signature or not verify(user.sub, nonce, signature):
            raise Denied("the nonce is not signed by the user's key")
        return self._admitted(user, account, limits, kind, host)

    def judge_again(self, user: UserClaims, kind: str, host: str) -> Proven:
        """A user whose signatures were checked before. Raises Denied and Unknown."""
        account, limits = self._limits(user)
        if limits.bearer_token and account.claims.nats.limits.disallow_bearer:
            raise Denied("the account takes no bearer tokens")
        return self._admitted(user, account, limits, kind, host)

    def stands(self, user: UserClaims, *, own: bool) -> Permissions | None:
        """The rights today of a user whose JWT was accepted once, connected or not: no time, network or way of
        connecting counts. own: its JWT has permissions, which are not in these claims; None: they hold. Raises Denied
        and Unknown."""
        account, limits = self._limits(user)
        if is_revoked(account.claims.nats.revocations, user.sub, user.iat):
            raise Denied(REVOKED)
        if own and account.keys[user.iss] is None:
            return None
        return account.claims.nats.default_permissions if _is_empty(limits) else limits

    def _limits(self, user: UserClaims) -> tuple[TrustedAccount, Limits]:
        """The user's account, and the limits that the user's JWT or its signing key's template sets."""
        check_times(user, self.clock())
        if self.pinned and user.account not in self.pinned:
            raise Denied("the account is not pinned")
        account = self.accounts.get(user.account)
        if account is None:
            raise Unknown(user.account)
        if account.broken:
            raise Denied(f"the account's JWT: {account.broken}")
        if user.iss not in account.keys:
            raise Denied("the user's JWT is not signed by its account")
        scope = account.keys[user.iss]
        if scope is None:
            limits: Limits = user.nats
        elif scope.kind != USER_SCOPE or has_own_limits(user.nats):
            raise Denied("the user's JWT has limits of its own, and is signed by a key with limits")
        else:
            try:
                limits = filled_in(scope.template, user, account.claims)
            except ScopeError as error:
                raise Denied(f"the signing key's template: {error}") from None
        if account.expired(self.clock()):
            raise Expired(user.account)
        if account.claims.nbf > self.clock():
            raise Denied("the account's JWT is not valid yet")
        return account, limits

    def _admitted(self, user: UserClaims, account: TrustedAccount, limits: Limits, kind: str, host: str) -> Proven:
        check_kind(limits, kind)
        check_proxy(limits)
        if is_revoked(account.claims.nats.revocations, user.sub, user.iat):
            raise Denied(REVOKED)
        check_network(limits.src, host)
        now_s = self.clock()
        ends = [user.exp] if user.exp > 0 else []
        if limits.times:
            from leafd.auth.hours import open_until  # here: a box without such users needs no time zones

            until_s = open_until(limits.times, limits.locale, now_s)
            if until_s is None:
                raise Denied("outside of the user's times of the day")
            ends.append(until_s)
        permissions: Permissions = limits
        if _is_empty(limits):
            permissions = account.claims.nats.default_permissions
        return Proven(user.account, user, permissions, limits, end_ns(ends))


def has_own_permissions(user: UserClaims) -> bool:
    """Whether the JWT itself says what may be published and read."""
    return not _is_empty(user.nats)


def check_times(claims: Claims, now_s: float) -> None:
    """Raises Denied where it is not the time for these claims."""
    if 0 < claims.exp <= now_s:
        raise Denied("the JWT has expired")
    if claims.nbf > now_s:
        raise Denied("the JWT is not valid yet")


def is_revoked(revocations: Mapping[str, int], key: str, issued_s: int) -> bool:
    """Whether a JWT of that key is among the revoked ones: what was issued up to a moment is."""
    return any(one in revocations and issued_s <= revocations[one] for one in (key, EVERYBODY))


def _is_empty(permissions: Permissions) -> bool:
    lists = (permissions.pub.allow, permissions.pub.deny, permissions.sub.allow, permissions.sub.deny)
    return not any(lists) and permissions.resp is None


def check_kind(limits: Limits, kind: str) -> None:
    """Raises Denied where the user may not connect in that way."""
    if not limits.allowed_connection_types:
        return
    known = [one.upper() for one in limits.allowed_connection_types if one.upper() in CONNECTION_TYPES]
    if kind not in known:
        raise Denied(f"the user may not connect as {kind}")


def check_proxy(limits: Limits) -> None:
    """Raises Denied where the user has to log in through a proxy that vouches for it, which is never so here."""
    if limits.proxy_required:
        raise Denied("the user has to come through a proxy")


def end_ns(ends_s: Iterable[int]) -> int:
    """The first of these times, for the plane; 0, which is never, where there is none that its clock can show (up to
    the year 2262)."""
    first_ns = min(ends_s, default=0) * SECOND
    return first_ns if first_ns <= _CLOCK_MAX_NS else 0


def check_network(networks: tuple[str, ...], host: str) -> None:
    """Raises Denied where the user may not connect from there."""
    if not networks:
        return
    try:
        address: Any = ipaddress.ip_address(host)
    except ValueError:
        raise Denied("the user may connect from some networks only, and this address is none") from None
    address = getattr(address, "ipv4_mapped", None) or address
    for text in networks:
        try:
            network = ipaddress.ip_network(text, strict=False)
        except ValueError:
            raise Denied(f"{text[:60]!r} is no network") from None
        if network.version == address.version and address in network:
            return
    raise Denied("the user may not connect from this address")


def limit(value: int) -> int:
    """A limit of a JWT, where any negative number means none."""
    return value if value >= 0 else NO_LIMIT
