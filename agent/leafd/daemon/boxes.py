"""Boxes in the daemon's life: enrolled by their first login, one machine for each, gone when they are retired.

    CONNECT --enrol()--> judged by the register, written --> as any login --single()--> nobody else has that key: let in
                                                                                    the other one answers: refused

Two machines with one key are a copied disk or a backup that was put back: the one that is there and answers stays, the
other one is refused, and the log, an event and leafd boxes name both. One that does not answer is a link that broke
without a word, as after a power cut.

Not here: who may be enrolled (enrol/), what a link is (links/), its other rights (leaf_logins.py),
commands about boxes and what is told of them (box_desk.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import trio

from leafd import native_types as t
from leafd.auth.nkeys import PREFIX_USER, is_public_key, verify
from leafd.auth.verdict import AUTHORIZATION_VIOLATION, Refusal, Verdict
from leafd.enrol import seen
from leafd.enrol.journal import Journal, NotWritten
from leafd.enrol.names import VISITOR
from leafd.enrol.people import user_token
from leafd.enrol.register import NO_TOKEN, Box, Refused as NotEnrolled, Register
from leafd.enrol.token import Secret, read_secret
from leafd.links.alive import answers
from leafd.links.leaf import Acceptor, Login, Refused
from leafd.monitor.facts import stamp
from leafd.quoting import quoted
from leafd.records import dataclass
from leafd.turns import Pause

if TYPE_CHECKING:
    from leafd.daemon.current import Current
    from leafd.guard import Guard
    from leafd.host.log import Log
    from leafd.links.link import Link
    from leafd.logins.guesses import Guesses
    from leafd.native_plane import Plane

LATE_S: Final = 1.0
"""How late a refusal is that is told to the holder of a token, .."""
RIVAL_LATE_S: Final = 20
""".. and at most to a machine that comes again and again with the key of another one."""
TOLD_EACH: Final = 100
RIVALS_MAX: Final = 4096
SEEN_S: Final = 600.0
"""So often it is written down when boxes were here: a kill costs as much of it."""
_GUESSES: Final = "leafs"
_NOBODY: Final[tuple[Link, ...]] = ()


@dataclass(slots=True)
class Rival:
    """The latest machine that came with a box's key while another one was there."""

    address: str
    name: str
    first_ns: int
    last_ns: int = 0
    count: int = 0

    @property
    def shown(self) -> dict[str, Any]:
        """As boxz tells it."""
        first, last = stamp(self.first_ns), stamp(self.last_ns)
        return {"address": self.address, "name": self.name, "first": first, "last": last, "count": self.count}


def open_journal(directory: Path, log: Log) -> Journal:
    """Opens the journal of enrolled boxes. Blocks. Raises StartError."""
    journal = Journal(directory, time.time())
    if journal.cut_off:
        log.warning(
            f"{journal.path}: the last line was not whole, and its {journal.cut_off} bytes were cut "
            "off: look through leafd boxes if a box was enrolled or retired just before leafd was stopped",
            event="boxes_cut_off",
        )
    return journal


