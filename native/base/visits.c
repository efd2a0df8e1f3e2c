/* visits.c: see visits.h. */
#include "base/visits.h"

#ifdef LEAF_COUNTS_VISITS

#ifdef __clang__
#define UNCOUNTED __attribute__((no_sanitize("coverage")))
#else
#define UNCOUNTED __attribute__((no_sanitize_coverage))
#endif

static _Thread_local uint64_t visited;
/* Each block of the code counts here, which was a third of what the tests took: so it is reached by one addition,
 * without a call that asks where the thread's variables are. */
static _Thread_local uint64_t blocks __attribute__((tls_model("initial-exec")));

void visits_add(uint64_t elements) {
    visited += elements;
}

uint64_t visits_take(void) {
    uint64_t taken = visited;
    visited = 0;
    return taken;
}

/* The compiler's name for what it calls in each block of the code. */
void __sanitizer_cov_trace_pc(void); /* NOLINT(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

UNCOUNTED void __sanitizer_cov_trace_pc(void) { /* NOLINT(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
    blocks++;
}

UNCOUNTED uint64_t blocks_take(void) {
    uint64_t taken = blocks;
    blocks = 0;
    return taken;
}

#endif
