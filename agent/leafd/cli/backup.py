"""A store's backup, and the store again.

    DIRECTORY/manifest.json     written last: what has none is no backup. What follows, with sizes and SHA-256
              data.mdb          the store at one checkpoint of its, as it lies on the disk: what is encrypted stays so
              journal           what was acknowledged since
              jwt/...           accounts' JWTs, where the configuration has a directory of them
              enrol/boxes       who is enrolled, where boxes enrol themselves

A daemon may go on meanwhile: LMDB keeps the checkpoint that is being read, and the journal is copied while it still has
all that came behind it. Everything that was acknowledged before the backup began is in it. It is one moment of all
streams, with their sequences, times, consumers and positions of sources; memory streams are not part of it.

A restored store is the same bytes, so it is the same store. Neither command leaves anything half done under the name
that was given.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final

from leafd.cli.store import (
    JOURNAL,
    LMDB,
    LOCK,
    Checked,
    Place,
    StoreError,
    checked,
    give_to_owner_of,
    hold_lock,
    locked,
    look_at,
    made_whole,
    missing,
)
from leafd.errors import StartError
from leafd.files import open_file, read_file, sync_directory
from leafd.native_store import Look
from leafd.records import dataclass

MANIFEST: Final = "manifest.json"
JWT: Final = "jwt"
ENROLLED: Final = "enrol/boxes"
KIND: Final = "leafd store backup"
VERSION: Final = 2
"""The version of a backup with enrolled boxes; one without is of version 1, which every leafd restores."""
_MANIFEST_MAX: Final = 16 << 20
_PIECE: Final = 1 << 20
_TRIES: Final = 100
_JOURNAL_START: Final = 4096
"""The offset of the circle in the journal's file: native/disk/journal.h, batch.h."""
_BLOCK: Final = 4096
"""A batch begins on a multiple of it."""
_BATCH: Final = struct.Struct(">4s4xQ8xI")
_BATCH_MAGIC: Final = b"LfBj"
_RESTORING: Final = ".restoring"

Progress = Callable[[str, int, int], None]
"""Hears what is being done, how much of it is, and how much there is."""


@dataclass(frozen=True, slots=True)
class Backup:
    """The outcome of a backup or a restore."""

    directory: str
    store_id: str
    encrypted: bool
    bytes: int
    files: int
    check: Checked | None = None
    """The findings of a look at the copy."""
    kept: str = ""
    """The file of enrolled boxes that was there and stays: the backup's is older."""


def backup(place: Place, to: Path, progress: Progress) -> Backup:
    """Copies a store, in use or not, and looks at the copy. Raises StoreError."""
    with locked(place.directory) as holder, made_whole(to) as made:
        with look_at(place, holder) as look:
            _room(to.parent, look.facts.pages * look.facts.page_size + _size(place.directory / JOURNAL))
            files = _copied(place, look, made, progress)
            facts = look.facts
        found = _looked_at(Place(made, place.keys), to, progress)
        whole = {
            "kind": KIND,
            "version": VERSION if any(one["name"] == ENROLLED for one in files) else 1,
            "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "of": str(place.directory),
            "store_id": facts.id,
            "encrypted": bool(facts.sealed),
            "files": files,
        }
        with _new(made / MANIFEST) as written:
            written.write(json.dumps(whole, indent=2).encode())
        return _told(to, whole, found)


def _told(directory: Path, manifest: Mapping[str, Any], found: Checked | None = None, kept: str = "") -> Backup:
    files = manifest["files"]
    return Backup(
        directory=str(directory),
        store_id=str(manifest["store_id"]),
        encrypted=bool(manifest["encrypted"]),
        bytes=sum(one["size"] for one in files),
        files=len(files),
        check=found,
        kept=kept,
    )


def _looked_at(copy: Place, to: Path, progress: Progress) -> Checked:
    total = _size(copy.directory / LMDB)
    with look_at(copy, "") as look:
        found = checked(copy, look, lambda done: progress("looking at the copy", min(done, total), total))
    damage = (*found.damage, *_misread(copy.directory / ENROLLED))
    lines = tuple(one.replace(str(copy.directory), str(to)) for one in damage)
    return replace(found, directory=str(to), damage=lines)


