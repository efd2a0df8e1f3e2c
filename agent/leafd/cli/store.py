"""A store on the disk: where it is, whether a daemon has it, what it holds, whether it is sound, and what can be saved
of one that is not.

Nothing here writes to a store that is there. Not here: copies that can be restored (backup.py), how it
is shown (store_words.py).
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from leafd.errors import LeafdError
from leafd.files import check_file, open_file, sync_directory
from leafd.native import abi
from leafd.native_packing import StoreKeys
from leafd.native_store import Audit, Facts, Look, StreamState, Watch, settle, stream_state
from leafd.native_types import PlaneError
from leafd.records import dataclass

LMDB: Final = "data.mdb"
JOURNAL: Final = "journal"
HIGHWATER: Final = "highwater"
_MARK_BYTES_MAX: Final = 4096
LOCK: Final = "lock"
ACCEPT: Final = "accept-loss"
JETSTREAM: Final = "jetstream"
"""The directory within store_dir that has the store."""


class StoreError(LeafdError):
    """The store does not allow this command."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a store, there or to be made, and its encryption."""

    directory: Path
    keys: StoreKeys | None = None
    jwt: Path | None = None
    """The directory of accounts' JWTs, where the configuration has one."""
    enrol: Path | None = None
    """The register of enrolled boxes, if the configuration lets boxes enrol."""


@dataclass(frozen=True, slots=True)
class StoredStream:
    """A stream as the store's newest checkpoint has it."""

    name: str
    account: str
    messages: int
    bytes: int
    first: int
    last: int
    subjects: int
    last_ts: int
    consumers: int


@dataclass(frozen=True, slots=True)
class Stat:
    """A store at a glance."""

    directory: str
    id: str
    format: int
    encrypted: bool
    readable: bool
    """False: it is encrypted, and its key was not given: what streams it has is not known."""
    used_by: str
    """The process that has it open, or nothing."""
    closed: bool
    data_bytes: int
    journal_bytes: int
    free_bytes: int
    streams: tuple[StoredStream, ...]


def within(directory: Path) -> Path:
    """The store, of what somebody names: itself, or the store_dir that it lies in."""
    return directory if (directory / LMDB).exists() or (directory / JOURNAL).exists() else directory / JETSTREAM


