/* test_lanes_memory.c: a narrow link's lanes when the n-th allocation fails, for every n: a message is there whole or
 * is counted as dropped, and what comes later goes out. Not here: precedence (test_lanes.c). */
#include "plane/lanes.h"

#include "failing_allocator.h"
#include "test.h"

#define MESSAGES 40u

/* Messages on three lanes, of which some go out in between. Returns how many allocations there were. */
static uint64_t scene(uint64_t fails) {
    static const char *const subjects[] = {"core", "$JS.ACK.a", "$JS.API.INFO"};
    uint64_t kept = 0;
    uint64_t sent = 0;
    share_t share = {.limit = 64 << 20};
    outq_t out;
    outq_init(&out, UINT64_MAX, &share);
    lanes_t *lanes = lanes_new(&share);
    CHECK(lanes != NULL);
    failing_allocations((failing_allocations_t){.from = fails, .times = 1});
    for (uint32_t i = 0; i < MESSAGES; i++) {
        const char *subject = subjects[i % 3];
        flow_t flow = {.id = FLOW_FIRST + i % 5, .stream = BYTES_LITERAL("ONE"), .left = 1};
        lane_use_t use = {
            .subject = bytes_of(subject, (uint32_t)strlen(subject)), .size = 3, .flow = i % 2 ? &flow : NULL};
        lane_t *lane = lanes_lane(lanes, NULL, &use);
        if (lane != NULL) {
            status_t status = buffer_append(&lane_out(lane)->data, "abc", 3);
            lane_end(lanes, lane, status);
            kept += status == STATUS_OK;
        }
        if (i % 7 == 6) {
            lanes_fill(lanes, &out, UINT64_MAX, LANE_LOW);
        }
    }
    uint64_t count = failing_allocations_count();
    failing_allocations((failing_allocations_t){0});
    CHECK(kept >= MESSAGES - 1);
    CHECK(lanes_join(lanes, &out) == STATUS_OK);
    sent = outq_pending(&out) / 3;
    CHECK_EQ_U64(kept, sent);
    lanes_free(lanes);
    outq_free(&out);
    CHECK_EQ_U64(0, share.used);
    return count;
}

static void every_allocation_fails_once(void) {
    uint64_t count = scene(0);
    CHECK(count > 4);
    for (uint64_t n = 1; n <= count; n++) {
        (void)scene(n);
    }
}

int main(void) {
    RUN("whichever allocation fails, a message is whole or dropped, and the others go out",
        every_allocation_fails_once);
    return TEST_RESULT();
}
