"""Every key of the configuration has a test that sets it, or a reason here why it needs none."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

from leafd.config.reference import BLOCKS
from leafd.config.schema.section import Support

TESTS: Final = Path(__file__).resolve().parents[2]
CLUSTER: Final = "it has a meaning only in a cluster"
QUEUES: Final = "the bound of a queue that is not here, as memory_limit bounds all of them"
TIMES: Final = "how long something may take that takes seconds at most; only when a failure is told differs"
SESSIONS: Final = "a session has no consumer for each of its subscriptions"
TPM: Final = "a part of cert_store, which is refused"
UNNOTICED: Final = {
    "AccountJetStream.cluster_traffic": CLUSTER,
    "Cluster.ping_max": TIMES,
    "Cluster.write_deadline": TIMES,
    "ConfiguredAccount.nkey": "accounts have keys only where an operator vouches for them",
    "Gateway.write_deadline": TIMES,
    "GatewayAuthorization.default_permissions": "gateways have no permissions",
    "JetStream.extension_hint": CLUSTER,
    "JetStream.info_queue_limit": QUEUES,
    "JetStream.max_buffered_msgs": QUEUES,
    "JetStream.max_buffered_size": QUEUES,
    "JetStream.max_concurrent_io": QUEUES,
    "JetStream.max_outstanding_catchup": CLUSTER,
    "JetStream.meta_compact": CLUSTER,
    "JetStream.meta_compact_size": CLUSTER,
    "JetStream.meta_compact_sync": CLUSTER,
    "JetStream.request_queue_limit": QUEUES,
    "LeafNodes.write_deadline": TIMES,
    "LeafRemote.jetstream_cluster_migrate": CLUSTER,
    "Mqtt.consumer_inactive_threshold": SESSIONS,
    "Mqtt.consumer_memory_storage": SESSIONS,
    "Mqtt.consumer_replicas": "nats-server ignores it, too",
    "Mqtt.js_api_timeout": "no session waits for a request of its own",
    "ServerConfig.disable_sublist_cache": "there is no such cache",
    "ServerConfig.no_fast_producer_stall": "how publishers are slowed down is leafd's own",
    "ServerConfig.ocsp_cache": "nothing asks for revocations",
    "ServerConfig.prof_block_rate": "a part of prof_port, which is refused",
    "Tls.ca_certs_match": TPM,
    "Tls.cert_match": TPM,
    "Tls.cert_match_by": TPM,
    "Tls.cert_match_skip_invalid": TPM,
}
UNTESTED: Final = {
    "ServerConfig.syslog": "as remote_syslog with unix:///dev/log, which is this machine's own",
}


@cache
def keys() -> dict[str, tuple[Support, tuple[str, ...]]]:
    """By the block's class and name: what becomes of a key, and how it may be spelt."""
    return {
        f"{model.__name__}.{name}": (option.support, (name, *option.aliases))
        for _, model in BLOCKS
        for name, option in model.options.items()
    }


@cache
def words() -> frozenset[str]:
    """All that stands before a colon, an equals sign or a brace in a test: what could be a key."""
    here = Path(__file__)
    texts = [
        one.read_text(errors="replace") for one in TESTS.rglob("*") if one.suffix in (".py", ".conf") and one != here
    ]
    return frozenset(re.findall(r"\b([a-z0-9_]+)\b\"?\s*[:={]", "\n".join(texts).lower()))


def test_each_key_has_a_test_or_a_reason() -> None:
    """One that no test sets is named, and one that is named is set by none."""
    unset = {
        name
        for name, (support, spellings) in keys().items()
        if support == Support.FULL and not words().intersection(one.lower() for one in spellings)
    }
    assert unset == set(UNTESTED)


def test_nobody_notices_that_a_key_has_no_effect() -> None:
    """Each key that is taken and does nothing, with the reason; whatever would be missed is refused."""
    ignored = {name for name, (support, _) in keys().items() if support == Support.IGNORED}
    assert ignored == set(UNNOTICED)
