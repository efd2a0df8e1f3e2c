"""The tests on which each line of differences.md rests. Not here: that these are there (test_differences_page.py)."""

from __future__ import annotations

from typing import Final

NAMED: Final = "interop/test_named_differences.py::"
PROOFS: Final[dict[str, tuple[str, ...]]] = {
    "enrol lets boxes enrol themselves": (
        "interop/test_enrol.py::test_a_box_of_either_kind_enrols_with_its_key_and_a_token_and_what_it_stores_is_collected",
        "interop/test_enrol.py::test_two_machines_with_one_key_the_second_is_refused_and_both_are_named",
        "interop/test_twins.py::test_the_hub_and_the_boxes_say_that_two_have_one_name",
        "interop/test_twins.py::test_the_hub_says_that_two_boxes_have_one_domain_as_long_as_both_are_linked",
        "interop/test_twins.py::test_each_server_says_that_another_one_has_a_box_of_that_name",
    ),
    # ---- who publishes
    "An acknowledgement means: on disk": (
        "crash/test_kill.py::test_acknowledged_is_there_once_and_in_order",
        "crash/test_power.py::test_power_fails_under_the_daemon",
        "interop/test_nats_py.py::test_acknowledged_means_on_disk",
    ),
    "A stored message is": ("interop/test_max_payload.py::test_small_messages_find_room_beside_a_large_max_payload",),
    "A Nats-TTL of more than 292 years": ("wire/jetstream/publish-ttl-long.wire",),
    "A subject that a transform makes longer": ("wire/jetstream/transform-long.wire",),
    "An atomic batch is one record": ("crash/test_kill.py::test_an_atomic_batch_is_there_whole_or_not_at_all",),
    "A counter's value has at most": ("native/test_plane_batches.c: a counter stores sums, and refuses what is none",),
    "A stream takes no sequence above": ("hostile/test_causes.py::test_sequences_that_are_used_up",),
    "A full stream that discards new": ("native/test_store_markers.c",),
    "compression: s2 compresses each message": (
        "interop/test_stored_smaller.py::test_a_compressed_stream_is_smaller_and_the_same",
        "interop/test_stored_smaller.py::test_single_readings_of_a_compressed_stream_take_less_than_half",
        "interop/test_stored_smaller.py::test_a_damaged_dictionary_is_named_and_costs_what_needs_it_only_if_both_copies_are",
    ),
    "An atomic batch that its": ("interop/test_account_storage.py::test_an_atomic_batch_is_whole_or_not_there",),
    "An expired message of a full account": ("interop/test_account_storage.py::test_a_marker_does_not_exceed_it",),
    "A schedule for one moment": ("interop/test_account_storage.py::test_a_schedule_fires_when_there_is_room",),
    "max_file_store and max_memory_store": ("interop/test_account_storage.py::test_the_servers_own_limits_are_held",),
    "Accounts whose JWTs grant more": (
        "interop/test_operator.py::" "test_accounts_whose_jwts_grant_more_than_there_is_are_served_until_it_is_taken",
    ),
    "A step of the wall clock": (
        "native/test_store.c: max_age counts elapsed time, whatever the wall clock does",
        "native/test_consume_ack.c: steps of the wall clock neither hurry nor delay a redelivery",
    ),
    # ---- who consumes
    "A message is delivered when": ("native/test_consume_pull.c: a message that is not durable yet is not delivered",),
    "Who asks for the last message of a subject": (
        "interop/test_buckets.py::test_a_value_that_is_replaced_is_never_missing",
    ),
    "A consumer that asks for the confirmation": ("wire/jetstream/ack-max-pending.wire",),
    "A client is pinned": (
        "native/test_consume_priority.c: pinned: who does not listen, or cannot take the message, is not pinned",
    ),
    "A mirror or source goes on within": (
        "interop/test_leaf.py::test_mirror_brings_commands_down_over_a_killed_hub",
        "unit/links/test_replica.py::test_a_link_that_returns_ends_every_wait",
    ),
    "A mirror or source whose full stream refuses": (
        "unit/links/test_replicas.py::test_who_was_refused_is_asked_soon_when_its_stream_is_less_full",
    ),
    "A mirror or source whose consumer is reset": (
        "wire/jetstream/source-durable-reset.wire",
        "interop/test_durable_copies.py::test_a_copy_of_a_durable_consumer_has_each_message_once",
    ),
    "A source that is given a consumer goes on": (
        "unit/links/test_replicas.py::test_a_source_that_gets_a_durable_consumer_goes_on_where_it_was",
        "interop/test_durable_copies.py::test_a_copy_of_a_durable_consumer_has_each_message_once",
    ),
    "A mirror or source answers to flow control": (
        "hostile/test_origin.py::test_an_origin_s_flow_control_is_answered_nowhere_else",
    ),
    "A mirror or source takes messages whose": ("hostile/test_origin.py::test_what_is_stored_of_an_origin_that",),
    "A source goes on with what is newer when its origin was put back": (
        "interop/test_put_back.py::test_a_hub_notices_a_box_that_was_put_back",
        "interop/test_put_back.py::test_what_a_box_that_was_put_back_stores_by_a_clock_that_is_behind_is_collected_too",
    ),
    "Stored records carry checksums": ("crash/test_damage.py::test_damage_loses_nothing_and_is_told",),
    # ---- who uses the JetStream API
    "A stream that is deleted and made again": (f"{NAMED}test_a_stream_that_is_made_again_at_once",),
    "STREAM.MSG.DELETE overwrites nothing": (
        f"{NAMED}test_a_removed_messages_bytes",
        "native/test_packing.c: an emptied stream has no dictionary, and then gets a new one",
    ),
    "Long work on a stream": (
        "native/test_plane_jobs.c: long work is answered once and whole, and others are served between its steps",
        "native/test_jetstream.c: an expectation about many subjects takes several turns, "
        "and what is published behind it keeps its place",
        "native/test_jetstream.c: so many messages wait for it, and the next one is told so",
    ),
    "A stored stream or consumer that cannot be loaded": (
        "hostile/test_stored.py::test_stream_is_set_aside", "hostile/test_stored.py::test_consumer_is_set_aside",
    ),
    "JSON nested deeper than 100": (
        "hostile/test_causes.py::test_nested_retention",
        "unit/jetstream/test_names.py::test_a_consumer_whose_name_is_no_text_is_refused",
        "unit/jetstream/test_subjects.py::test_lists_that_are_written_to_be_compared_for_ever_are_refused",
    ),
    "Times before 1678 or after 2262": ("hostile/test_causes.py::test_times_outside_of_64_bits",),
    "Backups of a nats-server before 2.15": (
        "interop/test_old_backup.py::test_a_backup_of_an_older_server_is_the_stream_that_it_had",
        "interop/test_backup.py::test_a_restore_that_is_killed_half_way_leaves_nothing",
    ),
    "The name and the subjects of a stream that is being restored": (
        "hostile/test_restore_api.py::test_nobody_takes_the_subjects_of_a_stream_that_is_being_restored",
    ),
    "A restore that ends with an error because of a consumer": (
        "hostile/test_restore_api.py::test_a_restore_brings_no_consumer_that_could_not_be_made",
    ),
    "Where there is no cluster, a backup": ("wire/jetstream/restore-replicas.wire",),
    "A message of an archive that is older": ("hostile/test_restore_api.py::test_what_becomes_of_an_archive_with",),
    "A backup that is asked for": ("unit/jetstream/test_backup.py::test_a_far_client_is_waited_for",),
    "A restored stream knows the ids": ("interop/test_backup.py::test_a_backup_is_the_same_stream_elsewhere",),
    "A direct get of the last of many subjects": ("wire/jetstream/direct-get-up-to-later.wire",),
    "Stream templates are there": (
        "interop/test_templates.py::test_streams_come_with_traffic_and_go_with_the_template",
        "interop/test_templates.py::test_who_never_uses_templates_finds_none",
        "unit/jetstream/test_templates.py::test_beyond_its_number_of_streams_the_publisher_is_told",
        "hostile/test_templates.py::test_a_subject_with_wildcards_makes_no_stream",
    ),
    "A schedule's target and its source": (
        "native/test_plane_names.c: a schedule names as target, as source, or as the schedule that ends, what its "
        "sender may publish or read", "interop/test_denials.py::test_every_path_meets_every_denial",
    ),
    "A schedule fires only while": (
        "interop/test_schedule_authors.py::test_rights_that_a_reload_takes_away_count_for_schedules",
        "interop/test_schedule_authors.py::test_a_revoked_user_schedules_nothing_more",
    ),
    "A client of a server without JetStream": ("native/test_plane_guests.c",),
    "A stream republishes, and asks another JetStream": (
        "interop/test_stream_authors.py::test_a_stream_publishes_in_the_name_of_who_makes_it",
        "interop/test_stream_authors.py::test_rights_that_a_reload_takes_away_count_for_streams",
        "unit/daemon/test_guests.py::test_the_rights_of_who_asks_are_those_of_his_login_here",
    ),
    "A stream takes no message under": (
        "wire/jetstream/publish-bad-subject.wire",
        "native/test_plane_backup.c: messages whose subject is not valid are left out and counted, and the rest is "
        "restored", "unit/daemon/test_store_formats.py::test_a_message_without_a_valid_subject_is_named_by_the_check",
    ),
    "A message that a consumer delivers to a subject of another stream": (
        "native/test_plane_names.c: what a consumer delivers to a stream is stored under the subject that it was "
        "delivered to",
    ),
    "A republish into the server's own subjects": ("wire/jetstream/republish-errors.wire",),
    "A page of STREAM.LIST or CONSUMER.LIST": ("interop/test_memory_walk.py::test_what_a_peer_can_fill_has_a_bound",),
    # ---- who writes a client
    "Without max_connections there are at most": ("interop/test_memory_attacks.py::test_connections_that_do_nothing",),
    "All subscriptions together have a share": (
        "native/test_plane_remembered.c: beyond the share of subscriptions further ones are refused, but a few of each "
        "connection; what ends makes room",
    ),
    "Replies to service imports, and": ("interop/test_memory_walk.py::test_what_a_peer_can_fill_has_a_bound",),
    "A pedantic client gets one error": ("wire/client/pedantic.wire",),
    "The first bytes of a connection are mapped": ("wire/client/mappings.wire",),
    "A subscription's id (sid)": ("native/test_parse.c: a sid may be 64 bytes long and no longer",),
    "UNSUB with a number counts": ("wire/client/import-stream-max.wire",),
    # ---- who traces messages
    "Of a message that is only traced": ("interop/test_trace.py::test_traces",),
    "JetStream's own API is no service import": ("interop/test_trace.py::test_traces",),
    "Where a subject and the trace's destination": ("interop/test_trace.py::test_traces",),
    # ---- who sets permissions
    "A subscription to b.> is refused": ("interop/test_denials.py::test_every_difference_is_one",),
    "What a leaf's rights deny": ("interop/test_denials.py::test_every_difference_is_one",),
    "Over a link, JetStream's API": ("interop/test_leaf.py::test_each_side_keeps_its_own_jetstream",),
    "deny_imports, and what a hub lets": ("interop/test_denials.py::test_every_difference_is_one",),
    "An allow list that is empty": ("unit/auth/test_verdict.py::test_permissions",),
    "tests/interop/test_denials.py plays": ("interop/test_denials.py::test_every_path_meets_every_denial",),
    "What a user's JWT from an auth callout": (
        "interop/test_callout.py::test_restrictions_hold", "interop/test_callout.py::test_reload",
    ),
    "A user's JWT that ends after the year": ("hostile/test_callout.py::test_what_leafd_takes_another_way",),
    "After five wrong hashed passwords": (f"{NAMED}test_who_guesses_at_a_hashed_password_waits",),
    # ---- who runs leaf links
    "A redial waits at most reconnect": (
        f"{NAMED}test_how_long_a_leaf_waits_before_it_dials_again",
        "unit/links/test_redial.py::"
        "test_the_first_dial_after_a_silence_is_soon_and_those_that_follow_take_up_to_the_interval",
    ),
    "A leaf whose login the hub refuses": (
        "unit/links/test_redial.py::test_refused_comes_less", "unit/links/test_redial.py::test_where_no_hub_answers",
    ),
    "A second link of the same": ("interop/test_leaf_liars.py::test_who_takes_a_leaf_s_names_does_not_end_its_link",),
    "A hub at which 2,048 leaves wait": (
        "interop/test_busy_hub.py::" "test_a_leaf_that_a_busy_hub_turns_away_says_so_and_is_linked_when_there_is_room",
        "interop/test_busy_hub.py::test_a_leaf_comes_when_the_busy_hub_said_and_not_before",
    ),
    "Other servers that a hub tells of": (
        "interop/test_hub_servers.py::test_a_leaf_goes_on_at_the_next_server_when_its_own_is_killed",
        "interop/test_hub_servers.py::test_what_a_leaf_knows_follows_the_servers_that_there_are",
        "interop/test_hub_servers.py::test_the_next_server_is_found_over_websocket_and_tls_too",
        "interop/test_hub_servers.py::test_a_leaf_that_is_told_to_ignore_other_servers_waits_for_its_own",
        "hostile/test_hub_gossip.py::test_a_leaf_that_was_told_of_itself_or_of_nobody_comes_back_to_the_configured_hub",
        "unit/links/test_hub_servers.py::test_a_lone_hub_that_tells_its_own_address_stays_alone",
        "unit/links/test_hub_servers.py::test_in_order_means_that_the_first_one_is_preferred_after_each_link",
    ),
    "A proxy of a remote has": ("interop/test_dialling.py::test_a_proxy_that_speaks_tls_is_refused",),
    "Where the configuration says nothing a dial": (
        "interop/test_cell.py::test_with_defaults_a_link_comes_up_at_two_seconds_round_trip",
        "interop/test_cell.py::test_a_nats_server_two_seconds_away_becomes_a_leaf_and_brings_what_it_has",
        "unit/logins/test_leaf_patience.py::test_who_is_slow_to_log_in_is_bounded_by_number",
    ),
    "Of attempts to dial that fail": (
        "interop/test_dialling.py::test_a_dial_takes_no_longer_than_it_may_and_each_failure_is_told_where_that_is_asked_for",
        "interop/test_dialling.py::test_the_first_word_of_a_hub_is_waited_for_as_long_as_it_may_take",
        "interop/test_dialling.py::test_after_a_lost_link_each_failure_of_a_number_is_told_besides_the_first",
    ),
    "A link that is far or slow": (
        "native/test_window.c: the window is what the link has under way, a quarter and two packets",
        "native/test_window.c: a link is dead when nothing is acknowledged, however slow it is",
        "interop/test_cell.py::test_a_live_link_is_not_closed_for_being_slow",
    ),
    "priority of a remote": (
        "interop/test_precedence.py::test_what_is_named_goes_first_and_the_pace_is_kept",
        "native/test_lanes.c: the configuration says what goes first",
        "native/test_window.c: a pace is kept, whatever the link could carry",
    ),
    "limits { bytes_per_day": (
        "interop/test_budget.py::test_bulk_waits_first_then_the_rest_and_a_larger_budget_wakes_all",
        "native/test_budget.c: of a budget bulk stops first, then what is normal, then all",
        "unit/links/test_budgets.py::test_ranks_stop_at_parts_of_what_is_left",
    ),
    "What the other end sends is counted": (
        "native/test_budget.c: messages and requests are held, acknowledgements and what was delivered are not",
        "unit/links/test_budgets.py::test_what_is_remembered_of_leaves_that_are_gone_is_bounded",
    ),
    "A budget is given when": (
        "unit/links/test_ledger.py::test_a_step_forward_gives_nothing",
        "unit/links/test_ledger.py::test_a_restart_gives_nothing",
        "unit/links/test_budgets.py::test_a_power_cut_gives_nothing_back",
        "interop/test_budget.py::test_a_restart_gives_no_budget_again",
    ),
    "What waits for such a link goes by precedence": (
        "native/test_lanes.c: acknowledgements go first, then messages, then what catches up",
        "native/test_lanes.c: what goes last still has an eighth of what goes before it",
        "native/test_lanes.c: what a consumer delivers stays in order, with more consumers than lanes",
    ),
    "Of messages of clients, and of answers": (
        "native/test_lanes.c: "
        "a peer that asks for answers without end holds up nobody, and no more memory than its part",
        "native/test_lanes.c: many slow links leave others an eighth of the memory, and each other room for a little",
    ),
    "While a lone hub with one address": (
        "unit/links/test_dialling.py::test_a_hub_is_waited_for_ever_longer_when_each_of_its_servers_was_tried",
        "unit/links/test_dialling.py::test_a_hub_that_comes_into_reach_is_connected_to_within_the_time_between_two_packets",
        "unit/links/test_dialling.py::test_a_dial_begins_anew_when_the_machine_has_another_address",
    ),
    "A mirror or source whose origin is a nats-server behind a link": (
        "interop/test_cell.py::test_a_nats_server_behind_a_line_that_comes_and_goes_has_little_on_its_way_and_drains",
        "native/test_span.c: a slow link that is far is used with few on their way",
        "unit/links/test_replica.py::test_a_server_that_refuses_the_bound_is_asked_without_until_its_link_is_back",
        "interop/test_cell.py::test_a_nats_server_that_was_asked_twice_for_a_consumer_is_left_with_one",
        "unit/links/test_asking.py::test_what_a_repeated_request_made_is_deleted",
    ),
    "A hub's machine that answers to an ICMP echo request": (
        "unit/links/test_echo.py::test_a_dial_that_waits_is_given_up_when_the_line_is_back",
        "unit/links/test_echo.py::test_a_machine_behind_a_good_line_answers_for_28_bytes_each_way",
        "unit/links/test_dialling.py::test_an_hour_without_signal_costs_20_kb_at_most",
        "unit/links/test_dialling.py::test_a_hub_whose_name_nobody_resolves_is_dialled_where_it_was",
    ),
    "A link is pinged after 13 seconds": (
        "native/test_plane_pings.c: the end that dialled a link pings it, the other one if that does not",
        "native/test_plane_pings.c: a link that says nothing is pinged, by one end, and closed within a minute",
        "native/test_plane_pings.c: a slow link that acknowledges what it is sent is given longer",
    ),
    "Between two leafd an idle copy": (
        "native/test_consume_copies.c: a copy over a link has few heartbeats while nothing is owed, "
        "and is told of its consumer's end",
        "unit/links/test_flight.py::test_a_leafd_is_asked_and_listened_to_in_one_flight",
        "unit/links/test_flight.py::test_another_server_is_listened_to_after_its_answer",
    ),
    "A copy of a stream at a hub that is a cluster": (
        "unit/links/test_leaders.py::test_a_new_leader_is_asked_for_the_consumer_at_once",
        "unit/links/test_leaders.py::test_who_forges_a_thousand_elections_brings_about_a_restart_every_two_seconds",
        "interop/test_hub_streams.py::test_a_streams_leader_goes_and_its_copies_go_on",
    ),
    "A copy of a stream at a nats-server begins anew": (
        "interop/test_hub_streams.py::test_the_copy_of_a_stream_with_one_replica_goes_on_when_its_server_is_back",
        "unit/links/test_leaders.py::test_the_consumer_of_a_stream_in_another_cluster_has_heartbeats_every_other_second",
        "unit/links/test_leaders.py::test_over_a_far_link_it_is_asked_once_where_a_stream_is",
        "unit/links/test_leaders.py::test_over_a_far_link_with_many_copies_nobody_asks_where_a_stream_is",
        "unit/links/test_leaders.py::test_a_copy_is_asked_for_soon_after_a_server_has_come_to_its_hub",
        "unit/links/test_leaders.py::test_a_thousand_copies_over_a_far_link_ask_four_times_a_second_together",
    ),
    "A leafd tells a leafd at the other end what its budget": (
        "interop/test_budget.py::test_a_stream_waits_in_its_box_without_noise_and_comes_whole",
        "unit/links/test_budgets.py::test_the_other_end_hears_of_each_change_once_and_a_new_connection_of_what_waits_already",
    ),
    "A hub that was dialled is dialled once more": (
        "interop/test_cell.py::test_another_connection_takes_the_place_of_one_that_brings_nothing_any_more",
        "unit/links/test_second_dial.py::test_the_newer_connection_is_the_link_as_soon_as_it_is_logged_in",
        "unit/links/test_second_dial.py::test_a_link_that_is_well_again_stays_and_what_was_dialled_beside_it_goes",
        "native/test_window.c: a link is in doubt while nothing arrives of what was sent",
    ),
    "Where a link stands at the first full packet": (
        "interop/test_cell.py::test_a_way_that_loses_large_packets_without_a_word_carries_a_backlog_in_small_ones",
        "unit/links/test_packets.py::test_two_logins_in_a_row_that_met_silence_are_tried_twice_in_small_packets_and_so_on",
        "unit/links/test_packets.py::test_both_ends_send_packets_of_that_size",
        "native/test_window.c: a link that stands at its first full packet is told from one that is silent",
        "native/test_window.c: so is a peer that stands at its own",
        "interop/test_cell.py::test_a_nats_server_that_dials_over_such_a_way_is_told_to_send_small_packets",
        "unit/daemon/test_doorway.py::test_small_packets_are_asked_for_until_all_that_stood_are_back",
    ),
    "A copy whose link has gone": ("unit/links/test_flight.py::test_a_link_that_is_lost_stops_its_copies_at_once",),
    "A mirror or source takes its origin's consumer": (
        "native/test_jetstream.c: while a link brings nothing at all, none of its copies is silent",
        "unit/links/test_replica.py::test_a_late_answer_is_an_answer",
        "interop/test_cell.py::test_a_source_drains_over_a_slow_lossy_link",
    ),
    "A mirror or source whose origin's domain is at": (
        "native/test_plane_leaf.c: what can come by one link alone is asked of that link alone",
        "unit/links/test_replicas.py::test_a_thousand_unreachable_origins_are_looked_for_twenty_times_a_second",
        "unit/links/test_replicas.py::test_an_unreachable_origin_is_asked_when_a_link_asks_for_its_api",
    ),
    "A stream's info has more of its mirror": (
        "interop/test_named_differences.py::test_how_far_a_copy_is_behind_that_never_heard_of_its_origin",
        "interop/test_named_differences.py::test_a_streams_info_tells_how_far_a_few_copies_of_it_are_and_a_report_tells_of_all",
        "interop/test_lag.py::test_both_ends_tell_what_is_missing_while_a_backlog_drains_is_flooded_and_stalls",
        "interop/test_lag.py::test_while_the_hub_is_gone_the_box_knows_what_it_has_not_taken_and_the_hub_says_that_it_does_not",
    ),
    "A consumer that a mirror or source has made": (
        "native/test_consume_copies.c: a mirror or source is asked what it has stored, after 16 KB and not each second",
        "native/test_consume_copies.c: its heartbeat says how many messages wait",
        "native/test_consume_copies.c: a copy has few heartbeats while its messages wait for its link",
    ),
    "A message or an interest that a link": ("wire/leaf/client-verbs.wire",),
    "Who a user of the hub is": ("interop/test_leaf.py::test_users_are_told_by_their_own_server_who_they_are",),
    "Queue weights are capped": ("wire/leaf/queue-weight.wire",),
    "A reload reaches links": (
        "interop/test_reload.py::test_links_that_no_longer_hold_end",
        "interop/test_reload.py::test_logins_of_the_leaf_listener_change",
    ),
    "Links are compressed as in nats-server": ("interop/test_compression.py::test_each_mode",),
    "Over WebSocket there is no S2": ("interop/test_compression.py::test_each_mode",),
    "Two leafd that are more than 10 ms apart": (
        "native/test_terse.c: a line is said by what is new in it",
        "native/test_compress.c: a terse chunk ends a stream that has not agreed to them",
        "unit/links/test_compression.py::test_who_dials_says_terse_lines_only_to_who_knows_them",
        "unit/links/test_compression.py::test_a_link_is_plain_text",
    ),
    "Where the S2 stream is damaged": (
        "interop/test_compression.py::test_damage_ends_the_link_with_a_reason_and_it_comes_back",
    ),
    # ---- proxies and TLS
    "proxy_protocol is as in nats-server": (
        "interop/test_proxied.py::test_connections_have_the_address_that_the_proxy_tells",
        "interop/test_proxied.py::test_a_half_header_is_waited_for_some_seconds",
        "hostile/test_proxy.py::test_a_nul_behind_unknown_is_refused",
        "hostile/test_proxy.py::test_an_address_with_port_0_is_shown",
    ),
    "With handshake_first: auto": (f"{NAMED}test_behind_a_proxy_the_handshake_may_come_first",),
    "OpenSSL does it": ("interop/test_tls_offer.py::test_every_port_offers_what_the_page_says",),
    "A failed handshake is one line": (
        "interop/test_tls.py::test_an_expired_certificate_is_told_in_one_line",
        "interop/test_tls.py::test_an_expired_certificate_of_our_own_is_named",
    ),
    "Behind a TLS 1.3 handshake": ("hostile/test_tls.py::test_a_wrong_record_ends_its_connection_and_no_other",),
    "A hub that cannot be dialled for another": ("hostile/test_tls_hub.py::test_only_the_hub_hears_who_the_box_is",),
    "A link that comes back within a day": ("interop/test_tls.py::test_a_link_that_comes_back_takes_up_its_session",),
    "10,000 idle connections take": ("bench/rows.py::idle_connections", "bench/wide.py"),  # figures of a quiet machine
    "A remote of whose TLS the configuration": (f"{NAMED}test_a_remote_trusts_whom_the_machine_trusts",),
    "A CONNECT that has come twice": ("interop/test_known_logins.py::test_reports_know_each_login_at_once",),
    "A domain component of a certificate's subject": (
        "unit/auth/test_certificate_map.py::test_a_value_that_reads_as_several_parts_is_nobody_else",
    ),
    "The private key of a certificate": ("interop/test_secrets.py::test_a_core_dump_has_no_key",),
    "A server's certificate, or one of its chain": (
        f"{NAMED}test_a_certificate_that_is_signed_with_sha_1_is_refused_in_one_line",
    ),
    "A certificate that has expired": (
        "unit/config/test_tls.py::test_who_expires_within_30_days_is_named",
        "unit/daemon/test_expiry.py::test_expiring_certificates_are_named_once_a_day",
    ),
    "-t and the start refuse a tls block": ("unit/config/test_tls.py::test_what_is_wrong_is_told_with_its_place",),
    # ---- WebSocket
    "Tested with a page in headless Chromium": ("interop/test_browser.py::test_a_page_of_a_browser_talks_to_it",),
    "handshake_timeout is 60 s": ("interop/test_cell.py::test_with_defaults_a_link_over_wss_comes_up_at_two_seconds",),
    "A request for leaf links or MQTT": ("interop/test_websocket.py::test_requests_are_answered_as_by_the_reference",),
    "A compressed message may become": (f"{NAMED}test_what_a_compressed_message_may_become",),
    "The listener's address and no_tls": (f"{NAMED}test_what_of_websocket_takes_a_restart",),
    # ---- MQTT
    "MQTT 5 is spoken": ("interop/test_mqtt_expiry.py::test_an_expiry_is_a_time_to_live",),
    "With MQTT 5, PUBACK says": ("interop/test_mqtt_five.py::test_reasons_that_the_standard_leaves_open",),
    "A user property": ("interop/test_mqtt_five.py::test_no_property_of_a_device_is_an_order_for_a_stream",),
    "A client's identifier may be": ("interop/test_mqtt.py::test_any_text_is_a_client_s_identifier",),
    "A filter that the standard forbids": ("interop/test_mqtt.py::test_a_filter_that_the_standard_forbids_is_refused",),
    "A topic with >": ("interop/test_mqtt.py::test_a_topic_with_a_wildcard_of_nats_is_refused",),
    "A session keeps a filter": (
        "interop/test_mqtt_logins.py::test_a_reload_takes_from_a_session_what_its_device_may_not_hear_any_more",
        "interop/test_mqtt_liars.py::test_who_takes_the_session_of_another_user_gets_nothing_that_is_denied",
        "interop/test_mqtt_judged.py::test_what_waits_for_a_full_window_is_judged_when_it_goes",
        "interop/test_mqtt_judged.py::test_a_message_of_qos_2_that_may_not_come_again_is_released",
    ),
    "down/# stan": ("interop/test_mqtt.py::test_a_filter_of_a_tree_is_granted_without_its_root_where_that_is_denied",),
    "MQTT 3.1 (protocol": ("interop/test_mqtt.py::test_mqtt_three_is_told_that_its_version_is_not_spoken",),
    "What comes over a leaf link, or": (
        "interop/test_mqtt_links.py::test_the_quality_of_service_of_a_filter_costs_no_message",
        "interop/test_mqtt_links.py::test_what_devices_publish_waits_at_the_hub_for_a_session_that_is_away",
        "interop/test_mqtt_named.py::test_a_message_of_another_account_has_qos_0",
    ),
    "A filter of more levels": ("interop/test_mqtt_standard.py::test_what_the_standard_leaves_to_the_server",),
    "A device whose socket has taken nothing": (
        "native/test_plane_output.c: and of QoS 0 it gets no more until it reads again",
    ),
    "What streams answer for MQTT clients": (
        "interop/test_mqtt_links.py::test_what_a_server_says_to_itself_for_its_devices_stays_there",
    ),
    "A will is taken back": ("interop/test_mqtt_five.py::test_a_will_is_said_unless_its_client_takes_leave",),
    "A message that expires after 0 s": ("interop/test_mqtt_five.py::test_a_retained_message_expires",),
    "SUBSCRIBE and UNSUBSCRIBE may have": ("interop/test_mqtt_standard.py::test_a_thousand_topics_in_one_packet",),
    "Where the configuration says nothing a device has": (
        "interop/test_mqtt_cell.py::test_a_device_far_away_has_the_time_to_log_in",
        "unit/logins/test_deadlines.py::test_devices_that_are_not_through_at_once_are_bounded_by_number",
    ),
    "Who is in the middle": ("interop/test_mqtt_standard.py::test_who_is_in_the_middle_of_a_packet_is_alive",),
    "A shared subscription": ("native/test_plane_mqtt_share.c",),
    "A session that outlives": ("interop/test_mqtt_five.py::test_where_no_session_can_be_kept_that_is_said",),
    "Where more than max_queued messages wait": (
        "interop/test_mqtt_sessions.py::test_no_more_waits_for_a_session_than_the_block_says",
        "interop/test_mqtt_sessions.py::test_bytes_that_wait_for_one_device_are_nothing_to_the_others",
    ),
    "max_queued_bytes is": ("interop/test_mqtt_sessions.py::test_no_more_bytes_wait_for_sessions_than_the_block_says",),
    "A message of QoS 2 is passed": ("interop/test_mqtt_named.py::test_a_message_of_qos_2_is_passed_on_at_publish",),
    "Who is here and has a session that ends": (
        "interop/test_mqtt_named.py::test_a_connection_whose_session_ends_with_it_hears_nothing_twice",
    ),
    "With reject_qos2_publish a will": (
        "interop/test_mqtt_named.py::test_a_will_of_qos_2_is_refused_with_a_code_of_the_standard",
    ),
    "Topics of Sparkplug B": ("interop/test_mqtt_named.py::test_sparkplug_messages_are_messages_like_others",),
    "A message that several subscriptions match": (
        "interop/test_mqtt_named.py::test_a_message_for_several_subscriptions_says_which",
    ),
    "A topic whose retained message was cleared": (
        "interop/test_mqtt_links.py::test_retained_messages_are_at_the_hub_by_a_source",
    ),
    "A message keeps its packet identifier": (
        "crash/test_mqtt.py::test_what_is_acknowledged_outlives_kills_and_qos_2_comes_once",
    ),
    "A client of 3.1.1 that is here": ("native/test_plane_mqtt_kept.c",),
    "Whoever comes back gets at once": ("interop/test_mqtt_sessions.py::test_what_was_not_acknowledged_comes_again",),
    "A will waits no longer": (
        "interop/test_mqtt_standard.py::test_a_will_waits_no_longer_than_its_session_lasts",
        "interop/test_mqtt_standard.py::test_who_is_taken_over_leaves_a_will",
    ),
    "A PUBLISH of QoS 2": (
        "interop/test_mqtt_standard.py::test_a_message_of_quality_two_that_comes_again_is_answered_each_time",
    ),
    "A client's maximum packet size": (
        "interop/test_mqtt_standard.py::test_the_largest_packet_is_counted_with_its_first_bytes",
    ),
    "A changed max_ack_pending": ("interop/test_mqtt_named.py::test_max_ack_pending_changes_for_kept_sessions",),
    "A server alone takes": ("interop/test_mqtt_named.py::test_a_server_alone_has_one_replica_of_what_it_keeps",),
    "A new subscription gets all that was retained": (
        "interop/test_mqtt_retained.py::test_what_was_retained_a_moment_ago_reaches_a_new_subscription",
    ),
    "What was retained stays": (
        "interop/test_mqtt_retained.py::test_what_was_retained_stays_when_its_publisher_may_not_say_it_any_more",
    ),
    "PROXY headers are read at this": ("interop/test_mqtt_logins.py::test_a_proxy_may_say_whom_it_speaks_for",),
    "mqtt needs jetstream": ("unit/config/test_mqtt.py::test_what_does_not_fit_is_no_configuration",),
    "In a cluster of leafd one": (
        "interop/test_mqtt_cluster.py::"
        "test_a_session_is_served_by_the_server_that_has_it_alone_and_refused_while_that_is_away",
    ),
    "A password may be a hash": ("unit/cli/test_mosquitto.py::test_a_password_of_mosquitto_is_the_same_here",),
    # ---- JWTs
    "A pushed JWT that no trusted": ("interop/test_resolver.py::test_only_the_operator_can_sign_what_is_kept",),
    "A server starts although the resolver's URL": (
        "interop/test_resolver.py::test_a_box_starts_while_its_account_server_cannot_be_reached",
    ),
    "Users that are logged in are judged": ("interop/test_resolver.py::test_users_feel_a_new_jwt_at_once",),
    "Hours that go beyond midnight": (
        "unit/auth/test_trust.py::test_times_of_the_day", "hostile/test_scopes.py::test_a_name_is_not_filled_in_again",
        "hostile/test_scopes.py::test_an_account_that_has_expired_when_it_is_pushed_is_closed",
    ),
    "A limit of 0 subscriptions": ("interop/test_operator.py::test_limits_of_user_and_account",),
    "The log says why a JWT was refused": ("unit/auth/test_trust.py::test_nothing_of_a_token_is_in_the_reasons",),
    "Of resolver_tls": ("interop/test_resolver.py::test_what_of_resolver_tls_has_no_effect",),
    "Time is that of the loop's turns": ("interop/test_latency.py::test_what_is_told_of_each_request",),
    # ---- who runs a cluster
    "leafd is a member of a cluster": (
        "interop/test_cluster.py::test_each_message_comes_to_each_server_once_and_in_the_order_of_its_publisher",
        "unit/config/test_cluster.py::test_a_cluster_and_jetstream_need_a_group_in_one_clear_line",
        "interop/test_placed_streams.py::test_a_server_that_is_killed_takes_its_streams_along_and_brings_them_back",
        "interop/test_placed_streams.py::test_a_restored_stream_is_taken_in_by_the_group",
        "unit/cluster/test_council.py::test_a_disk_that_was_taken_out_is_not_let_in_again",
        "interop/test_handed_on.py::test_servers_of_two_clusters_found_one_group_and_answer_for_each_other",
        "interop/test_replicated_backups.py::test_streams_are_made_and_restored_while_one_of_three_servers_is_away",
    ),
    "A consumer leaves a server with its stream alone": (
        "interop/test_evacuated.py::test_a_move_is_called_off_as_at_nats_servers",
        "interop/test_evacuated.py::test_what_a_cluster_of_leafd_does_not_do",
        "interop/test_rescue_request.py::test_a_rescue_by_a_request_is_refused_with_what_to_do_instead",
    ),
    "A new stream goes to the": ("unit/cluster/test_placement.py::test_streams_are_spread_but_for_a_servers_own",),
    "What other servers want in an account": (
        "interop/test_later_accounts.py::test_a_route_has_told_of_it_before",
        "interop/test_later_accounts.py::test_a_gateway_has_told_of_it_before",
        "native/test_plane_named.c: so many accounts are expected at a time",
    ),
    "Interest of a route or a gateway that its share": (
        "native/test_plane_named.c: interest that was refused for memory is asked for again",
    ),
    "A change of name, listen or tls in the cluster block": (
        "unit/config/test_cluster.py::test_a_reload_changes_all_but_what_the_server_is_and_listens_on",
        "interop/test_cluster_reload.py::test_an_address_that_is_listened_on_stays",
    ),
    "INFO names neither git_commit": ("interop/test_info.py::test_each_listener_says_what_nats_server_says",),
    "A reload that changes authorization, compression": (
        "interop/test_cluster_reload.py::test_an_account_gets_routes_of_its_own_and_loses_them",
        "interop/test_cluster_reload.py::test_a_pool_becomes_greater_and_smaller",
        "interop/test_cluster_reload.py::test_permissions_hold_from_a_reload_on",
        "interop/test_cluster_reload.py::test_a_login_changes_on_one_server_after_the_other",
    ),
    "ping_max and write_deadline of the block": (
        "unit/config/test_cluster.py::test_what_has_no_effect_is_told_and_what_would_weaken_is_refused",
    ),
    "A server has routes to 256 others": (
        "unit/links/test_routes.py::test_of_a_thousand_servers_that_a_peer_tells_of_a_bounded_number_is_dialled",
        "unit/links/test_routes.py::test_logins_at_a_time_are_bounded_and_have_to_end_in_time",
        "unit/links/test_route.py::test_there_is_a_greatest_number_of_servers_in_a_cluster",
        "interop/test_cluster_names.py::test_a_cloned_server_does_not_take_the_place_of_the_first_one",
    ),
    "The clients' port of a member opens": (
        "interop/test_cluster_told.py::test_web_clients_are_told_where_the_servers_are_reached_over_websocket",
        "unit/host/test_listeners.py::test_only_the_clients_port_of_a_member_opens_later",
        "unit/links/test_routes.py::test_a_start_has_tried_each_place_when_it_was_answered_or_refused",
    ),
    "routes without listen": ("unit/config/test_cluster.py::test_routes_need_a_listener",),
    "A server named in routes without a login": (
        "unit/links/test_routes.py::test_a_place_without_a_login_gets_the_clusters",
    ),
    "Where a service is told who asks": (
        "interop/test_supercluster.py::test_who_asks_is_told_of_with_the_clusters_that_are_reached",
    ),
    "Clusters of leafd and of nats-server are joined by gateways": (
        "interop/test_supercluster.py::test_each_message_comes_to_each_cluster_once_and_in_the_order_of_its_publisher",
        "unit/config/test_gateway.py::test_a_gateway_and_jetstream_need_a_cluster_and_its_group",
        "unit/config/test_gateway.py::test_a_change_of_the_block_waits_for_a_restart",
    ),
    "A server knows 256 other clusters": (
        "unit/links/test_gateways.py::"
        "test_of_a_thousand_clusters_and_addresses_that_a_peer_tells_of_a_bounded_number_is_kept",
        "unit/links/test_gateways.py::test_logins_at_a_time_are_bounded_and_have_to_end_in_time",
    ),
    "A server before 2.9 is refused": (
        "unit/links/test_gateway.py::test_a_server_that_would_send_what_nobody_asked_for_is_refused",
    ),
    "A server that calls its cluster otherwise": (
        "unit/links/test_gateway.py::test_a_cluster_that_calls_itself_otherwise_in_its_info_is_rejected",
    ),
    "An address in gateways without a port": (
        "unit/config/test_gateway.py::test_an_address_that_cannot_be_dialled_is_refused_at_once",
        "unit/config/test_gateway.py::test_one_list_of_clusters_serves_them_all",
    ),
    "In lame duck mode other clusters": (
        "unit/links/test_gateways.py::test_the_own_clusters_addresses_are_told_to_who_came_and_not_to_who_was_dialled",
    ),
    # ---- who operates the server
    "/ of the monitoring port": ("interop/test_page.py::test_beyond_loopback_it_is_for_users_of_the_system_account",),
    "Over loopback the monitoring port answers": (
        "unit/monitor/test_http.py::test_over_loopback_it_is_asked_under_names_of_its_own_only",
        f"{NAMED}test_a_page_of_elsewhere_reads_no_report",
    ),
    "Encryption at rest": (
        "interop/test_encryption.py::test_nothing_that_a_client_chose_is_on_the_disk_in_plain",
        "interop/test_encryption.py::test_without_its_key_nats_server_starts_and_has_no_streams",
        "crash/test_rekey.py::test_what_was_acknowledged_outlives_kills_in_a_change_of_key",
        "hostile/test_encrypted_words.py::test_an_empty_key",
    ),
    "trace logs what clients and leaves send": (
        "interop/test_keys.py::test_messages_are_traced", "interop/test_keys.py::test_what_goes_out_is_not_traced",
    ),
    "A reload takes away before it gives": ("interop/test_reload.py::test_permissions_hold_for_who_is_connected",),
    "Where a reload leaves more connections": ("interop/test_reload.py::test_of_too_many_connections_the_first_stays",),
    "streams, consumers, kv and objects": ("interop/test_declared.py::test_the_plan_is_shown_beforehand",),
    "A configuration has at most 16 MiB": (
        "unit/config/test_language.py::test_includes_that_multiply",
        "hostile/test_named_files.py::test_a_configuration_that_comes_to_too_much_is_refused",
        "hostile/test_named_files.py::test_a_pipe_that_a_configuration_names_is_refused",
        "unit/config/test_credentials.py::test_a_credential_is_taken_as_it_is",
    ),
    "connz and subsz list at most": ("interop/test_report_options.py::test_the_same_connections_are_listed",),
    "A stream that sets no limit": (
        "unit/jetstream/test_service.py::test_a_default_bounds_the_consumers_of_streams_that_set_no_limit",
    ),
    "Reports have each member": (
        "interop/test_report_options.py::test_every_parameter_means_the_same",
        "interop/test_report_parity.py::test_every_member_of_nats_servers_reports_is_there",
        "interop/test_placed_streams.py::test_raftz_shows_the_group_of_all_servers_as_nats_servers_do",
    ),
    "Events on $SYS": ("interop/test_events.py::test_the_same_is_heard_of_what_happens",),
    "A stream of several servers whose": ("interop/test_replicated_memory.py::test_memory_outlives_all_its_servers",),
    "A consumer of a stream of": (
        "interop/test_replicated_consumers.py::test_an_ephemeral_consumer_of_a_stream_of_limits_names_its_leader_alone_as_at_nats_servers",
        "interop/test_replicated_reports.py::test_each_server_that_keeps_a_consumer_names_it_whoever_leads",
        "interop/test_moves_shown.py::test_an_evacuation_is_shown_and_not_called_off_as_at_nats_servers",
    ),
    # ---- not yet
    "A stream that never had replicas": ("interop/test_replicated_streams.py::test_what_replicas_lack_is_refused",),
}  # fmt: skip
