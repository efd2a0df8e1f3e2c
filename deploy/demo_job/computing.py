"""The demo's hold on its Spark job: it is started beside everything else, told when to run, and asked how far it is.

Not here: the session and the job (spark_side.py, a process of its own).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path

from .checks import Check

SPARK_SECONDS = 900.0
END_SECONDS = 60.0
# Most of the processor time of a job this short would go to optimising code that runs a few times.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class Computing:
    """One session; its runs follow each other."""

    wanted = True

    def __init__(self, servers: str, tables: Path, log: Path) -> None:
        self.state = "not started"
        self.seconds: list[float] = []  # of each run
        self.rows = 0
        self.command = [sys.executable, "-m", f"{__package__}.spark_side", servers, str(tables)]
        self._log = log
        self._fault = ""
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Starts the process and waits until it has its session."""
        began = asyncio.get_running_loop().time()
        self.state = "making its session"
        with self._log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self.command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env={"JDK_JAVA_OPTIONS": JAVA_OPTIONS, **os.environ, "PYSPARK_PYTHON": sys.executable},
            )
        if await self._answer() == "ready":
            self.state = f"ready after {asyncio.get_running_loop().time() - began:.0f} s"

    async def run(self) -> bool:
        """One run over what is there now; whether it came to its end."""
        loop = asyncio.get_running_loop()
        assert self._process is not None
        assert self._process.stdin is not None
        began = loop.time()
        self.state = f"run {len(self.seconds) + 1}"
        with contextlib.suppress(OSError):  # it has ended: then there is no answer, either
            self._process.stdin.write(b"run\n")
            await self._process.stdin.drain()
        word, _, rest = (await self._answer()).partition(" ")
        self.seconds.append(loop.time() - began)
        if word == "done":
            self.rows += int(rest)
            self._fault = ""
            self.state = f"{self.rows:,} rows in {len(self.seconds)} runs"
        else:
            self._fault = rest or self._last_line()
            self.state = f"run {len(self.seconds)} failed"
        return word == "done"

    async def _answer(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            line = await asyncio.wait_for(self._process.stdout.readline(), SPARK_SECONDS)
        except TimeoutError:
            return f"failed no answer for {SPARK_SECONDS:.0f} s"
        return line.decode(errors="replace").strip()

    async def end(self) -> Check:
        """Ends the process. The check: the last run and the process came to a good end."""
        process = self._process
        if process is None:
            return Check("the Spark job", False, "never started")
        assert process.stdin is not None
        process.stdin.close()
        try:
            code = await asyncio.wait_for(process.wait(), END_SECONDS)
        except TimeoutError:
            code = await self.kill()
        fault = self._fault or ("" if code == 0 else self._last_line())
        text = f"{len(self.seconds)} runs in one session, {self.rows:,} rows, ended with code {code}"
        return Check("the Spark job", code == 0 and not fault, f"{text}; its last words: {fault}" if fault else text)

    async def kill(self) -> int:
        if self._process is None:
            return 0
        if self._process.returncode is None:
            self._process.kill()
        return await self._process.wait()

    def _last_line(self) -> str:
        lines = [line for line in self._log.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1][-300:] if lines else ""


class NoComputing(Computing):
    """A demo without Spark: nothing is started, and nothing is checked of it."""

    wanted = False

    def __init__(self) -> None:
        super().__init__("", Path(), Path())
        self.state = "left out (--no-spark)"

    async def start(self) -> None:
        """Does nothing."""

    async def run(self) -> bool:
        """Does nothing."""
        return True
