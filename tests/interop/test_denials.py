"""Nobody gets to a subject that is denied to him, on whatever path: every path against every denial, on leafd and on
nats-server with the same configuration, and the same comes of it.

    paths (denial_paths.py)  x  denials (denials.py)  =  cells, each played in an account of its own (denial_stage.py)

What leafd lets pass and nats-server does not is a security fault; what else differs on purpose is in DIFFERENCES.
Both are told by what everybody in the play hears: messages, errors, answers, and the end of the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path as File

import pytest

from tests import servers
from tests.interop.denial_stage import Cell, Heard, Hub, Stage, plain, played, signed
from tests.interop.denials import LINE_UPS, matters

pytestmark = pytest.mark.minutes(15)
AT_ONCE = 64
NOWHERE = {"$SYS server"}
"""What no ordinary account reaches, whatever is allowed."""


@dataclass(frozen=True)
class Difference:
    """Cells in which leafd is another server on purpose: patterns of line-ups, denials and paths.
    packaging/doc/differences.md has a line for each. more: leafd lets something pass that nats-server keeps back."""

    line_ups: str
    denials: str
    paths: tuple[str, ...]
    why: str
    more: bool = False

    def covers(self, cell: Cell) -> bool:
        """Whether it speaks of the cell."""
        return (
            any(fnmatchcase(cell.line_up, one) for one in self.line_ups.split("|"))
            and any(fnmatchcase(cell.denial, one) for one in self.denials.split("|"))
            and any(fnmatchcase(cell.name, one) for one in self.paths)
        )


LINKS = "leaf*|remote*"
DIFFERENCES = (
    Difference(
        LINKS, "*", ("API*", "read", "pull*", "key", "deliver subject", "republish asked for"),
        "JetStream's API and buckets are reached over a link by the domain's name alone",
    ),
    Difference(
        LINKS, "*denied*|answers*", ("*mapp*", "*by domain"),
        "what a leaf's rights deny is denied behind a mapping or the domain's prefix too",
    ),
    Difference(LINKS, "*", ("acknowledgement*",), "a leaf that is denied $JS.> cannot acknowledge"),
    Difference(LINKS, "*", ("trace*", "API traced"), "a message that a link may not carry is not traced"),
    Difference(
        "*", "answers*", ("trace*", "API traced"),
        "of a subject and a trace's destination that are both denied, the error names the subject",
    ),
    Difference("remote*", "*", ("$SYS user*",), "a leaf tells no user of its hub who it is"),
    Difference("jwt", "payload of one byte", ("trace*",), "a message above max_payload is not traced"),
    Difference(
        "*", "*", ("schedule", "schedule, source"),
        "who sends a schedule may publish to its target, and read its source",
    ),
    Difference("client|jwt", "*", ("republish asked for",), "a stream republishes where its maker may publish"),
    Difference("empty list", "*", ("publish",), "an allow list that is empty allows nothing"),
    Difference(
        "remote*", "exports denied*|subscribe denied*", ("stream, exported name",),
        "what comes to a link through a stream import is denied by either of its names",
    ),
    Difference(
        "remote*", "imports denied*|publish denied|both denied", ("*",),
        "what may not come in over a link may go out over it", more=True,
    ),
)  # fmt: skip


def cells(*, in_jwts: bool) -> list[Cell]:
    """The product, for the line-ups that a configuration or JWTs write down."""
    rows = [
        (line_up, denial, name)
        for line_up, way in LINE_UPS.items()
        for denial in way.denials
        for name, path in way.paths.items()
        if way.signed == in_jwts and matters(denial, path)
    ]
    return [Cell(number, *row) for number, row in enumerate(rows)]


def comparable(cell: Cell, heard: Heard) -> dict[str, Counter[str]]:
    """What counts: over a link, messages alone, since nats-server closes a link over some that leafd drops."""
    return {
        who: Counter(one for one in lines if not cell.way.link or not one.startswith(("-ERR", "closed")))
        for who, lines in heard.items()
    }


def same(cell: Cell, ours: Heard, theirs: Heard) -> bool:
    """Whether both servers have done the same."""
    return comparable(cell, ours) == comparable(cell, theirs)


def excess(cell: Cell, ours: Heard, theirs: Heard) -> list[str]:
    """What somebody hears of leafd and not of nats-server; what a look shows is no message, a refusal lets nothing
    through."""
    left, right = comparable(cell, ours), comparable(cell, theirs)
    return [
        f"{who}: {one}"
        for who in left
        if who != "look"
        for one in (left[who] - right[who])
        if not one.startswith(("-ERR", "closed")) and " refused " not in one
    ]


def fault(cell: Cell, ours: Heard, theirs: Heard) -> str:
    """What is wrong with a cell; empty when nothing is."""
    known = [one for one in DIFFERENCES if one.covers(cell)]
    if same(cell, ours, theirs):
        return ""
    found = f"{cell.line_up} | {cell.denial} | {cell.name}\n   leafd        {ours}\n   nats-server  {theirs}"
    if excess(cell, ours, theirs) and not any(one.more for one in known):
        return f"LET THROUGH: {found}"
    return "" if known else found


Outcomes = dict[Cell, tuple[Heard, Heard]]


async def play(every: Sequence[Cell], folder: File, *, in_jwts: bool) -> Outcomes:
    """All cells on a pair of servers."""
    text, logins = signed(every) if in_jwts else (plain(every), {})
    found: Outcomes = {}
    seats = asyncio.Semaphore(AT_ONCE)
    async with contextlib.AsyncExitStack() as stack:
        pair = []
        for kind in servers.KINDS:
            hub = Hub(every)
            await stack.enter_async_context(hub.listening())
            (folder / kind).mkdir()
            server = servers.make(kind, text, folder / kind, hub_port=hub.port)
            await asyncio.to_thread(server.start)
            # (In a thread: meanwhile the hub goes on, and takes its leave of every link.)
            stack.push_async_callback(asyncio.to_thread, server.stop)
            pair.append(Stage(server, logins, hub.dialled))

        async def one(cell: Cell) -> None:
            async with seats:
                brief = any(one.covers(cell) for one in DIFFERENCES)
                ours, theirs = await played(pair, cell, same, brief)
                found[cell] = ours, theirs

        await asyncio.gather(*map(one, every))
    return found


@pytest.fixture(scope="module")
def outcomes() -> Outcomes:
    found: Outcomes = {}
    for in_jwts in (False, True):
        with tempfile.TemporaryDirectory(prefix="leafd-test-") as folder:
            found |= asyncio.run(play(cells(in_jwts=in_jwts), File(folder), in_jwts=in_jwts))
    return found


def test_every_path_meets_every_denial(outcomes: Outcomes) -> None:
    """Whoever may not, may not on any path; and the one who may, may, as with nats-server."""
    faults = [fault(cell, ours, theirs) for cell, (ours, theirs) in outcomes.items()]

    assert "" == "\n".join(filter(None, faults))


def test_every_path_leads_somewhere(outcomes: Outcomes) -> None:
    """Where nothing is denied, each path brings its message to somebody on nats-server: no cell is empty for want of a
    working path."""
    free = [
        (cell, theirs)
        for cell, (_, theirs) in outcomes.items()
        if cell.denial == "nothing denied" and not cell.way.link and cell.name not in NOWHERE
    ]
    assert free
    assert [] == [cell.name for cell, theirs in free if not any(theirs.values())]


def test_every_difference_is_one(outcomes: Outcomes) -> None:
    """Each of the deliberate differences is seen: one that is no more leaves the list and differences.md."""
    seen = [
        one for one in DIFFERENCES if any(one.covers(cell) and not same(cell, *both) for cell, both in outcomes.items())
    ]
    assert [one.why for one in DIFFERENCES] == [one.why for one in seen]
