/* test_plane_leaf.c: leaf links of the core: what they are told, what crosses, what never does (tests/wire/leaf.md). */
#include "plane_rig.h"

/* Each promise has a plane of its own. */
static plane_t *plane;
static void (*promise)(void);

static void on_a_plane(void) {
    plane = rig_open(NULL, "");
    promise();
    rig_close(plane);
}

#define RUN_LINKED(text, function)                                                                                     \
    do {                                                                                                               \
        promise = function;                                                                                            \
        RUN(text, on_a_plane);                                                                                         \
    } while (0)

/* A link that was told what is wanted so far; that is not of interest. */
static peer_t *joined(uint32_t flags, const char *cluster, const char *const lists[4]) {
    peer_t *peer = rig_leaf(plane, flags, cluster, lists);
    rig_heard(peer);
    return peer;
}

/* The domains "one" and "two": SHA-256 by another program. */
#define OF_ONE "uM9nr214"
#define OF_TWO "1AI6sQoe"

static peer_t *joined_of(uint32_t flags, const char *domain) {
    peer_t *peer = rig_leaf_of(plane, flags, domain, domain, NULL);
    rig_heard(peer);
    return peer;
}

static void told_to_its_domain(void) {
    peer_t *one = joined_of(VERDICT_ISOLATED, OF_ONE), *two = joined_of(0, OF_TWO), *other = joined(0, "other", NULL);
    peer_t *a = rig_client(plane);
    rig_feed(plane, a, "SUB $JSC.R.12345678-uM9n 1\r\nSUB $JS.S.12345678-uM9n 2\r\nSUB $JS.M.12345678-uM9n 3\r\n");
    const char *told = "LS+ $JSC.R.12345678-uM9n\r\nLS+ $JS.S.12345678-uM9n\r\nLS+ $JS.M.12345678-uM9n\r\n";
    RIG_HEARD(told, one);
    RIG_HEARD("", two);
    RIG_HEARD(told, other);
    const char *late = rig_heard(rig_leaf_of(plane, 0, "late", OF_ONE, NULL));
    CHECK(strstr(late, "LS+ $JS.S.12345678-uM9n\r\n") != NULL && strstr(late, "LS+ $JSC.R.12345678-uM9n\r\n") != NULL);
    RIG_HEARD("LS+ $LDS.own\r\n", rig_leaf_of(plane, 0, "late", OF_TWO, NULL));
    rig_feed(plane, a, "UNSUB 2\r\n");
    RIG_HEARD("LS- $JS.S.12345678-uM9n\r\n", one);
    RIG_HEARD("", two);
    /* names that say nothing of a domain, or are somebody else's */
    rig_feed(plane, a, "SUB $JS.S.12345678 4\r\nSUB $JS.X.12345678-uM9n 5\r\nSUB $JS.S.12345.78-uM9n 6\r\n");
    RIG_HEARD("LS+ $JS.S.12345678\r\nLS+ $JS.X.12345678-uM9n\r\nLS+ $JS.S.12345.78-uM9n\r\n", two);
}

static void told_to_who_leads_on(void) {
    static const char *const patterns[] = {">",         "$JS.>",   "$JS.*.API.>",
                                           "*.*.API.X", "*.*.*.X", "$JS.far.API.CONSUMER.>"};
    static const char *const others[] = {"$JS.API.>",      "$JS.one.API.>", "$JS.far.ACK.>", "x.>",
                                         "_INBOX.far.API", "$JS.far",       "$JS",           "$JS.one.*.X"};
    peer_t *a = rig_client(plane);
    rig_feed(plane, a, "SUB $JS.S.12345678-Jkm8 1\r\n");
    for (uint32_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        peer_t *one = joined_of(VERDICT_ISOLATED, OF_ONE);
        rig_feed(plane, one, "LS+ ");
        rig_feed(plane, one, others[i]);
        rig_feed(plane, one, "\r\n");
        RIG_HEARD("", one);
    }
    for (uint32_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
        peer_t *one = joined_of(VERDICT_ISOLATED, OF_ONE);
        rig_feed(plane, one, "LS+ ");
        rig_feed(plane, one, patterns[i]);
        rig_feed(plane, one, "\r\n");
        RIG_HEARD("LS+ $JS.S.12345678-Jkm8\r\n", one);
        rig_feed(plane, a, "SUB $JSC.R.87654321-Jkm8 2\r\nUNSUB 2\r\n");
        RIG_HEARD("LS+ $JSC.R.87654321-Jkm8\r\nLS- $JSC.R.87654321-Jkm8\r\n", one);
    }
}

