/* marks.c: see marks.h. */
#include "group/marks.h"

#include <stdlib.h>

#include "base/array.h"
#include "store/alarms.h"
#include "store/ledger.h"

#define MARKS_MIN 4
#define DISKS_MAX 4u /* disks of a server: some groups may not know of its new one yet */
#define TELL_NS (2 * NS_PER_SECOND)
#define ASK_NS (200 * NS_PER_MS)
#define PATIENCE_NS (3 * NS_PER_SECOND) /* an older leafd does not answer */
#define ASKS (INT64_C(1) << 62)

void marks_free(marks_t *marks) {
    free(marks->at);
}

/* NULL: there is no memory. Of a server that has had many disks the first known one is forgotten. */
static mark_t *mark_of(marks_t *marks, raft_disk_t id) {
    mark_t *first = NULL;
    uint32_t disks = 0;
    for (uint64_t i = 0; i < marks->count; i++) {
        mark_t *mark = &marks->at[i];
        if (same_disk(mark->id, id)) {
            return mark;
        }
        if (mark->id.peer == id.peer) {
            first = first == NULL ? mark : first;
            disks++;
        }
    }
    if (disks < DISKS_MAX) {
        if (array_reserve(&marks->at, &marks->room, marks->count + 1, MARKS_MIN, sizeof *marks->at) != STATUS_OK) {
            return NULL;
        }
        first = &marks->at[marks->count++];
    }
    *first = (mark_t){.id = id};
    marks->due_ns = 0;
    return first;
}

bool marks_allow(marks_t *marks, raft_disk_t id) {
    const mark_t *mark = mark_of(marks, id);
    bool allowed = mark != NULL && mark->judged;
    marks->due_ns = allowed ? marks->due_ns : 0;
    return allowed;
}

void marks_stir(marks_t *marks) {
    marks->due_ns = 0;
}

/* What this disk has: nobody can have heard of more. */
static uint64_t batches_here(const store_t *store) {
    return store_durable(store);
}

void marks_hear(marks_t *marks, const store_t *store, const frame_t *frame, bool member) {
    mark_t *mark = mark_of(marks, frame->from);
    if (mark == NULL) {
        return; /* it asks again */
    }
    marks->due_ns = 0;
    if (frame->sent_ns < 0) {
        uint64_t heard = (uint64_t)(-1 - frame->sent_ns);
        mark->judged = true;
        if (member && heard > batches_here(store) && marks->stage == MARKS_WELL) {
            marks->stage = MARKS_LEAVES;
            marks->missed = heard;
        }
        return;
    }
    uint64_t told = (uint64_t)(frame->sent_ns & ~ASKS);
    mark->owes = mark->owes || (frame->sent_ns & ASKS) != 0 || told < mark->heard;
    mark->heard = told > mark->heard ? told : mark->heard;
}

void marks_damaged(marks_t *marks, uint32_t group) {
    if (marks->stage == MARKS_WELL) {
        marks->stage = MARKS_LEAVES;
        marks->damaged = group;
    }
    marks->due_ns = 0;
}

int64_t marks_deadline(const marks_t *marks, const store_t *store) {
    bool more = marks->count > 0 && store_ledger_synced(store) > marks->told;
    return more && marks->tell_ns < marks->due_ns ? marks->tell_ns : marks->due_ns;
}

static void mark_send(const mark_t *mark, const marks_way_t *way, int64_t word) {
    uint8_t bytes[FRAME_HEAD];
    frame_writer_t writer;
    frame_begin(&writer, bytes, sizeof bytes, way->self, mark->id, word);
    uint32_t size = frame_end(&writer);
    way->deliver(way->context, mark->id.peer, bytes_of(bytes, size));
}

/* Returns when it has something to say again. */
static int64_t mark_turn(mark_t *mark, const marks_way_t *way, uint64_t here, bool tell, moment_t now) {
    if (!way->reaches(way->context, mark->id.peer)) {
        return mark->judged ? INT64_MAX : now.mono_ns + ASK_NS; /* to be asked before anybody has to vote */
    }
    bool ask = !mark->judged && now.mono_ns >= mark->asked_ns;
    if (mark->owes) {
        mark_send(mark, way, -1 - (int64_t)mark->heard);
        mark->owes = false;
    }
    if (ask) {
        mark->first_ns = mark->asked_ns == 0 ? now.mono_ns : mark->first_ns;
        mark->asked_ns = now.mono_ns + ASK_NS;
        mark->judged = now.mono_ns - mark->first_ns >= PATIENCE_NS;
    }
    if (ask || tell) {
        mark_send(mark, way, (int64_t)here | (mark->judged ? 0 : ASKS));
    }
    return mark->judged ? INT64_MAX : mark->asked_ns;
}

/* A disk whose id is gone has promised nothing, and the next start is that of a new disk. */
static void leave(marks_t *marks, store_t *store) {
    if (marks->stage == MARKS_LEAVES && marks->batch == 0 && store_ledger_disown(store) == STATUS_OK) {
        marks->batch = store_batch(store);
    }
    if (marks->stage == MARKS_LEAVES && marks->batch != 0 && store_ledger_synced(store) >= marks->batch) {
        marks->stage = MARKS_LEFT;
        if (marks->damaged != 0) {
            store_alarm(store, ALARM_MEND, marks->damaged - 1, 0,
                        "the log of group %u is damaged on this disk; it is another disk from here on, and is copied "
                        "from the other servers",
                        marks->damaged);
            return;
        }
        store_alarm(store, ALARM_MEND, 0, 0,
                    "this disk was put back from an older copy of itself: it has %llu batches, and the other servers "
                    "have heard of %llu; it is another disk from here on, and is copied from them",
                    (unsigned long long)batches_here(store), (unsigned long long)marks->missed);
    }
}

void marks_turn(marks_t *marks, store_t *store, const marks_way_t *way, moment_t now) {
    uint64_t here = store_ledger_synced(store);
    bool tell = here > marks->told && now.mono_ns >= marks->tell_ns;
    marks->due_ns = INT64_MAX;
    for (uint64_t i = 0; i < marks->count; i++) {
        int64_t next = mark_turn(&marks->at[i], way, here, tell, now);
        marks->due_ns = next < marks->due_ns ? next : marks->due_ns;
    }
    if (tell) {
        marks->told = here;
        marks->tell_ns = now.mono_ns + TELL_NS;
    }
    if (marks->stage == MARKS_LEAVES) {
        leave(marks, store);
        marks->due_ns = now.mono_ns + ASK_NS;
    }
}
