"""Connections for test_denials.py, spoken by hand: a client, a leaf that dials the server, a hub that the server dials.

    peer.publish(), peer.subscribe()     PUB and SUB of a client; LMSG and LS+ of a leaf or a hub
    peer.heard                           what came: messages in short, errors, and the end

They are asyncio's, since thousands of them are open at once; the bytes of a message are the rig's (tests/rig/raw.py).
Not here: who sends what (denial_paths.py), who may what (denials.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Mapping
from typing import Any

from tests.rig.raw import Announced, announced, message_frame
from tests.rig.waiting import PATIENCE_S

LATER = re.compile(r"^(_R_|_GR_|\$JS\.ACK\.\w+\.\w+|\$JS\.SNAPSHOT|\$JS\.FC)\..*")


class Peer:
    """One connection that is logged in."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, link: bool = False) -> None:
        self.heard: list[str] = []
        self.found: dict[str, str] = {}
        self.reply = ""
        self._reader, self._writer, self._link = reader, writer, link
        self._pings = self._pongs = self._subscriptions = 0
        self._news = asyncio.Event()
        self._over = False
        self._task: asyncio.Task[None] | None = None

    async def info(self) -> dict[str, Any]:
        """The first INFO."""
        found: dict[str, Any] = json.loads((await self._reader.readline()).removeprefix(b"INFO "))
        return found

    async def begin(self, connect: Mapping[str, Any]) -> None:
        """Logs in, and reads from then on."""
        self._writer.write(b"CONNECT " + json.dumps(connect).encode() + b"\r\n")
        self.listen()
        await self.flush()

    def listen(self) -> None:
        """Reads from now on."""
        self._task = asyncio.create_task(self._read())

    async def flush(self) -> None:
        """Until the server has acted on everything that was sent, and what it said meanwhile has come."""
        if self._over:
            return
        self._writer.write(b"PING\r\n")
        self._pings += 1
        wanted = self._pings
        async with asyncio.timeout(PATIENCE_S):
            while self._pongs < wanted and not self._over:
                self._news.clear()
                await self._news.wait()

    async def until_found(self, name: str) -> None:
        """Until the answer of that name has come."""
        async with asyncio.timeout(PATIENCE_S):
            while name not in self.found and not self._over:
                self._news.clear()
                await self._news.wait()

    def publish(self, subject: str, reply: str = "", data: str = "", headers: Mapping[str, str] | None = None) -> None:
        """One message."""
        lines = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        block = f"NATS/1.0\r\n{lines}\r\n".encode() if headers else b""
        self.send(message_frame(subject, data, block, reply, link=self._link))

    def send(self, frame: bytes) -> None:
        """Whatever its bytes are."""
        self._writer.write(frame)

    def subscribe(self, subject: str, queue: str = "") -> None:
        """Asks for a subject, for a group where one is named."""
        self._subscriptions += 1
        words = [subject, *([queue] if queue else [])]
        if self._link:
            words = ["LS+", *words, *(["1"] if queue else [])]
        else:
            words = ["SUB", *words, str(self._subscriptions)]
        self._writer.write(" ".join(words).encode() + b"\r\n")

    async def close(self) -> None:
        """Ends the connection."""
        if self._task is not None:
            self._task.cancel()
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def _read(self) -> None:
        try:
            while line := await self._reader.readline():
                await self._take(line.decode().split())
                self._news.set()
        except (OSError, asyncio.IncompleteReadError):
            pass
        self._over = True
        self.heard.append("closed")
        self._news.set()

    async def _take(self, words: list[str]) -> None:
        verb = words[0] if words else ""
        if verb in ("MSG", "HMSG", "LMSG"):
            await self._message(announced(words, link=self._link))
        elif verb == "PING":
            self._writer.write(b"PONG\r\n")
        elif verb == "PONG":
            self._pongs += 1
        elif verb == "-ERR":
            self.heard.append(re.sub(r"_R_\.\w+\.\w+", "_R_", " ".join(words)))

    async def _message(self, said: Announced) -> None:
        body = (await self._reader.readexactly(said.size + 2))[:-2]
        self.reply = said.reply
        text = body[said.cut :].decode()
        status = body[: said.cut].split(b"\r\n")[0].decode().removeprefix("NATS/1.0").strip()
        if said.subject.startswith("found."):
            self.found[said.subject] = summary(text, status)
        else:
            shown = [LATER.sub(r"\1", name) for name in (said.subject, said.reply)]
            self.heard.append(" ".join(filter(None, (*shown, f"({summary(text, status)})"))))


def summary(text: str, status: str) -> str:
    """A payload without what differs from run to run."""
    try:
        body = json.loads(text)
    except ValueError:
        return f"{status} {text}".strip()
    if not isinstance(body, dict):
        return text
    if "error" in body:
        return f"{body.get('type', '').split('.')[-1]} refused {body['error'].get('err_code', 0)}"
    if "events" in body:
        return "trace " + " ".join(f"{one['type']}{'!' if one.get('error') else ''}" for one in body["events"])
    facts = [body.get("type", "").split(".")[-1] or f"with {' '.join(sorted(body))}"]
    state = body.get("state")
    if isinstance(state, dict):
        facts.append(f"{state['messages']} messages to {state['last_seq']}")
    if "num_ack_pending" in body:
        facts.append(f"{body['num_pending']} pending, {body['ack_floor']['stream_seq']} acknowledged")
    if "message" in body:
        facts.append(str(body["message"]["subject"]))
    return " ".join(facts)


async def client(port: int, **connect: Any) -> Peer:
    """A client that has logged in, or tried to."""
    peer = Peer(*await asyncio.open_connection("127.0.0.1", port))
    await peer.info()
    await peer.begin({"verbose": False, "headers": True, "protocol": 1} | connect)
    return peer
