/* names.c: see names.h. */
#include "base/names.h"

#include "base/hash.h"

#define SPREAD UINT64_C(0x9E3779B97F4A7C15) /* owners are small numbers; their names are often the same */

static uint64_t names_hash(uint32_t owner, bytes_t name) {
    return hash_bytes(name.at, name.size) ^ (uint64_t)owner * SPREAD;
}

name_link_t *names_find(const map_t *names, uint32_t owner, bytes_t name) {
    uint64_t hash = names_hash(owner, name);
    for (map_link_t *link = map_first(names, hash); link != NULL; link = link->next) {
        name_link_t *entry = MAP_ENTRY(link, name_link_t, link);
        if (link->hash == hash && entry->owner == owner && bytes_equal(entry->name, name)) {
            return entry;
        }
    }
    return NULL;
}

status_t names_put(map_t **names, name_link_t *entry) {
    return map_put(names, &entry->link, names_hash(entry->owner, entry->name));
}
