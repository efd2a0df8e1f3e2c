/* mqtt_kept.c: a session that outlives its connection: its records, its consumer, its end.
 *
 *     RECORD_SESSION      who it is, its subscriptions, when its client left       kept.h
 *     RECORD_SESSION_IN   a message of QoS 2 of the client, until its PUBREL
 *     RECORD_SESSION_OUT  a message of QoS 2 that the client has, until its PUBCOMP: a number that grows, in whose
 *                         order PUBRELs are said again (4.6.0-4)
 *     RECORD_SESSION_SHARED a message of QoS 2 that it alone may have  mqtt_share.c
 *     RECORD_SESSION_WILL the message that it leaves behind        mqtt_will.c
 *     a consumer          which messages of the stream it wants, has been sent, has acknowledged
 *
 *     new --> its client is here <--> away, expires --> ended: its records and its consumer go in one batch
 *
 * The consumer is made here and not by control, with a number that control gives to none. Whatever is told to a client
 * because it is on disk waits for the batch that it is in (mqtt_say_durable). Not here: when the records
 * are read (mqtt_stream.c), CONNECT (mqtt_login.c), what comes out of the consumer (mqtt_receive.c).
 */
#include <stdlib.h>

#include "base/clock.h"
#include "plane/account.h"
#include "plane/keeping.h"
#include "plane/memory.h"
#include "verbs/mqtt.h"
#include "verbs/mqtt_carry.h"
#include "verbs/mqtt_far.h"
#include "verbs/mqtt_lasting.h"
#include "verbs/mqtt_names.h"
#include "verbs/mqtt_share.h"
#include "verbs/verbs.h"

#define NUMBER_MAX UINT32_C(0x7FFFFFFE)
#define ID_KEY_SIZE 6u /* number of the session, packet identifier */
#define ORDER_SIZE 8u
#define EXPIRED_A_TURN 64u
#define RETRY_NS (1 * NS_PER_SECOND)
#define DELIVERY_UNKNOWN_NS (5 * NS_PER_SECOND) /* more than what was delivered takes to be on disk (consume/state.h) */

/* ---- the identity of a session ----------------------------------------------------------------------------------- */

kept_t *mqtt_kept_find(const mqtt_desk_t *desk, uint32_t account, bytes_t client) {
    name_link_t *found = names_find(desk->kept, account, client);
    return found == NULL ? NULL : MAP_ENTRY(found, kept_t, client);
}

static const mqtt_account_t *kept_keeper(const kept_t *kept) {
    return kept->keeper;
}

static stream_t *kept_stream(const kept_t *kept) {
    return kept_keeper(kept)->messages;
}

static bytes_t key_of(const kept_t *kept, uint8_t key[ID_KEY_SIZE]) {
    store_be32(key, kept->number);
    return bytes_of(key, 4);
}

/* ---- its consumer ------------------------------------------------------------------------------------------------ */

/* What is shared is the share's, whose one filter it is. */
static bool wants_stored(const kept_t *kept, const kept_filter_t *filter) {
    return filter->shared == is_share(kept) && (filter->flags & MQTT_SUB_QOS) != 0;
}

/* The subjects of the stream that it wants, in one piece of memory: slices, then texts. NULL: no memory. */
static bytes_t *wanted_subjects(const kept_t *kept, uint32_t *count) {
    uint64_t size = 1;
    *count = 0;
    for (uint32_t i = 0; i < kept->filter_count; i++) {
        size += 2 * (sizeof(bytes_t) + sizeof(MQTT_MESSAGES) + kept->filters[i].pattern.size);
    }
    bytes_t *slices = malloc(size);
    uint8_t *to = slices == NULL ? NULL : (uint8_t *)(slices + 2 * (size_t)kept->filter_count);
    for (uint32_t i = 0; slices != NULL && i < kept->filter_count; i++) {
        const kept_filter_t *filter = &kept->filters[i];
        const bytes_t patterns[2] = {filter->pattern, bytes_of(filter->pattern.at, filter->parent)};
        for (uint32_t j = 0; j < 2 && patterns[j].size != 0 && wants_stored(kept, filter); j++) {
            uint8_t *end = bytes_write(bytes_write(to, BYTES_LITERAL(MQTT_MESSAGES)), patterns[j]);
            slices[(*count)++] = bytes_of(to, (uint32_t)(end - to));
            to = end;
        }
    }
    return slices;
}

