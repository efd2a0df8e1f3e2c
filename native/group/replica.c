/* replica.c: see replica.h. */
#include "group/replica.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/hash.h"
#include "group/changes.h"
#include "group/replica_entry.h"
#include "group/replica_private.h"
#include "store/room.h"
#include "store/timeline.h"

#define ENTRY_VERSION 1
#define TOKEN_TIME UINT64_MAX
#define TIME_NS (100 * NS_PER_MS) /* TIME entries of one stream are no closer */
#define WRITING_KEEP (UINT64_C(64) << 10)
#define BEHIND_HEAD 4u
#define PURGE_TURNS 2 /* steps of a purge in one call: a thousand messages in a tick */

typedef enum entry_what {
    ENTRY_APPEND = 1,
    ENTRY_DELETE,
    ENTRY_PURGE,
    ENTRY_TIME,
    ENTRY_CHANGES,
    ENTRY_DEFINE,
    ENTRY_BATCH,
    ENTRY_FIRE,
    ENTRY_NOTED,
    ENTRY_FAST
} entry_what_t;

/* ---- proposals --------------------------------------------------------------------------------------------------- */

static int64_t lead_age(const replica_t *replica, moment_t now) {
    return replica->lead_age + (now.mono_ns - replica->lead_ns);
}

/* When it was last known that the group has a leader. */
static int64_t known_ns(const replica_t *replica) {
    int64_t heard_ns = group_heard_ns(replica->group);
    return heard_ns > replica->led_ns ? heard_ns : replica->led_ns;
}

/* Without an entry an age grows all the same, while there is a leader. */
static bool may_lead(replica_t *replica, moment_t now) {
    bool ready = !replica->stuck && group_ready(replica->group);
    if (ready && !replica->leads) {
        replica->lead_age = store_stream_age(replica->stream) + (known_ns(replica) - replica->applied_ns);
        replica->lead_ns = now.mono_ns;
    }
    replica->leads = ready;
    replica->led_ns = ready ? now.mono_ns : replica->led_ns;
    return ready;
}

/* Room for an entry with so many bytes behind its head; NULL: there is no memory. */
static uint8_t *entry_begin_write(replica_t *replica, entry_what_t what, uint64_t size, moment_t now) {
    uint8_t *at;
    replica->writing.size = 0;
    if (buffer_reserve(&replica->writing, ENTRY_HEAD + size, &at) != STATUS_OK) {
        return NULL;
    }
    at[0] = ENTRY_VERSION;
    at[1] = (uint8_t)what;
    store_be64(at + 2, (uint64_t)lead_age(replica, now));
    store_be64(at + 10, (uint64_t)now.wall_ns);
    replica->writing.size = ENTRY_HEAD + size;
    return at + ENTRY_HEAD;
}

static status_t entry_propose(replica_t *replica, uint64_t token) {
    status_t status =
        group_propose(replica->group, bytes_of(replica->writing.at, (uint32_t)replica->writing.size), token);
    replica->writing.size = 0;
    buffer_trim(&replica->writing, WRITING_KEEP);
    return status;
}

uint64_t replica_fits(const replica_t *replica, const append_t *append, entry_numbers_t *numbers) {
    entry_numbers(append, numbers);
    uint64_t size = entry_append_size(append, numbers);
    bool sane = append->expires_ts >= -1 && append->expires_ts <= (int64_t)ENTRY_TIME_MAX && append->force_ts >= 0
                && append->force_ts <= (int64_t)ENTRY_TIME_MAX && append->due_ts >= 0
                && append->source_key.size <= SOURCE_KEY_MAX;
    return sane && size != 0 && replica_takes(replica, size) ? size : 0;
}

bool replica_takes(const replica_t *replica, uint64_t body_size) {
    return store_ledger_takes(store_stream_store(replica->stream), ENTRY_HEAD + body_size);
}

