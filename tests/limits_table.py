"""Every limit that the configuration, a JWT or promises.md knows: what is refused beyond it, what remains, and which
test exceeds it.

    python -m tests.limits_table        the table, as promises.md has to have it

A row without proofs is played on both servers by tests/interop/test_limits.py: limit_attacks.py has a function of its
name, whose words are the row's. One with proofs rests on these tests. Not here: whether a limit has a
row (tests/unit/test_limits_table.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PAYLOAD: Final = ("-ERR 'Maximum Payload Violation', closed", "others publish")
SUBSCRIPTIONS: Final = ("-ERR 'maximum subscriptions exceeded'", "the connection and its others")
CONNECTIONS: Final = (
    "-ERR 'maximum account active connections exceeded', closed",
    "the others; its place, when one ends",
)
LOGIN: Final = ("-ERR 'Authorization Violation', closed", "who has it otherwise")
NOT_HELD: Final = ("nothing", "all")
STORED: Final = ("400 10002 resource limits exceeded for account", "10 messages")
STREAMS: Final = ("400 10027 maximum number of streams reached", "streams S, T")
CONSUMERS: Final = ("400 10026 maximum consumers limit reached", "consumers C, D")
PENDING: Final = ("400 10121 consumer max ack pending exceeds system limit of 10", "10 where none is asked for")
LARGE: Final = ("400 10122 stream max bytes exceeds account limit max stream bytes", "streams S")
BOUNDLESS: Final = ("400 10113 account requires a stream config to have max bytes set", "streams S")
STORAGE: Final = "interop/test_account_storage.py::"


@dataclass(frozen=True)
class Row:
    """One limit. theirs: nats-server has it, too, and does the same."""

    name: str
    refused: str
    remains: str
    theirs: bool = True
    proofs: tuple[str, ...] = ()


def of_shares(prefix: str, file: str, memory: str, streams: str, consumers: str) -> tuple[Row, ...]:
    """An account's limits of JetStream, as the configuration or a JWT names it."""
    return (
        Row(f"{prefix}.{file}", *STORED),
        Row(f"{prefix}.{memory}", *STORED),
        Row(f"{prefix}.{streams}", *STREAMS),
        Row(f"{prefix}.{consumers}", *CONSUMERS),
        Row(f"{prefix}.max_ack_pending", *PENDING),
        Row(f"{prefix}.disk_max_stream_bytes", *LARGE),
        Row(f"{prefix}.mem_max_stream_bytes", *LARGE),
        Row(f"{prefix}.max_bytes_required", *BOUNDLESS),
    )


