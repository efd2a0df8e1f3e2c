"""etcd's data-driven scripts, read and played against native/raft: what each command says happens there has to happen
here, entry by entry.

    propose 1 foo          a command, and arguments on its lines
    ----
    ok                     what etcd's members did: states, entries, commits, messages

What is compared, of each member and command: term, vote and commit as they are written; leader and role; the entries
that were written, those that were committed, those that were sent, to whom; votes asked for and given; the logs and
states that a script prints. Not compared: beats, empty messages and acknowledgements as such, which come to the same by
other messages, in the states that follow. What differs for a reason of ours is in test_etcd_scripts.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.unit.raft.core import Core
from tests.unit.raft.stage import ELECTION, Happened, Member, Stage

CHANGES = {"v": "RAFT_PROMOTE", "l": "RAFT_LEARN", "r": "RAFT_REMOVE"}
SHOWING = ("stabilize", "process-ready", "deliver-msgs", "process-append-thread")
ENTRY = re.compile(r"(\d+)/(\d+) Entry")
MESSAGE = re.compile(r"(\d+)->(\d+) (Msg\w+) Term:(\d+) Log:(\d+)/(\d+)(.*)")


class ForeignError(Exception):
    """A command for which the core has nothing: what follows in the script cannot be compared."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


@dataclass
class Command:
    """A command, and what it did to etcd's members."""

    line: int
    name: str
    words: list[str]
    options: dict[str, list[str]]
    body: list[str]
    output: list[str]

    def peers(self) -> list[int]:
        return [int(word) for word in self.words]

    def quiet(self) -> bool:
        return self.output in (["ok"], [])


def read(text: str) -> list[Command]:
    """The commands of a script."""
    commands: list[Command] = []
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        if not lines[at].strip() or lines[at].startswith("#"):
            at += 1
            continue
        begin = at
        while lines[at] != "----":
            at += 1
        head, *body = lines[begin:at]
        end = at + 1
        while end < len(lines) and lines[end] != "":
            end += 1
        words = re.findall(r"[\w-]+=\([^)]*\)|\S+", head)
        options = {
            word.split("=")[0]: re.findall(r"[\w-]+", word.split("=", 1)[1]) for word in words[1:] if "=" in word
        }
        plain = [word for word in words[1:] if "=" not in word]
        commands.append(Command(begin + 1, words[0], plain, options, body, lines[at + 1 : end]))
        at = end
    return commands


def theirs(command: Command) -> dict[int, Happened]:
    """What the output says that etcd's members did."""
    happened: dict[int, Happened] = {}
    peer = int(command.words[0]) if command.words and command.words[0].isdigit() else 0
    section = "Ready" if command.name == "process-ready" else ""
    # A message's entries may stand on lines of their own.
    text = re.sub(r"Entries:\[\n([^\]]*)\]", lambda found: f"[{' '.join(found[1].split())}]", "\n".join(command.output))
    for line in map(str.strip, text.splitlines()):
        header = re.match(r"> (\d+) (.*)", line)
        if header:
            peer, section = int(header[1]), "Ready" if header[2] == "handling Ready" else ""
        elif section:
            one = happened.setdefault(peer, Happened())
            section = of_line(one, peer, section, line)
    return happened


def of_line(one: Happened, peer: int, section: str, line: str) -> str:
    """Takes a line of what a member had ready; returns the section that the next one is in."""
    role = re.match(r"Lead:(\d+) State:State(\w+)", line)
    hard = re.match(r"HardState Term:(\d+)(?: Vote:(\d+))? Commit:(\d+)", line)
    message, entry = MESSAGE.match(line), ENTRY.match(line)
    if line in ("Entries:", "CommittedEntries:", "Messages:"):
        return line
    if role:
        one.role = (int(role[1]), role[2])
    elif hard:
        one.hard = (int(hard[1]), int(hard[2] or 0), int(hard[3]))
    elif entry and section == "Entries:":
        one.entries.append((int(entry[1]), int(entry[2])))
    elif entry and section == "CommittedEntries:":
        one.committed.append((int(entry[1]), int(entry[2])))
    elif message and int(message[1]) == peer != int(message[2]):
        of_message(one, message)
    return section