static void told_once(void) {
    peer_t *a = rig_client(plane);
    rig_feed(plane, a, "SUB early 1\r\n");
    peer_t *hub = rig_leaf(plane, VERDICT_SPOKE, "hub", NULL);
    RIG_HEARD("LS+ $LDS.own\r\nLS+ early\r\n", hub);
    rig_feed(plane, a, "SUB x 2\r\n");
    RIG_HEARD("LS+ x\r\n", hub);
    rig_feed(plane, a, "SUB x 3\r\nUNSUB 2\r\n");
    RIG_HEARD("", hub);
    rig_feed(plane, a, "UNSUB 3\r\n");
    RIG_HEARD("LS- x\r\n", hub);
    rig_feed(plane, a, "SUB q w 4\r\n");
    RIG_HEARD("LS+ q w 1\r\n", hub);
    rig_feed(plane, a, "SUB q w 5\r\n");
    RIG_HEARD("LS+ q w 2\r\n", hub);
    peer_doom_silently(plane, a, CLOSE_CLIENT, BYTES_NONE);
    core_settle(plane);
    const char *heard = rig_heard(hub);
    CHECK(strstr(heard, "LS- q w\r\n") != NULL);
    CHECK(strstr(heard, "LS- early\r\n") != NULL);
}

static void between_spokes(void) {
    peer_t *one = joined(0, "one", NULL), *two = joined(0, "two", NULL), *other = joined(0, "two", NULL);
    rig_feed(plane, two, "LS+ t\r\n");
    RIG_HEARD("LS+ t\r\n", one);
    RIG_HEARD("", two);
    RIG_HEARD("", other);
    rig_feed(plane, one, "LMSG t r 1\r\nx\r\n");
    RIG_HEARD("LMSG t r 1\r\nx\r\n", two);
    RIG_HEARD("", one);
    rig_feed(plane, other, "LMSG t 1\r\ny\r\n");
    RIG_HEARD("", two);
    rig_feed(plane, two, "LMSG t 1\r\nz\r\n");
    RIG_HEARD("", two);
    rig_feed(plane, two, "LS- t\r\n");
    RIG_HEARD("LS- t\r\n", one);
}

static void without_quality(void) {
    static const message_t stored = {.subject = BYTES_LITERAL("t"),
                                     .reply = BYTES_LITERAL("$JS.ACK.S"),
                                     .header = BYTES_LITERAL("NATS/1.0\r\nNmqtt-Pub:2\r\n\r\n")};
    peer_t *one = joined(VERDICT_HEADERS, "one", NULL), *a = rig_client(plane);
    rig_feed(plane, one, "LS+ t\r\n");
    rig_feed(plane, a, "HPUB t 25 26\r\nNATS/1.0\r\nNmqtt-Pub:2\r\n\r\nx\r\n");
    RIG_HEARD("HMSG t 25 26\r\nNATS/1.0\r\nNmqtt-Pub:0\r\n\r\nx\r\n", one);
    (void)publish(plane, &(publication_t){.account = a->account, .message = stored});
    RIG_HEARD("HMSG t $JS.ACK.S 25 25\r\nNATS/1.0\r\nNmqtt-Pub:2\r\n\r\n\r\n", one);
    rig_feed(plane, a, "SUB > 1\r\n");
    plane->mqtt.flags = MQTT_VERSION_5;
    rig_feed(plane, one, "LMSG $MQTT.msgs.t 1\r\nx\r\nLMSG t 1\r\ny\r\n");
    RIG_HEARD("MSG t 1 1\r\ny\r\n", a);
}

