"""Functions of the C extension that need no plane: contexts of TLS, checksums, S2 blocks, free memory.

Each is pure, but for the memory of a context or of the process, and may run on any thread. Not here: who uses a context
(logins/handshakes.py), and the format of S2 streams (jetstream/backup/s2.py).
"""

from __future__ import annotations

from leafd import native_types as t
from leafd.native import abi as lib, ffi
from leafd.native_packing import packed_texts, vars_of
from leafd.native_types import STATUS_NAMES, PlaneError

# ---- contexts of TLS: milliseconds


def make_tls(settings: t.TlsSettings, texts: t.TlsTexts) -> int:
    """A context for put_tls(), or for drop_tls() if nobody is to have it. Raises PlaneError, which says what is
    wrong with the certificates or names."""
    cell = ffi.new("tls_settings_t *", vars_of(settings))
    reason, status = ffi.new("char[]", lib.TLS_REASON_SIZE), ffi.new("int32_t *")
    strings = packed_texts(texts)
    made = lib.plane_tls_context(cell, ffi.from_buffer("uint8_t[]", strings), len(strings), reason, status)
    if made == ffi.NULL:
        why = ffi.string(reason).decode("utf-8", "replace")
        raise PlaneError(int(status[0]), why or STATUS_NAMES.get(int(status[0]), str(int(status[0]))))
    return int(ffi.cast("uintptr_t", made))


def drop_tls(context: int) -> None:
    """Frees a context that no put_tls() has taken."""
    lib.plane_tls_drop(ffi.cast("void *", context))


# ---- memory of the process: a millisecond


def give_back() -> None:
    """Pages in which nothing is allocated any more go back to the system."""
    lib.plane_give_back()


# ---- chunks of a backup: at once


def crc32c(data: bytes | bytearray | memoryview) -> int:
    """The checksum of an S2 chunk, not masked."""
    return int(lib.plane_crc32c(ffi.from_buffer("uint8_t[]", data), len(data)))


def s2_block(block: bytes | memoryview, size_max: int) -> bytearray | None:
    """The content of an S2 block; None: the block is damaged, or its content is longer than size_max bytes."""
    source = ffi.from_buffer("uint8_t[]", block)
    size = int(lib.plane_s2_size(source, len(block)))
    if not 0 <= size <= size_max:
        return None
    data = bytearray(size)
    status = int(lib.plane_s2_decode(source, len(block), ffi.from_buffer("uint8_t[]", data), size))
    return data if status == 0 else None


def s2_packed(data: memoryview, size_max: int) -> memoryview | None:
    """The S2 block of at most 256 KiB; None: it would have more than size_max bytes."""
    block = bytearray(size_max)
    room = ffi.from_buffer("uint8_t[]", block)
    size = int(lib.plane_s2_encode(ffi.from_buffer("uint8_t[]", data), len(data), room, size_max))
    return memoryview(block)[:size] if size else None
