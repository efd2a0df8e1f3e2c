"""Single damaged pages under a real daemon: some of the cases that `python -m tests.crash.damaged` plays in masses."""

from __future__ import annotations

import pytest

from tests.crash.damaged import STORES, run_all, table

LARGE = 60
"""Messages of 21 KB. The same for all, so that each kind of store is made once."""


@pytest.mark.parametrize(
    ("only", "cases"), [("stopped", 4), ("running", 4), ("journal", 2), ("unread stopped", 1), ("unread running", 2)]
)
def test_a_damaged_page_ends_nothing_and_is_told(only: str, cases: int) -> None:
    """No daemon dies, no start is refused, nothing wrong is served, and what is missing was said."""
    verdicts = run_all(cases, 23, only, large=LARGE)
    assert cases == len(verdicts)
    assert not any(verdict.outcomes for verdict in verdicts), table(verdicts)


@pytest.mark.parametrize("store", STORES)
def test_without_the_list_of_databases_nothing_is_lost(store: str) -> None:
    """What hung from it is found by what it holds, encrypted or compressed, and every message with it."""
    (verdict,) = run_all(1, 29, "stopped", large=LARGE, store=store, kind="main leaf")
    assert not verdict.outcomes, verdict.notes
    assert 0 == verdict.lost