static void isolated(void) {
    peer_t *open = joined(0, "open", NULL), *alone = joined(VERDICT_ISOLATED, "alone", NULL);
    rig_feed(plane, open, "LS+ theirs\r\nLS+ both\r\nLS+ shared q 2\r\n");
    rig_feed(plane, alone, "LS+ own\r\n");
    RIG_HEARD("", alone);
    RIG_HEARD("LS+ own\r\n", open);
    peer_t *a = rig_client(plane), *late = rig_leaf(plane, VERDICT_ISOLATED, "late", NULL);
    RIG_HEARD("LS+ $LDS.own\r\n", late);
    rig_feed(plane, a, "SUB both 1\r\nSUB shared q 2\r\n");
    RIG_HEARD("LS+ both\r\nLS+ shared q 1\r\n", alone);
    RIG_HEARD("LS+ both\r\nLS+ shared q 1\r\n", open);
    rig_feed(plane, open, "LS- both\r\nLS- shared q\r\n");
    RIG_HEARD("", alone);
    rig_feed(plane, a, "UNSUB 1\r\n");
    RIG_HEARD("LS- both\r\n", alone);
    rig_heard(open);
    /* Only interest is kept back: what a link was told of, or sends unasked, goes where it is wanted. */
    rig_feed(plane, alone, "LMSG theirs 1\r\nx\r\n");
    RIG_HEARD("LMSG theirs 1\r\nx\r\n", open);
}

static void isolated_among_many(void) {
    peer_t *open = joined(0, "open", NULL), *a = rig_client(plane);
    for (int i = 0; i < 600; i++) {
        char line[64];
        snprintf(line, sizeof line, "LS+ of.boxes.%d\r\n", i);
        rig_feed(plane, open, line);
        if (i % 200 == 0) {
            snprintf(line, sizeof line, "SUB inside.%d %d\r\n", i, i + 1);
            rig_feed(plane, a, line);
        }
    }
    rig_feed(plane, a, "UNSUB 1\r\n");
    const char *heard = rig_heard(rig_leaf(plane, VERDICT_ISOLATED, "alone", NULL));
    CHECK(strstr(heard, "of.boxes") == NULL && strstr(heard, "inside.0") == NULL);
    CHECK(strstr(heard, "LS+ inside.200\r\n") != NULL && strstr(heard, "LS+ inside.400\r\n") != NULL);
}

static void told_to_one_link(void) {
    peer_t *one = joined(0, "one", NULL), *other = joined(0, "other", NULL);
    rig_strings_t strings = {.size = 0};
    rig_pack(&strings, "answers.7");
    rig_pack(&strings, "");
    plane_command_t begin = {.op = COMMAND_SUBSCRIBE, .account = RIG_ACCOUNT, .target = 77, .arg2 = one->id};
    rig_run(plane, begin, &strings);
    RIG_HEARD("LS+ answers.7\r\n", one);
    RIG_HEARD("", other);
    peer_t *late = joined(0, "late", NULL);
    RIG_HEARD("", late);
    rig_feed(plane, one, "LMSG answers.7 1\r\nx\r\n");
    plane_event_t event;
    CHECK(rig_event(plane, EVENT_MESSAGE, &event) && event.target == 77);
    rig_run(plane, (plane_command_t){.op = COMMAND_UNSUBSCRIBE, .account = RIG_ACCOUNT, .target = 77}, NULL);
    rig_turn(plane);
    RIG_HEARD("LS- answers.7\r\n", one);
    RIG_HEARD("", other);
    /* one whose link has gone meanwhile is told to nobody */
    begin.arg2 = 1u << 20;
    rig_run(plane, begin, &strings);
    RIG_HEARD("", one);
    RIG_HEARD("", other);
}

/* Control listens to a deliver subject while the consumer is asked for; then the copy does, and the link hears nothing
 * of the change. */
static void taken_over_by_a_copy(void) {
    peer_t *one = joined(0, "one", NULL), *other = joined(0, "other", NULL);
    rig_strings_t strings = {.size = 0};
    rig_pack(&strings, "deliver.7");
    rig_pack(&strings, "");
    plane_command_t begin = {.op = COMMAND_SUBSCRIBE, .account = RIG_ACCOUNT, .target = 77, .arg2 = one->id};
    plane_command_t end = {.op = COMMAND_UNSUBSCRIBE, .account = RIG_ACCOUNT, .target = 77};
    account_t *account = account_find(plane, RIG_ACCOUNT);
    sink_t copy = {.in = false}, elsewhere = {.in = false};
    rig_run(plane, begin, &strings);
    RIG_HEARD("LS+ deliver.7\r\n", one);
    CHECK_EQ_I64(STATUS_OK, sink_add(plane, account, &copy, TARGET_INGEST, rig_text("deliver.7"), one->id, NULL));
    rig_heard(one);
    rig_run(plane, end, NULL);
    rig_turn(plane);
    RIG_HEARD("", one);
    /* one that another link is told of does not count for this one */
    CHECK_EQ_I64(STATUS_OK,
                 sink_add(plane, account, &elsewhere, TARGET_INGEST, rig_text("deliver.7"), other->id, NULL));
    RIG_HEARD("LS+ deliver.7\r\n", other);
    sink_remove(plane, &copy);
    rig_turn(plane);
    RIG_HEARD("LS- deliver.7\r\n", one);
    RIG_HEARD("", other);
    sink_remove(plane, &elsewhere);
    rig_turn(plane);
    RIG_HEARD("LS- deliver.7\r\n", other);
}

