/* abi_structs.h: what the commands and events of abi.h carry: structs of numbers, and the numbers in their fields. The
 * first half of the text that both languages read: plain declarations only. C includes both halves through
 * base/abi_types.h; the build gives cffi the two as one text.
 *
 * Not here: what is done with them (abi.h). Change the layout => raise PLANE_ABI there.
 */

typedef struct conn_verdict {
    uint32_t flags; /* VERDICT_* */
    uint32_t max_payload;
    uint32_t max_subscriptions; /* 0 = no limit */
    uint32_t response_max;      /* allow_responses: replies per request, 0 = off */
    int64_t response_ttl_ns;
    int64_t expires_wall_ns;  /* 0 = never */
    int64_t ping_interval_ns; /* 0 = as the limits say */
    uint64_t domain;          /* leaf: that at its other end, its hash8, big-endian; 0 = none, or not known */
    uint64_t whole;           /* leaf: what is at its other end as a whole, whose links have one line; 0 = not known */
} conn_verdict_t;

#define VERDICT_VERBOSE 1
#define VERDICT_PEDANTIC 2
#define VERDICT_ECHO 4
#define VERDICT_HEADERS 8
#define VERDICT_NO_RESPONDERS 16
#define VERDICT_PROTOCOL_1 32
#define VERDICT_SPOKE 64     /* leaf: the peer is our hub (we announce only own interest to it) */
#define VERDICT_IMPLICIT 128 /* no CONNECT came (no_auth_user): the op that came first is run now */
#define VERDICT_TRACES 256   /* leaf: the peer knows traces of messages */
#define VERDICT_ISOLATED 512 /* leaf: it is not told what other links want */

/* A route, as the handshakes of both sides have settled it. */
typedef struct route_terms {
    uint32_t flags;           /* ROUTE_* */
    uint32_t max_payload;     /* of what comes; 0 = as the limits say */
    uint32_t pool_size;       /* 0: all accounts go by it, also those that have routes of their own */
    uint32_t pool_index;      /* else those whose names say so */
    int64_t ping_interval_ns; /* 0 = as the limits say */
    uint64_t peer;            /* the server, as groups name it: its name's hash8, big-endian; 0 = it is in none */
} route_terms_t;

#define ROUTE_UNSUB_ORIGIN 1 /* its LS- name their origin */
#define ROUTE_TRACES 2       /* it knows traces of messages */

/* A gateway, likewise. */
typedef struct gateway_terms {
    uint32_t flags;           /* GATEWAY_* */
    uint32_t max_payload;     /* of what comes; 0 = as the limits say */
    int64_t ping_interval_ns; /* 0 = as the limits say */
    uint64_t peer;            /* as of a route */
} gateway_terms_t;

#define GATEWAY_OUTBOUND 1 /* we dialled: our messages go by it, and the peer's interest comes; else the other way */
#define GATEWAY_HEADERS 2  /* the peer takes headers */
#define GATEWAY_TRACES 4   /* it knows traces of messages */

/* The limits of a client of MQTT. */
typedef struct mqtt_limits {
    uint32_t flags;      /* MQTT_* */
    uint32_t max_packet; /* bytes; 0: max_payload and MQTT_HEAD_BYTES */
    uint32_t receive_maximum;
    uint32_t topic_alias_maximum;
    uint32_t max_ack_pending; /* of a client: messages that it has not acknowledged */
    uint32_t max_sessions;    /* of an account, 0 = no limit; likewise the next one */
    uint32_t max_retained;
    uint32_t keep_alive_max;       /* seconds, 0 = no limit */
    int64_t ack_wait_ns;           /* of 3.1.1; 0: a message comes again with the client, and not before */
    int64_t session_expiry_max_ns; /* 0 = no limit; likewise the next two */
    int64_t message_expiry_max_ns;
    uint64_t max_retained_bytes; /* of an account; likewise the next one */
    uint64_t max_queued_bytes;   /* of messages that wait for sessions, 0 = no limit; likewise the next one */
    uint64_t max_session_bytes;  /* of those that wait for one session, beside those in flight; likewise the next one */
    uint32_t max_queued;         /* messages */
    uint32_t replicas;           /* of streams that are made for them where a group of servers can have some */
} mqtt_limits_t;

