"""What the watchdog of systemd hears of."""

from __future__ import annotations

from dataclasses import fields, replace

from leafd import native_types as t
from leafd.host.systemd import DISK_S, Life


def test_the_watchdog_hears_of_threads_that_turn_and_of_nothing_else() -> None:
    """A plane that ticks and a journal that turns, or has nothing to write, prove life; one slow flush is no death."""
    stats = t.Stats(*(0 for _ in fields(t.Stats)))
    life = Life(stats, 0.0)
    assert not life.proven(stats, 1.0), "the plane has not ticked"
    assert life.proven(replace(stats, ticks=1), 2.0)
    stuck = replace(stats, ticks=2, journal_waiting=100, journal_rounds=7)
    assert life.proven(stuck, 3.0)
    assert life.proven(replace(stuck, ticks=3), 3.0 + DISK_S / 2)
    assert not life.proven(replace(stuck, ticks=4), 4.0 + DISK_S)
    assert life.proven(replace(stuck, ticks=5, journal_rounds=8), 5.0 + DISK_S), "a disk that refuses is tried again"
