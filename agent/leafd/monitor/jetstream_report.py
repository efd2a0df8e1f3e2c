"""The reports about JetStream: jsz and healthz. What a stream or consumer is doing comes from the API's own answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from leafd import native_types as t
from leafd.monitor.encoding import Alike
from leafd.monitor.facts import Facts
from leafd.monitor.options import NotMeant, Options, flag, number, text
from leafd.quoting import quoted
from leafd.records import dataclass
from leafd.turns import Pause

if TYPE_CHECKING:
    from leafd.monitor.consumer_rows import Consumed
    from leafd.monitor.plain_rows import Counted, PlainRows
    from leafd.monitor.rooms import GroupsFacts, JetStreamAccountFacts, JetStreamFacts, PlainFacts, StreamFacts

API_LEVEL: Final = 5
ACCOUNTS_MAX: Final = 1024
ROWS_TOGETHER: Final = 256
"""Rows of streams that are put together at once."""
_DYNAMIC: Final = ("_nats.ver", "_nats.level")
SYNC_DEFAULT: Final = 120_000_000_000
"""nats-server's, which it tells also where it syncs always, as leafd does by default."""
CONSUMERS_SHORT: Final = 8
"""Streams with more consumers have each a row made of its own: forms are by the number of them."""


def configuration(facts: Facts) -> dict[str, Any]:
    """JetStream's configuration."""
    found: dict[str, Any] = {
        "max_memory": facts.limits.max_memory_store,
        "max_storage": facts.limits.max_file_store,
        "store_dir": facts.store,
        "sync_interval": facts.limits.sync_interval_ns or SYNC_DEFAULT,
    }
    if facts.limits.sync_interval_ns == 0:
        found["sync_always"] = True
    if facts.domain:
        found["domain"] = facts.domain
    found["strict"] = facts.config.jetstream.strict if facts.config.jetstream else True
    if facts.config.jetstream and facts.config.jetstream.unique_tag:
        found["unique_tag"] = facts.config.jetstream.unique_tag
    return found


def _limits(facts: Facts) -> dict[str, Any]:
    bounds = facts.config.jetstream.limits if facts.config.jetstream else None
    names = {
        "max_request_batch": "max_request_batch",
        "max_ha_assets": "max_ha_assets",
        "max_ack_pending": "max_ack_pending",
        "max_duplicate_window": "duplicate_window",
        "default_max_consumers": "default_max_consumers",
    }
    return {shown: getattr(bounds, name) for shown, name in names.items() if getattr(bounds, name, 0)}


async def _look(jetstream: JetStreamFacts, account: JetStreamAccountFacts, request: str) -> dict[str, Any]:
    """The members of the API's answer; none where what is asked for went away in the meantime."""
    try:
        return await jetstream.look(account.name, request)
    except t.PlaneError:
        return {}


async def totals(facts: Facts, jetstream: JetStreamFacts, *, brief: bool = False) -> dict[str, Any]:
    """The "jetstream" block of varz and statsz. brief: as in statsz, where a server that does not lead the group of all
    names no other member but the leader, and the group in place of its cluster."""
    summed = await _sums(jetstream)
    found: dict[str, Any] = {"config": configuration(facts), "stats": {name: summed[name] for name in _USAGE}}
    if facts.meta is not None:
        found["stats"]["ha_assets"] = _assets(facts, jetstream)
        from leafd.monitor.raft_report import META_NAME

        short = brief and not facts.meta.leads
        found["meta"] = facts.meta.report(META_NAME if short else facts.cluster, at_followers=not short)
    return found | {"limits": _limits(facts)}


_USAGE: Final = ("memory", "storage", "reserved_memory", "reserved_storage", "accounts", "ha_assets", "api")


Usages = dict[str, dict[str, Any]]
"""By account: what the API says of what it holds and may hold, which takes a turn over all of its streams."""


