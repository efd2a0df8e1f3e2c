"""The contents of package.toml, with types. No step of the build reads that file itself."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PACKAGING = Path(__file__).resolve().parent.parent
ROOT = PACKAGING.parent
WORK = ROOT / "build" / "package"


@dataclass(frozen=True)
class Architecture:
    """A kind of machine: Debian's name for it, and what others call it."""

    deb: str
    rpm: str
    wheels: str
    compiler: str
    borrowed: tuple[str, ...] = ()
    deb_depends: tuple[str, ...] = ()
    rpm_requires: tuple[str, ...] = ()

    @property
    def wide(self) -> bool:
        """Has it addresses of 64 bits?"""
        return self.deb != "armhf"


@dataclass(frozen=True)
class File:
    """One file of packaging/ in the package."""

    source: str
    to: str
    mode: int = 0o644
    configuration: bool = False


@dataclass(frozen=True)
class Declaration:
    """All of package.toml."""

    name: str
    summary: str
    description: str
    maintainer: str
    licence: str
    section: str
    group: str
    pythons: tuple[str, ...]
    sysroot: str
    left_out: tuple[str, ...]
    architectures: dict[str, Architecture]
    libraries: dict[str, str]
    inside: dict[str, list[dict[str, str]]]
    files: tuple[File, ...]
    moved_in_rpm: dict[str, str] = field(default_factory=dict)

    @property
    def python_end(self) -> str:
        """The first version of Python that the package is not for."""
        major, minor = self.pythons[-1].split(".")
        return f"{major}.{int(minor) + 1}"

    @property
    def configuration(self) -> list[str]:
        return [file.to for file in self.files if file.configuration]


def architecture(name: str, row: dict[str, Any]) -> Architecture:
    fields: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
    return Architecture(deb=name, **fields)


def read() -> Declaration:
    with (PACKAGING / "package.toml").open("rb") as file:
        said = tomllib.load(file)
    return Declaration(
        **{
            **said,
            "description": said["description"].strip(),
            "pythons": tuple(said["pythons"]),
            "left_out": tuple(said["left_out"]),
            "architectures": {name: architecture(name, row) for name, row in said["architectures"].items()},
            "files": tuple(File(**row) for row in said["files"]),
            "moved_in_rpm": {row["from"]: row["to"] for row in said["moved_in_rpm"]},
        }
    )


def version() -> str:
    return (ROOT / "agent" / "leafd" / "VERSION").read_text().strip()
