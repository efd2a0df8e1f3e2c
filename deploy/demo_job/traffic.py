"""The publishers: one a station and one a station's commands, each getting every message stored, in order.

A publisher keeps what is not acknowledged. When its connection breaks or its broker falls silent, it dials
anew and sends everything unacknowledged again, oldest first, under the same `Nats-Msg-Id`; the stream drops
what it had stored already. Sending on a connection in order, and all of it again on the next one, is what
keeps the order: so the client library's own reconnecting, which would send newer messages first, is off.

A hub of several servers can lose a message while the connection lives: the stream's leader may be gone, and the next
message find the next leader. So the first message of a connection is sent alone, and the rest after its
acknowledgement; a refusal ends the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import nats
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from .observations import Outgoing

WINDOW = 500  # messages in flight
SILENCE_SECONDS = 3.0  # without an acknowledgement while some are due: dial anew
REDIAL_SECONDS = 0.2


async def _ignore(_: Exception) -> None:
    """The client library reports what the publisher notices itself."""


def note(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Leaves out, of what asyncio complains of, the client library's own tasks. Where a broker is killed, some end with
    the connection, and some still wait when the client is closed: a traceback for each would hide what the demo says.
    The publishers notice by themselves."""
    task = context.get("task", context.get("future"))
    code = getattr(task.get_coro(), "cr_code", None) if isinstance(task, asyncio.Task) else None
    theirs = code is not None and Path(code.co_filename).is_relative_to(Path(nats.__file__).parent)
    if not theirs or not isinstance(context.get("exception"), OSError | nats.errors.Error | None):
        loop.default_exception_handler(context)


async def connect(url: str, **options: Any) -> Client:
    settings: dict[str, Any] = {"connect_timeout": 2, "error_cb": _ignore, "allow_reconnect": False} | options
    return await nats.connect(url.split(","), **settings)


class Publisher:
    """Publishes a list of messages, evenly over some seconds, and is done when all are acknowledged."""

    def __init__(self, name: str, url: str, messages: list[Outgoing], seconds: float) -> None:
        self.name = name
        self.acknowledged = 0  # all before this one are stored
        self.resent = 0
        self.duplicates = 0  # sent again and found to be stored already
        self._url = url
        self._messages = messages
        self.seconds = seconds
        self._early: set[int] = set()  # acknowledged while an older one isn't
        self._heard = 0.0
        self._refused = ""
        self._broken = False
        self._highest = 0  # behind the newest message that was ever sent
        self._given_up = False

    @property
    def total(self) -> int:
        return len(self._messages)

    @property
    def done(self) -> bool:
        return self.acknowledged == self.total

    def give_up(self) -> None:
        """Ends the publisher, which a cancellation alone does not: the client library swallows some."""
        self._given_up = True

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        while not (self.done or self._given_up):
            try:
                client = await connect(self._url)
            except (OSError, nats.errors.Error, TimeoutError):
                await asyncio.sleep(REDIAL_SECONDS)
                continue
            try:
                await self._publish_over(client, began)
            except (OSError, nats.errors.Error, TimeoutError):
                pass  # the connection is done for; the next one sends again what is unacknowledged
            finally:
                with contextlib.suppress(Exception):
                    await asyncio.wait_for(client.close(), 2)
            if self._broken:
                await asyncio.sleep(REDIAL_SECONDS)

    async def _publish_over(self, client: Client, began: float) -> None:
        """Publish over one connection until all is acknowledged or it is of no use any more."""
        loop = asyncio.get_running_loop()
        inbox = client.new_inbox()
        self._early.clear()
        self._broken = False
        self._heard = loop.time()
        await client.subscribe(f"{inbox}.*", cb=self._acknowledge)
        sent = first = self.acknowledged
        while not (self.done or self._given_up or client.is_closed or self._broken):
            if self._refused:
                raise RuntimeError(f"{self.name}: {self._refused}")
            due = min(len(self._messages), int(len(self._messages) * (loop.time() - began) / self.seconds) + 1)
            window = WINDOW if self.acknowledged > first else 1
            while sent < due and sent - self.acknowledged < window:
                message = self._messages[sent]
                await client.publish(
                    message.subject, message.payload, f"{inbox}.{sent}", headers={"Nats-Msg-Id": message.message_id}
                )
                self.resent += sent < self._highest
                sent += 1
            self._highest = max(self._highest, sent)
            if sent == self.acknowledged:
                self._heard = loop.time()
            elif loop.time() - self._heard > SILENCE_SECONDS:
                return
            await asyncio.sleep(0.02)

    async def _acknowledge(self, message: Msg) -> None:
        if message.headers and message.headers.get("Status"):
            self._broken = True  # 503: the stream is not there yet after a restart
            return
        answer = json.loads(message.data)
        if "error" in answer:
            self._broken = True
            # What the broker blames on the request will not be better the next time.
            if int(answer["error"].get("code", 500)) < 500:
                self._refused = str(answer["error"])
            return
        self._heard = asyncio.get_running_loop().time()
        self.duplicates += bool(answer.get("duplicate"))
        self._early.add(int(message.subject.rpartition(".")[2]))
        while self.acknowledged in self._early:
            self._early.discard(self.acknowledged)
            self.acknowledged += 1
