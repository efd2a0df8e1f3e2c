/* replicated_group.c: see replicated.h: what control asks of a stream's group, and the stream's definition.
 *
 * Also what others ask of it: whether this server answers for the stream, and whether a message would find room.
 *
 *     STREAM_DEFINE at the leader --> entry --> committed --> at each member: the record, EVENT_LED
 *                                                                control: STREAM_PUT --> the entry is applied
 */
#include "base/copies.h"
#include "consume/consume.h"
#include "exchange/strings.h"
#include "group/shown.h"
#include "jetstream/commands.h"
#include "jetstream/job.h"
#include "jetstream/js.h"
#include "jetstream/replicated_private.h"

#define SHOWN_MAX (UINT64_C(1) << 20)
/* As long as three of nats-server's beats. Shorter than what makes a server away (cluster/presence.py): nobody is given
 * up by it, it is only who is to lead next. */
#define HEIR_HEARD_NS (3 * NS_PER_SECOND)

/* ---- the group of a replicated stream ---------------------------------------------------------------------------- */

bool replicated_leads(const stream_t *stream) {
    return stream->replicated != NULL && stream->replicated->leads;
}

bool replicated_newest(const js_t *js, const stream_t *stream) {
    const replicated_t *replicated = stream->replicated;
    return replicated == NULL || (replicated->group != NULL && group_newest(replicated->group, *js->now));
}

bool replicated_has_room(const stream_t *stream) {
    return group_has_room(stream->replicated->group);
}

void stream_group_look(js_t *js, const plane_command_t *command, stream_t *stream) {
    const replicated_t *replicated = stream->replicated;
    if (replicated == NULL || js->groups == NULL) {
        js_done(js, command, replicated == NULL ? STATUS_INVALID : STATUS_AGAIN);
        return;
    }
    buffer_t shown;
    buffer_init(&shown, SHOWN_MAX);
    status_t status = group_shown(js->groups, replicated->group, *js->now, &shown);
    js_answer(js, command, status, 0, 0, status == STATUS_OK ? bytes_of(shown.at, (uint32_t)shown.size) : BYTES_NONE);
    buffer_free(&shown);
}

/* A lead that is handed to a server that is away comes to nothing, and stops the stream for an election's time. */
static bool may_inherit(const group_member_t *member, moment_t now) {
    return member->member.voter && !member->self && member->heard_ns != 0
           && now.mono_ns - member->heard_ns < HEIR_HEARD_NS;
}

/* Of two that lack as much the nearer one: with a leader that is far each message takes its way there and back. */
static bool inherits_before(const group_member_t *one, const group_member_t *other) {
    if (one->lag != other->lag) return one->lag < other->lag;
    return one->trip_ns != 0 && (other->trip_ns == 0 || one->trip_ns < other->trip_ns);
}

/* The member that is to lead: the one that is asked for, or another voter, of those the one that lacks least. */
static bool heir_of(const group_look_t *look, uint64_t peer, moment_t now, raft_disk_t *to) {
    const group_member_t *best = NULL;
    for (uint32_t i = 0; i < look->count; i++) {
        const group_member_t *member = &look->members[i];
        if (!may_inherit(member, now)) {
            continue;
        }
        bool better = best == NULL || (best->member.id.peer != peer && inherits_before(member, best));
        if (better || member->member.id.peer == peer) {
            best = member;
        }
    }
    if (best != NULL) {
        *to = best->member.id;
    }
    return best != NULL;
}

void stream_group_transfer(js_t *js, const plane_command_t *command, stream_t *stream) {
    const replicated_t *replicated = stream->replicated;
    raft_disk_t to;
    if (replicated == NULL || replicated->group == NULL) {
        js_done(js, command, replicated == NULL ? STATUS_INVALID : STATUS_AGAIN);
        return;
    }
    group_look_t look = group_look(replicated->group, *js->now);
    if (!heir_of(&look, command->arg, *js->now, &to)) {
        js_done(js, command, STATUS_AGAIN);
        return;
    }
    if (replicated_leads(stream)) { /* or what is in flight would come from the next leader as if it were new */
        consume_settle(js->consume, stream->id);
        consume_flush(js->consume);
        replicated_flush(js);
    }
    bool begun = group_transfer(replicated->group, to, *js->now);
    groups_stir(js->groups, replicated->group);
    js_done(js, command, begun ? STATUS_OK : STATUS_AGAIN);
}

