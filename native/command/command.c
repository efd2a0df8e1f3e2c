/* command.c: from a command to the function that its row names (command_table.c); and those functions that are about
 * connections, accounts, subscriptions and limits. JetStream's are in jetstream/.
 *
 * A command is checked here for shape (sizes, known ids), not for sense: control decided already. A command for
 * something that is gone by now is answered STATUS_NOT_FOUND, never more.
 */
#include <stdlib.h>
#include <unistd.h>

#include "command/command.h"

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/copies.h"
#include "base/table.h"
#include "command/command_table.h"
#include "command/greeting.h"
#include "exchange/answer.h"
#include "exchange/held.h"
#include "exchange/shape.h"
#include "exchange/strings.h"
#include "jetstream/js.h"
#include "jetstream/replicated.h"
#include "net/listen.h"
#include "net/loop.h"
#include "net/outq.h"
#include "net/compress.h"
#include "net/websocket.h"
#include "plane/account.h"
#include "plane/import.h"
#include "plane/interest.h"
#include "plane/link_part.h"
#include "plane/mapping.h"
#include "plane/peer.h"
#include "plane/plane.h"
#include "plane/protocol.h"
#include "plane/publication.h"
#include "plane/subscription.h"
#include "plane/web.h"
#include "store/store.h"
#include "text/text.h"

#define SUBSCRIBE_TRIES 4u

/* ---- completions ------------------------------------------------------------------------------------------------- */

void command_answer(plane_t *plane, const plane_command_t *command, status_t status, uint64_t arg, uint64_t arg2,
                    bytes_t payload) {
    exchange_answer(&plane->exchange, command, status, arg, arg2, payload);
}

void command_done(plane_t *plane, const plane_command_t *command, status_t status) {
    exchange_complete(&plane->exchange, command, status);
}

/* ---- listeners and connections ----------------------------------------------------------------------------------- */

static void listener_set(plane_listener_t *listener, uint64_t kind) {
    uint32_t before = (uint32_t)(LISTEN_SECURE | LISTEN_PROXIED);
    listener->kind = ((uint32_t)kind & ~before) | (listener->kind & LISTEN_GREETED);
    listener->secure = (kind & LISTEN_SECURE) != 0;
    listener->proxied = (kind & LISTEN_PROXIED) != 0;
}

void command_listen(plane_t *plane, const plane_command_t *command) {
    for (plane_listener_t *known = plane->listeners; known != NULL; known = known->next) {
        if (known->id == command->target) {
            listener_set(known, command->arg2);
            command_done(plane, command, STATUS_OK);
            return;
        }
    }
    plane_listener_t *listener = calloc(1, sizeof(*listener));
    if (listener == NULL) {
        close((int)command->arg);
        command_done(plane, command, STATUS_NO_MEMORY);
        return;
    }
    listener->id = command->target;
    listener_set(listener, command->arg2);
    status_t status = listener_open(&listener->listener, (int)command->arg);
    if (status == STATUS_OK) {
        status = loop_add(&plane->loop, listener->listener.fd, LOOP_READ, (void *)((uintptr_t)listener | 1u));
    }
    if (status != STATUS_OK) {
        listener_close(&listener->listener);
        free(listener);
    } else {
        listener->next = plane->listeners;
        plane->listeners = listener;
    }
    command_done(plane, command, status);
}

void command_unlisten(plane_t *plane, const plane_command_t *command) {
    for (plane_listener_t **at = &plane->listeners; *at != NULL; at = &(*at)->next) {
        plane_listener_t *listener = *at;
        if (listener->id == command->target) {
            *at = listener->next;
            loop_remove(&plane->loop, listener->listener.fd);
            listener_close(&listener->listener);
            greeting_drop(listener);
            free(listener);
            command_done(plane, command, STATUS_OK);
            return;
        }
    }
    command_done(plane, command, STATUS_NOT_FOUND);
}

void command_adopt(plane_t *plane, const plane_command_t *command) {
    int fd = (int)command->arg;
    char address[LISTEN_PEER_SIZE] = "";
    status_t status = listen_adopt(fd, address);
    if (status == STATUS_OK) {
        peer_t *peer = peer_new(plane, fd, (uint32_t)command->arg2 & ~(uint32_t)LISTEN_SECURE, 0,
                                bytes_of(address, (uint32_t)strlen(address)));
        if (peer != NULL) {
            if ((command->arg2 & LISTEN_SECURE) != 0) {
                peer_hold(plane, peer, WAITS_SECURE);
            }
            command_answer(plane, command, STATUS_OK, peer->id, 0, BYTES_NONE);
            return;
        }
        status = STATUS_NO_MEMORY;
    }
    close(fd);
    command_done(plane, command, status);
}

