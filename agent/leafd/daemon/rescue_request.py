"""The request to rescue the group of all servers, by which nats-server lowers a quorum for minutes:

    $JS.API.META.RESCUE    each server answers for itself, in the system account; {"quorum_needed": n}

What that server refuses is refused in its words. What it would carry out is refused, too: here a server goes on alone
from a start on, when somebody has decided at that server which one it is (rescue.py), and the answer says how.

Only a configuration with `meta_size` imports this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from leafd import native_types as t
from leafd.gojson import JsonError, decode, dump
from leafd.jetstream import errors
from leafd.jetstream.errors import ApiError
from leafd.jetstream.models.requests import MetaRescueRequest
from leafd.jetstream.registry import TYPE, is_empty
from leafd.jetstream.rules.versioning import check_level

if TYPE_CHECKING:
    from leafd.daemon.current import Current
    from leafd.daemon.meta_group import MetaGroup
    from leafd.monitor.facts import Facts
    from leafd.native_plane import Plane

SUBJECT: Final = "$JS.API.META.RESCUE"
INSTEAD: Final = (
    "choose one of the servers that are left, stop leafd there, run `leafd cluster rescue`, and start leafd again"
)


class RescueRequest:
    """Answers it. facts: how this server names itself."""

    def __init__(self, plane: Plane, meta: MetaGroup, current: Current, facts: Facts) -> None:
        self._plane, self._meta, self._current, self._facts = plane, meta, current, facts

    def begin(self) -> None:
        """From here on: requests at other servers come here, too."""
        if (system := self._current.compiled.graph.system) is not None:
            self._plane.subscribe(system.id, SUBJECT, self.take)

    def take(self, message: t.Message) -> bool:
        """Answers a request at once."""
        if message.reply:
            said = {"type": TYPE + "meta_rescue_response", "error": self._refused(message).fields()}
            about = {"server": self._facts.name, "server_id": self._facts.server_id}
            self._plane.publish(message.account, message.reply, dump(said | about))
        return False

    def _refused(self, message: t.Message) -> ApiError:
        try:
            check_level(message.header)
            if is_empty(message.payload):
                return errors.BAD_REQUEST.error()
            needed = decode(MetaRescueRequest, message.payload, strict=False).quorum_needed
        except JsonError as error:
            return errors.INVALID_JSON.error(err=error)
        except ApiError as error:
            return error
        return errors.CLUSTER_RESCUE.error(err=self._why_not(needed))

    def _why_not(self, needed: int) -> str:
        report: dict[str, Any] = self._meta.report("")
        if not 1 <= needed <= report["quorum_needed"]:
            return "raft: rescue quorum must be between 1 and current quorum"
        if self._meta.leader:
            return "raft: leader is known"
        if self._meta.part == "founding":
            return "raft: log is empty"
        return INSTEAD if self._meta.part == "member" else "raft: not a voting member"
