"""What MQTT costs leafd, beside nats-server and mosquitto: messages a second, processor time, memory.

    python -m tests.bench.devices [ROW ...] [--rounds 3] [--minutes 12] [--scale 1.0]

All rows in each round, and of each row all servers one after the other: what else the machine does meets all of them.
No round begins that would end behind the minutes. At the end there is a table of medians, with what each row came to
of its goals: 1.3 of the better one's rate, half of its processor time, nats-server's memory, 1.5 of mosquitto's.

mosquitto is taken from the path; where there is none its column is missing. "table" is table.c, a server that decides
nothing: what the kernel, the disk and this program take in any case. The load is made of packets that are composed
beforehand, and received bytes are counted without being taken apart. leafd has what it acknowledges with QoS 1 on its
disk (a stream stores it); the others are as they come, and mosquitto has its persistence. In rows that end in
"-synced" nats-server syncs each message, table, too, and mosquitto writes and syncs its whole file behind each change,
which it has acknowledged by then. The row that ends in "-tls" is over TLS 1.3. MQTT 3.1.1 everywhere. Not here: rows of
NATS (rows.py), devices behind a bad line (devices_far.py), the table's words (devices_report.py).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from tests import mqtt, servers
from tests.bench.devices_report import Figures, report
from tests.certificates import Authority
from tests.interop.mqtt_walks import Nats

MOSQUITTO: Final = "mosquitto"
TABLE: Final = "table"
SYNCED: Final = "-synced"
TLS: Final = "-tls"
PAYLOAD: Final = bytes(128)
TOGETHER: Final = 500
"""Packets that are sent at once."""
KNOCKING: Final = 50
"""Clients that come at once. mosquitto's listener has room for 100; who finds none says SYN again after a second."""
PORTS: Final = 1000
"""Clients with one address."""
IDLE_S: Final = 5.0
PATIENCE_S: Final = 300.0
NATS: Final = """
listen: "127.0.0.1:{port}"
server_name: bench
jetstream { store_dir: "{store}", max_mem: 256MB, max_file: 16GB SYNC }
mqtt { listen: "ADDRESS:{mqtt_port}" TLS }
"""


@dataclass(frozen=True)
class Setup:
    """How a broker is to run."""

    synced: bool = False
    tls: bool = False
    address: str = "127.0.0.1"


DEFAULT: Final = Setup()


