/* abi.h: the text that both languages read, behind abi_structs.h, its first half. Plain declarations only, so that cffi
 * takes it as its cdef as it is; C includes it through base/abi_types.h, which has the guard and <stdint.h>.
 *
 * Python (agent/leafd/native.py, and what stands on it) drives the plane through two bounded rings:
 *
 *     plane_submit(commands) --> [ring] --> plane thread          plane thread --> [ring] --> plane_poll(events)
 *
 * Nothing here blocks (but plane_open, plane_stop and plane_close, which are for start and end), nothing calls back
 * into Python, no struct is shared after the call returns: what a command points to is copied by plane_submit; what an
 * event points to lives until plane_release. One thread calls all of it. Change the layout => raise PLANE_ABI.
 *
 * Packed strings ("strings" below): for each string a 4-byte little-endian length and its bytes, one after the other.
 */

#define PLANE_ABI 48
#define PLANE_REASON_SIZE 512 /* bytes of the text that plane_open fills in when it fails */
#define TLS_REASON_SIZE 512   /* likewise plane_tls_context */

typedef struct plane plane_t;

/* How anything ended: see base/status.h. */
typedef enum status {
    STATUS_OK = 0,
    STATUS_NOT_FOUND = -1, /* the thing asked for does not exist; not an error of the machine */
    STATUS_FULL = -2,      /* a bound was reached: queue, ring, journal, map; try again when it drains */
    STATUS_NO_MEMORY = -3, /* malloc said no */
    STATUS_IO = -4,        /* a system call on a file failed; errno kept by the reporter */
    STATUS_CORRUPT = -5,   /* a checksum or a structural rule failed */
    STATUS_VERSION = -6,   /* store written by a newer format */
    STATUS_IN_USE = -7,    /* store locked by another process, address in use */
    STATUS_INVALID = -8,   /* an argument breaks the contract of the call */
    STATUS_EXISTS = -9,    /* already there */
    STATUS_NO_SPACE = -10, /* disk or map full */
    STATUS_CLOSED = -11,   /* the connection or the plane is going away */
    STATUS_AGAIN = -12,    /* nothing to do now */
} status_t;

/* ---- life -------------------------------------------------------------------------------------------------------- */

/* Encryption at rest: what the operator gave. Only plane_open looks at it. */
#define CIPHER_CHACHA 1
#define CIPHER_AES 2
typedef struct plane_keys {
    const uint8_t *key;
    const uint8_t *previous; /* what the store may still be encrypted with */
    uint32_t key_size;
    uint32_t previous_size; /* 0: none */
    uint32_t cipher;
} plane_keys_t;

typedef struct plane_limits {
    uint64_t max_file_store;   /* bytes of streams on disk; the map's size follows */
    uint64_t max_memory_store; /* bytes of memory streams */
    uint64_t journal_size;     /* bytes of the journal file, 0 = default */
    int64_t sync_interval_ns;  /* 0: an ack waits for the disk; > 0: acks at once, synced so often */
    uint64_t memory_limit;     /* bytes of memory that load may take, shared out by plane/memory.c; 0 = no bound */
    uint64_t max_pending;      /* bytes queued to one connection before it is a slow consumer */
    int64_t write_deadline_ns; /* nothing written for so long: slow consumer */
    int64_t ping_interval_ns;
    int64_t batch_timeout_ns; /* an atomic batch that is silent for so long is dropped */
    uint32_t ping_max;
    uint32_t max_control_line;
    uint32_t max_payload;
    uint32_t max_connections;    /* 0 = no limit of our own */
    uint32_t jetstream;          /* 1: open the store */
    uint32_t trace;              /* EVENT_TRACE for lines, and of messages so many bytes at most; 0 = none of them */
    uint32_t batches_per_stream; /* atomic ones that are open */
    uint32_t batches_total;
    uint32_t batch_messages; /* of one */
    uint32_t clustered;      /* CLUSTERED_*. It is so from the start to the end */
} plane_limits_t;

uint32_t plane_abi(void);
/* Opens the store (replays the journal), makes the rings; starts no thread of its own but the store's. directory: the
 * JetStream store directory (may be NULL without jetstream). keys: NULL = the store is not encrypted. On failure NULL
 * and a text in reason (what, where, what to do) and *status. */
plane_t *plane_open(const plane_limits_t *limits, const plane_keys_t *keys, const char *directory,
                    const char *memory_directory, char *reason, int32_t *status);
/* Hides this process's memory from all but the machine's administrator: no core dump has its keys. */
void plane_hide(void);
/* Starts the plane thread. */
int32_t plane_start(plane_t *plane);
/* Closes listeners and connections, makes everything appended durable, checkpoints, ends the threads. Blocks. */
void plane_stop(plane_t *plane);
void plane_close(plane_t *plane);

/* ---- exchange ---------------------------------------------------------------------------------------------------- */

/* One command. Which fields count is said at its op. token: echoed in EVENT_DONE; 0 = no completion wanted, a failure
 * is an ALARM_COMMAND (but STATUS_NOT_FOUND where what it speaks of may have ended meanwhile: connections,
 * subscriptions, publishing). EVENT_DONE for a command that changes the store comes when the change is on disk. */
