/* hash8.c: SHA-256 of a text in memory, written out, for this one use: a library for it would be linked for 8 bytes. */
#include "text/hash8.h"

static const uint32_t sha_k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate_left(uint32_t x, uint32_t by) {
    return (x >> by) | (x << (32 - by));
}

static void sha_block(uint32_t state[8], const uint8_t block[64]) {
    uint32_t w[64];
    for (uint32_t i = 0; i < 16; i++) {
        w[i] = load_be32(block + 4 * i);
    }
    for (uint32_t i = 16; i < 64; i++) {
        uint32_t s0 = rotate_left(w[i - 15], 7) ^ rotate_left(w[i - 15], 18) ^ (w[i - 15] >> 3);
        uint32_t s1 = rotate_left(w[i - 2], 17) ^ rotate_left(w[i - 2], 19) ^ (w[i - 2] >> 10);
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    uint32_t v[8];
    memcpy(v, state, sizeof(v));
    for (uint32_t i = 0; i < 64; i++) {
        uint32_t s1 = rotate_left(v[4], 6) ^ rotate_left(v[4], 11) ^ rotate_left(v[4], 25);
        uint32_t t1 = v[7] + s1 + ((v[4] & v[5]) ^ (~v[4] & v[6])) + sha_k[i] + w[i];
        uint32_t s0 = rotate_left(v[0], 2) ^ rotate_left(v[0], 13) ^ rotate_left(v[0], 22);
        uint32_t t2 = s0 + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof(*v));
        v[4] += t1;
        v[0] = t1 + t2;
    }
    for (uint32_t i = 0; i < 8; i++) {
        state[i] += v[i];
    }
}

void hash8(bytes_t text, uint8_t out[HASH8_SIZE]) {
    static const char alphabet[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    bytes_t left = text;
    while (left.size >= 64) {
        sha_block(state, left.at);
        left = bytes_of(left.at + 64, left.size - 64);
    }
    uint8_t tail[128] = {0};
    if (left.size != 0) {
        memcpy(tail, left.at, left.size);
    }
    tail[left.size] = 0x80;
    uint32_t blocks = left.size < 56 ? 1 : 2;
    store_be64(tail + 64 * blocks - 8, (uint64_t)text.size * 8);
    for (uint32_t i = 0; i < blocks; i++) {
        sha_block(state, tail + 64 * i);
    }
    for (uint32_t i = 0; i < 8; i++) {
        out[i] = (uint8_t)alphabet[((state[i / 4] >> (24 - 8 * (i % 4))) & 0xff) % 62];
    }
}
