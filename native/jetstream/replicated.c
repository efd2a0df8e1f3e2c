/* replicated.c: see replicated.h. */
#include "jetstream/replicated.h"

#include <stdlib.h>

#include "base/buffer.h"
#include "base/check.h"
#include "base/copies.h"
#include "base/random.h"
#include "jetstream/commands.h"
#include "jetstream/counter.h"
#include "jetstream/intake.h"
#include "jetstream/js.h"
#include "jetstream/publish.h"
#include "jetstream/replicated_private.h"
#include "jetstream/binding.h"

#define LISTEN_AGAIN_NS NS_PER_SECOND
#define BEHIND_NS (2 * NS_PER_SECOND) /* more than a follower's store waits for room */

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static void answer_publisher(js_t *js, const stream_t *stream, bytes_t reply, const appended_t *appended,
                             bytes_t counted) {
    if (reply.size == 0) {
        return;
    }
    bool taken = appended->verdict == APPEND_STORED || appended->verdict == APPEND_DUPLICATE
                 || appended->verdict == APPEND_SKIPPED;
    if (taken) {
        text_t text;
        if (appended->verdict == APPEND_STORED && counted.size > 0) {
            counted_text(stream, appended->seq, counted, &text);
        } else {
            ack_text(stream, appended->seq, appended->verdict == APPEND_DUPLICATE, &text);
        }
        js_say(js, stream->account, reply, BYTES_NONE, text_bytes(&text));
        return;
    }
    publish_result_t result = {.appended = *appended};
    js_name_verdict(&result);
    js_answer_refused(js, stream, reply, &result.refusal);
}

static void answer_command(js_t *js, const asked_t *head, bytes_t bytes, const replica_outcome_t *outcome) {
    plane_command_t command;
    memcpy(&command, bytes.at, sizeof command);
    if (outcome == NULL) {
        js_done(js, &command, STATUS_CLOSED);
    } else if (head->what == ASKED_DELETE) {
        js_done(js, &command, outcome->found ? STATUS_OK : STATUS_NOT_FOUND);
    } else if (head->what == ASKED_DONE) {
        bytes_t answer = bytes_after(bytes, sizeof command);
        uint64_t arg;
        memcpy(&arg, answer.at, sizeof arg);
        js_answer(js, &command, STATUS_OK, arg, 0, bytes_after(answer, sizeof arg));
    } else {
        js_answer(js, &command, STATUS_OK, head->what == ASKED_PURGE ? outcome->purged : 0, 0, BYTES_NONE);
    }
}

static status_t say_later(replicated_t *replicated, asked_queue_t *queue, asked_what_t what, bytes_t subject,
                          bytes_t rest) {
    buffer_t *scratch = &replicated->js->scratch;
    uint8_t *at;
    scratch->size = 0;
    if (buffer_reserve(scratch, 4 + (uint64_t)subject.size + rest.size, &at) != STATUS_OK) {
        return STATUS_NO_MEMORY;
    }
    store_be32(at, subject.size);
    const uint8_t *end = bytes_write(bytes_write(at + 4, subject), rest);
    return asked_ride(queue, what, bytes_of(at, (uint32_t)(end - at)));
}

status_t replicated_say(replicated_t *replicated, asked_queue_t *queue, bytes_t subject, bytes_t header) {
    return say_later(replicated, queue, ASKED_SAY, subject, header);
}

status_t replicated_tell_host(replicated_t *replicated, bytes_t subject, bytes_t payload) {
    return say_later(replicated, &replicated->held, ASKED_TELL, subject, payload);
}

static void say_now(const replicated_t *replicated, bytes_t bytes, bool payload) {
    uint32_t size = load_be32(bytes.at);
    bytes_t subject = bytes_of(bytes.at + 4, size), rest = bytes_after(bytes, 4 + size);
    js_say(replicated->js, replicated->stream->account, subject, payload ? BYTES_NONE : rest,
           payload ? rest : BYTES_NONE);
}

void replicated_say_now(const replicated_t *replicated, bytes_t bytes) {
    say_now(replicated, bytes, false);
}

