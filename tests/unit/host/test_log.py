"""The lines of the log."""

from __future__ import annotations

import re
from pathlib import Path

from leafd.host.log import Log


def test_log_lines(tmp_path: Path) -> None:
    """Lines look like nats-server's; debug lines only where wanted."""
    path = tmp_path / "log"
    log = Log(str(path), utc=True)
    log.info("hello")
    log.debug("not this")
    log.debug_on = True
    log.debug("but this")
    log.times = False
    log.error("plain \udcff")
    log.close()
    first, second, third = path.read_text(encoding="utf-8").splitlines()
    assert re.fullmatch(r"\[\d+\] \d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{6} \[INF\] hello", first)
    assert second.endswith("[DBG] but this")
    assert re.fullmatch(r"\[\d+\] \[ERR\] plain \\xff", third)
