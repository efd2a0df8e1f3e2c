/* test_chacha20.c: the block function against RFC 8439, by every way that this processor knows. */
#include "text/chacha20.h"

#include "test.h"

#define MANY 133

typedef struct answer {
    const char *key;
    const char *input; /* counter and nonce */
    const char *block;
} answer_t;

/* 2.3.2, and A.1 numbers 1 to 5 */
static const answer_t answers[] = {
    {"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", "01000000000000090000004a00000000",
     "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
     "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"},
    {"0000000000000000000000000000000000000000000000000000000000000000", "00000000000000000000000000000000",
     "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
     "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"},
    {"0000000000000000000000000000000000000000000000000000000000000000", "01000000000000000000000000000000",
     "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
     "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f"},
    {"0000000000000000000000000000000000000000000000000000000000000001", "01000000000000000000000000000000",
     "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a"
     "8eca00bbb4a73bdad192b5c42f73f2fd4e273644c8b36125a64addeb006c13a0"},
    {"00ff000000000000000000000000000000000000000000000000000000000000", "02000000000000000000000000000000",
     "72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca"
     "13b25aa26cb4a648cb9b9d1be65b2c0924a66c54d545ec1b7374f4872e99f096"},
    {"0000000000000000000000000000000000000000000000000000000000000000", "00000000000000000000000000000002",
     "c2c64d378cd536374ae204b9ef933fcd1a8b2288b3dfa49672ab765b54ee27c7"
     "8a970e0e955c14f3a88e741b97c286f75f8fc299e8148362fa198a39531bed6d"},
};
#define ANSWERS (sizeof answers / sizeof *answers)

static void bytes_from(const char *hex, uint8_t *to) {
    for (; *hex != 0; hex += 2) {
        unsigned byte = 0;
        CHECK_EQ_I64(1, sscanf(hex, "%2x", &byte));
        *to++ = (uint8_t)byte;
    }
}

static void known_answers(void) {
    uint8_t key[CHACHA20_KEY_SIZE];
    uint8_t input[CHACHA20_INPUT_SIZE];
    uint8_t wanted[CHACHA20_BLOCK_SIZE];
    uint8_t got[CHACHA20_BLOCK_SIZE];
    for (size_t i = 0; i < ANSWERS; i++) {
        bytes_from(answers[i].key, key);
        bytes_from(answers[i].input, input);
        bytes_from(answers[i].block, wanted);
        for (unsigned way = 0; way < CHACHA20_WAYS; way++) {
            if (chacha20_blocks_by((chacha20_way_t)way, key, input, 1, got)) {
                CHECK(memcmp(wanted, got, sizeof got) == 0);
            }
        }
    }
}

/* Every count has its own rest behind the vectors; whatever is at one place comes out at the same one. */
static void any_count(void) {
    static uint8_t inputs[MANY * CHACHA20_INPUT_SIZE];
    static uint8_t got[(MANY + 1) * CHACHA20_BLOCK_SIZE];
    uint8_t wanted[ANSWERS][CHACHA20_BLOCK_SIZE];
    static const uint8_t key[CHACHA20_KEY_SIZE] = {0};
    static const size_t of_zero_key[] = {1, 2, 5};
    for (size_t i = 0; i < 3; i++) {
        bytes_from(answers[of_zero_key[i]].block, wanted[i]);
    }
    for (size_t i = 0; i < MANY; i++) {
        bytes_from(answers[of_zero_key[i % 3]].input, inputs + i * CHACHA20_INPUT_SIZE);
    }
    for (unsigned way = 0; way <= CHACHA20_WAYS; way++) {
        for (size_t count = 0; count <= MANY; count++) {
            memset(got, 0xee, sizeof got);
            if (way == CHACHA20_WAYS) {
                chacha20_blocks(key, inputs, count, got);
            } else if (!chacha20_blocks_by((chacha20_way_t)way, key, inputs, count, got)) {
                break;
            }
            for (size_t i = 0; i < count; i++) {
                CHECK(memcmp(wanted[i % 3], got + i * CHACHA20_BLOCK_SIZE, CHACHA20_BLOCK_SIZE) == 0);
            }
            for (size_t i = 0; i < CHACHA20_BLOCK_SIZE; i++) {
                CHECK_EQ_U64(0xee, got[count * CHACHA20_BLOCK_SIZE + i]);
            }
        }
    }
}

int main(void) {
    RUN("each way to make blocks gives those of RFC 8439", known_answers);
    RUN("any number of blocks comes out whole and in order, and nothing behind them is written", any_count);
    return TEST_RESULT();
}
