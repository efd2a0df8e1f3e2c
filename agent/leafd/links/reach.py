"""One attempt to reach a hub, with what is known of it from the last time.

    status.place       where the last connection went to: it is dialled when its name is not resolved
    status.source      where it came from
    status.echoes      its machine answers to echo requests, so these find a contact, too

Not here: the packets (dialling.py, echo.py), when the next attempt is (leafs.py, redial.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

import trio

from leafd.guard import Guard
from leafd.links import dialling, echo
from leafd.links.addresses import place_of, split_url
from leafd.links.link import RemoteStatus
from leafd.links.ways import Ways

Hold = Callable[[float], Awaitable[None]]
"""(the connection's round trip in seconds, 0: not known)"""


async def connected(
    status: RemoteStatus, ways: Ways, url: str, hold: Hold | None = None
) -> tuple[trio.SocketStream, str] | None:
    """The stream to a hub, and the address of its server: that one, or another one that was dialled at once. None:
    there was news of the machine's ways or of the hub's machine, and the next attempt may get through. hold: awaited
    before anything is said over the stream, if that begins at the address of this machine where the last one did. Where
    the machine has another address, the last one cannot go on. Raises what dialling.connect() raises."""
    found = await ways.unless_news(partial(_unless_heard, status, url))
    if found is None:
        status.hinted = status.attempts
    else:
        stream, at = found
        source = stream.socket.getsockname()[0]
        if hold is not None and source == status.source:
            await _held(stream, hold)
        status.source = source
        status.packets.connected(trio.current_time())
        status.place, status.place_of = (stream.socket.family, stream.socket.getpeername()), place_of(at)
    return found


async def _held(stream: trio.SocketStream, hold: Hold) -> None:
    try:
        await hold(dialling.round_trip_s(stream.socket))
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise


async def _unless_heard(status: RemoteStatus, url: str) -> tuple[trio.SocketStream, str] | None:
    remote, number, servers = status.remote, status.attempts - status.hinted, status.servers
    place = status.place if status.place_of == place_of(url) else None
    echoes = status.echoes and place is not None and servers.alone
    patience = dialling.patience(remote.dial_s, number, servers=servers.count, echoes=echoes)
    patience = replace(patience, packet=status.packets.size(trio.current_time()))
    if patience.together > 1 and remote.proxy is None:
        urls = servers.together(url, patience.together)
        stream, which = await dialling.connect_first([split_url(one)[:2] for one in urls], patience, place)
        return stream, urls[which]
    if remote.proxy is not None and not servers.alone:
        patience = dialling.Patience(patience.several_s, patience.several_s, packet=patience.packet)
    host, port, _, _ = split_url(url)
    dial = partial(dialling.connect, host, port, remote.proxy, patience, place if servers.alone else None)
    if not echoes or place is None or not patience.echo_s:
        return await dial(), url
    found = await echo.unless_heard(place, patience.echo_s, dial)
    if isinstance(found, echo.Heard):
        status.echoes = found is echo.Heard.AGAIN
        return None
    return found, url


async def learn_echoes(status: RemoteStatus, guard: Guard) -> None:
    """While there is a link: whether its machine answers."""
    with guard.around("asking a hub's machine for an echo"):
        if status.place is not None and status.servers.alone and not status.remote.dial_s:
            status.echoes = await echo.answers(status.place)
