/* replica_copy.c: a stream for a member whose log lacks what no other log has any more, from its leader's snapshot
 * (store/copying.h).
 *
 *     leader                          member
 *     OFFER, each second         -->
 *                                <--  ASK: no copy yet; the last sequence and the last index that it has
 *     snapshot; the log is kept
 *     from there on
 *     PART 0                     -->  noted on the disk: half a state
 *                                <--  ASK for part 1, when part 0 is in the open batch
 *                                     (if it takes one ahead, part 1 is on its way already, and it asks for that)
 *     ..                              ..
 *     the last PART              -->  numbers, note and the log's new beginning, in one batch; the log goes on
 *
 *     OFFER   version 1  'O'
 *     ASK     version 1  'A'  copy 8 (0: a new one)  part 4 (of a new one: how many it takes ahead)
 *             last sequence 8  last index 8
 *     PART    version 1  'P'  copy 8  part 4  records (store/copying.h)
 *
 * - The member asks, so it is never sent more than it takes, and parts are as large as the way there carries soon. One
 *   that hears nothing asks anew, for a copy that begins with what is still missing. So does the member of a new
 *   leader, and one that starts with half a state.
 * - While one part is taken in, and while it is asked for the next, another one is on its way: or a line would be empty
 *   for a round trip with each part. Earlier versions take none ahead, and say so by a 0.
 * - A member with half a state applies nothing, takes no entries and so acknowledges none. It cannot be elected: a
 *   majority has all that its leader's log had done with when it said that this member needs a copy.
 * - A snapshot may be older than the log's beginning. The leader keeps the log as it is and wants the next one soon,
 *   which takes some ms. The member does not know when, so it asks soon at first, and ever more seldom.
 * - Copies that do not fit are said to the operator when there were several in a row, and tried more seldom then.
 * - A snapshot keeps pages of LMDB from being used again, so it ends by time, too.
 */
#include "base/check.h"
#include "group/replica_private.h"
#include "store/alarms.h"
#include "store/timeline.h"

#define COPY_VERSION 1
#define OFFER_SIZE 2u
#define ASK_SIZE 30u
#define PART_HEAD 14u
#define PART_MIN (8u << 10)
#define PART_FIRST (16u << 10)
#define PART_MAX (256u << 10)
#define PART_KEEP (UINT64_C(64) << 10)
#define SOON_NS (200 * NS_PER_MS)   /* the next ask came so soon: the next part is twice as large .. */
#define LATE_NS (2 * NS_PER_SECOND) /* .. or half as large */
#define AGAIN_NS NS_PER_SECOND
#define LOST_NS (8 * NS_PER_SECOND) /* an ask that was not answered */
#define NONE_NS (100 * NS_PER_MS)   /* .. or for a copy, of which there may be no snapshot yet: so soon at first, .. */
#define NONE_DOUBLINGS 4u           /* .. and twice as long each time, up to 1.6 s */
#define SAME_NS (7 * NS_PER_SECOND) /* an ask for a copy that was just begun crossed its first part */
#define OFFERED_NS (3 * NS_PER_SECOND)
#define RETRY_NS (5 * NS_PER_MS) /* the rest of a part, or what found no room */
#define UNUSED_NS (10 * NS_PER_SECOND)
#define GIVING_NS (600 * NS_PER_SECOND)
#define SPOILED_FEW 3u /* copies: then it is said, and the next one comes a minute later */
#define SPOILED_NS (60 * NS_PER_SECOND)

void copier_begin(replica_t *replica) {
    buffer_init(&replica->copier.bytes, UINT32_MAX);
    buffer_init(&replica->copier.next_bytes, UINT32_MAX);
}

static void giving_end(copier_t *copier) {
    store_give_end(copier->giving);
    copier->giving = NULL;
}

void copier_end(replica_t *replica) {
    giving_end(&replica->copier);
    buffer_free(&replica->copier.bytes);
    buffer_free(&replica->copier.next_bytes);
}

/* ---- a leader's side --------------------------------------------------------------------------------------------- */

void copier_offer(void *context, raft_disk_t to, moment_t now) {
    const replica_t *replica = context;
    static const uint8_t offer[OFFER_SIZE] = {COPY_VERSION, 'O'};
    (void)now;
    (void)group_say(replica->group, to, 0, bytes_of(offer, sizeof offer));
}

