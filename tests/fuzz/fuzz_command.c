/* Invariant: commands with bodies and packed strings of any size and content, in any order, with clients and a leaf
 * link that say anything between them, are each answered exactly once, and nothing crashes. A verdict on a login that
 * has not the shape of its row leaves nobody admitted or waiting.
 *
 * Control decides before it commands, so it sends nothing of this kind; but it builds bodies from what clients said,
 * and one wrong number in one of them must not end the process for all.
 *
 * Input: steps. The first byte of each says what it is: a command, bytes of the client or of the leaf, or time.
 */
#include <dirent.h>
#include <stddef.h>

#include "base/check.h"
#include "command/command_table.h"
#include "exchange/shape.h"
#include "fuzz_input.h"
#include "plane_rig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define STEPS_MAX 48
#define STRINGS_MAX 12
#define EXTRA_MAX 2048 /* a row has up to 18 strings of at most 68 bytes */
#define BODY_MAX 512

typedef struct world {
    plane_t *plane;
    uint64_t client, leaf;
    uint64_t asked, answered; /* commands with a token, completions */
} world_t;

/* ---- bodies ------------------------------------------------------------------------------------------------------ */

static const stream_config_t a_stream = {.account = RIG_ACCOUNT,
                                         .flags = STREAM_ALLOW_DIRECT,
                                         .storage = 1,
                                         .max_msg_size = -1,
                                         .max_msgs = -1,
                                         .max_bytes = -1,
                                         .max_msgs_per_subject = -1,
                                         .duplicate_window_ns = 120 * NS_PER_SECOND};
static const consumer_config_t a_consumer = {.account = RIG_ACCOUNT,
                                             .ack_policy = ACK_EXPLICIT,
                                             .max_deliver = -1,
                                             .ack_wait_ns = 30 * NS_PER_SECOND,
                                             .max_ack_pending = 1000};
static const struct {
    consumer_config_t config;
    consumer_state_t state;
    pending_entry_t rows[2];
} an_import = {.config = {.account = RIG_ACCOUNT, .ack_policy = ACK_EXPLICIT, .max_deliver = -1},
               .state = {.delivered_consumer = 2, .delivered_stream = 2},
               .rows = {{1, 1, 1, 1}, {2, 2, 1, 1}}};
static const ingest_config_t an_ingest = {.silence_ns = NS_PER_SECOND};
static const message_query_t a_query = {.sequence = 1};
static const uint32_t some_streams[3] = {1, 2, 1};
static const consumer_place_t some_consumers[] = {{1, 1}, {1, 2}, {2, 1}};
static const uint64_t some_ingests[] = {UINT64_C(1) << 32, UINT64_C(1) << 32 | 1, UINT64_C(2) << 32 | 1};
static const import_row_t some_imports[2] = {{2, IMPORT_STREAM, 0, 0, 0, 0, 0},
                                             {2, IMPORT_SERVICE, 0, IMPORT_MEASURED, NS_PER_SECOND, 100, 0}};
static const conn_verdict_t a_verdict = {.flags = RIG_FLAGS};
static const plane_limits_t some_limits = {.max_pending = 1 << 20,
                                           .write_deadline_ns = NS_PER_SECOND,
                                           .ping_interval_ns = NS_PER_SECOND,
                                           .ping_max = 2,
                                           .max_control_line = 4096,
                                           .max_payload = 1024};

