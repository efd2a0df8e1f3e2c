"""Three servers that keep a stream together, faults, and clients: what did the clients see, and is it right?

    python -m tests.crash.histories leafd nats-server nats-server-always --seconds 120 --faults kill,stop --seed 7

Each kind of server is run in turn, with the same faults by the same seed. Needs root, loop devices, network namespaces
and a Go compiler (--no-registers: none). Prints a row for each; the exit status is 0 where leafd's is good.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

from nats.aio.client import Client
from nats.aio.msg import Msg

from tests import servers
from tests.crash.histories import aging, clocks
from tests.crash.histories.asking import asked, connected
from tests.crash.histories.cluster import ASKED_FOR, CLIENTS, CLOCKS, FAULTS, META, Cluster, Faults, cluster
from tests.crash.histories.judge import HEAD, Counted, Verdict, build, judged, silences
from tests.crash.histories.workload import CONSUMERS, COUNTED, QUEUE, STREAM, History, Workload
from tests.packaging.machine import propagation
from tests.rig.reports import report

INSIDE: Final = "LEAFD_HISTORIES_INSIDE"
MADE_S: Final = 20.0
WELL_S: Final = 120.0
"""So long after the last fault at most, until all servers have the same."""
PAGE: Final = 1000
INVALID: Final = 10052
"""Error code: a stream is not to be had like that."""


async def made() -> bool:
    """The streams and their consumers, once the servers can make them. Returns whether they keep the work queue."""
    client = await connected(0)
    await _made(client, f"$JS.API.STREAM.CREATE.{STREAM['name']}", STREAM)
    await _made(client, f"$JS.API.STREAM.CREATE.{COUNTED['name']}", COUNTED)
    await _made(client, CONSUMERS["H"].made_at, CONSUMERS["H"].request())
    await _made(client, "$JS.API.STREAM.CREATE.A", aging.STREAM)
    try:
        await _made(client, f"$JS.API.STREAM.CREATE.{QUEUE['name']}", QUEUE)
        await _made(client, CONSUMERS["Q"].made_at, CONSUMERS["Q"].request())
    except AssertionError as error:
        print(f"no work queue: {error}", flush=True)
        return False
    finally:
        await client.close()
    return True


async def _made(client: Client, subject: str, body: dict[str, Any]) -> None:
    """Raises AssertionError with what the servers say."""
    until = time.monotonic() + MADE_S
    while "config" not in (said := await asked(client, subject, json.dumps(body).encode())):
        assert time.monotonic() < until, said
        assert said.get("error", {}).get("err_code") != INVALID, said
        await asyncio.sleep(0.5)


async def played(history: History, seconds: float, faults: Faults, seed: int) -> None:
    """The clients' part, with faults at their side."""
    workload = Workload(history, seed, queue=await made())
    faults.start()
    running = asyncio.create_task(workload.run())
    await asyncio.wait([running], timeout=seconds)
    await asyncio.to_thread(faults.end)
    await asyncio.sleep(3)
    workload.ended.set()
    await running


def state_at(server: servers.Server) -> dict[str, dict[str, Any]]:
    """The streams as that server has them."""
    accounts = report(server, "jsz?accounts=true&streams=true").get("account_details", ())
    streams = [one for account in accounts for one in account.get("stream_detail", ())]
    names = ("messages", "bytes", "first_seq", "last_seq")
    return {one["name"]: {name: one["state"].get(name) for name in names} for one in streams}


def differing(one: Cluster) -> tuple[str, int, int]:
    """What the servers have, once they have the same and what ages is gone: "". Else what each has, when that takes too
    long. And what the work queue has, and the stream of what ages."""
    until = time.monotonic() + WELL_S
    while True:
        states = []
        for number, server in enumerate(one.servers):
            with one.switch.at(number):
                states.append(state_at(server))
        left, old = (max(state.get(name, {}).get("messages") or 0 for state in states) for name in ("Q", "A"))
        same = all(state == states[0] and state.get("H", {}).get("messages") for state in states)
        late = time.monotonic() > until
        if same and (old == 0 or late):
            return "", left, old
        if late:
            return " / ".join(json.dumps(state) for state in states).replace("|", "/"), left, old
        time.sleep(0.5)


