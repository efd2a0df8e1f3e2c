"""The endpoints of $JS.API, and what every one of them goes through before and after its own function runs.

    subject --> Endpoint --> level, account, body --> locks --> function --> reply JSON, counters, audit advisory

What is looked at first differs from endpoint to endpoint, and a client that asks for two wrong things sees which:
Check.

An endpoint is one function under @endpoint(...) in a module named after its noun; importing the module (service.py
does) makes it known. Subjects that no endpoint has are not answered at all, as the reference leaves them.
Not here: what any endpoint does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

import trio

from leafd.gojson import JsonError, Struct, decode, decode_whole
from leafd.jetstream import errors
from leafd.jetstream.catalogue import Consumer, JetStreamAccount, Stream
from leafd.jetstream.errors import ApiError
from leafd.jetstream.ports import SERVER, Asker, Everywhere
from leafd.jetstream.rules.versioning import check_level
from leafd.records import dataclass
from leafd.turns import WEIGHT_MAX, aside, hold

if TYPE_CHECKING:
    from leafd.jetstream.context import Context

API: Final = "$JS.API."
TYPE: Final = "io.nats.jetstream.api.v1."


class Body(Enum):
    """The way in which an endpoint reads the request's body."""

    IGNORED = "ignored"
    PARSED = "parsed"  # empty is the request with its defaults
    IF_JSON = "if JSON"  # only looked at when it starts like an object or array
    REQUIRED = "required"  # empty is a bad request
    EMPTY = "empty"  # anything else is refused


class Check(Enum):
    """The checks before an endpoint's function runs; its `checks` are in the reference's order."""

    LEVEL = "level"
    ACCOUNT = "account"
    EMPTY = "empty"  # whether the body may be, or has to be, empty
    STREAM = "stream"
    THERE = "there"  # the consumer: without one there is no answer at all
    BODY = "body"


IN_ORDER: Final = (Check.LEVEL, Check.ACCOUNT, Check.EMPTY, Check.BODY)
BODY_FIRST: Final = (Check.EMPTY, Check.BODY, Check.LEVEL, Check.ACCOUNT)


class Lock(Enum):
    """The lock that an endpoint holds while it runs."""

    NONE = "none"
    STREAM = "stream"
    ACCOUNT = "account"


class Counted(Enum):
    """The answers of an endpoint that are in the statistics and in audit advisories."""

    ALL = "all"
    ERRORS = "errors"
    NONE = "none"


class Among(Enum):
    """The server that answers an endpoint, where several have JetStream together (elsewhere.py)."""

    STREAM = "stream"  # the one that has the stream; without a stream the one that was asked
    DECIDED = "decided"  # likewise, and the group of all servers decides on it
    PLACED = "placed"  # likewise; a new stream's server is chosen by what its configuration wants
    LEADER = "leader"  # the one that leads the group, about the streams of all
    NONE = "none"  # nobody


@dataclass(slots=True)
class Call:
    """One request on its way. asker: who sent it. everywhere: the answer is to be about
    the streams of all servers. Set by the endpoint: weight, what it costs to write the
    reply down (turns.py); size, the memory that it takes, where that may be much; reply_header, the header block for
    the reply; after, what goes on once it has been sent."""

    context: Context
    account: JetStreamAccount
    subject: str
    tokens: list[str]
    header: bytes
    body: bytes
    asker: Asker = SERVER
    everywhere: Everywhere | None = None
    weight: int = 0
    size: int = 0
    reply_header: bytes = b""
    after: Callable[[], Awaitable[None]] | None = None

    def name(self, index: int) -> str:
        """A token of the subject, counted behind $JS.API."""
        return self.tokens[index]

    def check_enabled(self) -> None:
        """10039 where the account has no JetStream."""
        if not self.account.enabled:
            raise errors.NOT_ENABLED_FOR_ACCOUNT.error()

    def stream(self, name: str) -> Stream:
        """The stream of that name, or 10059; 10194 when it could not be taken up at start."""
        found = self.account.streams.get(name)
        if name in self.account.aside:
            raise errors.STREAM_OFFLINE_REASON.error(err=self.account.aside[name].reason)
        if found is None:
            raise errors.STREAM_NOT_FOUND.error()
        return found

    def consumer(self, stream: Stream, name: str) -> Consumer:
        """The consumer of that name, or 10014; 10195 when it could not be taken up at start."""
        found = stream.consumers.get(name)
        if name in stream.aside:
            raise errors.CONSUMER_OFFLINE_REASON.error(err=stream.aside[name].reason)
        if found is None:
            raise errors.CONSUMER_NOT_FOUND.error()
        return found


