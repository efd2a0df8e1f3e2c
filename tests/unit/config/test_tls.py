"""tls blocks: what is taken agrees with `nats-server -t`, files included, and what is wrong is told with its place."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest
from leafd.config.flags import parse_flags
from leafd.config.load import load
from leafd.config.schema.tls import Tls
from leafd.config.tls_files import expiring, read_material
from leafd.errors import ConfigError

from tests.certificates import KEYS, Authority

PAIR = "cert_file: server.pem, key_file: server.key"
PIN = "a" * 64
AGREED = [
    f"tls {{ {PAIR} }}",
    f"TLS {{ {PAIR.upper()} }}",
    f"tls {{ {PAIR}, ca_file: authority.pem, verify: true }}",
    f"tls {{ {PAIR}, verify: 1 }}",
    f'tls {{ {PAIR}, verify: "true" }}',
    f"tls {{ {PAIR}, ca_file: authority.pem, verify_and_map: true }}",
    f"tls {{ {PAIR}, verify_and_map: x }}",
    f"tls {{ {PAIR}, verify_cert_and_check_known_urls: true }}",
    f"tls {{ {PAIR}, verify_cert_and_check_known_urls: false }}",
    f"leafnodes {{ port: -1, tls {{ {PAIR}, verify_cert_and_check_known_urls: true }} }}",
    f"tls {{ {PAIR}, insecure: true }}",
    f"tls {{ {PAIR}, insecure: 1 }}",
    f"tls {{ {PAIR}, timeout: 5 }}",
    f"tls {{ {PAIR}, timeout: 0.5 }}",
    f"tls {{ {PAIR}, timeout: 0 }}",
    f'tls {{ {PAIR}, timeout: "5s" }}',
    f'tls {{ {PAIR}, timeout: "5" }}',
    f"tls {{ {PAIR}, timeout: true }}",
    f"tls {{ {PAIR}, connection_rate_limit: 100 }}",
    f'tls {{ {PAIR}, connection_rate_limit: "100" }}',
    f"tls {{ {PAIR}, connection_rate_limit: 1.5 }}",
    f'tls {{ {PAIR}, pinned_certs: ["{PIN}"] }}',
    f'tls {{ {PAIR}, pinned_certs: ["{PIN.upper()}"] }}',
    f'tls {{ {PAIR}, pinned_certs: ["{PIN[1:]}"] }}',
    f'tls {{ {PAIR}, pinned_certs: "{PIN}" }}',
    f"tls {{ {PAIR}, pinned_certs: [] }}",
    f"tls {{ {PAIR}, cipher_suites: [] }}",
    f'tls {{ {PAIR}, cipher_suites: ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"] }}',
    f'tls {{ {PAIR}, cipher_suites: "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256" }}',
    f'tls {{ {PAIR}, cipher_suites: ["TLS_AES_128_GCM_SHA256"] }}',
    f'tls {{ {PAIR}, cipher_suites: ["TLS_X"] }}',
    f'tls {{ {PAIR}, cipher_suites: ["TLS_RSA_WITH_AES_128_CBC_SHA"] }}',
    f'tls {{ {PAIR}, cipher_suites: ["TLS_RSA_WITH_AES_128_CBC_SHA"], allow_insecure_cipher_suites: true }}',
    f'tls {{ {PAIR}, cipher_suites: ["TLS_RSA_WITH_AES_128_CBC_SHA"], allow_insecure_cipher_suites: false }}',
    f'tls {{ {PAIR}, cipher_suites: ["TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305"] }}',
    f"tls {{ {PAIR}, allow_insecure_cipher_suites: 1 }}",
    f"tls {{ {PAIR}, curve_preferences: [] }}",
    f'tls {{ {PAIR}, curve_preferences: ["CurveP256", "X25519"] }}',
    f'tls {{ {PAIR}, curve_preferences: ["X25519MLKEM768", "SecP256r1MLKEM768", "SecP384r1MLKEM1024"] }}',
    f'tls {{ {PAIR}, curve_preferences: ["P-256"] }}',
    f'tls {{ {PAIR}, curve_preferences: "CurveP256" }}',
    f'tls {{ {PAIR}, min_version: "1.2" }}',
    f'tls {{ {PAIR}, min_version: "1.3" }}',
    f'tls {{ {PAIR}, min_version: "1.1" }}',
    f'tls {{ {PAIR}, min_version: "TLS13" }}',
    f"tls {{ {PAIR}, min_version: 1.3 }}",
    *(
        f"tls {{ {PAIR}, {key}: {value} }}"
        for key in ("handshake_first", "first", "immediate")
        for value in ("true", "false", "auto", "auto_fallback", '"ON"', '"off"', '"300ms"', "5", '"5"', "sometimes")
    ),
    "tls { certs: [ {cert_file: server.pem, key_file: server.key}, {cert_file: rsa.pem, key_file: rsa.key} ] }",
    "tls { certificates: [ {cert_file: server.pem, key_file: server.key} ] }",
    "tls { certs: [ {cert_file: server.pem} ] }",
    "tls { certs: [ {cert_file: server.pem, key_file: server.key, ca_file: authority.pem} ] }",
    "tls { certs: [ {cert_file: server.pem, key_file: rsa.key} ] }",
    "tls { certs: [ server.pem ] }",
    "tls { certs: {cert_file: server.pem, key_file: server.key} }",
    f"tls {{ {PAIR}, certs: [ {{cert_file: server.pem, key_file: server.key}} ] }}",
    "tls { cert_file: server.pem }",
    "tls { key_file: server.key }",
    "tls { cert_file: missing.pem, key_file: server.key }",
    "tls { cert_file: server.key, key_file: server.key }",
    "tls { cert_file: server.pem, key_file: server.pem }",
    "tls { cert_file: server.pem, key_file: missing.key }",
    "tls { cert_file: server.pem, key_file: empty }",
    "tls { cert_file: empty, key_file: server.key }",
    "tls { cert_file: damaged.pem, key_file: server.key }",
    "tls { cert_file: server.pem, key_file: encrypted.key }",
    "tls { cert_file: rsa-old.pem, key_file: encrypted-old.key }",
    "tls { cert_file: both.pem, key_file: both.pem }",
    "tls { cert_file: old.pem, key_file: old.key }",
    f"tls {{ {PAIR}, ca_file: missing.pem }}",
    f"tls {{ {PAIR}, ca_file: empty }}",
    f"tls {{ {PAIR}, ca_file: server.key }}",
    *(f"tls {{ cert_file: {one}.pem, key_file: {other}.key }}" for one in KEYS for other in KEYS),
    f"tls {{ {PAIR}, foo: 1 }}",
    "tls { cert_file: 1, key_file: server.key }",
    "tls: true",
    f"tls {{ {PAIR}, cert_store: WindowsCurrentUser }}",
    f"tls {{ {PAIR}, cert_match_by: Subject, cert_match: x }}",
    f"tls {{ {PAIR}, ocsp_peer: false }}",
    f"tls {{ {PAIR} }}\nallow_non_tls: true",
    "allow_non_tls: true",
    "allow_non_tls: 1",
    f"tls {{ {PAIR} }}\nhttps: 8443",
    f'tls {{ {PAIR} }}\nhttps: "127.0.0.1:8443"',
    f"tls {{ {PAIR} }}\nhttps_port: 8443",
    f'tls {{ {PAIR} }}\nhttps_port: "8443"',
    f"leafnodes {{ port: -1, tls {{ {PAIR}, handshake_first: auto }} }}",
    f"leafnodes {{ port: -1, tls {{ {PAIR}, foo: 1 }} }}",
    'leafnodes { remotes: [ {url: "tls://localhost:7422"} ] }',
    'leafnodes { remotes: [ {url: "nats://localhost:7422", tls {} } ] }',
    'leafnodes { remotes: [ {url: "nats://localhost:7422", tls { ca_file: authority.pem } } ] }',
    'leafnodes { remotes: [ {url: "nats://localhost:7422", tls { ca_file: missing.pem } } ] }',
    f'leafnodes {{ remotes: [ {{url: "nats://localhost:7422", tls {{ {PAIR}, insecure: true }} }} ] }}',
    'leafnodes { remotes: [ {url: "nats://localhost:7422", tls { handshake_first: true } } ] }',
    'leafnodes { remotes: [ {url: "nats://localhost:7422", tls: true } ] }',
]
# Configuration -> why the verdict differs.
DIFFERENT = {
    "tls { }": "no handshake could succeed",
    "tls { ca_file: authority.pem }": "no handshake could succeed",
    "leafnodes { port: -1, tls { } }": "no handshake could succeed",
    "https_port: 8443": "the reference refuses it at the start",
    f"tls {{ {PAIR} }}\nhttps_port: 8443\nhttp_port: 8222": "the reference refuses it at the start",
    f"tls {{ {PAIR}, timeout: -1 }}": "no handshake could succeed",
    f"tls {{ {PAIR}, ca_file: authority.pem, verify: true, ocsp_peer: true }}": "OCSP is not asked",
    f'tls {{ {PAIR}, cipher_suites: ["TLS_RSA_WITH_RC4_128_SHA"], allow_insecure_cipher_suites: true }}': (
        "OpenSSL no longer has it"
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates and keys of all kinds, and files that are none."""
    path = tmp_path_factory.mktemp("tls")
    authority = Authority(path)
    server = authority.issue("server")
    for kind in KEYS:
        authority.issue(kind, key=kind)
    authority.issue("old", times=("20200101000000Z", "20210101000000Z"))
    (path / "empty").write_text("")
    (path / "damaged.pem").write_bytes(server.certificate.read_bytes().replace(b"MII", b"MIJ"))
    (path / "both.pem").write_bytes(server.key.read_bytes() + server.certificate.read_bytes())
    to_encrypted = ["openssl", "pkey", "-aes256", "-passout", "pass:secret"]
    for source, target, more in (("server", "encrypted", []), ("rsa-old", "encrypted-old", ["-traditional"])):
        words = [*to_encrypted, *more, "-in", str(path / f"{source}.key"), "-out", str(path / f"{target}.key")]
        subprocess.run(words, check=True, capture_output=True)
    return path


