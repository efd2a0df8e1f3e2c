"""Modules of the package that need each other: none to be imported, and a few to be understood, each with its reason.

A circle of the second kind is closed by an import for types alone or within a function. Not here: which
room may import which (tests/tidy.py).
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2] / "agent"
REASONS: Final[dict[str, str]] = {
    "config.schema.server": "its blocks are its fields, and the rules of some blocks look at its other ones",
    "auth.verdict": "a verdict is by a JWT or by a service where there are such, which other boxes do not load",
    "monitor.facts": "facts are handed to each report, and one of the facts is a report's row",
    "auth.resolver": "it makes the kind that is configured, whose errors and limits are those of all kinds",
    "daemon.start": "it hands over to run.py when the ports are open, and a reload opens the log as a start does",
    "jetstream.context": "endpoints take the context, which has the templates, which make streams as an endpoint does",
}
"""By one module of the circle."""

Graph = Mapping[str, set[str]]


@functools.cache
def modules() -> dict[str, ast.Module]:
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = ast.parse(path.read_text())
    return found


def imported(node: ast.AST, known: Mapping[str, ast.Module], *, every: bool) -> Iterator[str]:
    """The modules that are imported below a node: at once, or, with `every`, also for types and within functions."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Import():
                yield from (one.name for one in child.names if one.name in known)
            case ast.ImportFrom(module=str(module)):
                for one in child.names:
                    name = f"{module}.{one.name}"
                    yield from (each for each in (name if name in known else module,) if each in known)
            case ast.FunctionDef() | ast.AsyncFunctionDef() if not every:
                pass
            case ast.If(test=ast.Name(id="TYPE_CHECKING")) if not every:
                pass
            case _:
                yield from imported(child, known, every=every)


def graph(*, every: bool) -> Graph:
    known = modules()
    return {name: set(imported(tree, known, every=every)) - {name} for name, tree in known.items()}


def reached(links: Graph, begin: str) -> set[str]:
    """Every module that one needs, however far away."""
    found: set[str] = set()
    ahead = [begin]
    while ahead:
        new = links[ahead.pop()] - found
        found |= new
        ahead += new
    return found


def circles(links: Graph) -> set[str]:
    """Modules that need each other, without the package's name, in the order of the alphabet."""
    every = {name: reached(links, name) for name in links}
    found = {frozenset(other for other in needs if name in every[other]) for name, needs in every.items()}
    return {" ".join(one.removeprefix("leafd.") for one in sorted(circle)) for circle in found if len(circle) > 1}


def test_no_module_needs_itself_to_be_imported() -> None:
    """Whichever module is imported first, none is half made when another one reads it."""
    assert set() == circles(graph(every=False))


def test_each_circle_that_types_and_late_imports_close_has_a_reason() -> None:
    """A new circle is broken or defended here, and lies in one room; one that is gone leaves this table."""
    found = {circle: set(circle.split()) for circle in circles(graph(every=True))}
    assert {} == {circle: names for circle, names in found.items() if len(names & set(REASONS)) != 1}
    assert {} == {circle: names for circle, names in found.items() if len({one.split(".")[0] for one in names}) != 1}
    assert set(REASONS) <= set().union(*found.values())


def test_a_circle_is_found() -> None:
    """Of three modules, two that need each other."""
    assert {"a b"} == circles({"leafd.a": {"leafd.b"}, "leafd.b": {"leafd.a", "leafd.c"}, "leafd.c": set()})
