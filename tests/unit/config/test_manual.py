"""The manual pages, which packaging/manual makes of commands and schema: nothing is missing in them.

Not here: whether the package has them (tests/packaging/).
"""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from leafd.cli import COMMANDS
from leafd.config.reference import BLOCKS
from leafd.config.schema.section import Support, Takes

ROOT: Final = Path(__file__).resolve().parents[3]
CHANGE: Final = {Takes.LIVE: "a reload", Takes.LATER: "effect at the next restart", Takes.RESTART: "a restart"}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("tree")
    subprocess.run([sys.executable, ROOT / "packaging/manual", ROOT / "agent", place], check=True)
    return place


def page(tree: Path, name: str) -> str:
    """A page's source without what only roff needs."""
    text = gzip.decompress((tree / f"usr/share/man/{name}.gz").read_bytes()).decode()
    return text.replace("\\-", "-").replace("\\&", "").replace("\\e", "\\")


def test_each_key_has_its_type_meaning_default_and_whether_a_reload_takes_it_up(tree: Path) -> None:
    """In leafd.conf(5), block by block; those that do not work here are named, with the reason."""
    sections = re.split(r"(?m)^\.SH ", page(tree, "man5/leafd.conf.5"))
    for title, model in BLOCKS:
        section = next(one for one in sections if one.startswith(f"{title.upper()}\n"))
        entries = dict(re.findall(r"(?ms)^\.TP\n\.BR (\w+): (.*?)(?=^\.TP|^\.PP|\Z)", section))
        works = {name: one for name, one in model.options.items() if one.support == Support.FULL}
        assert works.keys() == entries.keys()
        for name, one in works.items():
            kind, _, rest = entries[name].partition("\n")
            assert "value" not in kind, "KINDS of packaging/manual has no word for it"
            assert re.fullmatch(r'" [a-z][a-z:, ]+"', kind), (title, name, kind)
            assert one.help in rest.replace("\n", " "), (title, name)
            assert rest.rstrip().endswith(f"A change takes {CHANGE[one.takes]}."), (title, name)
            assert "Default: " in rest or re.search("[Dd]efault|[Aa]bsent|Without", one.help), (title, name)
            assert [] == [alias for alias in one.aliases if alias not in rest]
        for name, one in model.options.items():
            assert one.support == Support.FULL or re.search(rf"\b{name}\b", section), (title, name)


def test_each_command_has_its_options(tree: Path) -> None:
    """In leafd(1), with the options that start the server and the exit codes."""
    text = page(tree, "man1/leafd.1")
    assert [] == [name for name in COMMANDS if f".SS leafd {name} " not in text]
    assert {"stat", "check", "salvage", "backup", "restore"} == set(re.findall(r"(?m)^\.SS leafd store (\w+) ", text))
    assert all(head in text for head in (".SH OPTIONS", ".SH EXIT STATUS", ".SH FILES"))


def test_the_pages_come_along(tree: Path) -> None:
    """Who has only the box has the operator's guide, too."""
    there = {path.name for path in (tree / "usr/share/doc/leafd").glob("*.md")}
    assert {path.name for path in (ROOT / "packaging" / "doc").glob("*.md")} == there
