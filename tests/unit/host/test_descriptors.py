"""How many connections memory and file descriptors allow."""

from __future__ import annotations

import resource

import pytest
from leafd.config.bind import load_text
from leafd.host.descriptors import LEAST, RESERVED, connections_for, warning
from leafd.host.memory import allowed_by, connections_wanted, memory_limit


def test_connections_follow_memory() -> None:
    """The default's 65,536 need memory for each; a number that is configured counts as it is."""

    def wanted(text: str, machine: int | None = None) -> int:
        server = load_text(text).server
        return connections_wanted(server, memory_limit(server, machine))

    assert 4096 == wanted("memory_limit: 32MB")
    assert 65536 == wanted("", 16 << 30)
    assert 50_000 == wanted("memory_limit: 32MB, max_connections: 50000")
    assert 0 == wanted("memory_limit: 32MB, max_connections: -1")


def test_connections_follow_from_the_descriptors() -> None:
    """What the rest of the process needs is set aside; the configuration's number counts where it is lower."""
    assert 1000 - RESERVED == connections_for(64 << 10, 1000)
    assert 100 == connections_for(100, 1000)
    assert 1000 - RESERVED == connections_for(0, 1000)
    assert LEAST == connections_for(64 << 10, RESERVED)


def test_the_bound_that_descriptors_do_not_suffice_for_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where memory_limit allows fewer connections than max_connections does, that is the number which counts."""
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (1000, 1000))
    server = load_text("memory_limit: 32MB").server
    at_most = allowed_by(server, 32 << 20)
    assert ("memory_limit", 4096) == at_most
    text = warning(at_most[1], at_most[0])
    assert "memory_limit allows 4096 connections, but 1000 file descriptors" in text
    assert f"enough for {1000 - RESERVED}" in text
    assert ("max_connections", 64 << 10) == allowed_by(server, 1 << 30)
    assert ("max_connections", 5000) == allowed_by(load_text("max_connections: 5000").server, 32 << 20)
    assert not warning(1000 - RESERVED, "memory_limit")