typedef struct plane_command {
    uint32_t op;
    uint32_t account;
    uint64_t target; /* connection, stream or subscription id */
    uint64_t token;
    uint64_t arg;
    uint64_t arg2;
    const uint8_t *body; /* meaning by op */
    uint32_t body_size;
    uint32_t extra_size;
    const uint8_t *extra;
} plane_command_t;

typedef struct plane_event {
    uint32_t kind;
    int32_t status; /* a status_t */
    uint32_t account;
    uint32_t code;   /* meaning by kind */
    uint64_t target; /* connection, stream, subscription */
    uint64_t token;
    uint64_t arg;
    uint64_t arg2;
    const uint8_t *subject; /* slices: valid until plane_release */
    const uint8_t *reply;
    const uint8_t *header;
    const uint8_t *payload;
    uint32_t subject_size;
    uint32_t reply_size;
    uint32_t header_size;
    uint32_t payload_size;
} plane_event_t;

/* readable when events wait */
int plane_wake_fd(plane_t *plane);
int32_t plane_submit(plane_t *plane, const plane_command_t *commands, uint32_t count); /* how many were taken */
/* Events of connections and completions come before EVENT_MESSAGE, EVENT_ADVISORY, EVENT_LEAF_INFO and EVENT_TRACE,
 * whatever came about first; each kind among itself is in order. A message's connection may be closed already. Returns
 * how many were filled. */
uint32_t plane_poll(plane_t *plane, plane_event_t *events, uint32_t count_max);
void plane_release(plane_t *plane, uint32_t count); /* oldest `count` events */
/* The caller is done with an EVENT_MESSAGE (answered it, or dropped it), which may be long after its release. Once for
 * each token: until then the message counts against its connection's credit; one without credit is not read. */
void plane_repay(plane_t *plane, uint64_t token);

/* The tables of commands and events (command/command_table.c), row by row; NULL behind the last one. */
typedef struct plane_command_row {
    uint32_t op;
    uint32_t needs;      /* NEEDS_* */
    const char *name;    /* COMMAND_* without its prefix */
    const char *strings; /* their names, in order */
    const char *body;    /* "", "bytes", or the structs that it is made of */
    uint32_t body_size;  /* of what is always there */
    uint32_t row_size;   /* of what follows it, any number of times; 0 = nothing */
} plane_command_row_t;

#define NEEDS_NOTHING 0
#define NEEDS_ACCOUNT 1
#define NEEDS_CONNECTION 2 /* target */
#define NEEDS_STREAM 3     /* target */
#define NEEDS_CONSUMER 4   /* target and arg */

typedef struct plane_event_row {
    uint32_t kind;
    const char *name;    /* EVENT_* without its prefix */
    const char *members; /* what each place of plane_event_t holds */
} plane_event_row_t;

const plane_command_row_t *plane_command_row(uint32_t index);
const plane_event_row_t *plane_event_row(uint32_t index);

/* Commands: connections. Listening sockets and dialled sockets are made by Python and handed over. */
/* target = listener id (caller's), arg = fd, arg2 = CONN_* [| LISTEN_SECURE] [| LISTEN_WEB] [| LISTEN_PROXIED]. A
 * listener that is there: arg does not count, arg2 is that of connections from now on */
#define COMMAND_LISTEN 1
#define COMMAND_UNLISTEN 2 /* target = listener id */
/* arg = fd of a connected socket, arg2 as of LISTEN, no client; completion: arg = connection id */
#define COMMAND_ADOPT 3
/* target = connection, body = bytes of a control frame (INFO ...\r\n, CONNECT ...\r\n) */
#define COMMAND_SEND 4
#define COMMAND_RESUME 5 /* target = connection: go on reading after an EVENT_LINE without a verdict */
#define COMMAND_CLOSE 6 /* target = connection, body = -ERR text or none, arg = CLOSE_*; arg2 1: unless it has spoken */
/* target = client connection, account; body = conn_verdict_t, extra = strings: frame to send after the first PONG ("" =
 * none), then pub allow.. "", pub deny.. "", sub allow.. "", sub deny.. "" (each list ends with an empty string), then
 * who it is, for Nats-Schedule-Author (may be missing: nobody can be told from others) */
#define COMMAND_ADMIT 7
/* target = leaf connection, account; body = conn_verdict_t, extra = strings: origin cluster, own $LDS subject of the
 * account, then the four lists as in ADMIT where pub = what may be sent over the link, sub = what may
 * come in and be asked for; and a fifth: where a mapping or the domain's name must not lead what came in; then who it
 * is, as in ADMIT */
#define COMMAND_ADMIT_LEAF 8
/* target = route connection, account = the only one of its lines, 0: each names its own; body = route_terms_t, extra =
 * strings: what we may ask the peer for: allow.. "", deny.. "", and what it may ask us for, likewise; then the id of
 * the server behind it (may be missing: nothing that came over a gateway is passed on to it) */
