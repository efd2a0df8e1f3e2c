"""What servers tell each other of what accounts have stored: promises of cluster/stored.py, without servers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from leafd.cluster.stored import Kept, Stored

A, B, C, D = 1, 2, 3, 4
FILE, MEMORY = 0, 1


def said(stored: Stored, streams: list[Kept], linked: set[int], now_s: float = 0.0) -> dict[int, Any]:
    """The rows that each server is told of the account X."""
    told = {peer: json.loads(news) for peer, news in stored.tell("X", streams, linked, now_s)}
    assert all((news["news"], news["account"]) == ("stored", "X") for news in told.values())
    return {peer: news["rows"] for peer, news in told.items()}


def test_a_server_is_told_of_streams_that_it_has_no_copy_of() -> None:
    """Summed up by storage and replicas, with the bytes of one copy."""
    streams = [
        Kept(FILE, 1, 10, frozenset({A})),
        Kept(FILE, 1, 5, frozenset({A})),
        Kept(MEMORY, 1, 3, frozenset({A})),
        Kept(FILE, 3, 100, frozenset({A, B, C})),
    ]
    own = [[FILE, 1, 15], [MEMORY, 1, 3]]
    assert said(Stored(), streams, {B, D}) == {B: own, D: [[FILE, 1, 15], [FILE, 3, 100], [MEMORY, 1, 3]]}


def test_it_is_said_when_it_changes_and_to_who_comes_anew() -> None:
    """Also that there is nothing any more; but not that there never was."""
    stored, one = Stored(), [Kept(FILE, 1, 10, frozenset({A}))]
    assert said(stored, [], {B}) == {}
    assert said(stored, one, {B}) == {B: [[FILE, 1, 10]]}
    assert said(stored, one, {B}, 0.1) == {}
    assert said(stored, one, {B, C}, 0.2) == {C: [[FILE, 1, 10]]}
    assert said(stored, [], {C}, 0.3) == {C: []}
    assert said(stored, one, {B, C}, 0.4) == {B: [[FILE, 1, 10]], C: [[FILE, 1, 10]]}


def heard(stored: Stored, peer: int, rows: list[list[int]], account: str = "X") -> None:
    stored.hear(peer, {"news": "stored", "account": account, "rows": rows})


def test_what_a_server_that_is_away_led_is_told_by_who_leads_now() -> None:
    """What it had alone still counts; another account's does not."""
    stored = Stored()
    heard(stored, B, [[FILE, 1, 10], [FILE, 3, 100]])
    heard(stored, C, [[FILE, 3, 100]])
    heard(stored, C, [[FILE, 1, 7]], "Y")
    assert stored.elsewhere("X", lambda peer: peer != B) == ((FILE, 1, 10), (FILE, 3, 100))
    heard(stored, B, [])
    assert stored.elsewhere("X", lambda peer: True) == ((FILE, 3, 100),)
    assert stored.elsewhere("Z", lambda peer: True) == ()


@pytest.mark.parametrize("row", [[2, 1, 1], [FILE, 0, 1], [FILE, 1, -1], [FILE, 1], ["", 1, 1]])
def test_a_row_that_cannot_be_is_refused_as_a_whole(row: list[Any]) -> None:
    """Nothing of such a letter is taken."""
    stored = Stored()
    with pytest.raises((ValueError, TypeError)):
        stored.hear(B, {"news": "stored", "account": "X", "rows": [[FILE, 1, 5], row]})
    assert stored.elsewhere("X", lambda peer: True) == ()