/* outcome NULL: it is not known what becomes of it. */
static void answer_one(js_t *js, const replicated_t *replicated, const asked_t *head, bytes_t bytes,
                       const replica_outcome_t *outcome) {
    if (head->what == ASKED_TAKEN) {
        if (outcome != NULL) {
            ingest_applied(js, load_be64(bytes.at), &outcome->appended);
        }
    } else if (head->what == ASKED_CREDIT) {
        if (outcome != NULL) {
            replicated_credit_now(replicated, bytes);
        }
    } else if (head->what == ASKED_STOP) {
        replicated_answer_stop(js, replicated, bytes);
    } else if (head->what == ASKED_BATCH) {
        if (outcome != NULL) {
            replicated_answer_batch(js, replicated->stream, bytes, &outcome->appended);
        }
    } else if (head->what == ASKED_FAST) {
        if (outcome != NULL) {
            js_fast_applied(js, replicated->stream, bytes, &outcome->appended);
        } else if (replicated != NULL) {
            js_fast_lost(js, replicated->stream, bytes);
        }
    } else if (head->what == ASKED_TELL) {
        if (outcome != NULL) {
            say_now(replicated, bytes, true);
        }
    } else if (head->what != ASKED_PUBLISH && head->what != ASKED_SAY) {
        answer_command(js, head, bytes, outcome);
    } else if (outcome != NULL && head->what == ASKED_SAY) {
        replicated_say_now(replicated, bytes);
    } else if (outcome != NULL) {
        answer_publisher(js, replicated->stream, bytes, &outcome->appended, replicated->counted);
    }
}

/* A stored message is published again by the leader when it applies it. A leader that dies may have done so, and the
 * next one does, too, or neither: nobody has promised it. */
static appended_t replicated_append(void *context, const append_t *append, bool grouped) {
    replicated_t *replicated = context;
    store_stream_t *store = replicated->stream->store;
    if (!append->skip) {
        store_stream_kept(store, store_stream_size(store, append->subject, append->header, append->payload));
    }
    appended_t appended =
        js_append_timed(replicated->js, replicated->stream, append, grouped, group_leads(replicated->group));
    bool counts = (replicated->stream->config.flags & STREAM_COUNTER) != 0 && appended.verdict == APPEND_STORED;
    replicated->counted = counts && !grouped ? counter_value(append->payload) : BYTES_NONE;
    return appended;
}

static append_verdict_t replicated_count(void *context, const append_t *before, append_t *append) {
    const replicated_t *replicated = context;
    return counter_applied(replicated->js, replicated->stream, before, append);
}

static void replicated_answered(void *context, uint64_t token, const replica_outcome_t *outcome) {
    replicated_t *replicated = context;
    asked_t head = {0};
    bytes_t bytes = BYTES_NONE;
    check(asked_take(&replicated->asked, &head, &bytes) && head.token == token);
    replicated->defining -= head.what == ASKED_DEFINE;
    do {
        answer_one(replicated->js, replicated, &head, bytes, outcome);
    } while (asked_take_rider(&replicated->asked, &head, &bytes));
    if (asked_empty(&replicated->asked)) {
        store_stream_kept(replicated->stream->store, UINT64_MAX); /* nothing of it is under way */
    }
    asked_trim(&replicated->asked);
}

static void replicated_followed(void *context, bytes_t words, const appended_t *appended) {
    const replicated_t *replicated = context;
    js_fast_followed(replicated->js, replicated->stream, words, appended);
}

static void replicated_news(void *context) {
    replicated_wake(context, ROW_TURNS);
}

void replicated_forget(js_t *js, asked_queue_t *queue) {
    asked_t head;
    bytes_t bytes;
    while (asked_take(queue, &head, &bytes)) {
        answer_one(js, NULL, &head, bytes, NULL);
    }
    asked_trim(queue);
}

/* ---- what is asked of the log ------------------------------------------------------------------------------------ */

/* What was proposed goes with the next turn of the groups; what was not is taken back. */
void replicated_went(replicated_t *replicated, uint64_t before, status_t status) {
    if (status == STATUS_OK) {
        groups_stir(replicated->js->groups, replicated->group);
    } else {
        asked_unput(&replicated->asked, before);
    }
}

