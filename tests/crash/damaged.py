#!/usr/bin/env python3
"""Single damaged pages of data.mdb and blocks of the journal, in masses: what a real daemon makes of each.

    python -m tests.crash.damaged --cases 200 --seed 7          a table by kind of page; 0 when nothing was dead,
                                                                refused, wrong or silent
    python -m tests.crash.damaged --cases 20 --only running     damage while the daemon runs
    python -m tests.crash.damaged --cases 20 --store sealed     in an encrypted store; or compressed: all streams are
    python -m tests.crash.damaged --cases 20 --streams 150      so many small streams beside the large ones
    python -m tests.crash.damaged --cases 20 --json             bursts of readings, which the journal compresses

A store of many streams (with subjects, message ids, times to live, consumers, a bucket, a compressed one, a sealed one,
one with large messages) is made once, and copied for each case. Then one page is flipped, zeroed or garbled, while the
daemon is down or while it runs, or the disk refuses to give the page (unread_preload.c stands between the daemon and
its disk), or a block of the journal is damaged after kill -9; everything is read and written to, and read
again after a restart. What every stream and consumer was is known from the making, and compared:

    dead      the daemon ended without being asked
    refused   it did not start
    wrong     a message that differs from what was published, or a number that cannot be
    silent    a message, stream or consumer is missing (or what is asked gets no answer) and no word of damage is said

Two more columns only count: cases in which messages were lost (and said), and in which a stream took no new ones.

Not here: what the C code makes of each bit (tests/native/test_store_damage.c and others).
"""

from __future__ import annotations

import argparse
import asyncio
import atexit
import contextlib
import functools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import nats
from nats.aio.client import Client
from nats.errors import Error as NatsError

from tests.crash.pages import PAGE, kinds_of
from tests.crash.reading import Reader
from tests.servers import LEAFD, Server, ServerDied, make

CONFIGURATION = """
listen: 127.0.0.1:{port}
http: 127.0.0.1:{http_port}
jetstream { store_dir: "{store}", max_file: 1G, max_mem: 64M SEALED }
"""
SEALED = 'cipher: chacha, key: "the key of a store that pages are taken from"'
STORES = ("plain", "sealed", "compressed")
SMALL_STREAMS = 24
ANSWER_SECONDS = 5.0
WORDS = ("damaged", "fails its checksum", "cannot be read", "could not be read", "lost", "does not give it")
MOMENTS = ("stopped", "stopped", "running", "running", "journal", "unread stopped", "unread running")
OUTCOMES = ("dead", "refused", "wrong", "silent")


@dataclass
class Known:
    """What was published and acknowledged: of each stream its messages by sequence, of each consumer its floor."""

    messages: dict[str, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))  # checksums of the payloads
    floors: dict[tuple[str, str], int] = field(default_factory=dict)
    unanswered: set[int] = field(default_factory=set)  # checksums of what may be there or not
    small: int = SMALL_STREAMS
    json: bool = False  # bursts of readings are written, too


@dataclass
class Verdict:
    """What became of one case."""

    kind: str
    how: str
    outcomes: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    lost: int = 0  # messages, said or not
    unwritable: int = 0  # streams, said or not

    def say(self, outcome: str, note: str) -> None:
        self.outcomes[outcome] += 1
        self.notes.append(f"{outcome}: {note}")


async def api(client: Client, verb: str, body: object = None) -> dict[str, object]:
    payload = json.dumps(body).encode() if body is not None else b""
    answer = await client.request(f"$JS.API.{verb}", payload, timeout=ANSWER_SECONDS)
    found: dict[str, object] = json.loads(answer.data)
    return found


async def publish(
    client: Client, known: Known, stream: str, subject: str, payload: bytes, headers: dict[str, str] | None = None
) -> None:
    answer = await client.request(subject, payload, timeout=ANSWER_SECONDS, headers=headers or None)
    ack = json.loads(answer.data)
    if "error" in ack:
        raise ValueError(f"{subject}: {ack['error']}")
    known.messages[stream][ack["seq"]] = zlib.crc32(payload)


