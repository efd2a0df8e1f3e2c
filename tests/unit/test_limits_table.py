"""Every limit of the configuration, of JWTs and of promises.md has a row in tests/limits_table.py, each row rests on a
test that is there, and promises.md shows the rows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from typing import Final

import pytest
from leafd.auth.jwt_claims import AccountLimits, JetStreamLimits, Permissions, UserLimits
from leafd.config.bind import inner_models
from leafd.config.schema.section import Section, Support, hints
from leafd.config.schema.server import ServerConfig

from tests.limits_table import PROMISED, ROWS, table
from tests.proofs import ROOT, assert_there

PROMISES: Final = ROOT / "packaging" / "doc" / "promises.md"
LIMIT: Final = re.compile(r"(^|_)max(imum)?(_|$)|(^|_)limit$|^duplicate_window$|^timeout$")
NO_LIMITS: Final = {
    "authorization.timeout": "how long a login may take: wire/client/auth-timeout.wire",
    "leafnodes.authorization.timeout": "likewise",
    "cluster.authorization.timeout": "likewise",
    "gateway.authorization.timeout": "likewise",
    "websocket.authorization.timeout": "likewise",
    "mqtt.authorization.timeout": "likewise",
    "tls.timeout": "how long a handshake may take: interop/test_tls_attacks.py",
    "ping_max": "how long a silent connection lives: wire/client/stale.wire",
    "resolver.timeout": "how long an answer is waited for",
    "leafnodes.remotes.proxy.timeout": "likewise",
}
"""What is called like a limit and bounds nothing that anybody may do or have."""


SHARED: Final = {
    "tls": "tls.",
    "resolver_tls": "tls.",
    "permissions": "permissions.",
    "default_permissions": "permissions.",
}
"""Blocks that are the same wherever they stand."""


def configured(model: type[Section], prefix: str = "") -> Iterator[str]:
    """The names of all that sets a limit."""
    for name, one in model.options.items():
        if one.support != Support.FULL:
            continue
        inner, _ = inner_models(hints(model)[name])
        if inner is not None:
            yield from configured(inner, SHARED.get(name, f"{prefix}{name}."))
        elif LIMIT.search(name) or prefix == "accounts.jetstream.":
            yield f"{prefix}{name}"


def claimed() -> Iterator[str]:
    """Those of JWTs."""
    shares = {one.name for one in fields(JetStreamLimits)}
    yield from (f"jwt.account.{one.name}" for one in fields(AccountLimits) if one.name != "tiers")
    yield from (f"jwt.account.tiered_limits.R1.{name}" for name in shares)
    known = {one.name for one in fields(Permissions)}
    yield from (f"jwt.user.{one.name}" for one in fields(UserLimits) if one.name not in known)


def test_each_limit_of_the_configuration_has_a_row() -> None:
    """A new key that bounds something needs a row, and so a test that exceeds it."""
    named = {row.name for row in ROWS if not row.name.startswith(("jwt.", "promises."))}
    assert sorted(named) == sorted(set(configured(ServerConfig)) - set(NO_LIMITS))
    assert set() == set(NO_LIMITS) - set(configured(ServerConfig))


def test_each_limit_of_a_jwt_has_a_row() -> None:
    """So does a new limit of the JWT library."""
    assert sorted(row.name for row in ROWS if row.name.startswith("jwt.")) == sorted(claimed())


def promised() -> Iterator[str]:
    """The lines of promises.md that name a number, up to what is promised of a full disk, without markup."""
    page = PROMISES.read_text().split("\n## A disk that fails")[0]
    for line in re.findall(r"^- (.*?)(?=^- |\Z|^\n|^## )", page, flags=re.M | re.S):
        text = " ".join(line.split())
        if re.search(r"at most|\d{2}", re.sub(r"`[^`]*`", "", text)):
            yield re.sub(r"[*`]", "", text)


def test_each_number_that_is_promised_is_proved() -> None:
    """A line with a number begins like exactly one row of PROMISED, and each of these is some line's beginning."""
    lines = list(promised())
    assert [] == [line for line in lines if sum(line.startswith(begin) for begin in PROMISED) != 1]
    assert [] == [begin for begin in PROMISED if sum(line.startswith(begin) for line in lines) != 1]


@pytest.mark.parametrize("proof", sorted({one for row in ROWS for one in row.proofs} | {*sum(PROMISED.values(), ())}))
def test_the_proof_is_there(proof: str) -> None:
    """A test that was renamed or removed leaves the table, too."""
    assert_there(proof)


def test_no_limit_has_two_rows() -> None:
    """Each name stands once."""
    assert len(ROWS) == len({row.name for row in ROWS})


def test_the_page_has_the_table() -> None:
    """python -m tests.limits_table writes it."""
    assert table() in PROMISES.read_text()