static bytes_t command_body(const plane_command_t *command) {
    return bytes_of(command->body, command->body_size);
}

void command_send(plane_t *plane, const plane_command_t *command, peer_t *peer) {
    peer_send_urgent(plane, peer, command_body(command));
    if (peer_waits(peer, WAITS_SECURE)) {
        peer_release(plane, peer, WAITS_SECURE); /* control speaks in plain text with it */
    }
    if (peer->excess) {
        peer_doom(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("maximum connections exceeded"));
    }
    command_done(plane, command, STATUS_OK);
}

void command_resume(plane_t *plane, const plane_command_t *command, peer_t *peer) {
    peer_resume(plane, peer);
    command_done(plane, command, STATUS_OK);
}

void command_close(plane_t *plane, const plane_command_t *command, peer_t *peer) {
    /* arg2: unless it has spoken, which control may not have heard yet. */
    if (command->arg2 == 0 || peer->state == PEER_GREETING) {
        peer_doom(plane, peer, (uint32_t)command->arg, command_body(command));
    }
    command_done(plane, command, STATUS_OK);
}

_Static_assert((int)WEB_CLIENT == (int)WEBSOCKET_CLIENT && (int)WEB_UNMASKED == (int)WEBSOCKET_UNMASKED
                   && (int)WEB_DEFLATE == (int)WEBSOCKET_DEFLATE && (int)WEB_SMALL == (int)WEBSOCKET_SMALL
                   && (int)WEB_WHOLE == (int)WEBSOCKET_WHOLE,
               "control's flags are the transport's");

void command_upgrade(plane_t *plane, const plane_command_t *command, peer_t *peer) {
    web_upgrade(plane, peer, (uint32_t)command->arg, (uint32_t)command->arg2, command_body(command));
    command_done(plane, command, STATUS_OK);
}

void command_describe(plane_t *plane, const plane_command_t *command, peer_t *peer) {
    strings_t strings = strings_of(command);
    description_t description;
    for (uint32_t i = 0; i < DESCRIPTION_PARTS; i++) {
        description.parts[i] = strings_next(&strings);
    }
    command_done(plane, command, peer_describe(peer, &description));
}

/* What the client gets behind its first PONG: the INFO of its login, and the last of the INFOs since then. Without
 * memory for both it gets the first alone, as a client that was not told of a change. */
static void say_behind_pong(peer_t *peer, bytes_t info) {
    bytes_t *told = &peer->after_pong;
    const uint8_t *end = memchr(told->at, '\n', told->size);
    uint32_t first = end != NULL ? (uint32_t)(end - told->at) + 1 : told->size;
    uint8_t *both = malloc((size_t)first + info.size);
    if (both != NULL) {
        uint8_t *past = bytes_write(bytes_write(both, bytes_of(told->at, first)), info);
        bytes_release(told);
        *told = bytes_of(both, (uint32_t)(past - both));
    }
}

void command_broadcast(plane_t *plane, const plane_command_t *command) {
    for (peer_t *peer = plane->all_peers; peer != NULL; peer = peer->next) {
        if (peer->protocol->link || peer->state != PEER_ADMITTED || (peer->flags & VERDICT_PROTOCOL_1) == 0
            || (command->arg != 0) != (peer->web != NULL)) {
            continue;
        }
        bytes_t own = greeting_text(peer, command_body(command));
        /* Only a client that has had its first PONG may see an INFO (tests/wire/client.md, "INFO"). */
        if (own.size != 0 && peer->after_pong.size != 0) {
            say_behind_pong(peer, own);
        } else if (own.size != 0) {
            peer_send_urgent(plane, peer, own);
        }
        bytes_release(&own);
    }
    command_done(plane, command, STATUS_OK);
}

static uint64_t add_past(const account_t *account, uint32_t kind, connection_row_t *rows, uint64_t filled) {
    const account_past_t *past = &account->past[kind == CONN_LEAF ? 1 : 0];
    if ((past->in_msgs | past->out_msgs | past->slow) == 0) {
        return filled;
    }
    rows[filled] = (connection_row_t){.account = account->js.id,
                                      .kind = kind,
                                      .in_msgs = past->in_msgs,
                                      .out_msgs = past->out_msgs,
                                      .in_bytes = past->in_bytes,
                                      .out_bytes = past->out_bytes,
                                      .slow = past->slow};
    return filled + 1;
}

