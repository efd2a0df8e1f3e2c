/* ingest_rig.h: a stream of js_rig.h, and a source of it that takes in; what is delivered and told is the test's. */
#ifndef LEAFD_TESTS_INGEST_RIG_H
#define LEAFD_TESTS_INGEST_RIG_H

#include "js_rig.h"

/* The end of what a source with a durable consumer says, by what it took last. */
#define COPY_AT(seq) "Leafd-Last-Taken: " seq "\r\nLeafd-Copy: 1\r\n\r\n\n"

static const stream_config_t stream_defaults = {.account = 1,
                                                .max_msg_size = -1,
                                                .max_msgs = -1,
                                                .max_bytes = -1,
                                                .max_msgs_per_subject = -1,
                                                .flags = STREAM_ALLOW_DIRECT};

static inline status_t put_stream(js_rig_t *rig, uint64_t id, const char *const subjects[], int count) {
    const char *parts[16] = {"S", "{}", "", "", "", "", ""};
    for (int i = 0; i < count; i++) parts[7 + i] = subjects[i];
    return js_rig_put(rig,
                      (plane_command_t){.op = COMMAND_STREAM_PUT,
                                        .account = 1,
                                        .target = id,
                                        .body = (const uint8_t *)&stream_defaults,
                                        .body_size = sizeof(stream_defaults)},
                      parts, 7 + count);
}

static inline void put_default(js_rig_t *rig) {
    const char *subjects[] = {"s.a", "s.b"};
    CHECK_EQ_I64(STATUS_OK, put_stream(rig, 1, subjects, 2));
}

/* Stream 1 takes from the consumer C of the stream O, which delivers to the subject d. */
static inline void start_as(js_rig_t *rig, ingest_config_t config) {
    const char *parts[] = {"d", "C", "O", ">", ">", "", "O > >", "O"};
    uint8_t strings[64];
    plane_command_t command = {.op = COMMAND_INGEST_START,
                               .token = 77,
                               .target = 1,
                               .arg = 1,
                               .body = (const uint8_t *)&config,
                               .body_size = sizeof(config),
                               .extra = strings};
    for (int i = 0; i < 8; i++) {
        uint32_t size = (uint32_t)strlen(parts[i]);
        memcpy(strings + command.extra_size, (uint8_t[4]){(uint8_t)size}, 4);
        memcpy(strings + command.extra_size + 4, parts[i], size);
        command.extra_size += 4 + size;
    }
    ingest_start(&rig->js, &command, stream_find(&rig->js, 1));
    plane_event_t event;
    CHECK_EQ_U64(1, exchange_poll(&rig->exchange, &event, 1));
    CHECK_EQ_I64(STATUS_OK, (status_t)event.status);
    exchange_release(&rig->exchange, 1);
}

static inline void control(js_rig_t *rig, const char *reply, const char *header) {
    message_t message = {.subject = js_rig_text("d"), .reply = js_rig_text(reply), .header = js_rig_text(header)};
    ingest_frame(&rig->js, rig->js.ingests, &message, BYTES_NONE);
}

static inline uint64_t stored(js_rig_t *rig) {
    stream_state_t state;
    store_stream_state(stream_find(&rig->js, 1)->store, &state);
    return state.messages;
}

static inline bool told_of(js_rig_t *rig, uint32_t code) {
    plane_event_t event;
    bool told = false;
    while (exchange_poll(&rig->exchange, &event, 1) == 1) {
        told = told || event.code == code;
        exchange_release(&rig->exchange, 1);
    }
    return told;
}

#endif
