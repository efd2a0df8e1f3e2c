/* mqtt_retain.c: retained messages: the newest one of each subject whose publisher has asked for that, in a stream of
 * the account, `$MQTT_rmsgs`.
 *
 *     PUBLISH, retain --> $MQTT.rmsgs.<subject>      one message a subject; its expiry is its TTL
 *     without payload --> the same with a TTL of an hour, which nobody is sent: the subject has none then; who copies
 *                         the stream hears so of it, also behind an outage (of a second where max_retained counts them)
 *     SUBSCRIBE       --> all that was retained before it is on disk
 *                     --> read in parts, while the client keeps up --> PUBLISH, retain
 *                         (of this server's own stream out of the store; of one that several servers keep, or another
 *                         one has, by direct gets)
 *     PUBLISH, retain --> a subscription that is still to read the message which it replaces gets that one first
 *
 * A message has nats-server's fields Nmqtt-RTopic and Nmqtt-RFlags: either server's stream may be a copy of the other.
 * The stream is asked for by JetStream's own API when the first client of an account with JetStream comes, and again
 * when another one comes and that has not been answered for a second. Not here: the stream.
 */
#include "base/clock.h"
#include "net/outq.h"
#include "plane/account.h"
#include "plane/keeping.h"
#include "plane/output.h"
#include "route/permissions.h"
#include "text/decimal.h"
#include "text/headers.h"
#include "text/subject.h"
#include "text/time_text.h"
#include "verbs/mqtt.h"
#include "verbs/mqtt_lasting.h"
#include "verbs/mqtt_far.h"
#include "verbs/mqtt_retain.h"

#define SUBJECTS MQTT_RETAINED_SUBJECTS
#define CREATE "$JS.API.STREAM.CREATE." MQTT_RETAINED
#define GET "$JS.API.DIRECT.GET." MQTT_RETAINED
#define PART_MESSAGES 512u
#define PART_BYTES (64u * 1024u)
#define ASK_AGAIN_NS (1 * NS_PER_SECOND)
#define ENDED_SECONDS 3600u      /* so long a subject that was cleared still has a message .. */
#define ENDED_COUNTED_SECONDS 1u /* .. or, where those are counted that may be there, for another one's sake */

/* ---- the stream -------------------------------------------------------------------------------------------------- */

static mqtt_account_t *keeper_of(const peer_t *peer) {
    const mqtt_desk_t *desk = peer->session->shared;
    return table_find(&desk->accounts, peer->account->js.id);
}

bool mqtt_retain_here(const mqtt_account_t *keeper) {
    return keeper->retained != NULL && keeper->retained->subject_count != 0;
}

/* The stream is there, and not at this server, or led by another one. */
static bool retained_is_far(const plane_t *plane, const mqtt_account_t *keeper) {
    return !mqtt_retain_here(keeper) && keeper->keeps == KEEPS_YES && mqtt_far_possible(plane);
}

/* Likewise, and its server cannot be reached; or it has been deleted since. */
static bool retained_is_away(plane_t *plane, const account_t *account, const mqtt_account_t *keeper) {
    return retained_is_far(plane, keeper) && !mqtt_far_retains(plane, account);
}

void mqtt_retain_begin(plane_t *plane, account_t *account) {
    mqtt_account_t *keeper = mqtt_account_of(plane, plane->mqtt_desk, account);
    if (keeper == NULL || (keeper->keeps == KEEPS_YES && !retained_is_away(plane, account, keeper))) {
        return;
    }
    if (keeper->keeps == KEEPS_ASKED && plane->now.mono_ns - keeper->keeps_ns < ASK_AGAIN_NS) {
        return; /* hundreds come before control has answered, behind a start */
    }
    if ((account->flags & ACCOUNT_JETSTREAM) == 0) {
        keeper->keeps = KEEPS_NO;
        return;
    }
    text_t text = {0};
    text_add_literal(&text, "{\"name\":\"" MQTT_RETAINED "\",\"subjects\":[\"" SUBJECTS ">\"],\"retention\":\"limits\","
                            "\"storage\":\"file\",\"discard\":\"new\",\"max_consumers\":-1,\"max_msgs_per_subject\":1,"
                            "\"allow_direct\":true,\"allow_msg_ttl\":true,\"num_replicas\":");
    text_add_number(&text, mqtt_far_replicas(plane));
    if (plane->mqtt.max_retained != 0) {
        text_add_literal(&text, ",\"max_msgs\":");
        text_add_number(&text, plane->mqtt.max_retained);
    }
    if (plane->mqtt.max_retained_bytes != 0) {
        text_add_literal(&text, ",\"max_bytes\":");
        text_add_number(&text, plane->mqtt.max_retained_bytes);
    }
    text_add_literal(&text, "}");
    bool asked = mqtt_ask_control(plane, account, CREATE, text_bytes(&text), "s");
    keeper->keeps = asked ? KEEPS_ASKED : KEEPS_NO;
    keeper->keeps_ns = plane->now.mono_ns;
}

