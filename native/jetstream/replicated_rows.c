/* replicated_rows.c: which of the streams that several servers keep have something to do (replicated_private.h).
 *
 *     its group has news, a message waits, .. --> replicated_wake --> row --> its turn, which may wake it again
 *     replicated_due ------------------------------------^ at that time
 */
#include "jetstream/js.h"
#include "jetstream/replicated_private.h"

void replicated_wake(replicated_t *replicated, replicated_row_t row) {
    if (!replicated->in_row[row]) {
        replicated->in_row[row] = true;
        replicated->row_next[row] = replicated->js->replicated_rows[row];
        replicated->js->replicated_rows[row] = replicated;
    }
}

replicated_t *replicated_row(js_t *js, replicated_row_t row) {
    replicated_t *first = js->replicated_rows[row];
    js->replicated_rows[row] = NULL;
    return first;
}

replicated_t *replicated_next_of(replicated_t **left, replicated_row_t row) {
    replicated_t *one = *left;
    if (one != NULL) {
        *left = one->row_next[row];
        one->in_row[row] = false;
    }
    return one;
}

void replicated_due(replicated_t *replicated, int64_t due_ns) {
    js_t *js = replicated->js;
    replicated->due_ns = due_ns < replicated->due_ns ? due_ns : replicated->due_ns;
    js->replicas_due_ns = due_ns < js->replicas_due_ns ? due_ns : js->replicas_due_ns;
}

void replicated_wake_due(js_t *js) {
    if (js->now->mono_ns < js->replicas_due_ns) {
        return;
    }
    js->replicas_due_ns = INT64_MAX;
    for (replicated_t *one = js->replicated; one != NULL; one = one->next) {
        if (one->due_ns <= js->now->mono_ns) {
            replicated_wake(one, ROW_TURNS);
        } else {
            replicated_due(one, one->due_ns);
        }
    }
}

void replicated_unrow(replicated_t *replicated) {
    for (unsigned row = 0; row < ROWS; row++) {
        replicated_t **place = &replicated->js->replicated_rows[row];
        while (*place != NULL && *place != replicated) {
            place = &(*place)->row_next[row];
        }
        if (*place != NULL) {
            *place = replicated->row_next[row];
        }
    }
}