#define MQTT_VERSION_3 1 /* 3.1.1 */
#define MQTT_VERSION_5 2
#define MQTT_REJECT_QOS2 4    /* a publisher with QoS 2 is closed */
#define MQTT_DOWNGRADE_QOS2 8 /* a subscription with QoS 2 gets QoS 1 */

/* Flags of plane_limits_t. */
#define CLUSTERED_ROUTES 1   /* there may be routes */
#define CLUSTERED_GATEWAYS 2 /* there may be gateways */
#define CLUSTERED_META 4     /* there may be groups of servers, whose logs the file store keeps */

typedef struct secure {
    uint32_t context; /* its number */
    uint32_t flags;   /* SECURE_* */
    int64_t wait_ns;  /* SECURE_FIRST: a peer that is silent for so long hears us first; 0: it has to */
} secure_t;

#define SECURE_FIRST 1
#define SECURE_OPTIONAL 2 /* plain text is taken, too */

typedef struct tls_settings {
    uint32_t flags;           /* TLS_* */
    uint32_t min_version;     /* 0x0303, 0x0304; 0 = TLS 1.2 */
    uint32_t connection_rate; /* handshakes a second, as a server; 0 = no limit */
    uint32_t reserved;
    int64_t timeout_ns;
} tls_settings_t;

#define TLS_CLIENT 1 /* for connections that we dial */
#define TLS_VERIFY 2 /* the peer has to show a certificate that we trust */

/* How a leaf link's output is compressed. With bounds, the level follows from each round trip that is measured: the
 * first that it is not above (0: never) has the level's number; above three COMPRESS_BEST, above fewer the last one. */
typedef struct compression {
    uint32_t level;  /* COMPRESS_* */
    uint32_t bounds; /* how many there are; 0: the level stays */
    int64_t bound0_ns;
    int64_t bound1_ns;
    int64_t bound2_ns;
    int64_t bound3_ns;
    uint32_t terse; /* both ends know terse lines (text/terse.h); counts when the stream begins */
    uint32_t reserved;
} compression_t;

#define COMPRESS_NONE 0 /* an S2 stream all the same */
#define COMPRESS_FAST 1
#define COMPRESS_BETTER 2
#define COMPRESS_BEST 3

typedef struct import_row {
    uint32_t account;     /* the exporter */
    uint32_t kind;        /* IMPORT_* */
    uint32_t response;    /* services: RESPONSE_* */
    uint32_t flags;       /* IMPORT_TRACED, .. */
    int64_t threshold_ns; /* services: no answer for so long ends the way back; 0 = default */
    uint32_t sampling;    /* IMPORT_MEASURED: so many percent of the requests; 0 = those whose header asks for it */
    uint32_t reserved;
} import_row_t;

typedef struct latency {
    int64_t start_wall_ns; /* when the request was sent, by its sender's round-trip time */
    int64_t service_ns;
    int64_t system_ns;
    int64_t total_ns;
    uint32_t requester_size; /* of what follows */
    uint32_t responder_size; /* 0: nobody answered */
} latency_t;

/* The limits of an account's streams, in bytes; -1 = no limit. Each copy that a server keeps counts. */
typedef struct allowed {
    int64_t file;
    int64_t memory;
    uint64_t file_elsewhere; /* that streams have which this server has no copy of */
    uint64_t memory_elsewhere;
} allowed_t;

#define ALLOW_TIERS 5

