/* group.c: a member's life, applying, turns: see group.h. Not here: what raft asks for (carry.c), who waits
 * (waiting.c), what others may know of a group (look.c). */
#include "group/group.h"

#include <stdlib.h>

#include "base/check.h"
#include "group/private.h"
#include "store/sharing.h"

#define FLOOR_ENTRIES 256u /* applied and still in the log: then the floor moves .. */
#define FLOOR_BYTES (UINT64_C(64) << 10)
#define KEEP_NS NS_PER_SECOND
#define AHEAD 3       /* entries: by then its bytes are in the processor's cache again */
#define OWN_ENTRIES 2 /* that one call of raft's may append, beside those proposed */
_Static_assert(FRAME_MEMBERS_SIZE_MAX <= LEDGER_MEMBERS_MAX, "members find room in a promise");

/* ---- room -------------------------------------------------------------------------------------------------------- */

/* Is there room for all that one call of raft's can write, beside its own entries so many with so many bytes? */
static bool group_fits_behind(group_t *group, raft_index_t index, uint64_t entries, uint64_t bytes) {
    bool fits = store_ledger_fits_behind(group->ledger, index, OWN_ENTRIES + entries, bytes);
    group->state = fits ? GROUP_RUNS : GROUP_WAITS;
    return fits;
}

static bool group_fits(group_t *group, uint64_t entries, uint64_t bytes) {
    return group_fits_behind(group, group->ledger->last, entries, bytes);
}

/* Beside raft's own entries, for one of the owner's. */
static bool group_proposes(group_t *group, uint64_t bytes) {
    bool fits = store_ledger_proposes(group->ledger, OWN_ENTRIES + 1, bytes);
    group->state = fits ? GROUP_RUNS : GROUP_WAITS;
    return fits;
}

/* ---- applying ---------------------------------------------------------------------------------------------------- */

/* Its bytes, whatever is written while it is applied. false: there is no memory. */
static bool applying_bytes(group_t *group, const ledger_entry_t *entry, bytes_t *bytes) {
    *bytes = entry->bytes;
    if (entry->position != 0) {
        return true;
    }
    group->applying.size = 0;
    bool kept = buffer_append(&group->applying, entry->bytes.at, entry->bytes.size) == STATUS_OK;
    *bytes = bytes_of(group->applying.at, (uint32_t)group->applying.size);
    return kept;
}

/* What it asks for may share its bytes. */
static bool apply_data(const group_t *group, const ledger_entry_t *entry, bytes_t bytes) {
    store_lend(group->store, bytes, entry->position);
    bool applied = group->hooks.apply(group->hooks.context, entry->index, bytes);
    store_lend_end(group->store);
    return applied;
}

