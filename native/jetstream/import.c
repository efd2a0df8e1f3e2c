/* import.c: the messages of a backup into a stream, in bounded steps.
 *
 *   STREAM_IMPORT    a run of archive entries into the open batch; its completion waits for the disk, which paces the
 *                    sender
 *
 * Messages keep sequence and stamp; what follows from their headers (ids of the duplicate window, TTL, schedules, the
 * progress of sources) is made anew from them. Not here: making a backup (export.c), positions of
 * consumers (binding.c), chunks and compression (Python). Reference: tests/wire/jetstream.md, "Backup".
 */
#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/status.h"
#include "jetstream/commands.h"
#include "jetstream/js.h"
#include "jetstream/progress.h"
#include "jetstream/publish.h"
#include "jetstream/stream.h"
#include "store/append.h"
#include "store/store.h"
#include "text/headers.h"
#include "text/subject.h"
#include "text/text.h"
#include "text/ttl.h"
#include "wire/archive.h"

#define STEP_MESSAGES 4096u

typedef struct restore {
    js_t *js;
    stream_t *stream;
    uint64_t last_seq;
    text_t reason;     /* empty: nothing is wrong */
    bool full;         /* the store has no room: later, or never */
    bool lacks;        /* the account may not have so much */
    uint64_t left_out; /* messages whose subject is not valid */
    uint8_t key[PROGRESS_KEY_MAX];
} restore_t;

static bool refuse_entry(restore_t *restore, const char *front, uint64_t seq, const char *behind) {
    text_add_literal(&restore->reason, front);
    text_add_number(&restore->reason, seq);
    text_add_literal(&restore->reason, behind);
    return false;
}

/* Judges an entry by its numbers before the bytes have come, in the reference's order and words. */
static bool entry_acceptable(restore_t *restore, const archive_entry_t *entry) {
    uint64_t size = entry->header_size + entry->payload_size;
    int32_t most = restore->stream->config.max_msg_size;
    if (entry->seq == 0) {
        text_add_literal(&restore->reason, "expected message sequence");
        return false;
    }
    if (size > restore->js->limits->max_payload) {
        return refuse_entry(restore, "message sequence ", entry->seq, " exceeds maximum payload size");
    }
    if (most >= 0 && size > (uint64_t)most) {
        return refuse_entry(restore, "message sequence ", entry->seq, " exceeds maximum message size");
    }
    return true;
}

/* Nats-Stream-Source names what the message came of: the progress goes on with it. */
static void read_source(restore_t *restore, append_t *append) {
    bytes_t key;
    if (progress_named(append->header, restore->key, &key, &append->source_seq)) {
        append->source_key = key;
    }
}

static bool restore_ttl(restore_t *restore, const archive_entry_t *entry, append_t *append) {
    bytes_t value;
    if (!headers_find(append->header, BYTES_LITERAL("Nats-TTL"), &value)) {
        return true;
    }
    int64_t ttl_ns = 0;
    if (!ttl_parse(value, &ttl_ns)) {
        text_add_literal(&restore->reason, "failed to parse message TTL: invalid per-message TTL");
        return false;
    }
    int64_t expires = 0;
    if (ttl_ns < 0 || __builtin_add_overflow(entry->ts, ttl_ns, &expires)) {
        expires = -1;
    } else if (expires <= restore->js->now->wall_ns) {
        append->skip = true;
    }
    if ((restore->stream->config.flags & STREAM_ALLOW_TTL) != 0) {
        append->expires_ts = expires;
    }
    return true;
}

/* A schedule goes on; and so does the one that made the message, whose next time is told there. */
static bool restore_schedule(restore_t *restore, const archive_entry_t *entry, append_t *append) {
    if ((restore->stream->config.flags & STREAM_ALLOW_SCHEDULES) == 0
        || !headers_has_prefix(append->header, BYTES_LITERAL("Nats-Schedule"))) {
        return true;
    }
    append->due_ts = js_schedule_restored(append->header, entry->ts, restore->js->now->wall_ns);
    restore->full = js_schedule_resume(restore->js, restore->stream, append->header) != STATUS_OK;
    return !restore->full;
}

static bool restore_headers(restore_t *restore, const archive_entry_t *entry, append_t *append) {
    bytes_t value;
    if (append->header.size == 0 || !headers_has_prefix(append->header, BYTES_LITERAL("Nats-"))) {
        return true;
    }
    if (headers_find(append->header, BYTES_LITERAL("Nats-Msg-Id"), &value)) {
        append->msg_id = value;
    }
    if ((restore->stream->config.flags & STREAM_MIRROR) == 0) {
        read_source(restore, append);
    }
    return restore_ttl(restore, entry, append) && restore_schedule(restore, entry, append);
}

