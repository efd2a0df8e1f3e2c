"""The command line: nats-server's flags, with one dash or two, value behind `=` or as the next word. Parsing only;
__main__ acts.

Two facts of the reference that are easily mixed up: -V traces the protocol, -v prints the version. A flag overrides the
configuration file. Flags of what this build does not have are refused, with what to do instead.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from leafd.errors import UsageError
from leafd.records import dataclass

# Spelling -> field of Flags. A field of type bool takes no value.
_SPELLINGS: Final = {
    "a": "host", "addr": "host", "net": "host",
    "p": "port", "port": "port",
    "n": "server_name", "name": "server_name", "server_name": "server_name",
    "P": "pid_file", "pid": "pid_file",
    "m": "http_port", "http_port": "http_port",
    "c": "config", "config": "config",
    "t": "check",
    "sl": "signal", "signal": "signal",
    "client_advertise": "client_advertise",
    "ports_file_dir": "ports_file_dir",
    "l": "log_file", "log": "log_file",
    "log_size_limit": "log_size_limit",
    "s": "syslog", "syslog": "syslog", "r": "remote_syslog", "remote_syslog": "remote_syslog",
    "T": "logtime", "logtime": "logtime",
    "logtime_utc": "logtime_utc",
    "D": "debug", "debug": "debug",
    "V": "trace", "trace": "trace",
    "VV": "trace_verbose",
    "DV": "debug_trace",
    "DVV": "debug_trace_verbose",
    "max_traced_msg_len": "max_traced_msg_len",
    "ms": "https_port", "https_port": "https_port",
    "tls": "tls", "tlscert": "tls_cert", "tlskey": "tls_key", "tlsverify": "tls_verify", "tlscacert": "tls_ca",
    "cluster": "cluster", "cluster_listen": "cluster", "routes": "routes", "cluster_name": "cluster_name",
    "cluster_advertise": "cluster_advertise", "no_advertise": "no_advertise", "connect_retries": "connect_retries",
    "js": "jetstream", "jetstream": "jetstream",
    "sd": "store_dir", "store_dir": "store_dir",
    "user": "user", "pass": "password", "auth": "token",
    "h": "help", "help": "help",
    "v": "version", "version": "version",
}  # fmt: skip
_BOOLEANS: Final = frozenset(
    {
        "check",
        "logtime",
        "logtime_utc",
        "debug",
        "trace",
        "trace_verbose",
        "debug_trace",
        "debug_trace_verbose",
        "syslog",
        "no_advertise",
        "jetstream",
        "tls",
        "tls_verify",
        "help",
        "version",
    }
)
_NUMBERS: Final = frozenset(
    {"port", "http_port", "https_port", "log_size_limit", "max_traced_msg_len", "connect_retries"}
)
_TRUE: Final = frozenset({"1", "t", "true"})
_FALSE: Final = frozenset({"0", "f", "false"})

REFUSED: Final = {
    "help_tls": "`man leafd.conf` tells the keys of a tls block",
    "profile": "there is no profiling port in this build",
}  # fmt: skip

SIGNALS: Final = ("stop", "quit", "term", "reload", "reopen", "ldm")

HELP: Final = """
Usage: leafd [options]             serve
       leafd run [options]         the same, spelt out
       leafd <command> --help      what a command takes

At a box:
    init leaf                      Write the configuration of a box
    check                          Find mistakes in a configuration
    status                         What needs attention
    links, streams, consumers      One of these in more detail
    doctor                         Prove each flow between a box and its hub
    store                          Look after the streams on the disk

At a hub:
    init hub                       Write the configuration of a hub
    enrol                          Tokens, by which boxes enrol themselves
    hub                            Boxes by their keys, the hub's certificate
    boxes                          Enrolled boxes: link, last seen, backlog

Also:
    cluster                        Look after a group of servers
    completion                     Completion for a shell

Server options:
    -a, --addr, --net <host>       Address for clients (default: 0.0.0.0)
    -p, --port <port>              Port for clients (default: 4222; -1: any)
    -n, --name
        --server_name <name>       Name of this server (default: its id)
    -P, --pid <file>               File that gets the process id
    -m, --http_port <port>         Port for monitoring over HTTP
    -ms,--https_port <port>        Port for monitoring over HTTPS
    -c, --config <file>            Configuration file
    -t                             Check the configuration and exit
    -sl,--signal <signal>[=<pid>]  Send a signal to a running server: ldm, stop,
                                   quit, term, reopen, reload. <pid> is a
                                   process id or the name of a pid file
        --client_advertise <host:port>
                                   Address that is announced to clients
        --ports_file_dir <dir>     Directory of a file that tells the ports
                                   (nats-server_<pid>.ports)

