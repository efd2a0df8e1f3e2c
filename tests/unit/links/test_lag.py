"""Which copies are said to come no nearer to their origin. Played on a clock of its own."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import trio
import trio.testing
from leafd import native_types as t
from leafd.links.lag import NO_NEARER, NO_NEARER_S, SlotInfo, Told
from leafd.links.replica import Replica

BEHIND = t.IngestState(9, 0, 50, 0, 0, 0, 1, known_ns=0, pace_milli=0)


def after(seconds: float, *states: t.IngestState, error: dict[str, object] | None = None) -> SlotInfo:
    """The info of the last state, with the others told so long before."""

    async def play() -> SlotInfo:
        told = Told()
        for state in states[:-1]:
            told.note(state)
        await trio.sleep(seconds)
        replica = cast(Replica, SimpleNamespace(last_sequence=0, error=error, put_back_s=None))
        return told.info(replica, states[-1])

    return trio.run(play, clock=trio.testing.MockClock(autojump_threshold=0))


def test_a_copy_that_is_behind_and_takes_nothing_is_told() -> None:
    assert NO_NEARER == after(NO_NEARER_S + 1, BEHIND, BEHIND).error


def test_one_whose_origin_is_faster_is_told() -> None:
    """A negative pace: more is missing from minute to minute."""
    slower = replace(BEHIND, pace_milli=-2000)
    assert NO_NEARER == after(NO_NEARER_S + 1, BEHIND, slower).error


def test_one_that_comes_nearer_is_well_however_slow_it_is() -> None:
    assert after(NO_NEARER_S + 1, BEHIND, replace(BEHIND, pace_milli=1)).error is None


def test_one_that_has_just_begun_or_was_level_of_late_is_well() -> None:
    level = replace(BEHIND, lag=0, level_ns=0)
    assert after(NO_NEARER_S - 1, BEHIND, BEHIND).error is None
    assert after(NO_NEARER_S - 1, replace(BEHIND, level_ns=0), level, BEHIND).error is None


def test_one_that_does_not_know_how_far_it_is_says_nothing_of_it() -> None:
    assert after(NO_NEARER_S + 1, BEHIND, replace(BEHIND, known_ns=-1)).error is None
    assert after(NO_NEARER_S + 1, BEHIND, replace(BEHIND, pace_milli=t.PACE_UNKNOWN)).error is None


def test_another_reason_stays() -> None:
    """Nothing is put in its place."""
    refused: dict[str, object] = {"code": 503, "description": "refused"}
    assert refused == after(NO_NEARER_S + 1, BEHIND, BEHIND, error=refused).error