static void apis_in_reach(void) {
    rig_account(plane, RIG_ACCOUNT, ACCOUNT_JETSTREAM, "hub");
    peer_t *peer = joined(0, "one", NULL);
    static const char *const told[] = {"$JS.box.API.CONSUMER.>", "$JS.box.API.>", "$JS.*.API.*.CREATE.>"};
    static const char *const untold[] = {"$JS.box.API.STREAM.>", "$JS.API.CONSUMER.>", "$JS.box", "$JS.", "box.API.>",
                                         "$JS.box.APIS.>"};
    plane_event_t event;
    for (uint32_t i = 0; i < sizeof told / sizeof told[0]; i++) {
        char line[64];
        snprintf(line, sizeof line, "LS+ %s\r\n", told[i]);
        rig_feed(plane, peer, line);
        CHECK(rig_event(plane, EVENT_REACHED, &event) && event.account == RIG_ACCOUNT);
        CHECK_TEXT(told[i], (const char *)event.subject, event.subject_size);
        rig_feed(plane, peer, line);
        CHECK(!rig_event(plane, EVENT_REACHED, &event)); /* it is there already */
    }
    for (uint32_t i = 0; i < sizeof untold / sizeof untold[0]; i++) {
        char line[64];
        snprintf(line, sizeof line, "LS+ %s\r\n", untold[i]);
        rig_feed(plane, peer, line);
        CHECK(!rig_event(plane, EVENT_REACHED, &event));
    }
}

static void not_between_hubs(void) {
    peer_t *hub = joined(VERDICT_SPOKE, "h1", NULL), *other = joined(VERDICT_SPOKE, "h2", NULL),
           *spoke = joined(0, "s", NULL);
    rig_feed(plane, hub, "LS+ h\r\n");
    RIG_HEARD("", other);
    RIG_HEARD("LS+ h\r\n", spoke);
    rig_feed(plane, spoke, "LS+ s\r\n");
    RIG_HEARD("LS+ s\r\n", hub);
    RIG_HEARD("LS+ s\r\n", other);
    rig_feed(plane, other, "LS+ s\r\nLMSG h 1\r\nx\r\n");
    RIG_HEARD("", hub);
}

static void queues_over_links(void) {
    peer_t *a = rig_client(plane), *leaf = rig_leaf(plane, 0, "l", NULL);
    rig_feed(plane, a, "SUB work g 1\r\n");
    rig_feed(plane, leaf, "LS+ work g 3\r\nLS+ work h 1\r\nLS+ work\r\n");
    rig_heard(leaf);
    rig_feed(plane, a, "PUB work 1\r\nx\r\n");
    RIG_HEARD("MSG work 1 1\r\nx\r\n", a);
    RIG_HEARD("LMSG work | h 1\r\nx\r\n", leaf);
    rig_feed(plane, leaf, "LMSG work 1\r\nn\r\n");
    RIG_HEARD("", a);
    rig_feed(plane, leaf, "LMSG work + r g 1\r\ny\r\n");
    RIG_HEARD("MSG work 1 r 1\r\ny\r\n", a);
}

static void stored_subject_behind_the_ack(void) {
    peer_t *a = rig_client(plane), *leaf = rig_leaf(plane, 0, "l", NULL), *far = rig_leaf(plane, 0, "f", NULL);
    rig_feed(plane, a, "SUB _I.x 1\r\n");
    rig_feed(plane, far, "LS+ _I.x\r\n");
    rig_heard(far);
    rig_feed(plane, leaf, "LMSG _I.x $JS.ACK.O@S.C.1.1.1.99.0@orders.z 1\r\nx\r\n");
    RIG_HEARD("MSG orders.z 1 $JS.ACK.O@S.C.1.1.1.99.0 1\r\nx\r\n", a);
    RIG_HEARD("LMSG _I.x $JS.ACK.O@S.C.1.1.1.99.0@orders.z 1\r\nx\r\n", far);
}

