/* fill.c: see fill.h. A message is put below the last sequence: the only place where the log does not grow at its end.
 *
 * Everything else in the store counts on a subject's chain, so the message is joined to it on both sides. Its neighbour
 * above is written anew, with another link and no other change:
 *
 *     before    | below | <------------- previous -------------- | above |
 *     after     | below | <-- previous -- | message | <-- previous -- | above |
 *
 * The neighbour is looked for from two ends at once, in steps: back along the chain from the subject's newest message,
 * and forward over the stream from the hole.
 *
 * Where a message of the hole is there and damaged (mending.c) it is counted, and its neighbour above leads to it: that
 * one message is written anew. The neighbour below is looked for back over the stream.
 *
 * Until a checkpoint is there both lie in the overlay, in a list of their own (notes.h): LMDB's cursor does not look
 * there, and the overlay's other messages are all behind LMDB's last. That it is seen before it is on disk does no
 * harm: after a crash the hole is there again, and the origin still has the message.
 *
 * Not here: which holes there are (recovery/rebuild.c), who asks the origin (links/holes.py).
 */
#include "store/fill.h"

#include "base/check.h"
#include "base/number.h"
#include "store/charge.h"
#include "store/follow.h"
#include "store/message.h"
#include "store/overlay.h"
#include "store/reckon.h"
#include "store/record.h"
#include "store/retention.h"
#include "text/subject.h"

#define FILL_STEPS 1024 /* from each end, in one call */
#define HEADER_MAX 65535

typedef struct filling {
    store_stream_t *stream;
    const append_t *append;
    message_record_t message;
    uint64_t bytes;
    head_t head;
    message_row_t above; /* its neighbour; seq 0: none */
    bool replaces;       /* one that is damaged, and that all numbers count */
    int64_t expires;
} filling_t;

/* ---- holes ------------------------------------------------------------------------------------------------------- */

void hole_key(uint8_t key[HOLE_KEY_SIZE], uint32_t stream, uint64_t upto) {
    store_be32(key, stream);
    store_be64(key + 4, upto);
}

void hole_write(uint8_t value[HOLE_SIZE], const hole_t *hole) {
    store_be64(value, hole->from);
    value[8] = hole->certain;
}

bool hole_read(bytes_t key, bytes_t value, hole_t *hole) {
    if (key.size != HOLE_KEY_SIZE || value.size != HOLE_SIZE) {
        return false;
    }
    *hole = (hole_t){.from = load_be64(value.at), .upto = load_be64(key.at + 4), .certain = value.at[8] != 0};
    return hole->from <= hole->upto && hole->from != 0;
}

static status_t hole_find(store_stream_t *stream, uint64_t upto, hole_t *hole) {
    uint8_t key[HOLE_KEY_SIZE];
    bytes_t value = BYTES_NONE;
    hole_key(key, stream->id, upto);
    switch (store_record_get(stream->store, RECORD_HOLE, bytes_of(key, sizeof key), &value)) {
    case ENTRY_UNKNOWN: return STATUS_IO;
    case ENTRY_NONE: return STATUS_NOT_FOUND;
    case ENTRY_DAMAGED: return STATUS_CORRUPT;
    case ENTRY_FOUND: break;
    }
    return hole_read(bytes_of(key, sizeof key), value, hole) ? STATUS_OK : STATUS_CORRUPT;
}

/* Moves the hole's begin behind seq. */
static status_t hole_advance(store_stream_t *stream, const hole_t *hole, uint64_t seq) {
    uint8_t key[HOLE_KEY_SIZE];
    uint8_t value[HOLE_SIZE];
    hole_key(key, stream->id, hole->upto);
    if (seq >= hole->upto) {
        reckon_hole(stream, false);
        return store_record_delete(stream->store, RECORD_HOLE, bytes_of(key, sizeof key));
    }
    const hole_t rest = {.from = seq + 1, .upto = hole->upto, .certain = hole->certain};
    hole_write(value, &rest);
    return store_record_put(stream->store, RECORD_HOLE, bytes_of(key, sizeof key), bytes_of(value, sizeof value));
}