@dataclass
class Broker:
    """One that runs."""

    kind: str
    pid: int
    port: int
    again: Callable[[], int]
    """Stops it and starts it with the same files; its new pid."""
    trust: ssl.SSLContext | None = None
    """None: it does not speak TLS."""
    used: int = 0
    """Addresses of clients."""

    def connection(self, number: int = 0) -> socket.socket:
        """From an address for each thousand, also after a restart.

        Where ten thousand come from one, the kernel's search for a free port took the client up to four times as long
        as all else that it does.
        """
        self.used += number % PORTS == 0
        sock = socket.create_connection(("127.0.0.1", self.port), source_address=(f"127.0.1.{self.used % 250 + 1}", 0))
        sock.settimeout(PATIENCE_S)
        return sock if self.trust is None else self.trust.wrap_socket(sock, server_hostname="localhost")

    def client(self, name: str, clean: bool = True, number: int = 0) -> socket.socket:
        """Logged in."""
        sock = self.connection(number)
        sock.sendall(mqtt.connect(4, name, clean=clean, keep_alive=0))
        take(sock, 4)
        return sock

    def cpu_s(self) -> float:
        """Processor time of its process so far."""
        words = Path(f"/proc/{self.pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> float:
        """Private memory, in bytes."""
        found = Path(f"/proc/{self.pid}/smaps_rollup").read_text()
        return sum(int(found.split(f"Private_{one}:")[1].split()[0]) for one in ("Clean", "Dirty")) * 1024.0


@contextlib.contextmanager
def running(kind: str, setup: Setup = DEFAULT) -> Iterator[Broker]:
    """A broker whose files are new. A stream stores kept.> where there are streams."""
    with tempfile.TemporaryDirectory(prefix="leafd-bench-") as folder:
        if kind in (MOSQUITTO, TABLE):
            yield from _running_program(kind, setup, Path(folder))
        else:
            yield from _running_server(kind, setup, Path(folder))


def _identity(folder: Path) -> tuple[str, str, ssl.SSLContext]:
    """Files of a certificate and its key, and who trusts it."""
    authority = Authority(folder)
    issued = authority.issue("server")
    return str(issued.certificate), str(issued.key), ssl.create_default_context(cafile=str(authority.certificate))


def _running_server(kind: str, setup: Setup, folder: Path) -> Iterator[Broker]:
    """leafd or nats-server."""
    always = ', sync_interval: "always"' if setup.synced and kind != servers.LEAFD else ""
    tls, trust = "", None
    if setup.tls:
        certificate, key, trust = _identity(folder)
        tls = f', tls {{ cert_file: "{certificate}", key_file: "{key}" }}'
    text = NATS.replace(" SYNC", always).replace(" TLS", tls).replace("ADDRESS", setup.address)
    with servers.running(kind, text) as server:
        with Nats(server) as nats:
            answer = nats.request("$JS.API.STREAM.CREATE.KEPT", name="KEPT", subjects=["kept.>"], storage="file")
            assert "error" not in answer, answer

        def pid() -> int:
            assert server.process is not None
            return server.process.pid

        def again() -> int:
            server.stop()
            server.start()
            return pid()

        yield Broker(kind, pid(), server.ports["mqtt_port"], again, trust)


def _running_program(kind: str, setup: Setup, folder: Path) -> Iterator[Broker]:
    """mosquitto or the table."""
    port = servers.free_port()
    trust = None
    if kind == MOSQUITTO:
        command, trust = mosquitto(folder, port, setup)
    else:
        command = table(folder, port, setup.synced)
    process = listening(command, setup.address, port)

    def restart() -> int:
        nonlocal process
        process.terminate()
        process.wait()
        process = listening(command, setup.address, port)
        return process.pid

    try:
        yield Broker(kind, process.pid, port, restart, trust)
    finally:
        process.terminate()
        process.wait()


def mosquitto(folder: Path, port: int, setup: Setup) -> tuple[list[str], ssl.SSLContext | None]:
    """The command that runs it there, and who trusts it."""
    certificate, key, trust = _identity(folder) if setup.tls else ("", "", None)
    lines = (
        f"listener {port} {setup.address}", *((f"certfile {certificate}", f"keyfile {key}") if setup.tls else ()),
        "allow_anonymous true", "persistence true", f"persistence_location {folder}/",
        "max_queued_messages 0", "user root",
        *(("autosave_on_changes true", "autosave_interval 1") if setup.synced else ("autosave_interval 10",)),
    )  # fmt: skip
    (folder / "mosquitto.conf").write_text("\n".join(lines))
    return [MOSQUITTO, "-c", str(folder / "mosquitto.conf")], trust


def table(folder: Path, port: int, synced: bool) -> list[str]:
    """Likewise of table.c, which is compiled."""
    program = folder / "table"
    source = Path(__file__).with_name("table.c")
    subprocess.run(["cc", "-D_GNU_SOURCE", "-std=gnu11", "-O2", "-o", str(program), str(source)], check=True)
    return [str(program), str(port), *([str(folder / "journal")] if synced else [])]


def listening(command: list[str], address: str, port: int) -> subprocess.Popen[bytes]:
    """Runs it, until it listens."""
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 20
    while True:
        try:
            socket.create_connection((address, port)).close()
            return process
        except OSError:
            assert time.monotonic() < deadline, f"{command[0]} does not listen"
            time.sleep(0.05)


def take(sock: socket.socket, size: int) -> None:
    """Reads so many bytes and forgets them."""
    room = bytearray(1 << 16)
    while size > 0:
        count = sock.recv_into(room, min(size, len(room)))
        assert count, "the broker closed"
        size -= count


def subscribe(sock: socket.socket, filter: str, qos: int = 0) -> None:
    sock.sendall(mqtt.subscribe(1, (filter, qos)))
    take(sock, 5)


def together(work: list[Callable[[], None]]) -> None:
    """Each on a thread of its own, to their ends."""
    failed: list[BaseException] = []

    def guarded(one: Callable[[], None]) -> None:
        try:
            one()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(one,), daemon=True) for one in work]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    if failed:
        raise failed[0]


def timed(broker: Broker, count: int, work: Callable[[], None]) -> Figures:
    """Messages a second, and processor time of the broker for each."""
    cpu_s, begin = broker.cpu_s(), time.monotonic()
    work()
    return {
        "rate": count / (time.monotonic() - begin),
        "cpu_us": (broker.cpu_s() - cpu_s) / count * 1e6,
        "memory_mb": broker.memory() / 1e6,
    }