/* A snapshot for one who has so much. Without one it asks again. */
static bool giving_begin(replica_t *replica, raft_disk_t to, uint64_t have_seq, raft_index_t last, moment_t now) {
    copier_t *copier = &replica->copier;
    raft_index_t index;
    giving_end(copier);
    group_hold(replica->group, to, group_floor(replica->group), now);
    if (store_give_begin(replica->stream, group_number(replica->group), have_seq, &copier->giving, &index)
        != STATUS_OK) {
        store_checkpoint_want(store_stream_store(replica->stream)); /* LMDB has nothing of it yet, perhaps */
        return false;
    }
    if (index < group_floor(replica->group) || index <= last || !group_has_members(replica->group, index)) {
        giving_end(copier);
        store_checkpoint_want(store_stream_store(replica->stream));
        return false;
    }
    copier->to = to;
    copier->giving_id = (uint64_t)now.mono_ns | 1;
    copier->giving_part = 0;
    copier->ahead = 0;
    copier->part_size = PART_FIRST;
    copier->giving_index = index;
    copier->begun_ns = now.mono_ns;
    return true;
}

static void give_part(replica_t *replica, moment_t now) {
    copier_t *copier = &replica->copier;
    buffer_t *bytes = &copier->bytes; /* a leader takes no copy */
    uint8_t *head;
    bool all = false;
    bytes->size = 0;
    if (buffer_reserve(bytes, PART_HEAD, &head) != STATUS_OK) {
        return;
    }
    head[0] = COPY_VERSION;
    head[1] = 'P';
    store_be64(head + 2, copier->giving_id);
    store_be32(head + 10, copier->giving_part);
    bytes->size = PART_HEAD;
    group_hold(replica->group, copier->to, copier->giving_index, now);
    copier->used_ns = copier->given_ns[copier->giving_part % COPY_PARTS] = now.mono_ns;
    if (store_give(copier->giving, copier->part_size, bytes, &all) == STATUS_OK
        && group_say(replica->group, copier->to, copier->giving_index, bytes_of(bytes->at, (uint32_t)bytes->size))) {
        copier->giving_part++;
    } else {
        all = true; /* what cannot be read, or not be sent: it asks anew */
    }
    if (all) {
        giving_end(copier);
    }
    bytes->size = 0;
    buffer_trim(bytes, PART_KEEP);
}

static void fit_part(copier_t *copier, int64_t took_ns) {
    if (took_ns < SOON_NS && copier->part_size < PART_MAX) {
        copier->part_size *= 2;
    } else if (took_ns > LATE_NS && copier->part_size > PART_MIN) {
        copier->part_size /= 2;
    }
}

/* The part that is asked for, if it is not on its way, and those that may be beside it. */
static void give_parts(replica_t *replica, uint32_t asked, moment_t now) {
    copier_t *copier = &replica->copier;
    while (copier->giving != NULL && copier->giving_part <= asked + copier->ahead) {
        give_part(replica, now);
    }
}

static void hear_ask(replica_t *replica, const group_said_t *said, moment_t now) {
    copier_t *copier = &replica->copier;
    const uint8_t *at = said->bytes.at;
    if (said->bytes.size != ASK_SIZE || !group_ready(replica->group)) {
        return;
    }
    bool same = copier->giving != NULL && same_disk(copier->to, said->from);
    if (copier->giving != NULL && !same && now.mono_ns - copier->used_ns < UNUSED_NS) {
        return; /* another one's is on its way */
    }
    uint64_t id = load_be64(at + 2);
    uint32_t part = load_be32(at + 10);
    if (same && id == 0 && copier->giving_part <= COPY_PARTS && now.mono_ns - copier->used_ns < SAME_NS) {
        return;
    }
    if (same && id == copier->giving_id && part > 0 && part <= copier->giving_part
        && part + copier->ahead >= copier->giving_part) {
        fit_part(copier, now.mono_ns - copier->given_ns[(part - 1) % COPY_PARTS]);
        give_parts(replica, part, now);
    } else if (id == 0 && giving_begin(replica, said->from, load_be64(at + 14), load_be64(at + 22), now)) {
        copier->ahead = part < COPY_PARTS ? part : COPY_PARTS - 1;
        give_parts(replica, 0, now);
    }
}

/* ---- a member that needs a copy ---------------------------------------------------------------------------------- */

/* Its leader has said so, and lately. */
static bool is_offered(const copier_t *copier, moment_t now) {
    return now.mono_ns < copier->offered_ns;
}

static bool needs_one(const copier_t *copier, moment_t now) {
    return copier->half || is_offered(copier, now);
}

