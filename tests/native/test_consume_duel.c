/* test_consume_duel.c: seeded comparisons of a pull consumer with a simple model of acknowledgements: plain arrays,
 * searched from the start. Every delivery (which message, which count, which consumer sequence), every floor and every
 * count must agree.
 *
 * The second duel crashes the process at any moment and asks only for what is promised then: what was acknowledged
 * never comes again, what was not always does.
 */
#include "consume_rig.h"

#define MODEL_MAX 3000

typedef struct model_row {
    uint64_t seq, consumer_seq;
    int64_t due;
    uint32_t deliveries;
    bool queued;
} model_row_t;

typedef struct model {
    bool there[MODEL_MAX], matches[MODEL_MAX];
    uint64_t last, cursor, next_sequence, delivered, floor_stream, floor_consumer;
    model_row_t rows[MODEL_MAX]; /* pending, in stream order */
    uint32_t count;
    bool used_up[MODEL_MAX]; /* delivered max_deliver times and not acknowledged */
    uint64_t queue[MODEL_MAX];
    uint32_t queue_count;
    int64_t time; /* never jumps back, unlike rig.now.mono_ns at a restart */
    uint32_t max_pending, max_deliver;
    int64_t wait;
} model_t;

static model_t model;
static uint64_t seed;
static consumer_t *consumer;
static consumer_setup_t setup;
static bytes_t filter = BYTES_LITERAL("m");

static uint64_t random_below(uint64_t limit) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % limit;
}

/* ---- the model --------------------------------------------------------------------------------------------------- */

static model_row_t *model_find(uint64_t seq) {
    for (uint32_t i = 0; i < model.count; i++) {
        if (model.rows[i].seq == seq) return &model.rows[i];
    }
    return NULL;
}

static void model_unqueue(uint64_t seq) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < model.queue_count; i++) {
        if (model.queue[i] != seq) model.queue[kept++] = model.queue[i];
    }
    model.queue_count = kept;
}

static void model_drop(uint64_t seq) {
    model_unqueue(seq);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < model.count; i++) {
        if (model.rows[i].seq != seq) model.rows[kept++] = model.rows[i];
    }
    model.count = kept;
}

static bool model_any_used_up(void) {
    for (uint64_t seq = 1; seq <= model.last; seq++) {
        if (model.used_up[seq]) return true;
    }
    return false;
}

static void model_jump(void) {
    model.floor_stream = model.delivered;
    model.floor_consumer = model.next_sequence - 1;
}

static void model_move_floor(uint64_t seq, uint64_t consumer_seq) {
    bool held = model_any_used_up();
    bool lowest = held ? consumer_seq == model.floor_consumer + 1 : model.count == 0 || seq < model.rows[0].seq;
    if (model.count == 0 && !held) {
        model_jump();
    } else if (lowest) {
        model.floor_stream = model.count > 0 ? model.rows[0].seq - 1 : seq;
        model.floor_consumer = model.count > 0 ? model.rows[0].consumer_seq - 1 : consumer_seq;
    }
}

static void model_done(uint64_t seq) {
    uint64_t consumer_seq = model_find(seq)->consumer_seq;
    model_drop(seq);
    model_move_floor(seq, consumer_seq);
}

static void model_use_up(uint64_t seq) {
    model.used_up[seq] = true;
    model_drop(seq);
}

static void model_expire(void) {
    for (uint32_t i = 0; i < model.count;) {
        model_row_t *row = &model.rows[i];
        if (row->queued || row->due > model.time) {
            i++;
        } else if (row->deliveries >= model.max_deliver) {
            model_use_up(row->seq);
        } else {
            row->queued = true;
            model.queue[model.queue_count++] = row->seq;
            i++;
        }
    }
}

static uint64_t model_left(void) {
    uint64_t left = 0;
    for (uint64_t seq = model.cursor; seq <= model.last; seq++) left += model.there[seq] && model.matches[seq];
    return left;
}

