"""Overlap and subset of subject patterns against a model that tries every subject of a small set."""

from __future__ import annotations

import itertools
import random
import re
import time

import pytest
from leafd.config import transforms
from leafd.config.transforms import TransformError, check_mapping, check_transform, valid_subject
from leafd.jetstream.errors import ApiError
from leafd.jetstream.subjects import (
    LIST_MAX,
    Steps,
    SubjectSet,
    check_list,
    collide,
    first_overlap,
    literal,
    subset,
    valid_name,
)

LITERALS = [".".join(tokens) for size in (1, 2, 3, 4) for tokens in itertools.product("ab", repeat=size)]
PATTERNS = [
    ".".join(tokens)
    for size in (1, 2, 3)
    for tokens in itertools.product(("a", "b", "*", ">"), repeat=size)
    if ">" not in tokens[:-1]
]


def matches(pattern: str, subject: str) -> bool:
    """The definition, one token after the other."""
    wanted, tokens = pattern.split("."), subject.split(".")
    for index, token in enumerate(wanted):
        if token == ">":
            return len(tokens) > index
        if index >= len(tokens) or token not in ("*", tokens[index]):
            return False
    return len(wanted) == len(tokens)


def test_collide_and_subset_mean_what_they_say() -> None:
    """For every pair of patterns: collide = a subject matches both, subset = no subject matches only the first."""
    matched = {pattern: {subject for subject in LITERALS if matches(pattern, subject)} for pattern in PATTERNS}
    for one, other in itertools.product(PATTERNS, repeat=2):
        assert bool(matched[one] & matched[other]) == collide(one, other), (one, other)
        assert (matched[one] <= matched[other]) == subset(one, other), (one, other)


@pytest.mark.parametrize("subject", ["", ".", "a.", ".a", "a..b", "a b", "a.\t", ">.a", "a.>.b"])
def test_what_is_no_subject(subject: str) -> None:
    """Empty tokens, blanks, and `>` before the end."""
    assert not valid_subject(subject)


@pytest.mark.parametrize("subject", ["a", "*", ">", "a.*.b", "a.>", "$JS.x", "a>b", "ü"])
def test_what_is_a_subject(subject: str) -> None:
    """Wildcards are tokens of their own; inside a token they are characters."""
    assert valid_subject(subject)


def test_literal_means_no_wildcard_token() -> None:
    """A star inside a token is no wildcard."""
    assert [True, True, False, False] == [literal(one) for one in ("a.b", "a*.b", "a.*", ">")]


@pytest.mark.parametrize("name", ["", "a.b", "a b", "a*", ">", "a/b", "a\\b", "a\n"])
def test_what_is_no_name(name: str) -> None:
    """Names become tokens of subjects and, at the reference, directories."""
    assert not valid_name(name)


@pytest.mark.parametrize(
    ("source", "destination"),
    [("a.*", "b.$1"), ("a.*.*", "b.{{wildcard(2)}}.{{Wildcard(1)}}"), ("a.>", "b.>"), ("", "x.>"), ("a", "b"),
     ("a.*", "p.{{partition(5,1)}}"), ("a", "p.{{partition(5)}}"), ("a.*", "{{split(1,-)}}"), ("a.*", "")],
)  # fmt: skip
def test_transforms_that_work(source: str, destination: str) -> None:
    """Functions, numbers of wildcards, and the tail carried over."""
    check_transform(source, destination)
    check_mapping(source, destination)


@pytest.mark.parametrize(
    ("source", "destination", "why"),
    [
        ("a.*", "b.$2", "invalid mapping destination: wildcard index out of range in $2: [2]"),
        ("a.*", "b.{{foo(1)}}", "invalid mapping destination: unknown function in {{foo(1)}}"),
        ("a.*", "b.*", "invalid subject"),
        ("a.>", "b", "invalid subject"),
        ("a.*", "b.{{wildcard()}}",
         "invalid mapping destination: not enough arguments passed to the function in {{wildcard()}}"),
        ("a.*", "b.{{split(1)}}",
         "invalid mapping destination: not enough arguments passed to the function in {{split(1)}}"),
        ("a.*", "b.{{WILDCARD(1)}}", "invalid mapping destination: unknown function in {{WILDCARD(1)}}"),
        ("a.*", "b.{{wildcard(1,2)}}",
         "invalid mapping destination: too many arguments passed to the function in {{wildcard(1,2)}}"),
        ("a.*", "b.{{random(1,2)}}",
         "invalid mapping destination: not enough arguments passed to the function in {{random(1,2)}}"),
        ("a.*", "b.{{partition()}}",
         "invalid mapping destination: function argument is invalid or in the wrong format in {{partition()}}"),
        ("a.*", "b.{{partition(2147483648,1)}}",
         "invalid mapping destination: function argument is invalid or in the wrong format in "
         "{{partition(2147483648,1)}}"),
        ("a.*", "b.{{split(1,- )}}",
         "invalid mapping destination: function argument is invalid or in the wrong format in {{split(1,- )}}"),
        ("a.b", "b.$1", "invalid mapping destination: wildcard index out of range in $1"),
        ("a.*", "b..c", "invalid mapping destination: invalid transform"),
        ("a.>", "b.>.c", "invalid mapping destination: invalid transform in c"),
        ("a.b", "b. c", "invalid mapping destination: invalid transform"),
    ],
)  # fmt: skip
def test_transforms_that_do_not(source: str, destination: str, why: str) -> None:
    """The words are the reference's."""
    with pytest.raises(TransformError) as caught:
        check_mapping(source, destination)
    assert why == str(caught.value)


