"""Mirrors and sources: is the origin there, is it the one that was copied before, does the copy catch up?

Of this box's streams (look_here), and of the hub's that take from this box (look_there). Not here: what
streams do to each other without copying (streams.py).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import trio

from leafd.copies import Page, copies
from leafd.doctor.ask import NO_JETSTREAM, NO_STREAM, Fate, Reply, ask, held_back
from leafd.doctor.findings import Check, Finding, fault, unproven, warning, well
from leafd.doctor.hub import Hub
from leafd.doctor.rows import Pull, Stream, seconds, stream_of
from leafd.doctor.wire import Session
from leafd.quoting import quoted
from leafd.records import dataclass

LOOK_AGAIN_S: Final = 1.5
"""A copy that is behind has to be less behind after so long."""
SILENT_S: Final = 60.0
SUBJECTS_MAX: Final = 8
"""The most subjects of a stream for which the hub's last message is looked at."""
PULLS_MAX: Final = 64
"""The most mirrors and sources that are looked at one by one."""

FLOW_CONTROL: Final = "$JS.FC.>"
# (Interest comes over a link as one subject with a wildcard, and all of that has to be allowed.)

Report = Callable[[Finding], None]


@dataclass(frozen=True, slots=True)
class Sides:
    """The knowledge about both ends of a copy."""

    own: str
    """The domain of this box."""
    streams: Sequence[Stream]
    """The streams of this box."""
    hubs: Sequence[Hub]
    linked: frozenset[str]
    """The accounts of this box that the configuration links to a hub."""
    down: frozenset[str]
    """Hubs whose link is not up, which was told."""
    leaves: frozenset[str]
    """The accounts that leaves have linked here: this box is a hub itself."""

    def hub_of(self, account: str, domain: str) -> Hub | None:
        """The hub of that name that this account is linked to."""
        return next((one for one in self.hubs if one.domain == domain and one.remote.account == account), None)


async def look_here(pull: Pull, sides: Sides, client: Session | None, report: Report) -> None:
    """One copy of this box: its origin, and how it follows it."""
    account = pull.stream.account
    if not pull.api:
        if not any(one.name == pull.origin and one.account == account for one in sides.streams):
            report(_missing(pull, f"the account {account} of this box", here=True))
        return
    if pull.domain and pull.domain == sides.own:
        text = f"its prefix {pull.api} is this box's own domain, so it takes nothing from the hub"
        report(fault(Check.ORIGIN, pull.about, text, owner="make it anew with the hub's domain in its external api"))
        return
    hub = sides.hub_of(account, pull.domain)
    if hub is not None and _rights(pull, hub, report):
        return
    session = client or (hub.session if hub is not None else None)
    if session is None:
        report(unproven(Check.ORIGIN, pull.about, f"nobody could ask {pull.api} about {pull.origin}"))
        return
    reply = await ask(session, f"{pull.api}.STREAM.INFO.{pull.origin}")
    if not reply.ok:
        report(_unanswered(pull, reply, sides))
        return
    origin = stream_of(reply.document, "")
    if _made_anew(pull, origin, report, owner="the copy", operator=""):
        return
    await _follows(pull, origin, client, f"$JS.API.STREAM.INFO.{pull.stream.name}", report, here=True)


def _rights(pull: Pull, hub: Hub, report: Report) -> bool:
    """Whether the hub keeps back what a copy of this box needs."""
    mirror = "M" if pull.kind == "mirror" else "S"
    up = (f"{pull.api}.CONSUMER.>", FLOW_CONTROL)
    down = (f"{pull.deliver or '$JS'}.{mirror}.x".replace("..", "."), "$JSC.R.x")
    return _kept_back(pull, held_back(hub, up=up, down=down), report)


def _kept_back(pull: Pull, missing: list[str], report: Report) -> bool:
    if missing:
        report(
            fault(
                Check.RIGHTS,
                pull.about,
                f"by its rights at the hub this box's user may not {' and not '.join(missing)}",
                operator=f"allow the box's user to {' and to '.join(missing)} (x stands for any word)",
            )
        )
    return bool(missing)


