"""The operators that a configuration trusts: their JWTs, inline or in files, and what follows from them.

    operator: /etc/leafd/operator.jwt | eyJ... | [ ... ]      trusted_keys: [ O... ]

Files are read here. Not here: whose JWT lets whom in (trust.py), where accounts are found
(resolver*.py).
"""

from __future__ import annotations

import re
import time
from typing import Final

from leafd.auth.jwt import TOKEN_MAX, JwtError, read
from leafd.auth.jwt_claims import AccountClaims, GenericClaims, OperatorClaims
from leafd.auth.jwt_rules import problem
from leafd.auth.nkeys import PREFIX_OPERATOR, is_public_key
from leafd.auth.trust import Denied, TrustedAccount, check_times, trusted_account
from leafd.errors import ConfigError
from leafd.files import read_file
from leafd.records import dataclass

_TOKEN: Final = re.compile(r"[\w-]+\.[\w-]+\.[\w-]+")


@dataclass(frozen=True, slots=True)
class Operators:
    """The keys that may sign an account's JWT, and the operators' rules for the whole server."""

    keys: frozenset[str]
    system_account: str = ""
    account_server_url: str = ""
    names: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()


def read_operators(texts: tuple[str, ...], trusted_keys: tuple[str, ...]) -> Operators:
    """Raises ConfigError, whose text begins with the key to look at."""
    keys, claims, tokens = set(trusted_keys), [], []
    for key in trusted_keys:
        if not is_public_key(key, PREFIX_OPERATOR):
            raise ConfigError(f"trusted_keys: {key[:60]!r} is not a public nkey of an operator (O...)")
    for text in texts:
        token = _token(text)
        try:
            one = read(OperatorClaims, token)
            check_times(one, time.time())
        except (JwtError, Denied) as error:
            raise ConfigError(f"operator: {_shown(text)}: {error}") from None
        claims.append(one)
        tokens.append(token)
        keys |= set(one.nats.signing_keys)
        if not one.nats.strict_signing_key_usage:
            keys.add(one.sub)
    return Operators(
        frozenset(keys),
        next((one.nats.system_account for one in claims if one.nats.system_account), ""),
        next((one.nats.account_server_url for one in claims if one.nats.account_server_url), ""),
        tuple(one.name for one in claims),
        tuple(tokens),
    )


def _token(text: str) -> str:
    if text.startswith("eyJ"):
        return text
    try:
        data = read_file(text, 2 * TOKEN_MAX + 1)
        if len(data) > 2 * TOKEN_MAX:
            raise ConfigError(f"operator: {text} is too large for a JWT")
        found = _TOKEN.search(data.decode())
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"operator: {text} cannot be read ({reason}): name the file of the operator's JWT") from error
    if found is None:
        raise ConfigError(f"operator: {text} holds no JWT")
    return found[0]


def _shown(text: str) -> str:
    return "the JWT" if text.startswith("eyJ") else text


def read_account(token: str, keys: frozenset[str]) -> TrustedAccount:
    """The claims of an account's JWT that one of these keys has signed. Claims with faults come back as broken. Raises
    JwtError."""
    claims = read(AccountClaims, token)
    if claims.iss not in keys:
        raise JwtError("not signed by a trusted operator")
    return trusted_account(token.strip(), claims, problem(claims))


class DeletionError(JwtError):
    """issuer: the key that has signed the request."""

    def __init__(self, issuer: str, text: str) -> None:
        super().__init__(text)
        self.issuer = issuer


def read_deletion(token: str, keys: frozenset[str]) -> tuple[str, tuple[str, ...]]:
    """The operator that asks for a deletion, and the accounts to be deleted. Raises JwtError."""
    claims = read(GenericClaims, token)
    if claims.iss != claims.sub or claims.iss not in keys:
        raise DeletionError(claims.iss, "not trusted")
    try:
        check_times(claims, time.time())
    except Denied as error:
        raise DeletionError(claims.iss, str(error)) from None
    return claims.iss, claims.nats.accounts
