/* test_exchange.c: the rings between control and plane, with both sides running (worth most under
 * ThreadSanitizer). */
#include "exchange/exchange.h"

#include <pthread.h>
#include <stdlib.h>

#include "exchange/held.h"
#include "test.h"

#define COMMANDS 200000u

static void *plane_side(void *argument) {
    exchange_t *exchange = argument;
    uint64_t next = 0;
    while (next < COMMANDS) {
        command_entry_t *entry = exchange_next(exchange);
        if (entry == NULL) {
            event_pump(exchange, 0);
            continue;
        }
        bool whole =
            entry->command.token == next && entry->command.body_size == next % 100
            && (entry->command.body_size == 0 || entry->command.body[entry->command.body_size - 1] == (uint8_t)next);
        event_entry_t *event = event_new(EVENT_DONE, BYTES_NONE, BYTES_NONE, BYTES_NONE,
                                         bytes_of(entry->command.body, entry->command.body_size));
        event->event.token = entry->command.token;
        event->event.status = whole ? 0 : -1;
        exchange_done(exchange, entry);
        event_post(exchange, event);
        next++;
    }
    while (exchange->waiting_first != NULL) {
        event_pump(exchange, 0);
    }
    return NULL;
}

static void every_command_is_answered(void) {
    exchange_t exchange;
    CHECK_EQ_I64(STATUS_OK, exchange_open(&exchange, 0, 0));
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, plane_side, &exchange) == 0);
    static uint8_t body[100];
    plane_event_t events[64];
    uint64_t sent = 0, answered = 0, bad = 0;
    while (answered < COMMANDS) {
        if (sent < COMMANDS) {
            uint32_t size = (uint32_t)(sent % 100);
            if (size != 0) {
                body[size - 1] = (uint8_t)sent;
            }
            plane_command_t command = {.op = 1, .token = sent, .body = body, .body_size = size};
            sent += (uint64_t)exchange_submit(&exchange, &command, 1);
        }
        uint32_t count = exchange_poll(&exchange, events, 64);
        for (uint32_t i = 0; i < count; i++) {
            bad += events[i].token != answered || events[i].status != 0 || events[i].payload_size != answered % 100;
            answered++;
        }
        exchange_release(&exchange, count);
    }
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_EQ_U64(0, bad);
    CHECK_EQ_U64(0, exchange.event_bytes);
    CHECK_EQ_U64(0, exchange.command_bytes);
    exchange_close(&exchange);
}

static event_entry_t *event_of(uint32_t kind) {
    return event_new(kind, BYTES_NONE, BYTES_NONE, BYTES_NONE, BYTES_NONE);
}

static void messages_may_go_completions_never(void) {
    exchange_t exchange;
    CHECK_EQ_I64(STATUS_OK, exchange_open(&exchange, 0, 0));
    uint64_t taken = 0;
    for (uint32_t i = 0; i < 2 * EXCHANGE_MESSAGES; i++) {
        taken += event_offer(&exchange, event_of(EVENT_MESSAGE), 1, 1);
        event_post(&exchange, event_of(EVENT_CLOSED));
    }
    CHECK_EQ_U64(EXCHANGE_MESSAGES, taken);
    CHECK_EQ_U64(EXCHANGE_MESSAGES, exchange.dropped);
    CHECK(event_crowded(&exchange));
    uint64_t closed = 0, messages = 0;
    plane_event_t event;
    for (;;) {
        if (exchange_poll(&exchange, &event, 1) == 0) {
            if (exchange.waiting_first == NULL) {
                break;
            }
            event_pump(&exchange, 0);
            continue;
        }
        closed += event.kind == EVENT_CLOSED;
        messages += event.kind == EVENT_MESSAGE;
        exchange_release(&exchange, 1);
        exchange_repay(&exchange, event.token);
    }
    CHECK_EQ_U64(2 * EXCHANGE_MESSAGES, closed);
    CHECK_EQ_U64(taken, messages);
    CHECK(!event_crowded(&exchange));
    CHECK(!event_room(&exchange));
    exchange_debt_t debt;
    for (uint64_t i = 0; i < taken; i++) {
        CHECK(event_settled(&exchange, &debt));
    }
    CHECK(!event_settled(&exchange, &debt));
    CHECK(event_room(&exchange));
    CHECK_EQ_U64(0, exchange.owed.messages);
    CHECK_EQ_U64(0, exchange.owed.bytes);
    exchange_close(&exchange);
}

