/* test_plane_import.c: what accounts take from each other, and that nothing is left of it afterwards. The messages'
 * texts are in tests/wire; here it is about time, bounds, links, circles and changes (tests/wire/accounts.md). */
#include "plane/import.h"

#include "plane_rig.h"

#define E RIG_ACCOUNT
#define I 2u

static void make_account(plane_t *plane, uint32_t id, const char *name) {
    rig_strings_t strings = {.size = 0};
    rig_pack(&strings, name);
    rig_pack(&strings, "");
    rig_run(plane, (plane_command_t){.op = COMMAND_ACCOUNT, .account = id}, &strings);
}

static peer_t *client(plane_t *plane, uint32_t account) {
    rig_admits_to = account;
    return rig_client(plane);
}

static peer_t *new_leaf(plane_t *plane, uint32_t account, uint32_t flags, const char *cluster) {
    rig_admits_to = account;
    return rig_leaf(plane, flags, cluster, NULL);
}

static peer_t *leaf(plane_t *plane, uint32_t account, uint32_t flags, const char *cluster) {
    peer_t *peer = new_leaf(plane, account, flags, cluster);
    rig_heard(peer);
    return peer;
}

typedef struct line {
    uint32_t exporter;
    uint32_t kind;
    uint32_t response;
    const char *subject;
    const char *local;
    const char *order;
} line_t;

/* Lines end with exporter 0. */
static void import_all(plane_t *plane, uint32_t importer, const line_t *lines) {
    import_row_t rows[8];
    uint32_t count = 0;
    rig_strings_t strings = {.size = 0};
    for (; lines[count].exporter != 0; count++) {
        const line_t *line = &lines[count];
        rows[count] = (import_row_t){.account = line->exporter, .kind = line->kind, .response = line->response};
        rig_pack(&strings, line->subject);
        rig_pack(&strings, line->local);
        uint32_t wildcards = (uint32_t)strlen(line->order);
        rig_pack(&strings, line->order);
        for (uint32_t i = 0; i < wildcards; i++)
            strings.at[strings.size - wildcards + i] = (uint8_t)(line->order[i] - '0');
        rig_pack(&strings, "");
        rig_pack(&strings, "");
    }
    rig_run(plane,
            (plane_command_t){.op = COMMAND_IMPORTS,
                              .account = importer,
                              .token = 7,
                              .body = (const uint8_t *)rows,
                              .body_size = count * (uint32_t)sizeof(*rows)},
            &strings);
    core_settle(plane);
    plane_event_t event;
    CHECK(rig_event(plane, EVENT_DONE, &event));
    CHECK_EQ_I64(STATUS_OK, event.status);
}

static const line_t service[] = {{E, IMPORT_SERVICE, RESPONSE_SINGLETON, "svc", "local", ""}, {0}};
static const line_t many[] = {{E, IMPORT_SERVICE, RESPONSE_STREAM, "svc", "local", ""}, {0}};
static const line_t stream[] = {{E, IMPORT_STREAM, 0, "str.>", "from.str.>", "0"}, {0}};
static const line_t nothing[] = {{0}};

static plane_t *open_both(const line_t *lines) {
    plane_t *plane = rig_open(NULL, "");
    make_account(plane, E, "E");
    make_account(plane, I, "I");
    import_all(plane, I, lines);
    return plane;
}

static const import_t *first_import(plane_t *plane) {
    return account_find(plane, I)->imports;
}

/* The reply subject of the request that peer heard last. */
static const char *asked(peer_t *peer) {
    static char reply[REPLY_SUBJECT_SIZE + 1];
    const char *heard = rig_heard(peer), *at = strstr(heard, "_R_.");
    CHECK(at != NULL);
    memcpy(reply, at, REPLY_SUBJECT_SIZE);
    CHECK(strchr(reply, ' ') == NULL);
    return reply;
}

static void answer(plane_t *plane, peer_t *peer, const char *reply) {
    char line[128];
    snprintf(line, sizeof(line), "PUB %s 2\r\nok\r\n", reply);
    rig_feed(plane, peer, line);
}

