/* exchange.c: see exchange.h. */
#include "exchange/exchange.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

static uint64_t bound_of(uint64_t bytes) {
    return bytes != 0 && bytes < EXCHANGE_BYTES ? bytes : EXCHANGE_BYTES;
}

status_t exchange_open(exchange_t *exchange, uint64_t bytes_max, uint64_t owed_max) {
    *exchange = (exchange_t){.bytes_max = bound_of(bytes_max), .owed_max = bound_of(owed_max)};
    exchange->commands = ring_new(EXCHANGE_COMMANDS);
    exchange->events = ring_new(EXCHANGE_EVENTS);
    exchange->messages = exchange->events == NULL ? NULL : ring_new_beside(EXCHANGE_MESSAGES, exchange->events);
    exchange->debts = calloc(EXCHANGE_MESSAGES, sizeof(*exchange->debts));
    exchange->repaid_tokens = calloc(EXCHANGE_MESSAGES, sizeof(*exchange->repaid_tokens));
    if (exchange->commands == NULL || exchange->messages == NULL || exchange->debts == NULL
        || exchange->repaid_tokens == NULL) {
        exchange_close(exchange);
        return STATUS_NO_MEMORY;
    }
    return STATUS_OK;
}

static void free_list(event_entry_t *entry) {
    while (entry != NULL) {
        event_entry_t *next = entry->next;
        free(entry);
        entry = next;
    }
}

static void free_ring(ring_t *ring) {
    void *entry;
    while (ring != NULL && (entry = ring_pop(ring)) != NULL) {
        free(entry);
    }
    ring_free(ring);
}

void exchange_close(exchange_t *exchange) {
    command_entry_t *command;
    while (exchange->commands != NULL && (command = ring_pop(exchange->commands)) != NULL) {
        free(command->answer);
        free(command);
    }
    ring_free(exchange->commands);
    free_ring(exchange->events);
    free_ring(exchange->messages);
    free_list(exchange->waiting_first);
    free_list(exchange->quiet_first);
    free_list(exchange->polled_first);
    free_list(exchange->answers);
    free(exchange->debts);
    free(exchange->repaid_tokens);
    *exchange = (exchange_t){0};
}

/* ---- commands ---------------------------------------------------------------------------------------------------- */

int32_t exchange_submit(exchange_t *exchange, const plane_command_t *commands, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const plane_command_t *command = &commands[i];
        uint64_t size = sizeof(command_entry_t) + (uint64_t)command->body_size + command->extra_size;
        uint64_t waiting = atomic_load_explicit(&exchange->command_bytes, memory_order_relaxed);
        if (waiting != 0 && waiting + size > exchange->bytes_max) {
            return (int32_t)i;
        }
        /* A command that could not be answered is not taken: the caller tries again, or gives up. */
        command_entry_t *entry = malloc(size);
        event_entry_t *answer =
            command->token == 0 ? NULL : event_new(EVENT_DONE, BYTES_NONE, BYTES_NONE, BYTES_NONE, BYTES_NONE);
        if (entry == NULL || (command->token != 0 && answer == NULL)) {
            free(entry);
            free(answer);
            return (int32_t)i;
        }
        entry->command = *command;
        entry->answer = answer;
        entry->size = size;
        entry->command.body = entry->bytes;
        entry->command.extra = entry->bytes + command->body_size;
        if (command->body_size != 0) {
            memcpy(entry->bytes, command->body, command->body_size);
        }
        if (command->extra_size != 0) {
            memcpy(entry->bytes + command->body_size, command->extra, command->extra_size);
        }
        atomic_fetch_add_explicit(&exchange->command_bytes, size, memory_order_relaxed);
        if (ring_push(exchange->commands, entry) != STATUS_OK) {
            atomic_fetch_sub_explicit(&exchange->command_bytes, size, memory_order_relaxed);
            free(entry->answer);
            free(entry);
            return (int32_t)i;
        }
    }
    return (int32_t)count;
}

