"""S2 streams as bytes: chunks out of what arrives in pieces, and chunks around what is to be sent.

    stream: chunk, chunk, ...     chunk: type (1), size of the rest (3, little-endian), rest
    0xff identifier "S2sTwO" (or "sNaPpY"), first    0x00 checksum (4), compressed block    0x01 checksum (4), raw bytes
    0x80..0xfe may be skipped                        everything else: not understood

Pure: checksums and blocks are the C extension's. What a sixteenth of a chunk is not saved on is written raw.
Texts of errors are the reference's. Not here: what the bytes mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from leafd.native_functions import crc32c, s2_block, s2_packed

IDENTIFIER: Final = b"\xff\x06\x00\x00S2sTwO"
_IDENTIFIERS: Final = (b"S2sTwO", b"sNaPpY")
WRITTEN_MAX: Final = 256 << 10
"""The most bytes, not compressed, of a chunk. Each is compressed for itself: smaller ones refer to less."""
BLOCK_MAX: Final = 4 << 20  # of one chunk, not compressed
# What a block of that size may take when it does not compress, and its checksum.
_CHUNK_MAX: Final = BLOCK_MAX + BLOCK_MAX // 6 + 36

CORRUPT: Final = "s2: corrupt input"


class S2Error(Exception):
    """Not an S2 stream, or a damaged one."""


def _masked(checksum: int) -> int:
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF


def chunks(data: bytes | bytearray) -> bytes:
    """The bytes as chunks; IDENTIFIER goes in front of a stream's first ones."""
    out = bytearray()
    with memoryview(data) as view:
        for at in range(0, len(data), WRITTEN_MAX):
            part = view[at : at + WRITTEN_MAX]
            packed = s2_packed(part, len(part) - len(part) // 16 - 1)
            body = part if packed is None else packed
            out += (b"\x01" if packed is None else b"\x00") + (len(body) + 4).to_bytes(3, "little")
            out += _masked(crc32c(part)).to_bytes(4, "little")
            out += body
            part.release()
    return bytes(out)


class Reader:
    """Takes a stream in pieces of any size; holds at most one chunk."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._skip = 0
        self._started = False

    def feed(self, piece: bytes) -> Iterator[bytes | bytearray]:
        """The content of the chunks that are complete by now; an empty piece for a chunk without content, so that a
        caller can pause between any two."""
        self._held += piece
        while True:
            if self._skip:
                gone = min(self._skip, len(self._held))
                del self._held[:gone]
                self._skip -= gone
            if self._skip or len(self._held) < 4:
                return
            kind, size = self._held[0], int.from_bytes(self._held[1:4], "little")
            self._judge(kind, size)
            if 0x80 <= kind <= 0xFE:
                self._skip = 4 + size
                yield b""
                continue
            if len(self._held) < 4 + size:
                return
            body = bytes(self._held[4 : 4 + size])
            del self._held[: 4 + size]
            if kind == 0xFF:
                if body not in _IDENTIFIERS:
                    raise S2Error(CORRUPT)
                self._started = True
                yield b""
                continue
            yield self._data(kind, body)

    @property
    def held(self) -> int:
        """Bytes of a chunk that is not whole."""
        return len(self._held)

    def end(self) -> None:
        """The stream ends here; it may not end inside of a chunk."""
        if self._held or self._skip:
            raise S2Error(CORRUPT)

    def _judge(self, kind: int, size: int) -> None:
        if not self._started and kind != 0xFF:
            raise S2Error(CORRUPT)
        if kind == 0xFF and size != 6:
            raise S2Error(CORRUPT)
        if kind in (0, 1) and not 4 <= size <= _CHUNK_MAX:
            raise S2Error(CORRUPT)
        if 2 <= kind <= 0x7F:
            raise S2Error("s2: unsupported input")

    def _data(self, kind: int, body: bytes) -> bytes | bytearray:
        content = memoryview(body)[4:]
        data = bytes(content) if kind == 1 else s2_block(content, BLOCK_MAX)
        if data is None or len(data) > BLOCK_MAX:
            raise S2Error(CORRUPT)
        if _masked(crc32c(data)) != int.from_bytes(body[:4], "little"):
            raise S2Error(f"{CORRUPT}, crc mismatch")
        return data