def configurations(store: str = "plain", small: int = SMALL_STREAMS) -> dict[str, dict[str, object]]:
    """The streams by name."""
    streams: dict[str, dict[str, object]] = {
        "BIG": {"subjects": ["big.>"], "allow_msg_ttl": True},
        "LARGE": {"subjects": ["large.>"]},
        "PACKED": {"subjects": ["packed.>"], "compression": "s2"},
        "KV_B": {"subjects": ["$KV.B.>"], "max_msgs_per_subject": 3, "allow_rollup_hdrs": True, "discard": "new"},
        "WORK": {"subjects": ["work.>"], "retention": "workqueue"},
        "SEALED": {"subjects": ["sealed.>"]},
    }
    for number in range(small):
        streams[f"S{number}"] = {"subjects": [f"s{number}.>"]}
    for name, configuration in streams.items():
        configuration |= {"name": name, "allow_direct": True, "storage": "file"}
        if store == "compressed":
            configuration["compression"] = "s2"
    return streams


async def fill(client: Client, known: Known, chance: random.Random, large: int, store: str) -> None:
    for name, configuration in configurations(store, known.small).items():
        made = await api(client, f"STREAM.CREATE.{name}", configuration)
        assert "error" not in made, made
    work: list[tuple[str, str, bytes, dict[str, str]]] = []
    for number in range(6_000):
        text = f"reading {number} ".encode() * chance.randint(3, 14)
        headers = {"Nats-Msg-Id": f"id-{number}"} if number % 3 == 0 else {}
        headers |= {"Nats-TTL": "8h"} if number % 5 == 0 else {}
        work.append(("BIG", f"big.{number * 7919 % 900}.temperature", text, headers))
    work += [("LARGE", f"large.{n % 7}", chance.randbytes(chance.randint(3_000, 40_000)), {}) for n in range(large)]
    work += [("PACKED", f"packed.{n % 50}", f'{{"id": {n}, "value": 21.5}}'.encode() * 4, {}) for n in range(2_500)]
    work += [("KV_B", f"$KV.B.key{n % 400}", f"value {n}".encode() * 5, {}) for n in range(1_000)]
    work += [("WORK", f"work.{n % 9}", f"job {n}".encode() * 9, {}) for n in range(600)]
    work += [("SEALED", "sealed.a", f"closed {n}".encode() * 3, {}) for n in range(200)]
    for small in range(known.small):
        work += [(f"S{small}", f"s{small}.{n % 11}", f"{small} has {n}".encode() * 4, {}) for n in range(60)]
    for begin in range(0, len(work), 200):
        await asyncio.gather(*(publish(client, known, *item) for item in work[begin : begin + 200]))
    sealed = configurations(store)["SEALED"] | {"sealed": True}
    assert "error" not in await api(client, "STREAM.UPDATE.SEALED", sealed)
    for stream, take in (("BIG", 700), ("WORK", 200), ("S3", 20), ("KV_B", 100)):
        await consume(client, known, stream, take)


