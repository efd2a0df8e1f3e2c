/* terse_private.h: a line with its numbers, as terse.c and terse_read.c both remember it. */
#ifndef LEAFD_TEXT_TERSE_PRIVATE_H
#define LEAFD_TEXT_TERSE_PRIVATE_H

#include <stdbool.h>

#include "text/terse.h"

#define TERSE_PLACES 16u
#define TERSE_LINE_MIN 32u /* shorter ones are as they are */
#define TERSE_LINE_MAX 192u
#define TERSE_NUMBERS 10u /* further ones are text */
#define TERSE_DIGITS 19u  /* of a number; what has more is text */
#define TERSE_NUMBER_MAX UINT64_C(9999999999999999999)
#define TERSE_INLINE 63u

enum { TERSE_COPY = 0x00, TERSE_SET = 0x40, TERSE_SAME = 0x80, TERSE_TAIL = 0xc0, TERSE_KIND = 0xc0 };

typedef struct terse_number {
    uint64_t value;
    uint64_t step; /* by so much more than the time before */
    uint16_t at;
    uint16_t end;
} terse_number_t;

typedef struct terse_line {
    uint32_t size;
    uint32_t count;
    terse_number_t numbers[TERSE_NUMBERS];
    uint8_t text[TERSE_LINE_MAX];
    uint32_t key;  /* of the writer: which lines it may be compared with, .. */
    uint64_t used; /* .. and when it last was */
} terse_line_t;

struct terse {
    terse_line_t *places[TERSE_PLACES];
    /* Of the writer. */
    uint64_t clock;
    uint64_t left;   /* bytes of a message, and of the CRLF behind it, that come in later pieces */
    uint8_t verb[4]; /* of a line that was cut: what it begins with, .. */
    uint32_t begun;  /* .. how much of it has come, .. */
    uint64_t number; /* .. and its last word, if that is a number */
};

/* Finds the numbers of line->text. Their steps are 0. */
void terse_parse(terse_line_t *line);
/* The line has room for TERSE_LINE_MAX; false: that is not enough, or a number has too many digits. The numbers before
 * `count` have their new values; behind them comes the tail. */
bool terse_compose(terse_line_t *line, uint32_t count, bytes_t tail);
/* At that place; NULL: there is no memory. */
terse_line_t *terse_place(terse_t *terse, uint32_t place);

#endif
