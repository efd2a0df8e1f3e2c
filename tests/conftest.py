"""Rules of all tests: they stay on this machine, and can be dealt out to several processes, test by test
(--share) or file by file as each process becomes free (--deal). A test that hangs ends its process, with the stack of
each thread, and --record says what was done until then. What a test leaves open is its own fault, and not that of the
test during which Python's collector finds it.

Nothing here starts anything; tests/servers.py does that when a test asks.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import itertools
import os
import random
import sys
import warnings
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests import servers
from tests.rig import reference
from tests.rig.template import Template

MINUTES: Final = 5
"""A test that takes longer hangs, on any machine, unless it is marked with other minutes."""
STDERR: Final = pytest.StashKey[int]()
FAILED: Final = pytest.StashKey[bool]()
LEFT: Final = pytest.StashKey[list[str]]()
THEIRS: Final = ("failed", servers.REFERENCE)
"""A report's mark: nats-server alone took part in what failed."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", default="", metavar="SEED", help="files, and the tests in each, in the seed's order")
    parser.addoption("--share", default="0/1", metavar="I/N", help="every Nth of the tests chosen, from number I (0..)")
    parser.addoption("--deal", default="", metavar="FOLDER", help="of the files those that no other process has taken")
    parser.addoption("--strict-left", action="store_true", help="what a test leaves open fails it; else it is named")
    parser.addoption("--record", default="", metavar="FILE", help="gets a line for each test to do and each one done")
    parser.addoption("--cost", default="", metavar="FILE", help="gets a line for each test: what it took, see Cost")


def pytest_configure(config: pytest.Config) -> None:
    """Keeps the error output as it is before a test's own is captured."""
    config.stash[STDERR] = os.dup(2)
    config.stash[LEFT] = []
    if path := config.getoption("--record"):
        config.pluginmanager.register(Record(Path(path)), "record")
    if path := config.getoption("--cost"):
        config.pluginmanager.register(Cost(Path(path)), "cost")


class Record:
    """The file that tells what became of each test, also where the process did not come to its end. A line "theirs"
    goes before that of a failed test in which nats-server alone took part."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1)
        self._became = ""
        self._theirs = True  # as far as it failed

    def chosen(self, items: list[pytest.Item]) -> None:
        for item in items:
            self._file.write(f"chosen {item.nodeid}\n")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called with a test's setup, call (unless the setup failed) and teardown."""
        if report.when == "setup":
            self._theirs = True
        if report.when == "setup" or (not report.passed and self._became != "failed"):
            self._became = "error" if report.failed and report.when != "call" else report.outcome
        if report.failed:
            self._theirs &= THEIRS in report.user_properties
        if report.when == "teardown":
            theirs = f"theirs {report.nodeid}\n" if self._became in ("failed", "error") and self._theirs else ""
            self._file.write(f"{theirs}{self._became} {report.nodeid}\n")

    def pytest_unconfigure(self) -> None:
        self._file.close()


class Cost:
    """The file that tells what each test took, its fixtures included: seconds of this process and of those that have
    ended meanwhile on the processor, seconds of the clock. What several tests share counts where it begins, or ends."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        before = (*os.times(), Template.seconds)
        try:
            return (yield)
        finally:
            took = [after - one for after, one in zip((*os.times(), Template.seconds), before, strict=True)]
            line = f"{took[0] + took[1]:.2f} {took[2] + took[3] + took[5]:.2f} {took[4]:.2f} {item.nodeid}\n"
            with self._path.open("a") as file:
                file.write(line)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Ends the process where the test hangs, also in C and in the setup of what several tests share."""
    mark = item.get_closest_marker("minutes")
    minutes = mark.args[0] if mark else MINUTES
    servers.forget_called()
    faulthandler.dump_traceback_later(60 * minutes, exit=True, file=item.config.stash[STDERR])
    forks = servers.forks_from(None) if item.get_closest_marker("anew") else contextlib.nullcontext()
    try:
        with forks:
            return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()
        if item.stash.get(FAILED, False):
            forget_failed()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Notes whose failure it is while it is known which servers have run."""
    report = yield
    module = getattr(item, "module", None)
    # (user_properties are the item's own list, which every phase's report has: this one goes into this report alone.)
    if report.failed and call.excinfo and module and reference.alone(item.nodeid, module, call.excinfo.value):
        report.user_properties = [*report.user_properties, THEIRS]
    return report


def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    node.stash[FAILED] = True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Looks for what a test has left as soon as its fixtures are gone. What stays behind its file is not looked at
    again: a collection takes a millisecond so, and not a tenth of a second."""
    result = yield
    if not item.stash.get(FAILED, False):  # else forget_failed() lets go of it
        found_left(item)
    if nextitem is None or nextitem.path != item.path:
        gc.freeze()
    return result


