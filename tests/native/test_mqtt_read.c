/* test_mqtt_read.c: what the reader makes of a client's packets; each row whole, in pieces, and ending at the end of
 * the readable memory. The bytes are those of the standards' own figures where these have some (5: figures 3-6, 3-9 and
 * 3-21), and put together by their tables elsewhere. */
#include "mqtt_transcript.h"

#include "test.h"

#define MAX_PACKET 200u

typedef struct row {
    mqtt_level_t level;
    const char *input; /* hexadecimal; blanks between bytes do not count */
    const char *expected;
} row_t;

/* "MQTT" with its size. */
#define NAME "00 04 4d 51 54 54 "

static const row_t logins[] = {
    {MQTT_UNKNOWN, "10 0c " NAME "04 00 00 00 00 00", "CONNECT level=4\nend\n"},
    {MQTT_UNKNOWN, "10 0e " NAME "04 02 00 3c 00 02 64 31", "CONNECT level=4 clean=1 keep-alive=60 client=d1\nend\n"},
    /* 5: figure 3-6, with payload: client "c", will with delay 1 to "w" of "x", user "u", password "p" */
    {MQTT_UNKNOWN,
     "10 25 " NAME "05 ce 00 0a 05 11 00 00 00 0a 00 01 63 05 18 00 00 00 01 00 01 77 00 01 78 00 01 75 00 01 70",
     "CONNECT session-expiry=10 level=5 clean=1 keep-alive=10 client=c will topic=w qos=1 will-delay=1 payload=x user "
     "user=u password password=p\nend\n"},
    {MQTT_UNKNOWN, "10 0e " NAME "04 42 00 00 00 00 00 00", "bad: 81 a CONNECT with a password and no user name\n"},
    {MQTT_UNKNOWN, "10 10 " NAME "05 42 00 00 00 00 00 00 01 70", "CONNECT level=5 clean=1 password password=p\nend\n"},
    {MQTT_UNKNOWN, "10 0c " NAME "04 03 00 00 00 00", "bad: 81 a CONNECT whose reserved flag is set\n"},
    {MQTT_UNKNOWN, "10 0c " NAME "04 1e 00 00 00 00", "bad: 81 a CONNECT with flags of a will that cannot be\n"},
    {MQTT_UNKNOWN, "10 0c " NAME "04 0a 00 00 00 00", "bad: 81 a CONNECT with flags of a will that cannot be\n"},
    {MQTT_UNKNOWN, "10 0c " NAME "04 22 00 00 00 00", "bad: 81 a CONNECT with flags of a will that cannot be\n"},
    {MQTT_UNKNOWN, "10 0c " NAME "06 02 00 00 00 00", "bad: 84 an MQTT version other than 3.1.1 and 5\n"},
    {MQTT_UNKNOWN, "10 0e 00 06 4d 51 49 73 64 70 03 02 00 00 00 00",
     "bad: 84 an MQTT version other than 3.1.1 and 5\n"},
    {MQTT_UNKNOWN, "10 0c 00 04 48 54 54 50 04 02 00 00 00 00", "bad: 84 a CONNECT of another protocol\n"},
    {MQTT_UNKNOWN, "10 0d " NAME "04 02 00 00 00 01 80", "bad: 81 a text that is not UTF-8\n"},
    {MQTT_UNKNOWN, "10 0d " NAME "04 02 00 00 00 00 00", "bad: 81 a packet with bytes behind its end\n"},
    {MQTT_UNKNOWN, "10 0a " NAME "04 02 00 00", "bad: 81 a packet that is too short\n"},
    {MQTT_UNKNOWN, "11 0c", "bad: 81 a packet with flags that it cannot have\n"},
    {MQTT_UNKNOWN, "10", "more\n"},
    {MQTT_UNKNOWN, "10 80 80 80 80", "bad: 81 a remaining size that does not end\n"},
    {MQTT_UNKNOWN, "10 ff ff ff 7f " NAME "05 02", "more\n"},
    {MQTT_UNKNOWN, "10 ff ff ff 7f " NAME "05 02 00", "bad: 95 a packet that is larger than allowed\n"},
    {MQTT_UNKNOWN, "10 c9 01 " NAME "04 02 00", "bad: 95 a packet that is larger than allowed\n"},
    {MQTT_UNKNOWN, "10 ff ff ff 7f " NAME "06 02 00", "bad: 84 an MQTT version other than 3.1.1 and 5\n"},
    {MQTT_UNKNOWN, "10 ff ff ff 7f 00 06 4d 51 49 73 64 70 03", "bad: 84 an MQTT version other than 3.1.1 and 5\n"},
    {MQTT_UNKNOWN, "10 ff ff ff 7f 00 08 4d 51 49 73 64 70 03", "bad: 81 a packet that is too short\n"},
    {MQTT_UNKNOWN, "c0 00", "bad: 82 a packet before CONNECT\n"},
    {MQTT_UNKNOWN, "47 45 54 20 2f", "bad: 82 a packet before CONNECT\n"}, /* "GET /" */
    {MQTT_UNKNOWN, "20 02 00 00", "bad: 82 a packet before CONNECT\n"},
    {MQTT_UNKNOWN, "10 8c 80 00 " NAME "04 02 00 00 00 00 c0 00", "CONNECT level=4 clean=1\nPINGREQ\nend\n"},
};

