"""To whom messages of MQTT go beside nats-server: each walk of mqtt_delivery_walks.py has one outcome, and where leafd
differs for a reason that differences.md has, that is named here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import servers
from tests.interop.mqtt_delivery_walks import CONFIGURATION, WALKS
from tests.rig import reference


@pytest.fixture(scope="module")
def ours() -> Iterator[servers.Server]:
    with servers.running(servers.LEAFD, CONFIGURATION) as server:
        yield server


@pytest.fixture(scope="module")
def theirs() -> Iterator[servers.Server]:
    with servers.running(servers.REFERENCE, CONFIGURATION) as server:
        yield server


@pytest.mark.parametrize("walk", WALKS)
def test_a_message_goes_where_it_goes_at_nats_server(walk: str, ours: servers.Server, theirs: servers.Server) -> None:
    """Each walk has the same outcome with both servers."""
    with reference.asked(theirs):
        expected = WALKS[walk](theirs)
    assert expected == WALKS[walk](ours)
