"""The outermost block: listeners, limits, logging, and the other blocks. Every key of nats-server 2.15 stands here,
served or named."""

from __future__ import annotations

from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from leafd.config.schema.accounts import ConfiguredAccount
from leafd.config.schema.base import SECOND, Duration, Flag, Listen, Number, Strings, Tags, Text, zero_means_default
from leafd.config.schema.cluster import Cluster, check_cluster, group_size
from leafd.config.schema.declared import CONSUMERS, KINDS, KV, OBJECTS, STREAMS, AsWritten
from leafd.config.schema.enrol import Enrol
from leafd.config.schema.gateway import Gateway, check_gateway
from leafd.config.schema.jetstream import JetStream, check_together, switch
from leafd.config.schema.leafnodes import LeafNodes
from leafd.config.schema.mappings import Mappings
from leafd.config.schema.mqtt import Mqtt, check_mqtt
from leafd.config.schema.operator import Resolvers
from leafd.config.schema.permissions import Authorization
from leafd.config.schema.section import Reader, Section, Takes, later, option
from leafd.config.schema.sharing import Shared, share
from leafd.config.schema.tls import Tls
from leafd.config.schema.websocket import WebSocket, check_websocket

DEFAULT_PORT: Final = 4222
MEMORY_LIMIT_MIN: Final = 32 << 20
MEMORY_PAYLOADS: Final = 32
"""The limit holds so many messages of max_payload at least: its smallest share that one has to fit is so small."""
_INT32_MAX: Final = 2**31 - 1
_KEY_CHARACTERS: Final = 56
_PROFILE: Final = "there is no profiling port in this build, since profiles in its form are Go's"


