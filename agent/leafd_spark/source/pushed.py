"""Pushed filters: Spark's `where` conditions turned into bounds on the messages to read. Pure.

Spark hands conditions over that are joined by "and", and wants back those that it has to apply itself. A filter that
was used in part only is therefore both used and handed back.

    sequence     =, <, <=, >, >= exactly; `in` from the smallest to the largest, and again by Spark
    timestamp    the same, with SLACK to spare on both sides: servers of a cluster have several clocks, so a message may
                 be a little younger than the one before it; and again by Spark
    subject      =, `in`, and a prefix that ends with a dot exactly, if the query names no subject itself; another
                 prefix by its tokens, and again by Spark
    stream       = and `in`, if the query names its streams
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from leafd_spark.options import Options

SLACK = timedelta(seconds=10)
SUBJECTS_MAX = 64  # more filters than that are not worth it: the server looks at each for each message
NEVER_NULL = frozenset({"stream", "sequence", "subject", "timestamp"})
COMPARISONS = {"EqualTo": "=", "EqualNullSafe": "=", "In": "in"} | {
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "StringStartsWith": "starts",
}


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds on the messages to read of each stream, within the options."""

    first: int = 0
    last: int | None = None
    since: str = ""  # RFC 3339
    before: str = ""

    def within(self, first: int, last: int | None) -> Bounds:
        lasts = [bound for bound in (self.last, last) if bound is not None]
        return replace(self, first=max(self.first, first), last=min(lasts) if lasts else None)

    def between(self, since: str, before: str) -> Bounds:
        # Times of one form, so that their order is that of their texts.
        befores = [bound for bound in (self.before, before) if bound]
        return replace(self, since=max(self.since, since), before=min(befores) if befores else "")


class Pushing:
    """Takes filters one by one; `bounds` and `options` are what is left to read."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.bounds = Bounds()
        self._names_subjects = bool(options.subjects)

    def push(self, filters: Iterable[Any]) -> list[Any]:
        """Use what can be used; the filters that Spark still has to apply."""
        return [one for one in filters if not self._serves(one)]

    def _serves(self, one: Any) -> bool:
        """Use what can be used of a filter; True if Spark need not apply it."""
        kind, column = type(one).__name__, one.attribute[0] if len(getattr(one, "attribute", ())) == 1 else ""
        if kind == "IsNotNull":
            return column in NEVER_NULL
        operator = COMPARISONS.get(kind)
        if operator is None or one.value is None:
            return False
        if column == "sequence":
            return self._sequence(operator, one.value)
        if column == "timestamp":
            return self._timestamp(operator, one.value)
        if column == "subject":
            return self._subject(operator, one.value)
        return column == "stream" and self._stream(operator, one.value)

    def _sequence(self, operator: str, value: Any) -> bool:
        values = _values(value, int)
        if not values or operator == "starts":
            return False
        self.bounds = self.bounds.within(*_ends(operator, min(values), max(values)))
        return operator != "in"

    def _timestamp(self, operator: str, value: Any) -> bool:
        values = _values(value, datetime)
        if not values or operator == "starts":
            return False
        since = _text(min(values) - SLACK) if operator in (">", ">=", "=", "in") else ""
        before = _text(max(values) + SLACK) if operator in ("<", "<=", "=", "in") else ""
        self.bounds = self.bounds.between(since, before)
        return False

    def _subject(self, operator: str, value: Any) -> bool:
        values = _values(value, str)
        if not values or self._names_subjects:
            return False
        if operator == "starts":
            tokens, _, rest = values[0].rpartition(".")
            return _is_plain(tokens) and self._only((tokens + ".>",)) and not rest
        wanted = tuple(dict.fromkeys(values))
        if operator not in ("=", "in") or len(wanted) > SUBJECTS_MAX:
            return False
        return all(map(_is_plain, wanted)) and self._only(wanted)

    def _only(self, subjects: tuple[str, ...]) -> bool:
        # One condition is used. A second one Spark applies to what the first one lets through.
        if self.options.subjects:
            return False
        self.options = replace(self.options, subjects=subjects, subject=subjects[0] if len(subjects) == 1 else "")
        return True

    def _stream(self, operator: str, value: Any) -> bool:
        values = _values(value, str)
        if not values or operator not in ("=", "in") or not self.options.streams:
            return False
        kept = tuple(name for name in self.options.streams if name in values)
        if not kept:
            self.bounds = self.bounds.within(1, 0)
            return True
        self.options = replace(self.options, streams=kept, stream=kept[0])
        return True


def _values(value: Any, kind: type) -> list[Any]:
    """The values of a filter, or none if one is of another kind."""
    values = list(value) if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    return values if all(type(one) is kind for one in values) else []


def _ends(operator: str, least: int, most: int) -> tuple[int, int | None]:
    first = {">": least + 1, ">=": least, "=": least, "in": least}.get(operator, 0)
    last = {"<": most - 1, "<=": most, "=": most, "in": most}.get(operator)
    return first, last


def _text(instant: datetime) -> str:
    aware = instant if instant.tzinfo else instant.replace(tzinfo=UTC)
    return aware.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _is_plain(subject: str) -> bool:
    """Whether a text can stand as a filter for itself: tokens without wildcards, and all of it UTF-8 on the wire."""
    tokens = subject.split(".")
    return all(tokens) and not set(subject) & set(" \t\r\n\f\ufffd") and not {"*", ">"} & set(tokens)
