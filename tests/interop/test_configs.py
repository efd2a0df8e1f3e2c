"""The example configurations run as they stand, with users, accounts and the system account as they say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import servers

WALK = Path(__file__).with_name("walk_configs.py")
LINE_UPS = [(hub, leaf) for hub in servers.KINDS for leaf in servers.KINDS]


@pytest.mark.parametrize(("hub", "leaf"), LINE_UPS)
def test_example_configurations_run_unmodified(hub: str, leaf: str) -> None:
    """hub.conf and leaf.conf on their own ports: domains, passwords, and the system account over both."""
    done = subprocess.run([sys.executable, WALK, hub, leaf], capture_output=True, text=True, timeout=90)

    assert 0 == done.returncode, done.stdout + done.stderr
    assert 4 == len(done.stdout.splitlines())
