"""The HTML report: one file, nothing loaded from anywhere, for light and dark, its charts as inline SVG (plots.py)."""

from __future__ import annotations

import html
from dataclasses import dataclass
from pathlib import Path

from . import plots
from .checks import Check
from .record import Record

STYLE = """
:root{color-scheme:light dark;--ink:#1d232b;--soft:#5d6773;--line:#d9dee4;--page:#fbfcfd;--tile:#f0f3f6;--shade:#e2574c;
--ewr:#0a7d6c;--jfk:#c2570c;--lga:#4b4fc4;--ok:#0a7d6c;--bad:#c8322b}
@media(prefers-color-scheme:dark){:root{--ink:#e6eaee;--soft:#98a3ae;--line:#333b44;--page:#14181d;--tile:#1d232a;
--ewr:#3cc4ae;--jfk:#f0914a;--lga:#989cff;--ok:#3cc4ae;--bad:#ff7a70}}
body{margin:0 auto;max-width:980px;padding:2.5rem 1.5rem;background:var(--page);color:var(--ink);
font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.6rem;margin:0}h2{font-size:1.15rem;margin:2.4rem 0 .3rem}p{margin:.3rem 0 1rem;color:var(--soft)}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(170px,1fr));gap:.8rem;margin:1.4rem 0}
.tile{background:var(--tile);border-radius:8px;padding:.8rem 1rem}
.tile b{display:block;font-size:1.5rem;line-height:1.2;font-variant-numeric:tabular-nums}.tile span{color:var(--soft)}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
td,th{text-align:left;padding:.35rem .9rem .35rem 0;border-bottom:1px solid var(--line);vertical-align:top}
th{font-weight:600;color:var(--soft)}.ok{color:var(--ok);font-weight:600}.bad{color:var(--bad);font-weight:600}
.chart{overflow-x:auto}svg{width:100%;min-width:640px;height:auto;display:block}
svg text{fill:var(--soft);font:12px system-ui,sans-serif}
.EWR{--own:var(--ewr)}.JFK{--own:var(--jfk)}.LGA{--own:var(--lga)}
.grid{stroke:var(--line)}.shade{fill:var(--shade);opacity:.14}svg .name{font-weight:600;fill:var(--own,var(--ink))}
.line{fill:none;stroke:var(--own);stroke-width:1.6}.line.hub{stroke:var(--ink);stroke-dasharray:4 3}
.area{fill:var(--own);opacity:.24}.bar{fill:var(--own)}.day{stroke:var(--line);stroke-width:.5}
"""


@dataclass(frozen=True, slots=True)
class Words:
    """The report's words about its scene."""

    scene: str  # what is started
    title: str
    about: str
    broken: str  # what the outages were


def tiles(record: Record, checks: list[Check], broken: str) -> str:
    """The numbers that one looks for first."""
    stored = sum(values[-1] for values in record.acknowledged.values() if values)
    passed = sum(check.passed for check in checks)
    outage = max((fault.ended - fault.began for fault in record.faults), default=0.0)
    found = (
        (f"{stored:,}", "rows stored at the leaves and sent on"),
        (f"{record.worst():,}", "rows of a leaf waited at most, while something was broken"),
        (f"{outage:.0f} s", "the longest outage"),
        (f"{len(record.faults)}", f"outages: {broken}"),
        (f"{passed} of {len(checks)}", "checks passed"),
    )
    parts = [
        f'<div class="tile"><b>{html.escape(big)}</b><span>{html.escape(words)}</span></div>' for big, words in found
    ]
    return f'<div class="tiles">{"".join(parts)}</div>'


def check_table(checks: list[Check]) -> str:
    rows = [
        f'<tr><td class="{"ok" if c.passed else "bad"}">{"passed" if c.passed else "FAILED"}</td>'
        f"<td>{html.escape(c.what)}</td><td>{html.escape(c.found)}</td></tr>"
        for c in checks
    ]
    return f"<table><tr><th>check</th><th>what</th><th>found</th></tr>{''.join(rows)}</table>"


def fact_table(facts: list[tuple[str, str]]) -> str:
    rows = [f"<tr><td>{html.escape(name)}</td><td>{html.escape(value)}</td></tr>" for name, value in facts]
    return f"<table>{''.join(rows)}</table>"


def section(title: str, words: str, body: str) -> str:
    return f"<h2>{html.escape(title)}</h2><p>{html.escape(words)}</p>{body}"


def weather(daily: plots.Daily) -> str:
    """The section about the Spark job's tables; demos without Spark have no such section."""
    return (
        section(
            "A year of days",
            "Mean temperature, from the table that the Spark job made of the hub's stream. A column is a week, from "
            "Monday down to Sunday (days in UTC).",
            plots.calendar(daily),
        )
        + section("Temperatures", "Daily mean, and the range from minimum to maximum.", plots.temperatures(daily))
        + section("Rain", "Inches by month.", plots.rainfall(daily))
    )


def write_report(
    path: Path,
    words: Words,
    checks: list[Check],
    facts: list[tuple[str, str]],
    record: Record,
    daily: plots.Daily,
) -> None:
    path.write_text(
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{html.escape(words.title)}</title><style>{STYLE}</style>"
        f"<h1>{html.escape(words.title)}</h1><p>{html.escape(words.about)}</p>"
        + tiles(record, checks, words.broken)
        + section(
            "What each leaf took, and what the hub had of it",
            "Coloured: rows that the leaf had acknowledged, so they were on its disk. Dashed: rows that the hub had. "
            "Between the two is what waited. Shaded: the outages that concerned this leaf.",
            plots.story(record),
        )
        + section("What was checked", "Message by message and number by number, from the input.", check_table(checks))
        + (weather(daily) if daily else "")
        + section("The run", "", fact_table(facts))
        + "</html>\n"
    )
