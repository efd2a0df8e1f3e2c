"""X.509 certificates and private keys, read from PEM files or DER bytes: names, times, the public key.

    -----BEGIN CERTIFICATE-----      Certificate: SEQUENCE
    base64 of the DER bytes            what is signed: SEQUENCE
    -----END CERTIFICATE-----            [0] version, serial number, algorithm, issuer,
                                         validity: SEQUENCE of two times
                                         subject: SEQUENCE (name) of SETs of SEQUENCE (type, value)
                                         public key: SEQUENCE (algorithm, BIT STRING)
                                         ... [3] extensions, among them the alternative names
                                       algorithm, signature

Nothing is verified here: signatures, chains and host names are OpenSSL's business (native/net). This module is
small because the daemon has to know so little, and a library for it (ssl, cryptography) costs a megabyte and more.

What comes from a peer is hostile: every length is checked, nothing recurses deeper than the format does, and Malformed
is the only exception.
"""

from __future__ import annotations

import base64
import binascii
import calendar
import re
from collections.abc import Iterator
from typing import Final

from leafd.records import dataclass

_SEQUENCE, _SET, _OID, _BITS, _OCTETS, _INTEGER = 0x30, 0x31, 0x06, 0x03, 0x04, 0x02
_UTC_TIME, _GENERAL_TIME = 0x17, 0x18
_VERSION, _EXTENSIONS, _EC_PUBLIC = 0xA0, 0xA3, 0xA1
_EMAIL, _DNS, _URI = 0x81, 0x82, 0x86
_STRINGS: Final = {0x0C: "utf-8", 0x12: "ascii", 0x13: "ascii", 0x14: "latin-1", 0x16: "ascii", 0x1E: "utf-16-be"}
_ALTERNATIVE_NAMES: Final = "2.5.29.17"
_RSA: Final = "1.2.840.113549.1.1.1"
_ED25519: Final = "1.3.101.112"
_DOMAIN_COMPONENT: Final = "0.9.2342.19200300.100.1.25"
_WEAK_DIGESTS: Final = {
    bytes.fromhex("06092a864886f70d010105"): "SHA-1",
    bytes.fromhex("06092a864886f70d010104"): "MD5",
    bytes.fromhex("06072a8648ce3d0401"): "SHA-1",
}
"""By the beginning of an AlgorithmIdentifier: RSA with either, ECDSA with SHA-1."""
_PEM: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----\s(.*?)-----END \1-----", re.DOTALL)
# Types of a name that have a short form, in the order in which Go's library writes them from the last to the first.
_SHORT: Final = {
    "2.5.4.6": "C", "2.5.4.10": "O", "2.5.4.11": "OU", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.9": "STREET",
    "2.5.4.17": "POSTALCODE", "2.5.4.3": "CN", "2.5.4.5": "SERIALNUMBER",
}  # fmt: skip
_SINGLE: Final = ("2.5.4.3", "2.5.4.5")


class Malformed(ValueError):
    """Bytes that are not what they are read as."""


Attribute = tuple[str, str]
"""Type (dotted numbers) and value of one part of a name."""
Name = tuple[tuple[Attribute, ...], ...]
"""A distinguished name: in the order of the certificate, most general part first. A part may have several values."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """The fields of a certificate. Times are Unix seconds."""

    subject: Name
    emails: tuple[str, ...]
    dns_names: tuple[str, ...]
    uris: tuple[str, ...]
    not_before_s: int
    not_after_s: int
    public_key: bytes
    """The DER of SubjectPublicKeyInfo, which pins are made of."""
    weak_digest: str = ""
    """With which it was signed, if OpenSSL takes that no more; of one that signed itself it does not count."""


# ---- DER


def _element(data: bytes, at: int) -> tuple[int, bytes, int]:
    """Tag, content and end of the element that begins at `at`."""
    if at + 2 > len(data):
        raise Malformed("the DER ends early")
    tag, size, at = data[at], data[at + 1], at + 2
    if tag & 0x1F == 0x1F:
        raise Malformed("a tag is too large")
    if size & 0x80:
        count = size & 0x7F
        if not 1 <= count <= 4 or at + count > len(data):
            raise Malformed("a length is wrong")
        size, at = int.from_bytes(data[at : at + count], "big"), at + count
    if at + size > len(data):
        raise Malformed("the DER ends early")
    return tag, data[at : at + size], at + size


def _elements(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Tag, content and the whole of each element in a row."""
    at = 0
    while at < len(data):
        start = at
        tag, content, at = _element(data, at)
        yield tag, content, data[start:at]


