"""The completion of `leafd` for shells: its script, and where each shell looks for it.

The script asks the command itself, by an environment variable (COMPLETING), for the words that may come next.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from leafd.cli import COMPLETING
from leafd.errors import UsageError

if TYPE_CHECKING:
    import click

PLACES: Final[Mapping[str, str]] = {
    "bash": "usr/share/bash-completion/completions/leafd",
    "zsh": "usr/share/zsh/vendor-completions/_leafd",
    "fish": "usr/share/fish/vendor_completions.d/leafd.fish",
}
"""The shells, and the file of an installed package for each."""


def script(command: click.Command, shell: str) -> str:
    """The completion script for that shell, which asks `command` for the words that may come next. Raises
    UsageError."""
    from click.shell_completion import ShellComplete, get_completion_class

    kind = get_completion_class(shell) if shell in PLACES else None
    if kind is None:
        raise UsageError(f"completion {shell}: expected {', '.join(PLACES)}")
    # The shell's own class is not asked: that of bash runs this machine's bash to learn its version.
    return ShellComplete.source(kind(command, {}, "leafd", COMPLETING))