mqtt_keeps_t mqtt_retain_keeps(const peer_t *peer) {
    const mqtt_account_t *keeper = keeper_of(peer);
    return keeper == NULL ? KEEPS_NO : keeper->keeps;
}

void mqtt_retain_wait(plane_t *plane, peer_t *peer) {
    mqtt_account_t *keeper = keeper_of(peer);
    session_t *session = peer->session;
    if (!session->waits_keeper) {
        session->waits_keeper = true;
        session->next_waiting = keeper->waiting;
        keeper->waiting = session;
        mqtt_hold(plane, peer);
    }
}

bool mqtt_is_there(bytes_t payload) {
    /* there with another configuration; its server is away; nobody knows now */
    static const char *const there[] = {"\"err_code\":10058", "\"err_code\":10118", "\"err_code\":10008"};
    bool is = payload.size != 0 && memmem(payload.at, payload.size, "\"error\":", strlen("\"error\":")) == NULL;
    for (uint32_t i = 0; i < sizeof there / sizeof there[0] && payload.size != 0; i++) {
        is = is || memmem(payload.at, payload.size, there[i], strlen(there[i])) != NULL;
    }
    return is;
}

void mqtt_retain_made(plane_t *plane, mqtt_account_t *keeper, bytes_t payload) {
    if (keeper->keeps != KEEPS_ASKED) {
        return;
    }
    keeper->keeps = mqtt_is_there(payload) ? KEEPS_YES : KEEPS_NO;
    mqtt_wake(plane, keeper);
}

static void forget_waiting(peer_t *peer) {
    mqtt_account_t *keeper = keeper_of(peer);
    session_t **at = keeper == NULL ? NULL : &keeper->waiting;
    while (at != NULL && *at != NULL && *at != peer->session) {
        at = &(*at)->next_waiting;
    }
    if (at != NULL && *at != NULL) {
        *at = peer->session->next_waiting;
    }
}

void mqtt_retain_forget(peer_t *peer) {
    session_t *session = peer->session;
    if (session->waits_keeper) {
        forget_waiting(peer);
    }
    if (!session->reads_ready) {
        return;
    }
    mqtt_desk_t *desk = session->shared;
    session_t *before = NULL, *at = desk->ready;
    while (at != NULL && at != session) {
        before = at;
        at = at->next_ready;
    }
    if (at != NULL) {
        *(before == NULL ? &desk->ready : &before->next_ready) = session->next_ready;
        desk->ready_last = desk->ready_last == session ? before : desk->ready_last;
    }
}

/* ---- keeping one ------------------------------------------------------------------------------------------------- */

/* Behind the message's own fields: what nats-server reads in one that it copies from here. */
static status_t put_marks(mqtt_desk_t *desk, const publication_t *publication, const mqtt_message_t *message) {
    text_t flags = {0};
    bytes_t subject = publication->message.subject;
    text_add_literal(&flags, message->payload.size == 0 ? "-" : "");
    text_add_number(&flags, 1u | (uint32_t)message->qos << 1);
    bytes_t topic = bytes_of(desk->topic, topic_of_subject(subject, desk->topic));
    status_t status = headers_append(&desk->packet, 0, BYTES_LITERAL("Nmqtt-RTopic"), topic);
    return status == STATUS_OK ? headers_append(&desk->packet, 0, BYTES_LITERAL("Nmqtt-RFlags"), text_bytes(&flags))
                               : status;
}

/* A stream keeps no reply. */
static status_t put_response(mqtt_desk_t *desk, bytes_t reply) {
    if (reply.size == 0) {
        return STATUS_OK;
    }
    bytes_t topic = bytes_of(desk->response, topic_of_subject(reply, desk->response));
    return headers_append(&desk->packet, 0, BYTES_LITERAL("Nmqtt-Response"), topic);
}

