"""Logins of leaf nodes that connect to this server: the user of each, within its time, and again after a reload.

    Opened --> the deadline runs        CONNECT --authenticate()--> Login | None | Later --judged()--> Login | None
    a reload: expect() --> judge_again() --> set_terms(): logins that the coming terms judge differently wait for them

Not here: the handshake (links/leaf.py), who may log in (auth/), logins of clients (clients.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import trio

from leafd.accounts.graph import Account, Graph
from leafd.auth.authors import author_of
from leafd.auth.policy import Policy
from leafd.auth.verdict import (
    LEAF_TYPE,
    LEAF_WEB_TYPE,
    Called,
    Refusal,
    Verdict,
    identify,
    judge_again,
    takes_time,
)
from leafd.guard import Guard
from leafd.links.leaf import Bind, Later, Login, Refused
from leafd.links.link import Link
from leafd.logins.client import lists_of, shown_by
from leafd.logins.client_ports import CallOut
from leafd.logins.clients import ACCOUNT_FULL
from leafd.logins.deadlines import Awaits, LoginTimes
from leafd.logins.guesses import Guesses
from leafd.native_connections import Connections
from leafd.records import dataclass

if TYPE_CHECKING:
    from leafd.enrol.register import Box

CERTIFICATE: Final = "\0certificate"
WAY: Final = "\0way"
"""How it came, as allowed_connection_types has it. No field of the wire is called so; a reload judges by both, too."""
LEAF_GUESSES: Final = "leafs"
AT_ONCE_MAX: Final = 4096
"""Characters of a JWT; a user's without hundreds of permissions has less."""
PATIENT_MAX: Final = 2048
"""Slow logins at a time (deadlines.py): a thousand boxes that come back over one slow line take half a minute, and so
many again stand open that were given up .."""
PATIENT_PART: Final = 4
""".. and at most this part of the connections that there may be: strangers who say nothing leave the others."""


class LeafLinks(Protocol):
    """The part of links.leafs.Leafs that this room needs."""

    def linked(self, account_name: str) -> int: ...
    def bind_of(self, connection: int) -> Bind | None: ...
    def logging_in(self, connection: int) -> bool: ...
    def judged(self, link: Link, login: Login | Refused | None) -> None: ...
    async def judge_again(self, judge: Callable[[dict[str, Any], Login, str], Login | Refused | None]) -> None: ...


class Boxes(Protocol):
    """The part of boxes.Boxes that this room needs."""

    def box_of(self, nkey: str) -> Box | None: ...
    def takes_time(self, connect: Mapping[str, Any]) -> bool: ...
    async def enrol(self, link: Link, connect: Mapping[str, Any], nonce: str) -> Refused | None: ...
    def lend(self, connect: dict[str, Any]) -> str: ...
    async def single(
        self, link: Link, connect: Mapping[str, Any], login: Login, box: Box
    ) -> Login | Refused | None: ...
    def claim(self, link: Link, connect: Mapping[str, Any], login: Login, box: Box) -> Login | Refused | None: ...


@dataclass(frozen=True, slots=True)
class LeafTerms:
    """The rules of leaf logins; a reload replaces them as a whole."""

    policy: Policy
    graph: Graph
    timeout_s: float
    own_logins: bool = False
    """The listener has logins of its own: a leaf that is one too many is told no more than that it is refused."""
    web_policy: Policy | None = None
    """The policy of leaves over WebSocket, where that is another one."""

    def of(self, connect: dict[str, Any]) -> Policy:
        """The policy for this login."""
        return self.web_policy if self.web_policy is not None and connect[WAY] == LEAF_WEB_TYPE else self.policy