typedef struct stream_config {
    uint32_t account;
    uint32_t flags;       /* STREAM_* */
    uint8_t storage;      /* 0 file, 1 memory */
    uint8_t retention;    /* 0 limits, 1 interest, 2 workqueue */
    uint8_t discard;      /* 0 old, 1 new */
    uint8_t replicas;     /* how many servers keep it; 0 and 1 are the same */
    int32_t max_msg_size; /* -1 = no limit, as in the protocol */
    int64_t max_msgs;
    int64_t max_bytes;
    int64_t max_age_ns; /* 0 = no limit */
    int64_t max_msgs_per_subject;
    int64_t duplicate_window_ns; /* 0 = no dedupe */
    uint64_t first_seq;          /* only on create; 0 and 1 are the same */
    int64_t marker_ttl_ns;       /* of subject delete markers; 0 = none are made */
} stream_config_t;
#define STREAM_NO_ACK 1
#define STREAM_DISCARD_NEW_PER_SUBJECT 2
#define STREAM_SEALED 4
#define STREAM_DENY_PURGE 16
#define STREAM_ALLOW_ROLLUP 32
#define STREAM_ALLOW_DIRECT 64
#define STREAM_ALLOW_TTL 128
#define STREAM_MIRROR 256
#define STREAM_ALLOW_BATCHED 512
#define STREAM_REPUBLISH_HEADERS 1024 /* what is published again goes without its payload */
#define STREAM_ALLOW_SCHEDULES 2048
#define STREAM_ALLOW_ATOMIC 4096
#define STREAM_COMPRESS 8192          /* on the disk, where it makes a message smaller */
#define STREAM_GRANTS_SCHEDULES 32768 /* a schedule's publisher may name all subjects of the stream in it */
#define STREAM_COUNTER 16384          /* its messages are counters: Nats-Incr */
#define STREAM_REPLICATED 65536       /* several servers keep it: COMMAND_STREAM_GROUP follows */
#define STREAM_LACKS_CONSUMERS 131072 /* stored ones are not served: what they want is not known, so all is wanted */

typedef struct stream_state {
    uint64_t messages;
    uint64_t bytes; /* as the reference counts: tests/wire/jetstream.md, "Streams" */
    uint64_t first_seq;
    uint64_t last_seq;
    int64_t first_ts; /* ns, 0 = none */
    int64_t last_ts;
    uint64_t subjects;      /* distinct */
    uint64_t deleted_count; /* interior gaps */
    uint64_t consumers;
    uint64_t subjects_matched; /* STREAM_STATE with a filter: how many match in all */
    uint64_t corrupt;          /* records that failed their checksum */
} stream_state_t;

#define USAGE_STATES_MAX 512
#define STATE_UNKNOWN                                                                                                  \
    0xFFFFFFFF /* in place of a count of consumers: there is no such stream, or its first message is
                                  * still looked for */

/* plane_rows_write: what stands before a value of a row, and where in its record the value is, of 8 bytes. */
typedef struct row_column {
    uint32_t literal; /* bytes of the literals, which lie one behind the other */
    uint32_t kind;    /* ROW_* */
    uint32_t at;
} row_column_t;

#define ROW_NOTHING 0 /* no value: the literal that ends the row */
#define ROW_NUMBER 1
#define ROW_OPTIONAL 2 /* a number that is left out where it is 0, and its literal */
#define ROW_TIME 3     /* Unix ns */
#define ROW_STAMP 4    /* likewise, but 0 is no time */
#define ROW_TEXT 5     /* the size of the next of the texts, which are JSON already */
#define ROW_SIGNED 6   /* a number that may be below 0 */
#define ROW_MOMENT 7   /* as ROW_TIME, but left out where it is 0, with its literal */
#define ROW_TRUE 8     /* likewise, true in place of the number */
#define ROW_SECONDS 9  /* ns */

typedef struct row_format {
    const row_column_t *columns;
    const uint8_t *literals;
    uint32_t column_count;
    uint32_t literals_size;
    uint32_t record_size;
} row_format_t;

typedef struct message_query {
    uint64_t sequence; /* 0 = not by sequence */
    int64_t start_ts;  /* ns; 0 = not by time */
    uint32_t mode;     /* QUERY_* */
    uint32_t reserved;
} message_query_t;

#define QUERY_SEQUENCE 0        /* exactly `sequence` */
#define QUERY_LAST_BY_SUBJECT 1 /* newest that matches the subject (wildcards) */
#define QUERY_NEXT_BY_SUBJECT 2 /* first at or after sequence (or start_ts) that matches */
#define QUERY_START_TIME 3      /* first at or after start_ts */

