"""The group of all servers, and the streams that several of them keep, as the daemon sees them. Pure.

Not here: servers at hubs, to which this one is a leaf (hub.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from leafd import group_status
from leafd.doctor.findings import Check, Finding, fault, warning, well

ABOUT: Final = "the group of servers"


def judge(varz: Mapping[str, Any], jsz: Mapping[str, Any], report: Callable[[Finding], None]) -> None:
    """Reports on that group, if there is one."""
    group = group_status.group(varz)
    if group is None:
        return
    problems = list(group_status.problems(group, tuple(group_status.shared(varz, jsz))))
    for one in problems:
        report((fault if one.grave else warning)(Check.GROUP, ABOUT, one.text, owner=one.remedy))
    if not problems:
        report(well(Check.GROUP, ABOUT, f"{group.leader} leads, {group.there} of {len(group.members)} are there"))
