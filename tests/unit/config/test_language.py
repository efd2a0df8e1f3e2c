"""The configuration language reads as nats-server reads it. language.json was recorded from the parser of nats-server
2.15."""

from __future__ import annotations

import errno
import json
import os
from datetime import datetime
from pathlib import Path

import pytest
from leafd.config.tree import Document, parse_file, parse_text, plain
from leafd.errors import ConfigError

CASES = json.loads(Path(__file__).with_name("language.json").read_text(encoding="utf-8"))
ENVIRONMENT = {"NUM": "64K", "STR": '"a b"', "SELF": "$SELF", "LIST": "[a, b]"}


def parse(directory: Path, text: str) -> Document:
    """Parses text as a file that has inc.conf beside it, as when language.json was recorded."""
    (directory / "inc.conf").write_text("incd: 5\nblock { x: 1 }\n")
    path = directory / "c.conf"
    path.write_text(text, encoding="utf-8")
    return parse_file(path, ENVIRONMENT)


def jsonable(value: object) -> object:
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%SZ")
    if isinstance(value, dict):
        return {key: jsonable(one) for key, one in value.items()}
    if isinstance(value, list):
        return [jsonable(one) for one in value]
    return value


@pytest.mark.parametrize("case", CASES, ids=[repr(case["text"])[:60] for case in CASES])
def test_language(case: dict[str, object], tmp_path: Path) -> None:
    """What the reference accepts gives the same tree; what it refuses is refused."""
    text = str(case["text"])
    if "error" in case:
        with pytest.raises(ConfigError):
            parse(tmp_path, text)
    else:
        assert case["tree"] == jsonable(plain(parse(tmp_path, text).root))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("port: 4222\nhost: a b\n", "2:9"),
        ("a {\n  b: 1\n", "1:3"),
        ("x: [1\n\n, 2\n", "3:1"),
        ("a: 1\nb: $NOPE\n", "2:1"),
        ("a: 'open", "1:4"),
        ('a: 1\n\n  "b: 3', "3:3"),
        ("a: 1\ninclude ./missing.conf\n", "2:1"),
        ("a: 1\ninclude ./zero\0.conf\n", "2:1"),
    ],
)
def test_error_place(text: str, place: str) -> None:
    """Errors begin with file, line and column, both counted from 1."""
    with pytest.raises(ConfigError) as caught:
        parse_text(text, "box.conf", {})
    assert str(caught.value).startswith(f"box.conf:{place}: ")


def test_key_without_value() -> None:
    """A key without a value is an error; the reference loses the whole map there without a word."""
    for text in ("a { b }", "a { b: }"):
        with pytest.raises(ConfigError, match="b has no value"):
            parse_text(text)


def test_unknown_unit() -> None:
    """A number with an unknown unit is an error; the reference drops the key without a word."""
    with pytest.raises(ConfigError, match="no known unit"):
        parse_text("max_payload: 1kbb")


def test_short_array() -> None:
    """A bracket right behind a number ends the array, which the reference refuses."""
    assert {"a": [1, 2]} == plain(parse_text("a=[1,2]").root)


def test_block_at_end_of_file() -> None:
    """A block whose ) is the last byte of the file ends there; the reference makes the ) part of the string."""
    assert {"a": "\nx\n"} == plain(parse_text("a: (\nx\n)").root)


def test_bcrypt_variants() -> None:
    """Bare bcrypt hashes of every variant are strings, not variables."""
    assert {"p": "$2b$10$xyz"} == plain(parse_text("p: $2b$10$xyz", environment={}).root)


def test_repeated_key_warns() -> None:
    """The later of two equal keys holds, as in the reference, but the operator is told."""
    document = parse_text("a: 1\na: 2\n", "box.conf")
    assert {"a": 2} == plain(document.root)
    assert ["box.conf:2:1: a was set before at box.conf:1:1; the later one holds"] == document.warnings


def test_include_of_itself(tmp_path: Path) -> None:
    """A file that includes itself ends in one error, not in exhaustion."""
    path = tmp_path / "loop.conf"
    path.write_text("include ./loop.conf\n")
    with pytest.raises(ConfigError, match="include itself"):
        parse_file(path, {})


@pytest.mark.parametrize("number", [errno.EIO, errno.ENAMETOOLONG])
def test_an_include_that_cannot_be_looked_for_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Of an absolute name, which is looked for beside the file first. One that is too long is nowhere."""
    stat, looked = Path.stat, tmp_path / "etc" / "far.conf"

    def failing(path: Path, **options: bool) -> os.stat_result:
        if path == looked:
            raise OSError(number, os.strerror(number), str(path))
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", failing)
    (tmp_path / "a.conf").write_text("a: 1\ninclude /etc/far.conf\n")
    where = looked if number == errno.EIO else Path("/etc/far.conf")
    with pytest.raises(ConfigError, match=rf":2:1: include /etc/far.conf: {where}:? cannot be read \("):
        parse_file(tmp_path / "a.conf", {})


def test_nested_include_is_relative_to_its_own_file(tmp_path: Path) -> None:
    """An include is looked for beside the file that names it."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.conf").write_text("include ./c.conf\n")
    (tmp_path / "sub" / "c.conf").write_text("deep: 1\n")
    (tmp_path / "a.conf").write_text("include sub/b.conf\n")
    document = parse_file(tmp_path / "a.conf", {})
    assert {"deep": 1} == plain(document.root)
    assert 3 == len(document.files)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a = " + "[" * 50_000, "inside each other"),
        ("a = " + "[{b=" * 5_000, "inside each other"),
        ("port: " + "9" * 6000, "no number of 64 bits"),
        ("max_payload: " + "9" * 6000 + "MB", "no number of 64 bits"),
        ("port: -" + "9" * 6000, "no number of 64 bits"),
        ("port: ²", "no number of 64 bits"),
        ("port: 1²", "no number of 64 bits"),
        ("port: 1.²", "no number"),
    ],
    ids=lambda text: text[:24],
)
def test_hostile_text(text: str, said: str) -> None:
    """What is nested too deeply or is no number is one error with its place, whatever it was meant to do to the
    reader."""
    with pytest.raises(ConfigError, match=said):
        parse_text(text)


def test_includes_that_multiply(tmp_path: Path) -> None:
    """Eight files that include the next one ten times are a hundred million; a thousand are read."""
    for number in range(8):
        (tmp_path / f"{number}.conf").write_text(f"include ./{number + 1}.conf\n" * 10)
    (tmp_path / "8.conf").write_text("a: 1\n")
    with pytest.raises(ConfigError, match="more than 1000 files"):
        parse_file(tmp_path / "0.conf", {})


def test_file_without_end() -> None:
    """A device that gives bytes for ever is not read for ever."""
    with pytest.raises(ConfigError, match="it is a device and no file"):
        parse_file(Path("/dev/zero"), {})