def _misread(enrolled: Path) -> tuple[str, ...]:
    """The complaints that a start would have about the list of enrolled boxes."""
    if not enrolled.exists():
        return ()
    from leafd.enrol.journal import names_of

    try:
        names_of(enrolled.parent)
    except StartError as error:
        return (str(error),)
    return ()


# ---- copying


def _copied(place: Place, look: Look, made: Path, progress: Progress) -> list[dict[str, object]]:
    files = []
    journal = _journal(place.directory, look)
    if journal is not None:
        with _new(made / JOURNAL) as written:
            _put(written, journal)
        files.append(_row(JOURNAL, len(journal), hashlib.sha256(journal)))
    facts = look.facts
    with open_file(place.directory / LMDB) as read, _new(made / LMDB) as written:
        total = min(facts.pages * facts.page_size, os.fstat(read.fileno()).st_size)
        digest, first = hashlib.sha256(), look.first_pages()
        digest.update(first)
        written.write(first)
        done = read.seek(len(first))
        while done < total:
            piece = read.read(min(_PIECE, total - done))
            if not piece:
                raise StoreError(f"{place.directory / LMDB}: it became shorter while it was read")
            digest.update(piece)
            _put(written, piece)
            done += len(piece)
            progress("copying", done, total)
        written.truncate(done)
    files.append(_row(LMDB, done, digest))
    if place.jwt is not None and place.jwt.is_dir():
        (made / JWT).mkdir(mode=0o700)
        for path in sorted(one for one in place.jwt.iterdir() if one.is_file() and ".jwt" in one.suffixes):
            with open_file(path) as read_jwt:
                text = read_jwt.read()
            with _new(made / JWT / path.name) as written:
                written.write(text)
            files.append(_row(f"{JWT}/{path.name}", len(text), hashlib.sha256(text)))
        sync_directory(made / JWT)
    text = _enrolled(place.enrol) if place.enrol is not None else b""
    if text:
        (made / ENROLLED).parent.mkdir(mode=0o700)
        with _new(made / ENROLLED) as written:
            written.write(text)
        sync_directory((made / ENROLLED).parent)
        files.append(_row(ENROLLED, len(text), hashlib.sha256(text)))
    return files


def _enrolled(directory: Path) -> bytes:
    """Taken after the streams: what it says to retire, no start takes from any more. Raises StoreError."""
    from leafd.enrol.journal import whole_lines

    try:
        return whole_lines(directory)
    except OSError as error:
        raise StoreError(f"{directory}: who is enrolled cannot be read: {error.strerror}") from error


def _row(name: str, size: int, digest: Any) -> dict[str, object]:
    return {"name": name, "size": size, "sha256": digest.hexdigest()}


def _journal(directory: Path, look: Look) -> bytes | None:
    """The journal's file, with everything behind the checkpoint that is looked at; None: there is none.

    It is read against the order in which it is written: where a batch is there whole, those before it are, so that one
    that is not looks like a write that power cut short, and never like damage. Then it is looked whether the next lap
    has come past the checkpoint's place, which is read last: while it has not, what lies behind is as it was."""
    try:
        with open_file(directory / JOURNAL) as read:
            for _ in range(_TRIES):
                whole = _against_the_order(read, look.facts.position)
                if not overtaken(read, look.facts.position):
                    return whole
                look.again()
    except FileNotFoundError:
        return None
    raise StoreError(f"{directory / JOURNAL}: it is written too fast to be copied: try again when less is published")


