/* mqtt_will.c: the message that a client leaves behind: published when its connection ends, or some time after that,
 * which may be longer than this process runs.
 *
 *     CONNECT            --> RECORD_SESSION_WILL, with the session's record       of a session that is kept
 *     DISCONNECT         --> no more, and the record goes
 *     the connection ends, and has no delay  --> published; the record goes in the batch that has it
 *                          and has one       --> waits --> it is over, or the session ends --> published likewise
 *                                                      --> its client is back --> no more
 *     a start            --> a record: as if its client had just left, or since it left
 *
 * It is judged when its client comes and when it goes, since later nobody is there to be judged. What a session leaves
 * behind is published with the chores and not from where it ends, which may be inside another message. After a start
 * it waits for START_WAIT_NS at least: the streams and links that are to have it are open then, and its client had time
 * to come back. Not here: how it is published (mqtt_publish.c), its bytes (sessions/will.h).
 */
#include "base/clock.h"
#include "plane/account.h"
#include "plane/keeping.h"
#include "plane/memory.h"
#include "verbs/mqtt.h"
#include "verbs/mqtt_lasting.h"
#include "verbs/mqtt_retain.h"

#define START_WAIT_NS (5 * NS_PER_SECOND)
#define RETRY_NS (1 * NS_PER_SECOND)
#define A_TURN 1024u
#define KEY_SIZE 4u

/* ---- the record of a will ---------------------------------------------------------------------------------------- */

static status_t drop_note(plane_t *plane, const stream_t *stream, uint32_t number) {
    uint8_t key[KEY_SIZE];
    store_be32(key, number);
    return keeping_drop(plane, stream, RECORD_SESSION_WILL, bytes_of(key, KEY_SIZE), false);
}

static const stream_t *messages_of(const kept_t *kept) {
    return ((const mqtt_account_t *)kept->keeper)->messages;
}

static status_t put_note(plane_t *plane, kept_t *kept, const will_t *will) {
    mqtt_desk_t *desk = kept->shared;
    uint8_t key[KEY_SIZE];
    store_be32(key, kept->number);
    desk->packet.size = 0;
    status_t status = will_write(will, &desk->packet);
    return status == STATUS_OK ? keeping_put(plane, messages_of(kept), RECORD_SESSION_WILL, bytes_of(key, KEY_SIZE),
                                             bytes_of(desk->packet.at, (uint32_t)desk->packet.size))
                               : status;
}

/* ---- a will whose client is connected ---------------------------------------------------------------------------- */

static void forget(mqtt_desk_t *desk, will_t *will) {
    due_take(&desk->wills, &will->due);
    will_free(will);
}

status_t mqtt_will_note(plane_t *plane, peer_t *peer, kept_t *kept, bool *written) {
    session_t *session = peer->session;
    if (kept->will != NULL) {
        forget(kept->shared, kept->will);
        kept->will = NULL;
        mqtt_kept_count(plane, kept);
    }
    status_t status = STATUS_OK;
    if (session->will != NULL && mqtt_will_permitted(plane, peer, &session->will->message)) {
        status = put_note(plane, kept, session->will);
        *written = true;
        kept->will_noted = true;
    } else if (kept->will_noted) {
        status = drop_note(plane, messages_of(kept), kept->number);
        kept->will_noted = false;
    }
    return status;
}

/* 5: 3.1.4: it is not sent when the session goes on and it was to wait. */
void mqtt_will_taken_over(session_t *older, bool begins_anew) {
    if (older->kept != NULL && older->will != NULL && older->will->delay != 0 && !begins_anew) {
        session_forget_will(older);
    }
}

/* ---- a will whose client goes ------------------------------------------------------------------------------------ */

/* From when its client left; what remains of its time is waited for. */
static status_t wait_for_time(plane_t *plane, kept_t *kept, int64_t least_ns) {
    mqtt_desk_t *desk = kept->shared;
    will_t *will = kept->will;
    int64_t age_ns = keeping_age_ns(plane, messages_of(kept));
    int64_t left_age_ns = kept->left_age_ns == 0 || kept->left_age_ns > age_ns ? age_ns : kept->left_age_ns;
    int64_t wait_ns = left_age_ns + (int64_t)will->delay * NS_PER_SECOND - age_ns;
    return due_put(&desk->wills, &will->due, plane->now.mono_ns + (wait_ns > least_ns ? wait_ns : least_ns));
}

/* false: it is to be published now. */
static bool waits(plane_t *plane, session_t *session) {
    kept_t *kept = session->kept;
    if (kept == NULL || kept->expiry == 0 || session->will->delay == 0 || !kept->will_noted) {
        return false;
    }
    kept->will = session->will;
    kept->will->account = kept->client.owner;
    kept->will->number = kept->number;
    kept->will->kept = kept;
    kept->left_age_ns = 0;
    if (wait_for_time(plane, kept, 0) != STATUS_OK) {
        kept->will = NULL;
        return false;
    }
    session->will = NULL;
    return true;
}

