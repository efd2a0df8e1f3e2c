/* env_patch.c: a damaged leaf of messages is made anew in its place, while the store runs. See env.h.
 *
 *     damaged     | 812 | ? ? ? ? ? ? ? ? | 827 ..       what is between two keys of the page above is not known
 *     made anew   | 812 | 813 | x | x | .. | x |         what was still there, and x, a value that proves nothing
 *
 * From then on LMDB has a sound page, and x is what damage of a single message is: it is alarmed when it is asked for,
 * not served, and everybody goes on behind it. Counts, heads and links stay as they are. That each sequence had a
 * message is for the caller to know (store/mending.c); where some had been removed, what is not there any more gets no
 * entry.
 *
 * The pages above say which page it is, and a number there may have become another one. So the page is written only
 * when all that the commit uses was gone over (reach.h) and nothing else uses it, nor is it on the list of free pages.
 * A large value is kept only where its checksum proves that it is the entry's own: LMDB would free what it leads to.
 * Pages of those that are not kept are nobody's from then on, until a start makes the file anew.
 *
 * LMDB writes to no page of a commit that a reader may see, and the view is one. A write that is cut short leaves a
 * page that is damaged, as before. What stood there is kept beside the store, in "pages.damaged": the page's number, 8
 * bytes, and the page.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "disk/env_lmdb.h"
#include "disk/reach.h"

#define KEPT_MAX ((off_t)16 << 20) /* bytes of "pages.damaged" */

struct env_patch {
    env_t *env;
    env_view_t *view;
    reach_t *reach; /* NULL: it has come to its end */
    uint32_t stream;
    size_t page;
    uint64_t low;
    uint64_t high; /* 0: it is the last leaf, whose keys no page bounds */
};

static bool own_key(bytes_t key, uint32_t stream, uint64_t *seq) {
    bool own = key.size == MESSAGE_KEY_SIZE && load_be32(key.at) == stream;
    *seq = own ? load_be64(key.at + 4) : 0;
    return own;
}

/* Where the keeper stands before that page, it goes on. */
static void unblock(env_t *env, size_t page) {
    if (atomic_load(&env->blocked_by) == page) {
        atomic_store_explicit(&env->blocked, false, memory_order_release);
    }
}

/* Meets the damage in the view. */
static status_t find_leaf(env_patch_t *patch, const env_wrong_t *wrong) {
    const trees_t *trees = env_view_trees(patch->view);
    store_key_t key;
    bytes_t value = BYTES_NONE;
    key_message(&key, patch->stream, wrong->seq);
    switch (env_view_get(patch->view, DB_MESSAGES, key_bytes(&key), &value)) {
    case READ_FOUND:
    case READ_NONE: unblock(patch->env, wrong->page); return STATUS_EXISTS;
    case READ_UNKNOWN: break;
    }
    bool leaf = trees->lost.page != 0 && trees->lost.page == trees->where && trees->lost.page == wrong->page;
    bool bounded = leaf && (own_key(trees->lost.high, patch->stream, &patch->high) || trees->lost.high.size == 0)
                   && (own_key(trees->lost.low, patch->stream, &patch->low) || trees->lost.low.size == 0);
    patch->page = bounded ? trees->lost.page : 0;
    return bounded && (patch->high == 0 || patch->low < patch->high) ? STATUS_OK : STATUS_INVALID;
}

status_t env_patch_begin(env_t *env, const env_wrong_t *wrong, env_patch_t **out) {
    env_patch_t *patch = calloc(1, sizeof *patch);
    *out = NULL;
    if (patch == NULL) {
        return STATUS_NO_MEMORY;
    }
    patch->env = env;
    patch->stream = wrong->stream;
    status_t status = env->memory ? STATUS_INVALID : env_view_open(env, &patch->view);
    status = status == STATUS_OK ? find_leaf(patch, wrong) : status;
    status = status == STATUS_OK ? reach_open(env_view_trees(patch->view), &patch->reach) : status;
    if (status != STATUS_OK) {
        env_patch_end(patch);
        return status;
    }
    *out = patch;
    return STATUS_OK;
}

void env_patch_end(env_patch_t *patch) {
    if (patch != NULL) {
        reach_close(patch->reach);
        env_view_close(patch->view);
    }
    free(patch);
}

status_t env_patch_step(env_patch_t *patch, int64_t until_ns) {
    if (env_view_trees(patch->view) == NULL) {
        return STATUS_CORRUPT; /* LMDB was opened again */
    }
    if (patch->reach == NULL) {
        return STATUS_OK;
    }
    status_t status = reach_step(patch->reach, until_ns);
    if (status == STATUS_AGAIN) {
        return status;
    }
    status = status == STATUS_OK && reach_is_apart(patch->reach) ? STATUS_OK : STATUS_CORRUPT;
    reach_close(patch->reach);
    patch->reach = NULL;
    return status;
}