async def _sums(jetstream: JetStreamFacts, usages: Usages | None = None) -> dict[str, Any]:
    """The sums over all accounts. usages: those that are named in it get theirs, so that nobody asks once more."""
    found: dict[str, Any] = dict.fromkeys(
        ("memory", "storage", "reserved_memory", "reserved_storage", "accounts", "ha_assets"), 0
    )
    streams = consumers = calls = errors = 0
    pause = Pause()
    for account in list(jetstream.catalogue.by_name.values()):
        await pause()
        calls, errors = calls + account.api_total, errors + account.api_errors
        if not account.enabled:
            continue
        usage = await _look(jetstream, account, "INFO")
        if usages is not None and account.name in usages:
            usages[account.name] = usage
        for name in ("memory", "storage", "reserved_memory", "reserved_storage"):
            found[name] += usage.get(name, 0)
        found["accounts"] += 1
        streams, consumers = streams + usage.get("streams", 0), consumers + usage.get("consumers", 0)
    found["api"] = {"level": API_LEVEL, "total": calls, "errors": errors}
    return found | {"streams": streams, "consumers": consumers}


Plain = Mapping[str, Sequence["Counted"]]
"""By account: streams of which there is nothing to tell but their counters and consumers."""


async def plain_streams(facts: Facts) -> tuple[Plain, dict[str, Consumed]]:
    """The plain streams of all accounts without their consumers, and the consumers of all streams."""
    from leafd.monitor.plain_rows import counted

    jetstream = facts.jetstream
    plain: dict[str, list[Counted]] = {}
    consumers: dict[str, Consumed] = {}
    for account in list(jetstream.catalogue.by_name.values()) if jetstream is not None else ():
        if jetstream is None or not account.enabled:
            continue
        told = plain[account.name] = []
        for run in jetstream.plain.listed(account.name):
            if run.plain:
                told.append(counted(run, await jetstream.plain.states(run)))
        streams = [one for one in account.sorted_streams() if one.consumers]
        found = await jetstream.plain.consumers(streams)
        consumers[account.name] = [
            (stream, one) for stream in streams if stream.id in found for one in found[stream.id]
        ]
    return plain, consumers


async def jsz(facts: Facts, options: Options, *, but: Plain | None = None) -> dict[str, Any]:
    """The report on JetStream, in as much detail as the options ask for. but: streams that are told of in another
    way."""
    jetstream = facts.jetstream
    if jetstream is None:
        empty = dict.fromkeys(("memory", "storage", "reserved_memory", "reserved_storage", "accounts", "ha_assets"), 0)
        if flag(options, "leader-only", "leader_only"):
            raise NotMeant("filtered response: not leader")
        api = {"level": 0, "total": 0, "errors": 0}
        return empty | {"api": api} | facts.head() | {
            "disabled": True, "config": {"max_memory": 0, "max_storage": 0}, "streams": 0, "consumers": 0,
            "messages": 0, "bytes": 0, "total": 0,
        }  # fmt: skip
    if facts.meta is not None:
        with suppress(t.PlaneError):
            await facts.meta.look()  # the group's leader may have changed a moment ago, and be asked for
        if not facts.meta.leads and flag(options, "leader-only", "leader_only"):
            raise NotMeant("filtered response: not leader")
    accounts = [one for one in jetstream.catalogue.by_name.values() if one.enabled]
    total, detail = len(accounts), _Detail.of(facts, jetstream, options, but)
    accounts = _chosen(accounts, options, detail)
    usages: Usages = {one.name: {} for one in accounts}
    summed = await _sums(jetstream, usages)
    stats = facts.plane.stats()
    report = {name: summed[name] for name in _USAGE} | facts.head()
    report |= {
        "config": configuration(facts),
        "limits": _limits(facts),
        "streams": summed["streams"],
        "consumers": summed["consumers"],
        "messages": stats.store_messages,
        "bytes": summed["storage"] + summed["memory"],
    }
    if facts.meta is not None:
        report["meta_cluster"] = facts.meta.report(facts.cluster, at_followers=True)
        report["ha_assets"] = _assets(facts, jetstream)
    if flag(options, "raft"):
        shared, led = await _led(facts, jetstream)
        counts = {"streams_leader": report["streams"] - shared + led, "consumers_leader": report["consumers"]}
        report |= {name: count for name, count in counts.items() if count}
    if facts.groups is not None:
        from leafd.monitor.raft_report import consumers_followed

        report["consumers"] += await consumers_followed(facts.groups, jetstream)
    report["total"] = total
    if accounts:
        report["account_details"] = [await _account(detail, one, usages[one.name]) for one in accounts]
    return report


