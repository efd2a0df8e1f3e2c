"""Where a server keeps its streams, and how much it may keep."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from leafd.config.bind import load_text
from leafd.daemon.store import MemoryDirectory, make_directory, plane_limits, store_directory
from leafd.errors import StartError
from leafd.host.descriptors import connections_for


def test_memory_directory(tmp_path: Path) -> None:
    """What a killed process left behind goes; what a living one holds stays."""
    first = MemoryDirectory(tmp_path)
    (first.path / "data.mdb").write_bytes(b"x")
    stale = tmp_path / first.path.name.replace(first.path.name[-3:], "old")
    stale.mkdir()
    (stale / "data.mdb").write_bytes(b"x")
    second = MemoryDirectory(tmp_path)
    assert (True, False) == ((first.path / "data.mdb").exists(), stale.exists())
    assert first.path != second.path
    first.remove()
    second.remove()
    assert [] == list(tmp_path.iterdir())


def test_store_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The configuration decides, then systemd, then a temporary directory, which is told."""
    monkeypatch.setenv("STATE_DIRECTORY", "/var/lib/leafd")
    assert (Path("/a/jetstream"), False) == store_directory(load_text("jetstream { store_dir: /a }").server)
    assert (Path("/b/jetstream"), False) == store_directory(load_text("store_dir: /b\njetstream: enabled").server)
    assert (Path("/var/lib/leafd/jetstream"), False) == store_directory(load_text("jetstream: enabled").server)
    monkeypatch.delenv("STATE_DIRECTORY")
    expected = (Path(tempfile.gettempdir()) / "nats" / "jetstream", True)
    assert expected == store_directory(load_text("jetstream: enabled").server)
    make_directory(tmp_path / "x" / "y")
    (tmp_path / "file").touch()
    with pytest.raises(StartError, match="cannot be written"):
        make_directory(tmp_path / "file" / "z")


def test_a_full_disk_stops_no_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That the directory takes no new file for lack of room is no reason not to start; any other refusal is."""

    def refuse(code: int) -> Callable[[Path], None]:
        def touch(path: Path) -> None:
            raise OSError(code, os.strerror(code), str(path))

        return touch

    monkeypatch.setattr(Path, "touch", refuse(errno.ENOSPC))
    make_directory(tmp_path)
    monkeypatch.setattr(Path, "touch", refuse(errno.EROFS))
    with pytest.raises(StartError, match="cannot be written"):
        make_directory(tmp_path)


def test_plane_limits(tmp_path: Path) -> None:
    """Sizes come from the configuration, or from the machine; without sync_interval every ack waits for the disk."""
    limits = plane_limits(
        load_text("jetstream { max_file: 1GB, max_mem: 1MB, sync: '2s' }\nmax_conn: -1").server, tmp_path
    )
    assert (1 << 30, 1 << 20, 2 * 10**9, 1, connections_for(0)) == (
        limits.max_file_store,
        limits.max_memory_store,
        limits.sync_interval_ns,
        limits.jetstream,
        limits.max_connections,
    )
    for text in ("jetstream: enabled", "jetstream { sync_interval: always }"):
        assert 0 == plane_limits(load_text(text).server, tmp_path).sync_interval_ns
    assert plane_limits(load_text("jetstream: enabled").server, tmp_path).max_file_store > 0
    assert 0 == plane_limits(load_text("").server, None).jetstream


def test_negative_sizes_mean_the_default(tmp_path: Path) -> None:
    """max_memory_store and max_file_store below 0 are the machine's share, as in nats-server."""
    absent = plane_limits(load_text("jetstream: enabled").server, tmp_path)
    for text in ("max_memory_store: -1, max_file_store: -1", "max_mem: -2, max_file: -2"):
        negative = plane_limits(load_text(f"jetstream {{ {text} }}").server, tmp_path)
        assert absent.max_memory_store == negative.max_memory_store
        assert 0.9 < negative.max_file_store / absent.max_file_store < 1.1  # others write to this disk meanwhile


def test_the_default_counts_what_the_store_holds(tmp_path: Path) -> None:
    """With max_file_store unset a restart gives the same limit, however much the store has grown meanwhile."""
    before = plane_limits(load_text("jetstream: enabled").server, tmp_path).max_file_store
    with (tmp_path / "data.mdb").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 256 << 20)
    after = plane_limits(load_text("jetstream: enabled").server, tmp_path).max_file_store
    assert abs(after - before) < 100 << 20  # others write to this disk meanwhile
