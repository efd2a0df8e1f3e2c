"""Encryption at rest: what lies on the disk, and what becomes of a start with another key.

The words that are looked for are those that a client chose. Every way to give the key is the configuration's.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import nats
import pytest
from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig, StreamConfig

from tests import servers
from tests.rig.waiting import eventually

CONFIGURATION = """
listen: 127.0.0.1:{port}
jetstream { store_dir: "{store}", max_memory_store: 64MB, max_file_store: 256MB, KEYS }
"""
WORDS = ("InvoiceStream", "Acme.Invoices", "BillingWorker", "Invoice-No-77", "X-Customer", "Smith", "owes 12 pounds")


def server_with(directory: Path, keys: str, kind: str = servers.LEAFD) -> servers.Server:
    directory.mkdir(exist_ok=True)
    return servers.make(kind, CONFIGURATION.replace("KEYS", keys), directory)


@contextlib.contextmanager
def running(server: servers.Server, keys: str = "") -> Iterator[servers.Server]:
    """The server, for as long as the block; with other keys than before where they are given."""
    if keys:
        head, _, _ = server.configuration.partition(" max_file_store: 256MB, ")
        server.configuration = f"{head} max_file_store: 256MB, {keys} }}\n"
    server.start()
    try:
        yield server
    finally:
        server.stop()


@contextlib.asynccontextmanager
async def jetstream(server: servers.Server) -> AsyncIterator[JetStreamContext]:
    client = await nats.connect(server.url, allow_reconnect=False)
    try:
        yield client.jetstream()
    finally:
        await client.close()


async def _fill(server: servers.Server, messages: int = 1) -> None:
    async with jetstream(server) as js:
        await js.add_stream(StreamConfig(name="InvoiceStream", subjects=["Acme.Invoices.>"]))
        await js.add_consumer("InvoiceStream", ConsumerConfig(durable_name="BillingWorker"))
        for i in range(messages):
            headers = {"Nats-Msg-Id": f"Invoice-No-77-{i}", "X-Customer": "Smith"}
            await js.publish(f"Acme.Invoices.{i}", b"owes 12 pounds", headers=headers)


async def _check(server: servers.Server, messages: int = 1) -> None:
    """All is there as fill() has left it."""
    async with jetstream(server) as js:
        info = await js.stream_info("InvoiceStream", subjects_filter=">")
        assert (messages, messages) == (info.state.messages, len(info.state.subjects or {}))
        assert 1 == info.state.consumer_count
        for i in range(messages):
            message = await js.get_last_msg("InvoiceStream", f"Acme.Invoices.{i}")
            assert (b"owes 12 pounds", "Smith") == (message.data, (message.headers or {})["X-Customer"])
            again = await js.publish(f"Acme.Invoices.{i}", b"again", headers={"Nats-Msg-Id": f"Invoice-No-77-{i}"})
            assert again.duplicate


def fill(server: servers.Server, messages: int = 1) -> None:
    asyncio.run(_fill(server, messages))


def check(server: servers.Server, messages: int = 1) -> None:
    asyncio.run(_check(server, messages))


def stored(server: servers.Server) -> dict[str, bytes]:
    """The files of the store that hold data, whole."""
    directory = Path(server.directory, "store", "jetstream")
    return {name: (directory / name).read_bytes() for name in ("data.mdb", "journal")}


def plain_words(server: servers.Server, words: tuple[str, ...] = WORDS) -> list[tuple[str, str]]:
    """Which words lie in which file as they are."""
    return [(name, word) for name, text in stored(server).items() for word in words if word.encode() in text]


def digests(server: servers.Server) -> dict[str, str]:
    return {name: hashlib.sha256(text).hexdigest() for name, text in stored(server).items()}


@pytest.mark.parametrize("cipher", ["chacha", "aes"])
def test_nothing_that_a_client_chose_is_on_the_disk_in_plain(tmp_path: Path, cipher: str) -> None:
    """Not the payload, nor header, subject, message id, names of stream and consumer; and all of it is read again."""
    server = server_with(tmp_path / "a", f"key: open-sesame, cipher: {cipher}")
    with running(server):
        fill(server, 20)
        assert [] == plain_words(server)
    with running(server):
        check(server, 20)
    assert [] == plain_words(server, (*WORDS, "open-sesame"))
    assert "open-sesame" not in server.log


def test_without_a_key_those_words_are_there(tmp_path: Path) -> None:
    """Or the test above would prove nothing."""
    server = server_with(tmp_path / "a", "")
    with running(server):
        fill(server)
    assert set(WORDS) == {word for _, word in plain_words(server)}


@pytest.mark.parametrize(
    ("keys", "said"),
    [("key: Another", "encrypted with another key"), ("", "is encrypted; give its key")],
    ids=["another", "none"],
)
def test_a_start_with_another_key_ends_in_one_line_and_touches_nothing(tmp_path: Path, keys: str, said: str) -> None:
    """The line names the directory and not the key; with the right key all is as it was."""
    server = server_with(tmp_path / "a", "key: open-sesame")
    with running(server):
        fill(server)
    before = digests(server)
    with pytest.raises(servers.ServerDied, match="jetstream is"), running(server, keys or "enabled: true"):
        pass
    complaints = [line for line in server.log.splitlines() if "[FTL]" in line]
    assert 1 == len(complaints)
    assert said in complaints[0]
    assert "Another" not in server.log
    assert before == digests(server)
    with running(server, "key: open-sesame"):
        check(server)


def test_the_key_comes_from_the_environment_a_file_or_a_credential_of_systemd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All three are the same key; the end of a file's line is no part of it."""
    monkeypatch.setenv("STORE_KEY", "open-sesame")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    (tmp_path / "store-key").write_text("open-sesame\n")
    server = server_with(tmp_path / "a", "key: $STORE_KEY")
    with running(server):
        fill(server)
    for keys in (f'key_file: "{tmp_path}/store-key"', "key_file: store-key"):
        with running(server, keys):
            check(server)
    (tmp_path / "store-key").unlink()
    with pytest.raises(servers.ServerDied, match="the store's key cannot be read from"), running(server):
        pass


