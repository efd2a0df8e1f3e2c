/* filters.h: which of a stream's subjects somebody wants. What a pattern means is text/subject.h's. */
#ifndef LEAFD_TEXT_FILTERS_H
#define LEAFD_TEXT_FILTERS_H

#include "text/subject_set.h"

typedef struct filters { /* none = everything */
    const bytes_t *patterns;
    uint32_t count;
    uint32_t sorted; /* as subject_set_make left them, since there may be thousands; 0: in any order */
} filters_t;

static inline bool filters_match(filters_t filters, bytes_t subject) {
    subject_set_t set = {.at = filters.patterns, .count = filters.count, .sorted = filters.sorted};
    return filters.count == 0 || subject_set_matches(&set, subject);
}

#endif