static void loop(void) {
    peer_t *leaf = joined(0, "l", NULL);
    rig_say(plane, leaf, "LS+ $LDS.other\r\nLS+ $LDS.own\r\n");
    RIG_HEARD("-ERR 'Loop detected for leafnode account=\"A\". Delaying attempt to reconnect for 30s'\r\n", leaf);
    core_settle(plane);
    plane_event_t event;
    CHECK(rig_event(plane, EVENT_CLOSED, &event));
    CHECK_EQ_U64(CLOSE_LOOP, event.code);
}

static void denied(void) {
    static const char *const lists[4] = {NULL, "out.no", NULL, "in.no"};
    peer_t *a = rig_client(plane), *hub = joined(VERDICT_SPOKE, "h", lists);
    rig_feed(plane, a, "SUB in.no 1\r\nSUB in.yes 2\r\n");
    RIG_HEARD("LS+ in.yes\r\n", hub);
    rig_feed(plane, hub, "LS+ out.*\r\nLMSG in.no 1\r\nx\r\nLMSG in.yes 1\r\ny\r\n");
    RIG_HEARD("MSG in.yes 2 1\r\ny\r\n", a);
    rig_feed(plane, a, "PUB out.no 1\r\nx\r\nPUB out.yes 1\r\ny\r\n");
    RIG_HEARD("LMSG out.yes 1\r\ny\r\n", hub);
    peer_t *spoke = joined(0, "s", lists);
    rig_say(plane, spoke, "LS+ out.no\r\n");
    RIG_HEARD("-ERR 'Permissions Violation for Subscription to \"out.no\"'\r\n", spoke);
}

/* JetStream's own subjects are wanted here, whoever else wanted them before and leaves. */
static void domain_stays(void) {
    rig_account(plane, RIG_ACCOUNT, ACCOUNT_JETSTREAM, "hub");
    peer_t *a = rig_client(plane);
    rig_feed(plane, a, "SUB $JS.hub.API.STREAM.> 1\r\n");
    peer_t *leaf = joined(0, "l", NULL);
    rig_feed(plane, a, "UNSUB 1\r\n");
    RIG_HEARD("", leaf);
    rig_account(plane, RIG_ACCOUNT, ACCOUNT_JETSTREAM, "hub");
    RIG_HEARD("", leaf);
    rig_account(plane, RIG_ACCOUNT, 0, "hub");
    core_settle(plane);
    CHECK(strstr(rig_heard(leaf), "LS- $JS.hub.API.STREAM.>\r\n") != NULL);
    rig_account(plane, RIG_ACCOUNT, ACCOUNT_JETSTREAM, "hub");
    core_settle(plane);
    CHECK(strstr(rig_heard(leaf), "LS+ $JS.hub.API.STREAM.>\r\n") != NULL);
}

static void weights_add_up_to_what_can_be_read(void) {
    peer_t *one = joined(0, "one", NULL), *two = joined(0, "two", NULL), *three = joined(0, "three", NULL);
    rig_feed(plane, one, "LS+ work g 999999999\r\n");
    RIG_HEARD("LS+ work g 999999999\r\n", three);
    rig_feed(plane, two, "LS+ work g 18446744073709551616\r\n");
    RIG_HEARD("LS+ work g 999999999\r\n", three);
    rig_feed(plane, one, "LS- work g\r\n");
    RIG_HEARD("LS+ work g 999999999\r\n", three);
    rig_feed(plane, one, "LS+ odd g x\r\n");
    RIG_HEARD("LS+ odd g 1\r\n", three);
    CHECK(one->state == PEER_ADMITTED && two->state == PEER_ADMITTED && three->state == PEER_ADMITTED);
}

/* As a leaf whose user may not publish below $JS: the fifth list is what it may not do under any name. */
static void acks_that_are_denied(void) {
    rig_strings_t strings = {.size = 0};
    const char *parts[] = {"l", "$LDS.own", "", "", "", "$JS.>", "", "$JS.>", ""};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) rig_pack(&strings, parts[i]);
    peer_t *a = rig_client(plane), *leaf = rig_admit(plane, COMMAND_ADMIT_LEAF, CONN_LEAF,
                                                     (conn_verdict_t){.flags = VERDICT_HEADERS}, &strings);
    static const char *const between_domains[4] = {NULL, NULL, NULL, "$JS.API.>"};
    peer_t *other = rig_leaf(plane, 0, "m", between_domains);
    rig_feed(plane, a, "SUB $JS.ACK.> 1\r\n");
    rig_feed(plane, leaf, "LMSG $JS.ACK.S.C.1.1.1.1.0 4\r\n+ACK\r\n");
    RIG_HEARD("", a);
    CHECK(leaf->state == PEER_ADMITTED);
    rig_feed(plane, other, "LMSG $JS.ACK.S.C.1.1.1.1.0 4\r\n+ACK\r\n");
    RIG_HEARD("MSG $JS.ACK.S.C.1.1.1.1.0 1 4\r\n+ACK\r\n", a);
}

