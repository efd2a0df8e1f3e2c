"""Options that several commands take, and how a group of commands shows them.

Not here: the commands themselves (app.py and the files of the groups), and what they do.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

EXIT_ATTENTION: Final = 3
PATH: Final = click.Path(path_type=Path)

Run = TypeVar("Run", bound=Callable[..., Any])


class Group(click.Group):
    """Commands in the order in which they were written, and options with their defaults."""

    def __init__(self, name: str, help: str) -> None:
        super().__init__(name, help=help, context_settings={"show_default": True})

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


def configuration(help: str) -> Callable[[Run], Run]:
    """-c FILE, as `config`."""
    return click.option("--config", "-c", metavar="FILE", type=PATH, help=help)


def text(name: str, metavar: str, help: str) -> Callable[[Run], Run]:
    """An option whose value is empty where it is absent."""
    return click.option(name, metavar=metavar, default="", show_default=False, help=help)


def end(*, well: bool) -> None:
    """Ends a command that was done, with the exit code that says whether something needs attention."""
    if not well:
        raise click.exceptions.Exit(EXIT_ATTENTION)


url = click.option("--url", metavar="URL", help="The daemon's monitoring port.")
authority = click.option("--ca", metavar="FILE", type=PATH, help="Certificates to trust, for https.")
as_json = click.option("--json", is_flag=True, help="JSON, for programs.")
account = click.option("--account", metavar="NAME", help="One account only.")