status_t replicated_propose(js_t *js, stream_t *stream, const append_t *append, asked_what_t what, bytes_t asker,
                            bytes_t words) {
    replicated_t *replicated = stream->replicated;
    text_t name;
    append_t renamed = *append;
    renamed.waits = false;
    renamed.subject = js_stored_subject(js, stream, append->subject, &name);
    if (renamed.subject.size == 0) {
        return STATUS_INVALID;
    }
    renamed.skip = js_nobody_wants(js, stream, &renamed);
    uint64_t size =
        renamed.skip ? 0 : store_stream_size(stream->store, renamed.subject, renamed.header, renamed.payload);
    if (what == ASKED_PUBLISH && size > 0 && store_stream_lacks_bytes(stream->store, size)) {
        return STATUS_FULL;
    }
    if (!replicated_has_room(stream)) {
        return STATUS_NO_SPACE;
    }
    uint64_t before = asked_size(&replicated->asked);
    uint64_t token = asked_put(&replicated->asked, what, asker);
    if (token == 0) {
        return STATUS_AGAIN;
    }
    replica_t *replica = replicated->replica;
    bytes_t riding = bytes_of(replicated->riding.at, (uint32_t)replicated->riding.size);
    status_t status = riding.size > 0  ? replica_publish_noted(replica, &renamed, riding, token, *js->now)
                      : words.size > 0 ? replica_publish_fast(replica, &renamed, words, token, *js->now)
                                       : replica_publish(replica, &renamed, token, *js->now);
    replicated_went(replicated, before, status);
    if (status == STATUS_OK) {
        store_stream_promise(stream->store, size);
    }
    return status;
}

bool replicated_proposes(const replicated_t *replicated) {
    return replicated->group != NULL && group_leads(replicated->group) && !replica_stuck(replicated->replica);
}

/* false: it is to wait. */
static bool propose_message(js_t *js, stream_t *stream, const message_t *message) {
    bytes_t word = js_fast_word(message);
    if (word.size != 0) {
        return js_fast(js, stream, message, word);
    }
    intake_t intake;
    const refusal_t *refusal = js_refused_outright(stream, message);
    refusal = intake_begin(js, stream, message, PUBLISHER_CLIENT, refusal, &intake);
    if (intake.batch_id.size != 0) {
        js_atomic(js, stream, message); /* it waits by itself */
        return true;
    }
    bytes_t reply = (stream->config.flags & STREAM_NO_ACK) != 0 ? BYTES_NONE : message->reply;
    status_t status =
        refusal == NULL ? replicated_propose(js, stream, &intake.append, ASKED_PUBLISH, reply, BYTES_NONE) : STATUS_OK;
    refusal = status == STATUS_INVALID    ? &refused_size
              : status == STATUS_FULL     ? &refused_account
              : status == STATUS_NO_SPACE ? &refused_space
                                          : refusal;
    if (refusal != NULL) {
        js_answer_refused(js, stream, reply, refusal);
    }
    return status != STATUS_AGAIN;
}

void js_propose(js_t *js, stream_t *stream, const message_t *message) {
    replicated_t *replicated = stream->replicated;
    if (!replicated_proposes(replicated)) {
        return; /* as if nobody had listened: this one will not in a moment */
    }
    bool rides = replicated->riding.size != 0;
    bool done = replicated->queued.count == 0 && propose_message(js, stream, message);
    replicated->riding.size = 0;
    if (done) {
        return;
    }
    if (rides) {
        js_answer_refused(js, stream, message->reply, &refused_crowded);
        return;
    }
    replicated_wake(replicated, ROW_TURNS);
    if (!queued_put(&replicated->queued, message)) {
        js_answer_refused(js, stream, message->reply, &refused_crowded);
    }
}

/* What waits is proposed as the log has room, and is given up when this server does not lead. */
static void propose_queued(js_t *js, replicated_t *replicated) {
    message_t message;
    if (!replicated_proposes(replicated)) {
        queued_free(&replicated->queued);
    }
    for (uint32_t done = 0; done < QUEUED_STEP && queued_first(&replicated->queued, &message); done++) {
        if (!propose_message(js, replicated->stream, &message)) {
            return;
        }
        queued_drop(&replicated->queued);
    }
}

uint64_t replicated_begin(js_t *js, const plane_command_t *command, replicated_t *replicated, asked_what_t what) {
    const plane_command_t kept = command_kept(command);
    bytes_t bytes = bytes_of((const uint8_t *)&kept, sizeof kept);
    uint64_t token = replicated->group != NULL ? asked_put(&replicated->asked, what, bytes) : 0;
    if (token == 0) {
        js_done(js, command, STATUS_AGAIN);
    }
    return token;
}

