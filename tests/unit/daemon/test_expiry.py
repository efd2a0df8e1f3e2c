"""Certificates that have expired, or will soon."""

from __future__ import annotations

import re
from pathlib import Path

import trio
import trio.testing
from leafd.config.schema.server import ServerConfig
from leafd.config.schema.tls import Tls
from leafd.daemon.expiry import Expiry
from leafd.guard import Guard

from tests.certificates import Authority
from tests.rig.logs import QuietLog


def test_expiring_certificates_are_named_once_a_day(tmp_path: Path) -> None:
    """One line at the start, one each day, and one at once when a reload brings another such certificate."""
    authority = Authority(tmp_path)
    lines: list[tuple[float, str]] = []

    class Lines(QuietLog):
        def warning(self, text: str, **about: str) -> None:
            lines.append((trio.current_time() - began, text))

    def config(name: str) -> ServerConfig:
        issued = authority.issue(name, times=("20200101000000Z", "20210101000000Z"))
        return ServerConfig(tls=Tls(cert_file=str(issued.certificate), key_file=str(issued.key)))

    configs = [config("one")]
    began = 0.0

    async def main() -> None:
        nonlocal began
        began = trio.current_time()
        expiry = Expiry(lambda: configs[-1], Lines(), Guard())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(expiry.run)
            await trio.sleep(1.5 * 86400)
            configs.append(config("two"))
            await expiry.look()
            await trio.sleep(86400 + 60)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    days = [(round(at / 86400, 2), re.sub(r".*/(\w+)\.pem .*", r"\1", text)) for at, text in lines]
    assert [(0, "one"), (1, "one"), (1.5, "two"), (2.5, "two")] == days
    assert "has expired on 2021-01-01 00:00:00 UTC: peers refuse it, replace it now" in lines[0][1]