/* What a message is stored for, of the time that its publisher says; 0: for ever. */
static uint64_t kept_seconds(const plane_t *plane, uint32_t seconds) {
    uint64_t most = ((uint64_t)plane->mqtt.message_expiry_max_ns + NS_PER_SECOND - 1) / NS_PER_SECOND;
    return most != 0 && (seconds == 0 || seconds > most) ? most : seconds;
}

mqtt_reason_t mqtt_keep(plane_t *plane, mqtt_desk_t *desk, const publication_t *publication, const char *prefix,
                        uint32_t seconds, const mqtt_message_t *retained, bool far) {
    uint64_t lasts = kept_seconds(plane, seconds);
    bytes_t header = publication->message.header;
    text_t subject = {0}, ttl = {0};
    text_add_literal(&subject, prefix);
    text_add(&subject, publication->message.subject);
    if (text_bytes(&subject).size == 0) {
        return MQTT_REASON_TOPIC;
    }
    desk->packet.size = 0;
    status_t status = buffer_append(&desk->packet, header.at, header.size);
    status = status == STATUS_OK ? put_response(desk, publication->message.reply) : status;
    status = status == STATUS_OK && retained != NULL ? put_marks(desk, publication, retained) : status;
    if (status == STATUS_OK && lasts != 0) {
        text_add_number(&ttl, lasts);
        text_add_literal(&ttl, "s");
        status = headers_append(&desk->packet, 0, BYTES_LITERAL("Nats-TTL"), text_bytes(&ttl));
    }
    if (status != STATUS_OK) {
        return MQTT_REASON_QUOTA;
    }
    publication_t kept = *publication;
    kept.message = (message_t){.subject = text_bytes(&subject),
                               .header = bytes_of(desk->packet.at, (uint32_t)desk->packet.size),
                               .payload = publication->message.payload};
    if (far) {
        mqtt_far_keep(plane, &kept, prefix);
        return MQTT_REASON_SUCCESS;
    }
    kept.flags |= PUBLICATION_INSIDE; /* everybody else has had it */
    (void)publish(plane, &kept);
    return MQTT_REASON_SUCCESS;
}

mqtt_reason_t mqtt_retain(plane_t *plane, mqtt_desk_t *desk, const publication_t *publication,
                          const mqtt_message_t *message) {
    uint32_t expiry = mqtt_lasts(&message->properties);
    uint32_t ended = plane->mqtt.max_retained == 0 ? ENDED_SECONDS : ENDED_COUNTED_SECONDS;
    const mqtt_account_t *keeper = table_find(&desk->accounts, publication->account->js.id);
    bool far = keeper != NULL && retained_is_far(plane, keeper);
    if (far && !mqtt_far_retains(plane, publication->account)) {
        return MQTT_REASON_QUOTA; /* the server that has them cannot be reached */
    }
    return mqtt_keep(plane, desk, publication, SUBJECTS, message->payload.size == 0 ? ended : expiry, message, far);
}

/* ---- retained messages for a new subscription -------------------------------------------------------------------- */

static uint64_t read_size(bytes_t sid, bytes_t pattern) {
    return sizeof(retained_read_t) + sid.size + pattern.size;
}

static bytes_t read_sid(const retained_read_t *read) {
    return bytes_of(read->bytes, read->sid_size);
}

static bytes_t read_pattern(const retained_read_t *read) {
    return bytes_of(read->bytes + read->sid_size, read->pattern_size);
}

static void read_is_over(plane_t *plane, peer_t *peer) {
    session_t *session = peer->session;
    const retained_read_t *read = session->reads;
    subscription_t *one = subscription_find_sid(peer->table, read_sid(read));
    uint64_t size = read_size(read_sid(read), read_pattern(read));
    if (one != NULL) {
        one->flags &= ~MQTT_SUB_READS;
    }
    session->cost -= size;
    plane->memory.interest.used -= size;
    session_read_done(session);
}

static void read_later(plane_t *plane, peer_t *peer) {
    peer_doom(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("retained messages cannot be read now"));
}

static bool reads_have_room(const peer_t *peer) {
    return outq_pending(&peer->conn.out) + flight_waiting(&peer->session->flight) <= OUTPUT_REFILL;
}

