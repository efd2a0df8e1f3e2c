/* mqtt_stream.c: the stream of messages that sessions are to have, `$MQTT_msgs` of their account, and its sessions,
 * which are records of it.
 *
 *     the first session        --> $JS.API.STREAM.CREATE --> it is opened, empty
 *     a start                  --> it is opened --> its records are read, some in each step --> sessions wait in it
 *     PUBLISH, QoS 1 or 2      --> does a session want that subject? --> $MQTT.msgs.<subject>, once for all of them
 *     it is removed            --> its sessions are no more, and their connections are closed
 *
 *     several servers keep it, and this one leads   --> as a start: its records are read
 *                              and leads no more    --> its sessions are the next one's, where their clients are sent
 *
 * Nobody publishes there who did not wait until the records are read, so no message passes a session by.
 *
 * A record that fails its checksum in both of its places is lost, and no start will have it. It costs what it says and
 * no other session: where it was the session's own record, its client hears that there is no session. Of a stream that
 * several servers keep another one has it: then nothing is given up here (store/mending.c).
 *
 * Not here: one session (mqtt_kept.c), what it gets (mqtt_receive.c).
 */
#include <stdlib.h>

#include "base/visits.h"
#include "plane/account.h"
#include "plane/keeping.h"
#include "verbs/mqtt.h"
#include "verbs/mqtt_far.h"
#include "verbs/mqtt_lasting.h"
#include "verbs/mqtt_retain.h"
#include "verbs/mqtt_share.h"
#include "verbs/verbs.h"

#define NAME "$MQTT_msgs"
#define CREATE "$JS.API.STREAM.CREATE." NAME
#define READ_STEP 512u /* records in one step */
#define READ_BYTES (256u * 1024u)
#define GATHERED_HEAD 8u
#define LOST UINT32_MAX /* in place of a value's size */
#define READ_TRIES 100u /* steps that may fail before clients hear of it */
#define KEY_SIZE 4u     /* number of the session */
#define ID_KEY_SIZE 6u  /* and a packet identifier */

/* ---- streams that are asked for ---------------------------------------------------------------------------------- */

void mqtt_stream_begin(plane_t *plane, peer_t *peer) {
    mqtt_account_t *keeper = mqtt_account_of(plane, peer->session->shared, peer->account);
    if (keeper == NULL || keeper->sessions == KEEPS_YES || keeper->sessions == KEEPS_ASKED || keeper->unreadable) {
        return;
    }
    static const char body[] =
        "{\"name\":\"" NAME "\",\"subjects\":[\"" MQTT_MESSAGES ">\"],\"retention\":\"interest\","
        "\"storage\":\"file\",\"max_consumers\":-1,\"allow_msg_ttl\":true,\"num_replicas\":";
    text_t text = {0};
    text_add_literal(&text, body);
    text_add_number(&text, mqtt_far_replicas(plane));
    text_add_literal(&text, "}");
    bool jetstream = (peer->account->flags & ACCOUNT_JETSTREAM) != 0;
    keeper->sessions = KEEPS_ASKED; /* it may be opened before the request has returned */
    if (!jetstream || !mqtt_ask_control(plane, peer->account, CREATE, text_bytes(&text), "m")) {
        keeper->sessions = KEEPS_NO;
    }
}

/* A stream that was made here has been opened, and is read or was. Else another server has it, or none. */
void mqtt_stream_made(plane_t *plane, mqtt_account_t *keeper, bytes_t payload) {
    if (keeper->sessions == KEEPS_ASKED && keeper->messages == NULL) {
        keeper->sessions = KEEPS_NO;
        keeper->elsewhere = mqtt_far_possible(plane) && mqtt_is_there(payload) ? KEEPS_YES : keeper->elsewhere;
        mqtt_wake(plane, keeper);
        keeper->sessions = KEEPS_UNKNOWN; /* the next one asks again */
    }
}