#define COMMAND_ADMIT_ROUTE 34
/* target = route connection that is admitted, extra = strings: other lists in place of those of ADMIT_ROUTE. What they
 * no longer let through ends, what they let through anew is told; completion's arg = how much of the peer's interest
 * went. arg 1: the lists are those by which the peer has judged our interest (export) until now, which is told again
 * where they refused it. STATUS_FULL: an earlier one is still being carried out */
#define COMMAND_ROUTE_RIGHTS 38
/* target = gateway connection, body = gateway_terms_t, extra = strings: the name of the cluster behind it */
#define COMMAND_ADMIT_GATEWAY 35
/* extra = strings: our cluster's name, this server's id. Once, before the first ADMIT_GATEWAY */
#define COMMAND_GATEWAY 36
/* of a client that is admitted, after a reload: as ADMIT, for the same account. Subscriptions that are no longer
 * allowed go, each with an -ERR; completion's arg = how many. STATUS_NOT_FOUND: it is gone or at its login again; what
 * else fails closes the connection */
#define COMMAND_RIGHTS 12
#define COMMAND_BROADCAST 9 /* body = INFO as in GREET, to admitted clients, protocol >= 1; arg 1: by WebSocket */
/* completion's payload = connection_row_t[] */
#define COMMAND_CONNECTIONS 10
/* target = connection, arg = bucket to go on from; completion's payload = subscription_row_t, each followed by subject,
 * queue and sid; arg = next bucket (0: that was all), arg2 = how many there are: when that changes on the way, begin
 * anew */
#define COMMAND_SUBSCRIPTIONS 11

/* target = number of a context of TLS (caller's), arg = what plane_tls_context gave, 0: none any more. Connections that
 * have the one before keep it */
#define COMMAND_TLS 13
/* target = connection, body = secure_t, extra = strings: said in plain text before the handshake (INFO), said behind it
 * where it comes first, as a client: the host whose certificate is expected. EVENT_SECURED or EVENT_CLOSED follows */
#define COMMAND_SECURE 14

/* target = connection that waits behind LINE_HTTP, arg = WEB_*, arg2 = CONN_* that it is from now on, body = the answer
 * to its request (empty: it is the answer that came). It speaks WebSocket then */
#define COMMAND_UPGRADE 15
/* target = connection, before it is admitted or again later: what Nats-Request-Info and EVENT_LATENCY say of it where
 * all of it is to be said; extra = strings: parts of a JSON object's members, in front of its account, between that and
 * its round-trip time, then its server and cluster, then the rest */
#define COMMAND_DESCRIBE 16

/* target = leaf connection that waits behind LINE_INFO, body = compression_t, extra = strings: said before, as it is,
 * and behind, compressed. It is an S2 stream then, both ways. One that is so already only changes its level */
#define COMMAND_COMPRESS 17
#define COMMAND_PRECEDENCE 32 /* target = leaf, extra = strings: rules (lanes.h) */
#define COMMAND_BUDGET 33     /* target = leaf, body = budget_t */

/* target = listener, body = secure_t (context 0: plain text), extra = strings: INFO, what is said behind a handshake
 * that comes first; with GREETING_CONNECTION and GREETING_ADDRESS where the connection's number and address stand.
 * Connections from now on get that without control being asked (EVENT_OPENED, arg2). INFO "": no more */
#define COMMAND_GREET 18
/* account; body = conn_verdict_t, extra = strings: a CONNECT's JSON, then as in ADMIT, after_pong as in GREET. A
 * greeted connection that sends this is admitted so without control being asked (EVENT_LINE, arg). arg = CONN_*, and
 * KNOWN_WEB of a connection over WebSocket */
#define COMMAND_REMEMBER 19
#define KNOWN_WEB 256
#define COMMAND_FORGET 29 /* a REMEMBER: arg and the first string as there; all where it is "" */
/* the answer to EVENT_AUTHOR: arg = its ticket, arg2 = AUTHOR_*; body = conn_verdict_t, extra = strings: lists as in
 * ADMIT_LEAF */
#define COMMAND_AUTHOR 30
#define COMMAND_AUTHORS_FORGET 31 /* all of AUTHOR: others may do other things now */
#define COMMAND_MQTT 37 /* body = mqtt_limits_t: of MQTT connections from now on, extra = strings: its domain */

/* Commands: accounts. */
#define COMMAND_ACCOUNT 20 /* account, arg = ACCOUNT_* flags, extra = strings: name, domain */
/* account, target = subscription id (caller's), extra = strings: subject, queue; arg = SUBSCRIBE_* flags; messages come
 * as EVENT_MESSAGE with that target. arg2: the only link that is told of it, 0 = all are */
#define COMMAND_SUBSCRIBE 21
#define COMMAND_UNSUBSCRIBE 22 /* account, target = subscription id */
/* account, body = payload, extra = strings: subject, reply, header block; arg = PUBLISH_* flags; completion's arg = how
 * many targets took it (a leaf link is one), given at once; arg2 = link that it goes out by if nobody did, 0: none */
#define COMMAND_PUBLISH 23
/* account; all its mappings, in place of those it had: extra = strings: source, then destination and share (decimal: a
 * draw from 0 to 99 below it takes this one, or one before it) for each choice, then "", for each mapping */
