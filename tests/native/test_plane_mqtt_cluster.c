/* test_plane_mqtt_cluster.c: sessions that three servers keep, in three planes of one process whose routes are copied
 * from queue to input. Their time is the test's, and stands still until all that was said is on the disks: so it can be
 * said to the second when a will is published or a session expires, over a change of leader and without any.
 * Whole servers: tests/interop/test_mqtt_replicas.py, tests/crash/mqtt_cluster.py; groups: test_replicas.c.
 */
#include "mqtt_rig.h"
#include "stream_rig.h"

#include "gateway_rig.h"

#include "group/group.h"
#include "jetstream/replicated_private.h"
#include "meta/meta.h"
#include "store/ledger.h"
#include "verbs/mqtt.h"

#define SERVERS 3u
#define SYSTEM 9u
#define MESSAGES_STREAM 7u
#define GROUP UINT64_C(99)
#define PEER(number) (UINT64_C(0x4141414141414141) + (number))
#define STEP_NS (50 * NS_PER_MS)
#define SECOND NS_PER_SECOND
#define NOBODY SERVERS

typedef struct server {
    plane_t *plane;
    char directory[64];
    peer_t *routes[SERVERS];
    bool dead;
} server_t;

static server_t servers[SERVERS];

/* ---- three servers ----------------------------------------------------------------------------------------------- */

static void server_runs(uint32_t number, plane_command_t command, const void *body, uint32_t size,
                        const char *const parts[], uint32_t count) {
    rig_run_with(servers[number].plane, command, body, size, parts, count);
}

static void server_opens(uint32_t number) {
    server_t *server = &servers[number];
    *server = (server_t){.dead = false};
    memcpy(server->directory, rig_new_directory(), sizeof server->directory);
    plane_limits_t limits = rig_limits(server->directory);
    limits.clustered = CLUSTERED_ROUTES | CLUSTERED_META;
    server->plane = plane = rig_open_with(server->directory, limits);
    plane->now.mono_ns = plane->now.wall_ns = 1000 * SECOND;
    named_account(RIG_ACCOUNT, ACCOUNT_JETSTREAM, "A");
    named_account(SYSTEM, 0, "SYS");
    mqtt_limits_t mqtt = MQTT_RIG_LIMITS;
    mqtt.replicas = SERVERS;
    mqtt_limit(plane, mqtt);
    rig_run(plane, (plane_command_t){.op = COMMAND_META_OPEN, .account = SYSTEM, .arg = PEER(number), .token = 901},
            NULL);
}

static void server_joins(uint32_t number) {
    static const char *const parts[] = {"$MQTT_msgs", "{}", "", "", "", "", "", "$MQTT.msgs.>"};
    meta_disk_t disks[SERVERS];
    for (uint32_t i = 0; i < SERVERS; i++) {
        disks[i].peer = PEER(i);
        CHECK(store_ledger_disk(servers[i].plane->js.stores[STORE_FILE], &disks[i].disk));
    }
    stream_config_t config = rig_stream;
    config.retention = 1;
    config.flags = STREAM_ALLOW_TTL | STREAM_REPLICATED;
    server_runs(number, (plane_command_t){.op = COMMAND_STREAM_PUT, .target = MESSAGES_STREAM, .token = 902}, &config,
                sizeof config, parts, 8);
    server_runs(number,
                (plane_command_t){.op = COMMAND_STREAM_GROUP, .target = MESSAGES_STREAM, .arg = GROUP, .token = 903},
                disks, sizeof disks, NULL, 0);
}

static void route_comes_up(uint32_t at, uint32_t to) {
    plane = servers[at].plane;
    servers[at].routes[to] = route_with(0, (route_terms_t){.flags = ROUTE_UNSUB_ORIGIN, .peer = PEER(to)}, NULL);
}

static void routes_between(uint32_t one, uint32_t other) {
    route_comes_up(one, other);
    route_comes_up(other, one);
}

static bool passes_on(uint32_t from, uint32_t to) {
    static uint8_t line[sizeof rig_out];
    if (servers[from].routes[to] == NULL || servers[from].dead || servers[to].dead) return false;
    size_t size = rig_take_queue(&servers[from].routes[to]->conn.out);
    memcpy(line, rig_out, size);
    if (size != 0) mqtt_say_bytes(servers[to].plane, servers[to].routes[from], line, (uint32_t)size);
    return size != 0;
}

/* What has been handed to the journal is on the disk; what may wait for more to come waits for time to pass. */
static bool is_quiet(const plane_t *one) {
    const store_t *store = one->js.stores[STORE_FILE];
    return one->js.job_count == 0 && store_durable(store) + 1 == store_batch(store);
}

