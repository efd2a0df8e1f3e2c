"""Proofs of the Spark source and sink with real Spark and real brokers, while processes are killed and stopped.

    python -m tests.spark.proof [driver] [executors] [replicas] [--broker leafd] [--faults 8] [--rows 6000]

A publisher fills stream S: 100 devices, a tenth of the rows alike, some too large for OUT, and one device that says
everything at the end. A query of its own (copying) carries S to OUT over a shuffle. Meanwhile, --faults times:

    driver      the driver and its JVM are killed: a batch is planned, is being published, ends, or is noted as done
    executors   on a standalone cluster of a master and two workers, whose executors get the data source by --py-files
                and have no leafd, an executor is killed
    replicas    three nats-servers: a follower stands still for a time, or the leader of S or of OUT has to step down

In the end OUT and the dead letters have to hold what the publisher's own list says, each row as often as it was
published. That list is made without Spark, and the streams are read by their leaders, message by message.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from leafd_spark.fetch import api, dial
from leafd_spark.options import Options, parse_options
from leafd_spark.sink.publish import Outgoing, Window, header_block

from tests import servers
from tests.spark import cluster, standalone
from tests.spark.copying import DEAD

ROOT = Path(__file__).resolve().parents[2]
CONFIGURATION = 'listen: 127.0.0.1:{port}\njetstream { store_dir: "{store}" }\n'
DEVICES = 100
LATE = 7  # the device that was offline for a week
LARGE = 2_000  # bytes of a poison row; OUT takes half of that
REMEMBER_NS = 1_800_000_000_000  # OUT's duplicate window: longer than any restart here takes
WAIT_SECONDS_MAX = 900.0
STARTS_MAX = 20  # after which a query that ends by itself is broken

Row = tuple[str, bytes]
Call = Callable[..., dict[str, Any]]


def rows(count: int) -> list[Row]:
    """What the devices say, in the order in which it reaches the stream."""
    order = random.Random(count)
    found: list[Row] = []
    late: list[Row] = []
    for number in range(count):
        device = number % DEVICES
        data = b"same" if order.random() < 0.1 else b"%d of device %d" % (number, device)
        if order.random() < 0.005:
            data = data.ljust(LARGE, b".")
        (late if device == LATE else found).append((f"s.{device}", data))
    return found + late


def expected(given: list[Row]) -> tuple[Counter[Row], Counter[bytes]]:
    """OUT's messages and the dead letters' data."""
    good = Counter((subject.replace("s", "out", 1), data) for subject, data in given if len(data) < LARGE)
    return good, Counter(data for _, data in given if len(data) >= LARGE)


def publish(options: Options, given: list[Row], seconds: float) -> None:
    window = Window(options)
    began = time.monotonic()
    for number, (subject, data) in enumerate(given):
        window.publish(Outgoing(subject, header_block(f"row-{number}", ()), data))
        if number % 50 == 0:
            window.drain()
            time.sleep(max(0.0, began + seconds * number / len(given) - time.monotonic()))
    window.drain()
    window.close()


def stored(options: Options, stream: str) -> list[dict[str, Any]]:
    """Every message of a stream, by its leader's word."""
    with dial(options) as connection:
        last = api(connection, options, f"STREAM.INFO.{stream}", {})["state"]["last_seq"]
        answers = [api(connection, options, f"STREAM.MSG.GET.{stream}", {"seq": n}) for n in range(1, last + 1)]
    return [answer["message"] for answer in answers]