async def consume(client: Client, known: Known, stream: str, take: int) -> None:
    """A durable consumer that has acknowledged the first `take` messages."""
    policy = "explicit" if stream == "WORK" else "all"
    body = {"stream_name": stream, "config": {"durable_name": "reader", "ack_policy": policy, "ack_wait": 3600 * 10**9}}
    made = await api(client, f"CONSUMER.CREATE.{stream}.reader", body)
    assert "error" not in made, made
    inbox = client.new_inbox()
    replies = await client.subscribe(inbox)
    await client.publish(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.reader", json.dumps({"batch": take}).encode(), inbox)
    taken = [await replies.next_msg(ANSWER_SECONDS) for _ in range(take)]
    for message in taken if policy == "explicit" else taken[-1:]:
        await client.request(message.reply, b"+ACK", timeout=ANSWER_SECONDS)
    await replies.unsubscribe()
    floor = int(taken[-1].reply.split(".")[5])
    known.floors[stream, "reader"] = floor
    if stream == "WORK":
        for seq in [seq for seq in known.messages[stream] if seq <= floor]:
            del known.messages[stream][seq]


def trim_buckets(server: Server, known: Known) -> None:
    """The bucket keeps three values a key: what is there is what was not pushed out."""
    with Reader(server) as reader:
        state = read_stream(reader, "KV_B")
    assert all(known.messages["KV_B"][seq] == check for seq, check in state.items())
    assert len(state) == min(1_000, 400 * 3)
    known.messages["KV_B"] = state


def read_stream(reader: Reader, stream: str) -> dict[int, int]:
    """All messages by batched direct gets: the checksum of each payload by its sequence."""
    return {seq: zlib.crc32(payload) for seq, payload in reader.all(stream)}


async def compare(server: Server, client: Client, known: Known, verdict: Verdict) -> list[str]:
    """What is not as it was. A message that differs, or that nobody published, is wrong at once."""
    missing: list[str] = []
    for stream, expected in known.messages.items():
        try:
            info = await api(client, f"STREAM.INFO.{stream}")
            if "error" in info:
                missing.append(f"stream {stream}: {info['error']}")
                continue
            with Reader(server, ANSWER_SECONDS) as reader:
                found = read_stream(reader, stream)
        except (OSError, NatsError, ValueError) as error:
            missing.append(f"stream {stream}: {error!r}")
            continue
        maybe = known.unanswered
        wrong = [seq for seq, check in found.items() if expected.get(seq, -1) != check and check not in maybe]
        if wrong:
            verdict.say("wrong", f"stream {stream}: {wrong[:5]}")
        gone = [seq for seq in expected if seq not in found]
        verdict.lost += len(gone)
        if gone:
            missing.append(f"stream {stream}: {len(gone)} messages, {gone[0]} to {gone[-1]}")
    for (stream, consumer), floor in known.floors.items():
        try:
            info = await api(client, f"CONSUMER.INFO.{stream}.{consumer}")
        except (TimeoutError, NatsError) as error:
            missing.append(f"consumer {stream}/{consumer}: {error!r}")
            continue
        ack_floor = info.get("ack_floor")
        if not isinstance(ack_floor, dict):
            missing.append(f"consumer {stream}/{consumer}: {info.get('error')}")
        elif ack_floor["stream_seq"] != floor:
            missing.append(f"consumer {stream}/{consumer}: floor {ack_floor['stream_seq']}, not {floor}")
    return missing


def reading(chance: random.Random) -> bytes:
    """As sensors send: what the journal makes smaller."""
    values = {
        "device": f"pump-{chance.randint(1, 40)}",
        "temperature": chance.randint(150, 900) / 10,
        "unit": "celsius",
        "status": "running",
        "serial": chance.randrange(10**9),
    }
    return json.dumps(values).encode()


async def readings(client: Client, known: Known, chance: random.Random) -> list[str]:
    """Bursts into two streams, so that batches of several blocks are compressed in the journal."""
    refused: list[str] = []

    async def one(stream: str, subject: str, payload: bytes) -> None:
        try:
            await publish(client, known, stream, subject, payload)
        except (TimeoutError, NatsError, ValueError) as error:
            known.unanswered.add(zlib.crc32(payload))
            refused.append(f"{stream}: {error!r}")

    for _ in range(6):
        await asyncio.gather(
            *(one("BIG", f"big.{chance.randint(0, 900)}.temperature", reading(chance)) for _ in range(200)),
            *(one("S5", f"s5.{chance.randint(0, 10)}", reading(chance)) for _ in range(60)),
        )
    return refused


async def more(client: Client, known: Known, chance: random.Random) -> list[str]:
    """A few messages into every stream that takes some."""
    refused = []
    if known.json:
        refused += await readings(client, known, chance)
    for stream, configuration in configurations(small=known.small).items():
        if stream in ("SEALED", "KV_B"):
            continue
        prefix = configuration["subjects"][0].removesuffix(">")  # type: ignore[index]
        for _ in range(2):
            subject = f"{prefix}{chance.randint(0, 900)}" + (".temperature" if stream == "BIG" else "")
            payload = chance.randbytes(200).hex().encode()
            try:
                await publish(client, known, stream, subject, payload)
            except (TimeoutError, NatsError, ValueError) as error:
                known.unanswered.add(zlib.crc32(payload))
                refused.append(f"{stream}: {error!r}")
                break
    return refused


# ---- one case --------------------------------------------------------------------------------------------------------


def damage(data: bytearray, chance: random.Random) -> str:
    """Changes one page, or block, in place."""
    how = chance.choice(("flip", "flips", "zeros", "garbage", "head", "stripe"))
    size = len(data)
    if how == "flip":
        data[chance.randrange(size)] ^= 1 << chance.randrange(8)
    elif how == "flips":
        for _ in range(64):
            data[chance.randrange(size)] ^= 1 << chance.randrange(8)
    elif how == "zeros":
        data[:] = bytes(size)
    elif how == "garbage":
        data[:] = chance.randbytes(size)
    elif how == "head":
        data[: chance.randint(1, 40)] = chance.randbytes(40)[: chance.randint(1, 40)].ljust(40, b"\xa5")[:40]
        del data[size:]
        data.extend(bytes(size - len(data)))
    else:
        begin = chance.randrange(0, size, 512)
        data[begin : begin + 512] = bytes(512)
    return how


def damage_page(path: Path, page: int, chance: random.Random) -> str:
    """Writes through the file, so that a running daemon's map changes, too."""
    fd = os.open(path, os.O_RDWR)
    try:
        before = os.pread(fd, PAGE, page * PAGE)
        for _ in range(20):
            data = bytearray(before)
            how = damage(data, chance)
            if bytes(data) != before:
                break
        os.pwrite(fd, data, page * PAGE)
        return how
    finally:
        os.close(fd)


def general(kind: str) -> str:
    """Without the stream's number."""
    name, _, rest = kind.partition(" ")
    return f"messages {rest}" if name[0] == "m" and len(name) == 9 else kind


def pick(kinds: dict[str, list[int]], chance: random.Random, only: str = "") -> tuple[str, int]:
    """Every kind as often, so that the rare and dear ones are met; or that one."""
    by_general: dict[str, list[int]] = defaultdict(list)
    for kind, pages in kinds.items():
        by_general[general(kind)] += pages
    kind = only or chance.choice(sorted(kind for kind, pages in by_general.items() if pages))
    return kind, chance.choice(by_general[kind])


def file_of(server: Server, name: str) -> Path:
    (found,) = (server.directory / "store").rglob(name)
    return found


def configured(store: str) -> str:
    return CONFIGURATION.replace("SEALED", f", {SEALED}" if store == "sealed" else "")


@functools.cache
def preload() -> str:
    """The library that refuses pages; it lives as long as this process."""
    directory = tempfile.mkdtemp(prefix="leafd-preload-")
    atexit.register(shutil.rmtree, directory)
    library = f"{directory}/unread.so"
    source = Path(__file__).with_name("unread_preload.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-D_GNU_SOURCE", "-o", library, source, "-ldl"], check=True)
    return library