/* The next delivery, checked against the next line that came out. */
static bool model_deliver(void) {
    uint64_t seq = 0;
    uint32_t deliveries = 1;
    while (model.queue_count > 0 && seq == 0) {
        model_row_t *row = model_find(model.queue[0]);
        if (row->deliveries >= model.max_deliver) {
            model_use_up(row->seq);
            continue;
        }
        model_unqueue(row->seq);
        seq = row->seq;
        deliveries = ++row->deliveries;
        row->queued = false;
        row->due = model.time + model.wait;
    }
    if (seq == 0) {
        if (model.count >= model.max_pending) return false;
        while (model.cursor <= model.last && !(model.there[model.cursor] && model.matches[model.cursor]))
            model.cursor++;
        if (model.cursor > model.last) return false;
        seq = model.cursor++;
        model.delivered = seq;
        model.rows[model.count++] = (model_row_t){
            .seq = seq, .consumer_seq = model.next_sequence, .due = model.time + model.wait, .deliveries = 1};
    }
    char line[128];
    (void)snprintf(line, sizeof line, "in <- m | $JS.ACK.S.c.%u.%llu.%llu.%lld.%llu |  | x", deliveries,
                   (unsigned long long)seq, (unsigned long long)model.next_sequence,
                   (long long)(WALL_START + (int64_t)seq), (unsigned long long)model_left());
    model.next_sequence++;
    const char *real = rig_next();
    while (strncmp(real, "advisory", 8) == 0) real = rig_next();
    CHECK_TEXT(line, real, strlen(real));
    return true;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

static void pass(int64_t seconds) {
    for (int64_t i = 0; i < seconds; i++) {
        model.time += SECOND;
        model_expire();
    }
    rig_pass(seconds * SECOND);
}

static void pull(uint32_t batch) {
    char body[64];
    (void)snprintf(body, sizeof body, "%u", batch);
    rig_pull(consumer, "in", body);
    while (batch > 0 && model_deliver()) batch--;
    rig.interest[0][0] = 0; /* the client goes; what it did not get stays */
    (void)rig_state(consumer);
    rig.interest[0][0] = '*';
    for (const char *line = rig_next(); line[0]; line = rig_next()) CHECK(strstr(line, "<-") == NULL);
}

static void answer(uint64_t seq, const char *verb) {
    model_row_t *row = model_find(seq);
    uint64_t consumer_seq = row ? row->consumer_seq : model.next_sequence - 1;
    CHECK_EQ_U64(seq <= model.delivered, rig_ack(consumer, seq, consumer_seq, verb));
    bool ack = strcmp(verb, "+ACK") == 0;
    if (!row && (ack || verb[1] == 'T')) model.used_up[seq] = false;
    if (!row || (verb[0] == '-' && consumer_seq <= model.floor_consumer)) return;
    if (strcmp(verb, "+WPI") == 0) {
        row->due = model.time + model.wait;
    } else if (strcmp(verb, "-NAK") == 0) {
        if (!row->queued) model.queue[model.queue_count++] = seq;
        row->queued = true;
    } else if (strcmp(verb, "-NAK 7s") == 0) {
        model_unqueue(seq);
        row->queued = false;
        row->due = model.time + 7 * SECOND;
    } else {
        model_done(seq);
    }
}

static void restart(void) {
    consume_shutdown(rig.consume, rig.now);
    rig_restart();
    consumer = rig_load(&setup);
    rig_run();
    model.time += SECOND;
    model.queue_count = 0;
    for (uint32_t i = 0; i < model.count; i++) {
        model.rows[i].queued = false; /* the queue is not kept: its wait goes on */
    }
    if (model.count == 0 && !model_any_used_up()) model_jump();
    model_expire();
}

static void compare(void) {
    consumer_state_t state = rig_state(consumer);
    CHECK_EQ_U64(model.count, state.ack_pending);
    CHECK_EQ_U64(model_left(), state.pending);
    CHECK_EQ_U64(model.next_sequence - 1, state.delivered_consumer);
    CHECK_EQ_U64(model.floor_consumer, state.floor_consumer);
}

static void step(void) {
    uint64_t some = model.count > 0 && random_below(5) ? model.rows[random_below(2) ? 0 : random_below(model.count)].seq
                                                       : 1 + random_below(model.last + 2);
    switch (random_below(12)) {
    case 0:
    case 1:
        for (uint64_t i = random_below(6); i > 0 && model.last + 1 < MODEL_MAX; i--) {
            bool matches = random_below(3) > 0;
            model.there[++model.last] = true;
            model.matches[model.last] = matches;
            rig_publish(matches ? "m" : "other", "x");
        }
        break;
    case 2:
    case 3: pull((uint32_t)(1 + random_below(8))); break;
    case 4:
    case 5:
    case 6: answer(some, "+ACK"); break;
    case 7: answer(some, random_below(2) ? "-NAK" : "-NAK 7s"); break;
    case 8: answer(some, random_below(2) ? "+TERM" : "+WPI"); break;
    case 9: pass((int64_t)(1 + random_below(6))); break;
    case 10:
        if (random_below(4) || some > model.last || !model.there[some]) break;
        model.there[some] = false;
        if (model_find(some)) model_done(some);
        model.used_up[some] = false;
        CHECK_EQ_I64(STATUS_OK, store_delete(rig.stream, some));
        rig_run();
        break;
    default:
        if (random_below(10) == 0) restart();
    }
}

static void begin(uint64_t round) {
    seed = round;
    rig_start(0);
    memset(&model, 0, sizeof model);
    model.cursor = model.next_sequence = 1;
    model.max_pending = (uint32_t)(1 + random_below(30));
    model.max_deliver = (uint32_t)(2 + random_below(5));
    model.wait = (int64_t)(2 + random_below(9)) * SECOND;
    setup = rig_setup("c");
    setup.filters = (filters_t){.patterns = &filter, .count = 1};
    setup.config.max_ack_pending = (int32_t)model.max_pending;
    setup.config.max_deliver = (int32_t)model.max_deliver;
    setup.config.ack_wait_ns = model.wait;
    consumer = rig_add(&setup);
    rig_run();
}

static void duel(void) {
    for (uint64_t round = 1; round <= 60; round++) {
        begin(round);
        for (int i = 0; i < 600; i++) {
            step();
            rig_skip();
            compare();
        }
    }
}

/* ---- crashes ----------------------------------------------------------------------------------------------------- */

static void drain(bool acknowledged[]) {
    char inbox[] = "in";
    for (int quiet = 0; quiet < 3;) {
        rig_pull(consumer, inbox, "{\"batch\":500,\"expires\":1000000}");
        rig_pass(2 * NS_PER_MS);
        bool any = false;
        for (const char *line = rig_next(); line[0]; line = rig_next()) {
            unsigned long long seq, consumer_seq;
            if (sscanf(line, "in <- m | $JS.ACK.S.c.%*u.%llu.%llu.", &seq, &consumer_seq) != 2) continue;
            CHECK(!acknowledged[seq]);
            acknowledged[seq] = true;
            rig_ack(consumer, seq, consumer_seq, "+ACK");
            any = true;
        }
        quiet = any ? 0 : quiet + 1;
        rig_pass(10 * SECOND);
    }
}

static void crashes(void) {
    static bool acknowledged[MODEL_MAX];
    for (uint64_t round = 1; round <= 60; round++) {
        seed = round;
        rig_start(0);
        memset(acknowledged, 0, sizeof acknowledged);
        setup = rig_setup("c");
        setup.config.ack_wait_ns = 3 * SECOND;
        consumer = rig_add(&setup);
        rig_run();
        for (int i = 0; i < 300; i++) {
            uint64_t seq = rig.stream->last > 0 ? 1 + random_below(rig.stream->last) : 1;
            switch (random_below(8)) {
            case 0:
            case 1: rig_publish_many("m", (int)random_below(8)); break;
            case 2: rig_pull(consumer, "in", "{\"batch\":7,\"expires\":1000000}"); break;
            case 3:
            case 4:
            case 5: /* the answer says that it is durable; without one the ack came too early */
                acknowledged[seq] |= rig_ack(consumer, seq, 1, "+ACK");
                break;
            case 6: rig_pass((int64_t)random_below(2500) * NS_PER_MS); break;
            default:
                if (random_below(3)) break;
                rig_restart();
                consumer = rig_load(&setup);
            }
            for (const char *line = rig_next(); line[0]; line = rig_next()) {
                unsigned long long delivered;
                if (sscanf(line, "in <- m | $JS.ACK.S.c.%*u.%llu.", &delivered) == 1) CHECK(!acknowledged[delivered]);
            }
        }
        drain(acknowledged);
        for (uint64_t seq = 1; seq <= rig.stream->last; seq++) CHECK(acknowledged[seq]);
        CHECK_EQ_U64(0, rig_state(consumer).ack_pending);
        CHECK_EQ_U64(rig.stream->last, rig_state(consumer).floor_stream);
    }
}

int main(void) {
    RUN("a pull consumer agrees with a dumb model in every delivery, floor and count", duel);
    RUN("whenever it crashes, what was acknowledged never comes again and the rest always does", crashes);
    rig_end();
    return TEST_RESULT();
}
