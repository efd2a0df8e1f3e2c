"""The credentials of a leaf link besides user and password: an nkey seed, or a credentials file with a JWT and its
seed. Not here: what their texts mean (nkeys.py)."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from typing import Final

from leafd.auth.nkeys import credentials_of, decode, sign
from leafd.errors import ConfigError
from leafd.files import read_file

_FILE_MAX: Final = 256 << 10


def signer_from_credentials(path: str) -> Callable[[str], dict[str, str]]:
    """Nonce -> jwt and sig of CONNECT, for a .creds file. Raises ConfigError. The file is read again at each login,
    since renewed JWTs are written there; when it cannot be read then, what was read last counts."""
    known = [_read_credentials(path)]

    def signed(nonce: str) -> dict[str, str]:
        with contextlib.suppress(ConfigError):
            known[0] = _read_credentials(path)
        token, seed = known[0]
        return {"jwt": token, "sig": sign(seed, nonce)[1]}

    return signed


def _read_credentials(path: str) -> tuple[str, str]:
    """The JWT and the seed of a .creds file. Raises ConfigError."""
    try:
        text = read_file(path, _FILE_MAX).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"credentials file {path} cannot be read: {error}") from error
    try:
        token, seed = credentials_of(text)
    except ValueError as error:
        raise ConfigError(f"credentials file {path} has {error}") from error
    _check_seed(seed, f"credentials file {path}")
    return token, seed


def signer_from_seed(text: str) -> Callable[[str], dict[str, str]]:
    """Nonce -> nkey and sig of CONNECT, for a seed or the name of a file that holds one. Raises ConfigError."""
    seed = text.strip()
    if not seed.startswith("S") or "/" in seed:
        try:
            words = re.findall(r"\bS[A-Z2-7]{57}\b", read_file(text, _FILE_MAX).decode())
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"nkey {text!r} is neither a seed nor a readable file: {error}") from error
        if not words:
            raise ConfigError(f"nkey file {text} holds no seed")
        seed = words[0]
    _check_seed(seed, "nkey")

    def signed(nonce: str) -> dict[str, str]:
        public, signature = sign(seed, nonce)
        return {"nkey": public, "sig": signature}

    return signed


def _check_seed(seed: str, what: str) -> None:
    try:
        decode(seed)
    except ValueError as error:
        raise ConfigError(f"{what}: {error}") from error
