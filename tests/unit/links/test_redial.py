"""How long a leaf waits before it dials its hub again (links/redial.py)."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from leafd.links import leaf
from leafd.links.link import Link
from leafd.links.redial import PATIENT, REFUSED_MAX_S, SOON, Redial
from leafd.native_codes import CloseReason
from leafd.native_types import Closed, LineKind, Permissions

RECONNECT_S = 8.0
BOUND = leaf.Bind(
    account=1, account_name="A", spoke=True, permissions=Permissions(), cluster="", remote_domain="hub",
    remote_name="hub", remote_id="hub", remote_account="A", headers=True, max_payload=1, system=False,
)  # fmt: skip


def furthest(what: list[str]) -> list[float]:
    """The end of each span that a wait is drawn from, while that happens before each of them."""
    spans: list[tuple[float, float]] = []

    def draw(begins: float, ends: float) -> float:
        spans.append((begins, ends))
        return ends

    redial = Redial(RECONNECT_S, draw)
    happens: dict[str, Callable[[], None]] = {
        "cut": lambda: redial.ended(CloseReason.STALE),
        "news": redial.alone,
        "ended": lambda: redial.ended(CloseReason.CLIENT),
        "refused": lambda: redial.ended(CloseReason.AUTHENTICATION),
        "login refused": lambda: redial.ended(CloseReason.CLIENT, refused=True),
        "no answer": lambda: None,
    }
    waits = []
    for one in what:
        happens[one]()
        waits.append(redial.wait_s())
    assert {begins for begins, _ in spans} == {0.0}
    return waits


def test_the_first_dial_after_a_silence_is_soon_and_those_that_follow_take_up_to_the_interval() -> None:
    """A cut that only this leaf has seen makes no crowd."""
    assert furthest(["cut", "no answer", "no answer", "no answer"]) == [2.0, 4.0, 8.0, 8.0]


@pytest.mark.parametrize("what", ["ended", "refused"])
def test_leaves_whose_hub_ends_their_links_come_back_spread_over_the_interval(what: str) -> None:
    """All of them have seen it, in the same instant."""
    assert furthest([what, "no answer", "no answer"]) == [RECONNECT_S] * 3


def test_refused_comes_less() -> None:
    """A box that was retired would carry half a gigabyte a day over its line. What ends otherwise begins anew."""
    patient, later = [RECONNECT_S] * PATIENT, [2 * RECONNECT_S, 4 * RECONNECT_S, REFUSED_MAX_S, REFUSED_MAX_S]
    assert furthest(["login refused"] * (PATIENT + 4)) == patient + later
    assert furthest(["login refused"] * (PATIENT + 2) + ["ended", "login refused"])[-2:] == [RECONNECT_S] * 2
    assert furthest(["login refused"] * 2000)[-1] == REFUSED_MAX_S


def test_a_new_way_of_the_machine_begins_anew() -> None:
    assert furthest(["ended", "no answer", "news", "no answer"]) == [8.0, 8.0, 2.0, 4.0]


def test_a_thousand_leaves_are_as_many_in_each_part_of_the_interval() -> None:
    """Full jitter: the tenth of the interval with the most of them has not twice its share."""
    drawn = random.Random(7)
    tenths = [0] * 10
    for _ in range(1000):
        one = Redial(1.0, drawn.uniform)
        one.ended(CloseReason.CLIENT)
        tenths[int(one.wait_s() * 10)] += 1
    assert sum(tenths) == 1000
    assert min(tenths) > 50
    assert max(tenths) < 200
    assert SOON < 1


@pytest.mark.parametrize(
    ("linked", "said", "turned_out"),
    [
        (False, "Authorization Violation", True),
        (True, "Authorization Violation", False),
        (True, "Duplicate Remote LeafNode Connection", True),
        (False, "Duplicate Remote LeafNode Connection", False),
        (True, "Stale Connection", False),
    ],
)
def test_who_is_turned_out(*, linked: bool, said: str, turned_out: bool) -> None:
    """A link that another one of its name has ended costs as much as a login that is refused; one that was let in and
    lost its right to be there is back with another one at once."""
    identity = leaf.Identity("id", "box", "2.15.1")
    link = Link(1, "hub:7422", leaf.Solicitor(identity, leaf.Remote(("nats-leaf://hub",), 1, "A"), "", ""))
    link.bind = BOUND if linked else None
    link.last_error = said
    assert link.turned_out == turned_out
    assert ("another machine" in link.ended_by) == (turned_out and linked)


INFO = b'{"server_id":"hub","server_name":"hub","client_id":1,"leafnode_urls":["hub:7422"],"info_on_connect":true}'
CERTIFICATE = "the peer's certificate is refused: self-signed certificate (CN=portal)"


@pytest.mark.parametrize(
    ("reason", "said", "informed", "astray"),
    [
        (CloseReason.PROTOCOL, "the hub answers the WebSocket request with '502 Bad Gateway'", False, True),
        (CloseReason.PROTOCOL, "protocol", False, True),
        (CloseReason.PROTOCOL, "maximum connections exceeded", True, False),
        (CloseReason.TLS, CERTIFICATE, True, True),
        (CloseReason.TLS, "the peer says: bad certificate", True, True),
        (CloseReason.TLS, "the peer has closed the connection", False, False),
        (CloseReason.CLIENT, "Client Closed", False, False),
        (CloseReason.STALE, "Stale Leaf Node Connection - Closing", False, False),
    ],
)
def test_where_no_hub_answers(*, reason: CloseReason, said: str, informed: bool, astray: bool) -> None:
    """A proxy whose hub is away answers at once, twice a second, for as long as that lasts. A hub that is busy or
    starts, and a line that loses packets, do not look so."""
    solicitor = leaf.Solicitor(leaf.Identity("id", "box", "2.15.1"), leaf.Remote(("nats-leaf://hub",), 1, "A"), "", "")
    if informed:
        solicitor.line(LineKind.INFO, INFO)
    link = Link(1, "hub:7422", solicitor)
    assert not link.astray
    link.closed = Closed(1, reason, "")
    link.last_error = said
    assert link.astray == astray
    link.bind = BOUND
    assert not link.astray
