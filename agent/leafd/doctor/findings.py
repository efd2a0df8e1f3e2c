"""The findings of an examination: one row for each check, with the changes that would help, and the side that can make
them."""

from __future__ import annotations

from enum import StrEnum

from leafd.records import dataclass


class Level(StrEnum):
    """How grave it is."""

    WELL = "ok"
    UNPROVEN = "unproven"
    """The check could not be made. That is nothing wrong by itself."""
    WARNING = "warning"
    FAULT = "fault"


class Check(StrEnum):
    """The subject of a check. packaging/doc/doctor.md has a paragraph for each."""

    DAEMON = "daemon"
    HUB_ADDRESS = "hub-address"
    HUB_PORT = "hub-port"
    HUB_PROTOCOL = "hub-protocol"
    HUB_TLS = "hub-tls"
    HUB_WEBSOCKET = "hub-websocket"
    HUB_LOGIN = "hub-login"
    HUB_JETSTREAM = "hub-jetstream"
    LINK = "link"
    LOOP = "loop"
    DOMAIN = "domain"
    RIGHTS = "rights"
    ACCOUNT = "account"
    EXPORT = "export"
    FLOW_UP = "flow-up"
    FLOW_DOWN = "flow-down"
    API_UP = "api-up"
    API_DOWN = "api-down"
    ORIGIN = "origin"
    ORIGIN_NEW = "origin-new"
    ORIGIN_OLD = "origin-old"
    LAG = "lag"
    DOUBLE_COPY = "twice"
    LIMITS = "limits"
    BUDGET = "budget"
    CLOCK = "clock"
    CERTIFICATE = "certificate"
    CREDENTIALS = "credentials"
    STORE = "store"
    DISK_SPEED = "disk-speed"
    DISK_ROOM = "disk-room"
    MEMORY = "memory"
    DEVICES = "devices"
    WATCHDOG = "watchdog"
    GROUP = "group"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    check: Check
    about: str
    """The hub, stream or file."""
    level: Level
    text: str
    owner: str = ""
    """The change that the owner of this box has to make ..."""
    operator: str = ""
    """... and what the hub's operator."""


def well(check: Check, about: str, text: str) -> Finding:
    """A finding: all is well."""
    return Finding(check, about, Level.WELL, text)


def unproven(check: Check, about: str, text: str, *, owner: str = "", operator: str = "") -> Finding:
    """A finding: the check could not be made."""
    return Finding(check, about, Level.UNPROVEN, text, owner, operator)


def warning(check: Check, about: str, text: str, *, owner: str = "", operator: str = "") -> Finding:
    """A finding: it works, but not for ever, or not as people may expect."""
    return Finding(check, about, Level.WARNING, text, owner, operator)


def fault(check: Check, about: str, text: str, *, owner: str = "", operator: str = "") -> Finding:
    """A finding: it does not work."""
    return Finding(check, about, Level.FAULT, text, owner, operator)
