/* backup.c: streams and consumers out of the store as a backup has them, and into it again, in bounded steps.
 *
 *   STREAM_EXPORT    some 256 KiB of messages as archive entries; Python asks for the next step when it wants one
 *   STREAM_IMPORT    a run of entries into the open batch; its completion waits for the disk, which paces the sender
 *   CONSUMER_EXPORT, CONSUMER_IMPORT   positions and what is in flight (the latter is made in consumer.c)
 *
 * A step is bounded by bytes and by messages, so that nobody else waits for a backup. Messages keep sequence and stamp;
 * what hangs on their headers (ids of the duplicate window, TTL, how far a source had come) is made anew from them.
 * What does not live here: chunks, compression, flow control, the archive's other entries (Python). Reference:
 * tests/wire/jetstream.md, "Backup".
 */
#include "base/abi_types.h"
#include "base/buffer.h"
#include "base/bytes.h"
#include "base/crc.h"
#include "base/status.h"
#include "consume/consume.h"
#include "plane/account.h"
#include "plane/command.h"
#include "plane/js.h"
#include "plane/plane.h"
#include "route/route.h"
#include "store/store.h"
#include "text/decimal.h"
#include "text/headers.h"
#include "text/s2.h"
#include "text/subject.h"
#include "text/text.h"
#include "text/ttl.h"
#include "wire/archive.h"

#define EXPORT_BYTES (256u * 1024u)
#define STEP_MESSAGES 4096u
#define PENDING_PAGE 2048u
#define SOURCE_KEY_MAX 500u /* as in ingest.c */

/* ---- out --------------------------------------------------------------------------------------------------------- */

static uint64_t corrupt_records(const stream_t *stream) {
    stream_state_t state;
    memset(&state, 0, sizeof(state));
    store_stream_state(stream->store, &state);
    return state.corrupt;
}

static void stream_export(plane_t *plane, const plane_command_t *command, stream_t *stream) {
    buffer_t *out = &plane->scratch;
    out->size = 0;
    uint64_t visible = store_stream_visible(stream->store);
    uint64_t upto = command->arg2 < visible ? command->arg2 : visible;
    uint64_t from = command->arg == 0 ? 1 : command->arg;
    uint64_t corrupt = corrupt_records(stream);
    status_t status = STATUS_OK;
    for (uint32_t step = 0; step < STEP_MESSAGES && out->size < EXPORT_BYTES && status == STATUS_OK; step++) {
        stored_message_t message;
        status = store_next(stream->store, (filters_t){.patterns = NULL, .count = 0}, &from, upto, 1, &message);
        if (status == STATUS_OK) {
            status = archive_write(out, message.seq, message.ts, message.subject, message.header, message.payload);
            from = message.seq + 1;
        }
        status = status == STATUS_AGAIN ? STATUS_OK : status;
    }
    if (corrupt_records(stream) != corrupt) {
        status = STATUS_CORRUPT; /* store_next steps over it; a backup without it would look whole */
    }
    bool over = status == STATUS_NOT_FOUND;
    if (over) {
        status = STATUS_OK;
    }
    bytes_t payload = status == STATUS_OK ? bytes_of(out->at, (uint32_t)out->size) : BYTES_NONE;
    command_answer(plane, command, status, over ? 0 : from, 0, payload);
    out->size = 0;
    buffer_trim(out, 0);
}

/* ---- in ---------------------------------------------------------------------------------------------------------- */

typedef struct restore {
    plane_t *plane;
    stream_t *stream;
    uint64_t last_seq;
    text_t reason; /* empty: nothing is wrong */
    bool full;     /* the store has no room: later, or never */
    uint8_t key[SOURCE_KEY_MAX];
} restore_t;

static bool refuse_entry(restore_t *import, const char *front, uint64_t seq, const char *behind) {
    text_add_literal(&import->reason, front);
    text_add_number(&import->reason, seq);
    text_add_literal(&import->reason, behind);
    return false;
}

/* What the numbers say before the bytes have come, in the reference's order and words. */
static bool entry_acceptable(restore_t *import, const archive_entry_t *entry) {
    uint64_t size = entry->header_size + entry->payload_size;
    int32_t most = import->stream->config.max_msg_size;
    if (entry->seq == 0) {
        text_add_literal(&import->reason, "expected message sequence");
        return false;
    }
    if (size > import->plane->limits.max_payload) {
        return refuse_entry(import, "message sequence ", entry->seq, " exceeds maximum payload size");
    }
    if (most >= 0 && size > (uint64_t)most) {
        return refuse_entry(import, "message sequence ", entry->seq, " exceeds maximum message size");
    }
    return true;
}

static bool next_word(bytes_t *text, bytes_t *word) {
    uint32_t size = 0;
    while (size < text->size && text->at[size] != ' ') {
        size++;
    }
    *word = bytes_of(text->at, size);
    uint32_t step = size < text->size ? size + 1 : size;
    *text = bytes_of(text->at + step, text->size - step);
    return size != 0;
}

