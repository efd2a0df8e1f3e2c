/* keys.c: see boxes.h. The nonce of INFO is signed with Ed25519, as a server with an nkey or credentials does it. */
#include "boxes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#define SEED_SIZE 32
#define SIGNATURE_SIZE 64

typedef struct box_key {
    char public[64];
    char *token; /* its JWT; NULL: none */
    EVP_PKEY *secret;
} box_key_t;

static box_key_t *keys;

void keys_read(const char *path, uint32_t count) {
    FILE *file = fopen(path, "r");
    keys = calloc(count, sizeof *keys);
    if (file == NULL || keys == NULL) {
        die("%s cannot be read", path);
    }
    for (uint32_t i = 0; i < count; i++) {
        char seed[2 * SEED_SIZE + 1], token[KEYS_TOKEN_MAX + 1];
        uint8_t raw[SEED_SIZE];
        if (fscanf(file, "%63s %64s %2048s", keys[i].public, seed, token) != 3) {
            die("%s has fewer keys than there are boxes", path);
        }
        keys[i].token = strcmp(token, "-") == 0 ? NULL : strdup(token);
        for (int byte = 0; byte < SEED_SIZE; byte++) {
            char digits[3] = {seed[2 * byte], seed[2 * byte + 1], '\0'};
            raw[byte] = (uint8_t)strtoul(digits, NULL, 16);
        }
        keys[i].secret = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, raw, sizeof raw);
        if (keys[i].secret == NULL) {
            die("%s: key %u is none", path, i);
        }
    }
    fclose(file);
}

void keys_login(uint32_t number, slice_t nonce, char *to, size_t room) {
    uint8_t signature[SIGNATURE_SIZE], text[4 * ((SIGNATURE_SIZE + 2) / 3) + 1];
    size_t size = sizeof signature;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    if (context == NULL || EVP_DigestSignInit(context, NULL, NULL, NULL, keys[number].secret) != 1
        || EVP_DigestSign(context, signature, &size, (const uint8_t *)nonce.at, nonce.size) != 1) {
        die("a nonce could not be signed");
    }
    EVP_MD_CTX_free(context);
    EVP_EncodeBlock(text, signature, (int)size);
    for (uint8_t *at = text; *at != '\0'; at++) { /* the alphabet of URLs, without padding */
        *at = *at == '+' ? '-' : *at == '/' ? '_' : *at == '=' ? '\0' : *at;
    }
    const char *token = keys[number].token;
    snprintf(to, room, "\"%s\":\"%s\",\"sig\":\"%s\",", token != NULL ? "jwt" : "nkey",
             token != NULL ? token : keys[number].public, (const char *)text);
}
