"""The daemon of this box, asked as a client: which login the configuration has for an account, and how it is used.

Not here: what is asked (flows.py).
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final

import trio

from leafd.auth.creds import signer_from_credentials, signer_from_seed
from leafd.config.schema.permissions import User
from leafd.config.schema.server import ServerConfig
from leafd.config.tls_files import as_file
from leafd.doctor.wire import End, Line, Session, info_of, verb
from leafd.errors import ConfigError, LeafdError
from leafd.records import dataclass
from leafd.wire_client import frame_connect

STEP_S: Final = 5.0
KEYS_MAX: Final = 64
"""The most files of keys that are tried."""
GLOBAL: Final = "$G"
EVERYWHERE: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}


class NoLogin(LeafdError):
    """The daemon cannot be asked as a client. The text says why."""


@dataclass(frozen=True, slots=True)
class Login:
    """The fields of a client's CONNECT. fields: of CONNECT, by the nonce of INFO."""

    fields: Callable[[str], dict[str, str]]
    limited: bool = False
    """The user may not publish or subscribe to everything."""


def login_of(server: ServerConfig | None, account: str, file: Path | None, folder: Path | None = None) -> Login:
    """A login for an account of this daemon. It is that of a named file, else one that the configuration has in plain,
    else that of a user's key in the folder. Raises NoLogin, ConfigError."""
    if file is not None:
        text = str(file)
        return Login(signer_from_credentials(text) if file.suffix == ".creds" else signer_from_seed(text))
    if server is None and account != GLOBAL:
        raise NoLogin(f"for the account {account} a login is needed: name the configuration (-c), or --creds")
    if server is None or (server.authorization is None and not any(one.users for one in server.accounts.values())):
        if server is not None and server.operated:
            raise NoLogin("clients log in by JWT here: name a user's file with --creds")
        if account != GLOBAL:
            raise NoLogin(f"nobody can log in to the account {account}: it has no users")
        return Login(lambda _: {})
    found = sorted(_candidates(server, account), key=lambda one: one.limited)
    if not found and folder is not None:
        found = sorted(_by_keys(server, account, folder), key=lambda one: one.limited)
    if not found:
        raise NoLogin(
            f"the configuration has no login in plain for the account {account}, and no key of a user beside it: "
            "name the file of a user's key or credentials with --creds"
        )
    return found[0]


def _by_keys(server: ServerConfig, account: str, folder: Path) -> Iterator[Login]:
    """The logins by keys that `leafd init hub` has written for programs, as hub-programs.nk."""
    users = {one.nkey: one for one in _people(server, account) if one.nkey}
    for file in islice(sorted(folder.glob("*.nk")), KEYS_MAX) if users else ():
        with suppress(ConfigError):  # a box's, of another kind, or not for this user to read
            fields = signer_from_seed(str(file))
            user = users.get(fields("")["nkey"])
            if user is not None:
                yield Login(fields, _is_limited(user))


def _people(server: ServerConfig, account: str) -> tuple[User, ...]:
    people = server.accounts[account].users if account in server.accounts else ()
    alone = server.authorization
    return (*people, *(alone.users or ())) if account == GLOBAL and alone is not None else people


def _is_limited(user: User) -> bool:
    return user.permissions is not None or bool(user.allowed_connection_types)


def _candidates(server: ServerConfig, account: str) -> Iterator[Login]:
    alone = server.authorization
    if account == GLOBAL and alone is not None:
        if alone.user and _plain(alone.password):
            yield _named(alone.user, alone.password, alone.default_permissions is not None)
        if alone.token and _plain(alone.token):
            yield Login(lambda _, token=alone.token: {"auth_token": token})  # type: ignore[misc]
    for one in _people(server, account):
        limited = _is_limited(one)
        if server.no_auth_user and server.no_auth_user in (one.user, one.nkey):
            yield Login(lambda _: {}, limited)
        elif one.user and _plain(one.password):
            yield _named(one.user, one.password, limited)


def _named(user: str, password: str, limited: bool) -> Login:
    return Login(lambda _: {"user": user, "pass": password}, limited)


def _plain(password: str) -> bool:
    return bool(password) and not password.startswith("$2")


async def log_in(address: tuple[str, int], server: ServerConfig | None, login: Login) -> Session:
    """A client of the daemon. Raises NoLogin."""
    host, port = EVERYWHERE.get(address[0], address[0]), address[1]
    try:
        with trio.fail_after(STEP_S):
            line = await Line.to(host, port)
            try:
                await _greet(line, host, server, login)
            except BaseException:
                with trio.CancelScope(shield=True):
                    await line.close()
                raise
            return Session(line, leaf=False)
    except trio.TooSlowError:
        raise NoLogin(f"{host}:{port}: no answer within {STEP_S:.0f} s") from None
    except (ssl.SSLError, OSError, End) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise NoLogin(f"{host}:{port}: {why}") from None


async def _greet(line: Line, host: str, server: ServerConfig | None, login: Login) -> None:
    tls = server.tls if server is not None else None
    first = tls is not None and tls.handshake_first[0]
    if first:
        await line.secure(_own_context(server), host)
    word, rest = verb(await line.line())
    info: dict[str, Any] = info_of(rest) if word == "INFO" else {}
    if not first and (info.get("tls_required") or (tls is not None and info.get("tls_available"))):
        await line.secure(_own_context(server), host)
    await line.say(frame_connect("leafd doctor", login.fields(str(info.get("nonce") or ""))))
    while True:
        word, rest = verb(await line.line())
        if word == "-ERR":
            raise End(rest.strip("'"))
        if word == "PONG":
            return


def _own_context(server: ServerConfig | None) -> ssl.SSLContext:
    """Trusts the very certificate that the configuration names, whatever name it is made out to."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    pairs = server.tls.material.pairs if server is not None and server.tls is not None else ()
    for pair in pairs:
        context.load_verify_locations(cadata=pair.chain.decode("ascii", "replace"))
    if pairs:
        with as_file(pairs[0].chain) as chain, as_file(bytes(pairs[0].key)) as key:
            context.load_cert_chain(chain, key)
    return context