def _against_the_order(read: BinaryIO, position: int) -> bytes:
    handle = read.fileno()
    size = os.fstat(handle).st_size
    for at in range(0, size, _PIECE):
        os.pread(handle, _PIECE, at)  # from the disk into memory: block by block backwards that takes long
    whole = bytearray(size)
    circle = size - _JOURNAL_START
    begin = _JOURNAL_START + (position % circle if circle > 0 else 0)
    for low, high in ((_JOURNAL_START, begin), (begin, size)):
        for at in range(low + (high - 1 - low) // _BLOCK * _BLOCK, low - 1, -_BLOCK):
            whole[at : at + _BLOCK] = os.pread(handle, min(_BLOCK, size - at), at)
    head = os.pread(handle, min(_JOURNAL_START, size), 0)
    whole[: len(head)] = head
    return bytes(whole)


def overtaken(read: BinaryIO, position: int) -> bool:
    """True if a batch of the next lap reaches past the place of that position, in the journal's file. A compressed one
    need not have written there, so its header is asked."""
    size = os.fstat(read.fileno()).st_size
    circle = size - _JOURNAL_START
    for at in range(_JOURNAL_START, size - _BATCH.size, _BLOCK):
        magic, begins, length = _BATCH.unpack(os.pread(read.fileno(), _BATCH.size, at))
        its_own = magic == _BATCH_MAGIC and begins % circle == at - _JOURNAL_START
        if its_own and begins + length > position + circle:
            return True
    return False


def _put(written: BinaryIO, piece: bytes) -> None:
    """Zeros become a hole."""
    for at in range(0, len(piece), _PIECE):
        part = piece[at : at + _PIECE]
        if part.count(0) == len(part):
            written.seek(len(part), os.SEEK_CUR)
        else:
            written.write(part)
    written.truncate(written.tell())


@contextmanager
def _new(path: Path) -> Iterator[BinaryIO]:
    """A file that is on the disk at the end. Raises StoreError."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(handle, "wb") as written:
            yield written
            written.flush()
            os.fsync(written.fileno())
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from error


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _room(directory: Path, needed: int) -> None:
    """Better now than after an hour. Raises StoreError."""
    there = directory
    while not there.exists() and there != there.parent:
        there = there.parent
    free = shutil.disk_usage(there).free
    if free < needed:
        raise StoreError(f"{there}: {free:,} bytes are free there, and it takes up to {needed:,}")


# ---- the store again


def manifest_of(source: Path) -> dict[str, Any]:
    """The manifest of a backup. Raises StoreError for what is none that came to its end, or has names that no backup of
    ours has."""
    path = source / MANIFEST
    try:
        found = json.loads(read_file(path, _MANIFEST_MAX))
    except FileNotFoundError as error:
        raise StoreError(f"{path} is not there: this is no backup, or one that did not come to its end") from error
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{path}: it is damaged: {error}") from error
    if not isinstance(found, dict) or found.get("kind") != KIND:
        raise StoreError(f"{path}: this is not the manifest of a store's backup")
    if found.get("version") not in range(1, VERSION + 1):
        raise StoreError(f"{path}: it was made by a newer leafd: restore it with that version")
    files = found.get("files")
    if not isinstance(files, list) or not all(_is_row(one) for one in files):
        raise StoreError(f"{path}: it is damaged: its list of files cannot be read")
    names = [one["name"] for one in files]
    if LMDB not in names or len(set(names)) != len(names):
        raise StoreError(f"{path}: it is damaged: its list of files is not that of a store")
    return {"store_id": "", "encrypted": False, **found}


def _is_row(one: object) -> bool:
    if not isinstance(one, dict):
        return False
    name, size, digest = one.get("name"), one.get("size"), one.get("sha256")
    if not isinstance(name, str) or not isinstance(digest, str) or type(size) is not int or size < 0:
        return False
    jwt = name.removeprefix(f"{JWT}/")
    own = name in (LMDB, JOURNAL, ENROLLED)
    return own or (name != jwt and "/" not in jwt and "\0" not in jwt and jwt not in ("", ".", ".."))


def restore(source: Path, place: Place, progress: Progress) -> Backup:
    """Puts a backup where no store is. Raises StoreError."""
    manifest = manifest_of(source)
    rows = {one["name"]: one for one in manifest["files"]}
    beside = _beside(place, rows)
    kept = _kept(beside.get(ENROLLED))
    if kept:
        del rows[ENROLLED]
    target = place.directory
    made = missing(target)
    with _emptied(target, place.jwt if any(name.startswith(f"{JWT}/") for name in rows) else None):
        model = target if made is None else made.parent
        _room(target, sum(one["size"] for one in rows.values()))
        aside = target / _RESTORING
        try:
            aside.mkdir(mode=0o700)
            done, total = 0, sum(one["size"] for one in rows.values())
            for name, row in rows.items():
                to = aside / name.replace("/", "-")
                done += _take(source / name, to, row, partial(_go_on, progress, done, total))
            give_to_owner_of(model, aside)
            _place(aside, target, beside, rows, model)
            if made is not None:
                give_to_owner_of(model, made)
        except OSError as error:
            raise StoreError(f"{target}: {error.strerror}") from error
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    return _told(target, manifest | {"files": list(rows.values())}, kept=kept)


def _beside(place: Place, names: Iterable[str]) -> dict[str, Path]:
    """The places of files that are not in the store's own directory, by their names in the backup. Raises
    StoreError."""
    found: dict[str, Path] = {}
    for name in names:
        if name == ENROLLED:
            if place.enrol is None:
                raise StoreError(
                    "the backup has who is enrolled: name the configuration (-c), which has an enrol block, or --enrol "
                    "DIRECTORY"
                )
            found[name] = place.enrol / Path(ENROLLED).name
        elif "/" in name:
            if place.jwt is None:
                raise StoreError("the backup has JWTs of accounts: name the configuration (-c), or --jwt DIRECTORY")
            found[name] = place.jwt / name.rpartition("/")[2]
    return found


def _kept(enrolled: Path | None) -> str:
    """The file that is there and says who is enrolled, if one does: an older one would let in again who is retired."""
    return str(enrolled) if enrolled is not None and _size(enrolled) else ""


def _go_on(progress: Progress, before: int, total: int, now: int) -> None:
    progress("restoring", before + now, total)


@contextmanager
def _emptied(target: Path, jwt: Path | None) -> Iterator[None]:
    """A directory in which there is no store, and no daemon begins one. Raises StoreError."""
    made = missing(target)
    try:
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        with hold_lock(target):
            there = sorted({one.name for one in target.iterdir()} - {LOCK, _RESTORING})
            if there:
                raise StoreError(
                    f"{target}: it is not empty: {there[0]!r} is there. A store is restored where none is: move it away"
                )
            if jwt is not None and jwt.is_dir() and any(jwt.iterdir()):
                raise StoreError(f"{jwt}: it is not empty: the backup has JWTs that go there; move these away")
            shutil.rmtree(target / _RESTORING, ignore_errors=True)
            yield
    except BaseException as error:
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)
        elif not (target / LMDB).exists():
            (target / LOCK).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise StoreError(f"{target}: {error.strerror}") from error
        raise


def _take(source: Path, to: Path, row: Mapping[str, Any], progress: Callable[[int], None]) -> int:
    """Copies a file that has to be what the manifest says; how much it is. Raises StoreError, OSError."""
    digest, done = hashlib.sha256(), 0
    try:
        read = open_file(source)
    except OSError as error:
        raise StoreError(f"{source}: {error.strerror}: the backup is not whole, and nothing was restored") from error
    with read, _new(to) as written:
        while piece := read.read(_PIECE):
            digest.update(piece)
            _put(written, piece)
            done += len(piece)
            progress(done)
            if done > row["size"]:
                break
    if done != row["size"] or digest.hexdigest() != row["sha256"]:
        raise StoreError(f"{source}: it is not what {MANIFEST} says: the backup is damaged, and nothing was restored")
    return done


def _place(aside: Path, target: Path, beside: Mapping[str, Path], names: Iterable[str], model: Path) -> None:
    """All files get their names, data.mdb last: a start refuses a journal without it. Raises OSError."""
    placed: list[Path] = []
    try:
        for name in sorted(names, key=lambda one: (one == LMDB, one)):
            to = beside.get(name, target / name)
            made = missing(to.parent)
            if made is not None:
                to.parent.mkdir(mode=0o700, parents=True)
                give_to_owner_of(model, made)
            (aside / name.replace("/", "-")).rename(to)
            placed.append(to)
        for directory in {one.parent for one in placed}:
            sync_directory(directory)
    except OSError:
        for one in placed:
            one.unlink(missing_ok=True)
        raise
