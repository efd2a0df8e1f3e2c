"""A group of members on a stage: what a script says happens to them, and nothing else does.

    a call into the core --> outputs --> Member.ready: entries, writes, letters
                                             |  process()
                                             v
                                         the disk has it; letters are in the bag --> deliver()

Each member has a clock of its own, which moves only when the script says so. Here is no chance and no judgement: which
script is played and what has to come of it is etcd.py's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from tests.unit.raft.core import Core

MS: Final = 1_000_000
ELECTION, LEASE, BEAT = 300 * MS, 200 * MS, 100 * MS
ROLES: Final = ("Follower", "PreCandidate", "Candidate", "Leader")
PACES: Final = ("Probe", "Replicate", "Snapshot")


@dataclass(frozen=True)
class Entry:
    """One entry of a log."""

    term: int
    index: int
    data: str
    members: Any = None  # a raft_config_t, of an entry that changes them


@dataclass
class Letter:
    """A message with the entries that it carries, or a copy of the state."""

    message: Any
    entries: list[Entry]
    after: int  # the write that it waits for
    copied: Any = None  # the members of a copy


@dataclass
class Ready:
    """What calls into the core have brought about since process() was called last."""

    unstable: int = 0  # entries from there on are new; 0: none
    write: int = 0
    letters: list[Letter] = field(default_factory=list)
    committed: list[Entry] = field(default_factory=list)
    told: bool = False  # the role, or the leader
    log: dict[int, Entry] = field(default_factory=dict)  # as the disk will have it

    def __bool__(self) -> bool:
        return bool(self.write or self.letters or self.committed or self.told)


@dataclass
class Happened:
    """What a member did between two looks at it."""

    hard: tuple[int, int, int] | None = None  # term, vote, commit
    role: tuple[int, str] | None = None  # leader, role
    entries: list[tuple[int, int]] = field(default_factory=list)  # term, index
    committed: list[tuple[int, int]] = field(default_factory=list)
    votes: list[tuple[object, ...]] = field(default_factory=list)  # subject, to, term, log's end or refusal
    sent: list[tuple[int, int, int]] = field(default_factory=list)  # to, term, index


class Member:
    """One member, its log and its clock."""

    def __init__(self, core: Core, peer: int, members: Any, base: int, term: int) -> None:
        self.core, self.peer, self.now = core, peer, 1_000_000 * MS * peer
        self.raft, self.out = core.ffi.new("raft_t *"), core.ffi.new("raft_outputs_t *")
        start = core.ffi.new("raft_start_t *")
        start.self = (peer, peer)
        start.times = (ELECTION, LEASE, BEAT)
        start.seed = peer
        core.lib.trail_init(core.ffi.addressof(start.trail), base, term)
        if members is not None:
            start.configs[0] = start.configs[1] = members[0]
        start.commit = base
        core.lib.raft_init(self.raft, start, self.now)
        self.now += ELECTION  # it has started long ago
        self.log: dict[int, Entry] = {}
        self.disk: dict[int, Entry] = {}  # the log as it is written
        self.base, self.base_members = base, self.members()
        self.proposed = ""
        self.incoming: dict[int, Entry] = {}
        self.ready = Ready()
        self.applied = base
        self.seen_hard, self.seen_role = self.hard(), self.role()

    def members(self) -> Any:
        return self.core.ffi.new("raft_config_t *", self.raft.configs[1])

    def hard(self) -> tuple[int, int, int]:
        return self.raft.term, self.raft.vote.peer, self.raft.commit

    def role(self) -> tuple[int, str]:
        return self.raft.leader.peer, ROLES[self.raft.role]

    def members_at(self, index: int) -> Any:
        changes = [entry for entry in self.log.values() if entry.members is not None and entry.index <= index]
        return max(changes, key=lambda entry: entry.index).members if changes else self.base_members

    def drain(self) -> None:
        """Takes all outputs, as raft_next() wants it."""
        lib, ready = self.core.lib, self.ready
        output = self.core.ffi.new("raft_output_t *")
        while lib.raft_next(self.raft, self.out, output, self.now):
            ready.write = max(ready.write, output.write)
            match output.action:
                case lib.RAFT_CUT:
                    self.log = {index: entry for index, entry in self.log.items() if index <= output.sender}
                    ready.unstable = 0 if ready.unstable > output.sender else ready.unstable
                case lib.RAFT_APPEND:
                    self._append(output)
                case lib.RAFT_RESET:
                    self.log, self.base, self.base_members = {}, output.sender, self.members()
                    self.applied = self.base
                case lib.RAFT_SEND:
                    ready.letters.append(self._letter(output))
                case lib.RAFT_COMMIT:
                    ready.committed += [self.log[at] for at in range(self.applied + 1, output.upto + 1)]
                    self.applied = output.upto
                case lib.RAFT_ROLE:
                    ready.told = True
                case lib.RAFT_COPY:
                    ready.letters.append(self.copy(output.to.peer))
        self.incoming = {}

    def _append(self, output: Any) -> None:
        for index in range(output.sender, output.upto + 1):
            members = self.members() if output.kind == self.core.lib.RAFT_MEMBERS else None
            own = Entry(output.term, index, self.proposed, members)
            self.log[index] = self.incoming.get(index, own)
        self.proposed = ""
        if not self.ready.unstable:
            self.ready.unstable = output.sender

    def _letter(self, output: Any) -> Letter:
        message = self.core.ffi.new("raft_message_t *", output.message)
        entries = [self.log[message.index + 1 + i] for i in range(message.count)]
        return Letter(message, entries, output.after)

    def copy(self, to: int) -> Letter:
        """A copy of the state, as far as entries are applied."""
        message = self.core.ffi.new("raft_message_t *")
        message.sender, message.to, message.index = (self.peer, self.peer), (to, to), self.applied
        term = self.core.ffi.new("raft_term_t *")
        assert self.core.lib.trail_term(self.core.ffi.addressof(self.raft.trail), self.applied, term)
        message.log_term = term[0]
        return Letter(message, [], 0, self.members_at(self.applied))

    # ---- what happens to it

    def receive(self, letter: Letter) -> None:
        """A message that comes; the bytes of its entries are where the log will have them."""
        ffi, lib = self.core.ffi, self.core.lib
        if letter.copied is not None:
            lib.raft_copied(self.raft, self.out, letter.message.index, letter.message.log_term, letter.copied)
            self.drain()
            return
        changes = [entry for entry in letter.entries if entry.members is not None][-2:]
        configs = ffi.new("raft_config_t[2]")
        for i, entry in enumerate(changes):
            configs[i] = entry.members[0]
            configs[i].index = entry.index
        message = ffi.new("raft_message_t *", letter.message[0])
        message.config_count, message.configs = len(changes), configs
        self.incoming = {entry.index: entry for entry in letter.entries}
        lib.raft_receive(self.raft, self.out, message, self.now)
        self.drain()

    def persisted(self, write: int) -> None:
        self.core.lib.raft_persisted(self.raft, self.out, write, self.now)
        self.drain()

    def tick(self) -> None:
        """Whatever waits for time is due."""
        self.now = max(self.now, self.raft.due_ns)
        self.core.lib.raft_tick(self.raft, self.out, self.now)
        self.drain()

    def told_to_stand(self) -> None:
        """Stands without asking first, beside whatever leader: what HANDOVER is for."""
        message = self.core.ffi.new("raft_message_t *")
        message.subject, message.term = self.core.lib.RAFT_HANDOVER, self.raft.term
        message.to = message.sender = (self.peer, self.peer)
        self.receive(Letter(message, [], 0))

    def propose(self, data: str) -> bool:
        index = self.core.ffi.new("raft_index_t *")
        self.proposed = data
        done = self.core.lib.raft_propose(self.raft, self.out, 1, index)
        self.drain()
        return bool(done)

    def alter(self, change: int, peer: int, data: str) -> bool:
        self.proposed = data
        done = self.core.lib.raft_alter(self.raft, self.out, change, (peer, peer))
        self.drain()
        return bool(done)

    def transfer(self, to: int) -> bool:
        done = self.core.lib.raft_transfer(self.raft, (to, to), self.now)
        self.tick()
        return bool(done)

    def compact(self, index: int) -> None:
        self.base_members, self.base = self.members_at(index), index
        self.core.lib.raft_compact(self.raft, index)
        self.log = {at: entry for at, entry in self.log.items() if at > index}

    def progress(self, peer: int) -> tuple[str, int, int]:
        """Of a leader: how it sends to that member, what that member has, what it is sent next."""
        members = self.raft.configs[1]
        place = next(i for i in range(members.count) if members.at[i].id.peer == peer)
        one = self.raft.progress[place]
        return PACES[one.pace], one.match, one.next


class Stage:
    """The members of a script, the messages between them, and what each has done since it was asked last."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.members: dict[int, Member] = {}
        self.bag: list[Letter] = []
        self.written: list[tuple[int, int]] = []  # member, write: on the disk, and the member is to hear of it
        self.work: dict[int, list[Ready]] = {}  # for disks that take their time
        self.slow_disks = False
        self.happened: dict[int, Happened] = {}

    def add(self, member: Member) -> None:
        self.members[member.peer] = member
        self.work[member.peer] = []

    def process(self, peer: int) -> None:
        """Writes what is ready, and sends it: both at once unless disks take their time."""
        member = self.members[peer]
        ready, member.ready = member.ready, Ready()
        ready.log = dict(member.log)
        self._note(member, ready)
        if not self.slow_disks:
            member.disk = ready.log
            self.bag += ready.letters
            if ready.write:
                member.persisted(ready.write)
            return
        held = [
            letter for letter in ready.letters if letter.after and letter.message.subject != self.core.lib.RAFT_VOTE
        ]
        # (etcd asks for votes before its own is on the disk. We do not, but the script says which one is quick.)
        self.bag += [letter for letter in ready.letters if letter not in held]
        ready.letters = held
        if ready.write or ready.letters or ready.committed:  # (etcd writes what is committed, too.)
            self.work[peer].append(ready)

    def write(self, peer: int) -> None:
        """A slow disk has the oldest of what it was given."""
        done = self.work[peer].pop(0)
        self.members[peer].disk = done.log
        self.bag += done.letters
        self.written.append((peer, done.write))

    def deliver(self, peer: int, subjects: set[int] | None = None) -> bool:
        """false: there was nothing for that member."""
        letters = self._take(peer, subjects)
        written = [write for to, write in self.written if to == peer]
        self.written = [(to, write) for to, write in self.written if to != peer]
        for write in filter(None, written):
            self.members[peer].persisted(write)
        for letter in letters:
            self.members[peer].receive(letter)
        return bool(letters or written)

    def lose(self, peer: int) -> None:
        self._take(peer, None)

    def _take(self, peer: int, subjects: set[int] | None) -> list[Letter]:
        def meant(letter: Letter) -> bool:
            return letter.message.to.peer == peer and (subjects is None or letter.message.subject in subjects)

        taken = [letter for letter in self.bag if meant(letter)]
        self.bag = [letter for letter in self.bag if not meant(letter)]
        return taken

    def stabilize(self, peers: list[int]) -> None:
        """In etcd's order: all who have something ready, then all who are sent something, then disks."""
        while True:
            moved = False
            for peer in peers:
                if self.members[peer].ready:
                    self.process(peer)
                    moved = True
            for peer in peers:
                moved = self.deliver(peer) or moved
            for peer in peers:
                while self.work[peer]:
                    self.write(peer)
                    moved = True
            if not moved:
                return

    def _note(self, member: Member, ready: Ready) -> None:
        happened = self.happened.setdefault(member.peer, Happened())
        if member.hard() != member.seen_hard:
            happened.hard = member.seen_hard = member.hard()
        if member.role() != member.seen_role:
            happened.role = member.seen_role = member.role()
        if ready.unstable:
            fresh = sorted(index for index in member.log if index >= ready.unstable)
            happened.entries += [(member.log[index].term, index) for index in fresh]
        happened.committed += [(entry.term, entry.index) for entry in ready.committed]
        lib = self.core.lib
        for letter in ready.letters:
            message, to = letter.message, letter.message.to.peer
            happened.sent += [(to, entry.term, entry.index) for entry in letter.entries]
            if message.subject in (lib.RAFT_PREVOTE, lib.RAFT_VOTE):
                subject = "MsgPreVote" if message.subject == lib.RAFT_PREVOTE else "MsgVote"
                happened.votes.append((subject, to, message.term, message.log_term, message.index))
            elif message.subject in (lib.RAFT_PREVOTED, lib.RAFT_VOTED) and message.granted:
                subject = "MsgPreVoteResp" if message.subject == lib.RAFT_PREVOTED else "MsgVoteResp"
                happened.votes.append((subject, to, message.term))
