"""The daemon begins again by itself, as the same process: a damaged page of the store is in the way of what is to be
written, or holds up consumers, and only a start can mend the store.

Not a second time at once, and for consumers once a day at most, since all else is served meanwhile: where a start does
not help, what can be read is served, and the log says so.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Final

from leafd.host.log import Log

BEGAN: Final = "LEAFD_BEGAN_AGAIN"
"""In the environment: when the last time was, on the clock that no one sets."""
REST_S: Final = 60.0
WAITS_REST_S: Final = 86_400.0


class Again(Exception):
    """The daemon has ended, and begins again."""


def begin_again(log: Log, rest_s: float = REST_S) -> bool:
    """Ends the daemon in order, so that it begins again; False: it has done so within that time."""
    now = time.monotonic()
    before = os.environ.get(BEGAN, "")
    if before and now - float(before) < rest_s:
        log.warning("the daemon has begun again only just now, and does not once more: what can be read is served")
        return False
    os.environ[BEGAN] = str(now)
    log.warning("The daemon begins again, to mend the store", event="begins_again")
    os.kill(os.getpid(), signal.SIGTERM)
    return True
