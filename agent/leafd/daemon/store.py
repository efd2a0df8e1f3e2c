"""The store's place and largest size. Opening it is the plane's business; its failures become one clear line here."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from leafd.config.schema.cluster import group_size
from leafd.config.schema.gateway import gateway_address
from leafd.config.schema.server import ServerConfig
from leafd.errors import StartError
from leafd.files import check_file, read_file
from leafd.host.descriptors import connections_for
from leafd.host.memory import connections_wanted, machine_bytes, memory_limit
from leafd.native_codes import Cipher, ClusteredFlag
from leafd.native_packing import StoreKeys
from leafd.native_types import Limits, PlaneError, Status
from leafd.quoting import LINE_MAX

_SHARE: Final = 0.75
_SHARED_MEMORY: Final = Path("/dev/shm")


def store_directory(server: ServerConfig) -> tuple[Path, bool]:
    """The directory of this server's data, and whether it is a temporary one."""
    configured = server.store_path()
    if configured:
        return Path(configured).absolute() / "jetstream", False
    state = os.environ.get("STATE_DIRECTORY", "").split(":")[0]
    if state:
        return Path(state) / "jetstream", False
    return _temporary() / "nats" / "jetstream", True


def enrol_directory(server: ServerConfig) -> Path | None:
    """The directory with the register of enrolled boxes; None: nobody is enrolled."""
    if server.enrol is None:
        return None
    if server.enrol.directory:
        return Path(server.enrol.directory).absolute()
    return store_directory(server)[0].with_name("enrol")


def make_directory(path: Path) -> None:
    """Makes the directory and sees that files can be made in it."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        probe = path / f".writable-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT) and path.is_dir():
            return  # a full disk is no reason not to start: the store refuses publishers until there is room
        reason = error.strerror or str(error)
        raise StartError(
            f"store directory {path} cannot be written ({reason}): change store_dir or its permissions"
        ) from error


def check_members(directory: Path) -> None:
    """Checks that the members which C opens by itself are files."""
    for name in ("data.mdb", "journal", "highwater", "lock"):
        try:
            check_file(directory / name)
        except OSError as error:
            raise StartError(f"{directory / name}: {error.strerror}: is {directory} the right store_dir?") from error


class MemoryDirectory:
    """A directory on tmpfs for memory streams, locked as long as this process lives. Those that nobody holds are
    removed."""

    def __init__(self, base: Path | None = None) -> None:
        if base is None:
            base = _SHARED_MEMORY if os.access(_SHARED_MEMORY, os.W_OK) else _temporary()
        prefix = f"leafd-{os.getuid()}-"
        for old in base.glob(f"{prefix}*"):
            lock = _lock(old)
            if lock is not None:
                _remove(old)
                os.close(lock)
        while True:
            self.path = base / f"{prefix}{secrets.token_hex(6)}"
            self.path.mkdir(mode=0o700)
            held = _lock(self.path)
            # Another process that starts right now may have taken the new directory for a stale one.
            if held is not None and self.path.exists():
                self._held = held
                return
            if held is not None:
                os.close(held)

    def remove(self) -> None:
        """At the end."""
        _remove(self.path)
        os.close(self._held)


def _temporary() -> Path:
    import tempfile  # it brings much that a daemon with a directory of its own never needs

    return Path(tempfile.gettempdir())


def _remove(directory: Path) -> None:
    """With all that is in it, as far as that can be removed."""
    for folder, folders, files in os.walk(directory, topdown=False):
        for name in files:
            with suppress(OSError):
                os.unlink(os.path.join(folder, name))
        for name in folders:  # or a link to one
            with suppress(OSError):
                os.rmdir(os.path.join(folder, name))
    with suppress(OSError):
        os.rmdir(directory)


def _lock(directory: Path) -> int | None:
    """An exclusive lock on a directory; None when somebody else holds it or it is gone."""
    try:
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def connections_max(server: ServerConfig) -> int:
    """How many connections there may be at a time."""
    return connections_for(connections_wanted(server, memory_limit(server)))


def plane_limits(server: ServerConfig, directory: Path | None) -> Limits:
    """The plane's bounds. Sizes that the configuration leaves open follow the machine, as in the reference."""
    jetstream = server.jetstream if server.jetstream is not None and server.jetstream.enabled else None
    memory = memory_limit(server)
    file_store = memory_store = 0
    if jetstream is not None and directory is not None:
        file_store = _given(jetstream.max_file_store, lambda: _disk_share(directory))
        memory_store = _given(jetstream.max_memory_store, _memory_share)
    batch = jetstream.limits.batch if jetstream is not None else None
    return Limits(
        max_file_store=file_store,
        max_memory_store=memory_store,
        sync_interval_ns=(jetstream.sync_interval or 0) if jetstream else 0,
        memory_limit=memory,
        max_pending=server.max_pending,
        write_deadline_ns=server.write_deadline,
        ping_interval_ns=server.ping_interval,
        ping_max=server.ping_max,
        max_control_line=server.max_control_line,
        max_payload=server.max_payload,
        max_connections=connections_max(server),
        jetstream=int(jetstream is not None),
        trace=traced_bytes(server),
        batches_per_stream=batch.max_inflight_per_stream if batch else 0,
        batches_total=batch.max_inflight_total if batch else 0,
        batch_messages=batch.max_msgs if batch else 0,
        batch_timeout_ns=batch.timeout if batch else 0,
        clustered=_clustered(server),
    )


