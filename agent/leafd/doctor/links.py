"""The daemon's own report of its links to hubs. Pure. Not here: what the doctor finds at the hub
(hub.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from leafd.copies import HELD
from leafd.doctor.findings import Check, Finding, fault, warning, well
from leafd.links.addresses import place_of
from leafd.quoting import listed, quoted

Page = Mapping[str, Any]


def _remotes(varz: Page) -> list[Page]:
    own = varz.get("leafd")
    found = own.get("remotes") if isinstance(own, dict) else None
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def down(varz: Page) -> frozenset[str]:
    """The accounts none of whose links is up."""
    rows = _remotes(varz)
    up = {str(one.get("account")) for one in rows if one.get("connected")}
    return frozenset(str(one.get("account")) for one in rows) - up


def _places(remote: Page) -> list[str]:
    urls = remote.get("urls")
    return [place_of(str(one)) for one in urls] if isinstance(urls, list) else []


def _at(remote: Page) -> str:
    """The hub's server that has the link, and the others that it tells of, where there are several."""
    learned = remote.get("learned")
    others = listed([str(one) for one in learned]) if isinstance(learned, list) else ""
    if not others and len(_places(remote)) < 2:
        return ""
    return f" at {remote.get('server')}" + (f", and the hub tells of {others}" if others else "")


def judge(varz: Page, configured: Iterable[str], report: Callable[[Finding], None]) -> None:
    """One finding for each remote of the daemon, for each address in the configuration that it does not know, and for
    boxes that call themselves alike; and what the hub passes over of this box's streams."""
    rows = _remotes(varz)
    for text in (varz.get("leafd") or {}).get("twins", ()):
        report(fault(Check.DOMAIN, "boxes that dial here", str(text)))
    for text in (varz.get("leafd") or {}).get("passed_over", ()):
        report(fault(Check.ORIGIN_OLD, "streams that were put back", str(text)))
    known = {place for one in rows for place in _places(one)}
    for address in configured:
        if isinstance(varz.get("leafd"), dict) and address not in known:
            report(
                warning(
                    Check.LINK,
                    address,
                    "the daemon does not know this remote: it runs with another configuration",
                    owner="reload it: systemctl reload leafd, or leafd --signal reload",
                )
            )
    for one in rows:
        place = ", ".join(_places(one))
        error = str(one.get("error") or "")
        if one.get("connected"):
            report(well(Check.LINK, place, f"the link of the account {one.get('account')} is up{_at(one)}"))
            _judge_budget(place, one.get("budget"), report)
        elif "loop" in error.lower():
            report(
                fault(
                    Check.LOOP,
                    place,
                    f"the link was ended since it closes a circle: {quoted(error)}",
                    owner="take the remote out that leads back to where another link comes from",
                    operator="does the hub dial this box, too, or another hub that does? One link is too many",
                )
            )
        else:
            report(
                fault(
                    Check.LINK,
                    place,
                    f"the link of the account {one.get('account')} is down: {quoted(error or 'dialling')}",
                    owner="if the doctor could log in at the hub: was the configuration changed and not reloaded?",
                )
            )


_LENGTHS_S: Final = {"day": 86_400.0, "month": 30.4 * 86_400.0}
_JUDGED_FROM: Final = 0.1
"""A budget of which less is used, or a period of which less has passed, says nothing of its pace."""


def _judge_budget(place: str, budget: object, report: Callable[[Finding], None]) -> None:
    """Judges the budget of a link: whether messages wait for it, and whether it lasts until the end of the day or
    month."""
    if not isinstance(budget, dict):
        return
    periods = [(name, budget[name]) for name in _LENGTHS_S if isinstance(budget.get(name), dict)]
    if not periods:
        return
    owner = "publish less or smaller messages, compress (compression: s2_best), or give the remote more"
    name, worst = max(periods, key=lambda one: float(one[1]["used"]) / one[1]["limit"])
    if budget.get("goes") in HELD:
        used = f"{worst['used']:,} of the {name}'s {worst['limit']:,} bytes are used"
        waits = f"{HELD[budget['goes']]}, until {worst['anew']} at the latest"
        report(warning(Check.BUDGET, place, f"{used}: {waits}", owner=owner))
        return
    short = [text for text in (_too_fast(*one) for one in periods) if text]
    for text in short:
        report(warning(Check.BUDGET, place, text, owner=owner))
    if not short:
        used = ", ".join(f"{100 * one['used'] / one['limit']:.0f} % of the {name}'s" for name, one in periods)
        report(well(Check.BUDGET, place, f"the budget lasts: {used} are used"))


def _too_fast(name: str, one: Page) -> str:
    """Why a budget will be gone before its end; empty: it will not."""
    passed = 1 - one["anew_in"] / 1e9 / _LENGTHS_S[name]
    used = one["used"] / one["limit"]
    if passed < _JUDGED_FROM or used < _JUDGED_FROM or used <= passed:
        return ""
    gone_h = (1 - used) / used * passed * _LENGTHS_S[name] / 3600
    return (
        f"{100 * used:.0f} % of the {name}'s {one['limit']:,} bytes are used, {100 * passed:.0f} % of the {name} "
        f"have passed: at this pace nothing is left in {gone_h:.1f} hours, before {one['anew']}"
    )