status_t replica_publish(replica_t *replica, const append_t *append, uint64_t token, moment_t now) {
    entry_numbers_t numbers;
    uint64_t size = replica_fits(replica, append, &numbers);
    check(token <= REPLICA_TOKEN_MAX);
    if (size == 0 || now.wall_ns < 0) {
        return STATUS_INVALID;
    }
    uint8_t *at = may_lead(replica, now) ? entry_begin_write(replica, ENTRY_APPEND, size, now) : NULL;
    if (at == NULL) {
        return STATUS_AGAIN;
    }
    entry_append_write(at, append, &numbers);
    return entry_propose(replica, token);
}

/* first: what its entry has before the message. */
static status_t publish_behind(replica_t *replica, entry_what_t what, bytes_t first, const append_t *append,
                               uint64_t token, moment_t now) {
    entry_numbers_t numbers;
    uint64_t size = replica_fits(replica, append, &numbers);
    check(token <= REPLICA_TOKEN_MAX);
    if (size == 0 || now.wall_ns < 0 || !replica_takes(replica, BEHIND_HEAD + first.size + size)) {
        return STATUS_INVALID;
    }
    uint8_t *at =
        may_lead(replica, now) ? entry_begin_write(replica, what, BEHIND_HEAD + first.size + size, now) : NULL;
    if (at == NULL) {
        return STATUS_AGAIN;
    }
    store_be32(at, first.size);
    entry_append_write(bytes_write(at + BEHIND_HEAD, first), append, &numbers);
    return entry_propose(replica, token);
}

status_t replica_publish_noted(replica_t *replica, const append_t *append, bytes_t changes, uint64_t token,
                               moment_t now) {
    return publish_behind(replica, ENTRY_NOTED, changes, append, token, now);
}

status_t replica_publish_fast(replica_t *replica, const append_t *append, bytes_t words, uint64_t token, moment_t now) {
    return publish_behind(replica, ENTRY_FAST, words, append, token, now);
}

int64_t replica_age(replica_t *replica, moment_t now) {
    return may_lead(replica, now) ? lead_age(replica, now) : store_stream_age(replica->stream);
}

status_t replica_pack(const replica_t *replica, const append_t *append, buffer_t *packed) {
    entry_numbers_t numbers;
    uint64_t size = replica_fits(replica, append, &numbers);
    uint8_t *at;
    if (size == 0) {
        return STATUS_INVALID;
    }
    packed->size = 0;
    status_t status = buffer_reserve(packed, size, &at);
    if (status == STATUS_OK) {
        entry_append_write(at, append, &numbers);
        packed->size = size;
    }
    return status;
}

static status_t publish_packed(replica_t *replica, entry_what_t what, bytes_t packed, uint64_t token, moment_t now) {
    check(token <= REPLICA_TOKEN_MAX);
    uint8_t *at =
        may_lead(replica, now) && now.wall_ns >= 0 ? entry_begin_write(replica, what, packed.size, now) : NULL;
    if (at == NULL) {
        return STATUS_AGAIN;
    }
    (void)bytes_write(at, packed);
    return entry_propose(replica, token);
}

status_t replica_publish_packed(replica_t *replica, bytes_t packed, uint64_t token, moment_t now) {
    return publish_packed(replica, ENTRY_APPEND, packed, token, now);
}

status_t replica_publish_batch(replica_t *replica, bytes_t packed, uint64_t token, moment_t now) {
    return publish_packed(replica, ENTRY_BATCH, packed, token, now);
}

status_t replica_delete(replica_t *replica, uint64_t seq, uint64_t token, moment_t now) {
    check(token <= REPLICA_TOKEN_MAX);
    uint8_t *at = may_lead(replica, now) ? entry_begin_write(replica, ENTRY_DELETE, 8, now) : NULL;
    if (at == NULL) {
        return STATUS_AGAIN;
    }
    store_be64(at, seq);
    return entry_propose(replica, token);
}

status_t replica_purge(replica_t *replica, bytes_t filter, uint64_t below_seq, uint64_t keep, uint64_t token,
                       moment_t now) {
    check(token <= REPLICA_TOKEN_MAX);
    uint64_t size = 16 + (uint64_t)filter.size;
    uint8_t *at = may_lead(replica, now) ? entry_begin_write(replica, ENTRY_PURGE, size, now) : NULL;
    if (at == NULL) {
        return STATUS_AGAIN;
    }
    store_be64(at, below_seq);
    store_be64(at + 8, keep);
    (void)bytes_write(at + 16, filter);
    return entry_propose(replica, token);
}

