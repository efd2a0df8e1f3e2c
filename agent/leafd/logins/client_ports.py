"""The parts of other rooms that the room of client logins needs. Not here: who they are
(daemon/server.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from leafd import native_types as t
from leafd.auth.policy import Policy
from leafd.auth.verdict import Refusal, Verdict


class CallOut(Protocol):
    """The part of callouts.Callouts.judged that this room needs."""

    async def __call__(
        self, policy: Policy, connection: int, host: str, kind: str, connect: Mapping[str, Any], nonce: str,
        verdict: Verdict | Refusal, timeout_s: float, tls: t.Secured | None
    ) -> Verdict | Refusal: ...  # fmt: skip