/* A command's op with a body that is right for it. */
static const struct {
    uint32_t op;
    uint32_t size;
    const void *body;
} ops[] = {
    {COMMAND_STREAM_PUT, sizeof(a_stream), &a_stream},
    {COMMAND_CONSUMER_PUT, sizeof(a_consumer), &a_consumer},
    {COMMAND_CONSUMER_IMPORT, sizeof(an_import), &an_import},
    {COMMAND_INGEST_START, sizeof(an_ingest), &an_ingest},
    {COMMAND_MESSAGE_GET, sizeof(a_query), &a_query},
    {COMMAND_IMPORTS, sizeof(some_imports), some_imports},
    {COMMAND_ADMIT, sizeof(a_verdict), &a_verdict},
    {COMMAND_ADMIT_LEAF, sizeof(a_verdict), &a_verdict},
    {COMMAND_RIGHTS, sizeof(a_verdict), &a_verdict},
    {COMMAND_STREAM_BYTES, sizeof(some_streams), some_streams},
    {COMMAND_LIMITS, sizeof(some_limits), &some_limits},
    {COMMAND_LISTEN, 0, NULL},
    {COMMAND_UNLISTEN, 0, NULL},
    {COMMAND_ADOPT, 0, NULL},
    {COMMAND_SEND, 0, NULL},
    {COMMAND_RESUME, 0, NULL},
    {COMMAND_CLOSE, 0, NULL},
    {COMMAND_DESCRIBE, 0, NULL},
    {COMMAND_BROADCAST, 0, NULL},
    {COMMAND_CONNECTIONS, 0, NULL},
    {COMMAND_SUBSCRIPTIONS, 0, NULL},
    {COMMAND_ACCOUNT, 0, NULL},
    {COMMAND_SUBSCRIBE, 0, NULL},
    {COMMAND_UNSUBSCRIBE, 0, NULL},
    {COMMAND_PUBLISH, 0, NULL},
    {COMMAND_MAPPING, 0, NULL},
    {COMMAND_STREAM_REMOVE, 0, NULL},
    {COMMAND_STREAM_STATE, 0, NULL},
    {COMMAND_STREAM_PURGE, 0, NULL},
    {COMMAND_MESSAGE_DELETE, 0, NULL},
    {COMMAND_CONSUMER_REMOVE, 0, NULL},
    {COMMAND_CONSUMER_STATE, 0, NULL},
    {COMMAND_CONSUMER_PAUSE, 0, NULL},
    {COMMAND_CONSUMER_RESET, 0, NULL},
    {COMMAND_CONSUMER_SPARE, 0, NULL},
    {COMMAND_INGEST_STOP, 0, NULL},
    {COMMAND_INGEST_FORGET, 0, NULL},
    {COMMAND_RECORD_PUT, 0, NULL},
    {COMMAND_STREAM_EXPORT, 0, NULL},
    {COMMAND_STREAM_IMPORT, 0, NULL},
    {COMMAND_CONSUMER_EXPORT, 0, NULL},
    {COMMAND_INTEREST, 0, NULL},
    {999, 0, NULL},
    {COMMAND_CONSUMERS_STATE, sizeof(some_consumers), some_consumers},
    {COMMAND_INGESTS_STATE, sizeof(some_ingests), some_ingests},
};

/* The right body as it is, with numbers written into it, longer or shorter by a byte; or any bytes. */
static uint32_t draw_body(fuzz_input_t *input, const void *right, uint32_t size, uint8_t *body) {
    uint8_t way = fuzz_byte(input);
    if (size == 0 || way >= 224) {
        bytes_t raw = fuzz_slice(input, fuzz_byte(input));
        memcpy(body, raw.at, raw.size);
        return raw.size;
    }
    memcpy(body, right, size);
    for (uint32_t i = 0; i < (way & 7u); i++) {
        uint32_t width = 1u << (fuzz_byte(input) & 3);
        uint32_t at = fuzz_byte(input) * width % size;
        uint64_t number = fuzz_number(input);
        memcpy(body + at, &number, at + width <= size ? width : size - at);
    }
    body[size] = 0;
    return (way & 24) != 24 ? size : (way & 32) != 0 ? size + 1 : size - 1;
}

static uint32_t add_string(uint8_t *at, bytes_t string) {
    for (uint32_t i = 0; i < 4; i++) at[i] = (uint8_t)(string.size >> (8 * i));
    if (string.size > 0) {
        memcpy(at + 4, string.at, string.size);
    }
    return 4 + string.size;
}

