/* text.h: short texts composed on the stack: subjects, header lines, answers, "-ERR" lines.
 *
 * A text that does not fit is empty, never shortened: text_bytes() returns nothing then, and an empty subject goes
 * nowhere. Only a text for people may be cut, which it shows: text_shown(). Not here: texts without a
 * bound (base/buffer.h).
 */
#ifndef LEAFD_TEXT_TEXT_H
#define LEAFD_TEXT_TEXT_H

#include "base/bytes.h"

#define SUBJECT_BYTES_MAX 4096u /* of anything we compose */
#define TEXT_OVER UINT32_MAX    /* a size: more was added than there is room for */

typedef struct text {
    uint32_t size;
    uint8_t at[SUBJECT_BYTES_MAX + 256];
} text_t;

void text_add(text_t *text, bytes_t part);
void text_add_literal(text_t *text, const char *part);
void text_add_number(text_t *text, uint64_t number);
void text_add_escaped(text_t *text, bytes_t raw); /* as inside of a JSON string */
void text_add_shown(text_t *text, bytes_t raw);   /* as Go's %q inside its quotes: what a terminal acts upon escaped */

static inline bool text_is_over(const text_t *text) {
    return text->size > sizeof(text->at);
}
/* Everything that was added, or nothing. */
static inline bytes_t text_bytes(const text_t *text) {
    return text_is_over(text) ? BYTES_NONE : bytes_of(text->at, text->size);
}
/* For people: as much as fits. */
static inline bytes_t text_shown(const text_t *text) {
    return bytes_of(text->at, text_is_over(text) ? (uint32_t)sizeof(text->at) : text->size);
}

#endif
