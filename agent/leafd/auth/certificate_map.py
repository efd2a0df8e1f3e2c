"""verify_and_map: the user that a client's certificate stands for.

    alternative names: e-mail, DNS, URI   each as it is, the first that is a user's name
    the subject as RFC 4514 compares it   with every user's name that is a distinguished name: part by part from the
                                          most special one, then in any order
    the subject as text (RFC 2253)        with its domain components behind it, then without them

The order, and what counts as equal, are the reference's. Not here: reading a certificate
(certificates.py), whether it may be trusted (OpenSSL has seen to that), what the user may do (verdict.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeVar

from leafd.certificates import Certificate, Name, domain_components, name_text

_User = TypeVar("_User")
_Attribute = tuple[str, bytes]
_Part = frozenset[_Attribute]
_Dn = tuple[tuple[int, _Part], ...]
"""Parts, most special one first, each with the number of its attributes."""
_TYPES: Final = {
    "2.5.4.3": "cn", "2.5.4.5": "serialnumber", "2.5.4.6": "c", "2.5.4.7": "l", "2.5.4.8": "st", "2.5.4.9": "street",
    "2.5.4.10": "o", "2.5.4.11": "ou", "2.5.4.17": "postalcode", "0.9.2342.19200300.100.1.25": "dc",
}  # fmt: skip
_ESCAPED: Final = re.compile(rb'\\(?:([ "#+,;<=>\\])|([0-9A-Fa-f]{2}))')
# A backslash before something else, or a value that is BER in hexadecimal digits.
_BAD: Final = re.compile(rb'(?:^|[^\\])(?:\\\\)*(?:\\(?![ "#+,;<=>\\]|[0-9A-Fa-f]{2})|=#)')


def mapped_user(
    certificate: Certificate,
    users: Mapping[str, _User],
    may: Callable[[_User], bool] = lambda user: True,
    *,
    plain_names: bool = False,
) -> _User | None:
    """The user of that name whom `may` takes: one that may not use this kind of connection is passed over. plain_names:
    no name is compared as a distinguished one."""
    for name in (*certificate.emails, *certificate.dns_names, *certificate.uris):
        found = users.get(name) if name else None
        if found is not None and may(found):
            return found
    found = None if plain_names else _by_distinguished_name(certificate.subject, users, may)
    if found is not None:
        return found
    for name in _texts(certificate.subject):
        found = users.get(name)
        if found is not None and may(found):
            return found
    return None


def _texts(subject: Name) -> Iterator[str]:
    text, components = name_text(subject), domain_components(subject)
    if components:
        yield f"{text},{components}"
    if text:
        yield text


# ---- distinguished names


def _by_distinguished_name(subject: Name, users: Mapping[str, _User], may: Callable[[_User], bool]) -> _User | None:
    wanted = _of_subject(subject)
    if wanted is None:
        return None
    in_any_order: _User | None = None
    for name, user in users.items():
        if "=" not in name or not may(user):
            continue
        dn = parse_dn(name)
        if dn == wanted:
            return user
        if in_any_order is None and dn is not None and _same_parts(dn, wanted):
            in_any_order = user
    return in_any_order


def _of_subject(subject: Name) -> _Dn | None:
    """The subject's parts; None: a part has a type that the reference does not compare, such as an e-mail address, or
    there are no parts."""
    parts = []
    for part in reversed(subject):
        if any(kind not in _TYPES for kind, _ in part):
            return None
        if part:
            parts.append((len(part), frozenset((_TYPES[kind], value.encode()) for kind, value in part)))
    return tuple(parts) or None


def _same_parts(one: _Dn, other: _Dn) -> bool:
    left = list(other)
    for part in one:
        if part not in left:
            return False
        left.remove(part)
    return not left


def parse_dn(text: str) -> _Dn | None:
    """A distinguished name as people write it: `CN=box,OU=a+OU=b,O=Farm`; None: the text is no such name."""
    parts: list[tuple[int, _Part]] = []
    attributes: list[_Attribute] = []
    for piece, end in _unescaped(text.encode(), b",+"):
        fields = [_value(field) for field, _ in _unescaped(piece, b"=")]
        if not end and not fields[-1]:
            break  # as in the reference: a last value that is empty is left out, and its part with it
        if len(fields) < 2 or not fields[-2] or _BAD.search(piece):
            return None
        attributes.append((fields[-2].decode("utf-8", "replace").lower(), fields[-1]))
        if end != b"+":
            parts.append((len(attributes), frozenset(attributes)))
            attributes = []
    return tuple(parts)


def _unescaped(text: bytes, ends: bytes) -> list[tuple[bytes, bytes]]:
    """The pieces between unescaped ends, each with the end behind it."""
    found, start, at = [], 0, 0
    while at < len(text):
        if text[at] == 0x5C:
            at += 2
            continue
        if text[at] in ends:
            found.append((text[start:at], text[at : at + 1]))
            start = at + 1
        at += 1
    found.append((text[start:], b""))
    return found


def _value(text: bytes) -> bytes:
    """Without the blanks around it, unless they are escaped, and with its escapes resolved."""
    text = text.lstrip(b" ")
    while text.endswith(b" ") and not text.endswith(b"\\ "):
        text = text[:-1]
    return _ESCAPED.sub(lambda match: match[1] or bytes.fromhex(match[2].decode()), text)