static void one_answer(void) {
    plane_t *plane = open_both(service);
    peer_t *e = client(plane, E), *i = client(plane, I);
    rig_feed(plane, e, "SUB svc 1\r\n");
    rig_feed(plane, i, "SUB _I 1\r\nPUB local _I 0\r\n\r\n");
    const char *reply = asked(e);
    CHECK_EQ_U64(1, first_import(plane)->reply_count);
    answer(plane, e, reply);
    RIG_HEARD("MSG _I 1 2\r\nok\r\n", i);
    CHECK_EQ_U64(0, first_import(plane)->reply_count);
    answer(plane, e, reply);
    RIG_HEARD("", i);
    rig_close(plane);
}

static void nobody_leaves_nothing(void) {
    plane_t *plane = open_both(service);
    peer_t *i = client(plane, I);
    rig_feed(plane, i, "SUB _I 1\r\nPUB local _I 0\r\n\r\n");
    RIG_HEARD("HMSG _I 1 37 37\r\nNATS/1.0 503\r\nNats-Subject: local\r\n\r\n\r\n", i);
    CHECK_EQ_U64(0, first_import(plane)->reply_count);
    rig_close(plane);
}

static void replies_end_by_elapsed_time(void) {
    plane_t *plane = open_both(many);
    peer_t *e = client(plane, E), *i = client(plane, I);
    rig_feed(plane, e, "SUB svc 1\r\n");
    rig_feed(plane, i, "SUB _I 1\r\nPUB local _I 0\r\n\r\n");
    char reply[REPLY_SUBJECT_SIZE + 1];
    memcpy(reply, asked(e), sizeof(reply));
    plane->now.wall_ns += 3600 * NS_PER_SECOND;
    core_settle(plane);
    plane->now.mono_ns += REPLY_THRESHOLD_NS - NS_PER_SECOND;
    core_settle(plane);
    CHECK_EQ_U64(1, first_import(plane)->reply_count);
    rig_heard(i);
    answer(plane, e, reply);
    RIG_HEARD("MSG _I 1 2\r\nok\r\n", i);
    /* An answer begins the time anew. */
    plane->now.mono_ns += REPLY_THRESHOLD_NS - NS_PER_SECOND;
    core_settle(plane);
    CHECK_EQ_U64(1, first_import(plane)->reply_count);
    plane->now.mono_ns += 2 * NS_PER_SECOND;
    core_settle(plane);
    CHECK_EQ_U64(0, first_import(plane)->reply_count);
    rig_close(plane);
}

static void replies_end_with_the_requester(void) {
    plane_t *plane = open_both(many);
    peer_t *e = client(plane, E), *i = client(plane, I), *other = client(plane, I);
    rig_feed(plane, e, "SUB svc 1\r\n");
    for (int n = 0; n < 5; n++) {
        rig_feed(plane, i, "PUB local _I 0\r\n\r\n");
        rig_feed(plane, other, "PUB local _O 0\r\n\r\n");
    }
    CHECK_EQ_U64(10, first_import(plane)->reply_count);
    peer_doom_silently(plane, i, CLOSE_CLIENT, BYTES_NONE);
    core_settle(plane);
    CHECK_EQ_U64(5, first_import(plane)->reply_count);
    rig_close(plane);
}

static void replies_end_when_nobody_listens(void) {
    plane_t *plane = open_both(many);
    peer_t *e = client(plane, E), *i = client(plane, I);
    rig_feed(plane, e, "SUB svc 1\r\n");
    rig_feed(plane, i, "SUB _I 1\r\nPUB local _I 0\r\n\r\n");
    char reply[REPLY_SUBJECT_SIZE + 1];
    memcpy(reply, asked(e), sizeof(reply));
    answer(plane, e, reply);
    RIG_HEARD("MSG _I 1 2\r\nok\r\n", i);
    CHECK_EQ_U64(1, first_import(plane)->reply_count);
    rig_feed(plane, i, "UNSUB 1\r\n");
    answer(plane, e, reply);
    CHECK_EQ_U64(0, first_import(plane)->reply_count);
    rig_close(plane);
}

