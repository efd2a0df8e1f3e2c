"""Resolvers, which find the JWTs of accounts: the functions that all resolvers have, and the resolver made of the
configuration.

Their functions block and are for a worker thread, one at a time for each resolver. What they give is text that nobody
has checked. Not here: files (resolver_directory.py), HTTP (resolver_url.py), other servers of the
system account, who are asked where these know nothing (daemon/account_book.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from leafd.config.schema.operator import Resolver as Configured
    from leafd.config.schema.tls import Tls


DIGEST_SIZE: Final = 32


class ResolverError(Exception):
    """A resolver cannot do what it was asked for; the text says why."""


class ClaimsError(Exception):
    """A request about an account's JWT is refused; the text is for its sender. account: which one, if known."""

    def __init__(self, text: str, account: str = "") -> None:
        super().__init__(text)
        self.account = account


class Resolver(Protocol):
    """One source of JWTs."""

    @property
    def keeps(self) -> bool:
        """Whether accounts can be put there."""

    @property
    def complete(self) -> bool:
        """Whether it has all accounts, so that other servers may ask for them."""

    def load(self, name: str) -> str:
        """The JWT of an account, empty when it has none. Raises ResolverError."""

    def save(self, name: str, token: str, issued_s: int, *, newer: bool = True) -> bool:
        """Keeps a JWT; newer: unless it has one that was issued later. Raises ResolverError."""

    def delete(self, name: str) -> bool:
        """Forgets an account; False when it had none. Raises ResolverError."""

    def names(self) -> list[str]:
        """All accounts that it has."""

    def digest(self) -> bytes:
        """The digest by which two servers compare their JWTs: the SHA-256 of each, all combined by exclusive or."""


class Keepless:
    """The part that resolvers have in common in which accounts cannot be put."""

    keeps = False
    complete = False

    def save(self, name: str, token: str, issued_s: int, *, newer: bool = True) -> bool:
        return False

    def delete(self, name: str) -> bool:
        raise ResolverError("delete accounts request is not supported by this resolver")

    def names(self) -> list[str]:
        return []

    def digest(self) -> bytes:
        return bytes(DIGEST_SIZE)


class Memory(Keepless):
    """JWTs of the configuration: all of them are known at the start, and nothing is kept."""

    def load(self, name: str) -> str:
        return ""


def make_resolver(configured: Configured, tls: Tls | None = None) -> Resolver:
    """The resolver of a configuration; what it needs is loaded then. Raises ResolverError."""
    if configured.type == "url":
        from leafd.auth.resolver_url import Url

        return Url(configured.url, configured.timeout / 1e9, tls)
    if configured.type in ("full", "cache"):
        from leafd.auth.resolver_directory import Directory

        return Directory(
            configured.dir,
            full=configured.type == "full",
            limit=configured.limit,
            ttl_s=configured.ttl / 1e9,
            hard_delete=configured.hard_delete,
        )
    return Memory()
