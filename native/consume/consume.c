/* consume.c: the room itself: the groups of consumers by stream, the store's hooks, timers, the lists of consumers that
 * have work or wait for their receiver, and the tick that serves them in turn. What a consumer does is in the other
 * files. */
#include <stdlib.h>

#include "base/array.h"
#include "base/hash.h"
#include "base/heap.h"
#include "text/subject.h"
#include "consume/bound.h"
#include "consume/deliver.h"
#include "consume/leave.h"
#include "consume/private.h"
#include "consume/retention.h"
#include "consume/state.h"

#define CONSUMERS_MIN 4 /* of one stream, room for at first */
#define HEAP_MIN 16     /* of all streams */

static uint64_t consumer_key(uint32_t stream_id, uint32_t consumer_id) {
    return (uint64_t)stream_id << 32 | consumer_id;
}

consume_t *consume_new(const consume_out_t *out, share_t *memory) {
    consume_t *consume = calloc(1, sizeof *consume);
    if (!consume) return NULL;
    consume->out = *out;
    consume->memory = memory;
    consume->ends_left = ENDS_A_TURN;
    consume->nobody_pulls.requests.due_ns = consume->nobody_pulls.pin.due_ns = NEVER;
    uintptr_t place = (uintptr_t)consume;
    consume->random = hash_bytes(&place, sizeof place) | 1;
    buffer_init(&consume->header, 64 << 20);
    buffer_init(&consume->pinned, 64 << 20);
    return consume;
}

static void group_free(group_t *group) {
    while (group->count > 0) consumer_destroy(group->consumers[group->count - 1]);
    retention_forget(group);
    consume_t *consume = group->consume;
    if (consume->last_group == group) consume->last_group = NULL;
    table_drop(&consume->groups, group->stream_id);
    concern_forget(&group->concern);
    free(group->consumers);
    free(group);
}

void consume_free(consume_t *consume) {
    if (!consume) return;
    consume->closing = true;
    leftovers_finish(&consume->leftovers, consume);
    map_walk_t walk = {0};
    for (group_t *group; (group = table_next(&consume->groups, &walk)) != NULL;) {
        group_free(group);
    }
    leftovers_finish(&consume->leftovers, consume);
    table_free(&consume->groups);
    table_free(&consume->consumers);
    free(consume->heap);
    free(consume->asking);
    free(consume->orphans);
    buffer_free(&consume->header);
    buffer_free(&consume->pinned);
    free(consume);
}

