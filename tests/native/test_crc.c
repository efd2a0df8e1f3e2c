/* test_crc.c: CRC32C against published vectors (RFC 3720, B.4) and the ways of computing it against each other. */
#include "base/crc.h"

#include "base/crc_private.h"
#include "test.h"

static uint32_t random_state = 1;

static uint8_t random_byte(void) {
    random_state = random_state * 1664525u + 1013904223u;
    return (uint8_t)(random_state >> 24);
}

static void published_vectors(void) {
    uint8_t bytes[32];
    CHECK_EQ_U64(0xE3069283, crc32c(0, "123456789", 9));
    CHECK_EQ_U64(0, crc32c(0, "", 0));
    memset(bytes, 0, sizeof bytes);
    CHECK_EQ_U64(0x8A9136AA, crc32c(0, bytes, sizeof bytes));
    memset(bytes, 0xFF, sizeof bytes);
    CHECK_EQ_U64(0x62A8AB43, crc32c(0, bytes, sizeof bytes));
    for (uint8_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = i;
    }
    CHECK_EQ_U64(0x46DD794E, crc32c(0, bytes, sizeof bytes));
    CHECK_EQ_U64(0x46DD794E, crc32c_by_table(0, bytes, sizeof bytes));
}

static void all_ways_agree(void) {
    uint8_t bytes[300];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = random_byte();
    }
    for (size_t from = 0; from < 9; from++) {
        for (size_t size = 0; size + from <= sizeof bytes; size++) {
            CHECK_EQ_U64(crc32c_by_table(7, bytes + from, size), crc32c(7, bytes + from, size));
            CHECK_EQ_U64(crc32c_by_table(7, bytes + from, size), crc32c_by_pieces(7, bytes + from, size));
        }
    }
}

static void long_ones_agree(void) {
    static const size_t edges[] = {384, 576, 768, 768 + 192, 1536, 6144, 6144 + 768, 12288};
    static uint8_t bytes[12288 + 64];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = random_byte();
    }
    for (size_t edge = 0; edge < sizeof edges / sizeof *edges; edge++) {
        for (size_t size = edges[edge] - 17; size < edges[edge] + 17; size++) {
            uint32_t seed = (uint32_t)size << 20 | random_byte();
            CHECK_EQ_U64(crc32c_by_table(seed, bytes + size % 9, size), crc32c(seed, bytes + size % 9, size));
            CHECK_EQ_U64(crc32c_by_table(seed, bytes + size % 9, size), crc32c_by_pieces(seed, bytes + size % 9, size));
        }
    }
}

static void pieces_chain(void) {
    uint8_t bytes[257];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = random_byte();
    }
    uint32_t whole = crc32c(0, bytes, sizeof bytes);
    for (size_t cut = 0; cut <= sizeof bytes; cut++) {
        CHECK_EQ_U64(whole, crc32c(crc32c(0, bytes, cut), bytes + cut, sizeof bytes - cut));
    }
}

int main(void) {
    RUN("CRC32C gives the values that RFC 3720 publishes", published_vectors);
    RUN("the processor's two ways and the table's agree for every length and alignment", all_ways_agree);
    RUN("so they do where the processor's way changes from one piece at a time to three", long_ones_agree);
    RUN("pieces computed one after the other give the checksum of the whole", pieces_chain);
    return TEST_RESULT();
}