void env_patch_range(const env_patch_t *patch, uint64_t *low, uint64_t *high) {
    *low = patch->low;
    *high = patch->high;
}

read_outcome_t env_patch_get(env_patch_t *patch, store_db_t db, bytes_t key, bytes_t *value) {
    return env_view_get(patch->view, db, key, value);
}

/* ---- the page ---------------------------------------------------------------------------------------------------- */

/* The bytes of a large value, where its node leads to them. */
static bool large_of(const trees_t *trees, const uint8_t *node, bytes_t *value) {
    uint32_t page_size = trees->meta.page_size;
    uint32_t size = page_node_size(node);
    size_t first = page_word(page_node_data(node));
    size_t count = page_overflow_pages(size, page_size);
    if (first < 2 || first > trees->meta.last || count > trees->meta.last - first + 1
        || (first + (uint64_t)count) * page_size > trees->file_size) {
        return false;
    }
    const uint8_t *page = trees->map + first * (uint64_t)page_size;
    *value = bytes_of(page + PAGE_HEAD, size);
    return page_overflow_judge(page, page_size, first, size, false) == NULL
           && !unread_covers(trees->watch, page, PAGE_HEAD + (uint64_t)size);
}

/* What is sealed or packed proves itself when it is opened. */
static bool keeps_node(void *context, const uint8_t *node) {
    const env_patch_t *patch = context;
    const trees_t *trees = env_view_trees(patch->view);
    unsigned flags = page_node_flags(node);
    uint64_t before = unread_count(trees->watch);
    bytes_t value = bytes_of(page_node_data(node), page_node_size(node));
    if ((flags & ~(unsigned)PAGE_NODE_BIG) != 0 || (flags != 0 && !large_of(trees, node, &value))) {
        return false;
    }
    bool proves = patch->env->sealer == NULL && !packing_done(DB_MESSAGES, value);
    bool sound = proves ? value_sound(page_node_key(node), value) : flags == 0;
    return sound && unread_count(trees->watch) == before;
}

/* Without room for it, it is not kept. */
void env_patch_keep(const env_t *env, size_t number, const uint8_t *page) {
    char path[4096];
    struct stat file;
    uint64_t word = number;
    int length = snprintf(path, sizeof path, "%s/pages.damaged", env->directory);
    int fd =
        length > 0 && (size_t)length < sizeof path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    if (fd < 0) {
        return;
    }
    if (fstat(fd, &file) == 0 && file.st_size < KEPT_MAX) {
        (void)!write(fd, &word, sizeof word);
        (void)!write(fd, page, env->page_size);
    }
    close(fd);
}

status_t env_patch_put(env_t *env, size_t number, const uint8_t *made, uint32_t size) {
    if (pwrite(env_file(env), made, size, (off_t)(number * (uint64_t)size)) != (ssize_t)size) {
        return STATUS_IO;
    }
    env_judge_again(env);
    unblock(env, number);
    return STATUS_OK;
}

static status_t write_page(env_patch_t *patch, page_refill_t *refill, uint8_t *copy, uint8_t *made) {
    env_t *env = patch->env;
    const trees_t *trees = env_view_trees(patch->view);
    uint32_t size = trees->meta.page_size;
    uint8_t bounds[2][MESSAGE_KEY_SIZE];
    memcpy(copy, trees->map + patch->page * (uint64_t)size, size);
    for (int i = 0; i < 2; i++) {
        store_be32(bounds[i], patch->stream);
        store_be64(bounds[i] + 4, i == 0 ? patch->low : patch->high);
    }
    const page_bounds_t between = {.low = bytes_of(bounds[0], patch->low != 0 ? MESSAGE_KEY_SIZE : 0),
                                   .high = bytes_of(bounds[1], patch->high != 0 ? MESSAGE_KEY_SIZE : 0)};
    if (!page_refill(made, copy, size, patch->page, refill)
        || page_judge(made, size, patch->page, trees->meta.last, true, between) != NULL) {
        return STATUS_FULL;
    }
    env_patch_keep(env, patch->page, copy);
    return env_patch_put(env, patch->page, made, size);
}

status_t env_patch_write(env_patch_t *patch, uint64_t from, uint64_t below, bool each, uint32_t *kept) {
    page_refill_t refill = {.from = from, .below = below, .each = each, .keeps = keeps_node, .context = patch};
    uint32_t size = patch->env->page_size;
    uint8_t *copy = malloc(size);
    uint8_t *made = calloc(1, size);
    store_be32(refill.prefix, patch->stream);
    status_t status = STATUS_NO_MEMORY;
    if (copy != NULL && made != NULL) {
        status = env_view_trees(patch->view) != NULL ? write_page(patch, &refill, copy, made) : STATUS_IO;
    }
    *kept = refill.kept;
    free(copy);
    free(made);
    return status;
}
