"""The progress of a command, on standard error, where that is a terminal.

Not here: tables on standard output (tables.py).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def bar(*, shown: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Gives the function that is told of progress: the name of the step, bytes done, bytes in all."""
    if not shown or not sys.stderr.isatty():
        yield lambda what, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as progress:
        tasks: dict[str, object] = {}

        def tell(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(what, total=total)
            progress.update(tasks[what], completed=done)  # type: ignore[arg-type]  # (an int with a name of its own)

        yield tell
