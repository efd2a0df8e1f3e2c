/* group.c: see group.h. */
#include "group/group.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/buffer.h"
#include "base/check.h"
#include "raft/frame.h"

#define WAITING_MIN 16
#define WAITING_MAX 65536u
#define FLOOR_ENTRIES 256u /* applied and still in the log: then the floor moves .. */
#define FLOOR_BYTES (UINT64_C(64) << 10)
#define OWN_ENTRIES 2 /* that one call of raft's may append, beside those proposed */
#define WRITES_MAX 16u

_Static_assert(FRAME_MEMBERS_SIZE_MAX <= LEDGER_MEMBERS_MAX, "members find room in a promise");

typedef struct waiting {
    raft_index_t index;
    uint64_t token;
} waiting_t;

/* Raft's writes up to one are in a batch. */
typedef struct writing {
    uint64_t write;
    uint64_t batch;
} writing_t;

struct group {
    store_t *store;
    ledger_t *ledger;
    group_hooks_t hooks;
    group_state_t state;
    raft_t raft;
    raft_outputs_t out;
    raft_index_t committed;
    raft_config_t members; /* at what is applied */
    uint64_t floor_bytes;  /* of entries between floor and applied */
    bytes_t proposed;
    buffer_t applying; /* an entry's bytes, while what it asks for is written */
    waiting_t *waiting;
    uint64_t waiting_room;
    uint64_t waiting_first;
    uint64_t waiting_count; /* those before waiting_first included */
    uint32_t writing_count;
    writing_t writing[WRITES_MAX];
};

/* ---- waiting clients --------------------------------------------------------------------------------------------- */

static status_t waiting_reserve(group_t *group) {
    if (group->waiting_first > 0 && group->waiting_first * 2 >= group->waiting_count) {
        group->waiting_count -= group->waiting_first;
        memmove(group->waiting, group->waiting + group->waiting_first, group->waiting_count * sizeof *group->waiting);
        group->waiting_first = 0;
    }
    return group->waiting_count - group->waiting_first >= WAITING_MAX
               ? STATUS_FULL
               : array_reserve(&group->waiting, &group->waiting_room, group->waiting_count + 1, WAITING_MIN,
                               sizeof *group->waiting);
}

static void answer_upto(group_t *group, raft_index_t index, bool applied) {
    while (group->waiting_first < group->waiting_count && group->waiting[group->waiting_first].index <= index) {
        group->hooks.answer(group->hooks.context, group->waiting[group->waiting_first++].token, applied);
    }
}

/* ---- what raft asks for ------------------------------------------------------------------------------------------ */

/* That write is in the open batch. Where more batches are on their way than there are places, the last place has
 * several: it is true later, and never too early. */
static void note_write(group_t *group, uint64_t write) {
    uint64_t batch = store_batch(group->store);
    writing_t *last = group->writing_count > 0 ? &group->writing[group->writing_count - 1] : NULL;
    if (last == NULL || (last->batch != batch && group->writing_count < WRITES_MAX)) {
        last = &group->writing[group->writing_count++];
    }
    *last = (writing_t){.write = write, .batch = batch};
}

static void group_append(group_t *group, const raft_output_t *output) {
    uint8_t members[FRAME_MEMBERS_SIZE_MAX];
    bytes_t bytes = output->kind == RAFT_DATA ? group->proposed : BYTES_NONE;
    if (output->kind == RAFT_MEMBERS) {
        bytes = bytes_of(members, frame_write_members(members, raft_members(&group->raft)));
    }
    check(output->from == output->upto);
    const ledger_entry_t entry = {
        .index = output->from, .term = output->term, .kind = (uint8_t)output->kind, .bytes = bytes};
    check(store_ledger_put(group->ledger, &entry) == STATUS_OK);
}

static void carry_out(group_t *group, const raft_output_t *output) {
    switch (output->action) {
    case RAFT_SAVE:
        check(store_ledger_promise(group->ledger, output->term, output->vote.peer, output->vote.disk) == STATUS_OK);
        break;
    case RAFT_CUT: check(store_ledger_cut(group->ledger, output->from) == STATUS_OK); break;
    case RAFT_APPEND: group_append(group, output); break;
    case RAFT_COMMIT: group->committed = output->upto; return;
    case RAFT_ROLE:
        if (group->raft.role != RAFT_LEADER) {
            answer_upto(group, UINT64_MAX, false);
        }
        return;
    case RAFT_RESET: /* comes with a copy, .. */
    case RAFT_SEND:  /* .. these are for other members: a group of one has none */
    case RAFT_COPY: return;
    }
    note_write(group, output->write);
}

static void carry_out_all(group_t *group, moment_t now) {
    raft_output_t output;
    while (raft_next(&group->raft, &group->out, &output, now.mono_ns)) {
        carry_out(group, &output);
    }
}