/* It goes on when what it was sent has been written. */
static void read_pauses(const plane_t *plane, peer_t *peer) {
    peer->session->reads_pause = peer->refills = true;
    peer->next_ping_ns = plane->now.mono_ns; /* or mqtt_beat goes on with it */
}

/* It goes on in the next turn, behind others. */
static void read_is_ready(plane_t *plane, session_t *session) {
    mqtt_desk_t *desk = session->shared;
    session->reads_pause = session->reads_ready = true;
    session->next_ready = NULL;
    *(desk->ready == NULL ? &desk->ready : &desk->ready_last->next_ready) = session;
    desk->ready_last = session;
    plane->reads_go = plane->more = true;
}

/* ---- out of a stream of this server alone ------------------------------------------------------------------------ */

/* NULL: its messages are asked for. */
static const stream_t *own_stream(const mqtt_account_t *keeper) {
    const stream_t *stream = keeper == NULL ? NULL : keeper->retained;
    return stream == NULL || (stream->config.flags & STREAM_REPLICATED) != 0 ? NULL : stream;
}

static void send_stored(plane_t *plane, subscription_t *one, const stored_message_t *stored) {
    message_t shown = {.subject = bytes_after(stored->subject, sizeof(SUBJECTS) - 1),
                       .header = stored->header,
                       .payload = stored->payload};
    if (shown.payload.size != 0) {
        mqtt_deliver_retained(plane, one, &shown, plane->now.wall_ns - stored->ts);
    }
}

/* It came behind the subscription, which had it as any other message. A device of this server has said it then, if
 * nothing else writes to the stream. */
static bool was_passed_on(const plane_t *plane, const stream_t *stream, const session_t *session,
                          const stored_message_t *stored) {
    bytes_t origin;
    return stored->seq > session->reads->upto && !session->reads_missed && !mqtt_far_possible(plane)
           && (stream->config.flags & STREAM_MIRROR) == 0
           && !headers_find(stored->header, BYTES_LITERAL("Nats-Stream-Source"), &origin);
}

typedef enum part { PART_OVER, PART_MORE, PART_UNKNOWN } part_t;

/* Sends some of what it reads. */
static part_t send_part(plane_t *plane, peer_t *peer, const stream_t *stream, subscription_t *one) {
    session_t *session = peer->session;
    retained_read_t *read = session->reads;
    text_t pattern = {0};
    text_add_literal(&pattern, SUBJECTS);
    text_add(&pattern, read_pattern(read));
    search_t search = {.pattern = text_bytes(&pattern), .from = read->from};
    part_t part = one == NULL || search.pattern.size == 0 ? PART_OVER : PART_MORE;
    bool goes_on = part == PART_MORE;
    uint64_t bytes = 0;
    for (uint32_t i = 0; goes_on && i < PART_MESSAGES && bytes < PART_BYTES; i++) {
        stored_message_t stored;
        switch (search_step(stream, &search, &stored)) {
        case SEARCH_FOUND:
            if (!was_passed_on(plane, stream, session, &stored)) {
                send_stored(plane, one, &stored);
                bytes += stored_size(&stored);
            }
            search.from = stored.seq + 1;
            goes_on = peer->state == PEER_ADMITTED;
            break;
        case SEARCH_MORE: goes_on = false; break;
        case SEARCH_NONE:
        case SEARCH_DAMAGED:
            part = PART_OVER;
            goes_on = false;
            break;
        case SEARCH_UNKNOWN:
            part = PART_UNKNOWN;
            goes_on = false;
            break;
        }
    }
    read->from = search.from;
    search_end(&search);
    return part;
}

static bool is_cheap(const retained_read_t *read) {
    return !subject_has_wildcard(read_pattern(read));
}

/* Only what is on disk is shown. A message that was retained before the subscription and is not there yet has passed
 * already, so it would be missed, and with it the one that it replaced. */
static void wait_for_disk(plane_t *plane, peer_t *peer, const stream_t *stream) {
    text_t at;
    mqtt_answer_subject(peer->session->shared, peer, "b", 0, &at);
    if (keeping_hold_here(plane, stream, text_bytes(&at), BYTES_NONE) != STATUS_OK) {
        read_later(plane, peer);
    }
}