#define COMMAND_MAPPING 24
/* account = who imports, body = import_row_t[]: all of its imports, in place of those it had; extra = strings, five a
 * row: the exporter's subject, the local subject, a byte for each wildcard of the local one: which of the exporter's it
 * stands for; and where it is measured the subject for EVENT_LATENCY, and what the replies of measured requests end
 * with */
#define COMMAND_IMPORTS 25
/* account, body = allowed_t: what its streams may have. arg: those of so many replicas (a tier); 0: all, no tiers */
#define COMMAND_ALLOW 27
/* account, extra = strings: where it is told what became of messages with traceparent ("" = nowhere); arg = percent of
 * them, 0 = all */
#define COMMAND_TRACES 26

/* Commands: streams. target = stream id (given by Python, never reused while its data exists). */
/* create, load or update: body = stream_config_t, extra = strings: name, definition (JSON, kept verbatim as the durable
 * record), domain, source and destination of the subject transform, source and destination of what is published again
 * (an empty destination: none), subject..; completion's payload = stream_state_t. STATUS_INVALID: no such transform.
 * arg = 1: loading at start, the definition is already stored. STATUS_EXISTS: a new one's number has data */
#define COMMAND_STREAM_PUT 40
#define COMMAND_STREAM_REMOVE 41 /* with its consumers, messages, definition */
/* extra = strings: subject filter ("" = no subjects wanted); arg = 1: list deleted too; arg2 = offset of the first
 * subject (in byte order); at most STATE_LISTED_MAX of each come, of subjects no more than one answer has room for.
 * completion's payload = stream_state_t, then
 * deleted_count x u64 little-endian, then subjects: strings of subject, each followed by u64 count */
#define COMMAND_STREAM_STATE 42
/* body = uint32_t[]: ids of at most USAGE_STREAMS_MAX streams; completion's arg = the bytes of all that are there; or,
 * with arg = 1, of at most USAGE_STATES_MAX; payload = stream_state_t of each, consumers = STATE_UNKNOWN: not known */
#define COMMAND_STREAM_BYTES 46
/* extra = strings: filter; arg = sequence (0 = none), arg2 = keep (0 = none); completion's arg = how many went */
#define COMMAND_STREAM_PURGE 43
#define COMMAND_STREAM_FILL 47 /* body = payload; strings: subject header upto (8 BE) origin; arg, arg2: seq, ts */
/* body = message_query_t, extra = strings: subject; done: arg = sequence, arg2 = stamp ns, subject, header, payload */
#define COMMAND_MESSAGE_GET 44
#define COMMAND_MESSAGE_DELETE 45 /* arg = sequence */

/* Commands: consumers. target = stream id, arg = consumer id (given by Python, unique in the node). */
/* create, load or update: body = consumer_config_t, extra = strings: name, definition (JSON), deliver subject, deliver
 * group, backoff (u64 LE ns each, one string), priority groups (a blank between two), filter..; arg2 = 1: loading;
 * completion as of CONSUMER_STATE, before any delivery */
#define COMMAND_CONSUMER_PUT 60
#define COMMAND_CONSUMER_REMOVE 61
#define COMMAND_CONSUMER_STATE 62 /* completion's payload = consumer_state_t, behind it the pinned client's id */
#define COMMAND_CONSUMER_PAUSE 63 /* arg2 = wall ns until, 0 = resume */
/* arg2 = sequence, 0 = ack floor + 1; completion's payload = consumer_state_t, arg = the sequence */
#define COMMAND_CONSUMER_RESET 64
#define COMMAND_CONSUMER_UNPIN 65  /* a pinned client is so no longer */
#define COMMAND_CONSUMER_BEGIN 66  /* it may deliver: ends CONSUMER_HELD, and the wait for the answer of a reset */
#define COMMAND_CONSUMER_SPARE 67  /* arg2 = ns between heartbeats while somebody subscribes, who is told of its end */
#define COMMAND_CONSUMERS_STATE 68 /* body = consumer_place_t[]; payload = consumer_state_t[] of the first of them */

/* Commands: ingest of mirrors and sources. target = local stream id, arg = slot (mirror: 0; sources: 1..).
 * START: body = ingest_config_t, extra = strings: deliver subject, consumer name, then the constant parts of
 * Nats-Stream-Source: name[:hash], filter, destination, identity (mirrors: four empty ones), the key of the stored
 * progress (RECORD_SOURCE), the consumer's stream (span), then source and destination of each subject transform. What
 * is at or below max(last_sequence, stored progress) is dropped */
#define COMMAND_INGEST_START 80
#define COMMAND_INGEST_STOP 81   /* payload = ingest_state_t at its end; no EVENT_INGEST of this slot comes after it */
#define COMMAND_INGESTS_STATE 82 /* body = uint64_t[]: stream << 32 | slot, ascending; payload = ingest_state_t[] */
#define COMMAND_INGEST_FORGET 83 /* the stored progress of that slot's key is arg; 0: drop it (extra = strings: key) */

