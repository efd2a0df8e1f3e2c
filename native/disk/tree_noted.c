/* tree_noted.c: the pages that judgements have entered since trees_note, as rows with a checksum each: a copy of a row
 * is held against what was judged. Which pages those are, tree.c notes.
 */
#include <stdlib.h>

#include "base/crc.h"
#include "disk/tree.h"

void trees_note(trees_t *trees) {
    trees->noting = true;
    trees->noted_all = true;
    trees->noted_count = 0;
}

static int compare_runs(const void *a, const void *b) {
    const page_run_t *left = a;
    const page_run_t *right = b;
    return (left->first > right->first) - (left->first < right->first);
}

static uint32_t run_crc(const trees_t *trees, size_t count, const uint8_t *at) {
    uint32_t size = trees->meta.page_size;
    uint32_t crc = 0;
    for (size_t i = 0; i < count; i++) {
        crc = crc32c(crc, at + i * size, size);
    }
    return crc;
}

void trees_noted(trees_t *trees) {
    uint64_t count = 0;
    trees->noting = false;
    if (trees->noted_count > 1) {
        qsort(trees->noted, trees->noted_count, sizeof *trees->noted, compare_runs);
    }
    for (uint64_t i = 0; i < trees->noted_count; i++) {
        page_run_t run = trees->noted[i];
        page_run_t *last = count > 0 ? &trees->noted[count - 1] : NULL;
        if (last == NULL || run.first > last->first + last->count) {
            trees->noted[count++] = run;
        } else if (run.first + run.count > last->first + last->count) {
            last->count = run.first + run.count - last->first;
        }
    }
    trees->noted_count = count;
    for (uint64_t i = 0; i < count; i++) {
        page_run_t *run = &trees->noted[i];
        run->crc = run_crc(trees, run->count, trees->map + run->first * (uint64_t)trees->meta.page_size);
    }
}

/* A page that was judged is known by itself, and one of a large value by its row. */
status_t trees_compare(trees_t *trees, page_run_t run, const uint8_t *at) {
    uint32_t size = trees->meta.page_size;
    if (LEAF_LIKELY(run_crc(trees, run.count, at) == run.crc)) {
        return STATUS_OK;
    }
    size_t changed = run.first;
    for (size_t i = 0; i < run.count; i++) {
        size_t place = (run.first + i) % TREE_JUDGED;
        bool known = trees->judged[place].page == run.first + i;
        changed = known && trees->judged[place].crc != crc32c(0, at + i * size, size) ? run.first + i : changed;
    }
    trees->where = changed;
    trees->wrong = "it changed by itself";
    return STATUS_IO;
}