static void replies_are_bounded(void) {
    plane_t *plane = open_both(service);
    peer_t *e = client(plane, E), *i = client(plane, I);
    rig_feed(plane, e, "SUB svc 1\r\n");
    rig_feed(plane, i, "SUB _I.> 1\r\nPUB local _I.first 0\r\n\r\n");
    char first[REPLY_SUBJECT_SIZE + 1], last[REPLY_SUBJECT_SIZE + 1];
    memcpy(first, asked(e), sizeof(first));
    for (uint32_t n = 0; n < REPLIES_PER_IMPORT_MAX; n++) {
        rig_say(plane, i, "PUB local _I.more 0\r\n\r\n");
        if (n % 1024 == 0) {
            core_settle(plane);
            rig_heard(e);
        }
    }
    core_settle(plane);
    rig_heard(e);
    CHECK_EQ_U64(REPLIES_PER_IMPORT_MAX, first_import(plane)->reply_count);
    answer(plane, e, first);
    RIG_HEARD("", i);
    rig_feed(plane, i, "PUB local _I.last 0\r\n\r\n");
    memcpy(last, asked(e), sizeof(last));
    answer(plane, e, last);
    RIG_HEARD("MSG _I.last 1 2\r\nok\r\n", i);
    rig_close(plane);
}

static void shadows_follow_subscriptions(void) {
    plane_t *plane = open_both(stream);
    peer_t *link = leaf(plane, E, 0, "one"), *i = client(plane, I);
    rig_feed(plane, i, "SUB from.str.a 1\r\nSUB from.str.a 2\r\n");
    RIG_HEARD("LS+ str.a\r\n", link);
    rig_feed(plane, i, "SUB > w 3\r\nSUB from.*.b 4\r\nSUB elsewhere.> 5\r\n");
    RIG_HEARD("LS+ str.> w 1\r\nLS+ str.b\r\n", link);
    rig_feed(plane, link, "LMSG str.a 1\r\nx\r\n");
    RIG_HEARD("MSG from.str.a 1 1\r\nx\r\nMSG from.str.a 2 1\r\nx\r\n", i);
    rig_feed(plane, link, "LMSG str.c | w 1\r\ny\r\n");
    RIG_HEARD("MSG from.str.c 3 1\r\ny\r\n", i);
    rig_feed(plane, i, "UNSUB 1\r\n");
    RIG_HEARD("", link);
    rig_feed(plane, i, "UNSUB 2\r\n");
    RIG_HEARD("LS- str.a\r\n", link);
    /* A link that comes later is told of what is there. */
    peer_t *late = new_leaf(plane, E, 0, "two");
    const char *heard = rig_heard(late);
    CHECK(strstr(heard, "LS+ str.> w 1\r\n") != NULL && strstr(heard, "LS+ str.b\r\n") != NULL
          && strstr(heard, "str.a") == NULL);
    rig_close(plane);
}

/* How many of 200 subscriptions a connection may have. */
static uint32_t taken_of(plane_t *plane, const char *prefix) {
    char line[64];
    uint32_t taken = 0;
    peer_t *peer = client(plane, I);
    for (uint32_t i = 0; i < 200; i++) {
        snprintf(line, sizeof(line), "SUB %s.a.%u %u\r\n", prefix, i, i);
        rig_feed(plane, peer, line);
        taken += strstr(rig_heard(peer), "-ERR 'maximum subscriptions exceeded'\r\n") == NULL;
    }
    peer_doom(plane, peer, CLOSE_CLIENT, BYTES_NONE);
    rig_turn(plane);
    rig_turn(plane);
    CHECK_EQ_U64(0, plane->memory.interest.used);
    return taken;
}

static void shadows_have_a_share(void) {
    plane_t *plane = open_both(stream);
    plane->memory.interest.limit = 140000;
    uint32_t plain = taken_of(plane, "elsewhere.str"), shadowed = taken_of(plane, "from.str");
    CHECK(plain > 100 && plain < 200);
    CHECK(shadowed > plain * 2 / 5 && shadowed < plain * 3 / 5);
    rig_close(plane);
}

