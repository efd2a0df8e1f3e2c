"""A mosquitto.conf as the blocks of leafd's configuration: listeners, users with the hashes of their passwords, and
ACLs as permissions. What cannot be taken is named, line by line: nothing is left out in silence.

    read(file) --> Taken(blocks, left)        blocks: text behind that of a leaf or a hub (init.py)

Topics become subjects as the daemon makes them: `/` is `.`, `.` is `//`, an empty level is `/`. Not here: bridges,
which are leaf links here, and what mosquitto has stored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path
from typing import Final

from leafd.auth.passwords import is_hash
from leafd.errors import LeafdError
from leafd.files import read_file
from leafd.records import dataclass

SIZE_MAX: Final = 4 << 20
ANONYMOUS: Final = "anonymous"
LOCAL: Final = """\
# MQTT, for programs of this machine. For devices: listen: 0.0.0.0:1883, with users (authorization) and tls { }.
mqtt { listen: 127.0.0.1:1883 }
"""
_PORT: Final = 1883
# What says nothing that leafd would have to do, or does anyway: its value does not matter.
_NEEDLESS: Final = re.compile(
    r"autosave_\w+|persistence\w*|pid_file|user|log_\w+|connection_messages|sys_interval|set_tcp_nodelay|"
    r"socket_domain|websockets_\w+|retry_interval|max_topic_alias_broker|dhparamfile"
)
# What asks for nothing with this value, and is named with another one.
_HARMLESS: Final = {
    "retain_available": "true",
    "max_connections": "-1",
    "max_inflight_bytes": "0",
    "memory_limit": "0",
    "message_size_limit": "0",
    "queue_qos0_messages": "false",
    "upgrade_outgoing_qos": "false",
    "check_retain_source": "false",
    "allow_zero_length_clientid": "true",
    "per_listener_settings": "false",
}
# Bounds that have a key in the mqtt block: its name, what stands behind the number, the largest one. 0 is said of
# what has no bound at mosquitto, and is the same there.
_BOUNDS: Final = {
    "max_inflight_messages": ("max_ack_pending", "", 65535),
    "max_queued_messages": ("max_queued", "", (1 << 32) - 1),
    "max_queued_bytes": ("max_session_bytes", "", (1 << 63) - 1),
    "max_keepalive": ("max_keep_alive", "s", 65535),
    "max_packet_size": ("max_packet_size", "", (1 << 28) - 1),
    "max_topic_alias": ("topic_alias_maximum", "", 256),
}
_QOS: Final = {"1": ("reject_qos2_publish: true", "downgrade_qos2_subscribe: true"), "2": ()}
_SPANS: Final = {"h": 3600, "d": 86400, "w": 604800, "m": 2592000, "y": 31536000}
_SPAN_MAX: Final = (1 << 32) - 1
# Why a line is left out, where more can be said than that.
_NOTHING: Final = "leafd has nothing like it"
_REASONS: Final = {
    "message_size_limit": "max_payload is the bound here, of all clients",
    "max_connections": "max_connections is that of the whole server here",
    "retain_available": "messages are retained here; max_retained bounds how many",
    "plugin": "there are no plugins here: users, JWTs or auth_callout say who may come",
    "auth_plugin": "there are no plugins here: users, JWTs or auth_callout say who may come",
    "psk_file": "TLS needs certificates here",
    "psk_hint": "TLS needs certificates here",
    "queue_qos0_messages": "messages of QoS 0 do not wait for sessions here",
    "upgrade_outgoing_qos": "a message has the QoS that it was published with here, or less",
    "check_retain_source": "what is retained stays here when its publisher loses the right to say it",
    "max_inflight_bytes": "max_ack_pending bounds the number here",
    "memory_limit": "memory_limit at the top is the bound here",
    "ciphers": "cipher_suites in the tls block bounds them here",
    "ciphers_tls1.3": "cipher_suites in the tls block bounds them here",
    "per_listener_settings": "users and ACLs of all listeners are put together",
}
_BRIDGE: Final = "it is of a bridge; a leaf link joins servers here"
_OF_A_BRIDGE: Final = re.compile(
    r"connection|address(es)?|topic|bridge_\S+|(remote|local)_\w+|clientid|cleansession|keepalive_interval|"
    r"idle_timeout|notification\w*|restart_timeout|round_robin|start_type|threshold|try_private|username|password"
)
_TLS_VERSIONS: Final = {"tlsv1.2": "1.2", "tlsv1.3": "1.3"}


@dataclass(slots=True)
class Listener:
    """One of them."""

    port: int
    host: str = ""
    framed: bool = False
    """WebSocket."""
    certificate: str = ""
    key: str = ""
    authority: str = ""
    certified: bool = False
    mapped: bool = False
    version: str = ""
    """The least version of TLS."""
    anonymous: bool | None = None
    """Set where each listener has settings of its own."""

    @property
    def place(self) -> str:
        """The address and port of a listener."""
        return f"{self.host or '0.0.0.0'}:{self.port}"


@dataclass(slots=True)
class User:
    """One of the password file, or of the ACL's alone."""

    name: str
    password: str = ""
    publish: list[str] = field(default_factory=list)
    subscribe: list[str] = field(default_factory=list)
    deny_publish: list[str] = field(default_factory=list)
    deny_subscribe: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Taken:
    """The configuration that was read. left: a line each of what could not be taken."""

    listeners: list[Listener] = field(default_factory=list)
    users: dict[str, User] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    bounds: dict[str, str] = field(default_factory=dict)
    """Lines of the mqtt block, by the setting that they come from."""
    anonymous: bool | None = None
    restricted: bool = False
    """There is a file of ACLs, so that users who are not in it may do nothing."""

    def served(self) -> list[Listener]:
        """The listeners that are taken over: the first one of MQTT, and the first one of WebSocket."""
        kinds = ([one for one in self.listeners if one.framed is framed] for framed in (False, True))
        return [one for kind in kinds for one in kind[:1]]

    def blocks(self) -> str:
        """As text of leafd's configuration."""
        return "".join((*self._mqtt(), *self._web(), *self._login()))

    def _mqtt(self) -> Iterator[str]:
        plain = [one for one in self.listeners if not one.framed] or [Listener(0)]
        one = plain[0]
        for other in plain[1:]:
            self.left.append(f"listener {other.port}: leafd has one listener of MQTT; it is that of port {one.port}")
        bounds = "".join(self.bounds.values())
        if one.port:
            yield f"mqtt {{\n  listen: {_text(one.place)}\n{bounds}{_tls(one)}}}\n"
        else:
            yield LOCAL.removesuffix(" }\n") + f"\n{bounds}}}\n" if bounds else LOCAL

    def _web(self) -> Iterator[str]:
        framed = [one for one in self.listeners if one.framed]
        for other in framed[1:]:
            self.left.append(
                f"listener {other.port}: leafd has one listener of WebSocket; it is that of port {framed[0].port}"
            )
        for one in framed[:1]:
            tls = _tls(one) or "  no_tls: true\n"
            yield f"# Clients of MQTT take the path /mqtt here.\nwebsocket {{\n  listen: {_text(one.place)}\n{tls}}}\n"

    def _login(self) -> Iterator[str]:
        if not self.users:
            return  # everybody may log in
        yield "authorization { users: [\n"
        for user in self.users.values():
            yield f"  {{ user: {_text(user.name)}, password: {_text(user.password)}{self._permissions(user)} }}\n"
        yield "] }\n"
        if ANONYMOUS in self.users and self.users[ANONYMOUS].password == "":
            yield f"no_auth_user: {ANONYMOUS}\n"

    def _permissions(self, user: User) -> str:
        if not self.restricted:
            return ""
        publish = f"allow: {_list(user.publish)}{_denied(user.deny_publish)}"
        subscribe = f"allow: {_list(user.subscribe)}{_denied(user.deny_subscribe)}"
        return f",\n    permissions: {{ publish: {{ {publish} }}, subscribe: {{ {subscribe} }} }}"