status_t replica_fire(replica_t *replica, const replica_fired_t *fired, const append_t *append, moment_t now) {
    entry_numbers_t numbers = {0};
    uint64_t size = 0;
    if (append != NULL) {
        size = replica_fits(replica, append, &numbers);
        if (size == 0 || !replica_takes(replica, REPLICA_FIRE_HEAD + size)) {
            return STATUS_INVALID;
        }
    }
    uint8_t *at = may_lead(replica, now) && now.wall_ns >= 0
                      ? entry_begin_write(replica, ENTRY_FIRE, REPLICA_FIRE_HEAD + size, now)
                      : NULL;
    if (at == NULL) {
        return STATUS_AGAIN;
    }
    store_be64(at, fired->seq);
    store_be64(at + 8, (uint64_t)fired->due_ts);
    store_be64(at + 16, (uint64_t)fired->next_ts);
    if (append != NULL) {
        entry_append_write(at + REPLICA_FIRE_HEAD, append, &numbers);
    }
    return entry_propose(replica, REPLICA_NO_TOKEN);
}

status_t replica_define(replica_t *replica, bytes_t definition, uint64_t token, moment_t now) {
    check(token <= REPLICA_TOKEN_MAX);
    if (!replica_takes(replica, definition.size)) {
        return STATUS_INVALID;
    }
    uint8_t *at = may_lead(replica, now) ? entry_begin_write(replica, ENTRY_DEFINE, definition.size, now) : NULL;
    if (at == NULL) {
        return STATUS_AGAIN;
    }
    (void)bytes_write(at, definition);
    return entry_propose(replica, token);
}

status_t replica_change(replica_t *replica, const record_change_t *change) {
    uint64_t size = 32 + (uint64_t)change->value.size;
    if (!replica->leads) {
        return STATUS_AGAIN;
    }
    return replica_takes(replica, size) ? changes_add(&replica->changes, change) : STATUS_INVALID;
}

status_t replica_remove(replica_t *replica, uint64_t seq) {
    return replica->leads ? changes_add_removal(&replica->changes, seq) : STATUS_AGAIN;
}

uint64_t replica_coming(const replica_t *replica) {
    return replica->leads ? group_coming(replica->group) : 0;
}

bool replica_changes(const replica_t *replica) {
    return replica->changes.size > 0;
}

void replica_forget_changes(replica_t *replica) {
    replica->changes.size = 0;
}

status_t replica_propose_changes(replica_t *replica, uint64_t token, moment_t now) {
    bytes_t changes = bytes_of(replica->changes.at, (uint32_t)replica->changes.size);
    uint8_t *at = may_lead(replica, now) ? entry_begin_write(replica, ENTRY_CHANGES, changes.size, now) : NULL;
    if (at == NULL) {
        return STATUS_AGAIN;
    }
    (void)bytes_write(at, changes);
    status_t status = entry_propose(replica, token);
    if (status == STATUS_OK) {
        replica->changes.size = 0;
        buffer_trim(&replica->changes, WRITING_KEEP);
    }
    return status;
}

void replica_turn(replica_t *replica, moment_t now) {
    copier_turn(replica, now);
    if (!may_lead(replica, now) || replica->timing || now.mono_ns - replica->timed_ns < TIME_NS
        || store_stream_due(replica->stream) > lead_age(replica, now)
        || entry_begin_write(replica, ENTRY_TIME, 0, now) == NULL) {
        return;
    }
    replica->timed_ns = now.mono_ns;
    replica->timing = true; /* the answer may come at once */
    if (entry_propose(replica, TOKEN_TIME) != STATUS_OK) {
        replica->timing = false;
    }
}

