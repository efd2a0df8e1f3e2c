"""A journal that was damaged or lost while the daemon was down: what users published is there, or the log says.

Every bit and every file: tests/native/test_store_salvage.c, test_store_lost.c. Here: a real daemon, its log and pages.
"""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from nats.js.api import StreamConfig

from tests.crash.keep import closed, connected, stored
from tests.servers import LEAFD, Server, ServerDied, running

CONFIGURATION = """
listen: 127.0.0.1:{port}
http: 127.0.0.1:{http_port}
jetstream { store_dir: "{store}", max_file: 1G, max_mem: 64M }
"""
FIRST_BLOCK = 4096


async def publish(server: Server, count: int) -> list[str]:
    client, js = await connected(server)
    await js.add_stream(StreamConfig(name="KEEP", subjects=["KEEP.>"]))
    sent = [f"message {number} of {count}" for number in range(1, count + 1)]
    for text in sent:
        await js.publish("KEEP.a", text.encode())
    await closed(client)
    return sent


def journal_of(server: Server) -> Path:
    (found,) = (server.directory / "store").rglob("journal")
    return found


def corrupt_records(server: Server) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.ports['http_port']}/varz", timeout=5) as page:
        text = page.read()

    def find(tree: object) -> int | None:
        if isinstance(tree, dict):
            if "corrupt_records" in tree:
                return int(tree["corrupt_records"])
            return next((found for found in map(find, tree.values()) if found is not None), None)
        return None

    found = find(json.loads(text))
    assert found is not None
    return found


def flip_in_31(journal: Path) -> None:
    content = bytearray(journal.read_bytes())
    content[content.rindex(b"message 31 of 60") + 2] ^= 4
    journal.write_bytes(content)


def zero_first_block(journal: Path) -> None:
    content = bytearray(journal.read_bytes())
    content[:FIRST_BLOCK] = bytes(FIRST_BLOCK)
    journal.write_bytes(content)


@pytest.mark.parametrize(("count", "damage"), [(60, flip_in_31), (300, zero_first_block)])
def test_damage_loses_nothing_and_is_told(count: int, damage: Callable[[Path], None]) -> None:
    """One wrong bit in message 31 of 60, or a first block of zeros: all is there, log and varz tell of it."""

    async def scenario(server: Server) -> None:
        sent = await publish(server, 60) if count == 60 else await checkpointed(server, count)
        server.kill()
        damage(journal_of(server))
        server.start()
        assert sent == await stored(server, "KEEP")
        assert corrupt_records(server) > 0
        assert "the journal" in server.log
        assert "damaged" in server.log

    with running(LEAFD, CONFIGURATION) as server:
        asyncio.run(scenario(server))


async def checkpointed(server: Server, count: int) -> list[str]:
    """After a restart in order home knows of the stream, and the journal of the messages."""
    await publish(server, 0)
    server.stop()
    server.start()
    return await publish(server, count)


def test_missing_journal_refuses_the_start_and_says_why() -> None:
    """Without the journal that held acknowledged messages there is no start; with it, or an acceptance, there is."""

    async def scenario(server: Server) -> None:
        sent = await publish(server, 20)
        server.kill()
        journal = journal_of(server)
        elsewhere = server.directory / "elsewhere"
        journal.rename(elsewhere)
        with pytest.raises(ServerDied, match=r"the journal is missing.*accept-loss"):
            server.start()
        elsewhere.rename(journal)
        server.start()
        assert sent == await stored(server, "KEEP")
        server.kill()
        journal.unlink()
        (journal.parent / "accept-loss").touch()
        server.start()
        assert "the loss is accepted" in server.log
        assert not (journal.parent / "accept-loss").exists()

    with running(LEAFD, CONFIGURATION) as server:
        asyncio.run(scenario(server))


@pytest.mark.parametrize("garble", [bytes, lambda size: b"\xa5" * size])
def test_the_loss_of_the_last_messages_is_told_with_its_extent(garble: Callable[[int], bytes]) -> None:
    """The last seven messages' blocks are gone after kill -9: seven are missing, and log and varz say so."""

    async def scenario(server: Server) -> None:
        sent = await publish(server, 40)
        server.kill()
        journal = journal_of(server)
        content = bytearray(journal.read_bytes())
        begin = content.rindex(b"message 34 of 40") // FIRST_BLOCK * FIRST_BLOCK
        size = 8 * FIRST_BLOCK  # and the mark of the end, which may be there by now
        content[begin : begin + size] = garble(size)
        journal.write_bytes(content)
        server.start()
        assert sent[:33] == await stored(server, "KEEP")
        assert "7 lost all or part" in server.log
        assert corrupt_records(server) > 0

    with running(LEAFD, CONFIGURATION) as server:
        asyncio.run(scenario(server))
