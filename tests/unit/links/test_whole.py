"""Which links that others dial have one line, as far as control tells the plane (native/plane/trunk.h)."""

from __future__ import annotations

from leafd.links.link import whole_of


def test_what_has_enrolled_is_one_box_whatever_it_says() -> None:
    """It cannot say that it is another one, and have a part of that one's line."""
    honest = whole_of("UBOX1", "box-1", "N1")

    assert honest == whole_of("UBOX1", "box-2", "N2")
    assert honest != whole_of("UBOX2", "box-1", "N1")
    assert whole_of("", "box-1", "N1") not in (0, honest)


def test_a_domain_is_one_whichever_of_its_servers_dials() -> None:
    """Servers that stand together have one line."""
    assert whole_of("", "site", "N1") == whole_of("", "site", "N2")
    assert whole_of("", "site", "N1") != whole_of("", "other", "N1")


def test_a_server_without_domain_is_one_by_its_id() -> None:
    """As a box without JetStream; of one without an id nothing is known."""
    assert whole_of("", "", "N1") != whole_of("", "", "N2")
    assert whole_of("", "", "N1") == whole_of("", "", "N1") != 0
    assert whole_of("", "", "") == 0
    assert whole_of("", "N1", "") != whole_of("", "", "N1")
