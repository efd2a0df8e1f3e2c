/* scan.c: what readers ask of a stream's messages: one, the next one that matches, the first one of a time, which
 * sequences are deleted. In steps, which are the reader's budget. Changes nothing; where messages are is read.c's.
 */
#include "text/subject.h"
#include "store/message.h"

void message_row_out(const message_row_t *found, stored_message_t *out) {
    *out = (stored_message_t){.seq = found->seq,
                              .ts = found->message.ts,
                              .subject = found->message.subject,
                              .header = found->message.header,
                              .payload = found->message.payload};
}

/* A message is damaged. Until it is copied from other servers it is not known here, so nobody passes it over or says
 * that it is not there. */
static bool damaged_for_now(store_stream_t *stream, uint64_t seq) {
    store_corrupt(stream->store, stream, stream->id, seq, "a message");
    return stream_is_shared(stream);
}

entry_outcome_t store_read(store_stream_t *stream, uint64_t seq, stored_message_t *out) {
    message_row_t found;
    entry_outcome_t outcome = message_judge(message_find(stream, seq, true, &found), &found);
    switch (outcome) {
    case ENTRY_UNKNOWN:
    case ENTRY_NONE: return outcome;
    case ENTRY_DAMAGED: return damaged_for_now(stream, seq) ? ENTRY_UNKNOWN : outcome;
    case ENTRY_FOUND: break;
    }
    if ((found.message.flags & MESSAGE_GONE) != 0) {
        return ENTRY_NONE;
    }
    message_row_out(&found, out);
    return ENTRY_FOUND;
}

/* Finds the range in which a filter's messages can lie: narrows [from, upto] by the heads of literal filters. false:
 * nowhere. */
static bool filters_narrow(store_stream_t *stream, filters_t filters, uint64_t *from, uint64_t *upto) {
    uint64_t lowest = UINT64_MAX;
    uint64_t highest = 0;
    if (filters.count == 0 || filters.count > 8) {
        return true;
    }
    for (uint32_t i = 0; i < filters.count; i++) {
        head_t head;
        if (subject_has_wildcard(filters.patterns[i])) {
            return true;
        }
        switch (head_look(stream, filters.patterns[i], &head)) {
        case READ_UNKNOWN: return true; /* not narrower than it was */
        case READ_NONE: break;
        case READ_FOUND:
            lowest = number_least(head.first, lowest);
            highest = number_most(head.last, highest);
            break;
        }
    }
    *from = lowest > *from ? lowest : *from;
    *upto = highest < *upto ? highest : *upto;
    return *from <= *upto;
}

seek_outcome_t next_counted(store_stream_t *stream, filters_t filters, uint64_t *from, uint64_t upto, uint32_t *budget,
                            stored_message_t *out) {
    uint64_t last = upto;
    if (!filters_narrow(stream, filters, from, &last)) {
        return SEEK_NONE;
    }
    while (*budget > 0) {
        message_row_t found;
        seek_outcome_t outcome = message_next_some(stream, from, last, true, budget, &found);
        switch (outcome) {
        case SEEK_UNKNOWN:
        case SEEK_NONE:
        case SEEK_MORE: return outcome;
        case SEEK_FOUND: break;
        }
        *from = found.seq;
        if (!found.sound) {
            if (damaged_for_now(stream, found.seq)) {
                return SEEK_UNKNOWN;
            }
        } else if (filters_match(filters, found.message.subject)) {
            message_row_out(&found, out);
            return SEEK_FOUND;
        }
        *from = found.seq + 1;
    }
    return SEEK_MORE;
}

seek_outcome_t store_next(store_stream_t *stream, filters_t filters, uint64_t *from, uint64_t upto, uint32_t budget,
                          stored_message_t *out) {
    return next_counted(stream, filters, from, upto, &budget, out);
}

/* Stamps never run backwards within a stream, whatever the clock does (append.c), and what a deleted message leaves has
 * its stamp, so the place is found by halves, by the first message of a half whose stamp can be read. What may be long
 * is the row of deleted messages behind it. */
seek_outcome_t store_seq_at_time(store_stream_t *stream, int64_t ts, uint32_t budget, uint64_t *seq) {
    uint64_t high = stream->log.last_seq + 1;
    *seq = stream->log.first_seq; /* below it all is older; the place is in [*seq, high] */
    while (*seq < high) {
        uint64_t middle = *seq + (high - *seq) / 2;
        message_row_t found;
        bool later = true;
        switch (message_stamp(stream, middle, high - 1, &budget, &found)) {
        case READ_UNKNOWN: return SEEK_UNKNOWN;
        case READ_NONE: break;
        case READ_FOUND: later = found.message.ts >= ts; break;
        }
        if (later) {
            high = middle;
        } else {
            *seq = found.seq + 1;
        }
    }
    while (budget > 0) {
        message_row_t found;
        seek_outcome_t outcome = message_next_some(stream, seq, stream->log.last_seq, false, &budget, &found);
        switch (outcome) {
        case SEEK_UNKNOWN:
        case SEEK_NONE:
        case SEEK_MORE: return outcome;
        case SEEK_FOUND: break;
        }
        *seq = found.seq;
        if (found.sound && found.message.ts >= ts) {
            return SEEK_FOUND;
        }
        ++*seq;
    }
    return SEEK_MORE;
}

step_outcome_t store_deleted(store_stream_t *stream, uint64_t *from, uint64_t upto, uint32_t budget,
                             bool (*visit)(void *context, uint64_t seq), void *context) {
    upto = upto > stream->log.last_seq ? stream->log.last_seq : upto;
    *from = *from < stream->log.first_seq ? stream->log.first_seq : *from;
    uint32_t looks = budget; /* apart from visits: a row of links that is longer than the budget must still end */
    while (*from <= upto) {
        message_row_t found;
        uint64_t at = *from;
        uint64_t alive = upto + 1;
        bool more = false;
        switch (message_next_some(stream, &at, upto, false, &looks, &found)) {
        case SEEK_UNKNOWN: return STEP_UNKNOWN;
        case SEEK_NONE: break;
        case SEEK_MORE:
            alive = at;
            more = true;
            break;
        case SEEK_FOUND: alive = found.seq; break;
        }
        for (; *from < alive; ++*from) {
            if (budget-- == 0) {
                return STEP_MORE;
            }
            if (!visit(context, *from)) {
                return STEP_OVER;
            }
        }
        if (more) {
            return STEP_MORE;
        }
        *from = alive + 1;
    }
    return STEP_OVER;
}
