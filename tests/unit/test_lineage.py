"""The epochs of a stream as a text: what is written is read, what is no lineage is refused, and no more than KEPT stay.

Not here: what a copy makes of them (links/test_epochs.py), who writes them down (jetstream/test_epochs.py).
"""

from __future__ import annotations

import pytest
from leafd.lineage import KEPT, begun, behind, cut_before, epoch_at, first_of_all, lineage_of, parts, text_of

LINEAGE = ((0, "0c"), (101, "a1"), (140, "b2"))


def test_a_lineage_is_written_and_read() -> None:
    """In order, and with its first sequences."""
    assert text_of(LINEAGE) == "0:0c 101:a1 140:b2"
    assert lineage_of("0:0c 101:a1 140:b2") == LINEAGE


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "1:",
        ":a",
        "1:g",
        "1:a 1:b",
        "2:a 1:b",
        "1:a  2:b",
        " 1:a",
        "1:a 2:a",
        "-1:a",
        "1:00112233445566778",
        "18446744073709551616:a",
        " ".join(f"{number}:{number:x}" for number in range(1, KEPT + 2)),
        "1:a " * 10_000,
    ],
)
def test_what_is_no_lineage_is_refused(text: str) -> None:
    """It comes from another server, or from a disk."""
    with pytest.raises(ValueError, match="epoch"):
        lineage_of(text)


def test_a_start_has_an_epoch_behind_what_is_there() -> None:
    """One without a message is none any more, nor one whose messages were lost; the oldest goes."""
    assert begun(LINEAGE, 150, "c") == (*LINEAGE, (151, "c"))
    assert begun(LINEAGE, 139, "c") == (*LINEAGE[:2], (140, "c"))
    assert begun(LINEAGE, 120, "c") == (*LINEAGE[:2], (121, "c"))
    assert begun(LINEAGE, 0, "c") == (LINEAGE[0], (1, "c"))
    assert first_of_all("c") == ((0, "c"),)
    full = tuple((number, f"{number:x}") for number in range(1, KEPT + 1))
    assert begun(full, 1000, "c0de") == (*full[1:], (1001, "c0de"))


def test_a_sequence_has_the_epoch_that_began_before_it() -> None:
    """None where the lineage begins behind it."""
    assert [epoch_at(LINEAGE, sequence) for sequence in (0, 1, 100, 101, 139, 140, 10**9)] == [
        "0c",
        "0c",
        "0c",
        "a1",
        "a1",
        "b2",
        "b2",
    ]
    assert epoch_at(LINEAGE[1:], 100) == ""


def test_who_knows_an_epoch_hears_what_came_since() -> None:
    """Who knows none of them hears all."""
    assert behind(LINEAGE, "a1") == LINEAGE[1:]
    assert behind(LINEAGE, "ff") == LINEAGE
    assert behind(LINEAGE, "") == LINEAGE


def test_a_lineage_is_cut() -> None:
    """Before a sequence."""
    assert cut_before(LINEAGE, 0) == LINEAGE
    assert cut_before(LINEAGE, 101) == LINEAGE[1:]
    assert cut_before(LINEAGE, 120) == ((120, "a1"), (140, "b2"))
    assert cut_before(LINEAGE, 1000) == ((1000, "b2"),)


def test_who_has_what_a_stream_never_had_has_taken_it_from_a_newer_store() -> None:
    """Of an epoch that is forgotten that is not known."""
    assert not parts(LINEAGE, 100, "0c")
    assert not parts(LINEAGE, 10**9, "b2")
    assert parts(LINEAGE, 101, "0c")
    assert parts(LINEAGE, 50, "ff")
    assert not parts(LINEAGE, 50, "")
    assert not parts(tuple((number, f"{number:x}") for number in range(1, KEPT + 1)), 50, "ff")