static void links_of_the_importer_hear_it(void) {
    plane_t *plane = open_both(stream);
    peer_t *hub = leaf(plane, E, VERDICT_SPOKE, "hub"), *spoke = leaf(plane, I, 0, "spoke"), *e = client(plane, E);
    rig_feed(plane, spoke, "LS+ from.str.x\r\nLS+ from.str.q w 3\r\n");
    RIG_HEARD("LS+ str.x\r\nLS+ str.q w 3\r\n", hub);
    rig_feed(plane, spoke, "LS+ from.str.q w 5\r\n");
    RIG_HEARD("LS+ str.q w 5\r\n", hub);
    rig_feed(plane, e, "PUB str.x r 1\r\n1\r\nPUB str.q 1\r\n2\r\n");
    RIG_HEARD("LMSG from.str.x r 1\r\n1\r\nLMSG from.str.q | w 1\r\n2\r\n", spoke);
    /* What a hub of the importer wants is not told to a hub of the exporter. */
    peer_t *other = leaf(plane, I, VERDICT_SPOKE, "other");
    rig_feed(plane, other, "LS+ from.str.y\r\n");
    RIG_HEARD("", hub);
    rig_close(plane);
    /* Neither when the exporter's first link comes later. */
    plane = open_both(stream);
    other = leaf(plane, I, VERDICT_SPOKE, "other");
    rig_feed(plane, other, "LS+ from.str.y\r\n");
    hub = new_leaf(plane, E, VERDICT_SPOKE, "hub");
    RIG_HEARD("LS+ $LDS.own\r\n", hub);
    spoke = new_leaf(plane, E, 0, "spoke");
    RIG_HEARD("LS+ $LDS.own\r\nLS+ str.y\r\n", spoke);
    rig_close(plane);
}

static void answers_cross_links(void) {
    plane_t *plane = open_both(service);
    peer_t *hub = leaf(plane, E, VERDICT_SPOKE, "hub"), *i = client(plane, I);
    rig_feed(plane, hub, "LS+ svc\r\n");
    rig_feed(plane, i, "SUB _I 1\r\nPUB local _I 2\r\nhi\r\n");
    const char *heard = rig_heard(hub);
    char reply[REPLY_SUBJECT_SIZE + 1] = "", wanted[64];
    const char *at = strstr(heard, "HMSG svc _R_.");
    CHECK(at != NULL);
    memcpy(reply, at + 9, REPLY_SUBJECT_SIZE);
    snprintf(wanted, sizeof(wanted), "LS+ %.11s>\r\n", reply);
    CHECK(strstr(heard, wanted) == heard);
    char line[96];
    snprintf(line, sizeof(line), "LMSG %s 2\r\nok\r\n", reply);
    rig_feed(plane, hub, line);
    RIG_HEARD("MSG _I 1 2\r\nok\r\n", i);
    rig_close(plane);
}

static void importers_interest_is_told(void) {
    plane_t *plane = open_both(service);
    peer_t *link = leaf(plane, I, 0, "one"), *e = client(plane, E);
    rig_feed(plane, e, "SUB svc 1\r\n");
    import_all(plane, I, nothing);
    RIG_HEARD("LS- local\r\n", link);
    import_all(plane, I, service);
    RIG_HEARD("LS+ local\r\n", link);
    rig_feed(plane, link, "LMSG local _I.1 2\r\nhi\r\n");
    answer(plane, e, asked(e));
    RIG_HEARD("", link);
    rig_feed(plane, link, "LS+ _I.>\r\nLMSG local _I.1 2\r\nhi\r\n");
    answer(plane, e, asked(e));
    RIG_HEARD("LMSG _I.1 2\r\nok\r\n", link);
    rig_close(plane);
}

