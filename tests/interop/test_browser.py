"""A page in a real browser (headless Chromium) with the official nats.ws talks to the server over WebSocket.

Left out where there is no chromium, or neither npm nor LEAFD_NATS_WS, the folder of the npm package nats.ws.
"""

from __future__ import annotations

import http.server
import json
import os
import queue
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from tests import servers

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
VERSION = "1.30.3"
PAGE = """<!doctype html><meta charset=utf-8><script type=module>
import { connect, StringCodec } from "/nats.js";
const said = [];
try {
  const client = await connect({ servers: "ws://127.0.0.1:PORT", timeout: 10000 });
  said.push(client.info.proto);
  const heard = client.subscribe("page.>", { max: 4 });
  const sizes = [0, 100, 5000, 300000];
  for (const size of sizes) client.publish("page.x", new Uint8Array(size).fill(7));
  for await (const one of heard) said.push(one.data.length);
  client.subscribe("ask", { callback: (error, one) => one.respond(one.data) });
  const answer = await client.request("ask", StringCodec().encode("grüße"), { timeout: 10000 });
  said.push(StringCodec().decode(answer.data));
  await client.drain();
} catch (error) { said.push(String(error)); }
await fetch("/done", { method: "POST", body: JSON.stringify(said) });
</script>"""


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The package's one file for browsers."""
    folder = os.environ.get("LEAFD_NATS_WS", "")
    if not folder:
        if shutil.which("npm") is None:
            pytest.skip("no npm here to get nats.ws with")
        at = tmp_path_factory.mktemp("npm")
        words = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(at), f"nats.ws@{VERSION}"]
        if subprocess.run(words, capture_output=True, timeout=120).returncode != 0:
            pytest.skip("nats.ws is not to be had here")
        folder = str(at / "node_modules" / "nats.ws")
    return (Path(folder) / "esm" / "nats.js").read_bytes()


def visit(page: bytes, module: bytes, profile: Path) -> Any:
    """Serves the page, has Chromium open it, and returns what its script says."""
    said: queue.Queue[Any] = queue.Queue()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body, kind = (module, "text/javascript") if self.path == "/nats.js" else (page, "text/html")
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            said.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as pages:
        threading.Thread(target=pages.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{pages.server_address[1]}/"
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        browser = subprocess.Popen(
            [str(CHROMIUM), *flags, f"--user-data-dir={profile}", "--remote-debugging-port=0", url],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            return said.get(timeout=60)
        finally:
            browser.terminate()
            browser.wait(20)
            pages.shutdown()


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here")
@pytest.mark.parametrize("compression", ["false", "true"])
@pytest.mark.parametrize("kind", servers.KINDS)
def test_a_page_of_a_browser_talks_to_it(kind: str, compression: str, module: bytes, tmp_path: Path) -> None:
    """Messages up to 300 kB and a request with its answer, with compression and without."""
    text = f"port: {{port}}\nwebsocket {{ port: {{web_port}}, no_tls: true, compression: {compression} }}\n"
    with servers.running(kind, text) as server:
        page = PAGE.replace("PORT", str(server.ports["web_port"])).encode()
        assert [1, 0, 100, 5000, 300_000, "grüße"] == visit(page, module, tmp_path)