def read(file: Path) -> Taken:
    """A whole mosquitto.conf with the files that it names. Raises LeafdError."""
    reader = _Reader()
    reader.configuration(file)
    try:
        return reader.done()
    except LeafdError as error:
        raise LeafdError(f"{file}: {error}") from error


def subjects_of(topic: str) -> tuple[str, ...]:
    """The subjects that a topic or filter stands for: `a/#` is a, too."""
    levels = topic.split("/")
    names = {"": "/", "+": "*", "#": ">"}
    subject = ".".join(names.get(level, level.replace(".", "//")) for level in levels)
    return (subject[:-2], subject) if len(levels) > 1 and levels[-1] == "#" else (subject,)


def _lines(file: Path) -> Iterator[tuple[str, str, str]]:
    """The lines of a file: where each stands, its first word, the rest."""
    try:
        text = read_file(file, SIZE_MAX).decode()
    except UnicodeDecodeError:
        raise LeafdError(f"{file}: no text") from None
    except OSError as error:
        raise LeafdError(f"{file}: {error.strerror or error}") from error
    for number, line in enumerate(text.splitlines(), 1):
        word, _, rest = line.strip().partition(" ")
        if word and not word.startswith("#"):
            yield f"{file}:{number}", word, rest.strip()


class _Reader:
    """A reader of one configuration file, and the settings read so far."""

    def __init__(self) -> None:
        self._taken = Taken()
        self._here: Listener | None = None
        self._patterns: list[tuple[str, str, str]] = []
        self._acl: list[tuple[str, str, str, str]] = []
        self._listeners: list[Listener] = []
        self._each = False
        """Each listener has settings of its own."""
        self._read: set[tuple[str, str]] = set()

    def configuration(self, file: Path, depth: int = 0) -> None:
        """One file, and those that it includes."""
        for where, word, rest in _lines(file):
            if word == "include_dir" and depth < 8:
                if not Path(rest).is_dir():
                    self._leave(where, word, rest, "there is no such directory")
                    continue
                for one in sorted(Path(rest).glob("*.conf")):
                    self.configuration(one, depth + 1)
            elif not self._listener(where, word, rest) and not self._server(where, word, rest):
                bridge = _OF_A_BRIDGE.fullmatch(word) is not None
                self._leave(where, word, rest, _REASONS.get(word, _BRIDGE if bridge else _NOTHING))

    def _leave(self, where: str, word: str, rest: str, why: str) -> None:
        shown = "" if "password" in word else rest
        self._taken.left.append(f"{where}: {word} {shown}".rstrip() + f": {why}")

    def _listener(self, where: str, word: str, rest: str) -> bool:
        """Whether the line is one of a listener."""
        if word in ("listener", "port"):
            port, _, host = rest.partition(" ")
            if not port.isdecimal() or int(port) > 65535:
                self._leave(where, word, rest, "a port is expected")
                return True
            if int(port) == 0:
                self._leave(where, word, rest, "there are no sockets of the file system here")
            self._here = Listener(int(port), host.strip())
            self._listeners.append(self._here)
            return True
        names = {"certfile": "certificate", "keyfile": "key", "cafile": "authority", "bind_address": "host"}
        flags = {"require_certificate": "certified", "use_identity_as_username": "mapped"}
        own = ("allow_anonymous",) if self._each and self._here is not None else ()
        if word not in (*names, *flags, *own, "protocol", "tls_version"):
            return False
        if self._here is None:
            self._here = Listener(_PORT)
            self._listeners.append(self._here)
        if word in names:
            setattr(self._here, names[word], rest)
        elif word in flags:
            setattr(self._here, flags[word], rest == "true")
        elif word == "allow_anonymous":
            self._here.anonymous = rest == "true"
        elif word == "tls_version":
            self._here.version = _TLS_VERSIONS.get(rest, "")
            if not self._here.version:
                self._leave(where, word, rest, "tlsv1.2 or tlsv1.3 is expected")
        else:
            self._here.framed = rest == "websockets"
        return True

    def _server(self, where: str, word: str, rest: str) -> bool:
        """Whether the line is one that is known."""
        if word == "allow_anonymous":
            self._taken.anonymous = rest == "true"
        elif word in ("password_file", "acl_file"):
            if not rest:
                raise LeafdError(f"{where}: {word}: the name of a file is expected")
            if (word, rest) not in self._read:  # of two listeners
                self._read.add((word, rest))
                (self._passwords if word == "password_file" else self._rules)(Path(rest))
        elif _HARMLESS.get(word) != rest:
            self._each = self._each or (word, rest) == ("per_listener_settings", "true")
            return _NEEDLESS.fullmatch(word) is not None or self._bound(where, word, rest)
        return True

    def _bound(self, where: str, word: str, rest: str) -> bool:
        """Whether the line is a bound that has a key here."""
        lines: tuple[str, ...]
        if word in _BOUNDS:
            key, unit, most = _BOUNDS[word]
            if not rest.isdecimal() or int(rest) > most:
                self._leave(where, word, rest, f"a number up to {most} is expected")
                return True
            lines = (f"{key}: {rest}{unit}",)
        elif word == "persistent_client_expiration":
            seconds = int(rest[:-1]) * _SPANS.get(rest[-1:], 0) if rest[:-1].isdecimal() else 0
            if not 0 < seconds <= _SPAN_MAX:
                self._leave(where, word, rest, "a number of h, d, w, m or y is expected")
                return True
            lines = (f"max_session_expiry: {seconds}s",)
        elif word == "maximum_qos" and rest in _QOS:
            lines = _QOS[rest]
        else:
            return False
        self._taken.bounds[word] = "".join(f"  {line}\n" for line in lines)
        return True

    def _passwords(self, file: Path) -> None:
        for where, word, rest in _lines(file):
            name, colon, password = f"{word} {rest}".strip().partition(":")
            if colon and not name:
                self._leave(where, "a password", "", "it has no user")
                continue
            if not colon or not is_hash(password):
                self._leave(where, name, "", "its password is no hash that leafd reads: set it again")
                continue
            self._taken.users[name] = User(name, password)

    def _rules(self, file: Path) -> None:
        self._taken.restricted = True
        user = ""
        for where, word, rest in _lines(file):
            if word == "user":
                user = rest
            elif word in ("topic", "pattern"):
                access, _, topic = rest.partition(" ")
                if access not in ("read", "write", "readwrite", "deny") or not topic:
                    access, topic = "readwrite", rest
                self._acl.append((where, user if word == "topic" else "%", access, topic.strip()))
            else:
                self._leave(where, word, rest, "no line of an ACL")

    def done(self) -> Taken:
        """The whole configuration, once everything is read."""
        taken = self._taken
        taken.listeners = [one for one in self._listeners if one.port]
        anybody = self._anybody()
        if not anybody and not taken.users:
            left = "".join(f"\n    not taken over: {line}" for line in taken.left)
            raise LeafdError(
                f"nobody could log in: there is no user whose password is read, and allow_anonymous is false{left}"
            )
        if anybody and ANONYMOUS in taken.users:
            taken.left.append(f"allow_anonymous true: the user {ANONYMOUS} has a password: name another no_auth_user")
        elif anybody and (taken.restricted or taken.users):
            taken.users[ANONYMOUS] = User(ANONYMOUS)
        for where, user, access, topic in self._acl:
            self._rule(where, user, access, topic)
        return taken

    def _anybody(self) -> bool:
        """Whether clients without a name are let in. Where each listener has settings of its own: by all those that
        are taken over, so that nobody comes in by a listener that was closed to him."""
        taken = self._taken
        if not self._each or not self._listeners:
            return taken.anonymous or (taken.anonymous is None and not self._listeners)
        served = taken.served() or self._listeners
        anybody = all(one.anonymous for one in served)
        taken.left.extend(
            f"listener {one.port}: allow_anonymous true: it is not so for all listeners that are taken over"
            for one in served
            if one.anonymous and not anybody
        )
        return anybody

    def _rule(self, where: str, user: str, access: str, topic: str) -> None:
        if user not in ("", "%") and user not in self._taken.users:
            self._taken.left.append(f"{where}: user {user} has no password: set one, or leave the user out")
            return
        if "%c" in topic:
            self._taken.left.append(f"{where}: {topic}: permissions know users, not client identifiers (%c)")
            return
        every = self._taken.users.values()
        named = [one for one in every if user == "%" or one.name == (user or ANONYMOUS)]
        for one in named:
            if "%u" in topic and user == "%" and one.name == ANONYMOUS and not one.password:
                continue  # a client without a name is meant by no such line
            if "%u" in topic and user == "%" and re.search("[+#/]", one.name):
                self._taken.left.append(f"{where}: {topic}: the name of {one.name} would be more than one level")
                continue
            subjects = subjects_of(topic.replace("%u", one.name) if user == "%" else topic)
            if any(" " in subject or not subject for subject in subjects):
                self._taken.left.append(f"{where}: {topic}: no subject can be made of it for {one.name}")
                continue
            denies = access == "deny"
            if access != "read":
                (one.deny_publish if denies else one.publish).extend(subjects)
            if access != "write":
                (one.deny_subscribe if denies else one.subscribe).extend(subjects)


def _tls(one: Listener) -> str:
    if not one.certificate:
        return ""
    parts = [f"cert_file: {_text(one.certificate)}", f"key_file: {_text(one.key)}"]
    if one.authority:
        parts.append(f"ca_file: {_text(one.authority)}")
    if one.version:
        parts.append(f'min_version: "{one.version}"')
    if one.mapped:
        parts.append("verify_and_map: true")
    elif one.certified:
        parts.append("verify: true")
    return f"  tls {{ {', '.join(parts)} }}\n"


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _list(subjects: list[str]) -> str:
    return f"[{', '.join(map(_text, dict.fromkeys(subjects)))}]"


def _denied(subjects: list[str]) -> str:
    return f", deny: {_list(subjects)}" if subjects else ""
