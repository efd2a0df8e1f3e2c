"""The fields that the cluster and gateway blocks have in common: the login that servers share, and the addresses of
others. Not here: the blocks (cluster.py, gateway.py), hubs of leaf links (leafnodes.py)."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from leafd.config.schema.base import SECOND, Duration, Secret, Text
from leafd.config.schema.section import Section, option, shown
from leafd.hostnames import resolvable


class SharedLogin(Section):
    """The login that all servers share."""

    user: Text = option("", "The name that other servers log in with, and this one there.", aliases=("username",))
    password: Secret = option("", "Its password.", aliases=("pass",))
    timeout: Duration = option(
        2 * SECOND, "How long may a server take to log in? With TLS a second more than the handshake, unless set.", gt=0
    )


def address_reader(schemes: tuple[str, ...], *, of: str, example: str, needs_port: bool) -> Callable[[object], str]:
    """Reads one address. Without a scheme it is the example's."""
    default = example.partition("://")[0]

    def read(value: object) -> str:
        if not isinstance(value, str):
            raise ValueError(f"an address is expected, not {shown(value)}")
        text = value.strip()
        try:
            parts = urlsplit(text if "://" in text else f"{default}://{text}")
            has_port = parts.port is not None or not needs_port
            fits = parts.scheme in schemes and has_port and parts.port != 0
            fits = fits and resolvable(parts.hostname or "")
        except ValueError:  # the port is beyond 65535
            fits = False
        if not fits:
            raise ValueError(f"{shown(value)} is no address of {of}: write it like {example}")
        return text

    return read


def one_or_more(value: object) -> object:
    """A list may be a single text."""
    return [value] if isinstance(value, str) else value
