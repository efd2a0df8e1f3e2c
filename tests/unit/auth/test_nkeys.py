"""nkeys against a key, a seed and a signature that the reference made."""

from __future__ import annotations

import pytest
from leafd.auth.nkeys import decode, new_server_id, public_user_key, sign, verify

SEED = "SUAIWGCODIHYRJ4YY35OF6EPHWXAJV3MDW5XX24RXB6D6YDVDBCCFJPAFM"
PUBLIC = "UDGTQSMYSM5O2QAQFIBPJFEQFJBUUFAEZ5AZ6SLKAXT6FWA4FB2YJDPP"
NONCE = "SHvuptVUTR3Oa8s"
SIGNATURE = "YXhz-TTgXyZAsoQeTfnaCds-2HKLa00pnDV8ujVHggGcw7CA5Y19ecbDowTphayysriqC0OaYaZwvBeVPbE7CA"


def test_signature() -> None:
    """A seed signs the nonce's text as the reference's clients do."""
    assert (PUBLIC, SIGNATURE) == sign(SEED, NONCE)


def test_verification() -> None:
    """The signature is accepted in both alphabets, and for no other nonce, key or text."""
    assert verify(PUBLIC, NONCE, SIGNATURE)
    assert verify(PUBLIC, NONCE, SIGNATURE.replace("-", "+").replace("_", "/") + "==")
    assert not verify(PUBLIC, NONCE + "x", SIGNATURE)
    assert not verify(PUBLIC, NONCE, SIGNATURE[:-4])
    assert not verify(PUBLIC, NONCE, "")
    assert not verify("U" * 56, NONCE, SIGNATURE)


def test_checksum() -> None:
    """One wrong letter is found."""
    for at in range(len(PUBLIC)):
        letter = "A" if PUBLIC[at] != "A" else "B"
        with pytest.raises(ValueError, match="checksum"):
            decode(PUBLIC[:at] + letter + PUBLIC[at + 1 :])


def test_only_users() -> None:
    """A server's key is no user's."""
    with pytest.raises(ValueError, match="not a public nkey of a user"):
        public_user_key(new_server_id())


def test_server_id() -> None:
    """Ids have the 56 characters and the N that peers look for, and differ."""
    first, second = new_server_id(), new_server_id()
    assert first != second
    assert (56, "N") == (len(first), first[0])
    assert 33 == len(decode(first))
    assert 0x68 == decode(first)[0]
