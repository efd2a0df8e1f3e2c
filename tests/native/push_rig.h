/* push_rig.h: push consumers of consume_rig.h, what their receivers answer. Not here: tests. */
#ifndef LEAFD_TESTS_PUSH_RIG_H
#define LEAFD_TESTS_PUSH_RIG_H

#include "consume_rig.h"

#define LARGE (16u << 10) /* after so many bytes a mirror or source is asked how far it is */

static inline consumer_setup_t push_setup(void) {
    consumer_setup_t setup = rig_setup("p");
    setup.config.flags |= CONSUMER_PUSH;
    setup.config.ack_policy = ACK_NONE;
    setup.deliver_subject = BYTES_LITERAL("d");
    return setup;
}

static inline void interest(const char *subject, const char *group) {
    (void)strcpy(rig.interest[0], subject);
    (void)strcpy(rig.groups[0], group);
    consume_interest_changed(rig.consume);
    rig_run();
}

/* The id in "d <* $JS.FC.S.p.XXXX | ..." */
static inline bytes_t flow_id(const char *line) {
    static const char start[] = "d <* $JS.FC.S.p.";
    CHECK_BYTES(start, sizeof start - 1, line, sizeof start - 1);
    CHECK_TEXT(" | NATS/1.0 100 FlowControl Request~~", line + sizeof start - 1 + 4,
               strlen(line + sizeof start - 1 + 4));
    return bytes_of(line + sizeof start - 1, 4);
}

static inline consumer_setup_t acking_setup(void) {
    consumer_setup_t setup = push_setup();
    setup.config.flags |= CONSUMER_FLOW_CONTROL;
    setup.config.ack_policy = ACK_FLOW_CONTROL;
    setup.config.idle_heartbeat_ns = SECOND;
    return setup;
}

/* The copy's answer to a request of flow control. */
static inline void says_it_took(consumer_t *consumer, bytes_t id, unsigned delivery, unsigned seq) {
    char header[96];
    (void)snprintf(header, sizeof header, "NATS/1.0\r\nNats-Last-Consumer: %u\r\nNats-Last-Stream: %u\r\n\r\n",
                   delivery, seq);
    consumer_flow_reply(consumer, id, text(header), rig.now);
}

#endif
