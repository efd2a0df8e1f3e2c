"""The machine: the disk's speed and room, memory, certificates and credentials, the clock, the service's restarts. Not
here: anything of the way to a hub but its clock (hub.py, flows.py)."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any, Final

import trio

from leafd.auth.creds import signer_from_credentials
from leafd.certificates import Certificate
from leafd.config.schema.leafnodes import LeafRemote
from leafd.config.schema.server import ServerConfig
from leafd.doctor.ask import INBOX, MORE_S, WAIT_S, held_back
from leafd.doctor.findings import Check, Finding, fault, unproven, warning, well
from leafd.doctor.hub import Hub
from leafd.doctor.rows import seconds
from leafd.errors import ConfigError
from leafd.status import sessions, tight_accounts

DAY_S: Final = 86_400
SOON_S: Final = 30 * DAY_S
"""Before something expires."""
SYNCS: Final = 8
BLOCK: Final = 4096
SLOW_S: Final = 0.1
"""For one sync: less than ten acknowledgements a second, one by one."""
NEARLY: Final = 0.9
ROOM_MIN: Final = 64 << 20
CLOCK_WARNING_S: Final = 5.0
CLOCK_FAULT_S: Final = 60.0
LONG_TICK_MS: Final = 1_000.0
FORGOTTEN_S: Final = 7 * DAY_S
"""A message that waits for a device that long is likely to wait for ever."""
STATZ: Final = "$SYS.REQ.ACCOUNT.PING.STATZ"
SYSTEMD: Final = Path("/run/systemd/system")

Report = Callable[[Finding], None]
Page = Mapping[str, Any]


# ---- disk


async def disk(directory: str, report: Report) -> None:
    """How long one sync takes, in a file that has no name and is gone afterwards."""
    try:
        times = await trio.to_thread.run_sync(_syncs, directory, abandon_on_cancel=True)
    except OSError as error:
        report(
            unproven(
                Check.DISK_SPEED,
                "store",
                f"not measured in {directory}: {error.strerror}",
                owner="run the doctor as root, or as the user of the daemon",
            )
        )
        return
    middle, longest = median(times), max(times)
    text = (
        f"a sync of {BLOCK >> 10} KiB takes {middle * 1e3:.1f} ms, the longest of {SYNCS} took {longest * 1e3:.1f} ms"
    )
    if middle < SLOW_S:
        report(well(Check.DISK_SPEED, "store", f"{text} ({directory})"))
        return
    report(
        warning(
            Check.DISK_SPEED,
            "store",
            f"{text}: a publisher that waits for each acknowledgement sends {1 / middle:.0f} messages a second",
            owner="a card or disk that is so slow is worn out, busy, or not made for it: replace it, or let publishers "
            "have several messages in flight",
        )
    )


def _syncs(directory: str) -> list[float]:
    descriptor = os.open(directory, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        found = []
        for number in range(SYNCS):
            began = time.monotonic()
            os.pwrite(descriptor, os.urandom(BLOCK), number * BLOCK)
            os.fdatasync(descriptor)
            found.append(time.monotonic() - began)
        return found
    finally:
        os.close(descriptor)


def room(varz: Page, jsz: Page, report: Report) -> None:
    """Compares the store's limit and size with the room on the disk."""
    store, config = varz.get("store") or {}, (varz.get("jetstream") or {}).get("config") or {}
    about = "store"
    for kind in store.get("refusing") or ():
        report(
            fault(
                Check.DISK_ROOM,
                about,
                f"publishes to {kind} streams are refused: there is no room, or writing fails",
                owner="delete messages or streams, make room on the disk, or raise max_file_store; the log says why",
            )
        )
    if damaged := store.get("corrupt_records", 0):
        text = f"{damaged} records or pages were damaged"
        report(warning(Check.STORE, about, text, owner="the log names them; look at the disk before it gets worse"))
    for account in jsz.get("account_details") or ():
        for name, reason in ((account.get("leafd") or {}).get("offline") or {}).items():
            report(
                fault(
                    Check.STORE,
                    name,
                    f"it is stored and not served: {reason}",
                    owner="restore it from a backup, or delete it to have its name again",
                )
            )
    # Of what it may take it keeps a part for removals, acknowledgements and the next checkpoint.
    used = (jsz.get("storage") or 0) + (store.get("disk_reserved") or 0)
    top, free = config.get("max_storage") or 0, store.get("disk_free")
    remedy = "limit the streams (max_age, max_bytes), make room, or take a larger disk"
    if top > 0 and used >= NEARLY * top:
        report(
            warning(
                Check.DISK_ROOM,
                about,
                f"{_mb(used)} of {_mb(top)} (max_file_store) are in use or kept back",
                owner=remedy,
            )
        )
    elif isinstance(free, int) and free < ROOM_MIN:
        report(warning(Check.DISK_ROOM, about, f"only {_mb(free)} are free on its disk", owner=remedy))
    elif not store.get("refusing"):
        more = f"; {_mb(free)} free on its disk" if isinstance(free, int) else ""
        report(well(Check.DISK_ROOM, about, f"{_mb(used)} of {_mb(top)} in use or kept back{more}"))


