"""At which of a hub's servers a leaf dials: what the configuration says, and what the hub tells."""

from __future__ import annotations

from typing import Any

import pytest
from leafd.links.addresses import judged_place
from leafd.links.hub_servers import LEARNED_MAX, HubServers

A, B, C = "nats://user:secret@a:7422", "nats://user:secret@b:7422", "nats://user:secret@c:7422"
HUB = {"host": "10.0.0.1", "port": 7422}
"""Of the server that A leads to, as it knows itself."""


def servers(*urls: str, **options: Any) -> HubServers:
    """They come as they are written and told, so that a test can say which one is next."""
    return HubServers(urls, **{"shuffle": lambda found: None, **options})


def dialled(of: HubServers, times: int) -> list[str]:
    return [of.next().rpartition("@")[2] for _ in range(times)]


def linked(*urls: str, told: list[str], info: dict[str, Any] = HUB, tls: bool = False, **options: Any) -> HubServers:
    """A link to the first one, which has told of these."""
    of = servers(*urls, **options)
    at = of.next()
    of.linked(at)
    key = "ws_connect_urls" if at.startswith("ws") else "leafnode_urls"
    of.told(at, {**info, key: told}, tls=tls)
    return of


def test_addresses_are_dialled_in_turn() -> None:
    assert dialled(servers(A, B), 5) == ["a:7422", "b:7422", "a:7422", "b:7422", "a:7422"]


def test_the_order_is_drawn_unless_it_is_told() -> None:
    def turned(found: list[str]) -> None:
        found.reverse()

    assert dialled(servers(A, B, C, shuffle=turned), 3) == ["c:7422", "b:7422", "a:7422"]
    assert dialled(servers(A, B, C, shuffle=turned, in_order=True), 3) == ["a:7422", "b:7422", "c:7422"]


def test_a_server_that_ends_the_link_is_left_for_the_next_one() -> None:
    """It dies, or is stopped: it will not be back at once, and the others are there."""
    of = linked(A, told=["10.0.0.1:7422", "10.0.0.2:7422", "10.0.0.3:7422"])
    of.ended(silent=False)
    assert dialled(of, 5) == ["10.0.0.2:7422", "a:7422", "10.0.0.3:7422", "a:7422", "10.0.0.2:7422"]


def test_a_link_that_falls_silent_is_dialled_at_the_same_server_first() -> None:
    of = linked(A, told=["10.0.0.2:7422"])
    of.ended(silent=True)
    assert dialled(of, 3) == ["a:7422", "10.0.0.2:7422", "a:7422"]


def test_a_link_to_a_learned_server_ends_and_the_configured_one_is_next() -> None:
    of = linked(A, told=["10.0.0.2:7422", "10.0.0.3:7422"])
    of.ended(silent=False)
    second = of.next()
    of.linked(second)
    of.told(second, {"host": "10.0.0.2", "port": 7422, "leafnode_urls": ["10.0.0.2:7422", "10.0.0.3:7422"]}, tls=False)
    of.ended(silent=False)
    assert dialled(of, 2) == ["a:7422", "10.0.0.3:7422"]


def test_in_order_means_that_the_first_one_is_preferred_after_each_link() -> None:
    of = servers(A, B, C, in_order=True)
    dialled(of, 2)
    of.linked(B)
    of.ended(silent=False)
    assert dialled(of, 2) == ["a:7422", "b:7422"]
    of = servers(A, B, C, in_order=True)
    of.linked(of.next())
    of.ended(silent=False)
    assert dialled(of, 1) == ["b:7422"], "which has just ended the link is not the one to ask first"


def test_every_second_attempt_goes_to_the_configuration_whatever_a_hub_tells() -> None:
    of = linked(A, told=[f"10.9.9.{number}:7422" for number in range(40)])
    assert dialled(of, 40).count("a:7422") == 20


def test_a_lone_hub_that_tells_its_own_address_stays_alone() -> None:
    """Behind a router it has another one there than here. Nobody else is to be tried, so there is time to wait."""
    assert linked(A, told=["10.0.0.1:7422"]).alone
    assert not linked(A, told=["10.0.0.1:7422", "10.0.0.2:7422"]).alone


def test_an_address_that_is_configured_is_not_learned_as_well() -> None:
    assert linked(A, B, told=["b:7422", "B:7422"]).learned == ()


def test_the_server_that_is_linked_stays_known_if_it_was_learned() -> None:
    of = linked(A, told=["10.0.0.2:7422"])
    second = of.next()
    of.linked(second)
    of.told(second, {"host": "10.0.0.2", "port": 7422, "leafnode_urls": ["10.0.0.2:7422"]}, tls=False)
    assert of.learned == ("10.0.0.2:7422",)


