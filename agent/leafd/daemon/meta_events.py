"""Events of the group of all servers, in the system account: which server leads it from now on, and that one was taken
out of it, which that one tells by itself, as at nats-server.

    this server leads                               --> DOMAIN.LEADER_ELECTED
    the table keeps this server's disk out now      --> SERVER.REMOVED

Only a configuration with `meta_size` imports this. Not here: events of streams' groups (jetstream/group_events.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from leafd.cluster.council import banned_row
from leafd.cluster.founding import Disk
from leafd.gojson import dump
from leafd.gotime import format_time, now_ns
from leafd.jetstream.advisories import unique
from leafd.native_meta import shown_peer

if TYPE_CHECKING:
    from leafd.daemon.current import Current
    from leafd.daemon.meta_group import MetaGroup
    from leafd.monitor.facts import Facts
    from leafd.native_plane import Plane

_ADVISORY: Final = "$JS.EVENT.ADVISORY."
_TYPE: Final = "io.nats.jetstream.advisory.v1."


class MetaEvents:
    """Tells what becomes of the group. facts: how this server names itself."""

    def __init__(self, plane: Plane, meta: MetaGroup, current: Current, facts: Facts) -> None:
        self._plane, self._meta, self._current, self._facts = plane, meta, current, facts
        self._out: bool | None = None
        """Whether this server's disk is kept out; None: no table was seen yet."""
        meta.on_lead.append(self._lead)
        meta.on_rows.append(self._look_for_own)

    def _lead(self) -> None:
        report = self._meta.report("")
        own = {"name": self._facts.name, "current": True, "active": 0, "peer": shown_peer(self._meta.peer)}
        members = {"leader": shown_peer(self._meta.peer), "replicas": [*report.get("replicas", ()), own]}
        self._tell("DOMAIN.LEADER_ELECTED", "domain_leader_elected", members)

    def _look_for_own(self, rows: Mapping[bytes, tuple[int, bytes]], _applied: int) -> None:
        before, self._out = self._out, banned_row(Disk(*self._meta.disk)) in rows
        if self._out and before is False:
            about = {"server": self._facts.name, "server_id": self._facts.server_id}
            self._tell("SERVER.REMOVED", "server_removed", about)

    def _tell(self, subject: str, kind: str, members: dict[str, Any]) -> None:
        system = self._current.account(self._meta.system)
        if system is None or not self._plane.advised():
            return
        event = {"type": _TYPE + kind, "id": unique(), "timestamp": format_time(now_ns())} | members
        event["cluster"] = self._facts.cluster
        if self._facts.domain:
            event["domain"] = self._facts.domain
        self._plane.publish(system.id, _ADVISORY + subject, dump(event))