static bool restore_settle(restore_t *restore, const archive_entry_t *entry, append_verdict_t verdict) {
    switch (verdict) {
    case APPEND_STORED:
    case APPEND_SKIPPED: restore->last_seq = entry->seq; return true;
    case APPEND_NO_SPACE: restore->full = true; return false;
    case APPEND_NO_ALLOWANCE: restore->lacks = true; return false;
    case APPEND_OUT_OF_ORDER: return refuse_entry(restore, "message sequence ", entry->seq, " out of order");
    default: return refuse_entry(restore, "failed to store message sequence ", entry->seq, "");
    }
}

static bool import_entry(restore_t *restore, const archive_entry_t *entry) {
    append_t append = {
        .subject = entry->name, .header = entry->header, .payload = entry->payload, .force_seq = entry->seq};
    append.force_ts = entry->ts;
    if (entry->seq <= restore->last_seq) {
        return refuse_entry(restore, "message sequence ", entry->seq, " out of order");
    }
    if (!subject_valid_pattern(entry->name)) {
        return refuse_entry(restore, "failed to store message sequence ", entry->seq, ": invalid subject");
    }
    if (!subject_storable(
            entry
                ->name)) { /* nats-server and older versions stored it: the rest of the archive is not refused for it */
        append = (append_t){.skip = true, .force_seq = entry->seq, .force_ts = append.force_ts};
        restore->left_out++;
    } else if (!restore_headers(restore, entry, &append)) {
        return false;
    }
    appended_t appended = store_append(restore->stream->store, &append, *restore->js->now);
    if (appended.verdict == APPEND_DUPLICATE) {
        append.msg_id = BYTES_NONE; /* the window was shorter when it came */
        appended = store_append(restore->stream->store, &append, *restore->js->now);
    }
    return restore_settle(restore, entry, appended.verdict);
}

static bool is_end(const archive_entry_t *entry) {
    return entry->seq == 0 && entry->ts == 0 && entry->header_size == 0 && entry->payload_size == 0;
}

/* Takes what is whole; *needed: of the one that is not. */
static uint64_t import_run(restore_t *restore, bytes_t body, uint64_t *needed) {
    uint32_t used = 0;
    *needed = 0;
    for (uint32_t step = 0; step < STEP_MESSAGES && store_room(restore->js->stores[restore->stream->which_store]);
         step++) {
        archive_entry_t entry;
        uint64_t size;
        status_t status = archive_read(bytes_of(body.at + used, body.size - used), &entry, &size);
        if (status == STATUS_CORRUPT) {
            text_add_literal(&restore->reason, "archive: invalid archive stream");
            return used;
        }
        if (size != 0 && !is_end(&entry) && !entry_acceptable(restore, &entry)) {
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
        entry.ts = entry.ts > 0 ? entry.ts : 1; /* 0 would mean now, and none is older than 1970 */
        if (!import_entry(restore, &entry)) {
            return used;
        }
        used += (uint32_t)size;
    }
    return used;
}

static void import_padding(restore_t *restore, uint64_t upto, int64_t last_ts) {
    append_t append = {.skip = true, .force_seq = upto, .force_ts = last_ts != 0 ? last_ts : 1};
    if (upto > restore->last_seq
        && store_append(restore->stream->store, &append, *restore->js->now).verdict != APPEND_SKIPPED) {
        restore->full = true;
    }
}

void stream_import(js_t *js, const plane_command_t *command, stream_t *stream) {
    restore_t restore = {.js = js, .stream = stream};
    stream_state_t state;
    store_stream_state(stream->store, &state);
    restore.last_seq = state.last_seq;
    uint64_t used = 0;
    uint64_t needed = 0;
    if (command->body_size != 0) {
        used = import_run(&restore, bytes_of(command->body, command->body_size), &needed);
    } else {
        import_padding(&restore, command->arg, state.last_ts);
    }
    if (restore.reason.size != 0) {
        js_answer(js, command, STATUS_INVALID, 0, 0, text_shown(&restore.reason));
    } else if (restore.lacks) {
        js_done(js, command, STATUS_FULL);
    } else if (restore.full && used == 0) {
        js_done(js, command, STATUS_NO_SPACE);
    } else {
        const uint64_t told[2] = {needed, restore.left_out};
        js_done_durable(js, command, stream->which_store, used, bytes_of(told, sizeof(told)));
    }
}
