/* replicate.c: a leader's log: what each member is sent, what it has, what is committed, and for how long it leads.
 *
 *     PROBING  one message at a time, until one fits --TAKEN--> FLOWING  as much as the window has, without waiting
 *        ^                                                         |
 *        '------------------ an entry before did not fit ----------'
 *        '--> COPYING  it needs what the log has no longer; beats alone until it has that
 */
#include "raft/raft.h"

#include "base/check.h"
#include "raft/private.h"

#define TRIPS 4 /* of as many beats, about: a delay of one is none of the way */
/* A leader that no majority answers has a way that has just become long, perhaps. Its times are doubled up to so often
 * by that alone, and it leads for an election's time doubled so often. Members that cannot hear it elect another. */
#define SILENT_DOUBLED 2u

static int64_t number_match(const raft_progress_t *progress) {
    return (int64_t)progress->match;
}

static int64_t number_heard(const raft_progress_t *progress) {
    return progress->heard_ns;
}

static int64_t number_until(const raft_progress_t *progress) {
    return progress->until_ns;
}

/* The nearer, the more. Without one that is silent the majority is another one, and may be farther away. */
static int64_t number_near(const raft_progress_t *progress) {
    return progress->trip_ns == 0 || progress->silent ? INT64_MIN : -progress->trip_ns;
}

/* .. at this moment, too. */
static int64_t number_last(const raft_progress_t *progress) {
    int64_t near = number_near(progress);
    return near == INT64_MIN || -near > progress->last_ns ? near : -progress->last_ns;
}

bool raft_append_own(raft_t *raft, raft_outputs_t *out, raft_kind_t kind, uint32_t count) {
    raft_index_t from = raft->trail.last + 1;
    if (count == 0 || !trail_append(&raft->trail, count, raft->term)) return false;
    raft_output_t *output = raft_put(out, RAFT_APPEND);
    output->kind = kind;
    output->from = from;
    output->upto = raft->trail.last;
    output->term = raft->term;
    output->write = ++raft->write;
    raft_note_write(raft, output->write);
    return true;
}

int64_t raft_next_beat(int64_t every_ns, int64_t now_ns) {
    return now_ns + every_ns - now_ns % every_ns;
}

void raft_note_promise(raft_t *raft, raft_progress_t *progress, int64_t stamp_ns, uint64_t promised) {
    uint64_t patience = promised == 0 ? 0 : promised - 1;
    if (!RULE(LEASE_PROMISED)) patience = raft->patience;
    if (patience > RAFT_PATIENCE_MAX) patience = RAFT_PATIENCE_MAX;
    int64_t until_ns = stamp_ns + (raft->times.lease_ns << patience);
    if (until_ns > progress->until_ns) progress->until_ns = until_ns;
    if (stamp_ns > progress->stamp_ns) progress->stamp_ns = stamp_ns;
}

void raft_note_trip(const raft_t *raft, raft_progress_t *progress, int64_t trip_ns) {
    bool whole = progress->trip_ns == 0 || trip_ns >= raft->times.lease_ns << raft->patience; /* none is in time */
    progress->trip_ns += (trip_ns - progress->trip_ns) / (whole ? 1 : TRIPS);
    progress->last_ns = trip_ns;
}

/* For so long no majority has answered. */
static int64_t silence(const raft_t *raft, int64_t now_ns) {
    return now_ns - raft_of_majority(raft, now_ns, number_heard);
}

/* What rests is named for as long as it was told: another patience is another name. */
bool raft_measure(raft_t *raft, int64_t now_ns) {
    uint8_t before = raft->patience;
    int64_t near = raft_of_majority(raft, 0, number_near), last = raft_of_majority(raft, 0, number_last);
    int64_t silent_ns = silence(raft, now_ns);
    bool heard = silent_ns <= 2 * raft->times.beat_ns << before;
    if (near != INT64_MIN) raft_adapt(raft, -near, heard && -last < raft_election_ns(raft) / SHORTER_PART);
    /* The way has become that long, perhaps: who is told of it now promises for long enough when the answers come. */
    if (silent_ns >= raft->times.lease_ns << raft->patience && raft->patience < SILENT_DOUBLED) raft->patience++;
    for (uint32_t i = 0; raft->patience != before && i < raft_members(raft)->count; i++) {
        if (RULE(REST_PATIENCE)) raft->progress[i].rest = 0;
    }
    return raft->patience != before;
}