async def _seen_here(facts: Facts, stream: StreamFacts) -> list[dict[str, Any]]:
    """The other members of the stream's group as this server shows them, which does not lead it."""
    if facts.meta is None or facts.groups is None:
        return []
    from leafd.monitor.raft_report import seen_by_follower

    return await seen_by_follower(facts.meta, facts.groups, stream.id)


async def _led(facts: Facts, jetstream: JetStreamFacts) -> tuple[int, int]:
    """How many streams this server keeps with others, and how many of those it leads."""
    if facts.meta is None or facts.groups is None:
        return 0, 0
    from leafd.monitor.raft_report import led_here

    return await led_here(facts.meta, facts.groups, jetstream)


def _assets(facts: Facts, jetstream: JetStreamFacts) -> int:
    """The groups that this server is a member of: the one of all servers, and those of streams. A stream that is to be
    on one server, and was on several before, is alone in its group, which as in nats-server is none."""
    shared = sum(
        stream.group is not None and stream.config.num_replicas > 1
        for account in jetstream.catalogue.by_name.values()
        for stream in account.streams.values()
    )
    return shared + (facts.meta is not None and facts.meta.seen is not None)


def _chosen(accounts: list[JetStreamAccountFacts], options: Options, detail: _Detail) -> list[JetStreamAccountFacts]:
    """The accounts that the report has details of."""
    named, asked = text(options, "acc", "account"), detail.streams or flag(options, "accounts")
    offset, limit = number(options, "offset", 0), number(options, "limit", 0) or ACCOUNTS_MAX
    if named and any(one.name == named for one in accounts):
        return [one for one in accounts if one.name == named]
    if flag(options, "accounts") or (asked and not named):
        return sorted(accounts, key=attrgetter("name"))[offset : offset + limit]
    return []


async def jsz_account(facts: Facts, options: Options) -> dict[str, Any]:
    """The report on one account's JetStream."""
    name = text(options, "acc", "account")
    account = facts.jetstream.catalogue.by_name.get(name) if facts.jetstream is not None else None
    if facts.jetstream is None or account is None or not account.enabled:
        why = "not jetstream enabled" if facts.graph.account(name) is not None else "not found"
        raise ValueError(f"account {quoted(name)} {why}")
    usage = await _look(facts.jetstream, account, "INFO")
    return await _account(_Detail.of(facts, facts.jetstream, options), account, usage)


@dataclass(frozen=True, slots=True)
class _Detail:
    """How much of each account is reported, and whom it is asked of."""

    facts: Facts
    jetstream: JetStreamFacts
    streams: bool
    consumers: bool
    direct: bool
    config: bool
    raft: bool
    led: bool
    """Without streams that another server leads."""
    but: Plain

    def is_short(self, one: PlainFacts) -> bool:
        """Whether a row of a form says all of the stream that is wanted."""
        hidden = self.direct and len(one.stream.names) != len(one.stream.consumers)
        return len(one.consumers) <= CONSUMERS_SHORT and not hidden

    @classmethod
    def of(cls, facts: Facts, jetstream: JetStreamFacts, options: Options, but: Plain | None = None) -> _Detail:
        """As the request has it."""
        consumers = flag(options, "consumers", "consumer")
        streams, config = flag(options, "streams"), flag(options, "config")
        direct = flag(options, "direct-consumers", "direct_consumer")
        flag(options, "leader-only")  # jsz() looks at it
        led, raft = flag(options, "stream-leader-only", "stream_leader_only"), flag(options, "raft")
        direct, streams = direct and consumers, streams or consumers
        return cls(facts, jetstream, streams, consumers, direct, config, raft, led, but or {})


