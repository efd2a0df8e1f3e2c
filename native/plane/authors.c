/* authors.c: see authors.h. The table is small and its places are taken at random when it is full, so that many authors
 * whose schedules are due at once all have their turn; it is made when the first author is asked for.
 */
#include "plane/authors.h"

#include <stdlib.h>

#include "base/copies.h"
#include "base/hash.h"
#include "base/random.h"
#include "exchange/exchange.h"
#include "plane/judge.h"
#include "route/permissions.h"

#define AUTHORS_MAX 64u
#define AUTHOR_SIZE_MAX 4096u
#define ASK_AGAIN_NS NS_PER_SECOND
#define ANSWER_NS (500 * NS_PER_MS) /* control answers within; at a start it takes longest */
#define TELL_NS NS_PER_SECOND       /* one line a second tells of firings that were refused */

typedef struct author {
    bytes_t text; /* own copy; empty: a free place */
    uint64_t hash;
    uint64_t ticket;
    int64_t asked_ns;
    uint32_t account;
    uint32_t rights; /* AUTHOR_*; 0: not answered yet */
    permissions_t *permissions;
} author_t;

struct authors {
    uint64_t tickets;
    int64_t told_ns;
    uint64_t untold;
    author_t at[AUTHORS_MAX];
};

static void author_drop(author_t *author) {
    bytes_release(&author->text);
    permissions_free(author->permissions);
    *author = (author_t){.account = 0};
}

void authors_forget(plane_t *plane) {
    for (uint32_t i = 0; plane->authors != NULL && i < AUTHORS_MAX; i++) {
        author_drop(&plane->authors->at[i]);
    }
}

static author_t *author_find(authors_t *authors, uint32_t account, bytes_t text, uint64_t hash) {
    for (uint32_t i = 0; i < AUTHORS_MAX; i++) {
        author_t *one = &authors->at[i];
        if (one->hash == hash && one->account == account && bytes_equal(one->text, text)) {
            return one;
        }
    }
    return NULL;
}

static author_t *author_place(plane_t *plane) {
    for (uint32_t i = 0; i < AUTHORS_MAX; i++) {
        if (plane->authors->at[i].text.size == 0) {
            return &plane->authors->at[i];
        }
    }
    author_t *place = &plane->authors->at[random_below(&plane->random, AUTHORS_MAX)];
    author_drop(place);
    return place;
}

/* Without memory nobody is asked: the next try asks again. */
static void author_ask(plane_t *plane, author_t *author) {
    event_entry_t *entry = event_new(EVENT_AUTHOR, BYTES_NONE, BYTES_NONE, author->text, BYTES_NONE);
    if (entry == NULL) {
        return;
    }
    author->asked_ns = plane->now.mono_ns;
    author->ticket = ++plane->authors->tickets;
    entry->event.account = author->account;
    entry->event.code = AUTHOR_ASKED;
    entry->event.arg = author->ticket;
    event_post(&plane->exchange, entry);
}

/* The known author; NULL: not known, and control is asked. lately: it was a moment ago, and will soon answer. */
static const author_t *author_known(plane_t *plane, uint32_t account, bytes_t text, bool *lately) {
    if (plane->authors == NULL && (plane->authors = calloc(1, sizeof(*plane->authors))) == NULL) {
        return NULL;
    }
    uint64_t hash = hash_bytes(text.at, text.size);
    author_t *author = author_find(plane->authors, account, text, hash);
    if (author == NULL) {
        bytes_t own = bytes_copy(text);
        if (own.size == 0) {
            return NULL;
        }
        author = author_place(plane);
        *author = (author_t){.text = own, .hash = hash, .account = account};
        author_ask(plane, author);
    } else if (author->rights == 0 && plane->now.mono_ns - author->asked_ns >= ASK_AGAIN_NS) {
        author_ask(plane, author);
    }
    *lately = author->asked_ns != 0 && plane->now.mono_ns - author->asked_ns < ANSWER_NS;
    return author->rights != 0 ? author : NULL;
}

void author_note(plane_t *plane, uint32_t account, bytes_t author) {
    if (author.size <= AUTHOR_SIZE_MAX) {
        bool lately = false;
        (void)author_known(plane, account, author, &lately);
    }
}

void author_answered(plane_t *plane, uint64_t ticket, uint32_t rights, permissions_t *permissions) {
    for (uint32_t i = 0; plane->authors != NULL && i < AUTHORS_MAX; i++) {
        author_t *one = &plane->authors->at[i];
        if (one->text.size != 0 && one->ticket == ticket && one->rights == 0) {
            one->rights = rights;
            one->permissions = permissions;
            return;
        }
    }
    permissions_free(permissions); /* its place was needed, or what was known is forgotten */
}

static void author_tell(plane_t *plane, uint32_t account, const js_scheduled_t *schedule, bytes_t denied) {
    authors_t *authors = plane->authors;
    plane->stats.schedules_refused++;
    bool lately = authors != NULL && authors->told_ns != 0 && plane->now.mono_ns - authors->told_ns < TELL_NS;
    event_entry_t *entry =
        lately ? NULL : event_new(EVENT_AUTHOR, denied, schedule->subject, schedule->author, BYTES_NONE);
    if (entry == NULL) {
        if (authors != NULL) {
            authors->untold++;
        }
        return;
    }
    entry->event.account = account;
    entry->event.code = AUTHOR_DENIED;
    entry->event.target = schedule->stream;
    if (authors != NULL) {
        entry->event.arg2 = authors->untold;
        authors->untold = 0;
        authors->told_ns = plane->now.mono_ns;
    }
    event_post(&plane->exchange, entry);
}

js_right_t author_right(plane_t *plane, uint32_t account, const js_scheduled_t *schedule) {
    bytes_t denied = schedule->target;
    if (schedule->author.size <= AUTHOR_SIZE_MAX) {
        bool lately = false;
        const author_t *author = author_known(plane, account, schedule->author, &lately);
        if (author == NULL) {
            return lately ? JS_RIGHT_ASKED : JS_RIGHT_UNKNOWN;
        }
        bool link = (author->rights & AUTHOR_LINK) != 0, may = (author->rights & AUTHOR_MAY) != 0;
        if (may && judge_permitted(plane, author->permissions, link, schedule->target)) {
            if (schedule->source.size == 0 || judge_readable(author->permissions, link, schedule->source)) {
                return JS_RIGHT_YES;
            }
            denied = schedule->source;
        }
    }
    author_tell(plane, account, schedule, denied);
    return JS_RIGHT_NO;
}
