"""Tells meson.build which C files there are, so that adding one is no edit of the build file.

Meson wants sources listed and has no wildcard, because a wildcard goes stale: ninja would not notice a new file. So
this runs as a configure step. Its depfile names the tests and what decides about what they link; a change of those
configures anew. Meson (1.12) ignores directories there: after a file came or went, `touch native/sources.py` does it.

Output, one row each:
    room|NAME|FILE FILE ...|ROOM ROOM ...   the C files of a room and the rooms that it stands on
    test|NAME|FILE|ROOM ROOM ...            a C test and the rooms it may link
    fuzz|NAME|FILE|ROOM ROOM ...            a fuzz target, likewise

A room's files are named from the top of the source tree, a test's from tests/native, whose meson.build takes them.

A test links the rooms that it includes and what those stand on, nothing else, and so does a room. So a room that calls
past the rules of design (siblings, layers) fails to link, and a room that does not compile stops no other room's tests.
"""

import pathlib
import re
import sys

# Each room with the rooms it may know, itself last.
STANDS_ON = {
    "base": ["base"],
    "text": ["base", "text"],
    "net": ["base", "text", "net"],
    "raft": ["base", "raft"],
    "wire": ["base", "text", "wire"],
    "mqtt": ["base", "text", "mqtt"],
    "route": ["base", "text", "route"],
    "arrow": ["base", "text", "arrow"],
    "disk": ["base", "text", "disk"],
    "store": ["base", "text", "disk", "store"],
    "recovery": ["base", "text", "disk", "store", "recovery"],
    "consume": ["base", "text", "disk", "store", "consume"],
    "exchange": ["base", "text", "exchange"],
    "group": ["base", "text", "raft", "disk", "store", "group"],
    "jetstream": [
        "base",
        "text",
        "wire",
        "raft",
        "disk",
        "store",
        "group",
        "recovery",
        "consume",
        "exchange",
        "jetstream",
    ],
    "plane": [
        "base",
        "text",
        "net",
        "wire",
        "route",
        "raft",
        "disk",
        "store",
        "group",
        "recovery",
        "consume",
        "exchange",
        "jetstream",
        "plane",
    ],
}
STANDS_ON["sessions"] = ["base", "text", "mqtt", "sessions"]
STANDS_ON["verbs"] = [*STANDS_ON["plane"], "mqtt", "sessions", "verbs"]
STANDS_ON["meta"] = [*STANDS_ON["plane"], "meta"]
STANDS_ON["command"] = [*STANDS_ON["meta"], "command"]
STANDS_ON["driver"] = [*STANDS_ON["verbs"], "meta", "command", "driver"]
INCLUDE = re.compile(r'^\s*#\s*include\s+"(?:([a-z]+)/)?(\w+\.h)"', re.MULTILINE)


def included(source: pathlib.Path, seen: set[pathlib.Path]) -> set[str]:
    """The rooms that a file includes, also by way of headers in tests/native; these are added to `seen`."""
    seen.add(source)
    rooms = set()
    for room, name in INCLUDE.findall(source.read_text()):
        header = source.parent.parent / "native" / name
        if room:
            rooms.add(room)
        elif header.is_file() and header not in seen:
            rooms |= included(header, seen)
    return rooms


def rooms_of(source: pathlib.Path, seen: set[pathlib.Path]) -> list[str]:
    wanted = {"base"}
    for room in included(source, seen):
        wanted.update(STANDS_ON.get(room, []))
    return [room for room in STANDS_ON if room in wanted]


def main(root: pathlib.Path, output: pathlib.Path, depfile: pathlib.Path) -> None:
    rows: list[str] = []
    depends: list[pathlib.Path] = []
    for room in STANDS_ON:
        folder = root / "native" / room
        if folder.is_dir():
            files = sorted(path.relative_to(root).as_posix() for path in folder.glob("*.c"))
            if files:  # a library of nothing is an error to meson
                rows.append(f"room|{room}|{' '.join(files)}|{' '.join(STANDS_ON[room][:-1])}")
    for kind, folder, pattern in (
        ("test", root / "tests" / "native", "test_*.c"),
        ("fuzz", root / "tests" / "fuzz", "fuzz_*.c"),
    ):
        if folder.is_dir():
            for path in sorted(folder.glob(pattern)):
                seen: set[pathlib.Path] = set()
                rooms = " ".join(rooms_of(path, seen))
                depends.extend(seen)  # their includes decide what it links
                rows.append(f"{kind}|{path.stem}|../{folder.name}/{path.name}|{rooms}")
    output.write_text("\n".join(rows) + "\n")
    depfile.write_text(f"{output.name}: " + " ".join(str(path) for path in depends) + "\n")


if __name__ == "__main__":
    main(*(pathlib.Path(argument) for argument in sys.argv[1:4]))