void replicated_proposed(js_t *js, const plane_command_t *command, replicated_t *replicated, uint64_t before,
                         status_t status) {
    replicated_went(replicated, before, status);
    if (status != STATUS_OK) {
        js_done(js, command, status);
    }
}

void replicated_delete(js_t *js, const plane_command_t *command, const stream_t *stream) {
    replicated_t *replicated = stream->replicated;
    uint64_t before = asked_size(&replicated->asked);
    uint64_t token = replicated_begin(js, command, replicated, ASKED_DELETE);
    if (token != 0) {
        status_t status = replica_delete(replicated->replica, command->arg, token, *js->now);
        replicated_proposed(js, command, replicated, before, status);
    }
}

void replicated_purge(js_t *js, const plane_command_t *command, const stream_t *stream, bytes_t filter) {
    replicated_t *replicated = stream->replicated;
    uint64_t before = asked_size(&replicated->asked);
    uint64_t token = replicated_begin(js, command, replicated, ASKED_PURGE);
    if (token != 0) {
        status_t status = replica_purge(replicated->replica, filter, command->arg, command->arg2, token, *js->now);
        replicated_proposed(js, command, replicated, before, status);
    }
}

/* ---- opening and removing a replicated stream -------------------------------------------------------------------- */

status_t replicated_open(js_t *js, stream_t *stream, bytes_t subjects) {
    replicated_t *replicated = calloc(1, sizeof *replicated);
    if (replicated == NULL) {
        return STATUS_NO_MEMORY;
    }
    const replica_hooks_t hooks = {.context = replicated,
                                   .answered = replicated_answered,
                                   .define = replicated_define,
                                   .append = replicated_append,
                                   .count = replicated_count,
                                   .ends = replicated_ends,
                                   .end = replicated_end,
                                   .followed = replicated_followed,
                                   .news = replicated_news};
    *replicated =
        (replicated_t){.js = js, .stream = stream, .subjects = bytes_copy(subjects), .due_ns = js->now->mono_ns};
    asked_init(&replicated->asked);
    asked_init(&replicated->held);
    asked_init(&replicated->taken);
    buffer_count(&replicated->taken.bytes, &js->staged);
    buffer_init(&replicated->packed, UINT32_MAX);
    buffer_init(&replicated->riding, UINT32_MAX);
    buffer_init(&replicated->ripe, UINT32_MAX);
    queued_init(&replicated->queued, &js->staged, QUEUED_MOST);
    replicated->replica = replica_open(stream->store, hooks);
    stream->replicated = replicated;
    replicated->next = js->replicated;
    replicated->place = &js->replicated;
    if (replicated->next != NULL) {
        replicated->next->place = &replicated->next;
    }
    js->replicated = replicated;
    replicated_wake(replicated, ROW_TURNS);
    if (replicated->replica == NULL || replicated->subjects.size != subjects.size) {
        replicated_free(js, stream);
        return STATUS_NO_MEMORY;
    }
    return STATUS_OK;
}

/* This server does not take part, as when the promise is another disk's. What the disk has of the group goes all the
 * same. Numbers are used once, so what cannot be read of it is in nobody's way. */
static status_t unjoined_remove(const js_t *js, const stream_t *stream) {
    status_t status = store_ledger_forget(js->stores[STORE_FILE], stream->id + 1);
    return status == STATUS_FULL ? STATUS_FULL : STATUS_OK;
}

status_t replicated_remove(js_t *js, stream_t *stream) {
    replicated_t *replicated = stream->replicated;
    if (replicated == NULL || js->groups == NULL) {
        return STATUS_OK;
    }
    if (replicated->group == NULL) {
        return unjoined_remove(js, stream);
    }
    status_t status = groups_remove(js->groups, replicated->group);
    if (status == STATUS_OK) {
        replicated->group = NULL;
    }
    return status;
}

