/* strings.c: see strings.h. */
#include "exchange/strings.h"

strings_t strings_of(const plane_command_t *command) {
    return (strings_t){command->extra, command->extra_size};
}

bool strings_whole(strings_t *strings, bytes_t *string) {
    if (strings->left < 4) {
        return false;
    }
    const uint8_t *at = strings->at;
    uint32_t size = (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
    if (size > strings->left - 4) {
        return false;
    }
    *string = size == 0 ? BYTES_NONE : bytes_of(at + 4, size);
    strings->at += 4 + (size_t)size;
    strings->left -= 4 + size;
    return true;
}

bytes_t strings_next(strings_t *strings) {
    bytes_t string;
    if (!strings_whole(strings, &string)) {
        strings->left = 0;
        return BYTES_NONE;
    }
    return string;
}

bool strings_more(const strings_t *strings) {
    return strings->left >= 4;
}

uint32_t strings_count(strings_t strings) {
    uint32_t count = 0;
    for (; strings_more(&strings); count++) {
        (void)strings_next(&strings);
    }
    return count;
}
