"""What the packages' scripts do with instances (leafd@NAME): run with every program that they call in a stand-in's
place, which writes down how it was called."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

PACKAGING = Path(__file__).resolve().parents[2] / "packaging"
PROGRAMS = (
    "systemctl",
    "systemd-sysusers",
    "deb-systemd-helper",
    "deb-systemd-invoke",
    "useradd",
    "getent",
    "find",
)
INSTANCES = "leafd@*.service"


def called(script: str, folder: Path, *arguments: str, booted: bool = True) -> list[str]:
    """The calls of a script of packaging/ on a machine that systemd has booted, or not."""
    log = folder / "log"
    for name in PROGRAMS:
        program = folder / name
        program.write_text(f'#!/bin/sh\necho "{name} $*" >> {log}\n')
        program.chmod(0o755)
    running = folder / "running"
    if booted:
        running.mkdir(exist_ok=True)
    text = (PACKAGING / script).read_text().replace("/run/systemd/system", str(running))
    text = text.replace("/usr/bin/python3", "true").replace("/var/lib/leafd", str(folder / "none"))
    environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"}
    log.write_text("")
    subprocess.run(["/bin/sh", "-c", text, script, *arguments], check=True, env=environment, capture_output=True)
    return log.read_text().splitlines()


def of_instances(calls: list[str]) -> list[str]:
    """What systemd is told to do with them."""
    return [next(word for word in one.split()[1:] if word[0] != "-") for one in calls if INSTANCES in one.split()]


@pytest.mark.parametrize(
    ("script", "arguments"),
    [("deb/postinst", ("configure", "0.9")), ("deb/postinst", ("configure", "")), ("rpm/post", ("2",))],
)
def test_an_upgrade_restarts_the_instances_that_run(script: str, arguments: tuple[str, ...], tmp_path: Path) -> None:
    """After systemd has read the new units; one that does not run is not started."""
    calls = called(script, tmp_path, *arguments)
    assert of_instances(calls) == ["try-restart"]
    assert next(i for i, one in enumerate(calls) if "daemon-reload" in one) < next(
        i for i, one in enumerate(calls) if INSTANCES in one
    )


@pytest.mark.parametrize(("script", "arguments"), [("deb/prerm", ("remove",)), ("rpm/preun", ("0",))])
def test_a_removal_stops_all_instances(script: str, arguments: tuple[str, ...], tmp_path: Path) -> None:
    """None runs on with files that are gone."""
    assert of_instances(called(script, tmp_path, *arguments)) == ["stop"]


@pytest.mark.parametrize(("script", "arguments"), [("deb/prerm", ("upgrade", "1.1")), ("rpm/preun", ("1",))])
def test_an_upgrade_stops_no_instance_before_the_new_files_are_there(
    script: str, arguments: tuple[str, ...], tmp_path: Path
) -> None:
    """They run on until the new version restarts them."""
    assert of_instances(called(script, tmp_path, *arguments)) == []


@pytest.mark.parametrize("script", ["deb/postinst", "deb/prerm"])
def test_where_systemd_does_not_run_nothing_is_asked_of_it(script: str, tmp_path: Path) -> None:
    """In a chroot or while an image is made."""
    calls = called(script, tmp_path, "configure" if script.endswith("inst") else "remove", booted=False)
    assert not any(one.startswith(("systemctl", "deb-systemd-invoke")) for one in calls)
