/* groups.c: see groups.h. */
#include "group/groups.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/check.h"
#include "group/groups_private.h"

#define FRAME_ROOM_MIN 4096u
#define FRAME_ROOM (1u << 20) /* of a frame, unless one entry alone needs more */
#define LOOK_NS (10 * NS_PER_MS)
#define SEATS_MIN 8

const raft_times_t groups_times = {.election_ns = 1500 * NS_PER_MS,
                                   .lease_ns = 1200 * NS_PER_MS,
                                   .beat_ns = 200 * NS_PER_MS,
                                   .rest_ns = 600 * NS_PER_MS};

/* ---- frames out -------------------------------------------------------------------------------------------------- */

static void outgoing_flush(groups_t *groups, outgoing_t *outgoing) {
    if (outgoing->writer.at == NULL) {
        return;
    }
    uint32_t size = frame_end(&outgoing->writer);
    groups->stats.frames_out++;
    groups->stats.bytes_out += size;
    outgoing->writer.at = NULL;
    groups->hooks.deliver(groups->hooks.context, outgoing->peer, bytes_of(outgoing->at, size));
    if (outgoing->room > FRAME_ROOM) {
        free(outgoing->at);
        outgoing->at = NULL;
        outgoing->room = 0;
    }
}

static outgoing_t *outgoing_to(groups_t *groups, uint64_t peer) {
    for (uint64_t i = 0; i < groups->outgoing_count; i++) {
        if (groups->outgoing[i].peer == peer) {
            return &groups->outgoing[i];
        }
    }
    if (array_reserve(&groups->outgoing, &groups->outgoing_room, groups->outgoing_count + 1, SEATS_MIN,
                      sizeof *groups->outgoing)
        != STATUS_OK) {
        return NULL;
    }
    outgoing_t *outgoing = &groups->outgoing[groups->outgoing_count++];
    *outgoing = (outgoing_t){.peer = peer};
    return outgoing;
}

/* Room for so many bytes in all. */
static bool outgoing_reserve(outgoing_t *outgoing, uint32_t size) {
    uint32_t room = outgoing->room == 0 ? FRAME_ROOM_MIN : outgoing->room;
    while (room < size && room < FRAME_ROOM) {
        room *= 2;
    }
    room = room < size ? size : room;
    if (room > outgoing->room) {
        uint8_t *at = realloc(outgoing->at, room);
        if (at == NULL) {
            return false;
        }
        outgoing->at = at;
        outgoing->room = room;
        if (outgoing->writer.at != NULL) {
            outgoing->writer.at = at;
            outgoing->writer.room = room;
        }
    }
    return true;
}

