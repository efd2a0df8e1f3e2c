"""Full garbage collections stay short, however many streams and consumers there are.

A full collection walks everything that is neither frozen nor young and holds the control thread meanwhile: 60 ms with
5,000 streams, several times that on a small box. What a slow one found alive is therefore frozen: later ones do not
walk it again. Reference counts free what is frozen as they free everything else. Only a cycle that becomes garbage
after it was frozen stays, and definitions have none. What does not live here: what the start made (run.py freezes it).
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

SLOW_S: Final = 0.002


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
