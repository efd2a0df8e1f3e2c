"""JWTs of accounts in a directory, as nats-server has them there: the resolvers of type full and cache.

    <dir>/A....jwt             one account          <dir>/A....jwt.deleted    one that was deleted, unless hard_delete

A file is replaced as a whole and is on disk before the answer. A cache forgets what was not asked for within its ttl
and, beyond its limit, what was asked for longest ago. Blocks: for a worker thread. Not here: whether a
JWT counts.
"""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import Final

from leafd.auth.jwt import TOKEN_MAX, JwtError, read
from leafd.auth.jwt_claims import AccountClaims
from leafd.auth.nkeys import PREFIX_ACCOUNT, is_public_key
from leafd.auth.resolver import DIGEST_SIZE, ResolverError
from leafd.config.schema.operator import LIMIT_DEFAULT
from leafd.files import read_file, sync_directory
from leafd.records import dataclass

_SUFFIX: Final = ".jwt"
_DELETED: Final = ".deleted"


@dataclass(frozen=True, slots=True)
class _Stored:
    """The facts about a stored JWT that need no second reading. issued_s: its iat."""

    issued_s: int
    digest: bytes


class Directory:
    """One directory. Nobody else writes there while the server runs."""

    keeps = True

    def __init__(
        self, path: str, *, full: bool = True, limit: int = 0, ttl_s: float = 0, hard_delete: bool = False
    ) -> None:
        self._path = Path(path)
        self._full = full
        self._limit = limit or (0 if full else LIMIT_DEFAULT)
        self._ttl_s = ttl_s
        self._hard_delete = hard_delete
        self._kept: dict[str, _Stored | None] = {}
        """JWTs by account; None: the file has not been looked at. A start with thousands of accounts reads no file."""
        try:
            self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = os.listdir(self._path)
            if not full:  # what was asked for longest ago goes first
                found.sort(key=lambda name: (self._path / name).stat().st_mtime)
            for file in found:
                name = file.removesuffix(_SUFFIX)
                if file.endswith(_SUFFIX) and is_public_key(name, PREFIX_ACCOUNT):
                    self._kept[name] = None
        except OSError as error:
            raise ResolverError(f"{path}: {error.strerror}: check the resolver's dir and its permissions") from error

    @property
    def complete(self) -> bool:
        return self._full

    def _stored(self, name: str) -> _Stored | None:
        """The facts about a stored JWT, read from its file the first time."""
        if name in self._kept and self._kept[name] is None:
            token = self._read(name)
            self._kept[name] = _Stored(_issued(token), _digest(token))
        return self._kept.get(name)

    def _file(self, name: str) -> Path:
        if not is_public_key(name, PREFIX_ACCOUNT):
            raise ResolverError("not the key of an account")
        return self._path / f"{name}{_SUFFIX}"

    def _read(self, name: str) -> str:
        try:
            raw = read_file(self._file(name), TOKEN_MAX + 1)
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise ResolverError(f"{name}{_SUFFIX}: {error.strerror}") from error
        return raw.decode("ascii", "replace").strip() if len(raw) <= TOKEN_MAX else ""

    def load(self, name: str) -> str:
        """The JWT of an account; one that has outlived its time in a cache does not count."""
        if name not in self._kept:
            return ""
        if self._ttl_s:
            try:
                if time.time() - self._file(name).stat().st_mtime > self._ttl_s:
                    self.delete(name)
                    return ""
            except FileNotFoundError:
                return ""
            except OSError as error:
                raise ResolverError(f"{name}{_SUFFIX}: {error.strerror}") from error
        token = self._read(name)
        if token and not self._full:
            self._kept[name] = self._kept.pop(name)
            os.utime(self._file(name))
        return token

    def save(self, name: str, token: str, issued_s: int, *, newer: bool = True) -> bool:
        """Writes it, unless it is there already."""
        known = self._stored(name)
        if known is not None and ((newer and known.issued_s > issued_s) or known.digest == _digest(token)):
            return False
        if known is None and self._limit and len(self._kept) >= self._limit:
            if self._full:
                raise ResolverError(f"the resolver's limit of {self._limit} accounts is reached")
            self._remove(next(iter(self._kept)))
        self._write(self._file(name), token)
        self._kept.pop(name, None)
        self._kept[name] = _Stored(issued_s, _digest(token))
        return True

    def _write(self, file: Path, token: str) -> None:
        temporary = file.with_name(f".{file.name}.new")
        try:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
            with open(handle, "wb") as writer:
                writer.write(token.encode("ascii"))
                writer.flush()
                os.fsync(writer.fileno())
            temporary.rename(file)
            sync_directory(self._path)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise ResolverError(f"{file.name} cannot be written: {error.strerror}") from error

    def delete(self, name: str) -> bool:
        """Forgets an account. A full resolver keeps its file under another name, unless told otherwise."""
        if name not in self._kept:
            return False
        file = self._file(name)
        try:
            if self._full and not self._hard_delete:
                file.rename(file.with_name(f"{file.name}{_DELETED}"))
                sync_directory(self._path)
                del self._kept[name]
            else:
                self._remove(name)
        except OSError as error:
            raise ResolverError(f"{file.name} cannot be removed: {error.strerror}") from error
        return True

    def _remove(self, name: str) -> None:
        self._file(name).unlink(missing_ok=True)
        self._kept.pop(name, None)

    def names(self) -> list[str]:
        return sorted(self._kept)

    def digest(self) -> bytes:
        combined = 0
        for name in list(self._kept):
            known = self._stored(name)
            combined ^= int.from_bytes(known.digest if known is not None else b"", "big")
        return combined.to_bytes(DIGEST_SIZE, "big")


def _issued(token: str) -> int:
    """The time at which the JWT was issued; 0 where that cannot be told."""
    try:
        return read(AccountClaims, token).iat
    except JwtError:
        return 0


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("ascii", "replace")).digest()
