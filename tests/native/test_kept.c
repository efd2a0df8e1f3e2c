/* test_kept.c: a session that outlives its connection: its record as bytes, its subscriptions, and when it is due. */
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "sessions/due.h"
#include "sessions/kept.h"
#include "sessions/sequences.h"
#include "sessions/session.h"
#include "test.h"

static bytes_t text(const char *text) {
    return bytes_of(text, (uint32_t)strlen(text));
}

static kept_t *sample(void) {
    kept_filter_t *filter;
    kept_t *kept = kept_new(text("box-7"));
    CHECK(kept != NULL);
    CHECK_EQ_I64(STATUS_OK, kept_put(kept, text("sensors/+/temperature"), &filter));
    filter->flags = 5;
    filter->identifier = 300;
    filter->first = UINT64_C(1) << 40;
    CHECK_EQ_I64(STATUS_OK, kept_put(kept, text("$share/workers/jobs/#"), &filter));
    CHECK(filter->shared);
    kept->expiry = 3600;
    kept->left_age_ns = -7;
    return kept;
}

static void record_comes_back(void) {
    buffer_t record;
    bool damaged;
    kept_t *kept = sample();
    buffer_init(&record, 4096);
    CHECK_EQ_I64(STATUS_OK, kept_write(kept, &record));
    kept_t *read = kept_read(bytes_of(record.at, (uint32_t)record.size), &damaged);
    CHECK(read != NULL && !damaged);
    CHECK(bytes_equal(read->client.name, text("box-7")));
    CHECK_EQ_U64(3600, read->expiry);
    CHECK_EQ_I64(-7, read->left_age_ns);
    CHECK_EQ_U64(2, read->filter_count);
    const kept_filter_t *filter = kept_find(read, text("sensors/+/temperature"));
    CHECK(filter != NULL && bytes_equal(filter->pattern, text("sensors.*.temperature")));
    CHECK_EQ_U64(5, filter->flags);
    CHECK_EQ_U64(300, filter->identifier);
    CHECK_EQ_U64(UINT64_C(1) << 40, filter->first);
    CHECK(kept_find(read, text("$share/workers/jobs/#"))->shared);
    kept_free(read);
    kept_free(kept);
    buffer_free(&record);
}

static void no_part_of_a_record_is_one(void) {
    buffer_t record;
    bool damaged;
    kept_t *kept = sample();
    buffer_init(&record, 4096);
    CHECK_EQ_I64(STATUS_OK, kept_write(kept, &record));
    for (uint32_t size = 0; size < record.size; size++) {
        uint8_t *part = malloc(size == 0 ? 1 : size); /* of its own size, so that a byte too far is seen */
        CHECK(part != NULL);
        memcpy(part, record.at, size);
        CHECK(kept_read(bytes_of(part, size), &damaged) == NULL && damaged);
        free(part);
    }
    kept_free(kept);
    buffer_free(&record);
}

static void damaged_record_is_refused(const uint8_t *record, uint32_t size, uint32_t at, uint8_t value) {
    bool damaged;
    uint8_t copy[256];
    CHECK(size <= sizeof copy);
    memcpy(copy, record, size);
    copy[at] = value;
    CHECK(kept_read(bytes_of(copy, size), &damaged) == NULL && damaged);
}

static void what_is_no_record_is_refused(void) {
    buffer_t record;
    kept_t *kept = sample();
    buffer_init(&record, 4096);
    CHECK_EQ_I64(STATUS_OK, kept_write(kept, &record));
    uint32_t size = (uint32_t)record.size;
    damaged_record_is_refused(record.at, size, 0, 2);              /* another version */
    damaged_record_is_refused(record.at, size, 3, 0);              /* no client identifier */
    damaged_record_is_refused(record.at, size, 2, 0xff);           /* one beyond the record */
    damaged_record_is_refused(record.at, size, 19, 1);             /* a filter more than it says */
    damaged_record_is_refused(record.at, size, 19, 3);             /* one fewer */
    damaged_record_is_refused(record.at, size, 17, 0xff);          /* more than any session has */
    damaged_record_is_refused(record.at, size, 20 + 5 + 16, 0xff); /* a filter beyond the record */
    damaged_record_is_refused(record.at, size, 20 + 5 + 18, '#');  /* text that is no filter */
    kept_free(kept);
    buffer_free(&record);
}