/* Ack subject and stored subject travel as one word; a cut one would be another subject. */
static void no_cut_subject(void) {
    peer_t *leaf = joined(0, "l", NULL), *far = joined(0, "f", NULL);
    static char line[12000], stored[5000];
    memset(stored, 's', sizeof(stored) - 1);
    rig_feed(plane, far, "LS+ _I.x\r\n");
    (void)rig_heard(leaf);
    for (int size = 4000; size < 4999; size += 998) {
        snprintf(line, sizeof(line), "LMSG _I.x $JS.ACK.O.C.1.1.1.99.0@%.*s 1\r\nx\r\n", size, stored);
        rig_feed(plane, leaf, line);
        if (size == 4000) {
            RIG_HEARD(line, far);
        } else {
            RIG_HEARD("", far);
        }
    }
    CHECK(far->state == PEER_ADMITTED && leaf->state == PEER_ADMITTED);
}

static void link_counts_as_taken(void) {
    peer_t *a = rig_client(plane), *leaf = rig_leaf(plane, 0, "l", NULL);
    rig_feed(plane, leaf, "LS+ svc\r\nLS+ *\r\n");
    rig_feed(plane, a, "SUB _I 1\r\nPUB svc _I 0\r\n\r\n");
    RIG_HEARD("", a);
    const char *heard = rig_heard(leaf);
    CHECK(strstr(heard, "LMSG svc _I 0\r\n\r\n") != NULL);
    CHECK(strstr(strstr(heard, "LMSG svc") + 1, "LMSG svc") == NULL);
}

static void interest_duel(void) {
    peer_t *clients[3] = {rig_client(plane), rig_client(plane), rig_client(plane)};
    peer_t *leaf = joined(0, "l", NULL);
    bool in[3][40] = {{false}};
    int told[40] = {0};
    uint64_t seed = 7;
    for (int step = 0; step < 4000; step++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint32_t who = (uint32_t)(seed >> 33) % 3, what = (uint32_t)(seed >> 40) % 40;
        char line[64];
        snprintf(line, sizeof(line), in[who][what] ? "UNSUB %u\r\n" : "SUB s.%u %u\r\n", what, what);
        if (!in[who][what]) {
            snprintf(line, sizeof(line), "SUB s.%u %u\r\n", what, what);
        }
        in[who][what] = !in[who][what];
        rig_feed(plane, clients[who], line);
        for (char *at = strtok((char *)(uintptr_t)rig_heard(leaf), "\r\n"); at != NULL; at = strtok(NULL, "\r\n")) {
            told[atoi(at + 6)] += at[2] == '+' ? 1 : -1;
        }
        for (int i = 0; i < 40; i++) CHECK_EQ_I64(in[0][i] || in[1][i] || in[2][i], told[i]);
    }
}

static void errors_are_counted(void) {
    plane = rig_open(NULL, "");
    peer_t *leaf = rig_leaf(plane, 0, "C", NULL);
    for (uint32_t i = 0; i < 10000; i++) {
        rig_say(plane, leaf, "-ERR 'no'\r\n");
    }
    core_settle(plane);
    plane_event_t event;
    uint32_t told = 0;
    while (rig_event(plane, EVENT_LEAF_ERR, &event)) {
        CHECK_EQ_U64(0, event.arg);
        told++;
    }
    CHECK_EQ_U64(LEAF_ERRORS_A_SECOND, told);
    plane->now.mono_ns += NS_PER_SECOND;
    rig_feed(plane, leaf, "-ERR 'again'\r\n");
    CHECK(rig_event(plane, EVENT_LEAF_ERR, &event));
    CHECK_TEXT("again", event.payload, event.payload_size);
    CHECK_EQ_U64(10000 - LEAF_ERRORS_A_SECOND, event.arg);
    rig_close(plane);
}

