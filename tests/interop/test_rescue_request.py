"""META.RESCUE, the request by which a nats-server's group goes on without its majority for minutes: each server of a
group refuses it in nats-server's words, or says what to do instead.

Not here: the rescue itself, by a command (test_meta_group.py).
"""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import nats.errors
import pytest

from tests import servers
from tests.interop.test_meta_group import L, R, group_at, led
from tests.interop.test_replicated_streams import same_at_both
from tests.rig.official import ask_all, connect, one_each
from tests.rig.waiting import eventually

SUBJECT = "$JS.API.META.RESCUE"
WRONG = (b"", b" { } ", b"x", b"[]", b'{"quorum_needed":"1"}', b'{"quorum_needed":0}', b'{"quorum_needed":3}')
RIGHT = b'{"quorum_needed":1}'
LONE = """
listen: "127.0.0.1:{port}"
server_name: lone
jetstream { store_dir: "{store}" }
accounts { SYS { users: [ {user: sys, password: sys} ] } }
system_account: SYS
"""


def by_name(answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The answers of the servers in the order of their names, without their ids."""
    assert all(len(one.pop("server_id")) == 56 for one in answers)
    return sorted(answers, key=lambda one: str(one["server"]))


def is_led_by_nobody(server: servers.Server) -> bool:
    """As far as it knows."""
    return "leader" not in group_at(server)


async def refused(made: list[servers.Server]) -> list[object]:
    """What is asked at the last server, while the group has a leader."""
    async with one_each(made[2:], "sys") as (system,):
        return [by_name(await ask_all(system, SUBJECT, body)) for body in (*WRONG, RIGHT)]


def test_a_rescue_that_may_not_be_is_refused_as_at_nats_servers(tmp_path: Path) -> None:
    """By each server, wherever it is asked for."""
    same_at_both(refused, tmp_path)


def test_a_rescue_by_a_request_is_refused_with_what_to_do_instead(tmp_path: Path) -> None:
    """A nats-server without its majority leads alone for minutes; here somebody has to choose the one that goes on."""

    async def asked(made: list[servers.Server]) -> list[dict[str, Any]]:
        async with one_each(made, "sys") as (system,):
            return by_name(await ask_all(system, SUBJECT, RIGHT, answers=1))

    for kind in (R, L):
        with led(kind, tmp_path) as made:
            for server in made[1:]:
                server.kill()
            eventually(partial(is_led_by_nobody, made[0]), partial(group_at, made[0]))
            if kind == R:

                def taken() -> dict[str, Any]:
                    """A nats-server on a busy machine refuses it for a moment more."""
                    (answer,) = asyncio.run(asked(made[:1]))
                    return answer if "prev_quorum" in answer else {}

                answer = eventually(taken, partial(group_at, made[0]))
                assert (answer["prev_quorum"], answer["new_quorum"]) == (2, 1)
            else:
                (answer,) = asyncio.run(asked(made[:1]))
                assert answer["error"]["err_code"] == 10224
                assert "`leafd cluster rescue`" in answer["error"]["description"]
                assert is_led_by_nobody(made[0])


@pytest.mark.parametrize("kind", [R, L])
def test_a_lone_server_answers_no_rescue(kind: str) -> None:
    """It has no group."""

    async def asked(server: servers.Server) -> None:
        system = await connect(server, "sys")
        with pytest.raises((nats.errors.TimeoutError, nats.errors.NoRespondersError)):
            await system.request(SUBJECT, RIGHT, timeout=1)
        await system.close()

    with servers.running(kind, LONE) as server:
        asyncio.run(asked(server))
