"""Traffic through a link: a probe up, one down, API calls in both directions; and the names of the two ends.

    up      a client here publishes; the leaf of ours that is at the hub hears it, if the daemon's link carries it
    down    that leaf publishes; the client here hears it

A hub may isolate its leaves: it tells none of them what another one listens to, so this box hears nothing of the leaf
of ours. Then the ways are proven by what does not need that: up by a request to the hub itself, down by a probe, and an
answer of this box by a client here, which the request from the hub names as the place for it.

Not here: how the two ends are reached (hub.py, local.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import trio

from leafd.config.schema.sharing import collide
from leafd.doctor.ask import INBOX, NO_JETSTREAM, Fate, Reply, ask, held_back, rights_of
from leafd.doctor.findings import Check, Finding, fault, unproven, warning, well
from leafd.doctor.hub import Hub
from leafd.doctor.wire import INTEREST_MAX, End, Session, token
from leafd.quoting import quoted

PROBE_S: Final = 3.0
AGAIN_S: Final = 0.1
"""Interest takes its time over a link: a probe is repeated until it is heard."""
TOLD_S: Final = 1.0
"""A hub tells a leaf of interest at once; another leaf's may wait behind other bytes."""
PREFIX: Final = "_leafd_doctor"
ISOLATES: Final = "the hub keeps leaves apart (isolate_leafnode_interest, or request_isolation here)"

Report = Callable[[Finding], None]


class Answered(NamedTuple):
    """The sides that got an answer of the hub's JetStream: the leaf at the hub, and the client here."""

    there: bool = False
    here: bool = False


def domains(hub: Hub, own: str, report: Report) -> bool:
    """Each side has a JetStream of its own, with another name: only then can it be reached from the other one. own: of
    this box, which has a JetStream."""
    if own and own == hub.domain:
        report(
            fault(
                Check.DOMAIN,
                hub.place,
                f"both sides call their JetStream domain {quoted(own)}: neither can reach the other's streams",
                owner="give this box another name in jetstream { domain: ... } and restart it; each box needs its own",
                operator="or give the hub another one",
            )
        )
        return False
    if not own:
        report(
            warning(
                Check.DOMAIN,
                hub.place,
                "this box's JetStream has no domain: the hub cannot reach its streams",
                owner="name it: jetstream { domain: NAME }; the name is the box's own",
            )
        )
    if hub.info.get("jetstream") and not hub.domain:
        report(
            warning(
                Check.DOMAIN,
                hub.place,
                "the hub's JetStream has no domain: this box cannot reach its streams",
                operator="name it: jetstream { domain: hub }",
            )
        )
    if own and hub.domain:
        report(well(Check.DOMAIN, hub.place, f"domains {quoted(own)} here and {quoted(hub.domain)} there"))
    return True


# ---- API calls


async def api_up(hub: Hub, client: Session | None, report: Report, *, needed: bool) -> Answered:
    """The hub's JetStream, asked by the leaf that is there, and from here through the link. needed: a stream here takes
    from there."""
    if not hub.domain:
        if not hub.info.get("jetstream"):
            report(_no_jetstream(hub))
        return Answered()
    subject = f"$JS.{hub.domain}.API.INFO"
    if _not_permitted(hub, "the hub's JetStream cannot be asked", report, up=(subject,), down=(INBOX,)):
        return Answered()
    there = await ask(hub.session, subject)
    if not there.ok:
        report(_unanswered(hub, there, fault if needed else warning))
        return Answered()
    if client is None:
        report(unproven(Check.API_UP, hub.place, f"{subject} is answered at the hub; from here it was not asked"))
        return Answered(there=True)
    here = await ask(client, subject)
    if here.ok:
        report(well(Check.API_UP, hub.place, f"{subject} is answered"))
        return Answered(there=True, here=True)
    report(
        fault(
            Check.API_UP,
            hub.place,
            f"{subject} is answered at the hub, and not when it is asked from here: {here.why or here.fate}",
            owner="is the daemon's link up (`leafd links`)? Does the remote deny it (deny_exports, deny_imports)?",
        )
    )
    return Answered(there=True)


