"""etcd's scripts of interactions, played against native/raft: the same entry by entry, but for what is listed here.

The scripts are another project's and are not kept here. They are those of the Go module MODULE where `go` is at hand,
or those in the folder that LEAFD_ETCD_SCRIPTS names.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.unit.raft.core import Core
from tests.unit.raft.etcd import Player, play, read

MODULE: Final = "go.etcd.io/raft/v3@v3.6.0"
PATIENCE: Final = 120  # seconds, for a module that is not here yet

ASKS: Final = "we always ask before we stand, so that nobody's term grows beside a leader; there etcd does not"
COUNTS: Final = "members count from when their entry is in the log (Raft), in etcd from when it is applied"
LEAVES: Final = "a leader whose removal is committed follows from its next beat on; etcd's stays if not told to go"
LEARNS: Final = "a voter is a learner first: it had the log's begin already"
FORGETS: Final = "nothing but time makes a member forget its leader"
HEARS: Final = "the core is not told that a member cannot be reached: it hears no answer"
LEADS: Final = "a leader is asked for no vote: it steps down by itself when it hears no majority"
WINDOW: Final = "what is on its way to one member is bounded by entries (4,096), in etcd by messages"
COPIES: Final = "who needs what the log has no longer is sent a copy at once; etcd asks first"
BEATS: Final = "an answer to a beat waits until the term is on the disk; etcd's leaves at once"

# By script: the lines of the commands after which something differs, and why.
DIFFERENCES: Final[dict[str, dict[int, str]]] = {
    "async_storage_writes": {},
    "async_storage_writes_append_aba_race": dict.fromkeys((409, 421, 510), BEATS),
    "campaign": {},
    "campaign_learner_must_vote": {},
    "checkquorum": dict.fromkeys((35, 67, 142, 164), ASKS),
    "confchange_disable_validation": {},
    "confchange_v1_add_single": {40: LEARNS},
    "confchange_v1_remove_leader": {**dict.fromkeys((36, 85, 117, 146), COUNTS), 221: LEAVES, 246: LEAVES},
    "confchange_v1_remove_leader_stepdown": dict.fromkeys((37, 84, 113, 120, 149), COUNTS),
    "confchange_v2_add_double_auto": {},
    "confchange_v2_add_double_implicit": {},
    "confchange_v2_add_single_auto": {41: LEARNS},
    "confchange_v2_add_single_explicit": {},
    "confchange_v2_replace_leader": {},
    "confchange_v2_replace_leader_stepdown": {},
    "forget_leader": dict.fromkeys((39, 50, 62, 74), FORGETS),
    "forget_leader_prevote_checkquorum": dict.fromkeys((94, 118, 214), FORGETS),
    "forget_leader_read_only_lease_based": {},
    "heartbeat_resp_recovers_from_probing": {40: HEARS},
    "lagging_commit": {},
    "prevote": {139: LEADS},
    "prevote_checkquorum": {},
    "probe_and_replicate": {},
    "replicate_pause": dict.fromkeys((95, 115, 152, 163), WINDOW),
    "single_node": {},
    "slow_follower_after_compaction": {80: WINDOW},
    "snapshot_succeed_via_app_resp": dict.fromkeys((71, 97, 107), COPIES),
    "snapshot_succeed_via_app_resp_behind": {},
}
# Scripts that change several members in one entry: we change one at a time, so they are played up to there.
JOINT: Final = {
    "confchange_disable_validation": 30,
    "confchange_v2_add_double_auto": 26,
    "confchange_v2_add_double_implicit": 28,
    "confchange_v2_add_single_explicit": 27,
    "confchange_v2_replace_leader": 44,
    "confchange_v2_replace_leader_stepdown": 45,
}


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Core:
    return Core(tmp_path_factory.mktemp("core"))


@pytest.fixture(scope="module")
def scripts() -> Path:
    given = os.environ.get("LEAFD_ETCD_SCRIPTS")
    if given:
        return Path(given)
    go = shutil.which("go")
    if go is None:
        pytest.skip("etcd's scripts are not here: no go, and no folder in LEAFD_ETCD_SCRIPTS")
    try:
        done = subprocess.run([go, "mod", "download", "-json", MODULE], capture_output=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{MODULE} cannot be had now")
    if done.returncode != 0:
        pytest.skip(f"{MODULE} cannot be had here")
    return Path(json.loads(done.stdout)["Dir"]) / "testdata"


def test_all_scripts_are_played(scripts: Path) -> None:
    assert {path.stem for path in scripts.glob("*.txt")} == DIFFERENCES.keys()


@pytest.mark.parametrize("name", DIFFERENCES)
def test_the_same_happens_but_for_what_is_listed(core: Core, scripts: Path, name: str) -> None:
    player, left_at = play(core, scripts / f"{name}.txt")
    found = {difference.line: str(difference) for difference in player.differences}
    assert left_at == JOINT.get(name, 0)
    unexplained = [text for line, text in found.items() if line not in DIFFERENCES[name]]
    assert unexplained == []
    assert found.keys() == DIFFERENCES[name].keys()  # what no longer differs goes from the list


@pytest.mark.parametrize(
    ("was", "is_now"),
    [
        ("  1/3 EntryNormal", "  1/4 EntryNormal"),
        ("Vote:1 Commit:3", "Vote:1 Commit:2"),
        ("1->3 MsgVote", "1->2 MsgVote"),
    ],
)
def test_a_wrong_entry_commit_or_message_is_found(core: Core, scripts: Path, was: str, is_now: str) -> None:
    text = (scripts / "campaign.txt").read_text()
    assert was in text
    player = Player(core, read(text.replace(was, is_now)))
    player.play()
    assert player.differences
