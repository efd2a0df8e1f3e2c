"""A JetStream server for these tests, and the few requests they need besides what they test."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from leafd.wire_client import frame_publish
from leafd_spark.fetch import ApiError, api, dial
from leafd_spark.options import OPTIONS, WRITE, Options, parse_options
from leafd_spark.sink.publish import Outgoing, Window, header_block

from tests import servers

CONFIGURATION = 'listen: 127.0.0.1:{port}\nhttp: 127.0.0.1:{monitor_port}\njetstream { store_dir: "{store}" }\n'
# nats-server 2.15.1 may still be removing the directory of the stream of that name that was deleted just before.
NO_STORE = 10049


@dataclass
class Hub:
    server: servers.Server
    login: dict[str, str] = field(default_factory=dict)

    def options(self, stream: str = "S", *, streaming: bool = False, **more: str) -> Options:
        given = {"servers": self.server.url, "stream": stream, "retrySeconds": "10"} | self.login | more
        sinks = [option for option in OPTIONS if option.uses == {WRITE}]
        if any(name in more for option in sinks for name in (option.name, *option.aliases)):
            return parse_options(given, writing=True)
        return parse_options(given, streaming=streaming)

    def call(self, endpoint: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        options = self.options()
        with dial(options) as connection:
            return api(connection, options, endpoint, body or {})

    def create(self, stream: str = "S", **config: Any) -> None:
        defaults = {"name": stream, "subjects": [f"{stream.lower()}.>"], "storage": "file", "allow_direct": True}
        deadline = time.monotonic() + 10
        while True:
            try:
                self.call(f"STREAM.CREATE.{stream}", defaults | config)
                return
            except ApiError as error:
                if error.err_code != NO_STORE or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def fill(self, first: int, last: int, stream: str = "S", size: int = 20) -> None:
        """Message n is published as number n, on one of three subjects; its payload begins with its number."""
        window = Window(self.options(stream))
        for number in range(first, last + 1):
            payload = (b"%d " % number).ljust(size, b".")
            subject = f"{stream.lower()}.{number % 3}"
            window.publish(Outgoing(subject, header_block(f"{stream}-{number}", ()), payload))
        window.drain()
        window.close()

    def fill_plain(self, last: int) -> None:
        """Message n is the number n alone, on one of three subjects, without headers."""
        options = self.options()
        with dial(options) as connection:
            for number in range(1, last + 1):
                connection.send(frame_publish(f"s.{number % 3}", "", b"", b"%d" % number))
            deadline = time.monotonic() + 30
            while api(connection, options, "STREAM.INFO.S", {})["state"]["last_seq"] < last:
                assert time.monotonic() < deadline

    def clear(self) -> None:
        """Delete all streams."""
        for name in self.call("STREAM.NAMES")["streams"] or ():
            self.call(f"STREAM.DELETE.{name}")

    def remove(self, sequence: int, stream: str = "S") -> None:
        self.call(f"STREAM.MSG.DELETE.{stream}", {"seq": sequence})


@contextlib.contextmanager
def running(kind: str = servers.REFERENCE) -> Iterator[Hub]:
    with servers.running(kind, CONFIGURATION) as server:
        yield Hub(server)
