"""Which login of a configuration the doctor takes for itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from leafd.auth.nkeys import PREFIX_USER, new_seed, sign
from leafd.config.bind import load_text
from leafd.doctor.local import NoLogin, login_of

HASH = "$2a$04$aMvYV5/mOFXjZvn8q5bKFuOvlEPDbAjjT0kKWGSwJKK8lG2Pqv8Hi"
LIMITED = "permissions: { publish: x }"


@pytest.mark.parametrize(
    ("text", "account", "fields"),
    [
        ("listen: 127.0.0.1:4222", "$G", {}),
        ("authorization { user: u, password: p }", "$G", {"user": "u", "pass": "p"}),
        ("authorization { token: t }", "$G", {"auth_token": "t"}),
        ("accounts { A { users: [ { user: a, password: p } ] } }", "A", {"user": "a", "pass": "p"}),
        ("accounts { A { users: [ { user: a, password: p } ] } }\nno_auth_user: a", "A", {}),
        (
            f"accounts {{ A {{ users: [ {{ user: a, password: p, {LIMITED} }}, {{ user: b, password: q }} ] }} }}",
            "A",
            {"user": "b", "pass": "q"},
        ),
    ],
    ids=["nobody", "single", "token", "account", "no_auth_user", "the one with more rights"],
)
def test_a_login_in_plain_is_taken(text: str, account: str, fields: dict[str, str]) -> None:
    """Of several the one that is not limited."""
    assert fields == login_of(load_text(text).server, account, None).fields("nonce")


def test_a_key_beside_the_configuration_is_taken(tmp_path: Path) -> None:
    """As `leafd init hub` writes one for programs. Other keys there, and files that hold none, are passed over."""
    for number, text in enumerate(("no key", new_seed(PREFIX_USER), seed := new_seed(PREFIX_USER))):
        (tmp_path / f"{number}.nk").write_text(text)
    public, _ = sign(seed, "nonce")
    server = load_text(f"accounts {{ A {{ users: [ {{ nkey: {public} }} ] }} }}").server

    assert public == login_of(server, "A", None, tmp_path).fields("nonce")["nkey"]
    with pytest.raises(NoLogin, match="no key of a user beside it"):
        login_of(server, "A", None, tmp_path / "elsewhere")


@pytest.mark.parametrize(
    ("text", "account"),
    [
        (f'authorization {{ user: u, password: "{HASH}" }}', "$G"),
        (f'authorization {{ token: "{HASH}" }}', "$G"),
        ("accounts { A { users: [ { user: a, password: p } ] }, B {} }", "B"),
        ("listen: 127.0.0.1:4222", "A"),
    ],
    ids=["hash", "hashed token", "no users", "no such account"],
)
def test_where_there_is_none_that_is_said(text: str, account: str) -> None:
    """A hash opens nothing."""
    with pytest.raises(NoLogin) as raised:
        login_of(load_text(text).server, account, None)
    assert account in str(raised.value)
    assert HASH not in str(raised.value)
