"""The desk of a hub's boxes: commands that come by its socket, what reports tell of boxes, and the streams that follow
who is enrolled.

    socket --do()--> tokens, entries, retirement        who came or went --> streams that collect from boxes, soon after
    rows(), behind(), disks() --> boxz, /metrics, the status page

Not here: how a box logs in (boxes.py), the socket (enrol/port.py), how it is shown (monitor/boxes.py).
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import trio

from leafd import native_types as t
from leafd.auth.nkeys import PREFIX_USER, is_public_key
from leafd.auth.verdict import AUTHORIZATION_VIOLATION
from leafd.daemon.box_disks import BoxDisks, Disk
from leafd.enrol import port
from leafd.enrol.journal import NotWritten
from leafd.enrol.names import is_name
from leafd.enrol.register import Refused as NotEnrolled
from leafd.enrol.token import new_secret
from leafd.monitor.boxes import BoxRow

if TYPE_CHECKING:
    from leafd.daemon.boxes import Boxes
    from leafd.daemon.current import Current
    from leafd.guard import Guard
    from leafd.host.log import Log
    from leafd.links.leafs import Leafs
    from leafd.links.replicas import Replicas
    from leafd.native_plane import Plane

COLLECT_S: Final = 0.25
"""Boxes that come within so long are one change of the streams that collect from them, .."""
COLLECT_PART: Final = 2
""".. or within so many times what the last such change took, which grows with the sources that there are."""


class BoxDesk:
    """One server's. collect: has streams follow the enrolled boxes; its caller holds `changing`."""

    def __init__(
        self,
        plane: Plane,
        boxes: Boxes,
        leafs: Leafs,
        replicas: Replicas,
        current: Current,
        collect: Callable[[], Awaitable[None]],
        log: Log,
        guard: Guard,
    ) -> None:
        self._plane, self._boxes, self._leafs, self._replicas = plane, boxes, leafs, replicas
        self._current, self._collect, self._log, self._guard = current, collect, log, guard
        self._journal, self._register = boxes.journal, boxes.register
        self._disks = BoxDisks(plane)
        self._changed = trio.Event()

    def changed(self) -> None:
        """Another box is enrolled, or one is retired."""
        self._changed.set()

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Takes commands, and has streams follow who is enrolled. Cancel to end it."""
        async with trio.open_nursery() as nursery:
            await nursery.start(port.serve, self._journal.path.parent, self.do, self._guard)
            nursery.start_soon(self._boxes.keep_seen)
            task_status.started()
            took_s = 0.0
            while True:
                await self._changed.wait()
                await trio.sleep(max(COLLECT_S, COLLECT_PART * took_s))
                self._changed, begun = trio.Event(), trio.current_time()
                with self._guard.around("streams that collect from boxes"):
                    async with self._current.changing:
                        await self._collect()
                took_s = trio.current_time() - begun

    # ---- what reports tell

    def rows(self, pattern: str) -> Iterator[BoxRow]:
        """The boxes of a pattern, by name."""
        for name in self._register.names(pattern):
            box = self._register.boxes.get(name)
            if box is None:  # it was retired while this was read
                continue
            link = next((one for one in self._boxes.here(box.nkey) if one.bind is not None), None)
            rival = self._boxes.rivals.get(name)
            yield BoxRow(
                name,
                box.nkey,
                box.token,
                box.enrolled_s,
                link.status() if link is not None else None,
                link.opened_ns if link is not None else 0,
                self._boxes.seen_ns.get(name),
                rival.shown if rival is not None else None,
            )

    async def behind(self) -> Mapping[str, int | None]:
        """How far the copies here of each box's streams are behind."""
        block = self._current.config.enrol
        account = self._current.compiled.graph.account(block.account) if block is not None else None
        return await self._replicas.behind_each(account.id) if account is not None else {}

    async def disks(self, rows: Iterable[BoxRow]) -> Mapping[str, Disk | None]:
        """How much these boxes store, as far as they are linked and answer."""
        block = self._current.config.enrol
        account = self._current.compiled.graph.account(block.account) if block is not None else None
        links = {row.name: row.link.connection for row in rows if row.link is not None}
        return await self._disks.of(account.id, links) if account is not None and links else {}

    # ---- commands

    async def do(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Carries out a command that came over the socket. Raises Wrong."""
        verbs: dict[str, Callable[[Mapping[str, Any]], Any]] = {
            "token": self._make_token, "tokens": self._tokens, "revoke": self._revoke, "retire": self._retire,
            "add": self._add,
        }  # fmt: skip
        verb = verbs.get(str(asked.get("do")))
        if verb is None:
            raise port.Wrong("that is no command of this version")
        try:
            return dict(await verb(asked))
        except NotWritten as error:
            raise port.Wrong(str(error)) from error

    async def _make_token(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        pattern, uses, lasts_s = str(asked.get("pattern")), asked.get("uses"), asked.get("lasts_s")
        if not isinstance(uses, int) or not isinstance(lasts_s, int) or not 0 < lasts_s <= 10 * 366 * 86_400:
            raise port.Wrong("a token lasts up to ten years, and is good for a whole number of boxes")
        refused = self._register.token_refused(pattern, uses, time.time())
        if refused:
            raise port.Wrong(refused)
        secret = new_secret()
        expires_s = int(time.time()) + lasts_s
        await self._journal.keep(
            {"token": secret.id, "digest": secret.digest, "pattern": pattern, "uses": uses, "expires": expires_s}
        )
        block = self._current.config.enrol
        return {"token": secret.text, "id": secret.id, "expires": expires_s, "url": block.url if block else ""}

    async def _tokens(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        now_s = time.time()
        return {
            "tokens": [
                {
                    "id": one.id, "pattern": one.pattern, "uses": one.uses, "used": self._register.used.get(one.id, 0),
                    "expires": one.expires_s,
                }
                for one in self._register.tokens.values()
                if not self._register.is_spent(one, now_s)
            ]
        }  # fmt: skip

    async def _revoke(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        wanted = str(asked.get("id"))
        if wanted not in self._register.tokens:
            raise port.Wrong(f"there is no token {wanted[:100]!r}: `leafd enrol tokens` lists them")
        await self._journal.keep({"revoked": wanted})
        return {"revoked": wanted}

    async def _add(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        nkey, name = str(asked.get("nkey")), str(asked.get("name"))
        if not is_public_key(nkey, PREFIX_USER):
            raise port.Wrong(f"{nkey[:100]!r} is no public key of a user (U...): is it whole?")
        if nkey in self._current.compiled.leaf_policy.nkeys and nkey not in self._register.by_key:
            raise port.Wrong("the configuration has a user with that key")
        found = self._register.enter(nkey, name, time.time())
        if isinstance(found, NotEnrolled):
            raise port.Wrong(found.text)
        await self._journal.keep(found)
        self._log.info(f"Box {name} is enrolled: its key was entered", event="box_enrolled")
        self._changed.set()
        return {"added": name}

    async def _retire(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        name = str(asked.get("name"))
        box = self._register.boxes.get(name) if is_name(name) else None
        if box is None:
            raise port.Wrong(f"there is no box {name[:100]!r}: leafd boxes lists them")
        await self._journal.keep({"retired": name, "at": int(time.time())})
        links = self._boxes.here(box.nkey)
        theirs = {link.connection for link in links}
        theirs |= {link.connection for link in self._leafs.links() if link.box == box.nkey}  # of its doctor, too
        for connection in theirs:
            self._plane.close_connection(connection, AUTHORIZATION_VIOLATION, t.CloseReason.AUTHENTICATION)
        self._boxes.seen_ns.pop(name, None)
        self._boxes.rivals.pop(name, None)
        self._log.info(f"Box {name} is retired: its key is nobody's from now on", event="box_retired")
        self._changed.set()
        return {"retired": name, "linked": bool(links)}