/* Until nothing is under way any more. */
static void all_settle(void) {
    uint32_t quiet = 0;
    for (int64_t until = 0; quiet < 3;) {
        bool any = false;
        CHECK(patient(&until));
        for (uint32_t i = 0; i < SERVERS; i++) {
            if (servers[i].dead) continue;
            rig_turn(servers[i].plane);
            core_backlog(servers[i].plane);
            rig_turn(servers[i].plane);
            any = any || !is_quiet(servers[i].plane);
        }
        for (uint32_t i = 0; i < SERVERS * SERVERS; i++) any = passes_on(i / SERVERS, i % SERVERS) || any;
        quiet = any ? 0 : quiet + 1;
        if (any) usleep(100);
    }
}

static void seconds_pass(double seconds) {
    for (int64_t left = (int64_t)(seconds * (double)SECOND); left > 0; left -= STEP_NS) {
        for (uint32_t i = 0; i < SERVERS; i++) {
            servers[i].plane->now.mono_ns += STEP_NS;
            servers[i].plane->now.wall_ns += STEP_NS;
        }
        all_settle();
    }
}

static const mqtt_account_t *keeper_of(uint32_t number) {
    const mqtt_desk_t *desk = servers[number].plane->mqtt_desk;
    return desk == NULL ? NULL : table_find(&desk->accounts, RIG_ACCOUNT);
}

/* It leads, and has read what is kept. */
static bool has_sessions(uint32_t number) {
    const mqtt_account_t *keeper = keeper_of(number);
    return !servers[number].dead && keeper != NULL && keeper->sessions == KEEPS_YES;
}

static uint32_t leader(void) {
    for (uint32_t i = 0; i < SERVERS; i++) {
        if (has_sessions(i)) return i;
    }
    return NOBODY;
}

static uint32_t until_led(void) {
    for (uint32_t i = 0; i < 400; i++) {
        if (leader() != NOBODY) return leader();
        seconds_pass(0.05);
    }
    FAIL("nobody leads");
    return NOBODY;
}

/* One that is not the leader. */
static uint32_t follower(void) {
    for (uint32_t i = 0; i < SERVERS; i++) {
        if (!servers[i].dead && i != leader()) return i;
    }
    FAIL("there is none");
    return NOBODY;
}

static void line_breaks(uint32_t number, peer_t **peer) {
    if (*peer != NULL) peer_doom_silently(servers[number].plane, *peer, CLOSE_CLIENT, BYTES_LITERAL("its line broke"));
    *peer = NULL;
}

/* As by kill -9, which the others notice at once. */
static void dies(uint32_t number) {
    servers[number].dead = true;
    for (uint32_t i = 0; i < SERVERS; i++) {
        if (i != number && !servers[i].dead) line_breaks(i, &servers[i].routes[number]);
    }
    all_settle();
}

static void cut_off(uint32_t number) {
    for (uint32_t i = 0; i < SERVERS; i++) {
        if (i == number) continue;
        line_breaks(number, &servers[number].routes[i]);
        if (!servers[i].dead) line_breaks(i, &servers[i].routes[number]);
    }
}

static void in_a_cluster_of_three(void) {
    for (uint32_t i = 0; i < SERVERS; i++) server_opens(i);
    for (uint32_t i = 0; i < SERVERS; i++) server_joins(i);
    routes_between(0, 1);
    routes_between(1, 2);
    routes_between(2, 0);
    all_settle();
    promise();
    for (uint32_t i = 0; i < SERVERS; i++) {
        memcpy(rig_directory, servers[i].directory, sizeof rig_directory);
        rig_close_and_remove(servers[i].plane);
    }
}

#define RUN_OF_THREE(text, function)                                                                                   \
    do {                                                                                                               \
        promise = function;                                                                                            \
        RUN(text, in_a_cluster_of_three);                                                                              \
    } while (0)

/* ---- devices ----------------------------------------------------------------------------------------------------- */

#define CLEAN(name) "10 0d 0004'MQTT' 04 02 0000 0001'" name "'"
#define LASTING(name) "10 0d 0004'MQTT' 04 00 0000 0001'" name "'"
/* Of 5, for ten seconds behind its connection; with a will `!` to w behind eight seconds. */
#define TEN_SECONDS(name) "10 13 0004'MQTT' 05 00 0000 05 11 0000000a 0001'" name "'"
#define DELAYED(name) "10 1f 0004'MQTT' 05 04 0000 05 11 000003e8 0001'" name "' 05 18 00000008 0001'w' 0001'!'"
#define WILL(name) "10 13 0004'MQTT' 04 04 0000 0001'" name "' 0001'w' 0001'!'"

