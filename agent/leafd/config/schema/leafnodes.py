"""The leafnodes block: the listener for leaf links, who may use it, and the hubs this server dials. The links are
links/."""

from __future__ import annotations

from typing import Annotated, Any, Final
from urllib.parse import SplitResult, urlsplit

from leafd.config.credentials import credential_file
from leafd.config.schema.base import SECOND, Duration, File, Flag, Listen, Number, Secret, Strings, Text
from leafd.config.schema.compression import DEFAULT as DEFAULT_COMPRESSION, Compression
from leafd.config.schema.precedence import LeafLimits, LeafPriority
from leafd.config.schema.section import Reader, Section, Takes, later, option, shown
from leafd.config.schema.tls import Tls
from leafd.hostnames import resolvable
from leafd.versions import version_of

DEFAULT_PORT: Final = 7422
SCHEMES: Final = ("nats", "nats-leaf", "leaf", "tls", "ws", "wss")


class LeafUser(Section):
    """A login of the leaf listener and the account its links belong to."""

    user: Text = option("", "The leaf's name.", aliases=("username",), takes=Takes.LIVE)
    password: Secret = option(
        "", "The leaf's password, as it is or as a bcrypt hash ($2a$...).", aliases=("pass",), takes=Takes.LIVE
    )
    nkey: Text = option("", "A public nkey (U...) in place of name and password.", takes=Takes.LIVE)
    account: Text = option("$G", "The account here that the leaf is linked to.", takes=Takes.LIVE)
    proxy_required: Any = later("proxies that log in for leaves are not in this build", refuse=True)


class LeafAuthorization(Section):
    """Logins of the leaf listener alone; absent: the users of the accounts may link."""

    user: Text = option("", "The name of the only login.", aliases=("username",), takes=Takes.LIVE)
    password: Secret = option(
        "", "The only login's password, as it is or as a bcrypt hash ($2a$...).", aliases=("pass",), takes=Takes.LIVE
    )
    nkey: Text = option("", "A public nkey (U...) in place of name and password.", takes=Takes.LIVE)
    account: Text = option("$G", "The account here that it is linked to.", takes=Takes.LIVE)
    timeout: Duration = option(
        2 * SECOND,
        "How long may a leaf take to log in? With TLS a second more than the handshake, unless set.",
        takes=Takes.LIVE,
        gt=0,
    )
    users: tuple[LeafUser, ...] = option((), "Several logins, each a block.", takes=Takes.LIVE)
    proxy_required: Any = later("proxies that log in for leaves are not in this build", refuse=True)


