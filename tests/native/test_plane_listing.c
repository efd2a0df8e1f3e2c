/* test_plane_listing.c: a connection's subscriptions are listed in slices: each one once. Connections, with what those
 * that have gone had carried. */
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

static void subscribe_to(plane_t *plane, peer_t *peer, uint32_t number) {
    char line[64];
    snprintf(line, sizeof(line), "SUB s.%" PRIu32 " %" PRIu32 "\r\n", number, number);
    rig_feed(plane, peer, line);
}

/* How often each of the first `count` is in the rows of a slice. */
static void note_rows(slice_t one, uint32_t *times, uint32_t count) {
    for (uint32_t at = 0; at < one.size;) {
        subscription_row_t row;
        memcpy(&row, rows + at, sizeof(row));
        at += (uint32_t)sizeof(row) + row.subject_size + row.queue_size;
        char sid[16] = "";
        CHECK(row.sid_size < sizeof(sid));
        memcpy(sid, rows + at, row.sid_size);
        at += row.sid_size;
        unsigned long number = strtoul(sid, NULL, 10);
        if (number < count) times[number]++;
    }
}

static void many_in_slices(void) {
    plane_t *plane = rig_open(NULL, "");
    peer_t *a = rig_client(plane);
    static uint32_t times[MANY];
    memset(times, 0, sizeof(times));
    for (uint32_t i = 0; i < MANY; i++) subscribe_to(plane, a, i);
    uint32_t slices = 0;
    uint64_t bucket = 0;
    do {
        slice_t one = list(plane, a->id, bucket);
        CHECK_EQ_I64(STATUS_OK, one.status);
        CHECK(one.next == 0 || one.next > bucket);
        CHECK(one.size < (128 << 10)); /* bounded work: control and other clients get their turns between */
        note_rows(one, times, MANY);
        slices++;
        bucket = one.next;
    } while (bucket != 0);
    for (uint32_t i = 0; i < MANY; i++) CHECK_EQ_U64(1, times[i]);
    CHECK(slices > 5);
    rig_close(plane);
}

static void listed_once_while_the_table_grows(void) {
    plane_t *plane = rig_open(NULL, "");
    peer_t *a = rig_client(plane);
    static uint32_t times[MANY];
    memset(times, 0, sizeof(times));
    for (uint32_t i = 0; i < MANY; i++) subscribe_to(plane, a, i);
    uint32_t count = MANY, slices = 0;
    for (uint64_t place = 0; slices == 0 || place != 0; slices++) {
        slice_t one = list(plane, a->id, place);
        CHECK_EQ_I64(STATUS_OK, one.status);
        note_rows(one, times, MANY);
        place = one.next;
        for (uint32_t i = 0; count < 4 * MANY && i < MANY; i++) subscribe_to(plane, a, count++);
    }
    CHECK_EQ_U64(4 * MANY, count); /* the table grew fourfold before the listing was over */
    for (uint32_t i = 0; i < MANY; i++) CHECK_EQ_U64(1, times[i]);
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

/* The row of a connection, or of those of a kind that have gone (connection 0). */
static connection_row_t row_of(plane_t *plane, uint64_t connection, uint32_t kind) {
    rig_run(plane, (plane_command_t){.op = COMMAND_CONNECTIONS, .token = 1}, NULL);
    plane_event_t event;
    CHECK(rig_event(plane, EVENT_DONE, &event));
    for (uint32_t at = 0; at + sizeof(connection_row_t) <= event.payload_size; at += sizeof(connection_row_t)) {
        connection_row_t row;
        memcpy(&row, event.payload + at, sizeof(row));
        if (row.connection == connection && row.kind == kind) {
            return row;
        }
    }
    return (connection_row_t){0};
}

static int64_t active_at(plane_t *plane, const peer_t *peer) {
    return row_of(plane, peer->id, CONN_CLIENT).last_wall_ns;
}

static void only_work_is_activity(void) {
    plane_t *plane = rig_open(NULL, "");
    peer_t *a = rig_client(plane), *b = rig_client(plane);
    int64_t begin = plane->now.wall_ns;
    plane->now.wall_ns += NS_PER_SECOND;
    rig_feed(plane, b, "PING\r\n");
    CHECK_EQ_I64(begin, active_at(plane, b));
    rig_feed(plane, b, "SUB foo 1\r\n");
    CHECK_EQ_I64(begin + NS_PER_SECOND, active_at(plane, b));
    CHECK_EQ_I64(begin, active_at(plane, a));
    plane->now.wall_ns += NS_PER_SECOND;
    rig_feed(plane, a, "PUB foo 1\r\nx\r\n");
    CHECK_EQ_I64(begin + 2 * NS_PER_SECOND, active_at(plane, a));
    CHECK_EQ_I64(begin + 2 * NS_PER_SECOND, active_at(plane, b));
    plane->now.wall_ns += NS_PER_SECOND;
    CHECK_EQ_I64(begin + 2 * NS_PER_SECOND, active_at(plane, a));
    rig_close(plane);
}

static void what_was_carried_stays_counted(void) {
    plane_t *plane = rig_open(NULL, "");
    peer_t *a = rig_client(plane), *b = rig_client(plane);
    peer_t *link = rig_leaf(plane, RIG_FLAGS, "", NULL);
    rig_feed(plane, b, "SUB foo 1\r\n");
    rig_feed(plane, a, "PUB foo 2\r\nxy\r\nPUB bar 3\r\nxyz\r\n");
    rig_feed(plane, link, "LMSG foo 4\r\nxyzw\r\n");
    CHECK_EQ_U64(0, row_of(plane, 0, CONN_CLIENT).account);
    peer_doom(plane, a, CLOSE_CLIENT, BYTES_NONE);
    peer_doom(plane, b, CLOSE_SLOW, BYTES_NONE);
    peer_doom(plane, link, CLOSE_CLIENT, BYTES_NONE);
    core_settle(plane);
    connection_row_t clients = row_of(plane, 0, CONN_CLIENT), links = row_of(plane, 0, CONN_LEAF);
    CHECK_EQ_U64(RIG_ACCOUNT, clients.account);
    CHECK_EQ_U64(2, clients.in_msgs);
    CHECK_EQ_U64(5, clients.in_bytes);
    CHECK_EQ_U64(2, clients.out_msgs);
    CHECK_EQ_U64(6, clients.out_bytes);
    CHECK_EQ_U64(1, clients.slow);
    CHECK_EQ_U64(RIG_ACCOUNT, links.account);
    CHECK_EQ_U64(1, links.in_msgs);
    CHECK_EQ_U64(4, links.in_bytes);
    CHECK_EQ_U64(0, links.out_msgs);
    CHECK_EQ_U64(0, links.slow);
    rig_close(plane);
}

int main(void) {
    RUN("a subscription is listed with subject, queue group, name, deliveries and limit", shows_what_there_is);
    RUN("many are listed in slices of bounded size, each one once", many_in_slices);
    RUN("a listing has each subscription once while the table grows", listed_once_while_the_table_grows);
    RUN("a bucket that there is not lists nothing", any_bucket_may_be_asked_for);
    RUN("messages and subscriptions are activity, pings are none", only_work_is_activity);
    RUN("what connections that have gone carried stays with their account", what_was_carried_stays_counted);
    return TEST_RESULT();
}
