"""How large the packets to a hub may be, by what became of the connections to it.

    as large as the kernel has them --a full one never gets through, or no login is answered twice--> small
    small --an hour later, at the next dial--> as large as the kernel has them

Some ways lose every packet above some size, and a router that should say so is silent, or is not heard. Small ones get
through: a link comes up, and stands at its first full packet, whichever end sent it. The end that dials decides for
both ends, since each TCP tells the other one in its first packet what it takes. In small packets a link carries some 6
% less.

Pure; seconds are handed in. Not here: what is seen of a link (native/plane/window.h), the socket (dialling.py).
"""

from __future__ import annotations

import math
from typing import Final

SMALL: Final = 536
"""Bytes in a packet that every way carries (RFC 9293, 3.7.1)."""
SMALL_S: Final = 3600.0
"""So long a way is taken for one that loses larger ones."""
UNANSWERED_S: Final = 10.0
"""A login that is not over after that has met silence. .."""
UNANSWERED: Final = 2
""".. So many in a row are none by chance. Then as many are tried the other way."""


class Packets:
    """The size for one hub."""

    def __init__(self) -> None:
        self._small_until_s = -math.inf
        self._connected_s = 0.0
        self._unanswered = 0

    def size(self, now_s: float) -> int:
        """Bytes in a full packet of a connection that begins now; 0: what the kernel takes."""
        turned = self._unanswered // UNANSWERED % 2 == 1
        return SMALL if (now_s < self._small_until_s) != turned else 0

    def connected(self, now_s: float) -> None:
        """A connection has come about, and the login begins."""
        self._connected_s = now_s

    def logged_in(self, now_s: float) -> None:
        """The link is up."""
        if self._unanswered >= UNANSWERED:
            self._small_until_s = now_s + SMALL_S if self.size(now_s) else -math.inf
        self._unanswered = 0

    def failed(self, now_s: float) -> None:
        """The connection ended before the link was up."""
        if now_s - self._connected_s >= UNANSWERED_S:
            self._unanswered += 1

    def stuck(self, now_s: float) -> None:
        """A link stands at its first full packet."""
        self._small_until_s = now_s + SMALL_S
