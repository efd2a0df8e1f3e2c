"""The page that explains the doctor's findings has all of them."""

from __future__ import annotations

import re
from pathlib import Path

from leafd.doctor.findings import Check

PAGE = Path(__file__).resolve().parents[3] / "packaging" / "doc" / "doctor.md"


def test_each_check_has_a_paragraph_and_no_paragraph_is_of_none() -> None:
    """The names in the table's second column are the page's headings."""
    headings = [name for line in re.findall(r"^## (.*)$", PAGE.read_text(), re.MULTILINE) for name in line.split(", ")]
    assert sorted(headings) == sorted(Check)
