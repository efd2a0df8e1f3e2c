"""Archives of older servers that are damaged: each is refused, or makes entries that the store judges, and nothing else
happens.

Not here: that a sound one is restored as it was (interop/test_old_backup.py).
"""

from __future__ import annotations

import base64
import io
import json
import random
import tarfile
from pathlib import Path

import pytest
from leafd import native_types as t
from leafd.jetstream.backup import s2
from leafd.jetstream.backup.archive import ArchiveError
from leafd.jetstream.backup.archive_tar import TarArchive

RECORDED = Path(__file__).parents[2] / "interop" / "backup_2_12.json"


def recorded() -> bytes:
    archive = base64.b64decode(json.loads(RECORDED.read_text())["archive"])
    return b"".join(bytes(piece) for piece in s2.Reader().feed(archive))


def taken(data: bytes, size: int) -> tuple[bytes, TarArchive]:
    """What it says when it comes in pieces of that size."""
    found, waiting, entries = TarArchive(1), bytearray(), b""
    for at in range(0, len(data), size):
        waiting += data[at : at + size]
        entries += found.take(waiting)
    return entries, found


def test_pieces_of_any_size_say_the_same() -> None:
    """Wherever the archive is cut on its way."""
    whole = recorded()
    entries, found = taken(whole, len(whole))
    assert (found.ended, found.removed, [one.name for one in found.consumers]) == (True, {7}, ["w"])
    for size in (1, 7, 512, 1000):
        again, other = taken(whole, size)
        assert (again, other.removed, other.consumers) == (entries, found.removed, found.consumers)


def archive(files: dict[str, bytes]) -> bytes:
    """A tar of these files."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def test_an_archive_without_a_streams_configuration_is_no_backup_of_one() -> None:
    """nats-server refuses it, too."""
    assert taken(recorded(), 512)[1].of_stream
    for files in ({}, {"other": b"x"}, {"meta.inf": b""}, {"obs/w/meta.inf": b"{}"}, {"msgs/1.blk": b""}):
        assert not TarArchive(1).of_stream
        whole = archive({name: content for name, content in files.items() if not name.startswith("obs/")})
        assert not taken(whole, 512)[1].of_stream


def test_a_consumer_to_which_nothing_was_delivered_is_read() -> None:
    """With no pending message its state is seven numbers and nothing behind them."""
    config = json.dumps({"Name": "w", "durable_name": "w", "ack_policy": "explicit"}).encode()
    state = bytes((22, 2, 3, 4, 5, 6, 0, 0))
    _, found = taken(archive({"obs/w/meta.inf": config, "obs/w/o.dat": state}), 512)
    assert [one.position for one in found.consumers] == [t.Position(5, 6, 3, 4, ())]


def test_a_file_outside_of_the_archive_is_refused() -> None:
    """A name that leads elsewhere is no mistake of a server."""
    for name in ("../fail.txt", "obs/w/../../../fail.txt"):
        with pytest.raises(ArchiveError, match="unexpected content"):
            taken(archive({"meta.inf": b"{}", name: b"x"}), 512)


def test_damage_is_refused_or_harmless() -> None:
    """Bytes that are changed, left out or repeated end in the one error that a client is told, or in nothing."""
    whole, draw = recorded(), random.Random(5)
    for _ in range(1500):
        damaged = bytearray(whole)
        for _ in range(draw.randrange(1, 4)):
            at = draw.randrange(len(damaged))
            match draw.randrange(3):
                case 0:
                    damaged[at] = draw.randrange(256)
                case 1:
                    del damaged[at : at + draw.randrange(1, 600)]
                case 2:
                    damaged[at:at] = damaged[at : at + draw.randrange(1, 600)]
        try:
            taken(bytes(damaged), 4096)
        except ArchiveError as error:
            assert str(error)
