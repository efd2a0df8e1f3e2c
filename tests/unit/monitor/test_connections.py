"""connz of connections that have gone: which are listed, in which order, and what cannot be asked.

The words of refusals are those of nats-server 2.15.1.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from leafd.monitor.closed import ClosedConnections, Gone
from leafd.monitor.connections import CONNECTIONS_MAX, connz
from leafd.monitor.facts import Facts


def gone(number: int, account: str = "A", user: str = "u", why: str = "Client Closed", **told: Any) -> Gone:
    """A connection that came in the second of its number, and went an hour later for each one behind it."""
    second = 10**9
    return Gone(
        number, False, f"10.0.0.{number}:1", account, user, told, number * second, number * second,
        (10 - number) * 3600 * second, why, 0, number, 0, 100 - number, 0, 0, b"",
    )  # fmt: skip


def report(rows: list[Gone], **options: Any) -> tuple[int, list[int]]:
    """The total, and the numbers of the connections that are listed."""
    kept = ClosedConnections(100)
    for row in rows:
        kept.add(row)
    facts = SimpleNamespace(
        closed=kept,
        leafs=SimpleNamespace(links=list),
        graph=SimpleNamespace(by_name={}),
        head=lambda: {"server_id": "N"},
    )

    async def main() -> tuple[int, list[int]]:
        found = await connz(cast(Facts, facts), options)
        return found["total"], [row["cid"] async for row in found["connections"].rows]

    return trio.run(main)


ROWS = [gone(1), gone(2, "B", "v"), gone(3, why="Slow Consumer (Pending Bytes)", mqtt_client="pump"), gone(4, user="v")]


@pytest.mark.parametrize(
    ("options", "total", "listed"),
    [
        ({}, 4, [1, 2, 3, 4]),
        ({"acc": "A"}, 3, [1, 3, 4]),
        ({"user": "v"}, 4, [2, 4]),
        ({"acc": "A", "user": "v"}, 3, [4]),
        ({"cid": "3"}, 4, [3]),
        ({"mqtt_client": "pump"}, 4, [3]),
        ({"acc": "NONE"}, 0, []),
    ],
)
def test_the_total_is_of_the_account_and_the_list_of_all_that_is_asked(
    options: dict[str, Any], total: int, listed: list[int]
) -> None:
    """A user or a device narrows what is listed, and not what there is."""
    assert (total, listed) == report(ROWS, state="closed", **options)


@pytest.mark.parametrize(
    ("sort", "listed"),
    [("cid", [1, 2, 3, 4]), ("stop", [1, 2, 3, 4]), ("msgs_from", [4, 3, 2, 1]), ("bytes_from", [1, 2, 3, 4])],
)
def test_the_largest_come_first_but_of_numbers_that_only_tell_the_order(sort: str, listed: list[int]) -> None:
    """Who went last comes first by stop; by cid it is the oldest."""
    assert listed == report(ROWS, state="closed", sort=sort)[1]


def test_a_page_is_a_part_of_the_sorted_list() -> None:
    """Behind the end there is nothing, and a limit of 0 is the default."""
    assert (4, [2, 3]) == report(ROWS, state="closed", offset="1", limit="2")
    assert (4, []) == report(ROWS, state="closed", offset="9")
    assert (4, [1, 2, 3, 4]) == report(ROWS, state="closed", limit="0")
    assert 1024 == CONNECTIONS_MAX


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"state": "half"}, "Error decoding state for half"),
        ({"sort": "size"}, "invalid sorting option: size"),
        ({"sort": "stop"}, "sort by stop only valid on closed connections"),
        ({"sort": "reason", "state": "all"}, "sort by reason only valid on closed connections"),
        ({"filter_subject": "a.b"}, "filter by subject only valid with account filtering"),
    ],
)
def test_what_cannot_be_asked_is_refused(options: dict[str, Any], words: str) -> None:
    """Before any connection is looked at."""
    with pytest.raises(ValueError, match=words):
        report([], **options)
