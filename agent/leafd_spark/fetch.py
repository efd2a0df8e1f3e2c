"""Requests of the JetStream API, and for how long one goes on trying.

Here: dialling, a request and its answer, which failures may pass and which are final. Not here: bytes
(`wire`), reading ranges (`reader`), what only a stream's leader knows (`leader`).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any, TypeVar

from .options import Options
from .ranges import StreamState
from .wire import Connection, NoResponders, Refused, WireError

CLIENT_NAME = "spark-nats"
RETRY_FIRST = 0.05  # seconds before the first attempt to dial anew; then it doubles
RETRY_MAX = 2.0

DEFAULT_API = "$JS.API"

Result = TypeVar("Result")


class ApiError(Exception):
    """JetStream refused a request."""

    def __init__(self, subject: str, error: dict[str, Any]) -> None:
        super().__init__(f"{subject}: {error.get('description')} ({error.get('err_code')})")
        self.code = int(error.get("code", 0))
        self.err_code = int(error.get("err_code", 0))

    NO_MESSAGE = 10037
    NOT_ENABLED = (10039, 10076)  # JetStream, for this account or on this server

    @property
    def may_pass(self) -> bool:
        """Whether the server has trouble (no leader, no resources), rather than a reason."""
        return self.code >= 500 and self.err_code not in self.NOT_ENABLED


def dial(options: Options) -> Connection:
    return Connection(options.addresses, options.login, CLIENT_NAME, options.timeout)


def api(connection: Connection, options: Options, endpoint: str, body: dict[str, Any]) -> dict[str, Any]:
    subject = options.subject_of(endpoint)
    answer = connection.request_json(subject, body)
    if "error" in answer:
        raise ApiError(subject, answer["error"])
    return answer


def stream_state(connection: Connection, options: Options) -> StreamState:
    return StreamState.of(api(connection, options, f"STREAM.INFO.{options.stream}", {}))


def sequence_at(connection: Connection, options: Options, instant: str) -> int | None:
    """The first message at or after an instant; None if there is none."""
    try:
        answer = api(connection, options, f"STREAM.MSG.GET.{options.stream}", {"start_time": instant})
    except ApiError as error:
        if error.code == 404:
            return None
        raise
    return int(answer["message"]["seq"])


class Patience:
    """How long to go on trying; any progress renews it."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.renew()

    def renew(self) -> None:
        self._deadline = time.monotonic() + self._seconds
        self._pause = RETRY_FIRST

    def wait(self, error: Exception) -> None:
        """Pause before the next attempt, or raise what it failed of."""
        final = isinstance(error, Refused) or (isinstance(error, ApiError) and not error.may_pass)
        if final or time.monotonic() >= self._deadline:
            raise error
        time.sleep(self._pause * random.uniform(0.5, 1.0))
        self._pause = min(self._pause * 2, RETRY_MAX)


TROUBLE = (WireError, NoResponders, ApiError, OSError)
"""Errors that another attempt may not meet again; `Patience` knows which of them are final."""


def with_connection(options: Options, work: Callable[[Connection], Result]) -> Result:
    """Do something short with a connection of its own, again if the connection fails."""
    patience = Patience(options.retry)
    while True:
        try:
            with dial(options) as connection:
                return work(connection)
        except TROUBLE as error:
            patience.wait(error)
