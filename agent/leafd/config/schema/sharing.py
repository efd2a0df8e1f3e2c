"""The exports and imports of accounts: their keys, and nats-server's rules for them.

A stream export lets others hear what is published here, a service export lets others ask here. An import names the
exporting account and its subject, and may give it another name at home. The rules look at all accounts at once, in
the reference's order (stream imports before service imports), because a circle is an error of the import that closes
it. Their texts are the reference's. Not here: numbers of accounts and flat rows (accounts/).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from typing import Annotated, Final, Literal

from leafd.config.schema.base import Duration, Flag, Number, Strings, Text
from leafd.config.schema.section import Reader, Section, Takes, option
from leafd.records import dataclass

WILDCARDS_MAX: Final = 32
_REFERENCE: Final = re.compile(r"\$(\d+)|\{\{\s*wildcard\s*\(\s*(\d+)\s*\)\s*\}\}", re.IGNORECASE)
_RESPONSES: Final = {
    "single": "singleton",
    "singleton": "singleton",
    "stream": "stream",
    "chunk": "chunked",
    "chunked": "chunked",
}
_SEARCH_DEPTH_MAX: Final = 1024


def _response_type(value: object) -> object:
    if isinstance(value, str) and value.lower() in _RESPONSES:
        return _RESPONSES[value.lower()]
    raise ValueError(f'Unknown response type: "{value}": use singleton, stream or chunked')


ResponseType = Annotated[Literal["singleton", "stream", "chunked"] | None, Reader(_response_type)]


def _sampling(value: object) -> object:
    """Percent; 0: as the header of a request asks for it."""
    if isinstance(value, str):
        if value.strip().lower() == "headers":
            return 0
        digits = value.removesuffix("%")
        if not re.fullmatch("[+-]?[0-9]+", digits):
            raise ValueError(f"Failed to parse latency sample: {value[:60]!r} is neither a percentage nor headers")
        value = int(digits)
    if isinstance(value, int) and not 1 <= value <= 100:
        raise ValueError("bad sampling percentage, should be 1-100")
    return value


class Latency(Section):
    """How it is measured how long a service takes."""

    sampling: Annotated[Number, Reader(_sampling)] = option(
        100,
        "How many percent of the requests are measured, or headers: those whose header says that they are traced.",
        takes=Takes.LIVE,
        example='"50%"',
    )
    subject: Text = option("", "Where that is told, in the exporting account.", takes=Takes.LIVE)

    def check(self) -> None:
        if not self.subject:
            raise ValueError("Latency subject required, but missing")


def _latency(value: object) -> object:
    return {"subject": value} if isinstance(value, str) else value


class Export(Section):
    """One subject that other accounts may import."""

    stream: Text = option("", "The subject whose messages other accounts may hear.", takes=Takes.LIVE)
    service: Text = option("", "The subject that other accounts may send requests to.", takes=Takes.LIVE)
    accounts: Strings | None = option(None, "The accounts that may import it. Absent: all.", takes=Takes.LIVE)
    response_type: ResponseType = option(
        None,
        "Of a service: one answer to a request (singleton), or several (stream, chunked).",
        aliases=("response",),
        takes=Takes.LIVE,
    )
    response_threshold: Duration | None = option(
        None,
        "Of a service: after how long without an answer is a request given up?",
        aliases=("threshold", "response_max_time", "response_time"),
        takes=Takes.LIVE,
        example='"2m"',
    )
    account_token_position: Number = option(
        0,
        "The number of the token in the subject that must be the importing account's name, so that "
        "each importer has subjects of its own.",
        ge=0,
        takes=Takes.LIVE,
    )
    latency: Annotated[Latency | None, Reader(_latency)] = option(
        None,
        "Of a service: where it is told how long its answers take: a subject, or { sampling, subject }.",
        takes=Takes.LIVE,
    )
    allow_trace: Flag = option(
        False, "Of a service: do traces of messages (Nats-Trace-Dest) go on here?", takes=Takes.LIVE
    )

    def check(self) -> None:
        if self.stream and self.service:
            raise ValueError(f'service "{self.service}" is detected, but there is a stream already: write two exports')
        if not self.service and (self.response_type is not None or self.response_threshold is not None):
            raise ValueError("response directive on non-service: only services have answers")
        if not self.service and self.latency is not None:
            raise ValueError("Detected latency directive on non-service")
        if not self.service and self.allow_trace:
            raise ValueError("Detected allow_trace directive on non-service")


class Origin(Section):
    """Whose subject is imported."""

    account: Text = option("", "The account that exports it.", takes=Takes.LIVE)
    subject: Text = option("", "The exported subject, or a part of it.", takes=Takes.LIVE)

    def check(self) -> None:
        if not self.account or not self.subject:
            raise ValueError("an account name and a subject are expected")


class Import(Section):
    """One subject of another account that is to be had here."""

    stream: Origin | None = option(None, "Hear what is published there: { account, subject }.", takes=Takes.LIVE)
    service: Origin | None = option(None, "Send requests there: { account, subject }.", takes=Takes.LIVE)
    prefix: Text = option("", "Of a stream: tokens to put in front of the subject here.", takes=Takes.LIVE)
    to: Text = option(
        "", "The name of the subject here, with $1, $2 for the wildcards of the original.", takes=Takes.LIVE
    )
    share: Flag = option(
        False,
        "Of a service: is it told everything that is known of the requestor, not only the account and round-trip time?",
        takes=Takes.LIVE,
    )
    allow_trace: Flag = option(
        False, "Of a stream: do traces of messages (Nats-Trace-Dest) go on here?", takes=Takes.LIVE
    )

    def check(self) -> None:
        if self.stream is not None and self.service is not None:
            raise ValueError("service is detected, but there is a stream already: write two imports")
        if self.service is not None and self.allow_trace:
            raise ValueError("Detected allow_trace directive on a non-stream")
        if self.stream is not None and self.prefix and self.to:
            raise ValueError("prefix and to exclude each other in a stream import: keep one")


# ---- subjects


def valid(subject: str) -> bool:
    """Whether it is a subject; wildcards are allowed."""
    tokens = subject.split(".")
    return all(tokens) and not any(char in subject for char in " \t\r\n") and ">" not in tokens[:-1]


def is_literal(subject: str) -> bool:
    """Whether it has no wildcard token."""
    return not {"*", ">"}.intersection(subject.split("."))


def is_subset(inner: str, outer: str) -> bool:
    """Whether everything that inner matches is matched by outer."""
    inner_tokens, outer_tokens = inner.split("."), outer.split(".")
    for at, token in enumerate(outer_tokens):
        if at == len(inner_tokens):
            return False
        if token == ">":
            return True
        if inner_tokens[at] == ">" or token not in ("*", inner_tokens[at]):
            return False
    return len(inner_tokens) == len(outer_tokens)


def collide(one: str, other: str) -> bool:
    """Whether some subject matches both."""
    left, right = one.split("."), other.split(".")
    for a, b in zip(left, right, strict=False):
        if ">" in (a, b):
            return True
        if a != b and "*" not in (a, b):
            return False
    return len(left) == len(right)


@dataclass(frozen=True, slots=True)
class Names:
    """An imported subject's two names. order: which wildcard of the original each of the local one stands for."""

    subject: str
    local: str
    order: tuple[int, ...]