typedef struct asked_for {
    mqtt_desk_t *desk;
    mqtt_wanted_t wanted;
    uint32_t groups;
    bool shares; /* there are any */
} asked_for_t;

static bool note_wanted(void *context, void *receiver) {
    asked_for_t *asked = context;
    const kept_t *kept = receiver;
    asked->wanted = asked->wanted == WANTED_NOT ? WANTED : asked->wanted;
    if (kept != NULL && is_share(kept)) {
        if (asked->groups == MQTT_GROUPS_MAX) {
            asked->wanted = WANTED_TOO_MUCH;
            return false;
        }
        asked->desk->groups[asked->groups++] = mqtt_share_group(kept);
    }
    return asked->shares;
}

mqtt_wanted_t mqtt_stream_wanted(plane_t *plane, const mqtt_account_t *keeper, publication_t *publication) {
    text_t text = {0};
    asked_for_t asked = {.desk = plane->mqtt_desk, .shares = table_count(&keeper->shares) != 0};
    if (keeper->messages == NULL || keeper->messages->binding_count == 0) {
        return WANTED_NOT;
    }
    text_add_literal(&text, MQTT_MESSAGES);
    text_add(&text, publication->message.subject);
    if (text_bytes(&text).size != 0) {
        keeping_wanted(plane, keeper->messages, text_bytes(&text), note_wanted, &asked);
    }
    uint64_t most = plane->mqtt.max_queued_bytes;
    if (asked.wanted == WANTED && most != 0 && keeping_bytes(keeper->messages) >= most) {
        asked.wanted = WANTED_TOO_MUCH;
    }
    if (asked.groups != 0) {
        publication->without = asked.desk->groups;
        publication->without_count = asked.groups;
        publication->flags |= PUBLICATION_WITHOUT;
    }
    return asked.wanted;
}

/* A message that a stream publishes again: sessions get it with QoS 1, since it is on disk. Fields that order something
 * of a stream (Nats-) were for that one. Unless a session waits for it, it is a message as any other. */
void mqtt_republished(plane_t *plane, publication_t *publication) {
    mqtt_desk_t *desk = plane->mqtt_desk;
    const mqtt_account_t *keeper =
        desk == NULL || publication->account == NULL ? NULL : table_find(&desk->accounts, publication->account->js.id);
    publication->flags &= ~PUBLICATION_REPUBLISHED;
    mqtt_wanted_t wanted = keeper == NULL ? WANTED_NOT : mqtt_stream_wanted(plane, keeper, publication);
    plane->stats.mqtt_not_stored += wanted == WANTED_TOO_MUCH;
    if (wanted != WANTED) {
        publication->flags &= ~PUBLICATION_WITHOUT;
        return;
    }
    publication_t copy = *publication;
    const carry_t carried = {.qos = 1};
    mqtt_make(plane, desk, &publication->message, 0);
    desk->header.size = 0;
    if (desk->made.failed || carry_to_headers(&desk->header, &carried, &desk->made.properties) != STATUS_OK) {
        return;
    }
    copy.message.header = bytes_of(desk->header.at, (uint32_t)desk->header.size);
    uint32_t expiry = mqtt_lasts(&desk->made.properties);
    if (mqtt_keep(plane, desk, &copy, MQTT_MESSAGES, expiry, NULL, false) == MQTT_REASON_SUCCESS) {
        publication->flags |= PUBLICATION_REPUBLISHED;
    }
}

/* ---- reading the records of a stream ----------------------------------------------------------------------------- */

/* NULL: the stream has another name. */
static mqtt_account_t *stream_keeper(plane_t *plane, const stream_t *stream, bytes_t name) {
    mqtt_desk_t *desk = bytes_equal(stream->name, name) ? mqtt_desk_of(plane) : NULL;
    account_t *account = desk == NULL ? NULL : account_find(plane, stream->account->id);
    return account == NULL ? NULL : mqtt_account_of(plane, desk, account);
}