@contextmanager
def locked(directory: Path) -> Iterator[str]:
    """The store's own lock, for as long as it can be had: "" then, and no daemon starts. Otherwise who has it. Raises
    StoreError where there is no store."""
    if not directory.is_dir():
        raise StoreError(f"{directory}: there is no such directory: is this the store_dir?")
    if not (directory / LMDB).exists() and not (directory / JOURNAL).exists():
        raise StoreError(f"{directory}: there is no store: neither {LMDB} nor {JOURNAL}")
    for name in (LMDB, JOURNAL, LOCK):  # C opens the first two
        try:
            check_file(directory / name)
        except OSError as error:
            raise StoreError(f"{directory / name}: {error.strerror}: this is no store") from error
    try:
        handle = os.open(directory / LOCK, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        yield ""  # a copy that nobody has opened yet
        return
    except OSError as error:
        raise StoreError(f"{directory / LOCK}: {error.strerror}: run this as the store's owner, or as root") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield os.pread(handle, 32, 0).decode("ascii", "replace").strip() or "unknown"
            return
        yield ""
    finally:
        os.close(handle)


@contextmanager
def hold_lock(directory: Path) -> Iterator[None]:
    """The lock of a store that is to be. Raises StoreError, OSError."""
    handle = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            refuse_used(
                directory, os.pread(handle, 32, 0).decode("ascii", "replace") or "unknown", "it is not replaced"
            )
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(handle)


def refuse_used(directory: Path, holder: str, what: str) -> None:
    """Raises StoreError for a store that somebody has open."""
    if holder:
        raise StoreError(
            f"{directory}: process {holder} has this store open: {what}; stop it first (systemctl stop leafd)"
        )


def look_at(place: Place, holder: str) -> Look:
    """Opens a store to be read; holder: who has it open, empty: nobody. Raises StoreError."""
    try:
        return Look(place.directory, place.keys, used=bool(holder))
    except PlaneError as error:
        raise StoreError(f"{place.directory / LMDB}: {error}") from error


def stat(place: Place) -> Stat:
    """The facts of a store, for `leafd store stat`. Raises StoreError."""
    with locked(place.directory) as holder, look_at(place, holder) as look:
        facts = look.facts
        return Stat(
            directory=str(place.directory),
            id=facts.id,
            format=facts.format,
            encrypted=bool(facts.sealed),
            readable=not facts.sealed or bool(facts.opened),
            used_by=holder,
            closed=bool(facts.closed),
            data_bytes=_size(place.directory / LMDB),
            journal_bytes=_size(place.directory / JOURNAL),
            free_bytes=shutil.disk_usage(place.directory).free,
            streams=streams(look),
        )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def streams(look: Look) -> tuple[StoredStream, ...]:
    """The streams that the store knows, by name."""
    states: dict[int, StreamState] = {}
    consumers: dict[int, int] = {}
    definitions: dict[int, dict[str, object]] = {}
    for kind, key, value in look.records():
        stream = int.from_bytes(key[:4])
        if kind == abi.LOOK_STATE:
            states[stream] = stream_state(value)
        elif kind == abi.RECORD_CONSUMER:
            consumers[stream] = consumers.get(stream, 0) + 1
        elif kind == abi.RECORD_STREAM:
            with suppress(ValueError):
                definitions[stream] = json.loads(value)
    none = StreamState(1, 0, 0, 0, 0, 0)
    found = []
    for stream, definition in definitions.items():
        state, config = states.get(stream, none), definition.get("config")
        found.append(
            StoredStream(
                name=str(config.get("name", "")) if isinstance(config, dict) else "",
                account=str(definition.get("account", "")),
                messages=state.messages,
                bytes=state.bytes,
                first=state.first_seq,
                last=state.last_seq,
                subjects=state.subjects,
                last_ts=state.last_ts,
                consumers=consumers.get(stream, 0),
            )
        )
    return tuple(sorted(found, key=lambda one: (one.account, one.name)))


# ---- is it sound


@dataclass(frozen=True, slots=True)
class Checked:
    """The faults found in a store; none when `damage` is empty."""

    directory: str
    encrypted: bool
    readable: bool
    """False: it is encrypted, and without its key only its structure can be looked at."""
    entries: int
    messages: int
    damage: tuple[str, ...]
    subjects: tuple[str, ...]
    """Messages whose subject is not valid: older versions stored them. They can be read and deleted by sequence."""
    untold: int
    """So many more were found."""


def check(place: Place, watch: Watch) -> Checked:
    """Reads all of a store that nobody has open; changes nothing. Raises StoreError."""
    with locked(place.directory) as holder:
        refuse_used(place.directory, holder, "it can be checked when nobody writes to it")
        with look_at(place, "") as look:
            return checked(place, look, watch)


def checked(place: Place, look: Look, watch: Watch) -> Checked:
    """The same, of one that is looked at."""
    facts = look.facts
    try:
        audit = look.audit(watch)
    except PlaneError as error:
        raise StoreError(f"{place.directory / LMDB}: {error}") from error
    journal = _rehearsed(place, look, facts)
    return Checked(
        directory=str(place.directory),
        encrypted=bool(facts.sealed),
        readable=not facts.sealed or bool(facts.opened),
        entries=audit.entries,
        messages=audit.messages,
        damage=(*audit.findings, *journal),
        subjects=audit.subjects,
        untold=audit.untold,
    )


def _rehearsed(place: Place, look: Look, facts: Facts) -> Sequence[str]:
    """The complaints that a start would have about the journal, found with a copy of it and of the records that a start
    begins with."""
    if not facts.noted:
        return ("the records that a start begins with are damaged: the journal cannot be judged",)
    if facts.sealed and not facts.opened:
        return ()
    with tempfile.TemporaryDirectory(prefix="leafd-check-") as name:
        scratch = Path(name)
        try:
            look.rescue(scratch, lambda _: None, all=False)
            copy_journal(place.directory, scratch)
            return [line.replace(name, str(place.directory)) for line in settle(scratch, place.keys, lossy=False)]
        except PlaneError as error:
            return [f"a start would be refused: {error}".replace(name, str(place.directory))]
        except OSError as error:
            raise StoreError(f"no copy of the journal could be made in {scratch}: {error.strerror}") from error


def copy_journal(source: Path, target: Path) -> None:
    """The file as it is, if there is one; with holes where it has zeros. Before it the high-water mark, which tells
    what has to be in it: a daemon may go on with both meanwhile. Raises OSError."""
    try:
        with open_file(source / HIGHWATER) as read:
            (target / HIGHWATER).write_bytes(read.read(_MARK_BYTES_MAX))
            (target / HIGHWATER).chmod(0o600)
    except FileNotFoundError:
        pass  # of an older leafd
    try:
        with open_file(source / JOURNAL) as read, (target / JOURNAL).open("wb") as written:
            os.fchmod(written.fileno(), 0o600)
            size = 0
            while piece := read.read(1 << 20):
                size += len(piece)
                if piece.count(0) == len(piece):
                    written.seek(len(piece), os.SEEK_CUR)
                else:
                    written.write(piece)
            written.truncate(size)
    except FileNotFoundError:
        return


# ---- what can be saved


@dataclass(frozen=True, slots=True)
class Saved:
    """The outcome of a salvage: each loss has a line."""

    directory: str
    entries: int
    messages: int
    lost: tuple[str, ...]
    untold: int


def salvage(place: Place, to: Path, watch: Watch) -> Saved:
    """Makes a new store of what can be read of this one, which stays as it is. Raises StoreError."""
    with locked(place.directory) as holder:
        refuse_used(place.directory, holder, "what is being written cannot be salvaged")
        with made_whole(to) as partial, look_at(place, "") as look:
            try:
                audit = look.rescue(partial, watch, all=True)
                copy_journal(place.directory, partial)
                (partial / ACCEPT).touch(mode=0o600)
                alarms = settle(partial, place.keys, lossy=True)
                (partial / ACCEPT).unlink(missing_ok=True)
            except (PlaneError, OSError) as error:
                raise StoreError(f"{to}: the new store could not be made: {_why(error)}") from error
            give_to_owner_of(place.directory, partial)
            return _saved(to, partial, audit, alarms)


def _saved(to: Path, partial: Path, audit: Audit, alarms: Sequence[str]) -> Saved:
    lost = (*audit.findings, *(line.replace(str(partial), str(to)) for line in alarms))
    return Saved(str(to), audit.entries, audit.messages, lost, audit.untold)


def _why(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


@contextmanager
def made_whole(to: Path) -> Iterator[Path]:
    """A directory that is there under its name when it is whole, and not at all otherwise: what is made meanwhile has
    `.partial` behind its name, which the next one removes. Raises StoreError."""
    partial = to.with_name(f"{to.name}.partial")
    if to.name in ("", ".", "..") or (to.exists() and (not to.is_dir() or any(to.iterdir()))):
        raise StoreError(f"{to}: there already: name a directory that is not there, or is empty")
    made = missing(partial)
    try:
        if partial.exists():
            _remove_ours(partial)
        to.parent.mkdir(parents=True, exist_ok=True)
        partial.mkdir(mode=0o700)
    except OSError as error:
        raise StoreError(f"{partial}: {error.strerror}") from error
    try:
        yield partial
        sync_directory(partial)
        partial.rename(to)
        sync_directory(to.parent)
    except BaseException as error:
        shutil.rmtree(made or partial, ignore_errors=True)
        if isinstance(error, OSError):
            raise StoreError(f"{to}: {error.strerror}") from error
        raise


def missing(path: Path) -> Path | None:
    """The uppermost directory that is to be made."""
    found = None
    for one in (path, *path.parents):
        if one.exists():
            break
        found = one
    return found


_OURS: Final = frozenset({LMDB, JOURNAL, HIGHWATER, LOCK, ACCEPT, "lock.mdb", "manifest.json", "jwt", "enrol"})


def _remove_ours(partial: Path) -> None:
    """Removes the unfinished files of a command that was killed. Raises StoreError where there is anything else."""
    strange = [one.name for one in partial.iterdir() if one.name not in _OURS and not one.name.startswith("journal.")]
    if strange:
        raise StoreError(f"{partial}: it is in the way, and {strange[0]!r} in it is not of leafd: remove it yourself")
    shutil.rmtree(partial)


def give_to_owner_of(model: Path, path: Path) -> None:
    """root makes stores for the daemon's own user. Raises OSError."""
    if os.geteuid() == 0:
        owner = model.stat()
        for one in (path, *path.rglob("*")):
            os.chown(one, owner.st_uid, owner.st_gid, follow_symlinks=False)