static void attend(plane_t *plane, const kept_t *kept) {
    const session_t *session = kept->session;
    if (kept->binding != NULL && session != NULL && !session->enters) {
        bool again =
            session->writer.level != MQTT_5; /* 5: 4.4: when it connects again, and not before; 3.1.1: if told */
        keeping_attend(plane, kept->binding, session->flight.window, again ? plane->mqtt.ack_wait_ns : 0);
    }
}

status_t mqtt_kept_filters(plane_t *plane, kept_t *kept, bool loading) {
    keeping_consumer_t wanted = {
        .number = kept->number, .max_ack_pending = plane->mqtt.max_ack_pending, .receiver = kept};
    consumer_binding_t *binding = kept->binding;
    wanted.subjects = wanted_subjects(kept, &wanted.subject_count);
    if (wanted.subjects == NULL) {
        return STATUS_NO_MEMORY;
    }
    bool fresh = binding == NULL;
    status_t status = STATUS_OK;
    if (wanted.subject_count == 0) {
        keeping_end(plane, &binding);
    } else {
        status = keeping_consume(plane, kept_stream(kept), &wanted, loading, &binding);
    }
    kept->binding = binding;
    free(wanted.subjects);
    if (status == STATUS_OK && fresh) {
        attend(plane, kept);
    }
    return status;
}

void mqtt_kept_acknowledge(plane_t *plane, kept_t *kept, uint64_t seq) {
    if (kept->binding != NULL && seq != 0) {
        keeping_acknowledge(plane, kept->binding, seq);
    }
}

/* ---- its records ------------------------------------------------------------------------------------------------- */

void mqtt_kept_count(plane_t *plane, kept_t *kept) {
    uint64_t cost = kept_size(kept);
    plane->memory.interest.used += cost - kept->cost;
    kept->cost = cost;
}

/* One that contradicts itself stays as it was written last. */
static void say_contradiction(plane_t *plane, const kept_t *kept) {
    event_alarm(&plane->exchange, ALARM_CORRUPT, kept_stream(kept)->id, 0,
                BYTES_LITERAL("what is remembered of a session of MQTT contradicts itself: it is not written"));
}

status_t mqtt_kept_store(plane_t *plane, kept_t *kept) {
    mqtt_desk_t *desk = kept->shared;
    uint8_t key[ID_KEY_SIZE];
    desk->packet.size = 0;
    mqtt_kept_count(plane, kept);
    status_t status = kept_write(kept, &desk->packet);
    bytes_t record = bytes_of(desk->packet.at, (uint32_t)desk->packet.size);
    if (status == STATUS_INVALID) {
        say_contradiction(plane, kept);
    }
    return status == STATUS_OK ? keeping_put(plane, kept_stream(kept), RECORD_SESSION, key_of(kept, key), record)
                               : status;
}

bool mqtt_kept_note(plane_t *plane, kept_t *kept, uint32_t record, uint16_t id, bool there) {
    uint8_t key[ID_KEY_SIZE];
    (void)key_of(kept, key);
    store_be16(key + 4, id);
    bytes_t whole = bytes_of(key, ID_KEY_SIZE);
    const stream_t *stream = kept_stream(kept);
    return (there ? keeping_put(plane, stream, record, whole, BYTES_LITERAL("1"))
                  : keeping_drop(plane, stream, record, whole, false))
           == STATUS_OK;
}

bool mqtt_kept_release(plane_t *plane, kept_t *kept, uint16_t id) {
    mqtt_desk_t *desk = kept->shared;
    uint8_t key[ID_KEY_SIZE], order[ORDER_SIZE];
    if (sequences_find(&kept->released, id) != 0) {
        return true;
    }
    (void)key_of(kept, key);
    store_be16(key + 4, id);
    store_be64(order, desk->released + 1);
    if (keeping_put(plane, kept_stream(kept), RECORD_SESSION_OUT, bytes_of(key, ID_KEY_SIZE),
                    bytes_of(order, ORDER_SIZE))
            != STATUS_OK
        || sequences_put(&kept->released, id, desk->released + 1) != STATUS_OK) {
        return false;
    }
    desk->released++;
    return true;
}

/* Records of an older leafd have no order but that of the identifiers, and come first. */
status_t mqtt_kept_released(kept_t *kept, uint16_t id, bytes_t value) {
    mqtt_desk_t *desk = kept->shared;
    uint64_t order = value.size == ORDER_SIZE ? load_be64(value.at) : id;
    order = order == 0 || order > INT64_MAX ? id : order;
    desk->released = order > desk->released ? order : desk->released;
    return sequences_put(&kept->released, id, order);
}

