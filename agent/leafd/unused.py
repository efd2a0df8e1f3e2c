"""Imports without the modules that they bring and nobody uses: memory and time of a start.

    import_library()    before anything else imports socket or urllib.parse
    import_trio()

Meanwhile a stand-in is where such a module would be. Whoever uses something of it later, through the importer or by an
import of its own, has the real one then. Importing this module imports dataclasses in that way.

What does not live here: attrs for trio (attributes.py).
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import AsyncGeneratorType, CoroutineType, ModuleType
from typing import Any, Final

from leafd import attributes

TRIO: Final = ("_dtls", "_file_io", "_highlevel_ssl_helpers", "_path", "_ssl", "_subprocess", "_unix_pipes")
"""Parts of trio that others reach by name only: datagrams with TLS, files, streams with TLS, processes, pipes."""


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


class _Inspect:
    """What dataclasses and trio use of inspect, which brings Python's grammar, its instruction set and what finds
    source texts (1 MB)."""

    CORO_CREATED, CORO_RUNNING, CORO_SUSPENDED, CORO_CLOSED = states = tuple(
        f"CORO_{name}" for name in ("CREATED", "RUNNING", "SUSPENDED", "CLOSED")
    )

    @staticmethod
    def iscoroutine(value: object) -> bool:
        return isinstance(value, CoroutineType)

    @staticmethod
    def isasyncgen(value: object) -> bool:
        return isinstance(value, AsyncGeneratorType)

    @staticmethod
    def getcoroutinestate(coroutine: Any) -> str:
        if coroutine.cr_running:
            return _Inspect.CORO_RUNNING
        if coroutine.cr_suspended:
            return _Inspect.CORO_SUSPENDED
        return _Inspect.CORO_CREATED if coroutine.cr_frame is not None else _Inspect.CORO_CLOSED

    @staticmethod
    def signature(cls: type) -> str:
        """Of a data class without a text of its own, for that text."""
        return "(...)"

    @staticmethod
    def get_annotations(cls: type) -> dict[str, Any]:
        return dict(vars(cls).get("__annotations__", {}))


def _stand_in(name: str, given: Any = None) -> _Unused:
    """For a module of which nothing is used, or what `given` has."""
    module = _Unused(name)
    if given is not None:
        vars(module).update((name, getattr(given, name)) for name in vars(given) if not name.startswith("_"))
    return module


def import_library() -> None:
    """Imports socket, which brings selectors to send files where the system cannot, and urllib.parse, which brings
    ipaddress for addresses in brackets."""
    with _in_place((_stand_in("ipaddress"), _stand_in("selectors"))):
        importlib.import_module("socket")
        importlib.import_module("urllib.parse")


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


class _Ctypes:
    """What trio uses of ctypes to name its threads, which it does in the thread that has the name."""

    c_int = c_char_p = c_void_p = None

    class CDLL:
        def __init__(self, path: str) -> None:
            self.pthread_setname_np = lambda ident, name: _name_thread(name)

    class util:  # a module's name
        find_library = staticmethod(lambda name: name)


class _Logging:
    getLogger = _Logger


class _SortedContainers:
    SortedDict = _Sorted


def _name_thread(name: bytes) -> int:
    with suppress(OSError), open("/proc/thread-self/comm", "wb") as file:
        file.write(name)
    return 0


def import_trio() -> None:
    """Imports trio, which is half of a start; a release of it that needs more of what is left out, with everything."""
    try:
        with _less_for_trio():
            importlib.import_module("trio")
        return
    except (AttributeError, ImportError, TypeError):
        for name in [name for name in sys.modules if name.partition(".")[0] in ("trio", "outcome")]:
            del sys.modules[name]
        importlib.import_module("trio")


@contextmanager
def _less_for_trio() -> Iterator[None]:
    """Around the import of trio. Without these it takes half of the time and of the memory:

    - It names its threads by way of ctypes, and asks that for the file of the thread library. ctypes.util starts
      ldconfig to find out, and brings subprocess, tempfile and shutil with what packs files.
    - It imports ssl for streams of its own, and with it OpenSSL (1 MB). The control thread speaks no TLS.
    - It imports idna for names of hosts that are not ASCII, logging for errors of its own, and sortedcontainers for
      what its tests wait for.
    - Its classes are made by attrs (attributes.py).
    - It has parts that are not used here (TRIO).
    """
    parts = [_Named(f"trio.{name}") for name in TRIO]
    given = (
        _stand_in("ctypes", _Ctypes),
        _stand_in("ctypes.util"),
        _stand_in("inspect", _Inspect),
        _stand_in("logging", _Logging),
        _stand_in("sortedcontainers", _SortedContainers),
        _stand_in("ssl"),
        _stand_in("idna"),
    )
    with _in_place((*given, *attributes.modules(), *parts)):
        yield
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


with _in_place((_stand_in("inspect", _Inspect),)):
    import dataclasses  # noqa: F401
