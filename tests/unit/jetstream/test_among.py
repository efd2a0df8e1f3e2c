"""The server that answers an endpoint, where several have JetStream together.

As among nats-servers, the group decides on streams, its leader knows all of them, and there are no templates.
"""

from __future__ import annotations

from leafd.jetstream import service
from leafd.jetstream.endpoints import templates
from leafd.jetstream.registry import Among, Endpoint, find

ELSEWHERE = {
    Among.LEADER: ("INFO", "STREAM.NAMES", "STREAM.LIST"),
    Among.PLACED: ("STREAM.CREATE.S", "STREAM.RESTORE.S"),
    Among.DECIDED: ("STREAM.UPDATE.S", "STREAM.DELETE.S"),
    Among.NONE: tuple(f"STREAM.TEMPLATE.{one}" for one in ("CREATE.T", "NAMES", "INFO.T", "DELETE.T")),
    Among.STREAM: ("STREAM.INFO.S", "STREAM.PURGE.S", "STREAM.MSG.GET.S", "CONSUMER.CREATE.S.C", "CONSUMER.NAMES.S"),
}


def line(subject: str) -> Endpoint:
    assert service.ENDPOINT_MODULES
    assert templates.TEMPLATES_MAX  # the module that a server imports with its first template
    found = find(subject.split("."))
    assert found is not None, subject
    return found


def test_each_request_is_answered_by_the_server_that_can() -> None:
    """A stream's own server answers what changes nothing that the group decides on, also one of a minority."""
    for among, subjects in ELSEWHERE.items():
        assert [among] * len(subjects) == [line(subject).among for subject in subjects]


def test_what_the_group_decides_on_has_the_configuration_that_an_author_is_judged_by() -> None:
    """elsewhere.py asks for the author's rights where a request of that kind has a body that is read."""
    reads = {
        subject: line(subject).request is not None for subject in ELSEWHERE[Among.PLACED] + ELSEWHERE[Among.DECIDED]
    }
    assert {
        "STREAM.CREATE.S": True,
        "STREAM.RESTORE.S": True,
        "STREAM.UPDATE.S": True,
        "STREAM.DELETE.S": False,
    } == reads
