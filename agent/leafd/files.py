"""Files that somebody has named: opened without waiting, and only where they are files.

A name of the configuration, of a command or in a directory that others can write to may lead to a named pipe, whose
opening waits until somebody writes to it, to a terminal or to a device without an end. Also how a directory keeps the
names that were given in it. Not here: what is in a file, and how large it may be.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

_KINDS: Final = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFDIR: "a directory",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_NOT_THERE: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)


def open_file(path: str | Path, flags: int = os.O_RDONLY) -> BinaryIO:
    """A file to read from. Raises OSError, for what is no file as well."""
    handle = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        _judge(os.fstat(handle).st_mode, path)
        return open(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_file(path: str | Path, most: int) -> bytes:
    """The content of a file, up to so many bytes. Raises OSError."""
    with open_file(path) as file:
        return file.read(most)


def is_there(path: Path) -> bool:
    """Whether something has that name; a name that is too long for the file system nothing has. Raises OSError where
    that cannot be told."""
    try:
        path.stat()
    except OSError as error:
        if error.errno in _NOT_THERE:
            return False
        raise
    return True


def check_file(path: Path) -> None:
    """For what C opens by itself: what has that name, if anything, has to be a file. Raises OSError."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    _judge(mode, path)


def _judge(mode: int, path: str | Path) -> None:
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, f"it is {_KINDS.get(stat.S_IFMT(mode), 'something else')} and no file", str(path))


def open_end(path: str | Path) -> int:
    """A descriptor that writes at the end of a file, which it makes, or into a pipe that somebody reads. Raises OSError
    where nobody does."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    handle = os.open(path, flags, 0o666)
    os.set_blocking(handle, True)
    return handle


def sync_directory(path: str | Path) -> None:
    """Names that were given to files in it, or taken away, stay so. Raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
