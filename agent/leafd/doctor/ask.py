"""A request and what became of it, and what a hub lets its leaf do. Not here: what that means for a flow
(flows.py, copies.py)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from leafd.config.schema.sharing import is_subset
from leafd.doctor.hub import Hub
from leafd.doctor.wire import End, Session
from leafd.quoting import quoted
from leafd.records import dataclass

WAIT_S: Final = 3.0
MORE_S: Final = 0.3
NO_RESPONDERS: Final = 503
NO_JETSTREAM: Final = (10039, 10076)
"""Codes of the API: not enabled for this account, not enabled at all."""
NO_STREAM: Final = 10059
INBOX: Final = "_INBOX.x"
PAGES_MAX: Final = 8


class Fate(StrEnum):
    """The outcome of a request."""

    ANSWERED = "answered"
    REFUSED = "refused"
    """The answer is an error."""
    NOBODY = "nobody listens"
    SILENT = "no answer"
    DENIED = "denied"
    """The hub does not let it through, and says so."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer, if any."""

    fate: Fate
    document: Mapping[str, Any]
    why: str = ""
    """The reason of a refusal or denial."""
    code: int = 0
    """The JetStream API's code of a refusal."""
    answers: int = 0

    @property
    def ok(self) -> bool:
        """True if the request was answered without an error."""
        return self.fate is Fate.ANSWERED


async def ask(
    session: Session, subject: str, body: Mapping[str, Any] | None = None, *, all_of_them: bool = False
) -> Reply:
    """A request of the JetStream API. all_of_them: counts how many answer."""
    payload = json.dumps(body).encode() if body is not None else b""
    try:
        found = await session.answers(subject, payload, wait_s=WAIT_S, more_s=MORE_S if all_of_them else 0)
    except End as error:
        denied = next((one for one in session.errors if "permissions violation" in one.lower()), "")
        return Reply(Fate.DENIED if denied else Fate.SILENT, {}, denied or str(error))
    if not found:
        return Reply(Fate.SILENT, {})
    if found[0].status == NO_RESPONDERS:
        return Reply(Fate.NOBODY, {})
    document = found[0].document()
    refusal = document.get("error")
    if isinstance(refusal, dict):
        code = refusal.get("err_code")
        return Reply(
            Fate.REFUSED,
            document,
            quoted(refusal.get("description", "")),
            code if isinstance(code, int) else 0,
            len(found),
        )
    return Reply(Fate.ANSWERED, document, answers=len(found))


async def pages(session: Session, subject: str) -> list[Mapping[str, Any]]:
    """The streams that a STREAM.LIST tells, as many as a few pages hold."""
    found: list[Mapping[str, Any]] = []
    for _ in range(PAGES_MAX):
        reply = await ask(session, subject, {"offset": len(found)})
        rows, total = reply.document.get("streams"), reply.document.get("total")
        page = [one for one in rows if isinstance(one, dict)] if reply.ok and isinstance(rows, list) else []
        found += page
        if not page or not isinstance(total, int) or len(found) >= total:
            break
    return found


def held_back(hub: Hub, *, up: tuple[str, ...] = (), down: tuple[str, ...] = ()) -> list[str]:
    """The subjects among these that the hub does not take from this box, or does not send to it, by what the hub said
    at the login; each as the right that the box's user lacks."""
    missing = [f"publish {one}" for one in up if not _allowed(hub.info.get("export"), one)]
    return missing + [f"subscribe {one}" for one in down if not _allowed(hub.info.get("import"), one)]


def _allowed(rights: object, subject: str) -> bool:
    allow = rights_of(rights, "allow")
    if any(is_subset(subject, one) for one in rights_of(rights, "deny")):
        return False
    return not allow or any(is_subset(subject, one) for one in allow)


def rights_of(rights: object, name: str) -> list[str]:
    """The subjects that a hub's INFO allows or denies."""
    found = rights.get(name) if isinstance(rights, dict) else None
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []
