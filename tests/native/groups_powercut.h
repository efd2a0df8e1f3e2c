/* groups_powercut.h: power cuts of one server of a world of groups (groups_world.h), for the C tests of groups.
 */
#ifndef LEAFD_TESTS_GROUPS_POWERCUT_H
#define LEAFD_TESTS_GROUPS_POWERCUT_H

#include "groups_world.h"
#include "powercut.h"

static powercut_chance_t chance;

static inline uint32_t drawn_below(uint32_t n) {
    return (uint32_t)(powercut_next(&chance) % n);
}

/* The power of one goes; what its disk is left with is what it starts from. */
static inline void cut_power(uint32_t at) {
    node_t *node = &world.node[at];
    char image[96];
    node_down(at);
    pthread_mutex_lock(&powercut.lock);
    powercut.on = false; /* what closing does is not part of it: the cut was before */
    uint64_t cut = powercut.count;
    pthread_mutex_unlock(&powercut.lock);
    snprintf(image, sizeof image, "%s/%u", node->rig.root, ++node->rig.generation);
    CHECK(mkdir(image, 0700) == 0);
    store_close(node->rig.store);
    node->rig.store = NULL;
    powercut_image(cut, (powercut_plan_t)drawn_below(PLAN_COUNT), &chance, image);
    rig_remove_directory(node->rig.directory);
    memcpy(node->rig.directory, image, sizeof image);
}

#endif
