"""The suite plays everything that it has, each thing once: the ways of a transcript, the shares of a part."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests import conftest, outcome
from tests.wire import player

ROOT = Path(__file__).resolve().parents[2]
PLAIN = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
"""For a pytest that starts in half of the time."""


def transcript(tmp_path: Path, remark: str) -> player.Transcript:
    path = tmp_path / "some.wire"
    path.write_text(f"# A promise.\n{remark}\nA> PING\nA< PONG\n")
    return player.read(path)


@pytest.mark.parametrize(
    ("remark", "ways"),
    [
        ("# (no remark)", ("lines", "joined", "split")),
        ("# ways: lines joined", ("lines", "joined")),
        ("# ways: lines (it is about time, and split it would take too long)", ("lines",)),
    ],
)
def test_ways_are_played_and_the_reason_is_not(tmp_path: Path, remark: str, ways: tuple[str, ...]) -> None:
    """A transcript is played once in each way that stands before the reason, and in all without a remark."""
    assert ways == transcript(tmp_path, remark).ways


@pytest.mark.parametrize("remark", ["# ways: lines slowly", "# ways: lines lines", "# ways:", "# ways: (no reason)"])
def test_unknown_ways_are_an_error(tmp_path: Path, remark: str) -> None:
    """A way that does not exist, one that is named twice, or none at all fails with the place in the transcript."""
    with pytest.raises(AssertionError, match=r"some\.wire:2: "):
        transcript(tmp_path, remark)


def collected(*arguments: str) -> list[str]:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", __file__, "-k", "ways", *arguments]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, env=PLAIN).stdout
    return [line for line in output.splitlines() if "::" in line]


def test_shares_are_every_test_once() -> None:
    """The shares that tests/run deals out to its processes are together the tests that were chosen, each once."""
    everything = collected()
    shares = [collected(f"--share={number}/2") for number in range(2)]

    assert len(everything) > 2
    assert sorted(everything) == sorted(shares[0] + shares[1])
    assert all(shares)


def test_another_order_has_every_test_once_and_is_the_seed_s() -> None:
    """The same seed gives the same order, another one another order, and shares are dealt out of it."""
    everything, first, again, other = (
        collected(*words) for words in ([], ["--shuffle=1"], ["--shuffle=1"], ["--shuffle=2"])
    )
    assert sorted(everything) == sorted(first) == sorted(other)
    assert (first == again, first == other) == (True, False)
    assert first[::2] == collected("--shuffle=1", "--share=0/2")


def test_files_that_are_dealt_out_are_every_test_once(tmp_path: Path) -> None:
    """Each process of tests/run takes the next file that no other has taken, and all tests of that file."""
    for name in "abcdef":
        text = "import pytest\n@pytest.mark.parametrize('n', range(3))\ndef test_it(n, loopback_only): pass\n"
        (tmp_path / f"test_{name}.py").write_text(text)
    (tmp_path / "taken").mkdir()
    assert conftest.taken(tmp_path / "taken", tmp_path / "test_c.py")
    command = [sys.executable, "-m", "pytest", "-rA", "-q", "-p", "tests.conftest", f"--deal={tmp_path / 'taken'}"]
    command += ["-c", os.devnull, "-o", f"cache_dir={tmp_path / 'cache'}", str(tmp_path)]
    running = [subprocess.Popen(command, cwd=ROOT, env=PLAIN, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate()[0] for process in running]

    found = re.findall(r"^PASSED \S*(test_\w\.py::\S+)", "".join(said), re.MULTILINE)
    assert sorted(found) == [f"test_{name}.py::test_it[{number}]" for name in "abdef" for number in range(3)]


HANGS = """
import time, pytest
def test_one(loopback_only): pass
def test_two(): assert False
@pytest.mark.minutes(0.005)
def test_three(): time.sleep(60)
def test_four(): pass
"""


def test_a_test_that_hangs_ends_its_process_and_what_was_done_is_known(
    suite: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It and the one that failed count as failed, and are run once more with those that did not run."""
    (tmp_path / "test_a.py").write_text(HANGS)
    record = tmp_path / "record"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", f"--record={record}", str(tmp_path)]
    command.append(f"--cost={tmp_path / 'cost'}")
    command += ["-c", os.devnull, "-o", f"cache_dir={tmp_path / 'cache'}"]
    done = subprocess.run(command, cwd=ROOT, env=PLAIN, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    assert ("", 1) == (suite.closing(done.stdout), done.returncode)
    assert "in test_three" in done.stdout
    costs = [line.split() for line in (tmp_path / "cost").read_text().splitlines()]
    assert [["test_one", True], ["test_two", True]] == [
        [name.partition("::")[2], min(map(float, took)) >= 0] for *took, name in costs
    ]
    suite.PART.set(suite.Part("unit"))
    assert suite.Result(1, 3) == suite.broken_down(["pytest"], outcome.recorded(record), done.stdout)
    (failure,) = suite.PART.get().failures
    assert [["test_two", "test_three"], ["test_four"]] == [
        [name.partition("::")[2] for name in names] for names in (failure.tests(), failure.missing)
    ]
    assert "1 tests did not run" in capsys.readouterr().out


LEAVES = """
import gc, socket, pytest
def test_one():
    one = socket.socket()
    ring = [one]
    ring.append(ring)
    assert False
def test_two(): gc.collect()
"""


def test_what_a_failed_test_had_open_fails_no_other(tmp_path: Path) -> None:
    """A socket that nobody closes is a fault of the test that opened it, whenever it is found."""
    (tmp_path / "test_a.py").write_text(LEAVES)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-W", "error", str(tmp_path)]
    command += ["-c", os.devnull, "-o", f"cache_dir={tmp_path / 'cache'}"]
    done = subprocess.run(command, cwd=ROOT, env=PLAIN, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert "1 failed, 1 passed" in done.stdout, done.stdout


LEFT = """
import socket, pytest
def left():
    ring = [socket.socket()]
    ring.append(ring)
@pytest.fixture(scope="module")
def lazy():
    yield
    left()
def test_one(): left()
def test_two(): pass
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_three(): left()
def test_four(lazy): pass
"""


@pytest.mark.parametrize("strict", [True, False])
def test_what_a_test_leaves_open_is_said_of_it(strict: bool, tmp_path: Path) -> None:
    """It is found when the test's fixtures are gone, also those of its file, and named; the file may say that it is
    known. The test that comes next, of whichever file, has nothing of it. A strict run takes it for an error."""
    for name in "ab":
        (tmp_path / f"test_{name}.py").write_text(LEFT)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-W", "error", str(tmp_path)]
    command += ["-c", os.devnull, "-o", f"cache_dir={tmp_path / 'cache'}", "-ra", *["--strict-left"][: int(strict)]]
    done = subprocess.run(command, cwd=ROOT, env=PLAIN, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    leavers = [f"test_{file}.py::test_{test}" for file in "ab" for test in ("one", "four")]
    said = r"left open by \S*(test_\w\.py::\w+): ResourceWarning.*unclosed <socket"
    beginning = r"^E .*" if strict else "^"
    assert leavers == re.findall(beginning + said, done.stdout, re.MULTILINE), done.stdout
    assert leavers[: 4 * strict] == re.findall(r"^ERROR \S*(test_\w\.py::\w+)", done.stdout, re.MULTILINE)
    assert ("8 passed, 4 errors" if strict else "8 passed in") in done.stdout


@pytest.fixture(scope="module")
def suite() -> ModuleType:
    """tests/run itself."""
    loader = importlib.machinery.SourceFileLoader("suite_of_tests", str(ROOT / "tests" / "run"))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    made = sys.modules[loader.name] = importlib.util.module_from_spec(spec)
    loader.exec_module(made)
    return made


def test_a_quick_run_is_not_part_of_everything(suite: ModuleType) -> None:
    """Its parts exist; what it runs is in the part "unit" as well, and not twice in a whole run."""
    assert set(suite.QUICK) <= set(suite.PARTS)
    assert "quick" not in suite.usual([])
    assert suite.usual(["--quick"]) == list(suite.QUICK)


@pytest.mark.parametrize(("nightly", "passed", "failed"), [(False, 9, 0), (True, 7, 2)])
def test_what_passes_only_when_alone_is_named_and_fails_a_nightly_run(
    nightly: bool, passed: int, failed: int, suite: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    part = suite.Part("unit", result=suite.Result(9, 0))
    part.repeated = [(outcome.ONCE, "tests/unit/test_a.py::test_one[x - y]"), (outcome.TWICE, "tests/b.py::test_two")]
    part.left = ["left open by a.py::b: a socket"]
    result = suite.settled([part], nightly=nightly)
    assert (passed, failed) == (result.passed, result.failed)
    lines = capsys.readouterr().out.splitlines()
    assert [*part.left, 3] == [lines.pop(0), 1 + len(lines)]
    assert [lines[0].startswith(outcome.ONCE), lines[1].startswith(outcome.TWICE)] == [True, True]
    assert lines[1].endswith(": tests/b.py::test_two")


PROJECT = """
project('some', 'c')
foreach name : ['test_steady', 'test_unsteady', 'test_broken']
  test(name, executable(name, 'some.c', c_args: '-D' + name))
endforeach
"""
SOME_C = """
#include <stdio.h>
#include <stdlib.h>
int main(void) {
#ifdef test_steady
    puts("ok      a promise\\n1 passed, 0 failed");
    return 0;
#else
    const char *seen = getenv("SEEN");
    FILE *file = fopen(seen, "r");
    puts("ok      a promise");
    if (file != NULL) {
        puts("ok      another one\\n2 passed, 0 failed");
        return 0;
    }
#ifdef test_broken
    fputs("SUMMARY: ThreadSanitizer: data race some.c:1 in main\\n", stderr);
    abort();
#endif
    puts("FAILED  another one\\n1 passed, 1 failed");
    return 1;
#endif
}
"""


@pytest.mark.parametrize("later", [True, False])
def test_a_c_test_that_failed_is_run_once_more_alone(
    later: bool, suite: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It passes if all its promises are kept then, and is named with what went wrong at first; else it has failed, as
    has one that a sanitizer has complained of."""
    (tmp_path / "meson.build").write_text(PROJECT)
    (tmp_path / "some.c").write_text(SOME_C)
    folder, seen = tmp_path / "build", tmp_path / "seen"
    subprocess.run(["meson", "setup", folder, tmp_path], check=True, stdout=subprocess.DEVNULL, env=os.environ)
    subprocess.run(["ninja", "-C", folder], check=True, stdout=subprocess.DEVNULL)
    part = suite.Part("native")
    suite.PART.set(part)
    part.result = suite.c_tests(folder, SEEN=str(seen))
    assert suite.Result(2, 2) == part.result
    if later:
        seen.touch()
    suite.repeat([part])
    told = [(outcome.ONCE, "test_unsteady: another one")]
    became = (suite.Result(3, 1), told) if later else (suite.Result(2, 2), [])
    assert became == (part.result, part.repeated)
    suite.tell(part)
    shown = capsys.readouterr().out.partition("=== native: 1 failed")[2]
    assert "FAILED  another one" in shown
    assert "ThreadSanitizer: data race" in shown
