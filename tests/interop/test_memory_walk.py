"""Each table that a peer can fill is filled, at the smallest limit: the daemon stays below it, a login stays quick, and
others go on. The rows are tests/memory_table.py's, what is done memory_attacks.py's."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Final

import pytest

from tests import servers
from tests.interop.memory_attacks import ATTACKS, CONFIGURATION, LIMIT, MB, PREPARED, login
from tests.memory_table import PLAYED, Row

pytestmark = pytest.mark.anew  # its memory is looked at

SLACK: Final = 4 * MB
"""Pages that are free again, which the allocator has not given back yet."""
LOGIN_S: Final = 1.0
"""Also on a machine whose processors have other work."""


class Others:
    """Somebody who logs in, publishes and hears it, again and again, while the daemon's private memory is looked at."""

    def __init__(self, server: servers.Server) -> None:
        self.took: list[float] = []
        self.base = self.most = server.memory_bytes("RssAnon", "RssShmem")
        self._server, self._over = server, threading.Event()
        self._threads = [threading.Thread(target=one) for one in (self._watch, self._log_in)]

    def _watch(self) -> None:
        while not self._over.is_set():
            self.most = max(self.most, self._server.memory_bytes("RssAnon", "RssShmem"))
            time.sleep(0.01)

    def _log_in(self) -> None:
        while not self._over.is_set():
            began = time.monotonic()
            with login(self._server, "c") as one:
                self.took.append(time.monotonic() - began)
                one.sendall(b"SUB own 1\r\nPUB own 2\r\nhi\r\n")
                assert b"MSG own 1 2\r\nhi\r\n" == one.recv(100)
            time.sleep(0.03)

    def __enter__(self) -> Others:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()


@pytest.mark.parametrize("row", PLAYED, ids=[row.name for row in PLAYED])
def test_what_a_peer_can_fill_has_a_bound(row: Row) -> None:
    """The row's table, filled as far as it goes."""
    with servers.running(servers.LEAFD, CONFIGURATION) as server:
        login(server).close()  # what the first login loads is no attack's
        with contextlib.ExitStack() as stack:
            if row.name in PREPARED:
                PREPARED[row.name](server, stack)
            with Others(server) as others:
                ATTACKS[row.name](server, stack)
        slow = sorted(others.took)[-3:]
        print(f"{row.name}: {(others.most - others.base) / MB:.1f} MB more, logins of {slow} s")
        assert others.most - others.base < LIMIT + SLACK
        assert len(others.took) >= 3
        assert slow[0] < LOGIN_S


def test_no_attack_is_left_over() -> None:
    """An attack without a row would never be played."""
    assert sorted(row.name for row in PLAYED) == sorted(ATTACKS)
