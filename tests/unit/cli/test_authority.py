"""The certificate authority that `leafd init hub` makes, judged by Python's own TLS: who trusts it, for which names,
since when.

Not here: boxes that use it (tests/interop/test_enrol_commands.py, test_pages.py).
"""

from __future__ import annotations

import os
import ssl
import stat
import subprocess
from pathlib import Path

import pytest
from leafd.cli import authority, init
from leafd.cli.init import Made, Plan, certificate, planned, write
from leafd.errors import LeafdError, UsageError


def hub(folder: Path, *addresses: str, tls: bool = True) -> Made:
    made = planned(Plan("hub", "hub", folder, str(folder / "store"), addresses=addresses, tls=tls))
    write(made, overwrite=True)
    return made


def shake_hands(folder: Path, name: str) -> None:
    """A handshake in memory, of a box that trusts the authority and calls the hub so. Raises ssl.SSLError."""
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(folder / "hub-tls.pem", folder / "hub-tls.key")
    trusting = ssl.create_default_context(cafile=folder / "hub-ca.pem")
    to_hub, to_box = ssl.MemoryBIO(), ssl.MemoryBIO()
    box = trusting.wrap_bio(to_box, to_hub, server_hostname=name)
    end = served.wrap_bio(to_hub, to_box, server_side=True)
    for _ in range(4):
        for side in (box, end):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                pass


def test_a_box_that_trusts_the_authority_reaches_the_hub_by_each_of_its_addresses_and_by_no_other(
    tmp_path: Path,
) -> None:
    hub(tmp_path, "hub.example.org", "192.0.2.7", "2001:db8::7")
    for name in ("hub.example.org", "192.0.2.7", "2001:db8::7"):
        shake_hands(tmp_path, name)
    for name in ("other.example.org", "192.0.2.8"):
        with pytest.raises(ssl.SSLCertVerificationError):
            shake_hands(tmp_path, name)


def test_a_box_whose_clock_stands_at_1970_takes_the_certificate_and_so_does_one_in_nineteen_years(
    tmp_path: Path,
) -> None:
    """Openssl is asked with the time of such a box."""
    hub(tmp_path, "hub.example.org")
    for at in ("3600", subprocess.check_output(["date", "-d", "19 years", "+%s"], text=True).strip()):
        words = ["openssl", "verify", "-attime", at, "-CAfile", str(tmp_path / "hub-ca.pem")]
        assert 0 == subprocess.run([*words, str(tmp_path / "hub-tls.pem")], capture_output=True, check=False).returncode


def test_a_second_init_and_a_new_certificate_keep_the_authority_that_boxes_trust(tmp_path: Path) -> None:
    hub(tmp_path, "old.example.org")
    kept = [(tmp_path / name).read_bytes() for name in ("hub-ca.pem", "hub-ca.key")]
    hub(tmp_path, "new.example.org")
    shake_hands(tmp_path, "new.example.org")
    write(certificate(tmp_path, "hub", ("newer.example.org",)), overwrite=True)
    shake_hands(tmp_path, "newer.example.org")
    assert kept == [(tmp_path / name).read_bytes() for name in ("hub-ca.pem", "hub-ca.key")]


def test_keys_are_for_root_and_the_one_that_signs_is_not_for_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[str] = []
    monkeypatch.setattr(init, "_service_group", lambda: 4711)
    monkeypatch.setattr(os, "fchown", lambda handle, _user, _to: given.append(os.readlink(f"/proc/self/fd/{handle}")))
    hub(tmp_path, "hub.example.org")
    modes = {one.name: stat.S_IMODE(one.stat().st_mode) for one in tmp_path.iterdir()}
    assert (0o400, 0o640, 0o644) == (modes["hub-ca.key"], modes["hub-tls.key"], modes["hub-ca.pem"])
    assert not any("hub-ca.key" in path for path in given)


def test_half_of_an_authority_is_no_reason_to_make_another_one(tmp_path: Path) -> None:
    """Boxes trust the old one; whoever removed the key can put it back."""
    hub(tmp_path, "hub.example.org")
    (tmp_path / "hub-ca.key").unlink()
    with pytest.raises(LeafdError, match="one of the two is missing"):
        hub(tmp_path, "hub.example.org")


@pytest.mark.parametrize("address", ["hub.example.org:7422", "a b", "", "x,DNS:evil.example.org", "nats-leaf://hub"])
def test_what_is_no_address_is_refused(address: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--address"):
        hub(tmp_path, address)
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("tls", "there", "said"), [(False, True, "No TLS"), (True, False, "NO TLS: there is no openssl")]
)
def test_a_hub_without_tls_is_said_to_be_one(
    tls: bool, there: bool, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authority, "is_possible", lambda: there)
    made = hub(tmp_path, "hub.example.org", tls=tls)
    assert made.advice.startswith(said)
    assert [] == [line for line in made.advice.splitlines() if len(line) > 80 and str(tmp_path) not in line]
    assert {"leafd.conf", "hub-programs.nk"} == {one.name for one in tmp_path.iterdir()}
    assert "tls {" not in (tmp_path / "leafd.conf").read_text()
