/* Invariant: any bytes are a terse text of the size that is said, or are refused, and nothing is read or written out of
 * bounds (the sanitizers look); any text of a link, cut anywhere, fits in its room and comes back, or the writer says
 * that it is none. Where messages end is never forgotten over a piece that was sent in another form. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "fuzz_input.h"
#include "text/terse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PIECES_MAX 64
#define TEXT_MAX 8192u

/* One piece, from and into memory of its exact size: what it became, or NULL. The caller frees. */
static uint8_t *understood(terse_t *heard, bytes_t form, uint32_t size) {
    uint8_t *from = fuzz_copy(form), *to = malloc(size + 1u);
    check(to != NULL);
    to[size] = 0xaa;
    status_t status = terse_read(heard, bytes_of(from, form.size), to, size);
    check(status == STATUS_OK || status == STATUS_CORRUPT || status == STATUS_NO_MEMORY);
    check(to[size] == 0xaa);
    free(from);
    if (status != STATUS_OK) {
        free(to);
        return NULL;
    }
    return to;
}

/* Pieces that nobody wrote, until one is refused. What was understood can be said again, and comes back. */
static void any_pieces(fuzz_input_t *input) {
    terse_t *heard = terse_new(), *said = terse_new(), *again = terse_new();
    check(heard != NULL && said != NULL && again != NULL);
    static uint8_t room[TERSE_ROOM(TEXT_MAX)];
    bool whole = true;
    for (uint32_t i = 0; i < PIECES_MAX && input->left != 0; i++) {
        uint32_t size = fuzz_byte(input) | (uint32_t)(fuzz_byte(input) & 31u) << 8;
        bytes_t form = fuzz_slice(input, fuzz_byte(input));
        uint8_t *text = understood(heard, form, size);
        if (text == NULL) {
            break;
        }
        uint32_t took = whole ? terse_write(said, bytes_of(text, size), room) : 0;
        check(took <= TERSE_ROOM(size));
        whole = whole && (took != 0 || size == 0);
        uint8_t *back = whole ? understood(again, bytes_of(room, took), size) : NULL;
        check(!whole || (back != NULL && memcmp(back, text, size) == 0));
        free(back);
        free(text);
    }
    terse_free(heard);
    terse_free(said);
    terse_free(again);
}

/* Text of a link: what the input says, or messages of few kinds whose numbers it says. Returns its size. */
static uint32_t compose(fuzz_input_t *input, char to[TEXT_MAX]) {
    static const char *const kinds[] = {
        "LMSG d.x $JS.ACK.T.c.%llu.%llu.%llu.%llu.%llu@t.%llu %u\r\n",
        "HMSG _GR_.c $JS.ACK.T.c.1.%llu.%llu.%llu.0.0@t.%llu.%llu.x.%llu 0 %u\r\n",
        "LMSG $KV.b.%llu.%llu.%llu.%llu.%llu.%llu long.enough.to.count %u\r\n",
        "LMSG %llu.%llu %llu@%llu %llu.%llu.0123456789012345678901234567890 %u\r\n",
    };
    uint32_t size = 0, kinds_count = sizeof kinds / sizeof kinds[0];
    unsigned long long numbers[6] = {0};
    while (input->left != 0 && size < TEXT_MAX - 600) {
        uint8_t choice = fuzz_byte(input);
        if (choice % 8 >= kinds_count) { /* as it is, and seldom long */
            bytes_t raw = fuzz_slice(input, choice >> 3);
            bytes_write((uint8_t *)to + size, raw);
            size += raw.size;
            continue;
        }
        for (uint32_t i = 0, which = fuzz_byte(input); i < 6; i++) {
            numbers[i] += (which >> i & 1) != 0 ? fuzz_number(input) : i;
        }
        uint32_t payload = choice >> 3;
        size += (uint32_t)snprintf(to + size, 400, kinds[choice % 8], numbers[0], numbers[1], numbers[2], numbers[3],
                                   numbers[4], numbers[5], payload);
        memset(to + size, 'p', payload);
        memcpy(to + size + payload, "\r\n", 2);
        size += payload + (fuzz_byte(input) == 255 ? 1 : 2); /* which is an end that is wrong */
    }
    return size;
}

/* Cut as the input says. A piece may go in another form, as one that does not compress does. */
static void there_and_back(fuzz_input_t *cuts, bytes_t text) {
    terse_t *said = terse_new(), *heard = terse_new();
    check(said != NULL && heard != NULL);
    static uint8_t room[TERSE_ROOM(TEXT_MAX)];
    while (text.size != 0) {
        uint32_t cut = fuzz_byte(cuts);
        bool passed = cut % 8 == 7;
        uint32_t size = cut == 0 ? text.size : 1 + (cut >> 3) * 13;
        size = size < text.size ? size : text.size;
        bytes_t piece = bytes_of(text.at, size);
        text = bytes_after(text, size);
        if (passed) {
            terse_pass(said, piece);
            continue;
        }
        uint8_t *exact = fuzz_copy(piece);
        uint32_t took = terse_write(said, bytes_of(exact, size), room);
        free(exact);
        check(took <= TERSE_ROOM(size));
        if (took == 0) {
            break;
        }
        uint8_t *back = understood(heard, bytes_of(room, took), size);
        check(back != NULL && memcmp(back, piece.at, size) == 0);
        free(back);
    }
    terse_free(said);
    terse_free(heard);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char text[TEXT_MAX];
    fuzz_input_t input = {data, size};
    if (fuzz_byte(&input) % 2 == 0) {
        any_pieces(&input);
        return 0;
    }
    bytes_t cuts = fuzz_slice(&input, fuzz_byte(&input));
    fuzz_input_t cutting = {cuts.at, cuts.size};
    there_and_back(&cutting, bytes_of(text, compose(&input, text)));
    return 0;
}
