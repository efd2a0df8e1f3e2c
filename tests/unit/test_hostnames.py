"""Names of machines, beside Python's own codec for them."""

from __future__ import annotations

import random

import pytest
from leafd.hostnames import for_resolver, resolvable

PIECES = (".", "..", "a", "box-1", "_", "1", "é", "ß", "。", "::", "[", " ", "%", "\0", "a" * 62, "a" * 63, "a" * 64)


def encodes(host: str) -> bool:
    try:
        return bool(host.encode("idna"))
    except UnicodeError:
        return False


@pytest.mark.parametrize(
    ("host", "fits"),
    [
        ("hub.example.org", True),
        ("hub.example.org.", True),
        ("fd00::1", True),
        ("höhle.example", True),
        ("", False),
        (".", False),
        ("hub..example", False),
        ("a" * 63, True),
        ("a" * 64, False),
        ("é" * 64, False),
    ],
)
def test_a_host_has_labels_of_1_to_63_characters(host: str, fits: bool) -> None:
    """What a resolver would stumble over again and again is no host."""
    assert fits == resolvable(host)


def test_hosts_are_those_that_the_codec_takes() -> None:
    """Hosts of random pieces are judged as Python's codec judges them, which needs tables for it."""
    drawn = random.Random(26)
    for _ in range(3000):
        host = "".join(drawn.choices(PIECES, k=drawn.randrange(5)))
        assert encodes(host) == resolvable(host), repr(host)


def test_only_letters_that_dns_has_not_stay_text() -> None:
    """A resolver gets bytes wherever the name is written in the letters of DNS."""
    assert (b"hub.example.org", "höhle.example") == (for_resolver("hub.example.org"), for_resolver("höhle.example"))
