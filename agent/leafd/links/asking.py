"""One slot's requests to its origin: where their answers come, and which of them count.

    listen --> the request is sent, perhaps again --answer--> first: what it made is taken up
                                                  `-- later: what that one made is one too many (spare)
    ahead  --> a message of what it made comes too early: it is lost, and has to be asked for once more
    probe  --> a question beside it, or a look whether something comes

Over a slow link the answer to a request may be under way when the request is sent again. A leafd answers with the
consumer that it has. A nats-server makes another one, which delivers to the same subject, so that each message comes
twice: the inbox stays until each time that it was sent is answered, and what is not taken up is deleted.

Not here: when to ask and what an answer means (replica.py), who may answer, what is done then (replicas.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from leafd import native_types as t
from leafd.links.answers import made
from leafd.links.origin import inbox
from leafd.links.replica import Slot
from leafd.native_commands import Commands

MISSED_WAIT_S: Final = 1.0
"""Until a consumer is asked for anew whose first message was missed: this server has much to do, or had."""


class Asking:
    """The subscriptions of one slot while it asks."""

    def __init__(self, plane: Commands, slot: Slot) -> None:
        self._plane = plane
        self._slot = slot
        self.inbox = ""
        """The subject on which the answers come."""
        self.answered_by = 0
        """The connection by which the answer came; 0: this server's own."""
        self._number = 0
        """The number of the request whose answer it listens for, .."""
        self._link = 0
        """.. of which link it is told, 0: of all, .."""
        self._unanswered = 0
        """.. and how often it was sent without an answer yet."""
        self._taken: str | None = None
        """The consumer that the first answer made."""
        self._reply = 0
        self._ahead = 0
        """The subscription to the deliver subject while the consumer is asked for, whose answer comes first. .."""
        self.missed = False
        """.. A message came there, which nobody takes in. .."""
        self._kept: t.Message | None = None
        """.. The answer: nothing is read behind it before the consumer's messages are taken in."""
        self._probe = 0

    # ---- the request

    def listens(self, number: int, link: int) -> bool:
        """Whether that request's first answer is listened for, and that link is told so."""
        return self._reply != 0 and self._taken is None and (self._number, self._link) == (number, link)

    def listen(self, number: int, link: int, answered: Callable[[t.Message], bool], deliver: str = "") -> None:
        """Whichever answer to that request comes first is taken, however often it was sent. deliver: where its consumer
        will deliver, if the answer comes before that does; answered then keeps what is behind the answer."""
        account = self._slot.account
        self.drop()
        self.missed = False
        if number != self._number:
            self._number, self.inbox = number, inbox("" if link else self._slot.aim)
            self._unanswered, self._taken = 0, None
        self._link = link
        if deliver:
            # Its first message comes right behind the answer: a question only then would cost a round trip more.
            self._ahead = self._plane.subscribe(account, deliver, self._came_too_early, link=link)
        flags = t.SubscribeFlag.ALONE if deliver else 0
        self._reply = self._plane.subscribe(account, self.inbox, answered, flags=flags, link=link)

    def sent(self) -> None:
        """The request is sent, once more if it was before."""
        self._unanswered += 1

    def first(self, message: t.Message) -> bool:
        """Whether an answer is the first one. Of a later one the consumer is deleted that nobody takes up."""
        self._unanswered -= 1
        is_first = self._taken is None
        if self._taken is None:
            self.answered_by = message.connection
            self._taken = made(message.payload)
        else:
            self._spare(made(message.payload))
        if self._unanswered <= 0:
            self._drop_answer()
        if is_first:
            self.drop_probe()
        return is_first

    def _spare(self, consumer: str) -> None:
        slot = self._slot
        # An answer is not proof of its sender: only a consumer that was made for this slot is deleted.
        if consumer != self._taken and consumer.startswith(slot.consumer) and not slot.origin.durable:
            self.delete(consumer)

    def delete(self, consumer: str) -> None:
        """Best effort: spares the origin ten seconds of a consumer that nobody listens to."""
        slot = self._slot
        self._plane.publish(slot.account, slot.origin.delete_subject(consumer), b"", flags=t.PublishFlag.REQUEST)

    # ---- what comes right behind the answer

    def _came_too_early(self, _message: t.Message) -> None:
        """Notes a message that came before the consumer is taken up. A link that is held back for long is read all the
        same (native/plane/pressure.c), and one that was cut may bring what was left behind."""
        self.missed = True

    def keep(self, message: t.Message) -> None:
        """The connection is not read beyond the answer until it is let go."""
        self._repay()
        self._kept = message

    @property
    def keeps(self) -> bool:
        """Whether something waits behind the answer."""
        return self._kept is not None

    def let_go(self) -> None:
        """Lets the messages behind the answer come."""
        self.drop_ahead()
        self._repay()

    def _repay(self) -> None:
        if self._kept is not None:
            message, self._kept = self._kept, None
            self._plane.repay(message)

    # ---- a question beside it

    @property
    def probes(self) -> bool:
        """Whether a probe is under way."""
        return self._probe != 0

    def probe(self, subject: str, heard: Callable[[t.Message], None], link: int = 0) -> None:
        """Tells of what comes on a subject, until the probe is dropped."""
        self.drop_probe()
        self._probe = self._plane.subscribe(self._slot.account, subject, heard, link=link)

    # ---- ends

    def drop(self) -> None:
        """The request and its answer are not wanted any more."""
        self._drop_answer()
        self.drop_ahead()

    def _drop_answer(self) -> None:
        if self._reply:
            self._plane.unsubscribe(self._slot.account, self._reply)
            self._reply = 0

    def drop_ahead(self) -> None:
        """The consumer's messages are taken in by now, or there is none."""
        if self._ahead:
            self._plane.unsubscribe(self._slot.account, self._ahead)
            self._ahead = 0

    def drop_probe(self) -> None:
        """The probe has told, or is of no use."""
        if self._probe:
            self._plane.unsubscribe(self._slot.account, self._probe)
            self._probe = 0
