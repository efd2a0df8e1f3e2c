"""The users who may see the status page where it is not on loopback: those of the system account, by their passwords.

A password is judged as a client's CONNECT is, with the same limits on guessing: each check waits in the queue of its
address, on a thread, and refusals after several failures come late. In operator mode the password is a bearer JWT.
Where a callout service judges logins, it is asked as for a client without a connection (number 0). Not here: the page
and how a browser asks for it (monitor/page/).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from leafd.accounts.graph import Graph
from leafd.auth.passwords import is_hash, matches
from leafd.auth.policy import Policy
from leafd.auth.verdict import CLIENT_TYPE, Refusal, Verdict, judge_client
from leafd.logins.client_ports import CallOut
from leafd.logins.guesses import Guesses
from leafd.operator_log import Log
from leafd.quoting import quoted

PAGE_GUESSES: Final = "page"
CALL_OUT_S: Final = 5.0
"""For a service that judges logins."""


class PageLogins:
    """Judges by the policy and the accounts of today."""

    def __init__(
        self,
        guesses: Guesses,
        log: Log,
        policy: Callable[[], Policy],
        graph: Callable[[], Graph],
        call_out: Callable[[], CallOut | None] = lambda: None,
    ) -> None:
        self._guesses = guesses
        self._call_out = call_out
        self._log = log
        self._policy = policy
        self._graph = graph

    async def admits(self, user: str, password: str, address: str, wanted: Callable[[], bool]) -> bool:
        """Whether that is a user of the system account."""
        policy = self._policy()
        connect: dict[str, Any] = {"user": user, "pass": password}
        if policy.trust is not None:
            connect = {"jwt": password}
        judge = partial(_judged, connect, policy, address)
        verdict = await self._guesses.check(PAGE_GUESSES, address, user, judge, wanted)
        call_out = self._call_out()
        if policy.callout is not None and call_out is not None and wanted():
            verdict = await call_out(policy, 0, address, CLIENT_TYPE, connect, "", verdict, CALL_OUT_S, None)
        system = self._graph().system
        if not isinstance(verdict, Refusal) and system is not None and verdict.account == system.name:
            return True
        if wanted():
            why = "not of the system account" if not isinstance(verdict, Refusal) else verdict.why or verdict.text
            self._log.error(f"{address} - status page - User {quoted(user)}: {why}", event="login_refused")
        return False


def _judged(connect: dict[str, Any], policy: Policy, address: str) -> Verdict | Refusal:
    """Judges as judge_client() does. A user that does not exist takes as long as one with a hashed password."""
    if policy.trust is None and connect["user"] not in policy.users:
        for person in policy.users.values():
            if is_hash(person.password):
                matches(person.password, connect["pass"])
                break
    return judge_client(connect, "", policy, host=address)