/* Only a start makes holes, in LMDB itself: the overlay moves and ends those that are there. */
status_t store_holes_forget(store_stream_t *stream) {
    uint8_t id[4];
    store_key_t first;
    bytes_t key = BYTES_NONE;
    bytes_t value = BYTES_NONE;
    store_be32(id, stream->id);
    bytes_t prefix = bytes_of(id, sizeof id);
    key_record(&first, RECORD_HOLE, prefix);
    while (stream->doubt.holes > 0) {
        reckon_hole(stream, false);
    }
    switch (env_seek(stream->store->env, DB_RECORDS, key_bytes(&first), &key, &value)) {
    case READ_UNKNOWN: return STATUS_IO;
    case READ_NONE: return STATUS_OK;
    case READ_FOUND: break;
    }
    return bytes_starts(key, key_bytes(&first)) ? store_record_delete_prefix(stream->store, RECORD_HOLE, prefix)
                                                : STATUS_OK;
}

/* ---- does a message fit the hole? -------------------------------------------------------------------------------- */

static bool fits_form(const filling_t *filling) {
    const append_t *append = filling->append;
    const stream_config_t *config = &filling->stream->config;
    uint64_t size = (uint64_t)append->header.size + append->payload.size;
    return subject_storable(append->subject) && append->subject.size <= UINT16_MAX && append->header.size <= HEADER_MAX
           && size + append->subject.size <= room_message_max(filling->stream->store)
           && (config->max_msg_size < 0 || size <= (uint64_t)config->max_msg_size);
}

/* Judges by the stream's limits: a message that they would have taken by now stays away, and so does one that a
 * consumer may have acknowledged. Of a subject's newest some may be missing still: a full one takes it, and its oldest
 * goes. */
static bool fits_limits(const filling_t *filling, int64_t wall_now) {
    const store_stream_t *stream = filling->stream;
    const stream_config_t *config = &stream->config;
    const log_t *log = &stream->log;
    bool never = filling->append->expires_ts < 0;
    bool oldest = log->messages == 0 || filling->append->force_seq < log->first_seq;
    bool full = config->max_msgs > 0 && log->messages >= (uint64_t)config->max_msgs;
    full = full || (config->max_bytes > 0 && log->bytes + filling->bytes > (uint64_t)config->max_bytes);
    full = full && !filling->replaces;
    return !retention_traits(config)->acks_remove && (config->flags & STREAM_SEALED) == 0
           && !(full && (oldest || config->discard == 1))
           && (config->max_age_ns <= 0 || never || filling->append->force_ts > wall_now - config->max_age_ns)
           && (filling->append->expires_ts <= 0 || filling->append->expires_ts > wall_now)
           && (config->max_msgs_per_subject <= 0 || filling->replaces
               || filling->head.count < (uint64_t)config->max_msgs_per_subject
               || filling->append->force_seq > filling->head.first);
}

/* Is the sequence free, and was it lost? Below the first message only the hole right before that one is: of another one
 * the limits have gone over what lay behind it. */
static status_t look_at_place(filling_t *filling, const hole_t *hole, bool *free) {
    store_stream_t *stream = filling->stream;
    uint64_t seq = filling->append->force_seq;
    store_key_t key;
    batch_op_t op;
    uint64_t position;
    message_row_t found;
    *free = false;
    if (seq > stream->log.last_seq || stream->log.first_open) {
        return seq > stream->log.last_seq ? STATUS_OK : STATUS_FULL;
    }
    if (seq < stream->log.first_seq) {
        *free = stream->log.first_seq <= hole->upto + 1;
        return STATUS_OK;
    }
    key_message(&key, stream->id, seq);
    switch (message_find(stream, seq, false, &found)) {
    case READ_UNKNOWN: return STATUS_IO;
    case READ_NONE:
        *free = !memtable_find(&stream->store->memtable, DB_MESSAGES, key_bytes(&key), &op, &position);
        break;
    case READ_FOUND: filling->replaces = *free = !found.sound; break;
    }
    return STATUS_OK;
}

/* A mirror has its origin's stamps, which never run backwards: one that does not fit between its neighbours' is of
 * another stream, under the same name. A source's message comes with one that fits. Where they are too far away nothing
 * is known against it. */
