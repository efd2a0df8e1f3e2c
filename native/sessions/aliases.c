/* aliases.c: see aliases.h. */
#include "sessions/aliases.h"

#include <stdlib.h>

#include "base/copies.h"

bytes_t alias_topic(const aliases_t *aliases, uint32_t alias) {
    bool there = aliases->topics != NULL && alias >= 1 && alias <= aliases->max;
    return there ? aliases->topics[alias - 1] : BYTES_NONE;
}

status_t alias_set(aliases_t *aliases, uint32_t alias, bytes_t topic) {
    if (alias < 1 || alias > aliases->max || topic.size == 0) {
        return STATUS_INVALID;
    }
    if (aliases->topics == NULL && (aliases->topics = calloc(aliases->max, sizeof(*aliases->topics))) == NULL) {
        return STATUS_NO_MEMORY;
    }
    bytes_t *place = &aliases->topics[alias - 1];
    if (bytes_equal(*place, topic)) {
        return STATUS_OK;
    }
    bytes_t copy = bytes_copy(topic);
    if (copy.size == 0) {
        return STATUS_NO_MEMORY;
    }
    aliases->bytes += copy.size;
    aliases->bytes -= place->size;
    bytes_release(place);
    *place = copy;
    return STATUS_OK;
}

uint32_t alias_of(aliases_t *aliases, bytes_t topic, bool *known) {
    *known = false;
    for (uint32_t i = 0; i < aliases->count; i++) {
        if (bytes_equal(aliases->topics[i], topic)) {
            *known = true;
            return i + 1;
        }
    }
    if (aliases->count == aliases->max || alias_set(aliases, aliases->count + 1, topic) != STATUS_OK) {
        return 0;
    }
    return ++aliases->count;
}

void aliases_free(aliases_t *aliases) {
    for (uint32_t i = 0; aliases->topics != NULL && i < aliases->max; i++) {
        bytes_release(&aliases->topics[i]);
    }
    free(aliases->topics);
    *aliases = (aliases_t){0};
}