uint64_t consume_random(consume_t *consume) {
    consume->random ^= consume->random << 13;
    consume->random ^= consume->random >> 7;
    consume->random ^= consume->random << 17;
    return consume->random;
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */

group_t *group_of(consume_t *consume, uint32_t stream_id) {
    group_t *last = consume->last_group;
    if (last && last->stream_id == stream_id) return last;
    group_t *group = table_find(&consume->groups, stream_id);
    if (group) consume->last_group = group;
    return group;
}

static group_t *consumers_group_make(consume_t *consume, store_stream_t *stream) {
    uint32_t stream_id = store_stream_id(stream);
    group_t *group = group_of(consume, stream_id);
    if (group) return group;
    group = calloc(1, sizeof *group);
    if (!group) return NULL;
    group->consume = consume;
    group->stream = stream;
    group->stream_id = stream_id;
    if (retention_load(group) != STATUS_OK || table_put(&consume->groups, stream_id, group) != STATUS_OK) {
        retention_forget(group);
        free(group);
        return NULL;
    }
    return group;
}

/* Whether it is to be looked at when somebody subscribes or leaves. */
static bool asks_for_interest(const consumer_t *consumer) {
    return consumer_is_push(consumer) && (consumer->setup.config.flags & CONSUMER_ATTENDED) == 0;
}

static void asking_put(consumer_t *consumer) {
    consume_t *consume = consumer->consume;
    consumer->asking_index = NOT_ASKING;
    if (asks_for_interest(consumer)) {
        consumer->asking_index = (uint32_t)consume->asking_count;
        consume->asking[consume->asking_count++] = consumer;
    }
}

static void asking_take(const consumer_t *consumer) {
    consume_t *consume = consumer->consume;
    if (consumer->asking_index != NOT_ASKING) {
        consumer_t *last = consume->asking[--consume->asking_count];
        consume->asking[consumer->asking_index] = last;
        last->asking_index = consumer->asking_index;
    }
}

/* Takes the consumer into its group, the table, the list of those that ask and the timer heap's room. */
static status_t consumer_enter(consumer_t *consumer) {
    group_t *group = consumer->group;
    consume_t *consume = consumer->consume;
    if (consume_find(consume, group->stream_id, consumer->setup.id) != NULL) return STATUS_EXISTS;
    status_t status =
        array_reserve(&group->consumers, &group->capacity, group->count + 1u, CONSUMERS_MIN, sizeof(consumer_t *));
    if (status == STATUS_OK) {
        status = array_reserve(&consume->heap, &consume->heap_capacity, table_count(&consume->consumers) + 1u, HEAP_MIN,
                               sizeof(consumer_t *));
    }
    if (status == STATUS_OK && asks_for_interest(consumer)) {
        status = array_reserve(&consume->asking, &consume->asking_capacity, consume->asking_count + 1u, CONSUMERS_MIN,
                               sizeof(consumer_t *));
    }
    if (status == STATUS_OK) {
        status = table_put(&consume->consumers, consumer_key(group->stream_id, consumer->setup.id), consumer);
    }
    if (status != STATUS_OK) return status;
    consumer->group_index = group->count;
    group->consumers[group->count++] = consumer;
    concern_forget(&group->concern);
    asking_put(consumer);
    consumer->due_ns = NEVER;
    consumer->heap_index = (uint32_t)consume->heap_count;
    consume->heap[consume->heap_count++] = consumer;
    return STATUS_OK;
}

status_t consumer_join(consume_t *consume, store_stream_t *stream, consumer_t *consumer) {
    consumer->consume = consume;
    consumer->stream = stream;
    consumer->group = consumers_group_make(consume, stream);
    return consumer->group ? consumer_enter(consumer) : STATUS_NO_MEMORY;
}

/* ---- lists of consumers to serve --------------------------------------------------------------------------------- */

static void list_unlink(consumer_list_t *list, consumer_t *consumer) {
    if (consumer->before) {
        consumer->before->after = consumer->after;
    } else {
        list->head = consumer->after;
    }
    if (consumer->after) {
        consumer->after->before = consumer->before;
    } else {
        list->tail = consumer->before;
    }
    consumer->before = consumer->after = NULL;
    list->count--;
}

static void list_append(consumer_list_t *list, consumer_t *consumer) {
    consumer->before = list->tail;
    consumer->after = NULL;
    if (list->tail) {
        list->tail->after = consumer;
    } else {
        list->head = consumer;
    }
    list->tail = consumer;
    list->count++;
}

/* NULL: of no list. */
static consumer_list_t *list_of(consumer_t *consumer, serving_t serving) {
    switch (serving) {
    case SERVING_READY: return &consumer->consume->ready;
    case SERVING_BLOCKED: return &consumer->consume->blocked;
    case SERVING_LATER: return &consumer->group->later;
    default: return NULL;
    }
}

static void consumer_set_serving(consumer_t *consumer, serving_t serving) {
    if (consumer->serving == serving) return;
    consumer_list_t *before = list_of(consumer, consumer->serving), *after = list_of(consumer, serving);
    if (before) list_unlink(before, consumer);
    if (after) list_append(after, consumer);
    consumer->serving = serving;
}

static bool consumer_rests(const consumer_t *consumer) {
    return consumer->serving == SERVING_IDLE || consumer->serving == SERVING_LATER;
}

void consumer_ready(consumer_t *consumer) {
    if (consumer_rests(consumer) && consumer_has_demand(consumer)) consumer_set_serving(consumer, SERVING_READY);
}

void consumer_unblock(consumer_t *consumer) {
    if (consumer->serving == SERVING_BLOCKED) consumer_set_serving(consumer, SERVING_IDLE);
}

/* ---- timers: a heap over consumer.due_ns ------------------------------------------------------------------------- */

static bool timer_sooner(const void *one, const void *other) {
    return (*(consumer_t *const *)one)->due_ns < (*(consumer_t *const *)other)->due_ns;
}

static void timer_placed(void *item, uint64_t number) {
    (*(consumer_t **)item)->heap_index = (uint32_t)number;
}

static const heap_kind_t timers = {.size = sizeof(consumer_t *), .sooner = timer_sooner, .placed = timer_placed};

void consumer_arm(consumer_t *consumer, int64_t due_ns) {
    if (due_ns >= consumer->due_ns) return;
    consumer->due_ns = due_ns;
    heap_rise(&timers, consumer->consume->heap, consumer->heap_index);
}

void consumer_leave(consumer_t *consumer) {
    consume_t *consume = consumer->consume;
    group_t *group = consumer->group;
    consumer_set_serving(consumer, SERVING_IDLE);
    heap_take(&timers, consume->heap, &consume->heap_count, consumer->heap_index);
    for (consumer_t **link = &consume->dirty; consumer->dirty && *link; link = &(*link)->next_dirty) {
        visits_add(1);
        if (*link != consumer) continue;
        *link = consumer->next_dirty;
        break;
    }
    table_drop(&consume->consumers, consumer_key(group->stream_id, consumer->setup.id));
    consumer_t *last = group->consumers[--group->count];
    group->consumers[consumer->group_index] = last;
    last->group_index = consumer->group_index;
    asking_take(consumer);
    concern_forget(&group->concern);
}

/* ---- the store's hooks ------------------------------------------------------------------------------------------- */

/* One that enters or leaves the stream. */
typedef struct change {
    uint64_t seq, size;
    bytes_t subject;
} change_t;

static bool note_appended(void *context, consumer_t *consumer) {
    const change_t *change = context;
    consumer_appended(consumer, change->seq, change->size);
    if (consumer->serving == SERVING_IDLE && consumer_has_demand(consumer)) {
        consumer_set_serving(consumer, SERVING_LATER); /* when it can be seen */
    }
    return true;
}

static void on_appended(void *context, store_stream_t *stream, uint64_t seq, bytes_t subject, uint64_t size) {
    group_t *group = group_of(context, store_stream_id(stream));
    if (!group) return;
    change_t change = {.seq = seq, .size = size};
    (void)concern_each(&group->concern, group->consumers, group->count, subject, note_appended, &change);
}

/* May it hold a message that its filters do not match? (One that was loaded with such a row finds the message gone when
 * that comes again.) */
static bool consumer_strays(consumer_t *consumer) {
    bool holds = consumer->pending.count != 0 || consumer->selection.next < consumer->selection.count;
    consumer->refiltered = consumer->refiltered && holds;
    return consumer->refiltered || consumer->survey != NULL;
}

static bool note_removed(void *context, consumer_t *consumer) {
    const change_t *change = context;
    consumer_removed(consumer, change->seq, change->subject, change->size);
    return true;
}

static void on_removed(void *context, store_stream_t *stream, uint64_t seq, bytes_t subject, uint64_t size) {
    group_t *group = group_of(context, store_stream_id(stream));
    if (!group) return;
    if (!group->strays && subject.size != 0) {
        change_t change = {.seq = seq, .size = size, .subject = subject};
        (void)concern_each(&group->concern, group->consumers, group->count, subject, note_removed, &change);
        return;
    }
    group->strays = false;
    for (uint32_t i = 0; i < group->count; i++) {
        consumer_removed(group->consumers[i], seq, subject, size);
        group->strays = consumer_strays(group->consumers[i]) || group->strays;
    }
}

static void on_purged(void *context, store_stream_t *stream, bytes_t filter, uint64_t left) {
    group_t *group = group_of(context, store_stream_id(stream));
    for (uint32_t i = 0; group && i < group->count; i++) consumer_purged(group->consumers[i], filter, left);
}

static uint64_t on_holds(void *context, store_stream_t *stream) {
    group_t *group = group_of(context, store_stream_id(stream));
    uint64_t held = 0;
    for (uint32_t i = 0; group && i < group->count; i++) held += consumer_holds(group->consumers[i]);
    return held;
}

static void on_emptied(void *context, store_stream_t *stream) {
    group_t *group = group_of(context, store_stream_id(stream));
    for (uint32_t i = 0; group && i < group->count; i++) consumer_emptied(group->consumers[i]);
}

store_hooks_t consume_store_hooks(consume_t *consume) {
    return (store_hooks_t){.context = consume,
                           .appended = on_appended,
                           .removed = on_removed,
                           .purged = on_purged,
                           .holds = on_holds,
                           .emptied = on_emptied};
}

bool consumer_sound(const consumer_t *consumer) {
    /* (A purge settles what the cursor has not come to yet.) */
    return consumer->floor_consumer < consumer->next_sequence && consumer->floor_stream <= consumer->delivered_stream
           && consumer->pending.count <= consumer->delivered_stream;
}

/* ---- what the plane says and asks -------------------------------------------------------------------------------- */

consumer_t *consume_find(consume_t *consume, uint32_t stream_id, uint32_t consumer_id) {
    return table_find(&consume->consumers, consumer_key(stream_id, consumer_id));
}

uint64_t consume_count(const consume_t *consume) {
    return table_count(&consume->consumers);
}

bool consume_sound(const consume_t *consume) {
    map_walk_t walk = {0};
    for (const consumer_t *one; (one = table_next(&consume->consumers, &walk)) != NULL;) {
        if (!consumer_sound(one) || one->group->consumers[one->group_index] != one) return false;
    }
    return true;
}

static bool goes_by(void *context, consumer_t *consumer) {
    (void)context;
    return !consumer_counts(consumer);
}

bool consume_wanted(consume_t *consume, uint32_t stream_id, bytes_t subject) {
    group_t *group = group_of(consume, stream_id);
    if (!group) return false;
    return !concern_each(&group->concern, group->consumers, group->count, subject, goes_by, NULL);
}

typedef struct wanting {
    bool (*visit)(void *context, consumer_t *consumer);
    void *context;
} wanting_t;

static bool visit_wanting(void *context, consumer_t *consumer) {
    const wanting_t *wanting = context;
    return !consumer_counts(consumer) || wanting->visit(wanting->context, consumer);
}

void consume_each_wanting(consume_t *consume, uint32_t stream_id, bytes_t subject,
                          bool (*visit)(void *context, consumer_t *consumer), void *context) {
    group_t *group = group_of(consume, stream_id);
    wanting_t wanting = {.visit = visit, .context = context};
    if (group) (void)concern_each(&group->concern, group->consumers, group->count, subject, visit_wanting, &wanting);
}

static void consumers_end(consume_t *consume, uint32_t stream_id, moment_t now, bytes_t status) {
    group_t *group = group_of(consume, stream_id);
    if (!group) return;
    consume->now = now;
    for (uint32_t i = 0; i < group->count; i++) {
        pull_drop_all(group->consumers[i], status, false);
        push_removed(group->consumers[i]);
    }
    group_free(group);
}

void consume_stream_removed(consume_t *consume, uint32_t stream_id, moment_t now) {
    consumers_end(consume, stream_id, now, BYTES_LITERAL("409 Consumer Deleted"));
}

void consume_stream_left(consume_t *consume, uint32_t stream_id, moment_t now) {
    consumers_end(consume, stream_id, now, BYTES_LITERAL("409 Leadership Change"));
    state_drop_orphans(consume, stream_id);
}

void consume_advanced(consume_t *consume, store_stream_t *stream) {
    group_t *group = group_of(consume, store_stream_id(stream));
    if (!group) return;
    while (group->later.head) {
        consumer_t *consumer = group->later.head;
        consumer_set_serving(consumer, SERVING_IDLE);
        consumer_ready(consumer);
    }
}

void consume_judge(consume_t *consume, uint32_t stream_id, uint64_t from) {
    group_t *group = group_of(consume, stream_id);
    if (group) retention_judge(group, from);
}

void consume_settle(consume_t *consume, uint32_t stream_id) {
    group_t *group = group_of(consume, stream_id);
    for (uint32_t i = 0; group && i < group->count; i++) state_settle(group->consumers[i]);
}

void consume_interest_changed(consume_t *consume) {
    consume->interest_changed = true;
}

void consume_unblocked(consume_t *consume) {
    while (consume->blocked.head) {
        consumer_t *consumer = consume->blocked.head;
        consumer_set_serving(consumer, SERVING_IDLE);
        consumer_ready(consumer);
    }
}

/* ---- tick -------------------------------------------------------------------------------------------------------- */

static void review_interest(consume_t *consume) {
    consume->interest_changed = false;
    consume_unblocked(consume); /* the receiver that was full may be the one that is gone */
    for (uint64_t i = 0; i < consume->asking_count; i++) {
        push_review(consume->asking[i]);
    }
}

static void fire_timers(consume_t *consume, bool *again) {
    for (uint32_t fired = 0; consume->heap_count > 0 && consume->heap[0]->due_ns <= consume->now.mono_ns; fired++) {
        if (fired == TICK_TIMERS) {
            *again = true;
            return;
        }
        consumer_t *consumer = consume->heap[0];
        consumer->due_ns = NEVER;
        heap_sink(&timers, consume->heap, consume->heap_count, 0);
        (void)consumer_on_time(consumer); /* arms the next one, or the consumer is gone */
    }
}

void consume_tick(consume_t *consume, moment_t now, bool *again) {
    consume->now = now;
    *again = false;
    consume->ends_left = ENDS_A_TURN;
    leftovers_step(&consume->leftovers, consume, &consume->ends_left);
    if (consume->interest_changed) review_interest(consume);
    if (consume->bound_changed) bound_changed(consume);
    fire_timers(consume, again);
    uint32_t budget = TICK_MESSAGES;
    /* Each consumer that is ready now gets one turn; one that has more to do goes to the end of the list. */
    for (uint32_t turns = consume->ready.count; turns > 0 && budget > 0 && consume->ready.head; turns--) {
        consumer_t *consumer = consume->ready.head;
        turn_t turn = consumer_run(consumer, &budget);
        consumer_set_serving(consumer, SERVING_IDLE);
        if (turn == TURN_MORE) consumer_set_serving(consumer, SERVING_READY);
        if (turn == TURN_LATER) consumer_set_serving(consumer, SERVING_LATER);
        if (turn == TURN_BLOCKED) {
            consumer_set_serving(consumer, SERVING_BLOCKED);
            consumer_arm(consumer, time_after(now.mono_ns, BLOCKED_NS));
        }
    }
    retention_tick(consume, again);
    if (consume->ready.count > 0 || leftovers_wait(&consume->leftovers)) *again = true;
}

int64_t consume_next_deadline(const consume_t *consume) {
    int64_t due = consume->heap_count > 0 ? consume->heap[0]->due_ns : NEVER;
    if (consume->dirty || consume->orphan_count > 0) due = earlier(due, consume->flush_after_ns);
    return earlier(due, retention_deadline(consume));
}

void consume_flush(consume_t *consume) {
    for (group_t *group = consume->sweeping; group; group = group->next_sweeping) retention_flush(group);
    bool taken = state_flush_orphans(consume);
    consumer_t *consumer = consume->dirty;
    consume->dirty = NULL;
    while (consumer) {
        consumer_t *next = consumer->next_dirty;
        consumer->next_dirty = NULL;
        consumer->dirty = false;
        if (retention_recorded(consumer->group)) {
            taken = state_flush(consumer) && taken; /* else it is marked dirty again */
        } else {
            state_dirty(consumer);
            taken = false;
        }
        consumer = next;
    }
    /* Whatever the store refused is tried again a little later; what was too much for one flush, with the next one. */
    consume->flush_after_ns = taken ? consume->now.mono_ns : consume->now.mono_ns + RETRY_NS;
}

bool consume_flushed(const consume_t *consume) {
    return consume->flush_after_ns <= consume->now.mono_ns;
}

void consume_shutdown(consume_t *consume, moment_t now) {
    consume->now = now;
    for (uint32_t i = 0; i < consume->heap_count; i++) {
        consumer_t *consumer = consume->heap[i];
        pull_drop_all(consumer, BYTES_LITERAL("409 Server Shutdown"), true);
        state_dirty(consumer);
    }
    consume->stopping = true;
    leftovers_finish(&consume->leftovers, consume);
    consume_flush(consume);
}