static void a_will_comes_back(void) {
    buffer_t record;
    bool damaged;
    mqtt_message_t message = {.topic = text("state/box"), .payload = text("off"), .qos = 2, .retain = true};
    mqtt_set_number(&message.properties, MQTT_WILL_DELAY, 10);
    mqtt_set_number(&message.properties, MQTT_MESSAGE_EXPIRY, 3600);
    mqtt_set_text(&message.properties, MQTT_CONTENT_TYPE, text("t"));
    will_t *will = will_new(&message);
    CHECK(will != NULL);
    buffer_init(&record, 4096);
    CHECK_EQ_I64(STATUS_OK, will_write(will, &record));
    will_t *read = will_read(bytes_of(record.at, (uint32_t)record.size), &damaged);
    CHECK(read != NULL && !damaged);
    CHECK_EQ_U64(10, read->delay);
    CHECK(read->message.qos == 2 && read->message.retain);
    CHECK(bytes_equal(read->message.topic, text("state/box")) && bytes_equal(read->message.payload, text("off")));
    CHECK_EQ_U64(3600, mqtt_number(&read->message.properties, MQTT_MESSAGE_EXPIRY, 0));
    CHECK(bytes_equal(mqtt_text(&read->message.properties, MQTT_CONTENT_TYPE), text("t")));
    for (uint32_t size = 0; size < record.size; size++) { /* no part of it is one */
        uint8_t *part = malloc(size == 0 ? 1 : size);
        CHECK(part != NULL);
        memcpy(part, record.at, size);
        CHECK(will_read(bytes_of(part, size), &damaged) == NULL && damaged);
        free(part);
    }
    will_free(read);
    will_free(will);
    buffer_free(&record);
}

static void subscriptions_are_bounded(void) {
    char name[32];
    kept_filter_t *filter, *again;
    kept_t *kept = kept_new(text("box-7"));
    for (uint32_t i = 0; i < KEPT_FILTERS_MAX; i++) {
        (void)snprintf(name, sizeof name, "a/%u", i);
        CHECK_EQ_I64(STATUS_OK, kept_put(kept, text(name), &filter));
    }
    CHECK_EQ_I64(STATUS_FULL, kept_put(kept, text("one/more"), &filter));
    CHECK_EQ_I64(STATUS_OK, kept_put(kept, text("a/7"), &filter));
    CHECK_EQ_I64(STATUS_OK, kept_put(kept, text("a/7"), &again));
    CHECK(filter == again);
    CHECK(kept_drop(kept, text("a/7")));
    CHECK(!kept_drop(kept, text("a/7")));
    CHECK(kept_find(kept, text("a/7")) == NULL);
    CHECK_EQ_I64(STATUS_INVALID, kept_put(kept, text("a/#/b"), &filter));
    CHECK_EQ_U64(KEPT_FILTERS_MAX - 1, kept->filter_count);
    kept_free(kept);
}

#define MANY 500

