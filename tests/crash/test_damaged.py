"""Single damaged pages under a real daemon: some of the cases that `python -m tests.crash.damaged` plays in masses."""

from __future__ import annotations

import pytest

from tests.crash.damaged import run_all, table


@pytest.mark.parametrize(("only", "cases"), [("stopped", 4), ("running", 4), ("journal", 2)])
def test_a_damaged_page_ends_nothing_and_is_told(only: str, cases: int) -> None:
    """No daemon dies, no start is refused, nothing wrong is served, and what is missing was said."""
    verdicts = run_all(cases, 23, only)
    assert cases == len(verdicts)
    assert not any(verdict.outcomes for verdict in verdicts), table(verdicts)