async def _account(wanted: _Detail, account: JetStreamAccountFacts, usage: dict[str, Any]) -> dict[str, Any]:
    known = wanted.facts.graph.account(account.name)
    detail: dict[str, Any] = {"name": known.shown if known is not None else account.name, "id": account.name}
    detail |= {name: usage.get(name, 0) for name in ("memory", "storage")}
    # As in the reference: the account's limits, where -1 is none, as numbers without a sign.
    limits = usage.get("limits", {})
    detail |= {f"reserved_{name}": limits.get(f"max_{name}", 0) % (1 << 64) for name in ("memory", "storage")}
    own = {"tiers": usage.get("tiers"), "offline": _offline(account)}
    if any(own.values()):
        detail["leafd"] = {name: value for name, value in own.items() if value}
    detail |= {"accounts": 0, "ha_assets": 0}
    detail["api"] = {"level": 0, "total": account.api_total, "errors": account.api_errors}
    if wanted.streams:
        detail["stream_detail"] = await _streams(wanted, account)
    return detail


def _offline(account: JetStreamAccountFacts) -> dict[str, str]:
    """The assets that are stored and cannot be served, streams and `stream > consumer`, each with the reason."""
    found = {name: one.reason for name, one in account.aside.items()}
    for owner in account.owners_aside:
        if owner in account.streams:
            found |= {f"{owner} > {name}": one.reason for name, one in account.streams[owner].aside.items()}
    return dict(sorted(found.items()))


_Rows = list[dict[str, Any] | Alike]


async def _streams(wanted: _Detail, account: JetStreamAccountFacts) -> _Rows:
    from leafd.monitor.plain_rows import PlainRows  # here, as all that writes rows: most boxes are asked for none

    if account.name in wanted.but:
        return await _others(wanted, account, wanted.but[account.name])
    if not wanted.consumers and not wanted.config:
        return await _listed(wanted, account)
    streams = await wanted.jetstream.plain.of(account.name, consumers=wanted.consumers)
    rows = PlainRows(
        wanted.jetstream.plain,
        wanted.facts.shapes,
        alone_in(wanted.facts),
        consumers=wanted.consumers,
        config=wanted.config,
        shared=wanted.facts.meta is not None,
    )
    if len(streams) == len(account.streams) and (not wanted.consumers or all(map(wanted.is_short, streams))):
        return await _rows(rows, streams)
    found, pause = _Rows(), Pause()
    run: list[PlainFacts] = []
    plain = {one.stream.name: one for one in streams}
    for stream in list(account.sorted_streams()):
        one = plain.get(stream.name)
        if one is not None and wanted.is_short(one):
            run.append(one)
            continue
        found += await _rows(rows, run)
        run = []
        await pause()
        if (detail := await _stream(wanted, account, stream.name)) is not None:
            found.append(detail)
    return found + await _rows(rows, run)


async def _listed(wanted: _Detail, account: JetStreamAccountFacts) -> _Rows:
    """The rows of all streams without consumers and configurations."""
    from leafd.monitor.plain_rows import PlainRows, known

    plain, found, pause = wanted.jetstream.plain, _Rows(), Pause()
    rows = PlainRows(plain, wanted.facts.shapes, alone_in(wanted.facts), consumers=False, config=False)
    for run in plain.listed(account.name):
        await pause()
        states = await plain.states(run) if run.plain else [None]
        if (told := known(states)) is not None:
            found.append(rows.run(run, told))
            continue
        for stream, state in zip(run.streams, states, strict=True):
            await pause()
            if state is not None:
                found.append(rows.one(stream, state))
            elif (detail := await _stream(wanted, account, stream.name)) is not None:
                found.append(detail)
    return found


async def _others(wanted: _Detail, account: JetStreamAccountFacts, runs: Sequence[Counted]) -> _Rows:
    """The rows of the streams that are told of in no other way."""
    found, pause = _Rows(), Pause()
    told = set(chain.from_iterable(run.streams for run in runs))
    for stream in [one for one in account.sorted_streams() if one not in told]:
        await pause()
        if (detail := await _stream(wanted, account, stream.name)) is not None:
            found.append(detail)
    return found


async def _rows(rows: PlainRows, streams: Sequence[PlainFacts]) -> _Rows:
    found, pause = _Rows(), Pause()
    for begin in range(0, len(streams), ROWS_TOGETHER):
        found += rows.of(streams[begin : begin + ROWS_TOGETHER])
        await pause()
    return found


