"""From the tree to the models: spellings to fields, places to errors, keys this build does not serve to one clear line.

Keys are matched without regard to case, as in the reference. Unknown keys are errors with the nearest known one,
unless the key
served as a variable. Not here: any key's meaning (schema/).
"""

from __future__ import annotations

import os
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from leafd.config.digest import digest
from leafd.config.lexer import Where
from leafd.config.schema.section import AS_WRITTEN, Invalid, Option, Section, Support, hints, kind
from leafd.config.schema.server import ServerConfig
from leafd.config.tree import Document, Node, parse_file, parse_text, plain
from leafd.errors import ConfigError
from leafd.records import dataclass


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration that was read: the models and what the operator should hear."""

    server: ServerConfig
    warnings: tuple[str, ...]
    files: tuple[str, ...] = ()
    places: Mapping[tuple[str | int, ...], Where] = field(default_factory=dict)
    """The place in which each field was set."""
    constants: frozenset[tuple[str | int, ...]] = frozenset()
    """Places in maps of another room where a key served as a variable: it may mean nothing beside that."""
    digest: str = ""
    """A digest of the file's text; the command line is not in it."""

    def place(self, *path: str | int) -> str:
        """The place in the file that set a field, or as much of the field's path as was set; the file where none
        was."""
        where = _place(path, self.places)
        return str(where) if where is not None else self.files[0] if self.files else "command line"


def load_file(path: Path) -> Loaded:
    """Reads and checks a configuration file. Raises ConfigError with one line per problem."""
    return bind(parse_file(path), str(path))


def load_text(text: str, file: str = "<text>") -> Loaded:
    """The same from a string."""
    return bind(parse_text(text, file), file)


