"""What a start loads, module by module, because times differ from run to run."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from leafd import _native

from tests import servers
from tests.rig.raw import RawClient
from tests.rig.waiting import eventually

pytestmark = pytest.mark.anew  # the start is what is tested

AGENT = Path(__file__).parents[3] / "agent"

# leafd alone, beside the standard library: no installed package can be found.
BARE = f"import sys; bare = len(sys.modules); sys.path.insert(0, {str(AGENT)!r}); sys.argv = ['leafd', *sys.argv[1:]]; "
MAIN = "from leafd.__main__ import main; code = main(); assert code == 0, code; "
SHOW = "names = sorted(sys.modules); import json; print(json.dumps([len(names) - bare, names]))"


def loaded(code: str, words: Sequence[str] = ()) -> tuple[int, set[str]]:
    """How many modules were loaded beyond those of a bare interpreter, and the names of all."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", BARE + code + SHOW, *words], capture_output=True, text=True, timeout=20
    )
    assert 0 == done.returncode, done.stderr
    count, names = json.loads(done.stdout.splitlines()[-1])
    return count, set(names)


def test_the_version_needs_next_to_nothing() -> None:
    """--version reads the command line and one file: no configuration, no schema, no network."""
    count, names = loaded(MAIN, ["--version"])
    assert not {"leafd.config.load", "importlib.metadata", "email", "socket", "json", "pathlib"} & names
    assert count < 75


def test_a_check_needs_the_standard_library_only(tmp_path: Path) -> None:
    """-t loads what reads configurations, and nothing that serves."""
    file = tmp_path / "box.conf"
    file.write_text('jetstream { store_dir: /tmp/x, domain: d }\nleafnodes { remotes: [ {url: "nats://h:7422"} ] }\n')
    count, names = loaded(MAIN, ["-t", "-c", str(file)])
    absent = tuple(f"leafd.{room}" for room in ("daemon", "host.", "logins", "native", "jetstream"))
    assert not {"difflib", "socket", "random"} & names
    assert not [name for name in names if name.startswith(absent)]
    assert count < 115


def test_the_listeners_are_bound_before_the_daemon_is_loaded() -> None:
    """Whoever connects while it starts waits and is not refused: the ports are open before trio is imported."""
    _, names = loaded("import leafd.daemon.start; ")
    assert "leafd.host.listeners" in names
    assert not {"trio", "attr", "leafd.daemon.run", "leafd.daemon.server", "leafd._native"} & names


# Looks at a daemon when it is ready, and once more at its end.
WATCH = """
import gc, json, sys
import leafd  # in a checkout, what builds the extension is loaded by now
builder = set(sys.modules)
from leafd.__main__ import main
enable, freeze, report, started = gc.enable, gc.freeze, {}, []
STARTS = ("subprocess.Popen", "os.fork")
sys.addaudithook(lambda event, arguments: started.append(arguments[:1]) if event in STARTS else None)

def at_ready():
    enable()
    report.update(ready=sorted(set(sys.modules) - builder), frozen=gc.get_freeze_count(), started=started)

def at_freezing():
    found = gc.collect()  # a slow one comes by here again, and finds nothing more
    report["garbage"] = max(found, report.get("garbage", 0))
    freeze()

gc.freeze = at_freezing
gc.enable = at_ready  # what run.py calls last of all before it waits for signals
code = main()
report["later"] = sorted(set(sys.modules) - builder - set(report["ready"]))
print(json.dumps(report), file=sys.stderr)
sys.exit(code)
"""

CONFIG = """
port: {port}
http: {http_port}
jetstream {{ store_dir: "{store}", domain: box }}
leafnodes {{ port: {leaf_port} }}
authorization {{ users: [ {{user: u, password: p}} ] }}
"""


def use(ports: dict[str, int]) -> None:
    """What a day has: a login, a wrong one, a stream, a consumer, a message, monitoring, a leaf that does not fit."""
    with RawClient(ports["port"], says={"user": "u", "pass": "p"}) as client:
        for subject, body in (
            ("$JS.API.INFO", b""),
            ("$JS.API.STREAM.CREATE.S", b'{"name":"S","subjects":["s.>"]}'),
            ("s.a", b"x"),
            ("$JS.API.CONSUMER.CREATE.S.C", b'{"stream_name":"S","config":{"durable_name":"C","ack_policy":"none"}}'),
            ("$JS.API.STREAM.LIST", b""),
        ):
            client.must(subject, body)
    for port, line in ((ports["port"], b'{"user":"u","pass":"x"}'), (ports["leaf_port"], b"{}")):
        with socket.create_connection(("127.0.0.1", port), 10) as connection:
            connection.sendall(b"CONNECT " + line + b"\r\nPING\r\n")
            while connection.recv(4096):
                pass
    for page in ("varz", "jsz", "connz"):
        with urllib.request.urlopen(f"http://127.0.0.1:{ports['http_port']}/{page}", timeout=10) as answer:
            json.load(answer)