CLAIMED: Final = ("disk_storage", "mem_storage", "streams", "consumer")
ROWS: Final[tuple[Row, ...]] = (
    # ---- the configuration: the server
    Row("max_payload", *PAYLOAD),
    Row("max_connections", "-ERR 'maximum connections exceeded', closed", CONNECTIONS[1]),
    Row("max_subscriptions", *SUBSCRIPTIONS),
    Row("max_control_line", "-ERR 'maximum control line exceeded', closed", "others"),
    Row(
        "max_pending", "the connection, as a slow consumer", "others, who get everything",
        proofs=("interop/test_slow_consumer.py::test_client_that_does_not_read_is_cut_off",),
    ),
    Row(
        "memory_limit", "what needs more, see Memory", "all else", theirs=False,
        proofs=("interop/test_memory_attacks.py::test_messages_that_are_never_finished",),
    ),
    Row("max_closed_clients", "the oldest are forgotten", "the last 3"),
    Row(
        "max_traced_msg_len", "the rest of the message, in the log", "its beginning",
        proofs=("interop/test_keys.py::test_messages_are_traced",),
    ),
    Row(
        "log_size_limit", "the file is set aside", "a new one",
        proofs=("interop/test_logging.py::test_a_large_log_is_set_aside",),
    ),
    Row(
        "log_max_num", "the oldest file goes", "as many as that",
        proofs=("interop/test_logging.py::test_a_large_log_is_set_aside",),
    ),
    Row(
        "tls.connection_rate_limit", "the handshake, closed", "those of the next second",
        proofs=("interop/test_tls.py::test_more_handshakes_than_allowed_in_a_second_are_told_so",),
    ),
    Row(
        "mqtt.max_packet_size", "DISCONNECT 0x95 with MQTT 5, closed", "others", theirs=False,
        proofs=("interop/test_mqtt_five.py::test_a_packet_that_is_larger_than_granted_ends_the_connection",),
    ),
    Row(
        "mqtt.receive_maximum", "DISCONNECT 0x93 with MQTT 5, closed", "others", theirs=False,
        proofs=("interop/test_mqtt_five.py::test_more_that_waits_for_its_acknowledgement_than_granted_ends_it",),
    ),
    Row(
        "mqtt.topic_alias_maximum", "DISCONNECT 0x94, closed", "others", theirs=False,
        proofs=("interop/test_mqtt_five.py::test_a_topic_can_be_called_by_its_alias",),
    ),
    Row(
        "mqtt.max_keep_alive", "a longer silence, with MQTT 5", "the connection, which is told the limit", theirs=False,
        proofs=("interop/test_mqtt_five.py::test_the_server_may_shorten_the_keep_alive",),
    ),
    Row(
        "mqtt.max_sessions", "CONNACK 0x97, with 3.1.1 return code 3", "sessions that are there", theirs=False,
        proofs=("interop/test_mqtt_sessions.py::test_an_account_keeps_no_more_sessions_than_the_block_says",),
    ),
    Row(
        "mqtt.max_session_expiry", "nothing; the session is over that much earlier", "all until then", theirs=False,
        proofs=("interop/test_mqtt_sessions.py::test_a_session_is_not_kept_longer_than_the_block_says",),
    ),
    Row(
        "mqtt.max_message_expiry", "nothing; the message is gone that much earlier", "all until then", theirs=False,
        proofs=("interop/test_mqtt_sessions.py::test_no_message_is_kept_longer_than_the_block_says",),
    ),
    Row(
        "mqtt.max_queued", "nothing; the oldest message of the session is dropped", "the newest, and what is in flight",
        theirs=False,
        proofs=("interop/test_mqtt_sessions.py::test_no_more_waits_for_a_session_than_the_block_says",),
    ),
    Row(
        "mqtt.max_session_bytes", "nothing; the oldest messages of the session are dropped",
        "the newest, one at least, and what is in flight", theirs=False,
        proofs=("interop/test_mqtt_sessions.py::test_no_more_bytes_wait_for_one_session_than_the_block_says",),
    ),
    Row(
        "mqtt.max_queued_bytes", "PUBACK 0x97 with MQTT 5, with 3.1.1 closed, for all kept sessions of the account",
        "those that wait already", theirs=False,
        proofs=("interop/test_mqtt_sessions.py::test_no_more_bytes_wait_for_sessions_than_the_block_says",),
    ),
    Row(
        "mqtt.max_retained", "PUBACK 0x97 with MQTT 5, with 3.1.1 closed; with QoS 0 nothing",
        "those that are there, which can change", theirs=False,
        proofs=("interop/test_mqtt_five.py::test_an_account_keeps_no_more_retained_messages_than_the_block_says",),
    ),
    Row(
        "mqtt.max_retained_bytes", "PUBACK 0x97 with MQTT 5, with 3.1.1 closed; with QoS 0 nothing",
        "those that are there", theirs=False,
        proofs=("interop/test_mqtt_five.py::test_an_account_keeps_no_more_retained_messages_than_the_block_says",),
    ),
    Row(
        "mqtt.max_ack_pending", "nothing; the next message waits", "all, in order",
        proofs=("interop/test_mqtt_logins.py::test_no_more_is_in_flight_than_the_block_says",),
    ),
    Row(
        "resolver.limit", "the JWT, which is not kept", "those that are there", theirs=False,
        proofs=("unit/auth/test_resolver_directory.py::test_limits",),
    ),
    Row(
        "jetstream.max_file_store", "503 10023 insufficient resources", "what is stored; removals make room",
        proofs=(f"{STORAGE}test_the_servers_own_limits_are_held", "crash/test_full_disk.py"),
    ),
    Row(
        "jetstream.max_memory_store", "503 10023 insufficient resources", "what is stored; removals make room",
        proofs=(f"{STORAGE}test_the_servers_own_limits_are_held",),
    ),
    Row("jetstream.limits.max_ack_pending", *PENDING),
    Row(
        "jetstream.limits.max_request_batch", "400 10125 consumer max request batch exceeds server limit of 10",
        "10 where none is asked for",
    ),
    Row(
        "jetstream.limits.duplicate_window", "500 10052 duplicates window can not be larger then server limit of 10s",
        "10 s where none is asked for",
    ),
    Row("jetstream.limits.default_max_consumers", CONSUMERS[0], "C"),
    Row(
        "jetstream.limits.max_ha_assets", "400 10005 no suitable peers for placement, miscellaneous issue",
        "streams of one server",
        proofs=("interop/test_spread_replicas.py::test_replicas_are_spread_as_at_nats_servers",),
    ),
    Row(
        "jetstream.limits.batch.max_inflight_per_stream", "429 10210 atomic publish too many inflight",
        "the batch that was open: 2 messages",
    ),
    Row(
        "jetstream.limits.batch.max_inflight_total", "429 10210 atomic publish too many inflight",
        "the batch that was open: 2 messages",
    ),
    Row("jetstream.limits.batch.max_msgs", "400 10199 atomic publish batch is too large: 2", "0 messages"),
    Row("jetstream.limits.batch.timeout", "400 10176 atomic publish batch is incomplete", "0 messages"),
    # ---- the configuration: a user, an account
    Row("permissions.allow_responses.max", "-ERR 'Permissions Violation for Publish to \"inbox\"'", "2 replies"),
    Row("accounts.limits.max_payload", *PAYLOAD),
    Row("accounts.limits.max_connections", *CONNECTIONS),
    Row("accounts.limits.max_subscriptions", *SUBSCRIPTIONS),
    Row(
        "accounts.limits.max_leafnodes", "-ERR 'maximum account active leafnodes exceeded', closed", "the others",
        proofs=("interop/test_operator_leafs.py::test_an_account_has_so_many_leafs",),
    ),
    *of_shares("accounts.jetstream", "max_store", "max_memory", "max_streams", "max_consumers"),
    # ---- an account's JWT
    Row("jwt.account.payload", *PAYLOAD),
    Row("jwt.account.conn", *CONNECTIONS),
    Row("jwt.account.subs", *SUBSCRIPTIONS),
    Row(
        "jwt.account.leaf", "-ERR 'maximum account active leafnodes exceeded', closed", "the others",
        proofs=("interop/test_operator_leafs.py::test_an_account_has_so_many_leafs",),
    ),
    Row("jwt.account.data", *NOT_HELD),
    Row("jwt.account.imports", LOGIN[0], "nobody of it comes in"),
    Row("jwt.account.exports", LOGIN[0], "nobody of it comes in"),
    Row("jwt.account.wildcards", *NOT_HELD),
    Row("jwt.account.disallow_bearer", *LOGIN),
    *of_shares("jwt.account", *CLAIMED),
    *of_shares("jwt.account.tiered_limits.R1", *CLAIMED),
    # ---- a user's JWT, or the template of its signing key
    Row("jwt.user.payload", *PAYLOAD),
    Row("jwt.user.subs", *SUBSCRIPTIONS),
    Row("jwt.user.data", *NOT_HELD),
    Row("jwt.user.src", *LOGIN),
    Row("jwt.user.times", *LOGIN),
    Row("jwt.user.locale", *LOGIN),
    Row("jwt.user.allowed_connection_types", *LOGIN),
    Row("jwt.user.bearer_token", *LOGIN),
    Row("jwt.user.proxy_required", *LOGIN),
    # ---- bounds of the requests that users and strangers send
    Row("promises.subjects", "500 10052 more than 32768 subjects", "streams S", theirs=False),
    Row(
        "promises.subject", "500 10052 subjects of more than 4096 characters or 256 tokens", "streams S", theirs=False
    ),
    Row("promises.tokens", "500 10052 subjects of more than 4096 characters or 256 tokens", "streams S", theirs=False),
    Row("promises.all_tokens", "500 10052 subjects have more than 200000 tokens", "streams S", theirs=False),
    Row("promises.json_elements", "400 10025 invalid JSON: more than 400000 elements", "streams S", theirs=False),
    Row("promises.json_depth", "400 10025 invalid JSON: exceeded max depth at offset 150", "streams S", theirs=False),
    Row("promises.http_head", "closed", "others", theirs=False),
)  # fmt: skip

