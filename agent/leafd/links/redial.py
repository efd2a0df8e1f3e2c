"""How long a leaf waits before it dials its hub again.

    what happened                                        drawn evenly from         so that
    silence, or the machine has another way              0 .. reconnect / 4        a leaf alone is back at once
      each dial that fails from there on                 twice as far, up to reconnect
    the hub ended the link, or lets nobody in            0 .. reconnect            all leaves of a hub come back spread

The configured interval is the bound of all of them, where nats-server waits all of it, and after a dial that failed up
to twice as long. What a hub asks for, or what the end of a link asks for, comes on top (leaf.py): those that wait for
the same moment are spread behind it. Pure. Not here: the loop that dials (leafs.py), how long a dial may
take (dialling.py).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from leafd.native_codes import CloseReason

SOON: Final = 1 / 4
"""Of the interval: the first try after a cut that nobody else needs to have seen."""


class Redial:
    """The waits between dials to one remote. Every wait follows what was told last."""

    def __init__(self, reconnect_s: float, draw: Callable[[float, float], float] = random.uniform) -> None:
        self._reconnect_s = reconnect_s
        self._draw = draw
        self._part = 1.0

    def alone(self) -> None:
        """Notes that an event concerns this leaf alone."""
        self._part = SOON

    def ended(self, reason: int) -> None:
        """A connection to the hub has ended."""
        self._part = SOON if reason == CloseReason.STALE else 1.0

    def wait_s(self) -> float:
        """Before the next dial. Where that fails, too, the one after it comes later."""
        part, self._part = self._part, min(2 * self._part, 1.0)
        return self._reconnect_s * self._draw(0.0, part)
