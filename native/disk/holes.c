/* holes.c: see holes.h. */
#include "disk/holes.h"

#include <errno.h>
#include <fcntl.h>

#include "base/number.h"

void holes_begin(holes_t *holes, uint64_t keep) {
    holes->running = !holes->refused;
    holes->keep = keep;
    holes->kept = 0;
    holes->at = (env_free_place_t){0};
}

/* How much of the run's begin is kept, of so many bytes that still are to be: LMDB takes that first. */
static uint64_t holes_part(env_run_t run, uint64_t missing) {
    return number_least(run.size, (missing + HOLES_RUN_MIN - 1) / HOLES_RUN_MIN * HOLES_RUN_MIN);
}

static bool holes_punch(holes_t *holes, int fd, env_run_t run) {
    if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)run.offset, (off_t)run.size) == 0
        || errno == EINTR) {
        return true;
    }
    holes->refused = errno == EOPNOTSUPP || errno == ENOSYS;
    return false;
}

status_t holes_dig(holes_t *holes, env_t *env, int fd) {
    env_run_t runs[HOLES_STEP];
    uint32_t count = 0;
    status_t status = env_free_runs(env, &holes->at, runs, HOLES_STEP, &count);
    for (uint32_t i = 0; status == STATUS_OK && i < count; i++) {
        uint64_t part = holes_part(runs[i], number_less(holes->keep, holes->kept));
        env_run_t rest = {.offset = runs[i].offset + part, .size = runs[i].size - part};
        holes->kept += part;
        if (rest.size >= HOLES_RUN_MIN && !holes_punch(holes, fd, rest)) {
            status = STATUS_IO;
        }
    }
    holes->running = status == STATUS_OK && count == HOLES_STEP;
    return holes->running ? STATUS_AGAIN : status;
}

void holes_fill(env_t *env, int fd, uint64_t keep) {
    env_free_place_t at = {0};
    env_run_t runs[HOLES_STEP];
    uint32_t count = HOLES_STEP;
    uint64_t filled = 0;
    while (count == HOLES_STEP && filled < keep) {
        if (env_free_runs(env, &at, runs, HOLES_STEP, &count) != STATUS_OK) {
            return;
        }
        for (uint32_t i = 0; i < count && filled < keep; i++) {
            uint64_t part = holes_part(runs[i], keep - filled);
            if (fallocate(fd, FALLOC_FL_KEEP_SIZE, (off_t)runs[i].offset, (off_t)part) != 0) {
                return;
            }
            filled += part;
        }
    }
}
