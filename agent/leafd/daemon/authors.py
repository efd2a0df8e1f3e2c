"""The rights today of those who stored schedules: answers the plane when one of their schedules is due, and tells the
log of a schedule that may not fire any more.

    Author(ASKED) --whose login it was, by the terms of today--> tell_author()     Author(DENIED) --> a line of the log

The plane keeps answers until forget_authors(), which every change of accounts and users gives. An author whose account
is not known yet is not answered: the schedule waits. Not here: the words for an author
(auth/authors.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from leafd import native_types as t
from leafd.auth.authors import may_today, read
from leafd.auth.verdict import LEAF_TYPES, LEAF_WEB_TYPE, MQTT_TYPE, MQTT_WEB_TYPE, WEB_TYPE
from leafd.daemon.remotes import REMOTE_AUTHOR, url_place
from leafd.links.leaf_rights import mirrored
from leafd.logins.askers import denied
from leafd.logins.client import lists_of
from leafd.operator_log import Log
from leafd.quoting import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from leafd.auth.policy import Policy
    from leafd.daemon.current import Current
    from leafd.native_connections import Connections

SHOWN_MAX: Final = 200


def is_link(words: list[Any]) -> bool:
    """Whether the author came by a leaf link."""
    return bool(words) and (words[0] == REMOTE_AUTHOR or words[1] in LEAF_TYPES)


class AuthorRights:
    """The rights of authors by the terms of today."""

    def __init__(self, current: Current) -> None:
        self._current = current

    async def denied(self, author: str, account: str, subjects: tuple[str, ...]) -> tuple[str, ...]:
        """The subjects among these to which that author may not publish today: all of them while the author is not
        known."""
        from leafd.auth.trust import Unknown

        words = read(author)
        if not author:
            return ()
        link = is_link(words)
        try:
            granted = self.permissions(words, account, link=link)
        except Unknown:
            return subjects
        return await denied(granted[1], subjects, link=link) if granted is not None else subjects

    def permissions(self, words: list[Any], account: str, *, link: bool) -> tuple[t.ConnVerdict, t.Permissions] | None:
        """The author's rights in that account; None: there are none any more. Raises Unknown."""
        if words and words[0] == REMOTE_AUTHOR:
            return self._of_remote(words, account)
        rights = may_today(words, account, self._policy_of)
        if rights is None:
            return None
        lists = lists_of(rights)
        return t.ConnVerdict(0), mirrored(lists) if link else lists

    def _policy_of(self, kind: str) -> Policy:
        compiled = self._current.compiled
        if kind in LEAF_TYPES:
            terms = compiled.leaf_terms
            return terms.web_policy if kind == LEAF_WEB_TYPE and terms.web_policy is not None else terms.policy
        if kind in (MQTT_TYPE, MQTT_WEB_TYPE):
            return compiled.mqtt_policy
        return compiled.web_policy if kind == WEB_TYPE else compiled.policy

    def _of_remote(self, words: list[Any], account: str) -> tuple[t.ConnVerdict, t.Permissions] | None:
        """The rights that the configuration's denials leave; the hub's own permissions are not asked again."""
        for one in self._current.compiled.remotes:
            remote = one.remote
            if remote.account_name == account and words[1:] == [account, [url_place(url) for url in remote.urls]]:
                return t.ConnVerdict(0), t.Permissions(
                    publish_deny=remote.deny_exports,
                    subscribe_deny=remote.deny_imports,
                    mapped_deny=remote.deny_imports,
                )
        return None


class Authors:
    """Takes the plane's events of authors. named: a stream's name and its account's, for the log."""

    def __init__(
        self,
        plane: Connections,
        current: Current,
        rights: AuthorRights,
        log: Log,
        named: Callable[[int], Mapping[str, str]],
    ) -> None:
        self._plane, self._current, self._rights, self._log, self._named = plane, current, rights, log, named

    def handle(self, event: t.Author) -> None:
        """A question, or what follows from an answer."""
        if event.code == t.AuthorCode.ASKED:
            self._answer(event)
        else:
            self._tell(event)

    def _answer(self, event: t.Author) -> None:
        from leafd.auth.trust import Unknown  # here: a box without JWTs needs none of it

        account = self._current.compiled.graph.by_id.get(event.account)
        words = read(event.author)
        if account is None:
            return
        link = is_link(words)
        try:
            granted = self._rights.permissions(words, account.name, link=link)
        except Unknown:
            return
        verdict, permissions = granted if granted is not None else (t.ConnVerdict(0), None)
        self._plane.tell_author(event.ticket, verdict, permissions, link=link)

    def _tell(self, event: t.Author) -> None:
        names = self._named(event.stream)
        schedule, denied = printable(event.schedule, SHOWN_MAX), printable(event.denied, SHOWN_MAX)
        author = printable(event.author, SHOWN_MAX)
        self._log.warning(
            f"stream {names.get('stream', '')}: the schedule {schedule} was not carried out: its author {author} may "
            f"not use {denied} any more ({event.left_out} others before it were not logged)",
            event="schedule_refused",
            **names,
        )
