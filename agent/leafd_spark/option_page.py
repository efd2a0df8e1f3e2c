"""The tables of options in the page for people, made from the table of `options`; a test says that they are current.

python -m leafd_spark.option_page packaging/doc/spark-options.md      writes them into the page, between two marks
"""

from __future__ import annotations

import sys
from pathlib import Path

from .options import ALL, GROUPS, Option

BEGIN = "<!-- Made from the code: python -m leafd_spark.option_page packaging/doc/spark-options.md -->\n"
END = "<!-- end -->\n"


def _row(option: Option) -> str:
    names = f"`{option.name}`"
    if option.aliases:
        names += " (" + ", ".join(f"`{alias}`" for alias in option.aliases) + ")"
    default = option.shown or (str(option.default).lower() if option.default not in ("", (), 0, {}) else "")
    uses = "all" if option.uses == ALL else ", ".join(sorted(option.uses))
    return f"| {names} | {uses} | {_plain(default)} | {_plain(option.meaning)} |"


def _plain(text: str) -> str:
    return text.replace("|", "\\|")


def tables() -> str:
    """All options, a table a group."""
    parts = []
    for title, options in GROUPS.items():
        head = [f"## {title}", "", "| option | for | default | |", "|---|---|---|---|"]
        parts.append("\n".join([*head, *map(_row, options), ""]))
    return "\n".join(parts)


def render(page: str) -> str:
    """The page with its tables as the code has them."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{tables()}\n{END}{after}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(render(path.read_text(encoding="utf-8")), encoding="utf-8")