typedef struct consumer_config {
    uint32_t account;
    uint32_t flags;         /* CONSUMER_* */
    uint8_t deliver_policy; /* DELIVER_* */
    uint8_t ack_policy;     /* ACK_* */
    uint8_t replay_policy;  /* 0 instant, 1 original */
    uint8_t sample_percent;
    int32_t max_deliver; /* -1 = no limit */
    uint64_t opt_start_seq;
    int64_t opt_start_ts;
    int64_t ack_wait_ns;
    int64_t idle_heartbeat_ns;     /* 0 = none */
    int64_t inactive_threshold_ns; /* 0 = never */
    int64_t pause_until_ns;        /* wall clock, 0 = not paused */
    int64_t max_expires_ns;
    uint64_t rate_limit_bps;
    int32_t max_ack_pending; /* -1 = no limit */
    int32_t max_waiting;
    int32_t max_batch;         /* 0 = no limit */
    int32_t max_request_bytes; /* 0 = no limit */
    uint32_t priority_policy;  /* PRIORITY_* */
    uint32_t reserved;
    int64_t priority_timeout_ns; /* of a pinned client */
} consumer_config_t;

#define CONSUMER_PUSH 2
#define CONSUMER_FLOW_CONTROL 4
#define CONSUMER_HEADERS_ONLY 8
#define CONSUMER_MEMORY 16 /* state is not kept over a restart */
#define CONSUMER_DIRECT 32 /* made by a mirror or source: hidden, no interest, never stored */
#define CONSUMER_HELD 64   /* it delivers nothing before CONSUMER_BEGIN, or for five seconds */

#define PRIORITY_NONE 0
#define PRIORITY_OVERFLOW 1
#define PRIORITY_PINNED 2
#define PRIORITY_PRIORITIZED 3

#define DELIVER_ALL 0
#define DELIVER_LAST 1
#define DELIVER_NEW 2
#define DELIVER_BY_START_SEQUENCE 3
#define DELIVER_BY_START_TIME 4
#define DELIVER_LAST_PER_SUBJECT 5

#define ACK_NONE 0
#define ACK_ALL 1
#define ACK_EXPLICIT 2
#define ACK_FLOW_CONTROL 3

typedef struct consumer_state {
    uint64_t delivered_consumer;
    uint64_t delivered_stream;
    uint64_t floor_consumer;
    uint64_t floor_stream;
    int64_t last_delivered_ts; /* wall ns, 0 = never */
    int64_t last_acked_ts;
    uint64_t ack_pending;
    uint64_t redelivered;
    uint64_t waiting;
    uint64_t pending;    /* matching messages not delivered yet */
    uint64_t push_bound; /* interest in the deliver subject */
    uint64_t paused;
    int64_t pause_remaining_ns;
    int64_t pinned_ts; /* wall ns, since when a client is pinned, 0 = none is */
    uint64_t taken;    /* of a mirror or source: the stream sequence up to which it said that it has stored all */
    uint64_t untaken;  /* deliveries behind that */
} consumer_state_t;

/* CONSUMERS_STATE: whose. push_bound = STATE_UNKNOWN: not there, or its messages are still counted. */
typedef struct consumer_place {
    uint32_t stream;
    uint32_t consumer;
} consumer_place_t;

/* CONSUMERS_STORED: a consumer's record, and the last one of its position, which its leader writes now and then. */
typedef struct stored_consumer {
    uint64_t consumer;
    uint64_t size;  /* of the definition behind this */
    uint64_t known; /* 1: there is a record of its position */
    uint64_t delivered_consumer;
    uint64_t delivered_stream;
    uint64_t floor_consumer;
    uint64_t floor_stream;
    int64_t last_delivered_ts; /* wall ns, 0 = never */
    int64_t last_acked_ts;
} stored_consumer_t;

typedef struct pending_entry {
    uint64_t stream_seq;
    uint64_t consumer_seq;
    int64_t delivered_ts; /* wall ns of the last delivery */
    uint64_t deliveries;
} pending_entry_t;