static void changes_keep_what_stays(void) {
    static const line_t both[] = {{E, IMPORT_SERVICE, RESPONSE_STREAM, "svc", "local", ""},
                                  {E, IMPORT_STREAM, 0, "str.>", "from.str.>", "0"},
                                  {0}};
    static const line_t renamed[] = {
        {E, IMPORT_STREAM, 0, "str.>", "new.>", "0"}, {E, IMPORT_SERVICE, RESPONSE_STREAM, "svc", "local", ""}, {0}};
    plane_t *plane = open_both(many);
    peer_t *e = client(plane, E), *i = client(plane, I);
    rig_feed(plane, e, "SUB svc 1\r\n");
    rig_feed(plane, i, "SUB > 1\r\nPUB local _I 0\r\n\r\n");
    char reply[REPLY_SUBJECT_SIZE + 1];
    memcpy(reply, asked(e), sizeof(reply));
    rig_heard(i);
    import_all(plane, I, both);
    rig_feed(plane, e, "PUB str.a 1\r\n1\r\n");
    RIG_HEARD("MSG from.str.a 1 1\r\n1\r\n", i);
    import_all(plane, I, renamed);
    rig_feed(plane, e, "PUB str.a 1\r\n2\r\n");
    RIG_HEARD("MSG new.a 1 1\r\n2\r\n", i);
    answer(plane, e, reply);
    RIG_HEARD("MSG _I 1 2\r\nok\r\n", i);
    import_all(plane, I, nothing);
    rig_feed(plane, e, "PUB str.a 1\r\n3\r\n");
    answer(plane, e, reply);
    RIG_HEARD("", i);
    rig_close(plane);
}

static void a_circle_ends(void) {
    static const line_t to_e[] = {{E, IMPORT_SERVICE, 0, "c", "c", ""}, {0}};
    static const line_t to_i[] = {{I, IMPORT_SERVICE, 0, "c", "c", ""}, {0}};
    plane_t *plane = open_both(to_e);
    import_all(plane, E, to_i);
    peer_t *e = client(plane, E), *i = client(plane, I);
    rig_feed(plane, i, "SUB _I 1\r\nPUB c _I 0\r\n\r\n");
    RIG_HEARD("HMSG _I 1 33 33\r\nNATS/1.0 503\r\nNats-Subject: c\r\n\r\n\r\n", i);
    CHECK_EQ_U64(0, first_import(plane)->reply_count);
    rig_feed(plane, e, "SUB c 1\r\n");
    rig_feed(plane, i, "PUB c _I 0\r\n\r\n");
    const char *heard = rig_heard(e), *once = strstr(heard, "HMSG c ");
    CHECK(once != NULL && strstr(once + 1, "HMSG c ") == NULL);
    char reply[REPLY_SUBJECT_SIZE + 1] = "";
    memcpy(reply, strstr(heard, "_R_."), REPLY_SUBJECT_SIZE);
    answer(plane, e, reply);
    RIG_HEARD("MSG _I 1 2\r\nok\r\n", i);
    rig_close(plane);
}

static void from_itself(void) {
    static const line_t own[] = {{I, IMPORT_STREAM, 0, "a", "b", ""}, {I, IMPORT_SERVICE, 0, "s", "t", ""}, {0}};
    plane_t *plane = open_both(own);
    peer_t *i = client(plane, I);
    rig_feed(plane, i, "SUB b 1\r\nSUB s 2\r\nPUB a 1\r\nx\r\n");
    RIG_HEARD("MSG b 1 1\r\nx\r\n", i);
    rig_feed(plane, i, "SUB _I 3\r\nPUB t _I 1\r\ny\r\n");
    answer(plane, i, asked(i));
    RIG_HEARD("MSG _I 3 2\r\nok\r\n", i);
    rig_close(plane);
}

