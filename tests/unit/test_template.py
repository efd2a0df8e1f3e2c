"""A process that is forked from the template is what it would be as a program of its own."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import servers
from tests.rig.template import Forked, Template
from tests.rig.waiting import eventually

CONFIGURATION = 'listen: "127.0.0.1:{port}"\n'


@pytest.fixture(scope="module", autouse=True)
def template() -> Iterator[Template]:
    one = Template()
    with servers.forks_from(one):
        yield one
    one.close()


def seen(look: Callable[[], str]) -> str:
    """What is seen there; nothing, if it has gone since it was listed."""
    try:
        return look()
    except OSError:
        return ""


def leads_to(descriptor: Path) -> str:
    return seen(lambda: os.readlink(descriptor).split(":")[0])


def inherited(server: servers.Server) -> list[object]:
    """What a process has of who started it, descriptors and threads of its own included."""
    assert server.process is not None
    here = Path(f"/proc/{server.process.pid}")
    words = [line for line in (here / "status").read_text().splitlines() if line.startswith(("Sig", "Shd", "Umask"))]
    opened = sorted(leads_to(one).replace(str(server.directory), "") for one in (here / "fd").iterdir())
    threads = sorted(seen((one / "comm").read_text) for one in (here / "task").iterdir())
    return [words, opened, threads, (here / "limits").read_text(), os.readlink(here / "cwd") == str(server.directory)]


def test_a_forked_server_has_what_a_started_one_has() -> None:
    """Signals that it takes, descriptors, threads, limits, its directory."""
    with servers.running(servers.LEAFD, CONFIGURATION) as forked:
        assert isinstance(forked.process, Forked)
        with servers.forks_from(None), servers.running(servers.LEAFD, CONFIGURATION) as started:
            assert isinstance(started.process, subprocess.Popen)
            # (The one who asked whether it speaks is gone a moment later.)
            eventually(lambda: inherited(started) == inherited(forked), lambda: (inherited(started), inherited(forked)))


def test_how_it_ended_is_told() -> None:
    """Its exit code, or the signal that ended it; to who asks again, too."""
    with servers.running(servers.LEAFD, CONFIGURATION) as server:
        process = server.process
        assert isinstance(process, Forked)
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        server.kill()
        assert (-signal.SIGKILL, -signal.SIGKILL) == (process.wait(), process.poll())
        process.terminate()  # nobody is there any more
        server.start()
        before = Template.seconds
        assert 0 == server.stop()
        assert Template.seconds > before  # what it took is known at once


@pytest.mark.parametrize(
    "words", [("--version",), ("-t", "-c", "/nowhere"), ("status", "--url", "x"), ("streams", "-x")]
)
def test_a_command_says_what_it_says_otherwise(words: tuple[str, ...]) -> None:
    """Exit code, output and errors."""
    forked = servers.leafd(*words)
    with servers.forks_from(None):
        assert vars(servers.leafd(*words)) == vars(forked)


def test_who_would_find_something_else_is_a_program_of_its_own(
    template: Template, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another environment, or another limit."""
    assert servers.leafd("--version").returncode == 0
    with open(os.devnull, "r+b") as nothing:
        monkeypatch.setenv("LEAFD_SOMETHING", "else")
        assert template.start(["--version"], Path("/"), [nothing] * 3) is None
        monkeypatch.undo()
        soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (1 if soft == 0 else 0, hard))
        try:
            assert template.start(["--version"], Path("/"), [nothing] * 3) is None
        finally:
            resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))
        process = template.start(["--version"], Path("/"), [nothing] * 3)
        assert process is not None
        assert 0 == process.wait(60)


def test_a_template_that_is_gone_is_followed_by_another() -> None:
    """What is started meanwhile is a program of its own."""
    one = Template()
    with servers.forks_from(one), open(os.devnull, "r+b") as nothing:
        assert servers.leafd("--version").returncode == 0
        assert one._process is not None
        one._process.kill()
        one._process.wait()
        assert servers.leafd("--version").stdout.startswith("leafd: v")
        process = one.start(["--version"], Path("/"), [nothing] * 3)
        assert process is not None
        assert 0 == process.wait(60)
    one.close()