/* One part, or several reads that come to their ends. waited: the first one has waited for the disk. */
static void read_on(plane_t *plane, peer_t *peer, const stream_t *stream, bool waited) {
    session_t *session = peer->session;
    for (; session->reads != NULL; waited = false) {
        const retained_read_t *read = session->reads;
        if (!waited && store_stream_visible(stream->store) < read->upto) {
            wait_for_disk(plane, peer, stream);
            return;
        }
        if (!job_takes(&plane->js, is_cheap(read) ? JOB_GLANCE : JOB_LOOK)) {
            read_is_ready(plane, session);
            return;
        }
        part_t part = send_part(plane, peer, stream, subscription_find_sid(peer->table, read_sid(read)));
        if (peer->state != PEER_ADMITTED) {
            return;
        }
        switch (part) {
        case PART_UNKNOWN: read_later(plane, peer); return;
        case PART_MORE:
            if (reads_have_room(peer)) {
                read_is_ready(plane, session);
            } else {
                read_pauses(plane, peer);
            }
            return;
        case PART_OVER: read_is_over(plane, peer); break;
        }
    }
}

void mqtt_retain_first(plane_t *plane, subscription_t *one, bytes_t subject) {
    peer_t *peer = one->peer;
    session_t *session = peer->session;
    const stream_t *stream = own_stream(keeper_of(peer));
    if (session->reads == NULL || stream == NULL) {
        return;
    }
    /* The others begin behind that one. */
    bool under_way = bytes_equal(read_sid(session->reads), bytes_of(one->sid, one->sid_size));
    const retained_read_t *read = under_way ? session->reads : session->reads_last;
    text_t name = {0};
    stored_message_t stored;
    text_add_literal(&name, SUBJECTS);
    text_add(&name, subject);
    if (text_bytes(&name).size == 0) {
        return;
    }
    switch (store_last_by_subject(stream->store, text_bytes(&name), UINT64_MAX, &stored)) {
    case ENTRY_UNKNOWN: read_later(plane, peer); break;
    case ENTRY_NONE:
    case ENTRY_DAMAGED: break;
    case ENTRY_FOUND:
        if (stored.seq <= read->upto && (!under_way || stored.seq >= read->from)) {
            send_stored(plane, one, &stored);
        }
        break;
    }
}

/* ---- by direct gets ---------------------------------------------------------------------------------------------- */

static void ask_part(plane_t *plane, peer_t *peer) {
    session_t *session = peer->session;
    while (session->reads != NULL) {
        const retained_read_t *read = session->reads;
        const mqtt_account_t *keeper = keeper_of(peer);
        const stream_t *own = own_stream(keeper);
        if (own != NULL) {
            read_on(plane, peer, own, false);
            return;
        }
        text_t text = {0};
        text_add_literal(&text, "{\"seq\":");
        text_add_number(&text, read->from);
        text_add_literal(&text, ",\"batch\":");
        text_add_number(&text, PART_MESSAGES);
        text_add_literal(&text, ",\"max_bytes\":");
        text_add_number(&text, PART_BYTES);
        text_add_literal(&text, ",\"uncounted\":true,\"next_by_subj\":\"" SUBJECTS);
        text_add_escaped(&text, read_pattern(read));
        text_add_literal(&text, "\"}");
        bool asks = text_bytes(&text).size != 0, copy = keeper != NULL && keeper->retained != NULL;
        if (asks && !copy && keeper != NULL && retained_is_far(plane, keeper)) {
            mqtt_far_ask(plane, peer, GET, text_bytes(&text));
            return;
        }
        if (asks && mqtt_ask_inside(plane, peer, GET, text_bytes(&text), "r")) {
            session->reads->asked_ns = 0;
            return;
        }
        if (asks && copy && (keeper->retained->config.flags & STREAM_REPLICATED) != 0) {
            mqtt_far_later(plane, peer); /* this server's copy answers when it hears its leader */
            return;
        }
        read_is_over(plane, peer);
    }
}

static void begin_read(plane_t *plane, peer_t *peer) {
    const mqtt_account_t *keeper = keeper_of(peer);
    if (peer->session->reads != NULL && keeper != NULL && keeper->retained != NULL) {
        wait_for_disk(plane, peer, keeper->retained);
    } else if (peer->session->reads != NULL) {
        ask_part(plane, peer); /* of another server, or of nobody */
    }
}

void mqtt_retain_durable(plane_t *plane, peer_t *peer) {
    const stream_t *own = own_stream(keeper_of(peer));
    if (peer->state != PEER_ADMITTED) {
        return;
    }
    if (own != NULL) {
        read_on(plane, peer, own, true);
    } else {
        ask_part(plane, peer);
    }
}

