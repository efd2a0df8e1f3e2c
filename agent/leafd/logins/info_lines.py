"""INFO lines of clients as bytes, and what a CONNECT asks for as the plane's flags.

Not here: what INFO says (about.py, clients.py), what CONNECT may say (auth/connect.py).
"""

from __future__ import annotations

import json
from typing import Any

from leafd import native_types as t
from leafd.native import abi


def template(info: dict[str, Any]) -> bytes:
    """An INFO line in which the plane fills in the connection's number and address."""
    text = json.dumps(info, separators=(",", ":"))[:-1]
    places = f',"client_id":{chr(abi.GREETING_CONNECTION)},"client_ip":"{chr(abi.GREETING_ADDRESS)}"'
    return f"INFO {text}{places}}} \r\n".encode()


def frame(info: dict[str, Any]) -> bytes:
    """An INFO line; real servers put a blank before its end."""
    return b"INFO " + json.dumps(info, separators=(",", ":")).encode() + b" \r\n"


def behind(info: dict[str, Any]) -> dict[str, Any]:
    """INFO where the handshake came first."""
    return {key: info[key] for key in info if key != "tls_available"} | {"tls_required": True}


def verdict_flags(connect: dict[str, Any], *, implicit: bool) -> t.VerdictFlag:
    flags = t.VerdictFlag(0)
    # Absent means yes for the first three, no for the rest.
    for key, absent, flag in (
        ("verbose", True, t.VerdictFlag.VERBOSE),
        ("pedantic", True, t.VerdictFlag.PEDANTIC),
        ("echo", True, t.VerdictFlag.ECHO),
        ("headers", False, t.VerdictFlag.HEADERS),
        ("no_responders", False, t.VerdictFlag.NO_RESPONDERS),
    ):
        if connect.get(key, absent):
            flags |= flag
    if connect.get("protocol") == 1:
        flags |= t.VerdictFlag.PROTOCOL_1
    if implicit:
        flags |= t.VerdictFlag.IMPLICIT
    return flags