def bind(document: Document, file: str) -> Loaded:
    """Fits a tree to the models."""
    binder = _Binder(list(document.warnings))
    values = binder.section(ServerConfig, document.root, ())
    if binder.errors:
        raise ConfigError("\n".join(binder.errors))
    try:
        server = ServerConfig(**values)
    except Invalid as error:
        raise ConfigError("\n".join(_describe(error, binder.places, file))) from error
    return Loaded(
        server, tuple(binder.warnings), tuple(document.files), binder.places, frozenset(binder.constants),
        digest(document.root),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Monitoring:
    """The address of the reports, by a configuration."""

    address: tuple[str, int] | None
    secure: bool
    base_path: str


def load_monitoring(path: Path) -> Monitoring:
    """Only that of a configuration file. The rest is not looked at, nor variables that are known to the service alone:
    a program that asks a daemon need not know its secrets. Raises ConfigError."""
    document = parse_file(path, _Unread())
    known = ServerConfig.spellings
    document.root = {key: node for key, node in document.root.items() if known.get(key.lower()) in _MONITORING}
    names = {known[key.lower()] for key in document.root}
    secure = not names.isdisjoint(("https", "https_port"))
    if secure:  # read as http, since https alone needs its certificate
        document.root = {key.lower().replace("https", "http"): node for key, node in document.root.items()}
    server = bind(document, str(path)).server
    return Monitoring(server.monitor_address(), secure, server.http_base_path)


_MONITORING: Final = ("host", "port", "listen", "http", "http_port", "https", "https_port", "http_base_path")


class _Unread(Mapping[str, str]):
    """The environment, in which every other variable has a value, too."""

    def __getitem__(self, name: str) -> str:
        return os.environ.get(name, "unread")

    def __iter__(self) -> Iterator[str]:
        return iter(os.environ)

    def __len__(self) -> int:
        return len(os.environ)


def inner_models(annotation: object) -> tuple[type[Section] | None, str]:
    """The block behind an annotation and how it is held: "one", "list", "map" or ""."""
    origin = typing.get_origin(annotation)
    if isinstance(annotation, type) and origin is None and issubclass(annotation, Section):
        return annotation, "one"
    arguments = typing.get_args(annotation)
    if origin is typing.Annotated:
        return inner_models(arguments[0])
    if origin in (typing.Union, types.UnionType):
        for argument in arguments:
            model, held = inner_models(argument)
            if model is not None:
                return model, held
        return None, ""
    if origin is tuple and arguments:
        model, _ = inner_models(arguments[0])
        return model, "list" if model else ""
    if origin is dict and len(arguments) == 2:
        model, _ = inner_models(arguments[1])
        return model, "map" if model else ""
    return None, ""


ERRORS_MAX: Final = 100


def add_mistake(errors: list[str], text: str) -> None:
    """Tells each mistake, but not thousands of one file of another kind. Raises ConfigError with the last one."""
    errors.append(text)
    if len(errors) == ERRORS_MAX:
        raise ConfigError("\n".join([*errors, f"{ERRORS_MAX} mistakes, and perhaps more: is it the right file?"]))


class _Binder:
    """Walks tree and models side by side; collects errors so that all of them are told at once."""

    def __init__(self, warnings: list[str]) -> None:
        self.errors: list[str] = []
        self.warnings = warnings
        self.places: dict[tuple[str | int, ...], Where] = {}
        self.constants: set[tuple[str | int, ...]] = set()

    def _wrong(self, text: str) -> None:
        add_mistake(self.errors, text)

    def section(self, model: type[Section], members: dict[str, Node], path: tuple[str | int, ...]) -> dict[str, Any]:
        known, annotations = model.spellings, hints(model)
        values: dict[str, Any] = {}
        for key, node in members.items():
            name = known.get(key.lower())
            if name is None:
                self._unknown(key, node, known)
                continue
            if name in values:
                self.warnings.append(
                    f"{node.where}: {key} is another spelling of {name}, set before; the later one holds"
                )
            here = (*path, name)
            self.places[here] = node.where
            values[name] = self._value(annotations[name], node, here, key)
            self._support(key, node, model.options[name])
        return values

    def _unknown(self, key: str, node: Node, known: Mapping[str, str]) -> None:
        if node.used_as_variable:
            return
        import difflib  # here: a configuration without mistakes does not need it

        near = difflib.get_close_matches(key.lower(), known, n=1, cutoff=0.6)
        hint = f": did you mean {near[0]!r}?" if near else ": remove it, or check the spelling"
        if "{" in key:
            hint = ": put a blank before the {"
        self._wrong(f"{node.where}: unknown field {key!r}{hint}")

    def _support(self, key: str, node: Node, known: Option) -> None:
        nothing = (*known.harmless, "disabled", "off", {})
        if known.support == Support.FULL or node.value is False or any(node.value == one for one in nothing):
            return
        if known.support == Support.REFUSED:
            self._wrong(f"{node.where}: {key}: {known.why}")
        elif known.support == Support.IGNORED:
            self.warnings.append(f"{node.where}: {key} is ignored: {known.why}")

    def _value(self, annotation: object, node: Node, path: tuple[str | int, ...], key: str) -> Any:
        if AS_WRITTEN in getattr(annotation, "__metadata__", ()):
            self._note(node, path)
            return plain(node)
        model, held = inner_models(annotation)
        value = node.value
        if model is not None and held == "one" and isinstance(value, dict):
            return self.section(model, value, path)
        if model is not None and held == "list" and isinstance(value, list):
            return [self._element(model, element, (*path, index), key) for index, element in enumerate(value)]
        if model is not None and held == "map" and isinstance(value, dict):
            made: dict[str, Any] = {}
            for name, element in value.items():
                if not isinstance(element.value, dict) and element.used_as_variable:
                    continue
                self.places[(*path, name)] = element.where
                made[name] = self._element(model, element, (*path, name), name)
            return made
        return plain(value)

    def _note(self, node: Node, path: tuple[str | int, ...]) -> None:
        """The places of all that is in a part that stays as it is written."""
        members = node.value.items() if isinstance(node.value, dict) else ()
        elements = enumerate(node.value) if isinstance(node.value, list) else ()
        for step, inner in (*members, *elements):
            here = (*path, step)
            self.places[here] = inner.where
            if inner.used_as_variable:
                self.constants.add(here)
            self._note(inner, here)

    def _element(self, model: type[Section], element: Node, path: tuple[str | int, ...], key: str) -> Any:
        self.places[path] = element.where
        if not isinstance(element.value, dict):
            self._wrong(f"{element.where}: {key}: a map in braces is expected here, not {kind(plain(element))}")
            return {}
        return self.section(model, element.value, path)


def _describe(error: Invalid, places: dict[tuple[str | int, ...], Where], file: str) -> list[str]:
    lines = []
    for problem in error.problems:
        path, text = problem.path, problem.text
        # A rule about several keys begins its text with the one to look at.
        where = _place((*path, text.split(" ", 1)[0]), places)
        name = next((str(part) for part in reversed(path) if isinstance(part, str)), "")
        shown = f"{name}: " if path and not text.startswith(name) else ""
        lines.append(f"{where or file}: {shown}{text}")
    return list(dict.fromkeys(lines))


def _place(path: tuple[str | int, ...], places: Mapping[tuple[str | int, ...], Where]) -> Where | None:
    for size in range(len(path), 0, -1):
        if path[:size] in places:
            return places[path[:size]]
    return None