def pytest_sessionfinish() -> None:
    """Lets the collector see everything again: hypothesis, which may be loaded only now, asks it who holds what."""
    gc.unfreeze()


def found_left(item: pytest.Item) -> None:
    """Collects what nothing holds any more. What complains of that, as an open socket does, is named at the end of the
    run, or fails the test (--strict-left), unless the warning filters of the test's file take it."""
    found = []

    def note(complaint: sys.UnraisableHookArgs) -> None:
        told = complaint.err_msg or "exception ignored in"
        found.append(f"{complaint.exc_value!r} ({told} {complaint.object!r})")

    before, sys.unraisablehook = sys.unraisablehook, note
    try:
        gc.collect()
    finally:
        sys.unraisablehook = before
    if not found:
        return
    told = f"left open by {item.nodeid}: {'; '.join(found)}"
    if item.config.getoption("--strict-left"):
        warnings.warn(pytest.PytestUnraisableExceptionWarning(told), stacklevel=1)
    else:
        item.config.stash[LEFT].append(told)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Names what was left open, a line a test."""
    for told in config.stash[LEFT]:
        terminalreporter.write_line(" ".join(told.split()))


def forget_failed() -> None:
    """Lets go of what a failed test had open: found later, it would be taken for a fault of the test that runs then."""
    for name in ("last_type", "last_value", "last_traceback"):
        if hasattr(sys, name):
            delattr(sys, name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def shuffled(items: list[pytest.Item], seed: str) -> list[pytest.Item]:
    """The same tests in an order that follows from the seed. A file's stay together, since they share servers."""
    chance = random.Random(seed)
    files: dict[object, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    order = list(files.values())
    chance.shuffle(order)
    for some in order:
        chance.shuffle(some)
    return [item for some in order for item in some]


@pytest.hookimpl(trylast=True)  # after -k and -m have chosen
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts the tests in another order, if that is asked for, and deals them out: all shares I/N of one N together are
    every test once."""
    number, shares = map(int, config.getoption("--share").split("/"))
    if not 0 <= number < shares:
        raise pytest.UsageError(f"--share={number}/{shares}: shares are 0/{shares} to {shares - 1}/{shares}")
    if seed := config.getoption("--shuffle"):
        items[:] = shuffled(items, seed)
    config.hook.pytest_deselected(items=[item for index, item in enumerate(items) if index % shares != number])
    items[:] = items[number::shares]


def one_name(file: Path) -> str:
    """A file's path as a name in a folder."""
    return str(file).replace(os.sep, "+")


def taken(folder: Path, file: Path) -> bool:
    """Whether the file is this process's: the first to ask has it. A file's tests stay together, since they share
    servers."""
    try:
        (folder / one_name(file)).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """With --deal: the files in their order, those apart that another process of the same folder has taken."""
    folder = session.config.getoption("--deal")
    record = session.config.pluginmanager.get_plugin("record")
    gc.freeze()  # what there is before the first test was left by none
    if not folder or session.config.option.collectonly or session.testsfailed:
        if record:
            record.chosen(session.items)
        return None  # pytest's own loop, which also says what could not be collected
    files = [(file, list(items)) for file, items in itertools.groupby(session.items, lambda item: item.path)]
    Path(folder, "every").write_text("".join(f"{one_name(file)}\n" for file, _ in files))
    for file, some in files:
        if not taken(Path(folder), file):
            continue
        if record:
            record.chosen(some)
        for item, following in zip(some, [*some[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
    return True


@pytest.fixture(autouse=True, scope="session")
def template() -> Iterator[None]:
    """All leafds of this process are forked from one, but for a run whose servers are all to be started as on a box."""
    if os.environ.get("LEAFD_TEST_ANEW"):
        yield
        return
    template = Template()
    with servers.forks_from(template):
        yield
    template.close()


@pytest.fixture(autouse=True, scope="session")
def loopback_only() -> None:
    """No test talks to another machine: proxies of the environment are not for us."""
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        os.environ.pop(name, None)
        os.environ.pop(name.upper(), None)
