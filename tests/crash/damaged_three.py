#!/usr/bin/env python3
"""Damaged pages and journal blocks at one of three servers that keep streams together, one after the other.

    python -m tests.crash.damaged_three --rounds 60 --seed 5        a table by kind of page; 0 when all was well
    python -m tests.crash.damaged_three --rounds 20 --only running  damage while the server runs

Three daemons live through all rounds. In each, a page of one server's data.mdb is flipped, zeroed or garbled, while
that server is down or while it runs, or the disk refuses to give the page, or a block of its journal is damaged after
kill -9. Clients publish and acknowledge meanwhile. Then all three have to come to the same by themselves, the hurt one
leads, and gives every message that was acknowledged:

    dead      a server ended without being asked
    refused   it did not start
    closed    a stream takes no messages, or a consumer gives none
    apart     the three do not come to the same
    wrong     what the hurt server gives as leader differs from what was acknowledged

Not here: damage of a single server (damaged.py), faults that take nothing from a disk (histories).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import nats.errors
from nats.aio.client import Client

from tests.crash.damaged import damage_page, file_of, pick, preload, refuse_page, status_of
from tests.crash.pages import PAGE, kinds_of
from tests.crash.reading import Reader
from tests.interop.test_meta_group import group_at, others_at
from tests.rig.reports import report
from tests.servers import LEAFD, Server, ServerDied, make

CONFIG: Final = """
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{http_port}"
server_name: "{name}"
jetstream { store_dir: "{store}", max_file: 1G, meta_size: 3 }
cluster { name: C, listen: "127.0.0.1:{route_port}", routes: [ "nats-route://127.0.0.1:{first}" ] }
"""
MOMENTS: Final = ("stopped", "stopped", "running", "running", "journal", "journal", "unread stopped", "unread running")
OUTCOMES: Final = ("dead", "refused", "closed", "apart", "wrong")
SMALL: Final = 6
KEPT: Final = 3
"""Values of a key."""
PATIENCE_S: Final = 60.0
AGAIN_S: Final = 0.1
HANDED_OVER_S: Final = 3.0
"""It is not asked for again before: a leader that hands over takes in no members meanwhile."""
SILENT_S: Final = 15.0
"""Longer than consumers wait for a damaged page before a start is asked for."""
Config = dict[str, Any]


def configurations() -> dict[str, Config]:
    """The streams by name."""
    streams: dict[str, Config] = {
        "BIG": {"subjects": ["big.*"], "allow_msg_ttl": True},
        "KV_B": {"subjects": ["$KV.B.>"], "max_msgs_per_subject": KEPT, "allow_rollup_hdrs": True},
        "WORK": {"subjects": ["work"], "retention": "workqueue"},
    }
    streams |= {f"S{number}": {"subjects": [f"s{number}"]} for number in range(SMALL)}
    for name, config in streams.items():
        config |= {"name": name, "num_replicas": 3, "allow_direct": True, "storage": "file"}
    return streams


@dataclass
class Round:
    """One damage, and what came of it."""

    number: int
    victim: int
    moment: str
    kind: str = ""
    how: str = ""
    outcomes: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    def say(self, outcome: str, note: str) -> None:
        self.outcomes[outcome] += 1
        self.notes.append(f"{outcome}: {note}")


@dataclass
class Three:
    """The servers, and what was acknowledged: of each stream its messages by sequence, subject and payload."""

    servers: list[Server]
    chance: random.Random
    known: dict[str, dict[int, tuple[str, bytes]]] = field(default_factory=lambda: defaultdict(dict))
    done: set[bytes] = field(default_factory=set)
    """Of the work queue: what was acknowledged, and that was confirmed."""
    number: int = 0

    def start(self, at: int) -> None:
        """Raises ServerDied."""
        server = self.servers[at]
        before = ("env", f"LD_PRELOAD={preload()}", f"LEAFD_UNREAD={server.directory / 'unread'}")
        server.start(before=before)

    # ---- clients -----------------------------------------------------------------------------------------------------

    async def publish(self, client: Client, stream: str, subject: str) -> None:
        """Until it is acknowledged; once, as its id says. Raises TimeoutError."""
        self.number += 1
        payload = b"%d " % self.number + self.chance.randbytes(60).hex().encode() * self.chance.randint(1, 6)
        headers = {"Nats-Msg-Id": f"id-{self.number}"}
        until, last = time.monotonic() + PATIENCE_S, ""
        while time.monotonic() < until:
            try:
                said = json.loads((await client.request(subject, payload, timeout=5, headers=headers)).data)
            except nats.errors.Error as error:  # its server may begin again, to mend its store
                said = {"error": repr(error)}
            if "error" not in said:
                self.known[stream][said["seq"]] = (subject, payload)
                return
            last = str(said["error"])
            await asyncio.sleep(AGAIN_S)
        raise TimeoutError(f"{stream}: {last}")

    async def work(self, client: Client, stream: str, count: int) -> None:
        for begin in range(0, count, 100):
            some = range(begin, min(begin + 100, count))
            await asyncio.gather(*(self.publish(client, stream, self.subject(stream, one)) for one in some))

    def subject(self, stream: str, number: int) -> str:
        key = number * 7919 % 300
        return {"BIG": f"big.{key}", "KV_B": f"$KV.B.k{key}", "WORK": "work"}.get(stream, stream.lower())

    async def ask(self, client: Client, verb: str, body: object = None) -> Config:
        """Until it is not refused. Raises TimeoutError."""
        payload = json.dumps(body).encode() if body is not None else b""
        until, last = time.monotonic() + PATIENCE_S, ""
        while time.monotonic() < until:
            try:
                said: Config = json.loads((await client.request(f"$JS.API.{verb}", payload, timeout=5)).data)
            except nats.errors.Error as error:  # its server may begin again, to mend its store
                said = {"error": repr(error)}
            if "error" not in said:
                return said
            last = str(said["error"])
            await asyncio.sleep(AGAIN_S)
        raise TimeoutError(f"{verb}: {last}")

    async def take(self, client: Client, count: int, found: Round | None) -> None:
        """Takes so many from the work queue, and acknowledges each until that is confirmed. Raises TimeoutError."""
        inbox, taken = client.new_inbox(), 0
        subscription = await client.subscribe(inbox)
        until = time.monotonic() + PATIENCE_S
        while taken < count and time.monotonic() < until:
            body = json.dumps({"batch": count - taken, "expires": 2_000_000_000}).encode()
            await client.publish("$JS.API.CONSUMER.MSG.NEXT.WORK.worker", body, reply=inbox)
            with contextlib.suppress(nats.errors.Error):
                while (message := await subscription.next_msg(timeout=3)).reply:
                    if message.data in self.done and found is not None:
                        found.say("wrong", f"WORK: {message.data[:12]!r} comes again")
                    try:
                        await client.request(message.reply, b"+ACK", timeout=2)
                    except nats.errors.Error:
                        continue  # it comes again
                    self.done.add(message.data)
                    seq = int(message.reply.split(".")[-4])
                    self.known["WORK"].pop(seq, None)
                    taken += 1
        await subscription.unsubscribe()
        if taken < count:
            raise TimeoutError(f"the work queue gave {taken} of {count}")

    async def fill(self) -> None:
        async with self.client(0) as client:
            for name, config in configurations().items():
                await self.ask(client, f"STREAM.CREATE.{name}", config)
            for stream in configurations():
                await self.work(client, stream, {"BIG": 3000, "KV_B": 1000, "WORK": 500}.get(stream, 60))
            worker = {"durable_name": "worker", "ack_policy": "explicit", "ack_wait": 2_000_000_000}
            await self.ask(client, "CONSUMER.CREATE.WORK.worker", {"stream_name": "WORK", "config": worker})
            await self.take(client, 100, None)

    @contextlib.asynccontextmanager
    async def client(self, at: int) -> Any:
        client = await nats.connect(
            self.servers[at].url, max_reconnect_attempts=-1, reconnect_time_wait=0.2, error_cb=_quiet
        )
        try:
            yield client
        finally:
            with contextlib.suppress(nats.errors.Error, OSError, asyncio.TimeoutError):
                await asyncio.wait_for(client.close(), 2)

    # ---- what they have ----------------------------------------------------------------------------------------------

    def wanted(self, stream: str) -> list[bytes]:
        rows = self.known[stream]
        if stream != "KV_B":
            return [rows[seq][1] for seq in sorted(rows)]
        by_key: dict[str, list[int]] = defaultdict(list)
        for seq in sorted(rows):
            by_key[rows[seq][0]].append(seq)
        return [rows[seq][1] for seq in sorted(seq for seqs in by_key.values() for seq in seqs[-KEPT:])]

    def states(self) -> list[dict[str, tuple[int, ...]]]:
        found = []
        for server in self.servers:
            with contextlib.suppress(OSError, ValueError, KeyError):
                accounts = report(server, "jsz?accounts=true&streams=true").get("account_details", ())
                streams = [one for account in accounts for one in account.get("stream_detail", ())]
                names = ("messages", "bytes", "first_seq", "last_seq")
                found.append({one["name"]: tuple(one["state"].get(name, 0) for name in names) for one in streams})
        return found

    def level(self) -> str:
        """The three have the same, and each of them is a member of all groups: "". Before that no second disk may be
        hurt: two of three are a majority that has forgotten something."""
        until, states, apart = time.monotonic() + PATIENCE_S, list[dict[str, tuple[int, ...]]](), ""
        while time.monotonic() < until:
            states = self.states()
            same = len(states) == 3 and states[0] and states[0] == states[1] == states[2]
            if same and not (apart := asyncio.run(self.unjoined())):
                return ""
            time.sleep(0.2)
        names = sorted({name for state in states for name in state})
        differ = {name: [state.get(name) for state in states] for name in names}
        return apart or str({name: rows for name, rows in differ.items() if len(rows) < 3 or len(set(rows)) > 1})[:600]

    async def unjoined(self) -> str:
        """A group that a server is no member of: "": there is none."""
        with contextlib.suppress(nats.errors.Error, TimeoutError, OSError):
            async with self.client(0) as client:
                for stream in configurations():
                    found = (await self.ask(client, f"STREAM.INFO.{stream}"))["cluster"]
                    rows = found.get("replicas", [])
                    if len(rows) != 2 or not all(row.get("current") and not row.get("offline") for row in rows):
                        return f"{stream}: {found}"
            leader = group_at(self.servers[0]).get("leader", "")
            rows = others_at(self.servers[int(leader[1:])]) if leader else {}
            if len(rows) == 2 and all(row["current"] and not row.get("offline") for row in rows.values()):
                return ""
        return "the group of servers"

    async def led(self, client: Client, stream: str, wanted: str) -> None:
        """Raises TimeoutError."""
        until, again = time.monotonic() + PATIENCE_S, 0.0
        while (now := time.monotonic()) < until:
            info = await self.ask(client, f"STREAM.INFO.{stream}")
            if info["cluster"].get("leader") == wanted:
                return
            if now >= again:
                again, body = now + HANDED_OVER_S, json.dumps({"placement": {"preferred": wanted}}).encode()
                with contextlib.suppress(nats.errors.Error):
                    await client.request(f"$JS.API.STREAM.LEADER.STEPDOWN.{stream}", body, timeout=5)
            await asyncio.sleep(AGAIN_S)
        raise TimeoutError(f"{stream}: {wanted} does not lead")


async def _quiet(error: Exception) -> None:
    """Connections of a server that dies break: that is what is looked for."""


# ---- one round -------------------------------------------------------------------------------------------------------


def hurt(three: Three, one: Round) -> None:
    """Raises ServerDied: it did not start. The server is up behind it."""
    server, chance = three.servers[one.victim], three.chance
    running = one.moment in ("running", "unread running")
    if one.moment == "journal":
        server.kill()
        path = file_of(server, "journal")
        data = path.read_bytes()
        blocks = [at for at in range(len(data) // PAGE) if data[at * PAGE : at * PAGE + PAGE].strip(b"\0")]
        one.kind, one.how = "journal block", damage_page(path, chance.choice(blocks), chance)
    else:
        if not running and (status := server.stop()) != 0:
            one.say("dead", f"status {status} at its end")
        path = file_of(server, "data.mdb")
        one.kind, page = pick(kinds_of(path), chance)
        if one.moment.startswith("unread"):
            refuse_page(server, path, page)
            one.how = "refused"
            time.sleep(0.3 if running else 0)  # the library looks each 50 ms
        else:
            one.how = damage_page(path, page, chance)
        one.notes.append(f"page {page}")
    if not running:
        three.start(one.victim)


async def meanwhile(three: Three, one: Round) -> None:
    """Clients at the hurt server and at another one go on. Raises TimeoutError."""
    for at in (one.victim, (one.victim + 1) % 3):
        async with three.client(at) as client:
            for stream in configurations():
                await three.work(client, stream, 5)
            await three.take(client, 3, one)


async def given(three: Three, at: int, client: Client, stream: str, *, silent_s: float = SILENT_S) -> list[bytes]:
    """What was acknowledged, as a new consumer delivers it where that server leads. It may begin anew meanwhile; or it
    meets damage and hands its lead over, with which the consumer, being in memory, ends and says nothing. Then the
    server has to lead again. Raises TimeoutError."""
    until, count = time.monotonic() + PATIENCE_S, len(three.wanted(stream))
    while True:
        await three.led(client, stream, f"s{at}")
        try:
            with Reader(three.servers[at], silent_s) as reader:
                return await asyncio.to_thread(reader.delivered, stream, count)
        except (OSError, ValueError) as error:
            if time.monotonic() > until:
                raise TimeoutError(f"{stream}: {error!r}") from error
            await asyncio.sleep(AGAIN_S)


async def gives_all(three: Three, one: Round) -> None:
    """The hurt server leads, and gives what was acknowledged. Raises TimeoutError."""
    async with three.client(one.victim) as client:
        for stream in configurations():
            if stream == "WORK":
                await three.led(client, stream, f"s{one.victim}")
                continue  # its consumer is judged as it goes on
            wanted, found = three.wanted(stream), await given(three, one.victim, client, stream)
            if found != wanted:
                differ = next(
                    (at for at, pair in enumerate(zip(found, wanted, strict=False)) if pair[0] != pair[1]), -1
                )
                one.say("wrong", f"{stream}: {len(found)} of {len(wanted)}, the first that differs is {differ}")
        await three.take(client, 3, one)


def play(three: Three, number: int, only: str) -> Round:
    one = Round(number, three.chance.randrange(3), only or three.chance.choice(MOMENTS))
    (three.servers[one.victim].directory / "unread").unlink(missing_ok=True)
    try:
        hurt(three, one)
    except ServerDied as error:
        one.say("refused", str(error)[-600:])
        return one
    try:
        asyncio.run(meanwhile(three, one))
        if apart := three.level():
            one.say("apart", apart)
        else:
            asyncio.run(gives_all(three, one))
    except (TimeoutError, nats.errors.Error, OSError, ValueError) as error:
        one.say("closed", repr(error))
    for at, server in enumerate(three.servers):
        if status_of(server) is not None:
            one.say("dead", f"s{at}: status {status_of(server)}")
    late = "running" in one.moment or one.moment.startswith("unread")
    if (
        late and not one.outcomes
    ):  # what was not met yet is met by a start; and another disk gives what that one did not
        (three.servers[one.victim].directory / "unread").unlink(missing_ok=True)
        three.servers[one.victim].stop()
        three.start(one.victim)
    if not one.outcomes and (apart := three.level()):
        one.say("apart", f"in the end: {apart}")
    return one


# ---- all of them -----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def three_servers(folder: Path, chance: random.Random) -> Iterator[Three]:
    three = Three([], chance)
    try:
        for number in range(3):
            place = folder / f"s{number}"
            place.mkdir()
            first = three.servers[0].ports["route_port"] if three.servers else "{route_port}"
            three.servers.append(make(LEAFD, CONFIG.replace("{first}", str(first)), place, name=f"s{number}"))
        for number in range(3):
            three.start(number)
        yield three
    finally:
        for server in three.servers:
            if server.process is not None:
                server.stop()


def mended(three: Three) -> bool:
    """Those that ended are started again, and then all is well."""
    try:
        for at in [at for at, server in enumerate(three.servers) if status_of(server) is not None]:
            three.start(at)
    except ServerDied:
        return False
    return not three.level()


def run_all(rounds: int, seed: int, only: str = "", *, said: bool = False) -> list[Round]:
    """Plays so many rounds, and ends behind one that leaves the servers unwell: what follows would be its doing."""
    played = []
    with tempfile.TemporaryDirectory(prefix="leafd-damaged-three-") as directory:
        with three_servers(Path(directory), random.Random(seed)) as three:
            asyncio.run(three.fill())
            for number in range(rounds):
                one = play(three, number, only)
                played.append(one)
                if said or one.outcomes:
                    where = f"s{one.victim}, {one.kind}, {one.how} {one.moment}"
                    print(f"round {number}: {where}: {' | '.join(one.notes)}", flush=True)
                if one.outcomes and not mended(three):
                    break
        if any(one.outcomes for one in played) and "LEAFD_DAMAGED_KEEP" in os.environ:
            shutil.copytree(directory, f"{os.environ['LEAFD_DAMAGED_KEEP']}/{seed}", dirs_exist_ok=True)
    return played


def table(rounds: list[Round]) -> str:
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    for one in rounds:
        for name in (one.kind, "all"):
            rows[name]["rounds"] += 1
            rows[name].update(dict.fromkeys(one.outcomes, 1))
    columns = ("rounds", *OUTCOMES)
    lines = [f"{'page':28}" + "".join(f"{column:>9}" for column in columns)]
    for name in sorted(rows, key=lambda row: (row == "all", row)):
        lines.append(f"{name:28}" + "".join(f"{rows[name][column]:9}" for column in columns))
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--only", default="", choices=("", *sorted(set(MOMENTS))))
    parser.add_argument("-v", action="store_true", help="print every round")
    arguments = parser.parse_args()
    rounds = run_all(arguments.rounds, arguments.seed, arguments.only, said=arguments.v)
    print(table(rounds))
    return 1 if any(one.outcomes for one in rounds) else 0


if __name__ == "__main__":
    sys.exit(main())