static void connections_come_first(void) {
    exchange_t exchange;
    CHECK_EQ_I64(STATUS_OK, exchange_open(&exchange, 0, 0));
    for (uint32_t i = 0; i < 100; i++) {
        CHECK(event_offer(&exchange, event_of(EVENT_MESSAGE), 1, 1));
    }
    event_post(&exchange, event_of(EVENT_CLOSED));
    plane_event_t events[8];
    CHECK_EQ_U64(8, exchange_poll(&exchange, events, 8));
    CHECK_EQ_U64(EVENT_CLOSED, events[0].kind);
    CHECK_EQ_U64(EVENT_MESSAGE, events[1].kind);
    for (uint32_t i = 0; i < 100; i++) {
        event_post(&exchange, event_of(EVENT_OPENED));
    }
    CHECK_EQ_U64(8, exchange_poll(&exchange, events, 8));
    CHECK_EQ_U64(EVENT_OPENED, events[5].kind);
    CHECK_EQ_U64(EVENT_MESSAGE, events[6].kind);
    exchange_close(&exchange);
}

/* Each debt is paid once and by its own token, in whatever order; what is no token of ours pays nothing. */
static void paid_in_any_order(void) {
    exchange_t exchange;
    CHECK_EQ_I64(STATUS_OK, exchange_open(&exchange, 0, 0));
    static uint64_t tokens[1000];
    plane_event_t event;
    exchange_debt_t debt;
    uint64_t seed = 7, bytes = 0;
    for (uint32_t round = 0; round < 100; round++) {
        for (uint32_t i = 0; i < 1000; i++) {
            event_entry_t *entry =
                event_new(EVENT_MESSAGE, BYTES_NONE, BYTES_NONE, BYTES_NONE, bytes_of("0123456789", i % 10));
            bytes = entry->size - i % 10;
            CHECK(event_offer(&exchange, entry, i + 1, 2 * i));
            CHECK_EQ_U64(1, exchange_poll(&exchange, &event, 1));
            tokens[i] = event.token;
            exchange_release(&exchange, 1);
        }
        exchange_repay(&exchange, 0);
        exchange_repay(&exchange, 1001);
        exchange_repay(&exchange, UINT64_MAX);
        CHECK(!event_settled(&exchange, &debt));
        for (uint32_t left = 1000; left > 0; left--) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            uint32_t pick = (uint32_t)(seed >> 33) % left;
            exchange_repay(&exchange, tokens[pick]);
            exchange_repay(&exchange, tokens[pick]);
            CHECK(event_settled(&exchange, &debt));
            CHECK_EQ_U64(2 * (debt.peer - 1), debt.account);
            CHECK_EQ_U64(bytes + (debt.peer - 1) % 10, debt.size);
            CHECK(!event_settled(&exchange, &debt));
            tokens[pick] = tokens[left - 1];
            CHECK_EQ_U64(left - 1, exchange.owed.messages);
        }
        CHECK_EQ_U64(0, exchange.owed.bytes);
    }
    exchange_close(&exchange);
}

static void released_is_paid(void) {
    exchange_t exchange;
    exchange_debt_t debt;
    plane_event_t event;
    CHECK_EQ_I64(STATUS_OK, exchange_open(&exchange, 0, 0));
    CHECK(event_offer(&exchange, event_of(EVENT_ADVISORY), 5, 6));
    CHECK_EQ_U64(1, exchange_poll(&exchange, &event, 1));
    CHECK_EQ_U64(0, event.token);
    CHECK(!event_settled(&exchange, &debt));
    exchange_release(&exchange, 1);
    CHECK(event_settled(&exchange, &debt));
    CHECK_EQ_U64(5, debt.peer);
    exchange_close(&exchange);
}

static void too_many_command_bytes(void) {
    exchange_t exchange;
    CHECK_EQ_I64(STATUS_OK, exchange_open(&exchange, 0, 0));
    uint32_t size = EXCHANGE_BYTES / 2;
    uint8_t *body = calloc(1, size);
    CHECK(body != NULL);
    plane_command_t command = {.op = 1, .body = body, .body_size = size};
    CHECK_EQ_I64(1, exchange_submit(&exchange, &command, 1));
    CHECK_EQ_I64(0, exchange_submit(&exchange, &command, 1));
    exchange_done(&exchange, exchange_next(&exchange));
    CHECK_EQ_I64(1, exchange_submit(&exchange, &command, 1));
    free(body);
    exchange_close(&exchange);
}

static event_entry_t *about(uint32_t kind, uint64_t target) {
    event_entry_t *entry = event_new(kind, BYTES_LITERAL("where"), BYTES_NONE, BYTES_NONE, BYTES_NONE);
    CHECK(entry != NULL);
    entry->event.target = target;
    return entry;
}

