"""How long a leaf waits before it dials its hub again.

    what happened                                        drawn evenly from         so that
    silence, or the machine has another way              0 .. reconnect / 4        a leaf alone is back at once
      each dial that fails from there on                 twice as far, up to reconnect
    the hub ended the link, or lets nobody in            0 .. reconnect            all leaves of a hub come back spread
    it refused the login, or gave the link to another    twice as far each time,   a retired box, two of one name, and
      machine of that name, or no hub answers but a        up to REFUSED_MAX_S       a hub behind a proxy that is away
      proxy or one without TLS for us, more than                                     cost their lines, and the hub,
      PATIENT times in a row                                                         little

The configured interval is the bound of all but the last, where nats-server waits all of it, and after a dial that
failed up to twice as long. What a hub asks for, or what the end of a link asks for, comes on top (leaf.py): those that
wait for the same moment are spread behind it. Pure. Not here: the loop that dials (leafs.py), how long a dial may
take (dialling.py).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from leafd.native_codes import CloseReason

SOON: Final = 1 / 4
"""The part of the interval until the first try after a cut that nobody else needs to have seen."""
PATIENT: Final = 8
"""A hub that has just started may not know its users yet, and the person who sets up a box looks at it."""
REFUSED_MAX_S: Final = 60.0
"""A login that is refused takes three to six kilobytes with TLS: at two a second half a gigabyte a day."""
DOUBLINGS_MAX: Final = 32


class Redial:
    """The waits between dials to one remote. Every wait follows what was told last."""

    def __init__(self, reconnect_s: float, draw: Callable[[float, float], float] = random.uniform) -> None:
        self._reconnect_s = reconnect_s
        self._draw = draw
        self._part = 1.0
        self._refusals = 0

    def alone(self) -> None:
        """Notes that an event concerns this leaf alone."""
        self._part = SOON

    def ended(self, reason: int, *, refused: bool = False) -> None:
        """A connection to the hub has ended. refused: as the hub refuses the login, or lets in another one of its name
        in its place, or as no hub has answered."""
        self._part = SOON if reason == CloseReason.STALE else 1.0
        self._refusals = self._refusals + 1 if refused else 0

    def wait_s(self) -> float:
        """Before the next dial. Where that fails, too, the one after it comes later."""
        part, self._part = self._part, min(2 * self._part, 1.0)
        if self._refusals > PATIENT:
            most = max(REFUSED_MAX_S / self._reconnect_s, 1.0)
            part = min(2.0 ** min(self._refusals - PATIENT, DOUBLINGS_MAX), most)
        return self._reconnect_s * self._draw(0.0, part)