class Query:
    """The copying application as processes of its own."""

    def __init__(self, urls: str, folder: Path, spark: standalone.Standalone | None = None) -> None:
        self.checkpoint = folder / "checkpoint"
        self.log = folder / "query.log"
        self._starts = 0
        arguments = ["--servers", urls, "--checkpoint", str(self.checkpoint)]
        self._environment = standalone.environment() | {"PYTHONPATH": str(ROOT)}
        if spark is None:
            self._command = [sys.executable, "-m", "tests.spark.copying", "--master", "local[2]", *arguments]
            return
        self._environment["PYSPARK_PYTHON"] = str(standalone.python_without_leafd(folder / "python"))
        self._environment["PYSPARK_DRIVER_PYTHON"] = sys.executable
        settings = {"spark.driver.host": "127.0.0.1", "spark.executor.memory": "512m", "spark.ui.enabled": "false"}
        self._command = [str(standalone.HOME / "bin" / "spark-submit"), "--master", spark.url]
        self._command += [each for name, value in settings.items() for each in ("--conf", f"{name}={value}")]
        bundle = standalone.bundle(folder)
        self._command += ["--py-files", str(bundle)]
        # The driver's own Python workers, which plan, get no --py-files.
        self._environment["PYTHONPATH"] = f"{bundle}:{ROOT}"
        self._command += [str(ROOT / "tests" / "spark" / "copying.py"), *arguments]

    def start(self) -> None:
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                self._command, stdout=output, stderr=output, env=self._environment, start_new_session=True, cwd=ROOT
            )

    def kill(self) -> None:
        """kill -9 of the driver and everything below it, its JVM among them."""
        found = [self.process.pid, *standalone.children(self.process.pid)]
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def keep(self) -> None:
        """Start again what ended by itself, as whoever looks after a query would."""
        if self.process.poll() is not None:
            said = [line for line in self.log.read_text(errors="replace").splitlines() if "Error" in line][-1:]
            print(f"the query ended with {self.process.returncode}; started again; {said}", flush=True)
            self._starts += 1
            assert self._starts <= STARTS_MAX, f"the query ends again and again: {self.log}"
            self.start()

    def batches(self, kind: str) -> int:
        """How many batches have been planned (offsets) or noted as done (commits)."""
        with contextlib.suppress(OSError):
            return sum(1 for file in (self.checkpoint / kind).iterdir() if file.name.isdigit())
        return 0


def wait_until(so: Callable[[], bool], query: Query) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not so():
        if time.monotonic() > deadline:
            raise SystemExit(f"nothing happened for {WAIT_SECONDS_MAX:g} s:\n{query.log.read_text()[-4000:]}")
        query.keep()
        time.sleep(0.05)


def more(count: Callable[[], int], before: int) -> bool:
    return count() > before


def kill_drivers(query: Query, out: Callable[[], int], faults: int) -> None:
    for number in range(faults):
        planned, noted, there = query.batches("offsets"), query.batches("commits"), out()
        stage = ("planned", "publishing", "ending", "noted")[number % 4]
        if stage == "planned":
            wait_until(partial(more, partial(query.batches, "offsets"), planned), query)
        elif stage == "noted":
            wait_until(partial(more, partial(query.batches, "commits"), noted), query)
        else:
            wait_until(partial(more, out, there), query)
            time.sleep(0.3 * random.random() if stage == "ending" else 0)
        query.kill()
        print(f"{number + 1}: driver killed, {stage}; {out()} rows in OUT", flush=True)
        query.start()


def kill_executors(spark: standalone.Standalone, query: Query, out: Callable[[], int], faults: int) -> None:
    for number in range(faults):
        there = out()
        wait_until(partial(more, out, there), query)
        time.sleep(random.random())
        wait_until(partial(spark.kill_executor, number), query)
        print(f"{number + 1}: executor killed; {out()} rows in OUT", flush=True)


def disturb(brokers: cluster.Cluster, query: Query, faults: int) -> None:
    for number in range(faults):
        stream = ("S", "OUT")[number % 2]
        with contextlib.suppress(Exception):  # a leader is being elected
            if number % 3 == 2:
                brokers.call(f"STREAM.LEADER.STEPDOWN.{stream}")
                print(f"{number + 1}: the leader of {stream} stepped down", flush=True)
            else:
                with cluster.paused(brokers.followers(stream)[number % 2]):
                    print(f"{number + 1}: a follower of {stream} stands still", flush=True)
                    time.sleep(2)
        query.keep()
        time.sleep(3)