static void copier_ask(replica_t *replica, moment_t now) {
    copier_t *copier = &replica->copier;
    uint8_t at[ASK_SIZE] = {COPY_VERSION, 'A'};
    raft_disk_t leader = group_leader(replica->group);
    if (copier->id == 0) {
        stream_state_t state;
        store_stream_state(replica->stream, &state);
        copier->have_seq = state.last_seq;
    }
    store_be64(at + 2, copier->id);
    store_be32(at + 10, copier->id == 0 ? COPY_PARTS - 1 : copier->part);
    store_be64(at + 14, copier->have_seq);
    store_be64(at + 22, group_last(replica->group));
    copier->ask_ns = now.mono_ns + (copier->id == 0 ? NONE_NS << copier->unheard : LOST_NS);
    copier->unheard += copier->id == 0 && copier->unheard < NONE_DOUBLINGS;
    copier->asking = true;
    if (leader.peer != 0) {
        (void)group_say(replica->group, leader, 0, bytes_of(at, sizeof at));
    }
}

/* It begins anew, a while later. */
static void forget_copy(copier_t *copier, moment_t now) {
    copier->id = 0;
    copier->pending = copier->asking = copier->next_there = false;
    copier->bytes.size = copier->next_bytes.size = copier->at = 0;
    copier->ask_ns = now.mono_ns + AGAIN_NS;
}

/* What came is not what was counted there, or none of a copy at all. */
static void copy_spoiled(replica_t *replica, moment_t now) {
    copier_t *copier = &replica->copier;
    uint32_t stream = store_stream_id(replica->stream);
    forget_copy(copier, now);
    if (++copier->spoiled >= SPOILED_FEW) {
        copier->ask_ns = now.mono_ns + SPOILED_NS;
    }
    if (copier->spoiled == SPOILED_FEW) {
        store_alarm(store_stream_store(replica->stream), ALARM_CORRUPT, stream, 0,
                    "%u copies of stream %u that its leader gave do not fit together: this server stays behind",
                    copier->spoiled, stream);
    }
}

/* The part behind the one that is taken in. One that finds no memory is asked for again. */
static void keep_next(copier_t *copier, const group_said_t *said) {
    uint32_t part = load_be32(said->bytes.at + 10);
    bool is_next =
        load_be64(said->bytes.at + 2) == copier->id && part == copier->part + 1 && said->index == copier->said.index;
    if (!is_next || copier->next_there) {
        return;
    }
    copier->next_bytes.size = 0;
    if (buffer_append(&copier->next_bytes, said->bytes.at, said->bytes.size) == STATUS_OK) {
        copier->next = *said;
        copier->next.bytes = BYTES_NONE;
        copier->next_there = true;
    }
}

static void hear_part(replica_t *replica, const group_said_t *said, moment_t now) {
    copier_t *copier = &replica->copier;
    if (said->bytes.size < PART_HEAD || !copier->asking) {
        return;
    }
    if (copier->pending) {
        keep_next(copier, said);
        return;
    }
    uint64_t id = load_be64(said->bytes.at + 2);
    uint32_t part = load_be32(said->bytes.at + 10);
    bool first = copier->id == 0 && part == 0 && id != 0;
    if (!first && (id != copier->id || part != copier->part || said->index != copier->said.index)) {
        return;
    }
    bytes_t records = bytes_after(said->bytes, PART_HEAD);
    copier->bytes.size = copier->at = 0;
    if (buffer_append(&copier->bytes, records.at, records.size) != STATUS_OK) {
        return; /* it asks again */
    }
    if (first) {
        copier->taking = (taking_t){.have_seq = copier->have_seq};
        copier->id = id;
        copier->part = 0;
        copier->unheard = 0;
    }
    copier->said = *said;
    copier->said.bytes = BYTES_NONE;
    copier->pending = true;
    copier->retry_ns = now.mono_ns;
    copier->ask_ns = now.mono_ns + LOST_NS;
}

typedef struct ending {
    replica_t *replica;
    status_t status;
} ending_t;

static bool write_end(void *context) {
    ending_t *ending = context;
    replica_t *replica = ending->replica;
    ending->status = store_take_end(replica->stream, &replica->copier.taking);
    if (ending->status == STATUS_OK && !replica_noted(replica, replica->copier.taking.note)) {
        ending->status = STATUS_CORRUPT;
    }
    if (ending->status == STATUS_OK) {
        replica_note(replica);
    }
    return ending->status == STATUS_OK;
}