/* One packed string, of words that mean something or of any bytes. */
static uint32_t draw_string(fuzz_input_t *input, uint8_t *at) {
    static const char *const words[] = {"",
                                        "S",
                                        "{\"name\":\"S\"}",
                                        "s.>",
                                        "s.*",
                                        "s.1",
                                        ">",
                                        "c",
                                        "q",
                                        "*",
                                        "$JS.API.>",
                                        "r",
                                        "s.$1",
                                        "50",
                                        "INFO {}\r\n",
                                        "NATS/1.0\r\nNats-Msg-Id: 1\r\n\r\n",
                                        "d",
                                        "s..x",
                                        "$JS.ACK.S.c.1.1.1.1.1",
                                        "\x01"};
    uint8_t which = fuzz_byte(input);
    bool known = which < sizeof(words) / sizeof(words[0]);
    return add_string(at, known ? rig_text(words[which]) : fuzz_slice(input, which & 63));
}

/* Strings as the row has them; a list gets none, one or two. */
static uint32_t draw_row(fuzz_input_t *input, const char *names, uint8_t *extra) {
    uint32_t size = 0;
    while (*names != 0) {
        size_t length = strcspn(names, " ");
        bool list = names[length - 1] == '*', rest = names[length - 1] == '.';
        for (uint32_t i = list || rest ? fuzz_byte(input) % 3 : 1; i > 0; i--) {
            size += draw_string(input, extra + size);
        }
        if (list) {
            size += add_string(extra + size, BYTES_NONE);
        }
        names += length + (names[length] == ' ');
    }
    return size;
}

