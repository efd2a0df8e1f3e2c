"""Signals that a command line sends to a running daemon."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from leafd.errors import LeafdError, UsageError
from leafd.host.kill import send


def test_signal_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands stand for the signals that they stand for at nats-server."""
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr("os.kill", lambda pid, number: sent.append((pid, number)))
    (tmp_path / "pid").write_text("77\n")
    for command in ("stop", "quit", "term", "reload", "reopen", "ldm"):
        send(f"{command}={tmp_path / 'pid'}")
    expected = [signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2]
    assert [(77, number) for number in expected] == sent
    with pytest.raises(UsageError):
        send("jump=1")
    with pytest.raises(LeafdError, match="holds no process id"):
        (tmp_path / "bad").write_text("x")
        send(f"quit={tmp_path / 'bad'}")


def test_signal_finds_the_only_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a pid the one running daemon is meant; none and several are errors."""
    sent: list[int] = []
    monkeypatch.setattr("os.kill", lambda pid, number: sent.append(pid))

    def process(pid: int, *words: str) -> None:
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "cmdline").write_bytes(b"\0".join(word.encode() for word in words) + b"\0")

    process(5, "vi", "leafd.conf")
    with pytest.raises(LeafdError, match="no leafd server running"):
        send("reload", tmp_path)
    process(6, "/usr/bin/python3", "/usr/bin/leafd", "-c", "x")
    send("reload", tmp_path)
    assert [6] == sent
    process(7, "/usr/bin/python3", "-m", "leafd")
    with pytest.raises(LeafdError, match=r"\(6, 7\)"):
        send("reload", tmp_path)
