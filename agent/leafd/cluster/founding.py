"""The first members of a cluster's group: servers that know of each other, and of nothing else, agree on one list.

                      sees all that are expected, for SETTLE_S
    IDLE ----------------------------------------------------> ASKING       Prepare to all of them
     ^                                                           |  each has promised
     |  Refused, or no end within a round                        v
     +-------------------------------------------------------- OFFERING     Offer of one list to all of its members
     |                                                           |  each has accepted
     '--- Founded is heard (from any state) ---> FOUNDED <-------'          Founded to all

This is Paxos for one value, with three differences:

- A member is a disk, not a server: a disk that was wiped has promised nothing, and is another one.
- Every member of the list has to accept it, and it has at least as many as are expected. A majority would do as long as
  no disk is wiped: with A and B of three as the first members, B wiped and A away, B and a C that starts for the first
  time would be a majority again, and found a second group. The model Founding.tla shows that, and that this rule holds.
- Of a list that cannot be accepted by all any more, since a disk of it is gone, is asked whether it was: a member that
  lacks it says that it was not, and another list is free. If none lacks it, it counts as accepted.

What a disk has promised and accepted is on it before the answer leaves: each message says which write it waits for.

Not here: how long a server waits for what it expects, which is for people to judge (status and healthz show
`missing`); who carries messages; what members do together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from leafd.records import dataclass

SETTLE_S: Final = 2.0
"""All that are expected have to be there for so long."""
ROUND_S: Final = 3.0
"""The time in which a round of questions has to come to its end; twice as long in each further round, .."""
LONGER_MAX: Final = 3
""".. at most so often: it is two round trips, of up to four seconds each, and two writes."""
MEMBERS_MAX: Final = 9
"""In the list, as in native/raft (RAFT_MEMBERS_MAX); further servers join later. Any two lists of so many have a server
in common as long as there are fewer than twice as many."""
ROUND_MAX: Final = 1 << 40
"""A message that claims more is passed over: a round takes seconds."""


class Disk(NamedTuple):
    """A member: a server's id (of its name) and the id of the store on its disk."""

    peer: int
    disk: int


class Ballot(NamedTuple):
    """The number of a round; no two disks ever have the same."""

    round: int
    owner: Disk


NO_BALLOT: Final = Ballot(0, Disk(0, 0))
Members = frozenset[Disk]


@dataclass(frozen=True, slots=True)
class Promises:
    """The part of the state that has to be on the disk before an answer leaves."""

    promised: Ballot = NO_BALLOT
    accepted: Ballot = NO_BALLOT
    """The ballot of `members`; NO_BALLOT: it has accepted no list."""
    members: Members = frozenset()
    founded: bool = False
    """`members` are those of the group."""


@dataclass(frozen=True, slots=True)
class Prepare:
    """A question: will you answer no lower ballot, and what have you accepted?"""

    ballot: Ballot


@dataclass(frozen=True, slots=True)
class Promised:
    """The answer to Prepare."""

    ballot: Ballot
    accepted: Ballot
    members: Members


@dataclass(frozen=True, slots=True)
class Refused:
    """The answer to a ballot that is too low."""

    ballot: Ballot
    promised: Ballot


@dataclass(frozen=True, slots=True)
class Offer:
    """A question: will you accept this list?"""

    ballot: Ballot
    members: Members


@dataclass(frozen=True, slots=True)
class Accepted:
    """The answer to Offer."""

    ballot: Ballot


@dataclass(frozen=True, slots=True)
class Founded:
    """The group's first members; a server that knows them tells them when it is asked."""

    members: Members


@dataclass(frozen=True, slots=True)
class Hello:
    """A sign of a server that is no member yet: who it is. A server that knows of a group tells it."""


Message = Prepare | Promised | Refused | Offer | Accepted | Founded | Hello


@dataclass(frozen=True, slots=True)
class Sending:
    """A message on its way out."""

    to: Disk
    message: Message
    after: int
    """The write that has to be on the disk before it leaves; 0: none."""


