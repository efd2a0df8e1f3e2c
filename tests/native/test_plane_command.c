/* test_plane_command.c: a command has the shape that its row of the table says, or it is refused and changes nothing:
 * body, strings, and what it hands over. What the commands do is tested where they do it. */
#include <fcntl.h>

#include "exchange/strings.h"
#include "command/command_table.h"
#include "stream_rig.h"

#define BODY_MAX 1024u
#define SHAPES_MAX 16u
#define TOKEN 7u

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

typedef struct shape {
    uint8_t body[BODY_MAX];
    uint32_t body_size;
    rig_strings_t strings;
} shape_t;

static uint32_t count_names(const char *names, bool *open_ended) {
    uint32_t count = 0;
    *open_ended = false;
    for (const char *word = names; *word != 0; word += strcspn(word, " "), word += *word == ' ') {
        *open_ended = word[strcspn(word, " ") - 1] == '.';
        count += !*open_ended;
    }
    return count;
}

/* The smallest one that is good: a body of zeros, and nothing but empty strings. */
static shape_t smallest(const plane_command_row_t *row, uint32_t *strings, bool *open_ended) {
    shape_t shape = {.body_size = row->body_size};
    CHECK(row->body_size < BODY_MAX);
    *strings = count_names(row->strings, open_ended);
    for (uint32_t i = 0; i < *strings; i++) rig_pack(&shape.strings, "");
    return shape;
}

/* Ways to be wrong, at most SHAPES_MAX of them. */
static uint32_t bad_shapes(const plane_command_row_t *row, shape_t *bad) {
    uint32_t count = 0, strings;
    bool open_ended;
    const shape_t good = smallest(row, &strings, &open_ended);
    for (uint32_t i = 0; i < SHAPES_MAX; i++) bad[i] = good;
    if (row->row_size != 1) bad[count++].body_size++;
    if (row->body_size != 0) bad[count++].body_size--;
    if (row->body_size != 0) bad[count++].body_size = 0;
    if (row->row_size > 1) bad[count++].body_size += row->row_size - 1;
    if (strings != 0) {
        bad[count++].strings.size -= 4;             /* the last one is not there */
        bad[count++].strings.size -= 1;             /* nor all of its size */
        bad[count].strings.at[4 * (strings - 1)]++; /* which says more than there is */
        bad[count++].strings.at[4 * strings - 1]++; /* much more */
        memset(bad[count].strings.at, 0xff, 4);     /* the first one is longer than all */
        bad[count++].strings.size = 4 * strings - 2;
    }
    if (open_ended) {
        bad[count++].strings.size += 3; /* a rest that is no string */
    } else {
        rig_pack(&bad[count++].strings, ""); /* one too many */
    }
    CHECK(count <= SHAPES_MAX);
    return count;
}

static status_t run(plane_t *plane, plane_command_t command, const shape_t *shape) {
    command.token = TOKEN;
    command.body = shape->body;
    command.body_size = shape->body_size;
    rig_run(plane, command, &shape->strings);
    plane_event_t event;
    CHECK(rig_event(plane, EVENT_DONE, &event));
    CHECK_EQ_U64(TOKEN, event.token);
    return (status_t)event.status;
}

/* ---- nothing changes --------------------------------------------------------------------------------------------- */

/* An account with JetStream, a stream and a consumer in it, both number 1. */
static plane_t *open_plane(void) {
    plane_t *plane = rig_open_fresh("d");
    rig_put_stream(plane, rig_stream);
    rig_put_consumer(plane, rig_consumer);
    rig_settle(plane);
    plane_event_t event;
    while (rig_event(plane, EVENT_DONE, &event)) {
    }
    return plane;
}

static void refused_without_effect(void) {
    plane_t *plane = open_plane();
    peer_t *client = rig_client(plane);
    rig_feed(plane, client, "SUB a.> 1\r\n");
    const plane_command_row_t *row;
    for (uint32_t i = 0; (row = plane_command_row(i)) != NULL; i++) {
        static shape_t bad[SHAPES_MAX];
        uint32_t count = command_row(row->op)->object == TAKES_LOGIN ? 0 : bad_shapes(row, bad);
        for (uint32_t k = 0; k < count; k++) {
            uint64_t target = row->needs == NEEDS_CONNECTION ? client->id : 1;
            uint64_t arg = command_row(row->op)->object == TAKES_DESCRIPTOR ? UINT64_MAX : 1;
            status_t status = run(
                plane, (plane_command_t){.op = row->op, .account = RIG_ACCOUNT, .target = target, .arg = arg}, &bad[k]);
            if (status != STATUS_INVALID) FAIL("%s: bad shape %u: %d", row->name, k, status);
        }
    }
    core_settle(plane);
    CHECK(client->state == PEER_ADMITTED && map_count(client->table) == 1);
    RIG_HEARD("", client);
    CHECK(binding_find(&plane->js, stream_find(&plane->js, 1), 1) != NULL);
    CHECK(plane->listeners == NULL && table_count(&plane->controls) == 0 && plane->js.ingests == NULL);
    CHECK_EQ_U64(1, plane->stats.connections);
    CHECK_EQ_U64(64 << 10, plane->limits.max_payload);
    rig_close_and_remove(plane);
}

