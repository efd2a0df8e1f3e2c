"""Filters that Spark pushes: what they cut off is what they refuse, and what they cannot cut Spark gets back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, strategies as st
from leafd_spark.options import Options, parse_options
from leafd_spark.source.pushed import Bounds, Pushing
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringEndsWith,
    StringStartsWith,
)

SEQUENCE, SUBJECT, STREAM, TIME = ("sequence",), ("subject",), ("stream",), ("timestamp",)
MEANINGS: dict[type, Callable[[int, Any], bool]] = {
    EqualTo: lambda n, value: bool(n == value),
    GreaterThan: lambda n, value: bool(n > value),
    GreaterThanOrEqual: lambda n, value: bool(n >= value),
    LessThan: lambda n, value: bool(n < value),
    LessThanOrEqual: lambda n, value: bool(n <= value),
    In: lambda n, value: n in value,
}
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def pushed(*filters: Filter, **options: str) -> tuple[Options, Bounds, list[Any]]:
    pushing = Pushing(parse_options({"stream": "A,B"} | options))
    left = pushing.push(filters)
    return pushing.options, pushing.bounds, left


def compared(kind: Any, value: int) -> Filter:
    found: Filter = kind(SEQUENCE, value)
    return found


def listed(values: list[int]) -> Filter:
    return In(SEQUENCE, tuple(values))


@given(
    filters=st.lists(
        st.builds(
            compared,
            st.sampled_from([EqualTo, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual]),
            st.integers(0, 30),
        )
        | st.builds(listed, st.lists(st.integers(0, 30), min_size=1, max_size=4)),
        max_size=4,
    )
)
def test_bounds_of_sequences_hold_what_the_filters_accept(filters: list[Any]) -> None:
    """What is read, with what Spark applies again, is what the conditions say: no row more, none less."""

    def accepted(numbers: Any, conditions: list[Any]) -> list[int]:
        return [n for n in numbers if all(MEANINGS[type(one)](n, one.value) for one in conditions)]

    _, bounds, left = pushed(*filters)
    last = 40 if bounds.last is None else bounds.last
    assert accepted(range(1, 41), filters) == accepted(range(max(1, bounds.first), last + 1), left)
    assert all(isinstance(one, In) for one in left)


def test_ten_messages_are_ten_messages() -> None:
    """`where sequence > 1000 and sequence <= 1010` is served whole: nothing is left to Spark."""
    _, bounds, left = pushed(IsNotNull(SEQUENCE), GreaterThan(SEQUENCE, 1000), LessThanOrEqual(SEQUENCE, 1010))
    assert (1001, 1010, []) == (bounds.first, bounds.last, left)


@pytest.mark.parametrize(
    ("one", "subjects", "served"),
    [
        (EqualTo(SUBJECT, "s.3"), ("s.3",), True),
        (In(SUBJECT, ("s.3", "s.4")), ("s.3", "s.4"), True),
        (StringStartsWith(SUBJECT, "s."), ("s.>",), True),
        (StringStartsWith(SUBJECT, "s.3"), ("s.>",), False),
        (StringStartsWith(SUBJECT, "s"), (), False),
        (StringEndsWith(SUBJECT, ".3"), (), False),
        (Not(EqualTo(SUBJECT, "s.3")), (), False),
        # These are no filters of the server: its wildcards, and what cannot be a subject.
        (EqualTo(SUBJECT, "s.*"), (), False),
        (EqualTo(SUBJECT, "s..3"), (), False),
        (EqualTo(SUBJECT, ""), (), False),
        (EqualTo(("headers", "subject"), "s.3"), (), False),
    ],
)
def test_subjects_that_map_to_a_filter(one: Filter, subjects: tuple[str, ...], served: bool) -> None:
    """Equality, a list and a prefix become filters at the server; what maps in part or not goes back to Spark."""
    options, _, left = pushed(one)
    assert subjects == options.subjects
    assert ([] if served else [one]) == left


def test_a_subject_of_the_query_stays() -> None:
    """Where the query names subjects itself Spark applies the condition."""
    one = EqualTo(SUBJECT, "s.3")
    options, _, left = pushed(one, subject="s.*")
    assert (("s.*",), [one]) == (options.subjects, left)


def test_a_second_condition_on_the_subject_is_sparks() -> None:
    """Two conditions are not widened to either."""
    first, second = StringStartsWith(SUBJECT, "s."), EqualTo(SUBJECT, "s.3")
    options, _, left = pushed(first, second)
    assert (("s.>",), [second]) == (options.subjects, left)


def test_times_are_cut_with_time_to_spare_and_applied_again() -> None:
    """Clocks of a cluster differ, so a condition on time narrows what is read and stays with Spark."""
    filters = [GreaterThanOrEqual(TIME, NOON), LessThan(TIME, NOON)]
    _, bounds, left = pushed(*filters)
    assert ("2026-01-31T11:59:50.000000Z", "2026-01-31T12:00:10.000000Z") == (bounds.since, bounds.before)
    assert filters == left


def test_streams_are_chosen_among_the_querys() -> None:
    """A condition on the stream leaves out the others, and one that none meets reads nothing."""
    options, _, left = pushed(EqualTo(STREAM, "B"))
    assert (("B",), []) == (options.streams, left)
    _, bounds, left = pushed(EqualTo(STREAM, "C"))
    assert (1, 0, []) == (bounds.first, bounds.last, left)
