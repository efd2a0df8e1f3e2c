/* kept_store.h: a store that is prepared once and closed, and of which each run has a copy of its own, for C tests in
 * which something fails at one place after the other: to prepare it takes longer than the run.
 */
#ifndef LEAFD_TESTS_KEPT_STORE_H
#define LEAFD_TESTS_KEPT_STORE_H

#include "store_rig.h"

static char kept_directory[128];
static moment_t kept_now;

/* The rig's store, which is closed. */
static inline void keep_store(rig_t *of) {
    CHECK(of->store == NULL);
    snprintf(kept_directory, sizeof kept_directory, "%s/kept", of->root);
    CHECK_EQ_I64(0, rename(of->directory, kept_directory));
    kept_now = of->now;
}

/* A copy of it is the rig's directory; nothing is open. */
static inline void copy_kept_store(rig_t *of) {
    CHECK(of->store == NULL);
    snprintf(of->directory, sizeof of->directory, "%s/copy", of->root);
    CHECK_EQ_I64(0, mkdir(of->directory, 0700));
    of->now = kept_now;
    rig_copy_file(kept_directory, of->directory, "highwater");
    rig_copy_file(kept_directory, of->directory, "data.mdb");
    rig_copy_file(kept_directory, of->directory, "journal");
}

static inline void drop_copy(rig_t *of) {
    store_close(of->store);
    of->store = NULL;
    rig_remove_directory(of->directory);
}

static inline void drop_kept_store(const rig_t *of) {
    rig_remove_directory(kept_directory);
    rmdir(of->root);
}

#endif
