/* taking.c: the receiver's side of copying.h. */
#include "base/check.h"
#include "store/append.h"
#include "store/copying.h"
#include "store/core.h"
#include "store/dedupe.h"
#include "store/message.h"
#include "store/overlay.h"
#include "store/record.h"

#define TAKE_STEPS 1024u               /* records, or messages that go, of one call */
#define TAKE_TIME_MAX (INT64_MAX >> 2) /* more is no true time: no sum of times overflows */
#define TAKE_HEAD 38u                  /* of a message, before its texts */

typedef struct taken_message {
    uint64_t seq;
    int64_t born;
    append_t append;
} taken_message_t;

/* ---- messages and records that the sender has not ---------------------------------------------------------------- */

/* Of its own messages behind clean_seq, those up to `upto`. */
static status_t take_out(store_stream_t *stream, taking_t *taking, uint64_t upto, uint32_t *steps) {
    while (taking->clean_seq < upto) {
        message_row_t found;
        uint32_t budget = 1;
        uint64_t from = taking->clean_seq + 1;
        if (*steps == 0) {
            return STATUS_AGAIN;
        }
        (*steps)--;
        switch (message_next_some(stream, &from, upto, true, &budget, &found)) {
        case SEEK_UNKNOWN: return STATUS_IO;
        case SEEK_NONE: taking->clean_seq = upto; return STATUS_OK;
        case SEEK_MORE: taking->clean_seq = from - 1; continue;
        case SEEK_FOUND: break;
        }
        uint64_t seq = found.seq;
        if (!found.sound) { /* what is not known to be another one stays, and is looked at when it is read */
            store_corrupt(stream->store, stream, stream->id, seq, "a message");
            taking->clean_seq = seq;
            continue;
        }
        status_t status = store_delete_any(stream, seq);
        if (status != STATUS_OK) {
            return status == STATUS_FULL ? STATUS_AGAIN : status;
        }
        taking->clean_seq = seq;
    }
    return STATUS_OK;
}

static status_t take_run(store_stream_t *stream, taking_t *taking, uint64_t from, uint64_t upto, uint32_t *steps) {
    if (from == 0 || upto < from || upto > taking->have_seq || from <= taking->clean_seq || taking->cleaned) {
        return STATUS_CORRUPT;
    }
    status_t status = take_out(stream, taking, from - 1, steps);
    if (status == STATUS_OK) {
        taking->clean_seq = upto;
    }
    return status;
}

static bool is_copied(uint8_t kind) {
    return memchr(copied_kinds, kind, sizeof copied_kinds) != NULL;
}

static status_t take_out_records(const store_stream_t *stream) {
    uint8_t id[4];
    store_be32(id, stream->id);
    for (uint32_t i = 0; i < sizeof copied_kinds; i++) {
        status_t status = store_record_delete_prefix(stream->store, copied_kinds[i], bytes_of(id, sizeof id));
        if (status != STATUS_OK) {
            return status == STATUS_FULL ? STATUS_AGAIN : status;
        }
    }
    return STATUS_OK;
}

/* Behind the last run. */
static status_t take_clean(store_stream_t *stream, taking_t *taking, uint32_t *steps) {
    status_t status = taking->cleaned ? STATUS_OK : take_out(stream, taking, taking->have_seq, steps);
    status = status == STATUS_OK && !taking->cleaned ? take_out_records(stream) : status;
    taking->cleaned = status == STATUS_OK;
    return status;
}

/* ---- messages and records that come ------------------------------------------------------------------------------ */

static status_t put_id(store_stream_t *stream, bytes_t id, uint64_t seq, int64_t born) {
    if (stream->config.duplicate_window_ns <= 0 || id.size == 0) {
        return STATUS_OK;
    }
    if (!overlay_fits(stream->store, dedupe_need(id))) {
        return STATUS_AGAIN;
    }
    dedupe_put(stream, id, seq, born);
    return STATUS_OK;
}