typedef struct ingest_config {
    uint32_t mirror;             /* 1: keep sequence and stamp of the origin; 0: source */
    uint32_t durable;            /* 1: the consumer is one that the configuration names, not made for this start */
    uint64_t last_sequence;      /* origin sequence stored last; the next one must be higher */
    int64_t silence_ns;          /* EVENT_INGEST INGEST_SILENT after so long without any frame */
    uint64_t delivered_sequence; /* durable: origin sequence that its consumer is behind, as it was set back */
    uint64_t link;               /* the connection that its frames come by; 0: not known, or none */
    uint64_t origin;             /* the connection that answered for the origin; 0: this server did */
    uint32_t begins;             /* BEGINS_*: where the consumer begins */
    uint32_t pending_known;      /* 1: so many were pending when the consumer was made: */
    uint64_t pending;
    uint32_t alone;  /* 1: they come by that connection alone, and no other one is told of the subject */
    uint32_t spared; /* 1: its heartbeats are few, and its end is told; what comes by the link is heard of it */
    uint32_t span;   /* so many messages come before one of them is acknowledged (max_ack_pending); 0: any number */
    uint32_t span_by_flow; /* 1: that is done by the answers to flow control */
} ingest_config_t;
#define BEGINS_NEXT 0 /* behind what was taken */
#define BEGINS_TIME 1 /* at what is newer than what was taken */
#define BEGINS_NEW 2  /* behind last_sequence: all is new there, whatever was taken has its sequence or stamp */

typedef struct ingest_state {
    uint64_t last_sequence; /* origin sequence stored last (durable with its message) */
    int64_t newest_ts;      /* of all that was taken of the origin, wall ns; 0 = not known */
    uint64_t lag;           /* messages still at the origin, as far as it is known */
    int64_t active_ns;      /* since the last frame of any kind; -1 = never */
    uint64_t messages;      /* taken since the start */
    uint64_t bytes;
    uint32_t running;
    uint32_t span;      /* what the next consumer's should be */
    int64_t known_ns;   /* since `lag` was told; -1 = it is not known */
    int64_t level_ns;   /* since the origin told that nothing is missing; -1 = not since the start */
    int64_t pace_milli; /* messages in 1,000 seconds that it came nearer, of late; INT64_MIN = not known */
} ingest_state_t;

typedef struct advisory {
    uint64_t stream_seq;
    uint64_t consumer_seq;
    uint64_t deliveries;
    int64_t ack_time_ns;
} advisory_t;

typedef struct connection_row {
    uint64_t connection; /* 0: of an account and kind, those that have gone; only what they carried, and .slow */
    uint32_t account;
    uint32_t kind;
    uint64_t in_msgs;
    uint64_t out_msgs;
    uint64_t in_bytes;
    uint64_t out_bytes;
    uint64_t pending_bytes;
    uint32_t subscriptions;
    uint32_t admitted;
    int64_t rtt_ns;
    int64_t start_wall_ns;
    int64_t last_wall_ns;
    uint32_t compressed; /* it is an S2 stream .. */
    uint32_t level;      /* .. and what is sent has that level, COMPRESS_* */
    uint64_t slow;       /* slow consumers among them */
    int64_t heard_ns;    /* since anything came */
    /* Measurements of a link by the kernel; 0: not known. */
    uint64_t window; /* bytes that it may have under way; 0: no bound but the kernel's */
    uint64_t rate;   /* bytes a second that it has carried while more waited */
    uint64_t held;   /* bytes that its kernel has, and the peer's has not acknowledged */
    uint64_t sent;   /* bytes, with those that were sent again */
    uint64_t resent;
    uint64_t received;
    int64_t trip_ns;     /* as the kernel sees it now, with its queues .. */
    int64_t trip_min_ns; /* .. and without */
    uint64_t wire;       /* bytes both ways, with what TCP and IP add: what a budget counts */
    uint64_t budgeted;   /* bytes here that wait for a budget */
} connection_row_t;

/* The bytes that a link may still carry. It has its counter of bytes on the wire (connection_row_t.wire), from its
 * beginning: up to which count what is urgent may go, high, and so on (plane/lanes.h); UINT64_MAX: without a bound. */
typedef struct budget {
    uint64_t urgent;
    uint64_t high;
    uint64_t normal;
    uint64_t low;
    uint64_t tell; /* at so many bytes control is told, once: EVENT_CARRIED */
    uint64_t pace; /* bytes a second that may be sent; 0: any */
} budget_t;

/* The bytes that a connection has carried, at its end. */
typedef struct carried {
    uint64_t in_msgs;
    uint64_t out_msgs;
    uint64_t in_bytes;
    uint64_t out_bytes;
    uint64_t subscriptions; /* that it still had */
    int64_t rtt_ns;
    int64_t last_wall_ns;
    uint64_t wire; /* of a link: see connection_row_t */
} carried_t;

