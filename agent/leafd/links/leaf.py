"""The leaf handshake, both ends, as pure machines: lines in, actions out.

    accepting (we listen)                              soliciting (we dial)
    OPENED  -> Send(INFO with nonce)                   WAIT_INFO    INFO -> Send(CONNECT), Resume
    CONNECT -> refuse | Send(INFO connect_info),       WAIT_CONFIRM INFO with connect_info -> Bind
               Bind                                                 (at once when the first INFO promised none)
                                                       any          -ERR -> Close with the delay its text asks for

After Bind the C plane exchanges interest and messages; later INFO and -ERR lines come as events of their own. Not here:
sockets, dialling (leafs.py), messages (native/plane), who may log in (auth/).
Reference: tests/wire/leaf.md.

Where both ends want compression (compression.py), an INFO of the end that dialled and another one of the end that
listens come before all that:

    accepting                                          soliciting
    INFO -> Compress, its own INFO behind it, Resume   INFO -> its own INFO before it, Compress, Resume

Between two leafd both INFOs are left out: CONNECT says what they would, and is the last line in plain, which spares a
round trip and a packet. Each tells the other by `leafd`, a field that others do not know. By `leafd_terse` it says that
nothing is compressed, and that lines of messages are terse all the same (native/text/terse.h).

A nats-server that dials gives the INFO behind its CONNECT two seconds. To a leaf that is far it is not promised:
a nats-server goes on without, and takes it when it comes. A leafd waits all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Final

from leafd import native_types as t
from leafd.auth.connect import leaf_connect
from leafd.gojson import JsonError, present
from leafd.links.addresses import UNREADABLE
from leafd.links.compression import NOT_SUPPORTED, TERSE_ALONE, UNCOMPRESSED, Compression, compresses
from leafd.links.leaf_info import (
    LEAF_PROTOCOL,
    LEAFD_PROTOCOL,
    ORDERLY,
    TERSE,
    TRACE_PROTOCOL,
    Advertised,
    HubInfo,
    busy_text,
    frame,
    permission,
    permission_fields,
    speaks_leafd,
    subjects,
)
from leafd.links.leaf_rights import jetstream_denies, mirrored, with_denies
from leafd.native_codes import COMPRESSION_LEVELS
from leafd.native_types import CloseReason, LineKind, Permissions
from leafd.records import dataclass
from leafd.versions import version_of

if TYPE_CHECKING:
    from leafd.auth.verdict import Proof
    from leafd.links.dialling import Proxy

FAR_NS: Final = 500_000_000  # of a round trip: two of them and a packet that is sent again take two seconds
DELAY_LOOP_S: Final = 30.0
DELAY_CLUSTER_S: Final = 30.0
DELAY_VERSION_S: Final = 5.0
DELAY_PERMISSION_S: Final = 30.0
AGAIN_MAX_S: Final = 300
"""So long a hub can keep a leaf away that it has no time for."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The names of this server on a leaf link."""

    server_id: str
    server_name: str
    version: str
    domain: str = ""
    jetstream: bool = False
    cluster: str = ""
    max_payload: int = 1 << 20
    program: str = ""
    """The version of this program; `version` is that of the protocol's features, which clients and servers compare."""


@dataclass(frozen=True, slots=True)
class Send:
    """A control frame for the peer."""

    frame: bytes


@dataclass(frozen=True, slots=True)
class Handshake:
    """TLS begins, as the one who dialled; what is sent from here on waits for its end."""


@dataclass(frozen=True, slots=True)
class Compress:
    """The link is an S2 stream from here on. before: said in plain; behind: compressed."""

    how: t.Compress
    before: bytes = b""
    behind: bytes = b""


@dataclass(frozen=True, slots=True)
class Resume:
    """Read the next handshake line."""


@dataclass(frozen=True, slots=True)
class Bind:
    """The link is up: bind it to an account and start the exchange."""

    account: int
    account_name: str
    spoke: bool
    permissions: Permissions
    cluster: str
    remote_domain: str
    remote_name: str
    remote_id: str
    remote_account: str
    headers: bool
    max_payload: int
    system: bool
    max_subscriptions: int = 0
    expires_wall_ns: int = 0
    traces: bool = False
    """The peer knows traces of messages."""
    isolated: bool = False
    """The peer is not told what other links want."""
    orderly: bool = False
    """The peer has JetStream, and answers about a consumer before it delivers: a leafd."""


@dataclass(frozen=True, slots=True)
class Close:
    """The link ends with -ERR text (may be empty); redial not before delay_s."""

    text: str
    reason: int = CloseReason.PROTOCOL
    delay_s: float = 0.0
    why: str = ""
    """For the log, where nothing is said to the other end."""


