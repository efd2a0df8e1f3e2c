/* The cache of subjects' heads: what was put in is found until it is thrown out, and a changed one is never thrown out.
 */
#include "store/heads.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/visits.h"
#include "test.h"

#define SUBJECTS 6000

static bytes_t subject_of(char *room, uint32_t number) {
    /* every third one is longer than an entry's own room */
    int size =
        snprintf(room, 200, "telemetry.%u.%s", number,
                 number % 3 == 0 ? "a.subject.that.is.longer.than.an.entry.of.the.cache.has.room.for.in.itself" : "x");
    return bytes_of(room, (uint32_t)size);
}

static head_entry_t *find(heads_t *heads, uint32_t number) {
    char room[200];
    bytes_t subject = subject_of(room, number);
    return heads_find(heads, subject, heads_hash(number % 2, subject));
}

static head_entry_t *add(heads_t *heads, uint32_t number) {
    char room[200];
    bytes_t subject = subject_of(room, number);
    head_entry_t *entry = heads_add(heads, number % 2, subject, heads_hash(number % 2, subject));
    if (entry != NULL) {
        entry->head = (head_t){.first = number, .last = number, .count = 1};
    }
    return entry;
}

static void all_are_found_while_there_is_room(void) {
    heads_t heads;
    CHECK(heads_open(&heads, 0) == STATUS_OK);
    for (uint32_t i = 0; i < SUBJECTS; i++) {
        CHECK(find(&heads, i) == NULL);
        CHECK(add(&heads, i) != NULL);
    }
    for (uint32_t i = 0; i < SUBJECTS; i++) {
        const head_entry_t *entry = find(&heads, i);
        CHECK(entry != NULL && entry->head.last == i);
    }
    heads_close(&heads);
}

static void what_leaves_hides_none_of_the_others(void) {
    heads_t heads;
    bool in[SUBJECTS] = {false};
    CHECK(heads_open(&heads, 0) == STATUS_OK);
    srand(7);
    for (uint32_t step = 0; step < 40 * SUBJECTS; step++) {
        uint32_t number = (uint32_t)rand() % SUBJECTS;
        head_entry_t *entry = find(&heads, number);
        CHECK((entry != NULL) == in[number]);
        if (entry != NULL) {
            CHECK(entry->head.last == number);
            heads_remove(&heads, entry);
        } else {
            CHECK(add(&heads, number) != NULL);
        }
        in[number] = !in[number];
    }
    heads_close(&heads);
}

static void a_full_cache_keeps_what_is_changed_and_what_is_asked_for(void) {
    heads_t heads;
    CHECK(heads_open(&heads, 1) == STATUS_OK); /* the least */
    for (uint32_t i = 0; i < 100; i++) {
        head_entry_t *entry = add(&heads, i);
        CHECK(entry != NULL && heads_mark(&heads, entry));
    }
    add(&heads, 100);
    for (uint32_t i = 101; i < SUBJECTS; i++) {
        CHECK(add(&heads, i) != NULL);
        CHECK(find(&heads, 100) != NULL); /* in use all the while, as new ones come by once each */
    }
    uint32_t changed = 0;
    for (head_entry_t *entry = heads_take_dirty(&heads); entry != NULL; entry = heads_take_dirty(&heads)) {
        CHECK(entry->head.last == changed); /* in the order in which they were changed */
        changed++;
    }
    CHECK(changed == 100);
    heads_close(&heads);
}

static void what_is_kept_for_a_group_stays(void) {
    heads_t heads;
    CHECK(heads_open(&heads, 1) == STATUS_OK);
    for (unsigned group = 0; group < 3; group++) {
        heads_keep_none(&heads);
        for (uint32_t i = 0; i < 1000; i++) { /* as many as an atomic batch has messages */
            head_entry_t *entry = find(&heads, i);
            entry = entry == NULL ? add(&heads, i) : entry;
            CHECK(entry != NULL);
            heads_keep(&heads, entry);
        }
        for (uint32_t i = 1000; i < SUBJECTS; i++) {
            CHECK(add(&heads, SUBJECTS * (group + 1) + i) != NULL);
        }
        for (uint32_t i = 0; i < 1000; i++) {
            CHECK(find(&heads, i) != NULL);
        }
    }
    heads_keep_none(&heads);
    for (uint32_t i = 0; i < SUBJECTS; i++) {
        CHECK(add(&heads, SUBJECTS * 5 + i) != NULL);
    }
    CHECK(find(&heads, 0) == NULL);
    heads_close(&heads);
}

/* A full cache of heads that have no name any more has room for others. */
static void heads_of_an_earlier_name_are_found_no_more(void) {
    heads_t heads;
    CHECK(heads_open(&heads, 1) == STATUS_OK);
    uint64_t before = heads_name(&heads);
    uint64_t after = heads_name(&heads);
    bytes_t subject = BYTES_LITERAL("telemetry.1");
    CHECK(heads_add(&heads, 1, subject, heads_hash(before, subject)) != NULL);
    CHECK(heads_find(&heads, subject, heads_hash(before, subject)) != NULL);
    CHECK(heads_find(&heads, subject, heads_hash(after, subject)) == NULL);
    CHECK(heads_add(&heads, 1, subject, heads_hash(after, subject)) != NULL);
    CHECK(heads_find(&heads, subject, heads_hash(before, subject))
          != heads_find(&heads, subject, heads_hash(after, subject)));
    for (uint32_t i = 0; i < SUBJECTS; i++) {
        CHECK(add(&heads, i) != NULL);
    }
    CHECK(heads_find(&heads, subject, heads_hash(before, subject)) == NULL);
    heads_close(&heads);
}

static void no_new_head_moves_many(void) {
    heads_t heads;
    CHECK(heads_open(&heads, 0) == STATUS_OK);
    (void)visits_take();
    for (uint32_t i = 0; i < HEADS_MAX; i++) {
        CHECK(add(&heads, i) != NULL);
        CHECK(visits_take() <= 256);
        CHECK(find(&heads, i / 2) != NULL); /* some of them are still in the smaller table */
    }
    CHECK(heads.slot_mask + 1 == 2 * HEADS_MAX && heads.smaller == NULL);
    heads_close(&heads);
}

int main(void) {
    RUN("every head that was put in is found while there is room", all_are_found_while_there_is_room);
    RUN("one that leaves hides none of the others", what_leaves_hides_none_of_the_others);
    RUN("a full cache keeps what is changed and what is asked for",
        a_full_cache_keeps_what_is_changed_and_what_is_asked_for);
    RUN("what is kept for a group of appends stays while others come", what_is_kept_for_a_group_stays);
    RUN("while the cache grows no new head moves many others", no_new_head_moves_many);
    RUN("heads of an earlier name are found no more, and make room", heads_of_an_earlier_name_are_found_no_more);
    return TEST_RESULT();
}
