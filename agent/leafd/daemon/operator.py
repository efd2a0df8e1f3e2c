"""Operator mode at the start and at a reload: the configuration's operator, resolver and preloaded JWTs, compiled.

    compile_operator(config, ...) --> Operated: whose signatures count, which accounts are known, who may log in

Runs before anybody may connect, or on a thread of its own: files are read and signatures checked here. What does not
live here: who is let in (auth/trust.py), the graph (accounts/claims.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from leafd.accounts.claims import ClaimedAccounts
from leafd.accounts.graph import Numbers
from leafd.auth.jwt import JwtError, read
from leafd.auth.jwt_claims import UserClaims
from leafd.auth.operators import Operators, read_account, read_operators
from leafd.auth.policy import Policy
from leafd.auth.trust import Denied, Trust, TrustedAccount, check_times
from leafd.config.schema.server import ServerConfig
from leafd.errors import ConfigError
from leafd.records import dataclass


@dataclass(frozen=True, slots=True)
class Operated:
    """What follows from a configuration's operator. warnings: what of the preloaded JWTs cannot be had."""

    operators: Operators
    accounts: ClaimedAccounts
    policy: Policy
    warnings: tuple[str, ...] = ()

    def with_accounts(self, accounts: ClaimedAccounts) -> Operated:
        """The same with other accounts."""
        return operated(self.operators, accounts, self.policy.trust)


def operated(
    operators: Operators, accounts: ClaimedAccounts, like: Trust | None, warnings: Iterable[str] = ()
) -> Operated:
    """Accounts with the policy that goes with them."""
    assert like is not None
    trust = Trust(operators.keys, accounts.trusted, like.pinned, like.sentinel, like.clock)
    return Operated(operators, accounts, Policy({}, {}, open=False, trust=trust), tuple(warnings))


def compile_operator(config: ServerConfig, numbers: Numbers, known: Operated | None = None) -> Operated:
    """known: of the configuration before, whose accounts stay known where they do not come from the configuration.
    Raises ConfigError."""
    operators = read_operators(config.operator, config.trusted_keys)
    named = {name for name in (operators.system_account,) if name}
    if config.system_account and named and config.system_account not in named:
        raise ConfigError("system_account in config and operator JWT must be identical")
    system = config.system_account or operators.system_account
    jetstream = config.jetstream is not None and config.jetstream.enabled
    accounts = ClaimedAccounts(numbers, system=system, jetstream=jetstream)
    found: dict[str, TrustedAccount] = {}
    if known is not None and known.operators.keys == operators.keys and config.account_resolver().type != "memory":
        found |= known.accounts.trusted
    for name, token in config.resolver_preload.items():
        try:
            found[name] = _preloaded(name, token, operators.keys)
        except JwtError as error:
            raise ConfigError(f"resolver_preload: {name}: {error}") from None
    accounts.start(found.values())
    pinned = frozenset(config.resolver_pinned_accounts)
    sentinel = _sentinel(config.default_sentinel)
    trust = Trust(operators.keys, accounts.trusted, pinned | {system} if pinned else pinned, sentinel)
    warnings = [f"account {name}: {note}" for name, notes in accounts.notes.items() for note in notes]
    return operated(operators, accounts, trust, warnings)


def _preloaded(name: str, token: str, keys: frozenset[str]) -> TrustedAccount:
    account = read_account(token, keys)
    if account.claims.sub != name:
        raise JwtError(f"sub: the JWT is that of {account.claims.sub}")
    return account


def _sentinel(token: str) -> str:
    if not token:
        return ""
    try:
        claims = read(UserClaims, token)
        check_times(claims, time.time())
    except (JwtError, Denied) as error:
        raise ConfigError(f"default_sentinel: {error}") from None
    if not claims.nats.bearer_token:
        raise ConfigError("default_sentinel must be a bearer token")
    return token
