/* test_plane_listing.c: a connection's subscriptions are listed in slices: each one once, as it is, while the table
 * stands still. */
#include <inttypes.h>

#include "plane_rig.h"

#define MANY 20000u

typedef struct slice {
    status_t status;
    uint64_t next, buckets;
    uint32_t size;
} slice_t;

static uint8_t rows[8 << 20];

static slice_t list(plane_t *plane, uint64_t connection, uint64_t bucket) {
    rig_run(plane, (plane_command_t){.op = COMMAND_SUBSCRIPTIONS, .target = connection, .token = 1, .arg = bucket},
            NULL);
    plane_event_t event;
    CHECK(rig_event(plane, EVENT_DONE, &event));
    CHECK(event.payload_size <= sizeof(rows));
    memcpy(rows, event.payload, event.payload_size);
    return (slice_t){(status_t)event.status, event.arg, event.arg2, event.payload_size};
}

static void shows_what_there_is(void) {
    plane_t *plane = rig_open(NULL, "");
    peer_t *a = rig_client(plane), *b = rig_client(plane);
    rig_feed(plane, a, "SUB foo.* grp name-1\r\nUNSUB name-1 10\r\nSUB gone 2\r\nUNSUB 2\r\nPUB foo.x 1\r\nx\r\n");
    slice_t all = list(plane, a->id, 0);
    CHECK_EQ_I64(STATUS_OK, all.status);
    CHECK_EQ_U64(0, all.next);
    subscription_row_t row;
    CHECK_EQ_U64(sizeof(row) + 5 + 3 + 6, all.size);
    memcpy(&row, rows, sizeof(row));
    CHECK_EQ_U64(1, row.messages);
    CHECK_EQ_U64(10, row.max);
    CHECK_EQ_U64(5, row.subject_size);
    CHECK_EQ_U64(3, row.queue_size);
    CHECK_TEXT("foo.*grpname-1", rows + sizeof(row), row.subject_size + row.queue_size + row.sid_size);
    CHECK_EQ_U64(0, list(plane, b->id, 0).size);
    CHECK_EQ_I64(STATUS_NOT_FOUND, list(plane, 99, 0).status);
    rig_close(plane);
}

static void many_in_slices(void) {
    plane_t *plane = rig_open(NULL, "");
    peer_t *a = rig_client(plane);
    static bool seen[MANY];
    memset(seen, 0, sizeof(seen));
    for (uint32_t i = 0; i < MANY; i++) {
        char line[64];
        snprintf(line, sizeof(line), "SUB s.%" PRIu32 " %" PRIu32 "\r\n", i, i);
        rig_feed(plane, a, line);
    }
    uint32_t slices = 0, found = 0;
    uint64_t bucket = 0;
    do {
        slice_t one = list(plane, a->id, bucket);
        CHECK_EQ_I64(STATUS_OK, one.status);
        CHECK(one.next == 0 || one.next > bucket);
        CHECK(one.size < (128 << 10)); /* bounded work: control and other clients get their turns between */
        for (uint32_t at = 0; at < one.size; found++) {
            subscription_row_t row;
            memcpy(&row, rows + at, sizeof(row));
            at += (uint32_t)sizeof(row) + row.subject_size + row.queue_size;
            char sid[16] = "";
            CHECK(row.sid_size < sizeof(sid));
            memcpy(sid, rows + at, row.sid_size);
            at += row.sid_size;
            unsigned long number = strtoul(sid, NULL, 10);
            CHECK(number < MANY && !seen[number]);
            seen[number] = true;
        }
        slices++;
        bucket = one.next;
    } while (bucket != 0);
    CHECK_EQ_U64(MANY, found);
    CHECK(slices > 5);
    rig_close(plane);
}

static void any_bucket_may_be_asked_for(void) {
    static const uint64_t buckets[] = {0, 1, 7, 8, 9, UINT32_MAX, (uint64_t)UINT32_MAX + 1, INT64_MAX, UINT64_MAX};
    plane_t *plane = rig_open(NULL, "");
    peer_t *a = rig_client(plane);
    for (uint32_t round = 0; round < 2; round++) {
        for (size_t i = 0; i < sizeof(buckets) / sizeof(buckets[0]); i++) {
            CHECK_EQ_I64(STATUS_OK, list(plane, a->id, buckets[i]).status);
        }
        rig_feed(plane, a, "SUB a 1\r\n");
    }
    rig_close(plane);
}

int main(void) {
    RUN("a subscription is listed with subject, queue group, name, deliveries and limit", shows_what_there_is);
    RUN("many are listed in slices of bounded size, each one once", many_in_slices);
    RUN("a bucket that there is not lists nothing", any_bucket_may_be_asked_for);
    return TEST_RESULT();
}
