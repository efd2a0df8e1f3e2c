/* json.h: reading the small JSON objects that clients send on the hot path: pull requests and -NAK options. Checks the
 * whole text first and words errors as the reference server's JSON library does, because clients are shown them; then
 * walks the object's own fields. Allocates nothing. */
#ifndef LEAFD_TEXT_JSON_H
#define LEAFD_TEXT_JSON_H

#include "base/bytes.h"

#define JSON_ERROR_MAX 160
#define JSON_DEPTH_MAX 64

typedef struct json_error {
    char text[JSON_ERROR_MAX];
} json_error_t;

typedef enum json_kind { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_OBJECT, JSON_ARRAY } json_kind_t;

typedef struct json_field {
    bytes_t name;  /* between the quotes, escapes as they are */
    bytes_t value; /* raw; of a string: between the quotes */
    json_kind_t kind;
} json_field_t;

bool json_valid(bytes_t text, json_error_t *error);
/* The next field of the object that json_valid accepted. *at: offset, 0 before the first. */
bool json_next(bytes_t object, uint32_t *at, json_field_t *field);
/* Names are compared without regard to case, as in the reference. */
bool json_named(const json_field_t *field, const char *name);
const char *json_kind_name(json_kind_t kind);
/* A number without fraction and exponent that fits into 64 bits. */
bool json_integer(bytes_t value, int64_t *out);

#endif
