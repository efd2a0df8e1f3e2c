"""From text to a tree: maps, arrays, include files, variables. Knows no key's meaning (schema/ does) and reads files
only by `include`.

A variable `$name` is a key that was set before, searched from the innermost map outwards; then the environment, whose
text is read by the same rules (so an environment variable "64K" is a number); then systemd's credentials, whose text is
taken as it is. A key that served as a variable may be unknown to the schema: that is how people name their constants.
An included file sees none of its includer's keys, but its own keys land in the including map, where later lines see
them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from pathlib import Path
from typing import Final

from leafd.config.credentials import credential_text
from leafd.config.lexer import NEW_LINES, SEPARATORS, Scanner, Variable, Where
from leafd.errors import ConfigError
from leafd.files import is_there, read_file
from leafd.records import dataclass

INCLUDE_DEPTH_MAX: Final = 32
FILES_MAX: Final = 1000
NESTING_MAX: Final = 64
SIZE_MAX: Final = 16 << 20
"""Bytes of all files together: in memory they are forty times as much while they are read."""
VALUES_MAX: Final = 500_000
"""Values of all files, each as often as a variable repeats it: to read and judge so many takes some seconds. An account
with a user has six, so this is room for 80,000."""
WARNINGS_MAX: Final = 1000


Value = str | int | float | bool | datetime | list["Node"] | dict[str, "Node"]


@dataclass(slots=True)
class Node:
    """A value and its place: of its key inside a map, of itself inside an array."""

    value: Value
    where: Where
    key: str = ""
    used_as_variable: bool = False
    values: int = 1
    """How many there are in it, with itself."""


@dataclass(slots=True)
class Document:
    """A whole configuration: the outermost map, the files it came from, and what the operator should hear."""

    root: dict[str, Node]
    files: list[str] = field(default_factory=list)
    size: int = 0
    values: int = 0
    warnings: list[str] = field(default_factory=list)


def parse_file(path: Path, environment: Mapping[str, str] | None = None) -> Document:
    """Reads a configuration file and what it includes. Raises ConfigError."""
    document = Document(root={})
    env = os.environ if environment is None else environment
    document.root = _parse_path(path, str(path), document, env, depth=0)
    return document


def parse_text(text: str, file: str = "<text>", environment: Mapping[str, str] | None = None) -> Document:
    """Reads a configuration from a string; includes are taken from the working directory."""
    document = Document(root={})
    env = os.environ if environment is None else environment
    document.root = _Parser(Scanner(text, file), Path(), document, env, depth=0).parse()
    return document


def plain(value: object) -> object:
    """The tree without its places: what a JSON reader would have given."""
    if isinstance(value, Node):
        return plain(value.value)
    if isinstance(value, dict):
        return {key: plain(node) for key, node in value.items()}
    if isinstance(value, list):
        return [plain(node) for node in value]
    return value


def _parse_path(path: Path, shown: str, document: Document, env: Mapping[str, str], depth: int) -> dict[str, Node]:
    if len(document.files) == FILES_MAX:
        raise ConfigError(f"{shown}: more than {FILES_MAX} files are included: does one include another many times?")
    try:
        data = read_file(path, SIZE_MAX + 1)
    except OSError as error:
        raise ConfigError(f"{shown}: cannot be read ({error.strerror}): check the name and its permissions") from error
    document.size += len(data)
    if document.size > SIZE_MAX:
        raise ConfigError(
            f"{shown}: with it the configuration is larger than {SIZE_MAX >> 20} MiB: is it the right file?"
        )
    document.files.append(str(path))
    text = data.decode("utf-8", "surrogateescape").replace("\r\n", "\n").replace("\r", "\n")
    return _Parser(Scanner(text, shown), path.parent, document, env, depth).parse()


class _Parser:
    """Recursive descent over one file."""

    def __init__(
        self, scanner: Scanner, directory: Path, document: Document, env: Mapping[str, str], depth: int
    ) -> None:
        self.scan = scanner
        self.directory = directory
        self.document = document
        self.env = env
        self.depth = depth
        self.scopes: list[dict[str, Node]] = []
        self.arrays = 0  # that we are inside of
        self.env_in_use: frozenset[str] = frozenset()

    def parse(self) -> dict[str, Node]:
        root: dict[str, Node] = {}
        self.scopes.append(root)
        self._top(root)
        return root

    # ---- maps

    def _top(self, root: dict[str, Node]) -> None:
        scan = self.scan
        braces = 0
        while True:
            scan.skip_space()
            if scan.skip_comment():
                continue
            char = scan.peek()
            if char == "":
                if braces > 0:
                    raise scan.fail("the { at the top is never closed: add a }")
                return
            if char == "{":
                # JSON: the whole document in braces.
                scan.take()
                braces += 1
            elif char == "}" and (braces > 0 or scan.text[scan.position + 1 :].strip() == ""):
                scan.take()
                braces = max(0, braces - 1)
            elif char in ",;" and braces > 0:
                scan.take()
            else:
                self._member(root, in_map=False)
                self._end_of_member("}" if braces > 0 else "", "a new line, a comma or a semicolon")

    def _map(self, opening: Where) -> dict[str, Node]:
        scan = self.scan
        members: dict[str, Node] = {}
        self.scopes.append(members)
        self._judge_nesting()
        while True:
            scan.skip_space()
            if scan.skip_comment():
                continue
            char = scan.peek()
            if char == "":
                raise ConfigError(f"{opening}: the {{ that begins here is never closed: add a }}")
            if char == "}":
                scan.take()
                self.scopes.pop()
                return members
            if char == "]":
                raise scan.fail("a ] inside a map: close the map with } first")
            self._member(members, in_map=True)
            self._end_of_member("}", "a comma, a semicolon, a new line or }")

    def _member(self, members: dict[str, Node], *, in_map: bool) -> None:
        scan = self.scan
        if scan.peek() in SEPARATORS:
            raise scan.fail(f"a key must stand before the {scan.peek()!r}")
        key, where, quoted = scan.read_key()
        if key.lower() == "include" and not quoted and scan.peek().isspace():
            for name, node in self._include(where).items():
                self._put(members, name, node)
            return
        scan.skip_space()
        if scan.peek() in SEPARATORS and scan.peek():
            scan.take()
            if in_map:
                scan.skip_space()
            else:
                scan.skip_blanks()
                if scan.peek() and scan.peek() in NEW_LINES:
                    raise scan.fail(f"{key} has no value: write it on the same line, or remove the key")
        elif scan.peek() == "":
            hint = f"; put a blank before the {{ in {key!r}" if "{" in key else ""
            raise ConfigError(f"{where}: {key} has no value: add one, or remove the key{hint}")
        if in_map and scan.peek() and scan.peek() in ",}":
            raise ConfigError(f"{where}: {key} has no value: add one, or remove the key")
        node = self._value(where)
        node.key = key
        self._put(members, key, node)

    def _put(self, members: dict[str, Node], key: str, node: Node) -> None:
        before = members.get(key)
        if before is not None and before is not node and len(self.document.warnings) < WARNINGS_MAX:
            self.document.warnings.append(f"{node.where}: {key} was set before at {before.where}; the later one holds")
        members[key] = node

    def _end_of_member(self, closing: str, expected: str) -> None:
        scan = self.scan
        scan.skip_blanks()
        char = scan.peek()
        if char == "" or char in NEW_LINES or char == "#" or scan.text.startswith("//", scan.position):
            return
        if char in ",;":
            scan.take()
            return
        if char == "}":
            if not closing:
                scan.take()  # the reference lets a } end a value at the top
            return
        raise scan.fail(
            f"expected {expected} behind the value, but found {char!r}: put quotes around a value with blanks"
        )

    # ---- values

    def _value(self, where: Where) -> Node:
        scan = self.scan
        scan.skip_blanks()
        char = scan.peek()
        if char == "{":
            here = scan.where()
            scan.take()
            members = self._map(here)
            return Node(members, where, values=self._counted(1, where) + sum(one.values for one in members.values()))
        if char == "[":
            here = scan.where()
            scan.take()
            elements = self._array(here)
            return Node(elements, where, values=self._counted(1, where) + sum(one.values for one in elements))
        scalar = scan.read_scalar()
        if isinstance(scalar, Variable):
            value, values = self._look_up(scalar.name, where)
            return Node(value, where, values=self._counted(values, where))
        return Node(scalar, where, values=self._counted(1, where))

    def _counted(self, values: int, where: Where) -> int:
        self.document.values += values
        if self.document.values > VALUES_MAX:
            raise ConfigError(
                f"{where}: with this the configuration has more than {VALUES_MAX:,} values, each counted as often as a "
                "variable repeats it: is it the right file? Take out what is repeated"
            )
        return values

    def _array(self, opening: Where) -> list[Node]:
        scan = self.scan
        elements: list[Node] = []
        self.arrays += 1
        self._judge_nesting()
        while True:
            scan.skip_space()
            if scan.skip_comment():
                continue
            char = scan.peek()
            if char == "":
                raise ConfigError(f"{opening}: the [ that begins here is never closed: add a ]")
            if char == "]":
                scan.take()
                self.arrays -= 1
                return elements
            if char == ",":
                raise scan.fail("a comma without a value before it: remove one")
            elements.append(self._value(scan.where()))
            self._end_of_element()

    def _end_of_element(self) -> None:
        scan = self.scan
        while True:
            scan.skip_blanks()
            if not scan.skip_comment():
                break
        char = scan.peek()
        if char == "" or char in NEW_LINES or char == "]":
            return
        if char == ",":
            scan.take()
            return
        raise scan.fail(
            f"expected a comma, a new line or ] in the array, but found {char!r}: put quotes around a value with blanks"
        )

    def _judge_nesting(self) -> None:
        if len(self.scopes) + self.arrays > NESTING_MAX:
            raise self.scan.fail(f"more than {NESTING_MAX} maps and arrays inside each other: is a }} or ] missing?")

    # ---- variables and files

    def _look_up(self, name: str, where: Where) -> tuple[Value, int]:
        """A variable's value, and how many there are in it."""
        for scope in reversed(self.scopes):
            node = scope.get(name)
            if node is not None:
                node.used_as_variable = True
                return node.value, node.values
        if name in self.env_in_use:
            raise ConfigError(f"{where}: the environment variable {name} refers to itself: give it a plain value")
        text = self.env.get(name)
        if text is None:
            return self._credential(name, where), 1
        parser = _Parser(Scanner(f"pk={text}", f"${name}"), self.directory, self.document, self.env, self.depth)
        parser.env_in_use = self.env_in_use | {name}
        found = parser.parse().get("pk")
        if found is None:
            raise ConfigError(f"{where}: the environment variable {name} holds no value")
        return found.value, found.values

    def _credential(self, name: str, where: Where) -> str:
        """The text of a credential as it is: in a password nothing is a comment, a number or another variable."""
        try:
            text = credential_text(name, self.env)
        except OSError as error:
            raise ConfigError(f"{where}: the credential {name} cannot be read ({error.strerror})") from error
        if text is None:
            raise ConfigError(
                f"{where}: the variable ${name} is neither a key set before, nor in the environment, nor a credential "
                "of systemd (in CREDENTIALS_DIRECTORY): set one of them"
            )
        if not text:
            raise ConfigError(f"{where}: the credential {name} is empty")
        return text

    def _include(self, where: Where) -> dict[str, Node]:
        name = self.scan.read_include()
        if "\0" in name:
            raise ConfigError(f"{where}: the name of the file to include has a zero byte in it: remove it")
        if self.depth + 1 > INCLUDE_DEPTH_MAX:
            raise ConfigError(f"{where}: includes more than {INCLUDE_DEPTH_MAX} deep: does {name} include itself?")
        # The reference joins even an absolute name to the directory; we try that first, then the name as it stands.
        path = self.directory / name.lstrip("/")
        try:
            if name.startswith("/") and not is_there(path):
                path = Path(name)
        except OSError as error:
            raise ConfigError(f"{where}: include {name}: {path} cannot be read ({error.strerror})") from error
        try:
            return _parse_path(path, str(path), self.document, self.env, self.depth + 1)
        except ConfigError as error:
            if str(error).startswith(f"{path}: cannot be read"):
                raise ConfigError(f"{where}: include {name}: {error}") from error
            raise
