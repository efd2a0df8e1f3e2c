/* commit_hold.c: see commit_hold.h. */
#include "disk/commit_hold.h"

#include <stdio.h>
#include <stdlib.h>

#include "disk/env_lmdb.h"

struct hold {
    MDB_env *env;
    MDB_txn *txn;
};

status_t hold_newest(hold_t *hold) {
    mdb_txn_abort(hold->txn);
    hold->txn = NULL;
    return env_translate(mdb_txn_begin(hold->env, NULL, MDB_RDONLY, &hold->txn));
}

status_t hold_open(const char *directory, hold_t **out, char *reason, size_t reason_size) {
    hold_t *hold = calloc(1, sizeof *hold);
    *out = NULL;
    if (hold == NULL) {
        snprintf(reason, reason_size, "no memory");
        return STATUS_NO_MEMORY;
    }
    int code = mdb_env_create(&hold->env);
    if (code == 0) {
        code = mdb_env_open(hold->env, directory, MDB_RDONLY | MDB_NOTLS, 0600);
    }
    status_t status = code == 0 ? hold_newest(hold) : env_translate(code);
    if (status != STATUS_OK) {
        snprintf(reason, reason_size, "cannot read the LMDB environment in %s: %s", directory,
                 code != 0 ? mdb_strerror(code) : status_name(status));
        hold_close(hold);
        return status;
    }
    *out = hold;
    return STATUS_OK;
}

uint64_t hold_commit(const hold_t *hold) {
    return mdb_txn_id(hold->txn);
}

void hold_close(hold_t *hold) {
    if (hold != NULL) {
        if (hold->txn != NULL) {
            mdb_txn_abort(hold->txn);
        }
        if (hold->env != NULL) {
            mdb_env_close(hold->env);
        }
        free(hold);
    }
}