/* Is there room for all that one call of raft's can write? */
static bool group_fits(group_t *group, uint64_t bytes) {
    bool fits = store_ledger_fits(group->ledger, OWN_ENTRIES + (bytes > 0 ? 1u : 0u), bytes);
    group->state = fits ? GROUP_RUNS : GROUP_WAITS;
    return fits;
}

/* ---- applying ---------------------------------------------------------------------------------------------------- */

/* false: it waits. */
static bool apply_one(group_t *group, const ledger_entry_t *entry) {
    group->applying.size = 0;
    if (buffer_append(&group->applying, entry->bytes.at, entry->bytes.size) != STATUS_OK
        || store_ledger_touch(group->ledger) != STATUS_OK) {
        return false;
    }
    bytes_t bytes = bytes_of(group->applying.at, (uint32_t)group->applying.size);
    if (entry->kind == RAFT_DATA && !group->hooks.apply(group->hooks.context, entry->index, bytes)) {
        return false;
    }
    if (entry->kind == RAFT_MEMBERS) {
        check(frame_read_members(bytes, &group->members));
        group->members.index = entry->index;
    }
    return true;
}

static void apply_committed(group_t *group) {
    ledger_entry_t entry;
    while (group->ledger->applied < group->committed) {
        raft_index_t index = group->ledger->applied + 1;
        if (store_ledger_get(group->ledger, index, &entry) != LEDGER_FOUND) {
            group->state = GROUP_UNREADABLE;
            return;
        }
        if (!apply_one(group, &entry)) {
            group->state = GROUP_WAITS;
            return;
        }
        store_ledger_applied(group->ledger, index);
        group->floor_bytes += group->applying.size;
        answer_upto(group, index, true);
    }
}

/* Applied entries go: many at once, and all that a checkpoint would bring into LMDB otherwise. */
static void group_raise_floor(group_t *group, moment_t now) {
    const ledger_t *ledger = group->ledger;
    uint8_t members[FRAME_MEMBERS_SIZE_MAX];
    raft_term_t term;
    bool due = ledger->applied - ledger->floor >= FLOOR_ENTRIES || group->floor_bytes >= FLOOR_BYTES
               || store_checkpoint_soon(group->store, now) || group->state == GROUP_WAITS;
    if (!due || ledger->applied == ledger->floor || !trail_term(&group->raft.trail, ledger->applied, &term)) {
        return;
    }
    bytes_t bytes = bytes_of(members, frame_write_members(members, &group->members));
    if (store_ledger_floor(group->ledger, ledger->applied, term, bytes) == STATUS_OK) {
        raft_compact(&group->raft, ledger->floor);
        group->floor_bytes = 0;
    }
}

/* ---- a member's life --------------------------------------------------------------------------------------------- */

static status_t group_new(const group_options_t *options, group_t **out) {
    *out = calloc(1, sizeof **out);
    if (*out == NULL) {
        return STATUS_NO_MEMORY;
    }
    **out = (group_t){.store = options->store, .hooks = options->hooks};
    buffer_init(&(*out)->applying, UINT32_MAX);
    return STATUS_OK;
}

void group_close(group_t *group) {
    if (group != NULL) {
        buffer_free(&group->applying);
        free(group->waiting);
        free(group);
    }
}

typedef struct loading {
    raft_start_t start;
    status_t status;
    uint32_t configs;
    raft_config_t config[2];
} loading_t;

static status_t load_entry(void *context, const ledger_entry_t *entry) {
    loading_t *loading = context;
    trail_t *trail = &loading->start.trail;
    if (entry->index != trail->last + 1) { /* the first one tells where the floor is */
        trail_init(trail, entry->index - 1, 0);
    }
    if (entry->kind > RAFT_MEMBERS || entry->term < trail_last_term(trail) || entry->term > RAFT_TERM_MAX
        || !trail_append(trail, 1, entry->term)) {
        return STATUS_CORRUPT;
    }
    if (entry->kind == RAFT_MEMBERS) {
        loading->config[0] = loading->config[1];
        if (!frame_read_members(entry->bytes, &loading->config[1])) {
            return STATUS_CORRUPT;
        }
        loading->config[1].index = entry->index;
        loading->configs++;
    }
    return STATUS_OK;
}

/* What was loaded, on the promise: floor, term there, members there. */
static status_t load_promise(group_t *group, loading_t *loading, const ledger_promise_t *promise) {
    raft_start_t *start = &loading->start;
    raft_config_t floor;
    if (!frame_read_members(promise->members, &floor) || promise->floor > RAFT_INDEX_MAX
        || promise->floor_term > promise->term || promise->term > RAFT_TERM_MAX
        || trail_last_term(&start->trail) > promise->term) {
        return STATUS_CORRUPT;
    }
    if (start->trail.last == 0) {
        trail_init(&start->trail, promise->floor, promise->floor_term);
    }
    if (start->trail.base != promise->floor
        || (start->trail.count > 0 && start->trail.runs[0].term < promise->floor_term)) {
        return STATUS_CORRUPT;
    }
    start->trail.base_term = promise->floor_term;
    floor.index = promise->floor;
    start->configs[1] = loading->configs > 0 ? loading->config[1] : floor;
    start->configs[0] = loading->configs > 1 ? loading->config[0] : floor;
    start->term = promise->term;
    start->vote = (raft_disk_t){.peer = promise->vote_peer, .disk = promise->vote_disk};
    start->commit = group->ledger->applied;
    group->committed = start->commit;
    group->members = start->configs[1].index <= start->commit ? start->configs[1] : start->configs[0];
    return STATUS_OK;
}