static void far_receivers_are_seen(void) {
    static const line_t both[] = {{E, IMPORT_SERVICE, RESPONSE_STREAM, "svc", "local", ""},
                                  {E, IMPORT_STREAM, 0, "deliver.>", "deliver.>", "0"},
                                  {0}};
    plane_t *plane = open_both(both);
    plane->limits.max_pending = 64 << 20;
    account_t *exporter = account_find(plane, E);
    peer_t *e = client(plane, E), *i = client(plane, I);
    bytes_t to = rig_text("deliver.x");
    CHECK_EQ_I64(DELIVERED_NO_INTEREST, look_at_receivers(plane, exporter, to, BYTES_NONE));
    CHECK(!account_interest(plane, exporter, to, BYTES_NONE));
    rig_feed(plane, e, "SUB svc 1\r\nSUB deliver.* g 2\r\nSUB deliver.> 3\r\n");
    CHECK(account_interest(plane, exporter, to, BYTES_NONE) && !account_exact_interest(exporter, to, BYTES_NONE));
    CHECK(account_interest(plane, exporter, to, rig_text("g")) && !account_exact_interest(exporter, to, rig_text("g")));
    rig_feed(plane, e, "UNSUB 2\r\nUNSUB 3\r\n");
    rig_feed(plane, i, "SUB deliver.x 1\r\nSUB _I 2\r\nPUB local _I 0\r\n\r\n");
    char reply[REPLY_SUBJECT_SIZE + 1];
    memcpy(reply, asked(e), sizeof(reply));
    bytes_t back = rig_text(reply);
    CHECK_EQ_I64(DELIVERED, look_at_receivers(plane, exporter, to, BYTES_NONE));
    CHECK_EQ_I64(DELIVERED, look_at_receivers(plane, exporter, back, BYTES_NONE));
    CHECK(account_interest(plane, exporter, to, BYTES_NONE) && account_interest(plane, exporter, back, BYTES_NONE));
    CHECK(account_exact_interest(exporter, to, BYTES_NONE) && !account_exact_interest(exporter, to, rig_text("g")));
    static char block[40100];
    memset(block, 'x', sizeof(block));
    memcpy(block, "PUB deliver.x 40000\r\n", 21);
    memcpy(block + 40021, "\r\n", 3);
    for (int n = 0; n < 40; n++) rig_feed(plane, e, block);
    CHECK_EQ_I64(DELIVERED_FULL, look_at_receivers(plane, exporter, to, BYTES_NONE));
    CHECK_EQ_I64(DELIVERED_FULL, look_at_receivers(plane, exporter, back, BYTES_NONE));
    /* The requester no longer listens: a consumer that would answer to it has nobody. */
    rig_feed(plane, i, "UNSUB 1\r\nUNSUB 2\r\n");
    CHECK_EQ_I64(DELIVERED_NO_INTEREST, look_at_receivers(plane, exporter, back, BYTES_NONE));
    CHECK(!account_interest(plane, exporter, back, BYTES_NONE) && !account_interest(plane, exporter, to, BYTES_NONE));
    rig_close(plane);
}

#define IMPORTERS 300u

/* An account may be heard by as many others as there are. */
static void many_importers(void) {
    plane_t *plane = open_both(nothing);
    static peer_t *heard_by[IMPORTERS];
    for (uint32_t n = 0; n < IMPORTERS; n++) {
        make_account(plane, 10 + n, "many");
        import_all(plane, 10 + n, stream);
        heard_by[n] = client(plane, 10 + n);
        rig_feed(plane, heard_by[n], "SUB from.str.> 1\r\n");
    }
    peer_t *e = client(plane, E);
    for (int twice = 0; twice < 2; twice++) {
        rig_feed(plane, e, "PUB str.x 1\r\nx\r\n");
        for (uint32_t n = 0; n < IMPORTERS; n++) RIG_HEARD("MSG from.str.x 1 1\r\nx\r\n", heard_by[n]);
    }
    CHECK_EQ_I64(DELIVERED, look_at_receivers(plane, account_find(plane, E), rig_text("str.x"), BYTES_NONE));
    rig_close(plane);
}