frame_writer_t *groups_frame(void *context, raft_disk_t to, uint32_t need) {
    groups_t *groups = context;
    bool reached = need <= FRAME_SIZE_MAX - FRAME_HEAD && marks_allow(&groups->marks, to)
                   && groups->hooks.reaches(groups->hooks.context, to.peer);
    outgoing_t *outgoing = reached ? outgoing_to(groups, to.peer) : NULL;
    if (outgoing == NULL) {
        groups->stats.refused++;
        return NULL;
    }
    frame_writer_t *writer = &outgoing->writer;
    bool full = writer->at != NULL && (writer->size + need > FRAME_ROOM || writer->messages == FRAME_MESSAGES_MAX);
    if (full || outgoing->to.disk != to.disk) {
        outgoing_flush(groups, outgoing);
    }
    if (!outgoing_reserve(outgoing, need + (writer->at != NULL ? writer->size : FRAME_HEAD))) {
        groups->stats.refused++;
        return NULL;
    }
    if (writer->at == NULL) {
        outgoing->to = to;
        frame_begin(writer, outgoing->at, outgoing->room, groups->self, to, groups->now.mono_ns);
    }
    return writer;
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */

status_t groups_open(store_t *store, uint64_t peer, groups_hooks_t hooks, groups_t **out) {
    uint64_t disk;
    check(peer != 0);
    *out = NULL;
    if (!store_ledger_disk(store, &disk)) {
        return STATUS_IO;
    }
    groups_t *groups = calloc(1, sizeof *groups);
    if (groups == NULL) {
        return STATUS_NO_MEMORY;
    }
    groups->store = store;
    groups->self = (raft_disk_t){.peer = peer, .disk = disk};
    groups->hooks = hooks;
    groups->due_ns = INT64_MAX;
    groups->pairs_due_ns = INT64_MAX;
    *out = groups;
    return STATUS_OK;
}

void groups_close(groups_t *groups) {
    if (groups == NULL) {
        return;
    }
    for (uint64_t i = 0; i < groups->count; i++) {
        group_close(groups->seats[i].group);
    }
    for (uint64_t i = 0; i < groups->outgoing_count; i++) {
        free(groups->outgoing[i].at);
    }
    free(groups->seats);
    free(groups->outgoing);
    free(groups->pairs);
    marks_free(&groups->marks);
    free(groups);
}

uint64_t seat_at(const groups_t *groups, uint64_t name) {
    uint64_t low = 0;
    uint64_t high = groups->count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (groups->seats[middle].name < name) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

group_t *groups_named(const groups_t *groups, uint64_t name) {
    uint64_t at = seat_at(groups, name);
    return at < groups->count && groups->seats[at].name == name ? groups->seats[at].group : NULL;
}

group_t *groups_next(const groups_t *groups, const group_t *before) {
    uint64_t at = before == NULL ? 0 : seat_at(groups, group_name(before)) + 1;
    return at < groups->count ? groups->seats[at].group : NULL;
}

void groups_due(groups_t *groups, seat_t *seat) {
    seat->due_ns = group_deadline(seat->group);
    groups->due_ns = seat->due_ns < groups->due_ns ? seat->due_ns : groups->due_ns;
}

void groups_lost(groups_t *groups, uint64_t peer, moment_t now) {
    for (uint64_t i = 0; i < groups->count; i++) {
        if (raft_lost(&groups->seats[i].group->raft, peer, now.mono_ns)) {
            groups_due(groups, &groups->seats[i]);
        }
    }
}

void groups_stir(groups_t *groups, group_t *group) {
    seat_t *seat = &groups->seats[seat_at(groups, group_name(group))];
    seat->awake = true;
    groups->stirred = true;
    groups_due(groups, seat);
}

static group_options_t complete(groups_t *groups, group_options_t options) {
    options.store = groups->store;
    options.peer = groups->self.peer;
    options.outputs = &groups->outputs;
    options.hooks.frame = groups_frame;
    options.hooks.frame_context = groups;
    groups->session = groups->session == 0 ? options.seed : groups->session;
    return options;
}

static void seat_take(groups_t *groups, group_t *group) {
    uint64_t at = seat_at(groups, group_name(group));
    memmove(groups->seats + at + 1, groups->seats + at, (groups->count - at) * sizeof *groups->seats);
    groups->seats[at] = (seat_t){.group = group, .name = group_name(group)};
    groups->count++;
    marks_stir(&groups->marks);
    groups_stir(groups, group);
}

static status_t seat_reserve(groups_t *groups) {
    return array_reserve(&groups->seats, &groups->room, groups->count + 1, SEATS_MIN, sizeof *groups->seats);
}

status_t groups_make(groups_t *groups, group_options_t options, moment_t now, group_t **out) {
    options = complete(groups, options);
    *out = NULL;
    if (groups_named(groups, options.name) != NULL) {
        return STATUS_EXISTS;
    }
    status_t status = seat_reserve(groups);
    status = status == STATUS_OK ? group_make(&options, now, out) : status;
    if (status == STATUS_OK) {
        seat_take(groups, *out);
    }
    return status;
}

status_t groups_load(groups_t *groups, group_options_t options, moment_t now, group_t **out) {
    options = complete(groups, options);
    *out = NULL;
    status_t status = seat_reserve(groups);
    status = status == STATUS_OK ? group_open(&options, now, out) : status;
    if (*out != NULL && groups_named(groups, group_name(*out)) != NULL) {
        group_close(*out);
        *out = NULL;
        return STATUS_EXISTS;
    }
    if (*out != NULL) {
        seat_take(groups, *out);
    }
    return status;
}

void groups_damaged(groups_t *groups, uint32_t number) {
    marks_damaged(&groups->marks, number);
}

static uint64_t seat_of(const groups_t *groups, const group_t *group) {
    uint64_t at = seat_at(groups, group_name(group));
    check(at < groups->count && groups->seats[at].group == group);
    return at;
}

static void seat_drop(groups_t *groups, uint64_t at) {
    groups->count--;
    memmove(groups->seats + at, groups->seats + at + 1, (groups->count - at) * sizeof *groups->seats);
}

void groups_leave(groups_t *groups, group_t *group) {
    seat_drop(groups, seat_of(groups, group));
    group_close(group);
}

status_t groups_remove(groups_t *groups, group_t *group) {
    uint64_t at = seat_of(groups, group);
    status_t status = group_remove(group);
    if (status == STATUS_OK) {
        seat_drop(groups, at);
    }
    return status;
}

status_t groups_alone(groups_t *groups, group_t *group, uint64_t name, moment_t now) {
    uint64_t at = seat_of(groups, group);
    if (groups_named(groups, name) != NULL) {
        return STATUS_EXISTS;
    }
    groups_stir(groups, group);
    status_t status = group_alone(group, name, now);
    if (status == STATUS_OK) {
        seat_drop(groups, at);
        seat_take(groups, group);
    }
    return status;
}

/* ---- frames in --------------------------------------------------------------------------------------------------- */

static bool knows_member(const groups_t *groups, raft_disk_t id) {
    for (uint64_t i = 0; i < groups->count; i++) {
        const raft_config_t *members = raft_members(&groups->seats[i].group->raft);
        for (uint32_t place = 0; place < members->count; place++) {
            if (same_disk(members->at[place].id, id)) {
                return true;
            }
        }
    }
    return false;
}

void groups_receive(groups_t *groups, uint64_t peer, bytes_t bytes, moment_t now) {
    frame_t frame;
    frame_message_t message;
    groups->now = now;
    if (!frame_open(&frame, bytes) || frame.from.peer != peer || frame.to.peer != groups->self.peer
        || frame.to.disk != groups->self.disk) {
        groups->stats.bad++;
        return;
    }
    groups->stats.frames_in++;
    groups->stats.bytes_in += bytes.size;
    if (frame.left == 0) {
        marks_hear(&groups->marks, groups->store, &frame, knows_member(groups, frame.from));
    }
    if (!marks_allow(&groups->marks, frame.from) || marks_stop(&groups->marks)) {
        return; /* lost, as on a network */
    }
    while (frame_next(&frame, &message)) {
        if (message.message.subject == RAFT_PAIR || message.message.subject == RAFT_PAIRED) {
            pairs_receive(groups, &message, now);
            continue;
        }
        group_t *group = groups_named(groups, message.group);
        if (group == NULL) {
            groups->stats.unknown++;
            continue;
        }
        group_receive(group, &message, now);
        groups_stir(groups, group);
    }
}

/* ---- turns ------------------------------------------------------------------------------------------------------- */

/* true: one is still awake. */
static bool turn_awake(groups_t *groups, bool due, bool all, moment_t now) {
    bool stirred = false;
    for (uint64_t i = 0; i < groups->count; i++) {
        seat_t *seat = &groups->seats[i];
        if (due && now.mono_ns >= seat->due_ns) {
            seat->due_ns = group_deadline(seat->group);
        }
        if (seat->awake || all || (due && now.mono_ns >= seat->due_ns)) {
            group_turn(seat->group, now);
            seat->awake = !group_rests(seat->group);
            stirred = stirred || seat->awake;
            groups_due(groups, seat);
        } else if (due && seat->due_ns < groups->due_ns) {
            groups->due_ns = seat->due_ns;
        }
    }
    return stirred;
}

/* All members of all groups hear of this disk, also those that it has nothing else to say to. */
static void turn_marks(groups_t *groups, moment_t now) {
    const marks_way_t way = {.context = groups->hooks.context,
                             .reaches = groups->hooks.reaches,
                             .deliver = groups->hooks.deliver,
                             .self = groups->self};
    for (uint64_t i = 0; i < groups->count; i++) {
        const raft_config_t *members = raft_members(&groups->seats[i].group->raft);
        for (uint32_t place = 0; place < members->count; place++) {
            if (!same_disk(members->at[place].id, groups->self)) {
                (void)marks_allow(&groups->marks, members->at[place].id);
            }
        }
    }
    marks_turn(&groups->marks, groups->store, &way, now);
}

void groups_turn(groups_t *groups, moment_t now) {
    uint64_t lingers = store_lingers(groups->store);
    bool all = store_checkpoint_soon(groups->store, now) || lingers != groups->lingers;
    bool due = all || now.mono_ns >= groups->due_ns;
    groups->now = now;
    groups->lingers = lingers;
    if (due) {
        groups->due_ns = INT64_MAX;
    }
    if ((due || groups->stirred) && !marks_stop(&groups->marks)) {
        groups->stirred = turn_awake(groups, due, all, now);
    }
    if (due && groups->pairs_due_ns == INT64_MAX) { /* some may be at rest now */
        groups->pairs_due_ns = raft_next_beat(groups_times.beat_ns, now.mono_ns);
    }
    if (due && groups->due_ns < now.mono_ns + LOOK_NS) {
        groups->due_ns = now.mono_ns + LOOK_NS;
    }
    if (marks_stop(&groups->marks)) {
        groups->pairs_due_ns = INT64_MAX;
    } else {
        pairs_turn(groups, now);
    }
    for (uint64_t i = 0; i < groups->outgoing_count; i++) {
        outgoing_flush(groups, &groups->outgoing[i]);
    }
    if (now.mono_ns >= marks_deadline(&groups->marks, groups->store)) {
        turn_marks(groups, now);
    }
}

int64_t groups_deadline(const groups_t *groups) {
    int64_t marks_ns = marks_deadline(&groups->marks, groups->store);
    int64_t due_ns = groups->due_ns < groups->pairs_due_ns ? groups->due_ns : groups->pairs_due_ns;
    return due_ns < marks_ns ? due_ns : marks_ns;
}

/* ---- looks ------------------------------------------------------------------------------------------------------- */

raft_disk_t groups_self(const groups_t *groups) {
    return groups->self;
}

groups_stats_t groups_stats(const groups_t *groups) {
    groups_stats_t stats = groups->stats;
    stats.groups = groups->count;
    return stats;
}
