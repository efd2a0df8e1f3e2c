"""The text of /metrics, line by line as the OpenMetrics specification has it."""

from __future__ import annotations

import math

import pytest
from leafd import native_types as t
from leafd.monitor.metrics import OPENMETRICS, Family, _boxes, _Families, content_type, page


def text(found: _Families | list[Family], accept: str = OPENMETRICS) -> list[str]:
    families = found if isinstance(found, list) else list(found.by_name.values())
    return "".join(page(families, accept)).splitlines()


def test_the_samples_of_a_metric_stand_together() -> None:
    """OpenMetrics forbids to interleave them, in whatever order they were found."""
    found = _Families()
    found.gauge("a", "A", {"x": 1}, 1)
    found.gauge("b", "B", {}, 2)
    found.gauge("a", "A", {"x": 2}, 3)
    assert ['a{x="1"} 1', 'a{x="2"} 3', "b 2"] == [line for line in text(found) if not line.startswith("#")]


def test_a_counter_has_its_ending_where_each_form_wants_it() -> None:
    """OpenMetrics names the family without _total, Prometheus with it; the sample has it in both."""
    found = _Families()
    found.counter("c", "How often", {}, 5)
    assert ["# TYPE c counter", "# HELP c How often", "c_total 5", "# EOF"] == text(found)
    assert ["# TYPE c_total counter", "# HELP c_total How often", "c_total 5"] == text(found, "*/*")


def test_a_histogram_counts_what_is_below_each_bound() -> None:
    """Buckets are cumulative, and the last one has no bound."""
    found = _Families()
    found.histogram("h", "Times", t.Histogram(((0.001, 2), (0.01, 0), (math.inf, 3)), 0.5))
    expected = ['h_bucket{le="0.001"} 2', 'h_bucket{le="0.01"} 2', 'h_bucket{le="+Inf"} 5', "h_count 5", "h_sum 0.5"]
    assert expected == text(found)[2:-1]


@pytest.mark.parametrize(("name", "label"), [('a"b', 'a\\"b'), ("a\\b", "a\\\\b"), ("a\nb", "a\\nb"), ("é", "é")])
def test_a_name_cannot_end_the_label_that_it_stands_in(name: str, label: str) -> None:
    """Streams, boxes and servers are named by clients."""
    found = _Families()
    found.gauge("g", "G", {"stream_name": name}, 1)
    assert f'g{{stream_name="{label}"}} 1' == text(found)[2]


def test_what_is_not_known_of_a_box_has_no_sample() -> None:
    """How far an away box is behind is not known; 0 would be the best news."""
    found = _Families()
    boxes = [{"name": "b1", "linked": False, "behind": None}, {"name": "b2", "linked": True, "behind": 0}]
    _boxes(found, {"total": 2, "linked": 1, "boxes": boxes})
    lines = text(found)
    assert 'leafd_box_up{box="b1"} 0' in lines
    assert ['leafd_box_behind_messages{box="b2"} 0'] == [
        one for one in lines if one.startswith("leafd_box_behind_messages{")
    ]


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("application/openmetrics-text; version=1.0.0,text/plain;q=0.5", "application/openmetrics-text; version=1.0.0"),
        ("text/plain", "text/plain; version=0.0.4"),
        ("*/*", "text/plain; version=0.0.4"),
    ],
)
def test_who_does_not_ask_for_openmetrics_gets_the_older_form(accept: str, kind: str) -> None:
    """A browser and older scrapers cannot read # EOF."""
    assert content_type(accept).startswith(kind)
