"""A hub that dies and is back, whose boxes are real servers with messages that wait for it:

    python -m tests.bench.returns 20 100000     [--kinds leafd,nats-server] [--rounds 3] [--away 5]

Each box is a process, so times on two processors are upper bounds; "of it waiting" is how long the hub could have run
and had no processor. Not here: thousands of boxes, which are simulated (fleet.py).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Final

from tests.bench.fleet import Figures, collect, wait_for_messages
from tests.bench.links import HUB
from tests.bench.process import Process, api, running
from tests.bench.rows import load
from tests.servers import KINDS

BOX: Final = """
server_name: box-NUMBER
listen: "127.0.0.1:{port}"
jetstream { store_dir: "{store}", domain: box-NUMBER, max_mem: 64MB, max_file: 256MB }
leafnodes { remotes: [ { url: "nats-leaf://127.0.0.1:{hub_leaf_port}" } ] }
"""
SIZE: Final = 200
BEFORE: Final = 10
"""Messages of each box that are stored at the hub before it dies."""
SECONDS_MAX: Final = 300.0


def linked(hub: Process, count: int) -> float:
    """When so many boxes are."""
    deadline = time.monotonic() + SECONDS_MAX
    while hub.leaf_links() < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{hub.leaf_links()} of {count} boxes are linked")
        time.sleep(0.01)
    return time.monotonic()


def returns(kind: str, count: int, messages: int, away_s: float) -> Figures:
    """From the moment at which the hub greets clients again."""
    with tempfile.TemporaryDirectory(prefix="leafd-bench-") as folder, contextlib.ExitStack() as stack:
        directory = Path(folder)
        hub = stack.enter_context(running(kind, HUB, directory / "hub"))
        boxes: list[Process] = []
        for number in range(count):
            text = BOX.replace("NUMBER", str(number))
            port = hub.server.ports["leaf_port"]
            boxes.append(stack.enter_context(running(kind, text, directory / f"box-{number}", hub_leaf_port=port)))
            with api(boxes[-1]) as connection:
                config = {"name": "T", "subjects": [f"t{number}.>"], "storage": "file"}
                connection.must("$JS.API.STREAM.CREATE.T", config)
            load(boxes[-1], "publish", BEFORE, subject=f"t{number}", size=SIZE)
        linked(hub, count)
        with api(hub) as connection:
            collect(connection, count)
            wait_for_messages(connection, BEFORE * count, SECONDS_MAX)
        hub.server.kill()
        for number, box in enumerate(boxes):
            load(box, "publish", messages // count, subject=f"t{number}", size=SIZE)
        time.sleep(away_s)
        hub.start()
        begun, waited = time.monotonic(), hub.waited_seconds()
        with api(hub) as connection:
            whole = wait_for_messages(connection, BEFORE * count + messages // count * count, SECONDS_MAX)
        return {
            "start s": hub.start_seconds,
            "level s": whole - begun,
            "of it waiting s": hub.waited_seconds() - waited,
            "hub CPU s": hub.cpu_seconds(),
            "boxes' CPU s": sum(box.cpu_seconds() for box in boxes),
        }


def main() -> None:
    """Prints a line for each server: medians of the rounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("boxes", type=int)
    parser.add_argument("messages", type=int)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--away", type=float, default=5.0)
    chosen = parser.parse_args()
    for kind in chosen.kinds.split(","):
        rounds = [returns(kind, chosen.boxes, chosen.messages, chosen.away) for _ in range(chosen.rounds)]
        found = {name: round(statistics.median(one[name] for one in rounds), 3) for name in rounds[0]}
        levels = sorted(round(one["level s"], 2) for one in rounds)
        print(f"{chosen.boxes} boxes, {chosen.messages} messages, {kind}: {json.dumps(found)} {levels}", flush=True)


if __name__ == "__main__":
    main()