/* Commands: small durable records of the control side (node identity, next ids). */
#define COMMAND_RECORD_PUT 90 /* extra = strings: key, value */

/* Commands: backup. target = stream id. Entries: of the archive, as wire/archive.h draws them. */
/* arg = first sequence, arg2 = last; completion's payload = entries of messages, some 256 KiB of them, arg = sequence
 * to go on from (0 = that was all). STATUS_CORRUPT: a record failed its checksum, arg = a sequence at or before it */
#define COMMAND_STREAM_EXPORT 110
/* body = entries of messages, the last one may be cut; completion's arg = bytes taken, payload = u64, size of the entry
 * behind them as far as it is known (0 = not known, IMPORT_END = what was taken ends with the end marker).
 * STATUS_INVALID: payload says why; STATUS_FULL: the account may not have so much. Without a body: every
 * sequence up to arg is taken, nothing stored */
#define COMMAND_STREAM_IMPORT 111
/* arg = consumer, arg2 = stream sequence to go on behind; completion's payload = consumer_state_t, then
 * pending_entry_t[], arg = the last one's sequence when there are more (0 = that was all) */
#define COMMAND_CONSUMER_EXPORT 112
/* as CONSUMER_PUT of a new one, body = consumer_config_t, consumer_state_t (the four positions count),
 * pending_entry_t[] in ascending order */
#define COMMAND_CONSUMER_IMPORT 113
/* account, extra = strings: subject; completion's arg = how many subscribe to that very subject (a client's inbox with
 * wildcards matches before anybody listens); arg = 1: whether anybody would get a message, also over links, imports */
#define COMMAND_INTEREST 114

#define COMMAND_LIMITS 100 /* body = plane_limits_t: the live ones take effect (max_payload, pings, deadlines) */

#define USAGE_STREAMS_MAX 1024
#define STATE_LISTED_MAX 100000 /* what an origin or a restored backup left out may be any number */

#define IMPORT_END 1 /* of STREAM_IMPORT's completion; no entry is that short */

#define CONN_CLIENT 1
#define CONN_LEAF 2
#define CONN_ROUTE 3
#define CONN_GATEWAY 4
#define CONN_MQTT 5
#define LISTEN_SECURE 256   /* nothing of it is read before its COMMAND_SECURE */
#define LISTEN_WEB 512      /* it speaks HTTP first: LINE_HTTP */
#define LISTEN_PROXIED 2048 /* it may begin with a header of the PROXY protocol: EVENT_PROXIED */

#define GREETING_CONNECTION 1
#define GREETING_ADDRESS 2
#define ACCOUNT_JETSTREAM 1 /* the account's JetStream is served here */
#define ACCOUNT_REMOVED 4
#define ACCOUNT_SERVES 8  /* it has services that another server may measure: EVENT_LATENCY_FAR */
#define ACCOUNT_LINKED 16 /* leaf links may come to it: what it subscribes to is counted for them from the beginning */
#define ACCOUNT_PINNED 32 /* it goes by routes of its own, by none of a pool */

#define SUBSCRIBE_API 1      /* skip $JS.API.CONSUMER.MSG.NEXT.> and $JS.API.DIRECT.GET.>: C answers these itself */
#define SUBSCRIBE_TEMPLATE 2 /* a stream template's: ALONE, and only what no stream of the account takes comes */
#define SUBSCRIBE_ALONE 4    /* its sender is not read until it is repaid: the next comes behind it */
#define SUBSCRIBE_GUESTS 8   /* as API, for clients of servers without JetStream: told, and asked, by servers alone */

#define IMPORT_STREAM 1  /* what is published at the exporter's comes to the importer's subscriptions */
#define IMPORT_SERVICE 2 /* what is published at the importer's comes to the exporter's subscriptions */

/* flags */
#define IMPORT_TRACED 1   /* traces of messages go on at the other side */
#define IMPORT_DETAILED 2 /* a service is told everything of the requestor */
#define IMPORT_PLACED 4   /* or its server and cluster */
#define IMPORT_MEASURED 8 /* EVENT_LATENCY tells how long the service takes */

#define RESPONSE_SINGLETON 0 /* one answer */
#define RESPONSE_STREAM 1    /* answers until an empty one */

/* control asks: the subject is its own. Without it somebody else named the subject, and JetStream's own subjects
 * ($JS.API, $JS.ACK) do not hear of it */
#define PUBLISH_REQUEST 4
#define PUBLISH_STREAMS 8 /* to streams alone: everybody else has had it */
#define PUBLISH_BULK 16   /* a slow link sends it behind what somebody waits for */

#define CLOSE_CLIENT 1 /* the peer closed */
#define CLOSE_PROTOCOL 2
#define CLOSE_AUTHENTICATION 3
#define CLOSE_SLOW 4 /* slow consumer */
#define CLOSE_STALE 5
#define CLOSE_WRITE 6
#define CLOSE_SHUTDOWN 7
#define CLOSE_LOOP 8 /* own $LDS seen on a leaf link: 30 s before the next try */
#define CLOSE_PERMISSION 9
#define CLOSE_LIMIT 10
#define CLOSE_DUPLICATE 11 /* another link of the same server has taken its place: only control says so */
#define CLOSE_TLS 12       /* the handshake failed: text says why */
#define CLOSE_KICKED 13    /* an operator's order: only control says so */

