/* test_consume_share.c: what waits at consumers has a share of memory: pull requests, and deliveries that nobody
 * acknowledged. */
#include "consume_rig.h"

static void waiting_has_a_share_of_memory(void) {
    rig_start(0);
    rig.memory.limit = 20000;
    consumer_setup_t setup = rig_setup("c");
    setup.config.max_waiting = 1000;
    consumer_t *consumer = rig_add(&setup);
    uint32_t waiting = 0;
    for (; waiting < 1000; waiting++) {
        rig_pull(consumer, "in", "{\"batch\":1,\"expires\":1000000000}");
        if (rig_state(consumer).waiting == waiting) break;
    }
    CHECK(waiting > 16 && waiting < 300);
    CHECK(rig.memory.used <= rig.memory.limit);
    EXPECT("in <*  | NATS/1.0 409 Exceeded MaxWaiting~~");
    setup = rig_setup("d");
    setup.id = CONSUMER_ID + 1;
    consumer_t *other = rig_add(&setup);
    for (uint32_t i = 0; i < 16; i++) rig_pull(other, "in", "{\"batch\":1,\"expires\":1000000000}");
    CHECK_EQ_U64(16, rig_state(other).waiting);
    rig_pass(2 * SECOND);
    CHECK_EQ_U64(0, rig.memory.used);
}

/* Deliveries stop where their rows would take more memory than there is, and go on with the acknowledgements. */
static void unacknowledged_has_a_share_of_memory(void) {
    rig_start(0);
    rig.memory.limit = 60000;
    consumer_setup_t setup = rig_setup("c");
    setup.config.max_ack_pending = -1;
    consumer_t *consumer = rig_add(&setup);
    rig_publish_many("s", 3000);
    rig_pull(consumer, "in", "3000");
    uint64_t pending = rig_state(consumer).ack_pending;
    CHECK(pending >= 256 && pending < 3000);
    CHECK(rig.memory.used <= rig.memory.limit);
    rig_skip();
}

int main(void) {
    RUN("requests beyond the share of memory are refused as beyond max_waiting, but each consumer may have a few",
        waiting_has_a_share_of_memory);
    RUN("deliveries wait where no acknowledgement comes and the share of memory is full",
        unacknowledged_has_a_share_of_memory);
    rig_end();
    return TEST_RESULT();
}
