"""Full garbage collections stay short, however many streams and consumers there are.

A full collection walks everything that is neither frozen nor young and holds the control thread meanwhile: 60 ms with
5,000 streams, several times that on a small box. What a slow one found alive is therefore frozen: later ones do not
walk it again. Reference counts free what is frozen as they free everything else. Only a cycle that becomes garbage
after it was frozen stays, and definitions have none.

What a start makes, stays, too: to look for garbage among all of it takes a tenth of the processor time of a start. But
each data class with slots leaves the class that it was before, in cycles, 1 MB in all. So only what is new is looked
at meanwhile, and the room is used again while the start goes on.
"""

from __future__ import annotations

import gc
import linecache
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

SLOW_S: Final = 0.002
START_OBJECTS: Final = 5_000
"""So many new ones are looked at together."""
NEVER: Final = 1_000_000

_usual: Final = gc.get_threshold()


def begin_start() -> None:
    """No collection looks at what an earlier one has found alive."""
    gc.set_threshold(START_OBJECTS, NEVER, NEVER)


def end_start(give_back: Callable[[], None]) -> None:
    """Collections are as usual, and do not walk what there is: modules, models and stored streams stay. A full one that
    did would hold the control thread, and all that wait for it, some 30 ms, and several times that on a small box.
    give_back: gives the system what is free again, of which a start leaves 1 MB."""
    gc.collect(0)
    linecache.clearcache()  # texts of functions that attrs made, 150 KB, which only a traceback through them would show
    gc.freeze()
    give_back()
    gc.set_threshold(*_usual)
    gc.enable()


@contextmanager
def short_collections(now: Callable[[], float] = time.perf_counter) -> Iterator[None]:
    """Within it, what a slow full collection leaves is frozen."""
    began = 0.0

    def watch(phase: str, info: dict[str, int]) -> None:
        nonlocal began
        if info["generation"] < 2:
            return
        if phase == "start":
            began = now()
        elif now() - began > SLOW_S:
            gc.freeze()

    gc.callbacks.append(watch)
    try:
        yield
    finally:
        gc.callbacks.remove(watch)