static status_t look_at_stamps(const filling_t *filling, bool *fits) {
    store_stream_t *stream = filling->stream;
    uint64_t seq = filling->append->force_seq;
    uint64_t from = seq + 1;
    uint32_t steps = FILL_STEPS;
    message_row_t found;
    *fits = true;
    switch (message_next_some(stream, &from, stream->log.last_seq, false, &steps, &found)) {
    case SEEK_UNKNOWN: return STATUS_IO;
    case SEEK_NONE:
    case SEEK_MORE: break;
    case SEEK_FOUND: *fits = !found.sound || found.message.ts >= filling->append->force_ts; break;
    }
    from = seq - 1;
    if (!*fits || from < stream->log.first_seq) {
        return STATUS_OK;
    }
    steps = FILL_STEPS;
    switch (message_back_some(stream, &from, &steps, &found)) {
    case SEEK_UNKNOWN: return STATUS_IO;
    case SEEK_NONE:
    case SEEK_MORE: break;
    case SEEK_FOUND: *fits = !found.sound || found.message.ts <= filling->append->force_ts; break;
    }
    return STATUS_OK;
}

/* ---- the neighbours on the subject ------------------------------------------------------------------------------- */

/* One of the subject's messages. A chain that leads to none is damaged. */
static status_t above_find(const filling_t *filling, uint64_t seq, message_row_t *above) {
    switch (message_judge(message_find(filling->stream, seq, true, above), above)) {
    case ENTRY_UNKNOWN: return STATUS_IO;
    case ENTRY_NONE:
    case ENTRY_DAMAGED: return STATUS_CORRUPT;
    case ENTRY_FOUND: break;
    }
    return STATUS_OK;
}

/* Back along the chain, down to the lowest link above the message. */
static status_t seek_back(const filling_t *filling, uint64_t *at, message_row_t *above) {
    uint64_t seq = filling->append->force_seq;
    for (uint32_t steps = 0; steps < FILL_STEPS; steps++) {
        status_t status = above_find(filling, *at, above);
        if (status != STATUS_OK) {
            return status;
        }
        bool gone = (above->message.flags & MESSAGE_GONE) != 0;
        uint64_t before = above->message.previous;
        if ((!gone && !bytes_equal(above->message.subject, filling->append->subject)) || before >= *at
            || before == seq) {
            return STATUS_CORRUPT;
        }
        if (before < seq) {
            return STATUS_OK;
        }
        *at = before;
    }
    return STATUS_AGAIN;
}

/* Forward over the stream, to a message of the subject from which the chain is short. */
static seek_outcome_t seek_forward(const filling_t *filling, uint64_t *at, uint64_t *near) {
    uint32_t steps = FILL_STEPS;
    message_row_t found;
    while (steps > 0) {
        seek_outcome_t outcome = message_next_some(filling->stream, at, filling->head.last, true, &steps, &found);
        switch (outcome) {
        case SEEK_UNKNOWN:
        case SEEK_NONE:
        case SEEK_MORE: return outcome;
        case SEEK_FOUND: break;
        }
        if (found.sound && bytes_equal(found.message.subject, filling->append->subject)) {
            *near = found.seq;
            return SEEK_FOUND;
        }
        *at = found.seq + 1;
    }
    return SEEK_MORE;
}

/* The neighbour below one that is damaged. What is damaged itself is passed over: whose subject it has nobody knows. */
static status_t find_older(filling_t *filling) {
    store_stream_t *stream = filling->stream;
    uint64_t seq = filling->append->force_seq;
    const head_t *head = &filling->head;
    uint64_t at = stream->notes.fills.seek_of == seq ? stream->notes.fills.seek_back : seq - 1;
    uint32_t steps = FILL_STEPS;
    message_row_t found;
    if (head->count == 0 || head->first > seq || head->last < seq) {
        return STATUS_CORRUPT; /* such a message is not counted */
    }
    filling->message.previous = 0;
    while (head->count > 1 && at >= head->first && at != 0) {
        switch (message_back_some(stream, &at, &steps, &found)) {
        case SEEK_UNKNOWN: return STATUS_IO;
        case SEEK_NONE: return STATUS_OK;
        case SEEK_MORE: notes_seek(stream, seq, at, seq + 1); return STATUS_AGAIN;
        case SEEK_FOUND: break;
        }
        if (found.seq < head->first) {
            break;
        }
        if (found.sound && bytes_equal(found.message.subject, filling->append->subject)) {
            filling->message.previous = found.seq;
            break;
        }
        at = found.seq - 1;
    }
    notes_seek(stream, 0, 0, 0);
    return STATUS_OK;
}

