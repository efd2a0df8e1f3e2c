/* copy.c: copies of a group's state, for members that lack entries which no log has any more: a new one, one that was
 * away for long, or one whose disk was put back.
 *
 *     leader      COPYING --> hooks.save, RAFT_STATE: members and state at what is applied --> again, if nothing comes
 *     follower    hooks.restore, and the log begins anew behind it: one batch --> on disk --> TAKEN, the log goes on
 *
 * Such a copy is one message of one frame, so a state has at most COPY_STATE_MAX bytes, and no more than a batch of the
 * follower takes at once. That is enough for a table of a group's own. A stream is copied in parts: what both sides
 * say of it is their owner's (replica_copy.c), and what is here is that they hear each other, that the log is kept
 * meanwhile, and that it begins anew behind the copy.
 */
#include "base/check.h"
#include "group/private.h"

#define COPY_ENTRIES 2u /* members, state */
#define COPY_HEADS (FRAME_MESSAGE_HEAD + COPY_ENTRIES * FRAME_ENTRY_HEAD + FRAME_MEMBERS_SIZE_MAX)
#define COPY_STATE_MAX (FRAME_SIZE_MAX - FRAME_HEAD - COPY_HEADS)
#define AGAIN_NS NS_PER_SECOND /* when there is no way, or the state cannot be read */
#define HOLD_NS (10 * NS_PER_SECOND)
#define WAIT_NS (2 * NS_PER_SECOND)
#define WAIT_MAX_NS (60 * NS_PER_SECOND)

/* ---- the leader -------------------------------------------------------------------------------------------------- */

static bool put_copy(group_t *group, const raft_message_t *message) {
    uint8_t members[FRAME_MEMBERS_SIZE_MAX];
    group->applying.size = 0;
    if (!group->hooks.save(group->hooks.context, &group->applying) || group->applying.size > COPY_STATE_MAX) {
        return false;
    }
    bytes_t state = bytes_of(group->applying.at, (uint32_t)group->applying.size);
    uint32_t need = COPY_HEADS + state.size;
    frame_writer_t *writer = group->hooks.frame(group->hooks.frame_context, message->to, need);
    if (writer == NULL || !frame_put(writer, group->ledger->promise.name, message)) {
        return false;
    }
    uint32_t size = frame_write_members(members, &group->members);
    /* The frame has room for all of it. */
    check(frame_put_entry(writer, RAFT_MEMBERS, bytes_of(members, size)));
    check(frame_put_entry(writer, RAFT_DATA, state));
    return true;
}

static void send_copy(group_t *group, copying_t *copying, moment_t now) {
    raft_message_t message = {.subject = RAFT_STATE,
                              .from = group->raft.self,
                              .to = copying->to,
                              .term = group->raft.term,
                              .index = group->ledger->applied};
    copying->due_ns = now.mono_ns + AGAIN_NS;
    if (!trail_term(&group->raft.trail, message.index, &message.log_term) || !put_copy(group, &message)) {
        return;
    }
    int64_t longer_ns = copying->wait_ns == 0 ? WAIT_NS : 2 * copying->wait_ns;
    copying->wait_ns = longer_ns < WAIT_MAX_NS ? longer_ns : WAIT_MAX_NS;
    copying->due_ns = now.mono_ns + copying->wait_ns;
    copying->upto = message.index;
}

static bool needs_copy(const group_t *group, uint32_t place) {
    return group->raft.role == RAFT_LEADER && group->raft.progress[place].pace == RAFT_COPYING;
}

static bool is_kept_for(const group_t *group, uint32_t place, moment_t now) {
    const copying_t *copying = &group->copying[place];
    return copying->held_ns > now.mono_ns && group->raft.progress[place].match < copying->upto;
}

bool copy_goes(const group_t *group, uint32_t place) {
    return needs_copy(group, place) || group->copying[place].held_ns != 0;
}

static void copying_turn(group_t *group, uint32_t place, moment_t now) {
    copying_t *copying = &group->copying[place];
    raft_disk_t to = raft_members(&group->raft)->at[place].id;
    bool needs = needs_copy(group, place);
    if (!needs && !is_kept_for(group, place, now)) {
        *copying = (copying_t){0};
        return;
    }
    if (!same_disk(copying->to, to)) {
        *copying = (copying_t){.to = to};
    }
    if (!needs || now.mono_ns < copying->due_ns) {
        return;
    }
    if (group->hooks.save != NULL) {
        send_copy(group, copying, now);
    } else {
        copying->due_ns = now.mono_ns + AGAIN_NS;
        group->hooks.copying(group->hooks.context, to, now);
        group->news = true;
    }
}

void copy_turn(group_t *group, moment_t now) {
    if (group->hooks.save == NULL && group->hooks.copying == NULL) {
        return;
    }
    for (uint32_t place = 0; place < raft_members(&group->raft)->count; place++) {
        copying_turn(group, place, now);
    }
}

raft_index_t copy_sent(const group_t *group, uint32_t place) {
    const copying_t *copying = &group->copying[place];
    bool sent = copying->upto != 0 && same_disk(copying->to, raft_members(&group->raft)->at[place].id);
    return sent ? copying->upto : RAFT_INDEX_MAX;
}