/* Adds the measurements of a link. */
static void add_line(const peer_t *peer, connection_row_t *row) {
    tcp_look_t look;
    if (!peer->protocol->link || !tcp_look(peer->conn.fd, &look)) {
        return;
    }
    const window_t *window = &peer->link->window;
    row->window = window->narrow ? window->bytes : 0;
    row->rate = window->proven ? window->rate : look.rate;
    row->held = look.held;
    row->sent = look.sent;
    row->resent = look.resent;
    row->received = look.received;
    row->trip_ns = look.round_trip_ns;
    row->trip_min_ns = look.round_trip_min_ns;
    row->wire = look.wire;
    row->budgeted = lanes_held(peer->lanes);
}

void command_connections(plane_t *plane, const plane_command_t *command) {
    uint64_t count = plane->stats.connections + plane->carried;
    uint64_t room = count + 2 * (uint64_t)table_count(&plane->accounts) + 1;
    connection_row_t *rows = calloc(room, sizeof(*rows));
    uint64_t filled = 0;
    for (peer_t *peer = plane->all_peers; rows != NULL && peer != NULL && filled < count; peer = peer->next) {
        peer_look(plane, peer);
        if (peer->carried) { /* counts in the sums of its account, as connections that have gone do */
            rows[filled++] = (connection_row_t){.account = peer->account == NULL ? 0 : peer->account->js.id,
                                                .kind = CONN_CLIENT,
                                                .in_msgs = peer->in_msgs,
                                                .out_msgs = peer->out_msgs,
                                                .in_bytes = peer->in_bytes,
                                                .out_bytes = peer->out_bytes};
            continue;
        }
        rows[filled] = (connection_row_t){.connection = peer->id,
                                          .account = peer->account == NULL ? 0 : peer->account->js.id,
                                          .kind = peer->kind,
                                          .in_msgs = peer->in_msgs,
                                          .out_msgs = peer->out_msgs,
                                          .in_bytes = peer->in_bytes,
                                          .out_bytes = peer->out_bytes,
                                          .pending_bytes = outq_pending(&peer->conn.out) + lanes_pending(peer->lanes),
                                          .subscriptions = map_count(peer->table) - peer->dead_count,
                                          .admitted = peer->state == PEER_ADMITTED,
                                          .rtt_ns = peer->rtt_ns,
                                          .start_wall_ns = peer->start_wall_ns,
                                          .last_wall_ns = peer->last_wall_ns,
                                          .compressed = peer->compress != NULL,
                                          .level = peer->compress != NULL ? compress_level(peer->compress) : 0,
                                          .heard_ns = plane->now.mono_ns - peer->last_input_ns};
        add_line(peer, &rows[filled++]);
    }
    map_walk_t walk = {0};
    for (const account_t *account; rows != NULL && (account = table_next(&plane->accounts, &walk)) != NULL;) {
        check(filled + 2 <= room);
        filled = add_past(account, CONN_CLIENT, rows, filled);
        filled = add_past(account, CONN_LEAF, rows, filled);
    }
    command_answer(plane, command, rows == NULL ? STATUS_NO_MEMORY : STATUS_OK, filled, 0,
                   bytes_of(rows, (uint32_t)(filled * sizeof(*rows))));
    free(rows);
}

/* ---- accounts and control's own subscriptions -------------------------------------------------------------------- */

void command_account(plane_t *plane, const plane_command_t *command) {
    strings_t strings = strings_of(command);
    bytes_t name = strings_next(&strings);
    bytes_t domain = strings_next(&strings);
    status_t status = account_put(plane, command->account, (uint32_t)command->arg, name, domain);
    account_t *account = account_find(plane, command->account);
    if (status == STATUS_OK && (account->flags & ACCOUNT_LINKED) != 0) {
        status = interest_expect_links(plane, account);
    }
    if (status == STATUS_OK) {
        status = interest_announce_domain(plane, account);
    }
    command_done(plane, command, status);
}

void command_allow(plane_t *plane, const plane_command_t *command, account_t *account) {
    allowed_t allowed;
    memcpy(&allowed, command->body, sizeof(allowed));
    command_done(plane, command, js_allow(&plane->js, &account->js, command->arg, &allowed));
}

