"""A resolver's directory in which the JWT of one account cannot be read: nobody is told that there is no such account.

A directory lies in the file's place, which no login of root reads either. Not here: what resolvers do with files that
can be read (test_resolver.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.jwt_peer import Peer, close_all
from tests.interop.test_resolver import full
from tests.jwts import Account, Operator
from tests.rig.waiting import eventually
from tests.servers import LEAFD, Server, ServerDied, running


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    close_all()


def place(server: Server, account: Account) -> Path:
    return server.directory / "jwt" / f"{account.public}.jwt"


def spoil(server: Server, account: Account) -> None:
    """It was stored, and cannot be read any more. A start knows the name alone."""
    server.stop()
    place(server, account).unlink(missing_ok=True)
    place(server, account).mkdir()


def test_another_server_is_not_told_that_the_account_does_not_exist() -> None:
    """LOOKUP has no answer, PACK has the others, the log says which file it is; and the account is there again with
    its file."""
    operator = Operator()
    lost, other, nobody = operator.account("lost"), operator.account("other"), Operator().account("nobody")
    with running(LEAFD, full(operator)) as server:
        spoil(server, lost)
        place(server, other).write_text(other.token())
        server.start()
        assert Peer(server, lost.user("u")).lines()[-1] == "closed"
        system = Peer(server, operator.system.user("s"))
        system.say("SUB _INBOX.* 1", f"PUB $SYS.REQ.ACCOUNT.{lost.public}.CLAIMS.LOOKUP _INBOX.lost 0\r\n")
        system.say(f"PUB $SYS.REQ.ACCOUNT.{nobody.public}.CLAIMS.LOOKUP _INBOX.nobody 0\r\n")
        system.say("PUB $SYS.REQ.CLAIMS.PACK _INBOX.pack 0\r\n")
        heard = [system.message() for _ in range(4)]
        assert [one.payload for one in heard if one.subject == "_INBOX.nobody"] == [b""]
        packed = [one.payload for one in heard if one.subject == "_INBOX.pack"]
        assert {one[:56].decode() for one in packed[:-1]} == {other.public, operator.system.public}
        assert packed[-1] == b""
        for words in (f"Account {lost.public} could not be looked up: ", "resolver: "):
            assert f"{words}{lost.public}.jwt: it is a directory and no file" in server.log
        place(server, lost).rmdir()
        token = lost.token()
        place(server, lost).write_text(token)
        eventually(lambda: Peer(server, lost.user("u")).lines() == [])
        assert [token.encode()] == system.answers(f"$SYS.REQ.ACCOUNT.{lost.public}.CLAIMS.LOOKUP")


def test_a_start_that_cannot_read_the_system_account_says_so_in_a_line() -> None:
    operator = Operator()
    with running(LEAFD, full(operator)) as server:
        spoil(server, operator.system)
        (server.directory / "log").write_text("")
        with pytest.raises(ServerDied, match=rf"resolver: {operator.system.public}\.jwt: it is a directory"):
            server.start()
        assert "Traceback" not in server.log