void group_hold(group_t *group, raft_disk_t to, raft_index_t index, moment_t now) {
    for (uint32_t place = 0; place < raft_members(&group->raft)->count; place++) {
        copying_t *copying = &group->copying[place];
        if (same_disk(raft_members(&group->raft)->at[place].id, to)) {
            int64_t due_ns = same_disk(copying->to, to) ? copying->due_ns : 0;
            *copying = (copying_t){.to = to, .upto = index, .held_ns = now.mono_ns + HOLD_NS, .due_ns = due_ns};
        }
    }
}

/* ---- parts of a copy --------------------------------------------------------------------------------------------- */

bool group_say(group_t *group, raft_disk_t to, raft_index_t index, bytes_t bytes) {
    uint8_t members[FRAME_MEMBERS_SIZE_MAX];
    raft_message_t message = {
        .subject = RAFT_STATE, .from = group->raft.self, .to = to, .term = group->raft.term, .index = index};
    if ((index != 0 && !trail_term(&group->raft.trail, index, &message.log_term)) || bytes.size > COPY_STATE_MAX) {
        return false;
    }
    frame_writer_t *writer = group->hooks.frame(group->hooks.frame_context, to, COPY_HEADS + bytes.size);
    if (writer == NULL || !frame_put(writer, group->ledger->promise.name, &message)) {
        return false;
    }
    uint32_t size = frame_write_members(members, &group->members);
    /* The frame has room for all of it. */
    check(frame_put_entry(writer, RAFT_MEMBERS, bytes_of(members, size)));
    check(frame_put_entry(writer, RAFT_DATA, bytes));
    return true;
}

/* ---- a follower -------------------------------------------------------------------------------------------------- */

typedef struct restoring {
    group_t *group;
    raft_index_t index;
    bytes_t state;
} restoring_t;

static bool restore_state(void *context) {
    const restoring_t *restoring = context;
    const group_hooks_t *hooks = &restoring->group->hooks;
    return hooks->restore(hooks->context, restoring->index, restoring->state);
}

/* Does its own log lead there? */
static bool has_it(const raft_t *raft, const raft_message_t *message) {
    raft_term_t own;
    return message->index <= raft->commit
           || (trail_term(&raft->trail, message->index, &own) && own == message->log_term);
}

static bool is_leaders(const raft_t *raft, const raft_message_t *message) {
    return raft->role == RAFT_FOLLOWER && message->term == raft->term && same_disk(message->from, raft->leader);
}

/* Terms are as a leader's log has them. */
static bool is_of_log(const raft_t *raft, const raft_message_t *message) {
    raft_term_t committed = 0;
    return trail_term(&raft->trail, raft->commit, &committed) && message->log_term >= committed
           && message->log_term <= message->term;
}

static bool reset_to(group_t *group, raft_index_t index, raft_term_t term, const raft_config_t *members,
                     bool (*write)(void *context), void *context) {
    uint8_t bytes[FRAME_MEMBERS_SIZE_MAX];
    uint32_t size = frame_write_members(bytes, members);
    const ledger_promise_t begin = {.floor = index, .floor_term = term, .members = bytes_of(bytes, size)};
    if (store_ledger_reset(group->ledger, &begin, write, context) != STATUS_OK) {
        return false;
    }
    group->members = *members;
    group->committed = index;
    return true;
}

bool group_restore(group_t *group, const group_said_t *said, bool (*write)(void *context), void *context,
                   moment_t now) {
    if (group->raft.role != RAFT_FOLLOWER || said->index <= group->raft.trail.last
        || !reset_to(group, said->index, said->log_term, &said->members, write, context)) {
        return false;
    }
    (void)raft_copied(&group->raft, group->out, said->index, said->log_term, &said->members);
    carry_out_all(group, now);
    return true;
}

void copy_take(group_t *group, const frame_message_t *received, moment_t now) {
    const raft_message_t *message = &received->message;
    const raft_t *raft = &group->raft;
    bytes_t entries = received->entries;
    frame_entry_t members;
    frame_entry_t state;
    bool parts = group->hooks.heard != NULL;
    bool asked = parts && raft->role == RAFT_LEADER && message->term == raft->term;
    if (!parts && group->hooks.restore == NULL) {
        return;
    }
    if (!asked && !(is_leaders(raft, message) && ((parts && message->index == 0) || is_of_log(raft, message)))) {
        return;
    }
    if (message->count != COPY_ENTRIES || !frame_take_entry(&entries, &members) || members.kind != RAFT_MEMBERS
        || !frame_take_entry(&entries, &state) || state.kind != RAFT_DATA) {
        return;
    }
    raft_config_t config = received->configs[0];
    config.index = message->index;
    if (parts) {
        const group_said_t said = {.from = message->from,
                                   .of_leader = !asked,
                                   .index = message->index,
                                   .log_term = message->log_term,
                                   .members = config,
                                   .bytes = state.bytes};
        group->hooks.heard(group->hooks.context, &said, now);
        group->news = true;
        return;
    }
    restoring_t restoring = {.group = group, .index = message->index, .state = state.bytes};
    if (!has_it(raft, message)
        && !reset_to(group, message->index, message->log_term, &config, restore_state, &restoring)) {
        return;
    }
    (void)raft_copied(&group->raft, group->out, message->index, message->log_term, &config);
    carry_out_all(group, now);
}
