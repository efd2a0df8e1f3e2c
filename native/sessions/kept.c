/* kept.c: see kept.h. */
#include "sessions/kept.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/copies.h"
#include "sessions/session.h"
#include "text/subject.h"
#include "text/topic.h"

#define VERSION 1u
#define HEAD 20u
#define FILTER_HEAD 18u

kept_t *kept_new(bytes_t client) {
    kept_t *kept = calloc(1, sizeof(*kept));
    if (kept == NULL) {
        return NULL;
    }
    kept->client.name = bytes_copy(client);
    if (kept->client.name.size != client.size) {
        free(kept);
        return NULL;
    }
    return kept;
}

void kept_free(kept_t *kept) {
    for (uint32_t i = 0; i < kept->filter_count; i++) {
        bytes_release(&kept->filters[i].text);
    }
    free(kept->filters);
    if (kept->will != NULL) {
        will_free(kept->will);
    }
    ids_free(&kept->received);
    sequences_free(&kept->released);
    bytes_release(&kept->client.name);
    free(kept);
}

/* ---- subscriptions ----------------------------------------------------------------------------------------------- */

kept_filter_t *kept_find(const kept_t *kept, bytes_t text) {
    for (uint32_t i = 0; i < kept->filter_count; i++) {
        if (bytes_equal(kept->filters[i].text, text)) {
            return &kept->filters[i];
        }
    }
    return NULL;
}

static status_t filter_make(bytes_t text, kept_filter_t *out) {
    bytes_t group, filter = text;
    bool valid = true;
    bool shared = topic_shared(text, &group, &filter, &valid);
    uint32_t room = TOPIC_SUBJECT_ROOM(filter.size), size = 0;
    if (!valid || text.size > UINT16_MAX) {
        return STATUS_INVALID;
    }
    uint8_t *at = malloc((size_t)text.size + room);
    if (at == NULL) {
        return STATUS_NO_MEMORY;
    }
    (void)bytes_write(at, text);
    if (topic_filter_to_pattern(filter, at + text.size, room, &size) != TOPIC_OK
        || !subject_valid_pattern(bytes_of(at + text.size, size))) {
        free(at);
        return STATUS_INVALID;
    }
    *out =
        (kept_filter_t){.text = bytes_of(at, text.size), .pattern = bytes_of(at + text.size, size), .shared = shared};
    out->parent = topic_parent(out->pattern);
    return STATUS_OK;
}

status_t kept_put(kept_t *kept, bytes_t text, kept_filter_t **out) {
    *out = kept_find(kept, text);
    if (*out != NULL) {
        return STATUS_OK;
    }
    if (kept->filter_count == KEPT_FILTERS_MAX) {
        return STATUS_FULL;
    }
    if (kept->filter_count == kept->filter_room) {
        uint32_t room = kept->filter_room == 0 ? 1 : 2 * kept->filter_room;
        kept_filter_t *filters = realloc(kept->filters, room * sizeof(*filters));
        if (filters == NULL) {
            return STATUS_NO_MEMORY;
        }
        kept->filters = filters;
        kept->filter_room = room;
    }
    status_t status = filter_make(text, &kept->filters[kept->filter_count]);
    if (status == STATUS_OK) {
        *out = &kept->filters[kept->filter_count++];
    }
    return status;
}

bool kept_drop(kept_t *kept, bytes_t text) {
    kept_filter_t *filter = kept_find(kept, text);
    if (filter == NULL) {
        return false;
    }
    bytes_release(&filter->text);
    *filter = kept->filters[--kept->filter_count];
    return true;
}

uint64_t kept_size(const kept_t *kept) {
    uint64_t size = sizeof(*kept) + kept->client.name.size + kept->filter_room * sizeof(kept_filter_t)
                    + (kept->will == NULL ? 0 : will_size(kept->will));
    for (uint32_t i = 0; i < kept->filter_count; i++) {
        size += (uint64_t)kept->filters[i].text.size + kept->filters[i].pattern.size;
    }
    return size;
}

/* ---- as bytes ---------------------------------------------------------------------------------------------------- */

