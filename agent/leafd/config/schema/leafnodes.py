"""The leafnodes block: the listener for leaf links, who may use it, and the hubs this server dials. The links are
links/."""

from __future__ import annotations

from typing import Annotated, Any, Final
from urllib.parse import SplitResult, urlsplit

from leafd.config.schema.base import SECOND, Duration, Flag, Listen, Number, Strings, Text
from leafd.config.schema.section import Reader, Section, Takes, later, option

DEFAULT_PORT: Final = 7422
SCHEMES: Final = ("nats", "nats-leaf", "leaf", "tls", "ws", "wss")
_NO_TLS: Final = (
    "TLS is not available in this build yet: the link would be plain text; remove it only if that is acceptable"
)
_NO_WS: Final = "WebSocket links are not in this build"
_NO_S2: Final = "S2 compression is not in this build; links are uncompressed, which every peer accepts"


class LeafUser(Section):
    """A login of the leaf listener and the account its links belong to."""

    user: Text = option("", "Name.", aliases=("username",), takes=Takes.LIVE)
    password: Text = option("", "Password, plain or bcrypt.", aliases=("pass",), takes=Takes.LIVE)
    nkey: Text = option("", "Public nkey (U...).", takes=Takes.LIVE)
    account: Text = option("$G", "Account of the link at this end.", takes=Takes.LIVE)
    proxy_required: Any = later("PROXY protocol is not in this build", refuse=True)


class LeafAuthorization(Section):
    """Logins of the leaf listener alone; absent: the users of the accounts may link."""

    user: Text = option("", "The only login's name.", aliases=("username",), takes=Takes.LIVE)
    password: Text = option("", "Its password.", aliases=("pass",), takes=Takes.LIVE)
    nkey: Text = option("", "Its public nkey.", takes=Takes.LIVE)
    account: Text = option("$G", "Its account.", takes=Takes.LIVE)
    timeout: Duration = option(2 * SECOND, "How long a leaf may take to log in.", takes=Takes.LIVE, gt=0)
    users: tuple[LeafUser, ...] = option((), "Several logins.", takes=Takes.LIVE)
    proxy_required: Any = later("PROXY protocol is not in this build", refuse=True)


def _off(value: object) -> object:
    # Saying "no compression" is no request for something that is missing.
    return (
        None
        if value is False or (isinstance(value, str) and value.lower() in ("off", "disabled", "not supported"))
        else value
    )


class LeafRemote(Section):
    """One hub that this server dials, for one account."""

    urls: Strings = option(
        (), "Addresses of the hub, tried in turn; user and password may stand in them.", aliases=("url",)
    )
    account: Text = option("$G", "Local account of the link.", aliases=("local",))
    credentials: Text = option("", "Credentials file (.creds).", aliases=("creds",))
    nkey: Text = option("", "nkey seed, or a file that holds it.", aliases=("seed",))
    hub: Flag = option(False, "This side is the hub of the link although it dials.")
    deny_imports: Strings = option((), "Subjects that must not come in over the link.", aliases=("deny_import",))
    deny_exports: Strings = option((), "Subjects that must not go out over the link.", aliases=("deny_export",))
    no_randomize: Any = later("addresses are tried in any order", refuse=False, aliases=("dont_randomize",))
    ignore_discovered_servers: Any = later("only the addresses named here are dialled", refuse=False)
    first_info_timeout: Any = later("a hub has 10 s for the whole handshake", refuse=False)
    dial_timeout: Any = later("a dial may take 5 s", refuse=False)
    disabled: Flag = option(False, "Do not dial.")
    isolate_leafnode_interest: Any = later(
        "interest of leaves is told to all others", refuse=False, aliases=("isolate",)
    )
    request_isolation: Any = later("isolation is not in this build", refuse=False)
    tls: Any = later(_NO_TLS, refuse=True)
    proxy: Any = later("dialling through an HTTP proxy is not in this build: the link would bypass it", refuse=True)
    compression: Annotated[Any, Reader(_off)] = later(_NO_S2, refuse=False)
    ws_compression: Any = later(
        _NO_WS, refuse=False, aliases=("ws_compress", "websocket_compress", "websocket_compression")
    )
    ws_no_masking: Any = later(_NO_WS, refuse=False, aliases=("websocket_no_masking",))
    jetstream_cluster_migrate: Any = later(
        "it matters only in a cluster, which this build does not have", refuse=False, aliases=("js_cluster_migrate",)
    )

    def check(self) -> None:
        for url in self.urls:
            parts = urlsplit(url if "://" in url else f"nats-leaf://{url}")
            if parts.scheme not in SCHEMES or not parts.hostname:
                raise ValueError(
                    f"{url!r} is no address of a leaf listener: write it like nats://user:password@host:{DEFAULT_PORT}"
                )
            if parts.scheme in ("tls", "wss", "ws"):
                raise ValueError(
                    f"{parts.scheme}:// links are not available in this build yet: use nats:// "
                    f"where plain text is acceptable"
                )
            _check_dialable(url, parts)
        if not self.urls and not self.disabled:
            raise ValueError("a remote needs url or urls")


def _check_dialable(url: str, parts: SplitResult) -> None:
    """Raises ValueError for what no resolver takes, which a dial would stumble over again and again."""
    try:
        fits = parts.port != 0 and bool((parts.hostname or "").encode("idna"))
    except ValueError:  # the port is beyond 65535, or a label of the name is empty, longer than 63 or no text
        fits = False
    if not fits:
        raise ValueError(f"{url!r} has no host and port that can be dialled: check its spelling")


class LeafNodes(Section):
    """The leafnodes block."""

    listen: Listen | None = option(None, "Address of the leaf listener, host:port.", example='"0.0.0.0:7422"')
    host: Text = option("", "Host of the leaf listener.", aliases=("net",))
    port: Number | None = option(
        None, "Port of the leaf listener; absent: no listener. -1: any free port.", ge=-1, le=65535
    )
    authorization: LeafAuthorization | None = option(None, "Logins of the listener alone.", takes=Takes.LIVE)
    advertise: Text = option(
        "", "Address that is announced to leaves in place of the listener's.", aliases=("leafnode_advertise",)
    )
    no_advertise: Flag = option(False, "Announce no address to leaves.")
    min_version: Any = later("every version of a leaf server is taken", refuse=False, aliases=("minimum_version",))
    reconnect: Duration = option(
        SECOND, "Wait before a lost hub is dialled again.", aliases=("reconnect_delay", "reconnect_interval"), gt=0
    )
    dial_timeout: Any = later("a dial may take 5 s", refuse=False)
    write_deadline: Any = later("that of the server counts", refuse=False)
    isolate_leafnode_interest: Any = later(
        "interest of leaves is told to all others", refuse=False, aliases=("isolate",)
    )
    remotes: tuple[LeafRemote, ...] = option((), "Hubs that this server dials.", takes=Takes.LIVE)
    tls: Any = later(_NO_TLS, refuse=True)
    compression: Annotated[Any, Reader(_off)] = later(_NO_S2, refuse=False)
    write_timeout: Any = later("a blocked link is closed, as by default", refuse=False)
