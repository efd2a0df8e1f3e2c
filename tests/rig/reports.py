"""Reports of a server's monitoring port. The configuration names the port {http_port}."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

from tests import servers
from tests.rig.waiting import PATIENCE_S


def page(server: servers.Server, path: str) -> bytes:
    """Any page, as it comes."""
    url = f"http://127.0.0.1:{server.ports['http_port']}/{path.removeprefix('/')}"
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
        text: bytes = answer.read()
    return text


def report(server: servers.Server, path: str) -> dict[str, Any]:
    """A report, for example varz."""
    found: dict[str, Any] = json.loads(page(server, path))
    return found


def links(server: servers.Server) -> int:
    """How many leaf links there are."""
    return int(report(server, "leafz")["leafnodes"])
