/* pairs.c: one beat for two servers, in place of one for each group of both that is at rest (raft_rests).
 *
 *     who leads                                                     who follows
 *     tally of the groups at rest there, a shelf -- RAFT_PAIR -->   tally of those that rest under that disk
 *                                                                   the same: each of them is heard
 *     each that was named when it was sent: <------ RAFT_PAIRED --  granted; else all of the shelf have beats of their
 *     heard, and its lease goes on                                  own again, on both sides
 *
 *     message   group: the shelf   commit: how many   log_term: their sum   stamp_ns   refused: of which start
 *
 * The groups themselves are not named, their number and sum is: two shelves that differ have the same sum once in 2^64.
 * What a group says at rest, and when that ends, is for raft to know (raft/rest.c). A frame with a group's own message
 * has it before the pair's, so that both sides change together; where one is lost, the tallies differ.
 */
#include "base/array.h"
#include "group/groups_private.h"

#define PAIRS_MIN 4
#define SLOW_NS (10 * NS_PER_SECOND)

static uint64_t mixed(uint64_t x) {
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

static void tally_add(tally_t *tally, uint64_t name, raft_term_t term, raft_index_t last) {
    tally->count++;
    tally->sum += mixed(mixed(mixed(name) ^ term) ^ last);
}

static uint32_t shelf_of(uint64_t name) {
    return (uint32_t)(name >> (64 - SHELF_BITS));
}

/* The first seat of a shelf. */
static uint64_t shelf_at(const groups_t *groups, uint64_t shelf) {
    return shelf < SHELVES ? seat_at(groups, shelf << (64 - SHELF_BITS)) : groups->count;
}

static pair_t *pair_known(const groups_t *groups, raft_disk_t id) {
    for (uint64_t i = 0; i < groups->pair_count; i++) {
        if (same_disk(groups->pairs[i].id, id)) {
            return &groups->pairs[i];
        }
    }
    return NULL;
}

/* NULL: there is no memory, and its groups have beats of their own. */
static pair_t *pair_with(groups_t *groups, raft_disk_t id) {
    pair_t *pair = pair_known(groups, id);
    if (pair != NULL) {
        return pair;
    }
    if (array_reserve(&groups->pairs, &groups->pair_room, groups->pair_count + 1, PAIRS_MIN, sizeof *groups->pairs)
        != STATUS_OK) {
        return NULL;
    }
    pair = &groups->pairs[groups->pair_count++];
    *pair = (pair_t){.id = id};
    return pair;
}

static int64_t pair_every(const pair_t *pair, moment_t now) {
    return now.mono_ns < pair->slow_ns ? groups_times.beat_ns : groups_times.rest_ns;
}

/* ---- who leads --------------------------------------------------------------------------------------------------- */

static void tally_led(groups_t *groups, const seat_t *seat) {
    const raft_t *raft = &seat->group->raft;
    int64_t since_ns;
    for (uint32_t i = 0; raft->role == RAFT_LEADER && i < raft_members(raft)->count; i++) {
        pair_t *pair = raft_rests(raft, i, &since_ns) ? pair_with(groups, raft_members(raft)->at[i].id) : NULL;
        if (pair != NULL) {
            tally_add(&pair->shelves[shelf_of(seat->name)], seat->name, raft->term, raft->trail.last);
        }
    }
}

static void pair_send(groups_t *groups, const pair_t *pair, moment_t now) {
    for (uint32_t shelf = 0; shelf < SHELVES; shelf++) {
        const tally_t *tally = &pair->shelves[shelf];
        const raft_message_t message = {.subject = RAFT_PAIR,
                                        .commit = tally->count,
                                        .log_term = tally->sum,
                                        .refused = groups->session,
                                        .stamp_ns = now.mono_ns};
        frame_writer_t *writer = tally->count > 0 ? groups_frame(groups, pair->id, FRAME_MESSAGE_HEAD) : NULL;
        if (writer != NULL) {
            (void)frame_put(writer, shelf, &message);
        }
    }
}

/* Those whose groups have all gone on are forgotten. */
static bool pair_rests(const pair_t *pair) {
    bool rests = false;
    for (uint32_t shelf = 0; shelf < SHELVES; shelf++) {
        rests = rests || pair->shelves[shelf].count > 0;
    }
    return rests;
}

void pairs_turn(groups_t *groups, moment_t now) {
    uint64_t kept = 0;
    if (now.mono_ns < groups->pairs_due_ns) {
        return;
    }
    groups->pairs_due_ns = INT64_MAX;
    for (uint64_t i = 0; i < groups->pair_count; i++) {
        memset(groups->pairs[i].shelves, 0, sizeof groups->pairs[i].shelves);
    }
    for (uint64_t i = 0; i < groups->count; i++) {
        tally_led(groups, &groups->seats[i]);
    }
    for (uint64_t i = 0; i < groups->pair_count; i++) {
        pair_t *pair = &groups->pairs[i];
        if (!pair_rests(pair)) {
            continue;
        }
        if (now.mono_ns >= pair->due_ns) {
            pair_send(groups, pair, now);
            pair->due_ns = raft_next_beat(pair_every(pair, now), now.mono_ns);
        }
        groups->pairs_due_ns = pair->due_ns < groups->pairs_due_ns ? pair->due_ns : groups->pairs_due_ns;
        groups->pairs[kept++] = *pair;
    }
    groups->pair_count = kept;
}

static void take_answer(groups_t *groups, const frame_message_t *received, moment_t now) {
    const raft_message_t *message = &received->message;
    const uint64_t end = shelf_at(groups, received->group + 1);
    pair_t *pair = pair_known(groups, message->from);
    if (pair == NULL || message->refused != groups->session || message->stamp_ns > now.mono_ns) {
        return; /* not asked; or by an earlier start, whose clock was another */
    }
    const int64_t took_ns = now.mono_ns - message->stamp_ns, spare_ns = groups_times.lease_ns - groups_times.beat_ns;
    if (took_ns > spare_ns - groups_times.rest_ns && took_ns < spare_ns) {
        pair->slow_ns = now.mono_ns + SLOW_NS; /* farther away, no answer is in time for a lease, however often asked */
    }
    int64_t until_ns = now.mono_ns + pair_every(pair, now) + groups_times.beat_ns;
    for (uint64_t i = shelf_at(groups, received->group); i < end; i++) {
        seat_t *seat = &groups->seats[i];
        if (seat->group->raft.role != RAFT_LEADER) {
            continue;
        }
        if (message->granted) {
            if (raft_confirm(&seat->group->raft, message->from, message->stamp_ns, until_ns, now.mono_ns)) {
                groups_due(groups, seat);
            }
        } else {
            raft_disturb(&seat->group->raft, message->from, message->stamp_ns, now.mono_ns);
            groups_due(groups, seat);
        }
    }
}

/* ---- who follows ------------------------------------------------------------------------------------------------- */

static tally_t tally_followed(const groups_t *groups, uint64_t shelf, raft_disk_t leader) {
    tally_t tally = {0};
    const uint64_t end = shelf_at(groups, shelf + 1);
    for (uint64_t i = shelf_at(groups, shelf); i < end; i++) {
        const seat_t *seat = &groups->seats[i];
        if (raft_rests_under(&seat->group->raft, leader)) {
            tally_add(&tally, seat->name, seat->group->raft.rest_term, seat->group->raft.rest);
        }
    }
    return tally;
}

static void take_beat(groups_t *groups, const frame_message_t *received, moment_t now) {
    raft_message_t answer = received->message;
    const raft_disk_t leader = answer.from;
    const tally_t tally = tally_followed(groups, received->group, leader);
    answer.subject = RAFT_PAIRED;
    answer.granted = tally.count == answer.commit && tally.sum == answer.log_term;
    const uint64_t end = shelf_at(groups, received->group + 1);
    for (uint64_t i = shelf_at(groups, received->group); i < end; i++) {
        seat_t *seat = &groups->seats[i];
        raft_t *raft = &seat->group->raft;
        if (!raft_rests_under(raft, leader)) {
            continue;
        }
        if (answer.granted) {
            raft_hear(raft, now.mono_ns);
            groups_due(groups, seat); /* which is by chance, and may be sooner than it was */
        } else {
            raft_disturb(raft, leader, answer.stamp_ns, now.mono_ns);
        }
    }
    frame_writer_t *writer = groups_frame(groups, leader, FRAME_MESSAGE_HEAD);
    if (writer != NULL) {
        (void)frame_put(writer, received->group, &answer);
    }
}

void pairs_receive(groups_t *groups, const frame_message_t *received, moment_t now) {
    if (received->group >= SHELVES || received->message.count != 0) {
        groups->stats.unknown++;
    } else if (received->message.subject == RAFT_PAIR) {
        take_beat(groups, received, now);
    } else {
        take_answer(groups, received, now);
    }
}
