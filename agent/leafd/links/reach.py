"""One attempt to reach a hub, with what is known of it from the last time.

    status.place       where the last connection went to: it is dialled when its name is not resolved
    status.echoes      its machine answers to echo requests, so these find a contact, too

Not here: the packets (dialling.py, echo.py), when the next attempt is (leafs.py, redial.py).
"""

from __future__ import annotations

from functools import partial

import trio

from leafd.guard import Guard
from leafd.links import dialling, echo
from leafd.links.addresses import place_of, split_url
from leafd.links.link import RemoteStatus
from leafd.links.ways import Ways


async def connected(status: RemoteStatus, ways: Ways, url: str) -> trio.SocketStream | None:
    """The stream to a hub; None: there was news of the machine's ways or of the hub's machine, and the next attempt may
    get through. Raises what dialling.connect() raises."""
    stream = await ways.unless_news(partial(_unless_heard, status, url))
    if stream is None:
        status.hinted = status.attempts
    else:
        status.place, status.place_of = (stream.socket.family, stream.socket.getpeername()), place_of(url)
    return stream


async def _unless_heard(status: RemoteStatus, url: str) -> trio.SocketStream | None:
    host, port, _, _ = split_url(url)
    remote, number, alone = status.remote, status.attempts - status.hinted, status.servers.alone
    place = status.place if alone and status.place_of == place_of(url) else None
    echoes = status.echoes and place is not None
    patience = dialling.patience(remote.dial_s, number, alone=alone, echoes=echoes)
    dial = partial(dialling.connect, host, port, remote.proxy, patience, place)
    if place is None or not patience.echo_s:
        return await dial()
    found = await echo.unless_heard(place, patience.echo_s, dial)
    if isinstance(found, echo.Heard):
        status.echoes = found is echo.Heard.AGAIN
        return None
    return found


async def learn_echoes(status: RemoteStatus, guard: Guard) -> None:
    """While there is a link: whether its machine answers."""
    with guard.around("asking a hub's machine for an echo"):
        if status.place is not None and status.servers.alone and not status.remote.dial_s:
            status.echoes = await echo.answers(status.place)
