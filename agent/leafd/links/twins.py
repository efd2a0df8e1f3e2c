"""Boxes that call themselves alike, as after a disk was copied: noticed where they dial, and named in reports.

    one server name    the second link ends the first (leafs.py), whose machine comes back and ends the second ...
    one domain         both are linked, and what is asked of the domain reaches both
    the domain of      each end takes what is asked of the domain for its own: neither reaches the other
      this server

Each process has an id of its own. So a box that was started again is another id, once; of two that take turns the first
id is back. Of two links that are up at once the older one may have nobody behind it: it is asked before anything is
said of them. Servers of one cluster share a domain, and so nothing is said of them.

Not here: boxes that are enrolled, whose second machine is refused (daemon/boxes.py), servers of a cluster
(namesakes.py), and two that are linked to different servers of one (far_twins.py).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import trio

from leafd import native_types as t
from leafd.guard import Guard
from leafd.links.alive import Asked, answers
from leafd.links.leaf import Acceptor, Bind, Identity
from leafd.links.link import Link, who
from leafd.operator_log import Log
from leafd.quoting import quoted
from leafd.records import dataclass

if TYPE_CHECKING:
    from leafd.links.far_twins import FarTwins

NAMES_MAX: Final = 1024
"""Whose latest machines are remembered; those noticed longest ago are forgotten first."""
MACHINES_MAX: Final = 4
"""The most machines of one name that are remembered. Where more than that come within MANY_S, each with an id that is
not known, they are a crowd that takes turns, as after an image was copied many times: nothing starts so often."""
MANY_S: Final = 60.0
SHOWN_S: Final = 600.0
"""Two that take the link from each other do so every minute at least (redial.py)."""
TOLD_EACH_S: Final = 600.0
"""A crowd takes hundreds of turns a second."""
ASKED_MAX: Final = 16
"""Pairs that wait to be asked. A further one, and one whose answer is late, is looked at again .."""
AGAIN_S: Final = 30.0
""".. so often, for as long as both are there."""
Name = tuple[str, str]


@dataclass(slots=True)
class Turns:
    """Machines that take the link of one name from each other."""

    text: str
    last_s: float
    told_s: float


class Twins:
    """All that is known of them. replaced(), came() and went() are told of links."""

    def __init__(self, plane: Asked, log: Log, guard: Guard, own: Callable[[], Identity]) -> None:
        self._plane, self._log, self._guard, self._own = plane, log, guard, own
        self._same: dict[int, str] = {}
        """The links, in either direction, whose other end has the domain of this server, and what is said of them."""
        self._said: dict[Name, None] = {}
        """Accounts and names of which the log has that."""
        self._before: dict[tuple[object, ...], dict[str, float]] = {}
        """The machines whose link another one of their name has ended, by their ids: when."""
        self._turns: dict[Name, Turns] = {}
        self._domains: dict[Name, list[Link]] = {}
        """The links of each account that come from that domain, but for those of clusters."""
        self._shared: dict[Name, str] = {}
        """The domains that several boxes are known to have, and what is said of them."""
        self._asked, self._questions = trio.open_memory_channel[tuple[Name, Link, Link]](ASKED_MAX)
        self.far: FarTwins | None = None
        """The same at other servers; None: there are none."""

    # ---- one server name

    def replaced(self, before: Link, now: Link) -> None:
        """A link has ended another one of the same name."""
        old, new = _id_of(before), _id_of(now)
        if now.bind is None or old == new:
            return
        key = who(now, now.bind)
        known = self._before.setdefault(key, {})
        if new in known:
            self._take_turns(now, before, "two machines")
        elif len(known) == MACHINES_MAX and trio.current_time() - next(iter(known.values())) < MANY_S:
            self._take_turns(now, before, f"more than {MACHINES_MAX} machines")
        known.pop(old, None)
        known[old] = trio.current_time()
        _forget_first(known, MACHINES_MAX)
        _forget_first(self._before, NAMES_MAX)

    def _take_turns(self, now: Link, before: Link, machines: str) -> None:
        assert now.bind is not None
        name = now.bind.account_name, now.bind.remote_name
        turns = self._turns.pop(name, None) or Turns("", 0.0, -TOLD_EACH_S)
        self._turns[name] = turns
        _forget_first(self._turns, NAMES_MAX)
        turns.last_s = trio.current_time()
        turns.text = (
            f"{machines} call themselves {quoted(name[1])} (account {name[0]}), at {_host(before)} and {_host(now)}, "
            "and take the link from each other: give one of them a server_name and a domain of its own"
        )
        if turns.last_s - turns.told_s >= TOLD_EACH_S:
            turns.told_s = turns.last_s
            self._log.error(
                f"{now.log_name} - {machines} call themselves {quoted(name[1])} (account {name[0]}), here and at "
                f"{_host(before)}, and take the link from each other",
                event="box_twins",
                account=name[0],
            )

    # ---- one domain

    def came(self, link: Link) -> None:
        """A link is up."""
        if link.bind is not None and not link.bind.system:
            self._compare(link, link.bind)
        domain = _domain_of(link)
        if domain is None or link.bind is None:
            return
        there = self._domains.setdefault(domain, [])
        self._wonder(domain, there, link)
        there.append(link)

    def _wonder(self, domain: Name, there: list[Link], link: Link) -> bool:
        """Is one of them another machine than the one behind that link? False: nobody is to be asked, or not now."""
        if domain in self._shared or link.bind is None:
            return False
        own = who(link, link.bind)
        for other in there:
            if other.bind is not None and who(other, other.bind) != own and _id_of(other) != _id_of(link):
                with contextlib.suppress(trio.WouldBlock):
                    self._asked.send_nowait((domain, other, link))
                    return True
                break
        return False

    def _compare(self, link: Link, bind: Bind) -> None:
        own = self._own()
        if not own.jetstream or not own.domain or bind.remote_domain != own.domain:
            return
        self._same[link.connection] = (
            f"{quoted(bind.remote_name)} at {_host(link)} (account {bind.account_name}) has the JetStream domain "
            f"{quoted(own.domain)} of this server: neither reaches the other's streams: give one of them another domain"
        )
        name = bind.account_name, bind.remote_name
        if name not in self._said:
            self._said[name] = None
            _forget_first(self._said, NAMES_MAX)
            self._log.warning(
                f"{link.log_name} - {quoted(bind.remote_name)} (account {bind.account_name}) has the JetStream domain "
                f"{quoted(own.domain)} of this server",
                event="same_domain",
                account=bind.account_name,
            )

    def went(self, link: Link) -> None:
        """A link that was up has ended."""
        self._same.pop(link.connection, None)
        domain = _domain_of(link)
        if domain is None or link not in (there := self._domains.get(domain, [])):
            return
        there.remove(link)
        if len({_id_of(one) for one in there}) < 2:
            self._shared.pop(domain, None)
        if not there:
            del self._domains[domain]

    async def run(self) -> None:
        """Asks the older one of two links whether anybody is there. Cancel to end it."""
        again_s = trio.current_time() + AGAIN_S
        while True:
            with trio.move_on_at(again_s) as due:
                domain, other, link = await self._questions.receive()
            if due.cancelled_caught:
                again_s = trio.current_time() + AGAIN_S
                self._look_again()
                continue
            with self._guard.around("asking a box whether it is there"):
                await self._ask(domain, other, link)

    def _look_again(self) -> None:
        """A machine behind a slow line may have answered too late. Those whose turn it was come last the next time."""
        for domain, there in list(self._domains.items()):
            if len(there) > 1 and self._wonder(domain, there, there[-1]):
                self._domains[domain] = self._domains.pop(domain)

    async def _ask(self, domain: Name, other: Link, link: Link) -> None:
        if domain in self._shared or other.gone.is_set() or link.gone.is_set():
            return
        if not await answers(self._plane, {other.connection}, other.gone.is_set):
            return
        if other.gone.is_set() or link.gone.is_set() or other.bind is None or link.bind is None:
            return
        names = " and ".join(f"{quoted(one.bind.remote_name)} at {_host(one)}" for one in (other, link) if one.bind)
        self._shared[domain] = (
            f"{names} (account {domain[0]}) both have the JetStream domain {quoted(domain[1])}: what is asked of it "
            "reaches both, and their streams get mixed up: give one of them a domain of its own"
        )
        self._log.error(
            f"{link.log_name} - {names} (account {domain[0]}) both have the JetStream domain {quoted(domain[1])}",
            event="box_twins",
            account=domain[0],
        )

    # ---- at other servers

    def hear(self, message: t.Message) -> bool:
        """Another server tells of its boxes."""
        if self.far is not None:
            self.far.heard(self._own().server_id, message)
        return False

    # ---- for people

    def texts(self) -> Iterator[str]:
        """A line for each name and domain that several machines have now."""
        for turns in self._turns.values():
            if trio.current_time() - turns.last_s < SHOWN_S:
                yield turns.text
        yield from self._shared.values()
        yield from self._same.values()
        if self.far is not None:
            yield from self.far.texts()


def _forget_first(known: dict, most: int) -> None:  # type: ignore[type-arg]
    while len(known) > most:
        del known[next(iter(known))]


def _id_of(link: Link) -> str:
    return link.bind.remote_id if link.bind is not None else ""


def _host(link: Link) -> str:
    return link.peer.rpartition(":")[0]


def _domain_of(link: Link) -> Name | None:
    """The account and domain of a box that dialled us and is in no cluster."""
    bind = link.bind
    if bind is None or not isinstance(link.machine, Acceptor) or bind.system or not bind.remote_domain:
        return None
    return (bind.account_name, bind.remote_domain) if bind.cluster in ("", bind.remote_name) else None
