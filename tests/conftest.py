"""What all tests share: a choice of servers and the promise that a test names what it needs.

Nothing here starts anything; tests/servers.py does that when a test asks.
"""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True, scope="session")
def loopback_only() -> None:
    """No test talks to another machine: proxies of the environment are not for us."""
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        os.environ.pop(name, None)
        os.environ.pop(name.upper(), None)
