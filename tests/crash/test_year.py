"""Some days of a box below its hub (year.py): each message that was acknowledged is at the hub once.

Not here: clocks that are wrong while an old copy is put back, which the command tries, too.
"""

from __future__ import annotations

from tests.crash.year import EVENTS, lived

STEADY = [one for one in EVENTS if one != "clock"]


def test_some_days_of_a_box() -> None:
    outcome, year = lived(4, 9, STEADY)
    assert (outcome.lost, outcome.twice, outcome.kept, outcome.untold) == ([], [], [], [])
    assert len(year.happened) > 2
    assert len(year.acknowledged) > 50
