"""The ARM packages: what is in them runs, on qemu in place of a board, and keeps what it acknowledged.

Unaligned access and 32-bit addresses: qemu refuses what those processors refuse.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import bcrypt
import pytest

from tests.packaging import arm, machine
from tests.packaging.test_package import CLIENT, ROOT
from tests.servers import LEAFD, running

pytestmark = pytest.mark.package
# deb for the one, rpm for the other: tests/packaging/tour.py has all four.
KINDS = {"arm64": "rpm", "armhf": "deb"}


def client(box: machine.Machine, *arguments: str) -> int:
    return int(machine.sh(*box.network, sys.executable, CLIENT, *arguments, seconds=120))


def build(directory: Path, architecture: str, kind: str) -> Path:
    machine.bring(arm.TOOLS)
    command = (sys.executable, ROOT / "packaging" / "build", "--arch", architecture, "--kind", kind, directory)
    return Path(machine.sh(*command).splitlines()[-1])


@pytest.mark.parametrize("architecture", sorted(KINDS))
def test_daemon_serves_and_keeps_what_it_acknowledged(architecture: str, tmp_path: Path) -> None:
    """The daemon starts, judges a login, stores a stream, and has it all after kill -9; it ends in an orderly way."""
    package = build(tmp_path, architecture, KINDS[architecture])
    password = bcrypt.hashpw(b"box", bcrypt.gensalt(4)).decode()
    box = arm.make(package, architecture, tmp_path / "root", password)
    with arm.running(box) as first:
        assert 200 == client(first, "publish", "200")
    with arm.running(box) as second:
        assert (200, 250) == (client(second, "count"), client(second, "publish", "50"))
        assert second.process is not None
        second.process.terminate()
        assert 0 == second.process.wait(60)
    if architecture == "arm64":
        assert 250 == moved_here(box, tmp_path)