static status_t member_begin(group_t *group, const group_options_t *options, loading_t *loading, moment_t now) {
    ledger_promise_t promise;
    uint64_t disk = 0;
    if (store_ledger_promised(group->ledger, &promise) != LEDGER_FOUND || !store_ledger_disk(group->store, &disk)) {
        return STATUS_IO;
    }
    status_t status = group->ledger->foreign ? STATUS_INVALID : load_promise(group, loading, &promise);
    if (status == STATUS_OK) {
        loading->start.self = (raft_disk_t){.peer = options->peer, .disk = disk};
        loading->start.times = options->times;
        loading->start.seed = options->seed;
        raft_init(&group->raft, &loading->start, now.mono_ns);
    }
    return status;
}

status_t group_open(const group_options_t *options, moment_t now, group_t **out) {
    loading_t loading = {0};
    status_t status = group_new(options, out);
    if (status == STATUS_OK) {
        status = store_ledger_open(options->store, options->number, load_entry, &loading, &(*out)->ledger);
    }
    if (status == STATUS_OK) {
        status = member_begin(*out, options, &loading, now);
        if (status != STATUS_OK) {
            store_ledger_close((*out)->ledger);
        }
    }
    if (status != STATUS_OK) {
        group_close(*out);
        *out = NULL;
    }
    return status;
}

status_t group_make(const group_options_t *options, moment_t now, group_t **out) {
    loading_t loading = {0};
    uint8_t members[FRAME_MEMBERS_SIZE_MAX];
    uint64_t disk;
    *out = NULL;
    if (!store_ledger_disk(options->store, &disk)) {
        return STATUS_IO;
    }
    const raft_config_t alone = {.count = 1, .at = {{.id = {.peer = options->peer, .disk = disk}, .voter = true}}};
    bytes_t bytes = bytes_of(members, frame_write_members(members, &alone));
    status_t status = group_new(options, out);
    if (status == STATUS_OK) {
        status = store_ledger_make(options->store, options->number, bytes, &(*out)->ledger);
    }
    if (status == STATUS_OK) {
        status = member_begin(*out, options, &loading, now);
    }
    if (status != STATUS_OK) {
        group_close(*out);
        *out = NULL;
    }
    return status;
}

/* ---- turns ------------------------------------------------------------------------------------------------------- */

static void take_persisted(group_t *group, moment_t now) {
    uint64_t synced = store_ledger_synced(group->store);
    uint32_t done = 0;
    while (done < group->writing_count && group->writing[done].batch <= synced) {
        done++;
    }
    if (done == 0 || !group_fits(group, 0)) {
        return;
    }
    uint64_t write = group->writing[done - 1].write;
    group->writing_count -= done;
    memmove(group->writing, group->writing + done, group->writing_count * sizeof *group->writing);
    raft_persisted(&group->raft, &group->out, write, now.mono_ns);
    carry_out_all(group, now);
}

void group_turn(group_t *group, moment_t now) {
    group->state = GROUP_RUNS;
    take_persisted(group, now);
    if (now.mono_ns >= group->raft.due_ns && group_fits(group, 0)) {
        raft_tick(&group->raft, &group->out, now.mono_ns);
        carry_out_all(group, now);
    }
    apply_committed(group);
    group_raise_floor(group, now);
}

status_t group_propose(group_t *group, bytes_t bytes, uint64_t token, moment_t now) {
    raft_index_t index;
    if (!store_ledger_takes(group->store, bytes.size)) {
        return STATUS_INVALID;
    }
    if (!group_leads(group) || waiting_reserve(group) != STATUS_OK || !group_fits(group, bytes.size)) {
        return STATUS_AGAIN;
    }
    if (!raft_propose(&group->raft, &group->out, 1, &index)) {
        return STATUS_AGAIN;
    }
    group->waiting[group->waiting_count++] = (waiting_t){.index = index, .token = token};
    group->proposed = bytes;
    carry_out_all(group, now);
    group->proposed = BYTES_NONE;
    return STATUS_OK;
}

/* ---- looks ------------------------------------------------------------------------------------------------------- */

int64_t group_deadline(const group_t *group) {
    return group->raft.due_ns;
}

bool group_leads(const group_t *group) {
    return group->raft.role == RAFT_LEADER;
}

group_state_t group_state(const group_t *group) {
    return group->state;
}

raft_index_t group_applied(const group_t *group) {
    return group->ledger->applied;
}

bool group_quiet(const group_t *group) {
    return group->ledger->applied == group->ledger->last;
}