def names(subject: str, to: str) -> Names:
    """Fits the local name to the original. Raises ValueError when its wildcards are not the original's."""
    tokens: list[str] = []
    order: list[int] = []
    stars = 0
    for token in to.split("."):
        found = _REFERENCE.fullmatch(token)
        if token == "*" or found:
            stars += token == "*"
            order.append(int(found[1] or found[2]) - 1 if found else stars - 1)
            tokens.append("*")
        else:
            tokens.append(token)
    wild = sum(token in ("*", ">") for token in subject.split("."))
    if subject.split(".")[-1] == ">" and tokens[-1] == ">":
        order.append(wild - 1)
    if (">" in tokens) != (subject.split(".")[-1] == ">") or sorted(order) != list(range(wild)):
        raise ValueError(f"invalid mapping destination: not using all of the token wildcard(s) in {to}")
    if not valid(".".join(tokens)) or not valid(subject):
        raise ValueError("invalid subject")
    if wild > WILDCARDS_MAX:
        raise ValueError(f"at most {WILDCARDS_MAX} wildcards")
    return Names(subject, ".".join(tokens), tuple(order))


# ---- the rules


@dataclass(frozen=True, slots=True)
class Shared:
    """One import that is allowed, with the export that allows it."""

    importer: str
    exporter: str
    service: bool
    names: Names
    export: Export
    traced: bool = False
    shares: bool = False
    """The service is told who asks."""


