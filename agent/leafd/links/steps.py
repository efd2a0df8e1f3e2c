"""Orders of the machine of a mirror or source (replica.py): pure data, carried out by replicas.py.

Not here: when each is carried out (orders.py).
"""

from __future__ import annotations

from typing import Final

from leafd.links.epochs import Epochs
from leafd.native_codes import IngestAt
from leafd.native_ingests import NO_SPAN, Span
from leafd.records import dataclass

SILENCE_NS: Final = 5_000_000_000
"""So long nothing may come, at least."""
ANSWER_HEADERS: Final = (
    "Nats-Stream-Identity",
    "Leafd-Stream-Position",
    "Leafd-Heartbeat",
    "Leafd-New-Behind",
    "Leafd-Epochs",
)
"""The fields that an origin's answer may have besides."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Publish a consumer create; the answer belongs to this request number."""

    number: int
    subject: str
    header: bytes
    body: bytes
    deliver: str
    ahead: bool = False
    """Its answer comes before the first message: the deliver subject may be listened to before it."""


@dataclass(frozen=True, slots=True)
class Run:
    """Take up what the created consumer delivers."""

    deliver: str
    consumer: str
    last_sequence: int
    identity: str
    behind: int = 0
    """The origin sequence that a durable consumer was set back to: what it delivers is above."""
    begins: IngestAt = IngestAt.NEXT
    """The place where the consumer begins."""
    where: bool = False
    """The request asks in which cluster the origin's stream is."""
    look: bool = False
    """The message that was taken last is not there, and the origin did not say where its stream ends: it is asked."""
    pending: int = 0
    """Messages that wait at the origin; one of them was taken if the consumer begins at the last message again."""
    silence_ns: int = SILENCE_NS
    """So long nothing may come."""
    spared: bool = False
    """The origin tells of the consumer's end, and heartbeats are few: who is at the other end of the link is heard."""
    epochs: Epochs = Epochs()
    """The knowledge of its origin's epochs, to be stored before anything is taken."""
    span: Span = NO_SPAN
    """The span that may come before it is acknowledged."""


@dataclass(frozen=True, slots=True)
class Forget:
    """The origin was made anew: its sequences start over, the stored progress means nothing."""

    earlier: bytes = b"{}"
    """Positions in the streams that it was before, to be stored first (earlier.py)."""


@dataclass(frozen=True, slots=True)
class PutBack:
    """The origin was put back from an old copy, which ends at `ends`; the consumer that was made begins at the wrong
    place, and another one is asked for."""

    consumer: str
    ends: int


@dataclass(frozen=True, slots=True)
class Moves:
    """The origin's epochs tell that it was put back from an old copy, or that it is again what it was before that: of
    what it has now, `stands` was taken last, and not `had`."""

    consumer: str
    had: int
    stands: int


@dataclass(frozen=True, slots=True)
class Rewind:
    """The consumer that was made begins too late: more is new at an origin that was put back than its stamps tell. Or
    it may begin too late: it is asked for once more, by what its origin can tell."""

    consumer: str


@dataclass(frozen=True, slots=True)
class Back:
    """The origin is a stream again that it was before the last one, and was taken so far."""

    last_sequence: int


@dataclass(frozen=True, slots=True)
class Renewed:
    """The origin of a mirror is another stream than the one that was taken up to there. What it stores behind that
    sequence is taken, as nats-server does."""

    last_sequence: int


Order = Ask | Run | Forget | PutBack | Moves | Rewind | Back | Renewed
