"""The table that lives while the demo runs: one row a leaf, one for the hub (or each cluster of it), a line for Spark.

It is drawn from what the others know at that moment; nobody has to tell it anything. Not here: the
tables at the end (__main__.py), the report (report.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.progress_bar import ProgressBar
from rich.table import Table

from .computing import Computing
from .nodes import Hub, Node
from .story import Watch
from .traffic import Publisher

BAR_WIDTH = 10


@dataclass
class Row:
    """A leaf: its process, whether its link is whole, who sends its rows, how many commands it must get."""

    leaf: Node
    linked: Callable[[], bool]
    publisher: Publisher
    commands: int


class Screen:
    """A renderable for rich's Live: looked at again and again, it shows what is true then."""

    def __init__(self, rows: list[Row], hubs: list[Hub], watch: Watch, computing: Computing) -> None:
        self.doing = ""
        self._rows = rows
        self._hubs = hubs
        self._watch = watch
        self._computing = computing

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.table()

    def table(self) -> Table:
        table = Table(
            title=f"{self._watch.now:5.1f} s  {self.doing}",
            caption=f"Spark: {self._computing.state}",
            title_justify="left",
            caption_justify="left",
            box=box.SIMPLE_HEAD,
        )
        for name in ("", "state", "rows acknowledged", "rows at the hub"):
            table.add_column(name, no_wrap=True)
        table.add_column("waiting", justify="right", no_wrap=True, min_width=7)
        table.add_column("commands", justify="right", no_wrap=True, min_width=8)
        for row in self._rows:
            name, total = row.leaf.name, row.publisher.total
            at_hub = self._watch.at_hub[name]
            waiting = max(0, row.publisher.acknowledged - at_hub)
            table.add_row(
                name,
                state(row.leaf, linked=row.linked()),
                bar(row.publisher.acknowledged, total),
                bar(at_hub, total),
                f"[yellow]{waiting:,}[/yellow]" if waiting else "0",
                f"{self._watch.at_leaf[name]}/{row.commands}",
            )
        total = sum(row.publisher.total for row in self._rows)
        first, *others = self._hubs  # the first is where the stream is
        table.add_row(first.name, hub_state(first), "", bar(sum(self._watch.at_hub.values()), total), "", "")
        for hub in others:
            table.add_row(hub.name, hub_state(hub), "", "", "", "")
        return table


def state(node: Node, *, linked: bool = True) -> str:
    if not node.up:
        return "[bold red]killed[/bold red]"
    return "[green]up[/green]" if linked else "[bold red]link cut[/bold red]"


def hub_state(hub: Hub) -> str:
    total, up = len(hub.servers), len(hub.servers) - len(hub.down)
    return f"[bold red]{up} of {total} up[/bold red]" if 0 < up < total else state(hub.servers[0])


def bar(done: int, total: int) -> Table:
    """How far something is, as a bar and a number."""
    line = Table.grid(padding=(0, 1))
    line.add_column(width=BAR_WIDTH)
    line.add_column(justify="right", min_width=6)
    line.add_row(ProgressBar(total=max(total, 1), completed=done, width=BAR_WIDTH), f"{done:,}")
    return line