class Boxes:
    """One server's. guesses, proofs: where tokens and signatures wait for their check, as those of clients do."""

    def __init__(
        self,
        plane: Plane,
        journal: Journal,
        current: Current,
        guesses: Guesses,
        proofs: Guesses,
        log: Log,
        guard: Guard,
    ) -> None:
        """Blocks."""
        self._plane = plane
        self.journal = journal
        self._directory = journal.path.parent
        self._current = current
        self._guesses, self._proofs = guesses, proofs
        self._log = log
        self._guard = guard
        self._links: dict[str, tuple[Link, ...]] = {}
        """By key: those that were let in."""
        self._probing: dict[str, trio.Event] = {}
        self._ran = False
        self.on_change: list[Callable[[], None]] = []
        """Called where another one is enrolled."""
        self.on_doubled: list[Callable[[str, str, str], None]] = []
        """Two machines have the key of a box: its name, and the addresses of the one that is there and of the other."""
        self.seen_ns: dict[str, int] = self._read_seen()
        """When the link of each box ended that had one."""
        self.rivals: dict[str, Rival] = {}

    @property
    def register(self) -> Register:
        """The register of enrolled boxes."""
        return self.journal.register

    def close(self) -> None:
        """At the end. Blocks."""
        if self._ran:
            with self._guard.around("when boxes were seen"):
                try:
                    seen.write(self._directory, dict(self._times()))
                except OSError as error:
                    self._not_written(error)
        self.journal.close()

    # ---- when they were here, over restarts

    def _read_seen(self) -> dict[str, int]:
        try:
            return {name: at * 1_000_000_000 for name, at in seen.read(self._directory).items()}
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            self._log.warning(
                f"{self._directory / seen.FILE}: {why}: when boxes were last here is not known", event="boxes_seen"
            )
            return {}

    def _times(self) -> Iterator[tuple[str, int]]:
        """Seconds, by name. Of those that are here it is this moment: a kill leaves no later one."""
        now_ns = time.time_ns()
        for name, box in tuple(self.register.boxes.items()):
            at_ns = now_ns if self.here(box.nkey) else self.seen_ns.get(name)
            if at_ns is not None:
                yield name, at_ns // 1_000_000_000

    def _not_written(self, error: OSError) -> None:
        self._log.warning(
            f"{self._directory / seen.FILE}: {error.strerror}: a restart forgets when boxes were here",
            event="boxes_seen",
        )

    async def keep_seen(self) -> None:
        """Writes down from time to time when boxes were here, and at the end. Cancel to end it."""
        self._ran = True
        written: dict[str, int] = {}
        while True:
            await trio.sleep(SEEN_S)
            with self._guard.around("when boxes were seen"):
                found, pause = {}, Pause()
                for name, at_s in self._times():
                    await pause()
                    found[name] = at_s
                if found == written:
                    continue
                try:
                    await trio.to_thread.run_sync(seen.write, self._directory, found)
                    written = found
                except OSError as error:
                    self._not_written(error)

    # ---- a login

    def box_of(self, nkey: str) -> Box | None:
        """The box of that key. A claim to have it makes nobody that box: a JWT may be of another key than `nkey`
        names."""
        return self.register.by_key.get(nkey)

    def takes_time(self, connect: Mapping[str, Any]) -> bool:
        """Whether it has to be enrolled first, or another machine has its key."""
        return self._secret(connect) is not None or bool(self._others(_claimed(connect), connect))

    def _secret(self, connect: Mapping[str, Any]) -> Secret | None:
        """The token of one that is not known by its key."""
        nkey = str(connect.get("nkey") or "")
        if not nkey or nkey in self.register.by_key or nkey in self._current.compiled.leaf_policy.nkeys:
            return None
        for name in ("auth_token", "pass", "user"):
            value = connect.get(name)
            found = read_secret(value) if isinstance(value, str) else None
            if found is not None:
                return found
        return None

    async def enrol(self, link: Link, connect: Mapping[str, Any], nonce: str) -> Refused | None:
        """Enrols who brings a token and a key that nobody knows yet. Refused: he does not get in; with no text, and is
        told no more than that."""
        secret = self._secret(connect)
        if secret is None:
            return None
        host, name = link.peer.rpartition(":")[0].strip("[]"), str(connect.get("name") or "")
        nkey, signature = str(connect["nkey"]), str(connect.get("sig") or "")
        token = self.register.tokens.get(secret.id)

        def wanted() -> bool:
            return not link.gone.is_set()

        if token is None or not secret.is_of(token.digest):
            # It waits among the guesses of its address, and is late after several.
            await self._guesses.check(_GUESSES, host, "token", lambda: Refusal(AUTHORIZATION_VIOLATION), wanted)
            return self._refuse(link, name, NO_TOKEN)
        judge = partial(_proven, nkey, nonce, signature)
        if isinstance(await self._proofs.check(_GUESSES, host, nkey, judge, wanted), Refusal):
            return self._refuse(link, name, NotEnrolled("the nonce is not signed by the box's key", known=False))
        found = self.register.judge(secret, nkey, name, str(connect.get("domain") or ""), time.time())
        if isinstance(found, NotEnrolled):
            refused = self._refuse(link, name, found)
            await trio.sleep(LATE_S)  # it asks again and again
            return refused
        try:
            await self.journal.keep(found)
        except NotWritten as error:
            return self._refuse(link, name, NotEnrolled(f"the hub is not able to write it down, try again ({error})"))
        self._log.info(f"{link.log_name} - Box {name} is enrolled, by the token {secret.id}", event="box_enrolled")
        for follow in self.on_change:
            follow()
        return None

    def _refuse(self, link: Link, name: str, why: NotEnrolled) -> Refused:
        self._log.error(f"{link.log_name} - box {quoted(name)} is not enrolled: {why.text}", event="box_refused")
        return Refused(f"Enrolment Refused: {why.text}" if why.known else "")

    def lend(self, connect: dict[str, Any]) -> str:
        """With an operator: a box brings no JWT, since the hub has what it is made of. The account that has to be
        looked up before that, since its JWT says what the signing key is; "" where nothing is missing."""
        compiled, box = self._current.compiled, self.box_of(_claimed(connect))
        trust, block = compiled.policy.trust, compiled.config.enrol
        if trust is None or box is None or connect.get("jwt") or block is None or not compiled.signing_seed:
            return ""
        account = trust.accounts.get(block.account)
        if account is None:
            return block.account
        scoped = account.keys.get(compiled.signing_key) is not None
        connect["jwt"] = user_token(box, block.account, compiled.signing_seed, scoped=scoped)
        return ""

    # ---- one machine for each key

    def here(self, nkey: str) -> tuple[Link, ...]:
        """The links of the box with that key."""
        known = self._links.get(nkey, _NOBODY)
        for one in known:
            if one.gone.is_set():
                break
        else:
            return known
        links = tuple(one for one in known if not one.gone.is_set())
        if links:
            self._links[nkey] = links
        else:
            self._links.pop(nkey, None)
        return links

    def _others(self, nkey: str, connect: Mapping[str, Any]) -> tuple[Link, ...]:
        """Links of another machine, or of this one before it was started again."""
        if nkey not in self._links or _visits(connect):
            return _NOBODY
        return tuple(one for one in self.here(nkey) if _machine(one) != connect.get("server_id"))

    async def single(self, link: Link, connect: Mapping[str, Any], login: Login, box: Box) -> Login | Refused | None:
        """The login, if the box is who it says to be, and nobody else is it."""
        while others := self._others(box.nkey, connect):
            probing = self._probing.get(box.nkey)
            if probing is not None:
                await probing.wait()
                continue
            if await self._answers(box.nkey, others):
                refused = self._refuse_rival(link, connect, box, others[0])
                await trio.sleep(min(self.rivals[box.name].count, RIVAL_LATE_S))
                return refused
            for one in others:
                text = "Duplicate Remote LeafNode Connection"
                self._plane.close_connection(one.connection, text, t.CloseReason.DUPLICATE)
            self._links[box.nkey] = tuple(one for one in self.here(box.nkey) if one not in others)
        return self.claim(link, connect, login, box)

    def claim(self, link: Link, connect: Mapping[str, Any], login: Login, box: Box) -> Login | Refused | None:
        """The same, where no other machine is known to have the key; from here on it is this link's."""
        if self.register.by_key.get(box.nkey) is not box:  # it was retired just now
            return None
        link.box = box.nkey
        if _visits(connect):
            return login
        name, domain = str(connect.get("name") or ""), str(connect.get("domain") or "")
        if name != box.name or domain not in ("", name):
            self._log.error(
                f"{link.log_name} - server {quoted(name)} with the domain {quoted(domain)} has the key of the box "
                f"{box.name}: refused",
                event="box_refused",
            )
            return Refused(
                f"this key is that of the box {box.name}: server_name and the JetStream domain have to be that"
            )
        if not link.gone.is_set():
            self._links[box.nkey] = (*self.here(box.nkey), link)
        return login

    async def _answers(self, nkey: str, links: tuple[Link, ...]) -> bool:
        """Whether one of them is alive, while others that come with the key wait."""
        done = self._probing[nkey] = trio.Event()
        try:
            numbers = {one.connection for one in links}
            return await answers(self._plane, numbers, lambda: all(one.gone.is_set() for one in links))
        finally:
            del self._probing[nkey]
            done.set()

    def _refuse_rival(self, link: Link, connect: Mapping[str, Any], box: Box, there: Link) -> Refused:
        now_ns, name = time.time_ns(), str(connect.get("name") or "")
        rival = self.rivals.get(box.name)
        if rival is None or rival.address != _address(link):
            rival = self.rivals[box.name] = Rival(_address(link), name, now_ns)
            if len(self.rivals) > RIVALS_MAX:
                del self.rivals[next(iter(self.rivals))]
        rival.last_ns, rival.count = now_ns, rival.count + 1
        if rival.count % TOLD_EACH == 1:
            self._log.error(
                f"{link.log_name} - box {box.name} is linked already, from {there.peer} (lid:{there.connection}): two "
                "machines have its key, and the second one is refused",
                event="box_doubled",
            )
            for tell in self.on_doubled:
                tell(box.name, there.peer, link.peer)
        return Refused(f"the box {box.name} is linked already, from {there.peer}: two machines have its key")

    def went(self, link: Link) -> None:
        """A link has ended."""
        box = self.box_of(link.box)
        if box is not None and not _visits(_connect_of(link)):
            self.seen_ns[box.name] = time.time_ns()
            self.here(box.nkey)


def _proven(nkey: str, nonce: str, signature: str) -> Verdict | Refusal:
    if is_public_key(nkey, PREFIX_USER) and bool(nonce) and verify(nkey, nonce, signature):
        return Verdict("", nkey)
    return Refusal(AUTHORIZATION_VIOLATION)


def _claimed(connect: Mapping[str, Any]) -> str:
    """The key that a CONNECT names, nothing proven yet."""
    return str(connect.get("nkey") or "")


def _visits(connect: Mapping[str, Any]) -> bool:
    return str(connect.get("name") or "").startswith(VISITOR) and not connect.get("domain")


def _connect_of(link: Link) -> Mapping[str, Any]:
    """The CONNECT of a peer that dialled us."""
    machine = link.machine
    return machine.accepted[0] if isinstance(machine, Acceptor) and machine.accepted is not None else {}


def _machine(link: Link) -> str:
    return str(_connect_of(link).get("server_id") or "")


def _address(link: Link) -> str:
    return link.peer.rpartition(":")[0]