/* Reads all records of one kind, then those of the next. */
typedef struct reading {
    job_t job;
    mqtt_account_t *keeper;
    plane_t *plane;
    uint32_t kind;
    uint8_t after[ID_KEY_SIZE]; /* the key of the last one */
    uint32_t after_size;
    uint32_t left; /* of this step */
    uint32_t tries;
    status_t status;
    buffer_t gathered; /* records of this step: sizes of key and value, 4 bytes each, key, value */
} reading_t;

static bool gives_up(const reading_t *reading) {
    return !keeping_shared(reading->job.stream);
}

static status_t lose_session(const reading_t *reading, uint32_t number, const char *what) {
    status_t status = mqtt_kept_lose(reading->plane, reading->keeper, number);
    if (status == STATUS_OK) {
        keeping_tell_lost(reading->plane, reading->job.stream, number, what);
    }
    return status;
}

static status_t read_session(reading_t *reading, uint32_t number, bytes_t value) {
    bool damaged;
    kept_t *kept = kept_read(value, &damaged);
    if (kept == NULL) {
        return damaged ? STATUS_CORRUPT : STATUS_NO_MEMORY;
    }
    kept->number = number;
    status_t status = mqtt_kept_add(reading->plane, reading->keeper, kept, true);
    return status == STATUS_CORRUPT && gives_up(reading) ? lose_session(reading, number, "where it stood") : status;
}

/* A session that ended, but for its last record, is not there. */
static status_t read_identifier(const reading_t *reading, uint32_t number, uint16_t id, bytes_t value) {
    kept_t *kept = table_find(&reading->keeper->numbers, number);
    status_t status = kept == NULL                         ? STATUS_OK
                      : reading->kind == RECORD_SESSION_IN ? ids_add(&kept->received, id)
                                                           : mqtt_kept_released(kept, id, value);
    return status == STATUS_EXISTS ? STATUS_OK : status;
}

/* Copied, since acting on one reads the store, too, and so would take this walk to another place. */
static bool gather_entry(reading_t *reading, bytes_t key, bytes_t value, bool lost) {
    uint8_t *to;
    visits_add(1);
    if (key.size > ID_KEY_SIZE) {
        return true;
    }
    reading->status = buffer_reserve(&reading->gathered, GATHERED_HEAD + (uint64_t)key.size + value.size, &to);
    if (reading->status != STATUS_OK) {
        return false;
    }
    store_be32(to, key.size);
    store_be32(to + 4, lost ? LOST : value.size);
    (void)bytes_write(bytes_write(to + GATHERED_HEAD, key), value);
    reading->gathered.size += GATHERED_HEAD + (uint64_t)key.size + value.size;
    return --reading->left != 0 && reading->gathered.size < READ_BYTES;
}

static bool gather_record(void *context, bytes_t key, bytes_t value) {
    return gather_entry(context, key, value, false);
}

static bool gather_lost(void *context, bytes_t key) {
    return gather_entry(context, key, BYTES_NONE, true);
}

/* The value of an identifier says nothing that its key does not, but for an order. */
static status_t read_lost(const reading_t *reading, bytes_t key) {
    bool pair = reading->kind != RECORD_SESSION && reading->kind != RECORD_SESSION_WILL;
    if (key.size != (pair ? ID_KEY_SIZE : KEY_SIZE)) {
        return STATUS_OK;
    }
    uint32_t number = load_be32(key.at);
    bool will = reading->kind == RECORD_SESSION_WILL;
    if (reading->kind == RECORD_SESSION) {
        return lose_session(reading, number, "what it subscribed to");
    }
    if (!will && reading->kind != RECORD_SESSION_SHARED) {
        return read_identifier(reading, number, load_be16(key.at + 4), BYTES_NONE);
    }
    status_t status = keeping_drop(reading->plane, reading->job.stream, reading->kind, key, false);
    if (status == STATUS_OK) {
        keeping_tell_lost(reading->plane, reading->job.stream, number, will ? "its will" : "what it has of a share");
    }
    return status;
}