PLAYED: Final = tuple(row for row in ROWS if not row.proofs)


def of_pressure(promise: str) -> str:
    return f"native/test_plane_pressure.c: {promise}"


PROMISED: Final[dict[str, tuple[str, ...]]] = {
    "In the configuration the limits of all accounts": (
        STORAGE + "test_limits_of_accounts_that_come_to_more_than_the_servers_are_no_configuration",
    ),
    "At a start, a reload and a new JWT its rights": (
        "interop/test_stream_authors.py::test_rights_that_a_reload_takes_away_count_for_streams",
    ),
    "may send MQTT's CONNECT": (
        "interop/test_mqtt_logins.py::test_before_the_login_a_packet_is_small",
        "unit/logins/test_deadlines.py::test_devices_that_are_not_through_at_once_are_bounded_by_number",
    ),
    "that speaks MQTT has": (
        "interop/test_mqtt_five.py::test_a_packet_that_is_larger_than_granted_ends_the_connection",
        "interop/test_mqtt_five.py::test_more_that_waits_for_its_acknowledgement_than_granted_ends_it",
    ),
    "is one of 100,000": ("unit/enrol/test_register.py::test_there_are_so_many_boxes_and_tokens_and_no_more",),
    "that tells of other servers of the hub is believed for 64": (
        "hostile/test_hub_gossip.py::test_of_a_line_full_of_addresses_a_bounded_number_is_kept",
        "unit/links/test_hub_servers.py::test_of_ten_thousand_addresses_a_bounded_number_is_kept",
        "unit/links/test_hub_servers.py::test_a_hub_elsewhere_cannot_make_this_machine_dial_itself",
        "unit/links/test_hub_servers.py::test_every_second_attempt_goes_to_the_configuration_whatever_a_hub_tells",
    ),
    "gets a bounded number of everything": (
        "unit/links/test_route.py::test_there_is_a_greatest_number_of_servers_in_a_cluster",
        "unit/links/test_route.py::test_of_the_addresses_that_a_peer_names_only_places_are_kept_and_not_too_many",
        "unit/links/test_routes.py::test_of_a_thousand_servers_that_a_peer_tells_of_a_bounded_number_is_dialled",
        "unit/links/test_routes.py::test_logins_at_a_time_are_bounded_and_have_to_end_in_time",
    ),
    "is one of a bounded number: 256 clusters": (
        "unit/links/test_gateways.py::test_of_a_thousand_clusters_and_addresses_that_a_peer_tells_of_a_bounded_number_is_kept",
        "unit/links/test_gateways.py::test_logins_at_a_time_are_bounded_and_have_to_end_in_time",
    ),
    "that says what is no INFO": (
        "unit/links/test_route.py::test_an_info_that_is_none_ends_the_connection",
        "unit/links/test_routes.py::test_whatever_a_peer_says_the_routes_go_on",
    ),
    "may send one line": (
        "wire/client/max-control-line.wire",
        "interop/test_tls_attacks.py::test_a_stranger_s_line_is_bounded_behind_tls_too",
    ),
    "cannot end the daemon": ("hostile/test_draw.py::test_quick_draw", "unit/test_guard.py"),
    "has its login judged by a service": ("interop/test_callout.py::test_flood",),
    "cannot block monitoring": (
        "unit/monitor/test_http.py::test_patience_ends",
        "unit/monitor/test_http.py::test_when_all_seats_are_taken_the_longest_awaited_of_the_most_frequent_address_goes",
    ),
    "may send 16 KiB of an HTTP head": (
        "interop/test_limits.py::test_beyond_the_limit",
        "unit/logins/test_deadlines.py::test_devices_that_are_not_through_at_once_are_bounded_by_number",
    ),
    "costs nothing but its connection before": ("interop/test_tls_strangers.py",),
    "cannot use up the file descriptors": (
        "interop/test_fair_share.py::test_with_few_descriptors_everybody_who_is_in_goes_on",
    ),
    "cannot forge a line of the log": (
        "unit/daemon/test_refusals_logged.py::test_a_flood_of_refusals_does_not_fill_the_disk",
    ),
    "may do what its permissions say": ("interop/test_denials.py",),
    "that asks the API": (
        of_pressure("a connection that owes its credit is not read until half of it is paid, and loses nothing"),
        of_pressure("an account owes no more than all others leave free, so a newcomer finds room"),
    ),
    "is shown the first 100,000": ("hostile/test_causes.py::test_more_deleted_sequences_than_are_listed",),
    "may have at most 16 restores": ("hostile/test_bombs.py::test_restores_at_a_time",),
    "brings no consumer by an archive": (
        "hostile/test_restore_api.py::test_a_restore_brings_no_consumer_that_could_not_be_made",
    ),
    "What a purge or a limit removed goes back": (
        "native/test_holes.c",
        "interop/test_given_back.py::test_a_purge_gives_the_disk_back_and_what_is_left_stays",
    ),
    "may send lists of at most": ("interop/test_limits.py::test_beyond_the_limit",),
    "counted as streams report it": ("native/test_store_allowance.c",),
    "The message that does not fit": (f"{STORAGE}test_nothing_but_a_removal_makes_room",),
    "An atomic batch that does not fit": (
        f"{STORAGE}test_an_atomic_batch_is_whole_or_not_there",
        f"{STORAGE}test_a_copy_waits_for_room_and_has_everything_once",
    ),
    "At 80 % the log has a warning": (f"{STORAGE}test_80_percent_is_told_once",),
    "that asks more than is answered": (
        of_pressure("a link that floods for seconds is read again, and what exceeds its credit is refused"),
    ),
    "that floods with -ERR": (
        "native/test_plane_leaf.c: errors of a link are told some times a second, and counted otherwise",
    ),
    "is sent at most 256 queue groups": ("hostile/test_storms.py::test_queue_groups_without_end",),
    "reads and checks the new configuration": ("unit/config/test_language.py::test_includes_that_multiply",),
    "is taken over in slices": ("interop/test_reload_attacks.py::test_two_thousand_accounts_hold_nobody_up",),
    "refuses publishers with the documented error": (
        "crash/test_full_disk.py::test_a_full_disk_refuses_publishers_and_nothing_else",
    ),
    "counts against max_file_store": ("crash/test_full_disk.py",),
    "makes mirrors and sources wait": (f"{STORAGE}test_a_copy_waits_for_room_and_has_everything_once",),
}  # fmt: skip
"""How each line of promises.md that has a number begins, up to what is promised of a full disk, and what proves it. (Of
memory: native/plane/memory.c and its tests.)"""


def table() -> str:
    """The rows, as Markdown."""
    lines = ["| limit | beyond it is refused | what remains | nats-server | test |", "|---|---|---|---|---|"]
    for row in ROWS:
        proofs = ", ".join(f"`{proof.split('::')[0]}`" for proof in row.proofs) or "`interop/test_limits.py`"
        lines.append(
            f"| `{row.name}` | {row.refused} | {row.remains} | {'the same' if row.theirs else ''} | {proofs} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table(), end="")