def _inside(data: bytes, tag: int) -> bytes:
    found, content, end = _element(data, 0)
    if found != tag or end != len(data):
        raise Malformed("another structure is expected")
    return content


def _oid(content: bytes) -> str:
    if not content or content[-1] & 0x80:
        raise Malformed("an object identifier is wrong")
    numbers, value = [], 0
    for byte in content:
        value = value << 7 | byte & 0x7F
        if value >> 64:
            raise Malformed("an object identifier is too large")
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(str(number) for number in (first, numbers[0] - 40 * first, *numbers[1:]))


def _text(tag: int, content: bytes) -> str:
    encoding = _STRINGS.get(tag)
    if encoding is None:
        raise Malformed("a name is no text")
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        raise Malformed("a name is no text") from error


def _time(tag: int, content: bytes) -> int:
    text = content.decode("ascii", "replace")
    if tag == _UTC_TIME and re.fullmatch(r"\d{12}Z", text):
        text = ("19" if text[:2] >= "50" else "20") + text
    elif tag != _GENERAL_TIME or not re.fullmatch(r"\d{14}Z", text):
        raise Malformed("a time is wrong")
    parts = [int(text[:4])] + [int(text[at : at + 2]) for at in range(4, 14, 2)]
    if not (1 <= parts[1] <= 12 and 1 <= parts[2] <= 31 and parts[3] < 24 and parts[4] < 60 and parts[5] < 60):
        raise Malformed("a time is wrong")
    return calendar.timegm((parts[0], parts[1], parts[2], parts[3], parts[4], parts[5]))


def _name(content: bytes) -> Name:
    parts = []
    for tag, group, _ in _elements(content):
        if tag != _SET:
            raise Malformed("a name is wrong")
        attributes = []
        for inner, pair, _ in _elements(group):
            fields = list(_elements(pair))
            if inner != _SEQUENCE or len(fields) != 2 or fields[0][0] != _OID:
                raise Malformed("a name is wrong")
            attributes.append((_oid(fields[0][1]), _text(fields[1][0], fields[1][1])))
        parts.append(tuple(attributes))
    return tuple(parts)


def _alternative_names(extensions: bytes) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {_EMAIL: [], _DNS: [], _URI: []}
    for _, extension, _ in _elements(_inside(extensions, _SEQUENCE)):
        fields = list(_elements(extension))
        if len(fields) < 2 or fields[0][0] != _OID or fields[-1][0] != _OCTETS:
            raise Malformed("an extension is wrong")
        if _oid(fields[0][1]) != _ALTERNATIVE_NAMES:
            continue
        for tag, content, _ in _elements(_inside(fields[-1][1], _SEQUENCE)):
            if tag in found:
                found[tag].append(_text(0x16, content))
    return found


def read_certificate(der: bytes) -> Certificate:
    """Reads a certificate. Raises Malformed."""
    signed = next(_elements(_inside(der, _SEQUENCE)), (0, b"", b""))
    if signed[0] != _SEQUENCE:
        raise Malformed("this is no certificate")
    fields = list(_elements(signed[1]))
    if fields and fields[0][0] == _VERSION:
        del fields[0]
    if len(fields) < 6 or any(fields[at][0] != _SEQUENCE for at in (1, 2, 3, 4, 5)):
        raise Malformed("this is no certificate")
    times = [_time(tag, content) for tag, content, _ in _elements(fields[3][1])]
    if len(times) != 2:
        raise Malformed("the validity is wrong")
    names: dict[int, list[str]] = {_EMAIL: [], _DNS: [], _URI: []}
    for tag, content, _ in fields[6:]:
        if tag == _EXTENSIONS:
            names = _alternative_names(content)
    return Certificate(
        subject=_name(fields[4][1]),
        emails=tuple(names[_EMAIL]),
        dns_names=tuple(names[_DNS]),
        uris=tuple(names[_URI]),
        not_before_s=times[0],
        not_after_s=times[1],
        public_key=fields[5][2],
        weak_digest="" if fields[2][2] == fields[4][2] else _weak_digest(fields[1][1]),
    )


def _weak_digest(algorithm: bytes) -> str:
    return next((name for start, name in _WEAK_DIGESTS.items() if algorithm.startswith(start)), "")


# ---- PEM files


