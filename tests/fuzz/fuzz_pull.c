/* Invariant: any body of a pull request is answered with one status, with messages, or waits; any body of an
 * acknowledgement is taken. A status is one line of text and its fields, whatever the body held, and no time that a
 * body names makes a consumer run in a loop.
 *
 * Input: one byte of the consumer's configuration, then steps: one byte of kind, one byte of size, so many bytes of
 * body.
 */
#include <stddef.h>

#include "consume_rig.h"
#include "fuzz_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define STEPS_MAX 64
#define MESSAGES 3

/* "inbox <* reply | NATS/1.0 4dd text~fields~~", where "~" was CRLF: no other control byte. */
static void looks_like_a_status(const char *line) {
    const char *at = strstr(line, " | NATS/1.0 ");
    check(at != NULL);
    at += strlen(" | NATS/1.0 ");
    check(at[0] >= '1' && at[0] <= '5' && at[1] >= '0' && at[1] <= '9' && at[2] >= '0' && at[2] <= '9');
    const char *end = strchr(at, '~');
    check(end != NULL && strlen(end) >= 2 && strcmp(end + strlen(end) - 2, "~~") == 0);
    for (; *at != 0; at++) {
        check((uint8_t)*at >= ' ' && *at != 0x7f);
    }
}

static void look_at_what_came(void) {
    for (const char *line = rig_next(); line[0] != 0; line = rig_next()) {
        if (strncmp(line, "i <* ", 5)
            == 0) { /* so begins a status to pull()'s inbox; a reason may have those signs, too */
            looks_like_a_status(line);
        }
    }
}

static void pull(consumer_t *consumer, bytes_t body, uint32_t limit) {
    uint32_t lines = rig.line_count;
    consumer_state_t before = rig_state(consumer);
    consumer_pull(consumer, BYTES_LITERAL("i"), body, rig.now);
    consumer_state_t after = rig_state(consumer);
    check(rig.line_count - lines <= 1);
    /* A request with a heartbeat that finds the line full is not answered: its client misses the heartbeat. */
    bool full = limit > 0 && before.waiting >= limit;
    check(rig.line_count > lines || after.waiting > before.waiting || full);
}

static void step(consumer_t *consumer, uint8_t kind, bytes_t body, uint32_t limit) {
    static const int64_t times_ns[] = {1, 1000000, SECOND, 31 * SECOND, 3600 * SECOND};
    bool answer;
    switch (kind % 4) {
    case 0:
    case 1: pull(consumer, body, limit); break;
    case 2:
        consumer_ack(consumer, 1 + (kind / 4) % (MESSAGES + 1), 1 + (kind / 16) % (MESSAGES + 1), 1, body,
                     BYTES_LITERAL("r"), rig.now, &answer);
        break;
    default: rig.now.mono_ns += times_ns[(kind / 4) % (sizeof(times_ns) / sizeof(times_ns[0]))]; break;
    }
    rig_run();
    look_at_what_came();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_input_t input = {data, size};
    if (size < 2 || size > 4096) {
        return 0;
    }
    if (setjmp(test_escape) != 0) {
        abort(); /* a CHECK of the rig */
    }
    rig_start(0);
    uint8_t bits = fuzz_byte(&input);
    consumer_setup_t setup = rig_setup("c");
    setup.config.ack_policy = (bits & 1) != 0 ? ACK_ALL : ACK_EXPLICIT;
    setup.config.max_batch = (bits & 2) != 0 ? 5 : 0;
    setup.config.max_expires_ns = (bits & 4) != 0 ? 90 * SECOND : 0;
    setup.config.max_request_bytes = (bits & 8) != 0 ? 100 : 0;
    setup.config.max_waiting = (bits & 16) != 0 ? 2 : 0;
    setup.config.max_deliver = (bits & 32) != 0 ? 2 : -1;
    consumer_t *consumer = rig_add(&setup);
    rig_publish_many("s", (bits & 64) != 0 ? MESSAGES : 0);
    for (uint32_t i = 0; i < STEPS_MAX && input.left > 0; i++) {
        uint8_t kind = fuzz_byte(&input);
        bytes_t body = fuzz_slice(&input, fuzz_byte(&input));
        uint8_t *copy = fuzz_copy(body);
        step(consumer, kind, bytes_of(copy, body.size), (uint32_t)setup.config.max_waiting);
        free(copy);
    }
    rig_end();
    return 0;
}
