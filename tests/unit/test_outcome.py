"""What failed in the crowd is tried alone, test by test, and a test that nats-server failed by itself once more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.outcome import ONCE, TWICE, Failure, Recorded, recorded, tried_tests

ROOT = Path(__file__).resolve().parents[2]
PLAYED = """
import pytest
from tests import servers
from tests.rig import reference
def call(*kinds):
    for kind in kinds: servers.command(kind)
@pytest.fixture(scope="module")
def ours():
    call("leafd")
    server = servers.Server("leafd", None, "")
    server.runs = lambda: True  # until the module ends
    servers._started_here.append(server)
@pytest.fixture
def broken():
    call("nats-server")
    assert False
@pytest.fixture
def left():
    call("nats-server")
    yield
    assert False
def test_theirs(): call("nats-server"); assert False
def test_theirs_in_a_setup(broken): pass
def test_theirs_in_a_teardown(left): pass
def test_ours_first(): call("leafd", "nats-server"); assert False
def test_neither(): assert False
def test_theirs_again(): call("nats-server"); assert False
def test_passes(): call("nats-server")
def test_ours_runs(ours): call("nats-server"); assert False
def test_ours_still_runs(): call("nats-server"); assert False
def test_asked(ours):
    with reference.asked(servers.Server("nats-server", None, "")): assert False
def test_asked_ours(ours):
    with reference.asked(servers.Server("leafd", None, "")): assert False
def test_not_for_this_machine(): pytest.skip("no")
"""
THEIRS = {f"test_{name}" for name in ("theirs", "theirs_in_a_setup", "theirs_in_a_teardown", "theirs_again", "asked")}
BECAME = {
    "passed": {"test_passes"},
    "skipped": {"test_not_for_this_machine"},
    "error": {"test_theirs_in_a_setup", "test_theirs_in_a_teardown"},
    "failed": {
        *(
            f"test_{name}"
            for name in ("theirs", "ours_first", "neither", "theirs_again", "ours_runs", "ours_still_runs")
        ),
        *("test_asked", "test_asked_ours"),
    },
}


@pytest.mark.parametrize(
    ("place", "more", "theirs"),
    [
        ("tests/interop", "", THEIRS),
        ("tests/unit", "", {"test_asked"}),
        ("tests/interop", "from leafd.errors import UsageError", {"test_asked"}),
        ("tests/interop", "import leafd.errors", {"test_asked"}),
        ("tests/interop", "from tests.rig.planes import Unwilling", {"test_asked"}),
    ],
    ids=["interop", "unit", "with code of leafd", "with a module of leafd", "with code of leafd in the rig"],
)
def test_it_is_noted_which_tests_nats_server_failed_by_itself(
    place: str, more: str, theirs: set[str], tmp_path: Path
) -> None:
    """A leafd that was called in the test, or runs from before, takes part; so does its code in the test's file. A test
    that says whom it asks is believed."""
    folder = tmp_path / place
    folder.mkdir(parents=True)
    (folder / "test_it.py").write_text(f"{more}\n{PLAYED}")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", f"--record={tmp_path / 'record'}"]
    command += ["-c", os.devnull, f"--rootdir={tmp_path}", "-o", f"cache_dir={tmp_path / 'cache'}", str(folder)]
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment, check=False)
    record = recorded(tmp_path / "record")

    assert BECAME == {word: {name.partition("::")[2] for name in record.names(word)} for word in BECAME}, done.stdout
    assert theirs == {name.partition("::")[2] for name in record.theirs}


class Pytest:
    """In place of pytest: by name what each run of a test comes to; a star where nats-server failed by itself."""

    def __init__(self, comes_to: dict[str, str]) -> None:
        self._runs = {name: iter(words.split()) for name, words in comes_to.items()}
        self.ran: list[list[str]] = []

    def __call__(self, names: list[str]) -> Recorded:
        self.ran.append(names)
        words = {name: next(self._runs[name]) for name in names}
        became = {name: word.strip("*") for name, word in words.items()}
        return Recorded(became, {name for name, word in words.items() if word.endswith("*")})


@pytest.mark.parametrize(
    ("runs", "how"),
    [
        ("failed passed", ONCE),
        ("error passed", ONCE),
        ("error skipped", ONCE),
        ("failed* passed", ONCE),
        ("failed* failed* passed", TWICE),
        ("error* failed* passed", TWICE),
        ("failed failed passed", None),
        ("failed* failed passed", None),
        ("failed failed* passed", None),
        ("failed* failed* failed*", None),
        ("failed* failed* skipped", None),
        ("failed skipped", None),
        ("failed chosen", None),
        ("chosen passed", ONCE),
    ],
)
def test_a_failed_test_is_tried_alone(runs: str, how: str | None) -> None:
    """It passes then or has failed. If nats-server failed it by itself both times, it is tried once more."""
    pytest_run = Pytest({"a": runs})
    found = tried_tests(Failure([], "", 1, record=pytest_run(["a"])), pytest_run)
    assert (found.passed, found.failed, found.told) == ((1, 0, [(how, "a")]) if how else (0, 1, []))
    assert found.again == ([] if how else ["a"])
    assert len(pytest_run.ran) == (3 if runs.startswith(("failed* failed*", "error* failed*")) else 2)


def test_each_test_counts_by_itself() -> None:
    """One that fails again takes no other with it, and only what nats-server has failed is run a third time. Of the
    tests that had not run, those that pass count; none is told of, since none has failed."""
    runs = {"a": "failed failed", "b": "failed passed", "c": "failed* failed* passed", "d": "failed* failed* failed"}
    runs |= {"e": "passed", "f": "chosen passed", "g": "chosen failed*", "h": "chosen skipped"}
    pytest_run = Pytest(runs)
    failure = Failure([], "", 7, record=pytest_run(list(runs)), missing=["f", "g", "h"])
    found = tried_tests(failure, pytest_run)
    assert (found.passed, found.failed, found.told) == (3, 3, [(ONCE, "b"), (TWICE, "c")])
    assert found.again == ["a", "d", "g"]
    assert pytest_run.ran[1:] == [["a", "b", "c", "d", "f", "g", "h"], ["c", "d"]]