Action = Send | Handshake | Compress | Resume | Bind | Close


@dataclass(frozen=True, slots=True)
class Login:
    """Whom a leaf's CONNECT was accepted as. permissions: of the user, as seen from the peer (publish = it may
    send)."""

    account: int
    account_name: str
    permissions: Permissions = field(default_factory=Permissions)
    system: bool = False
    max_payload: int = 0
    max_subscriptions: int = 0
    expires_wall_ns: int = 0
    """0: no limit but that of the server, and never."""
    proof: Proof | None = None
    """In operator mode: its JWT."""
    user: str = ""
    """The name or key of a proven login; "": nobody is asked."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A login that is refused, or over, in other words than that it is wrong."""

    text: str


class Later:
    """The check takes its time: Acceptor.judged() hears of it."""


Authenticate = Callable[[dict[str, Any], str], Login | Refused | Later | None]
"""(CONNECT, nonce) -> Login, or None when the credentials are wrong."""


class Acceptor:
    """Our end of a link that a leaf dialled."""

    def __init__(
        self,
        identity: Identity,
        connection: int,
        nonce: str,
        advertised: Advertised,
        compression: Compression = UNCOMPRESSED,
        age_ns: Callable[[], int] = lambda: 0,
    ) -> None:
        self._identity = identity
        self._compression = compression
        self._negotiable = compression.negotiable
        self._age_ns = age_ns
        self.compression = ""
        """The compression that the two ends have agreed upon."""
        self._nonce = nonce
        self._connect: dict[str, Any] = {}
        self._connection = connection
        self.accepted: tuple[dict[str, Any], Login] | None = None
        """The CONNECT and whom it was accepted as, once it was."""
        self._advertised = advertised
        self.tls_info: dict[str, Any] = {}
        """The members of INFO about TLS."""
        self.min_version = ""
        """The lowest that the peer may have; "": any."""
        self.isolates = False
        """Whether the peer is not told what other links want, although it does not ask for that."""
        self.far = False  # an answer takes long

    def opened(self) -> list[Action]:
        """The first INFO."""
        return [Send(self._first_info(self._compression.offered))]

    def busy(self, again_s: int, tls_info: dict[str, Any], *, hidden: bool) -> list[Action]:
        """Refuses a leaf for the moment: a leafd reads in INFO when to come again; another server logs the line behind
        that, and comes when it likes. hidden: nothing may be said in plain."""
        info = self._info() | tls_info | {"nonce": self._nonce, "try_again_s": again_s}
        closing = Close("" if hidden else busy_text(again_s), CloseReason.LIMIT)
        return [closing] if hidden else [Send(frame("INFO", info)), closing]

    def _first_info(self, compression: dict[str, str]) -> bytes:
        return frame("INFO", self._info(promised=not self.far) | {"nonce": self._nonce} | compression)

    def _info(self, *, promised: bool = True) -> dict[str, Any]:
        identity = self._identity
        info: dict[str, Any] = {
            "server_id": identity.server_id,
            "server_name": identity.server_name,
            "version": identity.version,
            "proto": LEAF_PROTOCOL,
            "headers": True,
            "auth_required": True,
            "max_payload": identity.max_payload,
            "jetstream": identity.jetstream,
            "client_id": self._connection,
            "api_lvl": 5,
            **({"info_on_connect": True} if promised else {}),
            "leafd": LEAFD_PROTOCOL,
            **self._advertised.info(),
        }
        if identity.domain:
            info["domain"] = identity.domain
        if identity.cluster:
            info["cluster"] = identity.cluster
        return info | self.tls_info

    def again(self) -> bytes:
        """An INFO for a leaf that is linked: where it can reach this server, and others of its cluster."""
        return frame("INFO", self._info())

    def line(self, kind: int, payload: bytes, authenticate: Authenticate) -> list[Action]:
        """One handshake line of the peer."""
        if kind == LineKind.INFO and self._negotiable:
            return self._negotiate(payload)
        if kind != LineKind.CONNECT:
            return [Close("Authorization Violation", CloseReason.AUTHENTICATION)]
        try:
            connect = leaf_connect(payload)
        except JsonError as error:
            return [Close("", why=f"CONNECT cannot be read: {error}")]
        refused = self._refusal(connect)
        if refused is not None:
            return [refused]
        self._connect = connect
        begin: list[Action] = []
        if self._negotiable and speaks_leafd(connect) and connect.get("compression"):
            try:
                begin += self._compress_behind(str(connect["compression"]), terse=speaks_leafd(connect, TERSE))
            except ValueError as error:
                return [Close(str(error), CloseReason.PROTOCOL)]
        elif speaks_leafd(connect, TERSE) and connect.get("leafd_terse"):
            begin.append(Compress(TERSE_ALONE))
        self.compression = self.compression or str(connect.get("compress_mode") or NOT_SUPPORTED)
        login = authenticate(connect, self._nonce)
        return begin if isinstance(login, Later) else [*begin, *self.judged(login)]

    def _compress_behind(self, theirs: str, *, terse: bool) -> list[Action]:
        """The peer compresses from behind its CONNECT on."""
        self.compression = self._compression.agreed(theirs)
        if not compresses(self.compression):
            raise ValueError("compression was not agreed upon")
        return [Compress(self._compression.at(self.compression, self._age_ns(), terse=terse))]

    def _negotiate(self, payload: bytes) -> list[Action]:
        """The peer would compress. The nonce stays the same."""
        self._negotiable = False
        try:
            self.compression = self._compression.agreed(str(present(HubInfo, payload).get("compression") or ""))
        except JsonError as error:
            return [Close("", why=f"INFO cannot be read: {error}")]
        except ValueError as error:
            return [Close(str(error), CloseReason.PROTOCOL)]
        if not compresses(self.compression):
            return [Resume()]
        said = self._first_info(self._compression.told(self.compression))
        return [Compress(self._compression.at(self.compression, self._age_ns()), behind=said), Resume()]

    def judged(self, login: Login | Refused | None) -> list[Action]:
        """The verdict on the CONNECT, at once or later."""
        if login is None:
            return [Close("Authorization Violation", CloseReason.AUTHENTICATION)]
        if isinstance(login, Refused):
            return [Close(login.text, CloseReason.LIMIT)]
        return self._bind(self._connect, login)

    def _refusal(self, connect: dict[str, Any]) -> Close | None:
        cluster = str(connect.get("cluster") or "")
        if connect.get("lang"):
            return Close("attempted to connect to leaf node port")
        if connect.get("gateway"):
            return Close("attempted to connect to wrong port")
        if " " in cluster:
            return Close("cluster name cannot contain spaces")
        if cluster == "_":
            return Close("cluster name is reserved")
        if cluster and cluster == self._identity.cluster:
            return Close("remote leafnode has same cluster name")
        lowest = version_of(self.min_version)
        if lowest is not None and (version_of(str(connect.get("version") or "")) or (0, 0, 0)) < lowest:
            return Close(f'connection rejected since minimum version required is "{self.min_version}"')
        return None

    def _bind(self, connect: dict[str, Any], login: Login) -> list[Action]:
        identity = self._identity
        self.accepted = (connect, login)
        remote_domain = str(connect.get("domain") or "")
        granted = mirrored(login.permissions)
        granted = replace(granted, publish_deny=(*granted.publish_deny, *subjects(connect.get("deny_pub", ()))))
        out, incoming = jetstream_denies(
            identity.domain, remote_domain, system=login.system, jetstream=identity.jetstream
        )
        confirm = self._info() | {"connect_info": True, "remote_account": login.account_name}
        if login.system:
            confirm["acc_is_sys"] = True
        confirm |= permission_fields(login.permissions)
        bind = Bind(
            account=login.account,
            account_name=login.account_name,
            spoke=bool(connect.get("is_hub")),
            permissions=with_denies(granted, out, incoming),
            cluster=str(connect.get("cluster") or ""),
            remote_domain=remote_domain,
            remote_name=str(connect.get("name") or ""),
            remote_id=str(connect.get("server_id") or ""),
            remote_account=str(connect.get("remote_account") or ""),
            headers=bool(connect.get("headers")),
            max_payload=min(login.max_payload or identity.max_payload, identity.max_payload),
            system=login.system,
            max_subscriptions=login.max_subscriptions,
            expires_wall_ns=login.expires_wall_ns,
            traces=connect.get("protocol", 0) >= TRACE_PROTOCOL,
            isolated=self.isolates or bool(connect.get("isolate")),
            orderly=bool(connect.get("jetstream")) and speaks_leafd(connect, ORDERLY),
        )
        return [Send(frame("INFO", confirm)), bind]