typedef struct subscription_row {
    uint64_t messages;
    uint64_t max; /* 0 = no limit */
    uint32_t subject_size;
    uint32_t queue_size;
    uint32_t sid_size;
    uint32_t account; /* its number */
} subscription_row_t;

/* Counters, of plane_stats(). */
typedef struct plane_stats {
    uint64_t connections;
    uint64_t total_connections;
    uint64_t leafs;
    uint64_t subscriptions;
    uint64_t in_msgs;
    uint64_t out_msgs;
    uint64_t in_bytes;
    uint64_t out_bytes;
    uint64_t link_in_msgs; /* of these, what came and went over links */
    uint64_t link_out_msgs;
    uint64_t link_in_bytes;
    uint64_t link_out_bytes;
    uint64_t slow_consumers;
    uint64_t stale_connections;
    uint64_t streams;
    uint64_t consumers;
    uint64_t store_messages;
    uint64_t store_bytes;  /* file streams, reference accounting */
    uint64_t memory_bytes; /* memory streams */
    uint64_t disk_bytes;   /* LMDB pages in use + journal */
    uint64_t journal_batches;
    uint64_t journal_bytes;
    uint64_t journal_syncs;
    uint64_t checkpoints;
    uint64_t overlay_bytes; /* journaled, not yet checkpointed, held in memory */
    uint64_t corrupt_records;
    uint64_t events_dropped;
    uint64_t replayed_batches; /* at the last start */
    uint64_t held_back;        /* times that a connection was not read because control had enough of it */
    uint64_t tick_max_ns;      /* the plane's longest tick since the start */
    uint64_t tick_recent_ns;   /* and of the last minute or two */
    uint64_t disk_free;        /* bytes that the file system of the file streams has left, for anybody */
    uint64_t disk_reserved;    /* of what is not: kept for removals, acks and the next checkpoint */
    uint64_t refusing;         /* publishers are refused: 1 file streams, 2 memory streams, 3 both */
    uint64_t ticks;            /* grows while the plane's thread lives; a command makes it tick */
    uint64_t journal_rounds;   /* grows while the journal's thread lives and has something to write */
    uint64_t journal_waiting;  /* bytes that it has been given and has not put on disk */
    uint64_t memory_ring;      /* bytes taken of the shares of MEMORY_* */
    uint64_t memory_memory_ring;
    uint64_t memory_overlay;
    uint64_t memory_keeper;
    uint64_t memory_output;
    uint64_t memory_input;
    uint64_t memory_exchange;
    uint64_t memory_held;
    uint64_t memory_control;
    uint64_t memory_consumers;
    uint64_t memory_batches;
    uint64_t memory_replies;
    uint64_t memory_interest;
    uint64_t schedules_refused; /* firings that their author may not bring about any more */
    uint64_t mqtt_sessions;     /* those that outlive their connection */
    uint64_t mqtt_away;         /* of these, whose client is not here */
    uint64_t mqtt_expired;      /* of these, that ended since their time was over */
    uint64_t mqtt_no_session;   /* clients that were told that there are too many */
    uint64_t mqtt_not_stored;   /* messages of QoS 1 and 2 that a stream had no room for, or did not take */
    uint64_t mqtt_passed_over;  /* messages that a session will not have, since more waited for it than may */
} plane_stats_t;

/* Shares of plane_limits_t.memory_limit. */
#define MEMORY_RING 0
#define MEMORY_MEMORY_RING 1
#define MEMORY_OVERLAY 2
#define MEMORY_KEEPER 3
#define MEMORY_OUTPUT 4
#define MEMORY_INPUT 5
#define MEMORY_EXCHANGE 6
#define MEMORY_HELD 7
#define MEMORY_CONTROL 8
#define MEMORY_CONSUMERS 9
#define MEMORY_BATCHES 10
#define MEMORY_REPLIES 11
#define MEMORY_REPORTS 12 /* counted by Python */
#define MEMORY_INTEREST 13
#define MEMORY_ARCHIVES 14 /* counted by Python */
#define MEMORY_SHARES 15

