"""Who the boxes and the people of a simulated fleet are to the hub: nobody, nkeys, JWTs of an operator, passwords.

    identities("jwt", 1000, directory)  -->  what the hub's configuration says, what the boxes are started with,
                                             what a person's CONNECT has

Not here: the boxes (simulated.py), what is measured (fleet.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.certificates import Authority
from tests.jwts import Key, Operator, User, b64

KINDS: Final = ("open", "nkey", "jwt", "bcrypt")
PASSWORD: Final = "of-a-box"
BCRYPT_COST: Final = 8
"""A hundredth of a second each: with the usual 11 a thousand passwords are minutes of work, whoever checks them."""


@dataclass
class Identities:
    """configuration: of the hub. boxes: settings of the simulator. connect: what a person's CONNECT answers a nonce."""

    configuration: str = ""
    boxes: dict[str, object] = field(default_factory=dict)
    connect: Callable[[str], dict[str, str]] = lambda nonce: {}


def identities(kind: str, count: int, directory: Path) -> Identities:
    """So many boxes, and a person."""
    match kind:
        case "nkey":
            return _nkeys(count, directory)
        case "jwt":
            return _tokens(count, directory)
        case "bcrypt":
            return _passwords(count)
    return Identities()


def tls(directory: Path) -> str:
    """The block of a listener."""
    issued = Authority(directory).issue("hub")
    return f'tls {{ cert_file: "{issued.certificate}", key_file: "{issued.key}", timeout: 10 }}'


def _key_file(directory: Path, lines: list[str]) -> dict[str, object]:
    path = directory / "keys"
    path.write_text("".join(f"{line}\n" for line in lines))
    return {"keys": path}


def _nkeys(count: int, directory: Path) -> Identities:
    keys = [Key("user") for _ in range(count)]
    person = Key("user")
    users = "".join(f"{{ nkey: {key.public} }}\n" for key in [*keys, person])
    return Identities(
        f"accounts {{ A {{ jetstream: enabled, users: [\n{users}] }} }}",
        _key_file(directory, [f"{key.public} {key.raw.hex()} -" for key in keys]),
        lambda nonce: {"nkey": person.public, "sig": b64(person.sign(nonce.encode()))},
    )


def _tokens(count: int, directory: Path) -> Identities:
    operator = Operator()
    unlimited = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}
    account = operator.account("A", **unlimited)
    users: list[User] = [account.user(f"box-{number}") for number in range(count)]
    return Identities(
        operator.configuration(),
        _key_file(directory, [f"{user.key.public} {user.key.raw.hex()} {user.token}" for user in users]),
        account.user("person").connect,
    )


def unknown(count: int, directory: Path, token: str) -> dict[str, object]:
    """What boxes are started with that nobody knows yet: a key each, and the token of all."""
    lines = [f"{key.public} {key.raw.hex()} -" for key in (Key("user") for _ in range(count))]
    return _key_file(directory, lines) | {"password": token}


def _passwords(count: int) -> Identities:
    import bcrypt

    kept = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(BCRYPT_COST, prefix=b"2a")).decode()
    users = "".join(f'{{ user: "box-{number}", password: "{kept}" }}\n' for number in range(count))
    return Identities(
        f"accounts {{ A {{ jetstream: enabled, users: [\n{users}{{ user: person, password: person }}] }} }}",
        {"password": PASSWORD},
        lambda nonce: {"user": "person", "pass": "person"},
    )