def _missing(pull: Pull, where: str, *, here: bool) -> Finding:
    make = f"make the stream {pull.origin} there, or correct the name in {pull.stream.name}"
    return fault(
        Check.ORIGIN,
        pull.about,
        f"{where} has no stream {quoted(pull.origin)}",
        owner=make if here else "",
        operator="" if here else make,
    )


def _unanswered(pull: Pull, reply: Reply, sides: Sides) -> Finding:
    """Why nobody tells of the origin."""
    account = pull.stream.account
    hub = sides.hub_of(account, pull.domain)
    if reply.code == NO_STREAM:
        there = (
            f"the account {hub.account} at the hub" if hub is not None and hub.account else f"the side of {pull.api}"
        )
        found = _missing(pull, there, here=False)
        return fault(
            Check.ORIGIN,
            pull.about,
            found.text,
            owner="if the stream is in another account there, this box has to log in as a user of that one",
            operator=found.operator,
        )
    if reply.code in NO_JETSTREAM:
        return fault(
            Check.HUB_JETSTREAM,
            pull.about,
            f"who answers {pull.api} has no JetStream in that account: {reply.why}",
            operator="jetstream: enabled in the account of this box, or move the box's user to that of the stream",
        )
    if reply.fate is Fate.REFUSED:
        return fault(Check.ORIGIN, pull.about, f"{pull.api} answers with an error: {reply.why}", operator="mend that")
    if reply.fate is Fate.DENIED:
        return fault(Check.RIGHTS, pull.about, f"denied: {quoted(reply.why)}", operator="allow that to the box's user")
    if not pull.domain:
        return fault(
            Check.EXPORT,
            pull.about,
            f"nobody answers {pull.api}: an export or import of the JetStream API is missing",
            owner=f"is {pull.api} the prefix that the operator has named?",
            operator=f"the account of {pull.origin} has to export the service $JS.API.>, and this box's account at the "
            f"hub to import it to {pull.api}.>",
        )
    if account not in sides.linked and (account in sides.leaves or not sides.linked):
        return warning(
            Check.ORIGIN,
            pull.about,
            f"no leaf of the account {account} answers as the domain {quoted(pull.domain)}",
            owner="that box is away, calls its domain otherwise, or its user belongs to another account here",
        )
    if account not in sides.linked:
        linked = ", ".join(sorted(sides.linked)) or "none"
        return fault(
            Check.ACCOUNT,
            pull.about,
            f"it is in the account {account}, which no remote links to a hub (linked: {linked})",
            owner=f"name this account in the remote: account: {account}; or make the stream in the linked one",
        )
    if account in sides.down:
        return unproven(Check.ORIGIN, pull.about, f"the link of the account {account} is not up")
    known = ", ".join(
        sorted({quoted(one.domain) for one in sides.hubs if one.remote.account == account and one.domain})
    )
    if hub is None and known:
        return fault(
            Check.DOMAIN,
            pull.about,
            f"nobody answers as the domain {quoted(pull.domain)}; the hub's is {known}",
            owner=f"make {pull.stream.name} anew with the hub's domain in its external api",
        )
    return fault(
        Check.ORIGIN,
        pull.about,
        f"nobody answers {pull.api} through the link",
        owner="do deny_exports or deny_imports of the remote keep it back?",
        operator="is JetStream on in the account of this box, and may the box's user publish there?",
    )


def _made_anew(pull: Pull, origin: Stream, report: Report, *, owner: str, operator: str) -> bool:
    """Whether the origin of a mirror is not the one that it has copied. Sources find out by themselves."""
    copy = pull.stream
    if pull.kind != "mirror" or not copy.count("messages"):
        return False
    newest, made = seconds(copy.state.get("last_ts")), seconds(origin.created)
    shorter = origin.count("last_seq") < copy.count("last_seq")
    younger = newest is not None and made is not None and newest < made
    if not shorter and not younger:
        return False
    remedy = f"save what only {copy.name} still has, then delete the mirror and make it anew"
    report(
        fault(
            Check.ORIGIN_NEW,
            pull.about,
            f"{pull.origin} was made anew: the mirror has messages up to {copy.count('last_seq'):,}, and its origin, "
            f"made {origin.created[:19].replace('T', ' ')}, up to {origin.count('last_seq'):,}",
            owner=remedy if owner else "",
            operator=remedy if operator else "if that was a mistake: restore the stream from a backup",
        )
    )
    return True


