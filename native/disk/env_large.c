/* env_large.c: see env_large.h. */
#include "disk/env_large.h"

void env_large_begin(env_t *env) {
    memset(env->put_large, 0, sizeof env->put_large);
}

status_t env_large_put(env_t *env, uint32_t index, bytes_t key, uint32_t size) {
    MDB_val k = env_val(key);
    MDB_val before;
    bool large = size > env->page_size / LARGE_PART;
    bool earlier = env->put_large[index];
    env->put_large[index] = earlier || large;
    if (LEAF_LIKELY(!earlier)) {
        return STATUS_OK;
    }
    status_t status = env_judge(env, index, key);
    if (status != STATUS_OK) {
        return status;
    }
    int code = mdb_get(env->write, env->dbs[index], &k, &before);
    if (code == 0 && before.mv_size <= UINT32_MAX
        && page_overflow_pages((uint32_t)before.mv_size, env->page_size) > page_overflow_pages(size, env->page_size)) {
        code = mdb_del(env->write, env->dbs[index], &k, NULL);
    }
    return code == MDB_NOTFOUND ? STATUS_OK : env_translate(code);
}