def drawn(draw: random.Random) -> list[str]:
    """A short list of patterns; its tokens repeat, so that they meet often."""
    tokens = [draw.choices(("a", "b", "c", "*"), (3, 2, 1, 2), k=draw.randint(1, 4)) for _ in range(draw.randint(0, 5))]
    return [".".join([*one, ">"] if draw.random() < 0.2 else one) for one in tokens]


def test_sets_of_subjects_answer_what_pairs_of_subjects_do() -> None:
    """In a seeded duel of small lists each question to a SubjectSet has the answer of all pairs together."""
    draw = random.Random(7)
    for _ in range(4000):
        ours, theirs = drawn(draw), drawn(draw)
        mine = SubjectSet(ours)
        assert any(collide(a, b) for a in ours for b in theirs) == mine.meets(SubjectSet(theirs)), (ours, theirs)
        assert any(collide(a, b) for a, b in itertools.combinations(ours, 2)) == mine.meets_itself(), ours
        pairs = itertools.combinations(enumerate(ours), 2)
        first = next(((i, j) for (i, a), (j, b) in pairs if collide(a, b)), None)
        assert first == first_overlap(tuple(ours)), ours
        for index, one in enumerate(ours):
            others = ours[:index] + ours[index + 1 :]
            assert any(subset(one, other) for other in others) == mine.covers_beside(one, Steps()), (one, ours)


def test_the_pair_that_overlaps_is_named_in_a_long_list_too() -> None:
    """The last of 10,000 subjects overlaps with the one before it, as the reference says."""
    subjects = tuple(f"b.{number}.>" for number in range(9_999))
    assert first_overlap((*subjects, "b.9998.x")) == (9998, 9999)


def test_lists_that_are_written_to_be_compared_for_ever_are_refused() -> None:
    """Every node of one trie fits every node of the other: refused after a bounded number of steps."""
    ends = ("x", "y")
    lists = [[".".join((*one, end)) for one in itertools.product(("a", "*"), repeat=11)] for end in ends]
    with pytest.raises(ApiError):
        SubjectSet(lists[0]).meets(SubjectSet(lists[1]))


@pytest.mark.parametrize(
    "subjects",
    [["a"] * (LIST_MAX + 1), ["a" * 5000], [".".join("a" * 257)], [".".join("a" * 250)] * 1000],
    ids=["many", "long", "deep", "many tokens"],
)
def test_lists_beyond_the_bounds_are_refused_before_anything_is_made_of_them(subjects: list[str]) -> None:
    """Each bound refuses what is beyond it."""
    with pytest.raises(ApiError):
        check_list(subjects, len(subjects), "subjects")


def test_a_transform_is_read_in_linear_time() -> None:
    """A megabyte of beginnings without an end, and of ends without a beginning, takes no second."""
    start = time.thread_time()
    for text in ("{{wildcard(" * 100_000, "{{" + ") }}" * 250_000, "{{wildcard(" * 50_000 + "\n" + ")}}" * 50_000):
        with pytest.raises(TransformError):
            check_mapping("a.*", "{{" + text + "}}")
    assert time.thread_time() - start < 1.5


def test_calls_are_found_as_one_expression_would_find_them() -> None:
    """In a seeded duel with the expression that is the definition, name and arguments are the same."""
    spaces = r"[\t\n\f\r ]*"
    names = {name: "".join(f"[{word[0]}{word[0].upper()}]{word[1:]}" for word in name.split("-")) for name in
             ("wildcard", "partition", "left", "right")}  # fmt: skip
    whole = {name: re.compile(rf"\{{\{{{spaces}{text}{spaces}\((.*)\){spaces}\}}\}}") for name, text in names.items()}
    parts = ("{{", " ", "wildcard", "Partition", "(", ")", "}}", "\n", "1", "{{wildcard(", ")}}", "{{left (", ")  }}")
    draw = random.Random(7)
    for _ in range(20_000):
        token = "{{" + "".join(draw.choices(parts, k=draw.randint(0, 10))) + "}}"
        expected = next(((n, found[1]) for n, one in whole.items() if (found := one.search(token))), None)
        assert expected == transforms._function(token), token