def accounts(jsz: Page, report: Report) -> None:
    """Reports accounts that have stored nearly as much as they may."""
    for text in tight_accounts(jsz):
        remedy = "bound its streams (max_bytes, max_age), remove messages, or give it more"
        report(warning(Check.DISK_ROOM, "accounts", text, owner=remedy))


def devices(varz: Page, report: Report) -> None:
    """Judges what is kept for devices that speak MQTT."""
    found = sessions(varz)
    if found is None:
        return
    about, judged = "sessions", []
    if found.refused:
        text = f"{found.refused} clients were told since the start that there are too many sessions"
        remedy = "raise mqtt.max_sessions, or let max_session_expiry end those of clients that are gone for good"
        judged.append(warning(Check.DEVICES, about, text, owner=remedy))
    if found.not_stored:
        text = f"{found.not_stored} messages with QoS 1 or 2 were not stored since the start"
        remedy = "look at max_retained, max_retained_bytes, max_queued_bytes and the limits of what devices publish to"
        judged.append(warning(Check.DEVICES, "messages", text, owner=remedy))
    if found.away and found.oldest_s is not None and found.oldest_s > FORGOTTEN_S:
        days = int(found.oldest_s // DAY_S)
        text = f"{found.waiting} messages wait for {found.away} clients that are away, the oldest for {days} days"
        remedy = "bring those devices back, or set mqtt.max_session_expiry"
        judged.append(warning(Check.DEVICES, about, text, owner=remedy))
    waits = f", {found.waiting} messages wait" if found.waiting else ""
    for one in judged or [well(Check.DEVICES, about, f"{found.kept} kept, {found.away} of them away{waits}")]:
        report(one)


def _mb(count: float) -> str:
    return f"{count / 1e6:,.0f} MB"


def memory(varz: Page, report: Report) -> None:
    """Compares the daemon's memory with its limit, and looks whether its threads turn."""
    own = varz.get("leafd")
    if not isinstance(own, dict):
        return
    limits, taken = own.get("memory") or {}, varz.get("mem") or 0
    shares = {name: row for name, row in limits.items() if isinstance(row, dict) and row.get("share")}
    tight = [name for name, row in shares.items() if row.get("used", 0) >= NEARLY * row["share"]]
    if tight:
        text = f"{_mb(taken)} in use; nearly full of the limit of {_mb(limits.get('limit', 0))}: {', '.join(tight)}"
        report(warning(Check.MEMORY, "this box", text, owner="raise memory_limit, or have fewer or slower clients"))
    else:
        report(well(Check.MEMORY, "this box", f"{_mb(taken)} in use, limit {_mb(limits.get('limit', 0))} beyond idle"))
    tick = own.get("longest_tick_minute_ms") or 0
    if tick >= LONG_TICK_MS:
        text = f"within the last minute messages stood still for {tick:.0f} ms"
        report(warning(Check.WATCHDOG, "this box", text, owner="is the machine overloaded, or does it swap?"))
    if own.get("unexpected_errors"):
        text = f"{own['unexpected_errors']} unexpected errors since the start"
        report(warning(Check.DAEMON, "this box", text, owner="the log has them; please report them"))


# ---- what expires


def certificates(server: ServerConfig, report: Report) -> None:
    """The certificates that this box shows."""
    for block in server.tls_blocks():
        for line in block.expiring():
            make = fault if "has expired" in line or "not valid before" in line else warning
            report(make(Check.CERTIFICATE, "this box", line, owner="replace it, and reload the daemon"))
        if block.material.pairs and not block.expiring():
            pair = block.material.pairs[0]
            report(
                well(Check.CERTIFICATE, "this box", f"{pair.file} is valid until {_day(pair.certificate.not_after_s)}")
            )


def hub_certificate(place: str, certificate: Certificate | None, report: Report) -> None:
    """The certificate that a hub has shown."""
    if certificate is None:
        return
    left = certificate.not_after_s - time.time()
    text = f"the hub's certificate is valid until {_day(certificate.not_after_s)}"
    if left > SOON_S:
        report(well(Check.CERTIFICATE, place, text))
        return
    report(
        warning(
            Check.CERTIFICATE,
            place,
            f"{text}, {max(left, 0) / DAY_S:.0f} days: after that no box can link",
            operator="have it renewed, and reload the hub",
        )
    )


def credentials(remote: LeafRemote, report: Report) -> None:
    """Reports when the JWT of a remote's login expires."""
    if not remote.credentials:
        return
    try:
        token = signer_from_credentials(remote.credentials)("")["jwt"]
        part = token.split(".")[1]
        expires = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))).get("exp")
    except (ConfigError, ValueError, IndexError, AttributeError):
        return  # hub.py says what is wrong with it when it logs in
    if not isinstance(expires, int) or expires <= 0:
        return
    left = expires - time.time()
    if left > SOON_S:
        report(well(Check.CREDENTIALS, remote.credentials, f"valid until {_day(expires)}"))
        return
    make, text = (fault, "expired on") if left < 0 else (warning, "expire on")
    report(
        make(
            Check.CREDENTIALS,
            remote.credentials,
            f"the credentials {text} {_day(expires)}",
            owner="put the new file in its place: it is read at the next login",
            operator="make new credentials for this box: nsc generate creds, or nats auth user credential",
        )
    )