async def _follows(
    pull: Pull, origin: Stream, session: Session | None, subject: str, report: Report, *, here: bool
) -> None:
    """Whether it gets what the origin has. subject: where it is asked again how far it is."""
    side = {"owner": "look at the log of this box"} if here else {"operator": "look at the log of the hub"}
    full = _full(pull, origin)
    if full:
        report(fault(Check.LIMITS, pull.about, full, **dict.fromkeys(side, "raise the limit, or discard: old")))
        return
    if pull.lag == 0 and not _lost(pull):
        report(well(Check.ORIGIN, pull.about, f"followed, nothing behind; the origin has {origin.count('messages'):,}"))
        return
    now = await _again(pull, session, subject)
    if now is not None and _lost(now):
        other = pull.api and not pull.domain and (now.error or now.heard_s is None)
        report(_not_delivered(pull) if other else fault(Check.LAG, pull.about, _lost(now), **side))
    elif now is None:
        text = _lost(pull) or ("it is not known how far it is behind" if pull.lag is None else _behind(pull.lag))
        report(unproven(Check.LAG, pull.about, f"{text}; it could not be asked again"))
    elif now.lag is None:
        report(unproven(Check.LAG, pull.about, "it asks its origin, and does not know yet how far it is behind"))
    elif now.lag == 0 or pull.lag is None or now.lag < pull.lag:
        less = f", {pull.lag - now.lag:,} less meanwhile" if pull.lag and pull.lag > now.lag else ""
        report(well(Check.LAG, pull.about, f"{_behind(now.lag)}{less}"))
    else:
        report(warning(Check.LAG, pull.about, f"{_behind(now.lag)}, and not catching up", **side))


def _behind(lag: int) -> str:
    return f"{lag:,} messages behind"


def _lost(pull: Pull) -> str:
    """Why its origin is not followed, "" when it is."""
    if pull.error:
        return f"it is not followed: {quoted(pull.error)}"
    if pull.heard_s is None:
        return "its origin is there, and was never heard"
    return f"its origin is there, and was last heard {pull.heard_s:.0f} s ago" if pull.heard_s > SILENT_S else ""


async def _again(pull: Pull, session: Session | None, subject: str) -> Pull | None:
    """How it is a little later: what has just begun may not have heard of its origin yet."""
    if session is None:
        return None
    await trio.sleep(LOOK_AGAIN_S)
    reply = await ask(session, subject)
    later = stream_of(reply.document, "").pulls() if reply.ok else ()
    return next((one for one in later if (one.origin, one.api) == (pull.origin, pull.api)), None)


def _not_delivered(pull: Pull) -> Finding:
    """The API of the other account answers, and its messages do not come."""
    deliver = f"{pull.deliver}.>" if pull.deliver else ""
    text = f"{pull.api} answers, and no message comes: the subject that they are delivered to is not shared"
    return fault(
        Check.EXPORT,
        pull.about,
        text if deliver else f"{pull.api} answers, and no message comes: it needs a deliver prefix of its own",
        owner="" if deliver else f"make {pull.stream.name} anew with external {{ deliver }} as the operator names it",
        operator=f"the account of {pull.origin} has to export the stream {deliver or 'DELIVER.>'} and the service "
        f"{FLOW_CONTROL}, and this box's account at the hub to import both",
    )


def _full(pull: Pull, origin: Stream) -> str:
    """Why the stream can take no more from its origin, "" when it can."""
    copy = pull.stream
    if copy.config.get("discard") != "new":
        return ""
    missing = origin.count("last_seq") - copy.count("last_seq") if pull.kind == "mirror" else 0
    waiting = max(pull.lag or 0, missing)
    for limit, held in (("max_msgs", "messages"), ("max_bytes", "bytes")):
        top = copy.limit(limit)
        if top and copy.count(held) >= top and waiting > 0:
            return f"{copy.name} is full ({limit} {top:,}, discard: new), and {waiting:,} messages of its origin wait"
    return ""


# ---- the hub's copies of this box's streams


