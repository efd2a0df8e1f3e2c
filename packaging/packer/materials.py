"""The contents of a package, by whom and under which licence: the texts of all licences, and the bill of materials
(CycloneDX 1.5). Both are made of what is really there; a library without its licence's text ends the build.
"""

from __future__ import annotations

import email
import json
import re
import uuid
from dataclasses import dataclass, field
from email.message import Message
from pathlib import Path

from packer.command import fail
from packer.declaration import PACKAGING, Architecture, Declaration, version

LICENCE_NAMES = re.compile(r"^(LICEN[CS]E|COPYING|NOTICE)", re.IGNORECASE)
CLASSIFIER = "License :: OSI Approved :: "
# Rust leaves the place of each source file in the machine code, and with it the crate's name and version.
CRATE = re.compile(rb"/registry/src/[^/]+/([A-Za-z][\w-]*?)-(\d+\.\d+\.\d+[\w.+-]*)/")
SPACE = uuid.UUID("6f3cf6c2-5d0a-4b5c-9f5c-0d1b7a1de3a4")  # drawn once: what the bills' serial numbers are made in


@dataclass
class Material:
    """One library: its name, its licence, and what lies inside it in turn."""

    name: str
    version: str
    licence: str
    address: str  # the package URL
    texts: list[tuple[str, str]] = field(default_factory=list)
    inside: list[Material] = field(default_factory=list)

    def component(self) -> dict[str, object]:
        """As CycloneDX has it."""
        said: dict[str, object] = {"type": "library", "bom-ref": self.address, "name": self.name}
        said |= {"version": self.version} if self.version else {}
        said |= {"licenses": [{"license": {"name": self.licence}}], "purl": self.address}
        return said | ({"components": [one.component() for one in self.inside]} if self.inside else {})


def licence_of(said: Message) -> str:
    if said["License-Expression"]:
        return str(said["License-Expression"])
    classified = [one.removeprefix(CLASSIFIER) for one in said.get_all("Classifier", []) if one.startswith(CLASSIFIER)]
    return str(said["License"] or " or ".join(classified) or "see its text")


def crates(code: list[bytes]) -> list[Material]:
    """The Rust libraries that machine code was made of."""
    found = sorted({(name.decode(), number.decode()) for one in code for name, number in CRATE.findall(one)})
    return [Material(name, number, "MIT OR Apache-2.0", f"pkg:cargo/{name}@{number}") for name, number in found]


def library(declaration: Declaration, site: Path, folder: Path) -> Material:
    """A library of the tree, by its NAME.dist-info."""
    said = email.message_from_string((folder / "METADATA").read_text())
    name, number = str(said["Name"]), str(said["Version"])
    texts = [
        (path.name, path.read_text(errors="replace"))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and LICENCE_NAMES.match(path.name)
    ]
    if not texts:
        fail(f"{name} {number} comes without the text of its licence")
    files = [row.rsplit(",", 2)[0] for row in (folder / "RECORD").read_text().splitlines()]
    inside = crates([(site / file).read_bytes() for file in files if file.endswith(".so") and (site / file).exists()])
    for other in declaration.inside.get(name, []):
        inside.append(Material(other["name"], "", other["licence"], f"pkg:generic/{other['name']}"))
        if "text" in other:
            texts.append((other["name"], (PACKAGING / other["text"]).read_text()))
    return Material(name, number, licence_of(said), f"pkg:pypi/{name.lower()}@{number}", texts, inside)


def materials(declaration: Declaration, site: Path, lmdb_version: str, lmdb_text: str) -> list[Material]:
    """All libraries of the tree; LMDB where it lies beside leafd."""
    found = [library(declaration, site, folder) for folder in sorted(site.glob("*.dist-info"))]
    if lmdb_version:
        address = f"pkg:generic/lmdb@{lmdb_version}"
        found.append(Material("LMDB", lmdb_version, "OLDAP-2.8", address, [("Debian's words", lmdb_text)]))
    return sorted(found, key=lambda one: one.name.lower())


def licences(declaration: Declaration, found: list[Material]) -> str:
    """The file "copyright" of the package."""
    parts = [(PACKAGING / "copyright").read_text(), "\n", (PACKAGING.parent / "LICENSE").read_text()]
    for one in found:
        parts.append(f"\n{'-' * 80}\n{one.name} {one.version}: {one.licence}\n")
        parts += [f"with {other.name} {other.version}: {other.licence}\n" for other in one.inside]
        parts += [f"\n{name}:\n\n{text.strip()}\n" for name, text in one.texts]
    return "".join(parts)


def bill(declaration: Declaration, architecture: Architecture, found: list[Material], borrowed: list[str]) -> str:
    """The bill of materials, as JSON. No time is in it, so that the same sources give the same bytes."""
    own = f"pkg:generic/{declaration.name}@{version()}?arch={architecture.deb}"
    components: list[dict[str, object]] = [one.component() for one in found]
    for name in borrowed:
        address = f"pkg:generic/{name}"
        of_others: dict[str, object] = {"type": "library", "bom-ref": address, "name": name, "purl": address}
        of_others |= {"scope": "excluded", "description": "of the distribution: the package depends on it"}
        components.append(of_others)
    said = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": "",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": declaration.name,
                "version": version(),
                "licenses": [{"license": {"id": declaration.licence}}],
                "purl": own,
            }
        },
        "components": components,
        "dependencies": [{"ref": own, "dependsOn": [str(one["bom-ref"]) for one in components]}],
    }
    said["serialNumber"] = f"urn:uuid:{uuid.uuid5(SPACE, json.dumps(said, sort_keys=True))}"
    return json.dumps(said, indent=1) + "\n"
