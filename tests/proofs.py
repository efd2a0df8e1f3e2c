"""The tests that a row of a table names: a file below tests/, with `::` and a function, or `: ` and a promise of C."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]


def assert_there(proof: str) -> None:
    """A test that was renamed or removed leaves the table, too."""
    path, _, name = re.sub(r"(\.c): ", r"\1::", proof).partition("::")
    file = ROOT / "tests" / path
    assert file.exists()
    if file.suffix == ".c" and name:
        assert f'"{name}"' in re.sub(r'"\s*\n\s*"', "", file.read_text())
    elif name:
        assert re.search(rf"^(async )?def {name}\(", file.read_text(), re.M)
