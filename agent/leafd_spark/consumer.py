"""A consumer made for one reading: without acknowledgements, in memory, of one replica, gone soon after its reader.

Here: making one, asking it for messages, what it says beside them, removing it. Not here: what becomes
of the messages (`reader`, `sizes`), and the ways without a consumer.

One that pushes costs a server a sixth less a message than one that is pulled from. It sends to a subject that its
reader subscribed to, and waits for answers to its requests for flow control ($JS.FC.>), so that no more than 32 MB
are on their way. Where the API belongs to another account the deliveries would have nobody to go to: `bound` says so.
"""

from __future__ import annotations

import json
import random
import time
from typing import Any

from leafd.wire_client import Message, frame_publish, header_of

from .fetch import api
from .options import Options
from .wire import Connection, WireError

IDLE_NS = 30_000_000_000  # after this the server removes a consumer that a killed task left behind
PULL_NS = 5_000_000_000  # how long a pull waits for messages
HEARTBEAT_NS = 1_000_000_000  # of one that pushes: how soon it says that there is nothing more
STALLED_MAX = 3.0  # seconds for which an answer to a request for flow control may go unheard
NO_MORE = (404, 408)  # a pull ended with fewer messages than it asked for
IDLE = 100  # a heartbeat, or a request for flow control, which is one with a reply subject


class NoPush(Exception):
    """Deliveries or the answers to their flow control do not get through: this user has to pull."""


class Consumer:
    """Named before it is made, so that it can be removed also if the answer to its making did not come."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self.name = f"spark_{random.getrandbits(64):016x}"
        self.pending = 0  # messages that it had when it was made
        self._answered = ("", 0.0)  # the last request for flow control, and when we did

    def make(self, connection: Connection, first: int, *, headers_only: bool = False, target: str = "") -> None:
        """From that sequence on. With a target it pushes there, and nothing must be awaited on this connection then
        but the answer: deliveries may come before it."""
        options = self._options
        config: dict[str, Any] = {
            "name": self.name,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": first,
            "ack_policy": "none",
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": IDLE_NS,
        }
        if headers_only:
            config["headers_only"] = True
        if target:
            config |= {"deliver_subject": target, "flow_control": True, "idle_heartbeat": HEARTBEAT_NS}
        endpoint = f"CONSUMER.CREATE.{options.stream}.{self.name}"
        if len(options.subjects) == 1:
            config["filter_subject"] = options.subjects[0]
            endpoint += f".{options.subjects[0]}"
        elif options.subjects:
            config["filter_subjects"] = list(options.subjects)
        answer = api(connection, options, endpoint, {"stream_name": options.stream, "config": config})
        self.pending = int(answer["num_pending"])
        if target and not answer.get("push_bound"):
            raise NoPush("the server knows nobody who would hear the deliveries")

    def remove(self, connection: Connection) -> None:
        api(connection, self._options, f"CONSUMER.DELETE.{self._options.stream}.{self.name}", {})

    # -- pulling ----------------------------------------------------------

    def pull(self, connection: Connection, size: int) -> int:
        """Ask for so many messages more."""
        # It ends before we give the connection up.
        body = {"batch": size, "expires": min(PULL_NS, int(self._options.timeout * 1e9 / 2))}
        subject = self._options.subject_of(f"CONSUMER.MSG.NEXT.{self._options.stream}.{self.name}")
        connection.publish_request(subject, json.dumps(body).encode())
        return size

    # -- being pushed to --------------------------------------------------

    def goes_on(self, connection: Connection, status: Message) -> bool:
        """Whether more may come after a message that is no delivery; False if there is nothing more now."""
        if status.status != IDLE:
            raise WireError(f"a consumer sent {status.headers[:80]!r}")
        asked = status.reply or header_of(status.headers, b"Nats-Consumer-Stalled").decode()
        if not asked:
            return False
        now = time.monotonic()
        if asked != self._answered[0]:
            self._answered = (asked, now)
        elif now - self._answered[1] > STALLED_MAX:
            raise NoPush("answers to flow control are not heard")
        connection.send(frame_publish(asked, "", b"", b""))
        return True


def pull_ended(status: Message) -> None:
    """Ends a pull when there is nothing more; any other status is raised."""
    if status.status not in NO_MORE:
        raise WireError(f"a pull ended with {status.headers[:80]!r}")
