/* ids.c: see ids.h. */
#include "sessions/ids.h"

#include <stdlib.h>

static uint8_t *id_page(const ids_t *ids, uint16_t id) {
    return ids->pages == NULL ? NULL : ids->pages[id / 256u];
}

static uint8_t id_bit(uint16_t id) {
    return (uint8_t)(1u << (id % 8u));
}

bool ids_has(const ids_t *ids, uint16_t id) {
    const uint8_t *page = id_page(ids, id);
    return page != NULL && (page[id % 256u / 8u] & id_bit(id)) != 0;
}

status_t ids_add(ids_t *ids, uint16_t id) {
    if (ids_has(ids, id)) {
        return STATUS_EXISTS;
    }
    if (ids->pages == NULL && (ids->pages = calloc(IDS_PAGES, sizeof(*ids->pages))) == NULL) {
        return STATUS_NO_MEMORY;
    }
    uint8_t **page = &ids->pages[id / 256u];
    if (*page == NULL && (*page = calloc(1, IDS_PAGE_BYTES)) == NULL) {
        return STATUS_NO_MEMORY;
    }
    (*page)[id % 256u / 8u] |= id_bit(id);
    ids->count++;
    return STATUS_OK;
}

bool ids_take(ids_t *ids, uint16_t id) {
    if (!ids_has(ids, id)) {
        return false;
    }
    id_page(ids, id)[id % 256u / 8u] &= (uint8_t)~id_bit(id);
    ids->count--;
    return true;
}

void ids_free(ids_t *ids) {
    for (uint32_t i = 0; ids->pages != NULL && i < IDS_PAGES; i++) {
        free(ids->pages[i]);
    }
    free(ids->pages);
    *ids = (ids_t){0};
}