/* So many strings, or as the row says, or any bytes in their place. */
static uint32_t draw_extra(fuzz_input_t *input, const command_row_t *row, uint8_t *extra) {
    uint32_t size = 0;
    uint8_t count = fuzz_byte(input);
    if (count >= 240) {
        bytes_t raw = fuzz_slice(input, fuzz_byte(input));
        memcpy(extra, raw.at, raw.size);
        return raw.size;
    }
    if (count > STRINGS_MAX) {
        return row == NULL ? 0 : draw_row(input, row->shape.strings, extra);
    }
    for (uint32_t i = 0; i < count; i++) {
        size += draw_string(input, extra + size);
    }
    return size;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

static void check_login(const world_t *world, const command_row_t *row, const plane_command_t *command) {
    if (row == NULL || row->object != TAKES_LOGIN || shape_fits(&row->shape, command)) {
        return;
    }
    const peer_t *peer = peer_find(world->plane, command->target);
    check(peer == NULL || (peer->state != PEER_WAITING && peer->state != PEER_ADMITTED));
}

static void run_command(world_t *world, fuzz_input_t *input) {
    uint8_t body[BODY_MAX + 1], extra[EXTRA_MAX];
    uint32_t which = fuzz_byte(input) % (sizeof(ops) / sizeof(ops[0]));
    plane_command_t command = {.op = ops[which].op};
    uint8_t bits = fuzz_byte(input);
    command.account = bits & 3;
    command.target = (bits & 4) != 0    ? fuzz_number(input)
                     : (bits & 8) != 0  ? world->client
                     : (bits & 16) != 0 ? world->leaf
                                        : 1;
    command.token = (bits & 32) != 0 ? 1 : 0;
    command.arg = fuzz_number(input);
    command.arg2 = fuzz_number(input);
    if (command.op == COMMAND_LISTEN || command.op == COMMAND_ADOPT) {
        command.arg = UINT64_MAX; /* a descriptor is the process's: another one would be closed */
    }
    command.body = body;
    command.body_size = draw_body(input, ops[which].body, ops[which].size, body);
    command.extra = extra;
    const command_row_t *row = command_row(command.op);
    command.extra_size = draw_extra(input, row, extra);
    check(exchange_submit(&world->plane->exchange, &command, 1) == 1);
    world->asked += command.token != 0;
    core_commands(world->plane);
    check_login(world, row, &command);
}

static void say(world_t *world, uint64_t id, bytes_t what) {
    peer_t *peer = peer_find(world->plane, id);
    if (peer == NULL || peer->state != PEER_ADMITTED || what.size == 0) {
        return;
    }
    check(buffer_append(&peer->conn.rest, what.at, what.size) == STATUS_OK);
    bytes_t input = conn_rest(&peer->conn);
    check(conn_keep(&peer->conn, input, peer_input(world->plane, peer, input)) == STATUS_OK);
}

static void take_events(world_t *world) {
    plane_event_t events[64];
    for (uint32_t count; (count = exchange_poll(&world->plane->exchange, events, 64)) != 0;) {
        for (uint32_t i = 0; i < count; i++) {
            world->answered += events[i].kind == EVENT_DONE;
            exchange_repay(&world->plane->exchange, events[i].kind == EVENT_MESSAGE ? events[i].token : 0);
        }
        exchange_release(&world->plane->exchange, count);
    }
}

static void run_step(world_t *world, fuzz_input_t *input) {
    static const int64_t times_ns[] = {1000, 1000000, NS_PER_SECOND, 31 * NS_PER_SECOND, 3600 * NS_PER_SECOND};
    uint8_t kind = fuzz_byte(input);
    switch (kind & 7) {
    case 5: say(world, world->client, fuzz_slice(input, fuzz_byte(input))); break;
    case 6: say(world, world->leaf, fuzz_slice(input, fuzz_byte(input))); break;
    case 7:
        world->plane->now.mono_ns += times_ns[(kind >> 3) % 5];
        world->plane->now.wall_ns += times_ns[(kind >> 3) % 5];
        break;
    default: run_command(world, input); break;
    }
    if ((kind & 128) == 0) {
        core_settle(world->plane);
        take_events(world);
    }
}

/* Answers of what changes the store come with the disk's. */
static void await_answers(world_t *world) {
    for (int i = 0; i < 50000 && world->answered < world->asked; i++) {
        core_commands(world->plane);
        core_settle(world->plane);
        take_events(world);
        if (world->answered < world->asked) {
            usleep(100);
        }
    }
    check(world->answered == world->asked);
}

/* ---- one input --------------------------------------------------------------------------------------------------- */

static char directories[2][64]; /* of the file store and of the memory store */

static void empty_directory(const char *directory) {
    DIR *entries = opendir(directory);
    check(entries != NULL);
    for (const struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        (void)unlinkat(dirfd(entries), entry->d_name, 0); /* not "." and ".." */
    }
    closedir(entries);
}

static void remove_directories(void) {
    for (int i = 0; i < 2; i++) {
        empty_directory(directories[i]);
        (void)rmdir(directories[i]);
    }
}

static void make_directories(void) {
    if (directories[0][0] != 0) {
        return;
    }
    for (int i = 0; i < 2; i++) {
        const char *parent = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
        snprintf(directories[i], sizeof(directories[i]), "%s/leafd-fuzz-XXXXXX", parent);
        check(mkdtemp(directories[i]) != NULL);
    }
    check(atexit(remove_directories) == 0);
}

static plane_t *open_plane(void) {
    plane_t *plane = calloc(1, sizeof(*plane));
    check(plane != NULL);
    plane->now = (moment_t){.mono_ns = 100 * NS_PER_SECOND, .wall_ns = INT64_C(1700000000) * NS_PER_SECOND};
    plane_limits_t limits = some_limits;
    limits.max_file_store = limits.max_memory_store = 16 << 20;
    limits.journal_size = 1 << 20;
    limits.jetstream = 1;
    char reason[PLANE_REASON_SIZE] = "";
    check(core_open(plane, &limits, directories[0], directories[1], reason) == STATUS_OK);
    rig_account(plane, RIG_ACCOUNT, ACCOUNT_JETSTREAM, "d");
    return plane;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 4096) {
        return 0;
    }
    if (setjmp(test_escape) != 0) {
        abort(); /* a CHECK of the rig */
    }
    make_directories();
    fuzz_input_t input = {data, size};
    world_t world = {.plane = open_plane()};
    world.client = rig_client(world.plane)->id;
    world.leaf = rig_leaf(world.plane, 0, "hub", NULL)->id;
    take_events(&world);
    world.answered = 0;
    for (uint32_t i = 0; i < STEPS_MAX && input.left > 0; i++) {
        run_step(&world, &input);
    }
    await_answers(&world);
    rig_close(world.plane);
    empty_directory(directories[0]);
    empty_directory(directories[1]);
    return 0;
}
