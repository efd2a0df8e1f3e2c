"""Bytes that came from a server, cut into lines and messages.

    buffer   | consumed | came, and is not consumed | room |
             0        start                        end

    MSG subject number [reply] size            then the payload and \\r\\n
    HMSG subject number [reply] head size      then headers, payload and \\r\\n
    LMSG subject [reply] size                  to a leaf; also: subject + reply queue ..., subject | queue ...
    HMSG subject [reply] head size             to a leaf
    anything else                              a line

What comes from the other side is hostile: lines and messages have a bound, and Malformed is the only exception. A
faster way to take messages (a decoder in C) takes them from `buffer` and moves `start`, between two events.

Not here: what a line means to the caller.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

FIRST_ROOM: Final = 4096
SIZE_DIGITS_MAX: Final = 10
BLANK: Final = " \t"
"""The characters between words. A subject may hold any other blank that Unicode knows."""
STATUS_LINE: Final = b"NATS/1.0 "
"""Headers that begin so carry a status; a publisher may have stored such, too."""


class Malformed(Exception):
    """The other side said what nobody can understand, or more than there is room for. The text says what."""


class Limits(NamedTuple):
    """In bytes."""

    line: int
    message: int
    """Headers and payload."""


class Line(NamedTuple):
    """A line that is no message."""

    verb: str
    """The first word, in capitals."""
    rest: str


class Message(NamedTuple):
    """One message."""

    subject: str
    number: int
    """The number of the subscription; 0 to a leaf."""
    reply: str
    headers: bytes
    """The whole block, or empty."""
    payload: bytes

    @property
    def status(self) -> int:
        """The status of the headers' first line, 0 without one; 503 is "nobody listens"."""
        return status_of(self.headers)

    def document(self) -> Mapping[str, Any]:
        """The JSON object that it holds; an empty one where it holds something else."""
        try:
            found = json.loads(self.payload)
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}


class _Head(NamedTuple):
    """The first line of a message whose body has not come yet."""

    subject: str
    number: int
    reply: str
    cut: int  # bytes of headers
    size: int  # of all


class Incoming:
    """One connection's."""

    def __init__(self, limits: Limits, *, leaf: bool = False, room: int = FIRST_ROOM) -> None:
        self.buffer = bytearray(room)
        self.start = self.end = 0
        self.leaf = leaf
        self._limits = limits
        self._searched = 0
        """Bytes behind start that hold no line end."""
        self._head: _Head | None = None

    # -- bytes in ---------------------------------------------------------

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Bytes that came."""
        if len(self.buffer) - self.end < len(data):
            self.make_room()
            self.buffer.extend(bytes(max(0, self.end + len(data) - len(self.buffer))))
        self.buffer[self.end : self.end + len(data)] = data
        self.end += len(data)

    def make_room(self) -> None:
        """Moves what is not consumed to the front, and doubles the buffer if that leaves it more than half full."""
        kept = self.end - self.start
        if self.start:
            self.buffer[:kept] = self.buffer[self.start : self.end]
            self.start, self.end = 0, kept
        if kept > len(self.buffer) // 2:
            self.buffer.extend(bytes(len(self.buffer)))

    def clear(self) -> bytes:
        """Takes all that came and was not consumed."""
        left = bytes(self.buffer[self.start : self.end])
        self.start = self.end = self._searched = 0
        return left

    # -- lines and messages out -------------------------------------------

    def line(self) -> bytes | None:
        """The next line without its end; None: it has not come whole. Raises Malformed."""
        at = self.buffer.find(b"\n", self.start + self._searched, self.end)
        if (self.end if at < 0 else at) - self.start > self._limits.line:
            raise Malformed("a line has no end")
        if at < 0:
            self._searched = self.end - self.start
            return None
        found = bytes(self.buffer[self.start : at]).rstrip()
        self.start, self._searched = at + 1, 0
        return found

    def event(self) -> Message | Line | None:
        """The next message or line; None: it has not come whole. Raises Malformed."""
        if self._head is None:
            line = self.line()
            if line is None:
                return None
            verb, _, rest = line.decode("utf-8", "replace").partition(" ")
            verb, rest = verb.upper(), rest.strip(BLANK)
            if verb not in ("MSG", "HMSG", "LMSG"):
                return Line(verb, rest)
            self._head = self._head_of(verb, [word for word in rest.replace("\t", " ").split(" ") if word])
        return self._message(self._head)

    def _message(self, head: _Head) -> Message | None:
        if self.end - self.start < head.size + 2:
            return None
        cut, last = self.start + head.cut, self.start + head.size
        if self.buffer[last : last + 2] != b"\r\n":
            raise Malformed("a message is longer than its size")
        found = Message(*head[:3], bytes(self.buffer[self.start : cut]), bytes(self.buffer[cut:last]))
        self.start, self._head = last + 2, None
        return found

    def _head_of(self, verb: str, words: list[str]) -> _Head:
        sizes = 2 if verb == "HMSG" else 1
        numbers, named = words[-sizes:], words[:-sizes]
        least, most = (1, len(named)) if self.leaf else (2, 3)
        if not least <= len(named) <= most or not all(map(_is_size, numbers if self.leaf else [*numbers, named[1]])):
            raise Malformed("a message cannot be understood")
        cut, size = (int(numbers[0]) if sizes == 2 else 0), int(numbers[-1])
        if size > self._limits.message:
            raise Malformed("a message is too large")
        if cut > size:
            raise Malformed("a message cannot be understood")
        if not self.leaf:
            return _Head(named[0], int(named[1]), "".join(named[2:]), cut, size)
        middle = named[1:]
        reply = "" if not middle or middle[0] == "|" else middle[0] if middle[0] != "+" else "".join(middle[1:2])
        return _Head(named[0], 0, reply, cut, size)


def _is_size(word: str) -> bool:
    return len(word) <= SIZE_DIGITS_MAX and word.isascii() and word.isdigit()


def info_of(rest: str) -> dict[str, Any]:
    """The fields of an INFO. Raises Malformed."""
    try:
        found = json.loads(rest)
    except (ValueError, RecursionError):
        raise Malformed("its INFO is no JSON") from None
    if not isinstance(found, dict):
        raise Malformed("its INFO is no JSON object")
    return found


def status_of(headers: bytes) -> int:
    """The status of a block's first line, 0 without one."""
    if not headers.startswith(STATUS_LINE):
        return 0
    code = headers[len(STATUS_LINE) : len(STATUS_LINE) + 3]
    return int(code) if code.isdigit() else 0


def header_of(headers: bytes, name: bytes) -> bytes:
    """A field of a server's own header block; empty without it."""
    start = headers.find(b"\r\n%b:" % name)
    if start < 0:
        return b""
    start += len(name) + 3
    return headers[start : headers.find(b"\r\n", start)].strip()