/* Events. */
/* target = connection, code = CONN_*, arg = listener id, arg2 = 1: it had its greeting, subject = peer "host:port",
 * token = of a link the round trip as TCP's handshake has it, in nanoseconds */
#define EVENT_OPENED 1
/* a handshake line; reading waits for ADMIT.., RESUME or CLOSE. target = connection, code = LINE_*
 * (another number: an op that came without CONNECT), arg = 1: it is admitted already, by a REMEMBER, payload = JSON or
 * text, header = of an admitted one what the REMEMBER named, where that is not the whole line */
#define EVENT_LINE 2
/* Both of these in one, of a connection whose line was there before control had heard that it opened. target =
 * connection, code = CONN_*, subject = peer "host:port", payload and header as of a line that is admitted already */
#define EVENT_CAME 26
/* target = connection, code = CLOSE_*, payload = text, header = carried_t, reply = the first of its subscriptions, as
 * subscription_row_t and texts (not of a link) */
#define EVENT_CLOSED 3
/* target = subscription, account, arg = connection it came from (0 = inside), arg2 = its kind, code = that connection's
 * own account, token = for plane_repay; subject, reply, header, payload */
#define EVENT_MESSAGE 4
#define EVENT_DONE 5 /* completion of `token`: status, arg, arg2, slices by command */
/* code = ADVISORY_*, target = stream, arg = consumer, payload = advisory_t, subject = text */
#define EVENT_ADVISORY 6
/* target = stream, arg = slot, code = INGEST_*, arg2 = last origin sequence stored */
#define EVENT_INGEST 7
#define EVENT_ALARM 8 /* code = ALARM_*, target = stream, arg = sequence, payload = text; of HOLE arg2 and token, too */
/* -ERR from a link after the handshake; target = connection, payload = text, arg = those before it not told */
#define EVENT_LEAF_ERR 9
/* INFO from a link after the handshake; reading goes on; payload = JSON, or "": the first PONG of a route or gateway */
#define EVENT_LEAF_INFO 10
/* for the log; target = connection, payload = a line, without its message; or of the message behind it header, reply =
 * what follows that, both cut where they are longer than limits.trace together, arg and arg2 = their real sizes */
#define EVENT_TRACE 11
/* an idle ephemeral is removed: target = stream, arg = id, arg2 = what a copy has taken, as in consumer_state_t */
#define EVENT_CONSUMER_GONE 12
/* a client was refused something, for the log; target = connection, code = REFUSED_*, subject, reply = queue, payload =
 * sid, arg = bytes, arg2 = refusals before it that were not told */
#define EVENT_REFUSED 13
/* what became of a message with Nats-Trace-Dest; target = connection, code = its kind, account = its account, subject =
 * the destination, reply = the message's subject, header = its header block, arg = its size, arg2 = the links that it
 * went over, payload = records: u8 TRACE_*, u8 TRACE_FAULT_*, u8 kind, u8 0, u32 account, u64 connection, u64 wall ns,
 * four u32 sizes, and the four texts */
#define EVENT_MESSAGE_TRACE 15

/* a request over an IMPORT_MEASURED has ended; account = the exporter, code = the status (200: answered), arg = CONN_*
 * of the responder, subject = where it is to be told, reply = the exporter's reply subject, header = lines of the
 * fields that asked for it, payload = latency_t, then JSON objects of requestor and responder */
#define EVENT_LATENCY 16
/* a client has answered a request that came over a link and that the server there measures; target = connection,
 * account, subject = the request's reply, arg = ns since the request came, arg2 = the client's round-trip time */
#define EVENT_LATENCY_FAR 18

/* what the streams of an account have has come to another level of what they may have: account, target = 0 file, 1
 * memory, code = ALLOWANCE_LEVEL_*, arg = what they have, arg2 = what they may have (2^64-1: all); token = tier */
#define EVENT_ALLOWANCE 19
#define ALLOWANCE_LEVEL_BELOW 0 /* again below 75 % */
#define ALLOWANCE_LEVEL_NEAR 1  /* above 80 % */
#define ALLOWANCE_LEVEL_FULL 2  /* a message was refused */

/* who stored a schedule, as Nats-Schedule-Author has it (header), account; code = AUTHOR_ASKED: what may this author do
 * today, arg = ticket. AUTHOR_DENIED: a firing was refused, target = stream, subject = what the author may not do,
 * reply = the schedule's subject, arg2 = how many before it were not told */
#define EVENT_AUTHOR 20
#define AUTHOR_ASKED 1
#define AUTHOR_DENIED 2
#define AUTHOR_KNOWN 1 /* of COMMAND_AUTHOR; always */
#define AUTHOR_MAY 2   /* what the lists say; without it nothing */
#define AUTHOR_LINK 4  /* the lists are a link's */

