"""Every transcript of this folder, in every way of sending, against leafd and against the reference server.

Against the reference it proves the transcript; against leafd it proves leafd. One server a configuration is kept
running; what streams a transcript leaves behind are removed, so each starts from nothing.
"""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator

import pytest

from tests import servers
from tests.wire import player

TRANSCRIPTS = sorted(player.HERE.glob("*/*.wire"))


class Farm:
    """One running server for each kind and configuration, started when first wanted."""

    def __init__(self) -> None:
        self.stack = contextlib.ExitStack()
        self.running: dict[tuple[str, str], servers.Server] = {}

    def server(self, kind: str, transcript: player.Transcript) -> servers.Server:
        key = (kind, transcript.configuration)
        if key not in self.running:
            text = player.configuration_text(transcript)
            self.running[key] = self.stack.enter_context(servers.running(kind, text))
        return self.running[key]

    def clean(self, kind: str, transcript: player.Transcript) -> None:
        """Leaves nothing of the transcript behind.

        The reference gets a new server instead: it deletes streams' files in the background, and a stream that is made
        anew under the same name before that is done finds the old messages.
        """
        if not transcript.configuration.startswith("jetstream"):
            return
        if kind == servers.REFERENCE:
            self.running.pop((kind, transcript.configuration)).kill()
        else:
            remove_streams(self.running[kind, transcript.configuration].port)


@pytest.fixture(scope="module")
def farm() -> Iterator[Farm]:
    made = Farm()
    with made.stack:
        yield made


def remove_streams(port: int) -> None:
    """Deletes all streams of the default account, speaking the protocol by hand."""
    with socket.create_connection(("127.0.0.1", port), 5) as connection, connection.makefile("rwb") as file:

        def request(subject: str) -> dict[str, object]:
            file.write(f"PUB {subject} reply 0\r\n\r\n".encode())
            file.flush()
            while not (line := file.readline()).startswith((b"MSG", b"HMSG")):
                assert line, "the server closed the connection"
            return dict(json.loads(file.read(int(line.split()[-1])) or b"{}"))

        file.write(b'CONNECT {"verbose":false,"pedantic":false}\r\nSUB reply 1\r\n')
        names = request("$JS.API.STREAM.NAMES").get("streams") or []
        assert isinstance(names, list)
        for name in names:
            request(f"$JS.API.STREAM.DELETE.{name}")


def plays() -> list[object]:
    """Every transcript with every server and every way of sending it."""
    return [
        pytest.param(transcript, kind, way, id=f"{transcript.path.parent.name}/{transcript.path.stem}-{kind}-{way}")
        for transcript in map(player.read, TRANSCRIPTS)
        for kind in servers.KINDS
        for way in transcript.ways
    ]


@pytest.mark.parametrize(("transcript", "kind", "way"), plays())
def test_transcript(farm: Farm, transcript: player.Transcript, kind: str, way: str) -> None:
    """The promise in the transcript's first comment."""
    server = farm.server(kind, transcript)

    try:
        player.Player(transcript, server, way).play()
    finally:
        farm.clean(kind, transcript)
