/* carry.c: carries out what raft asks for: writes into the ledger, messages into frames. */
#include "base/check.h"
#include "group/private.h"
#include "store/room.h"

/* ---- writing what raft asks for ---------------------------------------------------------------------------------- */

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

static void put_entry(group_t *group, raft_index_t index, raft_term_t term, raft_kind_t kind, bytes_t bytes) {
    const ledger_entry_t entry = {.index = index, .term = term, .kind = (uint8_t)kind, .bytes = bytes};
    check(store_ledger_put(group->ledger, &entry) == STATUS_OK);
}

static void append_own(group_t *group, const raft_output_t *output) {
    uint8_t members[FRAME_MEMBERS_SIZE_MAX];
    bytes_t bytes = output->kind == RAFT_DATA ? group->proposed : BYTES_NONE;
    if (output->kind == RAFT_MEMBERS) {
        bytes = bytes_of(members, frame_write_members(members, raft_members(&group->raft)));
        memset(group->wanted_ns, 0, sizeof group->wanted_ns); /* places are others' now */
    }
    check(output->from == output->upto);
    put_entry(group, output->from, output->term, output->kind, bytes);
}

/* Those of the message that raft is asked about, from one of them on. */
static void append_received(group_t *group, const raft_output_t *output) {
    frame_entry_t entry;
    bytes_t left = group->received;
    for (raft_index_t index = group->received_from; index <= output->upto; index++) {
        check(frame_take_entry(&left, &entry));
        if (index >= output->from) {
            put_entry(group, index, output->term, entry.kind, entry.bytes);
        }
    }
}

bool group_entry(group_t *group, raft_index_t index, ledger_entry_t *entry) {
    switch (store_ledger_get(group->ledger, index, entry)) {
    case READ_UNKNOWN:
    case READ_NONE: group->state = GROUP_UNREADABLE; return false;
    case READ_FOUND: break;
    }
    return true;
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/* In as many frames as they need. What is not sent is lost, as on a network: raft sends it again. */
static void put_entries(group_t *group, raft_message_t message) {
    uint32_t left = message.count;
    message.refused = group->everybody; /* raft has no use for the word here: frame.h */
    do {
        ledger_entry_t entry = {0};
        if (left > 0 && !group_entry(group, message.index + 1, &entry)) {
            return;
        }
        uint32_t need = FRAME_MESSAGE_HEAD + (left > 0 ? FRAME_ENTRY_HEAD + entry.bytes.size : 0);
        frame_writer_t *writer = group->hooks.frame(group->hooks.frame_context, message.to, need);
        if (writer == NULL || !frame_put(writer, group->ledger->promise.name, &message)) {
            return;
        }
        while (left > 0
               && frame_put_entry(writer, (raft_kind_t)entry.kind, bytes_of(entry.bytes.at, entry.bytes.size))) {
            message.index++;
            if (--left > 0 && !group_entry(group, message.index + 1, &entry)) {
                return;
            }
        }
        message.log_term = message.entry_term;
    } while (left > 0);
}

static void send_now(group_t *group, const raft_message_t *message) {
    if (message->subject == RAFT_ENTRIES) {
        put_entries(group, *message);
        return;
    }
    frame_writer_t *writer = group->hooks.frame(group->hooks.frame_context, message->to, FRAME_MESSAGE_HEAD);
    if (writer != NULL) {
        (void)frame_put(writer, group->ledger->promise.name, message);
    }
}

/* The batch that a write is in; 0: it is on the disk. */
static uint64_t batch_of(const group_t *group, uint64_t write) {
    for (uint32_t i = 0; write != 0 && i < group->writing_count; i++) {
        if (group->writing[i].write >= write) {
            return group->writing[i].batch > store_ledger_synced(group->store) ? group->writing[i].batch : 0;
        }
    }
    return 0;
}

/* Of the acknowledgements that one batch makes true, the last says what the others would. */
static held_t *held_like(group_t *group, uint64_t batch, const raft_message_t *message) {
    for (uint32_t i = 0; i < group->held_count; i++) {
        const raft_message_t *other = &group->held[i].message;
        if (group->held[i].batch == batch && message->subject == RAFT_TAKEN && other->subject == RAFT_TAKEN
            && message->granted && other->granted && message->term == other->term && message->index >= other->index
            && same_disk(message->to, other->to)) {
            return &group->held[i];
        }
    }
    return NULL;
}

static void group_send(group_t *group, const raft_output_t *output) {
    uint64_t batch = batch_of(group, output->after);
    if (batch == 0) {
        send_now(group, &output->message);
        return;
    }
    held_t *held = held_like(group, batch, &output->message);
    if (held == NULL) {
        if (group->held_count == HELD_MAX) {
            return; /* lost, as on a network */
        }
        held = &group->held[group->held_count++];
    }
    *held = (held_t){.batch = batch, .message = output->message};
}

void send_held(group_t *group) {
    uint64_t synced = store_ledger_synced(group->store);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < group->held_count; i++) {
        if (group->held[i].batch <= synced) {
            send_now(group, &group->held[i].message);
        } else {
            group->held[kept++] = group->held[i];
        }
    }
    group->held_count = kept;
}

/* ---- all that raft asks for -------------------------------------------------------------------------------------- */

static void take_role(group_t *group) {
    group->news = true;
    store_ledger_lead(group->ledger, group_leads(group));
    if (group->raft.role == RAFT_LEADER) {
        group->everybody = 0; /* what they have, it has yet to hear */
        memset(group->wanted_ns, 0, sizeof group->wanted_ns);
        memset(group->copying, 0, sizeof group->copying);
    } else {
        answer_upto(group, UINT64_MAX, false);
    }
}

static void save_promise(group_t *group, const raft_output_t *output) {
    const ledger_promise_t promise = {.term = output->term,
                                      .patience = output->patience,
                                      .vote_peer = output->vote.peer,
                                      .vote_disk = output->vote.disk};
    check(store_ledger_promise(group->ledger, &promise) == STATUS_OK);
}

static void carry_out(group_t *group, const raft_output_t *output) {
    switch (output->action) {
    case RAFT_SAVE: save_promise(group, output); break;
    case RAFT_CUT: check(store_ledger_cut(group->ledger, output->from) == STATUS_OK); break;
    case RAFT_APPEND:
        if (group->received.size > 0) {
            append_received(group, output);
        } else {
            append_own(group, output);
        }
        break;
    case RAFT_COMMIT: group->committed = output->upto; return;
    case RAFT_SEND: group_send(group, output); return;
    case RAFT_ROLE: take_role(group); return;
    case RAFT_RESET: group->news = true; break; /* it is in the batch: copy_take */
    case RAFT_COPY: return;                     /* copy_turn sees it by the member's pace */
    }
    note_write(group, output->write);
}

void carry_out_writes(group_t *group) {
    raft_output_t output;
    while (raft_next_write(group->out, &output)) {
        carry_out(group, &output);
    }
}

void carry_out_all(group_t *group, moment_t now) {
    raft_output_t output;
    while (raft_next(&group->raft, group->out, &output, now.mono_ns)) {
        /* Or the leader would send the rest at once, again and again. */
        bool taken = output.message.subject == RAFT_TAKEN;
        output.message.full = group->shortened && taken && output.message.granted;
        output.message.tight = taken && store_tight(group->store);
        carry_out(group, &output);
    }
}

void tell_news(group_t *group) {
    bool current = group_current(group);
    bool news = group->news || current != group->was_current || !group_rests(group);
    group->news = false;
    group->was_current = current;
    if (news && group->hooks.news != NULL) {
        group->hooks.news(group->hooks.context);
    }
}