def _version(value: object) -> object:
    found = version_of(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError(f'{shown(value)} is no version: write it like "2.12.0"')
    if found < (2, 8, 0):
        raise ValueError(f"the minimum version should be at least 2.8.0, not {value}")
    return value


class LeafProxy(Section):
    """An HTTP proxy on the way to a hub."""

    url: Text = option("", "Its address: http://host:port.")
    username: Text = option("", "The login there, with password. Empty: none.")
    password: Secret = option("", "The password of that login.")
    timeout: Duration = option(
        0, "How long may the connection to the proxy, and its answer, take? 0: as dial_timeout.", ge=0
    )

    def check(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme == "https":
            raise ValueError("TLS to the proxy itself is not in this build: http:// is")
        if parts.scheme != "http" or not parts.hostname or not parts.port:
            raise ValueError(f"{shown(self.url)} is no address of an HTTP proxy: write it like http://host:3128")
        if bool(self.username) != bool(self.password):
            raise ValueError("proxy username and password must both be specified or both be empty")
        if ":" in self.username:
            raise ValueError("a proxy's username cannot have a colon")


class LeafRemote(Section):
    """One hub that this server dials, for one account."""

    urls: Strings = option(
        (), "The hub's addresses, tried in turn: nats-leaf://user:password@host:7422.", aliases=("url",)
    )
    account: Text = option("$G", "The account here that is linked to the hub.", aliases=("local",))
    credentials: File = option("", "The file with the credentials for the hub (.creds).", aliases=("creds",))
    nkey: Annotated[Secret, Reader(credential_file)] = option(
        "", "The nkey seed (SU...) to log in with, or a file that holds it.", aliases=("seed",)
    )
    hub: Flag = option(False, "Is this side the hub of the link, although it dials?")
    deny_imports: Strings = option((), "The subjects that must not come in over the link.", aliases=("deny_import",))
    deny_exports: Strings = option((), "The subjects that must not go out over the link.", aliases=("deny_export",))
    no_randomize: Flag = option(
        False, "Try the addresses in the order in which they are written.", aliases=("dont_randomize",)
    )
    ignore_discovered_servers: Flag = option(
        False, "Dial only the addresses that are named here, and not those that the hub tells of its other servers."
    )
    first_info_timeout: Duration = option(
        0, "How long may the hub take to say its INFO? 0: 60 s, as the whole handshake; else that has 60 s more.", ge=0
    )
    dial_timeout: Duration = option(0, "How long may a connection take? 0: as leafnodes.dial_timeout.", ge=0)
    disabled: Flag = option(False, "Leave this hub alone for now.")
    isolate_leafnode_interest: Flag = option(
        False, "Do not tell this hub what other links of the account want.", aliases=("isolate",)
    )
    request_isolation: Flag = option(False, "Ask this hub not to tell what its other leaves want.")
    tls: Tls | None = option(
        None, "TLS with the hub, whatever its INFO says. Absent: as the hub's INFO or the address (tls://) says."
    )
    proxy: LeafProxy | None = option(None, "The HTTP proxy that the hub is dialled through, with CONNECT.")
    compression: Compression = option(
        DEFAULT_COMPRESSION, "Compression with this hub: as in leafnodes.", takes=Takes.LIVE, example="s2_auto"
    )
    priority: LeafPriority | None = option(
        None, "What goes first to this hub, where the link carries little. Absent: what is small.", takes=Takes.LIVE
    )
    limits: LeafLimits | None = option(
        None, "How much the link carries at most. Absent: as much as it can.", takes=Takes.LIVE
    )
    ws_compression: Flag = option(
        False,
        "Over ws:// and wss://: compress, if the hub does, too.",
        aliases=("ws_compress", "websocket_compress", "websocket_compression"),
    )
    ws_no_masking: Flag = option(
        False,
        "Over ws:// and wss://: send frames without masks, if the hub takes them.",
        aliases=("websocket_no_masking",),
    )
    jetstream_cluster_migrate: Any = later(
        "who leads a stream goes on when a link is lost", refuse=False, aliases=("js_cluster_migrate",)
    )

    def check(self) -> None:
        for url in self.urls:
            parts = urlsplit(url if "://" in url else f"nats-leaf://{url}")
            if parts.scheme not in SCHEMES or not parts.hostname:
                raise ValueError(
                    f"{shown(url)} is no address of a leaf listener: write it like nats://user:password@host:{DEFAULT_PORT}"
                )
            _check_dialable(url, parts)
        schemes = {urlsplit(url).scheme if "://" in url else "" for url in self.urls}
        if schemes & {"ws", "wss"} and schemes - {"ws", "wss"}:
            raise ValueError("urls has WebSocket and other addresses: a remote has either")
        if not self.urls and not self.disabled:
            raise ValueError("a remote needs url or urls")


def _check_dialable(url: str, parts: SplitResult) -> None:
    """Raises ValueError for what no resolver takes, which a dial would stumble over again and again."""
    try:
        fits = parts.port != 0 and resolvable(parts.hostname or "")
    except ValueError:  # the port is beyond 65535
        fits = False
    if not fits:
        raise ValueError(f"{shown(url)} has no host and port that can be dialled: check its spelling")


class LeafNodes(Section):
    """The leafnodes block."""

    listen: Listen | None = option(
        None, "Where leaves connect to. Absent, with host and port: no leaf can.", example='"0.0.0.0:7422"'
    )
    host: Text = option(
        "", "The address that leaves connect to. Empty: every address of the machine.", aliases=("net",)
    )
    port: Number | None = option(
        None, "The port that leaves connect to. Absent: no leaf can. -1: any free port.", ge=-1, le=65535
    )
    authorization: LeafAuthorization | None = option(
        None,
        "Who may log in as a leaf. With it, the users of accounts may not. Absent: the users of accounts may.",
        takes=Takes.LIVE,
    )
    advertise: Text = option(
        "",
        "The address that leaves are told to come back to, where they cannot reach the one that is "
        "listened on (behind a proxy).",
        aliases=("leafnode_advertise",),
    )
    no_advertise: Flag = option(False, "Do not tell leaves the address of this server.")
    min_version: Annotated[str, Reader(_version)] = option(
        "",
        "The lowest version of a server that may link to this one, 2.8.0 or above. Empty: any.",
        aliases=("minimum_version",),
        takes=Takes.LIVE,
        example='"2.12.0"',
    )
    reconnect: Duration = option(
        SECOND,
        "How long to wait before a hub is dialled again whose link was lost. A hub that refuses the login again and "
        "again is dialled less often, up to a minute apart.",
        aliases=("reconnect_delay", "reconnect_interval"),
        gt=0,
    )
    dial_timeout: Duration = option(
        0,
        "How long may the connection to a hub take? 0: 5, 10, 20 s, in turn; "
        "a lone hub with one address then has minutes, in which it is asked again and again.",
        ge=0,
    )
    write_deadline: Any = later("that of the server counts", refuse=False)
    isolate_leafnode_interest: Flag = option(
        False,
        "Do not tell leaves what other leaves want. Choose it for a fleet whose boxes talk to the hub and not to "
        "each other.",
        aliases=("isolate",),
    )
    remotes: tuple[LeafRemote, ...] = option((), "The hubs that this server links to, each a block.", takes=Takes.LIVE)
    tls: Tls | None = option(None, "TLS for leaves: with it, those without TLS are refused.", takes=Takes.LIVE)
    compression: Compression = option(
        DEFAULT_COMPRESSION,
        "What links with leaves do to compress what they send, where the leaf agrees: off, accept (as the leaf), "
        "s2_fast, s2_better, s2_best; s2_auto: as much as the round trip asks for, or { mode: s2_auto, "
        "rtt_thresholds: [10ms, 50ms, 100ms] }: up to these nothing, fast, better; above, best.",
        takes=Takes.LIVE,
        example="s2_auto",
    )
    priority: LeafPriority | None = option(
        None, "What goes first to each leaf that dials this server; as in a remote.", takes=Takes.LIVE
    )
    limits: LeafLimits | None = option(
        None, "How much the link of each leaf that dials this server carries at most; as in a remote.", takes=Takes.LIVE
    )
    write_timeout: Any = later(
        "a blocked link is closed, as by default, and not tried again", refuse=True, harmless=("default", "close")
    )

    def check(self) -> None:
        if self.tls is not None and not self.tls.material.pairs and (self.listen or self.port):
            raise ValueError("tls has no certificate, so no leaf could connect: add cert_file and key_file")