def _no_jetstream(hub: Hub) -> Finding:
    return warning(
        Check.HUB_JETSTREAM,
        hub.place,
        "JetStream is off at the hub: it can collect nothing, and has no streams for this box",
        operator="switch it on: jetstream { store_dir: /var/lib/leafd, domain: hub }",
    )


def _unanswered(hub: Hub, reply: Reply, make: Callable[..., Finding]) -> Finding:
    account = f"the account {hub.account}" if hub.account else "the account of this box"
    if reply.code in NO_JETSTREAM or reply.fate is Fate.SILENT:
        return make(
            Check.HUB_JETSTREAM,
            hub.place,
            f"at the hub {account} has no JetStream: {reply.why or reply.fate}",
            owner="if the streams are in another account there, this box has to log in as a user of that one",
            operator=f"jetstream: enabled in {account}, or move this box's user into the account of the streams",
        )
    if reply.fate is Fate.DENIED:
        return fault(
            Check.RIGHTS,
            hub.place,
            f"the hub denies what this box needs: {quoted(reply.why)}",
            operator=f"allow the box's user to publish $JS.{hub.domain}.API.>",
        )
    return fault(
        Check.HUB_JETSTREAM,
        hub.place,
        f"the hub's JetStream {quoted(hub.domain)} does not answer its own account: {reply.why or reply.fate}",
        operator="is JetStream on in the account of this box, and does it run? The hub's log says so",
    )


async def api_down(hub: Hub, own: str, report: Report, *, listener: Session | None) -> None:
    """Asks this box's JetStream from the leaf at the hub. listener: where the hub isolates its leaves, a client here
    that hears the answer in that leaf's place."""
    if not own:
        return
    subject = f"$JS.{own}.API.INFO"
    if listener is not None:
        await _asked_for(hub, listener, subject, report)
        return
    # The probe's own rights and the daemon's are the same: what may go down to the box may not go up from the probe.
    if held_back(hub, up=(subject,), down=(INBOX,)):
        report(unproven(Check.API_DOWN, hub.place, f"this box's user may not ask {subject} itself, as the hub does"))
        return
    reply = await ask(hub.session, subject, all_of_them=True)
    if reply.answers > 1:
        report(
            fault(
                Check.DOMAIN,
                hub.place,
                f"{reply.answers} servers answer at the hub as the domain {quoted(own)}: their streams get mixed up",
                owner="is this box a copy of another one? Give it a server_name and a domain of its own",
                operator="look which leaf has the same domain (/leafz at the hub lists them)",
            )
        )
    elif reply.ok:
        report(well(Check.API_DOWN, hub.place, f"{subject} is answered at the hub"))
    elif reply.code in NO_JETSTREAM:
        report(
            fault(
                Check.ACCOUNT,
                hub.place,
                f"here the account {hub.remote.account} of the link has no JetStream: {reply.why}",
                owner="name the account of the streams in the remote: account: NAME; or have JetStream in this one",
            )
        )
    else:
        report(
            fault(
                Check.API_DOWN,
                hub.place,
                f"{subject} is not answered at the hub: it cannot take this box's messages ({reply.why or reply.fate})",
                owner="is the daemon's link up, in the account of the streams? `leafd links`",
                operator="does the box's user have the right to subscribe to it?",
            )
        )


async def _asked_for(hub: Hub, listener: Session, subject: str, report: Report) -> None:
    """A request from the hub whose answer is for a client here."""
    if held_back(hub, up=(subject,)):
        report(unproven(Check.API_DOWN, hub.place, f"this box's user may not ask {subject} itself, as the hub does"))
    elif await heard(hub.session, listener, f"_INBOX.{token()}", by=subject):
        report(well(Check.API_DOWN, hub.place, f"{subject} is answered when the hub asks; {ISOLATES}"))
    else:
        report(
            fault(
                Check.API_DOWN,
                hub.place,
                f"{subject} is not answered when the hub asks it: it cannot take this box's messages",
                owner="is the daemon's link in the account of the streams? Does its remote deny it (deny_imports)?",
                operator="does the box's user have the right to subscribe to it?",
            )
        )