Logging options:
    -l, --log <file>               File of the log (default: standard error)
        --log_size_limit <bytes>   Size at which that file is set aside
    -s, --syslog                   To this machine's syslog
    -r, --remote_syslog <url>      To another one: udp://host:port,
                                   tcp://host:port, unix:///path
    -T, --logtime                  Times in the log (default: true)
        --logtime_utc              These in UTC (default: false)
    -D, --debug                    Debug lines
    -V, --trace                    Protocol lines
    -VV                            Those of the system account too
    -DV                            Debug and protocol lines
    -DVV                           Debug and all protocol lines
        --max_traced_msg_len <bytes>
                                   How much of each message is logged with them

Cluster options:
        --cluster, --cluster_listen <url>
                                   Where other servers of the cluster connect
                                   to: nats://host:6222
        --cluster_name <name>      Name of the cluster
        --routes <url, url>        Servers of the cluster that are dialled
        --cluster_advertise <host:port>
                                   Address that other servers are told to dial
        --no_advertise             Clients are not told of other servers
        --connect_retries <number> Attempts to dial a server that others told of

JetStream options:
    -js, --jetstream               Serve JetStream
    -sd, --store_dir <dir>         Directory of the store

Authorization options:
        --user <user>              User that connections need
        --pass <password>          Its password
        --auth <token>             Token that connections need

TLS options:
        --tls                      TLS for clients, with --tlscert and --tlskey;
                                   --tls=false: without
        --tlscert <file>           Certificate
        --tlskey <file>            Its private key
        --tlsverify                Clients have to show a certificate
        --tlscacert <file>         Authorities to trust

Common options:
    -h, --help                     Show this text
    -v, --version                  Show the version
"""


@dataclass(frozen=True, slots=True)
class Flags:
    """The options of the command line; None for one that is not given."""

    config: str | None = None
    host: str | None = None
    port: int | None = None
    server_name: str | None = None
    pid_file: str | None = None
    http_port: int | None = None
    https_port: int | None = None
    tls: bool | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    tls_verify: bool | None = None
    tls_ca: str | None = None
    client_advertise: str | None = None
    ports_file_dir: str | None = None
    log_file: str | None = None
    log_size_limit: int | None = None
    syslog: bool | None = None
    remote_syslog: str | None = None
    logtime: bool | None = None
    logtime_utc: bool | None = None
    debug: bool | None = None
    trace: bool | None = None
    trace_verbose: bool | None = None
    debug_trace: bool | None = None
    debug_trace_verbose: bool | None = None
    max_traced_msg_len: int | None = None
    cluster: str | None = None
    routes: str | None = None
    cluster_name: str | None = None
    cluster_advertise: str | None = None
    no_advertise: bool | None = None
    connect_retries: int | None = None
    jetstream: bool | None = None
    store_dir: str | None = None
    user: str | None = None
    password: str | None = None
    token: str | None = None
    signal: str | None = None
    check: bool = False
    help: bool = False
    version: bool = False


def parse_flags(words: list[str]) -> Flags:
    """Reads the command line. Raises UsageError."""
    found: dict[str, Any] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            break
        if not word.startswith("-") or word == "-":
            # The reference takes a few bare words for flags; people type `help` and `version`.
            if word in ("help", "version"):
                found[word] = True
                continue
            raise UsageError(f"unknown word {word!r} on the command line: see --help")
        spelled, equals, value = word.lstrip("-").partition("=")
        name = _SPELLINGS.get(spelled)
        if name is None:
            raise UsageError(
                f"{word}: {REFUSED[spelled]}"
                if spelled in REFUSED
                else f"flag provided but not defined: {word}: see --help"
            )
        if name in _BOOLEANS:
            found[name] = _boolean(word, value) if equals else True
            continue
        if not equals:
            if not rest:
                raise UsageError(f"{word} needs a value behind it")
            value = rest.pop(0)
        if name == "signal" and rest and not equals and not rest[0].startswith("-"):
            value = f"{value}={rest.pop(0)}"
        found[name] = _number(word, value) if name in _NUMBERS else value
    return _expand(Flags(**found))


def _expand(flags: Flags) -> Flags:
    if flags.debug_trace or flags.debug_trace_verbose:
        flags = replace(flags, debug=True, trace=True)
    if flags.debug_trace_verbose or flags.trace_verbose:
        flags = replace(flags, trace=True, trace_verbose=True)
    return flags


def _boolean(word: str, value: str) -> bool:
    if value.lower() in _TRUE:
        return True
    if value.lower() in _FALSE:
        return False
    raise UsageError(f"{word}: true or false is expected behind the =")


def _number(word: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise UsageError(f"{word} {value}: a number is expected") from None
