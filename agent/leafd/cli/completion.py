"""The completion of `leafd` for shells: its script, and where each shell looks for it.

The script asks the command itself, by a variable (COMPLETING), what may come next. Nobody else knows of either.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from leafd.cli import COMPLETING
from leafd.errors import UsageError

PLACES: Final[Mapping[str, str]] = {
    "bash": "usr/share/bash-completion/completions/leafd",
    "zsh": "usr/share/zsh/vendor-completions/_leafd",
    "fish": "usr/share/fish/vendor_completions.d/leafd.fish",
}
"""The shells, and the file of an installed package for each."""


def script(shell: str) -> str:
    """What that shell is to read. Raises UsageError."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]  # (it is in no __all__)

    if shell not in PLACES:
        raise UsageError(f"completion {shell}: expected {', '.join(PLACES)}")
    return str(get_completion_script(prog_name="leafd", complete_var=COMPLETING, shell=shell))
