/* meta.c: see meta.h. */
#include "meta/meta.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/random.h"
#include "exchange/answer.h"
#include "group/groups.h"
#include "group/shown.h"
#include "jetstream/js.h"
#include "meta/meta_rows.h"
#include "meta/ways.h"
#include "plane/account.h"
#include "plane/peer.h"
#include "plane/pressure.h"
#include "plane/publication.h"
#include "store/ledger.h"

#define NUMBER 1u                        /* of its ledger; .. */
#define NUMBER_ANEW UINT32_C(0xffff0000) /* .. of one in the place of another it is the next from here on */
#define NUMBERS_TRIED 16u
#define LETTER_MAX (UINT32_C(1) << 17)
#define SUBJECT_PREFIX "$LR."
#define TO_AT (sizeof SUBJECT_PREFIX - 1)
#define FROM_AT (TO_AT + sizeof(uint64_t) + 1)
#define SUBJECT_SIZE (FROM_AT - 1)
#define HANDED_ON_SIZE (FROM_AT + sizeof(uint64_t))
#define FRAME_MAGIC BYTES_LITERAL("LRF1")

typedef struct meta {
    plane_t *plane;
    account_t *account;
    groups_t *groups;
    group_t *group;  /* NULL: not founded, or not here */
    uint32_t number; /* of its ledger, or of the last one */
    bool stale;      /* that number's ledger is of before this disk lost something */
    bool leaves;     /* .. which it finds now: the disk gives up its id, and the daemon begins again */
    uint64_t peer;
    ways_t ways;
    buffer_t entry;         /* scratch */
    meta_verdict_t verdict; /* of the entry that was applied last */
} meta_t;

/* ---- other servers ----------------------------------------------------------------------------------------------- */

/* A server's id is eight letters and digits, so it is a token as it is. from: 0: this server. */
static void mail_by(const meta_t *meta, peer_t *link, uint64_t to, uint64_t from, bytes_t payload) {
    uint8_t subject[HANDED_ON_SIZE];
    memcpy(subject, SUBJECT_PREFIX, TO_AT);
    store_be64(subject + TO_AT, to);
    subject[FROM_AT - 1] = '.';
    store_be64(subject + FROM_AT, from);
    const publication_t publication = {
        .account = meta->account,
        .message = {.subject = bytes_of(subject, from == 0 ? SUBJECT_SIZE : HANDED_ON_SIZE), .payload = payload},
        .flags = PUBLICATION_MAIL};
    publish_over_link(meta->plane, link, &publication);
}

static bool mail_to(const meta_t *meta, uint64_t peer, bytes_t payload) {
    peer_t *link = ways_to(&meta->ways, meta->plane, meta->account, peer);
    if (link != NULL) {
        mail_by(meta, link, peer, 0, payload);
    }
    return link != NULL;
}

static bool meta_reaches(void *context, uint64_t peer) {
    const meta_t *meta = context;
    return ways_to(&meta->ways, meta->plane, meta->account, peer) != NULL;
}

static void meta_deliver(void *context, uint64_t peer, bytes_t frame) {
    (void)mail_to(context, peer, frame); /* else it is lost, and said again */
}

bool meta_send(plane_t *plane, uint64_t peer, bytes_t letter) {
    return plane->meta != NULL && letter.size <= LETTER_MAX && mail_to(plane->meta, peer, letter);
}

status_t meta_ways(plane_t *plane, const uint8_t *ways, uint32_t count) {
    return plane->meta == NULL ? STATUS_AGAIN : ways_set(&plane->meta->ways, ways, count);
}

/* Other links to a process that has died are about to go, too, and take letters until then: the last one counts. */
static void meta_lost(plane_t *plane, uint64_t server) {
    meta_t *meta = plane->meta;
    if (!meta_reaches(meta, server)) {
        groups_lost(meta->groups, server, plane->now);
    }
}

/* false: it has no address. from: as the subject has it; 0: it names none. */
static bool mail_address(bytes_t subject, uint64_t *to, uint64_t *from) {
    bool handed_on = subject.size == HANDED_ON_SIZE && subject.at[FROM_AT - 1] == '.';
    if (!handed_on && subject.size != SUBJECT_SIZE) {
        return false;
    }
    *to = load_be64(subject.at + TO_AT);
    *from = handed_on ? load_be64(subject.at + FROM_AT) : 0;
    return true;
}

