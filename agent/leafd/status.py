"""The content of a daemon's pages, as rows for people and programs: the server, its links, its streams, their
consumers, and what needs attention.

Pure functions of the JSON of /varz, /leafz and /jsz.
Not here: fetching (cli/pages.py), tables (cli/tables.py), rows of copies (copies.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from leafd import group_status
from leafd.copies import HELD, Copier, Copy, Page, copiers, copies, each_stream, seconds
from leafd.group_status import Group, Shared
from leafd.records import dataclass

STREAMS_PAGE: Final = "/jsz?accounts=1&streams=1&consumers=1&config=1"
TOLD_FROM: Final = 0.8
"""An account that has stored so much of what it may needs attention: as the daemon's log."""


@dataclass(frozen=True, slots=True)
class Link:
    """A leaf link, or a hub that is dialled and does not answer."""

    peer: str
    role: str
    """The other side's role: "hub" or "leaf"."""
    account: str
    address: str
    up: bool
    rtt: str = ""
    messages_in: int = 0
    messages_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    error: str = ""
    rate: int | None = None
    """Bytes a second that it has carried while more waited; None: not known, as all that follows may be."""
    round_trip_s: float | None = None
    """As the kernel sees it now."""
    loss: float | None = None
    """The part of the sent bytes that was sent again."""
    heard_s: float | None = None
    """Since anything came."""
    waiting: int | None = None
    """Bytes that were not sent yet, or not acknowledged."""
    others: tuple[str, ...] = ()
    """Further servers of a hub, which are dialled when that one goes."""
    budgets: tuple[Budget, ...] = ()
    """Empty: it has none."""
    goes: str = "all"
    """The messages that its budget or the time of day lets go: all; normal: no bulk; high: urgent ones and those with
    priority; none."""
    budgeted: int | None = None
    """Bytes here that wait for that; what waits in streams is what their copiers have not stored."""

    @property
    def held(self) -> str:
        """The messages that wait for the link's budget, and until when: earlier, when less has to be kept for a quiet
        link. Empty: nothing does."""
        what = HELD.get(self.goes, "")
        spent = max(self.budgets, key=lambda one: one.share, default=None)
        if not what or spent is None:
            return what
        used = f"{100 * spent.share:.0f} % of the {spent.period}'s budget are used"
        return f"{used}: {what}, until {spent.anew} at the latest"