class ServerConfig(Section):
    """The whole configuration."""

    port: Annotated[Number, zero_means_default(DEFAULT_PORT)] = option(
        DEFAULT_PORT, "The port that clients connect to. -1: any free port.", ge=-1, le=65535
    )
    host: Text = option(
        "",
        "The address that clients connect to. Empty: every address of the machine.",
        aliases=("net",),
        example='"127.0.0.1"',
    )
    listen: Listen | None = option(None, "The same as host and port, in one value.", example='"0.0.0.0:4222"')
    client_advertise: Text = option(
        "",
        "The address that clients are told to come back to, where they cannot reach the one that is"
        " listened on (behind a proxy).",
        takes=Takes.LIVE,
    )
    server_name: Text = option(
        "",
        "The name of this server in logs, reports and towards other servers. Leaves of one hub need"
        " different names. Empty: its id.",
        example='"box-17"',
    )
    server_tags: Tags = option((), "Tags that reports show, each as key:value.", takes=Takes.LIVE)
    server_metadata: dict[str, Text] = option({}, "Names and values that reports show.", takes=Takes.LIVE)

    http: Listen | None = option(
        None,
        "Where the status page, /metrics and nats-server's reports (/varz, /connz, /healthz ...) are served by HTTP."
        " Elsewhere than on loopback the page is for users of the system account; the reports are open.",
        example='"127.0.0.1:8222"',
    )
    http_port: Number | None = option(
        None,
        "The port of the monitoring pages, on the clients' address. Absent: there are none. -1: any free port.",
        aliases=("monitor_port",),
        ge=-1,
        le=65535,
    )
    https: Listen | None = option(
        None, "Where they are served by HTTPS, with the certificate of the tls block.", example='"127.0.0.1:8443"'
    )
    https_port: Number | None = option(
        None, "The port of HTTPS, on the clients' address. Absent: none. -1: any free port.", ge=-1, le=65535
    )
    http_base_path: Text = option(
        "", "A path in front of all monitoring pages, for a proxy that passes on a part of its paths."
    )

    http_hosts: Strings = option(
        (),
        "Names by which who comes over loopback may ask for the status page and the reports, e.g. through a proxy,"
        " beside addresses, localhost, this machine's name and the one in http: so no page of elsewhere that a browser"
        " here has open can read them under a name of its own.",
        example='["box-17.example.org"]',
        takes=Takes.LIVE,
    )

    debug: Flag = option(False, "Log what helps to find faults.", takes=Takes.LIVE)
    trace: Flag = option(
        False,
        "Log every line of the protocol that clients and leaves send, and the messages behind them.",
        takes=Takes.LIVE,
    )
    trace_verbose: Flag = option(
        False, "The same: lines of the system account's clients are logged with either.", takes=Takes.LIVE
    )
    max_traced_msg_len: Number = option(
        0, "Of each message, log so many bytes. 0: up to what a line of the log holds, 8 KB.", takes=Takes.LIVE
    )
    trace_headers: Flag = option(False, "Of each message, log the headers alone.", takes=Takes.LIVE)
    logtime: Flag = option(True, "Begin each line of the log with the time.", takes=Takes.LIVE)
    logtime_utc: Flag = option(False, "Write those times in UTC.", takes=Takes.LIVE)
    log_file: Text = option(
        "", "Write the log to this file. Empty: to standard error.", aliases=("logfile",), takes=Takes.LIVE
    )
    log_size_limit: Number = option(
        0,
        "Set the log's file aside when it is larger than so many bytes, under its name with the time. 0: never, and "
        "logrotate with --signal reopen can do it.",
        aliases=("logfile_size_limit",),
        takes=Takes.LIVE,
        ge=0,
    )
    log_max_num: Number = option(
        0,
        "How many files of the log are kept then, that in use included? 0: all.",
        aliases=("logfile_max_num",),
        takes=Takes.LIVE,
        ge=0,
    )
    syslog: Flag = option(
        False, "Write the log to this machine's syslog, unless there is a log_file.", takes=Takes.LIVE
    )
    remote_syslog: Text = option(
        "",
        "Write the log to the syslog at udp://host:port, tcp://host:port or unix:///path, unless there is a log_file. "
        "Lines that it does not take at once are left out, and counted.",
        takes=Takes.LIVE,
        example='"udp://127.0.0.1:514"',
    )
    pid_file: Text = option("", "Write the process id to this file.", aliases=("pidfile",), takes=Takes.LATER)
    ports_file_dir: Text = option(
        "", "Write a file into this directory that tells which ports are in use.", takes=Takes.LATER
    )

    no_header_support: Flag = option(
        False,
        "Tell clients that messages have no headers: those that they publish are refused, and what they receive comes "
        "without. Links of leaf nodes keep headers.",
    )
    max_payload: Annotated[Number, zero_means_default(1 << 20)] = option(
        1 << 20,
        "How large may a message be, in bytes, headers included? Clients learn it when they connect. "
        "After a reload that raises it above 5MB, streams take such messages from the next restart on.",
        takes=Takes.LIVE,
        gt=0,
        le=_INT32_MAX,
    )
    max_connections: Number = option(
        64 << 10,
        "How many clients may be connected at a time? 0 and -1: no limit but that of open files. Unless it is given, "
        "there is one for each 8 KB of memory_limit at most.",
        aliases=("max_conn",),
        takes=Takes.LIVE,
        ge=-1,
    )
    max_control_line: Annotated[Number, zero_means_default(4096)] = option(
        4096,
        "How long may a line of the protocol be, in bytes? Long subjects and CONNECTs with tokens need more.",
        takes=Takes.LIVE,
        ge=1,
        le=_INT32_MAX,
    )
    max_pending: Annotated[Number, zero_means_default(64 << 20)] = option(
        64 << 20,
        "How many bytes may wait for a client that reads slowly before it is closed as a slow consumer?",
        takes=Takes.LIVE,
        gt=0,
    )
    memory_limit: Number | None = option(
        None,
        "How many bytes of memory may clients and load make leafd take, beyond what it takes when "
        "idle and without memory streams? Default: a tenth of the machine's memory (or of the "
        "control group's limit, where that is lower), at least 32MB, and more where max_payload "
        "needs it.",
        ge=MEMORY_LIMIT_MIN,
        example="64MB",
    )
    max_subscriptions: Number = option(
        0,
        "How many subscriptions may one connection have? 0: no limit.",
        aliases=("max_subs",),
        takes=Takes.LIVE,
        ge=-1,
    )
    max_closed_clients: Number = option(
        1000,
        "How many connections that have ended does connz tell of (state=closed)? They take about 1 KB each.",
        ge=-1,
    )
    max_sub_tokens: Any = later(
        "the number of tokens of a subject is bounded by the line's length, not by this",
        refuse=True,
        aliases=("max_subscription_tokens",),
        harmless=(0,),
    )
    ping_interval: Annotated[Duration, zero_means_default(120 * SECOND)] = option(
        120 * SECOND,
        "How often is a client that sends nothing asked whether it is still there (PING)?",
        takes=Takes.LIVE,
        gt=0,
    )
    ping_max: Annotated[Number, zero_means_default(2)] = option(
        2, "After how many pings without an answer is a connection closed as stale?", takes=Takes.LIVE, ge=1
    )
    write_deadline: Annotated[Duration, zero_means_default(10 * SECOND)] = option(
        10 * SECOND, "How long may a write to a client be blocked before it is closed?", takes=Takes.LIVE, gt=0
    )
    lame_duck_duration: Duration = option(
        120 * SECOND,
        "When the server is shut down gently (SIGUSR2, lame duck): over what time are clients sent away? At least 30s.",
        takes=Takes.LIVE,
    )
    lame_duck_grace_period: Duration = option(
        10 * SECOND,
        "When the server is shut down gently: how long does it wait before the first client is sent away?",
        takes=Takes.LIVE,
        ge=0,
    )

    tls: Tls | None = option(None, "TLS for clients: with it, those without TLS are refused.", takes=Takes.LIVE)
    allow_non_tls: Flag = option(False, "Take clients without TLS, too, on the same port.", takes=Takes.LIVE)
    authorization: Authorization | None = option(None, "Who may log in, where there are no accounts.", takes=Takes.LIVE)
    no_auth_user: Text = option(
        "",
        "The user that clients are which send no credentials. Empty: such clients are refused where users are defined.",
        takes=Takes.LIVE,
    )
    accounts: dict[str, ConfiguredAccount] = option(
        {},
        "Accounts by name. Each has subjects, users and streams of its own, which other accounts do not see.",
        takes=Takes.LIVE,
    )
    system_account: Text = option(
        "",
        "The account whose users may ask the server for reports and hear its events ($SYS.>). "
        "Default: $SYS, which has no users.",
        aliases=("system",),
    )
    no_system_account: Flag = option(False, "Have no system account.", aliases=("no_system", "no_sys_acc"))

    operator: Strings = option(
        (),
        "The operator whose JWT vouches for accounts (a file, or the JWT itself; a list for several). With it, accounts"
        " and users come from JWTs, as nsc makes them, and none may be configured here.",
        aliases=("operators", "roots", "root", "root_operators", "root_operator"),
        example='"/etc/leafd/operator.jwt"',
    )
    trusted_keys: Strings = option(
        (), "Public nkeys (O...) that vouch for accounts, in place of operator.", aliases=("trusted",)
    )
    resolver: Resolvers = option(
        None,
        "With operator: where the JWTs of accounts are found. MEMORY (those of resolver_preload), URL(http://...), or a"
        " block.",
        aliases=("account_resolver", "accounts_resolver"),
        takes=Takes.LIVE,
        example="MEMORY",
    )
    resolver_tls: Tls | None = option(
        None,
        "How URL(https://...) is asked: ca_file (whom to trust), cert_file and key_file (what to show), min_version.",
        takes=Takes.LIVE,
    )
    resolver_preload: dict[str, Text] = option(
        {}, "JWTs of accounts by their keys: { A...: eyJ... }.", takes=Takes.LIVE
    )
    resolver_pinned_accounts: Strings = option(
        (), "With operator: the accounts whose users may log in, by their keys. Empty: all.", takes=Takes.LIVE
    )
    default_sentinel: Text = option("", "With operator: the bearer JWT of clients that bring none.", takes=Takes.LIVE)

    jetstream: Annotated[JetStream | None, Reader(switch)] = option(
        None, "Serve streams and consumers: enabled, disabled, or a block."
    )
    streams: AsWritten = STREAMS
    consumers: AsWritten = CONSUMERS
    kv: AsWritten = KV
    objects: AsWritten = OBJECTS
    store_dir: Text = option(
        "", "The directory of the streams, when the jetstream block names none.", aliases=("storedir",)
    )
    default_js_domain: Any = later(
        "clients of an account without JetStream are not led to another domain: they name it, by the API prefix"
        " $JS.<domain>.API",
        refuse=True,
    )
    leafnodes: LeafNodes | None = option(
        None, "Links to other servers: who may link to this one, and which hubs this one links to.", aliases=("leaf",)
    )
    websocket: WebSocket | None = option(None, "WebSocket: browsers, and leaf links over it.", aliases=("ws",))
    enrol: Enrol | None = option(
        None,
        "Boxes that enrol themselves over the leaf listener, with tokens of `leafd enrol token`. Absent: nobody does.",
    )
    feature_flags: dict[str, Flag] = option(
        {}, "Flags of nats-server for features in trial. They are read and do nothing here."
    )

    mappings: Mappings = option(
        {},
        "Other names for subjects that are published, in the account $G: { from: to }, with weights if wanted.",
        aliases=("maps",),
        takes=Takes.LIVE,
    )
    cluster: Cluster | None = option(
        None,
        "The cluster of servers that this one belongs to: their clients reach each other. With jetstream: see its "
        "meta_size.",
    )
    gateway: Gateway | None = option(
        None,
        "The other clusters that this one is joined with: their clients reach each other. With jetstream: see its "
        "meta_size.",
    )
    proxy_protocol: Flag = option(
        False,
        "May a proxy in front of the clients' port, or MQTT's, say whom it speaks for (PROXY protocol, versions 1 and "
        "2)? Only where nobody else reaches the port: with it a client may claim any address. A client without such a "
        "header is served, too.",
    )
    proxies: Any = later("proxies that log in for their clients are not in this build", refuse=True)
    mqtt: Mqtt | None = option(None, "MQTT: what devices speak.")
    ocsp: Any = later(
        "the certificate is not sent with a proof that it was not revoked",
        refuse=True,
        harmless=(True, "auto", "never"),
    )
    ocsp_cache: Any = later("revocation is not asked for", refuse=False)
    prof_port: Any = later(_PROFILE, refuse=True, harmless=(0,))
    prof_block_rate: Any = later(_PROFILE, refuse=False)
    disable_sublist_cache: Any = later("routing has no such cache", refuse=False, aliases=("no_sublist_cache",))
    write_timeout: Any = later(
        "a blocked client is closed, as by default, and not tried again", refuse=True, harmless=("default", "close")
    )
    connect_error_reports: Annotated[Number, zero_means_default(600)] = option(
        600,
        "Of the attempts to reach a hub that fail the first one is logged, and each one of this number: before the "
        "first link.",
        takes=Takes.LIVE,
        gt=0,
    )
    reconnect_error_reports: Annotated[Number, zero_means_default(600)] = option(
        600, "The same after a link was lost.", takes=Takes.LIVE, gt=0
    )
    no_fast_producer_stall: Any = later("fast producers are not stalled", refuse=False)

    def check(self) -> None:
        if " " in self.server_name:
            raise ValueError("server_name must not contain blanks: use - or _")
        if self.lame_duck_duration < 30 * SECOND:
            raise ValueError('lame_duck_duration is too short: at least "30s"')
        if self.max_pending < self.max_payload:
            raise ValueError("max_payload must not be larger than max_pending: raise max_pending")
        if self.memory_limit is not None and self.memory_limit < MEMORY_PAYLOADS * self.max_payload:
            raise ValueError(
                f"memory_limit has no room for messages of max_payload: at least {MEMORY_PAYLOADS} times as much"
            )
        for name in self.accounts:
            if not name or any(char in name for char in " \t*>"):
                raise ValueError(f"account name {name!r} has a blank or wildcard: rename it")
        if self.store_dir and self.jetstream is not None and self.jetstream.store_dir:
            raise ValueError("store_dir is set here and in the jetstream block: keep one")
        self._check_log()
        self._check_tls()
        known = self.known_users()
        check_websocket(self, known)
        check_mqtt(self, known)
        if self.no_auth_user and self.no_auth_user not in known:
            raise ValueError(
                f"no_auth_user {self.no_auth_user!r} is no user of the configuration: add it to an account or change it"
            )
        if (
            not self.operated
            and self.system_account
            and self.system_account not in self.accounts
            and self.system_account not in ("$SYS", "$G")
        ):
            raise ValueError(
                f"system_account {self.system_account!r} is not among the accounts: define it or change the name"
            )
        system = self.accounts.get(self.system_account or "$SYS")
        if system is not None and system.jetstream is not None and not self.no_system_account:
            raise ValueError("the system account cannot have JetStream: take it out there")
        if not group_size(self):  # else a limit is of what several servers have together
            check_together(self.jetstream, (account.jetstream for account in self.accounts.values()))
        self._check_remotes()
        self._check_callout()
        self._check_operator()
        self._check_enrol()
        check_cluster(self)
        check_gateway(self)
        self.shared()
        measured = (one for account in self.accounts.values() for one in account.exports if one.latency is not None)
        if self.no_system_account and any(measured):
            raise ValueError("accounts: latency of services needs a system account: take no_system_account out")

    def _check_log(self) -> None:
        if not self.remote_syslog:
            return
        url = urlsplit(self.remote_syslog)
        there = url.path if url.scheme == "unix" else url.hostname
        if url.scheme not in ("udp", "tcp", "unix") or not there or (url.scheme != "unix" and url.port is None):
            raise ValueError("remote_syslog is no udp://host:port, tcp://host:port or unix:///path")

    @property
    def traces(self) -> bool:
        """Whether lines of the protocol are logged."""
        return self.trace or self.trace_verbose

    def syslog_url(self) -> str:
        """The address of syslog as a URL; empty: no syslog."""
        return self.remote_syslog or ("unix:///dev/log" if self.syslog else "")

    def _check_tls(self) -> None:
        if self.tls is not None and not self.tls.material.pairs:
            raise ValueError("tls has no certificate, so no client could connect: add cert_file and key_file")
        if self.monitor_port(secure=True) and self.tls is None:
            raise ValueError("https needs the certificate of a tls block: add one, or use http")
        if self.monitor_port(secure=True) and self.monitor_port(secure=False):
            raise ValueError("https and http exclude each other: keep one")

    def _check_remotes(self) -> None:
        for remote in self.leafnodes.remotes if self.leafnodes else ():
            if self.operated and not remote.disabled and not _is_account_key(remote.account):
                raise ValueError(
                    f"leafnodes: a remote names the account {remote.account!r}, where operator needs the key of an"
                    " account (A...)"
                )
            if not self.operated and not remote.disabled and remote.account not in (*self.accounts, "$G", "$SYS"):
                raise ValueError(
                    f"a leafnodes remote names the account {remote.account!r}, which is not defined: define it"
                )

    @property
    def operated(self) -> bool:
        """Whether accounts and users come from JWTs."""
        return bool(self.operator or self.trusted_keys)

    def _check_operator(self) -> None:
        if not self.operated:
            for name in ("resolver", "resolver_preload", "resolver_pinned_accounts", "default_sentinel"):
                if getattr(self, name):
                    raise ValueError(f"{name} is of no use without operator: add it, or remove {name}")
            return
        if self.operator and self.trusted_keys:
            raise ValueError("trusted_keys and operator exclude each other: keep operator")
        if self.accounts:
            raise ValueError("accounts cannot be configured with an operator: they come from JWTs")
        if self.authorization is not None and (
            self.authorization.users or self.authorization.user or self.authorization.token
        ):
            raise ValueError("authorization cannot have users with an operator: they come from JWTs")
        links = self.leafnodes.authorization if self.leafnodes else None
        if links is not None and (links.users or links.user or links.nkey):
            raise ValueError("leafnodes: its authorization cannot have users with an operator: they come from JWTs")
        if self.no_auth_user:
            raise ValueError("no_auth_user is none of an operator's users: use default_sentinel")
        for name in (*self.resolver_pinned_accounts, *self.resolver_preload):
            if not _is_account_key(name):
                raise ValueError(f"resolver_preload and resolver_pinned_accounts name accounts by their keys: {name!r}")

    def _check_enrol(self) -> None:
        block = self.enrol
        if block is None:
            return
        if self.leaf_address() is None:
            raise ValueError("enrol: boxes come by the leaf listener: add leafnodes { listen: 0.0.0.0:7422 }")
        if not self.operated and block.account not in self.accounts:
            raise ValueError(f"enrol: account {block.account!r} is not among the accounts: name the boxes' account")
        if not self.operated and block.signing_key:
            raise ValueError("enrol: signing_key is of use with an operator only: remove it")
        if self.operated and not (_is_account_key(block.account) and block.signing_key):
            raise ValueError("enrol: with an operator it takes account, by its key (A...), and signing_key")
        if self.operated and block.permissions is not None:
            raise ValueError("enrol: permissions are those of the signing key's template: remove them")

    def shared(self) -> tuple[Shared, ...]:
        """The imports of all accounts. Raises ValueError where that does not fit what is exported."""
        if not any(account.imports or account.exports for account in self.accounts.values()):
            return ()
        return share(
            {name: account.exports for name, account in self.accounts.items()},
            {name: account.imports for name, account in self.accounts.items()},
        )

    @property
    def declares(self) -> bool:
        """Whether it has streams, consumers or buckets of some account."""
        return any(getattr(block, name) for block in (self, *self.accounts.values()) for name in KINDS)

    def _check_callout(self) -> None:
        callout = self.authorization.auth_callout if self.authorization else None
        if callout is not None and self.operated:
            raise ValueError("operators do not allow authorization callouts to be configured directly")
        for name in callout.allowed_accounts if callout else ():
            if name not in self.accounts:
                raise ValueError(f'auth_callout allowed account "{name}" not found in configured accounts')

    def known_users(self) -> dict[str, str]:
        """User names and nkeys with their accounts. Raises ValueError when one occurs twice."""
        found: dict[str, str] = {}
        entries = (
            [("$G", user) for user in (self.authorization.users or ()) if self.authorization]
            if self.authorization
            else []
        )
        entries += [(name, user) for name, account in self.accounts.items() for user in account.users]
        for account, user in entries:
            name = user.nkey or user.user
            if name in found:
                raise ValueError(
                    f"user {name!r} is defined twice, in {found[name]} and {account}: names are unique in a server"
                )
            found[name] = account
        if self.authorization and self.authorization.user:
            if found:
                raise ValueError("authorization has a single user while accounts have users: move it into an account")
            found[self.authorization.user] = "$G"
        return found

    def tls_blocks(self) -> tuple[Tls, ...]:
        """Every tls block there is."""
        leafnodes = self.leafnodes
        found = [self.tls, self.websocket.tls if self.websocket is not None else None, self.resolver_tls]
        found += [block.tls for block in (self.cluster, self.mqtt) if block is not None]
        found += self.gateway.tls_blocks() if self.gateway is not None else ()
        if leafnodes is not None:
            found += [leafnodes.tls, *(one.tls for one in leafnodes.remotes if not one.disabled)]
        return tuple(one for one in found if one is not None)

    def client_address(self) -> tuple[str, int]:
        """Host and port for clients."""
        return self.listen if self.listen is not None else (self.host, self.port)

    def monitor_address(self) -> tuple[str, int] | None:
        """Host and port of monitoring, None when there is none."""
        host = self.client_address()[0]
        secure = self.monitors_securely
        whole = self.https if secure else self.http
        port = self.monitor_port(secure=secure)
        return ((whole[0] if whole is not None else "") or host, port) if port else None

    @property
    def monitors_securely(self) -> bool:
        """Whether monitoring is served by HTTPS."""
        return self.monitor_port(secure=True) != 0

    def monitor_port(self, *, secure: bool) -> int:
        """The port of HTTP or HTTPS, 0 when there is none."""
        whole, port = (self.https, self.https_port) if secure else (self.http, self.http_port)
        return whole[1] if whole is not None else port or 0

    def web_address(self) -> tuple[str, int] | None:
        """Host and port of the WebSocket listener, None when there is none."""
        return self.websocket.address() if self.websocket is not None else None

    def leaf_address(self) -> tuple[str, int] | None:
        """Host and port of the leaf listener, None when there is none."""
        leaf = self.leafnodes
        if leaf is None:
            return None
        if leaf.listen is not None:
            return leaf.listen
        return (leaf.host, leaf.port) if leaf.port else None

    def cluster_address(self) -> tuple[str, int] | None:
        """Host and port of the routes' listener, None when there is no cluster."""
        return self.cluster.address() if self.cluster is not None else None

    def store_path(self) -> str:
        """The JetStream store's parent directory as configured, "" when it is not."""
        return (self.jetstream.store_dir if self.jetstream else "") or self.store_dir


def _is_account_key(name: str) -> bool:
    """Whether it has the form of an account's public nkey."""
    return len(name) == _KEY_CHARACTERS and name.startswith("A") and name.isalnum() and name.isupper()