/* At its own time, so that stamp and age are those that it has there. */
static status_t put_copied(store_stream_t *stream, const taken_message_t *taken) {
    append_t append = taken->append;
    store_stream_time(stream, taken->born, append.force_ts);
    appended_t appended = store_append_timed(stream, &append);
    if (appended.verdict == APPEND_DUPLICATE) { /* the window was shorter when it came */
        append.msg_id = BYTES_NONE;
        status_t status = put_id(stream, taken->append.msg_id, taken->seq, taken->born);
        if (status != STATUS_OK) {
            return status;
        }
        appended = store_append_timed(stream, &append);
    }
    switch (appended.verdict) {
    case APPEND_STORED: return STATUS_OK;
    case APPEND_NO_SPACE:
    case APPEND_NO_ALLOWANCE:
    case APPEND_LATER: return STATUS_AGAIN;
    default: return STATUS_CORRUPT;
    }
}

static status_t put_expiry(store_stream_t *stream, int64_t expires, uint64_t seq) {
    if (!overlay_fits(stream->store, OP_HEADER_SIZE + EXPIRY_KEY_SIZE + VALUE_CRC_SIZE)
        || expire_reserve(stream, 1) != STATUS_OK) {
        return STATUS_AGAIN;
    }
    expiry_write(stream, expires, seq);
    return STATUS_OK;
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

static bool front(bytes_t *left, uint32_t size, bytes_t *out) {
    if (size > left->size) {
        return false;
    }
    *out = bytes_of(left->at, size);
    *left = bytes_after(*left, size);
    return true;
}

static bool front_sized(bytes_t *left, bytes_t *out) {
    bytes_t size = BYTES_NONE;
    return front(left, 2, &size) && front(left, load_be16(size.at), out);
}

static status_t read_copied(bytes_t *left, taken_message_t *taken) {
    bytes_t head = BYTES_NONE;
    append_t append = {0};
    if (!front(left, TAKE_HEAD, &head)) {
        return STATUS_CORRUPT;
    }
    const uint8_t *at = head.at;
    if (!front(left, load_be16(at + 26), &append.msg_id) || !front(left, load_be16(at + 28), &append.subject)
        || !front(left, load_be32(at + 30), &append.header) || !front(left, load_be32(at + 34), &append.payload)) {
        return STATUS_CORRUPT;
    }
    append.force_seq = load_be64(at + 1);
    append.force_ts = (int64_t)load_be64(at + 9);
    append.expires_ts = (at[25] & MESSAGE_NEVER) != 0 ? -1 : 0;
    append.due_ts = (at[25] & MESSAGE_SCHEDULE) != 0 ? -1 : 0;
    *taken = (taken_message_t){.seq = append.force_seq, .born = (int64_t)load_be64(at + 17), .append = append};
    bool sane = taken->seq != 0 && taken->seq < UINT64_MAX && append.force_ts > 0 && append.force_ts <= TAKE_TIME_MAX
                && taken->born >= 0 && taken->born <= TAKE_TIME_MAX;
    return sane ? STATUS_OK : STATUS_CORRUPT;
}

static status_t take_copied(store_stream_t *stream, bytes_t *left) {
    taken_message_t taken;
    status_t status = read_copied(left, &taken);
    if (status == STATUS_OK && taken.seq <= stream->log.last_seq) {
        return STATUS_CORRUPT;
    }
    return status == STATUS_OK ? put_copied(stream, &taken) : status;
}

static status_t take_copied_id(store_stream_t *stream, bytes_t *left) {
    bytes_t head = BYTES_NONE;
    bytes_t id = BYTES_NONE;
    if (!front(left, 17, &head) || !front_sized(left, &id)) {
        return STATUS_CORRUPT;
    }
    return put_id(stream, id, load_be64(head.at + 1), (int64_t)load_be64(head.at + 9));
}

static status_t take_one_record(const store_stream_t *stream, bytes_t *left) {
    uint8_t full[KEY_RECORD_MAX];
    bytes_t head = BYTES_NONE;
    bytes_t key = BYTES_NONE;
    bytes_t value = BYTES_NONE;
    if (!front(left, 8, &head) || !is_copied(head.at[1]) || !front(left, load_be16(head.at + 2), &key)
        || !front(left, load_be32(head.at + 4), &value) || key.size > sizeof full - 4) {
        return STATUS_CORRUPT;
    }
    store_be32(full, stream->id);
    (void)bytes_write(full + 4, key);
    status_t status = store_record_put(stream->store, head.at[1], bytes_of(full, 4 + key.size), value);
    return status == STATUS_FULL || status == STATUS_NO_MEMORY ? STATUS_AGAIN : status;
}

static status_t take_end(taking_t *taking, bytes_t *left) {
    bytes_t what = BYTES_NONE;
    if (!front(left, 1, &what) || !front_sized(left, &taking->numbers) || !front_sized(left, &taking->note)) {
        return STATUS_CORRUPT;
    }
    taking->whole = true;
    return STATUS_OK;
}

static status_t take_pair(store_stream_t *stream, taking_t *taking, bytes_t *left, uint32_t *steps) {
    bytes_t pair = BYTES_NONE;
    if (!front(left, 17, &pair)) {
        return STATUS_CORRUPT;
    }
    uint64_t first = load_be64(pair.at + 1);
    uint64_t second = load_be64(pair.at + 9);
    if (pair.at[0] == 'R') {
        return take_run(stream, taking, first, second, steps);
    }
    uint64_t most = (second & EXPIRY_SCHEDULE) != 0 ? INT64_MAX : TAKE_TIME_MAX; /* a schedule may be for any year */
    return first > most ? STATUS_CORRUPT : put_expiry(stream, (int64_t)first, second);
}

/* Its caller has it made. The part stays where it is until then. */
static status_t take_definition(taking_t *taking, bytes_t *left) {
    bytes_t head = BYTES_NONE;
    if (!front(left, 5, &head) || !front(left, load_be32(head.at + 1), &taking->definition)) {
        return STATUS_CORRUPT;
    }
    taking->defines = taking->definition.size > 0 && !taking->defined;
    return taking->defines ? STATUS_AGAIN : STATUS_OK;
}

static status_t take_one(store_stream_t *stream, taking_t *taking, bytes_t *left, uint32_t *steps) {
    uint8_t what = left->at[0];
    status_t status = what == 'R' || what == 'D' ? STATUS_OK : take_clean(stream, taking, steps);
    if (status != STATUS_OK) {
        return status;
    }
    switch (what) {
    case 'D': return take_definition(taking, left);
    case 'R':
    case 'X': return take_pair(stream, taking, left, steps);
    case 'M': return take_copied(stream, left);
    case 'I': return take_copied_id(stream, left);
    case 'C': return take_one_record(stream, left);
    case 'E': return take_end(taking, left);
    default: return STATUS_CORRUPT;
    }
}

status_t store_take(store_stream_t *stream, taking_t *taking, bytes_t *part) {
    uint32_t steps = TAKE_STEPS;
    while (part->size > 0) {
        bytes_t left = *part;
        if (taking->whole) {
            return STATUS_CORRUPT;
        }
        if (steps == 0) {
            return STATUS_AGAIN;
        }
        steps--;
        status_t status = take_one(stream, taking, &left, &steps);
        if (status != STATUS_OK) {
            return status;
        }
        *part = left;
    }
    return STATUS_OK;
}

status_t store_take_end(store_stream_t *stream, const taking_t *taking) {
    log_t said;
    check(taking->whole);
    if (log_read(&said, taking->numbers) != STATUS_OK || said.messages != stream->log.messages
        || said.bytes != stream->log.bytes || said.last_seq < stream->log.last_seq || said.last_seq == UINT64_MAX) {
        return STATUS_CORRUPT;
    }
    if (!overlay_fits(stream->store, STREAM_PROMISE)) {
        return STATUS_FULL;
    }
    log_copied(stream, &said);
    return STATUS_OK;
}
