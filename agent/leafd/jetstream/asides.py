"""The assets that are stored and cannot be served: each keeps its name and its data until it is deleted, with the
reason.

    a definition that cannot be read or taken up    is aside under the name that it has, as far as that can be read
    one that damage took                            is known by its name alone, which is kept apart (RECORD_LOST)
    a stream of which not even the name is left     is known by its state, and aside under a name that stands for it

No stored definition ends a start, whatever is wrong with it. What could not be read at the moment, or found no memory,
is asked for again before. Not here: what requests are told of them (registry.py, streams.py, consumers.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import trio

from leafd import native_types as t
from leafd.jetstream.catalogue import Aside, Catalogue, Stream, names_in
from leafd.native import abi
from leafd.native_commands import Commands
from leafd.operator_log import Log
from leafd.quoting import printable, quoted

LOST_STREAM: Final = t.PlaneError(
    t.Status.CORRUPT, "its definition was damaged in all places that have it; its messages are kept and not served"
)
LOST_CONSUMER: Final = t.PlaneError(
    t.Status.CORRUPT, "its definition was damaged in all places that have it; its position is kept"
)

_PAUSES: Final = (0.05, 0.1, 0.2, 0.4, 0.8)  # in seconds
_Taken = TypeVar("_Taken")


async def insisted(put: Callable[..., Awaitable[_Taken]], *arguments: Any, **more: Any) -> _Taken:
    """The result of `put`, which is called again, a few times, where it fails by a cause that may pass in a moment."""
    for pause in _PAUSES:
        try:
            return await put(*arguments, **more)
        except t.PlaneError as error:
            if error.status not in (t.Status.IO, t.Status.NO_MEMORY):
                raise
        await trio.sleep(pause)
    return await put(*arguments, **more)


class Asides:
    """Puts streams and consumers aside, and those first whose definitions are lost."""

    def __init__(self, catalogue: Catalogue, log: Log) -> None:
        self._catalogue = catalogue
        self._log = log
        self._streams: dict[int, bytes] = {}
        self._consumers: dict[tuple[int, int], bytes] = {}

    def read(self, plane: Commands, streams: set[int]) -> None:
        """Reads the records of lost definitions; streams: those that have a definition. Raises PlaneError."""
        for key, names in plane.records(t.Record.LOST):
            numbers = [int.from_bytes(key[at : at + 4], "big") for at in range(1, len(key), 4)]
            if key[:1] == bytes([t.Record.STREAM]):
                self._streams[numbers[0]] = names
            elif key[:1] == bytes([t.Record.CONSUMER]) and len(numbers) == 2:
                self._consumers[numbers[0], numbers[1]] = names
        for key, _ in plane.records(abi.LOOK_STATE):
            number = int.from_bytes(key, "big")
            if number not in streams:
                self._streams.setdefault(number, b"")
        for number in self._streams:
            self._catalogue.keep_ids(stream=number)
        for _, number in self._consumers:
            self._catalogue.keep_ids(consumer=number)

    def accounts(self) -> set[str]:
        """The accounts that have lost streams which have not been reported yet."""
        return {names_in(names)[0] for names in self._streams.values()} - {""}

    def settle(self) -> None:
        """Puts aside what is lost, of the accounts and streams that are known by now."""
        for number, names in list(self._streams.items()):
            account = self._catalogue.by_name.get(names_in(names)[0])
            if not names or (account is not None and account.enabled):
                del self._streams[number]
                self.stream(number, names, LOST_STREAM)
        for (stream, number), names in list(self._consumers.items()):
            owner = self._catalogue.stream(stream)
            if owner is not None:
                del self._consumers[stream, number]
                self.consumer(owner, number, names, LOST_CONSUMER)

    def stream(self, stream_id: int, record: bytes, error: Exception) -> None:
        """Sets a stream aside: it stays on disk, and is not served."""
        reason = reason_of(error)
        account_name, name = names_in(record)
        account = self._catalogue.by_name.get(account_name)
        if account is None:
            able = [one for one in self._catalogue.accounts.values() if one.enabled]
            account = able[0] if len(able) == 1 else None
        if account is None:
            self._log.warning(f"stream number {stream_id} stays on disk unserved, its account is unknown: {reason}")
            return
        name = _aside_name(name, stream_id, {*account.streams, *account.aside})
        account.aside[name] = Aside(stream_id, reason, record)
        self._log.warning(
            f"stream {quoted(name)} of account {quoted(account.name)} stays on disk unserved: {reason}. "
            "Deleting the stream removes it for good",
            event="stream_set_aside",
            account=account.name,
            stream=name,
        )

    def consumer(self, owner: Stream, consumer_id: int, record: bytes, error: Exception) -> None:
        """Sets a consumer's record aside, as stream() does."""
        reason = reason_of(error)
        name = _aside_name(names_in(record)[1], consumer_id, {*owner.consumers, *owner.aside})
        owner.aside[name] = Aside(consumer_id, reason, record)
        owner.account.owners_aside.add(owner.name)
        self._log.warning(
            f"consumer {quoted(name)} of stream {quoted(owner.name)} stays on disk unserved: {reason}. "
            "Deleting the consumer removes it for good",
            event="consumer_set_aside",
            account=owner.account.name,
            stream=owner.name,
        )


def reason_of(error: Exception) -> str:
    """The reason, for the operator and for requests for the stream."""
    text = str(error) if isinstance(error, t.PlaneError) else f"{type(error).__name__}: {error}"
    return printable(text, 200)


def _aside_name(name: str, number: int, taken: set[str]) -> str:
    """A name that requests can carry: its own, or one that stands for it."""
    usable = name.isprintable() and name.isascii() and not set(name) & set(" .*>/\\")
    return name if name and usable and name not in taken else f"unreadable-{number}"