static void meta_hand_on(const meta_t *meta, const peer_t *link, uint64_t to, uint64_t from, bytes_t payload) {
    peer_t *onward = ways_onward(&meta->ways, meta->plane, meta->account, link, to);
    if (onward != NULL) {
        mail_by(meta, onward, to, from, payload);
    }
}

static void meta_mail(plane_t *plane, peer_t *from, const account_t *account, bytes_t subject, bytes_t payload) {
    const meta_t *meta = plane->meta;
    uint64_t to, named, peer = ways_server(from);
    if (account != meta->account || peer == 0 || !mail_address(subject, &to, &named)) {
        return;
    }
    if (named != 0 && (named == meta->peer || !ways_speaks(&meta->ways, from, named))) {
        return;
    }
    if (to != meta->peer) {
        bool begins = named == 0 || from->gateway != NULL; /* else it has had its gateway */
        if (begins) {
            meta_hand_on(meta, from, to, named != 0 ? named : peer, payload);
        }
        return;
    }
    peer = named != 0 ? named : peer;
    if (bytes_starts(payload, FRAME_MAGIC)) {
        groups_receive(meta->groups, peer, payload, plane->now);
        return;
    }
    if (payload.size > LETTER_MAX || !pressure_room(plane, from)) {
        return;
    }
    event_entry_t *entry = event_new(EVENT_LETTER, BYTES_NONE, BYTES_NONE, BYTES_NONE, payload);
    if (entry != NULL) {
        entry->event.target = from->id;
        entry->event.token = 0;
        entry->event.arg = peer;
    }
    (void)pressure_offer(plane, from, entry);
}

/* ---- entries of the log ------------------------------------------------------------------------------------------ */

static store_t *rows_store(const meta_t *meta) {
    return meta->plane->js.stores[STORE_FILE];
}

static bool meta_apply(void *context, raft_index_t index, bytes_t bytes) {
    meta_t *meta = context;
    return meta_rows_apply(rows_store(meta), index, bytes, &meta->verdict);
}

static bool meta_save(void *context, buffer_t *to) {
    return meta_rows_save(rows_store(context), to);
}

static bool meta_restore(void *context, raft_index_t index, bytes_t state) {
    (void)index;
    return meta_rows_restore(rows_store(context), state);
}

static void meta_answer(void *context, uint64_t token, bool applied) {
    const meta_t *meta = context;
    const plane_command_t command = {.op = COMMAND_META_PUT, .token = token};
    status_t status = !applied ? STATUS_CLOSED : meta->verdict.made ? STATUS_OK : STATUS_EXISTS;
    exchange_answer(&meta->plane->exchange, &command, status, applied ? meta->verdict.revision : 0, 0, BYTES_NONE);
}

static group_options_t meta_options(meta_t *meta, uint64_t name, const raft_config_t *founders) {
    return (group_options_t){.number = meta->number,
                             .times = groups_times,
                             .seed = random_next(&meta->plane->random) | 1,
                             .hooks = {.context = meta,
                                       .apply = meta_apply,
                                       .save = meta_save,
                                       .restore = meta_restore,
                                       .answer = meta_answer},
                             .name = name,
                             .founders = founders,
                             .at_once = founders != NULL && founders->count > 0};
}

/* ---- opening and closing ----------------------------------------------------------------------------------------- */

/* The ledgers of all other groups have numbers of streams. */
static bool number_look(void *context, uint32_t group) {
    uint32_t *number = context;
    if (group >= NUMBER_ANEW) {
        *number = group;
    }
    return true;
}

