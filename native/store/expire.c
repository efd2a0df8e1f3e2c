/* expire.c: messages out by time: max_age and a message's own time to live, on the age clock, in steps of a tick. How
 * one message goes, and what else limits a stream: limits.c. What is not known to be due waits.
 */
#include "base/check.h"
#include "base/number.h"
#include "store/message.h"
#include "store/overlay.h"

#define DEADLINE_STEPS 64 /* over deleted ones, for the next one that max_age takes: the rest in later turns */

void expire_open(store_stream_t *stream) {
    stream->aging.aged = stream->log.first_seq;
}

void expire_filled(store_stream_t *stream, uint64_t seq) {
    stream->aging.aged = seq < stream->aging.aged ? seq : stream->aging.aged;
}

void expire_look_again(store_stream_t *stream) {
    stream->aging.next = 0;
}

status_t expire_reserve(store_stream_t *stream, uint64_t times) {
    return expiries_reserve(&stream->aging.expiries, times);
}

void expiry_write(store_stream_t *stream, int64_t expires, uint64_t seq) {
    store_key_t key;
    key_expiry(&key, stream->id, expires, seq);
    uint8_t *value = overlay_put(stream->store, DB_EXPIRY, key_bytes(&key), VALUE_CRC_SIZE, false, NULL);
    value_seal(key_bytes(&key), value, VALUE_CRC_SIZE);
    expiries_push(&stream->aging.expiries, (expiry_t){.expires = expires, .seq = seq});
}

void expiry_adopt(store_stream_t *stream, expiry_t entry) {
    expiries_push(&stream->aging.expiries, entry);
}

/* Forgets a stream's time in the heap, which is passed over when it comes up: this may be called from within such a
 * time. */
void expire_forget(store_stream_t *stream) {
    uint8_t id[4];
    store_key_t end;
    store_be32(id, stream->id);
    bytes_t all = bytes_of(id, sizeof id);
    check(prefix_end(all, &end));
    overlay_delete_range(stream->store, DB_EXPIRY, all, key_bytes(&end));
}

void expire_rotate(store_stream_t *stream) {
    expiries_rotate(&stream->aging.expiries);
}

void expire_free(store_stream_t *stream) {
    expiries_free(&stream->aging.expiries);
}

void expire_drop(store_stream_t *stream) {
    expiries_drop(&stream->aging.expiries);
    expire_look_again(stream);
}

/* Walks from the oldest message on. Stamps ascend, so the first one that is young enough ends it; exempt ones are
 * stepped over once. */
static bool expire_aged(store_stream_t *stream, int64_t age_now, uint32_t *steps) {
    int64_t limit = age_now - stream->config.max_age_ns;
    if (log_first_known(stream) && stream->aging.aged <= stream->log.first_seq && stream->log.first_born > limit) {
        return true;
    }
    while (*steps > 0) {
        message_row_t found;
        uint64_t from = stream->aging.aged > stream->log.first_seq ? stream->aging.aged : stream->log.first_seq;
        switch (message_next_some(stream, &from, stream->log.last_seq, false, steps, &found)) {
        case SEEK_UNKNOWN: return false;
        case SEEK_NONE: return true;
        case SEEK_MORE: stream->aging.aged = from; return true; /* all of these are gone */
        case SEEK_FOUND: break;
        }
        bool exempt = found.sound && (found.message.flags & MESSAGE_NEVER) != 0;
        if (found.sound && !exempt && found.message.born > limit) {
            return true;
        }
        if (!exempt) {
            if (marker_or_remove(stream, &found, steps) != STATUS_OK) {
                return false;
            }
        }
        stream->aging.aged = found.seq + 1;
    }
    return true;
}

/* LMDB's first expiry entry behind what is done. */
static read_outcome_t lmdb_expiry(store_stream_t *stream, int64_t *expires, uint64_t *seq) {
    store_key_t from;
    bytes_t key = BYTES_NONE;
    bytes_t value = BYTES_NONE;
    if (stream->notes.hidden_until != 0) {
        return READ_NONE;
    }
    key_expiry(&from, stream->id, stream->aging.done, stream->aging.done_seq + 1);
    read_outcome_t outcome = env_seek(stream->store->env, DB_EXPIRY, key_bytes(&from), &key, &value);
    switch (outcome) {
    case READ_UNKNOWN:
    case READ_NONE: return outcome;
    case READ_FOUND: break;
    }
    if (key.size != EXPIRY_KEY_SIZE || load_be32(key.at) != stream->id) {
        return READ_NONE;
    }
    *expires = (int64_t)load_be64(key.at + 4);
    *seq = load_be64(key.at + 12);
    return READ_FOUND;
}

/* false: not now, and it stays due. */
static bool expire_one(store_stream_t *stream, int64_t expires, uint64_t seq, uint32_t *steps) {
    message_row_t found;
    if ((seq & EXPIRY_SCHEDULE) != 0) {
        return schedule_due(stream, seq & ~EXPIRY_SCHEDULE, expires);
    }
    switch (message_find(stream, seq, false, &found)) {
    case READ_UNKNOWN: return false;
    case READ_NONE: return true;
    case READ_FOUND: break;
    }
    return !found.sound || (found.message.flags & MESSAGE_GONE) != 0
           || marker_or_remove(stream, &found, steps) == STATUS_OK;
}

/* Firing a schedule is a message put together and stored, and a look at its pattern. A marker is stored, too. */
static void steps_spend(const store_stream_t *stream, uint32_t *steps, uint64_t seq) {
    uint32_t cost = (seq & EXPIRY_SCHEDULE) != 0 ? LOOK_STEPS_SCHEDULE : stream->config.marker_ttl_ns > 0 ? 4 : 1;
    *steps = (uint32_t)number_less(*steps, cost);
}