static void many_groups_over_a_link(void) {
    enum { MANY = 200 };
    char line[8192] = "LMSG x |", *end;
    peer_t *a = rig_client(plane), *leaf = joined(0, "l", NULL);
    for (uint32_t i = 0; i < MANY; i++) {
        char one[64];
        snprintf(one, sizeof(one), "SUB x group-%u %u\r\n", (unsigned)i, (unsigned)i);
        rig_say(plane, a, one);
        snprintf(one, sizeof(one), "LS+ y group-%u 1\r\n", (unsigned)i);
        rig_say(plane, leaf, one);
        end = line + strlen(line);
        snprintf(end, sizeof(line) - (size_t)(end - line), " group-%u", (unsigned)i);
    }
    rig_heard(leaf);
    strcat(line, " 1\r\nx\r\n");
    rig_feed(plane, leaf, line);
    uint32_t heard = 0;
    for (const char *at = rig_heard(a); (at = strstr(at, "MSG x ")) != NULL; at++) {
        heard++;
    }
    CHECK_EQ_U64(MANY, heard);
    rig_feed(plane, a, "PUB y 1\r\nx\r\n");
    const char *sent = rig_heard(leaf);
    CHECK(strstr(sent, "LMSG y | ") != NULL && strstr(sent, "group-0 ") != NULL && strstr(sent, "group-199 ") != NULL);
}

/* How many lines of a kind are among what it heard. */
static uint32_t lines_of(const char *heard, const char *verb) {
    uint32_t count = 0;
    for (const char *at = heard; (at = strstr(at, verb)) != NULL; at++) {
        count += at == heard || at[-1] == '\n';
    }
    return count;
}

/* One turn tells TELL_MAX of 20,000 interests; meanwhile some go and others come, and the table grows. */
static void told_in_slices(void) {
    enum { MANY = 20000 };
    char line[64];
    peer_t *a = rig_client(plane);
    (void)rig_leaf(plane, 0, "early", NULL);
    for (uint32_t i = 0; i < MANY; i++) {
        snprintf(line, sizeof(line), "SUB s.%u %u\r\n", (unsigned)i, (unsigned)i);
        rig_say(plane, a, line);
    }
    core_settle(plane);
    peer_t *leaf = rig_leaf(plane, 0, "late", NULL);
    uint32_t told = lines_of(rig_heard(leaf), "LS+ s."), untold = 0, turns = 1;
    CHECK(told > 0 && told <= TELL_MAX + 64);
    CHECK(plane->more);
    for (uint32_t i = 0; i < MANY; i += 2) {
        snprintf(line, sizeof(line), "UNSUB %u\r\nSUB t.%u %u\r\n", (unsigned)i, (unsigned)i, (unsigned)(MANY + i));
        rig_say(plane, a, line);
    }
    for (; plane->more && turns < 100; turns++) {
        plane->more = false;
        core_settle(plane);
        const char *heard = rig_heard(leaf);
        told += lines_of(heard, "LS+ s.") + lines_of(heard, "LS+ t.");
        untold += lines_of(heard, "LS- s.");
    }
    CHECK(turns >= MANY / TELL_MAX);
    CHECK_EQ_U64(MANY, told - untold);
    rig_feed(plane, a, "SUB last 1000000\r\n");
    RIG_HEARD("LS+ last\r\n", leaf);
}

/* The links of one cluster see what others want, with all of their own taken off, also when one of them goes. */
static void mates(void) {
    peer_t *ring[4];
    for (uint32_t i = 0; i < 4; i++) {
        ring[i] = joined(0, "same", NULL);
        rig_feed(plane, ring[i], "LS+ q g 2\r\n");
    }
    for (uint32_t i = 0; i < 4; i++) {
        RIG_HEARD("", ring[i]);
    }
    peer_t *a = rig_client(plane);
    rig_feed(plane, a, "SUB q g 1\r\n");
    for (uint32_t i = 0; i < 4; i++) {
        RIG_HEARD("LS+ q g 1\r\n", ring[i]);
    }
    peer_doom_silently(plane, ring[1], CLOSE_CLIENT, BYTES_NONE);
    core_settle(plane);
    peer_t *other = rig_leaf(plane, 0, "other", NULL);
    CHECK(strstr(rig_heard(other), "LS+ q g 7\r\n") != NULL);
    peer_t *late = rig_leaf(plane, 0, "same", NULL);
    CHECK(strstr(rig_heard(late), "LS+ q g 1\r\n") != NULL);
    rig_feed(plane, a, "UNSUB 1\r\n");
    RIG_HEARD("LS- q g\r\n", ring[0]);
    RIG_HEARD("LS- q g\r\n", late);
    RIG_HEARD("LS+ q g 6\r\n", other);
}