async def messages(number: int, stream: str, subject: str) -> list[Msg]:
    """All that the stream has of these subjects, read through that server. Raises TimeoutError."""
    client = await connected(number)
    found, last = list[Msg](), 0
    until = time.monotonic() + WELL_S
    while time.monotonic() < until:
        inbox = client.new_inbox()
        subscription = await client.subscribe(inbox)
        body = json.dumps({"seq": last + 1, "next_by_subj": subject, "batch": PAGE}).encode()
        await client.publish(f"$JS.API.DIRECT.GET.{stream}", body, reply=inbox)
        try:
            while (headers := (message := await subscription.next_msg(timeout=5)).headers or {}).get("Nats-Sequence"):
                last = int(headers["Nats-Sequence"])
                found.append(message)
                until = time.monotonic() + WELL_S
            ended = headers.get("Status") == "404" or headers.get("Nats-Num-Pending") == "0"
        except TimeoutError:
            ended = False
            await asyncio.sleep(0.5)
        await subscription.unsubscribe()
        if ended:
            await client.close()
            return found
    raise TimeoutError("the stream cannot be read to its end")


async def contents(number: int) -> tuple[dict[int, int], Counter[int]]:
    """The numbers that the stream has: the sequence of each, and how often it is there."""
    found, counted = dict[int, int](), Counter[int]()
    for message in await messages(number, "H", "n.*"):
        found[int(message.data)] = int((message.headers or {})["Nats-Sequence"])
        counted[int(message.data)] += 1
    return found, counted


async def counters(number: int) -> list[Counted]:
    """All that was added, in its order."""
    rows = [(message.headers or {}, message.data) for message in await messages(number, "K", "k.*")]
    return [
        Counted(
            headers["Nats-Subject"],
            int(headers["Nats-Sequence"]),
            int(headers["Nats-Incr"]),
            int(json.loads(data)["val"]),
        )
        for headers, data in rows
    ]


def play(kind: str, arguments: argparse.Namespace, folder: Path, program: Path | None) -> Verdict:
    """One kind of server, from its start to the verdict."""
    place = folder / kind
    place.mkdir()
    history = History()
    names = [name for name in arguments.faults.split(",") if name]
    served = servers.LEAFD if kind == servers.LEAFD else servers.REFERENCE
    clocked = clocks.built(served, Path(arguments.built or folder)) if set(names) & set(CLOCKS) else None
    with cluster(kind, place, clocked) as one, one.switch.at(CLIENTS):
        one.random.seed(arguments.seed)
        faults = Faults(one, names, arguments.seed)
        asyncio.run(played(history, arguments.seconds, faults, arguments.seed))
        counts = f"{len(history.appends)} numbers, {len(history.touches)} touches, {len(history.deliveries)} deliveries"
        counts += f", {len(history.aged)} that age"
        print(f"{kind}: {counts}", flush=True)
        differ, left, old = differing(one)
        verdict = judged(history, *asyncio.run(contents(0)), program, asyncio.run(counters(0)))
        verdict.differ, verdict.left, verdict.old = differ, left, old
        verdict.silence_s = silences(history, faults.several)
        verdict.helped = one.helped
        if not verdict.good and arguments.keep:
            Path(arguments.keep).mkdir(parents=True, exist_ok=True)
            for server in one.servers:
                Path(arguments.keep, f"{kind}-{server.directory.name}.log").write_text(server.log)
            Path(arguments.keep, f"{kind}-touches.json").write_bytes(history.touched())
            Path(arguments.keep, f"{kind}-verdict.txt").write_text(repr(verdict))
            Path(arguments.keep, f"{kind}-numbers.json").write_bytes(history.numbered())
    return verdict


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.histories")
    parser.add_argument("kinds", nargs="+", choices=META)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--faults", default=",".join(name for name in FAULTS if name not in ASKED_FOR))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-registers", action="store_true")
    parser.add_argument("--built", default="", help="a folder in which programs stay that were built for this")
    parser.add_argument("--keep", default="", help="a folder for logs of what failed")
    arguments = parser.parse_args()
    if INSIDE not in os.environ:
        unshare = ["unshare", "--mount", "--propagation", propagation()]
        environment = {**os.environ, INSIDE: "1"}
        command = [*unshare, sys.executable, "-m", "tests.crash.histories", *sys.argv[1:]]
        return subprocess.run(command, env=environment).returncode
    with tempfile.TemporaryDirectory(prefix="leafd-histories-") as directory:
        folder = Path(directory)
        program = None if arguments.no_registers else build(Path(arguments.built or folder))
        verdicts = {kind: play(kind, arguments, folder, program) for kind in arguments.kinds}
    print(HEAD)
    for kind, verdict in verdicts.items():
        print(verdict.row(kind))
    return int(any(not verdict.good for kind, verdict in verdicts.items() if kind == "leafd"))


if __name__ == "__main__":
    sys.exit(main())
