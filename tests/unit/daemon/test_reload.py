"""What a reload takes over of a changed configuration."""

from __future__ import annotations

import pytest
from leafd.config.bind import load_text
from leafd.daemon.reload import merged
from leafd.errors import ConfigError


def test_a_reload_is_taken_over_or_refused_as_a_whole() -> None:
    """Live keys are taken; keys on which nothing depends wait and are named; any other changed key refuses it all, with
    the place of each."""
    old = load_text("port: 1\nmax_payload: 1\njetstream { domain: a }").server
    live, lines = merged(old, load_text("port: 1\nmax_payload: 2\njetstream { domain: a, max_file: 5 }\ndebug: true"))
    assert (2, True, None) == (live.max_payload, live.debug, live.jetstream and live.jetstream.max_file_store)
    assert ["<text>:3:24: jetstream.max_file_store has changed: it takes effect at the next restart"] == lines
    with pytest.raises(ConfigError) as caught:
        merged(old, load_text("port: 2\nmax_payload: 2\njetstream { domain: b }\ndebug: true"))
    what = "has changed, which takes a restart; nothing was taken over: restart leafd, or change it back"
    assert [f"<text>:1:1: port {what}", f"<text>:3:13: jetstream.domain {what}"] == str(caught.value).splitlines()
