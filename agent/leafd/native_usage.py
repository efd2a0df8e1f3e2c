"""Commands that ask about very many streams at once: what they hold together, and the counters of each.

A hub of thousands of boxes is asked for its metrics every few seconds: thousands of questions to the plane, each a turn
of both threads, are tens of milliseconds of processor time. What does not live here: one stream's state with its lists
(native_commands.py).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from leafd.native import abi, layout
from leafd.native_stats import StateRow
from leafd.native_submits import Submits


class Usage(Submits):
    """Those commands."""

    async def streams_bytes(self, streams: Sequence[int]) -> int:
        """How many bytes these hold together. One that there is not holds none."""
        found = 0
        for begin in range(0, len(streams), abi.USAGE_STREAMS_MAX):
            some = streams[begin : begin + abi.USAGE_STREAMS_MAX]
            body = struct.pack(f"={len(some)}I", *some)
            found += (await self._request("STREAM_BYTES", "counting the bytes of streams", body=body)).arg
        return found

    async def streams_states(self, streams: Sequence[int]) -> list[StateRow | None]:
        """The counters of each. None: it is not there, or its first message is still looked for, and stream_state()
        waits for that."""
        found: list[StateRow | None] = []
        for begin in range(0, len(streams), abi.USAGE_STATES_MAX):
            some = streams[begin : begin + abi.USAGE_STATES_MAX]
            body = struct.pack(f"={len(some)}I", *some)
            done = await self._request("STREAM_BYTES", "reading the states of streams", body=body, arg=1)
            for values in layout("stream_state_t").tuples(done.payload):
                row = StateRow._make(values)
                found.append(None if row.consumers == abi.STATE_UNKNOWN else row)
        return found
