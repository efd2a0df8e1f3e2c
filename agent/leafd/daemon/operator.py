"""Operator mode at the start and at a reload: the configuration's operator, resolver and preloaded JWTs, compiled.

    compile_operator(config, ...) --> Operated: whose signatures count, which accounts are known, which users may log in

Runs before anybody may connect, or on a thread of its own: files are read and signatures checked here.
Not here: accounts that come and go while the server runs (account_book.py), who is let in (auth/trust.py).
"""

from __future__ import annotations

import time
from dataclasses import replace

from leafd.accounts.claims import ClaimedAccounts
from leafd.accounts.graph import Numbers
from leafd.auth.jwt import JwtError, read
from leafd.auth.jwt_claims import UserClaims
from leafd.auth.operators import Operators, read_account, read_operators
from leafd.auth.policy import Policy
from leafd.auth.trust import Denied, Trust, TrustedAccount, bootstrap_account, check_times
from leafd.config.bind import Loaded
from leafd.config.schema.operator import Resolver
from leafd.config.schema.server import ServerConfig
from leafd.config.schema.tls import Tls
from leafd.errors import ConfigError
from leafd.records import dataclass


@dataclass(frozen=True, slots=True)
class Operated:
    """The tables made of a configuration's operator. warnings: what of the preloaded JWTs cannot be had."""

    operators: Operators
    accounts: ClaimedAccounts
    policy: Policy
    resolver: Resolver
    warnings: tuple[str, ...] = ()
    resolver_tls: Tls | None = None

    def with_accounts(self, accounts: ClaimedAccounts) -> Operated:
        """The same with other accounts."""
        assert self.policy.trust is not None
        trust = replace(self.policy.trust, accounts=accounts.trusted)
        return replace(self, accounts=accounts, policy=_policy(trust), warnings=())


def _policy(trust: Trust) -> Policy:
    return Policy({}, {}, open=False, trust=trust)


def compile_operator(config: ServerConfig, numbers: Numbers, known: Operated | None = None) -> Operated:
    """known: of the configuration before, whose accounts stay known where they do not come from the configuration.
    Raises ConfigError."""
    operators = read_operators(config.operator, config.trusted_keys)
    system = config.system_account or operators.system_account
    if config.system_account and operators.system_account not in ("", config.system_account):
        raise ConfigError("system_account in config and operator JWT must be identical")
    resolver = _resolver(config, operators)
    found = _preloaded(config, operators)
    if known is not None and resolver.type != "memory":
        for name, one in known.accounts.trusted.items():
            if name not in found or found[name].claims.iat < one.claims.iat:
                found[name] = one
    if system and resolver.type in ("full", "cache"):
        found.setdefault(system, bootstrap_account(system))
    jetstream = config.jetstream is not None and config.jetstream.enabled
    clustered = config.cluster is not None or config.gateway is not None
    accounts = ClaimedAccounts(numbers, system=system, jetstream=jetstream, clustered=clustered)
    remotes = config.leafnodes.remotes if config.leafnodes is not None else ()
    accounts.start(found.values(), [one.account for one in remotes])
    pinned = frozenset(config.resolver_pinned_accounts)
    trust = Trust(
        operators.keys, accounts.trusted, pinned | {system} if pinned else pinned, _sentinel(config.default_sentinel)
    )
    warnings = []
    if config.resolver_tls is not None and config.resolver_tls.insecure:
        warnings.append("resolver_tls is insecure: whoever answers at the resolver's address is trusted")
    warnings += [f"account {name}: {note}" for name, notes in accounts.notes.items() for note in notes]
    return Operated(operators, accounts, _policy(trust), resolver, tuple(warnings), config.resolver_tls)


def check(loaded: Loaded) -> tuple[str, ...]:
    """Warnings about a configuration's JWTs. Raises ConfigError, with the place."""
    try:
        return compile_operator(loaded.server, Numbers()).warnings
    except ConfigError as error:
        key = str(error).partition(":")[0].partition(" ")[0]
        raise ConfigError(f"{loaded.place(key)}: {error}") from error


def _resolver(config: ServerConfig, operators: Operators) -> Resolver:
    if config.resolver is not None:
        return config.resolver
    if operators.account_server_url.startswith(("http://", "https://")) and not config.resolver_preload:
        return Resolver.made(type="url", url=f"{operators.account_server_url.rstrip('/')}/accounts/")
    if config.operator and not config.resolver_preload:
        raise ConfigError("operator needs a resolver: resolver: MEMORY with resolver_preload, or another")
    return Resolver()


def _preloaded(config: ServerConfig, operators: Operators) -> dict[str, TrustedAccount]:
    found = {}
    for name, token in config.resolver_preload.items():
        try:
            one = read_account(token, operators.keys)
            if one.claims.sub != name:
                raise JwtError(f"sub: the JWT is that of {one.claims.sub}")
        except JwtError as error:
            raise ConfigError(f"resolver_preload: {name}: {error}") from None
        found[name] = one
    return found


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
