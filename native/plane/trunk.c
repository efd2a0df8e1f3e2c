/* trunk.c: see trunk.h. */
#include "plane/trunk.h"

#include <stdlib.h>

#include "base/hash.h"

uint64_t trunk_key(uint64_t place, uint64_t box) {
    const uint64_t both[2] = {place, box};
    if (place == 0 || box == 0) {
        return 0;
    }
    uint64_t key = hash_bytes(both, sizeof both);
    return key > TRUNK_DIALLED ? key : TRUNK_DIALLED + 1;
}

trunk_t *trunk_hold(table_t *trunks, uint64_t key) {
    trunk_t *trunk = key == 0 ? NULL : table_find(trunks, key);
    if (trunk != NULL) {
        trunk->holders++;
    }
    if (key == 0 || trunk != NULL) {
        return trunk;
    }
    trunk = calloc(1, sizeof(*trunk));
    if (trunk == NULL || table_put(trunks, key, trunk) != STATUS_OK) {
        free(trunk);
        return NULL;
    }
    trunk->key = key;
    trunk->holders = 1;
    return trunk;
}

void trunk_leave(table_t *trunks, trunk_t *trunk) {
    if (trunk != NULL && --trunk->holders == 0) {
        table_drop(trunks, trunk->key);
        free(trunk);
    }
}

bool trunk_drains(trunk_t *trunk, int64_t every_ns, int64_t takes_ns, int64_t mono_ns) {
    if (mono_ns - trunk->drained_ns > every_ns) {
        trunk->drained_ns = mono_ns;
        trunk->resume_ns = mono_ns + takes_ns;
    }
    return mono_ns < trunk->resume_ns;
}
