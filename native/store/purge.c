/* purge.c: messages out by request: one by sequence, or many by subject, sequence and keep, in steps. */
#include "base/check.h"
#include "base/hash.h"
#include "base/subject.h"
#include "store/core.h"

#define REMOVAL_NEED 2048

status_t store_delete(store_stream_t *stream, uint64_t seq) {
    found_t found;
    status_t status = message_find(stream, seq, false, &found);
    if (status != STATUS_OK && status != STATUS_CORRUPT) {
        return status;
    }
    if (status == STATUS_OK && (found.message.flags & MESSAGE_GONE) != 0) {
        return STATUS_NOT_FOUND;
    }
    if (!overlay_fits(stream->store, REMOVAL_NEED)) {
        return STATUS_FULL;
    }
    message_remove(stream, &found, false);
    return STATUS_OK;
}

typedef struct purge {
    store_stream_t *stream;
    bytes_t filter;
    uint64_t below;
    uint64_t left; /* how many may still go */
    bool all;      /* no filter: from the front */
} purge_t;

static bool takes(const purge_t *purge, const found_t *found) {
    if (purge->all) {
        return true;
    }
    return found->sound && subject_matches(found->message.subject, purge->filter);
}

/* Which purge this is, so that the next step goes on where the last one stopped. */
static uint64_t mark_of(bytes_t filter, uint64_t below, uint64_t keep) {
    return (hash_bytes(filter.at, filter.size) ^ below * UINT64_C(0x9E3779B97F4A7C15) ^ keep * UINT64_C(0xD6E8FEB86659FD93)) | 1;
}

static uint64_t start_of(store_stream_t *stream, const purge_t *purge, uint64_t mark) {
    head_t head;
    if (purge->all) {
        return stream->first_seq;
    }
    if (stream->purge_mark == mark) {
        return stream->purge_at;
    }
    if (!subject_has_wildcard(purge->filter) && head_look(stream, purge->filter, &head)) {
        return head.first;
    }
    return stream->first_seq;
}

/* How many a new purge may take. Only a `keep` needs the exact number; otherwise it ends where nothing matches any more. */
static uint64_t limit_of(store_stream_t *stream, const purge_t *purge, uint64_t keep) {
    filters_t filters = {.patterns = &purge->filter, .count = purge->all ? 0 : 1};
    head_t head;
    if (keep > 0) {
        uint64_t matching = store_count(stream, filters, 0);
        return matching > keep ? matching - keep : 0;
    }
    if (!purge->all && !subject_has_wildcard(purge->filter)) {
        return head_look(stream, purge->filter, &head) ? head.count : 0;
    }
    return UINT64_MAX;
}

status_t store_purge(store_stream_t *stream, bytes_t filter, uint64_t below_seq, uint64_t keep, uint64_t *purged, bool *more) {
    purge_t purge = {.stream = stream, .filter = filter, .below = below_seq == 0 ? UINT64_MAX : below_seq};
    purge.all = filter.size == 0 || (filter.size == 1 && filter.at[0] == '>');
    *purged = 0;
    *more = false;
    uint64_t mark = mark_of(filter, below_seq, keep);
    purge.left = stream->purge_mark == mark ? stream->purge_left : limit_of(stream, &purge, keep);
    uint64_t from = start_of(stream, &purge, mark);
    uint64_t upto = purge.below - 1;
    for (uint32_t step = 0; purge.left > 0; step++) {
        found_t found;
        stream->purge_mark = mark;
        stream->purge_at = from;
        stream->purge_left = purge.left;
        if (step == STORE_STEP || !overlay_fits(stream->store, REMOVAL_NEED)) {
            *more = true;
            return STATUS_OK;
        }
        if (message_next(stream, from, upto, false, &found) != STATUS_OK) {
            break;
        }
        from = found.seq + 1;
        if (takes(&purge, &found)) {
            message_remove(stream, &found, true);
            purge.left--;
            ++*purged;
        }
    }
    stream->purge_mark = 0;
    stream->purged_empty = stream->purged_empty || (purge.all && stream->last_seq == 0);
    if (purge.all && keep == 0 && below_seq > stream->last_seq + 1 && overlay_fits(stream->store, REMOVAL_NEED)) {
        /* Beyond the end: the stream goes on at that sequence, as the reference does. */
        stream_touch(stream);
        stream->last_seq = below_seq - 1;
        stream->first_seq = below_seq;
        stream->first_known = false;
    }
    return STATUS_OK;
}