void command_traces(plane_t *plane, const plane_command_t *command, account_t *account) {
    strings_t strings = strings_of(command);
    command_done(plane, command, account_trace(account, strings_next(&strings), (uint32_t)command->arg));
}

void command_mapping(plane_t *plane, const plane_command_t *command, account_t *account) {
    command_done(plane, command, mappings_put(plane, account, strings_of(command)));
}

/* Imports whose shadows are being cast, a part in each turn. */
typedef struct growing {
    leftover_t leftover; /* first */
    plane_command_t command;
    growth_t growth;
} growing_t;

static bool growing_step(leftover_t *self, void *context, uint32_t *budget) {
    growing_t *growing = (growing_t *)self;
    if (!growth_some(context, &growing->growth, budget)) {
        return false;
    }
    command_done(context, &growing->command, growing->growth.status);
    free(growing);
    return true;
}

void command_imports(plane_t *plane, const plane_command_t *command, account_t *account) {
    growing_t *growing = calloc(1, sizeof(*growing));
    if (growing == NULL) {
        command_done(plane, command, STATUS_NO_MEMORY);
        return;
    }
    growing->leftover.step = growing_step;
    growing->command = *command;
    imports_put(plane, account, command, &growing->growth);
    uint32_t budget = SWEEP_MAX;
    if (!growing_step(&growing->leftover, plane, &budget)) {
        leftovers_add(&plane->leftovers, &growing->leftover);
    }
}

static status_t subscribe_control(plane_t *plane, const plane_command_t *command, account_t *account,
                                  target_kind_t kind, bytes_t subject, bytes_t queue) {
    subscription_t *one;
    uint32_t flags = (command->arg & SUBSCRIBE_ALONE) != 0 ? SUBSCRIPTION_ALONE : 0;
    status_t status =
        kind == TARGET_CONTROL && command->arg2 != 0
            ? subscription_add_for(plane, account, command->arg2, subject, queue, flags, &one)
            : subscription_add(plane, account, NULL, kind, NULL, subject, queue, BYTES_NONE, 1, flags, &one);
    if (status == STATUS_OK) {
        one->id = command->target;
        status = table_put(&plane->controls, one->id, one);
        if (status != STATUS_OK) {
            subscription_kill(plane, one);
        }
    }
    return status;
}

/* Control hears nothing of the subject without it, until the next start: so memory is asked for more than once. */
void command_subscribe(plane_t *plane, const plane_command_t *command, account_t *account) {
    strings_t strings = strings_of(command);
    bytes_t subject = strings_next(&strings);
    bytes_t queue = strings_next(&strings);
    if (table_find(&plane->controls, command->target) != NULL) {
        command_done(plane, command, STATUS_EXISTS);
        return;
    }
    target_kind_t kind = (command->arg & SUBSCRIBE_API) != 0        ? TARGET_API
                         : (command->arg & SUBSCRIBE_GUESTS) != 0   ? TARGET_GUESTS
                         : (command->arg & SUBSCRIBE_TEMPLATE) != 0 ? TARGET_TEMPLATE
                                                                    : TARGET_CONTROL;
    status_t status = STATUS_NO_MEMORY;
    for (uint32_t tries = 0; status == STATUS_NO_MEMORY && tries < SUBSCRIBE_TRIES; tries++) {
        status = subscribe_control(plane, command, account, kind, subject, queue);
    }
    command_done(plane, command, status);
}

void command_unsubscribe(plane_t *plane, const plane_command_t *command) {
    subscription_t *one = table_find(&plane->controls, command->target);
    if (one != NULL) {
        table_drop(&plane->controls, command->target);
        subscription_kill(plane, one);
    }
    command_done(plane, command, one == NULL ? STATUS_NOT_FOUND : STATUS_OK);
}

void command_publish(plane_t *plane, const plane_command_t *command, account_t *account) {
    strings_t strings = strings_of(command);
    bytes_t subject = strings_next(&strings);
    bytes_t reply = strings_next(&strings);
    bytes_t header = strings_next(&strings);
    if (subject.size == 0) {
        command_done(plane, command, STATUS_INVALID);
        return;
    }
    text_t out;
    uint32_t flags = (command->arg & PUBLISH_REQUEST) != 0 ? 0u : PUBLICATION_UNJUDGED;
    flags |= (command->arg & PUBLISH_STREAMS) != 0 ? PUBLICATION_INSIDE : 0u;
    flags |= (command->arg & PUBLISH_BULK) != 0 ? PUBLICATION_BULK : 0u;
    flags |= publication_own(subject);
    publication_t publication = {.account = account,
                                 .message = {.subject = domain_subject(account, subject, &out),
                                             .reply = reply,
                                             .header = header,
                                             .payload = command_body(command)},
                                 .flags = flags};
    uint32_t taken = publish(plane, &publication);
    if (taken == 0 && command->arg2 != 0) {
        taken = publish_untold(plane, peer_find(plane, command->arg2), &publication);
    }
    command_answer(plane, command, STATUS_OK, taken, 0, BYTES_NONE);
}

