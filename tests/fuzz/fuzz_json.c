/* Invariant: any text is JSON or is refused with a reason; an object's fields can be walked to the end, each inside the
 * text, found by its name in any case, and a number that reads as an integer is written of digits alone.
 */
#include <stddef.h>
#include <string.h>

#include "base/check.h"
#include "text/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void inside(bytes_t outer, bytes_t part) {
    check(part.size == 0
          || (part.at >= outer.at && part.size <= outer.size && part.at - outer.at <= outer.size - part.size));
}

static void look_at(bytes_t text, const json_field_t *field) {
    inside(text, field->name);
    inside(text, field->value);
    char name[64];
    if (field->name.size < sizeof(name) && memchr(field->name.at, 0, field->name.size) == NULL) {
        memcpy(name, field->name.at, field->name.size);
        name[field->name.size] = 0;
        check(json_named(field, name));
    }
    check(json_kind_name(field->kind) != NULL);
    int64_t number;
    if (json_integer(field->value, &number)) {
        for (uint32_t i = 0; i < field->value.size; i++) {
            check((field->value.at[i] >= '0' && field->value.at[i] <= '9') || (i == 0 && field->value.at[i] == '-'));
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 4096) {
        return 0;
    }
    bytes_t text = bytes_of(data, (uint32_t)size);
    json_error_t error = {""};
    if (!json_valid(text, &error)) {
        check(error.text[0] != 0 && memchr(error.text, 0, sizeof(error.text)) != NULL);
        return 0;
    }
    uint32_t first = 0;
    while (first < size && strchr(" \t\r\n", data[first]) != NULL && data[first] != 0) {
        first++;
    }
    if (first == size || data[first] != '{') {
        return 0;
    }
    json_field_t field;
    uint32_t at = 0, before = 0;
    while (json_next(text, &at, &field)) {
        check(at > before && at <= size);
        before = at;
        look_at(text, &field);
    }
    return 0;
}