/* Each as the quickest of the last beats were: what stood behind a write or many bytes tells nothing of the way. */
static void measure_trips(raft_t *raft, int64_t now_ns) {
    for (uint32_t i = 0; i < raft_members(raft)->count; i++) {
        raft_progress_t *progress = &raft->progress[i];
        if (progress->quickest_ns != 0) raft_note_trip(raft, progress, progress->quickest_ns);
        progress->quickest_ns = 0;
    }
    (void)raft_measure(raft, now_ns);
}

/* Beats are as far apart as each member knows that they may be. */
static int64_t beat_every(const raft_t *raft) {
    uint8_t least = raft->patience;
    for (uint32_t i = 0; i < raft_members(raft)->count; i++) {
        uint8_t promised = raft->progress[i].promised;
        if (same_disk(raft_members(raft)->at[i].id, raft->self)) continue;
        least = promised <= least ? (promised == 0 ? 0 : promised - 1) : least;
    }
    return raft->times.beat_ns << least;
}

/* Has that member all there is, and has it answered the last beat so soon that a longer pause costs no lease? */
static bool is_level(const raft_t *raft, const raft_progress_t *progress, int64_t now_ns) {
    const raft_times_t *times = &raft->times;
    return progress->pace == RAFT_FLOWING && progress->match == raft->trail.last && progress->stamp_ns != INT64_MIN
           && now_ns - progress->stamp_ns <= times->rest_ns + times->beat_ns / 2
           && progress->heard_ns - progress->stamp_ns <= times->lease_ns - times->rest_ns - times->beat_ns;
}

static int64_t beat_after(const raft_t *raft, int64_t now_ns) {
    bool rests = raft->times.rest_ns != 0 && raft->successor.peer == 0 && raft->commit == raft->trail.last;
    for (uint32_t i = 0; i < raft_members(raft)->count && rests; i++) {
        rests = same_disk(raft_members(raft)->at[i].id, raft->self) || is_level(raft, &raft->progress[i], now_ns);
    }
    int64_t every_ns = beat_every(raft);
    return raft_next_beat(rests && raft->times.rest_ns > every_ns ? raft->times.rest_ns : every_ns, now_ns);
}

void raft_lead(raft_t *raft, raft_outputs_t *out, int64_t now_ns) {
    raft->role = RAFT_LEADER;
    raft->leader = raft->self;
    raft->successor = (raft_disk_t){0};
    raft->handed = false;
    for (uint32_t i = 0; i < RAFT_MEMBERS_MAX; i++) {
        raft->progress[i] = (raft_progress_t){.next = raft->trail.last + 1,
                                              .heard_ns = now_ns,
                                              .stamp_ns = INT64_MIN,
                                              .match_ns = INT64_MIN,
                                              .until_ns = INT64_MIN};
    }
    raft->own_first = raft->trail.last + 1;
    if (!raft_append_own(raft, out, RAFT_EMPTY, 1)) {
        raft_follow(raft, out, raft->term, (raft_disk_t){0}, now_ns);
        return;
    }
    raft->due_ns = raft_next_beat(raft->times.beat_ns, now_ns);
    raft_tell_role(out);
}

/* A removed leader leads until its removal is committed, and does not count itself (thesis, 4.2.2). */
void raft_advance(raft_t *raft, raft_outputs_t *out) {
    raft_term_t term;
    raft_index_t own = RULE(OWN_ON_DISK) ? raft->firm : raft->trail.last;
    int64_t most = raft_of_majority(raft, (int64_t)own, number_match);
    raft_index_t index = most < 0 ? 0 : (raft_index_t)most;
    if (index <= raft->commit || !trail_term(&raft->trail, index, &term)) return;
    if (term != raft->term && RULE(OWN_TERM)) return;
    raft_commit_upto(raft, out, index);
    for (uint32_t i = 0; i < raft_members(raft)->count; i++) raft->progress[i].beat = true;
}

static void start_handover(raft_t *raft, raft_outputs_t *out, uint32_t place) {
    raft_progress_t *progress = &raft->progress[place];
    if (progress->handed || !same_disk(raft_members(raft)->at[place].id, raft->successor)) return;
    if (progress->match != raft->trail.last) return;
    progress->handed = true;
    raft->handed = RULE(NO_LEASE_BEHIND);
    (void)raft_say(raft, out, RAFT_HANDOVER, raft->successor, 0);
}

/* A member that has less than it had acknowledged when this was sent: its disk was put back. It gets a copy, as one
 * that is new. What was on its way together may arrive in any order and says nothing. */
static bool has_lost(const raft_progress_t *progress, const raft_message_t *message) {
    return message->index < progress->match && message->stamp_ns > progress->match_ns;
}