/* Nats-Stream-Source names what the message came of; the progress has the key that ingest.c gives it. */
static void read_source(restore_t *import, append_t *append) {
    bytes_t value, name, seq, filter, destination;
    if (!headers_find(append->header, BYTES_LITERAL("Nats-Stream-Source"), &value) || !next_word(&value, &name)
        || !next_word(&value, &seq) || !next_word(&value, &filter) || !next_word(&value, &destination)
        || !decimal_parse(seq, &append->source_seq)) {
        return;
    }
    const bytes_t parts[3] = {name, filter, destination};
    uint32_t size = 0;
    if ((uint64_t)name.size + filter.size + destination.size + 2 > sizeof(import->key)) {
        return;
    }
    for (uint32_t i = 0; i < 3; i++) {
        if (i != 0) {
            import->key[size++] = ' ';
        }
        memcpy(import->key + size, parts[i].at, parts[i].size);
        size += parts[i].size;
    }
    append->source_key = bytes_of(import->key, size);
}

static bool read_headers(restore_t *import, const archive_entry_t *entry, append_t *append) {
    bytes_t value;
    if (append->header.size == 0 || !headers_has_prefix(append->header, BYTES_LITERAL("Nats-"))) {
        return true;
    }
    if (headers_find(append->header, BYTES_LITERAL("Nats-Msg-Id"), &value)) {
        append->msg_id = value;
    }
    if ((import->stream->config.flags & STREAM_MIRROR) == 0) {
        read_source(import, append);
    }
    if (!headers_find(append->header, BYTES_LITERAL("Nats-TTL"), &value)) {
        return true;
    }
    int64_t ttl_ns = 0;
    if (!ttl_parse(value, &ttl_ns)) {
        text_add_literal(&import->reason, "failed to parse message TTL: invalid per-message TTL");
        return false;
    }
    int64_t expires = 0;
    if (ttl_ns < 0 || __builtin_add_overflow(entry->ts, ttl_ns, &expires)) {
        expires = -1;
    } else if (expires <= import->plane->now.wall_ns) {
        append->skip = true;
    }
    if ((import->stream->config.flags & STREAM_ALLOW_TTL) != 0) {
        append->expires_ts = expires;
    }
    return true;
}

static bool settle(restore_t *import, const archive_entry_t *entry, append_verdict_t verdict) {
    switch (verdict) {
    case APPEND_STORED:
    case APPEND_SKIPPED: import->last_seq = entry->seq; return true;
    case APPEND_NO_SPACE: import->full = true; return false;
    case APPEND_OUT_OF_ORDER: return refuse_entry(import, "message sequence ", entry->seq, " out of order");
    default: return refuse_entry(import, "failed to store message sequence ", entry->seq, "");
    }
}

static bool import_entry(restore_t *import, const archive_entry_t *entry) {
    append_t append = {
        .subject = entry->name, .header = entry->header, .payload = entry->payload, .force_seq = entry->seq};
    append.force_ts = entry->ts != 0 ? entry->ts : 1; /* 0 would mean now */
    if (entry->seq <= import->last_seq) {
        return refuse_entry(import, "message sequence ", entry->seq, " out of order");
    }
    if (!subject_valid_pattern(entry->name)) {
        return refuse_entry(import, "failed to store message sequence ", entry->seq, ": invalid subject");
    }
    if (!read_headers(import, entry, &append)) {
        return false;
    }
    appended_t appended = store_append(import->stream->store, &append, import->plane->now);
    if (appended.verdict == APPEND_DUPLICATE) {
        append.msg_id = BYTES_NONE; /* the window was shorter when it came */
        appended = store_append(import->stream->store, &append, import->plane->now);
    }
    return settle(import, entry, appended.verdict);
}

static bool is_end(const archive_entry_t *entry) {
    return entry->seq == 0 && entry->ts == 0 && entry->header_size == 0 && entry->payload_size == 0;
}

/* Takes what is whole; *needed: of the one that is not. */
static uint64_t import_run(restore_t *import, bytes_t body, uint64_t *needed) {
    uint32_t used = 0;
    *needed = 0;
    for (uint32_t step = 0; step < STEP_MESSAGES && store_room(import->plane->stores[import->stream->which_store]);
         step++) {
        archive_entry_t entry;
        uint64_t size;
        status_t status = archive_read(bytes_of(body.at + used, body.size - used), &entry, &size);
        if (status == STATUS_CORRUPT) {
            text_add_literal(&import->reason, "archive: invalid archive stream");
            return used;
        }
        if (size != 0 && !is_end(&entry) && !entry_acceptable(import, &entry)) {
            return used;
        }
        if (status == STATUS_AGAIN) {
            *needed = size;
            return used;
        }
        if (is_end(&entry)) {
            *needed = IMPORT_END;
            return used + size;
        }
        if (!import_entry(import, &entry)) {
            return used;
        }
        used += (uint32_t)size;
    }
    return used;
}

