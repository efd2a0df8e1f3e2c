"""What the plane is told that an account's streams may store: jetstream/allowed.py."""

from __future__ import annotations

from leafd import native_types as t
from leafd.jetstream.allowed import allowances, is_bounded
from leafd.jetstream.catalogue import JetStreamLimits

FILE, MEMORY = 0, 1


def test_limits_for_all_streams_count_each_copy_elsewhere() -> None:
    """A stream of three servers, none of which is this one, takes three times of them."""
    limits = JetStreamLimits(max_store=100, max_memory=-1)
    elsewhere = [(FILE, 1, 10), (FILE, 3, 5), (MEMORY, 1, 7)]
    assert list(allowances(limits, elsewhere)) == [t.Allowed(0, 100, -1, 25, 7)]


def test_a_tier_holds_for_each_copy_and_what_has_no_tier_may_have_nothing() -> None:
    """R3 with 50 bytes is 150 for the copies of all its streams together."""
    limits = JetStreamLimits(tiers=(("R3", JetStreamLimits(max_store=50, max_memory=-1)),))
    assert list(allowances(limits, [(FILE, 3, 5), (FILE, 1, 9)])) == [
        t.Allowed(1, 0, 0, 9, 0),
        t.Allowed(2, 0, 0),
        t.Allowed(3, 150, -1, 15, 0),
        t.Allowed(4, 0, 0),
        t.Allowed(5, 0, 0),
    ]


def test_only_accounts_with_a_limit_of_bytes_are_told_of() -> None:
    """Numbers of streams do not count."""
    assert not is_bounded(JetStreamLimits(max_store=-1, max_memory=-1, max_streams=3))
    assert is_bounded(JetStreamLimits(max_store=0, max_memory=-1))
    assert is_bounded(JetStreamLimits(max_store=-1, max_memory=-1, tiers=(("R1", JetStreamLimits()),)))
