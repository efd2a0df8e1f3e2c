"""The steps that the handshakes of routes and of gateways have in common: the order of lines, the login, names, a
refusal.

The end that dialled has told its name in CONNECT; from the other end INFO or -ERR may come at once, and from the one
that dialled INFO only behind its CONNECT. Pure. Not here: what the lines say (route.py, gateway.py).
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Any, Final, TypeVar

from leafd.native_types import CloseReason, LineKind
from leafd.quoting import quoted
from leafd.records import dataclass

NAME_MAX: Final = 255
_Action = TypeVar("_Action")


@dataclass(frozen=True, slots=True)
class Close:
    """The connection ends. The peer is told why, or the log alone."""

    why: str
    reason: int = CloseReason.PROTOCOL
    told: bool = False


def heard(
    kind: int,
    payload: bytes,
    *,
    named: bool,
    connect: Callable[[bytes], list[_Action]],
    info: Callable[[bytes], list[_Action]],
    what: str,
) -> list[_Action | Close]:
    """The actions that follow from one line of the handshake. named: the peer was dialled, or has said CONNECT. what:
    of a route."""
    if kind == LineKind.ERR and named:
        return [Close(quoted(payload.decode("utf-8", "replace")))]
    if kind == LineKind.CONNECT and not named:
        return [*connect(payload)]
    if kind == LineKind.INFO and named:
        return [*info(payload)]
    if not named:
        return [Close("Authorization Violation", CloseReason.AUTHENTICATION, told=True)]
    return [Close(f"neither INFO nor -ERR in the handshake of a {what}")]


def has_login(connect: dict[str, Any], user: str, password: str) -> bool:
    """Whether a server's CONNECT has the login that all of them share, where there is one (`user` is not empty)."""
    if not user:
        return True
    named = hmac.compare_digest(str(connect.get("user") or "").encode(), user.encode())
    return hmac.compare_digest(str(connect.get("pass") or "").encode(), password.encode()) and named


def is_name(text: str) -> bool:
    """Whether a server's id or a cluster's name can be one."""
    return 0 < len(text) <= NAME_MAX and text.isprintable() and " " not in text
