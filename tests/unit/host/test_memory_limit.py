"""The limit of memory: what is configured, or a tenth of the memory that this process may use."""

from __future__ import annotations

from pathlib import Path

import pytest
from leafd.config.bind import load_file, load_text
from leafd.errors import ConfigError
from leafd.host.memory import group_limits, memory_limit, needed, warning
from leafd.native_types import Limits

MB = 1 << 20
PACKAGING = Path(__file__).parents[3] / "packaging"


@pytest.mark.parametrize(
    ("configuration", "machine", "expected"),
    [
        ("", 24_000 * MB, 2_400 * MB),
        ("", 512 * MB, 512 * MB // 10),
        ("", 256 * MB, 32 * MB),
        ("memory_limit: 48MB", 24_000 * MB, 48 * MB),
        ("max_payload: 8MB", 256 * MB, 32 * 8 * MB),
    ],
)
def test_limit_follows_the_machine(configuration: str, machine: int, expected: int) -> None:
    """A tenth of the machine, at least 32 MB, more where messages need it; what is configured goes before that."""
    assert expected == memory_limit(load_text(configuration).server, machine)


def test_limit_that_no_message_fits() -> None:
    """A limit in which messages of max_payload have no room is refused."""
    with pytest.raises(ConfigError, match="memory_limit"):
        load_text("memory_limit: 32MB, max_payload: 8MB", "box.conf")


def test_what_does_not_fit_into_the_control_group_is_told() -> None:
    """A group that load could fill beyond its limit ends in a kill, so the start says which numbers do not fit."""
    limits = Limits(memory_limit=64 * MB, max_memory_store=100 * MB)
    assert "" == warning(limits, []) == warning(limits, [228 * MB, 900 * MB])
    assert warning(limits, [227 * MB, 900 * MB]).startswith(
        "the control group's memory limit (MemoryMax=) is 227 MB, but memory_limit (64 MB), max_memory_store (100 MB)"
    )


@pytest.mark.parametrize("machine", [256 * MB, 512 * MB, 1_000 * MB, 32_000 * MB])
def test_the_packaged_unit_has_room_for_the_packaged_configuration(machine: int) -> None:
    """On small and large machines MemoryMax= of the unit is enough for what the configuration beside it allows."""
    unit = (PACKAGING / "leafd.service").read_text()
    percent = unit.partition("\nMemoryMax=")[2].partition("%")[0]
    group = machine * int(percent) // 100
    server = load_file(PACKAGING / "leafd.conf").server
    assert server.jetstream is not None
    assert server.jetstream.max_memory_store is not None
    limits = Limits(memory_limit=memory_limit(server, group), max_memory_store=server.jetstream.max_memory_store)
    assert needed(limits) <= group


def test_control_groups_around(tmp_path: Path) -> None:
    """The limits of the process's own control group and of those around it count, in both versions."""
    groups, root = tmp_path / "groups", tmp_path / "fs"
    (root / "system" / "leafd").mkdir(parents=True)
    (root / "memory" / "box").mkdir(parents=True)
    (root / "system" / "memory.max").write_text("536870912\n")
    (root / "system" / "leafd" / "memory.max").write_text("max\n")
    (root / "memory" / "box" / "memory.limit_in_bytes").write_text("268435456\n")
    groups.write_text("4:memory:/box\n2:cpu:/box\n0::/system/leafd\n")

    assert [268435456, 536870912] == sorted(group_limits(groups, root))


def test_no_control_groups(tmp_path: Path) -> None:
    """Where nothing is mounted there is no such limit."""
    assert [] == group_limits(tmp_path / "none", tmp_path)
