/* scratch.c: see scratch.h. */
#include "net/scratch.h"

#include <stddef.h>
#include <string.h>

#include "base/check.h"

#define LINE 64u /* of the processor's cache: buffers begin with one */

/* True if only the scratch refers to it. */
static bool scratch_is_free(const shared_t *buffer) {
    return buffer->references == 1;
}

static uint8_t *scratch_begin(shared_t *buffer) {
    return (uint8_t *)(((uintptr_t)buffer->at + LINE - 1) / LINE * LINE);
}

static status_t scratch_make(shared_t **buffer) {
    return shared_new(NULL, CONN_SCRATCH_SIZE + LINE, buffer);
}

status_t conn_scratch_open(conn_scratch_t *scratch) {
    *scratch = (conn_scratch_t){0};
    status_t status = scratch_make(&scratch->buffers[0]);
    if (status == STATUS_OK) {
        scratch->at = scratch_begin(scratch->buffers[0]);
    }
    return status;
}

void conn_scratch_close(conn_scratch_t *scratch) {
    for (uint32_t i = 0; i < CONN_SCRATCHES; i++) {
        if (scratch->buffers[i] != NULL) {
            shared_release(scratch->buffers[i]);
        }
    }
    *scratch = (conn_scratch_t){0};
}

/* One to read into next, which is made if need be; 0: none. */
static uint32_t scratch_spare(conn_scratch_t *scratch) {
    for (uint32_t i = 1; i < CONN_SCRATCHES; i++) {
        if (scratch->buffers[i] == NULL && scratch_make(&scratch->buffers[i]) != STATUS_OK) {
            scratch->buffers[i] = NULL;
            return 0;
        }
        if (scratch_is_free(scratch->buffers[i])) {
            return i;
        }
    }
    return 0;
}

void conn_scratch_turn(conn_scratch_t *scratch) {
    if (LEAF_LIKELY(scratch_is_free(scratch->buffers[0]))) {
        return;
    }
    uint32_t next = scratch_spare(scratch);
    check(next != 0); /* or nothing would have been lent */
    shared_t *lent = scratch->buffers[0];
    scratch->buffers[0] = scratch->buffers[next];
    scratch->buffers[next] = lent;
    scratch->at = scratch_begin(scratch->buffers[0]);
}

shared_t *conn_scratch_lend(conn_scratch_t *scratch, bytes_t bytes, uint32_t *from) {
    uintptr_t begin = (uintptr_t)scratch->at, place = (uintptr_t)bytes.at;
    if (scratch->at == NULL || place < begin || place - begin > CONN_SCRATCH_SIZE
        || bytes.size > CONN_SCRATCH_SIZE - (place - begin)) {
        return NULL;
    }
    if (scratch_is_free(scratch->buffers[0]) && scratch_spare(scratch) == 0) {
        return NULL;
    }
    *from = (uint32_t)(place - (uintptr_t)scratch->buffers[0]->at);
    return shared_keep(scratch->buffers[0]);
}

void conn_scratch_idle(conn_scratch_t *scratch) {
    for (uint32_t i = 1; scratch->at != NULL && scratch_is_free(scratch->buffers[0]) && i < CONN_SCRATCHES; i++) {
        if (scratch->buffers[i] != NULL && scratch_is_free(scratch->buffers[i])) {
            shared_release(scratch->buffers[i]);
            scratch->buffers[i] = NULL;
        }
    }
}
