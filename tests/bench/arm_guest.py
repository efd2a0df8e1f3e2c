"""What runs inside the emulated machine of bench_arm.py: each server in turn, under the load program, and a line of
JSON for each figure.

The machine's clock goes on by one nanosecond for each instruction, so the processor time that its kernel counts for a
process is a number of instructions, its own and the kernel's for it. Only Python's standard library is there.
"""

from __future__ import annotations

import json
import socket
import subprocess
import time
from pathlib import Path

PORT = 4222
PATIENCE_SECONDS = 300
SETTLED = 5_000_000  # instructions in half a second
SERVERS = ("leafd", "nats-server")
# The load program's words, and how many messages.
LOADS = (
    ("core", 100_000, ()),
    ("request", 5_000, ()),
    ("publish", 50_000, ("--in-flight", "500", "--subject", "js.a")),
    ("publish", 5_000, ("--in-flight", "1", "--subject", "js.a")),
)
CONFIGURATION = 'listen: "127.0.0.1:4222"\nserver_name: bench\njetstream {{ store_dir: "/tmp/{0}" }}\n'


def tell(server: str, what: str, instructions: float, **more: object) -> None:
    print("FIGURE", json.dumps({"server": server, "what": what, "instructions": instructions, **more}), flush=True)


class Running:
    """A server that accepts connections."""

    def __init__(self, name: str) -> None:
        file = Path(f"/tmp/{name}.conf")
        file.write_text(CONFIGURATION.format(name))
        with Path(f"/tmp/{name}.log").open("ab") as log:
            self.process = subprocess.Popen([f"/usr/bin/{name}", "-c", str(file)], stdout=log, stderr=log)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                with socket.create_connection(("127.0.0.1", PORT), 60) as connection:
                    assert connection.recv(4) == b"INFO"
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(
                        f"{name} does not speak:\n{Path(f'/tmp/{name}.log').read_text()[-2000:]}"
                    ) from None
                time.sleep(0.05)

    def instructions(self) -> int:
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(task.read_text().split()[0]) for task in tasks)

    def settled(self) -> int:
        """When it has nothing left to do."""
        before = self.instructions()
        for _ in range(40):
            time.sleep(0.5)
            now = self.instructions()
            if now - before < SETTLED:
                return now
            before = now
        return before

    def private_mb(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return sum(int(status.split(f"\n{name}:")[1].split()[0]) for name in ("RssAnon", "RssShmem")) / 1024

    def make_stream(self) -> None:
        body = json.dumps({"name": "S", "subjects": ["js.>"], "storage": "file"})
        with socket.create_connection(("127.0.0.1", PORT), 60) as connection, connection.makefile("rb") as lines:
            lines.readline()
            request = f"SUB in 1\r\nPUB $JS.API.STREAM.CREATE.S in {len(body)}\r\n{body}\r\n"
            connection.sendall(b'CONNECT {"verbose":false}\r\n' + request.encode())
            while not (line := lines.readline()).startswith(b"MSG in"):
                assert line.strip() in (b"PING", b"PONG"), line
            answer = lines.read(int(line.split()[-1]))
            assert b'"error"' not in answer, answer

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


def measure(name: str) -> None:
    Running(name).stop()  # the first start writes what Python compiles, and reads all files for the first time
    server = Running(name)
    tell(name, "start", server.settled(), private_mb=server.private_mb())
    before = server.instructions()
    time.sleep(20)
    tell(name, "idle, a second", (server.instructions() - before) / 20)
    server.make_stream()
    for scenario, messages, words in LOADS:
        before = server.settled()
        command = ["/usr/bin/load", scenario, "--port", str(PORT), "--messages", str(messages), "--size", "128", *words]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        spent = (server.settled() - before) / messages
        tell(name, " ".join([scenario, *words[:2]]), spent, private_mb=server.private_mb())
    server.stop()


if __name__ == "__main__":
    for server_name in SERVERS:
        measure(server_name)
