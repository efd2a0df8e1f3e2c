"""The ARM packages: what is in them runs, on qemu in place of a board, and keeps what it acknowledged.

Not a word of speed: that needs a board.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import bcrypt
import pytest

from tests.packaging import arm, machine
from tests.packaging.machine import ROOT
from tests.packaging.test_package import CLIENT
from tests.servers import LEAFD, running

pytestmark = [pytest.mark.package, pytest.mark.minutes(20)]
# deb for the one, rpm for the other: tests/packaging/tour.py has all four.
KINDS = {"arm64": "rpm", "armhf": "deb"}


def client(box: machine.Machine, *arguments: str) -> int:
    return int(machine.sh(*box.network, sys.executable, CLIENT, *arguments, seconds=120))


def build(directory: Path, architecture: str, kind: str) -> Path:
    machine.bring_tools(arm.TOOLS)
    command = (
        sys.executable,
        ROOT / "packaging" / "build",
        "--light",
        "--arch",
        architecture,
        "--kind",
        kind,
        directory,
    )
    return Path(machine.sh(*command).splitlines()[-1])


@pytest.fixture(scope="module", params=sorted(KINDS))
def box(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> arm.Box:
    """A box with the package in it. Its one user's password is hashed."""
    directory = tmp_path_factory.mktemp(request.param)
    package = build(directory, request.param, KINDS[request.param])
    password = bcrypt.hashpw(b"box", bcrypt.gensalt(4)).decode()
    return arm.make(package, request.param, directory / "root", password)


def test_keys_are_made_with_the_libraries_at_hand(box: arm.Box) -> None:
    """The commands for people run, and the library for nkeys is there, if need be the distribution's."""
    said = machine.sh("chroot", box.root, *box.inner("init", "leaf", "--name", "box", "--hub", "hub", "--dir", "/run"))

    assert (box.root / "run/leafd.conf").exists()
    assert re.search(r"nkey:\W*U[A-Z2-7]{55}", said), said


def test_daemon_serves_and_keeps_what_it_acknowledged(box: arm.Box, tmp_path: Path) -> None:
    """The daemon starts with larger limits than 32 bits have addresses for, judges a login, stores a stream, and has
    it all after kill -9. It ends in an orderly way, and a store of 64 bits goes on on this machine."""
    with arm.running(box) as first:
        assert 200 == client(first, "publish", "200")
    with arm.running(box) as second:
        assert (200, 250) == (client(second, "count"), client(second, "publish", "50"))
        assert second.process is not None
        second.process.terminate()
        assert 0 == second.process.wait(60)

    moved = shutil.copytree(box.store.parent, tmp_path / "moved")
    configuration = f'listen: "127.0.0.1:{{port}}"\njetstream {{ store_dir: "{moved}" }}\n'
    if box.architecture == "arm64":
        with running(LEAFD, configuration) as here:
            environment = {**os.environ, "LEAFD_PORT": str(here.port)}
            said = subprocess.run([sys.executable, CLIENT, "count"], env=environment, capture_output=True, check=True)
            assert b"250\n" == said.stdout