def flow(broker: Broker, publishers: int, subscribers: int, count: int) -> Figures:
    """QoS 0: each of the publishers sends so many, each subscriber gets all."""
    packet = mqtt.publish("plain/topic", PAYLOAD)
    takers = [broker.client(f"t{n}") for n in range(subscribers)]
    givers = [broker.client(f"g{n}") for n in range(publishers)]
    for one in takers:
        subscribe(one, "plain/#")

    def give(sock: socket.socket) -> None:
        for _ in range(count // TOGETHER):
            sock.sendall(packet * TOGETHER)

    whole = count // TOGETHER * TOGETHER * publishers
    work: list[Callable[[], None]] = [partial(take, one, whole * len(packet)) for one in takers]
    work += [partial(give, one) for one in givers]
    try:
        return timed(broker, whole * subscribers, lambda: together(work))
    finally:
        for one in takers + givers:
            one.close()


def acknowledged(broker: Broker, clients: int, count: int) -> Figures:
    """QoS 1: each of the clients publishes when the one before was acknowledged. One thread serves all of them."""
    packets = [mqtt.publish("kept/topic", PAYLOAD, qos=1, id=1 + n) for n in range(2)]
    with broker.client("keeps", clean=False) if broker.kind == MOSQUITTO else contextlib.nullcontext() as keeper:
        if keeper is not None:  # a persistent session for which mosquitto stores them
            subscribe(keeper, "kept/#", 1)
            keeper.sendall(mqtt.disconnect())
        socks = [broker.client(f"p{n}") for n in range(clients)]

        def work() -> None:
            for number in range(count):
                for one in socks:
                    one.sendall(packets[number % 2])
                for one in socks:
                    take(one, 4)

        try:
            return timed(broker, clients * count, work)
        finally:
            for one in socks:
                one.close()


def idle(broker: Broker, count: int) -> Figures:
    """Memory of each connection with one subscription, and processor time while nobody says anything."""
    before, cpu_s, begin = broker.memory(), broker.cpu_s(), time.monotonic()
    socks = []
    try:
        for number in range(count):
            socks.append(broker.client(f"idle{number}", number=number))
            subscribe(socks[-1], f"idle/{number}")
        logins, cpu = time.monotonic() - begin, broker.cpu_s()
        time.sleep(IDLE_S)
        return {
            "rate": count / logins,
            "cpu_us": (cpu - cpu_s) / count * 1e6,
            "bytes_each": (broker.memory() - before) / count,
            "idle_cpu_s": broker.cpu_s() - cpu,
        }
    finally:
        for one in socks:
            one.close()


def retained(broker: Broker, count: int) -> Figures:
    """So many topics are retained with QoS 1; then a new subscription gets all of them."""
    with broker.client("keeps") as sock:
        work = 0.0

        def keep() -> None:
            for begin in range(0, count, TOGETHER):
                sock.sendall(
                    b"".join(
                        mqtt.publish(f"state/{n:07}", PAYLOAD, qos=1, id=1 + n % TOGETHER, retain=True)
                        for n in range(begin, begin + TOGETHER)
                    )
                )
                take(sock, 4 * TOGETHER)

        found = timed(broker, count, keep)
    size = len(mqtt.publish("state/0000000", PAYLOAD, retain=True))
    with broker.client("reads") as sock:
        subscribe_at, cpu_s = time.monotonic(), broker.cpu_s()
        sock.sendall(mqtt.subscribe(1, ("state/#", 0)))
        take(sock, 5 + count * size)
        work = time.monotonic() - subscribe_at
        read_cpu = (broker.cpu_s() - cpu_s) / count * 1e6
    return found | {"read_rate": count / work, "read_cpu_us": read_cpu}


def arrive(broker: Broker, count: int, subscribed: bool) -> list[socket.socket]:
    """So many clients with a session each come, many at once. subscribed: they have their subscription already."""
    socks: list[socket.socket] = []
    for begin in range(0, count, KNOCKING):
        some = range(begin, min(begin + KNOCKING, count))
        for number in some:
            sock = broker.connection(number)
            sock.sendall(mqtt.connect(4, f"session{number}", clean=False, keep_alive=0))
            socks.append(sock)
        for number in some:
            take(socks[number], 4)
            if not subscribed:
                socks[number].sendall(mqtt.subscribe(1, (f"session/{number}", 1)))
        for number in () if subscribed else some:
            take(socks[number], 5)
    return socks


def sessions(broker: Broker, count: int) -> Figures:
    """So many sessions with a subscription are made, and left; the broker is started again, and all come back."""
    before, cpu_s, begin = broker.memory(), broker.cpu_s(), time.monotonic()
    for sock in arrive(broker, count, subscribed=False):
        sock.close()
    found = {
        "rate": count / (time.monotonic() - begin),
        "cpu_us": (broker.cpu_s() - cpu_s) / count * 1e6,
        "bytes_each": (broker.memory() - before) / count,
    }
    broker.pid = broker.again()
    begin, start_cpu_s = time.monotonic(), broker.cpu_s()
    for sock in arrive(broker, count, subscribed=True):
        sock.close()
    back = {"back_rate": count / (time.monotonic() - begin), "start_cpu_s": start_cpu_s}
    return found | back | {"back_cpu_us": (broker.cpu_s() - start_cpu_s) / count * 1e6}


ROWS: Final[dict[str, Callable[[Broker, float], Figures]]] = {
    "fan-in": lambda broker, scale: flow(broker, 4, 1, int(200_000 * scale)),
    "1:8": lambda broker, scale: flow(broker, 1, 8, int(200_000 * scale)),
    "qos1-1": lambda broker, scale: acknowledged(broker, 1, int(2_000 * scale)),
    "qos1-1-synced": lambda broker, scale: acknowledged(broker, 1, int(1_000 * scale)),
    "qos1-100": lambda broker, scale: acknowledged(broker, 100, int(500 * scale)),
    "qos1-100-tls": lambda broker, scale: acknowledged(broker, 100, int(500 * scale)),
    "qos1-100-synced": lambda broker, scale: acknowledged(broker, 100, int(100 * scale)),
    "idle": lambda broker, scale: idle(broker, int(10_000 * scale)),
    "sessions": lambda broker, scale: sessions(broker, int(10_000 * scale)),
    "retained": lambda broker, scale: retained(broker, int(100_000 * scale) // TOGETHER * TOGETHER),
}


def beyond(row: str, kind: str, scale: float) -> bool:
    """Whether it cannot do that: the table retains nothing and knows no TLS, and nats-server closes whoever reads
    100,000 messages."""
    if row.endswith(TLS):
        return kind == TABLE
    return row == "retained" and (kind == TABLE or (kind == servers.REFERENCE and scale >= 1))


def measured(row: str, kind: str, scale: float) -> Figures | None:
    """One row of one server, once. None: it did not come to its end."""
    with running(kind, Setup(synced=row.endswith(SYNCED), tls=row.endswith(TLS))) as broker:
        if kind == servers.LEAFD:
            time.sleep(2.0)  # its start is over when it listens, but for what it gives back to the system
        try:
            figures = ROWS[row](broker, scale)
        except (AssertionError, OSError) as error:
            print(f"{row:15} {kind:12} {error}", flush=True)
            return None
    load = os.getloadavg()[0]
    print(
        f"{row:15} {kind:12} " + "  ".join(f"{k} {v:,.2f}" for k, v in figures.items()) + f"  load {load:.1f}",
        flush=True,
    )
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rows", nargs="*", default=list(ROWS), metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=12.0, help="no round begins that would end later")
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of messages, connections, topics")
    chosen = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    kinds = [*servers.KINDS, *([MOSQUITTO] if shutil.which(MOSQUITTO) else []), TABLE]
    found: dict[tuple[str, str], list[Figures]] = {(row, kind): [] for row in chosen.rows for kind in kinds}
    begin, longest_s = time.monotonic(), 0.0
    for number in range(chosen.rounds):
        round_begin = time.monotonic()
        if round_begin - begin + longest_s > chosen.minutes * 60:
            print(f"{number} rounds: one more takes about {longest_s:.0f} s")
            break
        for row in chosen.rows:
            for kind in kinds if number % 2 == 0 else kinds[::-1]:
                figures = None if beyond(row, kind, chosen.scale) else measured(row, kind, chosen.scale)
                found[row, kind] += [] if figures is None else [figures]
        longest_s = max(longest_s, time.monotonic() - round_begin)
    print(report(chosen.rows, kinds, found))


if __name__ == "__main__":
    main()
