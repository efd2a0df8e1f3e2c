"""The status page in a real browser: a hub, and a leaf whose link is cut and comes back; strangers; who may see it.

LEAFD_SCREENSHOTS=FOLDER pytest tests/interop/test_page.py    keeps pictures, in both themes and two widths
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import nats
import pytest
from nats.js.api import ExternalStream, StreamConfig, StreamSource

from tests import servers
from tests.browser import CHROMIUM, Browser, open_browser

HUB = """
port: {port}
server_name: hub
jetstream { store_dir: "{store}", domain: hub }
leafnodes { listen: "127.0.0.1:{leaf_port}" }
"""
LEAF = """
port: {port}
server_name: box-0001
http: "127.0.0.1:{web_port}"
jetstream { store_dir: "{store}", domain: box-0001, max_file_store: 10GB }
leafnodes { remotes: [ { url: "nats-leaf://127.0.0.1:LEAF_PORT" } ] }
"""
HOSTILE = '<img src=x onerror="window.attacked=1">'

pytestmark = pytest.mark.slow


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    """A window of its own."""
    if CHROMIUM is None:
        pytest.skip("no chromium here")
    with open_browser(tmp_path / "profile") as opened:
        yield opened


def pictures(browser: Browser, name: str) -> None:
    """Keeps what there is to be seen, where somebody wants to look at it."""
    folder = os.environ.get("LEAFD_SCREENSHOTS", "")
    for width in (390, 1280):
        for dark in (False, True) if folder else ():
            theme = "dark" if dark else "light"
            browser.screenshot(Path(folder) / f"{name}-{width}-{theme}.png", width, dark=dark)
        browser.resize(width)
        assert browser.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "nothing scrolls sideways"


async def commands(url: str, first: int, number: int) -> None:
    """Publishes to the hub's stream."""
    client = await nats.connect(url)
    for one in range(first, first + number):
        await client.jetstream().publish(f"commands.{one}", b"x" * 200)
    await client.close()


async def prepare(hub: str, leaf: str) -> None:
    """A stream of commands on the hub that the leaf mirrors, and telemetry on the leaf with a consumer."""
    at_hub, at_leaf = await nats.connect(hub), await nats.connect(leaf)
    await at_hub.jetstream().add_stream(name="COMMANDS", subjects=["commands.>"])
    origin = StreamSource(name="COMMANDS", external=ExternalStream(api="$JS.hub.API"))
    await at_leaf.jetstream().add_stream(StreamConfig(name="COMMANDS", mirror=origin))
    await at_leaf.jetstream().add_stream(name="TELEMETRY", subjects=["telemetry.>"])
    for one in range(100):
        await at_leaf.jetstream().publish(f"telemetry.{one}", b"x" * 200)
    pull = await at_leaf.jetstream().pull_subscribe("telemetry.>", durable="uploader")
    await pull.fetch(10, timeout=20)
    await at_hub.close()
    await at_leaf.close()


def row(table: str, column: int) -> str:
    """The text of the first row of a table of the page."""
    return f"document.querySelector('#{table} tbody tr')?.children[{column}].innerText"


def test_it_shows_a_link_linked_cut_catching_up_and_linked(browser: Browser, tmp_path: Path) -> None:
    """What the page says follows the link, with nobody reloading it, and no error reaches the browser's console."""
    with servers.running("leafd", HUB) as hub:
        leaf_text = LEAF.replace("LEAF_PORT", str(hub.ports["leaf_port"]))
        with servers.running("leafd", leaf_text) as leaf:
            asyncio.run(prepare(hub.url, leaf.url))
            browser.open(f"http://127.0.0.1:{leaf.ports['web_port']}/")
            browser.wait_for(f"{row('links', 1)} === 'linked' && {row('copies', 1)} === 'level'")
            browser.wait_for("document.getElementById('verdict').textContent === 'All is well'")
            browser.wait_for(f"{row('consumers', 1)} === '90' && {row('consumers', 2)} === '10'")
            pictures(browser, "linked")
            hub.stop()
            browser.wait_for(f"{row('links', 1)} === 'cut' && {row('copies', 1)} === 'not followed'")
            browser.wait_for("document.title === '! box-0001'")
            pictures(browser, "cut")
            hub.start()
            asyncio.run(commands(hub.url, 0, 20))
            browser.wait_for(f"{row('links', 1)} === 'linked' && {row('copies', 1)} === 'level'")
            browser.wait_for(
                "[...document.querySelectorAll('#streams tbody tr')][0].children[5].innerText.startsWith('20')"
            )
            browser.wait_for("document.title === 'box-0001'")
            pictures(browser, "back")
            assert browser.complaints == []
