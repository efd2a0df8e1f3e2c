"""Whether a test that a document names as its proof is there. Not here: the documents' own tables."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).resolve().parents[1]


def holds(proof: str) -> bool:
    """A file below tests/, a test function in it (PATH::NAME), or a promise of a C test (behind the path, a colon)."""
    path, _, name = re.sub(r"(\.c): ", r"\1::", proof).partition("::")
    file = TESTS / path
    if not file.exists():
        return False
    if file.suffix == ".c" and name:
        return f'"{name}"' in re.sub(r'"\s*\n\s*"', "", file.read_text())
    return not name or re.search(rf"^(async )?def {name}\(", file.read_text(), re.M) is not None