static status_t read_record(reading_t *reading, bytes_t key, bytes_t value) {
    bool shared = reading->kind == RECORD_SESSION_SHARED;
    bool identifier = reading->kind == RECORD_SESSION_IN || reading->kind == RECORD_SESSION_OUT || shared;
    if (key.size != (identifier ? ID_KEY_SIZE : KEY_SIZE)) {
        return STATUS_OK;
    }
    uint32_t number = load_be32(key.at);
    return shared                            ? mqtt_share_found(reading->plane, reading->keeper, number, value)
           : identifier                      ? read_identifier(reading, number, load_be16(key.at + 4), value)
           : reading->kind == RECORD_SESSION ? read_session(reading, number, value)
                                             : mqtt_will_found(reading->plane, reading->keeper, number, value);
}

/* One that could not be taken is read again. */
static void read_gathered(reading_t *reading) {
    bytes_t rest = bytes_of(reading->gathered.at, (uint32_t)reading->gathered.size);
    while (rest.size != 0 && reading->status == STATUS_OK) {
        bytes_t key = bytes_of(rest.at + GATHERED_HEAD, load_be32(rest.at));
        uint32_t size = load_be32(rest.at + 4);
        bytes_t value = bytes_of(key.at + key.size, size == LOST ? 0 : size);
        rest = bytes_after(rest, GATHERED_HEAD + key.size + value.size);
        reading->status = size == LOST ? read_lost(reading, key) : read_record(reading, key, value);
        if (reading->status == STATUS_OK) {
            (void)bytes_write(reading->after, key);
            reading->after_size = key.size;
        }
    }
}

/* A record that could not be read is not taken for one that is not there: after so many tries no message is taken for
 * sessions, and no client is let in that has one or wants one. It is read on until it can be; but damage, which a start
 * may mend. */
static bool reading_fails(reading_t *reading) {
    mqtt_account_t *keeper = reading->keeper;
    bool damaged = reading->status == STATUS_CORRUPT;
    reading->job.stuck = true;
    if (!keeper->unreadable && (damaged || ++reading->tries == READ_TRIES)) {
        keeper->unreadable = true;
        keeper->sessions = KEEPS_NO;
        mqtt_wake(reading->plane, keeper);
    }
    return damaged;
}

static bool reading_step(js_t *js, job_t *job) {
    reading_t *reading = (reading_t *)job;
    (void)js;
    if (reading->keeper->reading != reading) {
        return true; /* another server leads, and what was read is forgotten */
    }
    reading->left = READ_STEP;
    reading->status = STATUS_OK;
    reading->gathered.size = 0;
    const record_visit_t visit = {
        .found = gather_record, .lost = gives_up(reading) ? gather_lost : NULL, .context = reading};
    status_t status = list_status(keeping_each(reading->plane, job->stream, reading->kind,
                                               bytes_of(reading->after, reading->after_size), &visit));
    reading->status = status != STATUS_OK ? status : reading->status;
    read_gathered(reading);
    if (reading->status != STATUS_OK) {
        return reading_fails(reading);
    }
    if (reading->left == 0 || reading->gathered.size >= READ_BYTES) {
        return false;
    }
    reading->kind++;
    reading->after_size = 0;
    bool over = reading->kind > RECORD_SESSION_SHARED;
    reading->keeper->unreadable = reading->keeper->unreadable && !over;
    return over;
}