def test_what_is_needed_later_is_loaded_before_anybody_connects(tmp_path: Path) -> None:
    """A daemon that serves, fails logins, reports and reloads imports nothing more: no flood of connections can leave
    it without the descriptor for that. Until then it loads only what this configuration needs, and the only process
    that it starts is the one by which trio finds the C library."""
    ports = {name: servers.free_port() for name in ("port", "http_port", "leaf_port")}
    file = tmp_path / "box.conf"
    file.write_text(CONFIG.format(store=tmp_path / "store", **ports))
    process = subprocess.Popen(
        [sys.executable, "-c", WATCH, "-c", str(file)], stderr=subprocess.PIPE, text=True, cwd=tmp_path
    )
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if "Server is ready" in line:
                break
        use(ports)
        process.send_signal(signal.SIGHUP)
        for line in process.stderr:
            if "Reloaded" in line:
                break
        use(ports)
    finally:
        process.terminate()
        said = process.stderr.read().splitlines()
        process.stderr.close()
        process.wait(20)
    report = json.loads(said[-1])
    assert [] == report["later"]
    assert [["/sbin/ldconfig"]] == report["started"]
    assert report["frozen"] > 10_000
    assert report["garbage"] < 500, "what a start leaves is collected while it goes on"
    needless = {
        "pydantic",
        "nacl",
        "bcrypt",
        "asyncio",
        "email",
        "html",
        "difflib",
        "leafd_spark",
    }
    assert set() == needless & set(report["ready"])


def test_what_a_reload_makes_necessary_is_loaded_by_the_reload() -> None:
    """The first bcrypt hash of a configuration is checked with what its reload loaded, not with what a login finds."""
    hashed = "$2a$04$" + "a" * 53
    with servers.running(servers.LEAFD, 'port: {port}\nauthorization { user: u, password: "plain" }\n') as server:
        assert server.process is not None
        maps = Path(f"/proc/{server.process.pid}/maps")
        assert "_bcrypt" not in maps.read_text()
        (server.directory / "server.conf").write_text(server.configuration.replace("plain", hashed))
        server.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 20
        while "Reloaded" not in server.log and time.monotonic() < deadline:
            time.sleep(0.02)
        assert "_bcrypt" in maps.read_text()
        assert "Unexpected" not in server.log


PRIVATE_MB_MAX = 24
"""It was 23.3 MB, and 1.1 more before a start gave back what it had freed. Python takes memory in pieces of 1 MB."""
MONITORED_MB_MAX = 24.25
"""With the monitoring port it was 23.97 MB."""
LEAF = """
port: {port}
{monitoring}
jetstream {{ store_dir: "{store}", domain: box }}
leafnodes {{ remotes: [ {{url: "nats://127.0.0.1:{nobody_port}"}} ] }}
"""


# The daemon without the loader of an editable install, which has imported much by itself and stays.
ALONE = """
import sys
from importlib.util import module_from_spec, spec_from_file_location
sys.path[:0] = {path!r}
spec = spec_from_file_location("leafd._native", {native!r})
sys.modules["leafd._native"] = native = module_from_spec(spec)
spec.loader.exec_module(native)
from leafd.__main__ import main
sys.exit(main())
"""


def private_kb(pid: int) -> int:
    """Memory that the kernel cannot take back: pages of no file, and shared memory."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("RssAnon:", "RssShmem:")))


@contextmanager
def alone(file: Path, code: Path) -> Iterator[int]:
    """A daemon with that configuration, and with its byte code in that folder; its process id."""
    text = ALONE.format(path=[str(AGENT), *filter(None, sys.path)], native=_native.__file__)
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env["PYTHONPYCACHEPREFIX"] = str(code)
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", text, "-c", str(file)], stderr=subprocess.PIPE, text=True, env=env
    )
    assert process.stderr is not None
    try:
        assert any("Server is ready" in line for line in iter(process.stderr.readline, ""))
        yield process.pid
    finally:
        process.terminate()
        process.stderr.read()
        process.stderr.close()
        process.wait(20)


@pytest.mark.parametrize(
    ("monitoring", "most_mb"), [("", PRIVATE_MB_MAX), ("http: 127.0.0.1:{}", MONITORED_MB_MAX)], ids=["alone", "http"]
)
def test_an_idle_leaf_fits_a_small_box(monitoring: str, most_mb: float, tmp_path: Path) -> None:
    """A leaf with JetStream that has nothing to do holds no more memory that the kernel cannot take back than this."""
    file, code = tmp_path / "box.conf", tmp_path / "code"
    given = {"port": servers.free_port(), "nobody_port": servers.free_port(), "store": tmp_path / "store"}
    file.write_text(LEAF.format(monitoring=monitoring.format(servers.free_port()), **given))
    with alone(file, code):
        pass  # It compiles what it imports. That of a package comes compiled.
    with alone(file, code) as pid:
        # (A moment later it has given back what the start needed.)
        eventually(lambda: private_kb(pid) <= most_mb * 1024, lambda: f"{private_kb(pid)} KB", seconds=5)
