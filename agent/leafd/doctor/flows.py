"""What goes through a link: a probe up, one down, API calls in both directions; and what both ends say of each other.

    up      a client here publishes; the leaf of ours that is at the hub hears it, if the daemon's link carries it
    down    that leaf publishes; the client here hears it

What does not live here: how the two ends are reached (hub.py, local.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

from leafd.doctor.findings import Check, Finding, fault, unproven, well
from leafd.doctor.hub import Hub
from leafd.doctor.wire import End, Session, token
from leafd.quoting import quoted

PROBE_S: Final = 3.0
AGAIN_S: Final = 0.1
"""Interest takes its time over a link: a probe is repeated until it is heard."""
PREFIX: Final = "_leafd_doctor"

Report = Callable[[Finding], None]


def domains(hub: Hub, own: str, report: Report) -> None:
    """Each side has a JetStream of its own, with another name."""
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
    elif own and hub.domain:
        report(well(Check.DOMAIN, hub.place, f"domains {quoted(own)} here and {quoted(hub.domain)} there"))


async def probes(hub: Hub, client: Session, report: Report) -> None:
    """One up, one down."""
    subject = f"{PREFIX}.{token()}"
    await _probe(Check.FLOW_UP, hub, client, hub.session, f"{subject}.up", "from this box to the hub", report)
    await _probe(Check.FLOW_DOWN, hub, hub.session, client, f"{subject}.down", "from the hub to this box", report)


async def _probe(
    check: Check, hub: Hub, source: Session, target: Session, subject: str, way: str, report: Report
) -> None:
    try:
        if await heard(source, target, subject):
            report(well(check, hub.place, f"a probe message came through, {way}"))
            return
    except End as error:
        said = next(iter((*hub.session.errors, *source.errors, *target.errors)), "")
        report(unproven(check, hub.place, f"the probe's connection ended: {quoted(said or str(error))}"))
        return
    report(
        fault(
            check,
            hub.place,
            f"a probe message does not come through {way}, although both ends were reached",
            owner="is the daemon's link up, and in the same account? `leafd links` and its log say so",
            operator="do the rights of this box's user at the hub, or isolation of leaves, keep messages back?",
        )
    )


async def heard(source: Session, target: Session, subject: str) -> bool:
    """Whether what one publishes comes to the other in time. Raises End."""
    with trio.move_on_after(PROBE_S):
        arrived = await target.subscribe(subject)
        while True:
            await source.publish(subject, b"leafd doctor")
            with trio.move_on_after(AGAIN_S):
                try:
                    await arrived.receive()
                except trio.EndOfChannel:
                    raise End(target.ended or "the connection broke") from None
                return True
    return False