Function = Callable[[Call, Any], Awaitable[dict[str, Any] | None]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One line of the table that @endpoint builds."""

    pattern: tuple[str, ...]
    type_name: str
    request: type[Struct] | None
    body: Body
    lock: Lock
    failed: dict[str, Any]
    checks: tuple[Check, ...]
    counted: Counted
    whole: bool
    among: Among
    function: Function

    def matches(self, tokens: list[str]) -> bool:
        """Whether the subject, split behind $JS.API, is this endpoint's."""
        if self.pattern[-1] == ">":
            if len(tokens) < len(self.pattern):
                return False
        elif len(tokens) != len(self.pattern):
            return False
        return all(want in ("*", ">", got) for want, got in zip(self.pattern, tokens, strict=False))


_ENDPOINTS: Final[dict[str, list[Endpoint]]] = {}


def endpoint(
    pattern: str,
    type_name: str,
    request: type[Struct] | None = None,
    *,
    body: Body = Body.IGNORED,
    lock: Lock = Lock.NONE,
    failed: dict[str, Any] | None = None,
    checks: tuple[Check, ...] = IN_ORDER,
    counted: Counted = Counted.ALL,
    whole: bool = False,
    among: Among = Among.STREAM,
) -> Callable[[Function], Function]:
    """Registers a function for subjects $JS.API.<pattern>.

    failed: members of an error's reply that are not omitted when empty. whole: the body is one JSON value, and unknown
    members of it are ignored.
    """

    def register(function: Function) -> Function:
        tokens = tuple(pattern.split("."))
        named = TYPE + type_name
        line = Endpoint(tokens, named, request, body, lock, failed or {}, checks, counted, whole, among, function)
        _ENDPOINTS.setdefault(tokens[0], []).append(line)
        return function

    return register


def find(tokens: list[str]) -> Endpoint | None:
    """The endpoint of a subject, split behind $JS.API."""
    for line in _ENDPOINTS.get(tokens[0], ()):
        if line.matches(tokens):
            return line
    return None


@dataclass(frozen=True, slots=True)
class Answer:
    """An endpoint's answer: the reply's members; counted: an entry in the statistics and an audit advisory; after: work
    that goes on once it has been sent."""

    members: dict[str, Any]
    header: bytes = b""
    weight: int = 0
    size: int = 0
    counted: bool = True
    error: bool = False
    after: Callable[[], Awaitable[None]] | None = None


async def answer(line: Endpoint, call: Call) -> Answer | None:
    """Runs one request through its endpoint. None: it is not to be answered."""
    if not call.account.enabled and call.context.neighbours.has_leafs(call.account.id):
        # The JetStream behind a leaf link may know this account; two answers would be one too many.
        return None
    try:
        members = await _run(line, call)
    except ApiError as error:
        return refusal(line, error)
    if members is None:
        return None
    counted = line.counted is Counted.ALL
    return Answer(
        {"type": line.type_name} | members, call.reply_header, call.weight, call.size, counted, after=call.after
    )


def refusal(line: Endpoint, error: ApiError) -> Answer:
    """The answer that says no."""
    members = {"type": line.type_name, "error": error.fields()} | line.failed
    return Answer(members, counted=line.counted is not Counted.NONE, error=error.counts)


async def _run(line: Endpoint, call: Call) -> dict[str, Any] | None:
    request: Struct | None = None
    held: trio.Lock | None = None
    try:
        # A large body is read elsewhere, and the requests behind it are begun meanwhile: they are to find it locked.
        taken = len(call.body) > WEIGHT_MAX
        if taken:
            held = await _take(line, call)
        for check in line.checks:
            if check in (Check.STREAM, Check.THERE) and not taken:
                taken = True
                held = await _take(line, call)
            if check is Check.BODY:
                request = await aside(len(call.body), _body, line, call)
            elif not _passes(check, line, call):
                return None
        if not taken:
            held = await _take(line, call)
        return await line.function(call, request)
    finally:
        if held is not None:
            held.release()


def _passes(check: Check, line: Endpoint, call: Call) -> bool:
    """Raises what is to be answered. False: nothing is."""
    if check is Check.LEVEL:
        check_level(call.header)
    elif check is Check.ACCOUNT:
        call.check_enabled()
    elif check is Check.EMPTY:
        _check_empty(line, call.body)
    elif check is Check.STREAM:
        call.stream(call.name(line.pattern.index("*")))
    elif check is Check.THERE:
        at = line.pattern.index("*")
        stream = call.account.streams.get(call.name(at))
        return stream is not None and call.name(at + 1) in stream.consumers
    return True


async def _take(line: Endpoint, call: Call) -> trio.Lock | None:
    """The lock that the endpoint wants, which is held when this returns."""
    if line.lock is Lock.ACCOUNT:
        await hold(call.account.lock)
        return call.account.lock
    return await _take_stream(line, call) if "*" in line.pattern else None


async def _take_stream(line: Endpoint, call: Call) -> trio.Lock | None:
    """Waits for what an earlier request is still making, and takes the stream's lock where the endpoint wants it.

    The first wildcard of a pattern is the stream's name in all endpoints, the second one the consumer's.
    """
    at = line.pattern.index("*")
    account, name = call.account, call.tokens[at]
    queued, key = call.context.catalogue.queued, (account.id, name)
    # Those that wait are begun a turn after the stream is there: one that comes in that turn is not to overtake them.
    if key in queued or (name not in account.streams and account.lock.locked()):
        queued[key] = queued.get(key, 0) + 1
        try:
            async with account.lock:
                pass
        finally:
            queued[key] -= 1
            if not queued[key]:
                del queued[key]
    stream = account.streams.get(name)
    if stream is None:
        return None
    if line.lock is Lock.STREAM:
        await hold(stream.lock)
        return stream.lock
    if line.pattern[at + 1 :] == ("*",) and call.tokens[at + 1] not in stream.consumers and stream.lock.locked():
        async with stream.lock:
            pass
    return None


def _check_empty(line: Endpoint, body: bytes) -> None:
    if line.body is Body.EMPTY and not is_empty(body):
        raise errors.NOT_EMPTY_REQUEST.error()
    if line.body is Body.REQUIRED and is_empty(body):
        raise errors.BAD_REQUEST.error()


def _body(line: Endpoint, call: Call) -> Struct | None:
    body = call.body
    if line.request is None:
        return None
    if line.body is Body.IF_JSON and body.lstrip(b" \t\r\n")[:1] not in (b"{", b"["):
        return line.request()
    try:
        if line.whole:
            return decode_whole(line.request, body) if body else line.request()
        return decode(line.request, body, strict=call.context.settings.strict)
    except JsonError as error:
        raise errors.INVALID_JSON.error(err=error) from None


def is_empty(body: bytes) -> bool:
    """True for an empty body, or an object without members."""
    if body in (b"", b"{}"):
        return True
    stripped = body.strip(b" \t\r\n")
    return stripped.startswith(b"{") and stripped.endswith(b"}") and not stripped[1:-1].strip(b" \t\r\n")