/* Each side leaves out what the other cannot have: runs of a later term than the one that is there. A round trip for
 * each run that differs, then, and not for each entry. */
static void take_refusal(const raft_t *raft, raft_progress_t *progress, const raft_message_t *message, int64_t now_ns) {
    raft_index_t hint = message->index < message->refused ? message->index : message->refused - 1;
    if (has_lost(progress, message)) {
        progress->match = 0;
        progress->match_ns = now_ns;
    } else if (message->refused <= progress->match) {
        return; /* an old answer */
    }
    if (progress->pace == RAFT_PROBING && message->refused != progress->next - 1) return;
    progress->next = trail_before(&raft->trail, hint, message->log_term) + 1;
    if (progress->next <= progress->match) progress->next = progress->match + 1;
    progress->pace = RAFT_PROBING;
    progress->paused = progress->probed = false;
}

void raft_taken(raft_t *raft, raft_outputs_t *out, const raft_message_t *message, int64_t now_ns) {
    uint32_t place = raft_place(raft, message->from);
    if (raft->role != RAFT_LEADER || place == RAFT_MEMBERS_MAX) return;
    raft_progress_t *progress = &raft->progress[place];
    progress->heard_ns = now_ns;
    progress->silent = false;
    progress->tight = message->tight;
    if (message->tight) progress->rest = 0; /* it is to say when it has room again */
    raft_note_promise(raft, progress, message->stamp_ns, message->entry_term);
    if (message->entry_term != 0) {
        progress->promised =
            (uint8_t)(message->entry_term <= RAFT_PATIENCE_MAX ? message->entry_term : 1 + RAFT_PATIENCE_MAX);
    }
    int64_t trip_ns = message->stamp_ns > 0 && message->stamp_ns < now_ns ? now_ns - message->stamp_ns : 0;
    if (trip_ns != 0 && (progress->quickest_ns == 0 || trip_ns < progress->quickest_ns))
        progress->quickest_ns = trip_ns;
    if (!message->granted) {
        if (message->refused != 0) take_refusal(raft, progress, message, now_ns);
        return;
    }
    if (message->index > raft->trail.last) return; /* no leader of ours has sent that */
    if (message->commit > progress->committed) progress->committed = message->commit;
    if (message->index > progress->match) {
        progress->match = message->index;
        progress->match_ns = now_ns;
    }
    if (progress->next <= progress->match) progress->next = progress->match + 1;
    if (message->full && progress->pace != RAFT_COPYING) {
        progress->next = progress->match + 1;
        progress->pace = RAFT_PROBING;
        progress->paused = true;
        progress->probed = false;
    } else if (progress->pace != RAFT_FLOWING
               && (progress->pace == RAFT_PROBING || progress->match >= raft->trail.base)) {
        progress->pace = RAFT_FLOWING;
        progress->paused = progress->probed = false;
        progress->beat = true; /* what was committed meanwhile, it was told behind entries that it lacked */
    }
    raft_advance(raft, out);
    if (raft->role == RAFT_LEADER && raft->successor.peer != 0) start_handover(raft, out, place);
}

/* Is it farther away than the majority, whose round trips the times follow? It has no part in leases then. */
static bool is_far(const raft_t *raft, const raft_progress_t *progress) {
    return progress->trip_ns > raft_election_ns(raft) / TRIPS_IN_ELECTION;
}

/* A third of the beats keeps one that is far from asking for votes, and more would only fill its line. */
static bool waits_for_beat(const raft_t *raft, const raft_progress_t *progress, int64_t now_ns) {
    return raft->times.rest_ns != 0 && is_far(raft, progress) && progress->pace == RAFT_FLOWING
           && progress->match == raft->trail.last && progress->committed == raft->commit
           && now_ns % raft->times.rest_ns >= raft->times.beat_ns;
}

