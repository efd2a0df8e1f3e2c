"""Members of native/raft and of raft-rs make one group: they lead and follow each other, and agree.

LEAFD_RAFT_RS=n runs n schedules. Without it these tests are left out, since building raft-rs and the crates that it
stands on takes minutes.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.unit.raft.core import NATIVE
from tests.unit.raft.mixed_groups import build

SCHEDULES: Final = os.environ.get("LEAFD_RAFT_RS", "0")
# Rules that such groups need: theirs are no changes of members and no leases.
RULES: Final = (
    *("OWN_TERM", "ENTRIES_ON_DISK", "OWN_ON_DISK", "OWN_VOTE", "NEWEST_LOG", "ONE_VOTE", "FITTING"),
    *("CUT_CONFLICT", "COMMIT_FITTING"),
)

pytestmark = [
    pytest.mark.minutes(600),
    pytest.mark.skipif(SCHEDULES == "0", reason="LEAFD_RAFT_RS does not say how many schedules"),
    pytest.mark.skipif(shutil.which("cargo") is None, reason="no cargo here"),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("mixed"), "-DRAFT_RULES")


def run(program: Path, schedules: str, without: int) -> tuple[int, str]:
    environment = {**os.environ, "LEAFD_RAFT_WITHOUT": str(without)}
    done = subprocess.run([program, "1", schedules], env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout


def test_they_agree_by_any_schedule(program: Path) -> None:
    status, said = run(program, SCHEDULES, 0)
    assert status == 0, said
    counts = [int(count) for count in re.findall(r"\d+", said)]
    assert min(counts) > int(SCHEDULES) // 10  # a run in which nothing happens proves nothing


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_taken_out_is_found_missing(program: Path, rule: str) -> None:
    names = re.findall(r"\bRULE_(\w+)(?= = 0,|,)", (NATIVE / "raft" / "private.h").read_text())
    status, said = run(program, "10000", names.index(rule))
    assert status != 0, said