def refuse_page(server: Server, path: Path, page: int) -> None:
    """From now on the disk does not give that page of the file."""
    told = server.directory / "unread.new"
    told.write_text(f"{path.stat().st_ino} {page}\n")
    told.rename(server.directory / "unread")


def status_of(server: Server) -> int | None:
    assert server.process is not None
    return server.process.poll()


@dataclass
class Case:
    """One damaged page or block, and what came of it."""

    template: Path
    known: Known
    seed: int
    only: str = ""
    store: str = "plain"
    kind: str = ""
    moment: str = ""

    async def visit(self, server: Server, verdict: Verdict, known: Known, *, write: bool) -> None:
        """Reads everything, writes a little. What is missing has to have been said."""
        chance = random.Random(self.seed + 1)
        client = await nats.connect(server.url, allow_reconnect=False, error_cb=_quiet, connect_timeout=5)
        try:
            missing = await compare(server, client, known, verdict)
            if missing and status_of(server) is None:
                await asyncio.sleep(1)
            if missing and not any(word in server.log for word in WORDS):
                verdict.say("silent", "; ".join(missing[:4]))
            elif missing:
                verdict.notes.append(f"said: {'; '.join(missing[:4])}")
            if write:
                refused = await more(client, known, chance)
                verdict.unwritable += len(refused)
                if refused and not any(word in server.log for word in WORDS):
                    verdict.say("silent", f"refused: {'; '.join(refused[:4])}")
                elif refused:
                    verdict.notes.append(f"refused and said: {'; '.join(refused[:4])}")
        finally:
            with contextlib.suppress(NatsError, OSError, asyncio.TimeoutError):
                await asyncio.wait_for(client.close(), 2)

    def visited(self, server: Server, verdict: Verdict, known: Known, *, write: bool) -> bool:
        try:
            asyncio.run(asyncio.wait_for(self.visit(server, verdict, known, write=write), 120))
        except (TimeoutError, NatsError, OSError, ValueError, KeyError) as error:
            if status_of(server) is None:
                verdict.say("silent", f"the visit: {error!r}")
        if status_of(server) is not None:
            verdict.say("dead", f"status {status_of(server)}")
            return False
        return True

    def start(self, server: Server) -> None:
        unread = self.moment.startswith("unread")
        told = (f"LD_PRELOAD={preload()}", f"LEAFD_UNREAD={server.directory / 'unread'}") if unread else ()
        server.start(before=("env", *told))

    def started(self, server: Server, verdict: Verdict) -> bool:
        try:
            self.start(server)
        except ServerDied as error:
            verdict.say("refused", str(error)[-400:])
            return False
        return True

    def ended(self, server: Server, verdict: Verdict) -> None:
        status = server.stop()
        if status != 0:
            verdict.say("dead", f"status {status} at its end")

    def run(self) -> Verdict:
        chance = random.Random(self.seed)
        messages = defaultdict(dict, {s: dict(m) for s, m in self.known.messages.items()})
        known = Known(messages, dict(self.known.floors), small=self.known.small, json=self.known.json)
        self.moment = self.only or chance.choice(MOMENTS)
        with tempfile.TemporaryDirectory(prefix="leafd-damaged-") as directory:
            server = make(LEAFD, configured(self.store), Path(directory))
            shutil.copytree(self.template, server.directory / "store")
            verdict = self.play(server, known, chance)
            if server.process is not None:
                server.stop()
            if verdict.outcomes and "LEAFD_DAMAGED_KEEP" in os.environ:
                shutil.copytree(directory, f"{os.environ['LEAFD_DAMAGED_KEEP']}/{self.seed}")
        return verdict

    def play(self, server: Server, known: Known, chance: random.Random) -> Verdict:
        verdict, moment = Verdict("", ""), self.moment
        running = moment in ("running", "unread running")
        if running:
            self.start(server)
            with Reader(server) as reader:
                read_stream(reader, "BIG")  # some of it was read before it is damaged
        if moment == "journal":
            self.start(server)
            self.visited(server, Verdict("", ""), known, write=True)
            server.kill()
            path = file_of(server, "journal")
            used = path.read_bytes()
            blocks = [at for at in range(len(used) // PAGE) if used[at * PAGE : at * PAGE + PAGE].strip(b"\0")]
            verdict = Verdict("journal block", damage_page(path, chance.choice(blocks), chance))
        else:
            path = file_of(server, "data.mdb")
            kind, page = pick(kinds_of(path), chance, self.kind)
            if moment.startswith("unread"):
                verdict = Verdict(kind, "refused")
                refuse_page(server, path, page)
                time.sleep(0.3 if running else 0)  # the library looks each 50 ms
            else:
                verdict = Verdict(kind, damage_page(path, page, chance))
            verdict.notes.append(f"page {page}")
        verdict.how += f" {moment}"
        if (running or self.started(server, verdict)) and self.visited(server, verdict, known, write=True):
            time.sleep(0.2)
            self.ended(server, verdict)
            if self.started(server, verdict) and self.visited(server, verdict, known, write=True):
                self.ended(server, verdict)
        return verdict


async def _quiet(error: Exception) -> None:
    """Connections of a server that dies break: that is what is looked for."""


# ---- all of them -----------------------------------------------------------------------------------------------------


@functools.cache
def template(large: int, store: str, small: int) -> tuple[Path, Known]:
    """A store that was closed in order, and what is in it; it lives as long as this process."""
    directory = Path(tempfile.mkdtemp(prefix="leafd-damaged-"))
    atexit.register(shutil.rmtree, directory)
    known = Known(small=small)
    server = make(LEAFD, configured(store), directory)
    server.start()

    async def filled() -> None:
        client = await nats.connect(server.url)
        await fill(client, known, random.Random(1), large, store)
        trim_buckets(server, known)
        await client.close()

    try:
        asyncio.run(filled())
    finally:
        assert server.stop() == 0
    return directory / "store", known


def table(verdicts: list[Verdict]) -> str:
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    for verdict in verdicts:
        for name in (f"{verdict.kind}", "all"):
            rows[name]["cases"] += 1
            rows[name]["lost"] += verdict.lost > 0
            rows[name]["closed"] += verdict.unwritable > 0
            for outcome in verdict.outcomes:
                rows[name][outcome] += 1
    columns = ("cases", *OUTCOMES, "lost", "closed")
    lines = [f"{'page':28}" + "".join(f"{column:>9}" for column in columns)]
    for name in sorted(rows, key=lambda row: (row == "all", row)):
        lines.append(f"{name:28}" + "".join(f"{rows[name][column]:9}" for column in columns))
    return "\n".join(lines)


def played(case: Case) -> Verdict:
    """The case, once more where the server did not speak in time before anything was damaged: the machine was busy."""
    with contextlib.suppress(ServerDied):
        return case.run()
    return case.run()


def run_all(
    cases: int,
    seed: int,
    only: str = "",
    *,
    first: int = 0,
    large: int = 500,
    store: str = "plain",
    kind: str = "",
    small: int = SMALL_STREAMS,
    readings: bool = False,
) -> list[Verdict]:
    """Plays so many cases, each from a seed of its own, and prints those that are not as they should be."""
    verdicts = []
    where, known = template(large, store, small)
    known.json = readings
    for number in range(first, first + cases):
        verdict = played(Case(where, known, seed * 1_000_003 + number, only, store, kind))
        verdicts.append(verdict)
        if verdict.outcomes or "-v" in sys.argv:
            print(f"case {number}: {verdict.kind}, {verdict.how}: {' | '.join(verdict.notes)}", flush=True)
    return verdicts


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--first", type=int, default=0, help="begin with this case of the seed")
    parser.add_argument("--large", type=int, default=500, help="so many messages of 21 KB are in the store")
    parser.add_argument("--streams", type=int, default=SMALL_STREAMS, help="so many small streams of 60 messages")
    parser.add_argument("--json", action="store_true", help="write bursts of readings, which the journal compresses")
    parser.add_argument("--only", default="", choices=("", *sorted(set(MOMENTS))))
    parser.add_argument("--store", default="plain", choices=STORES)
    parser.add_argument("--kind", default="", help='pages of this kind alone, such as "main leaf"')
    parser.add_argument("-v", action="store_true", help="print every case")
    arguments = parser.parse_args()
    verdicts = run_all(
        arguments.cases,
        arguments.seed,
        arguments.only,
        first=arguments.first,
        large=arguments.large,
        store=arguments.store,
        kind=arguments.kind,
        small=arguments.streams,
        readings=arguments.json,
    )
    print(table(verdicts))
    return 1 if any(verdict.outcomes for verdict in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