async def look_there(pull: Pull, sides: Sides, hub: Hub, report: Report) -> None:
    """One copy at the hub whose origin is on this box."""
    # What the hub asks comes down to this box, and its answers go up.
    mirror = "M" if pull.kind == "mirror" else "S"
    down = (f"{pull.api}.CONSUMER.>", FLOW_CONTROL)
    up = (f"{pull.deliver or '$JS'}.{mirror}.x".replace("..", "."), "$JSC.R.x")
    if _kept_back(pull, held_back(hub, up=up, down=down), report):
        return
    account = hub.remote.account
    named = [one for one in sides.streams if one.name == pull.origin]
    origin = next((one for one in named if one.account == account), None)
    if origin is None and named:
        report(
            fault(
                Check.ACCOUNT,
                pull.about,
                f"here {pull.origin} is in the account {named[0].account}, and the link to the hub in {account}",
                owner=f"name that account in the remote: account: {named[0].account}",
            )
        )
        return
    if origin is None:
        report(
            fault(
                Check.ORIGIN,
                pull.about,
                f"the hub takes from {quoted(pull.origin)}, which this box does not have",
                owner=f"make the stream {pull.origin} on this box",
                operator=f"or correct the name in {pull.stream.name} at the hub",
            )
        )
        return
    if _made_anew(pull, origin, report, owner="", operator="the copy") or await _put_back(pull, origin, hub, report):
        return
    subject = f"$JS.{hub.domain}.API.STREAM.INFO.{pull.stream.name}"
    await _follows(pull, origin, hub.session, subject, report, here=False)


async def _put_back(pull: Pull, origin: Stream, hub: Hub, report: Report) -> bool:
    """Whether the hub has taken messages of this box's stream that the stream has not reached: what it stores next has
    sequences that the hub passes over. The hub's own message says where it came from, unless it was given another
    subject; a mirror is looked at by _made_anew()."""
    subject = f"$JS.{hub.domain}.API.STREAM.MSG.GET.{pull.stream.name}"
    if pull.kind != "source" or held_back(hub, up=(subject,), down=()):
        return False
    highest, created = 0, seconds(origin.created)
    for wanted in origin.subjects[:SUBJECTS_MAX]:
        reply = await ask(hub.session, subject, {"last_by_subj": wanted})
        message = reply.document.get("message") if reply.ok else None
        if not isinstance(message, dict):
            continue
        taken, came = _taken(message, pull.origin), seconds(message.get("time"))
        if (
            created is not None and came is not None and created < came
        ):  # else it was made anew, which the hub finds out
            highest = max(highest, taken)
    reached = origin.count("last_seq")
    if highest <= reached:
        return False
    report(
        fault(
            Check.ORIGIN_OLD,
            pull.about,
            f"the hub has messages of {pull.origin} up to {highest:,}, and this box up to {reached:,}: an older copy "
            "of its store was put back, and a hub that is no leafd passes over what the stream stores next",
            owner=f"save what {pull.origin} has stored since, then: "
            f"nats stream purge {pull.origin} --seq {highest + 1} --force",
        )
    )
    return True


def _taken(message: Mapping[str, Any], origin: str) -> int:
    """The sequence of a message at its origin, by its header; 0: the message is from elsewhere."""
    try:
        header = base64.b64decode(str(message.get("hdrs") or ""), validate=True).decode("utf-8", "replace")
    except ValueError:
        return 0
    for line in header.split("\r\n"):
        name, _, value = line.partition(":")
        words = value.split()
        if name == "Nats-Stream-Source" and len(words) > 1 and words[0].partition(":")[0] == origin:
            return int(words[1]) if words[1].isdigit() else 0
    return 0


def old_origins(jsz: Page, report: Report) -> None:
    """Names the copies here whose origin was put back from an old copy."""
    for one in copies(jsz):
        if one.put_back:
            report(warning(Check.ORIGIN_OLD, f"{one.kind} of {one.origin} in {one.stream}", one.put_back))


def taken_from(streams: Sequence[Stream], domain: str) -> list[Pull]:
    """The copies in these streams whose origin is in that domain."""
    return [pull for one in streams for pull in one.pulls() if domain and pull.domain == domain]


def all_pulls(streams: Sequence[Stream]) -> list[Pull]:
    """All copies in these streams."""
    return [pull for one in streams for pull in one.pulls()]