static void import_padding(restore_t *import, uint64_t upto, int64_t last_ts) {
    append_t append = {.skip = true, .force_seq = upto, .force_ts = last_ts != 0 ? last_ts : 1};
    if (upto > import->last_seq
        && store_append(import->stream->store, &append, import->plane->now).verdict != APPEND_SKIPPED) {
        import->full = true;
    }
}

static void stream_import(plane_t *plane, const plane_command_t *command, stream_t *stream) {
    restore_t import = {.plane = plane, .stream = stream};
    stream_state_t state;
    store_stream_state(stream->store, &state);
    import.last_seq = state.last_seq;
    uint64_t used = 0;
    uint64_t needed = 0;
    if (command->body_size != 0) {
        used = import_run(&import, bytes_of(command->body, command->body_size), &needed);
    } else {
        import_padding(&import, command->arg, state.last_ts);
    }
    if (import.reason.size != 0) {
        command_answer(plane, command, STATUS_INVALID, 0, 0, text_shown(&import.reason));
    } else if (import.full && used == 0) {
        command_done(plane, command, STATUS_NO_SPACE);
    } else {
        command_done_durable(plane, command, stream->which_store, used, bytes_of(&needed, sizeof(needed)));
    }
}

/* ---- consumers --------------------------------------------------------------------------------------------------- */

static void consumer_out(plane_t *plane, const plane_command_t *command, stream_t *stream) {
    consumer_seat_t *seat = seat_find(stream, command->arg);
    if (seat == NULL) {
        command_done(plane, command, STATUS_NOT_FOUND);
        return;
    }
    struct {
        consumer_state_t state;
        pending_entry_t rows[PENDING_PAGE];
    } out;
    consumer_snapshot(seat->consumer, plane->now, &out.state);
    uint32_t count = consumer_export(seat->consumer, command->arg2, plane->now, out.rows, PENDING_PAGE);
    uint64_t last = count == PENDING_PAGE ? out.rows[count - 1].stream_seq : 0;
    uint32_t size = (uint32_t)(sizeof(out.state) + count * sizeof(out.rows[0]));
    command_answer(plane, command, STATUS_OK, last, 0, bytes_of(&out, size));
}

/* ---- who listens ------------------------------------------------------------------------------------------------- */

static uint64_t same_subject(route_target_t *const *targets, uint32_t count, bytes_t subject) {
    uint64_t same = 0;
    for (uint32_t i = 0; i < count; i++) {
        same += bytes_equal(targets[i]->subject, subject);
    }
    return same;
}

static void interest(plane_t *plane, const plane_command_t *command) {
    account_t *account = account_find(plane, command->account);
    strings_t strings = strings_of(command);
    bytes_t subject = strings_next(&strings);
    if (account == NULL) {
        command_done(plane, command, STATUS_NOT_FOUND);
        return;
    }
    const route_match_t *match = route_match(account->route, subject);
    uint64_t count = same_subject(match->plain, match->plain_count, subject);
    for (uint32_t i = 0; i < match->group_count; i++) {
        count += same_subject(match->groups[i].members, match->groups[i].count, subject);
    }
    command_answer(plane, command, STATUS_OK, count, 0, BYTES_NONE);
}

bool command_backup(plane_t *plane, const plane_command_t *command) {
    if (command->op == COMMAND_INTEREST) {
        interest(plane, command);
        return true;
    }
    if (command->op < COMMAND_STREAM_EXPORT || command->op > COMMAND_CONSUMER_IMPORT) {
        return false;
    }
    stream_t *stream = stream_find(plane, command->target);
    if (stream == NULL) {
        command_done(plane, command, STATUS_NOT_FOUND);
        return true;
    }
    static void (*const run[])(plane_t *plane, const plane_command_t *command,
                               stream_t *stream) = {stream_export, stream_import, consumer_out, consumer_in};
    run[command->op - COMMAND_STREAM_EXPORT](plane, command, stream);
    return true;
}

/* ---- chunks ------------------------------------------------------------------------------------------------------ */

uint32_t plane_crc32c(const uint8_t *at, uint64_t size) {
    return crc32c(0, at, size);
}

int64_t plane_s2_size(const uint8_t *block, uint32_t block_size) {
    uint32_t size;
    return s2_size(bytes_of(block, block_size), &size) == STATUS_OK ? (int64_t)size : -1;
}

int32_t plane_s2_decode(const uint8_t *block, uint32_t block_size, uint8_t *out, uint32_t out_size) {
    return s2_decode(bytes_of(block, block_size), out, out_size) == STATUS_OK ? 0 : -1;
}
