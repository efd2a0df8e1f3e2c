/* js_rig.h: a small host for JetStream, in place of the plane: it routes literal subjects by a list, and writes down
 * all that is published. Time stands still unless a test moves js_rig_now.
 */
#ifndef LEAFD_TESTS_JS_RIG_H
#define LEAFD_TESTS_JS_RIG_H

#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "jetstream/commands.h"
#include "jetstream/js.h"
#include "directory.h"
#include "patience.h"
#include "test.h"

#define JS_RIG_ACCOUNTS 2u

struct sink {
    js_account_t *account;
    js_role_t role;
    void *object;
    struct sink *next;
    uint32_t size;
    uint8_t at[256];
};

typedef struct js_rig {
    js_t js;
    exchange_t exchange;
    plane_limits_t limits;
    moment_t now;
    js_account_t accounts[JS_RIG_ACCOUNTS]; /* numbers 1 and 2 */
    sink_t *sinks;
    uint32_t listens_left; /* then there is no memory */
    char heard[1 << 16];   /* "<subject> <header><payload>\n" of each message */
    size_t heard_size;
    int64_t link_heard_ns; /* of any link */
    int64_t heard_at_ns;
    int64_t round_trip_ns;
    char directory[64];
} js_rig_t;

/* To JetStream the host is a plane_t; to itself, this. */
static inline js_rig_t *js_rig_of(plane_t *plane) {
    return (js_rig_t *)(void *)plane;
}

static inline bytes_t js_rig_text(const char *text) {
    return bytes_of(text, (uint32_t)strlen(text));
}

static inline js_account_t *js_rig_account(plane_t *plane, uint32_t id) {
    return id == 0 || id > JS_RIG_ACCOUNTS ? NULL : &js_rig_of(plane)->accounts[id - 1];
}

static inline status_t js_rig_listen(plane_t *plane, js_account_t *account, js_role_t role, bytes_t subject,
                                     uint64_t link, void *object, sink_t **out) {
    (void)link;
    js_rig_t *rig = js_rig_of(plane);
    if (rig->listens_left-- == 0) {
        rig->listens_left = 0;
        return STATUS_NO_MEMORY;
    }
    sink_t *sink = calloc(1, sizeof(*sink));
    CHECK(sink != NULL && subject.size <= sizeof(sink->at));
    *sink = (sink_t){.account = account, .role = role, .object = object, .next = rig->sinks, .size = subject.size};
    memcpy(sink->at, subject.at, subject.size);
    rig->sinks = sink;
    *out = sink;
    return STATUS_OK;
}

static inline void js_rig_unlisten(plane_t *plane, sink_t *sink) {
    sink_t **at = &js_rig_of(plane)->sinks;
    while (*at != sink) {
        CHECK(*at != NULL);
        at = &(*at)->next;
    }
    *at = sink->next;
    free(sink);
}

static inline bytes_t js_rig_subject(const sink_t *sink) {
    return bytes_of(sink->at, sink->size);
}

static inline void js_rig_write(js_rig_t *rig, bytes_t text) {
    CHECK(rig->heard_size + text.size < sizeof(rig->heard));
    if (text.size != 0) memcpy(rig->heard + rig->heard_size, text.at, text.size);
    rig->heard_size += text.size;
    rig->heard[rig->heard_size] = 0;
}

static inline void js_rig_publish(plane_t *plane, js_account_t *account, bytes_t subject, bytes_t reply, bytes_t header,
                                  bytes_t payload) {
    (void)account, (void)reply;
    const bytes_t parts[] = {subject, BYTES_LITERAL(" "), header, payload, BYTES_LITERAL("\n")};
    for (uint32_t i = 0; i < 5; i++) js_rig_write(js_rig_of(plane), parts[i]);
}

static inline void js_rig_status(plane_t *plane, js_account_t *account, const flow_t *flow, bytes_t subject,
                                 bytes_t reply, bytes_t header) {
    CHECK(flow->id >= FLOW_FIRST);
    js_rig_publish(plane, account, subject, reply, header, BYTES_NONE);
}