@dataclass(frozen=True, slots=True)
class Budget:
    """The budget of a link for a day or a month, and what is left of it."""

    period: str
    """"day" or "month"."""
    limit: int
    used: int
    left: int
    anew: str
    """When it begins anew, as RFC 3339 has it."""
    anew_s: float

    @property
    def share(self) -> float:
        """The part that is used."""
        return self.used / self.limit


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream and what it holds."""

    name: str
    account: str
    subjects: tuple[str, ...]
    storage: str
    messages: int
    bytes: int
    first: int
    last: int
    last_time: str
    consumers: int
    deleted: int


@dataclass(frozen=True, slots=True)
class Consumer:
    """A consumer and what it has still to do."""

    stream: str
    name: str
    account: str
    pending: int
    unacknowledged: int
    redelivered: int
    waiting: int
    delivered: int
    acknowledged: int
    paused: bool


@dataclass(frozen=True, slots=True)
class Server:
    """Another server of this one's cluster, or another cluster, which has no server's name."""

    cluster: str
    name: str
    up: bool
    connections: int
    """In both directions."""


@dataclass(frozen=True, slots=True)
class Devices:
    """Clients of one version of MQTT."""

    version: str
    clients: int


@dataclass(frozen=True, slots=True)
class Sessions:
    """MQTT sessions that outlive their connection, and what is kept for devices."""

    kept: int
    away: int
    """Sessions whose client is not here."""
    waiting: int
    """Messages that some of them have still to acknowledge."""
    waiting_bytes: int
    oldest_s: float | None
    """The age of the oldest of these; None: there is none."""
    retained: int
    retained_bytes: int
    refused: int
    """Clients that were told that there are too many sessions, since the start ..."""
    not_stored: int
    """... and messages that no stream took."""


@dataclass(frozen=True, slots=True)
class Status:
    """The whole of a daemon at a glance."""

    name: str
    program: str
    """The version of leafd; empty: it is no leafd."""
    version: str
    """The version of the nats-server that it behaves like."""
    domain: str
    uptime: str
    memory_bytes: int
    memory_limit: int
    cpu_percent: float
    clients: int
    devices: tuple[Devices, ...]
    """The clients that speak MQTT; empty where there is no listener for them."""
    devices_refused: int
    """Logins of MQTT, since the start."""
    sessions: Sessions | None
    """Sessions of MQTT; None where there is no listener for it."""
    streams: int
    consumers: int
    messages: int
    stored_bytes: int
    stored_max: int
    disk_bytes: int
    disk_free: int
    links: tuple[Link, ...]
    copies: tuple[Copy, ...]
    copiers: tuple[Copier, ...]
    servers: tuple[Server, ...]
    group: Group | None
    """The group of all servers; None: this one is in none."""
    shared: tuple[Shared, ...]
    problems: tuple[str, ...]


def status(varz: Page, leafz: Page, jsz: Page) -> Status:
    """The status of a daemon. jsz is that of STREAMS_PAGE."""
    own, store = varz.get("leafd", {}), varz.get("store", {})
    jetstream = varz.get("jetstream", {})
    found_links, found_copies = tuple(links(varz, leafz)), tuple(copies(jsz))
    group, shared = group_status.group(varz), tuple(group_status.shared(varz, jsz))
    return Status(
        name=varz.get("server_name", ""),
        program=own.get("version", ""),
        version=varz.get("version", ""),
        domain=jetstream.get("config", {}).get("domain", ""),
        uptime=varz.get("uptime", ""),
        memory_bytes=varz.get("mem", 0),
        memory_limit=own.get("memory", {}).get("limit", 0),
        cpu_percent=varz.get("cpu", 0.0),
        clients=varz.get("connections", 0),
        devices=tuple(devices(varz)),
        devices_refused=own.get("mqtt", {}).get("refused_logins", 0),
        sessions=sessions(varz),
        streams=jsz.get("streams", 0),
        consumers=jsz.get("consumers", 0),
        messages=jsz.get("messages", 0),
        stored_bytes=jsz.get("storage", 0),
        stored_max=max(jsz.get("config", {}).get("max_storage", 0), 0),
        disk_bytes=store.get("disk_bytes", 0),
        disk_free=store.get("disk_free", 0),
        links=found_links,
        copies=found_copies,
        copiers=tuple(copiers(jsz)),
        servers=tuple(servers(varz)),
        group=group,
        shared=shared,
        problems=(
            *_problems(varz, found_links, found_copies),
            *map(str, group_status.problems(group, shared)),
            *tight_accounts(jsz),
        ),
    )


def devices(varz: Page) -> Iterator[Devices]:
    """The counts of devices by their versions."""
    for version, clients in varz.get("leafd", {}).get("mqtt", {}).get("clients", {}).items():
        yield Devices(version, clients)


def sessions(varz: Page) -> Sessions | None:
    """The sessions of devices."""
    own = varz.get("leafd", {}).get("mqtt", {})
    if "sessions" not in own:
        return None
    waiting, retained = own["waiting"], own["retained"]
    return Sessions(
        kept=own["sessions"],
        away=own["sessions_away"],
        waiting=waiting["messages"],
        waiting_bytes=waiting["bytes"],
        oldest_s=waiting["oldest_seconds"],
        retained=retained["messages"],
        retained_bytes=retained["bytes"],
        refused=own["refused_sessions"],
        not_stored=own["refused_messages"],
    )


def servers(varz: Page) -> Iterator[Server]:
    """In the order of their clusters and names; none, where the server is in no cluster."""
    for one in varz.get("leafd", {}).get("servers", ()):
        yield Server(one["cluster"], one["name"], one["up"], one["connections"])


def tight_accounts(jsz: Page) -> Iterator[str]:
    """Accounts that have stored nearly all that they may, or all of it. The page has a limit as a number without a
    sign, beyond 2^63 there is none."""
    for account in jsz.get("account_details", ()):
        for member, kind, key in (("storage", "file", "max_file"), ("memory", "memory", "max_mem")):
            used, most = account.get(member, 0), account.get(f"reserved_{member}", 0)
            if 0 < most < 1 << 63 and used > TOLD_FROM * most:
                name = account.get("name", "")
                yield (
                    f"account {name} has stored {100 * used // most} % of what its {kind} streams may have: beyond "
                    f"that it is refused; remove messages, or raise its {key}"
                )


def links(varz: Page, leafz: Page) -> Iterator[Link]:
    """Links that are up, then hubs that do not answer."""
    for one in leafz.get("leafs", ()):
        measured = one.get("leafd") or {}
        yield Link(
            peer=one.get("name", ""),
            role="hub" if one.get("is_spoke") else "leaf",
            account=one.get("account", ""),
            address=f"{one.get('ip', '')}:{one.get('port', 0)}",
            up=True,
            rtt=one.get("rtt", ""),
            messages_in=one.get("in_msgs", 0),
            messages_out=one.get("out_msgs", 0),
            bytes_in=one.get("in_bytes", 0),
            bytes_out=one.get("out_bytes", 0),
            rate=measured.get("rate"),
            round_trip_s=seconds(measured.get("round_trip")),
            loss=measured.get("loss"),
            heard_s=seconds(measured.get("heard")),
            waiting=measured["waiting"] + measured["unacknowledged"] if measured else None,
            others=tuple(measured.get("others") or ()),
            **_budgets(measured.get("budget") or {}),
        )
    for one in varz.get("leafd", {}).get("remotes", ()):
        if not one["connected"]:
            error, left = one["error"] or "dialling", _budgets(one.get("budget") or {})
            places = ", ".join((*one["urls"], *one.get("learned", ())))
            yield Link("", "hub", one["account"], places, up=False, error=error, **left)


def _budgets(found: Page) -> dict[str, Any]:
    """A link's budgets, as its fields."""
    periods = ((name, found[name]) for name in ("day", "month") if name in found)
    return {
        "budgets": tuple(
            Budget(name, one["limit"], one["used"], one["left"], one["anew"], one["anew_in"] / 1e9)
            for name, one in periods
        ),
        "goes": found.get("goes", "all"),
        "budgeted": found.get("waiting"),
    }


