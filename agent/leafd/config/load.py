"""Configuration file and command line as one: the flags override the file, and the result is checked as a whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from leafd.config.bind import Loaded, load_file
from leafd.config.exposure import open_listeners
from leafd.config.flags import Flags
from leafd.config.schema.cluster import Cluster, ClusterAuthorization
from leafd.config.schema.jetstream import JetStream
from leafd.config.schema.permissions import Authorization
from leafd.config.schema.section import Invalid
from leafd.config.schema.server import ServerConfig
from leafd.config.schema.tls import Tls
from leafd.errors import ConfigError


def load(flags: Flags) -> Loaded:
    """The configuration this process is to run with. Raises ConfigError."""
    loaded = _loaded(flags)
    return replace(loaded, warnings=(*loaded.warnings, *_unsafe(loaded)))


def _loaded(flags: Flags) -> Loaded:
    loaded = load_file(Path(flags.config)) if flags.config else Loaded(ServerConfig(), ())
    try:
        changes = _changes(loaded.server, flags)
        if not changes:
            return loaded
        server = loaded.server.overridden(**changes)
    except Invalid as error:
        raise ConfigError(f"command line: {error}") from error
    return replace(loaded, server=server)


def _unsafe(loaded: Loaded) -> list[str]:
    """Listeners that take anybody, and what is unsafe about TLS as it is configured, or keeps clients out."""
    server = loaded.server
    lines = [f"{loaded.place(*one.key)}: ANYBODY IS LET IN: {one.text}" for one in open_listeners(server)]
    if server.tls is not None and server.tls.handshake_first == (True, 0):
        place = loaded.place("tls", "handshake_first")
        lines.append(f"{place}: handshake_first: clients that wait for INFO before the TLS handshake cannot connect")
    for number, remote in enumerate(server.leafnodes.remotes if server.leafnodes else ()):
        if remote.tls is not None and remote.tls.insecure:
            place = loaded.place("leafnodes", "remotes", number, "tls", "insecure")
            lines.append(f"{place}: insecure: whoever answers is taken for the hub; use this for tests only")
    return lines


def _changes(server: ServerConfig, flags: Flags) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    same = (
        "server_name", "pid_file", "client_advertise", "ports_file_dir", "log_file", "logtime", "logtime_utc",
        "log_size_limit", "syslog", "remote_syslog", "debug", "trace", "trace_verbose", "max_traced_msg_len",
    )  # fmt: skip
    for name in same:
        value = getattr(flags, name)
        if value is not None:
            changes[name] = value
    if flags.host is not None or flags.port is not None:
        host, port = server.client_address()
        changes["listen"] = (host if flags.host is None else flags.host, port if flags.port is None else flags.port)
    if flags.http_port is not None:
        changes["http"] = (server.http[0] if server.http else "", flags.http_port)
    if flags.https_port is not None:
        changes["https"] = (server.https[0] if server.https else "", flags.https_port)
    if flags.tls is not False and any((flags.tls, flags.tls_cert, flags.tls_key, flags.tls_verify, flags.tls_ca)):
        changes["tls"] = _tls(flags)
    elif flags.tls is False:
        changes["tls"] = None
    cluster = _cluster(server.cluster or Cluster(), flags)
    if cluster is not None:
        changes["cluster"] = cluster
    if flags.jetstream is not None:
        changes["jetstream"] = (server.jetstream or JetStream()) if flags.jetstream else None
    if flags.store_dir is not None:
        changes["store_dir"] = flags.store_dir
        jetstream = changes.get("jetstream", server.jetstream)
        if jetstream is not None:
            changes["jetstream"] = jetstream.replaced(store_dir="")
    if flags.user is not None or flags.password is not None or flags.token is not None:
        changes["authorization"] = Authorization(
            user=flags.user or "", password=flags.password or "", token=flags.token or ""
        )
    return changes


def _cluster(block: Cluster, flags: Flags) -> Cluster | None:
    """The block as the flags have it; None: they say nothing of it."""
    named = {
        "name": flags.cluster_name, "advertise": flags.cluster_advertise, "no_advertise": flags.no_advertise,
        "connect_retries": flags.connect_retries,
    }  # fmt: skip
    changes: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
    if flags.cluster == "":
        changes |= {"listen": ("", 0), "routes": ()}
    elif flags.cluster is not None:
        changes |= _listener(flags.cluster)
    if flags.routes is not None:
        changes["routes"] = [one.strip() for one in flags.routes.split(",") if one.strip()]
        if changes["routes"] and block.address() is None and not flags.cluster:
            raise ConfigError("command line: solicited routes require cluster capabilities, e.g. --cluster")
    return block.overridden(**changes) if changes else None


def _listener(url: str) -> dict[str, Any]:
    """nats://user:password@host:port, also with port -1, which no reader of URLs takes."""
    login, at, place = url.partition("://")[2].rpartition("@")
    host, colon, port = place.rstrip("/").rpartition(":")
    user, has_password, password = login.partition(":")
    try:
        listen = host.strip("[]"), int(port)
    except ValueError:
        colon = ""
    if not colon:
        raise ConfigError("command line: --cluster: an address is expected: nats://host:6222")
    if at and not has_password:
        raise ConfigError("command line: --cluster: expected cluster password to be set")
    authorization = ClusterAuthorization(user=unquote(user), password=unquote(password)) if at else None
    return {"listen": listen, "authorization": authorization}


def _tls(flags: Flags) -> Tls:
    """In place of the file's block."""
    if not flags.tls_cert:
        raise ConfigError("command line: --tls needs a certificate: add --tlscert")
    if not flags.tls_key:
        raise ConfigError("command line: --tls needs a private key: add --tlskey")
    return Tls(
        cert_file=flags.tls_cert, key_file=flags.tls_key, ca_file=flags.tls_ca or "", verify=bool(flags.tls_verify)
    )
