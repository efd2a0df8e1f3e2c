"""Commands about accounts: limits, mappings, imports, and what control itself subscribes to and publishes there.

Not here: what accounts may do with each other (accounts/).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable

from leafd import native_types as t
from leafd.native_packing import Strings, encoded, import_members
from leafd.native_submits import Submits


class Accounts(Submits):
    """The commands about accounts, and control's own messages in them."""

    def __init__(self) -> None:
        self._next_subscription = 1
        self._handlers: dict[int, t.Handler] = {}

    def account(self, account: int, name: str, domain: str, flags: int) -> None:
        """Makes or changes an account."""
        self._submit("ACCOUNT", account=account, arg=int(flags), strings={"name": name, "domain": domain})

    def allow(self, account: int, allowed: t.Allowed) -> None:
        """How many bytes the account's streams may have from now on."""
        members = {
            "file": allowed.file,
            "memory": allowed.memory,
            "file_elsewhere": allowed.file_elsewhere,
            "memory_elsewhere": allowed.memory_elsewhere,
        }
        self._submit("ALLOW", account=account, arg=allowed.tier, body=encoded("allowed_t", members))

    def traces(self, account: int, destination: str, sampling: int) -> None:
        """Sets the subject on which the account is told what became of messages with `traceparent`; empty: no
        subject."""
        self._submit("TRACES", account=account, arg=sampling, strings={"destination": destination})

    def set_mappings(self, account: int, mappings: Iterable[tuple[str, Iterable[tuple[str, int]]]]) -> None:
        """All mappings of an account, in place of those it had: each source with its destinations, and the share of a
        hundred that a draw must be below for it."""
        texts: list[str] = []
        for source, choices in mappings:
            texts += [source, *(text for subject, below in choices for text in (subject, str(below))), ""]
        self._submit("MAPPING", account=account, strings={"mappings": texts})

    def imports(self, account: int, rows: Iterable[t.ImportRow]) -> None:
        """Sets the account's imports, in place of the earlier ones."""
        rows = tuple(rows)
        body = b"".join(encoded("import_row_t", import_members(row)) for row in rows)
        texts = (text for row in rows for text in (row.subject, row.local, bytes(row.order), row.results, row.mark))
        self._submit("IMPORTS", account=account, body=body, strings={"rows": tuple(texts)})

    def subscribe(
        self, account: int, subject: str, handler: t.Handler, *, queue: str = "", flags: int = 0, link: int = 0
    ) -> int:
        """Control subscription: `handler` is called by the pump with each message. link: the only link that is told of
        it; 0: all are. Returns the subscription id."""
        subscription = self._next_subscription
        self._next_subscription += 1
        self._handlers[subscription] = handler
        strings = {"subject": subject, "queue": queue}
        self._submit("SUBSCRIBE", account=account, target=subscription, arg=int(flags), arg2=link, strings=strings)
        return subscription

    def unsubscribe(self, account: int, subscription: int) -> None:
        """Ends a control subscription; its handler is not called again."""
        self._handlers.pop(subscription, None)
        self._submit("UNSUBSCRIBE", account=account, target=subscription)

    def publish(
        self, account: int, subject: str, payload: bytes, *, reply: str = "", header: bytes = b"", flags: int = 0
    ) -> None:
        """Publishes from inside into an account."""
        strings: Strings = {"subject": subject, "reply": reply, "header": header}
        self._submit("PUBLISH", account=account, arg=int(flags), body=payload, strings=strings)

    @abstractmethod
    def advised(self) -> bool:
        """Whether anybody may hear what is published below $JS.EVENT, in some account."""

    @abstractmethod
    def repay(self, message: t.Message) -> None:
        """Gives back a message's credit, once for each message that a handler has kept: its connection need not wait
        for the message any longer."""

    async def publish_counted(
        self, account: int, subject: str, payload: bytes, *, reply: str = "", header: bytes = b"", flags: int = 0,
        link: int = 0,
    ) -> int:  # fmt: skip
        """As publish(); returns how many took it (a leaf link counts as one). link: out by it, if nobody did."""
        strings: Strings = {"subject": subject, "reply": reply, "header": header}
        flagged = {"account": account, "arg": int(flags), "arg2": link}
        done = await self._request("PUBLISH", "publishing", **flagged, body=payload, strings=strings)
        return done.arg

    async def interest(self, account: int, subject: str) -> int:
        """How many subscribe to that very subject, without wildcards."""
        done = await self._request("INTEREST", "looking for subscribers", account=account, strings={"subject": subject})
        return done.arg

    async def reaches(self, account: int, subject: str) -> bool:
        """Whether anybody would get a message, here or over a link."""
        done = await self._request(
            "INTEREST", "looking for subscribers", account=account, arg=1, strings={"subject": subject}
        )
        return bool(done.arg)