def streams(jsz: Page) -> Iterator[Stream]:
    """All streams of all accounts, in the order of their names."""
    for account, one in each_stream(jsz):
        state, config = one.get("state") or {}, one.get("config") or {}
        yield Stream(
            name=one["name"],
            account=account,
            subjects=tuple(config.get("subjects") or ()),
            storage=config.get("storage", ""),
            messages=state.get("messages", 0),
            bytes=state.get("bytes", 0),
            first=state.get("first_seq", 0),
            last=state.get("last_seq", 0),
            last_time=state.get("last_ts", "") if state.get("messages") else "",
            consumers=state.get("consumer_count", 0),
            deleted=state.get("num_deleted", 0),
        )


def consumers(jsz: Page) -> Iterator[Consumer]:
    """All consumers of all streams."""
    for account, stream in each_stream(jsz):
        for one in stream.get("consumer_detail") or ():
            yield Consumer(
                stream=stream["name"],
                name=one["name"],
                account=account,
                pending=one.get("num_pending", 0),
                unacknowledged=one.get("num_ack_pending", 0),
                redelivered=one.get("num_redelivered", 0),
                waiting=one.get("num_waiting", 0),
                delivered=(one.get("delivered") or {}).get("stream_seq", 0),
                acknowledged=(one.get("ack_floor") or {}).get("stream_seq", 0),
                paused=bool(one.get("paused")),
            )


def _problems(varz: Page, found: tuple[Link, ...], behind: tuple[Copy, ...]) -> Iterator[str]:
    """The conditions that need attention, each with the remedy."""
    own, store = varz.get("leafd", {}), varz.get("store", {})
    for text in own.get("open_listeners", ()):
        yield f"ANYBODY IS LET IN: {text}"
    for one in found:
        if not one.up:
            yield f"no link to the hub {one.address} (account {one.account}): {one.error}"
        if one.budgets and one.held:
            yield f"link to {one.peer or one.address} (account {one.account}): {one.held}"
    yield from own.get("twins", ())
    yield from own.get("passed_over", ())
    for server in servers(varz):
        if not server.up:
            yield f"cluster {server.cluster} is not reached: none of its servers answers here"
    for copy in behind:
        if copy.lost:
            why = copy.error or ("never heard of" if copy.heard_s is None else f"silent for {copy.heard_s:.0f} s")
            yield f"{copy.kind} {copy.origin} of stream {copy.stream} is not followed: {why}"
        if copy.put_back:
            yield copy.put_back
    for kind in store.get("refusing", ()):
        yield f"publishes to {kind} streams are refused: no room; delete messages or make room on the disk"
    if damaged := store.get("corrupt_records", 0):
        yield (
            f"{damaged} records or pages of the store were damaged: the log names them, and says what a restart of "
            "leafd mends; look at the disk"
        )
    yield from own.get("expiring_certificates", ())
    if own.get("unexpected_errors", 0):
        yield f"{own['unexpected_errors']} unexpected errors since the start: the log has them; please report them"