bool mqtt_retain_read(plane_t *plane, peer_t *peer, bytes_t sid, bytes_t pattern) {
    session_t *session = peer->session;
    bool idle = session->reads == NULL;
    uint64_t size = read_size(sid, pattern);
    const mqtt_account_t *keeper = keeper_of(peer);
    subscription_t *one = subscription_find_sid(peer->table, sid);
    if (!mqtt_room(plane, size) || !session_read(session, sid, pattern)) {
        return false;
    }
    session->reads_last->upto = keeper->retained == NULL ? 0 : keeping_last(keeper->retained);
    session->reads_missed = session->reads_missed && !idle;
    if (one != NULL) {
        one->flags |= MQTT_SUB_READS;
    }
    session->cost += size;
    plane->memory.interest.used += size;
    if (idle) {
        begin_read(plane, peer);
    }
    return true;
}

static void send_found(plane_t *plane, peer_t *peer, const message_t *message) {
    const retained_read_t *read = peer->session->reads;
    bytes_t subject, stamp;
    int64_t stored_ns = plane->now.wall_ns;
    if (message->payload.size == 0 || !headers_find(message->header, BYTES_LITERAL("Nats-Subject"), &subject)
        || !bytes_starts(subject, BYTES_LITERAL(SUBJECTS))) {
        return;
    }
    subscription_t *one = subscription_find_sid(peer->table, read_sid(read));
    message_t shown = {
        .subject = bytes_after(subject, sizeof(SUBJECTS) - 1), .header = message->header, .payload = message->payload};
    if (headers_find(message->header, BYTES_LITERAL("Nats-Time-Stamp"), &stamp) && !time_parse(stamp, &stored_ns)) {
        stored_ns = plane->now.wall_ns;
    }
    if (one != NULL) {
        mqtt_deliver_retained(plane, one, &shown, plane->now.wall_ns - stored_ns);
    }
}

/* A part is over: the next one, when the client has room for it. */
static void end_part(plane_t *plane, peer_t *peer, bytes_t header) {
    session_t *session = peer->session;
    bytes_t pending, last;
    uint64_t left, sequence;
    bool more = headers_find(header, BYTES_LITERAL("Nats-Num-Pending"), &pending) && decimal_parse(pending, &left)
                && left != 0 && headers_find(header, BYTES_LITERAL("Nats-Last-Sequence"), &last)
                && decimal_parse(last, &sequence) && sequence >= session->reads->from;
    if (!more) {
        read_is_over(plane, peer);
        begin_read(plane, peer);
        return;
    }
    session->reads->from = sequence + 1;
    if (!reads_have_room(peer)) {
        read_pauses(plane, peer);
        return;
    }
    ask_part(plane, peer);
}

void mqtt_retain_again(plane_t *plane, peer_t *peer) {
    ask_part(plane, peer);
}

void mqtt_retain_go_on(plane_t *plane, peer_t *peer) {
    session_t *session = peer->session;
    if (session == NULL || !session->reads_pause || session->reads_ready) {
        return;
    }
    if (!reads_have_room(peer)) {
        peer->refills = true;
        return;
    }
    read_is_ready(plane, session);
}

void mqtt_retain_turn(plane_t *plane) {
    mqtt_desk_t *desk = plane->mqtt_desk;
    session_t *ready = desk->ready;
    plane->reads_go = false;
    desk->ready = desk->ready_last = NULL;
    while (ready != NULL) { /* one that has to wait again is not ready before it is written to */
        session_t *session = ready;
        ready = session->next_ready;
        session->reads_ready = session->reads_pause = false;
        if (((const peer_t *)session->owner)->state == PEER_ADMITTED) {
            ask_part(plane, session->owner);
        }
    }
}

void mqtt_retain_found(plane_t *plane, peer_t *peer, const message_t *message) {
    bytes_t header = message->header;
    if (peer->session->reads == NULL || peer->state != PEER_ADMITTED) {
        return;
    }
    bool status = header.size > 12 && header.at[8] == ' ';
    if (!status) {
        send_found(plane, peer, message);
    } else if (header.at[9] == '2' || header.at[9] == '4') { /* the end, or there is none */
        end_part(plane, peer, header);
    } else { /* what cannot be read is not known: it is to ask again */
        read_later(plane, peer);
    }
}
