/* strings.c: the packed strings of a command. A size that is not true ends them. */
#include "exchange/strings.h"

strings_t strings_of(const plane_command_t *command) {
    return (strings_t){command->extra, command->extra_size};
}

bytes_t strings_next(strings_t *strings) {
    if (strings->left < 4) {
        strings->left = 0;
        return BYTES_NONE;
    }
    uint32_t size = (uint32_t)strings->at[0] | (uint32_t)strings->at[1] << 8 | (uint32_t)strings->at[2] << 16
                    | (uint32_t)strings->at[3] << 24;
    strings->at += 4;
    strings->left -= 4;
    if (size > strings->left) {
        strings->left = 0;
        return BYTES_NONE;
    }
    bytes_t string = bytes_of(strings->at, size);
    strings->at += size;
    strings->left -= size;
    return string;
}

bool strings_more(const strings_t *strings) {
    return strings->left >= 4;
}
