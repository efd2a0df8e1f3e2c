"""Full garbage collections do not hold the control thread: what a slow one leaves is not walked again."""

from __future__ import annotations

import gc

from leafd.host.garbage import short_collections


def test_a_second_full_collection_does_not_walk_what_a_slow_one_left() -> None:
    """Many objects that stay are walked by one full collection and by none after it, and are freed as others are."""
    before = gc.get_freeze_count()
    try:
        with short_collections():
            many = [[n] for n in range(1_000_000)]
            gc.collect()
            frozen = gc.get_freeze_count()
            walked = len(gc.get_objects())
            del many
            freed = frozen - gc.get_freeze_count()
    finally:
        gc.unfreeze()

    assert before + 500_000 <= frozen
    assert 500_000 > walked
    assert 500_000 <= freed


def test_a_quick_collection_freezes_nothing() -> None:
    """Where collections are quick, everything stays as it is."""
    gc.freeze()
    try:
        before = gc.get_freeze_count()
        with short_collections(lambda: 0.0):
            some = [[n] for n in range(100)]
            gc.collect()

        # (Frozen objects of earlier tests may be freed meanwhile.)
        assert (True, 100) == (gc.get_freeze_count() <= before, len(some))
    finally:
        gc.unfreeze()


def test_nothing_is_left_behind() -> None:
    """Outside of it collections are as they were."""
    before = list(gc.callbacks)
    with short_collections():
        assert len(before) + 1 == len(gc.callbacks)

    assert before == gc.callbacks