#define EVENT_REACHED 21 /* a link or route asks for an API of JetStream: account, subject = `$JS.<domain>.API.` .. */
#define EVENT_CARRIED 22 /* target = leaf, arg = bytes on the wire: its budget_t.tell is reached */
#define EVENT_LETTER 24  /* of COMMAND_META_SEND; target = route, arg = server that sent it, payload */
#define EVENT_DOUBTED 23 /* target = leaf that we dialled, arg = DOUBT_* */
#define DOUBT_NONE 0     /* what is sent arrives again */
#define DOUBT_ALL 1      /* nothing that is sent arrives */
#define DOUBT_LARGE 2    /* a full packet may be more than the way carries: none came through yet, this way or that */
#define DOUBT_FIRST 3    /* nothing that is sent arrives, a first full packet among it: an outage, or as DOUBT_LARGE */

/* a handshake is over; target = connection, code = SECURED_*, arg = version (0x0303: TLS 1.2), arg2 = bytes of the
 * handshake on the wire, subject = cipher suite, payload = the peer's certificate, DER, header = of an end that dialled
 * those that vouch for it, up to one that is trusted; none where the session is an earlier one */
#define EVENT_SECURED 14

/* the PROXY protocol's header has come; target = connection, subject = "host:port" that the proxy speaks for, or
 * payload = why it ends for its header */
#define EVENT_PROXIED 17

#define LINE_CONNECT 1 /* these are values of op_kind_t of wire/op.h */
#define LINE_INFO 2
#define LINE_ERR 6
#define LINE_HTTP 64 /* the head of an HTTP request or answer, up to its empty line */

#define WEB_CLIENT 1   /* we dialled */
#define WEB_UNMASKED 2 /* the client's frames need no mask */
#define WEB_DEFLATE 4  /* permessage-deflate */
#define WEB_SMALL 8    /* frames of at most 4 KiB */
#define WEB_WHOLE 16   /* but not of compressed messages */
#define WEB_KNOWN 32   /* of MQTT: its request says nothing of its user, so a login may be known */

#define SECURED_RESUMED 1
#define SECURED_PLAIN 2 /* SECURE_OPTIONAL: it speaks plain text, and there was no handshake */
#define SECURED_FIRST 4 /* nothing was said before */

#define ABANDONED_TIMEOUT 1
#define ABANDONED_LARGE 2
#define ABANDONED_INCOMPLETE 3
#define ABANDONED_UNSUPPORTED 4

#define INGEST_GAP 1     /* a delivery is missing: make the consumer anew at arg2 + 1 */
#define INGEST_SILENT 2  /* nothing came, not even heartbeats, for the time of ingest_config_t */
#define INGEST_REFUSED 3 /* the local stream refused a message (limits): status tells */
#define INGEST_FIRST 4   /* the first message after the start came */
#define INGEST_BACK 5    /* the origin was put back, and has newer messages at sequences that were taken */
#define INGEST_SPAN 6    /* the consumer should let more or fewer messages come before one is acknowledged */
#define INGEST_ROOM 7    /* of all slots: the stream has room again, or other limits, since it refused something */

#define ALARM_CORRUPT 1 /* a record failed its checksum */
#define ALARM_DISK_FULL 2
#define ALARM_DISK_OK 3
#define ALARM_IO 4
#define ALARM_CLOCK 5    /* the wall clock stepped */
#define ALARM_SLOW 6     /* slow consumer cut off: target = connection */
#define ALARM_COMMAND 7  /* a command failed that nobody waits for: target = its op, arg = its target */
#define ALARM_KEY 8      /* a change of key has come to its end */
#define ALARM_INTEREST 9 /* subscriptions are refused for lack of memory */
#define ALARM_DROPPED 10 /* messages to a narrow link: target = connection, arg = how many */
#define ALARM_MEND 11    /* a damaged page stops what is to be written: a start mends the store */
#define ALARM_WAITS 12   /* .. or holds up consumers, who have all else: likewise, but seldom */
#define ALARM_SHARED 13  /* a stream that other servers have, too, is damaged here: it is to be copied from there */
#define ALARM_HOLE 14    /* damage took messages, from arg to arg2: RECORD_HOLE; token 1: each was there before */
#define ALARM_INPUT 15   /* closed for the memory of what it had begun to send: target = connection */
#define ALARM_MEMORY 16  /* a consumer of the stream gets more than was asked for, for lack of memory */

/* ---- look -------------------------------------------------------------------------------------------------------- */

/* How many bytes a share (MEMORY_*) is with that limit. */
uint64_t plane_memory_share(uint64_t limit, uint32_t share);
void plane_give_back(void); /* free pages of malloc go back to the system: 1 ms for 10 MB; from any thread */
void plane_stats(plane_t *plane, plane_stats_t *out); /* a consistent enough snapshot, from any thread */
uint32_t plane_advised(plane_t *plane);               /* see route_watch_t: who may hear of $JS.EVENT.>; any thread */
/* How long the disk of the file streams took since the start, from any thread. */
#define HISTOGRAM_SYNC 0   /* syncs of the journal: an acknowledgement waits for one */
#define HISTOGRAM_COMMIT 1 /* commits of LMDB */
#define HISTOGRAMS 2
void plane_histogram(plane_t *plane, uint32_t which, histogram_counts_t *out);
uint64_t histogram_bound_ns(uint32_t span);