class SharingError(ValueError):
    """The accounts' exports and imports do not fit together."""


Approve = Callable[[str, Export, str, str | None], bool]
"""(exporter, export, importer, the part of the export's subject that is wanted; None for all of it) -> may it?"""


@dataclass(slots=True)
class Sharing:
    """The exports of all accounts and, by importer, the imports that were found to fit them so far."""

    exports: dict[str, tuple[Export, ...]]
    approve: Approve
    streams: dict[str, tuple[Shared, ...]] = field(default_factory=dict)
    services: dict[str, tuple[Shared, ...]] = field(default_factory=dict)

    def export_for(self, importer: str, origin: Origin, *, service: bool) -> Export:
        """The export that lets importer have it. Its own text first, then those that contain it."""
        kind = "service" if service else "stream"
        if origin.account not in self.exports:
            raise SharingError(f'"{origin.account}" account not defined for {kind} import')
        found = [(one.service if service else one.stream, one) for one in self.exports[origin.account]]
        exact = [one for subject, one in found if subject == origin.subject]
        if exact:
            if self.approve(origin.account, exact[-1], importer, None):
                return exact[-1]
        elif valid(origin.subject):
            for subject, one in found:
                if not subject or not is_subset(origin.subject, subject):
                    continue
                if self.approve(origin.account, one, importer, origin.subject):
                    return one
        raise SharingError(f"{kind} import not authorized")

    def add_stream(self, importer: str, one: Import, origin: Origin) -> None:
        """One import of a stream. Raises SharingError."""
        export = self.export_for(importer, origin, service=False)
        if one.prefix and not is_literal(one.prefix):
            raise SharingError("stream import prefix can not contain wildcard tokens")
        to = one.to or origin.subject
        if one.prefix:
            to = f"{one.prefix.rstrip('.')}.{origin.subject}"
        made = _names(origin.subject, to, f'stream import subject from "{origin.subject}" to "{to}"')
        for subject in (made.local, origin.subject):
            self._stream_circle(origin.account, subject, {importer})
        known = self.streams.get(importer, ())
        if any((was.exporter, was.names.subject) == (origin.account, origin.subject) for was in known):
            raise SharingError("stream import already exists")
        self.streams[importer] = (*known, Shared(importer, origin.account, False, made, export, one.allow_trace))

    def add_service(self, importer: str, one: Import, origin: Origin) -> None:
        """One import of a service. Raises SharingError."""
        export = self.export_for(importer, origin, service=True)
        to = one.to or origin.subject
        made = _names(origin.subject, to, f'service import subject from "{to}" to "{origin.subject}"')
        self._service_circle(origin.account, made.local, {importer})
        known = self.services.get(importer, ())
        for was in known:
            if (was.exporter, was.names.local) == (origin.account, made.local):
                raise SharingError(
                    f'duplicate service import subject "{made.local}", previously used in import for account '
                    f'"{was.exporter}", subject "{was.names.subject}"'
                )
        found = Shared(importer, origin.account, True, made, export, export.allow_trace, one.share)
        self.services[importer] = (*known, found)

    def _stream_circle(self, account: str, subject: str, visited: set[str]) -> None:
        if not any(one.stream and is_subset(subject, one.stream) for one in self.exports[account]):
            return
        for was in self.streams.get(account, ()):
            if collide(subject, was.names.local):
                _visit(account, was, visited)
                narrower = was.names.local if is_subset(was.names.local, subject) else subject
                self._stream_circle(was.exporter, narrower, visited)

    def _service_circle(self, account: str, subject: str, visited: set[str]) -> None:
        for was in self.services.get(account, ()):
            if collide(subject, was.names.subject):
                _visit(account, was, visited)
                narrower = was.names.local if is_subset(was.names.local, subject) else subject
                self._service_circle(was.exporter, narrower, visited)


