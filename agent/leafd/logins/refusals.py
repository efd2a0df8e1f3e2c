"""The log's lines about what a client was refused, in the reference's words. Pure; the plane bounds how many there are.

Not here: the refusal (native/plane/), and refused logins (clients.py).
"""

from __future__ import annotations

from leafd import native_types as t
from leafd.quoting import quoted


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