void mqtt_will_left(plane_t *plane, peer_t *peer) {
    session_t *session = peer->session;
    kept_t *kept = session->kept;
    if (session->admitted && session->will != NULL && waits(plane, session)) {
        return;
    }
    if (kept != NULL && kept->will_noted) {
        /* Without room for that it is published again at the next start. */
        status_t status = drop_note(plane, messages_of(kept), kept->number);
        kept->will_noted = status != STATUS_OK;
    }
    if (session->admitted && session->will != NULL && mqtt_will_permitted(plane, peer, &session->will->message)) {
        mqtt_publish_will(plane, peer->account, &session->will->message);
    }
}

/* ---- wills that wait for their time ------------------------------------------------------------------------------ */

void mqtt_will_outlive(plane_t *plane, kept_t *kept) {
    mqtt_desk_t *desk = kept->shared;
    will_t *will = kept->will;
    if (will == NULL) {
        return;
    }
    plane->memory.interest.used += will_size(will);
    will->kept = NULL;
    kept->will = NULL;
    mqtt_kept_count(plane, kept);
    status_t status = due_put(&desk->wills, &will->due, plane->now.mono_ns); /* it has a place there */
    (void)status;
}

status_t mqtt_will_forsake(plane_t *plane, kept_t *kept) {
    if (kept->will == NULL) {
        return kept->will_noted ? drop_note(plane, messages_of(kept), kept->number) : STATUS_OK;
    }
    if (!share_has(&plane->memory.interest, will_size(kept->will))) {
        return STATUS_FULL;
    }
    mqtt_will_outlive(plane, kept);
    return STATUS_OK;
}

status_t mqtt_will_found(plane_t *plane, mqtt_account_t *keeper, uint32_t number, bytes_t record) {
    mqtt_desk_t *desk = plane->mqtt_desk;
    bool damaged;
    will_t *will = will_read(record, &damaged);
    if (will == NULL) {
        return damaged ? STATUS_CORRUPT : STATUS_NO_MEMORY;
    }
    kept_t *kept = table_find(&keeper->numbers, number);
    will->account = keeper->messages->account->id;
    will->number = number;
    will->kept = kept;
    status_t status;
    if (kept != NULL) {
        kept->will = will;
        kept->will_noted = true;
        status = wait_for_time(plane, kept, START_WAIT_NS);
    } else { /* its session has ended, and its number is not another's */
        keeper->last_number = number > keeper->last_number ? number : keeper->last_number;
        status = due_put(&desk->wills, &will->due, plane->now.mono_ns + START_WAIT_NS);
    }
    if (status != STATUS_OK) {
        if (kept != NULL) {
            kept->will = NULL;
        }
        will_free(will);
    } else if (kept != NULL) {
        mqtt_kept_count(plane, kept);
    } else {
        plane->memory.interest.used += will_size(will);
    }
    return status;
}

/* Is it known who is to have it? */
static bool account_is_ready(plane_t *plane, account_t *account, const mqtt_account_t *keeper, const will_t *will) {
    if (keeper->sessions == KEEPS_ASKED) {
        return false;
    }
    if (will->message.retain && keeper->keeps == KEEPS_UNKNOWN) {
        mqtt_retain_begin(plane, account);
    }
    return !will->message.retain || keeper->keeps == KEEPS_YES || keeper->keeps == KEEPS_NO;
}

/* false: not yet. */
static bool publish_waited(plane_t *plane, mqtt_desk_t *desk, will_t *will) {
    account_t *account = account_find(plane, will->account);
    const mqtt_account_t *keeper = account == NULL ? NULL : mqtt_account_of(plane, desk, account);
    if (account != NULL
        && (keeper == NULL || !account_is_ready(plane, account, keeper, will)
            || (keeper->messages != NULL && drop_note(plane, keeper->messages, will->number) != STATUS_OK))) {
        return false;
    }
    kept_t *kept = will->kept;
    if (account != NULL) {
        mqtt_publish_will(plane, account, &will->message);
    }
    if (kept != NULL) {
        kept->will = NULL;
        kept->will_noted = false;
        mqtt_kept_count(plane, kept);
    } else {
        plane->memory.interest.used -= will_size(will);
    }
    will_free(will);
    return true;
}

void mqtt_will_chores(plane_t *plane) {
    mqtt_desk_t *desk = plane->mqtt_desk;
    due_t *due;
    for (uint32_t i = 0; i < A_TURN && (due = due_next(&desk->wills, plane->now.mono_ns)) != NULL; i++) {
        if (!publish_waited(plane, desk, MAP_ENTRY(due, will_t, due))) {
            status_t status = due_put(&desk->wills, due, plane->now.mono_ns + RETRY_NS); /* there was room for it */
            (void)status;
        }
    }
}

void mqtt_will_forget_all(mqtt_desk_t *desk) {
    for (due_t *due; (due = due_next(&desk->wills, INT64_MAX)) != NULL;) {
        will_t *will = MAP_ENTRY(due, will_t, due);
        if (will->kept != NULL) {
            will->kept->will = NULL;
        }
        will_free(will);
    }
}
