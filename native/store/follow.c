/* follow.c: see follow.h. The newest message of a pattern, when the answer may not take longer than a turn.
 *
 *     among the last few messages --> known at once
 *     the walk of all subjects ends within its first slice --> known
 *     it does not --> the pattern is followed: each question goes on with the walk where the last one stopped
 *                     (STEP_MORE), and from its end on the answer is there at once
 *
 * What comes in while a pattern is followed is held against it (follows_appended), whether the walk has come to that
 * subject or not. When the newest goes, the walk begins again with the next question. A pattern that nobody asks for
 * is followed no longer.
 */
#include "store/follow.h"

#include <stdlib.h>

#include "text/subject.h"

#define FOLLOWS_MAX 1024  /* of one stream: at least as many as an atomic batch has messages */
#define FOLLOW_IDLE 20000 /* messages since anybody asked */
#define FOLLOW_STEPS 1024 /* subjects that one question looks at */

struct follow {
    follow_t *next;
    store_newest_t search;
    bool known;
    uint64_t newest; /* of the subjects that the search has come to, and of what came in since it began */
    uint32_t idle;
    bytes_t pattern; /* own, behind the struct */
};

/* ---- what happens meanwhile -------------------------------------------------------------------------------------- */

static void follow_drop(follow_t **place) {
    follow_t *follow = *place;
    *place = follow->next;
    store_newest_end(&follow->search);
    free(follow);
}

void follows_appended(store_stream_t *stream, uint64_t seq, bytes_t subject) {
    for (follow_t **place = &stream->follows; *place != NULL;) {
        follow_t *follow = *place;
        if (++follow->idle > FOLLOW_IDLE) {
            follow_drop(place);
            continue;
        }
        if (seq > follow->newest && subject_matches(subject, follow->pattern)) {
            follow->newest = seq;
        }
        place = &follow->next;
    }
}

static void follow_again(follow_t *follow) {
    store_newest_end(&follow->search);
    follow->newest = 0;
    follow->known = false;
}

void follows_removed(store_stream_t *stream, uint64_t seq) {
    for (follow_t *follow = stream->follows; follow != NULL; follow = follow->next) {
        if (follow->newest == seq) {
            follow_again(follow);
        }
    }
}

void follows_emptied(store_stream_t *stream) {
    for (follow_t *follow = stream->follows; follow != NULL; follow = follow->next) {
        follow_again(follow);
    }
}

void follows_end(store_stream_t *stream) {
    while (stream->follows != NULL) {
        follow_drop(&stream->follows);
    }
}

/* ---- following a pattern ----------------------------------------------------------------------------------------- */

static follow_t *follow_find(const store_stream_t *stream, bytes_t pattern) {
    follow_t *follow = stream->follows;
    while (follow != NULL && !bytes_equal(follow->pattern, pattern)) {
        follow = follow->next;
    }
    return follow;
}

/* The one that was not asked for the longest makes room. */
static void follow_make_room(store_stream_t *stream) {
    follow_t **stalest = &stream->follows;
    uint32_t count = 0;
    for (follow_t **place = &stream->follows; *place != NULL; place = &(*place)->next) {
        stalest = (*place)->idle > (*stalest)->idle ? place : stalest;
        count++;
    }
    if (count >= FOLLOWS_MAX) {
        follow_drop(stalest);
    }
}

static follow_t *follow_begin(store_stream_t *stream, bytes_t pattern) {
    follow_make_room(stream);
    follow_t *follow = malloc(sizeof *follow + pattern.size);
    if (follow == NULL) {
        return NULL;
    }
    uint8_t *own = (uint8_t *)(follow + 1);
    memcpy(own, pattern.at, pattern.size);
    *follow = (follow_t){.next = stream->follows, .pattern = bytes_of(own, pattern.size)};
    stream->follows = follow;
    return follow;
}

/* One slice. */
static seek_outcome_t follow_search(store_stream_t *stream, store_newest_t *search, bytes_t pattern, uint64_t *seq) {
    bool first = !search->begun;
    seek_outcome_t outcome = store_newest(stream, search, pattern, UINT64_MAX, FOLLOW_STEPS, seq);
    switch (outcome) {
    case SEEK_UNKNOWN:
    case SEEK_NONE:
    case SEEK_FOUND: return outcome;
    case SEEK_MORE: break;
    }
    return first ? store_newest(stream, search, pattern, UINT64_MAX, FOLLOW_STEPS, seq) : outcome;
}

static step_outcome_t follow_on(store_stream_t *stream, follow_t *follow) {
    uint64_t seq = 0;
    step_outcome_t step = STEP_UNKNOWN;
    switch (follow_search(stream, &follow->search, follow->pattern, &seq)) {
    case SEEK_UNKNOWN: store_newest_end(&follow->search); return step;
    case SEEK_MORE: step = STEP_MORE; break;
    case SEEK_NONE:
    case SEEK_FOUND:
        step = STEP_OVER;
        follow->known = true;
        store_newest_end(&follow->search);
        break;
    }
    follow->newest = seq > follow->newest ? seq : follow->newest;
    return step;
}

step_outcome_t follow_newest(store_stream_t *stream, bytes_t pattern, uint32_t *searches, bool keep, uint64_t *seq) {
    follow_t *follow = follow_find(stream, pattern);
    bool begins = follow == NULL;
    step_outcome_t step = STEP_OVER;
    *seq = 0;
    if (begins || !follow->known) {
        if (*searches == 0) {
            return STEP_MORE;
        }
        --*searches;
        follow = begins ? follow_begin(stream, pattern) : follow;
        if (follow == NULL) {
            return STEP_UNKNOWN;
        }
        step = follow_on(stream, follow);
    }
    follow->idle = 0;
    *seq = follow->newest;
    if (begins && follow->known && !keep) {
        follow_drop(&stream->follows);
    }
    return step;
}