static void copier_finish(replica_t *replica, moment_t now) {
    copier_t *copier = &replica->copier;
    ending_t ending = {.replica = replica, .status = STATUS_FULL};
    if (copier->said.index <= group_last(replica->group)) {
        forget_copy(copier, now); /* its log has gone on beside */
        return;
    }
    if (group_restore(replica->group, &copier->said, write_end, &ending, now)) {
        copier->half = false;
        copier->copied++;
        copier->spoiled = 0;
        copier->offered_ns = 0;
        group_halve(replica->group, false);
        forget_copy(copier, now);
        buffer_trim(&copier->bytes, 0);
        buffer_trim(&copier->next_bytes, 0);
    } else if (ending.status == STATUS_CORRUPT) {
        copy_spoiled(replica, now);
    } else if (ending.status != STATUS_FULL) {
        forget_copy(copier, now);
    }
}

/* In the batch that has the first of it, or an earlier one. false: no room for that now. */
static bool note_half(replica_t *replica) {
    if (group_touch(replica->group) != STATUS_OK) {
        return false;
    }
    if (!replica->copier.half) {
        replica->copier.half = true;
        group_halve(replica->group, true);
    }
    replica_note(replica);
    return true;
}

static void hear_next(replica_t *replica, moment_t now) {
    copier_t *copier = &replica->copier;
    if (copier->next_there) {
        copier->next_there = false;
        copier->next.bytes = bytes_of(copier->next_bytes.at, (uint32_t)copier->next_bytes.size);
        hear_part(replica, &copier->next, now);
        copier->next.bytes = BYTES_NONE;
    }
}

static void take_part(replica_t *replica, moment_t now) {
    copier_t *copier = &replica->copier;
    bytes_t all = bytes_of(copier->bytes.at, (uint32_t)copier->bytes.size);
    bytes_t left = bytes_after(all, (uint32_t)copier->at);
    taking_t *taking = &copier->taking;
    if (taking->defines) { /* that it is half is noted */
        taking->defined = replica_is_defined(replica, taking->definition);
        taking->defines = !taking->defined;
    }
    if (taking->defines || !note_half(replica)) {
        return;
    }
    status_t status = taking->whole ? STATUS_OK : store_take(replica->stream, taking, &left);
    copier->at = all.size - left.size;
    replica_note(replica); /* its time has gone on */
    if (status == STATUS_AGAIN) {
        return;
    }
    if (status == STATUS_CORRUPT) {
        copy_spoiled(replica, now);
    } else if (status != STATUS_OK) {
        forget_copy(copier, now);
    } else if (taking->whole) {
        copier_finish(replica, now);
    } else {
        copier->pending = false;
        copier->part++;
        copier_ask(replica, now);
        hear_next(replica, now);
    }
}

/* ---- both ends of a copy ----------------------------------------------------------------------------------------- */

void copier_hear(void *context, const group_said_t *said, moment_t now) {
    replica_t *replica = context;
    copier_t *copier = &replica->copier;
    if (said->bytes.size < OFFER_SIZE || said->bytes.at[0] != COPY_VERSION) {
        return;
    }
    if (!said->of_leader) {
        if (said->bytes.at[1] == 'A') {
            hear_ask(replica, said, now);
        }
    } else if (said->bytes.at[1] == 'P') {
        hear_part(replica, said, now);
    } else if (said->bytes.at[1] == 'O') {
        copier->ask_ns = is_offered(copier, now) ? copier->ask_ns : now.mono_ns;
        copier->offered_ns = now.mono_ns + OFFERED_NS;
    }
}

void copier_turn(replica_t *replica, moment_t now) {
    copier_t *copier = &replica->copier;
    bool old = now.mono_ns - copier->used_ns >= UNUSED_NS || now.mono_ns - copier->begun_ns >= GIVING_NS;
    if (copier->giving != NULL && (old || !group_leads(replica->group))) {
        giving_end(copier);
    }
    if (group_leads(replica->group)) {
        copier->offered_ns = 0;
        if (copier->pending) {
            forget_copy(copier, now); /* the room of its bytes is for parts to others */
        }
        return;
    }
    if (copier->pending && now.mono_ns >= copier->retry_ns) {
        copier->retry_ns = now.mono_ns + RETRY_NS;
        take_part(replica, now);
    } else if (!copier->pending && needs_one(copier, now) && now.mono_ns >= copier->ask_ns) {
        copier->id = 0; /* the answer is lost, and so is the snapshot, perhaps */
        copier_ask(replica, now);
    }
}

int64_t copier_deadline(const replica_t *replica, moment_t now) {
    const copier_t *copier = &replica->copier;
    if (copier->pending) {
        return copier->retry_ns;
    }
    int64_t due = needs_one(copier, now) ? copier->ask_ns : INT64_MAX;
    int64_t unused = copier->giving != NULL ? copier->used_ns + UNUSED_NS : INT64_MAX;
    return due < unused ? due : unused;
}