static int64_t time_deadline(replica_t *replica, moment_t now) {
    int64_t due = may_lead(replica, now) ? store_stream_due(replica->stream) : INT64_MAX;
    if (due == INT64_MAX || replica->timing) {
        return INT64_MAX;
    }
    int64_t soonest = replica->timed_ns + TIME_NS;
    int64_t at = now.mono_ns;
    if (due > lead_age(replica, now) && __builtin_add_overflow(at, due - lead_age(replica, now), &at)) {
        return INT64_MAX; /* a schedule of another age of the world */
    }
    return at > soonest ? at : soonest;
}

int64_t replica_deadline(replica_t *replica, moment_t now) {
    int64_t copier = copier_deadline(replica, now);
    int64_t time = time_deadline(replica, now);
    return copier < time ? copier : time;
}

/* ---- applying ---------------------------------------------------------------------------------------------------- */

bool replica_purging(replica_t *replica, raft_index_t index, bytes_t filter, uint64_t below_seq, uint64_t keep,
                     uint64_t left) {
    if (replica->purging != index) {
        replica->purging = index;
        replica->purged = 0;
        replica->purge = (store_purge_t){.below_seq = below_seq, .keep = keep, .left = left};
    }
    replica->purge.filter = filter; /* the bytes of this call's */
    for (unsigned turn = 0; turn < PURGE_TURNS; turn++) {
        uint64_t purged = 0;
        step_outcome_t step;
        if (store_purge(replica->stream, &replica->purge, &purged, &step) != STATUS_OK) {
            return false;
        }
        replica->purged += purged;
        switch (step) {
        case STEP_UNKNOWN: return false;
        case STEP_MORE: continue;
        case STEP_OVER: break;
        }
        store_purge_end(&replica->purge);
        replica->purging = 0;
        replica->last.purged = replica->purged;
        return true;
    }
    return false;
}

bool replica_own_reason(append_verdict_t verdict) {
    return verdict == APPEND_NO_SPACE || verdict == APPEND_NO_ALLOWANCE || verdict == APPEND_LATER
           || verdict == APPEND_STOPPED;
}

/* Whatever comes of it, it did not take a sequence, and never will. */
static bool is_passed_over(append_verdict_t verdict) {
    return verdict == APPEND_DUPLICATE || verdict == APPEND_BAD_SUBJECT || verdict == APPEND_TOO_LARGE
           || verdict == APPEND_HEADER_TOO_LARGE;
}

appended_t replica_append(replica_t *replica, const append_t *append) {
    const replica_hooks_t *hooks = &replica->hooks;
    append_t counted = *append;
    append_verdict_t verdict = hooks->count != NULL ? hooks->count(hooks->context, NULL, &counted) : APPEND_STORED;
    if (verdict != APPEND_STORED) {
        return (appended_t){.verdict = verdict};
    }
    return hooks->append != NULL ? hooks->append(hooks->context, &counted, false)
                                 : store_append_timed(replica->stream, &counted);
}

/* The message that was judged last is in the stream, and something is still to follow from that. */
static bool append_goes_on(const replica_t *replica, const append_t *append) {
    return replica->last.appended.rolling != 0 || (replica_took_place(replica) && replica_ends(replica, append));
}

bool replica_roll(replica_t *replica, raft_index_t index, const append_t *append) {
    uint64_t seq = replica->rolling_seq;
    bytes_t filter = append->rollup == 1 ? append->subject : BYTES_NONE;
    replica->last.appended = (appended_t){
        .verdict = append->skip ? APPEND_SKIPPED : APPEND_STORED, .seq = seq, .ts = store_stream_wall(replica->stream)};
    return append->rollup == 0 || replica_purging(replica, index, filter, seq, 0, seq);
}