def _day(stamp_s: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(stamp_s))


# ---- clock


async def clock(hub: Hub, ahead_s: float, report: Report) -> None:
    """Compares this box's clock with the hub's. ahead_s: the daemon's before the doctor's own."""
    if held_back(hub, up=(STATZ,), down=(INBOX,)):
        text = f"the rights of this box's user at the hub do not allow to ask for its time ({STATZ})"
        report(unproven(Check.CLOCK, hub.place, text))
        return
    before = time.time()
    answers = await hub.session.answers(STATZ, b"", wait_s=WAIT_S, more_s=MORE_S)
    took = time.time() - before
    for message in answers:
        server = message.document().get("server")
        if not isinstance(server, dict) or server.get("id") != hub.info.get("server_id"):
            continue  # this box, or another leaf, hears the question as well
        now = seconds(server.get("time"))
        if now is not None:
            _compare(before + took / 2 + ahead_s - now, hub, report)
            return
    text = "the hub does not tell the time to a leaf of this account"
    report(unproven(Check.CLOCK, hub.place, text))


def _compare(ahead_s: float, hub: Hub, report: Report) -> None:
    way = "ahead of" if ahead_s > 0 else "behind"
    off = abs(ahead_s)
    shown = f"{off / 60:,.0f} minutes" if off >= 120 else f"{off:.1f} s"
    if off < CLOCK_WARNING_S:
        report(well(Check.CLOCK, hub.place, f"the clocks differ by less than {CLOCK_WARNING_S:.0f} s"))
        return
    make = fault if off >= CLOCK_FAULT_S else warning
    report(
        make(
            Check.CLOCK,
            hub.place,
            f"this box's clock is {shown} {way} the hub's: times of messages, ages and certificates are judged by it",
            owner="set it by NTP: timedatectl set-ntp true; a box without a clock battery needs it at every start",
            operator="if it is the hub's clock that is off: the same there",
        )
    )


# ---- the service


async def service(unit: str, report: Report) -> None:
    """Reports systemd's state of the daemon, where systemd runs it."""
    if shutil.which("systemctl") is None or not SYSTEMD.is_dir():
        return
    names = "ActiveState,NRestarts,WatchdogUSec"
    with trio.move_on_after(WAIT_S):
        done = await trio.run_process(
            ["systemctl", "show", unit, f"--property={names}"],
            capture_stdout=True,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        said = dict(line.partition("=")[::2] for line in done.stdout.decode("utf-8", "replace").splitlines())
        if said.get("ActiveState") == "active":
            _judge(said, unit, report)


def _judge(said: Mapping[str, str], unit: str, report: Report) -> None:
    restarts, watchdog = said.get("NRestarts", "0"), said.get("WatchdogUSec", "0")
    if restarts.isdigit() and int(restarts):
        text = f"systemd has had to start the daemon again {restarts} times"
        report(warning(Check.WATCHDOG, unit, text, owner=f"journalctl -u {unit} says why"))
    elif watchdog in ("0", "infinity", ""):
        text = "no watchdog: a daemon that hangs is not started again"
        report(warning(Check.WATCHDOG, unit, text, owner="WatchdogSec=30 in the unit, as the package has it"))
    else:
        report(well(Check.WATCHDOG, unit, f"a watchdog of {watchdog}, no restarts"))
