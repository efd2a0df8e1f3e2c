/* test_s2_encode.c: what is packed is unpacked by s2.h to the same bytes, into memory that ends where the block may. */
#include "text/s2_encode.h"

#include "base/random.h"
#include "test.h"
#include "text/s2.h"

static s2_encoder_t *encoders[3];

/* Packs with room for as much as there is, and unpacks. Returns the packed size; 0: it was not worth it. */
static uint32_t there_and_back(s2_effort_t effort, const uint8_t *at, uint32_t size) {
    uint8_t *from = malloc(size == 0 ? 1 : size), *to = malloc(size == 0 ? 1 : size);
    CHECK(from != NULL && to != NULL);
    memcpy(from, at, size);
    uint32_t packed = s2_encode(encoders[effort], bytes_of(from, size), to, size);
    if (packed != 0) {
        CHECK(packed <= size);
        uint32_t length;
        CHECK_EQ_I64(STATUS_OK, s2_size(bytes_of(to, packed), &length));
        CHECK_EQ_U64(size, length);
        memset(from, 0, size);
        CHECK_EQ_I64(STATUS_OK, s2_decode(bytes_of(to, packed), from, size));
        CHECK_BYTES(at, size, from, size);
    }
    free(from);
    free(to);
    return packed;
}

static uint32_t telemetry(uint8_t *to, uint32_t room, uint64_t *random) {
    uint32_t size = 0;
    while (room - size > 400) {
        size += (uint32_t)snprintf(
            (char *)to + size, room - size,
            "LMSG telemetry.box-%04u.engine 180\r\n{\"box\":\"box-%04u\",\"time\":\"2026-11-22T11:%02u:%02u."
            "%03uZ\",\"sensor\":\"engine\",\"rpm\":%u,\"temperature\":%u.%u,\"pressure\":%u.%02u,"
            "\"ok\":true}\r\n",
            random_below(random, 40), random_below(random, 40), random_below(random, 60), random_below(random, 60),
            random_below(random, 1000), random_below(random, 4000), random_below(random, 120), random_below(random, 10),
            random_below(random, 8), random_below(random, 100));
    }
    return size;
}

static uint8_t text[S2_ENCODE_MAX];

static void every_size_and_every_kind_of_bytes(void) {
    uint64_t random = 7;
    for (uint32_t round = 0; round < 300 / test_stride() + 1; round++) {
        uint32_t size = random_below(&random, random_below(&random, 8) == 0 ? S2_ENCODE_MAX + 1 : 3000);
        uint32_t kinds = 1u + random_below(&random, 256), run = 1u + random_below(&random, 300);
        for (uint32_t i = 0; i < size; i++) {
            text[i] =
                i >= run && random_below(&random, 50) != 0 ? text[i - run] : (uint8_t)random_below(&random, kinds);
            if (random_below(&random, 500) == 0) run = 1u + random_below(&random, i < 70000 ? i + 1 : 200000);
            if (run > i + 1) run = i + 1;
        }
        for (s2_effort_t effort = S2_EFFORT_FAST; effort <= S2_EFFORT_BEST; effort++) {
            there_and_back(effort, text, size);
        }
    }
}

static void all_the_same(void) {
    memset(text, 'a', sizeof text);
    for (s2_effort_t effort = S2_EFFORT_FAST; effort <= S2_EFFORT_BEST; effort++) {
        for (uint32_t size = 14; size < 400; size++) {
            there_and_back(effort, text, size);
        }
        uint32_t packed = there_and_back(effort, text, sizeof text);
        CHECK(packed > 0 && packed < 32);
    }
}

static void noise_is_not_worth_it(void) {
    uint64_t random = 11;
    for (uint32_t i = 0; i < sizeof text; i++) text[i] = (uint8_t)(random_next(&random) >> 32);
    for (s2_effort_t effort = S2_EFFORT_FAST; effort <= S2_EFFORT_BEST; effort++) {
        CHECK_EQ_U64(0, there_and_back(effort, text, sizeof text));
        CHECK_EQ_U64(0, there_and_back(effort, text, 5));
        CHECK_EQ_U64(0, there_and_back(effort, text, 0));
    }
}

static void more_effort_is_worth_it(void) {
    uint64_t random = 5;
    uint32_t size = telemetry(text, 65536, &random);
    uint32_t fast = there_and_back(S2_EFFORT_FAST, text, size), better = there_and_back(S2_EFFORT_BETTER, text, size),
             best = there_and_back(S2_EFFORT_BEST, text, size);
    printf("        telemetry: %u bytes: fast %u, better %u, best %u\n", size, fast, better, best);
    CHECK(fast != 0 && fast < size / 2);
    CHECK(better < fast - fast / 10);
    CHECK(best < better);
}

/* The places in an encoder's tables reach the end of their range after 4 GB. */
static void the_tables_begin_again(void) {
    uint64_t random = 3;
    static uint8_t to[S2_ENCODE_MAX];
    s2_encoder_t *encoder = encoders[S2_EFFORT_FAST];
    uint32_t size = telemetry(text, 5000, &random);
    uint32_t first = s2_encode(encoder, bytes_of(text, size), to, size);
    static uint8_t zeros[S2_ENCODE_MAX];
    for (uint32_t i = 0; i < 17000; i++) {
        CHECK(s2_encode(encoder, bytes_of(zeros, sizeof zeros), to, sizeof to) < 32);
    }
    CHECK_EQ_U64(first, s2_encode(encoder, bytes_of(text, size), to, size));
    there_and_back(S2_EFFORT_FAST, text, size);
}

int main(void) {
    for (s2_effort_t effort = S2_EFFORT_FAST; effort <= S2_EFFORT_BEST; effort++) {
        encoders[effort] = s2_encoder_new(effort);
    }
    RUN("what is packed is unpacked to the same, whatever it is and however long", every_size_and_every_kind_of_bytes);
    RUN("a run of one byte takes some bytes", all_the_same);
    RUN("noise and a few bytes are not worth a block", noise_is_not_worth_it);
    RUN("better packs telemetry to a tenth less than fast, best to less than that", more_effort_is_worth_it);
    RUN("four gigabytes later the tables say the same", the_tables_begin_again);
    for (s2_effort_t effort = S2_EFFORT_FAST; effort <= S2_EFFORT_BEST; effort++) {
        s2_encoder_free(encoders[effort]);
    }
    return TEST_RESULT();
}
