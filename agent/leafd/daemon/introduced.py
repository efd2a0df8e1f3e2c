"""A server that has just come is asked nothing before it has told of itself: until then its answer may find no way
back, and the asker would wait for it as long as that server is there.

Not here: what servers tell (cluster/presence.py), questions and answers (cluster/letters.py).
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Final

import trio

if TYPE_CHECKING:
    from leafd.cluster.presence import Presence

TOLD_S: Final = 5.0
"""So long may it take."""
_LOOK_S: Final = 0.03


async def introduced(presence: Presence, linked: Callable[[], Container[int]], server: int) -> bool:
    """Whether it has; waits for that while there is a link to it."""
    with trio.move_on_after(TOLD_S):
        while presence.is_new(server) and server in linked():  # noqa: ASYNC110
            await trio.sleep(_LOOK_S)
    return not presence.is_new(server)
