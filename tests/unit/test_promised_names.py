"""Each row of "Names beside the subject" of promises.md rests on tests that are named here."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests.unit import proofs

PAGE: Final = Path(__file__).resolve().parents[2] / "packaging" / "doc" / "promises.md"
SCHEDULE: Final = (
    "native/test_plane_names.c: a schedule names as target, as source, or as the schedule that ends, what its sender "
    "may publish or read"
)
AUTHOR: Final = (
    "native/test_plane_names.c: a schedule fires by what control says that its author may do today, and waits until "
    "that is said"
)
LATER: Final = "interop/test_schedule_authors.py::test_rights_that_a_reload_takes_away_count_for_schedules"
DENIALS: Final = "interop/test_denials.py::test_every_path_meets_every_denial"
MAKER: Final = "interop/test_stream_authors.py::test_a_stream_publishes_in_the_name_of_who_makes_it"
MAKER_LATER: Final = "interop/test_stream_authors.py::test_rights_that_a_reload_takes_away_count_for_streams"
ASKED: Final = "unit/jetstream/test_publishing.py::test_what_is_judged_is_where_the_origin_is_asked"
NO_API: Final = (
    "native/test_plane_jetstream.c: what JetStream publishes to a subject of somebody's choice never asks its API; "
    "clients and control do"
)
GATE: Final = "native/test_store_rules.c: a message without a valid subject is refused however it comes"
PROOFS: Final[dict[str, tuple[str, ...]]] = {
    "$JS.ACK.…@subject, a reply": (
        "native/test_plane_names.c: the name behind an acknowledgement reaches no API and no stream, and subscribers "
        "if the link may publish there",
        "interop/test_names_attacks.py::test_no_second_name_leads_where_the_leaf_may_not",
        "interop/test_names_attacks.py::test_no_second_name_of_a_hub_leads_where_the_box_denies_it",
        "interop/test_copies_attacks.py::test_a_leaf_puts_no_name_that_it_may_not_publish_into_a_copy",
        "unit/links/test_replicas.py::test_who_answers_for_an_origin",
    ),
    "Nats-Trace-Dest": (DENIALS,),
    "Nats-Schedule-Target": (SCHEDULE, DENIALS, LATER),
    "Nats-Schedule-Source": (SCHEDULE, DENIALS, LATER),
    "Nats-Scheduler": (SCHEDULE,),
    "Leafd-Schedule-Author, in front of the first header": (
        "native/test_plane_vouch.c: a server that is believed is told who sends a schedule and may use its names, and "
        "no other is",
        "native/test_plane_vouch.c: that is believed of such a server alone, and seen by nobody who listens",
    ),
    "Nats-Schedule-Author": (
        AUTHOR,
        "interop/test_schedule_authors.py::test_nobody_can_write_who_a_schedules_author_is",
        "interop/test_schedule_authors.py::test_nobody_can_write_it_in_a_batch_either",
    ),
    "Nats-Stream-Source": (
        "native/test_plane_backup.c: message ids, lifetimes and how far a source had come are made anew from headers",
    ),
    "Nats-Request-Info": ("interop/test_request_info.py::test_who_asks", "wire/client/import-service.wire"),
    "reply of a publish, request or pull": (NO_API, DENIALS),
    "deliver subject of a consumer": (
        NO_API,
        "native/test_plane_names.c: what a consumer delivers to a stream is stored under the subject that it was "
        "delivered to",
    ),
    "subject of an answer to flow control: a reply, Nats-Consumer-Stalled": (
        "hostile/test_origin.py::test_an_origin_s_flow_control_is_answered_nowhere_else",
    ),
    "destination of a republish": ("wire/jetstream/republish-errors.wire", MAKER, MAKER_LATER),
    "destination of a transform": (GATE,),
    "destination of a mapping": (DENIALS,),
    "external.api": (MAKER, MAKER_LATER, ASKED),
    "external.deliver": (NO_API,),
}


def rows() -> list[str]:
    """The first column, without markup."""
    part = PAGE.read_text().partition("## Names beside the subject")[2].partition("\n## ")[0]
    return [re.sub(r"`", "", line.split("|")[1]).strip() for line in part.splitlines() if line.startswith("|")][2:]


def test_each_name_has_its_proof() -> None:
    """A new row needs one in the table above, and the other way round."""
    assert sorted(PROOFS) == sorted(rows())


@pytest.mark.parametrize("proof", sorted({proof for proofs_of_one in PROOFS.values() for proof in proofs_of_one}))
def test_the_proof_is_there(proof: str) -> None:
    """A test that was renamed or removed leaves the table, too."""
    assert proofs.holds(proof)


def test_only_the_judge_makes_a_judged_name() -> None:
    """judged_t of judge.h: elsewhere one is passed on, or emptied."""
    made = re.compile(r"\(judged_t\)|judged_t \w+ = \{|\bshown\.name = (?!BYTES_NONE)")
    native = PAGE.parents[2] / "native"
    files = {file for file in native.rglob("*.[ch]") if made.search(file.read_text())}
    assert {native / "plane" / "judge.c"} == files
