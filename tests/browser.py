"""Headless Chromium for a test, driven by its DevTools protocol over two pipes: no port, and no library.

    with open_browser(folder) as browser:
        browser.open("http://127.0.0.1:8222/")
        browser.wait_for("document.title == 'leaf'")
        browser.screenshot(file, width=390, dark=True)

Not here: what a page is to show.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

CHROMIUM: Final = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS: Final = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip
WAIT_S: Final = 60.0
"""For everything: the machine may be busy with other tests."""
_IN: Final = 3
_OUT: Final = 4


class Browser:
    """One window."""

    def __init__(self, orders: int, answers: int) -> None:
        self._orders = orders
        self._answers = answers
        self._held = b""
        self._number = 0
        self._session: str | None = None
        self.complaints: list[str] = []
        """Errors that the console and the network told of."""
        target = self.order("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.order("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.order(f"{domain}.enable")

    def order(self, method: str, **parameters: Any) -> Any:
        """One command of the protocol, and its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._orders, json.dumps(message).encode() + b"\0")
        while True:
            said = self._read()
            if said.get("id") == self._number:
                assert "error" not in said, said["error"]
                return said["result"]
            self._hear(said)

    def _read(self) -> Any:
        deadline = time.monotonic() + WAIT_S
        while b"\0" not in self._held:
            ready, _, _ = select.select([self._answers], [], [], max(deadline - time.monotonic(), 0))
            assert ready, f"the browser said nothing for {WAIT_S} s"
            more = os.read(self._answers, 1 << 20)
            assert more, "the browser has ended"
            self._held += more
        text, _, self._held = self._held.partition(b"\0")
        return json.loads(text)

    def _hear(self, event: Any) -> None:
        about = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(about["exceptionDetails"])[:1000])
        elif event.get("method") == "Log.entryAdded" and about["entry"]["level"] == "error":
            self.complaints.append(f"{about['entry']['text']} {about['entry'].get('url', '')}")

    def open(self, url: str) -> None:
        """Goes there; what is there may take a while to come."""
        self.order("Page.navigate", url=url)

    def evaluate(self, expression: str) -> Any:
        """The value of an expression of the page's script."""
        found = self.order("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait_for(self, expression: str, seconds: float = WAIT_S) -> Any:
        """The value once it is true."""
        deadline = time.monotonic() + seconds
        while True:
            with contextlib.suppress(AssertionError):  # the page may be on its way
                if found := self.evaluate(expression):
                    return found
            assert time.monotonic() < deadline, f"not true within {seconds} s: {expression}\n{self.text()}"
            time.sleep(0.1)

    def text(self) -> str:
        """The text that can be read."""
        return str(self.evaluate("document.body ? document.body.innerText : ''"))

    def resize(self, width: int, height: int = 900, *, dark: bool = False) -> None:
        """The window's size and the preferred colours."""
        self.order(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.order("Emulation.setEmulatedMedia", features=[scheme])

    def screenshot(self, file: Path, width: int, *, dark: bool = False) -> None:
        """The whole page as a PNG."""
        self.resize(width, dark=dark)
        height = int(self.evaluate("document.documentElement.scrollHeight"))
        self.resize(width, height, dark=dark)
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        file.write_bytes(base64.b64decode(self.order("Page.captureScreenshot", format="png")["data"]))


def _far(descriptor: int) -> int:
    """The same pipe beyond the two numbers that the browser reads and writes."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 64)
    os.close(descriptor)
    return moved


@contextlib.contextmanager
def open_browser(profile: Path) -> Iterator[Browser]:
    """A browser, ended when the block is left. profile: an empty folder for its files."""
    theirs_in, orders = map(_far, os.pipe())
    answers, theirs_out = map(_far, os.pipe())

    def place() -> None:
        os.dup2(theirs_in, _IN)
        os.dup2(theirs_out, _OUT)

    process = subprocess.Popen(
        [str(CHROMIUM), *FLAGS, f"--user-data-dir={profile}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=place,
        pass_fds=(_IN, _OUT),
    )
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        yield Browser(orders, answers)
    finally:
        process.terminate()
        try:
            process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(orders)
        os.close(answers)
