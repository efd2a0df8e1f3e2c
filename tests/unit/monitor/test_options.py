"""Options of reports, as HTTP and JSON bring them. The words of refusals are those that nats-server 2.15.1 says."""

from __future__ import annotations

import re
from typing import Any

import pytest
from leafd.monitor.options import flag, number, text

MOST = (1 << 63) - 1


@pytest.mark.parametrize(
    ("value", "on"),
    [("1", True), ("t", True), ("True", True), ("0", False), ("", False), ("F", False), (True, True), (0, False)],
)
def test_a_switch_is_read_as_go_reads_it(value: object, on: bool) -> None:
    """strconv.ParseBool takes twelve words; JSON brings true and false."""
    assert on is flag({"subs": value}, "subs")


def test_one_of_several_names_is_enough_and_each_is_read() -> None:
    """A switch with two names is on by either, and a wrong value under the second is not passed over."""
    assert flag({"subs": "0", "subscriptions": "1"}, "subs", "subscriptions")
    with pytest.raises(ValueError, match="for 'subscriptions'"):
        flag({"subs": "1", "subscriptions": "yes"}, "subs", "subscriptions")


def test_a_switch_that_is_none_is_refused_in_the_words_of_go() -> None:
    """The value is quoted, so that it cannot end the line that it stands in."""
    words = 'Error decoding boolean for \'subs\': strconv.ParseBool: parsing "a\\"\\n": invalid syntax'
    with pytest.raises(ValueError, match=re.escape(words)):
        flag({"subs": 'a"\n'}, "subs")


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (None, 7), ("", 7), ("0", 0), ("+5", 5), ("-5", 0), (12, 12), (-1, 0), ("9" * 400, MOST), (1 << 80, MOST),
    ],
)  # fmt: skip
def test_a_number_is_never_below_none_and_never_beyond_what_c_holds(value: object, found: int) -> None:
    """Nothing said is the default; however many digits there are, reading them costs little."""
    assert found == number({"limit": value}, "limit", 7)


@pytest.mark.parametrize("value", ["1.5", "x", "+", "--1", "٣", "1 "])
def test_a_number_that_is_none_is_refused(value: str) -> None:
    """Digits of other scripts are no digits to Go, either."""
    with pytest.raises(ValueError, match=r"Error decoding int for 'limit': strconv\.Atoi: parsing"):
        number({"limit": value}, "limit", 0)


def test_the_id_of_a_connection_is_a_number_of_its_own_kind() -> None:
    """nats-server reads it by another function, whose name is in the refusal."""
    with pytest.raises(ValueError, match=r"Error decoding uint64 for 'cid': strconv\.ParseUint: parsing"):
        number({"cid": "x"}, "cid", 0)


@pytest.mark.parametrize("value", [None, "", 5, ["acc"], {"acc": 1}])
def test_a_word_that_is_no_text_counts_as_not_said(value: Any) -> None:
    """The next name is asked, and where none has a text, nothing is said."""
    assert "B" == text({"acc": value, "account": "B"}, "acc", "account")
    assert "" == text({"acc": value}, "acc", "account")
