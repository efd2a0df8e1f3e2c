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


class ClientPlane(Protocol):
    """The part of native.Plane that this room needs."""

    def send(self, connection: int, frame: bytes) -> None: ...
    def secure(self, connection: int, how: t.Secure, *, before: bytes, behind: bytes) -> None: ...
    def welcome(self, listener: int, how: t.Secure | None, before: bytes, behind: bytes = ...) -> None: ...
    def know(
        self, connect: bytes, account: int, verdict: t.ConnVerdict, permissions: t.Permissions, after_pong: bytes
    ) -> None: ...
    def forget_logins(self) -> None: ...
    async def settled(self) -> None: ...
    def close_connection(self, connection: int, text: str = "", reason: int = ...) -> None: ...
    def admit(
        self, connection: int, account: int, verdict: t.ConnVerdict, permissions: t.Permissions, after_pong: bytes
    ) -> None: ...
    async def change_rights(
        self, connection: int, account: int, verdict: t.ConnVerdict, permissions: t.Permissions, after_pong: bytes
    ) -> int: ...


class Log(Protocol):
    """The receiver of lines for the operator."""

    def debug(self, text: str) -> None: ...
    def error(self, text: str, **about: str) -> None: ...
