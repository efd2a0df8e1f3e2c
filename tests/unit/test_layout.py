"""Where files may lie, and of which kind and size: the layout that packaging/doc/architecture.md tells of.

A stray wheel of 45 MB was committed at the top once. Not here: what a file has to look like (tests/tidy.py).
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {".ci", "agent", "configs", "deploy", "native", "packaging", "tests"}
FILES = {
    *(".clang-format", ".clang-tidy", ".gitignore", "LICENSE", "README.md"),
    *("meson.build", "meson.options", "pyproject.toml"),
}
BINARY = re.compile(r"tests/fuzz/corpus/|packaging/doc/pictures/\w+\.webp$")
BYTES_MAX = 128 << 10


def misplaced(path: str, content: bytes) -> str:
    """The reason why a file with this content has no place there; empty: it has one."""
    top, below, _ = path.partition("/")
    if top not in (FOLDERS if below else FILES):
        return f"{top} is nothing of the top level"
    if len(content) > BYTES_MAX:
        return f"{len(content)} bytes"
    try:
        content.decode()
    except UnicodeDecodeError as error:
        return "" if BINARY.match(path) else str(error)
    return ""


def test_each_file_is_where_the_layout_has_a_place_for_it() -> None:
    """Of all that git knows or would take up, nothing is beside the layout, a binary among texts, or large."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout.decode().split("\0")
    there = {path: ROOT / path for path in listed if path and (ROOT / path).is_file()}
    found = {path: misplaced(path, file.read_bytes()) for path, file in there.items()}

    assert len(found) > 1_000
    assert {} == {path: why for path, why in found.items() if why}


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("clang_tidy-23.1.4-py2.py3-none-any.whl", b"PK\xff"),
        ("notes.md", b"text"),
        ("scripts/run", b"text"),
        ("tests", b"text"),
        ("tests/wire/leaf.bin", b"\xff"),
        ("tests/fuzz/corpus/parse/large", b"x" * 200_000),
        ("agent/leafd/tables.json", b"x" * 200_000),
    ],
)
def test_a_file_without_a_place_is_found(path: str, content: bytes) -> None:
    """A stray file or folder at the top, a binary and a large file are complained of."""
    assert misplaced(path, content)


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("README.md", b"text"),
        (".ci/run", b"text"),
        ("native/abi.h", b"text"),
        ("tests/fuzz/corpus/parse/one", b"\xff"),
        ("packaging/doc/pictures/page.webp", b"\xff"),
    ],
)
def test_a_file_with_a_place_is_not(path: str, content: bytes) -> None:
    """What the layout has a place for is not complained of."""
    assert misplaced(path, content) == ""