static void number_without_row(void) {
    plane_t *plane = rig_open(NULL, "");
    static const shape_t none = {.body_size = 0};
    static const uint32_t ops[] = {0, 50, 999, UINT32_MAX};
    for (uint32_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
        CHECK_EQ_I64(STATUS_INVALID, run(plane, (plane_command_t){.op = ops[i]}, &none));
    rig_close(plane);
}

static void descriptor_closed(void) {
    plane_t *plane = rig_open(NULL, "");
    static const uint32_t ops[] = {COMMAND_LISTEN, COMMAND_ADOPT};
    shape_t shape = {.body_size = 1};
    for (uint32_t i = 0; i < 2; i++) {
        int fd = open("/dev/null", O_RDONLY);
        CHECK(fd >= 0);
        CHECK_EQ_I64(STATUS_INVALID, run(plane, (plane_command_t){.op = ops[i], .arg = (uint64_t)fd}, &shape));
        CHECK(fcntl(fd, F_GETFD) == -1);
    }
    rig_close(plane);
}

/* ---- logins ------------------------------------------------------------------------------------------------------ */

static peer_t *at_its_login(plane_t *plane, uint32_t op) {
    if (op == COMMAND_RIGHTS) return rig_client(plane);
    peer_t *peer = rig_peer(plane, op == COMMAND_ADMIT ? CONN_CLIENT : CONN_LEAF, "test:1");
    rig_say(plane, peer, "CONNECT {}\r\n");
    CHECK(peer->state == PEER_WAITING);
    return peer;
}

static void login_closed(void) {
    plane_t *plane = rig_open(NULL, "");
    static const uint32_t ops[] = {COMMAND_ADMIT, COMMAND_ADMIT_LEAF, COMMAND_RIGHTS};
    for (uint32_t i = 0; i < 3; i++) {
        static shape_t bad[SHAPES_MAX];
        for (uint32_t k = bad_shapes(&command_row(ops[i])->shape, bad); k-- > 0;) {
            peer_t *peer = at_its_login(plane, ops[i]);
            plane_command_t command = {.op = ops[i], .account = RIG_ACCOUNT, .target = peer->id};
            CHECK_EQ_I64(STATUS_INVALID, run(plane, command, &bad[k]));
            RIG_HEARD("-ERR 'Authorization Violation'\r\n", peer);
            CHECK(peer->state == PEER_DOOMED);
            core_settle(plane);
            CHECK(peer_find(plane, command.target) == NULL);
            CHECK_EQ_I64(STATUS_INVALID, run(plane, command, &bad[k]));
        }
    }
    rig_close(plane);
}

static void smallest_shapes_are_good(void) {
    plane_t *plane = rig_open(NULL, "");
    static const uint32_t ops[] = {COMMAND_ADMIT, COMMAND_ADMIT_LEAF, COMMAND_RIGHTS};
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t strings;
        bool open_ended;
        shape_t good = smallest(&command_row(ops[i])->shape, &strings, &open_ended);
        peer_t *peer = at_its_login(plane, ops[i]);
        CHECK_EQ_I64(STATUS_OK,
                     run(plane, (plane_command_t){.op = ops[i], .account = RIG_ACCOUNT, .target = peer->id}, &good));
        CHECK(peer->state == PEER_ADMITTED);
    }
    rig_close(plane);
}

/* ---- strings that come in groups --------------------------------------------------------------------------------- */

static void groups_are_whole(void) {
    plane_t *plane = open_plane();
    account_t *account = account_find(plane, RIG_ACCOUNT);
    import_row_t row = {.account = RIG_ACCOUNT, .kind = IMPORT_STREAM};
    shape_t imports = {.body_size = sizeof(row)};
    memcpy(imports.body, &row, sizeof(row));
    for (const char *const *at = (const char *const[]){"a", "b", NULL}; *at != NULL; at++)
        rig_pack(&imports.strings, *at);
    CHECK_EQ_I64(STATUS_INVALID,
                 run(plane, (plane_command_t){.op = COMMAND_IMPORTS, .account = RIG_ACCOUNT}, &imports));
    CHECK(account->imports == NULL);

    ingest_config_t config = {.silence_ns = NS_PER_SECOND};
    shape_t ingest = {.body_size = sizeof(config)};
    memcpy(ingest.body, &config, sizeof(config));
    const char *parts[] = {"deliver", "consumer", "name", "", "", "", "key", "", "from", "to"};
    for (int i = 0; i < 10; i++) rig_pack(&ingest.strings, parts[i]);
    plane_command_t start = {.op = COMMAND_INGEST_START, .target = 1, .arg = 1};
    CHECK_EQ_I64(STATUS_OK, run(plane, start, &ingest));
    const ingest_t *running = plane->js.ingests;
    rig_pack(&ingest.strings, "from");
    CHECK_EQ_I64(STATUS_INVALID, run(plane, start, &ingest));
    rig_pack(&ingest.strings, "to.$9");
    CHECK_EQ_I64(STATUS_INVALID, run(plane, start, &ingest));
    CHECK(plane->js.ingests == running);
    rig_close_and_remove(plane);
}

int main(void) {
    RUN("a command without the shape of its row is refused, and changes nothing", refused_without_effect);
    RUN("a number without a row is refused", number_without_row);
    RUN("a file that a refused command handed over is closed", descriptor_closed);
    RUN("a verdict without its shape closes the connection that it names", login_closed);
    RUN("the smallest verdict that the table allows admits", smallest_shapes_are_good);
    RUN("strings that come in pairs or threes are all there, or what was before stays", groups_are_whole);
    return TEST_RESULT();
}
