"""The log's lines about what a client was refused, in the reference's words. Pure; the plane bounds how many there are.

Not here: the refusal (native/plane/, auth/).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leafd import native_types as t
from leafd.host.log import shown_nkey
from leafd.quoting import quoted

if TYPE_CHECKING:
    from leafd.auth.verdict import Refusal
    from leafd.logins.client import Client


def login_line(client: Client, refusal: Refusal) -> str:
    """The log's line about a login that was refused."""
    user = client.connect.get("user") or shown_nkey(client.connect.get("nkey") or "")
    who = f" - User {quoted(user)}" if user else ""
    return f"{client.log_name} - authentication error{who}{f': {refusal.why}' if refusal.why else ''}"


def shown(client: Client) -> str:
    """The client, as lines about what it was refused begin."""
    who = client.log_name
    if client.account is not None and client.user:
        return f"{who} - {quoted(f'{client.account.name}/user:{client.user}')}"
    return f"{who} - {quoted(client.connect['name'])}" if client.connect.get("name") else who


def refusal_line(who: str, event: t.Refused, max_payload: int) -> str:
    """The log's line about a refusal. who: the connection, as every line about it begins."""
    line = f"{who} - {_what(event, max_payload)}"
    if event.left_out:
        line += f" (and {event.left_out} more refusals before it)"
    return line


def _what(event: t.Refused, max_payload: int) -> str:
    match event.code:
        case t.RefusedCode.PUBLISH:
            return f"Publish Violation - Subject {quoted(event.subject)}"
        case t.RefusedCode.REPLY:
            return f"Publish Violation - Reply {quoted(event.subject)}"
        case t.RefusedCode.SUBSCRIBE:
            queue = f", Queue: {quoted(event.queue)}" if event.queue else ""
            return f"Subscription Violation - Subject {quoted(event.subject)}{queue}, SID {quoted(event.sid)[1:-1]}"
        case t.RefusedCode.REMOVED:
            queue = f" using queue {quoted(event.queue)}" if event.queue else ""
            return f"Removed sub {quoted(event.subject)}{queue} (sid {quoted(event.sid)}) - not authorized"
        case t.RefusedCode.SUBSCRIPTIONS:
            return "maximum subscriptions exceeded"
        case t.RefusedCode.PAYLOAD:
            return f"maximum payload exceeded: {event.size} vs {max_payload}"
        case t.RefusedCode.CONTROL_LINE:
            return "maximum control line exceeded"
    return f"Client parser ERROR: proto={quoted(event.subject)}"
