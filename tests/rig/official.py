"""Official clients at several servers, and waiting until servers know of each other's interest."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, Final

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from tests import servers
from tests.rig.waiting import AGAIN_S, PATIENCE_S, until

ANSWER_S: Final = 10.0
"""As long as one request waits: what is lost while a leader changes is asked for again by whoever waits longer."""


class Patient(Client):
    """Sends a request anew that had no responders, which so was given to nobody. A busy nats-server says that of a
    stream or a consumer that it has just made, and while it reloads or another one takes the lead."""

    PATIENT_S: Final = 10.0

    async def request(
        self,
        subject: str,
        payload: bytes = b"",
        timeout: float = 0.5,  # noqa: ASYNC109  (as Client has it)
        old_style: bool = False,
        headers: dict[str, Any] | None = None,
    ) -> Msg:
        ends_at = time.monotonic() + self.PATIENT_S
        while True:
            try:
                return await super().request(subject, payload, timeout, old_style, headers)
            except nats.errors.NoRespondersError:
                if time.monotonic() > ends_at:
                    raise
            await asyncio.sleep(AGAIN_S)


async def connect(server: servers.Server, user: str = "a", *, patient: bool = True, **options: Any) -> Client:
    """A client whose password is its name; a patient one at nats-server, but for a test that asks what nobody answers.
    leafd answers at once."""
    given: dict[str, Any] = {"allow_reconnect": False, "connect_timeout": 10, "user": user, "password": user} | options
    client = Patient() if patient and server.kind == servers.REFERENCE else Client()
    await client.connect(server.url, **given)
    return client


@contextlib.asynccontextmanager
async def one_each(at: Iterable[servers.Server], user: str = "a", **options: Any) -> AsyncIterator[list[Client]]:
    """One at each server."""
    made: list[Client] = []
    try:
        for server in at:
            made.append(await connect(server, user, **options))
        yield made
    finally:
        for client in made:
            await client.close()


async def ask(
    client: Client,
    subject: str,
    body: object = None,
    *,
    seconds: float = ANSWER_S,
    headers: dict[str, str] | None = None,
) -> dict[str, Any]:
    """The JSON that answers a request; {} for an empty answer. body: bytes as they are, anything else as JSON."""
    data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    said = (await client.request(subject, data, timeout=seconds, headers=headers)).data
    found: dict[str, Any] = json.loads(said) if said else {}
    return found


def headed(**headers: object) -> dict[str, str] | None:
    """Headers by their names without Nats- and with _ for -."""
    return {f"Nats-{name.replace('_', '-')}": str(value) for name, value in headers.items()} or None


async def must(client: Client, subject: str, body: object = None, *, seconds: float = ANSWER_S) -> dict[str, Any]:
    """The JSON that answers a request, which is no error."""
    found = await ask(client, subject, body, seconds=seconds)
    assert "error" not in found, f"{subject}: {found['error']}"
    return found


async def patiently(client: Client, subject: str, body: object = None) -> dict[str, Any]:
    """The answer that is no error, once there is one: a server may not have heard of a leader or of others yet."""
    found: dict[str, Any] = {}

    async def told() -> bool:
        with contextlib.suppress(AssertionError, nats.errors.Error):
            found.update(await must(client, f"$JS.API.{subject}", body))
        return bool(found)

    await until(told, f"{subject} is not answered")
    return found


async def stored(client: Client, subject: str, payload: bytes = b"x", message_id: str = "") -> dict[str, Any]:
    """The answer to a publisher whose message is in a stream. While nobody takes it, as while its leader changes, it
    is published again, which with an id is once."""
    headers = {"Nats-Msg-Id": message_id} if message_id else None
    found: dict[str, Any] = {}

    async def taken() -> bool:
        with contextlib.suppress(nats.errors.Error):
            found.clear()
            found.update(json.loads((await client.request(subject, payload, timeout=2, headers=headers)).data))
        return "seq" in found

    await until(taken, lambda: f"nobody takes {subject}: {found}")
    return found


async def ask_all(client: Client, subject: str, body: bytes = b"", answers: int = 3) -> list[dict[str, Any]]:
    """The answers of so many servers, or fewer that answer within a time."""
    inbox, found = client.new_inbox(), list[dict[str, Any]]()
    subscription = await client.subscribe(inbox)
    await client.publish(subject, body, reply=inbox)
    with contextlib.suppress(nats.errors.TimeoutError):
        while len(found) < answers:
            found.append(json.loads((await subscription.next_msg(timeout=30)).data))
    await subscription.unsubscribe()
    return found


async def until_known(client: Client, servers: int = 3) -> None:
    """Each of so many servers says that there are so many."""

    async def known() -> bool:
        told = await ask_all(client, "$SYS.REQ.SERVER.PING", answers=servers)
        return [one["statsz"]["active_servers"] for one in told] == [servers] * servers

    await until(known, "a server has not heard of another one")


async def until_heard(clients: list[Client], subject: str) -> None:
    """Each server knows of the interest at each other one."""
    heard: set[tuple[int, int]] = set()

    def hears(number: int) -> Callable[[Msg], Awaitable[None]]:
        async def heard_one(message: Msg) -> None:
            heard.add((int(message.data), number))

        return heard_one

    subscriptions = [await one.subscribe(f"{subject}.ready", cb=hears(n)) for n, one in enumerate(clients)]
    async with asyncio.timeout(PATIENCE_S):
        while len(heard) < len(clients) ** 2:
            for number, client in enumerate(clients):
                await client.publish(f"{subject}.ready", b"%d" % number)
                await client.flush(30)
            await asyncio.sleep(AGAIN_S)
    for one in subscriptions:
        await one.unsubscribe()


async def until_whole(clients: list[Client], subject: str) -> None:
    """A long message comes from the first to the last as it is."""
    text = b"0123456789abcdef" * 20_000
    heard = await clients[-1].subscribe(f"{subject}.long")
    await until_heard(clients, f"{subject}.long")
    await clients[0].publish(f"{subject}.long", text)
    assert text == (await heard.next_msg(PATIENCE_S)).data


async def stay_apart(ones: list[Client], others: list[Client]) -> None:
    """A subject in two accounts is two subjects: who listens to all of one account hears nothing of the other."""
    got: list[bytes] = []

    async def take(message: Msg) -> None:
        got.append(message.data)

    await others[1].subscribe(">", cb=take)
    await others[1].flush(30)
    await until_heard(others, "ready")
    got.clear()
    await ones[0].publish("x", b"of A")
    await ones[0].flush(30)
    await others[0].publish("x", b"of B")
    await others[0].flush(30)
    await until(lambda: b"of B" in got, "nothing came")
    await asyncio.sleep(0.1)
    assert got == [b"of B"]


async def come_in_order(clients: list[Client], each: int) -> None:
    """So many messages of each client, with headers, come to all of them once and in the order of their publisher."""
    got: list[list[tuple[int, int]]] = [[] for _ in clients]

    def taker(number: int) -> Callable[[Msg], Awaitable[None]]:
        async def take(message: Msg) -> None:
            assert message.headers is not None
            got[number].append((int(message.headers["From"]), int(message.data)))

        return take

    for number, client in enumerate(clients):
        await client.subscribe("m.*.x", cb=taker(number))
        await client.flush(30)
    await until_heard(clients, "m.ready")
    for message in range(each):
        for number, client in enumerate(clients):
            await client.publish("m.1.x", b"%d" % message, headers={"From": str(number)})
    for client in clients:
        await client.flush(30)
    await until(lambda: all(len(one) >= len(clients) * each for one in got), lambda: [len(one) for one in got])
    await asyncio.sleep(0.2)
    for one in got:
        for number in range(len(clients)):
            assert [message for who, message in one if who == number] == list(range(each))


class QueueGroup:
    """A queue group of which each client is a member, which counts what it gets."""

    def __init__(self, clients: list[Client]) -> None:
        self._clients = clients
        self._counts = [0 for _ in clients]
        self._members: list[Subscription] = []

    async def join(self) -> None:
        """All are members, and each knows of the others."""

        def member(number: int) -> Callable[[Msg], Awaitable[None]]:
            async def take(message: Msg) -> None:
                self._counts[number] += 1

            return take

        self._members = [await one.subscribe("q.x", queue="g", cb=member(n)) for n, one in enumerate(self._clients)]
        for client in self._clients:
            await client.flush(30)
        await until_heard(self._clients, "ready")

    async def leave(self, number: int) -> None:
        """The client is no member any more."""
        await self._members[number].unsubscribe()
        await self._clients[number].flush(30)

    async def shares(self, publisher: Client, messages: int) -> list[int]:
        """How many of so many messages each member gets; each message comes once."""
        self._counts[:] = [0 for _ in self._clients]
        for _ in range(messages):
            await publisher.publish("q.x", b"")
        await publisher.flush(30)
        await until(lambda: sum(self._counts) >= messages, lambda: self._counts)
        await asyncio.sleep(0.1)
        assert messages == sum(self._counts)
        return list(self._counts)
