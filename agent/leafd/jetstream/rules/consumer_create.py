"""The request of a consumer create: the name and filter in its subject against those of its body.

    CONSUMER.CREATE.<stream>                       legacy, ephemeral
    CONSUMER.DURABLE.CREATE.<stream>.<name>        legacy, durable
    CONSUMER.CREATE.<stream>.<name>[.<filter>]     today's

Pure. Not here: everything about the configuration itself (consumer_rules.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from leafd.jetstream import errors
from leafd.jetstream.models.consumer import ACK_FLOW_CONTROL, ConsumerConfig
from leafd.jetstream.models.requests import ConsumerCreateRequest
from leafd.jetstream.models.stream import LIMITS, StreamConfig
from leafd.records import dataclass


@dataclass(frozen=True, slots=True)
class Wanted:
    """The stream and the configuration that a request means."""

    stream: str
    config: ConsumerConfig

    def for_stream(self, stream: StreamConfig, random_name: Callable[[], str]) -> ConsumerConfig:
        """Consumers of mirrors and sources carry a stable name: on a limits stream each gets a name of its own, so that
        one made anew never meets the one before; elsewhere they become durable, because messages must wait for them."""
        config = self.config
        if not (config.direct and config.sourcing and config.name):
            return config
        if stream.retention == LIMITS:
            return replace(config, name=f"{config.name}-{random_name()}")
        return replace(
            config,
            direct=False,
            durable_name=config.name,
            ack_policy=ACK_FLOW_CONTROL,
            ack_wait=0,
            max_deliver=0,
            inactive_threshold=0,
        )


def wanted_consumer(tokens: list[str], request: ConsumerCreateRequest) -> Wanted:
    """tokens: the subject behind $JS.API. Raises the ApiError of the first contradiction."""
    durable_form = tokens[1] == "DURABLE"
    legacy_form = len(tokens) == 3
    stream = tokens[3] if durable_form else tokens[2]
    config = request.config
    if durable_form:
        name = tokens[4]
    else:
        name = config.name if legacy_form else tokens[3]
    filtered = "" if durable_form else ".".join(tokens[4:])
    if stream != request.stream_name:
        raise errors.STREAM_MISMATCH.error()
    if "/" in name or "\\" in name:
        raise errors.CONSUMER_NAME_CONTAINS_PATH_SEPARATORS.error()
    if durable_form and not config.durable_name:
        raise errors.CONSUMER_DURABLE_NAME_NOT_SET.error()
    if not legacy_form:
        if config.durable_name and config.durable_name != name:
            raise errors.CONSUMER_DURABLE_NAME_NOT_MATCH_SUBJECT.error()
        config = replace(config, name=name)
    elif config.durable_name:
        raise errors.CONSUMER_EPHEMERAL_WITH_DURABLE_NAME.error()
    if filtered and config.filter_subjects:
        raise errors.CONSUMER_MULTIPLE_FILTERS_NOT_ALLOWED.error()
    if filtered and filtered != config.filter_subject:
        raise errors.CONSUMER_CREATE_FILTER_SUBJECT_MISMATCH.error()
    return Wanted(stream, config)
