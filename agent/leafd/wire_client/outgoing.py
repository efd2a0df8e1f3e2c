"""The bytes that a client or a leaf sends.

    frame_connect      CONNECT {...}                       and PING
    frame_subscribe    SUB subject number                  LS+ subject
    frame_publish      PUB subject [reply] size            LMSG subject [reply] size
                       HPUB subject [reply] head size      HMSG subject [reply] head size

Not here: what comes back (incoming.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def frame_connect(name: str, fields: Mapping[str, Any]) -> bytes:
    """A client's login, and the PING whose answer says that it was taken. `fields`: of CONNECT, its user."""
    said: dict[str, Any] = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True}
    said |= {"protocol": 1, "lang": "python", "version": "1", "name": name, **fields}
    return b"CONNECT " + json.dumps(said).encode() + b"\r\nPING\r\n"


def frame_subscribe(subject: str, number: int, *, leaf: bool = False) -> bytes:
    """`number` is what messages come back under; of a leaf there is none."""
    return b"LS+ %b\r\n" % subject.encode() if leaf else b"SUB %b %d\r\n" % (subject.encode(), number)


def frame_publish(subject: str, reply: str, headers: bytes, payload: bytes, *, leaf: bool = False) -> bytes:
    """A message; `headers` is a whole block, or empty."""
    head = f"{subject} {reply}".rstrip().encode()
    if headers:
        word, size = b"HMSG" if leaf else b"HPUB", len(headers) + len(payload)
        return b"%b %b %d %d\r\n%b%b\r\n" % (word, head, len(headers), size, headers, payload)
    return b"%b %b %d\r\n%b\r\n" % (b"LMSG" if leaf else b"PUB", head, len(payload), payload)