void replicated_free(js_t *js, stream_t *stream) {
    replicated_t *replicated = stream->replicated;
    if (replicated == NULL) {
        return;
    }
    if (replicated->group != NULL) {
        groups_leave(js->groups, replicated->group);
    }
    replicated_forget(js, &replicated->taken);
    replicated_forget(js, &replicated->held);
    replicated_forget(js, &replicated->asked);
    replica_close(replicated->replica);
    replicated_unrow(replicated);
    *replicated->place = replicated->next;
    if (replicated->next != NULL) {
        replicated->next->place = replicated->place;
    }
    bytes_release(&replicated->subjects);
    asked_free(&replicated->asked);
    asked_free(&replicated->held);
    asked_free(&replicated->taken);
    buffer_free(&replicated->packed);
    buffer_free(&replicated->riding);
    buffer_free(&replicated->ripe);
    queued_free(&replicated->queued);
    free(replicated);
    stream->replicated = NULL;
}

/* ---- the group of a replicated stream ---------------------------------------------------------------------------- */

/* Its ledger has a number beside the stream's own, and 1 is the group's of all servers. */
static group_options_t options_of(js_t *js, const stream_t *stream, uint64_t name, const raft_config_t *founders) {
    group_options_t options = {.number = stream->id + 1,
                               .times = groups_times,
                               .seed = random_next(&js->random) | 1,
                               .name = name,
                               .at_once = true,
                               .founders = founders};
    replica_hook(stream->replicated->replica, &options.hooks);
    return options;
}

/* The group that is here is the one of that name. how alone: or becomes it (survivor.c in group/). */
static status_t group_succeed(js_t *js, group_t *group, uint64_t name, uint64_t how) {
    if (group_name(group) == name) {
        return STATUS_OK;
    }
    return how == JOIN_ALONE ? groups_alone(js->groups, group, name, *js->now) : STATUS_EXISTS;
}

static status_t group_begin(js_t *js, const stream_t *stream, uint64_t name, const raft_config_t *founders,
                            uint64_t how) {
    replicated_t *replicated = stream->replicated;
    group_t *group = NULL;
    uint8_t note[REPLICA_NOTE_SIZE];
    group_options_t options = options_of(js, stream, name, founders);
    status_t status = groups_load(js->groups, options, *js->now, &group);
    if (status == STATUS_CORRUPT && how != JOIN_ALONE) groups_damaged(js->groups, options.number);
    if (status == STATUS_INVALID && how == JOIN_ALONE) { /* another disk's, and nobody else has it */
        status = store_ledger_inherit(js->stores[STORE_FILE], options.number);
        status = status == STATUS_OK ? groups_load(js->groups, options, *js->now, &group) : status;
    }
    bool makes = how == JOIN_FOUNDS ? founders->count > 0 : how == JOIN_WAITS && founders->count == 0;
    bool none = status == STATUS_OK && group == NULL;
    if (none && makes) {
        options.grown = founders->count == 1; /* this server had the stream alone */
        options.note = options.grown ? replica_grown(replicated->replica, note, *js->now) : BYTES_NONE;
        status = groups_make(js->groups, options, *js->now, &group);
    }
    if (status != STATUS_OK || group == NULL) {
        return status == STATUS_OK ? STATUS_NOT_FOUND : status;
    }
    if (group_name(group) != name && how != JOIN_ALONE) {
        groups_leave(js->groups, group);
        return STATUS_EXISTS;
    }
    replicated->group = group;
    replica_join(replicated->replica, group);
    replicated_wake(replicated, ROW_TURNS);
    return group_succeed(js, group, name, how);
}

void stream_group(js_t *js, const plane_command_t *command, stream_t *stream) {
    meta_disk_t disks[RAFT_MEMBERS_MAX];
    raft_config_t founders = {.count = command->body_size / (uint32_t)sizeof *disks};
    replicated_t *replicated = stream->replicated;
    status_t status = STATUS_OK;
    if (replicated == NULL || command->arg == 0 || stream->id == UINT32_MAX || command->body_size > sizeof disks) {
        status = STATUS_INVALID;
    } else if (js->groups == NULL) {
        status = STATUS_AGAIN;
    } else {
        if (command->body_size > 0) {
            memcpy(disks, command->body, command->body_size);
        }
        for (uint32_t i = 0; i < founders.count; i++) {
            founders.at[i] = (raft_member_t){.id = {.peer = disks[i].peer, .disk = disks[i].disk}, .voter = true};
        }
        status = replicated->group != NULL ? group_succeed(js, replicated->group, command->arg, command->arg2)
                                           : group_begin(js, stream, command->arg, &founders, command->arg2);
    }
    if (status == STATUS_OK) {
        js_done_durable(js, command, STORE_FILE, 0, BYTES_NONE);
        return;
    }
    js_done(js, command, status);
}

