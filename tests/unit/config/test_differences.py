"""What a daemon tells of its configuration, and what a changed one is to it."""

from __future__ import annotations

from leafd.config.bind import load_text
from leafd.config.differences import changed_settings, settings
from leafd.config.schema.section import Takes

TEXT = """
listen: "127.0.0.1:4222"
authorization { token: "hidden-1" }
jetstream { store_dir: "/x", domain: a, key: "hidden-2" }
leafnodes { listen: 0.0.0.0:7422, authorization { user: u, password: "hidden-3" }
  remotes: [ { url: "nats-leaf://u:hidden-4@h:1" } ] }
accounts { A { users: [ { user: a, password: "hidden-5" } ] } }
"""


def test_settings_hold_no_secret() -> None:
    """Neither a password, nor a token, a key, or the login within an address."""
    found = settings(load_text(TEXT).server)
    assert found["listen"] == "'127.0.0.1:4222'"
    assert "hidden" not in str(found)


def test_a_change_is_found_by_settings_alone() -> None:
    """Within a block, too; nothing is found where nothing has changed, and remotes may come and go."""
    running = settings(load_text(TEXT).server)
    assert changed_settings(running, load_text(TEXT).server) == []
    (one,) = changed_settings(running, load_text(TEXT.replace("domain: a", "domain: b")).server)
    assert (one.path, one.takes, one.before, one.after) == (("jetstream", "domain"), Takes.RESTART, "'a'", "'b'")
    remote = 'leafnodes { remotes: [ { url: "nats-leaf://h:1" } ] }'
    (one,) = changed_settings({}, load_text(remote).server)
    assert (one.path, one.takes) == (("leafnodes", "remotes"), Takes.LIVE)