def _clustered(server: ServerConfig) -> int:
    """Whether there are routes, gateways, and a group of servers."""
    routes = ClusteredFlag.ROUTES if server.cluster_address() is not None else 0
    meta = ClusteredFlag.META if routes and group_size(server) else 0
    return int(routes | meta | (ClusteredFlag.GATEWAYS if gateway_address(server) is not None else 0))


def traced_bytes(server: ServerConfig) -> int:
    """How much of a message goes into the log; 0: nothing is traced."""
    if not server.traces:
        return 0
    asked = server.max_traced_msg_len
    return min(asked, LINE_MAX) if asked > 0 else LINE_MAX


def store_keys(server: ServerConfig) -> StoreKeys | None:
    """The store's encryption; None: the store is not encrypted."""
    jetstream = server.jetstream
    if jetstream is None or not (jetstream.key or jetstream.key_file):
        return None
    cipher = Cipher.AES if jetstream.cipher == "aes" else Cipher.CHACHA
    return StoreKeys(_key(jetstream.key, jetstream.key_file), cipher, _key(jetstream.prev_key, jetstream.prev_key_file))


KEY_MAX: Final = 64 << 10


def _key(text: str, file: str) -> bytes:
    """The key itself, or what a file says."""
    if not file:
        return text.encode("utf-8", "surrogateescape")
    path = Path(file)
    try:
        key = read_file(path, KEY_MAX + 1).rstrip(b"\r\n")
    except OSError as error:
        raise StartError(f"the store's key cannot be read from {path}: {error.strerror or error}") from error
    if not key:
        raise StartError(f"the store's key in {path} is empty")
    if len(key) > KEY_MAX:
        raise StartError(f"the store's key in {path} has more than {KEY_MAX} bytes: is it the right file?")
    return key


def explain(error: PlaneError, directory: Path) -> StartError:
    """Why the store did not open, and what to do."""
    text = str(error)
    if error.status == Status.IN_USE:
        text += "" if "stop" in text else ": stop the other server, or give this one another store_dir"
    elif error.status == Status.VERSION:
        text += (
            "" if "install" in text or "upgrade" in text else ": install that version again, or use another store_dir"
        )
    elif error.status == Status.CORRUPT:
        text += ": restore the directory from a backup, or use another store_dir"
    return StartError(text if str(directory) in text else f"store {directory}: {text}")


def _given(configured: int | None, default: Callable[[], int]) -> int:
    """The configured number; absent or negative means the default, as in the reference."""
    return default() if configured is None or configured < 0 else configured


def _disk_share(directory: Path) -> int:
    """A share of what is free and of what the store takes already: a restart must not shrink the limit."""
    usage = os.statvfs(directory)
    own = sum(file.stat().st_blocks * 512 for file in directory.iterdir() if file.is_file())
    return int((usage.f_bavail * usage.f_frsize + own) * _SHARE)


def _memory_share() -> int:
    return int(machine_bytes() * _SHARE)
