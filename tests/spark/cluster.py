"""Three nats-servers that make one JetStream cluster, in a temporary folder each."""

from __future__ import annotations

import contextlib
import json
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from leafd_spark.fetch import ApiError, api, dial
from leafd_spark.options import Options, parse_options

from tests import servers

SIZE = 3
READY_SECONDS_MAX = 60.0
CONFIGURATION = """
server_name: n{number}
listen: 127.0.0.1:{port}
jetstream {{ store_dir: "{store}" }}
cluster {{ name: c, listen: "127.0.0.1:{own}", routes: [{routes}] }}
"""


class Cluster:
    def __init__(self, members: list[servers.Server]) -> None:
        self.members = members

    @property
    def urls(self) -> str:
        return ",".join(member.url for member in self.members)

    def options(self, stream: str, **more: str) -> Options:
        return parse_options({"servers": self.urls, "stream": stream, "retrySeconds": "60"} | more)

    def call(self, endpoint: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        options = self.options("S")
        with dial(options) as connection:
            return api(connection, options, endpoint, body or {})

    def create(self, stream: str, **config: Any) -> None:
        """A stream, as soon as the cluster has a leader."""
        defaults = {"name": stream, "subjects": [f"{stream.lower()}.>"], "num_replicas": SIZE, "allow_direct": True}
        deadline = time.monotonic() + READY_SECONDS_MAX
        while True:
            try:
                self.call(f"STREAM.CREATE.{stream}", defaults | config)
                return
            except Exception as error:  # no leader yet, no answer yet
                if time.monotonic() > deadline or (isinstance(error, ApiError) and not error.may_pass):
                    raise
                time.sleep(0.2)

    def leader(self, stream: str) -> servers.Server:
        name = self.call(f"STREAM.INFO.{stream}")["cluster"]["leader"]
        return self.members[int(name[1:])]

    def followers(self, stream: str) -> list[servers.Server]:
        leader = self.leader(stream)
        return [member for member in self.members if member is not leader]


@contextlib.contextmanager
def paused(member: servers.Server) -> Iterator[None]:
    """A server that does nothing meanwhile, and knows nothing of it afterwards."""
    assert member.process is not None
    member.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        member.process.send_signal(signal.SIGCONT)


@contextlib.contextmanager
def running() -> Iterator[Cluster]:
    ports = [servers.free_port() for _ in range(SIZE)]
    routes = ", ".join(json.dumps(f"nats://127.0.0.1:{port}") for port in ports)
    with contextlib.ExitStack() as stack:
        members = []
        for number in range(SIZE):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="leafd-cluster-")))
            port = servers.free_port()
            text = CONFIGURATION.format(
                number=number, port=port, store=folder / "store", own=ports[number], routes=routes
            )
            member = servers.Server(servers.REFERENCE, folder, text, {"port": port})
            member.start()
            stack.callback(member.stop)
            members.append(member)
        yield Cluster(members)
