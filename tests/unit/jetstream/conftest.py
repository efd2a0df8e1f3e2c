"""One JetStream over the plane in memory, asked without a server around it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import trio
from leafd.gojson import dump
from leafd.jetstream.catalogue import JetStreamAccount, JetStreamLimits, Settings
from leafd.jetstream.service import JetStream

from tests.rig.logs import KeptLog
from tests.unit.jetstream.fake_backup import BackupPlane


class Bench:
    """A JetStream with one account, and a way to ask it."""

    def __init__(
        self, plane: BackupPlane | None = None, limits: JetStreamLimits | None = None, **settings: Any
    ) -> None:
        self.plane = plane or BackupPlane()
        self.log = KeptLog()
        self.service = JetStream(self.plane, Settings("bench", **settings), self.log)
        self.account: JetStreamAccount = self.service.add_account(1, "A", limits)

    async def ask(self, subject: str, body: Any = "", header: bytes = b"") -> dict[str, Any] | None:
        """The reply to $JS.API.<subject>, as a client would parse it."""
        raw = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
        found = await self.service.answer(self.account, f"$JS.API.{subject}", header, raw)
        return None if found is None else json.loads(dump(found.members))

    def asked(self, subject: str, body: Any = "", header: bytes = b"") -> dict[str, Any]:
        """As ask(), in a run of its own; there is an answer."""
        found = trio.run(self.ask, subject, body, header)
        assert found is not None
        return found

    def code(self, subject: str, body: Any = "", header: bytes = b"") -> int:
        """The err_code of the reply, 0 when it is none."""
        return int(self.asked(subject, body, header).get("error", {}).get("err_code", 0))

    def stream(self, name: str, **config: Any) -> dict[str, Any]:
        """Makes a stream that must be accepted."""
        reply = self.asked(f"STREAM.CREATE.{name}", {"name": name} | config)
        assert "error" not in reply, reply
        return reply

    def consumer(self, stream: str, name: str, **config: Any) -> dict[str, Any]:
        """Makes a consumer that must be accepted."""
        body = {"stream_name": stream, "config": config}
        reply = self.asked(f"CONSUMER.CREATE.{stream}.{name}", body)
        assert "error" not in reply, reply
        return reply


@pytest.fixture
def bench() -> Bench:
    """A fresh JetStream."""
    return Bench()


@pytest.fixture
def make_bench() -> Callable[..., Bench]:
    """For limits, settings or a plane of one's own."""
    return Bench
