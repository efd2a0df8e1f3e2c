"""Who a schedule's author is, and which rights are left when the configuration, or an account's JWT, is another."""

from __future__ import annotations

from dataclasses import replace

import pytest
from leafd.auth.authors import NOBODY, author_of, may_today, read
from leafd.auth.jwt_claims import (
    AccountBody,
    AccountClaims,
    Permission,
    Permissions,
    SigningKey,
    UserBody,
    UserClaims,
    UserLimits,
)
from leafd.auth.policy import Callout, Person, Policy, Rights
from leafd.auth.trust import Trust, Unknown, trusted_account
from leafd.auth.verdict import Called, Verdict

NARROW = Rights(publish_allow=("a.>",))
PERSON = Person("u", "A", rights=NARROW)
USERS = Policy({"u": PERSON}, {}, open=False)
SCOPE = UserLimits(pub=Permission(allow=("box.{{name()}}.{{tag(site)}}",)))


def today(author: str, policy: Policy, account: str = "A") -> Rights | None:
    return may_today(read(author), account, lambda _: policy)


def jwt(signer: str, **body: object) -> UserClaims:
    return UserClaims(sub="U", iss=signer, iat=100, name="n", nats=UserBody(issuer_account="A", **body))  # type: ignore[arg-type]


def trusting(**account: object) -> Policy:
    keys = (SigningKey(key="PLAIN"), SigningKey(kind="user_scope", key="SCOPED", template=SCOPE))
    claims = AccountClaims(sub="A", nats=AccountBody(**{"signing_keys": keys} | account))  # type: ignore[arg-type]
    return Policy({}, {}, open=False, trust=Trust(frozenset(), {"A": trusted_account("t", claims)}))


def test_where_nobody_logs_in_there_is_no_author() -> None:
    """Everybody is the owner there."""
    assert author_of(Verdict("$G", ""), Policy({}, {}), "STANDARD") == ""


def test_a_user_of_the_configuration_has_the_rights_of_today() -> None:
    """In the same account, and in the way that it came; afterwards nobody has them."""
    author = author_of(Verdict("A", "u"), USERS, "LEAFNODE")
    assert '["user","LEAFNODE","u"]' == author
    assert NARROW == today(author, USERS)
    for gone in (
        Policy({}, {}, open=False),
        Policy({"u": replace(PERSON, account="B")}, {}, open=False),
        Policy({"u": replace(PERSON, connection_types=frozenset(("STANDARD",)))}, {}, open=False),
        Policy({}, {}),
    ):
        assert today(author, gone) is None


def test_who_names_nobody_is_whoever_logs_in_so_today() -> None:
    """By a token, or with nothing at all."""
    token = author_of(Verdict("$G", ""), Policy({}, {}, token="t", open=False), "STANDARD")
    anyone = author_of(Verdict("A", ""), Policy({}, {}, no_auth_user=PERSON, open=False), "STANDARD")
    assert Rights() == today(token, Policy({}, {}, token="other", open=False), "$G")
    assert NARROW == today(anyone, Policy({}, {}, no_auth_user=PERSON, open=False))
    assert Rights() == today(anyone, Policy({}, {}), "$G")
    assert today(token, USERS, "$G") is None
    assert today(anyone, USERS) is None


def test_a_services_word_holds_while_it_is_the_same_service() -> None:
    """It is not asked again."""
    service = Callout("AUTH", "ISSUER", frozenset(), frozenset())
    proof = Called(service, jwt("PLAIN"), Verdict("A", "u"))
    author = author_of(Verdict("A", "u", proof=proof), USERS, "STANDARD")
    assert Rights() == today(author, replace(USERS, callout=service))
    assert today(author, replace(USERS, callout=replace(service, issuer="OTHER"))) is None
    assert today(author, USERS) is None


def test_a_jwt_counts_while_it_stands() -> None:
    """Its own permissions were judged when the schedule was stored; the template of a scoped key, and the account's
    defaults, are those of today."""
    now = trusting()
    own = author_of(Verdict("A", "U", proof=jwt("PLAIN", pub=Permission(allow=("x",)))), now, "STANDARD")
    scoped = author_of(Verdict("A", "U", proof=jwt("SCOPED", tags=("site:north",))), now, "STANDARD")
    plain = author_of(Verdict("A", "U", proof=jwt("PLAIN")), now, "STANDARD")
    defaults = trusting(default_permissions=Permissions(pub=Permission(deny=("d",))))
    assert Rights() == today(own, now)
    assert Rights(publish_allow=("box.n.north",)) == today(scoped, now)
    assert Rights(publish_deny=("d",)) == today(plain, defaults)
    for author in (own, scoped, plain):
        assert today(author, trusting(revocations={"U": 100})) is None
        assert today(author, trusting(revocations={"*": 200})) is None
        assert today(author, trusting(signing_keys=())) is None
        assert today(author, now, "B") is None
        assert today(author, USERS) is None
        with pytest.raises(Unknown):
            today(author, Policy({}, {}, open=False, trust=Trust(frozenset())))


@pytest.mark.parametrize(
    "author", [NOBODY, "", "[", "7", "[]", '["user"]', '["user",1,2]', '["jwt","STANDARD","A"]', '{"user":"u"}']
)
def test_what_is_no_author_may_nothing(author: str) -> None:
    """As a backup may bring it, that somebody else has made."""
    assert today(author, USERS) is None
    assert today(author, trusting()) is None


def test_an_author_of_too_many_words_is_nobody() -> None:
    """Rather than a part of it."""
    claims = jwt("SCOPED", tags=tuple(f"tag:{number}" for number in range(300)))
    assert NOBODY == author_of(Verdict("A", "U", proof=claims), trusting(), "STANDARD")
