"""The monitoring port keeps nobody waiting: seats for connections, and which one goes when all are taken."""

from __future__ import annotations

import contextlib
import html
import socket
import ssl
from email.utils import formatdate
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import trio
import trio.testing
from leafd.config.bind import load_text
from leafd.config.schema.server import ServerConfig
from leafd.config.schema.tls import Tls
from leafd.guard import Guard
from leafd.monitor.hosts import is_known, is_loopback
from leafd.monitor.http import Seats, _date, serve
from leafd.monitor.page.routes import escaped

from tests.certificates import Authority, Issued


def test_when_all_seats_are_taken_the_longest_awaited_of_the_most_frequent_address_goes() -> None:
    """Three of one address and one of another wait on four seats: the first of the three makes room."""
    gone: list[str] = []

    async def wait(seats: Seats, address: str, name: str) -> None:
        assert seats.take()
        try:
            with seats.waiting(address, 60):
                await trio.sleep_forever()
            gone.append(name)
        finally:
            seats.leave()

    async def main() -> None:
        seats = Seats(4)
        async with trio.open_nursery() as nursery:
            for address, name in (("::2", "other"), ("::1", "a"), ("::1", "b"), ("::1", "c"), ("::1", "d")):
                nursery.start_soon(wait, seats, address, name)
                await trio.testing.wait_all_tasks_blocked()
            assert ["a"] == gone
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_who_is_being_answered_keeps_his_seat() -> None:
    """With nobody to be waited for, one too many is turned away."""

    async def main() -> None:
        seats = Seats(2)
        assert [True, True, False] == [seats.take() for _ in range(3)]
        seats.leave()
        assert seats.take()

    trio.run(main)


def test_patience_ends() -> None:
    """A request that does not come in time is not waited for."""

    async def main() -> None:
        began = trio.current_time()
        with Seats(1).waiting("::1", 5.0):
            await trio.sleep_forever()
        assert 5.0 == trio.current_time() - began

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_dates_and_pages_are_written_as_the_standard_library_writes_them() -> None:
    """HTTP's form of a time, and text that cannot end an element or an attribute."""
    for now_s in (0.0, 951_782_400.5, 1_790_000_000.0, 4_102_444_799.0):
        assert formatdate(now_s, usegmt=True) == _date(now_s)
    text = """<b title='x' id="y">&amp; & </b>"""
    assert html.escape(text) == escaped(text)


def test_https_takes_new_certificates(tmp_path: Path) -> None:
    """Reports are served over TLS by the block's certificate, by the next one after a reload, and not in plain text."""
    authority = Authority(tmp_path)
    shown: list[bytes] = []

    async def ask(port: int) -> None:
        trusting = ssl.create_default_context(cafile=str(authority.certificate))
        stream = await trio.open_ssl_over_tcp_stream("localhost", port, ssl_context=trusting, https_compatible=True)
        await stream.send_all(b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await stream.receive_some(1000)).startswith(b"HTTP/1.1 404 ")
        shown.append(stream.getpeercert(binary_form=True))
        await stream.aclose()

    async def main() -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        listener.setblocking(False)
        first, second = (authority.issue(name) for name in ("first", "second"))

        def config(issued: Issued) -> ServerConfig:
            return ServerConfig(https_port=port, tls=Tls(cert_file=str(issued.certificate), key_file=str(issued.key)))

        facts = cast(Any, SimpleNamespace(config=config(first), http_requests={}, guard=Guard(), boxes=None))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve, listener, facts)
            await ask(port)
            facts.config = config(second)
            await ask(port)
            async with await trio.open_tcp_stream("127.0.0.1", port) as plain:
                await plain.send_all(b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n")
                with contextlib.suppress(trio.BrokenResourceError):
                    assert b"HTTP" not in await plain.receive_some(1000)
            nursery.cancel_scope.cancel()
        listener.close()
        assert [first.der, second.der] == shown

    trio.run(main)


OWN_NAMES = (
    "127.0.0.1:8222",
    "127.9.9.9",
    "[::1]:8222",
    "localhost:8222",
    "LOCALHOST.",
    "box.local",
    "",
    "192.0.2.7",
    "box-17.example.org",
    socket.gethostname(),
)
OTHER_NAMES = (
    "evil.example:8222",
    "evil",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "box-17.example.org.evil.example",
    "evil.example, 127.0.0.1",
    "1.2.3.x",
)


def test_over_loopback_it_is_asked_under_names_of_its_own_only() -> None:
    """A page of elsewhere whose name leads to this machine (DNS rebinding) has a name that is not known here."""
    config = load_text('http: "Box.local:8222", http_hosts: [box-17.example.org]').server
    assert [] == [name for name in OWN_NAMES if not is_known(config, name)]
    assert [] == [name for name in OTHER_NAMES if is_known(config, name)]


def test_only_programs_of_this_machine_come_over_loopback() -> None:
    """Of whoever comes from elsewhere no name is asked, so that Prometheus finds a box by any name it has."""
    own = ("127.0.0.1", "127.3.2.1", "::1", "::ffff:127.0.0.1")
    others = ("192.0.2.7", "::2", "fe80::1", "::ffff:192.0.2.7", "10.127.0.1", "")
    assert [True] * len(own) == [is_loopback(address) for address in own]
    assert [False] * len(others) == [is_loopback(address) for address in others]
