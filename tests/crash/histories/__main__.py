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
from typing import Final

from tests.crash.histories.cluster import CLIENTS, FAULTS, META, Cluster, Faults, cluster
from tests.crash.histories.judge import HEAD, Verdict, build, judged
from tests.crash.histories.workload import STREAM, History, Workload, asked, connected
from tests.interop.test_replicated_streams import state_at
from tests.packaging.machine import propagation

INSIDE: Final = "LEAFD_HISTORIES_INSIDE"
WELL_S: Final = 120.0
"""So long after the last fault at most, until all servers have the same."""
PAGE: Final = 1000


async def made() -> None:
    """The stream, once the servers can make one."""
    client = await connected(0)
    until = time.monotonic() + WELL_S
    while True:
        said = await asked(client, "$JS.API.STREAM.CREATE.H", json.dumps(STREAM).encode())
        if "config" in said:
            break
        assert time.monotonic() < until, said
        await asyncio.sleep(0.5)
    await client.close()


async def played(history: History, seconds: float, faults: Faults, seed: int) -> None:
    """The clients' part, with faults at their side."""
    workload = Workload(history, seed)
    await made()
    faults.start()
    running = asyncio.create_task(workload.run())
    await asyncio.wait([running], timeout=seconds)
    await asyncio.to_thread(faults.end)
    await asyncio.sleep(3)
    workload.ended.set()
    await running


def differing(one: Cluster) -> str:
    """What the servers have, once they have the same: "". Else what each has, when that takes too long."""
    until = time.monotonic() + WELL_S
    while True:
        states = []
        for number, server in enumerate(one.servers):
            with one.switch.at(number):
                states.append(state_at(server))
        if all(state == states[0] and state["messages"] for state in states):
            return ""
        if time.monotonic() > until:
            return " / ".join(str([state["messages"], state["last_seq"]]) for state in states)
        time.sleep(0.5)


async def contents(number: int) -> tuple[dict[int, int], Counter[int]]:
    """The numbers that the stream has, read through that server: the sequence of each, and how often it is there."""
    client = await connected(number)
    found, counted, last = dict[int, int](), Counter[int](), 0
    until = time.monotonic() + WELL_S
    while time.monotonic() < until:
        inbox = client.new_inbox()
        subscription = await client.subscribe(inbox)
        body = json.dumps({"seq": last + 1, "next_by_subj": "n", "batch": PAGE}).encode()
        await client.publish("$JS.API.DIRECT.GET.H", body, reply=inbox)
        try:
            while (message := await subscription.next_msg(timeout=5)).data:
                last = int((message.headers or {})["Nats-Sequence"])
                found[int(message.data)] = last
                counted[int(message.data)] += 1
            ended = (message.headers or {}).get("Status") == "404" or (message.headers or {}).get(
                "Nats-Num-Pending"
            ) == "0"
        except (TimeoutError, KeyError):
            ended = False
            await asyncio.sleep(0.5)
        await subscription.unsubscribe()
        if ended:
            break
    await client.close()
    return found, counted


def play(kind: str, arguments: argparse.Namespace, folder: Path, program: Path | None) -> Verdict:
    """One kind of server, from its start to the verdict."""
    place = folder / kind
    place.mkdir()
    history = History()
    with cluster(kind, place) as one, one.switch.at(CLIENTS):
        faults = Faults(one, [name for name in arguments.faults.split(",") if name], arguments.seed)
        asyncio.run(played(history, arguments.seconds, faults, arguments.seed))
        print(f"{kind}: {len(history.appends)} numbers, {len(history.touches)} touches", flush=True)
        differ = differing(one)
        verdict = judged(history, *asyncio.run(contents(0)), program)
        verdict.differ = differ
        if not verdict.good and arguments.keep:
            for server in one.servers:
                Path(arguments.keep, f"{kind}-{server.directory.name}.log").write_text(server.log)
            Path(arguments.keep, f"{kind}-touches.json").write_bytes(history.touched())
    return verdict


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.histories")
    parser.add_argument("kinds", nargs="+", choices=META)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--faults", default=",".join(FAULTS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-registers", action="store_true")
    parser.add_argument("--keep", default="", help="a folder for logs of what failed")
    arguments = parser.parse_args()
    if INSIDE not in os.environ:
        unshare = ["unshare", "--mount", "--propagation", propagation()]
        environment = {**os.environ, INSIDE: "1"}
        command = [*unshare, sys.executable, "-m", "tests.crash.histories", *sys.argv[1:]]
        return subprocess.run(command, env=environment).returncode
    with tempfile.TemporaryDirectory(prefix="leafd-histories-") as directory:
        folder = Path(directory)
        program = None if arguments.no_registers else build(folder)
        verdicts = {kind: play(kind, arguments, folder, program) for kind in arguments.kinds}
    print(HEAD)
    for kind, verdict in verdicts.items():
        print(verdict.row(kind))
    return int(any(not verdict.good for kind, verdict in verdicts.items() if kind == "leafd"))


if __name__ == "__main__":
    sys.exit(main())