static void earliest_is_due_first(void) {
    due_list_t list = {0};
    due_t many[MANY] = {0}, *one;
    uint64_t random = 11;
    int64_t last = 0;
    uint32_t taken = 0;
    for (uint32_t i = 0; i < MANY; i++) CHECK_EQ_I64(STATUS_OK, due_put(&list, &many[i], random_below(&random, 1000)));
    for (uint32_t i = 0; i < MANY; i += 3) due_take(&list, &many[i]);
    for (uint32_t i = 0; i < MANY; i += 3) due_take(&list, &many[i]); /* it waits for nothing */
    for (uint32_t i = 1; i < MANY; i += 3) {                          /* for another time */
        CHECK_EQ_I64(STATUS_OK, due_put(&list, &many[i], random_below(&random, 1000)));
    }
    CHECK(due_next(&list, -1) == NULL);
    while ((one = due_next(&list, 1000)) != NULL) {
        CHECK(one->at_ns >= last);
        CHECK_EQ_U64(0, one->place);
        last = one->at_ns;
        taken++;
    }
    CHECK_EQ_U64(MANY - (MANY + 2) / 3, taken);
    due_free(&list);
}

static void identifiers_stand_for_sequences(void) {
    static uint64_t expected[UINT16_MAX + 1];
    sequences_t sequences = {0};
    uint64_t random = 23;
    memset(expected, 0, sizeof expected);
    for (uint32_t i = 0; i < 200000; i++) {
        uint16_t id = (uint16_t)(1 + random_below(&random, i < 100000 ? 40 : 4000)); /* crowded, then many */
        if (random_below(&random, 3) == 0) {
            CHECK_EQ_U64(expected[id], sequences_take(&sequences, id));
            expected[id] = 0;
        } else {
            expected[id] = i + 1;
            CHECK_EQ_I64(STATUS_OK, sequences_put(&sequences, id, expected[id]));
        }
        uint16_t other = (uint16_t)(1 + random_below(&random, 4000));
        CHECK_EQ_U64(expected[other], sequences_find(&sequences, other));
    }
    uint16_t *ids = sequences_in_order(&sequences);
    uint64_t before = 0;
    CHECK(ids != NULL && sequences.count > 1000);
    for (uint32_t i = 0; i < sequences.count; i++) {
        CHECK(expected[ids[i]] > before);
        before = expected[ids[i]];
    }
    free(ids);
    sequences_free(&sequences);
    CHECK(sequences_in_order(&sequences) == NULL);
}

static void more_filters_than_room(kept_t *kept) {
    kept->filter_count = kept->filter_room + 1;
}

static void a_parent_beyond_its_pattern(kept_t *kept) {
    kept->filters[1].parent = kept->filters[1].pattern.size;
}

static void a_filter_of_nothing(kept_t *kept) {
    kept->filters[0].text.size = 0;
}

static void the_client_of_another(kept_t *kept) {
    static session_t others;
    kept->session = &others;
}

static void contradictions_are_not_written(void) {
    static void (*const faults[])(kept_t *kept) = {more_filters_than_room, a_parent_beyond_its_pattern,
                                                   a_filter_of_nothing, the_client_of_another};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        buffer_t record;
        kept_t *kept = sample();
        kept_t before = *kept;
        kept_filter_t filters[2] = {kept->filters[0], kept->filters[1]};
        buffer_init(&record, 4096);
        CHECK(kept_sound(kept));
        faults[i](kept);
        CHECK(!kept_sound(kept));
        CHECK_EQ_I64(STATUS_INVALID, kept_write(kept, &record));
        CHECK_EQ_U64(0, record.size);
        *kept = before;
        memcpy(kept->filters, filters, sizeof filters);
        kept_free(kept);
        buffer_free(&record);
    }
}

int main(void) {
    RUN("the record of a will comes back the same, and no part of it is one", a_will_comes_back);
    RUN("an identifier stands for the sequence that it was given last", identifiers_stand_for_sequences);
    RUN("a record of a session comes back as it was", record_comes_back);
    RUN("no part of a record is taken for one", no_part_of_a_record_is_one);
    RUN("a record with a wrong number is refused as damaged", what_is_no_record_is_refused);
    RUN("a session that contradicts itself is not written", contradictions_are_not_written);
    RUN("a session has so many subscriptions and no more, each once", subscriptions_are_bounded);
    RUN("the earliest is due first, whatever was taken out or put off", earliest_is_due_first);
    return TEST_RESULT();
}