static const row_t messages[] = {
    /* 5: figure 3-9: topic "a/b", identifier 10, no properties */
    {MQTT_5, "32 08 00 03 61 2f 62 00 0a 00", "PUBLISH id=10 topic=a/b qos=1\nend\n"},
    {MQTT_3_1_1, "3d 08 00 03 61 2f 62 00 0a 78", "PUBLISH id=10 dup=1 topic=a/b qos=2 retain=1 payload=x\nend\n"},
    {MQTT_3_1_1, "30 05 00 01 61 00 01", "PUBLISH topic=a payload=\x00\x01"},
    {MQTT_3_1_1, "30 03 00 01 61 30 04 00 01 62 79", "PUBLISH topic=a\nPUBLISH topic=b payload=y\nend\n"},
    {MQTT_3_1_1, "36 05 00 01 61 00 01", "bad: 81 a PUBLISH with flags that cannot be\n"},
    {MQTT_3_1_1, "38 03 00 01 61", "bad: 81 a PUBLISH with flags that cannot be\n"},
    {MQTT_3_1_1, "32 05 00 01 61 00 00", "bad: 82 packet identifier 0\n"},
    {MQTT_3_1_1, "32 04 00 01 61 00", "bad: 81 a packet that is too short\n"},
    {MQTT_3_1_1, "30 02 00 00", "bad: 81 a PUBLISH without a topic\n"},
    {MQTT_3_1_1, "30 05 00 03 61 2f 23", "bad: 90 a topic name with a wildcard\n"},
    {MQTT_3_1_1, "30 05 00 03 61 2f 2b", "bad: 90 a topic name with a wildcard\n"},
    {MQTT_3_1_1, "30 03 00 01 00", "bad: 81 a text that is not UTF-8\n"},
    {MQTT_3_1_1, "30 c6 01", "bad: 95 a packet that is larger than allowed\n"},
    {MQTT_3_1_1, "30 c5 01", "more\n"},
    {MQTT_3_1_1, "30 03 00 01", "more\n"},
    {MQTT_5, "30 03 00 00 00", "bad: 82 a PUBLISH without a topic\n"},
    {MQTT_5, "30 06 00 00 03 23 00 07", "PUBLISH alias=7\nend\n"},
    {MQTT_5, "30 07 00 01 61 03 23 00 00", "bad: 94 topic alias 0\n"},
    {MQTT_5, "30 06 00 01 61 02 0b 01", "bad: 82 a PUBLISH of a client with a subscription identifier\n"},
    /* format 1, expiry 60, type "t", response "r", correlation 2 bytes, two user properties with an expiry between */
    {MQTT_5,
     "30 26 00 01 61 21 01 01 03 00 01 74 08 00 01 72 09 00 02 01 02 26 00 01 6e 00 01 76 02 00 00 00 3c 26 00 01 6d "
     "00 "
     "00 78",
     "PUBLISH topic=a format=1 expiry=60 type=t response=r correlation=\x01\x02 name=n value=v name=m "
     "payload=x\nend\n"},
    {MQTT_5, "30 08 00 01 61 04 01 01 01 01", "bad: 82 a property that is there twice\n"},
    {MQTT_5, "30 06 00 01 61 02 01 02", "bad: 82 a property that is neither 0 nor 1\n"},
    {MQTT_5, "30 06 00 01 61 02 17 01", "bad: 81 a property that this packet cannot have\n"},
    {MQTT_5, "30 06 00 01 61 02 04 01", "bad: 81 a property that is unknown, cut short or not UTF-8\n"},
    {MQTT_5, "30 06 00 01 61 02 02 01", "bad: 81 a property that is unknown, cut short or not UTF-8\n"},
    {MQTT_5, "30 08 00 01 61 04 03 00 01 80", "bad: 81 a property that is unknown, cut short or not UTF-8\n"},
    {MQTT_5, "30 05 00 01 61 02 01", "bad: 81 properties that are longer than their packet\n"},
    {MQTT_5, "30 06 00 01 61 80 00 00", "bad: 81 properties that are longer than their packet\n"},
    {MQTT_5, "30 08 00 01 61 04 08 00 01 23", "bad: 90 a topic name with a wildcard\n"},
};