async def _stream(wanted: _Detail, account: JetStreamAccountFacts, name: str) -> dict[str, Any] | None:
    """The row of a stream; None: the stream went away while the report was made, or is not wanted."""
    stream = account.streams.get(name)
    if wanted.led and stream is not None and stream.group is not None and not stream.led:
        return None
    info = await _look(wanted.jetstream, account, f"STREAM.INFO.{name}")
    if not info:
        return None
    detail: dict[str, Any] = {"name": name, "created": info.get("created"), "cluster": alone_in(wanted.facts)}
    stream = account.streams.get(name)
    if stream is not None and stream.group is not None:
        detail["cluster"] = info.get("cluster")
        if not stream.led and "replicas" in (detail["cluster"] or {}):
            detail["cluster"] = detail["cluster"] | {"replicas": await _seen_here(wanted.facts, stream)}
    if wanted.config:
        detail["config"] = _as_stored(info["config"])
    detail["state"] = info.get("state")
    for part in ("mirror", "sources", "leafd"):
        if part in info:
            detail[part] = info[part]
    if wanted.consumers and stream is not None:
        cluster = info.get("cluster") if stream.group is not None else _cluster_of_lone(wanted.facts)
        detail["consumer_detail"] = await _consumers(wanted, stream, cluster, hidden=False)
        if wanted.direct and (hidden := await _consumers(wanted, stream, cluster, hidden=True)):
            detail["direct_consumer_detail"] = hidden
    names: Sequence[str] = stream.names if stream is not None else ()
    if wanted.facts.groups is not None and stream is not None and stream.group is not None and not stream.led:
        names = await _follow(wanted, wanted.facts.groups, stream, detail)
    if wanted.raft and stream is not None and stream.group is not None:
        # (A server that keeps the stream alone again is its group's only member, and tells of no group.)
        if group := (info.get("cluster") or {}).get("raft_group", ""):
            detail["stream_raft_group"] = group
        if wanted.consumers and names and group:  # they are in the stream's group
            detail["consumer_raft_groups"] = [{"name": name, "raft_group": group} for name in names]
    return detail


async def _follow(wanted: _Detail, groups: GroupsFacts, stream: StreamFacts, detail: dict[str, Any]) -> Sequence[str]:
    """Puts into a stream's row the consumers that this server keeps while another one leads the stream; their names.
    What cannot be read is null."""
    from leafd.monitor.raft_report import followed_consumers, followed_count

    if not wanted.consumers:
        detail["state"] = detail["state"] | {"consumer_count": await followed_count(groups, stream)}
        return ()
    rows = await followed_consumers(groups, stream, detail["cluster"] or {}, config=wanted.config)
    detail["state"] = detail["state"] | {"consumer_count": None if rows is None else len(rows)}
    detail["consumer_detail"] = rows
    return [row["name"] for row in rows or ()]


def alone_in(facts: Facts) -> dict[str, Any]:
    """The cluster of a stream that this server alone has."""
    return ({"name": facts.cluster} if facts.meta is not None else {}) | {"leader": facts.name}


def _cluster_of_lone(facts: Facts) -> dict[str, Any] | None:
    """The cluster of its consumers, which a lone server does not tell."""
    return alone_in(facts) if facts.meta is not None else None


async def _consumers(
    wanted: _Detail, stream: StreamFacts, cluster: dict[str, Any] | None, *, hidden: bool
) -> list[Alike]:
    """cluster: of a stream of several servers, which its consumers share."""
    from leafd.monitor.consumer_rows import ConsumerRows

    plain = wanted.jetstream.plain
    consumers = (await plain.consumers([stream], hidden=hidden)).get(stream.id, ())
    rows, found, pause = ConsumerRows(plain, wanted.facts.shapes, config=wanted.config), list[Alike](), Pause()
    for begin in range(0, len(consumers), ROWS_TOGETHER):
        found += rows.of(stream, consumers[begin : begin + ROWS_TOGETHER], cluster)
        await pause()
    return found


def _as_stored(config: dict[str, Any]) -> dict[str, Any]:
    """Without what an answer of the API adds about the server that gives it."""
    metadata = config.get("metadata") or {}
    kept = {key: value for key, value in metadata.items() if key not in _DYNAMIC}
    return config | ({"metadata": kept} if metadata else {})


