"""What the doctor makes of a link's budget."""

from __future__ import annotations

from typing import Any

import pytest
from leafd.doctor import links
from leafd.doctor.findings import Check, Finding, Level

DAY_NS = 86_400 * 10**9


def budget(used: int, passed: float, goes: str = "all") -> dict[str, Any]:
    """Of a thousand bytes a day."""
    left = round((1 - passed) * DAY_NS)
    return {"day": {"limit": 1000, "used": used, "anew": "2026-11-27T00:00:00+01:00", "anew_in": left}, "goes": goes}


@pytest.mark.parametrize(
    ("told", "level", "words"),
    [
        (budget(400, 0.5), Level.WELL, "40 % of the day's"),
        (budget(60, 0.05), Level.WELL, "lasts"),
        (budget(90, 0.5), Level.WELL, "lasts"),
        (budget(600, 0.5), Level.WARNING, "nothing is left in 8.0 hours, before 2026-11-27T00:00:00+01:00"),
        (budget(700, 0.9, "normal"), Level.WARNING, "bulk waits, until 2026-11-27"),
        (budget(980, 0.9, "none"), Level.WARNING, "all waits, until 2026-11-27"),
    ],
)
def test_a_budget_that_will_be_gone_before_its_end_is_a_warning(told: dict[str, Any], level: Level, words: str) -> None:
    """By what was used of it and what has passed; so is one for which something waits."""
    found: list[Finding] = []
    remote = {"urls": ["hub:7422"], "account": "A", "connected": True, "budget": told}
    links.judge({"leafd": {"remotes": [remote]}}, ["hub:7422"], found.append)
    assert [(level, True)] == [(one.level, words in one.text) for one in found if one.check == Check.BUDGET]


@pytest.mark.parametrize("told", [None, {}, {"goes": "normal", "bytes_per_second": 5}])
def test_a_link_without_a_budget_is_not_judged(told: object) -> None:
    """Nor is one that only has times of the day."""
    found: list[Finding] = []
    remote = {"urls": ["hub:7422"], "account": "A", "connected": True, "budget": told}
    links.judge({"leafd": {"remotes": [remote]}}, ["hub:7422"], found.append)
    assert [Check.LINK] == [one.check for one in found]