/* A context of TLS for COMMAND_TLS; takes milliseconds, pure, for any thread. strings, packed: PEM of authorities ("" =
 * the system's), cipher suites.. "", curves.. "", pinned certificates.. "", then chain and key in PEM for each
 * certificate. NULL: reason says why. What no command took is given to plane_tls_drop. */
void *plane_tls_context(const tls_settings_t *settings, const uint8_t *strings, uint32_t size, char *reason,
                        int32_t *status);
void plane_tls_drop(void *context);

/* For the chunks of a backup's S2 stream; pure, for any thread. CRC32C of base/crc.h, and text/s2.h: the size of the
 * block's result (-1: no such block), and whether it was filled into out, which has that size (0; -1: damaged). The
 * other direction takes up to 256 KiB, and returns how many bytes of to the block took (0: over room, or no memory). */
uint32_t plane_crc32c(const uint8_t *at, uint64_t size);
int64_t plane_s2_size(const uint8_t *block, uint32_t block_size);
int32_t plane_s2_decode(const uint8_t *block, uint32_t block_size, uint8_t *out, uint32_t out_size);
uint32_t plane_s2_encode(const uint8_t *from, uint32_t size, uint8_t *to, uint32_t room);
/* Rows of a report: text/rows.h; pure, for any thread. */
int64_t plane_rows_write(const row_format_t *format, const uint8_t *records, uint32_t count, const uint8_t *texts,
                         uint32_t texts_size, uint8_t *to, uint64_t room);
/* Stored records, in key order, only between plane_open and plane_start. kind: RECORD_*. after: key to go on behind
 * (empty: from the start). Fills key and value; returns the value's size, or the needed size when it is over value_max
 * (then call again); -1 at the end, -2: the store cannot be read, -3: at the end, damaged ones were left out. */
int64_t plane_record_next(plane_t *plane, uint32_t kind, const uint8_t *after, uint32_t after_size, uint8_t *key,
                          uint32_t *key_size, uint8_t *value, uint64_t value_max);

#define RECORD_STREAM 1   /* key = stream id (4 bytes big-endian), value = definition JSON */
#define RECORD_CONSUMER 2 /* key = stream id, consumer id (4 + 4 bytes big-endian), value = definition JSON */
#define RECORD_CONTROL 3  /* key and value as in COMMAND_RECORD_PUT */
/* key = stream id, source key; value = origin sequence, newest stamp of the origin (ns, 0: not known), 8 bytes each */
#define RECORD_SOURCE 4
#define RECORD_HOLE 6 /* what damage took out of a stream: store/fill.h */
#define RECORD_LOST 5 /* key = kind, key of a definition that is lost; value = JSON: account, name; empty: unknown */

/* ---- a store as files -------------------------------------------------------------------------------------------- */

/* For the commands for people: no plane is needed. Each blocks, for one thread that is any; all may fail with a text in
 * `reason` (PLANE_REASON_SIZE). `used`: 1: a daemon uses the store, which goes on; 0: the caller has its lock. */
typedef struct store_look store_look_t;
/* Opens the newest checkpoint in data.mdb for reading, until the look is closed. keys: NULL = none; with the wrong ones
 * it fails. */
store_look_t *plane_look_open(const char *directory, const plane_keys_t *keys, uint32_t used, store_facts_t *facts,
                              char *reason, int32_t *status);
/* The newest checkpoint in place of that. */
int32_t plane_look_again(store_look_t *look, store_facts_t *facts, char *reason);
void plane_look_close(store_look_t *look);
/* The two pages that a copy of data.mdb begins with; its others are the file's own. */
const uint8_t *plane_look_page(const store_look_t *look, uint32_t number);
/* Definitions and states: for each 4 bytes kind, key and value size (big-endian, 12 in all), key, value. The value of a
 * LOOK_STATE is a stored_stream_t. Returns the size of all, of which as much as fits is in `out`; negative: a
 * status. */
int64_t plane_look_records(store_look_t *look, uint8_t *out, uint64_t room, char *reason);
#define LOOK_STATE 200
/* Reads every page and entry. findings: a line for each damage, as many as find room; one that begins with "subject "
 * is about a message that is sound, and whose subject is not valid. */
int32_t plane_look_audit(store_look_t *look, store_audit_t *audit, char *findings, uint32_t room, char *reason);
/* Makes data.mdb in the empty directory `to` of what can be read. all: 0: of the records alone that a start needs. */
int32_t plane_look_rescue(store_look_t *look, const char *to, uint32_t all, store_audit_t *audit, char *findings,
                          uint32_t room, char *reason);
/* Opens the store in directory and closes it: what its journal has comes into data.mdb. lossy: plane_look_rescue made
 * it without some messages, so what the journal says of streams is counted anew. findings: the alarms. */
int32_t plane_store_settle(const char *directory, const plane_keys_t *keys, uint32_t lossy, char *findings,
                           uint32_t room, char *reason);
