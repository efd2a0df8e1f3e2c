/* test_plane_monkey.c: many peers that send random lines, some of them malformed, with a stream, a consumer, and a
 * second account that imports from theirs; the sanitizers watch, and when all peers are gone nothing may be left. */
#include "stream_rig.h"

#define PEERS 12
#define STEPS 30000
#define OTHER 2u

static uint64_t seed = 20261121;

static uint32_t below(uint32_t limit) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % limit;
}

static const char *subject(void) {
    static const char *const all[] = {"a",
                                      "a.b",
                                      "a.*",
                                      "a.>",
                                      ">",
                                      "*.b",
                                      "s.x",
                                      "s.y.z",
                                      "_I.p",
                                      "_I.*",
                                      "$JS.ACK.S.C.1.1.1.1.0",
                                      "$JS.edge.API.STREAM.X",
                                      "$JS.API.CONSUMER.MSG.NEXT.S.C",
                                      "$JS.edge.API.CONSUMER.MSG.NEXT.S.C",
                                      "a..b",
                                      "$KV.b.k",
                                      "$LDS.far",
                                      "$JS.API.DIRECT.GET.S",
                                      "$JS.API.DIRECT.GET.S.s.x",
                                      "$JS.FC.S.C.1",
                                      "imported.a",
                                      "imported.>",
                                      "there.b",
                                      "there.*"};
    return all[below(sizeof(all) / sizeof(all[0]))];
}

static void client_line(char *to, size_t size) {
    switch (below(8)) {
    case 0: snprintf(to, size, "SUB %s %u\r\n", subject(), below(30)); break;
    case 1: snprintf(to, size, "SUB %s q%u %u\r\n", subject(), below(3), below(30)); break;
    case 2: snprintf(to, size, "UNSUB %u\r\n", below(30)); break;
    case 3: snprintf(to, size, "UNSUB %u %u\r\n", below(30), below(5)); break;
    case 4: snprintf(to, size, "HPUB %s %s 12 13\r\nNATS/1.0\r\n\r\n5\r\n", subject(), subject()); break;
    case 5: snprintf(to, size, "PUB %s %s 4\r\n+ACK\r\n", subject(), subject()); break;
    case 6: snprintf(to, size, "PING\r\n"); break;
    default: snprintf(to, size, "PUB %s %s 11\r\n{\"batch\":3}\r\n", subject(), subject()); break;
    }
}

static void leaf_line(char *to, size_t size) {
    switch (below(7)) {
    case 0: snprintf(to, size, "LS+ %s\r\n", subject()); break;
    case 1: snprintf(to, size, "LS+ %s q%u %u\r\n", subject(), below(3), 1 + below(4)); break;
    case 2: snprintf(to, size, "LS- %s\r\n", subject()); break;
    case 3: snprintf(to, size, "LS- %s q%u\r\n", subject(), below(3)); break;
    case 4: snprintf(to, size, "LMSG %s + %s q1 q2 2\r\nhi\r\n", subject(), subject()); break;
    case 5: snprintf(to, size, "HMSG %s $JS.ACK.S.C.1.1.1.1.0@s.x 12 13\r\nNATS/1.0\r\n\r\n1\r\n", subject()); break;
    default: snprintf(to, size, "LMSG %s 2\r\n10\r\n", subject()); break;
    }
}

static peer_t *newcomer(plane_t *plane) {
    rig_admits_to = below(3) == 0 ? OTHER : RIG_ACCOUNT;
    static const char *const clusters[] = {"one", "two", ""};
    static const char *const lists[4] = {NULL, "$JS.API.>", NULL, "$KV.>"};
    switch (below(4)) {
    case 0: return rig_leaf(plane, below(2) != 0 ? VERDICT_SPOKE : 0, clusters[below(3)], below(2) != 0 ? lists : NULL);
    case 1:
        return rig_client_with(plane, (conn_verdict_t){.flags = RIG_FLAGS, .response_max = 2, .max_subscriptions = 9},
                               lists);
    default: return rig_client(plane);
    }
}

/* Any of these, in any order, to any of the two accounts: circles, too. */
static void change_imports(plane_t *plane) {
    static const struct {
        uint32_t kind;
        uint32_t response;
        const char *subject;
        const char *local;
        const char *order;
    } all[] = {{IMPORT_STREAM, 0, "a.>", "imported.>", "\1"},
               {IMPORT_STREAM, 0, "*.b", "there.*", "\1"},
               {IMPORT_STREAM, 0, ">", ">", "\1"},
               {IMPORT_SERVICE, 0, "s.>", "there.>", "\1"},
               {IMPORT_SERVICE, RESPONSE_STREAM, "$JS.API.>", "imported.>", "\1"},
               {IMPORT_SERVICE, RESPONSE_STREAM, "a.*", "a.*", "\1"},
               {IMPORT_SERVICE, 0, "$JS.ACK.>", "$JS.ACK.>", "\1"},
               {IMPORT_SERVICE, 0, "a", "_I.p", ""}};
    import_row_t rows[8];
    rig_strings_t strings = {.size = 0};
    uint32_t count = below(6), importer = 1 + below(2);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t which = below(sizeof(all) / sizeof(all[0]));
        rows[i] = (import_row_t){.account = below(6) == 0 ? importer : 3 - importer,
                                 .kind = all[which].kind,
                                 .response = all[which].response,
                                 .flags = below(16),
                                 .sampling = below(2) * 100,
                                 .threshold_ns = NS_PER_SECOND};
        rig_pack(&strings, all[which].subject);
        rig_pack(&strings, all[which].local);
        size_t before = strings.size;
        rig_pack(&strings, all[which].order);
        for (size_t at = before + 4; at < strings.size; at++) strings.at[at]--;
        rig_pack(&strings, "a.told");
        rig_pack(&strings, below(2) == 0 ? "" : ".HUB12345.T");
    }
    rig_run(plane,
            (plane_command_t){.op = COMMAND_IMPORTS,
                              .account = importer,
                              .body = (const uint8_t *)rows,
                              .body_size = count * (uint32_t)sizeof(*rows)},
            &strings);
}

