"""The digest of a configuration is nats-server's for the same file."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from leafd.config import digest as digests
from leafd.config.digest import digest
from leafd.config.tree import parse_file, parse_text

from tests.servers import REFERENCE, command

FRACTIONS = (
    "0.5", "1.0", "12.50", "100000000000000000.5", "3000000000000000000000.5", "0.000001", "0.00000012", "0.0", "-2.25",
)  # fmt: skip
ANYTHING = "\n".join(f"N{number}: {one}\nport: $N{number}" for number, one in enumerate((
    *FRACTIONS, "2020-01-02T03:04:05Z", "[a, 5, [], {x: 1}]", "(\n'\"<\n)", '"a\\tb<c>&\\"d"', "1k", "off", "é", "{}",
)))  # fmt: skip
"""A key that served as a variable may hold anything, whatever becomes of who used it."""
TEXTS = {
    "anything": f"{ANYTHING}\nport: 4222 // here\n# nothing is said here\n",
    "blocks": (
        "B { timeout: 1, users = [ {user: é, password: p}, {user: u, password: $2a$04$abc} ] }\n"
        "host: $HOST_OF_A_TEST\ninclude ./more.conf\nauthorization: $B\n"
    ),
    "JSON": '{"port": 4222, "accounts": {"A": {"users": []}, "\u00e9": {}}}\n',
}


def theirs(path: Path) -> str:
    said = subprocess.run([*command(REFERENCE), "-t", "-c", str(path)], capture_output=True, text=True, timeout=60)
    found = re.search(r"sha256:[0-9a-f]{64}", said.stdout + said.stderr)
    assert found is not None, said
    return found[0]


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_both_servers_tell_the_same(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of whatever the language has: a fleet of both is compared by one column."""
    monkeypatch.setenv("HOST_OF_A_TEST", "127.0.0.1")
    (tmp_path / "more.conf").write_text("M: 3\nmax_connections: $M\nlogtime: true\n")
    path = tmp_path / "server.conf"
    path.write_text(text)
    assert theirs(path) == digest(parse_file(path).root)


def test_maps_inside_maps_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables that hold each other twice come to no endless text."""
    monkeypatch.setattr(digests, "TEXT_MAX", 1000)
    lines = ["v0: {a: 1}", *(f"v{one}: {{a: $v{one - 1}, b: $v{one - 1}}}" for one in range(1, 12)), "port: $v11"]
    assert "" == digest(parse_text("\n".join(lines)).root)
