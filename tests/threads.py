"""The C tests that run under the thread sanitizer, and how much of what they do.

It looks for how two threads meet. So it is of use where a function of one thread runs while another thread runs one of
its own: for 3.0 million pairs of functions in 124 programs, as of 2026-11-30. (They were counted in a build with GCC's
-finstrument-functions, by the thread that entered each function.) The programs that every run has show 99.5 % of these
pairs. A nightly run has all.

Only the standard library is used here, since tests/run reads this file before there is an environment.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.objects import starting_threads

# Tests that do the same thing again with the next bit, seed or cut do it all in the part "native"; in the part
# "threads" they do some of it.
THREADS_SOME: Final = {
    "LEAFD_TEST_STRIDE": "13",
    "LEAFD_MEMORY_STEP": "13",
    "LEAFD_POWER_CUTS": "120",
    "LEAFD_DUEL_SEED": "1",
    "LEAFD_GROUPS_SEEDS": "3",
}
# What counts blocks, as the address sanitizer's build can; a plane without a store; and of the store what one thread
# does: starts with one bit or page of a file wrong after the other, steps through many messages, more subjects than a
# cache holds (with checkpoints and kills beside it in test_store_duel and test_store_purge).
NEVER: Final = (
    *("test_plane_growth", "test_plane_steps"),
    *(f"test_store_{name}" for name in ("fill", "pages", "salvage", "slices", "sparse", "streams")),
    "test_consume_survey",
    # The threads of test_groups, of test_replicas_disk where the disk fails, and of test_store_faults_memory.
    *("test_replicas", "test_replicas_faults_memory", "test_replicas_powercut"),
    *("test_groups_faults_memory", "test_groups_pairs", "test_groups_powercut"),
    *("test_store_fill_faults_memory", "test_store_limits_faults_memory", "test_store_mending_faults_memory"),
)
# Left to nightly runs: the linker takes in what could start a thread, and these start none.
ALONE: Final = (
    "test_drain",
    *(f"test_plane_{name}" for name in ("client", "ends", "gateway", "import", "known", "latency", "leaf", "listing")),
    *(f"test_plane_{name}" for name in ("mqtt", "named", "output", "pings", "pressure", "protocol", "refused")),
    *(f"test_plane_{name}" for name in ("remembered", "route", "shares", "target", "transport", "trunk")),
)
# Left to nightly runs: other programs have all but 0.5 % of their pairs, in two thirds of the time.
MET_ELSEWHERE: Final = (
    *("test_consume_store", "test_group_powercut", "test_groups", "test_plane_mqtt_powercut"),
    *("test_replicas_aging", "test_replicas_batches", "test_replicas_grown"),
    *(f"test_store_{name}" for name in ("ahead", "apply", "faults_memory", "many", "searches_faults_memory")),
)


def under_threads(folder: Path, *, nightly: bool) -> list[str]:
    """The names, of a build with all C tests."""
    left = {*NEVER} if nightly else {*NEVER, *ALONE, *MET_ELSEWHERE}
    found = starting_threads(folder)
    unknown = left - set(found)
    assert not unknown, f"tests/threads.py names what is no C test with threads: {sorted(unknown)}"
    return [name for name in found if name not in left]
