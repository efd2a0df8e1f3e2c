"""What a start leaves out of its imports: nothing that is used is another than with all of it."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attr
import attrs
import pytest
from leafd import attributes, unused

AGENT = Path(__file__).parents[2] / "agent"
LESS = "from leafd import unused; unused.import_library(); unused.import_trio(); "
ALL = "import leafd; "

# The classes of trio that attrs makes, as far as their users can tell them apart.
CLASSES = """
import inspect, json, sys
from leafd import attributes
import outcome, trio
names, found = ("trio", "outcome"), {}

def constructor(cls):
    cells = getattr(cls.__init__, "__closure__", None) or ()
    made = dict(zip(cls.__init__.__code__.co_freevars, [cell.cell_contents for cell in cells])) if cells else {}
    init = attributes._init_of(**made) if made.keys() == {"cls", "fields", "frozen"} else cls.__init__
    if init is object.__init__:
        return []
    parameters = inspect.signature(init).parameters.values()
    return [[one.name, one.kind.name, one.default is not one.empty] for one in parameters]

for module in [module for name, module in sys.modules.items() if name.partition(".")[0] in names]:
    for cls in [value for value in vars(module).values() if isinstance(value, type)]:
        fields = getattr(cls, "__attrs_attrs__", ()) or getattr(cls, attributes.OWN, ())
        if fields and cls.__module__.partition(".")[0] in names:
            found[f"{cls.__module__}.{cls.__qualname__}"] = {
                "fields": [one.name for one in fields],
                "constructor": constructor(cls),
                "slots": sorted(vars(cls).get("__slots__", ["none"])),
                "compared": cls.__eq__ is not object.__eq__,
                "hash": "none" if cls.__hash__ is None else cls.__hash__ is object.__hash__,
                "frozen": cls.__setattr__ is not object.__setattr__,
                "shown": cls.__repr__ is not object.__repr__,
                "matched": list(getattr(cls, "__match_args__", ())),
                "leftovers": sorted(one.name for one in fields if type(vars(cls).get(one.name)).__name__ == "Field"),
            }
print(json.dumps(found))
"""

# Every public name of trio's public modules.
NAMES = """
import json, trio, trio.abc, trio.from_thread, trio.lowlevel, trio.socket, trio.to_thread
wanted = json.loads(input())
print(json.dumps({
    f"{module.__name__}.{name}": getattr(getattr(module, name), "__qualname__", "")
    for module in (trio, trio.abc, trio.from_thread, trio.lowlevel, trio.socket, trio.to_thread)
    for name in wanted[module.__name__] or [name for name in vars(module) if not name.startswith("_")]
}))
"""
PUBLIC = ("trio", "trio.abc", "trio.from_thread", "trio.lowlevel", "trio.socket", "trio.to_thread")

# What the daemon does with trio, and what shows that it goes without attrs.
USE = """
import sys, trio
seen = []

async def main():
    send, receive = trio.open_memory_channel(2)
    lock, event, limit = trio.Lock(), trio.Event(), trio.CapacityLimiter(1)
    async with trio.open_nursery() as nursery:
        @nursery.start_soon
        async def reader():
            async with lock:
                event.set()
                async for value in receive:
                    seen.append(value)
        await event.wait()
        async with send:
            await send.send(await trio.to_thread.run_sync(lambda: 1, limiter=limit))
            with trio.move_on_after(0.01) as scope:
                await trio.sleep_forever()
            await send.send(scope.cancelled_caught)
    try:
        with trio.fail_after(0.01):
            await trio.sleep_forever()
    except trio.TooSlowError as error:
        seen.append(type(error).__name__)
    async with trio.open_nursery() as nursery:
        task = trio.lowlevel.current_task()
        nursery.cancel_scope.cancel()
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled as error:
            seen.append(type(error).__name__)
            raise
    await trio.testing.wait_all_tasks_blocked()
    try:
        trio.Nursery()
    except TypeError:
        seen.append("private")
    return task.name, lock.statistics().locked, limit.total_tokens

needless = {"attr", "attrs", "ssl", "idna", "ctypes.util", "logging", "sortedcontainers"} | \
    {"subprocess", "inspect", "ast", "dis", "ctypes", "selectors"}