void raft_beat(raft_t *raft, raft_outputs_t *out, int64_t now_ns) {
    bool removed = !raft_may_stand(raft);
    uint8_t doubled = raft->patience > SILENT_DOUBLED ? raft->patience : SILENT_DOUBLED;
    measure_trips(raft, now_ns);
    if (removed || (silence(raft, now_ns) >= raft->times.election_ns << doubled && RULE(QUORUM))) {
        raft_follow(raft, out, raft->term, (raft_disk_t){0}, now_ns);
        return;
    }
    if (raft->successor.peer != 0 && now_ns >= raft->handover_ns) raft->successor = (raft_disk_t){0};
    for (uint32_t i = 0; i < raft_members(raft)->count; i++) {
        if (!waits_for_beat(raft, &raft->progress[i], now_ns)) raft->progress[i].beat = true;
        /* Where the way is long or full, nothing comes back for many beats: those have no entries, and are enough to
         * find out that a probe was lost. */
        if (!raft->progress[i].probed) raft->progress[i].paused = false;
        raft->progress[i].silent = now_ns - raft->progress[i].heard_ns >= raft_election_ns(raft);
        if (raft->progress[i].silent) raft_rest_ends(&raft->progress[i]);
        if (same_disk(raft_members(raft)->at[i].id, raft->successor)) {
            raft->progress[i].handed = false; /* it may have been lost */
            start_handover(raft, out, i);
        }
    }
    raft->due_ns = beat_after(raft, now_ns);
}

/* Entries from next on, all of one term; or none. */
static void send_entries(raft_t *raft, raft_outputs_t *out, uint32_t place, bool with, int64_t now_ns) {
    raft_progress_t *progress = &raft->progress[place];
    raft_message_t *message = raft_say(raft, out, RAFT_ENTRIES, raft_members(raft)->at[place].id, 0);
    message->index = progress->next - 1;
    check(trail_term(&raft->trail, message->index, &message->log_term));
    message->commit = raft->commit;
    message->stamp_ns = now_ns;
    message->patience = progress->promised != 0 ? raft->patience : 0;
    message->far = is_far(raft, progress);
    if (with) {
        raft_index_t upto = trail_run_end(&raft->trail, progress->next);
        uint64_t count = upto - message->index;
        message->count = count < RAFT_ENTRIES_MAX ? (uint32_t)count : RAFT_ENTRIES_MAX;
        check(trail_term(&raft->trail, progress->next, &message->entry_term));
        int64_t due_ns = raft_next_beat(raft->times.beat_ns, now_ns); /* it may be lost */
        if (due_ns < raft->due_ns) raft->due_ns = due_ns;
    } else {
        message->rests = raft_rest_begins(raft, place, now_ns);
    }
    if (progress->pace == RAFT_FLOWING) {
        progress->next += message->count;
    } else {
        progress->paused = true;
        progress->probed = progress->probed || with;
    }
    progress->beat = false;
}

/* A beat for a member whose log we do not reach into: it fits any log, and tells what the member has. */
static void send_beat(raft_t *raft, raft_outputs_t *out, uint32_t place, int64_t now_ns) {
    raft_message_t *message = raft_say(raft, out, RAFT_ENTRIES, raft_members(raft)->at[place].id, 0);
    message->stamp_ns = now_ns;
    message->patience = raft->progress[place].promised != 0 ? raft->patience : 0;
    message->far = is_far(raft, &raft->progress[place]);
    raft->progress[place].beat = false;
}

bool raft_send_next(raft_t *raft, raft_outputs_t *out, int64_t now_ns) {
    for (uint32_t i = 0; i < raft_members(raft)->count; i++) {
        raft_progress_t *progress = &raft->progress[i];
        if (same_disk(raft_members(raft)->at[i].id, raft->self)) continue;
        if (progress->pace != RAFT_COPYING && progress->next <= raft->trail.base) {
            progress->pace = RAFT_COPYING;
            raft_put(out, RAFT_COPY)->to = raft_members(raft)->at[i].id;
            return true;
        }
        bool more = progress->pace != RAFT_COPYING && progress->next <= raft->trail.last && !progress->paused
                    && progress->next - progress->match <= RAFT_WINDOW;
        if (!more && !progress->beat) continue;
        if (progress->pace == RAFT_COPYING) {
            send_beat(raft, out, i, now_ns);
        } else {
            send_entries(raft, out, i, more, now_ns);
        }
        return true;
    }
    return false;
}

bool raft_lacks_room(const raft_t *raft) {
    uint32_t roomy = 0;
    for (uint32_t i = 0; i < raft_members(raft)->count; i++) {
        roomy += raft_members(raft)->at[i].voter && !raft->progress[i].tight ? 1 : 0;
    }
    return roomy < raft_majority(raft);
}

/* The lease runs from the moment at which the messages were sent that a majority answered: until a lease later, none of
 * them grants a vote. A leader that has handed over once has none any more. */
bool raft_leased(const raft_t *raft, int64_t now_ns) {
    if (raft->role != RAFT_LEADER || raft->handed || raft->commit < raft->own_first) return false;
    return now_ns < raft_of_majority(raft, INT64_MAX, number_until);
}