static const row_t acknowledgements[] = {
    {MQTT_3_1_1, "40 02 00 01 50 02 00 02 62 02 00 03 70 02 01 00",
     "PUBACK id=1\nPUBREC id=2\nPUBREL id=3\nPUBCOMP id=256\nend\n"},
    {MQTT_5, "40 02 00 01 50 03 00 02 10 62 04 00 03 92 00",
     "PUBACK id=1\nPUBREC id=2 reason=16\nPUBREL id=3 reason=146\nend\n"},
    {MQTT_5, "40 08 00 01 80 04 1f 00 01 77", "PUBACK id=1 reason=128 why=w\nend\n"},
    {MQTT_5, "62 03 00 03 10", "bad: 81 a reason code that this packet cannot have\n"},
    {MQTT_3_1_1, "40 03 00 01 00", "bad: 81 a packet with bytes behind its end\n"},
    {MQTT_3_1_1, "40 02 00 00", "bad: 82 packet identifier 0\n"},
    {MQTT_3_1_1, "60 02 00 03", "bad: 81 a packet with flags that it cannot have\n"},
    {MQTT_3_1_1, "40 01 00", "bad: 81 a packet that is too short\n"},
};

static const row_t subscriptions[] = {
    /* 5: figure 3-21: "a/b" with QoS 1, "c/d" with QoS 2 */
    {MQTT_5, "82 0f 00 0a 00 00 03 61 2f 62 01 00 03 63 2f 64 02",
     "SUBSCRIBE id=10 filter text=a/b qos=1 filter text=c/d qos=2\nend\n"},
    {MQTT_3_1_1, "82 0e 00 0a 00 03 61 2f 62 01 00 03 63 2f 64 02",
     "SUBSCRIBE id=10 filter text=a/b qos=1 filter text=c/d qos=2\nend\n"},
    {MQTT_5, "82 0a 00 0a 03 0b 80 01 00 01 23 2d",
     "SUBSCRIBE id=10 subscription=128 filter text=# qos=1 no-local=1 as-published=1 handling=2\nend\n"},
    {MQTT_5, "82 09 00 0a 02 0b 00 00 01 23 00", "bad: 82 a property that must not be 0\n"},
    {MQTT_5, "82 07 00 0a 00 00 01 61 03", "bad: 81 a SUBSCRIBE with options that cannot be\n"},
    {MQTT_5, "82 07 00 0a 00 00 01 61 30", "bad: 81 a SUBSCRIBE with options that cannot be\n"},
    {MQTT_5, "82 07 00 0a 00 00 01 61 40", "bad: 81 a SUBSCRIBE with options that cannot be\n"},
    {MQTT_3_1_1, "82 06 00 0a 00 01 61 04", "bad: 81 a SUBSCRIBE with options that cannot be\n"},
    {MQTT_5, "82 10 00 0a 00 00 0a 24 73 68 61 72 65 2f 67 2f 61 05", "bad: 82 a shared subscription with No Local\n"},
    {MQTT_5, "82 03 00 0a 00", "bad: 82 a packet without a topic filter\n"},
    {MQTT_3_1_1, "80 06 00 0a 00 01 61 00", "bad: 81 a packet with flags that it cannot have\n"},
    {MQTT_3_1_1, "82 06 00 00 00 01 61 00", "bad: 82 packet identifier 0\n"},
    {MQTT_3_1_1, "a2 07 00 0a 00 03 61 2f 62", "UNSUBSCRIBE id=10 filter text=a/b\nend\n"},
    {MQTT_5, "a2 06 00 0a 00 00 01 61", "UNSUBSCRIBE id=10 filter text=a\nend\n"},
    {MQTT_3_1_1, "a2 02 00 0a", "bad: 82 a packet without a topic filter\n"},
};

static const row_t ends[] = {
    {MQTT_3_1_1, "e0 00", "DISCONNECT\nend\n"},
    {MQTT_5, "e0 00", "DISCONNECT\nend\n"},
    {MQTT_5, "e0 01 04", "DISCONNECT reason=4\nend\n"},
    {MQTT_5, "e0 07 00 05 11 00 00 00 05", "DISCONNECT session-expiry=5\nend\n"},
    {MQTT_3_1_1, "e0 01 04", "bad: 81 a packet with bytes behind its end\n"},
    {MQTT_5, "e0 01 8e", "bad: 81 a reason code that this packet cannot have\n"},
    {MQTT_5, "f0 07 18 05 15 00 02 6d 31", "AUTH reason=24 method=m1\nend\n"},
    {MQTT_5, "f0 06 18 04 16 00 01 78", "bad: 82 authentication data without a method\n"},
    {MQTT_3_1_1, "f0 00", "bad: 81 an AUTH, which MQTT 3.1.1 does not have\n"},
    {MQTT_5, "00 00", "bad: 82 a packet that clients do not send\n"},
    {MQTT_5, "90 03 00 01 00", "bad: 82 a packet that clients do not send\n"},
    {MQTT_5, "d0 00", "bad: 82 a packet that clients do not send\n"},
};