/* STATUS_CORRUPT: the chain is broken, and where the message belongs cannot be known. */
static status_t find_neighbours(filling_t *filling) {
    store_stream_t *stream = filling->stream;
    if (filling->replaces) {
        return find_older(filling);
    }
    uint64_t seq = filling->append->force_seq;
    fills_t *fills = &stream->notes.fills;
    if (filling->head.count == 0 || filling->head.last < seq) {
        filling->message.previous = filling->head.count > 0 ? filling->head.last : 0;
        return STATUS_OK;
    }
    if (fills->seek_of != seq || fills->seek_back > filling->head.last) {
        notes_seek(stream, seq, filling->head.last, seq + 1);
    }
    uint64_t back = fills->seek_back;
    uint64_t forward = fills->seek_forward;
    status_t status = seek_back(filling, &back, &filling->above);
    if (status == STATUS_AGAIN && forward < back) {
        uint64_t near = back;
        switch (seek_forward(filling, &forward, &near)) {
        case SEEK_UNKNOWN: status = STATUS_IO; break;
        case SEEK_NONE: status = STATUS_CORRUPT; break;
        case SEEK_MORE: break;
        case SEEK_FOUND: back = near < back ? near : back; status = seek_back(filling, &back, &filling->above);
        }
    }
    notes_seek(stream, status == STATUS_AGAIN ? seq : 0, back, forward);
    filling->message.previous = status == STATUS_OK ? filling->above.message.previous : 0;
    return status;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static status_t find_room(const filling_t *filling) {
    store_stream_t *stream = filling->stream;
    store_t *store = stream->store;
    if (stream->log.stopped || store->trouble.io || stream_lacks(stream, filling->bytes) || store->trouble.space
        || (store->options.max_bytes != 0 && store->sums.bytes + filling->bytes > store->options.max_bytes)
        || notes_reserve(stream, 1, 1, 1) != STATUS_OK || notes_reserve_fills(stream) != STATUS_OK) {
        return STATUS_FULL;
    }
    uint64_t need = ROOM_EVICTION + STREAM_PROMISE + message_most(&filling->message)
                    + 2 * (uint64_t)filling->append->subject.size + 256;
    need += filling->above.seq != 0 ? message_most(&filling->above.message) + 64 : 0;
    bool fits = room_for(store, need) || (room_widen_for(store, need) && room_for(store, need));
    return fits ? STATUS_OK : STATUS_FULL;
}

static void write_one(store_stream_t *stream, uint64_t seq, message_record_t message, uint64_t *position) {
    store_key_t key;
    bool gone = (message.flags & MESSAGE_GONE) != 0;
    key_message(&key, stream->id, seq);
    message.flags |= gone ? 0 : MESSAGE_FILLED;
    uint8_t *value =
        overlay_put(stream->store, DB_MESSAGES, key_bytes(&key), message_size(seq, &message), gone, position);
    message_write(value, key_bytes(&key), &message);
    if (gone) {
        notes_deleted(stream, 1);
    } else {
        notes_fill(stream, seq, *position);
    }
}

static void filling_put(const filling_t *filling, head_entry_t *entry, int64_t age_now, int64_t wall_now) {
    store_stream_t *stream = filling->stream;
    uint64_t seq = filling->append->force_seq;
    uint64_t position;
    if (filling->above.seq != 0) {
        message_record_t above = filling->above.message;
        above.previous = seq;
        write_one(stream, filling->above.seq, above, &position);
    }
    write_one(stream, seq, filling->message, &position);
    if (filling->replaces) {
        read_filled(stream);
        reckon_disturb(stream); /* the commit before has a damaged one there */
        return;
    }
    head_t *head = &entry->head;
    if (head->count == 0) {
        log_subject_born(stream);
        notes_born(stream, position);
    }
    head->first = head->count == 0 || seq < head->first ? seq : head->first;
    head->last = head->count == 0 || seq > head->last ? seq : head->last;
    head->count++;
    head_change(stream, entry);
    log_fill(stream, seq, &filling->message, filling->bytes);
    read_filled(stream);
    expire_filled(stream, seq);
    if (filling->append->expires_ts > 0) {
        expiry_write(stream, age_now + (filling->append->expires_ts - wall_now), seq);
    }
}

static void filling_tell(const filling_t *filling) {
    store_stream_t *stream = filling->stream;
    const store_hooks_t *hooks = &stream->store->hooks;
    uint64_t seq = filling->append->force_seq;
    if (hooks->appended != NULL) {
        hooks->appended(hooks->context, stream, seq, filling->append->subject, log_text_bytes(&filling->message));
    }
    tallies_appended(stream, seq, filling->append->subject);
    follows_appended(stream, seq, filling->append->subject);
}

static void filling_begin(filling_t *filling, int64_t age_now, int64_t wall_now) {
    const append_t *append = filling->append;
    const stream_config_t *config = &filling->stream->config;
    int64_t age = wall_now > append->force_ts ? wall_now - append->force_ts : 0;
    filling->message = (message_record_t){.subject = append->subject,
                                          .header = append->header,
                                          .payload = append->payload,
                                          .ts = append->force_ts,
                                          .born = age_now - age};
    filling->message.flags = filling->stream->store->brief | (append->expires_ts < 0 ? MESSAGE_NEVER : 0);
    filling->message.flags |= (config->flags & STREAM_COMPRESS) != 0 ? MESSAGE_PACK : 0;
    filling->bytes = stream_message_bytes(filling->stream, &filling->message);
}

/* *wanted: false: nothing is to be put there. */
static status_t filling_judge(filling_t *filling, const hole_t *hole, int64_t wall_now, bool *wanted) {
    *wanted = filling->append->subject.size > 0 && fits_form(filling);
    status_t status = *wanted ? look_at_place(filling, hole, wanted) : STATUS_OK;
    if (status == STATUS_OK && *wanted) {
        switch (head_look(filling->stream, filling->append->subject, &filling->head)) {
        case READ_UNKNOWN: return STATUS_IO;
        case READ_NONE: filling->head = (head_t){0}; break;
        case READ_FOUND: break;
        }
        *wanted = fits_limits(filling, wall_now);
        status = *wanted ? look_at_stamps(filling, wanted) : STATUS_OK;
    }
    if (status == STATUS_OK && *wanted) {
        status = find_neighbours(filling);
        *wanted = status == STATUS_OK;
        status = status == STATUS_CORRUPT ? STATUS_OK : status;
    }
    return status;
}

status_t store_fill(store_stream_t *stream, uint64_t upto, const append_t *append, moment_t now, bool *stored) {
    store_t *store = stream->store;
    filling_t filling = {.stream = stream, .append = append};
    head_entry_t *entry = NULL;
    hole_t hole;
    *stored = false;
    store_clock(store, now);
    status_t status = hole_find(stream, upto, &hole);
    if (status != STATUS_OK) {
        return status;
    }
    if (append->force_seq < hole.from || append->force_seq > upto) {
        return STATUS_INVALID;
    }
    filling_begin(&filling, store->clock.age, now.wall_ns);
    bool wanted = false;
    status = filling_judge(&filling, &hole, now.wall_ns, &wanted);
    status = status == STATUS_OK && wanted ? find_room(&filling) : status;
    status = status == STATUS_OK && wanted ? head_fetch(stream, append->subject, &entry) : status;
    if (status == STATUS_OK && wanted && filling.above.seq != 0) { /* reading the head may have moved it in memory */
        status = above_find(&filling, filling.above.seq, &filling.above);
    }
    /* The hole's record is written before the message: that write may fail, and the writes behind it do not. */
    status = status == STATUS_OK ? hole_advance(stream, &hole, append->force_seq) : status;
    if (status == STATUS_OK && wanted) {
        filling_put(&filling, entry, store->clock.age, now.wall_ns);
        filling_tell(&filling);
        if (stream->config.max_msgs_per_subject > 0) {
            limits_subject(stream, append->subject, LIMIT_OWN);
        }
        limits_appended(stream, LIMIT_OWN_REST);
        *stored = true;
    }
    return status;
}
