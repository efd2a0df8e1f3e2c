"""Facts about C tests that the object files of a build tell.

Only the standard library is used here, since tests/run reads this file before there is an environment.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path


def starting_threads(folder: Path) -> list[str]:
    """The C tests from whose own code a call that starts a thread is reached, file by file, as a linker goes that takes
    of a room the files that are asked for: none can be forgotten, whatever it includes."""
    objects = [str(path.relative_to(folder)) for path in folder.glob("tests/native/*.p/*.o")]
    rooms = {str(path.relative_to(folder)) for path in folder.glob("libleafd_*.p/*.o")}
    said = subprocess.run(["nm", "-A", *objects, *rooms], cwd=folder, capture_output=True, text=True, check=True).stdout
    wants: dict[str, set[str]] = {}  # of each file the names that others have
    own: dict[str, set[str]] = {}  # of each file its own names
    has: dict[str, str] = {}  # of each name of a room's the file that has it
    for path, kind, name in re.findall(r"^(.+?):[0-9a-f ]+ ([A-Za-z]) (\S+)$", said, re.MULTILINE):
        if kind == "U":
            wants.setdefault(path, set()).add(name)
        elif kind.isupper():
            own.setdefault(path, set()).add(name)
            if path in rooms:
                has[name] = path

    def starts(path: str) -> bool:
        seen, left = {path}, [path]
        while left:
            # (What a test has itself is not taken from a room.)
            names = wants.get(left.pop(), set()) - own.get(path, set())
            if "pthread_create" in names:
                return True
            new = {has[name] for name in names if name in has} - seen
            seen |= new
            left += new
        return False

    found = sorted(Path(path).parent.name.removesuffix(".p") for path in objects if starts(path))
    assert 0 < len(found) < len(objects), f"{len(found)} of {len(objects)} C tests start threads"
    return found
