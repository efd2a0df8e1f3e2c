"""A reload of a running server: its file is written, the server is told, and its log says what became of it.

    reloaded(server, text)               with that text in the file, or the file as it is
    exchanged(server, before, after)     with one text of the file in the place of another

Not here: what a reload changes, as tests of it know.
"""

from __future__ import annotations

import signal
from typing import Final

from tests.rig.waiting import PATIENCE_S, eventually
from tests.servers import Server

RELOADED: Final = "Reloaded server configuration"
REFUSED: Final = "Failed to reload server configuration"


def reloaded(server: Server, text: str | None = None, said: str = RELOADED, seconds: float = PATIENCE_S) -> str:
    """The log from the reload on, once it says that."""
    if text is not None:
        (server.directory / "server.conf").write_text(text)
    seen = len(server.log)
    assert server.process is not None
    server.process.send_signal(signal.SIGHUP)
    eventually(lambda: said in server.log[seen:], lambda: server.log[seen:][-4000:], seconds=seconds)
    return server.log[seen:]


def exchanged(server: Server, before: str, after: str, said: str = RELOADED) -> str:
    """The log from the reload on, once it says that."""
    text = (server.directory / "server.conf").read_text()
    assert before in text
    return reloaded(server, text.replace(before, after), said)