static bool apply_append(replica_t *replica, raft_index_t index, const append_t *append) {
    uint64_t size = (uint64_t)append->subject.size + append->header.size + append->payload.size;
    read_outcome_t goes_on = replica->rolling != index ? replica_source_goes_on(replica, append) : READ_FOUND;
    switch (goes_on) {
    case READ_UNKNOWN: return false;
    case READ_NONE: replica->last.appended.verdict = APPEND_OUT_OF_ORDER; return true;
    case READ_FOUND: break;
    }
    if (append->subject.size == 0 && append->source_key.size > 0) {
        replica->last.appended.verdict = APPEND_BAD_SUBJECT;
        return replica_source_came(replica, append);
    }
    if (replica->rolling != index) {
        if (size > room_message_max(store_stream_store(replica->stream))) {
            return false; /* this server's journal is smaller than the leader's */
        }
        replica->last.appended = replica_append(replica, append);
        if (replica_own_reason(replica->last.appended.verdict)) {
            return replica->last.appended.verdict == APPEND_NO_SPACE
                   && store_stream_never_fits(replica->stream, append, 0) && replica_source_came(replica, append);
        }
        if (is_passed_over(replica->last.appended.verdict)) {
            return replica_source_came(replica, append);
        }
        if (!append_goes_on(replica, append)) {
            return true;
        }
        replica->rolling = index;
        replica->rolling_seq = replica->last.appended.seq;
    }
    if (!replica_roll(replica, index, append) || !replica_end(replica, append)) {
        return false;
    }
    replica->rolling = replica->rolling_seq = 0;
    return true;
}

/* What publish_behind wrote. */
static bool behind_read(bytes_t body, bytes_t *first, append_t *append) {
    if (body.size < BEHIND_HEAD || load_be32(body.at) > body.size - BEHIND_HEAD) {
        return false;
    }
    *first = bytes_of(body.at + BEHIND_HEAD, load_be32(body.at));
    return entry_append_read(bytes_after(body, BEHIND_HEAD + first->size), append);
}

static status_t apply_fast(replica_t *replica, raft_index_t index, bytes_t body) {
    append_t append;
    bytes_t words;
    if (!behind_read(body, &words, &append)) {
        return STATUS_INVALID;
    }
    if (!apply_append(replica, index, &append)) {
        return STATUS_AGAIN;
    }
    if (replica->hooks.followed != NULL && !group_waits_for(replica->group, index)) {
        replica->hooks.followed(replica->hooks.context, words, &replica->last.appended);
    }
    return STATUS_OK;
}

/* STATUS_INVALID: these are no such bytes. The changes come first, and again with each try. */
static status_t apply_noted(replica_t *replica, raft_index_t index, bytes_t body) {
    append_t append;
    bytes_t changes;
    if (!behind_read(body, &changes, &append)) {
        return STATUS_INVALID;
    }
    status_t status = replica->rolling != index ? changes_apply(replica->stream, changes) : STATUS_OK;
    if (status != STATUS_OK) {
        return status;
    }
    if (!apply_append(replica, index, &append)) {
        return STATUS_AGAIN;
    }
    bool taken = replica_took_place(replica) || replica->last.appended.verdict == APPEND_DUPLICATE;
    return taken ? STATUS_OK : changes_take_back(replica->stream, changes);
}

static bool apply_delete(replica_t *replica, uint64_t seq) {
    status_t status = store_delete(replica->stream, seq);
    replica->last.found = status == STATUS_OK;
    return status == STATUS_OK || status == STATUS_NOT_FOUND;
}

void replica_defined(replica_t *replica, bytes_t definition) {
    replica->defined = replica->defined || replica->defining == (hash_bytes(definition.at, definition.size) | 1);
}

bool replica_is_defined(replica_t *replica, bytes_t definition) {
    const replica_hooks_t *hooks = &replica->hooks;
    uint64_t hash = hash_bytes(definition.at, definition.size) | 1;
    if (hooks->define == NULL) {
        return true;
    }
    if (replica->defining != hash) {
        replica->defining = hash; /* it may be made at once */
        replica->defined = false;
        replica->defining = hooks->define(hooks->context, definition) ? hash : 0;
    }
    bool defined = replica->defined && replica->defining == hash;
    replica->defining = defined ? 0 : replica->defining;
    return defined;
}