async def _well(facts: Facts) -> dict[str, Any]:
    """A full disk is no sickness that a restart would heal, and neither is damage: the server serves, and says what it
    refuses and what it has lost."""
    found: dict[str, Any] = {"status": "ok"}
    if facts.jetstream is None:
        return found
    stats = facts.plane.stats()
    if refused := stats.refused_storage():
        found["refusing"] = f"publishes to {' and '.join(refused)} streams: no room"
    if stats.corrupt_records:
        found["damaged"] = f"{stats.corrupt_records} records of the store: the log names them"
    if passed := await facts.jetstream.passed_over.texts():
        found["passed_over"] = passed
    offline = {
        f"{account.name} > {name}": reason
        for account in facts.jetstream.catalogue.by_name.values()
        if account.enabled
        for name, reason in _offline(account).items()
    }
    stalled = await facts.stalled() if facts.stalled is not None else {}
    return found | ({"offline": offline} if offline else {}) | ({"stalled": stalled} if stalled else {})


async def healthz(facts: Facts, options: Options) -> tuple[int, dict[str, Any]]:
    """(status code, report): whether this server serves, and whether an account, stream or consumer is there."""
    enabled_only = flag(options, "js-enabled-only", "js_enabled_only", "js-enabled")
    server_only = flag(options, "js-server-only")
    flag(options, "js-meta-only")  # there is no cluster whose layer could be well; only what it says may be wrong
    details = flag(options, "details")
    account_name = str(options.get("account") or "")
    stream_name = str(options.get("stream") or "")
    consumer_name = str(options.get("consumer") or "")
    if (stream_name and not account_name) or (consumer_name and not stream_name):
        missing = "account" if stream_name and not account_name else "stream"
        subject = "stream" if missing == "account" else "consumer"
        return 400, _sick(details, "BAD_REQUEST", f'"{missing}" must not be empty when checking {subject} health', 400)
    if enabled_only and facts.jetstream is None:
        return 503, _sick(details, "JETSTREAM", "JetStream not enabled", 503)
    if facts.meta is not None and not enabled_only and not server_only and facts.meta.unwell:
        return 503, _sick(details, "JETSTREAM", facts.meta.unwell, 503)
    if not account_name or facts.jetstream is None or enabled_only or server_only:
        return 200, await _well(facts)
    account = facts.jetstream.catalogue.by_name.get(account_name)
    if account is None or not account.enabled:
        said = f"JetStream account {quoted(account_name)} not found"
        return 404, _sick(details, "ACCOUNT", said, 404, account=account_name)
    if stream_name in account.aside:
        said = f"JetStream stream '{account_name} > {stream_name}' could not be recovered"
        return 503, _sick(details, "STREAM", said, 503, account=account_name, stream=stream_name)
    if stream_name and stream_name not in account.streams:
        said = f"JetStream stream {quoted(stream_name)} not found on account {quoted(account_name)}"
        return 404, _sick(details, "STREAM", said, 404, account=account_name, stream=stream_name)
    if consumer_name and consumer_name in account.streams[stream_name].aside:
        said = f"JetStream consumer '{account_name} > {stream_name} > {consumer_name}' could not be recovered"
        names = {"account": account_name, "stream": stream_name, "consumer": consumer_name}
        return 503, _sick(details, "CONSUMER", said, 503, **names)
    if consumer_name and not await _has_consumer(facts, account.streams[stream_name], consumer_name):
        place = f"stream {quoted(stream_name)} on account {quoted(account_name)}"
        said = f"JetStream consumer {quoted(consumer_name)} not found for {place}"
        names = {"account": account_name, "stream": stream_name, "consumer": consumer_name}
        return 404, _sick(details, "CONSUMER", said, 404, **names)
    return 200, await _well(facts)


async def _has_consumer(facts: Facts, stream: StreamFacts, name: str) -> bool:
    """Whether this server keeps the consumer, also where another one leads its stream."""
    if facts.groups is None or stream.group is None or stream.led:
        return name in stream.consumers
    kept = await facts.groups.followed.consumers(stream)
    return kept is not None and any(one.name == name for one in kept)


def _sick(details: bool, kind: str, text: str, code: int, **names: str) -> dict[str, Any]:
    if details:
        return {"status": "error", "errors": [{"type": kind, **names, "error": text}]}
    return {"status": "error" if code == 400 else "unavailable", "error": text}
