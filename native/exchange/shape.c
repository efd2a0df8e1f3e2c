/* shape.c: see shape.h. How a row spells body and strings: command/command_table.c. */
#include "exchange/shape.h"

#include <string.h>

#include "exchange/strings.h"

static bool body_fits(const plane_command_row_t *row, uint32_t size) {
    if (size < row->body_size) {
        return false;
    }
    uint32_t rest = size - row->body_size;
    return row->row_size == 0 ? rest == 0 : rest % row->row_size == 0;
}

/* Steps over the list that `name*` stands for: up to the empty string that ends it. */
static bool step_over_list(strings_t *strings) {
    bytes_t string;
    do {
        if (!strings_whole(strings, &string)) {
            return false;
        }
    } while (string.size != 0);
    return true;
}

static bool step_over_rest(strings_t *strings) {
    bytes_t string;
    while (strings->left != 0) {
        if (!strings_whole(strings, &string)) {
            return false;
        }
    }
    return true;
}

static bool strings_fit(const char *names, strings_t strings) {
    bytes_t string;
    while (*names != '\0') {
        size_t length = strcspn(names, " ");
        char last = names[length - 1];
        bool fits = last == '*'   ? step_over_list(&strings)
                    : last == '.' ? step_over_rest(&strings)
                                  : strings_whole(&strings, &string);
        if (!fits) {
            return false;
        }
        names += length + (names[length] == ' ');
    }
    return strings.left == 0;
}

bool shape_fits(const plane_command_row_t *row, const plane_command_t *command) {
    return body_fits(row, command->body_size) && strings_fit(row->strings, strings_of(command));
}