def _not_permitted(
    hub: Hub, what: str, report: Report, *, up: tuple[str, ...] = (), down: tuple[str, ...] = ()
) -> bool:
    missing = held_back(hub, up=up, down=down)
    if missing:
        report(
            fault(
                Check.RIGHTS,
                hub.place,
                f"{what}: by its rights at the hub this box's user may not {' and not '.join(missing)}",
                operator=f"allow the box's user to {' and to '.join(missing)}",
            )
        )
    return bool(missing)


# ---- probes


async def probes(hub: Hub, client: Session, taken: Sequence[str], up: Answered, report: Report) -> bool:
    """One down, one up; whether the hub isolates its leaves. taken: the subjects of all streams that are known, none of
    which may capture a probe."""
    word = token()
    there = hub.session
    down = _subject(hub, "import", f"{word}.down", taken)
    arrived = await _probe(Check.FLOW_DOWN, hub, there, client, down, "from the hub to this box", report)
    isolates = arrived and not await _told_of(there, down)
    if isolates and up.here:
        report(well(Check.FLOW_UP, hub.place, f"requests go up by api-up; {ISOLATES}"))
    elif isolates:
        report(unproven(Check.FLOW_UP, hub.place, f"no probe comes to a leaf of ours there: {ISOLATES}"))
    else:
        subject = _subject(hub, "export", f"{word}.up", taken)
        await _probe(Check.FLOW_UP, hub, client, there, subject, "from this box to the hub", report)
    return isolates


async def _told_of(there: Session, subject: str) -> bool:
    """Whether a hub that knows who listens to this tells its other leaf of it. Raises End."""
    with trio.move_on_after(TOLD_S):
        while subject not in there.interest and len(there.interest) < INTEREST_MAX:
            await there.settled()
            await trio.sleep(AGAIN_S)
        return True
    return False


def _subject(hub: Hub, way: str, word: str, taken: Sequence[str]) -> str:
    """A subject that the hub lets through and no stream captures, "" when there is none."""
    candidates = [f"{PREFIX}.{word}"]
    for one in rights_of(hub.info.get(way), "allow"):
        if not one.startswith("$"):
            base = one.replace("*", PREFIX)
            candidates.append(f"{base[:-1]}{PREFIX}.{word}" if base.endswith(">") else base)
    for one in candidates:
        missing = held_back(hub, up=(one,)) if way == "export" else held_back(hub, down=(one,))
        other = held_back(hub, down=(one,)) if way == "export" else held_back(hub, up=(one,))
        # The two ends of the probe stand on the same rights: it has to be let through in both directions.
        if not missing and not other and PREFIX in one and not any(collide(one, subject) for subject in taken):
            return one
    return ""


async def _probe(
    check: Check, hub: Hub, source: Session, target: Session, subject: str, way: str, report: Report
) -> bool:
    """Whether it came through."""
    if not subject:
        text = f"no subject that the rights of this box's user allow and no stream captures: no probe {way}"
        report(unproven(check, hub.place, text))
        return False
    try:
        if await heard(source, target, subject):
            report(well(check, hub.place, f"a probe message came through, {way}"))
            return True
    except End as error:
        said = next(iter((*hub.session.errors, *source.errors, *target.errors)), "")
        report(unproven(check, hub.place, f"the probe's connection ended: {quoted(said or str(error))}"))
        return False
    report(
        fault(
            check,
            hub.place,
            f"a probe message does not come through {way}, although both ends were reached",
            owner="is the daemon's link up, and in the same account? `leafd links` and its log say so",
            operator="do the rights of this box's user at the hub keep messages back?",
        )
    )
    return False


async def heard(source: Session, target: Session, subject: str, *, by: str = "") -> bool:
    """Whether what one publishes comes to the other in time. by: the subject of a request whose answer it is. Raises
    End."""
    with trio.move_on_after(PROBE_S):
        arrived = await target.subscribe(subject)
        while True:
            if by:
                await source.publish(by, reply=subject)
            else:
                await source.publish(subject, b"leafd doctor")
            with trio.move_on_after(AGAIN_S):
                try:
                    await arrived.receive()
                except trio.EndOfChannel:
                    raise End(target.ended or "the connection broke") from None
                return True
    return False