had = needless & set(sys.modules)
import trio.testing
print([seen, trio.run(main), sorted(had)])
"""


def run(code: str, words: str = "") -> str:
    """What a new interpreter says that has no editable install's loader, which has imported much by itself."""
    code = f"import sys; sys.path[:0] = {[str(AGENT), *sys.path]!r}; {code}"
    done = subprocess.run([sys.executable, "-S", "-c", code], input=words, capture_output=True, text=True, timeout=60)
    assert 0 == done.returncode, done.stderr
    return done.stdout.strip()


def test_the_classes_of_trio_are_as_with_attrs() -> None:
    """Each has the same fields, constructor, slots and comparison, whichever release of trio is installed."""
    less, with_all = json.loads(run(LESS + CLASSES)), json.loads(run(ALL + CLASSES))
    assert 40 < len(less)
    assert {name: with_all[name] for name in less} == less
    assert [] == [name for name in with_all.keys() - less.keys() if "DTLS" not in name and "_dtls" not in name]


def test_every_name_of_trio_is_there() -> None:
    """Whoever asks for a part that was left out has it imported."""
    names: dict[str, list[str]] = {module: [] for module in PUBLIC}
    with_all = json.loads(run(ALL + NAMES, json.dumps(names)))
    names = {
        module: [name.rpartition(".")[2] for name in with_all if name.rpartition(".")[0] == module] for module in PUBLIC
    }
    assert 100 < len(with_all)
    assert with_all == json.loads(run(LESS + NAMES, json.dumps(names)))


def test_trio_works_without_them() -> None:
    """Tasks, channels, locks, threads, timeouts and cancelling work as they do with everything."""
    with_all, less = eval(run(ALL + USE)), eval(run(LESS + USE))
    assert [[1, True, "TooSlowError", "Cancelled", "private"], ("__main__.main", False, 1)] == less[:2]
    assert with_all[:2] == less[:2]
    assert [] == less[2]


def test_a_trio_that_needs_more_of_attrs_has_attrs() -> None:
    """A release that uses what is not here is imported with the real one, and nothing is left of the first try."""
    missing = "from types import ModuleType; from leafd import attributes; "
    missing += "attributes.modules = lambda: (ModuleType('attrs'), ModuleType('attr')); "
    done = eval(run(missing + LESS + USE))
    assert [1, True, "TooSlowError", "Cancelled", "private"] == done[0]
    assert {"attr", "attrs"} <= set(done[2])


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("ssl", "trio; trio.SSLStream.__name__ == 'SSLStream'"),
        ("ssl", "trio._highlevel_ssl_helpers; trio._highlevel_ssl_helpers.ssl.OPENSSL_VERSION_NUMBER > 1"),
        ("ctypes.util", "ctypes.util; ctypes.util.find_library('c')"),
        ("idna", "trio._socket; trio._socket._idna.encode('\\xe4', uts46=True) == b'xn--4ca'"),
        ("subprocess", "trio; trio.run(trio.run_process, ['true']).returncode == 0"),
        ("inspect", "inspect, dataclasses; dataclasses.inspect.getsource(trio.run) == inspect.getsource(trio.run)"),
        ("selectors", "selectors, socket; socket.selectors.PollSelector is selectors.PollSelector"),
        ("ipaddress", "urllib.parse; urllib.parse.urlsplit('nats://[::1]:4222').hostname == '::1'"),
        (
            "logging",
            "trio._core._asyncgens; trio._core._asyncgens.ASYNCGEN_LOGGER.name == 'trio.async_generator_errors'",
        ),
    ],
)
def test_a_module_that_nobody_uses_is_there_when_somebody_does(name: str, use: str) -> None:
    """What was left out is imported when it is used after all, by trio or by an import of somebody else."""
    module, expression = use.split("; ", 1)
    code = f"import sys, trio; print({name!r} in sys.modules); import {module}; print(bool({expression}))"
    assert ["False", "True"] == run(LESS + code).split()


def test_states_of_coroutines_are_those_of_inspect() -> None:
    """A coroutine that has not begun, that runs, that waits and that is over is told apart as by inspect."""
    seen: list[tuple[str, str]] = []

    @types.coroutine
    def wait() -> Iterator[None]:
        yield

    async def work() -> None:
        look()
        await wait()

    def look() -> None:
        seen.append((inspect.getcoroutinestate(coroutine), unused._Inspect.getcoroutinestate(coroutine)))

    coroutine = work()
    look()
    coroutine.send(None)
    look()
    coroutine.close()
    look()
    assert 4 == len({real for real, _ in seen}) == len(seen)
    assert [] == [pair for pair in seen if pair[0] != pair[1]]