def test_a_later_list_takes_the_place_of_the_earlier_one() -> None:
    of = linked(A, told=["10.0.0.2:7422", "10.0.0.3:7422"])
    of.told(A, {**HUB, "leafnode_urls": ["10.0.0.1:7422", "10.0.0.4:7422"]}, tls=False)
    assert of.learned == ("10.0.0.4:7422",)


def test_an_info_without_a_list_takes_nothing_away() -> None:
    of = linked(A, told=["10.0.0.2:7422"])
    of.told(A, {"leafd_held": "all"}, tls=False)
    assert of.learned == ("10.0.0.2:7422",)


def test_nothing_is_learned_if_that_is_configured() -> None:
    assert linked(A, told=["10.0.0.2:7422"], discovers=False).learned == ()


def test_a_learned_server_gets_the_login_of_the_configuration() -> None:
    of = linked(A, told=["10.0.0.2:7422"])
    assert of.next() == "nats-leaf://user:secret@10.0.0.2:7422"
    assert of.learned == ("10.0.0.2:7422",), "and what is shown has none"


def test_a_link_with_tls_learns_servers_with_tls() -> None:
    """Whatever their INFO says in plain: the password would follow."""
    assert linked(A, told=["10.0.0.2:7422"], tls=True).next().startswith("tls://")


@pytest.mark.parametrize(("url", "tls", "learned"), [("ws://u:p@a:80", False, "ws"), ("wss://u:p@a:443", True, "wss")])
def test_over_websocket_the_addresses_of_websocket_count(url: str, tls: bool, learned: str) -> None:
    of = linked(url, told=["10.0.0.2:443", "[fd00::2]:443"], tls=tls)
    assert (of.next(), of.learned) == (f"{learned}://u:p@10.0.0.2:443", ("10.0.0.2:443", "[fd00::2]:443"))
    of.told(url, {**HUB, "leafnode_urls": ["10.0.0.1:7422"]}, tls=tls)
    assert of.learned == (), "an INFO without any says that there are none any more"


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        "host",
        "host:",
        ":7422",
        "host:0",
        "host:65536",
        "host:-1",
        "host:+1",
        "host:7422.0",
        "host:\u0661\u0662",
        "a b:7422",
        "a\r\nb:7422",
        "a\0:7422",
        "h\u00f6st:7422",
        "\ud800:7422",
        "user:secret@host:7422",
        "host/path:7422",
        "host?:7422",
        "..:7422",
        "a..b:7422",
        f"{'a' * 64}:7422",
        f"{'a.' * 127}a:7422",
        "a:7422" * 11_000,
        "fd00::1:7422",
        "[fd00::1]",
        "[fd00::1:7422",
        "[host]:7422",
        "[fd00::1%eth0]:7422",
        "0.0.0.0:7422",
        "[::]:7422",
        "224.0.0.1:7422",
        "255.255.255.255:7422",
        "[ff02::1]:7422",
    ],
)
def test_what_is_no_address_is_not_dialled(text: str) -> None:
    assert judged_place(text) is None
    assert linked(A, told=[text, "10.0.0.2:7422"]).learned == ("10.0.0.2:7422",)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("10.0.0.2:7422", "10.0.0.2:7422"),
        ("Hub-2.Example.com:1", "hub-2.example.com:1"),
        ("[FD00::2]:65535", "[fd00::2]:65535"),
        ("my_host:7422", "my_host:7422"),
    ],
)
def test_an_address_is_taken_as_it_is_written(text: str, place: str) -> None:
    assert judged_place(text) == place


@pytest.mark.parametrize("text", ["127.0.0.1:22", "127.9.9.9:22", "localhost:22", "[::1]:22", "[::ffff:127.0.0.1]:22"])
def test_a_hub_elsewhere_cannot_make_this_machine_dial_itself(text: str) -> None:
    assert linked(A, told=[text]).learned == ()


def test_a_hub_on_this_machine_may_have_its_other_servers_there() -> None:
    assert linked("nats://127.0.0.1:1", told=["127.0.0.1:2"]).learned == ("127.0.0.1:2",)
    assert linked("nats://localhost:1", told=["127.0.0.1:2"]).learned == ("127.0.0.1:2",)


def test_of_ten_thousand_addresses_a_bounded_number_is_kept() -> None:
    told = [f"10.{number >> 8}.{number & 255}.1:7422" for number in range(10_000)]
    assert len(linked(A, told=told).learned) == LEARNED_MAX
