"""The parts of its neighbours that this room needs, as protocols: mirrors and sources beside it, the daemon
above. Not here: the plane below, whose commands are its port (native_commands.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from leafd import native_types as t
from leafd.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from leafd.jetstream.catalogue import Group, JetStreamAccount, Stream
    from leafd.jetstream.models.stream import Placement, StreamConfig


class SourceStatus(Protocol):
    """How a mirror or source is doing. Times are ns that have passed, -1 = it never was."""

    @property
    def lag(self) -> int: ...
    @property
    def told_ns(self) -> int: ...
    @property
    def known(self) -> bool: ...
    @property
    def level_ns(self) -> int: ...
    @property
    def pace(self) -> float | None: ...
    @property
    def newest_ts(self) -> int: ...
    @property
    def mean_size(self) -> float | None: ...
    @property
    def active_ns(self) -> int: ...
    @property
    def sequence(self) -> int: ...
    @property
    def error(self) -> dict[str, Any] | None: ...
    @property
    def held(self) -> str: ...
    @property
    def put_back_ns(self) -> int: ...


class Asker(Protocol):
    """The sender of a request, with the rights of its login."""

    @property
    def author(self) -> str:
        """The author that a stream keeps, to look up rights later; empty: the author may do everything."""

    @property
    def far(self) -> bool:
        """Whether the request came by a leaf link, and so perhaps by a slow line."""

    def info(self) -> dict[str, Any]:
        """The asker as advisories name it."""

    async def denied(self, subjects: tuple[str, ...]) -> tuple[str, ...]:
        """The subjects among these, which may have wildcards, to which the asker may not publish."""


class Neighbours(Protocol):
    """The daemon's knowledge that this room lacks; daemon/neighbours.py wires it to links/ and accounts/."""

    def stream_changed(self, stream: Stream, last_sequence: int) -> None:
        """A stream was loaded, made or updated: its mirror or sources may be new. last_sequence: of the store, now."""

    def stream_led(self, stream: Stream, last_sequence: int, positions: dict[str, tuple[int, int]]) -> None:
        """This server leads a stream of several, whose sources have come so far: by their keys, sequence and stamp."""

    def stream_removed(self, stream: Stream) -> None:
        """A stream is gone with everything in it."""

    async def source_statuses(self, stream: int, slots: Sequence[int]) -> list[SourceStatus]:
        """How each slot is doing: 0 is the mirror, 1.. are the sources in the order of the configuration."""

    def asker(self, message: t.Message) -> Asker:
        """The sender of a request."""

    async def denied(self, stream: Stream, subjects: tuple[str, ...]) -> tuple[str, ...]:
        """The subjects among these to which the stream's author may not publish today, or about which that is not
        known."""

    def has_leafs(self, account: int) -> bool:
        """Whether leaf links are bound to the account: then another JetStream may answer in our place."""

    def lets_go(self, account: int, domain: str) -> str:
        """The traffic that the budget of the link to that domain allows: "all"; "normal", "high" or "none": bulk waits,
        or more; "": there is no budget."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The place that a new stream asks for. size: bytes that it reserves. replicas: servers that keep it."""

    cluster: str = ""
    tags: tuple[str, ...] = ()
    size: int = 0
    storage: str = ""
    replicas: int = 1


class Row(Protocol):
    """A stream in the table of all servers."""

    @property
    def config(self) -> Mapping[str, Any] | None:
        """The configuration, as it is written there."""

    @property
    def peers(self) -> tuple[int, ...]:
        """The servers that keep it."""


class Rows(Protocol):
    """The table of all servers."""

    @property
    def streams(self) -> Mapping[str, Mapping[str, Row]]:
        """The streams that are there, by account and name."""


