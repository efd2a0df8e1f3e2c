"""Which servers of other clusters are there, by what they tell of themselves."""

from __future__ import annotations

from leafd import native_types as t
from leafd.monitor.elsewhere import SERVERS_MAX, SILENT_S, Elsewhere


def told(subject: str) -> t.Message:
    return t.Message(1, 1, 1, int(t.ConnKind.GATEWAY), subject, "", b"", b"{}")


def test_a_server_is_there_until_it_ends_or_is_silent() -> None:
    """Each that tells of itself counts once."""
    now = [0.0]
    room = Elsewhere(lambda: now[0])
    for subject in ("$SYS.SERVER.NA.STATSZ", "$SYS.SERVER.NB.STATSZ", "$SYS.SERVER.NA.STATSZ"):
        assert not room.hear(told(subject))
    assert room.servers() == {"NA", "NB"}
    room.hear(told("$SYS.SERVER.NA.SHUTDOWN"))
    assert room.servers() == {"NB"}
    now[0] = SILENT_S - 1
    room.hear(told("$SYS.SERVER.NC.STATSZ"))
    now[0] = SILENT_S + 1
    assert room.servers() == {"NC"}


def test_what_is_remembered_of_servers_is_bounded() -> None:
    """Whoever may publish in the system account can make any number of them up."""
    room = Elsewhere()
    for number in range(SERVERS_MAX + 1000):
        room.hear(told(f"$SYS.SERVER.N{number}.STATSZ"))
    for subject in ("$SYS.SERVER", "$SYS.SERVER..STATSZ", f"$SYS.SERVER.{'N' * 1000}.STATSZ", "x"):
        room.hear(told(subject))
    assert len(room.servers()) == SERVERS_MAX
