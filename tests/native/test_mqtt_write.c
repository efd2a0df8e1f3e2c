/* test_mqtt_write.c: the bytes of a server's packets, put together by the standards' tables (3.1.1 and 5: chapter 3),
 * and that a client gets nothing that is larger than it takes. */
#include "mqtt/write.h"

#include "test.h"

#define NAME_A BYTES_LITERAL("a/b")

static buffer_t out;

static mqtt_writer_t of_level(mqtt_level_t level) {
    return (mqtt_writer_t){.level = level, .max_packet = UINT32_MAX};
}

static void starts(void) {
    buffer_free(&out);
    buffer_init(&out, 1 << 16);
}

static void check_written(const char *expected, uint32_t size) {
    CHECK_BYTES(expected, size, out.at, out.size);
    starts();
}

#define CHECK_WRITTEN(expected) check_written(expected, sizeof(expected) - 1)

static void connack_says_the_session_and_why(void) {
    mqtt_writer_t four = of_level(MQTT_3_1_1), five = of_level(MQTT_5);
    mqtt_properties_t properties = {.present = 0};
    starts();
    CHECK_EQ_U64(STATUS_OK, mqtt_write_connack(&four, &out, true, MQTT_REASON_SUCCESS, NULL));
    CHECK_WRITTEN("\x20\x02\x01\x00");
    CHECK_EQ_U64(STATUS_OK, mqtt_write_connack(&four, &out, true, MQTT_REASON_NOT_AUTHORIZED, NULL));
    CHECK_WRITTEN("\x20\x02\x00\x05");
    CHECK_EQ_U64(STATUS_OK, mqtt_write_connack(&four, &out, false, MQTT_REASON_VERSION, NULL));
    CHECK_WRITTEN("\x20\x02\x00\x01");
    CHECK_EQ_U64(STATUS_OK, mqtt_write_connack(&five, &out, false, MQTT_REASON_LOGIN, NULL));
    CHECK_WRITTEN("\x20\x03\x00\x86\x00");
    mqtt_set_number(&properties, MQTT_RECEIVE_MAXIMUM, 20);
    mqtt_set_text(&properties, MQTT_ASSIGNED_CLIENT, BYTES_LITERAL("x1"));
    CHECK_EQ_U64(STATUS_OK, mqtt_write_connack(&five, &out, true, MQTT_REASON_SUCCESS, &properties));
    CHECK_WRITTEN("\x20\x0b\x01\x00\x08\x12\x00\x02x1\x21\x00\x14");
}

static void publish_is_written_up_to_its_payload(void) {
    mqtt_writer_t four = of_level(MQTT_3_1_1), five = of_level(MQTT_5);
    mqtt_properties_t properties = {.present = 0};
    mqtt_publish_t publish = {.topic = NAME_A, .payload_size = 3};
    starts();
    CHECK_EQ_U64(STATUS_OK, mqtt_write_publish(&four, &out, &publish));
    CHECK_WRITTEN("\x30\x08\x00\x03"
                  "a/b");
    CHECK_EQ_U64(STATUS_OK, mqtt_write_publish(&five, &out, &publish));
    CHECK_WRITTEN("\x30\x09\x00\x03"
                  "a/b\x00");
    publish = (mqtt_publish_t){.topic = NAME_A, .payload_size = 200, .qos = 2, .id = 258, .dup = true, .retain = true};
    CHECK_EQ_U64(STATUS_OK, mqtt_write_publish(&four, &out, &publish));
    CHECK_WRITTEN("\x3d\xcf\x01\x00\x03"
                  "a/b\x01\x02");
    mqtt_set_number(&properties, MQTT_SUBSCRIPTION_ID, 300);
    mqtt_set_number(&properties, MQTT_MESSAGE_EXPIRY, 5);
    publish = (mqtt_publish_t){.topic = NAME_A, .qos = 1, .id = 1, .properties = &properties};
    CHECK_EQ_U64(STATUS_OK, mqtt_write_publish(&five, &out, &publish));
    CHECK_WRITTEN("\x32\x10\x00\x03"
                  "a/b\x00\x01\x08\x02\x00\x00\x00\x05\x0b\xac\x02");
}

static void acknowledgements_are_as_short_as_they_can_be(void) {
    mqtt_writer_t four = of_level(MQTT_3_1_1), five = of_level(MQTT_5);
    mqtt_properties_t why = {.present = 0};
    starts();
    CHECK_EQ_U64(STATUS_OK, mqtt_write_acknowledgement(&four, &out, MQTT_PUBACK, 10, MQTT_REASON_QUOTA, NULL));
    CHECK_WRITTEN("\x40\x02\x00\x0a");
    CHECK_EQ_U64(STATUS_OK, mqtt_write_acknowledgement(&five, &out, MQTT_PUBREL, 10, MQTT_REASON_SUCCESS, NULL));
    CHECK_WRITTEN("\x62\x02\x00\x0a");
    CHECK_EQ_U64(STATUS_OK, mqtt_write_acknowledgement(&five, &out, MQTT_PUBACK, 10, MQTT_REASON_NO_SUBSCRIBERS, NULL));
    CHECK_WRITTEN("\x40\x03\x00\x0a\x10");
    mqtt_set_text(&why, MQTT_REASON_STRING, BYTES_LITERAL("full"));
    CHECK_EQ_U64(STATUS_OK, mqtt_write_acknowledgement(&five, &out, MQTT_PUBREC, 10, MQTT_REASON_QUOTA, &why));
    CHECK_WRITTEN("\x50\x0b\x00\x0a\x97\x07\x1f\x00\x04"
                  "full");
}

