"""The subjects that a stream publishes to by itself, in the name of the user who made it or changed it last, and those
among them to which that user may not publish (any more).

    republish                        the destination, with `*` for a token that depends on the message
    a mirror or source of another    where it asks for a consumer
    JetStream (external.api)

What is withheld is left out when the stream is handed to its neighbours: nothing is republished, that origin is not
asked. All else of the stream goes on. Not here: whose rights these are (logins/askers.py), how a mirror
asks (links/origin.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from leafd.jetstream import errors
from leafd.quoting import quoted

if TYPE_CHECKING:
    from leafd.jetstream.catalogue import Stream
    from leafd.jetstream.context import Context
    from leafd.jetstream.models.stream import StreamConfig, StreamSource
    from leafd.jetstream.ports import Asker

_OF_ONE_TOKEN: Final = ("wildcard", "partition", "left(", "right", "random")
WITHHELD: Final = errors.Row(errors.STREAM_INVALID_CONFIG.err_code, 403, "its author may not ask there").error()
"""The error of a mirror or source in a stream's info."""


def publishes(config: StreamConfig) -> tuple[str, ...]:
    """The subjects, which may have wildcards."""
    sources = config.sources if config.mirror is None else (config.mirror, *config.sources)
    found = [asks(source) for source in sources] + [republishes(config)]
    return tuple(dict.fromkeys(subject for subject in found if subject))


def asks(source: StreamSource) -> str:
    """The API prefix of another JetStream; empty: the origin is of this one, or a subject of ours leads to it."""
    if source.external is None or not source.external.api:
        return ""
    base = f"{source.external.api}.CONSUMER"
    if source.consumer is not None and source.consumer.name:
        return f"{base}.RESET.{source.name}.{source.consumer.name}"
    filters = tuple(one.source for one in source.subject_transforms) or (source.filter_subject,)
    one_filter = f".*.{filters[0]}" if len(filters) == 1 and filters[0] else ""
    return f"{base}.CREATE.{source.name}{one_filter}"


def republishes(config: StreamConfig) -> str:
    """The destination as a pattern; empty: nothing is republished."""
    if config.republish is None:
        return ""
    tokens: list[str] = []
    for token in config.republish.destination.split("."):
        if token.startswith("{{") and not token[2:].lstrip().lower().startswith(_OF_ONE_TOKEN):
            return ".".join([*tokens, ">"])  # a function that may make several tokens of one
        tokens.append("*" if token.startswith(("{{", "$")) and token[1:2] in "{0123456789" else token)
    return ".".join(tokens)


async def author_for(asker: Asker, config: StreamConfig) -> str:
    """In whose name a stream of that configuration publishes; empty: in nobody's. Raises the ApiError of what who asks
    for the stream may not publish."""
    subjects = publishes(config)
    if not subjects:
        return ""
    denied = await asker.denied(subjects)
    if denied:
        raise errors.STREAM_INVALID_CONFIG.error(
            err=f"permissions violation for publish to {quoted(denied[0])}, which the stream would do in your name"
        )
    return asker.author


async def judge(context: Context, stream: Stream) -> bool:
    """Whether other things of the stream are withheld than until now, by the rights that its author has today."""
    subjects = publishes(stream.config) if stream.author else ()
    denied = await context.neighbours.denied(stream, subjects) if subjects else ()
    before, stream.denied = stream.denied, frozenset(denied)
    for subject in denied:
        if subject not in before:
            context.log.warning(
                f"stream {quoted(stream.name)} of account {quoted(stream.account.name)} does not publish to "
                f"{quoted(subject)}: who made or changed it last may not do that any more",
                event="publishing_withheld",
                account=stream.account.name,
                stream=stream.name,
            )
    return stream.denied != before