def test_a_thread_has_its_name_in_the_system() -> None:
    """What an operator sees of a thread in top is the name that trio gives it."""
    look = "open('/proc/thread-self/comm').read()"
    code = f"import trio; print(trio.run(trio.to_thread.run_sync, lambda: {look}))"
    assert run(ALL + code) == run(LESS + code) != "python"


def pairs() -> list[Any]:
    """The same classes, made by attrs and by what stands for it."""
    found = []
    for now, before in ((attrs, attr), attributes.modules()):

        @now.define  # type: ignore[attr-defined, misc, unused-ignore]
        class Open:
            _name: str = now.field(alias="called")  # type: ignore[attr-defined, unused-ignore]
            tags: list[str] = now.Factory(list)  # type: ignore[attr-defined, unused-ignore]
            count: int = now.field(default=2, kw_only=True, repr=lambda value: f"<{value}>")  # type: ignore[attr-defined, unused-ignore]
            seen: bool = now.field(default=False, init=False, eq=False, repr=False)  # type: ignore[attr-defined, unused-ignore]

            def __attrs_post_init__(self) -> None:
                if self.count < 0:
                    raise ValueError("negative")

        @now.frozen(slots=False)  # type: ignore[attr-defined, misc, unused-ignore]
        class Firm:
            x: int
            y: int = 0

        @before.s(frozen=True, slots=True)  # type: ignore[attr-defined, misc, unused-ignore]
        class Checked:
            value = before.ib(validator=before.validators.instance_of(int))  # type: ignore[attr-defined, unused-ignore]

        @now.define(eq=False, hash=False, kw_only=True)  # type: ignore[attr-defined, misc, unused-ignore]
        class Failure(Exception):
            why: str = "none"

        found.append({one.__name__: one for one in (Open, Firm, Checked, Failure)})
    return found


def said(use: Callable[[Any], Any], classes: Any) -> str:
    try:
        return repr(use(classes))
    except (AttributeError, TypeError, ValueError) as error:
        return type(error).__name__


@pytest.mark.parametrize(
    "use",
    [
        lambda of: of["Open"]("n"),
        lambda of: of["Open"](called="n", count=-1),
        lambda of: of["Open"]("n", ["t"], count=3).tags,
        lambda of: of["Open"]("n", [], 3),
        lambda of: of["Open"](),
        lambda of: of["Open"]("n", tags=["a"]) == of["Open"]("n", ["a"]),
        lambda of: of["Open"]("n").tags is of["Open"]("n").tags,
        lambda of: hash(of["Open"]("n")),
        lambda of: setattr(of["Open"]("n"), "other", 1),
        lambda of: setattr(of["Open"]("n"), "seen", True),
        lambda of: of["Firm"](1),
        lambda of: of["Firm"](1) == of["Firm"](1, 0) != of["Firm"](2),
        lambda of: hash(of["Firm"](1)) == hash(of["Firm"](1)),
        lambda of: setattr(of["Firm"](1), "x", 2),
        lambda of: delattr(of["Firm"](1), "x"),
        lambda of: hasattr(of["Firm"], "y"),
        lambda of: of["Checked"](1),
        lambda of: of["Checked"]("1"),
        lambda of: of["Failure"](why="late").args,
        lambda of: of["Failure"]("late"),
        lambda of: of["Failure"]() == of["Failure"](),
        lambda of: of["Open"].__slots__,
        lambda of: of["Open"].__match_args__,
    ],
)
def test_what_stands_for_attrs_does_what_attrs_does(use: Callable[[Any], Any]) -> None:
    """Constructors, comparisons, texts and refusals are those of attrs."""
    real, ours = pairs()
    assert said(use, real) == said(use, ours)


def test_what_is_not_there_is_refused() -> None:
    """A switch, a field without annotation and a class that says super() are left to the real attrs."""
    now, _ = attributes.modules()
    with pytest.raises(attributes.Unknown):
        now.define(order=True)(type("Ordered", (), {}))
    with pytest.raises(attributes.Unknown):
        now.define(type("Bare", (), {"x": now.field()}))
    with pytest.raises(attributes.Unknown):

        @now.define  # type: ignore[misc, unused-ignore]
        class Derived:
            def __str__(self) -> str:
                return super().__str__()
