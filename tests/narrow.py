"""A wire between two servers that a test cuts, mends and makes slow.

    with wire_to(port) as wire:
        ...dial wire.port...
        wire.cut()                   connections end, and new ones are refused at once
        wire.mend(bytes_a_second)    connections are taken again; 0: as fast as they come

Not here: what crosses it.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Iterator
from typing import Final

STEP_S: Final = 0.05


class Narrow:
    """One port in front of another; every connection has a thread."""

    def __init__(self, beyond: int) -> None:
        self._beyond = beyond
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._ends: set[socket.socket] = set()
        self._is_cut = False
        self._rate = 0
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Ends what is connected; whoever dials hears the end of the connection at once."""
        with self._lock:
            self._is_cut = True
            for end in self._ends:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def mend(self, bytes_a_second: int = 0) -> None:
        """Lets connections through again, from the other side so many bytes a second; also while it is whole."""
        self._rate, self._is_cut = bytes_a_second, False

    def close(self) -> None:
        """The end."""
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(near,), daemon=True).start()

    def _carry(self, near: socket.socket) -> None:
        with near, contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._beyond), 20) as far:
            with self._lock:
                if self._is_cut:
                    return
                self._ends |= {near, far}
            try:
                while self._pass_on(near, far):
                    pass
            finally:
                with self._lock:
                    self._ends -= {near, far}

    def _pass_on(self, near: socket.socket, far: socket.socket) -> bool:
        for ready in select.select([near, far], [], [], 1)[0]:
            slow = self._rate and ready is far
            piece = ready.recv(max(int(self._rate * STEP_S), 1) if slow else 1 << 16)
            if not piece:
                return False
            (far if ready is near else near).sendall(piece)
            if slow:
                time.sleep(STEP_S)
        return True


@contextlib.contextmanager
def wire_to(port: int) -> Iterator[Narrow]:
    """A wire to a port of this machine."""
    made = Narrow(port)
    try:
        yield made
    finally:
        made.close()