static bool filter_sound(const kept_filter_t *filter) {
    return filter->text.size != 0 && filter->text.size <= UINT16_MAX && filter->pattern.size != 0
           && filter->parent < filter->pattern.size;
}

bool kept_sound(const kept_t *kept) {
    bool good = kept->client.name.size != 0 && kept->client.name.size <= UINT16_MAX
                && kept->filter_count <= kept->filter_room && kept->filter_count <= KEPT_FILTERS_MAX
                && (kept->session == NULL || kept->session->kept == kept);
    for (uint32_t i = 0; good && i < kept->filter_count; i++) {
        good = filter_sound(&kept->filters[i]);
    }
    return good;
}

status_t kept_write(const kept_t *kept, buffer_t *out) {
    if (LEAF_UNLIKELY(!kept_sound(kept))) {
        return STATUS_INVALID;
    }
    uint64_t size = HEAD + (uint64_t)kept->client.name.size;
    for (uint32_t i = 0; i < kept->filter_count; i++) {
        size += FILTER_HEAD + (uint64_t)kept->filters[i].text.size;
    }
    uint8_t *to;
    status_t status = buffer_reserve(out, size, &to);
    if (status != STATUS_OK) {
        return status;
    }
    to[0] = VERSION;
    to[1] = 0;
    store_be16(to + 2, (uint16_t)kept->client.name.size);
    store_be32(to + 4, kept->expiry);
    store_be64(to + 8, (uint64_t)kept->left_age_ns);
    store_be32(to + 16, kept->filter_count);
    to = bytes_write(to + HEAD, kept->client.name);
    for (uint32_t i = 0; i < kept->filter_count; i++) {
        const kept_filter_t *filter = &kept->filters[i];
        store_be32(to, filter->flags);
        store_be32(to + 4, filter->identifier);
        store_be64(to + 8, filter->first);
        store_be16(to + 16, (uint16_t)filter->text.size);
        to = bytes_write(to + FILTER_HEAD, filter->text);
    }
    out->size += size;
    return STATUS_OK;
}

/* Takes one filter off the front. */
static status_t kept_read_filter(kept_t *kept, bytes_t *rest) {
    if (rest->size < FILTER_HEAD) {
        return STATUS_CORRUPT;
    }
    const uint8_t *at = rest->at;
    uint32_t size = load_be16(at + 16);
    kept_filter_t *filter;
    if (size > rest->size - FILTER_HEAD) {
        return STATUS_CORRUPT;
    }
    status_t status = kept_put(kept, bytes_of(at + FILTER_HEAD, size), &filter);
    if (status != STATUS_OK) {
        return status == STATUS_NO_MEMORY ? status : STATUS_CORRUPT;
    }
    filter->flags = load_be32(at);
    filter->identifier = load_be32(at + 4);
    filter->first = load_be64(at + 8);
    *rest = bytes_after(*rest, FILTER_HEAD + size);
    return STATUS_OK;
}

kept_t *kept_read(bytes_t record, bool *damaged) {
    *damaged = true;
    if (record.size < HEAD || record.at[0] != VERSION || load_be16(record.at + 2) > record.size - HEAD) {
        return NULL;
    }
    bytes_t client = bytes_of(record.at + HEAD, load_be16(record.at + 2));
    bytes_t rest = bytes_after(record, HEAD + client.size);
    uint32_t count = load_be32(record.at + 16);
    kept_t *kept = count > KEPT_FILTERS_MAX || client.size == 0 ? NULL : kept_new(client);
    if (kept == NULL) {
        *damaged = count > KEPT_FILTERS_MAX || client.size == 0;
        return NULL;
    }
    kept->expiry = load_be32(record.at + 4);
    kept->left_age_ns = (int64_t)load_be64(record.at + 8);
    status_t status = STATUS_OK;
    for (uint32_t i = 0; i < count && status == STATUS_OK; i++) {
        status = kept_read_filter(kept, &rest);
    }
    *damaged = status == STATUS_CORRUPT || rest.size != 0;
    if (status != STATUS_OK || *damaged) {
        kept_free(kept);
        return NULL;
    }
    return kept;
}