command_entry_t *exchange_next(exchange_t *exchange) {
    command_entry_t *entry = ring_pop(exchange->commands);
    if (entry != NULL && entry->answer != NULL) {
        entry->answer->next = exchange->answers;
        exchange->answers = entry->answer;
        entry->answer = NULL;
    }
    return entry;
}

void exchange_done(exchange_t *exchange, command_entry_t *entry) {
    atomic_fetch_sub_explicit(&exchange->command_bytes, entry->size, memory_order_relaxed);
    free(entry);
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static uint8_t *slice_take(uint8_t *at, bytes_t slice, const uint8_t **to, uint32_t *size) {
    *to = at;
    *size = slice.size;
    if (slice.size != 0) {
        memcpy(at, slice.at, slice.size);
    }
    return at + slice.size;
}

static void event_begin(event_entry_t *entry, uint32_t kind, uint64_t size) {
    memset(&entry->event, 0, sizeof(entry->event));
    entry->event.kind = kind;
    entry->next = entry->previous = NULL;
    entry->size = size;
    entry->batch = 0;
    entry->token = 0;
    entry->alone = false;
}

event_entry_t *event_new(uint32_t kind, bytes_t subject, bytes_t reply, bytes_t header, bytes_t payload) {
    uint64_t size = sizeof(event_entry_t) + (uint64_t)subject.size + reply.size + header.size + payload.size;
    event_entry_t *entry = malloc(size);
    if (entry == NULL) {
        return NULL;
    }
    event_begin(entry, kind, size);
    uint8_t *at = entry->bytes;
    at = slice_take(at, subject, &entry->event.subject, &entry->event.subject_size);
    at = slice_take(at, reply, &entry->event.reply, &entry->event.reply_size);
    at = slice_take(at, header, &entry->event.header, &entry->event.header_size);
    slice_take(at, payload, &entry->event.payload, &entry->event.payload_size);
    return entry;
}

event_entry_t *event_in(void *block, uint32_t kind, bytes_t header) {
    event_entry_t *entry = block;
    event_begin(entry, kind, sizeof(*entry) + header.size);
    slice_take(entry->bytes, header, &entry->event.header, &entry->event.header_size);
    return entry;
}

event_entry_t *event_answer(exchange_t *exchange, status_t status, bytes_t subject, bytes_t header, bytes_t payload) {
    event_entry_t *spare = exchange->answers;
    if (spare != NULL) {
        exchange->answers = spare->next;
        spare->next = NULL;
    }
    bool plain = subject.size == 0 && header.size == 0 && payload.size == 0;
    event_entry_t *entry = plain && spare != NULL ? spare : event_new(EVENT_DONE, subject, BYTES_NONE, header, payload);
    if (entry == NULL) {
        entry = spare;
        status = STATUS_NO_MEMORY;
    } else if (entry != spare) {
        free(spare);
    }
    if (entry != NULL) {
        entry->event.status = (int32_t)status;
    }
    return entry;
}

static void push_waiting(exchange_t *exchange) {
    bool wake = false;
    while (exchange->waiting_first != NULL) {
        event_entry_t *entry = exchange->waiting_first;
        event_entry_t *next = entry->next;
        entry->next = NULL;
        if (ring_push_one(exchange->events, entry, &wake) != STATUS_OK) {
            entry->next = next;
            break;
        }
        exchange->waiting_first = next;
        exchange->waiting_count--;
    }
    if (exchange->waiting_first == NULL) {
        exchange->waiting_last = NULL;
    }
    if (wake) {
        ring_wake(exchange->events);
    }
}

/* The quiet ones wait no longer. */
static void push_quiet(exchange_t *exchange) {
    if (exchange->quiet_first == NULL) {
        return;
    }
    *(exchange->waiting_first == NULL ? &exchange->waiting_first : &exchange->waiting_last->next) =
        exchange->quiet_first;
    exchange->waiting_last = exchange->quiet_last;
    exchange->waiting_count += exchange->quiet_count;
    exchange->quiet_first = exchange->quiet_last = NULL;
    exchange->quiet_count = 0;
    push_waiting(exchange);
}

int64_t event_deadline(const exchange_t *exchange) {
    return exchange->quiet_first == NULL ? INT64_MAX : exchange->quiet_until_ns;
}

void event_pump(exchange_t *exchange, int64_t mono_ns) {
    if (mono_ns >= event_deadline(exchange)) {
        push_quiet(exchange);
    }
    push_waiting(exchange);
}

static void add_quiet(exchange_t *exchange, event_entry_t *entry) {
    atomic_fetch_add_explicit(&exchange->event_bytes, entry->size, memory_order_relaxed);
    *(exchange->quiet_first == NULL ? &exchange->quiet_first : &exchange->quiet_last->next) = entry;
    entry->previous = exchange->quiet_last;
    exchange->quiet_last = entry;
    exchange->quiet_count++;
}

void event_post_quietly(exchange_t *exchange, event_entry_t *entry, int64_t mono_ns) {
    if (entry == NULL) {
        return;
    }
    if (exchange->quiet_first == NULL) {
        exchange->quiet_until_ns = mono_ns + EXCHANGE_QUIET_NS;
    }
    add_quiet(exchange, entry);
    if (exchange->quiet_count >= EXCHANGE_QUIET_MAX) {
        push_quiet(exchange);
    }
}

/* From the last one on: of those whose CONNECT comes it is among the latest, and the first that is met of a target has
 * nothing about it behind it. */
event_entry_t *event_take_back(exchange_t *exchange, uint32_t kind, uint64_t target) {
    event_entry_t *found = exchange->quiet_last;
    while (found != NULL && found->event.target != target) {
        found = found->previous;
    }
    if (found == NULL || found->event.kind != kind) {
        return NULL;
    }
    *(found->previous == NULL ? &exchange->quiet_first : &found->previous->next) = found->next;
    *(found->next == NULL ? &exchange->quiet_last : &found->next->previous) = found->previous;
    exchange->quiet_count--;
    found->next = found->previous = NULL;
    atomic_fetch_sub_explicit(&exchange->event_bytes, found->size, memory_order_relaxed);
    return found;
}

void event_post(exchange_t *exchange, event_entry_t *entry) {
    if (entry == NULL) {
        return;
    }
    if (exchange->quiet_first != NULL || exchange->waiting_first != NULL) {
        add_quiet(exchange, entry);
        push_quiet(exchange);
        return;
    }
    atomic_fetch_add_explicit(&exchange->event_bytes, entry->size, memory_order_relaxed);
    if (ring_push(exchange->events, entry) != STATUS_OK) {
        exchange->waiting_first = exchange->waiting_last = entry;
        exchange->waiting_count++;
    }
}

void event_alarm(exchange_t *exchange, uint32_t code, uint64_t target, uint64_t arg, bytes_t text) {
    event_entry_t *entry = event_new(EVENT_ALARM, BYTES_NONE, BYTES_NONE, BYTES_NONE, text);
    if (entry == NULL) return;
    entry->event.code = code;
    entry->event.target = target;
    entry->event.arg = arg;
    event_post(exchange, entry);
}

bool event_crowded(const exchange_t *exchange) {
    return exchange->waiting_first != NULL
           || ring_count(exchange->events) + exchange->quiet_count >= EXCHANGE_EVENTS_MANY
           || atomic_load_explicit(&exchange->event_bytes, memory_order_relaxed) >= exchange->bytes_max;
}

bool event_room(const exchange_t *exchange) {
    return exchange->owed.messages < EXCHANGE_MESSAGES && exchange->owed.bytes < exchange->owed_max;
}

static uint32_t take_place(exchange_t *exchange) {
    uint32_t token = exchange->debts_free;
    if (token == 0) {
        return ++exchange->debts_used;
    }
    exchange->debts_free = exchange->debts[token - 1].next_free;
    return token;
}

bool event_offer(exchange_t *exchange, event_entry_t *entry, uint64_t peer, uint32_t account) {
    if (entry == NULL || !event_room(exchange)) {
        exchange->dropped++;
        free(entry);
        return false;
    }
    push_quiet(exchange);
    entry->token = take_place(exchange);
    entry->event.token = entry->event.kind == EVENT_MESSAGE ? entry->token : 0;
    exchange->debts[entry->token - 1] =
        (exchange_debt_t){.peer = peer, .size = entry->size, .account = account, .alone = entry->alone};
    exchange->owed.messages++;
    exchange->owed.bytes += entry->size;
    status_t status = ring_push(exchange->messages, entry);
    /* Not more are owed than the ring has places. */
    check(status == STATUS_OK);
    return true;
}

bool event_settled(exchange_t *exchange, exchange_debt_t *debt) {
    while (exchange->settled != atomic_load_explicit(&exchange->repaid, memory_order_acquire)) {
        uint32_t token = exchange->repaid_tokens[exchange->settled++ % EXCHANGE_MESSAGES];
        exchange_debt_t *place = &exchange->debts[token - 1];
        if (place->size == 0) {
            continue; /* repaid before */
        }
        *debt = *place;
        *place = (exchange_debt_t){.next_free = exchange->debts_free};
        exchange->debts_free = token;
        exchange->owed.messages--;
        exchange->owed.bytes -= debt->size;
        return true;
    }
    return false;
}

void exchange_repay(exchange_t *exchange, uint64_t token) {
    if (token == 0 || token > EXCHANGE_MESSAGES) {
        return;
    }
    uint64_t repaid = atomic_load_explicit(&exchange->repaid, memory_order_relaxed);
    exchange->repaid_tokens[repaid % EXCHANGE_MESSAGES] = (uint32_t)token;
    atomic_store_explicit(&exchange->repaid, repaid + 1, memory_order_release);
}

static uint32_t poll_ring(exchange_t *exchange, ring_t *ring, plane_event_t *events, uint32_t count,
                          uint32_t count_max) {
    while (count < count_max) {
        event_entry_t *entry = ring_pop(ring);
        if (entry == NULL) {
            break;
        }
        entry->next = NULL;
        if (exchange->polled_first == NULL) {
            exchange->polled_first = entry;
        } else {
            exchange->polled_last->next = entry;
        }
        exchange->polled_last = entry;
        events[count++] = entry->event;
    }
    return count;
}

uint32_t exchange_poll(exchange_t *exchange, plane_event_t *events, uint32_t count_max) {
    ring_clear(exchange->events);
    /* However many connections come and go, messages have their quarter. */
    uint32_t events_max = count_max - count_max / 4;
    uint32_t messages = ring_ready(exchange->messages);
    uint32_t count = poll_ring(exchange, exchange->events, events, 0, events_max);
    bool stopped = count == events_max;
    messages = messages < count_max - count ? messages : count_max - count;
    count = poll_ring(exchange, exchange->messages, events, count, count + messages);
    if (stopped || ring_ready(exchange->messages) != 0) {
        /* The wake-up that was cleared has to be there for the rest. */
        ring_wake(exchange->events);
    }
    return count;
}

void exchange_release(exchange_t *exchange, uint32_t count) {
    for (uint32_t i = 0; i < count && exchange->polled_first != NULL; i++) {
        event_entry_t *entry = exchange->polled_first;
        exchange->polled_first = entry->next;
        if (exchange->polled_first == NULL) {
            exchange->polled_last = NULL;
        }
        if (entry->token == 0) {
            atomic_fetch_sub_explicit(&exchange->event_bytes, entry->size, memory_order_relaxed);
        } else if (entry->event.kind != EVENT_MESSAGE) {
            exchange_repay(exchange, entry->token);
        }
        free(entry);
    }
}