status_t meta_open(plane_t *plane, account_t *account, uint64_t peer, uint64_t *disk, uint32_t *there) {
    store_t *store = plane->js.stores[STORE_FILE];
    if (plane->meta != NULL || peer == 0) {
        return STATUS_EXISTS;
    }
    if (store == NULL || (plane->limits.clustered & CLUSTERED_META) == 0) {
        return STATUS_NOT_FOUND;
    }
    meta_t *meta = calloc(1, sizeof *meta);
    if (meta == NULL) {
        return STATUS_NO_MEMORY;
    }
    *meta = (meta_t){.plane = plane, .account = account, .peer = peer, .number = NUMBER};
    buffer_init(&meta->entry, UINT32_MAX);
    const groups_hooks_t hooks = {.context = meta, .reaches = meta_reaches, .deliver = meta_deliver};
    status_t status = groups_open(store, peer, hooks, &meta->groups);
    if (status == STATUS_OK) {
        status = list_status(store_ledger_each(store, number_look, &meta->number));
    }
    if (status == STATUS_OK) {
        status = groups_load(meta->groups, meta_options(meta, 0, NULL), plane->now, &meta->group);
        meta->leaves = status == STATUS_CORRUPT;
    }
    if (meta->leaves) {
        groups_damaged(meta->groups, meta->number);
    }
    meta->stale = meta->leaves || status == STATUS_INVALID; /* INVALID: its promise is another disk's */
    *there = meta->group != NULL ? 1 : meta->stale ? 2 : 0;
    if (status != STATUS_OK && !meta->stale) {
        groups_close(meta->groups);
        free(meta);
        return status;
    }
    *disk = groups_self(meta->groups).disk;
    plane->meta = meta;
    plane->js.groups = meta->groups;
    plane->mail = meta_mail;
    plane->mail_lost = meta_lost;
    plane->mail_account = account;
    return STATUS_OK;
}

void meta_close(plane_t *plane) {
    if (plane->meta != NULL) {
        plane->js.groups = NULL;
        groups_close(plane->meta->groups);
        buffer_free(&plane->meta->entry);
        free(plane->meta);
        plane->meta = NULL;
        plane->mail = NULL;
        plane->mail_lost = NULL;
        plane->mail_account = NULL;
    }
}

/* What the disk promised before it lost something goes. false: later. */
static bool stale_removed(meta_t *meta) {
    meta->stale = store_ledger_forget(rows_store(meta), meta->number) != STATUS_OK;
    return !meta->stale;
}

status_t meta_found(plane_t *plane, uint64_t name, const meta_disk_t *disks, uint32_t count) {
    meta_t *meta = plane->meta;
    raft_config_t founders = {.count = count};
    if (meta == NULL || name == 0 || count > META_MEMBERS_MAX) {
        return STATUS_INVALID;
    }
    for (uint32_t i = 0; i < count; i++) {
        founders.at[i] = (raft_member_t){.id = {.peer = disks[i].peer, .disk = disks[i].disk}, .voter = true};
    }
    if (meta->leaves) {
        return STATUS_FULL; /* until that start */
    }
    if (meta->group != NULL || (meta->stale && count > 0)) {
        return STATUS_EXISTS; /* rows are there, so it founds nothing */
    }
    if (meta->stale && !stale_removed(meta)) {
        return STATUS_FULL;
    }
    status_t status = STATUS_EXISTS;
    for (uint32_t tried = 0; status == STATUS_EXISTS && tried < NUMBERS_TRIED; tried++) {
        status = groups_make(meta->groups, meta_options(meta, name, &founders), plane->now, &meta->group);
        if (status == STATUS_EXISTS) { /* that number's entries are not gone yet */
            meta->number = meta->number == NUMBER ? NUMBER_ANEW : meta->number + 1;
        }
    }
    return status;
}

static bool nothing_written(void *context) {
    (void)context;
    return true;
}

/* false: later. The old group's log is carried out first: what this disk has of it may have been answered. */
static bool meta_end_old(meta_t *meta, uint64_t name, bool alone) {
    group_t *old = meta->group;
    if (old == NULL || group_name(old) == name) {
        return true;
    }
    if (alone && !group_quiet(old)) {
        group_settle(old);
        groups_stir(meta->groups, old);
        return false;
    }
    if (groups_remove(meta->groups, old) != STATUS_OK) {
        return false;
    }
    meta->group = NULL;
    return true;
}