/* Of so many that wait quietly each one, and of each another one in front of or behind it. */
static void what_control_was_not_given_is_taken_back(void) {
    exchange_t exchange;
    plane_event_t event;
    CHECK_EQ_I64(STATUS_OK, exchange_open(&exchange, 0, 0));
    for (uint64_t which = 1; which <= 4; which++) {
        CHECK(event_take_back(&exchange, EVENT_OPENED, which) == NULL);
        for (uint64_t i = 1; i <= 4; i++) {
            event_post_quietly(&exchange, about(EVENT_OPENED, i), 0);
        }
        CHECK(event_take_back(&exchange, EVENT_CLOSED, which) == NULL);
        event_entry_t *entry = event_take_back(&exchange, EVENT_OPENED, which);
        CHECK(entry != NULL && entry->event.target == which);
        CHECK(event_take_back(&exchange, EVENT_OPENED, which) == NULL);
        if (which % 2 == 0) {
            free(entry);
        } else {
            event_post_quietly(&exchange, entry, 0);
        }
        event_post_quietly(&exchange, about(EVENT_SECURED, 1 + which % 4), 0);
        CHECK(event_take_back(&exchange, EVENT_OPENED, 1 + which % 4) == NULL); /* that stands behind it */
        event_pump(&exchange, EXCHANGE_QUIET_NS);
        uint64_t order[5] = {0};
        uint32_t count = 0;
        for (uint64_t i = 1; i <= 4; i++) {
            if (i != which) order[count++] = i;
        }
        if (which % 2 != 0) order[count++] = which;
        order[count++] = 1 + which % 4;
        for (uint32_t i = 0; i < count; i++) {
            CHECK(event_take_back(&exchange, EVENT_OPENED, order[i]) == NULL);
            CHECK_EQ_U64(1, exchange_poll(&exchange, &event, 1));
            CHECK_EQ_U64(order[i], event.target);
            CHECK_EQ_U64(i + 1 == count ? EVENT_SECURED : EVENT_OPENED, event.kind);
            exchange_release(&exchange, 1);
        }
        CHECK_EQ_U64(0, exchange_poll(&exchange, &event, 1));
        CHECK_EQ_U64(0, atomic_load(&exchange.event_bytes));
    }
    event_post_quietly(&exchange, about(EVENT_OPENED, 1), 0);
    free(event_take_back(&exchange, EVENT_OPENED, 1));
    CHECK(event_deadline(&exchange) == INT64_MAX);
    exchange_close(&exchange);
}

static void held_until_its_batch(void) {
    held_t held = {0};
    uint8_t payload[100];
    uint64_t pushed = 0, popped = 0, seed = 3;
    while (popped < 100000) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint32_t burst = (uint32_t)(seed >> 33) % 300;
        for (uint32_t i = 0; i < burst; i++, pushed++) {
            uint32_t size = (uint32_t)(pushed % sizeof(payload));
            memset(payload, (int)(pushed & 0xff), sizeof(payload));
            CHECK_EQ_I64(STATUS_OK, held_message(&held, pushed / 50, (uint32_t)pushed, 0, bytes_of(payload, size),
                                                 BYTES_NONE, BYTES_NONE, bytes_of(payload, 3)));
        }
        uint64_t durable = (uint64_t)(seed >> 45) % (pushed / 50 + 1);
        const held_entry_t *entry;
        while ((entry = held_first(&held, durable)) != NULL) {
            CHECK(entry->batch <= durable);
            CHECK_EQ_U64(popped / 50, entry->batch);
            CHECK_EQ_U64(popped % sizeof(payload), entry->subject_size);
            CHECK_EQ_U64(popped & 0xff, entry->bytes[entry->subject_size]);
            held_pop(&held);
            popped++;
        }
        CHECK_EQ_U64(pushed - popped, held.count);
    }
    held_free(&held);
}

int main(void) {
    RUN("every command arrives whole and in order, and so does its completion", every_command_is_answered);
    RUN("when control does not keep up messages are dropped and counted, nothing else is",
        messages_may_go_completions_never);
    RUN("events of connections come before messages, which keep a quarter of each turn", connections_come_first);
    RUN("a message is owed for until its own token comes back, once, in whatever order", paid_in_any_order);
    RUN("what is no message of a subscription is paid by its release", released_is_paid);
    RUN("commands are bounded by their bytes", too_many_command_bytes);
    RUN("an event that nobody waits for is taken back, until control has it or another one about the same is behind it",
        what_control_was_not_given_is_taken_back);
    RUN("what is held comes back whole, in order, and not before its batch", held_until_its_batch);
    return TEST_RESULT();
}
