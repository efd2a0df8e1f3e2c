"""Sealed boxes of xkeys."""

from __future__ import annotations

import pytest
from leafd.auth.nkeys import decode, new_seed
from leafd.auth.xkeys import PREFIX_CURVE, public_curve_key, public_of, seal, unseal


def test_keys() -> None:
    """A new pair has the letters that people know, and other kinds of keys are none."""
    seed = new_seed(PREFIX_CURVE)
    assert ("SX", "X", 33) == (seed[:2], public_of(seed)[0], len(decode(public_of(seed))))
    for text in (seed, "", "UDGTQSMYSM5O2QAQFIBPJFEQFJBUUFAEZ5AZ6SLKAXT6FWA4FB2YJDPP", public_of(seed)[:-1]):
        with pytest.raises(ValueError, match="not a public xkey"):
            public_curve_key(text)


def test_sealing() -> None:
    """What is sealed for one key is read by its owner, who knows who sealed it, and by nobody else; a changed byte is
    found."""
    ours, theirs, stranger = new_seed(PREFIX_CURVE), new_seed(PREFIX_CURVE), new_seed(PREFIX_CURVE)
    sealed = seal(ours, public_of(theirs), b"secret")
    assert b"secret" == unseal(theirs, public_of(ours), sealed)
    for seed, by, data in (
        (stranger, ours, sealed),
        (theirs, stranger, sealed),
        (theirs, ours, sealed[:-1] + bytes([sealed[-1] ^ 1])),
    ):
        with pytest.raises(ValueError, match="could not decrypt"):
            unseal(seed, public_of(by), data)
    with pytest.raises(ValueError, match="not valid"):
        unseal(theirs, public_of(ours), sealed[:28])
    with pytest.raises(ValueError, match="wrong version"):
        unseal(theirs, public_of(ours), b"xkv2" + sealed[4:])
