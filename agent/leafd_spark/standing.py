"""One connection kept for many short questions, as a planner asks them.

Here: when to dial, when to dial anew, and which failures end a query at once. Not here: what is asked.

A query's planner asks many times a second for as long as the query runs; a connection of its own for each
question would cost the server more than the answers. The process that owns this is the only one that uses it: it is
never pickled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from .fetch import TROUBLE, ApiError, Patience, dial
from .options import Options
from .wire import Connection, NoResponders, Refused

Result = TypeVar("Result")


class Standing:
    def __init__(self, options: Options) -> None:
        self._options = options
        self._connection: Connection | None = None
        self._answered = False  # whether this JetStream ever answered

    def ask(self, work: Callable[[Connection], Result]) -> Result:
        """The result of `work`, tried again for as long as the options say when the connection fails."""
        patience = Patience(self._options.retry)
        while True:
            try:
                found = self._try(work)
            except TROUBLE as error:
                patience.wait(error)
            else:
                self._answered = True
                return found

    def _try(self, work: Callable[[Connection], Result]) -> Result:
        if self._connection is None:
            self._connection = dial(self._options)
        try:
            return work(self._connection)
        except ApiError:
            self._answered = True
            raise  # an answer like any other: the connection is as it should be
        except NoResponders as error:
            if not self._answered:
                raise Refused(self._nobody(error)) from error
            raise  # it was there: a server that restarts, a leaf that is away
        except BaseException:
            # Answers may be on their way that belong to nobody.
            self.close()
            raise

    def _nobody(self, error: NoResponders) -> str:
        said = f"nobody answers on {error}: "
        if self._options.api == "$JS.API":
            return said + "JetStream is not enabled on the server, or not for this account (or set option domain)"
        return said + "is there such a domain (option domain, apiPrefix), and may this account reach it?"

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