static uint32_t bytes_of_row(const char *hex, uint8_t *to) {
    uint32_t size = 0;
    for (; *hex != 0; hex++) {
        if (*hex != ' ') {
            char pair[3] = {hex[0], hex[1], 0};
            to[size++] = (uint8_t)strtoul(pair, NULL, 16);
            hex++;
        }
    }
    return size;
}

static void check_row(const row_t *row) {
    uint8_t scratch[512];
    uint32_t size = bytes_of_row(row->input, scratch);
    uint8_t *input = malloc(size); /* of exactly its size: the sanitizer sees a read behind it */
    memcpy(input, scratch, size);
    for (uint32_t step = 0; step <= size; step++) {
        buffer_t out;
        buffer_init(&out, 1 << 16);
        transcript_of(&out, row->level, MAX_PACKET, bytes_of(input, size), step);
        uint64_t expected = strlen(row->expected); /* a row may end before a NUL of its payload */
        bool part = row->expected[expected - 1] != '\n' && out.size > expected;
        CHECK_TEXT(row->expected, out.at, part ? expected : out.size);
        buffer_free(&out);
    }
    free(input);
}

#define CHECK_ROWS(rows)                                                                                               \
    for (uint32_t i = 0; i < sizeof(rows) / sizeof((rows)[0]); i++) check_row(&(rows)[i])

static void logins_are_read(void) {
    CHECK_ROWS(logins);
}

static void messages_are_read(void) {
    CHECK_ROWS(messages);
}

static void acknowledgements_are_read(void) {
    CHECK_ROWS(acknowledgements);
}

static void subscriptions_are_read(void) {
    CHECK_ROWS(subscriptions);
}

static void ends_are_read(void) {
    CHECK_ROWS(ends);
}

static void sizes_have_the_standards_bytes(void) {
    /* 5: table 1-1 */
    static const struct {
        uint32_t number, size;
        uint8_t bytes[4];
    } rows[] = {
        {0, 1, {0}},
        {127, 1, {0x7f}},
        {128, 2, {0x80, 0x01}},
        {16383, 2, {0xff, 0x7f}},
        {16384, 3, {0x80, 0x80, 0x01}},
        {2097151, 3, {0xff, 0xff, 0x7f}},
        {2097152, 4, {0x80, 0x80, 0x80, 0x01}},
        {268435455, 4, {0xff, 0xff, 0xff, 0x7f}},
    };
    for (uint32_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint8_t to[4];
        CHECK_EQ_U64(rows[i].size, mqtt_number_size(rows[i].number));
        CHECK_BYTES(rows[i].bytes, rows[i].size, to, mqtt_put_number(to, rows[i].number) - to);
        bytes_t input = bytes_of(to, rows[i].size);
        uint32_t number;
        CHECK_EQ_I64(1, mqtt_take_number(&input, &number));
        CHECK_EQ_U64(rows[i].number, number);
        CHECK_EQ_U64(0, input.size);
    }
    static const uint8_t long_zero[] = {0x80, 0x00}, endless[] = {0xff, 0xff, 0xff, 0xff};
    bytes_t input = bytes_of(long_zero, 2);
    uint32_t number;
    CHECK_EQ_I64(-1, mqtt_take_number(&input, &number));
    input = bytes_of(endless, 4);
    CHECK_EQ_I64(-1, mqtt_take_number(&input, &number));
    input = bytes_of(endless, 3);
    CHECK_EQ_I64(0, mqtt_take_number(&input, &number));
}

int main(void) {
    RUN("a CONNECT of 3.1.1 or 5 is read, and what it must not say is refused", logins_are_read);
    RUN("a PUBLISH is read with its properties, and what it must not say is refused", messages_are_read);
    RUN("an acknowledgement is read with its reason where it has one", acknowledgements_are_read);
    RUN("the filters of SUBSCRIBE and UNSUBSCRIBE are read with their options", subscriptions_are_read);
    RUN("DISCONNECT and AUTH are read, and packets of servers are refused", ends_are_read);
    RUN("numbers of variable size have the standard's bytes", sizes_have_the_standards_bytes);
    return TEST_RESULT();
}