class LeafLogins:
    """Judges the logins of leaf nodes."""

    def __init__(
        self,
        plane: Connections,
        terms: LeafTerms,
        guesses: Guesses,
        guard: Guard,
        proofs: Guesses | None = None,
        *,
        links: LeafLinks,
        waits: Callable[[int], bool] = lambda connection: False,
        boxes: Boxes | None = None,
        look_up: Callable[[str], Awaitable[bool]] | None = None,
        callout: Callable[[], CallOut | None] = lambda: None,
        connections_max: int = PATIENT_PART * PATIENT_MAX,
    ) -> None:
        """waits: whether what a leaf has said was not looked at yet (arrivals.py), which is not its fault. boxes: where
        boxes enrol themselves. look_up, callout: as for clients."""
        self._links = links
        self._waits = waits
        self._boxes = boxes
        self._look_up = look_up
        self._callout = callout
        self._plane = plane
        self._terms = terms
        self._guesses = guesses
        self._proofs = proofs or guesses
        self._asked: set[int] = set()
        self._guard = guard
        self._times = LoginTimes(
            self._awaits, plane.end_silence, guard, max(1, min(PATIENT_MAX, connections_max // PATIENT_PART))
        )
        self._nursery: trio.Nursery | None = None
        self._coming: LeafTerms | None = None
        self._over = trio.Event()
        """Set when the reload that is under way has taken effect."""

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Checks passwords, and closes connections that do not log in in time. Cancel to end it."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            await self._times.run()

    def opened(self, connection: int) -> None:
        """A leaf has connected: from now on it has its time to log in."""
        self._times.add(connection, self._terms.timeout_s, patient=True)

    def _awaits(self, connection: int) -> Awaits:
        """The thing that its login waits for."""
        if not self._links.logging_in(connection):
            return Awaits.NOTHING
        return Awaits.US if self._waits(connection) or connection in self._asked else Awaits.PEER

    # ---- a login

    def authenticate(self, link: Link, connect: dict[str, Any], nonce: str) -> Login | Refused | Later | None:
        """The verdict on a CONNECT. Later: `judged` of the links will be told."""
        if self._nursery is None:
            return None
        shown = shown_by(link.tls) if link.tls is not None else None
        if shown is not None:
            connect[CERTIFICATE] = shown
        connect[WAY] = LEAF_WEB_TYPE if link.web else LEAF_TYPE
        policy, boxes = self._terms.of(connect), self._boxes
        waits = policy.callout is not None or (boxes is not None and boxes.takes_time(connect))
        if not waits and (_is_short_token(connect, policy) or not takes_time(connect, policy, shown)):
            verdict = identify(connect, nonce, policy, connect[WAY], shown, host=_host(link.peer))
            login = self._login(verdict, policy, connect)
            if not self._unknown(verdict) and self._stays(connect, login, link.peer):
                box = boxes.box_of(_proven_key(verdict)) if boxes is not None else None
                return boxes.claim(link, connect, login, box) if boxes and box and isinstance(login, Login) else login
        self._nursery.start_soon(self._authenticate_slowly, link, connect, nonce)
        return Later()

    def _unknown(self, verdict: Verdict | Refusal) -> str:
        """The account that has to be looked up before a verdict is final."""
        return verdict.unknown if isinstance(verdict, Refusal) and self._look_up is not None else ""

    async def _authenticate_slowly(self, link: Link, connect: dict[str, Any], nonce: str) -> None:
        address, name = _host(link.peer), str(connect.get("user") or "")
        login: Login | Refused | None = None
        policy, gone, key = None, link.gone.is_set, ""
        refused = await self._enrol(link, connect, nonce) if self._boxes is not None else None
        if refused is not None:
            self._judged(link, refused)
            return
        while policy is not self._terms.of(connect) and not gone():
            # Judged again when a reload has changed who is who meanwhile.
            policy = self._terms.of(connect)
            judge = partial(identify, connect, nonce, policy, connect[WAY], connect.get(CERTIFICATE), host=address)
            if takes_time(connect, policy, connect.get(CERTIFICATE)):
                checks = self._guesses if policy.trust is None else self._proofs
                verdict = await checks.check(LEAF_GUESSES, address, name, judge, lambda: not gone())
                if self._look_up is not None and (account := self._unknown(verdict)):
                    policy = None if await self._look_up(account) else policy
                    if policy is None:
                        continue
            else:
                verdict = judge()
            key = _proven_key(verdict)  # a service may let in whom it likes, and that makes nobody a box
            call_out = self._callout()
            if call_out is not None and not gone():
                verdict = await self._call_out(call_out, link, connect, nonce, verdict)
            login = self._login(verdict, policy, connect)
            if not self._stays(connect, login, link.peer):
                await self._over.wait()
        box = self._boxes.box_of(key) if self._boxes is not None else None
        if self._boxes is not None and box is not None and isinstance(login, Login):
            login = await self._single(self._boxes, link, connect, login, box)
        self._judged(link, login)

    def _judged(self, link: Link, login: Login | Refused | None) -> None:
        with self._guard.around("a leaf's login"):
            self._links.judged(link, None if isinstance(login, Refused) and not login.text else login)

    async def _enrol(self, link: Link, connect: dict[str, Any], nonce: str) -> Refused | None:
        """Why it is not enrolled, where it wants to be."""
        assert self._boxes is not None
        refused: Refused | None = Refused("")
        self._asked.add(link.connection)
        try:
            with self._guard.around("enrolling a box"):
                refused = await self._boxes.enrol(link, connect, nonce)
        finally:
            self._asked.discard(link.connection)
        account = self._boxes.lend(connect)
        if account and refused is None and self._look_up is not None and await self._look_up(account):
            self._boxes.lend(connect)
        return refused

    async def _single(
        self, boxes: Boxes, link: Link, connect: dict[str, Any], login: Login, box: Box
    ) -> Login | Refused | None:
        self._asked.add(link.connection)
        try:
            with self._guard.around("looking for a box's other machine"):
                return await boxes.single(link, connect, login, box)
        finally:
            self._asked.discard(link.connection)
        return None

    async def _call_out(
        self, call_out: CallOut, link: Link, connect: dict[str, Any], nonce: str, verdict: Verdict | Refusal
    ) -> Verdict | Refusal:
        policy, timeout_s = self._terms.of(connect), self._terms.timeout_s
        self._asked.add(link.connection)
        try:
            return await call_out(
                policy, link.connection, _host(link.peer), connect[WAY], connect, nonce, verdict, timeout_s, link.tls
            )
        finally:
            self._asked.discard(link.connection)

    def _login(self, verdict: Verdict | Refusal, policy: Policy, connect: dict[str, Any]) -> Login | Refused | None:
        account = _account_of(verdict, self._terms.graph)
        if isinstance(verdict, Refusal) or account is None:
            return None
        most = account.limits.max_leafnodes
        if 0 <= most <= self._links.linked(account.name):
            return None if self._terms.own_logins else Refused(ACCOUNT_FULL)
        return _login_to(account, verdict, policy, connect)

    # ---- a reload

    def expect(self, coming: LeafTerms) -> None:
        """A reload has begun: a login that these terms judge differently waits for set_terms()."""
        self._coming, self._over = coming, trio.Event()

    async def judge_again(self) -> None:
        """Has the links closed whose login the coming terms refuse or change."""
        before, coming = self._terms, self._coming
        if coming is None:
            return
        places: dict[str, int] = {}

        def judge(connect: dict[str, Any], login: Login, peer: str) -> Login | Refused | None:
            verdict = judge_again(
                connect,
                before.of(connect),
                coming.of(connect),
                connect[WAY],
                connect.get(CERTIFICATE),
                proof=login.proof,
                host=_host(peer),
            )
            account = _account_of(verdict, coming.graph)
            if isinstance(verdict, Refusal) and login.proof is not None:
                return Refused(verdict.text)
            if isinstance(verdict, Refusal) or account is None:
                return None
            places[account.name] = places.get(account.name, 0) + 1
            if 0 <= account.limits.max_leafnodes < places[account.name]:
                return None if coming.own_logins else Refused(ACCOUNT_FULL)
            return _login_to(account, verdict, coming.of(connect), connect)

        await self._links.judge_again(judge)

    def set_terms(self, terms: LeafTerms) -> None:
        """The reload has taken effect."""
        self._terms, self._coming = terms, None
        self._over.set()

    def _stays(self, connect: dict[str, Any], login: Login | Refused | None, peer: str) -> bool:
        """Whether a login is the same after the reload that is under way, if one is."""
        if self._coming is None:
            return True
        proof = login.proof if isinstance(login, Login) else None
        shown, before, coming = connect.get(CERTIFICATE), self._terms.of(connect), self._coming.of(connect)
        verdict = judge_again(connect, before, coming, connect[WAY], shown, proof=proof, host=_host(peer))
        account = _account_of(verdict, self._coming.graph)
        if isinstance(verdict, Refusal) or account is None or login is None:
            return False
        return login == _login_to(account, verdict, coming, connect)


def _is_short_token(connect: dict[str, Any], policy: Policy) -> bool:
    """Whether it is a JWT that is judged in half a millisecond: to hand it to a thread and back costs as much, and
    Arrivals has a client's login pass between two of them. A box brings none: it is lent one on the slow way."""
    return policy.trust is not None and 0 < len(str(connect.get("jwt") or "")) <= AT_ONCE_MAX


def _proven_key(verdict: Verdict | Refusal) -> str:
    """The key that a login was proven by, if by one: no field of the CONNECT is."""
    return verdict.user if isinstance(verdict, Verdict) and not isinstance(verdict.proof, Called) else ""


def _account_of(verdict: Verdict | Refusal, graph: Graph) -> Account | None:
    return None if isinstance(verdict, Refusal) else graph.account(verdict.account)


def _login_to(account: Account, verdict: Verdict, policy: Policy, connect: dict[str, Any]) -> Login:
    permissions = lists_of(verdict.rights, author_of(verdict, policy, connect[WAY]))
    payloads = [one for one in (account.limits.max_payload, verdict.max_payload) if one >= 0]
    counts = [one for one in (account.limits.max_subscriptions, verdict.max_subscriptions) if one >= 0]
    if verdict.proof is None:
        payloads, counts = [], []
    return Login(
        account.id,
        account.name,
        permissions,
        account.system,
        max_payload=min(payloads, default=0),
        max_subscriptions=min(counts, default=0),
        expires_wall_ns=verdict.expires_ns,
        proof=verdict.proof,
        user=verdict.user,
    )


def _host(peer: str) -> str:
    """The address of a peer."""
    return peer.rpartition(":")[0].strip("[]")
