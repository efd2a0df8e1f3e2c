"""A directory of JWTs: what is kept, what is forgotten, and that no name leads out of it."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest
from leafd.auth.resolver import Resolver, ResolverError
from leafd.auth.resolver_directory import Directory

from tests.jwts import Account, Operator

OPERATOR = Operator()


def keep(resolver: Resolver, account: Account, issued_s: int = 1000) -> str:
    token = account.token(iat=issued_s)
    resolver.save(account.public, token, issued_s)
    return token


def test_what_is_kept_is_there_after_a_start(tmp_path: Path) -> None:
    """A token is a file with the account's name, and a directory that is opened anew has it."""
    account = OPERATOR.account("A")
    token = keep(Directory(str(tmp_path)), account)
    again = Directory(str(tmp_path))

    assert ([account.public], token) == (again.names(), again.load(account.public))
    assert token == (tmp_path / f"{account.public}.jwt").read_text()
    assert 0o600 == (tmp_path / f"{account.public}.jwt").stat().st_mode & 0o777
    assert hashlib.sha256(token.encode()).digest() == again.digest()


def test_newer_ones_stay(tmp_path: Path) -> None:
    """A token that was issued before the one that is there does not take its place, unless it is to."""
    account = OPERATOR.account("A")
    new = keep(Directory(str(tmp_path)), account, 2000)
    resolver = Directory(str(tmp_path))
    old = account.token(iat=1000)

    assert not resolver.save(account.public, old, 1000)
    assert new == resolver.load(account.public)
    assert resolver.save(account.public, old, 1000, newer=False)
    assert old == resolver.load(account.public)


@pytest.mark.parametrize("hard", [False, True])
def test_deleted_ones_are_set_aside_or_removed(tmp_path: Path, hard: bool) -> None:
    """A full resolver renames what is deleted, so that it can be had back; with hard_delete it does not."""
    account = OPERATOR.account("A")
    resolver = Directory(str(tmp_path), hard_delete=hard)
    keep(resolver, account)

    assert resolver.delete(account.public)
    assert not resolver.delete(account.public)
    assert "" == resolver.load(account.public)
    assert ([] if hard else [f"{account.public}.jwt.deleted"]) == os.listdir(tmp_path)
    assert [] == Directory(str(tmp_path)).names()


def test_limits(tmp_path: Path) -> None:
    """A full resolver takes no more than its limit; a cache forgets what was asked for longest ago."""
    a, b, c = (OPERATOR.account(name) for name in "ABC")
    full, cache = Directory(str(tmp_path / "f"), limit=2), Directory(str(tmp_path / "c"), full=False, limit=2)
    for resolver in (full, cache):
        keep(resolver, a), keep(resolver, b)
    with pytest.raises(ResolverError, match="limit of 2"):
        keep(full, c)
    keep(full, a, 2000)  # one that is there is not one more
    assert cache.load(a.public)
    keep(cache, c)
    assert sorted((a.public, c.public)) == cache.names()


def test_a_cache_forgets_in_time(tmp_path: Path) -> None:
    """What nobody asked for within the ttl is gone, and asking counts anew."""
    account = OPERATOR.account("A")
    cache = Directory(str(tmp_path), full=False, ttl_s=100)
    keep(cache, account)
    file = tmp_path / f"{account.public}.jwt"
    os.utime(file, (time.time() - 90, time.time() - 90))
    assert cache.load(account.public)
    assert time.time() - file.stat().st_mtime < 10
    os.utime(file, (time.time() - 110, time.time() - 110))
    assert "" == cache.load(account.public)
    assert not file.exists()


@pytest.mark.parametrize("name", ["../passwd", "/etc/passwd", "", "B" * 56, ".", OPERATOR.key.public])
def test_no_name_leads_out_of_it(tmp_path: Path, name: str) -> None:
    """Only keys of accounts are names of files."""
    resolver = Directory(str(tmp_path))

    assert "" == resolver.load(name)
    assert not resolver.delete(name)
    with pytest.raises(ResolverError):
        resolver.save(name, "x", 1)
    assert [] == os.listdir(tmp_path)


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    """Whatever else lies there is neither read nor removed."""
    account = OPERATOR.account("A")
    (tmp_path / "README").write_text("x")
    (tmp_path / f"{account.public}.jwt").write_text("nonsense")
    resolver = Directory(str(tmp_path))

    assert [account.public] == resolver.names()
    keep(resolver, account)
    assert "x" == (tmp_path / "README").read_text()


def test_a_directory_that_cannot_be_used(tmp_path: Path) -> None:
    """The error names the directory."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ResolverError, match="file"):
        Directory(str(tmp_path / "file" / "below"))