class Placing(Protocol):
    """The servers of the group, and their table of all streams; servers are numbers. Methods raise ApiError."""

    own: int

    @property
    def table(self) -> Rows:
        """The streams of all servers."""

    @property
    def leader(self) -> int:
        """0: there is none."""

    @property
    def decides(self) -> bool:
        """Whether this server leads, and its table is whole."""

    async def soon(self, ready: Callable[[], object]) -> None:
        """Returns when that is so, or the group has had its leader, or none, for long."""

    def reaches(self, server: int) -> bool:
        """Whether that server is there."""

    def others(self) -> list[int]:
        """The servers that are there, without this one."""

    def choose(self, wanted: Wanted, *, stays: bool, but: Collection[int] = ()) -> int:
        """The server for a new stream. stays: this one, if it fits. but: none of these."""

    def patience(self, seconds: float) -> float:
        """How long to wait for what other servers take so long for near by, as far as these are."""

    async def server_of(self, account: str, name: str) -> int:
        """The server that has the stream, or led its group lately; 0: there is no such stream."""

    async def leads(self, stream: Stream) -> bool:
        """Whether this server leads the stream's group."""

    def heard_of_lead(self, account: str, name: str, server: int, *, leads: bool) -> None:
        """A server to which a request about a stream of several went leads it, or does not."""

    def config(self, account: str, name: str) -> StreamConfig | None:
        """The configuration of a stream, wherever it is."""

    def alternates(self, account: str, name: str) -> list[tuple[str, str]]:
        """A stream and those that mirror it, each with its cluster; none, if nothing does."""

    async def names(self, account: str, subject: str) -> list[str]:
        """The names of streams, in their order; with a subject, of those that it concerns."""

    async def claim(self, account: str, config: StreamConfig, created: int, author: str) -> None:
        """The stream is this server's, and nobody else's."""

    async def change(self, account: str, config: StreamConfig, created: int, author: str) -> None:
        """A stream of this server is like that from now on."""

    async def drop(self, account: str, name: str, created: int = 0) -> None:
        """The stream is deleted. created: of that one alone."""

    def group(self, account: str, name: str) -> Group | None:
        """The servers that are to keep the stream together; None: it is a server's alone."""

    async def join(self, stream: Stream) -> None:
        """This server takes its part in the stream's group. Raises PlaneError."""

    async def alone(self, stream: Stream, group: Group) -> None:
        """The stream's group goes on here without the others, as that one. Raises PlaneError."""

    async def led(self, stream: Stream) -> None:
        """Returns when a server leads the stream's group, or none does for long."""

    async def begun(self, stream: Stream) -> None:
        """Returns when this server, if it leads the stream's group, has all that belongs to it; or not for long."""

    async def step_down(self, stream: Stream, wanted: Placement) -> None:
        """Another server leads the stream's group: the one that is preferred, or any that is like that."""

    async def without(self, stream: Stream, server: str, *, moves: bool = ...) -> None:
        """Another server keeps the stream in the place of the one of that name. moves: also one that this server has
        alone."""

    def copy_anew(self, stream: Stream) -> None:
        """The stream is damaged here: this server takes a copy of another one's."""

    async def call_off(self, stream: Stream) -> None:
        """The stream goes back to the servers that kept it before it began to move."""

    def keeper(self, stream: Stream, server: str) -> int:
        """The server of that name, which keeps the stream."""

    async def cluster_of(self, stream: Stream) -> dict[str, Any]:
        """The cluster member of the stream's info: who leads, and how the others are."""

    async def desired(self, stream: Stream) -> dict[str, Any] | None:
        """The change of the stream's servers that is under way, in the member of its info; None: there is none."""

    async def order(self, tokens: list[str], body: bytes) -> dict[str, Any]:
        """Does what the system account asks of the group; the members of the answer."""

    async def ask(
        self, server: int, verb: str, head: Mapping[str, Any], body: bytes, seconds: float = 0, *, exactly: bool = False
    ) -> tuple[dict[str, Any], bytes] | None:
        """The answer of another server; None: there is none. seconds: 0: as long as it is there; else so long at least,
        and longer where its answers are late; exactly: no longer."""

    def go_on(self, work: Callable[[], Awaitable[None]]) -> None:
        """Begins what follows an answer."""


class Everywhere(Protocol):
    """The streams of all servers (elsewhere.py)."""

    async def names(self, account: JetStreamAccount, subject: str) -> list[str]: ...
    async def infos(self, account: JetStreamAccount, names: list[str]) -> dict[str, dict[str, Any]]: ...
    async def add_others(self, account: JetStreamAccount, members: dict[str, Any]) -> None: ...


class Alone:
    """Neighbours of a server that has none: no links, unknown clients."""

    def stream_changed(self, stream: Stream, last_sequence: int) -> None:
        """Tells nobody."""

    def stream_led(self, stream: Stream, last_sequence: int, positions: dict[str, tuple[int, int]]) -> None:
        """Tells nobody."""

    def stream_removed(self, stream: Stream) -> None:
        """Tells nobody."""

    async def source_statuses(self, stream: int, slots: Sequence[int]) -> list[SourceStatus]:
        """Never heard of anything."""
        return [NEVER] * len(slots)

    def asker(self, message: t.Message) -> Asker:
        """The server itself, as logins do not exist here."""
        return SERVER

    async def denied(self, stream: Stream, subjects: tuple[str, ...]) -> tuple[str, ...]:
        """No subject is denied."""
        return ()

    def has_leafs(self, account: int) -> bool:
        """There are no leaves."""
        return False

    def lets_go(self, account: int, domain: str) -> str:
        """There is no link."""
        return ""


class _Server:
    """The server itself, for its configuration: everything is allowed."""

    author = ""
    far = False

    def info(self) -> dict[str, Any]:
        return {}

    async def denied(self, subjects: tuple[str, ...]) -> tuple[str, ...]:
        return ()


class _Never:
    lag = newest_ts = sequence = 0
    told_ns = level_ns = active_ns = -1
    known = False
    pace: float | None = None
    mean_size: float | None = None
    put_back_ns: int = -1
    error: dict[str, Any] | None = None
    held = ""


NEVER = _Never()
SERVER: Asker = _Server()
