"""The boxes on the hub's status page, in a browser and in what it is sent."""

from __future__ import annotations

import json
import socket
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from leafd.monitor.page import view

from tests.browser import CHROMIUM, open_browser
from tests.interop.enrolment import BOX, HUB, Login, close_all, report, token, within
from tests.jwts import Key
from tests.servers import LEAFD, Server, running


@pytest.fixture
def hub() -> Iterator[Server]:
    with running(LEAFD, HUB) as server:
        yield server
    close_all()


def seen(server: Server) -> dict[str, Any]:
    """The first event of the page."""
    url = f"http://127.0.0.1:{server.ports['http_port']}/events"
    with urllib.request.urlopen(url, timeout=60) as lines:
        for line in lines:
            if line.startswith(b"data:"):
                return dict(json.loads(line[5:]))
    raise AssertionError("no event came")


def _linked(hub: Server, number: int) -> bool:
    return bool(report(hub)["linked"] == number)


class Bare:
    """A box that is nothing but a socket, and answers PING however long the test takes."""

    def __init__(self, server: Server, name: str, ticket: str) -> None:
        self.login = Login(server, Key("user"), name, auth_token=ticket)
        assert self.login.is_in
        self.login.socket.settimeout(None)
        self._thread = threading.Thread(target=self._answer, daemon=True)
        self._thread.start()

    def _answer(self) -> None:
        with suppress(OSError):
            for line in self.login.lines:
                if line.startswith(b"PING"):
                    self.login.socket.sendall(b"PONG\r\n")

    def leave(self) -> None:
        with suppress(OSError):
            self.login.socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()


@contextmanager
def filled(hub: Server) -> Iterator[None]:
    """Three that are here, one of which, a leafd, has a rival; two that went, one after the other."""
    tokens, key = {number: token(hub, f"box-{number}") for number in range(5)}, Key("user")
    with ExitStack() as stack:
        bare = {number: Bare(hub, f"box-{number}", tokens[number]) for number in (0, 1, 3, 4)}
        for one in bare.values():
            stack.callback(one.leave)
        login = f"{tokens[2]}@"
        stack.enter_context(running(LEAFD, BOX, name="box-2", login=login, hub=hub.ports["leaf_port"], seed=key.seed))
        within(60, partial(_linked, hub, 5))
        for number, left in ((3, 4), (1, 3)):
            bare[number].leave()
            within(60, partial(_linked, hub, left))
        assert "linked already" in str(Login(hub, key, "box-2", server_id="another").answer)
        yield


def test_boxes_that_need_somebody_come_first(hub: Server) -> None:
    """Two machines with one key, then those that are away, the longest first; of a box that is here the page says since
    when, which does not change."""
    with filled(hub):
        rows, boxz = seen(hub)["boxes"], {one["name"]: one for one in report(hub)["boxes"]}
    assert ["box-2", "box-3", "box-1", "box-0", "box-4"] == [one["name"] for one in rows]
    assert [True, False, False, True, True] == [one["linked"] for one in rows]
    assert rows[0]["doubled"] == "127.0.0.1"
    assert [""] * 4 == [one["doubled"] for one in rows[1:]]
    assert all(one["at"] for one in rows)
    assert all(one["behind"] is None for one in rows[1:3])
    for one in rows:
        row = boxz[one["name"]]
        assert one["at"] == (row["since"] if row["linked"] else row["seen"])
        assert one["version"] == (f"leafd {row['leafd']}" if row.get("leafd") else row.get("version", ""))
        assert one["address"] == row.get("address", "")


def test_more_boxes_than_the_page_shows_are_counted(hub: Server) -> None:
    held = token(hub, "box-*", "--uses", "1000")
    for number in range(view.BOXES_MAX + 5):
        Login(hub, Key("user"), f"box-{number}", auth_token=held).close()
    within(60, lambda: report(hub)["total"] == view.BOXES_MAX + 5)
    first = seen(hub)
    assert (view.BOXES_MAX, 5) == (len(first["boxes"]), first["left_out"]["boxes"])


def test_a_server_that_enrols_nobody_says_nothing_of_boxes() -> None:
    with running(LEAFD, HUB.replace("enrol { account: BOXES }", "").replace('boxes: "box-*", ', "")) as server:
        assert seen(server)["boxes"] is None


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here")
def test_the_page_shows_them(hub: Server, tmp_path: Path) -> None:
    """Each state in words."""
    with open_browser(tmp_path / "profile") as browser, filled(hub):
        browser.open(f"http://127.0.0.1:{hub.ports['http_port']}/")
        states = "[...document.querySelectorAll('#boxes tbody tr')].map((row) => row.children[1].innerText).join()"
        browser.wait_for(f"{states}.startsWith('two machines')")
        text = str(browser.evaluate(states))
        assert ["away", "away", "linked", "linked"] == text.split(",")[1:]
        assert "another at 127.0.0.1 " in text
        assert browser.evaluate("!document.getElementById('boxes').hidden")
