"""Boxes that call themselves alike and are linked to different servers of a cluster or supercluster, as after a disk
was copied to a machine that dials another site.

    a box comes      --[account, user, server_name, domain, id, address, SURE]--> the other servers, some boxes together
    another server   --the same--> is a box here of that name or domain, and another process?
                                   it is asked whether it is there: both are told of here, and that server hears of the
                                   one here, which is SURE now

One that came has just logged in, so it is there. Of the others each is told again once an hour, unsure: the clusters
may have been apart when it came, and its link may have nobody behind it. A server that has another one of that name
makes sure of its own and says so. What was found is told of again every few minutes, and forgotten when nothing is
heard of it.

Not here: two at one server (twins.py), how the servers tell each other (monitor/events.py, monitor/services.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final

import trio

from leafd import native_types as t
from leafd.gojson import JsonError, loose
from leafd.guard import Guard
from leafd.links.alive import Asked, answers
from leafd.links.leaf import Acceptor
from leafd.links.link import Link
from leafd.operator_log import Log
from leafd.quoting import quoted
from leafd.records import dataclass

SETTLE_S: Final = 1.0
"""Boxes that come within this time are told of together, .."""
TOGETHER_MAX: Final = 256
BYTES_MAX: Final = 128 << 10
""".. so many at once, in JSON that may escape each character."""
TURN_S: Final = 60.0
TURNS: Final = 60
"""Each box is told of again after so many turns, .."""
FOUND_TURNS: Final = 5
""".. one that has a twin after so many, .."""
SHOWN_S: Final = 2.5 * FOUND_TURNS * TURN_S
""".. and a twin of which nothing is heard for so long has gone."""
FOUND_MAX: Final = 1024
ASKED_MAX: Final = 64
"""Boxes that wait to be asked; of a further one it is told again later."""
ESCAPED_MAX: Final = 12
"""Bytes of one character in JSON, at most: two escapes of six."""
SIZE_MAX: Final = 1 << 20
NAME_MAX: Final = 255
HEARD_MAX: Final = 1024
"""Boxes of one message that are looked at."""
Name = tuple[str, ...]
Rows = list[list[Any]]


@dataclass(frozen=True, slots=True)
class Seen:
    """A box at another server, as that tells of it."""

    account: str
    user: str
    name: str
    domain: str
    id: str
    address: str
    sure: bool
    server: str
    """The words for that server."""

    def names(self) -> Iterator[Name]:
        """The names by which it is taken for another one."""
        yield "name", self.account, self.user, self.name
        if self.domain:
            yield "domain", self.account, self.domain


@dataclass(slots=True)
class Found:
    """Two of one name."""

    link: Link
    other: Seen
    text: str
    last_s: float


class FarTwins:
    """All that is known of them. came() and went() are told of links; on_tell publishes rows to the other servers."""

    def __init__(self, plane: Asked, log: Log, guard: Guard, tell: Callable[[Rows], None]) -> None:
        self._plane, self._log, self._guard, self._tell = plane, log, guard, tell
        self._here: dict[int, Link] = {}
        """Boxes that dialled this server, by their connections: those that were told of longest ago first."""
        self._by_name: dict[Name, dict[int, Link]] = {}
        self._pending: dict[int, bool] = {}
        """The boxes to be told of, and whether they are there for sure."""
        self._wanted = trio.Event()
        self._found: dict[Name, Found] = {}
        self._said: dict[Name, None] = {}
        """The names of which the log has it."""
        self._asked, self._questions = trio.open_memory_channel[tuple[Link, Seen, Name]](ASKED_MAX)

    # ---- boxes here

    def came(self, link: Link) -> None:
        """A link is up."""
        if (own := _seen(link)) is None:
            return
        self._here[link.connection] = link
        for name in own.names():
            self._by_name.setdefault(name, {})[link.connection] = link
        self._tell_of(link, sure=True)

    def went(self, link: Link) -> None:
        """A link that was up has ended."""
        if self._here.pop(link.connection, None) is None or (own := _seen(link)) is None:
            return
        self._pending.pop(link.connection, None)
        for name in own.names():
            there = self._by_name.get(name, {})
            there.pop(link.connection, None)
            if not there:
                self._by_name.pop(name, None)
            if (found := self._found.get(name)) is not None and found.link is link:
                del self._found[name]

    def _tell_of(self, link: Link, *, sure: bool) -> None:
        self._pending[link.connection] = sure or self._pending.get(link.connection, False)
        self._wanted.set()

    # ---- other servers

    def heard(self, own_id: str, message: t.Message) -> None:
        """Another server tells of its boxes. own_id: of this server, which hears itself."""
        try:
            told = loose(message.payload, size_max=SIZE_MAX)
        except JsonError:
            return
        server, rows = told.get("server"), told.get("boxes")
        if not isinstance(server, dict) or not isinstance(rows, list) or server.get("id") == own_id:
            return
        cluster = f" of cluster {quoted(str(server['cluster']))}" if server.get("cluster") else ""
        words = f"server {quoted(str(server.get('name')))}{cluster}"
        for row in islice(rows, HEARD_MAX):
            if (seen := _read(row, words)) is not None:
                self._compare(seen)

    def _compare(self, seen: Seen) -> None:
        for name in seen.names():
            for link in self._by_name.get(name, {}).values():
                if link.bind is None or link.bind.remote_id == seen.id:
                    continue
                found = self._found.get(name)
                if found is not None and found.link is link and found.other.id == seen.id:
                    found.last_s = trio.current_time()
                    if seen.sure:
                        return
                try:
                    self._asked.send_nowait((link, seen, name))
                except trio.WouldBlock:
                    pass
                return

    async def _ask(self, link: Link, seen: Seen, name: Name) -> None:
        if link.gone.is_set() or not await answers(self._plane, {link.connection}, link.gone.is_set):
            return
        if link.gone.is_set() or link.bind is None:
            return
        if not seen.sure:
            self._tell_of(link, sure=True)
            return
        known = self._found.get(name)
        if known is not None and known.link is link and known.other.id == seen.id:
            return
        self._found.pop(name, None)
        self._found[name] = Found(link, seen, _text(link, seen, name), trio.current_time())
        while len(self._found) > FOUND_MAX:
            del self._found[next(iter(self._found))]
        self._tell_of(link, sure=True)
        if name not in self._said:
            self._said[name] = None
            while len(self._said) > FOUND_MAX:
                del self._said[next(iter(self._said))]
            self._say(link, seen, name)

    def _say(self, link: Link, seen: Seen, name: Name) -> None:
        if name[0] == "name":
            self._log.error(
                f"{link.log_name} - two machines call themselves {quoted(seen.name)} (account {seen.account}), here "
                f"and, by {seen.server}, at {seen.address}",
                event="box_twins",
                account=seen.account,
            )
        else:
            self._log.error(
                f"{link.log_name} - a box here and, by {seen.server}, {quoted(seen.name)} at {seen.address} (account "
                f"{seen.account}) both have the JetStream domain {quoted(seen.domain)}",
                event="box_twins",
                account=seen.account,
            )

    # ---- driving

    async def run(self) -> None:
        """Tells of boxes, and asks those here of which another one is heard. Cancel to end it."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._take_turns)
            nursery.start_soon(self._answer)
            while True:
                await self._wanted.wait()
                await trio.sleep(SETTLE_S)
                self._wanted = trio.Event()
                while self._pending:
                    with self._guard.around("telling other servers of boxes"):
                        self._tell_some()
                    await trio.lowlevel.checkpoint()

    def _tell_some(self) -> None:
        rows: Rows = []
        size = 0
        for connection in list(islice(self._pending, TOGETHER_MAX)):
            sure = self._pending.pop(connection)
            link = self._here.pop(connection, None)
            if link is None or (own := _seen(link)) is None:
                continue
            self._here[connection] = link
            texts = [own.account, own.user, own.name, own.domain, own.id, own.address]
            rows.append([*texts, sure])
            size += ESCAPED_MAX * sum(map(len, texts))
            if size > BYTES_MAX:
                break
        if rows:
            self._tell(rows)

    async def _take_turns(self) -> None:
        turn = 0
        while True:
            await trio.sleep(TURN_S)
            turn += 1
            for link in list(islice(self._here.values(), -(-len(self._here) // TURNS))):
                self._tell_of(link, sure=False)
            for name, found in list(self._found.items()):
                if trio.current_time() - found.last_s > SHOWN_S:
                    del self._found[name]
                elif turn % FOUND_TURNS == 0:
                    self._tell_of(found.link, sure=False)

    async def _answer(self) -> None:
        async for link, seen, name in self._questions:
            with self._guard.around("asking a box whether it is there"):
                await self._ask(link, seen, name)

    # ---- for people

    def texts(self) -> Iterable[str]:
        """A line for each box here of which another one is linked elsewhere."""
        return dict.fromkeys(found.text for found in self._found.values())


def _seen(link: Link) -> Seen | None:
    """A box that dialled us and is in no cluster, as this server tells of it."""
    bind, machine = link.bind, link.machine
    if bind is None or not isinstance(machine, Acceptor) or bind.system or not bind.remote_name or not bind.remote_id:
        return None
    if bind.cluster not in ("", bind.remote_name):
        return None
    user = machine.accepted[1].user if machine.accepted is not None else ""
    texts = bind.account_name, user, bind.remote_name, bind.remote_domain, bind.remote_id, link.peer.rpartition(":")[0]
    return Seen(*texts, True, "") if max(map(len, texts)) <= NAME_MAX else None


def _read(row: object, server: str) -> Seen | None:
    """A box as another server tells of it; None: the row is nothing of this kind."""
    if not isinstance(row, list) or len(row) != 7 or not isinstance(row[6], bool):
        return None
    account, user, name, domain, server_id, address = texts = row[:6]
    if not all(isinstance(text, str) and len(text) <= NAME_MAX for text in texts) or not name or not server_id:
        return None
    return Seen(account, user, name, domain, server_id, address, row[6], server)


def _text(link: Link, seen: Seen, name: Name) -> str:
    own = _seen(link)
    assert own is not None
    if name[0] == "name":
        return (
            f"two machines call themselves {quoted(own.name)} (account {own.account}), at {own.address} and, by "
            f"{seen.server}, at {seen.address}: what is asked of it reaches one of the two: give one of them a "
            "server_name and a domain of its own"
        )
    return (
        f"{quoted(own.name)} at {own.address} and, by {seen.server}, {quoted(seen.name)} at {seen.address} (account "
        f"{own.account}) both have the JetStream domain {quoted(own.domain)}: what is asked of it reaches one of the "
        "two: give one of them a domain of its own"
    )