static bool expire_in_lmdb(store_stream_t *stream, int64_t age_now, uint32_t *steps) {
    int64_t expires = INT64_MAX;
    uint64_t seq = 0;
    bool any = false;
    bool room = true;
    store_key_t from;
    key_expiry(&from, stream->id, stream->aging.done, stream->aging.done_seq);
    for (; *steps > 0; steps_spend(stream, steps, seq)) {
        bool is_due = false;
        switch (lmdb_expiry(stream, &expires, &seq)) {
        case READ_UNKNOWN:
            room = false;
            expires = 0; /* the next look asks again */
            break;
        case READ_NONE: expires = INT64_MAX; break;
        case READ_FOUND: is_due = expires <= age_now; break;
        }
        if (!is_due) {
            break;
        }
        room = overlay_fits(stream->store, REMOVAL_NEED) && expire_one(stream, expires, seq, steps);
        if (!room) {
            break;
        }
        stream->aging.done = expires;
        stream->aging.done_seq = seq;
        any = true;
    }
    stream->aging.next = expires;
    if (any) {
        store_key_t to;
        key_expiry(&to, stream->id, stream->aging.done, stream->aging.done_seq + 1);
        overlay_delete_range(stream->store, DB_EXPIRY, key_bytes(&from), key_bytes(&to));
    }
    return room;
}

bool limits_expire(store_stream_t *stream, int64_t age_now, uint32_t *steps) {
    bool room = stream->config.max_age_ns <= 0 || stream->log.messages == 0 || expire_aged(stream, age_now, steps);
    for (const expiry_t *next; *steps > 0;) {
        next = expiries_first(&stream->aging.expiries);
        if (next == NULL || next->expires > age_now) {
            break;
        }
        /* A marker's own expiry and a schedule's next time are pushed meanwhile: they are still to come, so this one
         * stays the first. */
        expiry_t first = *next;
        if (!overlay_fits(stream->store, REMOVAL_NEED) || !expire_one(stream, first.expires, first.seq, steps)) {
            return false;
        }
        expiries_pop(&stream->aging.expiries);
        steps_spend(stream, steps, first.seq);
    }
    if (*steps > 0 && stream->aging.next <= age_now) {
        return expire_in_lmdb(stream, age_now, steps) && room;
    }
    return room;
}

bool limits_expire_in_order(store_stream_t *stream, int64_t age_now, uint32_t *steps) {
    if (stream->config.max_age_ns > 0 && stream->log.messages > 0
        && (!expire_aged(stream, age_now, steps) || *steps == 0)) {
        return false;
    }
    while (*steps > 0) {
        int64_t expires = INT64_MAX;
        uint64_t seq = 0;
        bool stored = false;
        switch (lmdb_expiry(stream, &expires, &seq)) {
        case READ_UNKNOWN: return false;
        case READ_NONE: expires = INT64_MAX; break;
        case READ_FOUND: stored = true; break;
        }
        stream->aging.next = expires;
        const expiry_t *young = expiries_first(&stream->aging.expiries);
        bool old =
            stored && (young == NULL || expires < young->expires || (expires == young->expires && seq < young->seq));
        if ((!old && young == NULL) || (old ? expires : young->expires) > age_now) {
            return true;
        }
        if (old) {
            uint32_t one = 1;
            if (!expire_in_lmdb(stream, expires, &one) || stream->aging.done_seq != seq) {
                return false;
            }
            (*steps)--;
            continue;
        }
        expiry_t first = *young;
        if (!overlay_fits(stream->store, REMOVAL_NEED) || !expire_one(stream, first.expires, first.seq, steps)) {
            return false;
        }
        expiries_pop(&stream->aging.expiries);
        steps_spend(stream, steps, first.seq);
    }
    return false;
}

/* The next message that max_age will take, as far as it is known without looking: where the walk stands. */
static int64_t aged_deadline(store_stream_t *stream) {
    message_row_t found;
    if (stream->config.max_age_ns <= 0 || stream->log.messages == 0) {
        return INT64_MAX;
    }
    if (stream->aging.aged <= stream->log.first_seq && log_first_known(stream)) {
        return stream->log.first_born + stream->config.max_age_ns;
    }
    uint32_t steps = DEADLINE_STEPS;
    uint64_t from = stream->aging.aged;
    switch (message_next_some(stream, &from, stream->log.last_seq, false, &steps, &found)) {
    case SEEK_NONE: return INT64_MAX;
    case SEEK_MORE:
    case SEEK_UNKNOWN: return 0; /* not known yet: the next look goes on */
    case SEEK_FOUND: break;
    }
    return found.sound ? found.message.born + stream->config.max_age_ns : 0;
}

int64_t limits_deadline_known(store_stream_t *stream) {
    int64_t expires = INT64_MAX;
    uint64_t seq = 0;
    if (stream->aging.next == 0) {
        switch (lmdb_expiry(stream, &expires, &seq)) {
        case READ_UNKNOWN: break; /* looked for again */
        case READ_NONE: stream->aging.next = INT64_MAX; break;
        case READ_FOUND: stream->aging.next = expires; break;
        }
    }
    return limits_deadline(stream);
}

int64_t limits_deadline(store_stream_t *stream) {
    int64_t deadline = aged_deadline(stream);
    const expiry_t *first = expiries_first(&stream->aging.expiries);
    if (first != NULL && first->expires < deadline) {
        deadline = first->expires;
    }
    return stream->aging.next < deadline ? stream->aging.next : deadline;
}