static bool apply_entry(replica_t *replica, raft_index_t index, entry_what_t what, bytes_t body) {
    append_t append;
    status_t status = STATUS_INVALID;
    switch (what) {
    case ENTRY_APPEND:
        if (entry_append_read(body, &append)) {
            return apply_append(replica, index, &append);
        }
        break;
    case ENTRY_DELETE:
        if (body.size == 8) {
            return apply_delete(replica, load_be64(body.at));
        }
        break;
    case ENTRY_PURGE:
        if (body.size >= 16) {
            return replica_purging(replica, index, bytes_after(body, 16), load_be64(body.at), load_be64(body.at + 8),
                                   0);
        }
        break;
    case ENTRY_DEFINE: return replica_is_defined(replica, body);
    case ENTRY_BATCH: status = replica_apply_batch(replica, index, body); break;
    case ENTRY_FIRE: status = replica_apply_fire(replica, index, body); break;
    case ENTRY_NOTED: status = apply_noted(replica, index, body); break;
    case ENTRY_FAST: status = apply_fast(replica, index, body); break;
    case ENTRY_TIME: return store_stream_pass(replica->stream) == STATUS_OK;
    case ENTRY_CHANGES: status = changes_apply(replica->stream, body); break;
    }
    replica->stuck = replica->stuck || status == STATUS_INVALID;
    return status == STATUS_OK;
}

void replica_time(replica_t *replica, int64_t age, int64_t wall) {
    store_stream_time(replica->stream, age, wall);
    replica->applied_ns = replica->group == NULL ? 0 : known_ns(replica); /* NULL: replica_join says it */
}

static bool replica_apply(void *context, raft_index_t index, bytes_t bytes) {
    replica_t *replica = context;
    if (replica->stuck || replica->copier.half || store_stream_settle(replica->stream) != STATUS_OK) {
        return false;
    }
    if (bytes.size < ENTRY_HEAD || bytes.at[0] != ENTRY_VERSION || load_be64(bytes.at + 2) > ENTRY_TIME_MAX
        || load_be64(bytes.at + 10) > ENTRY_TIME_MAX) {
        replica->stuck = true;
        return false;
    }
    replica->last = (replica_outcome_t){.index = index};
    replica_time(replica, (int64_t)load_be64(bytes.at + 2), (int64_t)load_be64(bytes.at + 10));
    bool applied = apply_entry(replica, index, (entry_what_t)bytes.at[1], bytes_after(bytes, ENTRY_HEAD));
    replica_note(replica);
    return applied;
}

static void replica_answer(void *context, uint64_t token, bool applied) {
    replica_t *replica = context;
    if (token == TOKEN_TIME) {
        replica->timing = false;
        return;
    }
    if (token == REPLICA_NO_TOKEN) {
        return;
    }
    replica->hooks.answered(replica->hooks.context, token, applied ? &replica->last : NULL);
}

/* ---- opening and closing a replica ------------------------------------------------------------------------------- */

replica_t *replica_open(store_stream_t *stream, replica_hooks_t hooks) {
    replica_t *replica = calloc(1, sizeof *replica);
    if (replica != NULL) {
        *replica = (replica_t){.stream = stream, .hooks = hooks};
        buffer_init(&replica->writing, UINT32_MAX);
        copier_begin(replica);
        buffer_init(&replica->changes, UINT32_MAX);
        store_stream_time(stream, 0, 0);
    }
    return replica;
}

static void replica_news(void *context) {
    const replica_t *replica = context;
    if (replica->hooks.news != NULL) {
        replica->hooks.news(replica->hooks.context);
    }
}

void replica_hook(replica_t *replica, group_hooks_t *hooks) {
    hooks->context = replica;
    hooks->apply = replica_apply;
    hooks->answer = replica_answer;
    hooks->copying = copier_offer;
    hooks->heard = copier_hear;
    hooks->news = replica_news;
}

void replica_join(replica_t *replica, group_t *group) {
    replica->group = group;
    replica->applied_ns = group_heard_ns(group);
    replica->stuck = !replica_noted(replica, group_noted(group));
    group_halve(group, replica->copier.half);
}

void replica_close(replica_t *replica) {
    if (replica != NULL) {
        copier_end(replica);
        replica_batch_end(replica);
        store_purge_end(&replica->purge);
        buffer_free(&replica->writing);
        buffer_free(&replica->changes);
        free(replica);
    }
}

bool replica_half(const replica_t *replica) {
    return replica->copier.half;
}

bool replica_stuck(const replica_t *replica) {
    return replica->stuck;
}
