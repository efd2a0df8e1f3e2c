"""Configuration files that nobody would write, drawn from a seed, and what every one of them must come to.

    python -m tests.unit.config.drawn --seconds 3600 [--seed N]       as long as wanted; findings as they come

A text is put together of the language's own words, or is a real configuration with pieces cut out, doubled, exchanged
or overwritten. test_drawn.py looks at the first texts of a few seeds. Not here: what a text means
(test_language.py asks nats-server).
"""

from __future__ import annotations

import argparse
import json
import random
import re
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

from leafd.config.bind import load_file
from leafd.config.tree import parse_file, plain
from leafd.errors import ConfigError

HERE: Final = Path(__file__).parent
CONFIGS: Final = HERE.parents[2] / "configs"
SIZE_MAX: Final = 4096
CPU_S_MAX: Final = 2.0
TEXT_MAX: Final = 4000
PLACE: Final = re.compile(r"(?P<file>[^\n:]+):(?P<line>\d+):(?P<column>\d+): \S")
WORDS: Final = [
    *"{}[]():=,;#'\"\\$-.\n\r\t \x00",
    *(
        "//",
        "{\n",
        "}\n",
        "[1,",
        "(\n",
        "\n)\n",
        "\r\n",
        "\\x4",
        "\\x41",
        "\\xff",
        "\\q",
        '"a b"',
        "'a b'",
        "$2a$10$",
        "$NUM",
    ),
    *("$a", "$", "include ", "include inc.conf", "include ./nothing", "include c.conf", "true", "no", "ON", "0", "-1"),
    *(
        "9223372036854775807",
        "9223372036854775808",
        "9" * 200,
        "1KB",
        "1kib",
        "2m",
        "3Eb",
        "1Gx",
        "1.5",
        "1.",
        ".5",
        "1.2.3",
    ),
    *(
        "2006-01-02T15:04:05Z",
        "2006-13-02T15:04:05Z",
        "10s",
        "127.0.0.1:4222",
        "nats://u:p@h:1",
        "é",
        "\u0663",
        "\ud800",
    ),
    *(
        "port",
        "listen",
        "jetstream",
        "accounts",
        "authorization",
        "users",
        "user",
        "password",
        "permissions",
        "publish",
    ),
    *(
        "allow",
        "deny",
        "leafnodes",
        "remotes",
        "url",
        "mappings",
        "imports",
        "exports",
        "stream",
        "service",
        "store_dir",
    ),
    *("max_payload", "ping_interval", "no_auth_user", "system_account", "A", "a", "b", "{" * 70, "[" * 70, "a{" * 70),
]


def originals() -> list[str]:
    """What is read in the other tests, and the files that are shipped."""
    cases = json.loads((HERE / "language.json").read_text(encoding="utf-8"))
    shipped = [path.read_text(encoding="utf-8") for path in sorted(CONFIGS.glob("*.conf"))]
    return [*(str(case["text"]) for case in cases), *shipped]


class Draw:
    """One endless sequence of texts; the same seed draws the same."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.originals = originals()

    def __iter__(self) -> Iterator[bytes]:
        while True:
            yield self.rng.choice((self._words, self._mutated, self._mutated, self._bytes))()

    def _words(self) -> bytes:
        return _encoded("".join(self.rng.choice(WORDS) for _ in range(self.rng.randrange(1, 60))))

    def _mutated(self) -> bytes:
        text = self.rng.choice(self.originals)
        start = self.rng.randrange(max(1, len(text) - SIZE_MAX))
        text = text[start : start + SIZE_MAX] if start and self.rng.random() < 0.5 else text[:SIZE_MAX]
        for _ in range(self.rng.randrange(1, 6)):
            at = self.rng.randrange(len(text) + 1)
            end = min(len(text), at + self.rng.randrange(1 + self.rng.choice((1, 8, 200))))
            way = self.rng.randrange(4)
            piece = ("", self.rng.choice(WORDS), text[at:end] * 2, self.rng.choice(self.originals)[:300])[way]
            text = text[:at] + piece + text[end:]
        return _encoded(text)

    def _bytes(self) -> bytes:
        data = bytearray(self._mutated())
        for _ in range(self.rng.randrange(1, 8)):
            if data:
                data[self.rng.randrange(len(data))] = self.rng.randrange(256)
        return bytes(data)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def complaint(path: Path, data: bytes) -> str:
    """What is wrong with how this file is read, or the empty string."""
    path.write_bytes(data)
    began = time.process_time()
    found = _of_a_read(path, _tree) or _of_a_read(path, lambda one: str(bool(load_file(one)))[:0])
    if not found and time.process_time() - began > CPU_S_MAX:
        found = f"took {time.process_time() - began:.1f} s of the processor"
    return found


def _tree(path: Path) -> str:
    return "" if _is_plain(plain(parse_file(path, {"NUM": "64K"}).root)) else "is no tree of plain values"


def _is_plain(value: object) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(one) for key, one in value.items())
    if isinstance(value, list):
        return all(_is_plain(one) for one in value)
    return isinstance(value, str | int | float | bool | datetime)


def _of_a_read(path: Path, read: Callable[[Path], str]) -> str:
    try:
        return read(path)
    except ConfigError as error:
        return _of_an_error(path, str(error))
    except Exception as error:  # that is what is looked for
        return f"{error!r}"


def _of_an_error(path: Path, text: str) -> str:
    """An error names a place that there is, in one line that can be read."""
    if len(text) > TEXT_MAX:
        return f"an error of {len(text)} characters"
    found = PLACE.match(text)
    if found is None:
        return f"an error without a place: {text!r}"
    if Path(found["file"]).name != path.name:
        return ""  # an included file's
    lines = re.split(r"\r\n|\r|\n", path.read_bytes().decode("utf-8", "surrogateescape"))
    line, column = int(found["line"]), int(found["column"])
    if not (1 <= line <= len(lines) and 1 <= column <= len(lines[line - 1]) + 1):
        return f"an error at a place that is not there: {text!r}"
    return ""


def findings(seed: int, directory: Path, texts: int | None = None, seconds: float | None = None) -> Iterator[str]:
    """What is wrong with the first so many texts of a seed, or with those that there is time for."""
    (directory / "inc.conf").write_text("incd: 5\nblock { x: 1 }\n")
    until = None if seconds is None else time.monotonic() + seconds
    for number, data in enumerate(Draw(seed)):
        if number == texts or (until is not None and time.monotonic() > until):
            return
        if found := complaint(directory / "c.conf", data):
            yield f"seed {seed}, number {number}: {found}\n{data!r}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.unit.config.drawn")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None)
    arguments = parser.parse_args()
    seed = secrets.randbelow(1 << 32) if arguments.seed is None else arguments.seed
    print(f"seed {seed}", flush=True)
    count = 0
    with tempfile.TemporaryDirectory(prefix="leafd-drawn-") as name:
        for found in findings(seed, Path(name), seconds=arguments.seconds):
            print(found, flush=True)
            count += 1
    raise SystemExit(f"{count} findings" if count else 0)


if __name__ == "__main__":
    main()
