/* session.c: see session.h. */
#include "sessions/session.h"

#include <stdlib.h>

#include "base/copies.h"

#define WINDOW_MAX 65535u

void session_forget_will(session_t *session) {
    if (session->will != NULL) {
        will_free(session->will);
        session->will = NULL;
    }
}

/* ---- making and reading a session -------------------------------------------------------------------------------- */

session_t *session_new(const mqtt_login_t *login, const mqtt_properties_t *properties, const session_terms_t *terms) {
    session_t *session = calloc(1, sizeof(*session));
    if (session == NULL) {
        return NULL;
    }
    bool five = login->level == MQTT_5;
    uint32_t window = five ? mqtt_number(properties, MQTT_RECEIVE_MAXIMUM, WINDOW_MAX) : WINDOW_MAX;
    uint32_t aliases = five ? mqtt_number(properties, MQTT_TOPIC_ALIAS_MAXIMUM, 0) : 0;
    session->writer.level = login->level;
    session->writer.max_packet = five ? mqtt_number(properties, MQTT_MAXIMUM_PACKET, UINT32_MAX) : UINT32_MAX;
    session->clean = login->clean;
    session->explains = !five || mqtt_number(properties, MQTT_REQUEST_PROBLEM, 1) != 0;
    session->keep_alive = login->keep_alive;
    session->expiry = five ? mqtt_number(properties, MQTT_SESSION_EXPIRY, 0) : login->clean ? 0 : SESSION_EVER;
    session->named.max = terms->alias_max;
    session->given.max = aliases < ALIASES_SENT_MAX ? aliases : ALIASES_SENT_MAX;
    flight_init(&session->flight, window < terms->window ? window : terms->window, terms->waiting_max, terms->waiting);
    bool will = !login->has_will || (session->will = will_new(&login->will)) != NULL;
    if (!will || !session_name(session, login->client)) {
        session_free(session);
        return NULL;
    }
    return session;
}

bool session_name(session_t *session, bytes_t client) {
    bytes_t copy = bytes_copy(client);
    bytes_release(&session->client.name);
    session->client.name = copy;
    return copy.size == client.size;
}

bool session_read(session_t *session, bytes_t sid, bytes_t pattern) {
    retained_read_t *read = malloc(sizeof(*read) + sid.size + pattern.size);
    if (read == NULL) {
        return false;
    }
    *read = (retained_read_t){.from = 1, .sid_size = sid.size, .pattern_size = pattern.size};
    (void)bytes_write(bytes_write(read->bytes, sid), pattern);
    *(session->reads == NULL ? &session->reads : &session->reads_last->next) = read;
    session->reads_last = read;
    return true;
}

void session_read_done(session_t *session) {
    retained_read_t *read = session->reads;
    session->reads = read->next;
    free(read);
}

void session_free(session_t *session) {
    while (session->reads != NULL) {
        session_read_done(session);
    }
    bytes_release(&session->client.name);
    session_forget_will(session);
    answers_free(&session->answers);
    ids_free(&session->received);
    flight_free(&session->flight);
    aliases_free(&session->named);
    aliases_free(&session->given);
    free(session);
}

uint64_t session_size(const session_t *session) {
    uint64_t will = session->will == NULL ? 0 : will_size(session->will);
    uint64_t aliases = session->named.bytes + session->given.bytes
                       + (session->named.topics != NULL ? session->named.max * sizeof(bytes_t) : 0)
                       + (session->given.topics != NULL ? session->given.max * sizeof(bytes_t) : 0);
    return sizeof(*session) + sizeof(flight_part_t) + session->client.name.size + will + aliases
           + session->answers.room * sizeof(answer_t);
}
