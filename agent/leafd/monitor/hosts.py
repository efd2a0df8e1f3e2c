"""The names by which the monitoring port may be asked (the header Host), and the protection against pages of elsewhere
that try to read it.

The reports are open to all that reach the port, as in nats-server, and on loopback so is the status page. A browser on
this machine reaches it, too, and with it each page of elsewhere that it has open: under a name of that page's own which
is made to lead here (DNS rebinding), or by asking for an address and reading the answer where a header allows that. So
who comes over loopback has to ask for an address, for localhost, for this machine or for a configured name, and no
answer allows another origin to read it. nats-server looks at no name and allows every origin. Not here:
HTTP (http.py).
"""

from __future__ import annotations

import socket
from typing import Final

from leafd.config.schema.server import ServerConfig

MISDIRECTED: Final = (
    "421 This server does not know the name that you ask for. Ask by an address (127.0.0.1) or as localhost, "
    "or put the name into http_hosts of the configuration.\n"
)
UNREAD: Final = [("X-Content-Type-Options", "nosniff"), ("Cross-Origin-Resource-Policy", "same-origin")]
"""Headers of each answer that the page does not guard itself."""


def is_loopback(address: str) -> bool:
    """Whether only this machine's own programs come to that address."""
    return address.removeprefix("::ffff:").startswith("127.") or address == "::1"


def is_known(config: ServerConfig, host: str) -> bool:
    """Whether who comes over loopback may ask under that name ("": he named none, as no browser does)."""
    name = host.strip().lower()
    if not name or name.startswith("["):
        return True  # an address of IPv6: no name leads here by it
    name = name.partition(":")[0].removesuffix(".")
    listen = config.monitor_address()
    names = {"localhost", socket.gethostname(), *config.http_hosts, *(listen[:1] if listen is not None else ())}
    return _is_ipv4(name) or name in {one.lower() for one in names}


def _is_ipv4(name: str) -> bool:
    """Four numbers: no top-level domain is one."""
    parts = name.split(".")
    return len(parts) == 4 and all(part.isascii() and part.isdigit() for part in parts)
