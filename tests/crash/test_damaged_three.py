"""Damaged pages and journal blocks at one of three servers: some of the rounds that
`python -m tests.crash.damaged_three` plays in masses."""

from __future__ import annotations

from tests.crash.damaged_three import run_all, table


def test_a_damaged_disk_of_three_comes_back_by_itself() -> None:
    """Nobody dies, streams go on, and the hurt server leads in the end with every message that was acknowledged."""
    rounds = run_all(4, 31)
    assert len(rounds) == 4
    assert not any(one.outcomes for one in rounds), table(rounds) + "".join(f"\n{one.notes}" for one in rounds)