@dataclass(frozen=True, slots=True)
class Remote:
    """A hub to dial for one local account: how to log in there and what to keep back."""

    urls: tuple[str, ...]
    account: int
    account_name: str
    in_order: bool = False
    """Whether the addresses are tried in their order."""
    discovers: bool = True
    """Whether other servers that the hub tells of are dialled, too."""
    system: bool = False
    hub: bool = False
    isolates: bool = False
    """Whether the hub is not told what other links want, .."""
    asks_to_isolate: bool = False
    """.. and whether it is asked to do likewise."""
    deny_imports: tuple[str, ...] = ()
    deny_exports: tuple[str, ...] = ()
    author: str = ""
    """The author in schedules that the hub stores here."""
    sign: Callable[[str], dict[str, str]] | None = None
    """Nonce -> the CONNECT fields of an nkey or a credentials file (nkey | jwt, sig)."""
    tls: bool = False
    """Whether TLS is spoken, whatever the hub's INFO says ..."""
    tls_first: bool = False
    """... and before it says anything."""
    ws_compression: bool = False
    ws_no_masking: bool = False
    compression: Compression = UNCOMPRESSED
    context: int = 0
    """The plane's number for how, 0: as without a tls block."""
    dial_s: float = 0.0
    """How long the TCP connection may take ..."""
    info_s: float = 0.0
    """... and then the hub's INFO; 0: as long as the whole handshake."""
    proxy: Proxy | None = None


