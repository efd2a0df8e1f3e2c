"""A backlog, commands and events over links that are odd and not only slow: two servers in places of their own
(tests/cell.py).

    python -m tests.bench.strange LINE HUB LEAF [--messages 2000] [--seconds 400]

LINE is one of LINES. HUB and LEAF: leafd or nats-server. Prints what tests/bench/cell.py prints, and each link that was
closed. packaging/doc/field-figures.md has what it showed.
"""

from __future__ import annotations

import argparse
import dataclasses

from tests import servers
from tests.bench.cell import drain
from tests.cell import Link

CALM = Link(rate=2e6, delay=0.1)
LINES = {
    "nat": Link(rate=1e6, delay=0.1, loss=0.01, forgets=60),
    "hole": Link(rate=1e6, delay=0.1, loss=0.01, packet=1000),
    "asymmetry": Link(rate=1e6, rate_up=10e3, delay=0.1, loss=0.01),
    "late": Link(rate=1e6, delay=0.1, loss=0.01, late=0.2),
    "doubled": Link(rate=1e6, delay=0.1, loss=0.01, doubled=0.1),
    "bloat": Link(rate=100e3, delay=0.1, loss=0.01, queue=375_000),
    "flaps": Link(rate=1e6, delay=0.1, loss=0.01, schedule=(3, 3)),
    "bursts": Link(rate=1e6, delay=0.1, loss=0.01, schedule=(18, 2)),
}
"""A router that forgets a connection after 60 s; packets over 1,000 bytes that are lost without a word; 1 Mbit/s down
and 10 kbit/s up; a fifth of packets half a second late; a tenth that come twice; half a minute of queue; there for 3 s
of each 6; 2 s of each 20 away."""
ALWAYS = {"hole"}
"""What it is already while the servers link."""
IDLE_SECONDS = 150.0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("line", choices=LINES)
    parser.add_argument("hub", choices=servers.KINDS)
    parser.add_argument("leaf", choices=servers.KINDS)
    parser.add_argument("--messages", type=int, default=2_000)
    parser.add_argument("--seconds", type=float, default=400.0)
    options = parser.parse_args()
    line = LINES[options.line]
    options.telemetry, options.compression, options.idle = False, "", IDLE_SECONDS if line.forgets else 0.0
    drain(options, dataclasses.replace(CALM, packet=line.packet) if options.line in ALWAYS else CALM, line)


if __name__ == "__main__":
    main()