static inline delivered_t js_rig_deliver(plane_t *plane, js_account_t *account, const delivery_t *delivery) {
    js_rig_publish(plane, account, delivery->to, BYTES_NONE, BYTES_NONE, delivery->payload);
    return DELIVERED;
}

static inline bool js_rig_interest(plane_t *plane, js_account_t *account, bytes_t subject, bytes_t group) {
    (void)plane, (void)account, (void)subject, (void)group;
    return true;
}

static inline void js_rig_release(plane_t *plane, const held_entry_t *entry) {
    const uint8_t *at = entry->bytes;
    const uint8_t *header = at + entry->subject_size + entry->reply_size;
    js_rig_publish(plane, NULL, bytes_of(at, entry->subject_size), BYTES_NONE, bytes_of(header, entry->header_size),
                   bytes_of(header + entry->header_size, entry->payload_size));
}

static inline bool js_rig_advisory_room(plane_t *plane) {
    (void)plane;
    return true;
}

static inline void js_rig_advise(plane_t *plane, event_entry_t *entry) {
    (void)plane;
    free(entry);
}

static inline status_t js_rig_watch(plane_t *plane, uint32_t which_store, int fd) {
    (void)plane, (void)which_store, (void)fd;
    return STATUS_OK;
}

static inline int64_t js_rig_heard(plane_t *plane, uint64_t link) {
    return link != 0 ? js_rig_of(plane)->link_heard_ns : -1;
}

static inline int64_t js_rig_round_trip(plane_t *plane, uint64_t link) {
    return link != 0 ? js_rig_of(plane)->round_trip_ns : 0;
}

static inline int64_t js_rig_heard_at(plane_t *plane, uint64_t link) {
    return link != 0 ? js_rig_of(plane)->heard_at_ns : 0;
}

static const js_host_t js_rig_host = {
    .account = js_rig_account,
    .listen = js_rig_listen,
    .unlisten = js_rig_unlisten,
    .subject = js_rig_subject,
    .publish = js_rig_publish,
    .status = js_rig_status,
    .deliver = js_rig_deliver,
    .interest = js_rig_interest,
    .exact_interest = js_rig_interest,
    .release = js_rig_release,
    .heard = js_rig_heard,
    .heard_at = js_rig_heard_at,
    .round_trip = js_rig_round_trip,
    .advisory_room = js_rig_advisory_room,
    .advise = js_rig_advise,
    .watch = js_rig_watch,
};

static inline js_rig_t *js_rig_open(void) {
    js_rig_t *rig = calloc(1, sizeof(*rig));
    CHECK(rig != NULL);
    rig->now = clock_now();
    rig->limits = (plane_limits_t){.max_file_store = 64 << 20,
                                   .journal_size = DIRECTORY_JOURNAL,
                                   .max_pending = 1 << 20,
                                   .max_payload = 64 << 10,
                                   .jetstream = 1};
    rig->listens_left = UINT32_MAX;
    for (uint32_t i = 0; i < JS_RIG_ACCOUNTS; i++) {
        rig->accounts[i].id = i + 1;
        allowance_begin(&rig->accounts[i].stored[0], i + 1);
        allowance_begin(&rig->accounts[i].stored[1], i + 1);
    }
    rig->js = (js_t){.host = &js_rig_host,
                     .plane = (plane_t *)(void *)rig,
                     .exchange = &rig->exchange,
                     .limits = &rig->limits,
                     .now = &rig->now,
                     .consumers = {.limit = UINT64_MAX},
                     .staged = {.limit = UINT64_MAX},
                     .held_max = UINT64_MAX,
                     .listing_max = UINT64_MAX};
    directory_make(rig->directory, sizeof(rig->directory));
    char reason[PLANE_REASON_SIZE] = "";
    CHECK_EQ_I64(STATUS_OK, exchange_open(&rig->exchange, 16 << 20, 16 << 20));
    CHECK_EQ_I64(STATUS_OK, js_open(&rig->js, rig->directory, NULL, reason));
    return rig;
}