class Solicitor:
    """Our end of a link that we dialled."""

    def __init__(
        self, identity: Identity, remote: Remote, user: str, password: str, age_ns: Callable[[], int] = lambda: 0
    ) -> None:
        self._identity = identity
        self._age_ns = age_ns
        self.compression = ""
        """The compression that the two ends have agreed upon."""
        self._remote = remote
        self._user = user
        self._password = password
        self._compressed = False
        self._first_info: dict[str, Any] | None = None
        self.learned = False  # the address is one that a hub told, which may be anybody's
        self.hub_info: dict[str, Any] = {}
        """The hub's INFO when it let us in: of all its INFOs, this one has come through TLS, if there is any."""

    @property
    def met(self) -> bool:
        """Whether a hub has said INFO."""
        return self._first_info is not None

    def line(self, kind: int, payload: bytes) -> list[Action]:
        """One handshake line of the hub."""
        if kind == LineKind.ERR:
            return [error_close(payload.decode("utf-8", "replace"))]
        if kind != LineKind.INFO:
            return [Close("", CloseReason.PROTOCOL)]
        try:
            info = present(HubInfo, payload)
        except JsonError as error:
            return [Close("", why=f"{UNREADABLE}: {error}")]
        if self._first_info is None:
            return self._first(info)
        if info.get("connect_info"):
            self.hub_info = info
            return [self._bind(self._first_info | info)]
        return [Resume()]

    def _first(self, info: dict[str, Any]) -> list[Action]:
        if self.learned and info.get("server_id") == self._identity.server_id:
            return [Close("it is this server itself")]
        if not info.get("client_id") or not (info.get("leafnode_urls") or info.get("info_on_connect")):
            return [Close("attempted to connect to wrong port", delay_s=DELAY_VERSION_S)]
        if (again_s := min(info.get("try_again_s", 0), AGAIN_MAX_S)) > 0:
            return [Close(busy_text(again_s), CloseReason.LIMIT, again_s)]
        wanted = self._remote.tls or bool(info.get("tls_required"))
        begin: list[Action] = []
        if not self.compression:
            if wanted and not self._remote.tls_first:
                begin.append(Handshake())
            try:
                self.compression = self._remote.compression.agreed(str(info.get("compression") or ""))
            except ValueError as error:
                return [Close(str(error), CloseReason.PROTOCOL)]
            if compresses(self.compression) and not speaks_leafd(info):
                return [*begin, self._compress(info), Resume()]
        self._first_info = info
        connect = self._connect(str(info.get("nonce") or "")) | ({"tls_required": True} if wanted else {})
        begin.append(self._log_in(connect, terse=speaks_leafd(info, TERSE)))
        if info.get("info_on_connect") or speaks_leafd(info):
            return [*begin, Resume()]
        self.hub_info = info
        return [*begin, self._bind(info)]

    def _log_in(self, connect: dict[str, Any], *, terse: bool) -> Action:
        """With the last line in plain, where the two ends have agreed that way. terse: both know terse lines."""
        if terse and self._remote.compression.only_terse(self.compression, self._age_ns()):
            return Compress(TERSE_ALONE, before=frame("CONNECT", connect | {"leafd_terse": True}))
        if not compresses(self.compression) or self._compressed:
            return Send(frame("CONNECT", connect))
        how = self._how(terse=terse)
        said = connect | self._remote.compression.told(how[0]) | {"compress_mode": self.compression}
        return Compress(how[1], before=frame("CONNECT", said))

    def _how(self, *, terse: bool = False) -> tuple[str, t.Compress]:
        """The mode that was agreed upon, and what it means now, which is the level that is shown."""
        how = self._remote.compression.at(self.compression, self._age_ns(), terse=terse)
        mode, self.compression, self._compressed = self.compression, COMPRESSION_LEVELS[how.level], True
        return mode, how

    def _compress(self, info: dict[str, Any]) -> Compress:
        """Our INFO goes out in plain; the hub answers it with its first one again, compressed."""
        identity = self._identity
        said = {
            "server_id": identity.server_id,
            "server_name": identity.server_name,
            "version": identity.version,
            "proto": LEAF_PROTOCOL,
            "headers": True,
            "max_payload": identity.max_payload,
            "client_id": info["client_id"],
        }
        mode, how = self._how()
        return Compress(how, before=frame("INFO", said | self._remote.compression.told(mode)))

    def _connect(self, nonce: str) -> dict[str, Any]:
        identity, remote = self._identity, self._remote
        connect: dict[str, Any] = {
            "version": identity.version,
            "server_id": identity.server_id,
            "name": identity.server_name,
            # Without a cluster the server's name stands in: it is the origin that echoes are suppressed by.
            "cluster": identity.cluster or identity.server_name,
            "headers": True,
            "jetstream": identity.jetstream,
            "remote_account": remote.account_name,
            "protocol": LEAF_PROTOCOL,
            "leafd": LEAFD_PROTOCOL,
            "leafd_version": identity.program,
            "compress_mode": self.compression,
        }
        if identity.domain:
            connect["domain"] = identity.domain
        if remote.sign is not None:
            connect |= remote.sign(nonce)
        # Beside a key, too, as the reference sends it: what a service judges by, or the token of a box (enrol/).
        if self._user and not self._password:
            connect |= {"user": self._user, "auth_token": self._user}
        elif self._user:
            connect |= {"user": self._user, "pass": self._password}
        if remote.hub:
            connect["is_hub"] = True
        if remote.asks_to_isolate:
            connect["isolate"] = True
        if remote.deny_imports:
            connect["deny_pub"] = list(remote.deny_imports)
        return connect

    def _bind(self, info: dict[str, Any]) -> Bind:
        identity, remote = self._identity, self._remote
        remote_domain = str(info.get("domain") or "")
        export_allow, export_deny = permission(info, "export")
        import_allow, import_deny = permission(info, "import")
        granted = Permissions(
            publish_allow=export_allow,
            publish_deny=(*export_deny, *remote.deny_exports),
            subscribe_allow=import_allow,
            subscribe_deny=(*import_deny, *remote.deny_imports),
            mapped_deny=remote.deny_imports,
            author=remote.author,
        )
        out, incoming = jetstream_denies(
            identity.domain, remote_domain, system=remote.system, jetstream=identity.jetstream
        )
        return Bind(
            account=remote.account,
            account_name=remote.account_name,
            # The peer is our hub unless this remote says that we are its.
            spoke=not remote.hub,
            permissions=with_denies(granted, out, incoming),
            cluster=str(info.get("cluster") or ""),
            remote_domain=remote_domain,
            remote_name=str(info.get("server_name") or ""),
            remote_id=str(info.get("server_id") or ""),
            remote_account=str(info.get("remote_account") or ""),
            headers=bool(info.get("headers")),
            max_payload=max(info.get("max_payload", 0), 0) or identity.max_payload,
            system=remote.system,
            traces=info.get("proto", 0) >= TRACE_PROTOCOL,
            isolated=remote.isolates,
            orderly=bool(info.get("jetstream")) and speaks_leafd(info, ORDERLY),
        )


def error_close(text: str) -> Close:
    """The wait that a peer's -ERR asks for: how long to stay away. Reference: tests/wire/leaf.md."""
    if "Loop detected" in text:
        return Close("", CloseReason.LOOP, DELAY_LOOP_S)
    if "same cluster name" in text:
        return Close("", CloseReason.DUPLICATE, DELAY_CLUSTER_S)
    if "minimum version" in text:
        return Close("", CloseReason.PROTOCOL, DELAY_VERSION_S)
    if "Permissions Violation" in text:
        return Close("", CloseReason.PERMISSION, DELAY_PERMISSION_S)
    if "Authorization Violation" in text or "Authentication" in text:
        return Close("", CloseReason.AUTHENTICATION)
    return Close("", CloseReason.PROTOCOL)