static void reading_end(js_t *js, job_t *job, status_t status) {
    reading_t *reading = (reading_t *)job;
    (void)js;
    if (reading->keeper->reading == reading) {
        reading->keeper->reading = NULL;
    } else {
        status = STATUS_CLOSED;
    }
    if (status == STATUS_OK) {
        reading->keeper->sessions = reading->keeper->unreadable ? KEEPS_NO : KEEPS_YES;
        /* Where a session is unreadable, a message that it wants would be taken for one that nobody wants. */
        if (!reading->keeper->unreadable) {
            keeping_made(reading->plane, job->stream);
        }
        mqtt_wake(reading->plane, reading->keeper);
    }
    buffer_free(&reading->gathered);
    free(reading);
}

static void messages_opened(plane_t *plane, mqtt_account_t *keeper, stream_t *stream) {
    reading_t *reading = calloc(1, sizeof(*reading));
    keeper->messages = stream;
    keeper->sessions = KEEPS_ASKED;
    keeper->unreadable = reading == NULL;
    keeper->reading = reading;
    if (reading == NULL) {
        keeper->sessions = KEEPS_NO;
        return;
    }
    buffer_init(&reading->gathered, UINT64_C(1) << 31);
    reading->job = (job_t){.stream = stream, .step = reading_step, .end = reading_end};
    reading->keeper = keeper;
    reading->plane = plane;
    reading->kind = RECORD_SESSION;
    job_start(&plane->js, &reading->job);
    keeping_bound(plane);
}

/* lost: another server leads the stream's group, and has the sessions and their wills. */
static void messages_removed(plane_t *plane, mqtt_account_t *keeper, bool lost) {
    map_walk_t walk = {0};
    for (kept_t *kept; (kept = table_next(&keeper->numbers, &walk)) != NULL;) {
        kept->binding = NULL; /* it goes with the stream */
        if (!lost) {
            mqtt_will_outlive(plane, kept);
        }
        if (kept->session != NULL && lost) {
            mqtt_send_on(plane, kept);
        } else if (kept->session != NULL) {
            peer_doom(plane, kept->session->owner, CLOSE_KICKED, BYTES_LITERAL("its session was removed"));
        }
        mqtt_kept_forget(plane, kept);
    }
    mqtt_share_forget_all(plane, keeper);
    keeper->messages = NULL;
    keeper->reading = NULL;
    keeper->sessions = KEEPS_UNKNOWN;
}

void mqtt_stream_opened(plane_t *plane, stream_t *stream) {
    mqtt_account_t *retains = stream_keeper(plane, stream, BYTES_LITERAL(MQTT_RETAINED));
    mqtt_account_t *keeper = stream_keeper(plane, stream, BYTES_LITERAL(NAME));
    if (retains != NULL) {
        retains->retained = stream;
    } else if (keeper != NULL && !keeping_shared(stream)) {
        messages_opened(plane, keeper, stream);
    }
}

void mqtt_stream_removed(plane_t *plane, stream_t *stream) {
    mqtt_account_t *retains = stream_keeper(plane, stream, BYTES_LITERAL(MQTT_RETAINED));
    mqtt_account_t *keeper = stream_keeper(plane, stream, BYTES_LITERAL(NAME));
    if (retains != NULL && retains->retained == stream) {
        retains->retained = NULL;
    } else if (keeper != NULL && keeper->messages == stream) {
        messages_removed(plane, keeper, false);
    }
}

bool mqtt_stream_led(plane_t *plane, stream_t *stream) {
    mqtt_account_t *keeper = stream_keeper(plane, stream, BYTES_LITERAL(NAME));
    if (keeper != NULL) {
        messages_opened(plane, keeper, stream);
    }
    return keeper != NULL;
}

void mqtt_stream_lost(plane_t *plane, stream_t *stream) {
    mqtt_account_t *keeper = stream_keeper(plane, stream, BYTES_LITERAL(NAME));
    if (keeper != NULL && keeper->messages == stream) {
        messages_removed(plane, keeper, true);
        keeper->unreadable = false; /* by this server, which is not asked any more */
        keeper->elsewhere = KEEPS_YES;
        mqtt_wake(plane, keeper);
    }
    mqtt_far_lost(plane, stream);
}
