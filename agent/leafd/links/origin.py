"""Names on the pulling side of mirrors and sources: API and deliver prefixes, consumer names, index names, hash8.

Pure text. Not here: when to ask (replica.py). Reference:
tests/wire/jetstream.md, "Mirrors and sources".
"""

from __future__ import annotations

import hashlib
import secrets
from typing import Final

from leafd.records import dataclass

_ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
DEFAULT_API: Final = "$JS.API"
KEY_SIZE_MAX: Final = 500
AIM_SIZE: Final = 4


def hash8(text: str) -> str:
    """First 8 bytes of SHA-256 in base 62: the reference's short name for a longer one."""
    return "".join(_ALPHABET[byte % 62] for byte in hashlib.sha256(text.encode()).digest()[:8])


def peer_number(name: str) -> int:
    """A server, as groups of servers name it, or a domain: its name's hash8 as a number."""
    return int.from_bytes(hash8(name).encode(), "big")


def bounded(text: str, size_max: int) -> str:
    """The text, or when its bytes are too many for a key of the store, something shorter that stands for it alone."""
    body = text.encode()
    return text if len(body) <= size_max else f"sha256 {hashlib.sha256(body).hexdigest()}"


def random8() -> str:
    """Eight random characters of the same alphabet."""
    return "".join(_ALPHABET[byte % 62] for byte in secrets.token_bytes(8))


def inbox(aim: str = "") -> str:
    """A fresh subject for an origin to answer to. aim: nothing, or Origin.aim()."""
    return f"$JSC.R.{random8()}{aim}"


@dataclass(frozen=True, slots=True)
class Origin:
    """One stream that a local stream takes from, as its configuration says.

    filter: the subject wanted, empty = all; or transforms, each the subjects it takes and what they become here (empty
    = as they are). start_seq, start_time (RFC 3339): only for the very first start. durable: a consumer that is there
    and is to be used, which delivers to `durable_deliver`; without one a consumer is made for each start.
    """

    stream: str
    api: str = ""
    deliver: str = ""
    filter: str = ""
    transforms: tuple[tuple[str, str], ...] = ()
    start_seq: int = 0
    start_time: str = ""
    durable: str = ""
    durable_deliver: str = ""

    @property
    def api_prefix(self) -> str:
        """The prefix in place of $JS.API."""
        return self.api or DEFAULT_API

    @property
    def domain(self) -> str:
        """The domain in `$JS.<domain>.API`, or "" when the prefix is of another shape."""
        tokens = self.api.split(".")
        return tokens[1] if len(tokens) == 3 and tokens[0] == "$JS" and tokens[2] == "API" else ""

    @property
    def index(self) -> tuple[str, str, str]:
        """Name, filter and destination as Nats-Stream-Source carries them; joined by blanks they key the progress."""
        name = f"{self.stream}:{hash8(self.api)}" if self.api else self.stream
        if self.durable:
            name += f":C={hash8(self.durable)}"
        pairs = self.transforms or ((self.filter, ""),)
        return name, "\f".join(source or ">" for source, _ in pairs), "\f".join(to or ">" for _, to in pairs)

    @property
    def key(self) -> str:
        """The key of the stored progress."""
        return bounded(" ".join(self.index), KEY_SIZE_MAX)

    @property
    def filters(self) -> tuple[str, ...]:
        """The subjects wanted, empty = all."""
        wanted = tuple(source for source, _ in self.transforms) or (self.filter,)
        return wanted if all(wanted) else ()

    @property
    def info_subject(self) -> str:
        """The subject on which the origin reports on its stream."""
        return f"{self.api_prefix}.STREAM.INFO.{self.stream}"

    def create_subject(self, consumer: str) -> str:
        """The subject of the consumer create: the filter is in the subject when there is exactly one."""
        base = f"{self.api_prefix}.CONSUMER.CREATE.{self.stream}"
        return f"{base}.{consumer}.{self.filters[0]}" if len(self.filters) == 1 else base

    @property
    def reset_subject(self) -> str:
        """The subject that sets the durable consumer back to the last acknowledgement."""
        return f"{self.api_prefix}.CONSUMER.RESET.{self.stream}.{self.durable}"

    def delete_subject(self, consumer: str) -> str:
        """The subject that deletes a consumer which is not needed any more."""
        return f"{self.api_prefix}.CONSUMER.DELETE.{self.stream}.{consumer}"

    def aim(self, here: str) -> str:
        """The end of a fresh name where no link of this server, whose domain is `here`, is known to lead to the origin:
        the servers of its cluster tell of that name only the links to that domain (native/text/aim.h). Empty where the
        domain is not known, or does not say where the origin is."""
        domain = self.domain if self.api else here
        return f"-{hash8(domain)[:AIM_SIZE]}" if domain else ""

    def deliver_subject(self, mirror: bool, aim: str = "") -> str:
        """A fresh subject for the origin to deliver to. aim: nothing, or aim()."""
        aim = "" if self.deliver else aim  # somebody else's names
        return f"{self.deliver or '$JS'}.{'M' if mirror else 'S'}.{random8()}{aim}".replace("..", ".")


def consumer_name(mirror: bool, stream: str, account: str, domain: str, shared_name_index: str = "") -> str:
    """The stable name a puller asks for. shared_name_index: the index name when two sources share the stream's name."""
    stable = f"{stream} {account} {domain}" if domain else f"{stream} {account}"
    if shared_name_index:
        stable = f"{stable} {shared_name_index}"
    return f"JS_{'MIRROR' if mirror else 'SRC'}_{hash8(stable)}"


def header_field(block: bytes, name: str) -> str:
    """The value of a field in a header block; empty: the block has no field of that name."""
    for line in block.split(b"\r\n")[1:]:
        field, colon, value = line.partition(b":")
        if colon and field.decode("utf-8", "replace") == name:
            return value.strip().decode("utf-8", "replace")
    return ""
