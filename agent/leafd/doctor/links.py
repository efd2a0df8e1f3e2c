"""What the daemon itself says of its links to hubs. Pure. What does not live here: what the doctor finds at the hub
(hub.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from leafd.doctor.findings import Check, Finding, fault, warning, well
from leafd.links.addresses import place_of
from leafd.quoting import quoted

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


def judge(varz: Page, configured: Iterable[str], report: Callable[[Finding], None]) -> None:
    """One finding for each remote of the daemon, and for each address in the configuration that it does not know."""
    rows = _remotes(varz)
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
            report(well(Check.LINK, place, f"the link of the account {one.get('account')} is up"))
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
