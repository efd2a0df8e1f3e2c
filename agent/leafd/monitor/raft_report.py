"""The report on groups of servers that keep something together: the group of all servers, and those of streams.

Names are those of nats-server's raftz. Not here: who leads what (daemon/replicas.py, daemon/meta_group.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from leafd.cluster.consumers import as_asked, replicas_of
from leafd.gotime import format_duration, format_time, now_ns
from leafd.monitor.options import Options, text
from leafd.native_meta import LEADER, MetaLook, MetaMember, is_heard, member_info, shown_peer
from leafd.turns import Pause

if TYPE_CHECKING:
    from leafd.monitor.facts import Facts
    from leafd.monitor.rooms import GroupsFacts, JetStreamFacts, MetaFacts, StreamFacts

META_NAME: Final = "_meta_"
"""The name of the group of all servers."""
_STATES: Final = ("FOLLOWER", "CANDIDATE", "CANDIDATE", "LEADER")
"""By raft_role_t of native/raft/raft.h."""
WAITS: Final = ("", "it waits for room", "it has an entry that this version cannot read")
"""By MetaLook.state."""


def group_row(
    look: MetaLook, members: Sequence[MetaMember], own: int, named: Callable[[int], str], system: str
) -> dict[str, Any]:
    """One group as this server sees it. own: this server's number; named: a server's name; system: the account in whose
    name servers send each other the group's messages."""
    row: dict[str, Any] = {
        "id": shown_peer(own),
        "state": _STATES[look.role],
        "size": len(members),
        "quorum_needed": sum(bool(one.voter) for one in members) // 2 + 1,
        "committed": look.committed,
        "applied": look.applied,
    }
    if look.leader:
        row["leader"] = shown_peer(look.leader)
    if look.led_ts:
        row["leader_since"] = format_time(look.led_ts)
    row |= {"ever_had_leader": bool(look.leader or look.committed), "term": look.term}
    if look.voted:
        row["voted_for"] = shown_peer(look.voted)
    row |= {"pterm": look.last_term, "pindex": look.last, "system_account": True, "traffic_account": system}
    row["wal"] = {
        "messages": look.last - look.floor,
        "bytes": look.bytes,
        "first_seq": look.floor + 1,
        "last_seq": look.last,
    }
    others = [one for one in members if one.peer != own]
    row["peers"] = {shown_peer(one.peer): _peer(look, one, named) for one in others}
    if waits := WAITS[look.state]:
        row["leafd"] = {"waits": waits}
    return row


def _peer(look: MetaLook, member: MetaMember, named: Callable[[int], str]) -> dict[str, Any]:
    """How far a member is and when it was heard is known to the one that leads; the others have heard that one."""
    row: dict[str, Any] = {"name": named(member.peer), "known": bool(member.voter)}
    if look.role == LEADER:
        row["last_replicated_index"] = look.last - member.lag
    if member.heard_ns >= 0 and (look.role == LEADER or member.peer == look.leader):
        row["last_seen"] = format_duration(member.heard_ns)
    if look.role == LEADER and member.copies:
        row["leafd"] = {"copies": True}
    return row


async def raftz(facts: Facts, options: Options) -> dict[str, Any]:
    """The groups of an account, or of the system account, which has the one of all servers."""
    meta, jetstream, system = facts.meta, facts.jetstream, facts.graph.system_name
    if meta is None or jetstream is None:
        return {}
    account, wanted = text(options, "acc", "account") or system, text(options, "group")
    rows: dict[str, Any] = {}
    if account == system and wanted in ("", META_NAME) and (seen := meta.seen) is not None:
        rows[META_NAME] = group_row(*seen, meta.peer, meta.named, system)
    if facts.groups is not None:
        rows |= await _streams(meta, facts.groups, jetstream, account, wanted, system)
    return {account: dict(sorted(rows.items()))} if rows else {}


