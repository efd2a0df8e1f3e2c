"""The memory that peers can make the daemon use: by which share of `memory_limit` it is bounded, and what
becomes of what is over it.

    python -m tests.memory_table        the table, as promises.md has to have it

A row without proofs is played by tests/interop/test_memory_walk.py at the smallest limit: memory_attacks.py has a
function of its name. One with proofs rests on these tests. Not here: whether each share has a row
(tests/unit/test_memory_table.py).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

ATTACKS: Final = "interop/test_memory_attacks.py::test_"
REMEMBERED: Final = "native/test_plane_remembered.c"
MEMORY: Final = "interop/test_memory.py::test_"


@dataclass(frozen=True)
class Row:
    """One thing that can grow. Without a share it is bounded by the number of something that is defined."""

    name: str
    what: str
    share: str
    over: str
    proofs: tuple[str, ...] = ()


ROWS: Final[tuple[Row, ...]] = (
    Row(
        "ring", "batches that LMDB does not have yet", "ring", "publishers are not read for a moment",
        (f"{ATTACKS}many_subjects",),
    ),
    Row(
        "memory_ring", "the same of memory streams", "memory_ring", "publishers are not read for a moment",
    ),
    Row(
        "heads", "what is known of each subject's last message", "overlay", "it is read from the disk again",
        (f"{ATTACKS}many_subjects",),
    ),
    Row(
        "pages", "pages of LMDB that change", "keeper", "a checkpoint commits in between", (f"{ATTACKS}many_subjects",)
    ),
    Row(
        "output", "what waits to be written to connections", "output", "the slowest reader is closed",
        (f"{MEMORY}fifty_clients_that_do_not_read", f"{ATTACKS}snapshots_that_nobody_reads"),
    ),
    Row(
        "input", "large messages that are still arriving", "input", "further ones are not read",
        (f"{ATTACKS}messages_that_are_never_finished",),
    ),
    Row(
        "half_messages", "lines, heads and messages below 16 KB that are not finished", "input",
        "as much again as the share; beyond it the silent ones are closed",
    ),
    Row(
        "strangers", "inflaters of compressed WebSocket messages before the login", "input",
        "a quarter is theirs; the next stranger is closed",
        ("native/test_websocket.c: strangers leave inflaters to those who have logged in",),
    ),
    Row(
        "commands", "commands and events between C and Python", "exchange", "who sends them is not read",
        (f"{ATTACKS}large_requests",),
    ),
    Row(
        "held", "answers that wait for the disk", "held", "publishers are not read for a moment",
        (f"{MEMORY}two_hundred_publishers",),
    ),
    Row(
        "requests", "requests to the API that are not answered", "control", "who sends them is not read",
        (f"{ATTACKS}large_requests",),
    ),
    Row(
        "pulls", "pull requests that wait", "consumers", "409 Exceeded MaxWaiting",
        (f"{ATTACKS}pull_requests_that_wait",),
    ),
    Row(
        "pending", "deliveries without an acknowledgement", "consumers", "further ones wait",
        (f"{ATTACKS}messages_that_are_not_acknowledged",),
    ),
    Row(
        "batches", "atomic batches that are not committed", "batches", "429 10210 for the batch that asks for more",
        ("native/test_plane_batches.c: what batches hold in memory has a bound",),
    ),
    Row(
        "service_replies", "replies of service imports that are outstanding", "replies",
        "the import with the most of them gives up its oldest",
    ),
    Row(
        "allowed_replies", "replies that allow_responses lets a connection send", "replies",
        "the connection with the most of them may no longer send its oldest",
    ),
    Row(
        "reports", "reports of monitoring that are made and sent", "reports",
        "further ones wait, 5 seconds at most",
    ),
    Row(
        "system_reports", "the same over `$SYS`, where an answer is one message", "reports",
        "further ones wait; 413 for one that is larger than the share",
    ),
    Row(
        "listings", "pages of streams and consumers with their configurations", "reports",
        "a page is shorter, and waits until those before it are sent",
    ),
    Row(
        "archives", "what has come of restores and is not stored yet", "archives",
        "the restore with the most of it is ended; a line in the log",
    ),
    Row(
        "subscriptions", "subscriptions of clients", "interest",
        "-ERR 'maximum subscriptions exceeded' beyond 16 of the connection",
    ),
    Row(
        "shadows", "shadows of subscriptions in accounts from which streams are imported", "interest",
        "the subscription is refused likewise",
        ("native/test_plane_import.c: shadows count as subscriptions of their connection, and go back with them",),
    ),
    Row(
        "interest", "what leaf links ask for", "interest",
        "-ERR 'maximum subscriptions exceeded' to the link, which goes on; a line in the log",
    ),
    Row(
        "routes_interest", "what routes and gateways ask for, in accounts that are not known here, too", "interest",
        "refused; asked for again when a quarter of the share is free; a line in the log",
        ("native/test_plane_named.c",),
    ),
    Row(
        "devices", "sessions, wills and topic aliases of MQTT", "interest",
        "three quarters may be theirs; a session that would be kept, a large will and an alias are refused (0x97)",
        ("native/test_plane_mqtt_wills.c: a will that there is no memory for is refused",),
    ),
    Row(
        "gets", "direct gets that are searched for", "",
        "503 Insufficient Resources: 4,096 wait, of an account as many as it leaves to others",
    ),
    Row(
        "connections", "connections that do nothing, and their names", "",
        "-ERR 'maximum connections exceeded': one for each 8 KB of the limit, unless max_connections says otherwise",
        (f"{ATTACKS}connections_that_do_nothing",),
    ),
    Row(
        "handshakes", "TLS handshakes under way, 46 KB each", "",
        "a quarter of the limit comes beside it for them, or 512 have a seat; others stand in line, and who is silent "
        "for longer than his round trip explains gives up his",
        (
            "native/test_tls_seats.c: there are as many seats as there is memory for",
            "interop/test_mqtt_cell.py::test_more_devices_far_away_than_may_shake_hands_at_once_all_log_in",
        ),
    ),
    Row(
        "rights", "what connections with permissions remember: verdicts, and where replies may go", "",
        "nothing before the first publish, the first request",
    ),
    Row(
        "subjects", "listings of a stream's subjects", "output",
        "a page is at most half of the share; two are made at a time",
    ),
    Row(
        "lists", "permission lists of connections and of schedules' authors", "",
        "those with the same lists have them once",
        (f"{REMEMBERED}: connections with the same permission lists have them once, until the last of them leaves",),
    ),
    Row(
        "budgets", "what leaves that are gone have used of their budgets, 1 KB each", "",
        "16,384, or one for each 8 KB of the limit: those gone longest are forgotten, on the disk too",
        ("unit/links/test_budgets.py::test_names_that_a_leaf_makes_up_fill_no_disk",),
    ),
    Row(
        "jobs", "orders of mirrors and sources that wait for the plane", "",
        "the latest request of each takes the place of the one before",
        ("unit/links/test_replicas.py"
         "::test_what_waits_for_a_plane_that_is_busy_is_bounded_and_nothing_of_it_is_lost",),
    ),
)  # fmt: skip

PLAYED: Final = tuple(row for row in ROWS if not row.proofs)


def table() -> str:
    """The rows, as Markdown."""
    lines = ["| what grows | share | what is over it | test |", "|---|---|---|---|"]
    for row in ROWS:
        files = dict.fromkeys(re.split("::|: ", proof)[0] for proof in row.proofs)
        proofs = ", ".join(f"`{file}`" for file in files) or "`interop/test_memory_walk.py`"
        share = f"`{row.share}`" if row.share else "by their number"
        lines.append(f"| {row.what} | {share} | {row.over} | {proofs} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table(), end="")
