"""Imports without the modules that they bring and nobody uses: memory and time of a start.

    import_trio()

Meanwhile a stand-in is where such a module would be. Whoever uses something of it later, through the importer or by an
import of its own, has the real one then. Importing this module imports inspect in that way.

What does not live here: attrs for trio (attributes.py).
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final

from leafd import attributes

TRIO: Final = ("_dtls", "_file_io", "_highlevel_ssl_helpers", "_path", "_ssl", "_subprocess", "_unix_pipes")
"""Parts of trio that others reach by name only: datagrams with TLS, files, streams with TLS, processes, pipes."""
CODE_FLAGS: Final = {
    1: "OPTIMIZED",
    2: "NEWLOCALS",
    4: "VARARGS",
    8: "VARKEYWORDS",
    16: "NESTED",
    32: "GENERATOR",
    64: "NOFREE",
    128: "COROUTINE",
    256: "ITERABLE_COROUTINE",
    512: "ASYNC_GENERATOR",
}
"""dis.COMPILER_FLAG_NAMES, of which inspect makes constants of its own."""


class _Unused(ModuleType):
    """Stands for a module of which nothing is used; whoever uses something of it after all gets the real one's."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)  # the import machinery asks for some, in vain with other modules, too
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


class _Named(ModuleType):
    """Stands for a module of which an importer takes names: it gives a class for each, which stands for what it is."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.given: list[type] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self.given.append(type(name, (), {"__module__": self.__name__}))
        return self.given[-1]


@contextmanager
def _in_place(modules: Sequence[ModuleType]) -> Iterator[None]:
    """Within it an import finds these, unless the real ones are there."""
    placed = [module for module in modules if sys.modules.setdefault(module.__name__, module) is module]
    try:
        yield
    finally:
        for module in placed:
            if sys.modules.get(module.__name__) is module:
                del sys.modules[module.__name__]


@contextmanager
def less_for_inspect() -> Iterator[None]:
    """Around the first import of inspect, which dataclasses needs. It brings Python's grammar and instruction set
    (0.6 MB) to find source texts and to show instructions."""
    ast, dis = _Unused("ast"), _Unused("dis")
    if sys.version_info < (3, 13):
        vars(ast)["NodeVisitor"] = object  # from which a class derives that finds classes in source texts
    vars(dis)["COMPILER_FLAG_NAMES"] = CODE_FLAGS
    with _in_place((ast, dis)):
        yield


class _Logger:
    """Stands for a logger, which says something in a case of need only."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module("logging").getLogger(self._name), name)


class _Sorted:
    """Stands for an empty SortedDict, in which trio's tests alone put something."""

    def __init__(self) -> None:
        self._real: Any = None

    def _made(self) -> Any:
        if self._real is None:
            self._real = importlib.import_module("sortedcontainers").SortedDict()
        return self._real

    def __len__(self) -> int:
        return 0 if self._real is None else len(self._real)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._made(), name)

    def __getitem__(self, key: Any) -> Any:
        return self._made()[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._made()[key] = value

    def __delitem__(self, key: Any) -> None:
        del self._made()[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._made())


def _thread_library(name: str) -> str | None:
    return "libpthread.so.0" if name == "pthread" else None


def import_trio() -> None:
    """Imports trio, which is half of a start; a release of it that needs more of attrs than is here, with all of it."""
    try:
        with _less_for_trio(attributes.modules()):
            importlib.import_module("trio")
        return
    except (AttributeError, ImportError, TypeError):
        for name in [name for name in sys.modules if name.partition(".")[0] in ("trio", "outcome")]:
            del sys.modules[name]
    with _less_for_trio(()):
        importlib.import_module("trio")


@contextmanager
def _less_for_trio(attrs: Sequence[ModuleType]) -> Iterator[None]:
    """Around the import of trio. Without these it takes half of the time and of the memory:

    - It names its threads, and asks ctypes for the file of the thread library. ctypes.util starts ldconfig to find
      out, and brings subprocess, tempfile and shutil with what packs files. With glibc the name is known. Where it is
      another one, threads go unnamed.
    - It imports ssl for streams of its own, and with it OpenSSL (1 MB). The control thread speaks no TLS.
    - It imports idna for names of hosts that are not ASCII, logging for errors of its own, and sortedcontainers for
      what its tests wait for.
    - Its classes are made by attrs (attributes.py).
    - It has parts that are not used here (TRIO).
    """
    import ctypes

    finds, logging, sorts = _Unused("ctypes.util"), _Unused("logging"), _Unused("sortedcontainers")
    vars(finds)["find_library"] = _thread_library
    vars(logging)["getLogger"] = _Logger
    vars(sorts)["SortedDict"] = _Sorted
    parts = [_Named(f"trio.{name}") for name in TRIO]
    with _in_place((finds, logging, sorts, _Unused("ssl"), _Unused("idna"), *attrs, *parts)):
        had = vars(ctypes).setdefault("util", finds)
        try:
            yield
        finally:
            if had is finds:
                del vars(ctypes)["util"]
    for module in [module for name, module in sys.modules.items() if name == "trio" or name.startswith("trio.")]:
        _take_back(module, parts)


def _take_back(module: ModuleType, parts: Sequence[_Named]) -> None:
    """What stands for something in the module goes; whoever asks the module for it has it imported."""
    stands = {one: part.__name__ for part in parts for one in part.given}
    names = {name: stands[value] for name, value in vars(module).items() if isinstance(value, type) and value in stands}
    if not names:
        return
    before: Callable[[str], Any] | None = vars(module).get("__getattr__")
    for name in names:
        delattr(module, name)

    def __getattr__(name: str) -> Any:
        if name in names:
            value = getattr(importlib.import_module(names[name]), name)
            setattr(module, name, value)
            return value
        if before is not None:
            return before(name)
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

    module.__getattr__ = __getattr__  # type: ignore[method-assign]


with less_for_inspect():
    import inspect  # noqa: F401
