"""`leafd doctor` as people and programs see it: the rows, and what each side has to do. What is found out and how is
doctor/."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from leafd.cli.pages import CONFIGURATION, find, unit_of
from leafd.cli.tables import as_json, say, show
from leafd.config.bind import load_file
from leafd.config.credentials import borrow
from leafd.doctor.findings import Finding, Level
from leafd.records import dataclass

HERE: Final = ("127.0.0.1", "localhost", "::1")
_ORDER: Final = (Level.FAULT, Level.WARNING, Level.UNPROVEN, Level.WELL)


@dataclass(frozen=True, slots=True)
class Summary:
    """The whole report, for programs."""

    faults: int
    warnings: int
    unproven: int
    findings: tuple[Finding, ...]


def examined(
    config: Path | None, url: str | None, ca: Path | None, creds: Path | None, timeout_s: float
) -> tuple[Finding, ...]:
    """The findings of an examination, the gravest first. Raises LeafdError."""
    import trio  # here, with the room: the other commands do without

    from leafd.doctor.examine import Case, examine

    if config is None and CONFIGURATION.exists():
        config = CONFIGURATION
    borrow(unit_of(config))
    server = load_file(config).server if config is not None else None
    monitor = find(url, config, ca)
    host = urlsplit(monitor.url).hostname or ""
    case = Case(
        server,
        monitor.page,
        creds,
        keys=config.parent if config is not None else None,
        timeout_s=timeout_s,
        host=host,
        here=not url or host in HERE,
        unit=unit_of(config),
    )
    found = trio.run(examine, case)
    return tuple(sorted(found, key=lambda one: (_ORDER.index(one.level), one.about)))


def told(found: Sequence[Finding], *, json: bool) -> bool:
    """Shows the findings; true: all is well."""
    count = {level: sum(one.level is level for one in found) for level in Level}
    if json:
        as_json(Summary(count[Level.FAULT], count[Level.WARNING], count[Level.UNPROVEN], tuple(found)))
    else:
        show("", ("", "check", ""), [(one.level, one.check, f"{one.about}: {one.text}") for one in found])
        for whose, lines in (
            ("This box's owner", [(one.check, f"{one.about}: {one.owner}") for one in found if one.owner]),
            ("The hub's operator", [(one.check, f"{one.about}: {one.operator}") for one in found if one.operator]),
        ):
            if lines:
                say("")
                show(whose, ("", ""), lines)
        say("")
        say(
            f"{count[Level.FAULT]} faults, {count[Level.WARNING]} warnings, {count[Level.UNPROVEN]} not proven, "
            f"{count[Level.WELL]} well"
        )
    return not count[Level.FAULT] and not count[Level.WARNING]