bool mqtt_kept_ride(kept_t *kept, uint16_t id) {
    uint8_t key[ID_KEY_SIZE];
    (void)key_of(kept, key);
    store_be16(key + 4, id);
    return keeping_ride(kept_stream(kept), RECORD_SESSION_IN, bytes_of(key, ID_KEY_SIZE), BYTES_LITERAL("1"))
           == STATUS_OK;
}

/* ---- the end of a session, and what is loaded of it -------------------------------------------------------------- */

static int64_t expires_ns(const plane_t *plane, const kept_t *kept, int64_t age_ns) {
    int64_t left_ns = kept->left_age_ns + (int64_t)kept->expiry * NS_PER_SECOND - age_ns;
    return plane->now.mono_ns + (left_ns > 0 ? left_ns : 0);
}

/* Begins the wait of a session whose client is away. One that never expires, and has no will that waits, waits for
 * nothing: its record stays as it is, or each client's first return after a start would cost a write. */
static status_t wait_for_end(plane_t *plane, kept_t *kept) {
    mqtt_desk_t *desk = kept->shared;
    if (kept->expiry == SESSION_EVER && kept->will == NULL) {
        return STATUS_OK;
    }
    int64_t age_ns = keeping_age_ns(plane, kept_stream(kept));
    if (kept->left_age_ns == 0 || kept->left_age_ns > age_ns) {
        kept->left_age_ns = age_ns;
    }
    if (kept->expiry == SESSION_EVER) {
        return STATUS_OK;
    }
    return due_put(&desk->due, &kept->due, expires_ns(plane, kept, age_ns));
}

/* Its client had left so long before the end of what is loaded that all it was sent is on the disk. Of a session that
 * never expires nobody wrote down when that was. */
static bool was_away(plane_t *plane, const kept_t *kept) {
    return kept->left_age_ns != 0 && keeping_age_ns(plane, kept_stream(kept)) - kept->left_age_ns > DELIVERY_UNKNOWN_NS;
}

void mqtt_kept_forget(plane_t *plane, kept_t *kept) {
    mqtt_desk_t *desk = kept->shared;
    mqtt_account_t *keeper = kept->keeper;
    mqtt_share_forget(kept);
    plane->stats.mqtt_sessions--;
    plane->stats.mqtt_away -= kept->session == NULL;
    if (kept->session != NULL) {
        kept->session->kept = NULL;
    }
    due_take(&desk->due, &kept->due);
    if (kept->will != NULL) {
        due_take(&desk->wills, &kept->will->due);
    }
    map_take(desk->kept, &kept->client.link);
    table_drop(&keeper->numbers, kept->number);
    plane->memory.interest.used -= kept->cost;
    kept_free(kept);
}

status_t mqtt_kept_end(plane_t *plane, kept_t *kept) {
    static const uint32_t records[] = {RECORD_SESSION_IN, RECORD_SESSION_OUT, RECORD_SESSION_SHARED};
    uint8_t key[ID_KEY_SIZE];
    bytes_t prefix = key_of(kept, key);
    status_t status = mqtt_will_forsake(plane, kept);
    status = status == STATUS_OK ? keeping_drop(plane, kept_stream(kept), RECORD_SESSION, prefix, false) : status;
    for (uint32_t i = 0; i < 3 && status == STATUS_OK; i++) {
        status = keeping_drop(plane, kept_stream(kept), records[i], prefix, true);
    }
    if (status == STATUS_OK) {
        consumer_binding_t *binding = kept->binding;
        keeping_end(plane, &binding);
        mqtt_share_end_all(plane, kept);
        mqtt_kept_forget(plane, kept);
    }
    return status;
}

status_t mqtt_kept_lose(plane_t *plane, mqtt_account_t *keeper, uint32_t number) {
    static const uint32_t records[] = {RECORD_SESSION, RECORD_SESSION_IN, RECORD_SESSION_OUT, RECORD_SESSION_SHARED};
    uint8_t key[4];
    store_be32(key, number);
    status_t status = STATUS_OK;
    for (uint32_t i = 0; i < 4 && status == STATUS_OK; i++) {
        status = keeping_drop(plane, keeper->messages, records[i], bytes_of(key, sizeof key), i > 0);
    }
    keeper->last_number = number > keeper->last_number && number <= NUMBER_MAX ? number : keeper->last_number;
    return status == STATUS_OK ? keeping_forget_consumer(plane, keeper->messages, number) : status;
}

/* Or, where the batch has no room for that, soon: false. */
static bool end_sometime(plane_t *plane, kept_t *kept) {
    mqtt_desk_t *desk = kept->shared;
    if (mqtt_kept_end(plane, kept) == STATUS_OK) {
        return true;
    }
    /* Without memory it ends when it has expired at the next start. */
    status_t status = due_put(&desk->due, &kept->due, plane->now.mono_ns + RETRY_NS);
    (void)status;
    return false;
}