static void asked_before_it_has_told(void) {
    static const char *const lists[4] = {NULL, "secret.>", NULL, NULL};
    peer_t *leaf = joined(0, "l", NULL), *other = joined(0, "o", lists);
    rig_strings_t strings = {.size = 0};
    rig_pack(&strings, "$JS.far.API.X");
    rig_pack(&strings, "r");
    rig_pack(&strings, "");
    plane_command_t command = {.op = COMMAND_PUBLISH, .account = 1, .arg = PUBLISH_REQUEST, .arg2 = leaf->id};
    rig_run(plane, command, &strings);
    RIG_HEARD("LMSG $JS.far.API.X r 0\r\n\r\n", leaf);
    RIG_HEARD("", other);
    rig_feed(plane, leaf, "LS+ $JS.far.API.>\r\n");
    rig_heard(other);
    rig_run(plane, command, &strings);
    RIG_HEARD("LMSG $JS.far.API.X r 0\r\n\r\n", leaf); /* once */
    rig_strings_t secret = {.size = 0};
    rig_pack(&secret, "secret.x");
    rig_pack(&secret, "");
    rig_pack(&secret, "");
    command.arg2 = other->id;
    rig_run(plane, command, &secret);
    RIG_HEARD("", other);
}

static void promises(void) {
    RUN_LINKED("control may ask a link that has not told its interest yet, within its rights",
               asked_before_it_has_told);
    RUN_LINKED("a subject is told once whatever the number of subscriptions, a queue group with its weight", told_once);
    RUN_LINKED("a hub carries interest and messages between spokes, never back and never to the same cluster",
               between_spokes);
    RUN_LINKED("what one hub wants is not told to another", not_between_hubs);
    RUN_LINKED("what can come by one link alone is asked of that link alone", told_to_one_link);
    RUN_LINKED("who takes over what one link was told of tells it nothing, and the last one that it has ended",
               taken_over_by_a_copy);
    RUN_LINKED("control hears when a link asks for what makes consumers in a domain, and once", apis_in_reach);
    RUN_LINKED("an isolated link is told of what is wanted here, and nothing of what other links want", isolated);
    RUN_LINKED("what a copy wants of its origin is told to links to the domain that its name says", told_to_its_domain);
    RUN_LINKED("and to those behind which there are other domains", told_to_who_leads_on);
    RUN_LINKED("an isolated link that comes late is told of all that is wanted here, among much that is not",
               isolated_among_many);
    RUN_LINKED("a member here wins; a link serves the groups it is named, and is named the groups it serves",
               queues_over_links);
    RUN_LINKED("the stored subject travels behind the ack subject and is shown to the client",
               stored_subject_behind_the_ack);
    RUN_LINKED("the own loop subject coming back closes the link", loop);
    RUN_LINKED("deny lists hold in both directions and for interest", denied);
    RUN_LINKED("JetStream's subjects under its domain's name stay announced when a client that wanted them leaves",
               domain_stays);
    RUN_LINKED("weights beyond nine digits are told as the largest that a peer reads, and taken as that",
               weights_add_up_to_what_can_be_read);
    RUN_LINKED("a link that is denied the subjects of acknowledgements acknowledges nothing; others do",
               acks_that_are_denied);
    RUN_LINKED("a subject that is too long for a link does not cross it: no shorter one does", no_cut_subject);
    RUN_LINKED("a message crosses a link once, and that counts as delivered", link_counts_as_taken);
    RUN_LINKED(
        "a new link hears of tens of thousands of interests in slices, and of what changes meanwhile exactly once",
        told_in_slices);
    RUN_LINKED("two hundred queue groups on a subject are served over a link, and do not end it",
               many_groups_over_a_link);
    RUN_LINKED("links of one cluster do not hear what they want themselves, whoever of them comes and goes", mates);
    RUN_LINKED("over any sequence of subscriptions a link knows exactly what is wanted", interest_duel);
    RUN_LINKED("a device's message says QoS 0 on a link, and comes once", without_quality);
    RUN("errors of a link are told some times a second, and counted otherwise", errors_are_counted);
}

int main(void) {
    promises();
    RIG_BYTE_BY_BYTE(promises);
    return TEST_RESULT();
}
