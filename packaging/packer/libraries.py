"""The Python libraries in the package: libraries.txt pins each with the hashes of its wheels.

`packaging/build --pin` writes that file anew, from what pyproject.toml asks for and the newest versions that fit.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tomllib
from collections.abc import Iterable
from pathlib import Path

from packer.command import fail, run, say
from packer.declaration import PACKAGING, ROOT, WORK, Architecture, Declaration

PINS = PACKAGING / "libraries.txt"
PLATFORMS = ("manylinux_2_31", "manylinux_2_28", "manylinux_2_17", "manylinux2014")
# Its machine code is for one version of Python alone; the others' is for all.
PER_PYTHON = ("cffi",)
HEAD = """\
# The Python libraries that the packages carry, with the hashes of their wheels for each machine and version of Python.
# packaging/build --pin writes this file from pyproject.toml.
"""


def target(python: str, architecture: Architecture) -> list[str]:
    """The options with which pip fetches for another machine or Python than its own."""
    options = ["--only-binary", ":all:", "--python-version", python, "--implementation", "cp"]
    for abi in (f"cp{python.replace('.', '')}", "abi3", "none"):
        options += ["--abi", abi]
    for name in PLATFORMS:
        options += ["--platform", f"{name}_{architecture.wheels}"]
    return options


def same_name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(leave_out: Iterable[str] = ()) -> dict[str, tuple[str, str]]:
    """The version and the lines of each pinned library."""
    without = {same_name(name) for name in leave_out}
    found = {}
    for entry in re.findall(r"^\S+==.*(?:\n .*)*", PINS.read_text(), re.MULTILINE):
        name, version = entry.split()[0].split("==")
        if same_name(name) not in without:
            found[name] = (version, entry)
    return found


def resolve(pip: Path, options: list[str], wanted: list[str]) -> list[tuple[str, str, str]]:
    """Name, version and hash of what pip would install."""
    report = run(
        *(pip, "install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-", "--target", WORK / "nowhere"),
        *(*options, *wanted),
    )
    return [
        (one["metadata"]["name"], one["metadata"]["version"], one["download_info"]["archive_info"]["hashes"]["sha256"])
        for one in json.loads(report)["install"]
    ]


def pin(pip: Path, declaration: Declaration) -> None:
    """Writes libraries.txt anew."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        wanted = tomllib.load(file)["project"]["dependencies"]
    without = {same_name(name) for name in declaration.left_out}
    versions: dict[str, str] = {}
    for python in declaration.pythons:
        for name, version, _ in resolve(pip, target(python, declaration.architectures["amd64"]), wanted):
            if same_name(name) in without:
                continue
            if versions.setdefault(name, version) != version:
                fail(f"{name} has no version that fits all of {', '.join(declaration.pythons)}")
    hashes: dict[str, set[str]] = {name: set() for name in versions}
    for architecture in declaration.architectures.values():
        borrowed = {same_name(name) for name in architecture.borrowed}
        exact = [f"{name}=={version}" for name, version in versions.items() if same_name(name) not in borrowed]
        for python in declaration.pythons:
            for name, _, digest in resolve(pip, ["--no-deps", *target(python, architecture)], exact):
                hashes[name].add(digest)
    entries = [
        " \\\n".join([f"{name}=={versions[name]}", *(f"    --hash=sha256:{digest}" for digest in sorted(hashes[name]))])
        for name in sorted(versions, key=str.lower)
    ]
    PINS.write_text(HEAD + "\n".join(entries) + "\n")


def install(pip: Path, declaration: Declaration, architecture: Architecture) -> Path:
    """The libraries of that kind of machine for each Python, laid over each other. Made once for each libraries.txt."""
    chosen = pins(leave_out=architecture.borrowed)
    key = hashlib.sha256(
        "\n".join([*declaration.pythons, *(entry for _, entry in chosen.values())]).encode()
    ).hexdigest()
    place = WORK / architecture.deb / f"libraries-{key[:16]}"
    if place.is_dir():
        return place
    say(f"brings the Python libraries for {architecture.deb}")
    making = place.with_suffix(".making")
    shutil.rmtree(making, ignore_errors=True)
    for index, python in enumerate(declaration.pythons):
        entries = [entry for name, (_, entry) in chosen.items() if index == 0 or name in PER_PYTHON]
        if not entries:
            continue
        listed = WORK / architecture.deb / f"libraries-{python}.txt"
        listed.parent.mkdir(parents=True, exist_ok=True)
        listed.write_text("\n".join(entries) + "\n")
        folder = WORK / architecture.deb / f"libraries-{python}"
        shutil.rmtree(folder, ignore_errors=True)
        run(
            *(str(pip), "install", "--quiet", "--no-compile", "--no-deps", "--require-hashes", "--target", str(folder)),
            *(*target(python, architecture), "-r", str(listed)),
        )
        shutil.copytree(folder, making, dirs_exist_ok=True)
        shutil.rmtree(folder)
    making.rename(place)
    return place