def of_message(one: Happened, message: re.Match[str]) -> None:
    to, subject, term = int(message[2]), message[3], int(message[4])
    if subject in ("MsgPreVote", "MsgVote"):
        one.votes.append((subject, to, term, int(message[5]), int(message[6])))
    elif subject in ("MsgPreVoteResp", "MsgVoteResp") and "Rejected" not in message[7]:
        one.votes.append((subject, to, term))
    elif subject == "MsgApp":
        one.sent += [(to, int(term), int(index)) for term, index in ENTRY.findall(message[7])]


@dataclass
class Difference:
    """What is not the same."""

    line: int
    peer: int
    what: str
    theirs: object
    ours: object

    def __str__(self) -> str:
        return f"line {self.line}: member {self.peer}, {self.what}: etcd {self.theirs}, ours {self.ours}"


@dataclass
class Player:
    """Plays one script."""

    core: Core
    commands: list[Command]
    stage: Stage = field(init=False)
    loud: bool = True
    asking: bool = False  # prevote=true: who wants to lead asks first
    hearing: bool = False  # checkquorum=true: nobody votes while a leader is heard
    left: dict[int, int] = field(default_factory=dict)  # beats until a member stands, where the script says that
    compared: int = 0
    differences: list[Difference] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.stage = Stage(self.core)

    def play(self) -> None:
        for command in self.commands:
            getattr(self, "do_" + command.name.replace("-", "_"))(command)
            if self.loud and command.name in SHOWING and not command.quiet():
                self.compare(command)
                self.stage.happened = {}
            if not self.loud:
                self.stage.happened = {}

    def compare(self, command: Command) -> None:
        self.compared += 1
        expected = theirs(command)
        for peer in sorted(expected.keys() | self.stage.happened.keys()):
            their, our = expected.get(peer, Happened()), self.stage.happened.get(peer, Happened())
            for name in ("hard", "role", "entries", "committed", "votes", "sent"):
                one, other = getattr(their, name), getattr(our, name)
                if name in ("votes", "sent"):
                    one, other = sorted(one), sorted(other)
                if one != other:
                    self.differences.append(Difference(command.line, peer, name, one, other))

    def differ(self, command: Command, peer: int, what: str, their: object, our: object) -> None:
        if self.loud and their != our:
            self.differences.append(Difference(command.line, peer, what, their, our))

    # ---- commands

    def do_log_level(self, command: Command) -> None:
        self.loud = command.words[0] != "none"

    def do_add_nodes(self, command: Command) -> None:
        core, options = self.core, command.options
        self.asking = self.asking or options.get("prevote") == ["true"]
        self.hearing = self.hearing or options.get("checkquorum") == ["true"]
        self.stage.slow_disks = self.stage.slow_disks or options.get("async-storage-writes") == ["true"]
        members = core.ffi.new("raft_config_t *")
        # A voter is a learner first with us: those of the script's changes begin as learners.
        later = {int(one.body[0][1:]) for one in self.commands if re.fullmatch(r"v\d+", "".join(one.body))}
        known = {int(peer) for peer in options.get("voters", [])}
        learners = {int(peer) for peer in options.get("learners", [])} | (later - known)
        for i, peer in enumerate(sorted(known | learners)):
            members.at[i].id = (peer, peer)
            members.at[i].voter = peer in known
            members.count = i + 1
        base = int(options.get("index", ["0"])[0])
        for _ in range(int(command.words[0])):
            peer = len(self.stage.members) + 1
            self.stage.add(Member(core, peer, members if base else None, base, 1 if base else 0))

    def do_campaign(self, command: Command) -> None:
        self.campaign(command.peers()[0])

    def campaign(self, peer: int) -> None:
        member = self.stage.members[peer]
        if member.role()[1] == "Leader":
            return
        if not self.hearing:  # nobody minds a leader
            for other in self.stage.members.values():
                other.now += ELECTION if other.role()[1] != "Leader" else 0
        if self.asking or self.hearing:
            member.tick()
        else:
            member.told_to_stand()

    def do_stabilize(self, command: Command) -> None:
        self.stage.stabilize(command.peers() or sorted(self.stage.members))
        level = command.options.get("log-level")
        if level == ["none"]:
            self.stage.happened = {}

    def do_process_ready(self, command: Command) -> None:
        for peer in command.peers():
            self.stage.process(peer)

    def do_process_append_thread(self, command: Command) -> None:
        for peer in command.peers():
            if self.stage.work[peer]:
                self.stage.write(peer)

    def do_process_apply_thread(self, command: Command) -> None:
        """Whatever is committed is applied at once here."""

    def do_deliver_msgs(self, command: Command) -> None:
        subjects = {self.core.lib.RAFT_ENTRIES} if command.options.get("type") == ["MsgApp"] else None
        for peer in command.peers():
            self.stage.deliver(peer, subjects)
        for lost in command.options.get("drop", []):
            self.stage.lose(int(lost))

    def do_propose(self, command: Command) -> None:
        self.stage.members[int(command.words[0])].propose(command.words[1])

    def do_propose_conf_change(self, command: Command) -> None:
        words = " ".join(command.body).split()
        if len(words) != 1 or "transition" in command.options:
            raise ForeignError(command.line)  # joint consensus
        change: Any = getattr(self.core.lib, CHANGES[words[0][0]])
        member = self.stage.members[command.peers()[0]]
        if not member.alter(change, int(words[0][1:]), words[0]):
            self.stage.process(member.peer)  # its own term has to be committed first
            assert member.alter(change, int(words[0][1:]), words[0]), f"line {command.line}: refused"

    def do_tick_heartbeat(self, command: Command) -> None:
        peer = command.peers()[0]
        if self.stage.members[peer].role()[1] == "Leader":
            self.stage.members[peer].tick()
        elif peer in self.left:
            self.left[peer] -= 1
            if self.left[peer] == 0:
                self.campaign(peer)

    def do_tick_election(self, command: Command) -> None:
        member = self.stage.members[command.peers()[0]]
        member.now += ELECTION
        if member.role()[1] == "Leader":
            member.tick()

    def do_set_randomized_election_timeout(self, command: Command) -> None:
        self.left[command.peers()[0]] = int(command.options["timeout"][0])

    def do_forget_leader(self, command: Command) -> None:
        member = self.stage.members[command.peers()[0]]
        member.now += ELECTION if member.role()[1] != "Leader" else 0

    def do_report_unreachable(self, command: Command) -> None:
        """Nobody tells the core: it hears no answer."""

    def do_transfer_leadership(self, command: Command) -> None:
        source, to = (int(command.options[name][0]) for name in ("from", "to"))
        self.stage.members[source].transfer(to)

    def do_compact(self, command: Command) -> None:
        peer, index = command.peers()
        self.stage.members[peer].compact(index)

    def do_send_snapshot(self, command: Command) -> None:
        source, to = command.peers()
        self.stage.bag.append(self.stage.members[source].copy(to))

    def do_raft_log(self, command: Command) -> None:
        peer = command.peers()[0]
        member = self.stage.members[peer]
        expected = [(int(term), int(index)) for term, index in ENTRY.findall("\n".join(command.output))]
        ours = [(member.disk[index].term, index) for index in sorted(member.disk) if index > member.base]
        self.differ(command, peer, "log", expected, ours)

    def do_raft_state(self, command: Command) -> None:
        for line in command.output:
            found = re.fullmatch(r"(\d+): State(\w+) \(([\w-]+)\) Term:(\d+) Lead:(\d+)", line)
            assert found, line
            member = self.stage.members[int(found[1])]
            members = member.raft.configs[1]
            voter = any(members.at[i].voter and members.at[i].id.peer == member.peer for i in range(members.count))
            ours = (member.role()[1], "Voter" if voter else "Non-Voter", member.raft.term, member.role()[0])
            self.differ(command, member.peer, "state", (found[2], found[3], int(found[4]), int(found[5])), ours)

    def do_status(self, command: Command) -> None:
        member = self.stage.members[command.peers()[0]]
        for line in command.output:
            found = re.match(r"(\d+): State(\w+) match=(\d+) next=(\d+)", line)
            assert found, line
            peer = int(found[1])
            if peer != member.peer:
                self.differ(command, peer, "status", (found[2], int(found[3]), int(found[4])), member.progress(peer))


def play(core: Core, path: Path) -> tuple[Player, int]:
    """The script, played; and the line at which it was left, 0 for its end."""
    player = Player(core, read(path.read_text()))
    try:
        player.play()
    except ForeignError as error:
        return player, error.line
    return player, 0