static void bad_rows(void) {
    plane_t *plane = open_both(nothing);
    static const line_t wrong[] = {{9, IMPORT_STREAM, 0, "a", "a", ""},
                                   {E, IMPORT_STREAM, 0, "a.*", "b", ""},
                                   {E, 7, 0, "a", "a", ""},
                                   {E, IMPORT_SERVICE, 0, "a..b", "c", ""}};
    for (size_t n = 0; n < sizeof(wrong) / sizeof(*wrong); n++) {
        import_row_t row = {.account = wrong[n].exporter, .kind = wrong[n].kind};
        rig_strings_t strings = {.size = 0};
        rig_pack(&strings, wrong[n].subject);
        rig_pack(&strings, wrong[n].local);
        for (uint32_t i = 0; i < 3; i++) rig_pack(&strings, "");
        rig_run(plane,
                (plane_command_t){.op = COMMAND_IMPORTS,
                                  .account = I,
                                  .token = 7,
                                  .body = (const uint8_t *)&row,
                                  .body_size = sizeof(row)},
                &strings);
        core_settle(plane);
        plane_event_t event;
        CHECK(rig_event(plane, EVENT_DONE, &event));
        CHECK(event.status != STATUS_OK);
        CHECK(first_import(plane) == NULL);
    }
    rig_close(plane);
}

/* Of what one requester left behind, a turn frees so many; all of it has ended from the first moment on. */
static void many_replies_leave_in_slices(void) {
    enum { TURNS = 3, A_TURN = SWEEP_MAX / SWEEP_REPLY };
    plane_t *plane = open_both(service);
    peer_t *e = client(plane, E), *i = client(plane, I), *other = client(plane, I);
    rig_feed(plane, e, "SUB svc 1\r\n");
    rig_feed(plane, other, "SUB _I 1\r\n");
    for (uint32_t n = 0; n < TURNS * A_TURN; n++) {
        rig_say(plane, i, "PUB local _I 0\r\n\r\n");
        core_backlog(plane);
        core_settle(plane);
    }
    const char *reply = asked(e); /* the first of what e heard, so the last that is freed */
    CHECK_EQ_U64(TURNS * A_TURN, first_import(plane)->reply_count);
    peer_doom(plane, i, CLOSE_CLIENT, BYTES_NONE);
    core_settle(plane);
    CHECK_EQ_U64((TURNS - 1) * A_TURN, first_import(plane)->reply_count);
    CHECK(plane->more);
    answer(plane, e, reply);
    RIG_HEARD("", other);
    for (uint32_t turn = 1; turn <= TURNS; turn++) {
        core_settle(plane);
    }
    CHECK_EQ_U64(0, first_import(plane)->reply_count);
    rig_close(plane);
}

int main(void) {
    RUN("a singleton service gives one answer", one_answer);
    RUN("a request that nobody hears leaves nothing behind", nobody_leaves_nothing);
    RUN("a way back ends after the threshold without answers, whatever the wall clock says",
        replies_end_by_elapsed_time);
    RUN("ways back end with their requester, others' stay", replies_end_with_the_requester);
    RUN("many ways back of who leaves are freed in slices, and lead nowhere meanwhile", many_replies_leave_in_slices);
    RUN("a way back ends when an answer finds nobody", replies_end_when_nobody_listens);
    RUN("an import has a bounded number of ways back; the oldest go", replies_are_bounded);
    RUN("shadows come and go with subscriptions, and links of the exporter are told", shadows_follow_subscriptions);
    RUN("shadows count as subscriptions of their connection, and go back with them", shadows_have_a_share);
    RUN("what is imported goes on over the importer's links", links_of_the_importer_hear_it);
    RUN("a request crosses a link of the exporter, and so does its answer", answers_cross_links);
    RUN("links of the importer are told of imported services and may ask them", importers_interest_is_told);
    RUN("a change of imports keeps what stays, with its outstanding answers", changes_keep_what_stays);
    RUN("a circle of services ends where it closes", a_circle_ends);
    RUN("an account may import from itself", from_itself);
    RUN("a full receiver behind an import is seen as full, a gone one as gone", far_receivers_are_seen);
    RUN("any number of accounts may import one stream", many_importers);
    RUN("rows that make no sense are refused", bad_rows);
    return TEST_RESULT();
}