static peer_t *comes(uint32_t number, const char *connect) {
    plane_t *one = servers[number].plane;
    peer_t *device = peer_new(one, -1, CONN_MQTT, 1, rig_text("test:1"));
    CHECK(device != NULL);
    rig_admits_to = RIG_ACCOUNT;
    mqtt_say(one, device, connect);
    mqtt_admit(one, device, "given", NULL);
    all_settle();
    for (uint32_t i = 0; i < 100 && outq_pending(&device->conn.out) == 0; i++) seconds_pass(0.05);
    return device;
}

/* It says that, and hears this. */
static void talks(uint32_t number, peer_t *device, const char *says, const char *expected) {
    if (says[0] != 0) mqtt_say(servers[number].plane, device, says);
    all_settle();
    MQTT_HEARD(expected, device);
}

/* It says that, and hears these two in whatever order they come to it: nothing in the protocol joins them. */
static void talks_of_two(uint32_t number, peer_t *device, const char *says, const char *one, const char *other) {
    mqtt_say(servers[number].plane, device, says);
    all_settle();
    mqtt_rig_bytes_t first = mqtt_bytes(one), second = mqtt_bytes(other);
    size_t size = rig_take_queue(&device->conn.out);
    CHECK_EQ_U64(first.size + second.size, size);
    bool in_order = memcmp(rig_out, first.at, first.size) == 0;
    const mqtt_rig_bytes_t *begins = in_order ? &first : &second, *ends = in_order ? &second : &first;
    CHECK_BYTES(begins->at, begins->size, rig_out, begins->size);
    CHECK_BYTES(ends->at, ends->size, rig_out + begins->size, ends->size);
}

/* A subscriber without a session, of that topic. */
static peer_t *ear_at(uint32_t number, const char *subscribe) {
    peer_t *ear = comes(number, CLEAN("e"));
    talks(number, ear, "", "20 02 00 00");
    talks(number, ear, subscribe, "90 03 0001 00");
    return ear;
}

static void leaves(uint32_t number, peer_t *device) {
    line_breaks(number, &device);
    all_settle();
}

/* Whether a session of that client of 5 is there, which is looked at by coming. */
static bool is_present(uint32_t number, const char *connect) {
    peer_t *device = comes(number, connect);
    size_t size = rig_take_queue(&device->conn.out);
    CHECK(size >= 4 && (uint8_t)rig_out[0] == 0x20 && rig_out[3] == 0);
    bool present = rig_out[2] == 1;
    leaves(number, device);
    return present;
}

/* ---- promises ---------------------------------------------------------------------------------------------------- */

static void all_that_was_acknowledged_is_at_the_next_leader(void) {
    uint32_t first = until_led(), second = follower();
    peer_t *device = comes(second, LASTING("p"));
    talks(second, device, "", "20 02 00 00");
    talks(second, device, "82 06 0001 0001'a' 02", "90 03 0001 02");
    talks_of_two(second, device, "34 06 0001'a' 0007 '1'", "34 06 0001'a' 0002 '1'", "50 02 0007");
    leaves(second, device);
    peer_t *publisher = comes(first, LASTING("q"));
    talks(first, publisher, "", "20 02 00 00");
    talks(first, publisher, "32 06 0001'a' 0001 '2' 34 06 0001'a' 0002 '3'", "40 02 0001 50 02 0002");
    dies(first);
    uint32_t next = until_led();
    CHECK(next != first);
    uint32_t at = follower();
    device = comes(at, LASTING("p"));
    /* with DUP: it was sent the first one, and the former leader alone knew which of the others (MQTT-3.3.1-1) */
    talks(at, device, "", "20 02 01 00 3c 06 0001'a' 0002 '1' 3a 06 0001'a' 0003 '2' 3c 06 0001'a' 0004 '3'");
    talks(at, device, "3c 06 0001'a' 0007 '1'", "50 02 0007"); /* said again: it came once */
    talks(at, device, "62 02 0007", "70 02 0007");
    talks(at, device, "50 02 0002 40 02 0003", "62 02 0002");
}

static void a_will_of_a_session_waits_five_seconds_for_its_device(void) {
    uint32_t first = until_led(), at = follower();
    peer_t *ear = ear_at(at, "82 06 0001 0001'w' 00");
    talks(first, comes(first, WILL("p")), "", "20 02 00 00");
    dies(first);
    (void)until_led();
    seconds_pass(4.5);
    talks(at, ear, "", "");
    seconds_pass(1.2);
    talks(at, ear, "", "30 04 0001'w' '!'");
    seconds_pass(10);
    talks(at, ear, "", "");
}

