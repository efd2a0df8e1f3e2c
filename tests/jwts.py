"""Makes operators, accounts, users and their JWTs for tests, as nsc does, from keys that are new in each run.

    operator = Operator("O")
    a = operator.account("A", disk_storage=-1)
    user = a.user("u")                     user.creds(path), user.connect(nonce)

Written from the JWT library's documentation and what nsc writes, not with leafd's own code, so that tests compare two
readings of the format.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import itertools
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nacl.signing import SigningKey

PREFIXES = {"operator": 0x70, "account": 0x00, "user": 0xA0}
ACCOUNT_LIMITS: dict[str, Any] = {
    "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": True, "conn": -1, "leaf": -1,
}  # fmt: skip
USER_LIMITS: dict[str, Any] = {"subs": -1, "data": -1, "payload": -1}


_clock = itertools.count(int(time.time()) - 86_400)


def issued() -> int:
    """The second in which the next token is issued. Each is newer than all before it, and none is of the future.

    Servers tell tokens apart by whole seconds: of two of one second neither is newer, and a revocation takes those of
    its own second, too. By the machine's clock tests had to wait for the next one."""
    return next(_clock)


def b64(raw: bytes) -> str:
    """base64url without padding."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def b32(raw: bytes) -> str:
    """An nkey's text: base32 of the bytes and their checksum."""
    return base64.b32encode(raw + binascii.crc_hqx(raw, 0).to_bytes(2, "little")).decode().rstrip("=")


class Key:
    """An nkey of its own."""

    def __init__(self, kind: str) -> None:
        self.prefix = PREFIXES[kind]
        self._key = SigningKey.generate()
        self.public = b32(bytes([self.prefix]) + self._key.verify_key.encode())
        self.seed = b32(bytes([0x90 | self.prefix >> 5, (self.prefix & 31) << 3]) + self._key.encode())

    @property
    def raw(self) -> bytes:
        """The seed's 32 bytes."""
        return self._key.encode()

    def sign(self, message: bytes) -> bytes:
        """A signature of 64 bytes."""
        return self._key.sign(message).signature


def encode(claims: dict[str, Any], issuer: Key, *, alg: str = "ed25519-nkey") -> str:
    """A token. iss, iat and jti are filled in unless they are there."""
    claims = {"iss": issuer.public, "iat": issued()} | claims
    claims.setdefault("jti", base64.b32encode(hashlib.sha256(json.dumps(claims).encode()).digest()).decode()[:52])
    signed = f"{b64(json.dumps({'typ': 'JWT', 'alg': alg}).encode())}.{b64(json.dumps(claims).encode())}"
    message = signed if alg == "ed25519-nkey" else signed.split(".")[1]
    return f"{signed}.{b64(issuer.sign(message.encode()))}"


@dataclass
class User:
    """One user: its key and its JWT."""

    key: Key
    token: str

    def connect(self, nonce: str) -> dict[str, str]:
        """The fields of its CONNECT."""
        return {"jwt": self.token, "sig": b64(self.key.sign(nonce.encode()))}

    def creds(self, path: Path) -> Path:
        """The credentials file, written as nsc does."""
        path.write_text(
            f"-----BEGIN NATS USER JWT-----\n{self.token}\n------END NATS USER JWT------\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{self.key.seed}\n------END USER NKEY SEED------\n"
        )
        return path


@dataclass
class Account:
    """One account: its key, and what its JWT says. token() signs what it says now."""

    name: str
    operator: Operator
    key: Key = field(default_factory=lambda: Key("account"))
    limits: dict[str, Any] = field(default_factory=dict)
    nats: dict[str, Any] = field(default_factory=dict)
    outer: dict[str, Any] = field(default_factory=dict)

    @property
    def public(self) -> str:
        return self.key.public

    def token(self, signer: Key | None = None, **outer: Any) -> str:
        """The JWT, signed by the operator unless somebody else is named."""
        nats = {"type": "account", "version": 2, "limits": ACCOUNT_LIMITS | self.limits} | self.nats
        claims = {"sub": self.public, "name": self.name, "nats": nats} | self.outer | outer
        return encode(claims, signer or self.operator.key)

    def user(self, name: str, signer: Key | None = None, outer: dict[str, Any] | None = None, **nats: Any) -> User:
        """A user with these permissions and limits, signed by the account's key or one of its signing keys."""
        key = Key("user")
        body: dict[str, Any] = {"type": "user", "version": 2}
        if signer is not None:
            body["issuer_account"] = self.public
        if signer is None or not nats.pop("scoped", False):
            body |= USER_LIMITS
        claims = {"sub": key.public, "name": name, "nats": body | nats} | (outer or {})
        return User(key, encode(claims, signer or self.key))

    def export(self, subject: str, kind: str = "service", **more: Any) -> Account:
        """Exports a subject."""
        self.nats.setdefault("exports", []).append({"name": subject, "subject": subject, "type": kind} | more)
        return self

    def imported(self, origin: Account, subject: str, kind: str = "service", **more: Any) -> Account:
        """Imports a subject of another account."""
        one = {"name": subject, "subject": subject, "account": origin.public, "type": kind} | more
        self.nats.setdefault("imports", []).append(one)
        return self

    def activation(self, importer: Account, subject: str, kind: str, **outer: Any) -> str:
        """Leave for another account to import."""
        body = {"type": "activation", "version": 2, "subject": subject, "kind": kind}
        return encode({"sub": importer.public, "name": subject, "nats": body} | outer, self.key)


class Operator:
    """An operator with its accounts, of which the first is the system account."""

    def __init__(self, name: str = "O", **nats: Any) -> None:
        self.name = name
        self.key = Key("operator")
        self.accounts: list[Account] = []
        self.nats = nats
        self.system = self.account("SYS")

    def account(self, name: str, **limits: Any) -> Account:
        """A new account."""
        made = Account(name, self, limits=limits)
        self.accounts.append(made)
        return made

    def token(self) -> str:
        """The operator's own JWT."""
        body = {"type": "operator", "version": 2, "system_account": self.system.public} | self.nats
        return encode({"sub": self.key.public, "name": self.name, "nats": body}, self.key)

    def configuration(self) -> str:
        """The text that `nsc generate config --mem-resolver` writes."""
        preload = "\n".join(f"  {one.public}: {one.token()}" for one in self.accounts)
        return (
            f"operator: {self.token()}\nsystem_account: {self.system.public}\n"
            f"resolver: MEMORY\nresolver_preload: {{\n{preload}\n}}\n"
        )
