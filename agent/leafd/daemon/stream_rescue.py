"""Streams of several servers whose majority is lost for good: this server goes on with them alone, and others join it.

    leafd cluster rescue-streams --> a file in the store's directory --> the next start of that server:
        of each stream that it names, once its group has had no leader for a while: the leader of all servers is asked
        the row has a new group of this disk alone --> what the log here has is carried out, and the group begins anew
        servers that are there take the lost ones' places; those that come back delete what they have of it first

What the lost servers agreed on without this one is lost. Nothing is done to a stream that has a leader, or of whose
disks more than half are there. The file goes when each stream was looked at; a start before that looks again.

Not here: the row (cluster/sharing.py), the group on this disk (native/group/survivor.c), the group of all servers
(rescue.py), the words of the command (cli/cluster_words.py).
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Container
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import trio

from leafd.daemon.stream_rows import shown
from leafd.files import read_file, sync_directory
from leafd.jetstream.errors import ApiError
from leafd.rescues import STREAMS as FILE

if TYPE_CHECKING:
    from leafd.daemon.meta_group import MetaGroup
    from leafd.daemon.replicas import Replicas
    from leafd.guard import Guard
    from leafd.host.log import Log
    from leafd.jetstream.catalogue import Stream

LEADERLESS_S: Final = 10.0
"""A group that can elect a leader has done so by then."""
LOOK_S: Final = 1.0
_SIZE_MAX: Final = 1 << 20
Ask = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


class _Everything(Container[str]):
    def __contains__(self, name: object) -> bool:
        return True


def names_in(content: bytes) -> Container[str]:
    """The streams that a file names; one with nothing in it: all. Raises ValueError."""
    if not content.strip():
        return _Everything()
    found = json.loads(content)
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise ValueError("no list of names")
    return found


class StreamRescue:
    """The streams that this start is to rescue. ask: the leader of all servers decides."""

    def __init__(self, folder: Path | None, meta: MetaGroup, replicas: Replicas, ask: Ask, log: Log) -> None:
        self._folder, self._meta, self._replicas, self._ask, self._log = folder, meta, replicas, ask, log

    async def run(self, guard: Guard) -> None:
        """Returns when there is nothing more to rescue."""
        with guard.around("the rescue of streams"):
            await self._run()

    async def _run(self) -> None:
        if self._folder is None or not (self._folder / FILE).exists():
            return
        try:
            names = names_in(read_file(self._folder / FILE, _SIZE_MAX))
        except (OSError, ValueError) as error:
            self._log.error(f"{self._folder / FILE} cannot be read, and no stream is rescued: {error}")
            return
        waiting = {stream.id: stream for stream in self._replicas.shared() if stream.name in names}
        began_s = trio.current_time()
        while waiting:
            await trio.sleep(LOOK_S)
            for stream in list(waiting.values()):
                if await self._is_done(stream, trio.current_time() - began_s):
                    del waiting[stream.id]
        try:
            (self._folder / FILE).unlink()
            sync_directory(self._folder)
        except OSError as error:
            self._log.error(f"{self._folder / FILE} cannot be removed, and is carried out again: {error.strerror}")

    async def _is_done(self, stream: Stream, waited_s: float) -> bool:
        if not self._replicas.has(stream) or await self._replicas.leader(stream):
            return True
        return waited_s >= LEADERLESS_S and await self._rescued(stream)

    async def _rescued(self, stream: Stream) -> bool:
        """False: nobody decides now."""
        assert stream.group is not None
        peer, disk = self._meta.disk
        about = {"account": stream.account.name, "name": stream.name, "created": stream.created}
        own = {"peer": peer, "disk": disk, "server": self._meta.named(peer), "group": stream.group.name}
        where = shown(stream.account.name, stream.name)
        try:
            said = await self._ask({"op": "alone", **about, **own})
        except ApiError as error:
            self._log.warning(f"{where} is not rescued yet: {error}")
            return False
        if "refused" in said:
            self._log.warning(f"{where} is not rescued: {said['refused']}")
        else:
            self._log.warning(
                f"{where} goes on with what this server has of it, as it was asked to: what the others had agreed on "
                "without it is lost, and they delete what they have when they come back"
            )
        return True