/* false: it waits. */
static bool apply_one(group_t *group, const ledger_entry_t *entry) {
    bytes_t bytes;
    if (!applying_bytes(group, entry, &bytes) || store_ledger_touch(group->ledger) != STATUS_OK) {
        return false;
    }
    if (entry->kind == RAFT_DATA && !apply_data(group, entry, bytes)) {
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
    while (group->ledger->applied < group->committed && !group->half) {
        raft_index_t index = group->ledger->applied + 1;
        store_ledger_soon(group->ledger, index + AHEAD);
        if (!group_entry(group, index, &entry)) {
            return;
        }
        if (!apply_one(group, &entry)) {
            group->state = GROUP_WAITS;
            return;
        }
        store_ledger_applied(group->ledger, index);
        group->news = true;
        answer_upto(group, index, true);
    }
}

/* When entries take too much room, a member is not waited for that lacks what was in the log a while ago: it stands
 * still, or the way to it carries less than is published. One that is a little slower holds up the others instead. */
static bool is_given_up(const group_t *group, uint32_t place, moment_t now) {
    return store_ledger_pressed(group->store) && now.mono_ns - group->wanted_ns[place] >= KEEP_NS
           && !group_is_self(group, raft_members(&group->raft)->at[place].id);
}

/* Up to where a member has the log on its disk, or has it with the copy that is on its way. Before one is, it has no
 * use for entries. */
static raft_index_t has_upto(const group_t *group, uint32_t place) {
    const raft_progress_t *progress = &group->raft.progress[place];
    if (group_is_self(group, raft_members(&group->raft)->at[place].id)) {
        return group->raft.firm;
    }
    return copy_goes(group, place) ? copy_sent(group, place) : progress->match;
}

/* A leader's word, to which its entries are kept here and at all members. */
static raft_index_t had_by_all(group_t *group, moment_t now) {
    const raft_config_t *members = raft_members(&group->raft);
    raft_index_t all = RAFT_INDEX_MAX;
    for (uint32_t i = 0; i < members->count; i++) {
        raft_index_t has = has_upto(group, i);
        if (group->wanted_ns[i] == 0 || has >= group->wanted[i]) {
            group->wanted[i] = group->raft.trail.last;
            group->wanted_ns[i] = now.mono_ns;
        }
        if (!is_given_up(group, i, now)) {
            all = has < all ? has : all;
        }
    }
    /* What is gone here is kept nowhere, also when there is room again: others would wait for the member that needs a
     * copy. */
    return all < group->ledger->floor ? group->ledger->floor : all;
}

/* Entries that no member needs any more go: many at once, and all that a checkpoint would bring into LMDB otherwise. */
static void group_raise_floor(group_t *group, moment_t now) {
    const ledger_t *ledger = group->ledger;
    uint8_t members[FRAME_MEMBERS_SIZE_MAX];
    raft_term_t term;
    if (group_leads(group)) {
        group->everybody = had_by_all(group, now);
    }
    raft_index_t floor = group->everybody < ledger->applied ? group->everybody : ledger->applied;
    if (floor <= ledger->floor || !trail_term(&group->raft.trail, floor, &term)) {
        return;
    }
    bool due = floor - ledger->floor >= FLOOR_ENTRIES || ledger->bytes >= FLOOR_BYTES
               || store_checkpoint_soon(group->store, now) || store_ledger_awaited(ledger)
               || group->state == GROUP_WAITS;
    bytes_t bytes = bytes_of(members, frame_write_members(members, &group->members));
    if (due && store_ledger_floor(group->ledger, floor, term, bytes) == STATUS_OK) {
        raft_compact(&group->raft, ledger->floor);
    }
}

/* ---- a member's life --------------------------------------------------------------------------------------------- */

static status_t group_new(const group_options_t *options, group_t **out) {
    *out = calloc(1, sizeof **out);
    if (*out == NULL) {
        return STATUS_NO_MEMORY;
    }
    **out = (group_t){.store = options->store, .hooks = options->hooks, .out = options->outputs};
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

status_t group_remove(group_t *group) {
    status_t status = store_ledger_remove(group->ledger);
    if (status == STATUS_OK) {
        group_close(group);
    }
    return status;
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
        || promise->floor_term > promise->term || promise->term > RAFT_TERM_MAX || promise->patience > RAFT_PATIENCE_MAX
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
    start->patience = promise->patience;
    start->vote = (raft_disk_t){.peer = promise->vote_peer, .disk = promise->vote_disk};
    start->commit = group->ledger->applied;
    group->committed = start->commit;
    group->members = start->configs[1].index <= start->commit ? start->configs[1] : start->configs[0];
    return STATUS_OK;
}

static status_t member_begin(group_t *group, const group_options_t *options, loading_t *loading, moment_t now) {
    ledger_promise_t promise;
    uint64_t disk = 0;
    switch (store_ledger_promised(group->ledger, &promise)) {
    case READ_UNKNOWN:
    case READ_NONE: return STATUS_IO;
    case READ_FOUND: break;
    }
    if (!store_ledger_disk(group->store, &disk)) {
        return STATUS_IO;
    }
    status_t status = load_promise(group, loading, &promise);
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
    bool none = status == STATUS_OK && (*out)->ledger == NULL;
    if (status == STATUS_OK && !none) {
        /* Of another disk's promise there may be nothing that can be read. */
        status = (*out)->ledger->foreign ? STATUS_INVALID : member_begin(*out, options, &loading, now);
        if (status != STATUS_OK) {
            store_ledger_close((*out)->ledger);
        }
    }
    if (status != STATUS_OK || none) {
        group_close(*out);
        *out = NULL;
    }
    return status;
}

static bool among(const raft_config_t *config, raft_disk_t id) {
    for (uint32_t i = 0; i < config->count; i++) {
        if (same_disk(config->at[i].id, id)) {
            return true;
        }
    }
    return false;
}

status_t group_make(const group_options_t *options, moment_t now, group_t **out) {
    loading_t loading = {0};
    uint8_t members[FRAME_MEMBERS_SIZE_MAX];
    uint64_t disk;
    *out = NULL;
    if (!store_ledger_disk(options->store, &disk)) {
        return STATUS_IO;
    }
    const raft_disk_t self = {.peer = options->peer, .disk = disk};
    const raft_config_t alone = {.count = 1, .at = {{.id = self, .voter = true}}};
    const raft_config_t *founders = options->founders != NULL ? options->founders : &alone;
    if (founders->count > 0 && !among(founders, self)) {
        return STATUS_INVALID;
    }
    check(!options->grown || founders->count == 1);
    const ledger_promise_t promise = {.term = options->grown ? 1 : 0,
                                      .floor = options->grown ? 1 : 0,
                                      .floor_term = options->grown ? 1 : 0,
                                      .name = options->name,
                                      .members = bytes_of(members, frame_write_members(members, founders)),
                                      .note = options->note};
    status_t status = group_new(options, out);
    if (status == STATUS_OK) {
        status = store_ledger_begin(options->store, options->number, &promise, &(*out)->ledger);
    }
    loading.start.fresh = options->at_once;
    loading.start.first = founders->count > 0 && same_disk(founders->at[0].id, self);
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
    if (done == 0 || !group_fits(group, 0, 0)) {
        return;
    }
    uint64_t write = group->writing[done - 1].write;
    group->writing_count -= done;
    memmove(group->writing, group->writing + done, group->writing_count * sizeof *group->writing);
    raft_persisted(&group->raft, group->out, write, now.mono_ns);
    carry_out_all(group, now);
}

void group_turn(group_t *group, moment_t now) {
    group->state = GROUP_RUNS;
    send_held(group);
    take_persisted(group, now);
    if (now.mono_ns >= group->raft.due_ns && group_fits(group, 0, 0)) {
        raft_tick(&group->raft, group->out, now.mono_ns);
        carry_out_all(group, now);
    }
    carry_out_all(group, now);
    apply_committed(group);
    copy_turn(group, now);
    group_raise_floor(group, now);
    if (group_leads(group) != (group->led_wall_ns != 0)) {
        group->led_wall_ns = group_leads(group) ? now.wall_ns : 0;
    }
    tell_news(group);
}

status_t group_propose(group_t *group, bytes_t bytes, uint64_t token) {
    raft_index_t index;
    if (!store_ledger_takes(group->store, bytes.size)) {
        return STATUS_INVALID;
    }
    if (!group_leads(group) || waiting_reserve(group) != STATUS_OK || !group_proposes(group, bytes.size)) {
        return STATUS_AGAIN;
    }
    if (!raft_propose(&group->raft, group->out, 1, &index)) {
        return STATUS_AGAIN;
    }
    group->waiting[group->waiting_count++] = (waiting_t){.index = index, .token = token};
    group->proposed = bytes;
    carry_out_writes(group);
    group->proposed = BYTES_NONE;
    return STATUS_OK;
}

/* How many of a message's first entries the log has already; *keeps: what lies behind this one is cut for the others.
 * One that does not fit the log writes nothing at all. */
static uint32_t held_of(const raft_t *raft, const raft_message_t *message, raft_index_t *keeps) {
    const trail_t *trail = &raft->trail;
    raft_term_t term;
    raft_index_t from = message->index > raft->commit ? message->index : raft->commit;
    raft_index_t upto = message->index + message->count;
    raft_index_t there = upto < trail->last ? upto : trail->last;
    *keeps = trail->last;
    if (upto <= from || !trail_term(trail, from, &term) || (from == message->index && term != message->log_term)) {
        return message->count;
    }
    raft_index_t conflict = trail_conflict(trail, from + 1, there, message->entry_term);
    if (conflict != 0) {
        *keeps = there = conflict - 1;
    }
    return (uint32_t)(there - message->index);
}

/* Of a message's entries but for the first ones. */
static uint64_t bytes_behind(const frame_message_t *received, uint32_t first) {
    frame_entry_t entry;
    uint64_t bytes = 0;
    bytes_t left = received->entries;
    for (uint32_t i = 0; frame_take_entry(&left, &entry); i++) {
        bytes += i >= first ? entry.bytes.size : 0;
    }
    return bytes;
}

/* Leaves a message as many of its entries as there is room for. Those that are there already need none, and those in
 * whose place they come make room for them: else a ledger that is full of what is not committed would never hear what
 * commits it, or what replaces it. false: there is room for none of what it may cause. */
static bool receive_fits(group_t *group, frame_message_t *received) {
    raft_index_t keeps = group->ledger->last;
    uint32_t *count = &received->message.count;
    uint32_t held = *count > 0 ? held_of(&group->raft, &received->message, &keeps) : 0;
    if (group->half && *count > held) {
        frame_shorten(received, held);
        group->shortened = true;
    }
    while (!group_fits_behind(group, keeps, *count - held, bytes_behind(received, held))) {
        if (*count == held) {
            return false;
        }
        frame_shorten(received, held + (*count - held) / 2);
        group->shortened = true;
    }
    return true;
}

void group_receive(group_t *group, frame_message_t *received, moment_t now) {
    const raft_message_t *message = &received->message;
    if (group->deaf) {
        return;
    }
    if (message->subject == RAFT_STATE) {
        copy_take(group, received, now);
        return;
    }
    if (!receive_fits(group, received)) {
        group->shortened = false;
        return; /* lost, as on a network */
    }
    if (message->subject == RAFT_ENTRIES && message->term >= group->raft.term && message->refused > group->everybody) {
        group->everybody = message->refused;
    }
    group->received_from = message->index + 1;
    group->received = received->entries;
    raft_receive(&group->raft, group->out, message, now.mono_ns);
    bool led = message->subject == RAFT_ENTRIES && same_disk(message->from, group->raft.leader);
    group->told = led ? message->commit : group->told;
    carry_out_all(group, now);
    group->received = BYTES_NONE;
    group->shortened = false;
}

/* Raft lets a learner vote that lacks few entries. One that lacks what the log has no more needs a copy first, however
 * short the log is: until that is there, it would be one of a majority that has nothing. */
static bool lacks_log_begin(const group_t *group, raft_disk_t id) {
    const raft_t *raft = &group->raft;
    for (uint32_t i = 0; i < raft_members(raft)->count; i++) {
        if (same_disk(raft_members(raft)->at[i].id, id)) {
            return raft->progress[i].match < raft->trail.base;
        }
    }
    return false;
}

bool group_alter(group_t *group, raft_change_t change, raft_disk_t id, moment_t now) {
    if (change == RAFT_PROMOTE && lacks_log_begin(group, id)) {
        return false;
    }
    bool altered = group_fits(group, 1, FRAME_MEMBERS_SIZE_MAX) && raft_alter(&group->raft, group->out, change, id);
    carry_out_all(group, now);
    return altered;
}

bool group_transfer(group_t *group, raft_disk_t to, moment_t now) {
    return raft_transfer(&group->raft, to, now.mono_ns);
}

/* ---- what its owner keeps with it -------------------------------------------------------------------------------- */

void group_note(group_t *group, bytes_t note) {
    store_ledger_note(group->ledger, note);
}

status_t group_touch(group_t *group) {
    return store_ledger_touch(group->ledger);
}

void group_halve(group_t *group, bool half) {
    group->half = half;
}
