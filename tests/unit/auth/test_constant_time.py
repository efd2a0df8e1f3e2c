"""How long it takes to refuse somebody says nothing of the secret that was expected: secrets are compared by
hmac.compare_digest, bcrypt and Ed25519, and by nothing else.

The first test reads the code; the list of exceptions has a reason for each.
"""

from __future__ import annotations

import ast
import hmac
import re
from collections.abc import Iterator
from pathlib import Path

import leafd
import pytest
from leafd.auth import passwords

ROOT = Path(leafd.__file__).parent
SECRET = re.compile(r"(^|_)(pass|passwd|password|passphrase|secret|secrets|token|tokens|cookie|seed|sig|signature)$")
NO_SECRETS = {
    "auth/verdict.py: old.password, new.password": "two configurations, neither sent by anybody",
    "daemon/account_book.py: now.token, known.token": "accounts' JWTs, which everybody may read",
    "daemon/account_book.py: found.token, known.token": "the same",
    "daemon/account_book.py: known.token, one.token": "the same",
    "daemon/account_book.py: known.token, found.token": "the same",
    "enrol/register.py: token, self.tokens": "ids of tokens, which find them; the secret is compared by its digest",
    "daemon/box_desk.py: self._register.tokens": "the same",
    "config/schema/sharing.py: token": "a token of a subject",
    "jetstream/service.py: tokens": "the same",
    "jetstream/ordered.py: tokens": "the same",
    "jetstream/subjects.py: token": "the same",
    "jetstream/subject_index.py: token": "the same",
}


def names(node: ast.expr) -> Iterator[str]:
    """The secrets among what is compared."""
    if isinstance(node, ast.Tuple | ast.List):
        for inner in node.elts:
            yield from names(inner)
    elif isinstance(node, ast.Attribute | ast.Name):
        last = node.attr if isinstance(node, ast.Attribute) else node.id
        if SECRET.search(last):
            yield ast.unparse(node)
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        if SECRET.search(str(node.slice.value)):
            yield ast.unparse(node)
    elif isinstance(node, ast.Call) and any(
        isinstance(one, ast.Constant) and SECRET.search(str(one.value)) for one in node.args
    ):
        yield ast.unparse(node)


def compared(source: str) -> Iterator[str]:
    """What is compared by ==, != or in, where a secret is on either side and no constant on the other."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Compare):
            continue
        sides = [node.left, *node.comparators]
        plain = any(isinstance(one, ast.Constant) for one in sides)
        by_value = any(isinstance(one, ast.Eq | ast.NotEq | ast.In | ast.NotIn) for one in node.ops)
        found = [name for side in sides for name in names(side)]
        if found and by_value and not plain:
            yield ", ".join(found)


def test_no_secret_is_compared_by_its_characters() -> None:
    """No == ends at the first character that is wrong."""
    found = {
        f"{path.relative_to(ROOT)}: {what}"
        for path in sorted(ROOT.rglob("*.py"))
        for what in compared(path.read_text(encoding="utf-8"))
    }

    assert set(NO_SECRETS) == found


@pytest.mark.parametrize(
    "source",
    ["a.password == b", "x != token", "(n, one.secret) == (m, s)", "connect['pass'] == p", "_text(c, 'sig') in given"],
)
def test_the_reader_finds_them(source: str) -> None:
    """What the test above looks for, it sees."""
    assert list(compared(source))


def test_plain_secrets_are_compared_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A password or token goes to compare_digest with all of its bytes, be it right, wrong or of another length."""
    seen: list[tuple[bytes, bytes]] = []
    real = hmac.compare_digest

    def digest(one: bytes, other: bytes) -> bool:
        seen.append((one, other))
        return real(one, other)

    monkeypatch.setattr(hmac, "compare_digest", digest)
    sent = ["right", "wrong", "", "right and more", "r\ud800"]

    assert [True, False, False, False, False] == [passwords.matches("right", one) for one in sent]
    assert [(b"right", one.encode("utf-8", "surrogatepass")) for one in sent] == seen
