"""Asking the service that judges logins (auth callout): sends each question, waits for its answer, bounds how many.

    judged(login, verdict)  -->  queue of its listener and address  -->  question()  -->  plane  ...  service
                            <--  Verdict | Refusal  <--  answered()  <--  an inbox of this server  <--

At most AT_WORK_MAX questions are under way, addresses take turns, and places are kept for newcomers: a client that
floods the service from one address waits behind itself. A question and its wait for a turn have together the time of a
login. Signing and checking take about a millisecond and happen on a thread. Not here: what is asked and what an answer
says (auth/callout.py), who is asked about first (clients.py, leaf_logins.py). It is imported when a configuration has
such a service.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from functools import partial
from typing import Any, Final, TypeVar

import trio

from leafd import native_types as t
from leafd.accounts.graph import Account
from leafd.auth import callout as rules, xkeys
from leafd.auth.callout import CalloutError, Handshake, Login, ServerKeys
from leafd.auth.jwt_claims import UserClaims
from leafd.auth.policy import CALLOUT_SUBJECT, Callout, Policy
from leafd.auth.trust import Unknown
from leafd.auth.verdict import AUTHORIZATION_VIOLATION, Refusal, Verdict
from leafd.fair import FairQueue
from leafd.guard import Guard
from leafd.native_accounts import Accounts
from leafd.operator_log import Log
from leafd.quoting import printable
from leafd.records import dataclass

AT_WORK_MAX: Final = 256
"""Questions under way: a service that does not answer costs each its time, so at 2 s this is 128 logins a second."""
AT_WORK_EACH: Final = 64
WAITING_MAX: Final = 4096
_SHOWN_MAX: Final = 500
LookUp = Callable[[str], Awaitable[bool]]
"""In operator mode: whether an account that was not known is known now."""
_Result = TypeVar("_Result")


@dataclass(slots=True, eq=False)
class _Turn:
    """One login that waits for its turn. outdated: it has had none and will have none."""

    group: str
    asker: str
    wanted: bool = True
    outdated: bool = False
    come: trio.Event = field(default_factory=trio.Event)


@dataclass(slots=True, eq=False)
class _Waiting:
    """One question that is under way."""

    answer: bytes | None = None
    come: trio.Event = field(default_factory=trio.Event)


class Callouts:
    """All questions of this server. run() until cancelled."""

    def __init__(
        self,
        plane: Accounts,
        keys: ServerKeys,
        account: Callable[[str], Account | None],
        guard: Guard,
        log: Log,
        look_up: LookUp | None = None,
    ) -> None:
        self._plane = plane
        self._keys = keys
        self._account = account
        self._guard = guard
        self._log = log
        self._look_up = look_up
        self._inbox = f"$SYS._INBOX.{secrets.token_hex(4)}."
        self._listening: set[int] = set()
        self._waiting: dict[str, _Waiting] = {}
        self._limiter = trio.CapacityLimiter(1)
        self._turns: FairQueue[_Turn] = FairQueue(
            at_work=AT_WORK_MAX, at_work_each=AT_WORK_EACH, waiting=WAITING_MAX, outdated=_outdated
        )

    @property
    def public_xkey(self) -> str:
        """The public key for which callout services seal answers."""
        return xkeys.public_of(self._keys.curve)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Gives turns."""
        task_status.started()
        while True:
            turn = await self._turns.take()
            if turn.wanted:
                turn.come.set()
            else:
                self._turns.done(turn.group, turn.asker)

    async def judged(
        self, policy: Policy, connection: int, host: str, kind: str, connect: Mapping[str, Any], nonce: str,
        verdict: Verdict | Refusal, timeout_s: float, tls: t.Secured | None
    ) -> Verdict | Refusal:  # fmt: skip
        """The verdict of the service, where it is to be asked; else the one that there is."""
        callout = rules.callout_of(policy, verdict)
        if callout is None:
            return verdict
        proof = verdict.proof if isinstance(verdict, Verdict) else None
        claims = proof if isinstance(proof, UserClaims) else None
        shaken = None
        if tls is not None:
            resumed = bool(tls.flags & t.SecuredFlag.RESUMED)
            shaken = Handshake(tls.version, tls.cipher, tls.certificate, tls.chain, resumed)
        login = Login(connection, host, kind, rules.presented(connect, policy), nonce, claims, shaken)
        if not rules.asks(callout, login, verdict):
            return verdict
        refusal = f'Authorization callout response not received in time on account "{callout.account}"'
        with trio.move_on_after(timeout_s):
            try:
                return await self._in_turn(policy, callout, login, timeout_s)
            except (CalloutError, Unknown) as error:
                refusal = str(error)
            except Exception as error:
                self._guard.caught("asking an auth callout service", error)
        self._log.warning(printable(refusal, _SHOWN_MAX))
        return Refusal(AUTHORIZATION_VIOLATION)

    async def _in_turn(self, policy: Policy, callout: Callout, login: Login, timeout_s: float) -> Verdict:
        turn = _Turn(login.kind, login.host)
        self._turns.put(turn.group, turn.asker, turn)
        try:
            await turn.come.wait()
            if turn.outdated:
                raise CalloutError("too many logins wait for the auth callout service")
            return await self._ask(policy, callout, login, timeout_s)
        finally:
            turn.wanted = False
            if turn.come.is_set() and not turn.outdated:
                self._turns.done(turn.group, turn.asker)

    async def _ask(self, policy: Policy, callout: Callout, login: Login, timeout_s: float) -> Verdict:
        account = self._account(callout.account)
        if account is None:
            raise CalloutError(f'No valid account "{callout.account}" for auth callout request')
        if account.id not in self._listening:
            self._listening.add(account.id)
            self._plane.subscribe(account.id, f"{self._inbox}*", self._answer)
        asked = await self._aside(partial(rules.question, callout, self._keys, login, timeout_s))
        inbox = f"{self._inbox}{secrets.token_hex(8)}"
        waiting = self._waiting[inbox] = _Waiting()
        try:
            self._plane.publish(account.id, CALLOUT_SUBJECT, asked.payload, reply=inbox, header=asked.header)
            await waiting.come.wait()
        finally:
            del self._waiting[inbox]
        answer = waiting.answer or b""
        claims = await self._aside(partial(rules.answered, callout, self._keys, asked, answer))
        return rules.let_in(callout, login, claims, await self._verdict(policy, callout, login, claims))

    async def _verdict(self, policy: Policy, callout: Callout, login: Login, claims: UserClaims) -> Verdict:
        if policy.trust is not None:
            try:
                return rules.trusted_verdict(callout, policy.trust, claims, login)
            except Unknown as unknown:
                if self._look_up is None or not await self._look_up(unknown.account):
                    raise CalloutError(str(unknown)) from None
                return rules.trusted_verdict(callout, policy.trust, claims, login)
        name = rules.configured_account(callout, claims)
        if self._account(name) is None:
            where = f'for auth callout response on account "{callout.account}": account missing'
            raise CalloutError(f'No valid account "{name}" {where}')
        return rules.verdict_of(claims, login, name)

    async def _aside(self, work: Callable[[], _Result]) -> _Result:
        """Pure work on a thread, one piece at a time."""
        return await trio.to_thread.run_sync(work, limiter=self._limiter)

    def _answer(self, message: t.Message) -> bool:
        waiting = self._waiting.get(message.subject)
        if waiting is not None and not waiting.come.is_set():
            waiting.answer = message.payload
            waiting.come.set()
        return False


def _outdated(turn: _Turn) -> None:
    turn.outdated = True
    turn.come.set()
