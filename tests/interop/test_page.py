"""The status page in a real browser: a hub, and a leaf whose link is cut and comes back; strangers; who may see it.

LEAFD_SCREENSHOTS=FOLDER pytest tests/interop/test_page.py    keeps pictures, in both themes and two widths
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import nats
import pytest
from leafd.monitor.page.feed import READERS_MAX
from nats.js.api import ExternalStream, StreamConfig, StreamSource

from tests import servers
from tests.browser import CHROMIUM, Browser, open_browser
from tests.certificates import Authority
from tests.interop.callout_service import ISSUER, Request, public, response, serving, user
from tests.jwts import Operator
from tests.narrow import wire_to
from tests.rig.official import must

HUB = """
port: {port}
server_name: hub
jetstream { store_dir: "{store}", domain: hub }
leafnodes { listen: "127.0.0.1:{leaf_port}" }
"""
LEAF = """
listen: "127.0.0.1:{port}"
server_name: box-0001
http: "127.0.0.1:{web_port}"
jetstream { store_dir: "{store}", domain: box-0001, max_file_store: 10GB }
leafnodes { remotes: [ { url: "nats-leaf://127.0.0.1:LEAF_PORT" } ] }
"""
MISSED = 900
SLOW = 100_000
"""Bytes a second: what is missed, 4.5 MB, takes 45 s unless the wire is mended."""
ATTACK = '<img_src=x_onerror="attacked=1"'
"""No stream's name may hold a blank, a dot or ">"; a server's may."""
WORLD = """
port: {port}
server_name: "<script>window.attacked=1</script>"
PORT_LINE
jetstream { store_dir: "{store}" }
system_account: SYS
accounts {
  SYS: { users: [ { user: admin, password: "s3cret" }, { user: hashed, password: "HASH" } ] }
  "<b/onload=attack()": { jetstream: enabled, users: [ { user: other, password: "s3cret" } ] }
}
"""
HASH = "$2b$04$dXB/ywJgRh6X.ok5shde6.8pXXBYsE8WGYzLcCRAZwOTJoK/Sk5Q2"


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


async def commands(url: str, number: int) -> None:
    """Publishes to the hub's stream."""
    client = await nats.connect(url)
    for one in range(number):
        await client.publish(f"commands.{one}", os.urandom(5000))  # what no link can compress
    await client.flush(20)
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


def cell(table: str, column: int) -> str:
    """The text in the first row of a table of the page."""
    return f"document.querySelector('#{table} tbody tr')?.children[{column}].innerText"


def test_it_shows_a_link_linked_cut_catching_up_and_linked(browser: Browser) -> None:
    """What the page says follows the link, with nobody reloading it, and no error reaches the browser's console."""
    with (
        servers.running("leafd", HUB) as hub,
        wire_to(hub.ports["leaf_port"]) as wire,
        servers.running("leafd", LEAF.replace("LEAF_PORT", str(wire.port))) as leaf,
    ):
        asyncio.run(prepare(hub.url, leaf.url))
        browser.open(f"http://127.0.0.1:{leaf.ports['web_port']}/")
        browser.wait_for(f"{cell('links', 1)} === 'linked' && {cell('copies', 1)} === 'level'")
        browser.wait_for("document.getElementById('verdict').textContent === 'All is well'")
        browser.wait_for(f"{cell('consumers', 1)} === '90' && {cell('consumers', 2)} === '10'")
        pictures(browser, "linked")
        wire.cut()
        browser.wait_for(f"{cell('links', 1)} === 'cut' && {cell('copies', 1)} === 'not followed'")
        browser.wait_for("document.title === '! box-0001'")
        asyncio.run(commands(hub.url, MISSED))
        pictures(browser, "cut")
        wire.mend(SLOW)
        browser.wait_for(f"{cell('links', 1)} === 'linked' && {cell('copies', 1)} === 'catching up'")
        browser.wait_for(f"{cell('copies', 4)}.startsWith('about ')")
        pictures(browser, "catching-up")
        wire.mend()
        browser.wait_for(f"{cell('copies', 1)} === 'level' && {cell('streams', 5)}.startsWith('{MISSED}')")
        browser.wait_for("document.title === 'box-0001'")
        pictures(browser, "back")
        assert browser.complaints == []
        leaf.stop()
        browser.wait_for("document.body.className === 'stale'")
        assert "not live" in browser.text()
        leaf.start()
        browser.wait_for("document.body.className === '' && document.title === 'box-0001'")


async def create(url: str, user: str, *streams: str) -> None:
    """Makes streams of these names, which the client library would refuse."""
    client = await nats.connect(url, user=user, password="s3cret")
    for number, name in enumerate(streams):
        config = {"name": name, "subjects": [f"s{number}.>"], "storage": "memory", "description": name}
        await must(client, f"$JS.API.STREAM.CREATE.{name}", config)
    await client.close()


