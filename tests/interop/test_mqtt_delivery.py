"""To whom messages of MQTT go beside nats-server: each walk of mqtt_delivery_walks.py has one outcome, and where leafd
differs for a reason that differences.md has, that is named here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.mqtt_delivery_walks import CONFIGURATION, WALKS
from tests.rig.comparison import Pair, pair


@pytest.fixture(scope="module")
def both() -> Iterator[Pair]:
    with pair(CONFIGURATION) as running:
        yield running


@pytest.mark.parametrize("walk", WALKS)
def test_a_message_goes_where_it_goes_at_nats_server(walk: str, both: Pair, tmp_path: Path) -> None:
    """Each walk has the same outcome with both servers."""
    both.told_alike(WALKS[walk], tmp_path)
