"""Consumers of the streams, and what those who pull from them saw: which number was delivered by which pull, and which
acknowledgement of it was confirmed.

Each pull has an inbox of its own, so it is known of a delivery when it was asked for at the earliest. What was
delivered before an acknowledgement may arrive after it, by another way; what was asked for after it may not. Not here:
what that means (judge.py).
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from typing import Any, Final

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

WAIT_S: Final = 2.0
"""A confirmation that takes longer is none."""
BATCH: Final = 64
LASTS_S: Final = 1.0
ACK_WAIT_S: Final = 4.0
DRAIN_S: Final = 120.0
"""So long after the last fault at most, until all is delivered and acknowledged."""
SEQUENCE_TOKEN: Final = -4
"""Of $JS.ACK.<stream>.<consumer>.<delivered>.<stream sequence>.<consumer sequence>.<time>.<pending>, from its end."""


@dataclass(frozen=True)
class Consumer:
    """A durable one, which has the stream's name."""

    stream: str
    subject: str

    def request(self) -> dict[str, Any]:
        """What makes it."""
        config: dict[str, Any] = {"durable_name": self.stream, "ack_policy": "explicit", "filter_subject": self.subject}
        config |= {"ack_wait": int(ACK_WAIT_S * 1e9), "max_ack_pending": 2000}
        return {"stream_name": self.stream, "config": config}

    @property
    def made_at(self) -> str:
        return f"$JS.API.CONSUMER.DURABLE.CREATE.{self.stream}.{self.stream}"


@dataclass
class Delivery:
    """A number that was delivered. pulled: when it was asked for; confirmed: when its acknowledgement was, 0: never."""

    stream: str
    number: int
    seq: int
    pulled: int
    confirmed: int = 0


async def pull_until(drained: asyncio.Event, client: Client, consumer: Consumer, found: list[Delivery]) -> None:
    """Pulls and acknowledges, one batch after the other. Each delivery is added to those that were found."""
    while not drained.is_set():
        pulled, inbox = time.monotonic_ns(), client.new_inbox()
        subscription = await client.subscribe(inbox)
        body = json.dumps({"batch": BATCH, "expires": int(LASTS_S * 1e9)}).encode()
        await client.publish(f"$JS.API.CONSUMER.MSG.NEXT.{consumer.stream}.{consumer.stream}", body, reply=inbox)
        messages: list[Msg] = []
        try:
            while len(messages) < BATCH:
                message = await subscription.next_msg(timeout=LASTS_S + 1)
                if (message.headers or {}).get("Status"):
                    break
                messages.append(message)
        except (nats.errors.Error, TimeoutError):
            pass
        await subscription.unsubscribe()
        one_each = [_delivery(consumer, message, pulled) for message in messages]
        found.extend(one_each)
        await asyncio.gather(*(_acknowledge(client, *pair) for pair in zip(messages, one_each, strict=True)))
        if not messages:
            await asyncio.sleep(0.1)


def _delivery(consumer: Consumer, message: Msg, pulled: int) -> Delivery:
    return delivery(consumer.stream, message.data, int(message.reply.split(".")[SEQUENCE_TOKEN]), pulled)


def delivery(stream: str, payload: bytes, seq: int, pulled: int) -> Delivery:
    """Consumers want numbers alone: what is none, as a register's value that has come to be at a sequence which was
    another message's, has a negative one, which nobody published."""
    return Delivery(stream, int(payload) if payload.isdigit() else -seq, seq, pulled)


async def _acknowledge(client: Client, message: Msg, delivery: Delivery) -> None:
    try:
        await client.request(message.reply, b"+ACK", timeout=WAIT_S)
    except (nats.errors.Error, TimeoutError, OSError):
        return
    delivery.confirmed = time.monotonic_ns()


async def drain(client: Client, consumers: list[Consumer]) -> None:
    """Returns when nothing waits for a delivery or an acknowledgement, or that takes too long."""
    until = time.monotonic() + DRAIN_S
    while time.monotonic() < until:
        infos = [await _info(client, consumer) for consumer in consumers]
        if all(info.get("num_pending") == 0 and info.get("num_ack_pending") == 0 for info in infos):
            return
        await asyncio.sleep(0.5)


async def _info(client: Client, consumer: Consumer) -> dict[str, Any]:
    try:
        said = await client.request(f"$JS.API.CONSUMER.INFO.{consumer.stream}.{consumer.stream}", timeout=WAIT_S)
        found: dict[str, Any] = json.loads(said.data)
    except (nats.errors.Error, TimeoutError, ValueError, OSError):
        return {}
    return found
