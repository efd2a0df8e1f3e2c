"""The nouns of a plan: what exists, and the steps. Not here: deciding (plan.py, fit.py)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any, Final

from leafd.declared.assets import Asset
from leafd.gotime import parse_time
from leafd.jetstream.catalogue import JetStreamLimits, Settings
from leafd.jetstream.models.consumer import ConsumerConfig
from leafd.jetstream.models.stream import StreamConfig
from leafd.records import dataclass

Key = tuple[str, ...]
"""The key of an asset."""


class Action(StrEnum):
    """The kind of a step."""

    CREATE = "create"
    UPDATE = "update"
    REPLACE = "replace"
    """Removed and made anew: the change is one that no update can make."""
    REMOVE = "remove"
    NOTHING = "nothing"


DELETED: Final = (Action.REMOVE, Action.REPLACE)
MADE: Final = (Action.CREATE, Action.UPDATE, Action.REPLACE)


@dataclass(frozen=True, slots=True)
class Change:
    """A key of a configuration with its two values, as they may be shown."""

    key: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Step:
    """One step for a stream or a consumer. loss: what that would lose. error: why the API would refuse it."""

    asset: Asset
    action: Action
    changes: tuple[Change, ...] = ()
    loss: str = ""
    error: str = ""

    @property
    def refused(self) -> str:
        """Why it is not done, or nothing."""
        if self.error:
            return self.error
        if self.loss and not self.asset.may_lose:
            return f"{self.loss}; allow_data_loss: true in its block would allow that"
        return ""


@dataclass(frozen=True, slots=True)
class PresentStream:
    """A stream that is there, with the counters that tell what a change would lose. first_ts: None where it is not
    known. asked: its servers have told of it; else there is its configuration alone."""

    config: StreamConfig
    messages: int = 0
    bytes: int = 0
    subjects: int = 0
    first_ts: int | None = None
    consumers: dict[str, ConsumerConfig] = field(default_factory=dict)
    asked: bool = True


def told_stream(config: StreamConfig, state: dict[str, Any], consumers: dict[str, ConsumerConfig]) -> PresentStream:
    """The stream as an answer of the API or a report tells of it. state: that member of it."""
    return PresentStream(
        config,
        state.get("messages", 0),
        state.get("bytes", 0),
        state.get("num_subjects", 0),
        parse_time(state["first_ts"]) if "first_ts" in state else None,
        consumers,
    )


@dataclass(frozen=True, slots=True)
class Present:
    """An account's JetStream as it is. elsewhere: bytes that other accounts reserve, by kind of storage."""

    streams: dict[str, PresentStream] = field(default_factory=dict)
    settings: Settings = Settings("")
    limits: JetStreamLimits = JetStreamLimits()
    elsewhere: Mapping[str, int] = field(default_factory=dict)


def reserved_by(configs: Iterable[StreamConfig], storage: str) -> int:
    """Bytes that these streams reserve of one kind of storage."""
    return sum(max(one.max_bytes, 0) for one in configs if one.storage == storage)