static void put_stream_and_consumer(plane_t *plane) {
    stream_config_t config = rig_stream;
    config.flags = STREAM_ALLOW_DIRECT;
    config.max_msgs = 500;
    const char *strings[] = {"S", "{}", "edge", "s.x", "s.y.{{random(5)}}", "s.>", "again.{{partition(3)}}.>", "s.>"};
    rig_run_with(plane, (plane_command_t){.op = COMMAND_STREAM_PUT, .target = 1}, &config, sizeof(config), strings, 8);
    consumer_config_t pull = rig_consumer;
    pull.ack_wait_ns = 2 * NS_PER_SECOND;
    pull.max_ack_pending = 100;
    pull.max_waiting = 64;
    rig_put_consumer(plane, pull);
}

static void step(plane_t *plane, uint64_t ids[PEERS]) {
    uint32_t who = below(PEERS);
    peer_t *peer = peer_find(plane, ids[who]);
    if (peer == NULL) {
        ids[who] = newcomer(plane)->id;
        return;
    }
    char line[300];
    if (peer->kind == CONN_CLIENT) {
        client_line(line, sizeof(line));
    } else {
        leaf_line(line, sizeof(line));
    }
    size_t size = strlen(line);
    if (below(400) == 0) line[below((uint32_t)size)] ^= (char)(1u << below(7));
    if (below(10) == 0) {
        char rest[300];
        size_t cut = below((uint32_t)size);
        memcpy(rest, line + cut, size - cut + 1);
        line[cut] = 0;
        rig_say(plane, peer, line);
        if (peer->state == PEER_ADMITTED) rig_say(plane, peer, rest);
    } else {
        rig_say(plane, peer, line);
    }
    if (below(500) == 0) peer_doom(plane, peer, CLOSE_CLIENT, BYTES_NONE);
    if (below(3) == 0) {
        plane->now.mono_ns += below(20) * NS_PER_MS;
        plane->now.wall_ns += 10 * NS_PER_MS;
        core_settle(plane);
    }
    peer = peer_find(plane, ids[who]);
    if (peer != NULL && below(4) == 0) rig_heard(peer);
}

static void anything(void) {
    char directory[] = "/tmp/leafd-test-XXXXXX";
    CHECK(mkdtemp(directory) != NULL);
    plane_t *plane = rig_open(directory, "edge");
    put_stream_and_consumer(plane);
    rig_account(plane, OTHER, 0, "");
    uint64_t ids[PEERS] = {0};
    for (int i = 0; i < STEPS; i++) {
        step(plane, ids);
        if (below(50) == 0) change_imports(plane);
        if (i % 1000 == 0) route_check(account_find(plane, 1 + below(2))->route);
        plane_event_t event;
        while (rig_event(plane, EVENT_OPENED, &event)) {
        }
    }
    for (int i = 0; i < PEERS; i++) {
        peer_t *peer = peer_find(plane, ids[i]);
        if (peer != NULL) peer_doom_silently(plane, peer, CLOSE_CLIENT, BYTES_NONE);
    }
    core_settle(plane);
    rig_run(plane, (plane_command_t){.op = COMMAND_STREAM_REMOVE, .target = 1}, NULL);
    for (uint32_t account = RIG_ACCOUNT; account <= OTHER; account++) {
        rig_run(plane, (plane_command_t){.op = COMMAND_IMPORTS, .account = account}, NULL);
        sink_remove(plane, &account_find(plane, account)->replies);
    }
    core_settle(plane);
    CHECK_EQ_U64(0, plane->stats.connections);
    CHECK_EQ_U64(0, plane->stats.subscriptions);
    CHECK_EQ_U64(0, plane->stats.leafs);
    CHECK_EQ_U64(0, account_find(plane, RIG_ACCOUNT)->client_count);
    CHECK_EQ_U64(0, route_count(account_find(plane, RIG_ACCOUNT)->route));
    CHECK_EQ_U64(0, route_count(account_find(plane, OTHER)->route));
    rig_admits_to = RIG_ACCOUNT;
    peer_t *last = rig_leaf(plane, 0, "last", NULL);
    const char *told = rig_heard(last);
    CHECK(strstr(told, "LS+ $JS.edge.API.INFO\r\n") != NULL);
    CHECK(strstr(told, "LS+ a") == NULL && strstr(told, "LS+ s") == NULL && strstr(told, "LS+ _I") == NULL
          && strstr(told, "LS+ _R_") == NULL && strstr(told, "LS+ t") == NULL && strstr(told, "ACK") == NULL);
    rig_close(plane);
    directory_remove(directory);
}

int main(void) {
    RUN("whatever peers do in whatever order, nothing breaks, and nothing is left when they have gone", anything);
    return TEST_RESULT();
}