static status_t load_shares(plane_t *plane, kept_t *kept) {
    status_t status = STATUS_OK;
    for (uint32_t i = 0; i < kept->filter_count && status == STATUS_OK; i++) {
        if ((kept->filters[i].flags & MQTT_SUB_GROUPED) != 0) {
            status = mqtt_share_load(plane, kept, &kept->filters[i]);
        }
    }
    return status;
}

status_t mqtt_kept_add(plane_t *plane, mqtt_account_t *keeper, kept_t *kept, bool loading) {
    mqtt_desk_t *desk = plane->mqtt_desk;
    uint64_t cost = kept_size(kept);
    kept->shared = desk;
    kept->keeper = keeper;
    kept->client.owner = keeper->messages->account->id;
    if (!loading) {
        bool full = plane->mqtt.max_sessions != 0 && table_count(&keeper->numbers) >= plane->mqtt.max_sessions;
        if (full || keeper->last_number == NUMBER_MAX || !mqtt_room(plane, cost)) {
            kept_free(kept);
            return STATUS_FULL;
        }
        kept->number = keeper->last_number + 1;
    }
    status_t status = table_put(&keeper->numbers, kept->number, kept);
    if (status != STATUS_OK) {
        kept_free(kept);
        return status;
    }
    status = names_put(&desk->kept, &kept->client);
    if (status != STATUS_OK) {
        table_drop(&keeper->numbers, kept->number);
        kept_free(kept);
        return status;
    }
    keeper->last_number = kept->number > keeper->last_number ? kept->number : keeper->last_number;
    mqtt_kept_count(plane, kept);
    plane->stats.mqtt_sessions++;
    plane->stats.mqtt_away++;
    if (!loading) {
        return STATUS_OK;
    }
    kept->stamp = mqtt_names_now(plane); /* what came before may have been another server's to end */
    kept->doubtful = was_away(plane, kept) ? 0 : keeping_doubtful(plane, kept_stream(kept));
    status = load_shares(plane, kept);
    status = status == STATUS_OK ? mqtt_kept_filters(plane, kept, true) : status;
    if (status != STATUS_OK) { /* it is read again */
        mqtt_kept_forget(plane, kept);
        return status;
    }
    status = wait_for_end(plane, kept);
    (void)status; /* without memory for that it expires later than it should */
    return STATUS_OK;
}

void mqtt_kept_attend(plane_t *plane, kept_t *kept, session_t *session) {
    mqtt_desk_t *desk = kept->shared;
    plane->stats.mqtt_away -= kept->session == NULL;
    kept->session = session;
    session->kept = kept;
    kept->stamp = session->stamp;
    due_take(&desk->due, &kept->due);
    attend(plane, kept);
}

void mqtt_kept_hand_over(plane_t *plane, kept_t *kept) {
    plane->stats.mqtt_away++;
    mqtt_share_left(plane, kept->session);
    kept->session->kept = NULL;
    kept->session = NULL;
    if (kept->binding != NULL) {
        keeping_leave(plane, kept->binding);
    }
}

void mqtt_kept_leave(plane_t *plane, kept_t *kept) {
    mqtt_kept_hand_over(plane, kept);
    kept->left_age_ns = 0;
    if (kept->received.count == 0) {
        ids_free(&kept->received);
    }
    if (kept->released.count == 0) {
        sequences_free(&kept->released);
    }
    mqtt_kept_count(plane, kept);
    if (kept->expiry == 0) {
        (void)end_sometime(plane, kept);
        return;
    }
    if (kept->expiry == SESSION_EVER && kept->will == NULL) {
        return;
    }
    /* Without room for either it expires later than it should: it is kept from the next start on. */
    status_t status = wait_for_end(plane, kept);
    status = status == STATUS_OK ? mqtt_kept_store(plane, kept) : status;
    (void)status;
}

void mqtt_chores(plane_t *plane) {
    mqtt_desk_t *desk = plane->mqtt_desk;
    due_t *due;
    if (desk == NULL) {
        return;
    }
    for (uint32_t i = 0; i < EXPIRED_A_TURN && (due = due_next(&desk->due, plane->now.mono_ns)) != NULL; i++) {
        plane->stats.mqtt_expired += end_sometime(plane, MAP_ENTRY(due, kept_t, due));
    }
    mqtt_will_chores(plane);
    mqtt_far_chores(plane);
    mqtt_carry_chores(plane);
    mqtt_names_chores(plane);
}
