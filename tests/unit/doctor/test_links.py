"""Which of a hub's servers a link goes to, and which others there are, as doctor and `leafd links` say it."""

from __future__ import annotations

from typing import Any

from leafd import status
from leafd.doctor import links
from leafd.doctor.findings import Check, Finding, Level


def said(remote: dict[str, Any]) -> str:
    found: list[Finding] = []
    links.judge({"leafd": {"remotes": [remote]}}, remote["urls"], found.append)
    (one,) = found
    return one.text


def remote(*urls: str, learned: tuple[str, ...] = (), up: bool = True) -> dict[str, Any]:
    server = "10.0.0.2:7422" if up else ""
    return {
        "account": "A", "urls": list(urls), "learned": list(learned), "connected": up, "server": server,
        "error": "", "budget": None,
    }  # fmt: skip


def test_of_one_server_the_doctor_says_no_more_than_that_the_link_is_up() -> None:
    assert said(remote("10.0.0.2:7422")) == "the link of the account A is up"


def test_of_several_the_doctor_says_at_which_one() -> None:
    assert said(remote("hub:7422", "10.0.0.2:7422")) == "the link of the account A is up at 10.0.0.2:7422"
    text = said(remote("hub:7422", learned=tuple(f"10.0.0.{number}:7422" for number in range(2, 7))))
    assert text.endswith(
        "at 10.0.0.2:7422, and the hub tells of 10.0.0.2:7422, 10.0.0.3:7422, 10.0.0.4:7422 and 2 more"
    )


def test_a_hub_that_is_away_is_listed_with_all_places_where_it_is_dialled() -> None:
    away = remote("hub:7422", learned=("10.0.0.3:7422",), up=False)
    (one,) = status.links({"leafd": {"remotes": [away]}}, {})
    assert (one.up, one.address) == (False, "hub:7422, 10.0.0.3:7422")


def test_what_the_hub_passes_over_is_a_fault() -> None:
    """As long as the daemon says so, however far the stream has come since."""
    found: list[Finding] = []
    links.judge({"leafd": {"passed_over": ["stream T was put back"]}}, (), found.append)
    assert [(one.check, one.level, one.text) for one in found] == [
        (Check.ORIGIN_OLD, Level.FAULT, "stream T was put back")
    ]