status_t meta_anew(plane_t *plane, uint64_t name, bool alone, uint64_t index) {
    meta_t *meta = plane->meta;
    if (meta == NULL || name == 0 || index == 0 || index > RAFT_INDEX_MAX) {
        return STATUS_INVALID;
    }
    const raft_disk_t self = groups_self(meta->groups);
    const meta_disk_t disk = {.peer = self.peer, .disk = self.disk};
    if (!meta_end_old(meta, name, alone)) {
        return STATUS_AGAIN;
    }
    status_t status = meta->group != NULL ? STATUS_OK : meta_found(plane, name, &disk, alone ? 1 : 0);
    if (status == STATUS_OK && alone && group_floor(meta->group) == 0 && group_last(meta->group) < index) {
        /* The rows stay as they are: they are the state as of that index, which a server that is let in gets a copy
         * of. */
        const group_said_t said = {.index = index,
                                   .members = {.index = index, .count = 1, .at = {{.id = self, .voter = true}}}};
        if (!group_restore(meta->group, &said, nothing_written, NULL, plane->now)) {
            status = groups_remove(meta->groups, meta->group);
            meta->group = status == STATUS_OK ? NULL : meta->group;
            status = STATUS_AGAIN;
        }
    }
    if (status == STATUS_OK) {
        groups_stir(meta->groups, meta->group);
    }
    return status;
}

/* ---- what control asks ------------------------------------------------------------------------------------------- */

status_t meta_put(plane_t *plane, const plane_command_t *command, bytes_t key, bytes_t value) {
    meta_t *meta = plane->meta;
    if (meta == NULL || meta->group == NULL || command->token == 0) {
        return STATUS_AGAIN;
    }
    meta->entry.size = 0;
    status_t status = meta_entry(&meta->entry, key, value, command->arg, command->arg2 == 1);
    if (status == STATUS_OK) {
        bytes_t entry = bytes_of(meta->entry.at, (uint32_t)meta->entry.size);
        status = group_propose(meta->group, entry, command->token);
    }
    if (status == STATUS_OK) {
        groups_stir(meta->groups, meta->group);
    }
    return status;
}

status_t meta_rows(plane_t *plane, buffer_t *to) {
    if (plane->meta == NULL || plane->meta->group == NULL) {
        return STATUS_AGAIN;
    }
    return meta_rows_save(rows_store(plane->meta), to) ? STATUS_OK : STATUS_AGAIN;
}

static bool meta_member_of(const group_look_t *look, uint64_t peer, raft_disk_t *id) {
    for (uint32_t i = 0; i < look->count; i++) {
        if (look->members[i].member.id.peer == peer) {
            *id = look->members[i].member.id;
            return true;
        }
    }
    return false;
}

status_t meta_transfer(plane_t *plane, uint64_t peer) {
    meta_t *meta = plane->meta;
    raft_disk_t to;
    if (meta == NULL || meta->group == NULL) {
        return STATUS_AGAIN;
    }
    group_look_t look = group_look(meta->group, plane->now);
    if (!meta_member_of(&look, peer, &to)) {
        return STATUS_NOT_FOUND;
    }
    bool begun = group_transfer(meta->group, to, plane->now);
    groups_stir(meta->groups, meta->group);
    return begun ? STATUS_OK : STATUS_AGAIN;
}

status_t meta_alter(plane_t *plane, uint32_t change, const meta_disk_t *disk) {
    meta_t *meta = plane->meta;
    if (change < META_LEARN || change > META_REMOVE || disk->peer == 0) {
        return STATUS_INVALID;
    }
    if (meta == NULL || meta->group == NULL) {
        return STATUS_AGAIN;
    }
    const raft_disk_t id = {.peer = disk->peer, .disk = disk->disk};
    bool begun = group_alter(meta->group, (raft_change_t)change, id, plane->now);
    groups_stir(meta->groups, meta->group);
    return begun ? STATUS_OK : STATUS_AGAIN;
}

_Static_assert(META_LEARN == RAFT_LEARN && META_PROMOTE == RAFT_PROMOTE && META_REMOVE == RAFT_REMOVE, "abi.h");
_Static_assert(META_MEMBERS_MAX == RAFT_MEMBERS_MAX, "meta.h");

status_t meta_shown(plane_t *plane, buffer_t *to) {
    const meta_t *meta = plane->meta;
    return meta == NULL ? STATUS_AGAIN : group_shown(meta->groups, meta->group, plane->now, to);
}

/* ---- turns ------------------------------------------------------------------------------------------------------- */

void meta_turn(plane_t *plane) {
    groups_turn(plane->meta->groups, plane->now);
    js_replicas_turn(&plane->js);
}

int64_t meta_deadline(const plane_t *plane) {
    int64_t groups = groups_deadline(plane->meta->groups);
    return groups < plane->js.replicas_due_ns ? groups : plane->js.replicas_due_ns;
}
