"""What two sets of rights have in common, against a model that judges single subjects."""

from __future__ import annotations

from hypothesis import given, strategies as st
from leafd.auth.common import common_rights, intersection
from leafd.auth.policy import Rights
from leafd.config.schema.sharing import is_subset

LITERALS = [".".join(tokens) for tokens in (*"ab", "aa", "ab", "ba", "bb", "aaa", "aba", "abb", "bab", "bbbb")]
PATTERNS = st.builds(
    lambda tokens, tail: ".".join((*tokens, *tail)),
    st.lists(st.sampled_from(["a", "b", "*"]), min_size=1, max_size=3),
    st.sampled_from([(), (">",)]),
)
LISTS = st.lists(PATTERNS, max_size=3).map(tuple)


def allows(allow: tuple[str, ...], deny: tuple[str, ...], subject: str) -> bool:
    inside = not allow or any(is_subset(subject, one) for one in allow)
    return inside and not any(is_subset(subject, one) for one in deny)


@given(PATTERNS, PATTERNS)
def test_an_intersection_matches_what_both_match(one: str, other: str) -> None:
    """A subject matches the intersection of two patterns exactly when it matches both."""
    both = intersection(one, other)
    for subject in LITERALS:
        expected = is_subset(subject, one) and is_subset(subject, other)
        assert expected == (bool(both) and is_subset(subject, both)), (one, other, both, subject)


@given(LISTS, LISTS, LISTS, LISTS)
def test_common_rights_are_what_both_allow(
    old_allow: tuple[str, ...], old_deny: tuple[str, ...], allow: tuple[str, ...], deny: tuple[str, ...]
) -> None:
    """A subject is allowed by the common rights exactly when it is allowed by the old and the new ones."""
    found = common_rights(Rights(old_allow, old_deny, old_allow, old_deny), Rights(allow, deny, allow, deny))
    for subject in LITERALS:
        expected = allows(old_allow, old_deny, subject) and allows(allow, deny, subject)
        assert expected == allows(found.publish_allow, found.publish_deny, subject)
        assert expected == allows(found.subscribe_allow, found.subscribe_deny, subject)


def test_who_only_gains_or_loses_is_changed_once() -> None:
    """Common rights are one of the two sets, as it is, where that has nothing beyond the other."""
    wide, narrow = Rights(("a.>",), ("x",)), Rights(("a.b", "a.*.c"), ("x", "y"))
    assert (narrow, narrow) == (common_rights(wide, narrow), common_rights(narrow, wide))