def _visit(account: str, was: Shared, visited: set[str]) -> None:
    if was.exporter in visited:
        raise SharingError("import forms a cycle")
    if len(visited) >= _SEARCH_DEPTH_MAX:
        raise SharingError("search cycle depth exhausted")
    visited.add(account)


def _names(subject: str, to: str, what: str) -> Names:
    try:
        return names(subject, to)
    except ValueError as error:
        raise SharingError(f"failed to create mapping transform for {what}: {error}") from error


def approved(exporter: str, export: Export, importer: str, subject: str | None) -> bool:
    """True if the configuration allows this import."""
    position = export.account_token_position
    if position:
        tokens = subject.split(".") if subject is not None else []
        return position <= len(tokens) and tokens[position - 1] == importer
    return not export.accounts or importer in export.accounts


def _check_exports(exports: Mapping[str, tuple[Export, ...]]) -> None:
    for name, own in exports.items():
        for one in own:
            kind, subject = ("service", one.service) if one.service else ("stream", one.stream)
            for account in one.accounts or ():
                if account not in exports:
                    raise SharingError(f'accounts {name}: "{account}" account not defined for {kind} export')
            tokens = subject.split(".")
            position = one.account_token_position
            if position and (position > len(tokens) or tokens[position - 1] != "*"):
                why = f"account_token_position {position} is not a *"
                raise SharingError(f'accounts {name}: Error adding {kind} export "{subject}": {why}')


def unmeasurable(one: Export, own: Iterable[Export]) -> str:
    """Why the latency of a service cannot be measured as its export says; empty: it can. own: the account's exports."""
    results = one.latency.subject if one.latency is not None else ""
    if not valid(results) or not is_literal(results):
        return "invalid publish subject"
    if any(other.service and is_subset(results, other.service) for other in own):
        return "invalid publish subject"
    return "bad service response type" if one.response_type not in (None, "singleton") else ""


def _check_latencies(exports: Mapping[str, tuple[Export, ...]]) -> None:
    for name, own in exports.items():
        for one in own:
            why = unmeasurable(one, own) if one.latency is not None else ""
            if why and one.latency is not None:
                what = f'service latency sampling for "{one.service}" on subject "{one.latency.subject}"'
                raise SharingError(f"accounts {name}: Error adding {what}: {why}")


def _imports(imports: Mapping[str, tuple[Import, ...]], *, service: bool) -> Iterator[tuple[str, Import, Origin]]:
    for name, own in imports.items():
        for one in own:
            origin = one.service if service else one.stream
            if origin is not None:
                yield name, one, origin


def share(exports: Mapping[str, tuple[Export, ...]], imports: Mapping[str, tuple[Import, ...]]) -> tuple[Shared, ...]:
    """All imports of all accounts. Raises SharingError, which begins with the word accounts, at the first bad one."""
    _check_exports(exports)
    _check_latencies(exports)
    rules = Sharing(dict(exports), approved)
    for service, add in ((False, rules.add_stream), (True, rules.add_service)):
        kind = "service" if service else "stream"
        for name, one, origin in _imports(imports, service=service):
            try:
                add(name, one, origin)
            except SharingError as error:
                raise SharingError(
                    f'accounts {name}: Error adding {kind} import "{origin.subject}": {error}'
                ) from error
    found = (*rules.streams.values(), *rules.services.values())
    return tuple(one for rows in found for one in rows)