async def _streams(
    meta: MetaFacts, groups: GroupsFacts, jetstream: JetStreamFacts, account: str, wanted: str, system: str
) -> dict[str, Any]:
    found, pause = dict[str, Any](), Pause()
    for stream in shared_streams(jetstream, account):
        await pause()
        name = groups.name_of(stream.id)
        if wanted in ("", name) and (seen := await groups.seen(stream.id)) is not None:
            found[name] = group_row(*seen, meta.peer, meta.named, system)
    return found


async def led_here(meta: MetaFacts, groups: GroupsFacts, jetstream: JetStreamFacts) -> tuple[int, int]:
    """How many streams this server keeps with others, and how many of those it leads."""
    led, pause = 0, Pause()
    shared = [one for account in jetstream.catalogue.by_name for one in shared_streams(jetstream, account)]
    for stream in shared:
        await pause()
        seen = await groups.seen(stream.id)
        led += seen is not None and seen[0].leader == meta.peer
    return len(shared), led


async def seen_by_follower(meta: MetaFacts, groups: GroupsFacts, stream: int) -> list[dict[str, Any]]:
    """The other members of the stream's group, for a server that does not lead it: it has heard the leader alone."""
    seen = await groups.seen(stream)
    if seen is None:
        return []
    look, members = seen
    others = [one for one in members if one.peer != meta.peer]
    return [member_info(meta.named(one.peer), one, heard=is_heard(look, one)) for one in others]


async def consumers_followed(groups: GroupsFacts, jetstream: JetStreamFacts) -> int:
    """How many consumers this server keeps of streams that others lead, as far as they can be read."""
    followed = [
        one
        for account in jetstream.catalogue.by_name.values()
        if account.enabled
        for one in shared_streams(jetstream, account.name)
        if not one.led
    ]
    return sum(count or 0 for count in await groups.followed.counts(followed)) if followed else 0


async def followed_count(groups: GroupsFacts, stream: StreamFacts) -> int | None:
    """How many consumers a stream has that another server leads; None: that cannot be read."""
    (count,) = await groups.followed.counts([stream])
    return count


async def followed_consumers(
    groups: GroupsFacts, stream: StreamFacts, cluster: dict[str, Any], *, config: bool
) -> list[dict[str, Any]] | None:
    """The rows of the consumers of a stream that another server leads. What that one alone knows is null; nobody waits
    here. None: they cannot be read."""
    consumers = await groups.followed.consumers(stream)
    if consumers is None:
        return None
    rows, pause, now = list[dict[str, Any]](), Pause(), format_time(now_ns())
    for one in consumers:
        await pause()
        state = one.state
        row: dict[str, Any] = {
            "stream_name": stream.name,
            "name": one.name,
            "created": format_time(one.created),
            "delivered": _place(state.known, state.delivered_consumer, state.delivered_stream, state.last_delivered_ts),
            "ack_floor": _place(state.known, state.floor_consumer, state.floor_stream, state.last_acked_ts),
        }
        row |= {"num_ack_pending": None, "num_redelivered": None, "num_waiting": 0, "num_pending": None}
        replicas = replicas_of(one.config, stream.config)
        row |= {"cluster": as_asked(cluster, replicas, stream.config), "ts": now}
        rows.append(row | ({"config": one.shown()} if config else {}))
    return rows


def _place(known: int, consumer: int, stream: int, last: int) -> dict[str, Any]:
    """The place of a consumer, as far as it is written down here."""
    if not known:
        return {"consumer_seq": None, "stream_seq": None}
    found: dict[str, Any] = {"consumer_seq": consumer, "stream_seq": stream}
    return found | ({"last_active": format_time(last)} if last else {})


def shared_streams(jetstream: JetStreamFacts, account: str) -> list[StreamFacts]:
    """The streams of the account that this server keeps with others."""
    known = jetstream.catalogue.by_name.get(account)
    return [one for one in known.streams.values() if one.group is not None] if known is not None else []