static inline void js_rig_close(js_rig_t *rig) {
    js_close_streams(&rig->js);
    CHECK(rig->sinks == NULL);
    js_close(&rig->js);
    exchange_close(&rig->exchange);
    directory_remove(rig->directory);
    free(rig);
}

static inline void js_rig_turn(js_rig_t *rig) {
    js_settle_stores(&rig->js);
    for (uint32_t i = 0; i < 2; i++) CHECK(rig->js.stores[i] == NULL || store_sound(rig->js.stores[i]));
    js_settle_consumers(&rig->js, false, false);
    CHECK(consume_sound(rig->js.consume));
}

static inline void js_rig_until_durable(js_rig_t *rig) {
    const store_t *store = rig->js.stores[STORE_FILE];
    for (int64_t until = 0; patient(&until);) {
        js_rig_turn(rig);
        if (rig->js.held[STORE_FILE].count == 0 && store_batch_empty(store)
            && store_durable(store) + 1 == store_batch(store))
            return;
        if (store_gathers(store)) rig->now.mono_ns += NS_PER_MS;
        usleep(200);
    }
    FAIL("the journal does not answer");
}

/* To the sink of that very subject. false: nobody listens. */
static inline bool js_rig_send(js_rig_t *rig, const char *subject, const char *reply, const char *payload) {
    message_t message = {.subject = js_rig_text(subject), .reply = js_rig_text(reply), .payload = js_rig_text(payload)};
    for (sink_t *sink = rig->sinks; sink != NULL; sink = sink->next) {
        if (bytes_equal(js_rig_subject(sink), message.subject)) {
            switch (sink->role) {
            case JS_PUBLISH: js_publish(&rig->js, sink->object, &message); break;
            case JS_DIRECT:
            case JS_DIRECT_ANY: js_direct(&rig->js, sink->object, &message); break;
            case JS_NEXT: js_next(&rig->js, sink->object, &message); break;
            case JS_ACK: js_ack(&rig->js, sink->object, &message); break;
            case JS_FLOW: js_flow(&rig->js, sink->object, &message); break;
            case JS_INGEST: ingest_frame(&rig->js, sink->object, &message, BYTES_NONE); break;
            }
            return true;
        }
    }
    return false;
}

#define JS_RIG_HEARD(expected, rig)                                                                                    \
    do {                                                                                                               \
        CHECK_TEXT(expected, (rig)->heard, (rig)->heard_size);                                                         \
        (rig)->heard_size = 0;                                                                                         \
    } while (0)

typedef struct js_rig_strings {
    uint8_t at[4096];
    uint32_t size;
} js_rig_strings_t;

/* STREAM_PUT, or CONSUMER_PUT of a stream that is there, with a body and packed strings; the status of its completion,
 * which is waited for. */
static inline status_t js_rig_put(js_rig_t *rig, plane_command_t command, const char *const parts[], int count) {
    js_rig_strings_t strings = {.size = 0};
    for (int i = 0; i < count; i++) {
        uint32_t size = (uint32_t)strlen(parts[i]);
        for (uint32_t k = 0; k < 4; k++) strings.at[strings.size++] = (uint8_t)(size >> (8 * k));
        memcpy(strings.at + strings.size, parts[i], size);
        strings.size += size;
    }
    command.extra = strings.at;
    command.extra_size = strings.size;
    command.token = 77;
    if (command.op == COMMAND_STREAM_PUT) {
        stream_put(&rig->js, &command);
    } else {
        binding_put(&rig->js, &command, stream_find(&rig->js, command.target));
    }
    js_rig_until_durable(rig);
    plane_event_t event;
    CHECK_EQ_U64(1, exchange_poll(&rig->exchange, &event, 1));
    CHECK_EQ_U64(77, event.token);
    status_t status = (status_t)event.status;
    exchange_release(&rig->exchange, 1);
    return status;
}

#endif