def verdict(text: str, folder: Path) -> str:
    """What is wrong with a configuration; empty: nothing."""
    path = folder / "c.conf"
    path.write_text(text + "\n")
    try:
        load(parse_flags(["-c", str(path)]))
    except ConfigError as error:
        return str(error)
    return ""


def reference_accepts(text: str, folder: Path) -> bool:
    beside = Path(sysconfig.get_path("scripts")) / "nats-server"
    binary = str(beside) if beside.exists() else shutil.which("nats-server")
    assert binary
    path = folder / "reference.conf"
    path.write_text(text + "\n")
    done = subprocess.run([binary, "-t", "-c", str(path)], capture_output=True, timeout=20, cwd=folder)
    return done.returncode == 0


@pytest.mark.parametrize("text", AGREED)
def test_agreed(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both take it, or both refuse it."""
    monkeypatch.chdir(folder)
    assert reference_accepts(text, folder) == (verdict(text, folder) == "")


@pytest.mark.parametrize("text", DIFFERENT)
def test_different(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A difference that is no longer one must leave the list."""
    monkeypatch.chdir(folder)
    assert reference_accepts(text, folder) != (verdict(text, folder) == "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "tls {\n cert_file: missing.pem\n key_file: server.key\n}",
            "c.conf:2:2: cert_file: missing.pem cannot be read",
        ),
        (
            "tls {\n cert_file: server.pem\n key_file: rsa.key\n}",
            "c.conf:3:2: key_file: rsa.key is not the key of server",
        ),
        (
            "tls {\n cert_file: server.pem\n key_file: encrypted.key\n}",
            "c.conf:3:2: key_file: encrypted.key is encrypted",
        ),
        ("tls {\n cert_file: server.pem\n}", "c.conf:2:2: cert_file: needs a key_file"),
        (f"tls {{\n {PAIR}\n ca_file: empty\n}}", "c.conf:3:2: ca_file: empty holds no certificate"),
        (
            "leafnodes {\n remotes: [ {url: x,\n tls {\n ca_file: empty } } ] }",
            "c.conf:4:2: ca_file: empty holds no certificate",
        ),
        (
            "tls {\n certs: [\n {cert_file: server.pem\n key_file: rsa.key} ] }",
            "c.conf:4:2: key_file: rsa.key is not the key of server.pem",
        ),
        (f'tls {{ {PAIR}\n cipher_suites: ["TLS_X"] }}', "c.conf:2:2: cipher_suites: unrecognized cipher TLS_X"),
        (
            f"tls {{ {PAIR}\n curve_preferences: [x] }}",
            "c.conf:2:2: curve_preferences: unrecognized curve preference x",
        ),
        (f"tls {{ {PAIR}\n min_version: 1.3 }}", "c.conf:2:2: min_version: 1.3 is no version of TLS that is served"),
        (f"tls {{ {PAIR}\n pinned_certs: [aa] }}", "c.conf:2:2: pinned_certs: 'aa' is no pin"),
        (f"tls {{ {PAIR}\n cret_file: x }}", "c.conf:2:2: unknown field 'cret_file': did you mean 'cert_file'?"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(
    text: str, said: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """-t names the line of the key whose file cannot be used, and what to do."""
    monkeypatch.chdir(folder)
    assert said in verdict(text, folder)


def test_a_block_becomes_what_the_plane_takes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names stay the reference's, pins are in small letters, times are nanoseconds, files are what they hold."""
    monkeypatch.chdir(folder)
    block = Tls(
        cert_file="server.pem",
        key_file="server.key",
        verify_and_map=True,
        cipher_suites=("TLS_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
        curve_preferences=("CurveP256", "X25519"),
        pinned_certs=("AB" * 32,),
        handshake_first="auto",
        connection_rate_limit=7,
    )
    options = block.compiled()

    assert ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",) == options.cipher_suites[1:]
    assert ("CurveP256", "X25519") == options.curves
    assert ("ab" * 32,) == options.pinned
    assert (True, 0x0303, 2_000_000_000, 7) == (options.verify, options.min_version, options.timeout_ns, options.rate)
    assert (True, 50_000_000) == (options.first, options.fallback_ns)
    assert (folder / "server.key").read_bytes() == options.material.pairs[0].key


def test_another_certificate_under_the_same_name_is_a_change(tmp_path: Path) -> None:
    """A reload sees by what the files hold whether a block has changed."""
    authority = Authority(tmp_path)

    def block() -> Tls:
        issued = authority.issue("server")
        return Tls(cert_file=str(issued.certificate), key_file=str(issued.key))

    first = block()
    assert first == Tls(cert_file=first.cert_file, key_file=first.key_file)
    assert first != block()


def test_no_key_is_shown(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever prints a configuration or a block does not print private keys."""
    monkeypatch.chdir(folder)
    block = Tls(cert_file="server.pem", key_file="server.key")
    for shown in (repr(block), repr(block.compiled()), str(block.material.pairs[0].key), f"{block.material}"):
        assert "PRIVATE" not in shown


def test_who_expires_within_30_days_is_named(folder: Path) -> None:
    """One line for each certificate: expired, not valid yet, or how many days are left; none for the others."""
    authority = Authority(folder, "another")
    issued = authority.issue("short", subject="/O=Farm/CN=box", times=("20300101000000Z", "20300301120000Z"))
    pairs = [(("cert_file",), str(issued.certificate), ("key_file",), str(issued.key))]
    material = read_material(pairs, (("ca_file",), ""))
    end = 1898683200 - 86400  # 2030-03-01 00:00:00 UTC
    who = f"the certificate {issued.certificate} (CN=box,O=Farm)"

    assert [f"{who} has expired on 2030-03-01 12:00:00 UTC: peers refuse it, replace it now"] == expiring(
        material, end + 43201
    )
    assert [f"{who} expires on 2030-03-01 12:00:00 UTC, in 10 days: replace it"] == expiring(material, end - 10 * 86400)
    assert [] == expiring(material, end - 31 * 86400)
    assert "is not valid before 2030-01-01 00:00:00 UTC" in expiring(material, end - 90 * 86400)[0]


def test_flags(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--tls and its companions stand in place of the file's block; --tls=false takes that away."""
    monkeypatch.chdir(folder)
    (folder / "f.conf").write_text("tls { cert_file: rsa.pem, key_file: rsa.key }\n")
    pair = ["--tlscert", "server.pem", "--tlskey=server.key"]

    for words in (["--tls", *pair], pair, ["-c", "f.conf", *pair]):
        found = load(parse_flags(words)).server.tls
        assert found is not None
        assert ("server.pem", False) == (found.cert_file, found.verify)
    verifying = load(parse_flags([*pair, "--tlsverify", "--tlscacert", "authority.pem"])).server.tls
    assert verifying is not None
    assert (True, "authority.pem") == (verifying.verify, verifying.ca_file)
    assert load(parse_flags(["-c", "f.conf"])).server.tls is not None
    assert load(parse_flags(["-c", "f.conf", "--tls=false"])).server.tls is None
    assert load(parse_flags([*pair, "--tls=false"])).server.tls is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--tls"], "--tls needs a certificate: add --tlscert"),
        (["--tls", "--tlscert", "server.pem"], "--tls needs a private key: add --tlskey"),
        (["--tlsverify"], "--tls needs a certificate"),
        (["--tlscert", "missing.pem", "--tlskey", "server.key"], "command line: missing.pem cannot be read"),
        (["-ms", "8443"], "https needs the certificate of a tls block"),
    ],
)
def test_wrong_flags(words: list[str], said: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is missing on the command line is named."""
    monkeypatch.chdir(folder)
    with pytest.raises(ConfigError, match=re.escape(said)):
        load(parse_flags(words))