static void a_will_is_not_published_when_its_device_is_back(void) {
    uint32_t first = until_led(), at = follower();
    peer_t *ear = ear_at(at, "82 06 0001 0001'w' 00");
    talks(first, comes(first, WILL("p")), "", "20 02 00 00");
    dies(first);
    (void)until_led();
    seconds_pass(2);
    talks(at, comes(at, WILL("p")), "", "20 02 01 00");
    seconds_pass(20);
    talks(at, ear, "", "");
}

/* Eight seconds, two and a half of which are over when the leader dies, without a word in the log since. */
static void the_delay_of_a_will_goes_on_where_it_stood(void) {
    uint32_t first = until_led(), at = follower();
    peer_t *ear = ear_at(at, "82 06 0001 0001'w' 00");
    seconds_pass(1);
    peer_t *device = comes(first, DELAYED("p"));
    (void)rig_take_queue(&device->conn.out);
    leaves(first, device);
    seconds_pass(2.5);
    talks(at, ear, "", "");
    dies(first);
    (void)until_led();
    seconds_pass(4.5); /* not five seconds from now, as another will, but five and what has been */
    talks(at, ear, "", "");
    seconds_pass(2);
    talks(at, ear, "", "30 04 0001'w' '!'");
    seconds_pass(10);
    talks(at, ear, "", "");
}

/* A log without an entry has an age all the same, which the next leader goes on from; a minute without a leader does
 * not count. */
static void a_session_expires_by_the_time_of_its_log(void) {
    uint32_t first = until_led();
    seconds_pass(1);
    CHECK(!is_present(first, TEN_SECONDS("p")));
    CHECK(!is_present(first, TEN_SECONDS("q")));
    seconds_pass(3);
    dies(first);
    uint32_t second = until_led(), last = follower();
    seconds_pass(1);
    CHECK_EQ_U64(2, servers[second].plane->stats.mqtt_sessions);
    cut_off(second);
    seconds_pass(60);
    CHECK_EQ_U64(NOBODY, leader());
    routes_between(second, last);
    second = until_led();
    seconds_pass(1);
    CHECK_EQ_U64(2, servers[second].plane->stats.mqtt_sessions);
    CHECK(is_present(second, TEN_SECONDS("p"))); /* its time begins anew */
    seconds_pass(6);
    CHECK_EQ_U64(1, servers[second].plane->stats.mqtt_sessions);
    CHECK(!is_present(second, TEN_SECONDS("q")));
    CHECK(is_present(second, TEN_SECONDS("p")));
}

/* What is not at a majority is told to nobody, and the device is sent on. */
static void a_leader_that_is_cut_off_says_nothing(void) {
    uint32_t first = until_led();
    peer_t *device = comes(first, TEN_SECONDS("p"));
    (void)rig_take_queue(&device->conn.out);
    talks(first, device, "82 07 0001 00 0001'a' 02", "90 04 0001 00 02");
    cut_off(first);
    uint64_t id = device->id;
    mqtt_say(servers[first].plane, device, "34 07 0001'a' 0007 00 '1'");
    rig_turn(servers[first].plane);
    MQTT_HEARD("", device);
    for (uint32_t i = 0; i < 200 && peer_find(servers[first].plane, id) != NULL; i++) {
        CHECK_EQ_U64(0, outq_pending(&device->conn.out));
        seconds_pass(0.05);
    }
    CHECK(peer_find(servers[first].plane, id) == NULL);
    uint32_t second = until_led();
    CHECK(second != first);
    CHECK(is_present(second, TEN_SECONDS("p")));
}

int main(void) {
    RUN_OF_THREE("all that was acknowledged is at the next leader", all_that_was_acknowledged_is_at_the_next_leader);
    RUN_OF_THREE("a will waits five seconds for its device", a_will_of_a_session_waits_five_seconds_for_its_device);
    RUN_OF_THREE("it is not published when the device is back", a_will_is_not_published_when_its_device_is_back);
    RUN_OF_THREE("the delay of a will goes on where it stood", the_delay_of_a_will_goes_on_where_it_stood);
    RUN_OF_THREE("a session expires by the time of its log", a_session_expires_by_the_time_of_its_log);
    RUN_OF_THREE("a leader that is cut off says nothing", a_leader_that_is_cut_off_says_nothing);
    return TEST_RESULT();
}