def visit(url: str, login: str = "", authority: Path | None = None) -> tuple[int, str]:
    """Status and body, or the head alone where the body goes on for ever."""
    request = urllib.request.Request(url)
    if login:
        request.add_header("Authorization", "Basic " + base64.b64encode(login.encode()).decode())
    context = ssl.create_default_context(cafile=str(authority)) if authority else None
    try:
        with urllib.request.urlopen(request, timeout=60, context=context) as answer:
            live = answer.headers["Content-Type"] == "text/event-stream"
            return answer.status, answer.readline().decode() if live else answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_names_of_the_wire_are_text(browser: Browser) -> None:
    """Whatever a stream, an account or a server is called: the page shows it and runs none of it."""
    text = WORLD.replace("PORT_LINE", 'http: "127.0.0.1:{web_port}"').replace("HASH", HASH)
    with servers.running("leafd", text) as server:
        asyncio.run(create(server.url, "other", ATTACK, "javascript:attack()", "'\"&amp;"))
        browser.open(f"http://127.0.0.1:{server.ports['web_port']}/")
        browser.wait_for("document.querySelectorAll('#streams tbody tr').length === 3")
        shown = browser.text()
        assert all(name in shown for name in (ATTACK, "javascript:attack()", "'\"&amp;", "<script>window.attacked=1"))
        assert browser.evaluate("[window.attacked, document.querySelectorAll('img, b').length]") == [None, 0]
        assert browser.complaints == []
        plain = visit(f"http://127.0.0.1:{server.ports['web_port']}/status")[1]
        assert "<th scope=row>Streams / consumers<td>3 / 0" in plain
        assert "<script>window" not in plain


def test_readers_who_never_read_take_some_seats_and_no_more() -> None:
    """Of forty that ask for events and read none, twelve are served, and reports are answered meanwhile."""
    with servers.running("leafd", HUB.replace("server_name", 'http: "127.0.0.1:{web_port}"\nserver_name')) as server:
        port, answers = server.ports["web_port"], []
        with contextlib.ExitStack() as readers:
            for _ in range(40):
                reader = readers.enter_context(socket.create_connection(("127.0.0.1", port), 60))
                reader.settimeout(60)
                reader.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
                answers.append(reader.recv(12).decode())
            assert visit(f"http://127.0.0.1:{port}/varz")[0] == 200
        assert answers == ["HTTP/1.1 200"] * READERS_MAX + ["HTTP/1.1 503"] * (40 - READERS_MAX)


JUDGED = """
listen: "127.0.0.1:{port}"
http: "0.0.0.0:{web_port}"
accounts { AUTH { users: [{user: auth, password: auth}] }, APP {}, "$SYS" {} }
authorization { auth_callout { issuer: {issuer}, auth_users: [auth], account: AUTH } }
"""


def test_beyond_loopback_it_is_for_users_of_the_system_account(tmp_path: Path) -> None:
    """The page asks who it is, over http and https; the reports are open as with nats-server, and so is the list."""
    for scheme, port_line in (("http", 'http: "0.0.0.0:{web_port}"'), ("https", 'https: "0.0.0.0:{web_port}"')):
        authority = Authority(tmp_path)
        shown = authority.issue("localhost")
        tls = f'tls {{ cert_file: "{shown.certificate}", key_file: "{shown.key}" }}\nallow_non_tls: true\n'
        text = WORLD.replace("PORT_LINE", port_line).replace("HASH", HASH) + (tls if scheme == "https" else "")
        with servers.running("leafd", text) as server:
            url = f"{scheme}://localhost:{server.ports['web_port']}"
            trusted = authority.certificate if scheme == "https" else None
            for login, expected in (("", 401), ("admin:wrong", 401), ("other:s3cret", 401), ("admin:s3cret", 200)):
                assert [visit(f"{url}/{path}", login, trusted)[0] for path in ("status", "events")] == [expected] * 2
            assert visit(f"{url}/status", "hashed:s3cret", trusted)[0] == 200
            assert "box" not in visit(f"{url}/status", "", trusted)[1]
            assert [visit(f"{url}{path}", "", trusted)[0] for path in ("/", "/varz", "/page.css")] == [200] * 3
            assert 'href="/varz"' in visit(f"{url}/", "", trusted)[1]


def test_in_operator_mode_the_password_is_a_bearer_jwt_of_the_system_account() -> None:
    """A JWT that needs a key's signature is no password, and that of another account is none either."""
    operator = Operator()
    system, other = operator.system, operator.account("A")
    text = 'port: {port}\nhttp: "0.0.0.0:{web_port}"\n' + operator.configuration()
    with servers.running("leafd", text) as server:
        url = f"http://localhost:{server.ports['web_port']}/status"
        for user, expected in (
            (system.user("b", bearer_token=True), 200),
            (system.user("u"), 401),
            (other.user("b", bearer_token=True), 401),
        ):
            assert (expected, user.token) == (visit(url, f"jwt:{user.token}")[0], user.token)


def test_where_a_service_judges_logins_it_is_asked() -> None:
    """A user of the system account by its word sees the page, one of another account or of nobody's does not."""

    def judge(request: Request) -> str:
        asked = request["nats"]["connect_opts"]
        account = {"watcher": "$SYS", "app": "APP"}.get(asked["user"]) if asked["pass"] == "right" else None
        return response(request, user(request, audience=account) if account else "", "" if account else "no")

    async def main(server: servers.Server) -> None:
        url = f"http://localhost:{server.ports['web_port']}/status"
        async with serving(server, judge):
            for login, expected in (("watcher:right", 200), ("watcher:wrong", 401), ("app:right", 401), ("", 401)):
                assert (login, expected) == (login, (await asyncio.to_thread(visit, url, login))[0])

    with servers.running("leafd", JUDGED, issuer=public(ISSUER)) as server:
        asyncio.run(main(server))
