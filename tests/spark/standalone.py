"""A standalone Spark cluster on this machine: a master, workers, and a Python for the executors that has no leafd."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import site
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark

from tests import servers

HOME = Path(pyspark.__file__).parent
ROOT = Path(__file__).resolve().parents[2]
START_SECONDS_MAX = 120.0
EXECUTOR = "CoarseGrainedExecutorBackend"


def environment() -> dict[str, str]:
    local = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "localhost", "SPARK_HOME": str(HOME)}
    return os.environ | local


def bundle(folder: Path) -> Path:
    """What --py-files takes: the zip that packaging/spark-wheel makes."""
    subprocess.run([sys.executable, str(ROOT / "packaging" / "spark-wheel"), str(folder)], check=True)
    (found,) = folder.glob("leafd-spark-*.zip")
    return found


def python_without_leafd(folder: Path) -> Path:
    """A Python that has what pip installed here, but not this checkout."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    inner = next((folder / "lib").glob("python3*")) / "site-packages"
    for entry in (entry for place in site.getsitepackages() for entry in Path(place).iterdir()):
        # What leafd installs, and .pth files, by which an editable one is found, stay behind.
        if not entry.name.startswith(("leafd", "_leafd", "pyspark_nats")) and entry.suffix != ".pth":
            with contextlib.suppress(FileExistsError):
                (inner / entry.name).symlink_to(entry)
    python = folder / "bin" / "python"
    found = subprocess.run([str(python), "-c", "import pyspark, pyarrow\nimport leafd"], capture_output=True, text=True)
    assert "No module named 'leafd'" in found.stderr, found.stderr
    return python


def children(pid: int) -> list[int]:
    """All processes below one."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, task.read_text().split()):
                found += [child, *children(child)]
    return found


def command_line(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


class Standalone:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = servers.free_port()
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def start(self, name: str, *arguments: str) -> None:
        log = self.folder / f"{name}-{len(self._processes)}.log"
        command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name.lower()}.{name}", *arguments]
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, env=environment(), start_new_session=True)
        self._processes.append(process)
        deadline = time.monotonic() + START_SECONDS_MAX
        ready = "I have been elected leader" if name == "Master" else "Successfully registered with master"
        while not re.search(ready, log.read_text(errors="replace")):
            assert process.poll() is None, log.read_text(errors="replace")[-3000:]
            assert time.monotonic() < deadline, log.read_text(errors="replace")[-3000:]
            time.sleep(0.2)

    def executors(self) -> list[int]:
        pids = [pid for process in self._processes for pid in children(process.pid)]
        return [pid for pid in pids if EXECUTOR in command_line(pid)]

    def kill_executor(self, which: int) -> bool:
        """kill -9 of one; False if there is none at the moment."""
        found = self.executors()
        if found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(found[which % len(found)], signal.SIGKILL)
        return bool(found)

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            if process.poll() is None:
                process.kill()


@contextlib.contextmanager
def running(folder: Path, workers: int = 2) -> Iterator[Standalone]:
    """A cluster of so many workers with a core each, ended when the block is left."""
    cluster = Standalone(folder)
    try:
        cluster.start("Master", *("--host", "127.0.0.1", "--port", str(cluster.port), "--webui-port", "0"))
        for _ in range(workers):
            place = ("--host", "127.0.0.1", "--webui-port", "0", "--work-dir", str(folder / "work"))
            cluster.start("Worker", *place, "--cores", "1", "--memory", "1g", cluster.url)
        yield cluster
    finally:
        cluster.stop()
