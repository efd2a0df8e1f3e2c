"""Each share of native/plane/memory.c has a row in tests/memory_table.py, each row rests on a test that is there, and
/varz and promises.md show them."""

from __future__ import annotations

import re
from typing import Final

import pytest
from leafd.native_plane import MEMORY_SHARES

from tests.memory_table import ROWS, table
from tests.proofs import ROOT, assert_there

SHARES: Final = [
    name.lower() for name in re.findall(r"^    \[MEMORY_(\w+)\] = ", (ROOT / "native/plane/memory.c").read_text(), re.M)
]


def test_each_share_has_a_row() -> None:
    """A new share needs a row, and so a test that fills it; a row of no share bounds nothing."""
    assert len(SHARES) > 10
    assert sorted(SHARES) == sorted({row.share for row in ROWS} - {""})


def test_varz_shows_each_share() -> None:
    """`leafd.memory` has all of them."""
    assert sorted(SHARES) == sorted(MEMORY_SHARES)


@pytest.mark.parametrize("proof", sorted({one for row in ROWS for one in row.proofs}))
def test_the_proof_is_there(proof: str) -> None:
    """A test that was renamed or removed leaves the table, too."""
    assert_there(proof)


def test_no_row_stands_twice() -> None:
    """Each name stands once."""
    assert len(ROWS) == len({row.name for row in ROWS})


def test_the_page_has_the_table() -> None:
    """python -m tests.memory_table writes it."""
    assert table() in (ROOT / "packaging/doc/promises.md").read_text()