/* Of base/histogram.h: the buckets of plane_histogram(). */
#define HISTOGRAM_SPANS 17
typedef struct histogram_counts {
    uint64_t counts[HISTOGRAM_SPANS];
    uint64_t sum_ns;
} histogram_counts_t;

/* A store that is looked at as files (plane_look_open). */
typedef struct store_facts {
    uint64_t commit;    /* LMDB's number of it */
    uint64_t pages;     /* of data.mdb that it counts */
    uint64_t position;  /* LMDB has everything of the journal before it */
    uint64_t number;    /* of the batch before that position */
    uint64_t id_high;   /* the store's */
    uint64_t id_low;    /* likewise */
    uint32_t page_size; /* of LMDB */
    uint32_t format;
    uint32_t sealed; /* 1: encrypted */
    uint32_t opened; /* 1: and the key was given */
    uint32_t closed; /* 1: in order, so that LMDB has all there is */
    uint32_t noted;  /* 0: the records that say all this are damaged */
} store_facts_t;

/* A stream's row of plane_look_records. */
typedef struct stored_stream {
    uint64_t first_seq;
    uint64_t last_seq;
    uint64_t messages;
    uint64_t bytes;
    uint64_t subjects;
    int64_t last_ts;
} stored_stream_t;

/* The findings of a look at all of a store; they grow while it goes on. */
typedef struct store_audit {
    uint64_t done; /* bytes of data.mdb */
    uint64_t entries;
    uint64_t messages;
    uint64_t damaged_pages;
    uint64_t damaged_entries;
    uint64_t bad_subjects; /* messages under what is no subject; older versions stored them */
} store_audit_t;

/* Codes of EVENT_ADVISORY. */
#define ADVISORY_MAX_DELIVERIES 1
#define ADVISORY_NAKED 2
#define ADVISORY_TERMINATED 3
#define ADVISORY_ACK_SAMPLE 4
#define ADVISORY_PAUSE_ENDED 5
#define ADVISORY_PINNED 6          /* text = group, blank, id */
#define ADVISORY_UNPINNED 7        /* its time is over; text = group */
#define ADVISORY_BATCH_ABANDONED 8 /* of a stream: arg = ABANDONED_*, text = the batch's id */
#define ADVISORY_PUT_BACK 9        /* its copy has stored up to there, and was given up to consumer_seq of this store */

/* Codes of EVENT_REFUSED: the operation that a client was refused. */
#define REFUSED_PUBLISH 1       /* subject */
#define REFUSED_REPLY 2         /* subject = the reply subject */
#define REFUSED_SUBSCRIBE 3     /* subject, queue, sid */
#define REFUSED_SUBSCRIPTIONS 4 /* too many of them */
#define REFUSED_PAYLOAD 5       /* bytes were announced */
#define REFUSED_CONTROL_LINE 6
#define REFUSED_PROTOCOL 7 /* subject = how the input begins that is no protocol */
#define REFUSED_REMOVED 8  /* subject, queue, sid: a subscription that a reload took away */

/* of the records of EVENT_MESSAGE_TRACE */
#define TRACE_INGRESS 1        /* text 4 = why it went nowhere */
#define TRACE_EGRESS 2         /* texts: subscription, queue, hop */
#define TRACE_MAPPING 3        /* text 1 = mapped to */
#define TRACE_STREAM_EXPORT 4  /* account = importer, text 1 = its subject there */
#define TRACE_SERVICE_IMPORT 5 /* account = exporter, texts: to, from */
#define TRACE_JETSTREAM 6      /* texts: stream, subject, "", refusal; fault 1 = no interest */

#define TRACE_FAULT_NONE 0
#define TRACE_FAULT_NO_ECHO 1
#define TRACE_FAULT_DENIED_OUT 2 /* over the link */
#define TRACE_FAULT_DENIED_IN 3  /* by the subscriber's permissions */
#define TRACE_FAULT_SUBSCRIPTION_CLOSED 4
#define TRACE_FAULT_CLIENT_CLOSED 5
#define TRACE_FAULT_ONLY_UNKNOWN 6 /* the other side knows no traces, and this one was only to be traced */
#define TRACE_FAULT_UNKNOWN 7      /* it knows none */