void command_limits(plane_t *plane, const plane_command_t *command) {
    plane_limits_t limits;
    memcpy(&limits, command->body, sizeof(limits));
    /* The store was opened with its own limits; those stay until the next start. */
    plane->limits.max_pending = limits.max_pending;
    plane->limits.write_deadline_ns = limits.write_deadline_ns;
    plane->limits.ping_interval_ns = limits.ping_interval_ns;
    plane->limits.ping_max = limits.ping_max;
    plane->limits.max_control_line = limits.max_control_line;
    plane->limits.max_payload = limits.max_payload;
    plane->limits.max_connections = limits.max_connections;
    plane->limits.trace = limits.trace;
    plane->limits.batches_per_stream = limits.batches_per_stream;
    plane->limits.batches_total = limits.batches_total;
    plane->limits.batch_messages = limits.batch_messages;
    plane->limits.batch_timeout_ns = limits.batch_timeout_ns;
    command_done(plane, command, STATUS_OK);
}

/* ---- from the command to its function ---------------------------------------------------------------------------- */

/* row NULL: there is no such command. */
static void command_refuse(plane_t *plane, const command_row_t *row, const plane_command_t *command) {
    if (row != NULL && row->object == TAKES_LOGIN) {
        command_refuse_login(plane, peer_find(plane, command->target), command, STATUS_INVALID);
        return;
    }
    if (row != NULL && row->object == TAKES_DESCRIPTOR) {
        close((int)command->arg);
    }
    command_done(plane, command, STATUS_INVALID);
}

/* The finders below look up the object that the command names, and return false when there is no such object. */

static bool run_with_account(plane_t *plane, const command_row_t *row, const plane_command_t *command) {
    account_t *account = account_find(plane, command->account);
    if (account != NULL) {
        row->run.account(plane, command, account);
    }
    return account != NULL;
}

static bool run_with_peer(plane_t *plane, const command_row_t *row, const plane_command_t *command) {
    peer_t *peer = peer_find(plane, command->target);
    if (peer != NULL) {
        row->run.peer(plane, command, peer);
    }
    return peer != NULL;
}

static bool run_with_stream(js_t *js, const command_row_t *row, const plane_command_t *command) {
    stream_t *stream = stream_find(js, command->target);
    if (stream != NULL) {
        row->run.stream(js, command, stream);
    }
    return stream != NULL;
}

static bool run_with_binding(js_t *js, const command_row_t *row, const plane_command_t *command) {
    stream_t *stream = stream_find(js, command->target);
    consumer_binding_t *binding = stream == NULL ? NULL : binding_find(js, stream, command->arg);
    if (binding != NULL) {
        row->run.binding(js, command, binding);
    } else if (stream != NULL && stream->replicated != NULL && !replicated_leads(stream)) {
        js_done(js, command, STATUS_CLOSED); /* another server has it */
        return true;
    }
    return binding != NULL;
}

static bool run_row(plane_t *plane, const command_row_t *row, const plane_command_t *command) {
    switch (row->object) {
    case TAKES_PLANE:
    case TAKES_DESCRIPTOR: row->run.plane(plane, command); return true;
    case TAKES_JETSTREAM: row->run.jetstream(&plane->js, command); return true;
    case TAKES_ACCOUNT: return run_with_account(plane, row, command);
    case TAKES_PEER:
    case TAKES_LOGIN: return run_with_peer(plane, row, command);
    case TAKES_STREAM: return run_with_stream(&plane->js, row, command);
    case TAKES_BINDING: return run_with_binding(&plane->js, row, command);
    }
    return false;
}

void command_run(plane_t *plane, const plane_command_t *command) {
    const command_row_t *row = command_row(command->op);
    if (row == NULL || !shape_fits(&row->shape, command)) {
        command_refuse(plane, row, command);
    } else if (!run_row(plane, row, command)) {
        command_done(plane, command, STATUS_NOT_FOUND);
    }
}
