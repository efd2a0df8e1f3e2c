"""What a leaf link signs with: credentials files as nsc writes them, and seeds."""

from __future__ import annotations

from pathlib import Path

import pytest
from leafd.auth.creds import signer_from_credentials, signer_from_seed
from leafd.auth.nkeys import verify
from leafd.errors import ConfigError

SEED = "SUAIWGCODIHYRJ4YY35OF6EPHWXAJV3MDW5XX24RXB6D6YDVDBCCFJPAFM"
PUBLIC = "UDGTQSMYSM5O2QAQFIBPJFEQFJBUUFAEZ5AZ6SLKAXT6FWA4FB2YJDPP"
# The markers have unequal numbers of dashes, as nsc writes them.
CREDS = f"""-----BEGIN NATS USER JWT-----
eyJ0eXAiOiJKV1Qi.eyJqdGkiOiJ.c2ln-_A
------END NATS USER JWT------

************************* IMPORTANT *************************
NKEY Seed printed below can be used to sign and prove identity.

-----BEGIN USER NKEY SEED-----
{SEED}
------END USER NKEY SEED------
"""


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_credentials_file(tmp_path: Path, line_end: str) -> None:
    """The JWT is passed on as it is, and the nonce is signed with the seed."""
    path = tmp_path / "a.creds"
    path.write_bytes(CREDS.replace("\n", line_end).encode())
    found = signer_from_credentials(str(path))("nonce")
    assert "eyJ0eXAiOiJKV1Qi.eyJqdGkiOiJ.c2ln-_A" == found["jwt"]
    assert verify(PUBLIC, "nonce", found["sig"])
    assert {"jwt", "sig"} == set(found)


def test_seed_in_the_configuration_or_in_a_file(tmp_path: Path) -> None:
    """An nkey is a seed or the name of a file that holds one."""
    path = tmp_path / "seed.nk"
    path.write_text(f"# mine\n{SEED}\n")
    for text in (SEED, str(path)):
        found = signer_from_seed(text)("nonce")
        assert PUBLIC == found["nkey"]
        assert verify(PUBLIC, "nonce", found["sig"])


def test_what_is_wrong_is_told(tmp_path: Path) -> None:
    """A missing file, a file without a seed, a damaged seed: each is a configuration error with its name."""
    path = tmp_path / "x"
    with pytest.raises(ConfigError, match="cannot be read"):
        signer_from_credentials(str(path))
    with pytest.raises(ConfigError, match="neither a seed nor a readable file"):
        signer_from_seed(str(path))
    path.write_text("nothing")
    with pytest.raises(ConfigError, match="no user JWT and seed"):
        signer_from_credentials(str(path))
    with pytest.raises(ConfigError, match="holds no seed"):
        signer_from_seed(str(path))
    with pytest.raises(ConfigError, match="checksum"):
        signer_from_seed(SEED[:-1] + "A")


def test_credentials_are_read_at_each_login(tmp_path: Path) -> None:
    """A JWT that was renewed in its file is the one that the next login brings; one that cannot be read is not."""
    path = tmp_path / "a.creds"
    path.write_text(CREDS)
    signer = signer_from_credentials(str(path))
    path.write_text(CREDS.replace("eyJqdGkiOiJ", "bmV3ZXI"))
    assert "eyJ0eXAiOiJKV1Qi.bmV3ZXI.c2ln-_A" == signer("nonce")["jwt"]
    path.write_text("half a fi")
    assert "eyJ0eXAiOiJKV1Qi.bmV3ZXI.c2ln-_A" == signer("nonce")["jwt"]