void stream_group_alter(js_t *js, const plane_command_t *command, stream_t *stream) {
    const replicated_t *replicated = stream->replicated;
    meta_disk_t disk;
    memcpy(&disk, command->body, sizeof disk);
    bool wrong = command->arg < META_LEARN || command->arg > META_REMOVE || disk.peer == 0;
    if (replicated == NULL || replicated->group == NULL || wrong) {
        js_done(js, command, replicated == NULL || wrong ? STATUS_INVALID : STATUS_AGAIN);
        return;
    }
    if (command->arg == META_LEARN && group_floor(replicated->group) == 0) {
        /* The definition that the stream was made with is in no entry: a member that joins gets a copy, which begins
         * with it, and not the log from its first entry on. */
        store_checkpoint_want(js->stores[STORE_FILE]);
        groups_stir(js->groups, replicated->group);
        js_done(js, command, STATUS_AGAIN);
        return;
    }
    const raft_disk_t id = {.peer = disk.peer, .disk = disk.disk};
    bool begun = group_alter(replicated->group, (raft_change_t)command->arg, id, *js->now);
    groups_stir(js->groups, replicated->group);
    js_done(js, command, begun ? STATUS_OK : STATUS_AGAIN);
}

status_t replicated_share(js_t *js, stream_t *stream, bytes_t subjects) {
    consume_flush(js->consume); /* what there is of its consumers is read again from the disk */
    if (!consume_flushed(js->consume) || jobs_wait(js, stream)) {
        return STATUS_AGAIN; /* a purge that is not at its end is in no log */
    }
    status_t status = replicated_open(js, stream, subjects);
    if (status == STATUS_OK) {
        stream_unlisten(js, stream);
        replicated_lose_consumers(js, stream->replicated);
    }
    return status;
}

/* ---- its definition ---------------------------------------------------------------------------------------------- */

bool replicated_define(void *context, bytes_t definition) {
    const replicated_t *replicated = context;
    uint8_t key[4];
    store_be32(key, replicated->stream->id);
    store_t *store = replicated->js->stores[replicated->stream->which_store];
    return store_record_fits(store, definition) /* else it waits, and so does the log */
           && store_record_put(store, RECORD_STREAM, bytes_of(key, sizeof key), definition) == STATUS_OK
           && replicated_tell(replicated, LED_DEFINITION, 0, definition);
}

status_t replicated_redefine(const js_t *js, const stream_t *stream, bytes_t definition, bytes_t subjects) {
    replicated_t *replicated = stream->replicated;
    bytes_t own = bytes_copy(subjects);
    if (own.size != subjects.size) {
        return STATUS_NO_MEMORY;
    }
    bytes_release(&replicated->subjects);
    replicated->subjects = own;
    replica_defined(replicated->replica, definition);
    replicated_wake(replicated, ROW_TURNS);
    if (replicated->group != NULL) {
        groups_stir(js->groups, replicated->group);
    }
    return STATUS_OK;
}

void stream_define(js_t *js, const plane_command_t *command, stream_t *stream) {
    replicated_t *replicated = stream->replicated;
    strings_t strings = strings_of(command);
    bytes_t definition = strings_next(&strings);
    if (replicated == NULL || definition.size == 0 || definition.size > STORE_RECORD_MAX) {
        js_done(js, command, STATUS_INVALID);
        return;
    }
    uint64_t before = asked_size(&replicated->asked);
    uint64_t token = replicated_begin(js, command, replicated, ASKED_DEFINE);
    if (token != 0) {
        status_t status = replica_define(replicated->replica, definition, token, *js->now);
        replicated->defining += status == STATUS_OK;
        replicated_proposed(js, command, replicated, before, status);
    }
}
