"""Each limit is exceeded, on leafd and, where it has it, on nats-server: what is refused, with which words, and what is
there afterwards. The rows are tests/limits_table.py's, the attacks limit_attacks.py's."""

from __future__ import annotations

import pytest

from tests.interop.limit_attacks import ATTACKS
from tests.limits_table import PLAYED, Row
from tests.servers import LEAFD, REFERENCE

CASES = [(row, kind) for row in PLAYED for kind in (LEAFD, REFERENCE) if kind == LEAFD or row.theirs]


@pytest.mark.parametrize(("row", "kind"), CASES, ids=[f"{row.name}-{kind}" for row, kind in CASES])
def test_beyond_the_limit(row: Row, kind: str) -> None:
    """What exceeds it is refused with the row's words, and what the row says remains."""
    assert (row.refused, row.remains) == ATTACKS[row.name](kind)


def test_no_attack_is_left_over() -> None:
    """An attack without a row would never be played."""
    assert sorted(row.name for row in PLAYED) == sorted(ATTACKS)
