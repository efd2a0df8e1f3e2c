"""The command line itself: what its words are, what a reload would change, how little a command loads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from leafd.cli import COMMANDS, COMPLETING
from leafd.cli.app import Hands, main
from leafd.cli.store import Place

OLD = 'port: 4222\nmax_payload: 1MB\njetstream { domain: a, store_dir: "/tmp/a" }\nauthorization { token: hidden }\n'


def check(*words: object) -> int:
    """`leafd check` of files that have no warnings."""
    return main(("check", *map(str, words)), Hands(lambda _: 0, lambda _: (), lambda _: Place(Path())))


@pytest.fixture
def old(tmp_path: Path) -> Path:
    (tmp_path / "old.conf").write_text(OLD)
    return tmp_path / "old.conf"


def changed(old: Path, was: str, now: str) -> Path:
    text = OLD.replace(was, now)
    assert text != OLD
    new = old.with_name("new.conf")
    new.write_text(text)
    return new


def test_run_is_the_explicit_form_of_serving_with_all_its_flags() -> None:
    """`leafd run -p 4222 -js`: the words behind it are nats-server's and reach the daemon as they are."""
    heard: list[str] = []

    def run(flags: Sequence[str]) -> int:
        heard.extend(flags)
        return 7

    assert main(("run", "-p", "4222", "-js", "--help"), Hands(run, lambda _: (), lambda _: Place(Path()))) == 7
    assert heard == ["-p", "4222", "-js", "--help"]


@pytest.mark.parametrize("words", [("-v",), ("run", "-v")])
def test_with_and_without_run_the_same_is_done(words: tuple[str, ...]) -> None:
    """Also where the flag is answered and nothing is served."""
    done = subprocess.run([sys.executable, "-m", "leafd", *words], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.startswith("leafd: v")) == (0, True)


def test_a_shell_is_offered_each_command() -> None:
    """What completion offers for an empty word are the commands, run among them."""
    asked = {COMPLETING: "bash_complete", "COMP_WORDS": "leafd ", "COMP_CWORD": "1"}
    line = [sys.executable, "-m", "leafd"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, env={**os.environ, **asked})
    assert sorted(done.stdout.split()) == sorted(f"plain,{command}" for command in COMMANDS)


def test_check_says_what_a_reload_takes_up_and_what_takes_a_restart(
    old: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A key that is live: 0. One that makes the reload refused: 3, and the line where it stands."""
    new = changed(old, "max_payload: 1MB", "max_payload: 2MB")
    assert check(new, "--against", old) == 0
    shown = capsys.readouterr().out
    assert "max_payload" in shown
    assert "a reload takes it up" in shown
    new = changed(old, "port: 4222", "port: 4223")
    assert check(new, "--against", old, "--json") == 3
    assert json.loads(capsys.readouterr().out)["changes"] == [
        {"key": "port", "place": f"{new}:1:1", "takes": "restart", "before": "4222", "after": "4223"}
    ]
    assert check(new, "--against", old) == 3
    assert "! a reload would be refused as a whole" in capsys.readouterr().out


def test_check_names_a_block_within_a_block_and_shows_no_secret(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A key within jetstream by its path; of what may hold a secret only that it has changed."""
    assert check(changed(old, "domain: a", "domain: b"), "--against", old, "--json") == 3
    (change,) = json.loads(capsys.readouterr().out)["changes"]
    assert (change["key"], change["before"], change["after"]) == ("jetstream.domain", "'a'", "'b'")
    assert check(changed(old, "token: hidden", "token: secret"), "--against", old) == 0
    shown = capsys.readouterr().out
    assert ("authorization" in shown, "hidden" in shown, "secret" in shown) == (True, False, False)


def test_the_same_file_changes_nothing(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And says so."""
    assert check(old, "--against", old) == 0
    assert f"nothing differs from {old}" in capsys.readouterr().out


def test_a_command_loads_what_it_needs_and_no_more() -> None:
    """Its help needs neither tables, nor HTTP, nor the configuration's schema: that is what makes it quick."""
    code = (
        "import sys; sys.argv = ['leafd', 'status', '--help']; from leafd.__main__ import main; main(); "
        "print({'rich.console', 'http.client', 'ssl', 'leafd.config.bind', 'leafd._native', 'trio'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "set()", done
