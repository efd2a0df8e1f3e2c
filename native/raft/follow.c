/* follow.c: a follower's log: which entries of its leader fit, which of its own have to go, what it may commit.
 *
 *     own log    1 1 1 2 2          prev: an entry that both have
 *     ENTRIES          ^ 3 3 3      those behind it that differ are cut off, the others stay: the message may be old
 */
#include "raft/raft.h"

#include "base/check.h"
#include "raft/private.h"

static void refuse_entries(raft_t *raft, raft_outputs_t *out, const raft_message_t *message) {
    raft_index_t hint = message->index == 0 ? 0 : trail_before(&raft->trail, message->index - 1, message->log_term);
    raft_message_t *answer = raft_say(raft, out, RAFT_TAKEN, message->from, 0);
    answer->refused = message->index;
    answer->index = hint > raft->commit ? hint : raft->commit;
    check(trail_term(&raft->trail, answer->index, &answer->log_term));
    answer->stamp_ns = message->stamp_ns;
    answer->entry_term = 1; /* it waits for no disk, and so promises no more than ever */
}

/* Its leader's times are its own. The disk has the longest promise that may hold still: of a longer one it hears when
 * that is asked for, and of a shorter one when the longer ones end before. */
static void keep_promise(raft_t *raft, raft_outputs_t *out, const raft_message_t *message, int64_t now_ns) {
    raft->patience = message->patience < RAFT_PATIENCE_MAX ? message->patience : RAFT_PATIENCE_MAX;
    bool shorter =
        raft->patience < raft->kept && (raft->promise_ns <= now_ns + raft_election_ns(raft) || !RULE(PROMISE_ON_DISK));
    raft_promise(raft, now_ns);
    if (raft->patience <= raft->kept && !shorter) return;
    raft->kept = raft->patience;
    raft_save(raft, out);
}

static void cut_log(raft_t *raft, raft_outputs_t *out, raft_index_t behind) {
    check(behind >= raft->commit || !RULE(CUT_CONFLICT));
    trail_cut(&raft->trail, behind);
    if (raft->firm > behind) raft->firm = behind;
    for (uint32_t i = 0; i < raft->writing_count; i++) {
        if (raft->writing[i].last > behind) raft->writing[i].last = behind;
    }
    /* Only the last change can be one that is not committed, so the one before it is all that is kept. */
    if (raft->configs[1].index > behind && RULE(CHANGE_BACK)) raft->configs[1] = raft->configs[0];
    raft_output_t *output = raft_put(out, RAFT_CUT);
    output->from = behind;
    output->write = ++raft->write;
    raft_note_write(raft, output->write);
}

static void learn_members(raft_t *raft, const raft_message_t *message, raft_index_t from) {
    for (uint32_t i = 0; i < message->config_count; i++) {
        if (message->configs[i].index < from) continue;
        raft->configs[0] = raft->configs[1];
        raft->configs[1] = message->configs[i];
    }
}

/* false: no room for one more term, as if the message had been lost; or a term below that of the entry before, which
 * only a liar sends. */
static bool append_taken(raft_t *raft, raft_outputs_t *out, const raft_message_t *message, raft_index_t upto) {
    raft_index_t from = raft->trail.last + 1;
    if (message->entry_term < trail_last_term(&raft->trail)) return false;
    if (!trail_append(&raft->trail, upto - raft->trail.last, message->entry_term)) return false;
    raft_output_t *output = raft_put(out, RAFT_APPEND);
    output->from = from;
    output->upto = upto;
    output->term = message->entry_term;
    output->write = ++raft->write;
    raft_note_write(raft, output->write);
    learn_members(raft, message, from);
    return true;
}

/* Entries prev+1..upto, of which prev fits. */
static bool take_entries(raft_t *raft, raft_outputs_t *out, const raft_message_t *message, raft_index_t prev,
                         raft_index_t upto) {
    raft_index_t there = upto < raft->trail.last ? upto : raft->trail.last;
    if (message->count == 0 || upto <= prev) return true;
    raft_index_t conflict = trail_conflict(&raft->trail, prev + 1, there, message->entry_term);
    if (!RULE(CUT_CONFLICT) && conflict == 0 && there < raft->trail.last) conflict = there + 1;
    if (conflict != 0) cut_log(raft, out, conflict - 1);
    return upto <= raft->trail.last || append_taken(raft, out, message, upto);
}

void raft_entries(raft_t *raft, raft_outputs_t *out, const raft_message_t *message, int64_t now_ns) {
    if (raft->role == RAFT_LEADER) return; /* of our own term: only a liar sends that */
    if (raft->role != RAFT_FOLLOWER || !same_disk(raft->leader, message->from)) {
        raft_follow(raft, out, message->term, message->from, now_ns);
    }
    raft->heard_ns = now_ns;
    keep_promise(raft, out, message, now_ns);
    raft->far = message->far;
    raft_set_due(raft, now_ns);
    if (message->entry_term > message->term) return;
    raft_term_t term;
    raft_index_t upto = message->index + message->count;
    /* What is committed is the same in every log: from there on it fits, wherever the message begins. */
    raft_index_t prev = message->index < raft->commit && RULE(FITTING) ? raft->commit : message->index;
    if (prev == message->index && prev != 0
        && (!trail_term(&raft->trail, prev, &term) || (term != message->log_term && RULE(FITTING)))) {
        refuse_entries(raft, out, message);
        return;
    }
    if (upto < prev) upto = prev;
    if (!take_entries(raft, out, message, prev, upto)) return;
    raft_index_t known = RULE(COMMIT_FITTING) ? upto : raft->trail.last;
    raft_commit_upto(raft, out, message->commit < known ? message->commit : known);
    raft_message_t *answer = raft_say(raft, out, RAFT_TAKEN, message->from, RULE(ENTRIES_ON_DISK) ? raft->write : 0);
    if (message->rests) raft_rest_heard(raft, message);
    answer->granted = true;
    answer->index = upto;
    answer->commit = raft->commit;
    answer->stamp_ns = message->stamp_ns;
    answer->entry_term = 1u + raft->patience;
}
