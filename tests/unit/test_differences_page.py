"""Each line of differences.md rests on tests that are there. Not here: which those are (differences.py)."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.unit import proofs
from tests.unit.differences import PROOFS

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "packaging" / "doc" / "differences.md"


@cache
def lines() -> tuple[str, ...]:
    """The page's lines without markup."""
    found = re.findall(r"^- (.*?)(?=^- |\Z|^\n|^## )", PAGE.read_text(), flags=re.M | re.S)
    return tuple(re.sub(r"[*`]", "", " ".join(one.split())) for one in found)


def test_each_line_has_its_proof() -> None:
    """A new line of the page needs a row in the table: the tests that hold it."""
    assert [] == [one for one in lines() if sum(one.startswith(name) for name in PROOFS) != 1]
    assert [] == [name for name in PROOFS if sum(one.startswith(name) for one in lines()) != 1]


@pytest.mark.parametrize("proof", sorted({proof for proofs in PROOFS.values() for proof in proofs}))
def test_the_proof_is_there(proof: str) -> None:
    """A test that was renamed or removed leaves the table, too."""
    assert proofs.holds(proof)