static void each_filter_has_its_answer(void) {
    mqtt_writer_t four = of_level(MQTT_3_1_1), five = of_level(MQTT_5);
    bytes_t reasons = BYTES_LITERAL("\x00\x02\x87");
    starts();
    CHECK_EQ_U64(STATUS_OK, mqtt_write_filters_answer(&four, &out, MQTT_SUBACK, 10, reasons, NULL));
    CHECK_WRITTEN("\x90\x05\x00\x0a\x00\x02\x80");
    CHECK_EQ_U64(STATUS_OK, mqtt_write_filters_answer(&five, &out, MQTT_SUBACK, 10, reasons, NULL));
    CHECK_WRITTEN("\x90\x06\x00\x0a\x00\x00\x02\x87");
    CHECK_EQ_U64(STATUS_OK, mqtt_write_filters_answer(&four, &out, MQTT_UNSUBACK, 10, reasons, NULL));
    CHECK_WRITTEN("\xb0\x02\x00\x0a");
    CHECK_EQ_U64(STATUS_OK, mqtt_write_filters_answer(&five, &out, MQTT_UNSUBACK, 10, BYTES_LITERAL("\x11"), NULL));
    CHECK_WRITTEN("\xb0\x04\x00\x0a\x00\x11");
}

static void only_mqtt_5_is_told_why_it_is_disconnected(void) {
    mqtt_writer_t four = of_level(MQTT_3_1_1), five = of_level(MQTT_5);
    starts();
    CHECK_EQ_U64(STATUS_OK, mqtt_write_disconnect(&four, &out, MQTT_REASON_TAKEN_OVER, NULL));
    CHECK_EQ_U64(0, out.size);
    CHECK_EQ_U64(STATUS_OK, mqtt_write_disconnect(&five, &out, MQTT_REASON_TAKEN_OVER, NULL));
    CHECK_WRITTEN("\xe0\x01\x8e");
    CHECK_EQ_U64(STATUS_OK, mqtt_write_pong(&out));
    CHECK_WRITTEN("\xd0\x00");
}

static void a_client_gets_nothing_larger_than_it_takes(void) {
    mqtt_writer_t five = {.level = MQTT_5, .max_packet = 12};
    mqtt_properties_t why = {.present = 0};
    static const uint8_t pairs[] = {0x26, 0, 1, 'n', 0, 1, 'v'};
    starts();
    mqtt_set_text(&why, MQTT_REASON_STRING, BYTES_LITERAL("full"));
    CHECK_EQ_U64(STATUS_OK, mqtt_write_acknowledgement(&five, &out, MQTT_PUBREC, 10, MQTT_REASON_QUOTA, &why));
    CHECK_WRITTEN("\x50\x04\x00\x0a\x97\x00"); /* 13 with the reason string */
    why.present |= 1u << MQTT_USER_PROPERTY;
    why.pairs = bytes_of(pairs, sizeof pairs);
    CHECK_EQ_U64(STATUS_OK, mqtt_write_acknowledgement(&five, &out, MQTT_PUBREC, 10, MQTT_REASON_QUOTA, &why));
    CHECK_WRITTEN("\x50\x04\x00\x0a\x97\x00");
    mqtt_publish_t publish = {.topic = NAME_A, .payload_size = 4};
    CHECK_EQ_U64(STATUS_OK, mqtt_write_publish(&five, &out, &publish));
    CHECK_WRITTEN("\x30\x0a\x00\x03"
                  "a/b\x00");
    publish.payload_size = 5;
    CHECK_EQ_U64(STATUS_INVALID, mqtt_write_publish(&five, &out, &publish));
    CHECK_EQ_U64(0, out.size);
    publish.payload_size = UINT32_MAX;
    five.max_packet = UINT32_MAX;
    CHECK_EQ_U64(STATUS_INVALID, mqtt_write_publish(&five, &out, &publish));
    CHECK_EQ_U64(0, out.size);
}

static void a_full_buffer_stays_as_it_was(void) {
    mqtt_writer_t five = of_level(MQTT_5);
    mqtt_properties_t why = {.present = 0};
    uint8_t before[] = "before";
    mqtt_set_text(&why, MQTT_REASON_STRING, BYTES_LITERAL("a reason of some length"));
    for (uint64_t max = sizeof before; max < 64; max++) {
        buffer_t small;
        buffer_init(&small, max);
        CHECK_EQ_U64(STATUS_OK, buffer_append(&small, before, sizeof before));
        status_t status = mqtt_write_acknowledgement(&five, &small, MQTT_PUBACK, 1, MQTT_REASON_QUOTA, &why);
        CHECK(status == STATUS_OK || (status == STATUS_FULL && small.size == sizeof before));
        CHECK_BYTES(before, sizeof before, small.at, sizeof before);
        buffer_free(&small);
    }
}

int main(void) {
    RUN("CONNACK says whether there was a session, and why a login is refused", connack_says_the_session_and_why);
    RUN("PUBLISH is written up to its payload", publish_is_written_up_to_its_payload);
    RUN("an acknowledgement is as short as it can be", acknowledgements_are_as_short_as_they_can_be);
    RUN("each filter has its answer", each_filter_has_its_answer);
    RUN("only a client of MQTT 5 is told why it is disconnected", only_mqtt_5_is_told_why_it_is_disconnected);
    RUN("a client gets nothing that is larger than it takes", a_client_gets_nothing_larger_than_it_takes);
    RUN("a buffer without room stays as it was", a_full_buffer_stays_as_it_was);
    buffer_free(&out);
    return TEST_RESULT();
}
