"""Connections that have gone, as connz keeps them."""

from __future__ import annotations

import pytest
from leafd import native_types as t
from leafd.monitor.closed import TEXT_MAX, ClosedConnections, Gone, gone, reason


def record(connection: int, text: str = "", **more: object) -> Gone:
    event = t.Closed(connection, t.CloseReason.CLIENT, text)
    return gone(event, link=False, peer="p", account="A", user="u", told=more, opened_ns=5, ended_ns=9)


def test_so_many_are_kept_and_the_oldest_gives_way() -> None:
    """max_closed_clients bounds them, in the order in which they went."""
    kept = ClosedConnections(2)
    for connection in (1, 2, 3):
        kept.add(record(connection))
    assert [2, 3] == [row.connection for row in kept.rows()]


def test_none_are_kept_where_none_may_be() -> None:
    """max_closed_clients: 0 is a bound like others."""
    kept = ClosedConnections(0)
    kept.add(record(1))
    kept.add(lambda: record(2))
    assert [] == list(kept.rows())


def test_a_row_is_made_when_somebody_asks() -> None:
    """Each time, since nobody asks for most: what is kept until then is less."""
    kept, made = ClosedConnections(3), list[int]()

    def late() -> Gone:
        made.append(2)
        return record(2)

    kept.add(record(1))
    kept.add(late)
    rows = kept.rows()
    kept.add(record(3))
    assert [] == made
    assert [1, 2] == [row.connection for row in rows]
    assert [2] == made


def test_texts_of_a_client_are_cut() -> None:
    """Ten thousand connections with names of a kilobyte each must not stay in memory."""
    row = record(1, name="n" * 5000, lang="go", pid=7)
    assert (TEXT_MAX, "go", 7) == (len(row.told["name"]), row.told["lang"], row.told["pid"])


def test_who_never_said_anything_was_last_active_when_it_came() -> None:
    """A connection that is refused at once has no time of its last message."""
    assert 5 == record(1).last_wall_ns


@pytest.mark.parametrize("why", [one for one in t.CloseReason if one])
def test_each_reason_of_the_plane_has_its_words(why: t.CloseReason) -> None:
    """ "Unknown State" would be what nats-server says of a connection that is still there."""
    assert "Unknown State" != reason(t.Closed(1, why, ""))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Authentication Timeout", "Authentication Timeout"),
        ("Maximum Payload Violation", "Maximum Message Payload Exceeded"),
        ("maximum account active connections exceeded", "Maximum Account Connections Exceeded"),
        ("no memory for input", "No Memory For Input"),
        ("something else", "Protocol Violation"),
    ],
)
def test_what_the_client_was_told_says_more_than_the_reason(text: str, words: str) -> None:
    """The words are those of ClosedState.String() in nats-server, which has none for memory."""
    assert words == reason(t.Closed(1, t.CloseReason.PROTOCOL, text))