class Founding:
    """One server's part. `tick` and `receive` are followed by `take_saving` and `take_sendings`, in this order."""

    def __init__(self, own: Disk, expected: int, kept: Promises, jitter: Callable[[], float]) -> None:
        """expected: how many servers there have to be at least, this one counted. kept: as the disk has it; for a
        store that is new Promises(). jitter: a random number from 0 to 1."""
        self.own = own
        self.expected = max(expected, 1)
        self.kept = kept
        self.writes = 0
        """The number of the last write."""
        self.seen: dict[int, Disk] = {own.peer: own}
        self.other: Members = frozenset()
        """The members of another group that was met: it must not be joined, and people have to know."""
        self._jitter = jitter
        self._seen_s: float | None = None
        self._saving: Promises | None = None
        self._sendings: list[Sending] = []
        self._ballot: Ballot | None = None
        self._asked: Members = frozenset()
        self._promises: dict[Disk, Promised] = {}
        self._offered: Members | None = None
        self._accepted: set[Disk] = set()
        self._kept_list = False
        """`_offered` is a list that may have been founded before: members that are gone need not accept it."""
        self._now_s = 0.0
        self._until_s = 0.0
        self._highest = self._first_round = kept.promised.round

    # ---- what comes in

    def see(self, disks: Iterable[Disk]) -> None:
        """The servers that this one has a link to now, each with its disk."""
        seen = {disk.peer: disk for disk in disks if disk.peer != self.own.peer} | {self.own.peer: self.own}
        if seen != self.seen:
            self.seen = seen
            self._seen_s = None

    @property
    def missing(self) -> int:
        """How many servers have to come before the group can be founded."""
        return 0 if self.kept.founded else max(self.expected - len(self.seen), 0)

    def tick(self, now_s: float) -> None:
        """The passing of time."""
        self._now_s = now_s
        if self.kept.founded or self.missing:
            self._drop()
            self._seen_s = None
            return
        if self._seen_s is None:
            self._seen_s = now_s
            first = min(self.seen) == self.own.peer
            self._until_s = now_s + SETTLE_S + (0.0 if first else ROUND_S * (1 + self._jitter()))
        if now_s >= self._until_s:
            self._begin()

    def receive(self, sender: Disk, message: Message) -> None:
        """A message, of a sender that the link vouches for. What it cannot say rightly is passed over."""
        if isinstance(message, Founded):
            self._learn(message.members)
        elif self.kept.founded:
            self._send(sender, Founded(self.kept.members))
        elif isinstance(message, Hello):
            pass
        elif isinstance(message, Prepare):
            self._prepare(sender, message.ballot)
        elif isinstance(message, Offer):
            self._offer(sender, message)
        elif isinstance(message, Refused):
            if message.promised.round <= ROUND_MAX:
                self._highest = max(self._highest, message.promised.round)
            if message.ballot == self._ballot:
                self._drop()
        elif isinstance(message, Promised):
            if message.ballot == self._ballot and self._offered is None and sender in self._asked:
                self._promises[sender] = message
                self._choose()
        elif message.ballot == self._ballot and self._offered is not None and sender in self._offered:
            self._accepted.add(sender)
            self._conclude()

    # ---- what goes out

    def take_saving(self) -> tuple[int, Promises] | None:
        """The number of a write and what it writes; None: nothing is to be written."""
        saving, self._saving = self._saving, None
        return None if saving is None else (self.writes, saving)

    def take_sendings(self) -> list[Sending]:
        """The messages to be sent since the last time."""
        sendings, self._sendings = self._sendings, []
        return sendings

    # ---- as one who answers

    def _prepare(self, sender: Disk, ballot: Ballot) -> None:
        if ballot.owner != sender or not self.kept.promised < ballot or ballot.round > ROUND_MAX:
            self._send(sender, Refused(ballot, self.kept.promised))
            return
        self._drop()
        self._save(Promises(ballot, self.kept.accepted, self.kept.members))
        self._wait()
        self._send(sender, Promised(ballot, self.kept.accepted, self.kept.members), after=self.writes)

    def _offer(self, sender: Disk, offer: Offer) -> None:
        ballot = offer.ballot
        if ballot.owner != sender or ballot < self.kept.promised or ballot.round > ROUND_MAX:
            self._send(sender, Refused(ballot, self.kept.promised))
        elif self.own in offer.members:
            self._drop()
            self._wait()
            self._save(Promises(ballot, ballot, offer.members))
            self._send(sender, Accepted(ballot), after=self.writes)

    def _learn(self, members: Members) -> None:
        if self.kept.founded:
            self.other = self.other if members == self.kept.members else members
        elif members:
            self.follow(members)

    def follow(self, members: Members) -> None:
        """The group of that list is in the place of the one that this disk knows."""
        self._drop()
        self._save(Promises(self.kept.promised, self.kept.accepted, members, founded=True))

    # ---- as one who asks

    def _begin(self) -> None:
        self._drop()
        self._highest = max(self._highest, self.kept.promised.round) + 1
        self._wait()
        self._ballot = ballot = Ballot(self._highest, self.own)
        self._asked = frozenset(self.seen.values())
        self._save(Promises(ballot, self.kept.accepted, self.kept.members))
        self._promises = {self.own: Promised(ballot, self.kept.accepted, self.kept.members)}
        for disk in self._others(self._asked):
            self._send(disk, Prepare(ballot), after=self.writes)
        self._choose()

    def _choose(self) -> None:
        if self._ballot is None or self._promises.keys() != self._asked:
            return
        last = max(self._promises.values(), key=lambda promise: promise.accepted)
        lacking = [
            disk for disk, promise in self._promises.items() if disk in last.members and promise.members != last.members
        ]
        self._kept_list = last.accepted != NO_BALLOT and not lacking
        self._offered = last.members if self._kept_list else frozenset(sorted(self._asked)[:MEMBERS_MAX])
        if self.own in self._offered:
            self._save(Promises(self._ballot, self._ballot, self._offered))
            self._accepted = {self.own}
        for disk in self._others(self._offered & frozenset(self.seen.values())):
            self._send(disk, Offer(self._ballot, self._offered), after=self.writes)
        self._conclude()

    def _conclude(self) -> None:
        if self._offered is None:
            return
        gone = {disk for disk in self._offered if disk.peer in self.seen and self.seen[disk.peer] != disk}
        if self._offered <= self._accepted | (gone if self._kept_list else set()):
            members, told = self._offered, self._others(self._offered | self._asked)
            self._learn(members)
            for disk in told:
                self._send(disk, Founded(members), after=self.writes)

    def _others(self, disks: Members) -> list[Disk]:
        return sorted(disks - {self.own})

    def _wait(self) -> None:
        """A round is under way, here or elsewhere: it has time to come to its end. Those who take part know of the
        same rounds, so nobody begins another one too soon."""
        rounds = max(self._highest, self.kept.promised.round) - self._first_round
        round_s = ROUND_S * (1 << min(max(rounds - 1, 0), LONGER_MAX))
        self._until_s = self._now_s + round_s * (1 + self._jitter())

    def _drop(self) -> None:
        """The round ends, if there is one."""
        self._ballot = self._offered = None
        self._promises, self._accepted = {}, set()

    def _save(self, promises: Promises) -> None:
        self.kept = self._saving = promises
        self.writes += 1

    def _send(self, to: Disk, message: Message, after: int = 0) -> None:
        self._sendings.append(Sending(to, message, after))
