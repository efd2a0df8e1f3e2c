"""Other clusters that ask for more than there is room for, and one that does not read, at a server with little memory.

Not here: the same of servers of the own cluster (test_route.py), lines that are wrong (test_gateway.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from dataclasses import replace

from leafd.links.gateway import Join, Machine

from tests import servers
from tests.hostile.test_gateway import is_well, published
from tests.hostile.test_route import SMALL, SUBJECTS, outlasted
from tests.interop.test_gateway_contract import OWN
from tests.rig.ends import End, all_closed
from tests.rig.reports import report
from tests.rig.waiting import PATIENCE_S, eventually

CONFIG = SMALL + 'gateway { name: B, listen: "127.0.0.1:{gateway_port}", gateways: [ {gateways} ] }\n'


@contextlib.contextmanager
def dialling(*names: str) -> Iterator[tuple[servers.Server, list[End[Machine]]]]:
    """A server, and the clusters that it has dialled: what it sends them, and what they tell it, goes that way."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(all_closed())
        listeners = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in names]
        ports = [one.getsockname()[1] for one in listeners]
        remotes = (f'{{ name: {n}, url: "nats://127.0.0.1:{p}" }}' for n, p in zip(names, ports, strict=True))
        server = stack.enter_context(servers.running(servers.LEAFD, CONFIG, gateways=", ".join(remotes)))
        ends = []
        for name, listener, port in zip(names, listeners, ports, strict=True):
            listener.settimeout(PATIENCE_S)
            place = f"127.0.0.1:{port}"
            own = replace(OWN, name=name, server_id=f"N{name}", server_name=f"far{name}", url=place, urls=(place,))
            end = End(listener.accept()[0], Machine(own))
            assert isinstance(end.shake(), Join)
            ends.append(end)
        yield server, ends


def test_a_million_subjects_of_another_cluster_have_a_share_of_the_memory() -> None:
    """Half of them in an account that there is not. What is over the share is refused, and logged; clients are served,
    and with the connection's end the memory is free again."""
    with dialling("Z") as (server, (end,)):
        for account in (b"A", b"NONE"):
            for first in range(0, SUBJECTS // 2, 10_000):
                end.send(b"".join(b"RS+ %b s.%d\r\n" % (account, n) for n in range(first, first + 10_000)))
        end.ping()
        assert "subscriptions have all of their share of memory_limit" in server.log
        assert 1_000 < report(server, "subsz")["num_subscriptions"] < SUBJECTS // 2
        asyncio.run(published(server, "s.1"))
        assert b"RMSG A s.1 5" in end.until(b"RMSG A s.")
        is_well(server)
        end.close()
        eventually(lambda: report(server, "subsz")["num_subscriptions"] < 1_000)


def test_a_cluster_that_does_not_read_holds_up_nobody() -> None:
    """What waits for it is bounded, and it is closed; another cluster and a client get everything meanwhile."""
    with dialling("Y", "Z") as (server, ends):
        for end in ends:
            end.send(b"RS+ A x\r\n")
            end.ping()
        asyncio.run(outlasted(server, ends[1]))
        eventually(lambda: list(report(server, "gatewayz")["outbound_gateways"]) == ["Z"])
        is_well(server)
