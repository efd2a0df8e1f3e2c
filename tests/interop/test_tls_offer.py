"""What leafd and the reference offer to whoever knocks at a port with TLS is what tests/wire/tls.md says of them.

Not here: how it is asked (tls_scanner.py), what becomes of a handshake (test_tls.py).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests import servers
from tests.certificates import Authority
from tests.interop.tls_scanner import facts

PAGE: Final = Path(__file__).resolve().parent.parent / "wire" / "tls.md"
# Who begins within that time begins with TLS; the rest, like the check that the server has started, gets INFO.
FIRST: Final = 'handshake_first: "1s"'
LISTENERS: Final = """
listen: "127.0.0.1:{port}"
https: "127.0.0.1:{https_port}"
tls { {pair}, {first} }
leafnodes { listen: "127.0.0.1:{leaf_port}", tls { {pair}, {first} } }
websocket { listen: "127.0.0.1:{web_port}", tls { {pair} } }
"""


def recorded(kind: str) -> dict[str, str]:
    """The page's column of that server."""
    section = PAGE.read_text().split("## What is offered")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in re.findall(r"^\| .*", section, re.M)]
    column = next(number for number, head in enumerate(rows[0]) if head.startswith(kind))
    return {row[0]: row[column] for row in rows}


@pytest.mark.parametrize("kind", servers.KINDS)
@pytest.mark.parametrize("key", ["ec", "rsa"])
def test_every_port_offers_what_the_page_says(kind: str, key: str, tmp_path: Path) -> None:
    """Versions, suites, groups and what protects a handshake: no more and no less, on every listener."""
    issued = Authority(tmp_path).issue("server", key=key)
    pair = f"cert_file: '{issued.certificate}', key_file: '{issued.key}'"
    page = recorded(kind)
    with servers.running(kind, LISTENERS, pair=pair, first=FIRST) as server:
        for name, port in server.ports.items():
            seen = facts(port)
            expected = {row: page[row] for row in seen}
            if kind == servers.LEAFD:
                # OpenSSL has it from 3.5 on; Python's ssl module, which serves https, cannot name more than one group.
                seen["groups"] = seen["groups"].removeprefix("X25519MLKEM768, ")
                expected["groups"] = "P-256" if name == "https_port" else expected["groups"]
            assert expected == seen, f"{kind}, {name}"