def pem_blocks(data: bytes) -> list[tuple[str, bytes]]:
    """The label and the bytes of each block. What stands between blocks is left out. Raises Malformed."""
    found = []
    for label, body in _PEM.findall(data):
        if b":" in body:  # headers, which only encrypted keys of the old form have
            found.append((f"ENCRYPTED {label.decode()}", b""))
            continue
        try:
            found.append((label.decode(), base64.b64decode(b"".join(body.split()), validate=True)))
        except binascii.Error as error:
            raise Malformed(f"the PEM block {label.decode()} is damaged") from error
    return found


def split(ders: bytes) -> list[bytes]:
    """Certificates that lie one behind the other."""
    return [whole for _, _, whole in _elements(ders)]


def pem(der: bytes) -> str:
    """A certificate as PEM."""
    text = base64.b64encode(der).decode()
    lines = "\n".join(text[at : at + 64] for at in range(0, len(text), 64))
    return f"-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----\n"


def key_fits(label: str, der: bytes, public_key: bytes) -> bool | None:
    """Whether a private key belongs to a public one; None: this module cannot tell, OpenSSL will. Raises Malformed."""
    algorithm, bits = _public_parts(public_key)
    if label == "PRIVATE KEY":  # PKCS #8: version, algorithm, the key in an octet string
        fields = list(_elements(_inside(der, _SEQUENCE)))
        if len(fields) < 3 or fields[1][0] != _SEQUENCE or fields[2][0] != _OCTETS:
            raise Malformed("the private key is damaged")
        kind, der = _oid(next(_elements(fields[1][1]), (0, b"", b""))[1]), fields[2][1]
        if kind != algorithm:
            return False
    elif label not in ("RSA PRIVATE KEY", "EC PRIVATE KEY"):
        return None
    elif (label == "RSA PRIVATE KEY") != (algorithm == _RSA):
        return False
    if algorithm == _RSA:
        return _integers(der)[1:3] == _integers(bits)[:2]
    if algorithm == _ED25519:
        return _ed25519_public(_inside(der, _OCTETS)) == bits
    for tag, content, _ in _elements(_inside(der, _SEQUENCE)):
        if tag == _EC_PUBLIC:  # optional, and written by everything that makes keys
            return _inside(content, _BITS)[1:] == bits
    return None


def _public_parts(public_key: bytes) -> tuple[str, bytes]:
    fields = list(_elements(_inside(public_key, _SEQUENCE)))
    if len(fields) != 2 or fields[0][0] != _SEQUENCE or fields[1][0] != _BITS or len(fields[1][1]) < 2:
        raise Malformed("the public key is damaged")
    return _oid(next(_elements(fields[0][1]), (0, b"", b""))[1]), fields[1][1][1:]


def _integers(der: bytes) -> list[bytes]:
    """The numbers of a sequence that has nothing else: RSA keys."""
    found = []
    for tag, content, _ in _elements(_inside(der, _SEQUENCE)):
        if tag != _INTEGER:
            raise Malformed("the key is damaged")
        found.append(content)
    return found


def _ed25519_public(seed: bytes) -> bytes:
    from nacl.signing import SigningKey  # here: such keys are rare

    if len(seed) != 32:
        raise Malformed("the private key is damaged")
    return bytes(SigningKey(seed).verify_key)


# ---- names as the reference writes them


def name_text(name: Name, *, all_types: bool = False) -> str:
    """A name in the form of RFC 2253 as Go's library makes it of a certificate's subject, which is what people put
    into configurations: one part for each type in a fixed order. all_types: with the types that have no short form,
    in front, as reports show it."""
    found: dict[str, list[str]] = {kind: [] for kind in _SHORT}
    others = []
    for part in name:
        for kind, value in part:
            if kind not in found:
                others.append(f"{kind}={_escaped(value)}")
            elif kind in _SINGLE:
                found[kind] = [value] if value else []
            else:
                found[kind].append(value)
    groups = ["+".join(f"{_SHORT[kind]}={_escaped(one)}" for one in values) for kind, values in found.items() if values]
    return ",".join(reversed((others if all_types else []) + groups))


def domain_components(name: Name) -> str:
    """The parts of a name that are a domain's labels, as the reference puts them behind the rest; they are in nobody's
    short form. Escaped, which they are not there: a value with a comma in it would pass for two parts."""
    values = [value for part in name for kind, value in part if kind == _DOMAIN_COMPONENT]
    return ",".join(f"DC={_escaped(value)}" for value in values)


def _escaped(value: str) -> str:
    last = len(value.encode()) - 1
    shown, at = [], 0
    for char in value:
        special = char in ',+"\\<>;' or (char == " " and at in (0, last)) or (char == "#" and at == 0)
        shown.append(f"\\{char}" if special else char)
        at += len(char.encode())
    return "".join(shown)