# ---- what changes under a store, on either server


@pytest.mark.parametrize("kind", servers.KINDS)
def test_a_store_without_a_key_that_is_given_one_serves_all_and_is_encrypted_from_then_on(
    tmp_path: Path, kind: str
) -> None:
    """leafd says when nothing is left to encrypt, nats-server does it before it serves; neither goes back to none."""
    server = server_with(tmp_path / "a", "enabled: true", kind)
    with running(server):
        fill(server, 20)
    with running(server, "key: open-sesame"):
        check(server, 20)
        if kind == servers.LEAFD:
            until_said(server, "encrypted with the new key alone")
    with running(server, "key: open-sesame"):
        check(server, 20)
    assert "open-sesame" not in server.log


def until_said(server: servers.Server, words: str, begin: int = 0) -> None:
    eventually(lambda: words in server.log[begin:], lambda: server.log)


@pytest.mark.parametrize("keys", ["key: Another", "enabled: true"], ids=["another", "none"])
def test_without_its_key_nats_server_starts_and_has_no_streams(tmp_path: Path, keys: str) -> None:
    """Which is why leafd does not start then: clients would make the streams anew, and publish into nothing."""
    server = server_with(tmp_path / "a", "key: open-sesame", servers.REFERENCE)
    with running(server):
        fill(server)
    with running(server, keys):
        assert [] == asyncio.run(_names(server))


async def _names(server: servers.Server) -> list[str | None]:
    async with jetstream(server) as js:
        return [info.config.name for info in await js.streams_info()]


def test_keys_are_nowhere_to_be_seen(tmp_path: Path) -> None:
    """Not in the log at its most talkative, and not in what monitoring tells."""
    keys = "key: open-sesame, prev_key: open-barley"
    talkative = "http: 127.0.0.1:{http_port}\ndebug: true\ntrace: true\n"
    server = servers.make(servers.LEAFD, talkative + CONFIGURATION.replace("KEYS", keys), tmp_path)
    with running(server):
        fill(server)
        for page in ("varz", "jsz?config=1&streams=1&consumers=1&accounts=1", "healthz", "connz"):
            with urllib.request.urlopen(f"http://127.0.0.1:{server.ports['http_port']}/{page}", timeout=10) as answer:
                text = answer.read().decode()
            assert "open-" not in text
    assert "open-" not in server.log


def test_a_start_with_a_key_that_is_needed_no_more_says_so(tmp_path: Path) -> None:
    """Also when the process that ended the change was killed before it could: each start with both keys says it."""
    server = server_with(tmp_path / "a", "key: open-sesame")
    with running(server):
        fill(server)
    for _ in range(2):
        begin = len(server.log)
        with running(server, "key: open-barley, prev_key: open-sesame"):
            until_said(server, "prev_key is not needed any more", begin)
            check(server)
    begin = len(server.log)
    with running(server, "key: open-barley"):
        check(server)
    assert "prev_key" not in server.log[begin:]