def judge(options: Options, given: list[Row]) -> int:
    good, dead = expected(given)
    found = Counter((each["subject"], base64.b64decode(each.get("data", ""))) for each in stored(options, "OUT"))
    letters = Counter(base64.b64decode(each.get("data", "")) for each in stored(options, "DEAD"))
    lost, more = good - found, found - good
    lost_letters, more_letters = dead - letters, letters - dead
    for kind, rows_ in (("lost", lost), ("doubled", more)):
        for row, count in list(rows_.items())[:5]:
            print(f"{kind} {count} times: {row}")
    wrong = sum(sum(each.values()) for each in (lost, more, lost_letters, more_letters))
    print(
        f"{sum(found.values())} rows in OUT, {sum(lost.values())} lost, {sum(more.values())} doubled; "
        f"{sum(letters.values())} dead letters, {sum(lost_letters.values())} lost, {sum(more_letters.values())} doubled"
    )
    return wrong


@contextlib.contextmanager
def broker(kind: str, replicas: bool) -> Iterator[tuple[str, Call, cluster.Cluster | None]]:
    if replicas:
        with cluster.running() as members:
            for name, config in _streams().items():
                members.create(name, **config)
            yield members.urls, members.call, members
        return
    with servers.running(kind, CONFIGURATION) as server:
        options = parse_options({"servers": server.url, "stream": "S"})

        def call(endpoint: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
            with dial(options) as connection:
                return api(connection, options, endpoint, body or {})

        for name, config in _streams().items():
            call(f"STREAM.CREATE.{name}", {"name": name, "storage": "file", "allow_direct": True} | config)
        yield server.url, call, None


def _streams() -> dict[str, dict[str, Any]]:
    return {
        "S": {"subjects": ["s.>"]},
        "OUT": {"subjects": ["out.>"], "max_msg_size": LARGE // 2, "duplicate_window": REMEMBER_NS},
        "DEAD": {"subjects": [DEAD], "duplicate_window": REMEMBER_NS},
    }


def prove(what: str, kind: str, faults: int, count: int, seconds: float) -> int:
    given = rows(count)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="leafd-proof-")))
        urls, call, brokers = stack.enter_context(broker(kind, what == "replicas"))
        options = parse_options({"servers": urls, "stream": "S"})
        spark = stack.enter_context(standalone.running(folder)) if what == "executors" else None
        query = Query(urls, folder, spark)
        seen = 0

        def out() -> int:
            nonlocal seen
            with contextlib.suppress(Exception):  # a leader is being elected: what was known last
                seen = int(call("STREAM.INFO.OUT")["state"]["messages"])
            return seen

        query.start()
        stack.callback(query.kill)
        publisher = threading.Thread(target=publish, args=(options, given, seconds))
        publisher.start()
        stack.callback(publisher.join)
        if brokers is not None:
            wait_until(lambda: out() > 0, query)
            disturb(brokers, query, faults)
        elif spark is not None:
            kill_executors(spark, query, out, faults)
        else:
            kill_drivers(query, out, faults)
        publisher.join()
        good = sum(expected(given)[0].values())
        wait_until(lambda: out() >= good, query)
        wait_until(lambda: query.batches("commits") == query.batches("offsets"), query)
        time.sleep(5)  # anything more would come now
        return judge(options, given)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["driver", "executors", "replicas"])
    parser.add_argument("--broker", choices=servers.KINDS, default=servers.REFERENCE, help="for the first two")
    parser.add_argument("--faults", type=int, default=8)
    parser.add_argument("--rows", type=int, default=6_000)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long the publisher takes")
    options = parser.parse_args()
    wrong = 0
    for what in options.what:
        print(f"== {what}", flush=True)
        wrong += prove(what, options.broker, options.faults, options.rows, options.seconds)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
