"""When a leaf's JWT is judged: at once, or by a thread (logins/leaf_logins.py)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import trio
from leafd.auth.operators import read_account, read_operators
from leafd.auth.policy import Policy
from leafd.auth.trust import Trust
from leafd.guard import Guard
from leafd.links.leaf import Later, Login
from leafd.links.link import Link
from leafd.logins.guesses import Guesses
from leafd.logins.leaf_logins import AT_ONCE_MAX, LeafLogins, LeafTerms

from tests.jwts import Account, Operator, User
from tests.rig.planes import Unwilling
from tests.rig.waiting import PATIENCE_S

NONCE = "SHvuptVUTR3Oa8s"
PEER = "127.0.0.1:4000"


class Graph:
    """Of accounts that may all do everything."""

    def account(self, name: str) -> Any:
        limits = SimpleNamespace(max_leafnodes=-1, max_payload=-1, max_subscriptions=-1)
        return SimpleNamespace(id=7, name=name, system=False, limits=limits)


def judged(account: Account, user: User, *, signs: str = NONCE, known: bool = True) -> list[Any]:
    """What authenticate() says, then, if that is Later, the verdict that comes."""
    found: list[Any] = []

    async def run() -> None:
        keys = read_operators((account.operator.token(),), ()).keys
        trust = Trust(keys, {account.key.public: read_account(account.token(), keys)} if known else {})
        terms = LeafTerms(Policy({}, {}, open=False, trust=trust), cast("Any", Graph()), 60.0)
        links = SimpleNamespace(judged=lambda link, login: found.append(login))
        proofs = Guesses(Guard(), patient=True)

        async def look_up(name: str) -> bool:
            found.append(name)
            return False

        logins = LeafLogins(
            Unwilling(), terms, cast("Any", None), Guard(), proofs, links=cast("Any", links), look_up=look_up
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(proofs.run)
            await nursery.start(logins.run)
            link = Link(1, PEER, cast("Any", None))
            said = logins.authenticate(link, dict(user.connect(signs)), NONCE)
            found.insert(0, said)
            with trio.fail_after(PATIENCE_S):
                while isinstance(said, Later) and len(found) < 2 + (not known):
                    await trio.sleep(0.01)
            nursery.cancel_scope.cancel()

    trio.run(run)
    return found


def account() -> Account:
    return Operator("O").account("A", disk_storage=-1)


def test_the_jwt_of_a_box_is_judged_at_once() -> None:
    """A thread and back costs as much as the signatures; a thousand boxes in line for it took longer than they may."""
    one = account()
    user = one.user("box", pub={"allow": ["up.>"]})
    (login,) = judged(one, user)
    assert isinstance(login, Login)
    assert (login.account_name, login.permissions.publish_allow) == (one.key.public, ("up.>",))
    assert [None] == judged(one, user, signs="another nonce")


def test_a_jwt_with_hundreds_of_permissions_is_judged_by_a_thread() -> None:
    """It may have up to 64 KB, and everybody else would wait for it."""
    one = account()
    user = one.user("box", pub={"allow": [f"up.{number}.>" for number in range(500)]})
    assert len(user.token) > AT_ONCE_MAX
    later, login = judged(one, user)
    assert isinstance(later, Later)
    assert isinstance(login, Login)
    assert len(login.permissions.publish_allow) == 500


def test_an_account_that_is_not_known_is_looked_up_before_a_box_is_refused() -> None:
    one = account()
    later, looked_up, refused = judged(one, one.user("box"), known=False)
    assert isinstance(later, Later)
    assert (looked_up, refused) == (one.key.public, None)