/* ---- turns ------------------------------------------------------------------------------------------------------- */

/* Without memory to listen, or when its consumers cannot be read, it says so to nobody, and tries again. */
static void take_lead(js_t *js, replicated_t *replicated, bool ready) {
    if (!ready) {
        stream_unlisten(js, replicated->stream);
        replicated->leads = false;
        js_atomic_forget(js, replicated->stream);
        replicated_lose_consumers(js, replicated);
    } else if (js->now->mono_ns >= replicated->listen_ns) {
        replicated->leads = replicated_tell_consumers(replicated)
                            && stream_listen(js, replicated->stream, replicated->subjects) == STATUS_OK;
        replicated->listen_ns = replicated->leads ? 0 : js->now->mono_ns + LISTEN_AGAIN_NS;
        replicated->untold = replicated->untold && !replicated->leads; /* what it has told says that, too */
        replicated->host_makes =
            replicated->leads && js->host->led != NULL && js->host->led(js->plane, replicated->stream);
        replicated->complete = replicated->complete && !replicated->host_makes;
        if (replicated->leads) {
            js_fast_lead(js, replicated->stream);
        }
    }
}

/* A follower answers direct gets, too, as it does in the reference: with what it has applied, which is as old as its
 * leader's last word. So it has to hear a leader, and to have all that was said to be agreed on; where it falls behind
 * it leaves them to others. */
static void share_gets(js_t *js, replicated_t *replicated) {
    stream_t *stream = replicated->stream;
    stream->half = replica_half(replicated->replica);
    if (replicated->leads) {
        replicated->behind_ns = 0;
        return;
    }
    if (group_current(replicated->group)) {
        replicated->behind_ns = INT64_MAX;
    } else if (replicated->behind_ns == INT64_MAX) {
        replicated->behind_ns = js->now->mono_ns + BEHIND_NS;
    }
    bool hears = group_leader(replicated->group).peer != 0 && !stream->half && !replica_stuck(replicated->replica);
    stream_answer_gets(js, stream, hears && js->now->mono_ns < replicated->behind_ns);
}

/* When it has something to do by itself. */
static void replicated_take_due(const js_t *js, replicated_t *replicated) {
    replicated->due_ns = INT64_MAX;
    replicated_due(replicated, replica_deadline(replicated->replica, *js->now));
    if (replicated->listen_ns != 0) {
        replicated_due(replicated, replicated->listen_ns);
    }
    if (replicated->ripe.size > 0) {
        replicated_due(replicated, js->now->mono_ns + RIPE_AGAIN_NS);
    }
    if (js->now->mono_ns < replicated->behind_ns) {
        replicated_due(replicated, replicated->behind_ns);
    }
    if (replicated->lacks && !asked_empty(&replicated->taken)) {
        replicated_due(replicated, js->now->mono_ns + LACKS_AGAIN_NS);
    }
}

static void replicated_turn(js_t *js, replicated_t *replicated) {
    bool ready = group_ready(replicated->group) && !replica_stuck(replicated->replica);
    if (ready != replicated->leads) {
        take_lead(js, replicated, ready);
    }
    replicated_fire_ripe(js, replicated);
    replica_turn(replicated->replica, *js->now);
    share_gets(js, replicated);
    if (replicated->queued.count > 0) {
        propose_queued(js, replicated);
    }
    replicated_propose_taken(js, replicated);
    if (replicated->untold) {
        replicated_tell_lost(replicated);
        replicated->listen_ns = replicated->untold ? js->now->mono_ns + LISTEN_AGAIN_NS : 0;
    }
    if (!group_rests(replicated->group)) {
        groups_stir(js->groups, replicated->group);
    }
    if (replicated->queued.count > 0) {
        replicated_wake(replicated, ROW_TURNS);
    }
    replicated_take_due(js, replicated);
}

void js_replicas_turn(js_t *js) {
    replicated_wake_due(js);
    replicated_t *left = replicated_row(js, ROW_TURNS);
    for (replicated_t *one; (one = replicated_next_of(&left, ROW_TURNS)) != NULL;) {
        if (one->group != NULL) {
            replicated_turn(js, one);
        }
    }
}
