/* Values of messages as they are stored: with long and with short numbers. */
#include "base/leb.h"
#include "disk/keys.h"
#include "test.h"

#define TEXT "t.ax: ypayload"

static message_record_t make(uint8_t flags) {
    return (message_record_t){.flags = flags,
                              .ts = INT64_C(1764424440123456789),
                              .born = INT64_C(86400000000000),
                              .previous = 41,
                              .subject = bytes_of(TEXT, 3),
                              .header = bytes_of(TEXT + 3, 4),
                              .payload = bytes_of(TEXT + 7, 7)};
}

static void check_same(const message_record_t *was, const message_record_t *is) {
    CHECK_EQ_I64(was->ts, is->ts);
    CHECK_EQ_I64(was->born, is->born);
    CHECK_EQ_U64(was->previous, is->previous);
    CHECK(bytes_equal(was->subject, is->subject));
    CHECK(bytes_equal(was->header, is->header));
    CHECK(bytes_equal(was->payload, is->payload));
}

/* Returns how many bytes the numbers took. */
static uint32_t comes_back(uint64_t seq, const message_record_t *message) {
    uint8_t value[MESSAGE_FIXED_SIZE + sizeof TEXT];
    message_record_t read;
    store_key_t key;
    key_message(&key, 3, seq);
    uint32_t size = message_size(seq, message);
    CHECK(size <= message_most(message) && size < sizeof value);
    value[size] = 0x5a;
    message_write(value, key_bytes(&key), message);
    CHECK_EQ_U64(0x5a, value[size]);
    CHECK(value_sound(key_bytes(&key), bytes_of(value, size)));
    CHECK(message_read(key_bytes(&key), bytes_of(value, size), &read));
    check_same(message, &read);
    CHECK_EQ_U64(message->flags & ~MESSAGE_BRIEF, read.flags & ~MESSAGE_BRIEF);
    CHECK(bytes_equal(bytes_of(TEXT, 14), message_text(bytes_of(value, size), &read)));
    CHECK(size == message_most(message) || (read.flags & MESSAGE_BRIEF) != 0);
    return size - 14;
}

static void usual_numbers_are_short(void) {
    message_record_t message = make(MESSAGE_BRIEF | MESSAGE_NEVER);
    CHECK_EQ_U64(4 + 1 + 1 + 1 + 8 + 7 + 1, comes_back(42, &message));
    message.flags = MESSAGE_NEVER;
    CHECK_EQ_U64(MESSAGE_FIXED_SIZE, comes_back(42, &message));
}

static void any_number_comes_back(void) {
    static const uint64_t numbers[] = {0,
                                       1,
                                       127,
                                       128,
                                       UINT32_MAX,
                                       (UINT64_C(1) << 42) - 1,
                                       UINT64_C(1) << 42,
                                       (UINT64_C(1) << 55) - 1,
                                       UINT64_C(1) << 55,
                                       INT64_MAX,
                                       (uint64_t)INT64_MIN,
                                       UINT64_MAX - 1,
                                       UINT64_MAX};
    const size_t count = sizeof numbers / sizeof *numbers;
    for (size_t i = 0; i < count * count * count; i++) {
        message_record_t message = make(MESSAGE_BRIEF);
        message.born = (int64_t)numbers[i % count];
        message.ts = (int64_t)numbers[count - 1 - i % count];
        message.previous = numbers[i / count % count];
        (void)comes_back(numbers[i / count / count], &message);
    }
}

static void none_is_read_from_what_was_cut_off(void) {
    for (int brief = 0; brief < 2; brief++) {
        message_record_t message = make(brief ? MESSAGE_BRIEF : 0), read;
        uint8_t value[MESSAGE_FIXED_SIZE + sizeof TEXT];
        store_key_t key;
        key_message(&key, 3, 42);
        message_write(value, key_bytes(&key), &message);
        uint32_t whole = message_size(42, &message);
        for (uint32_t size = 0; size < whole; size++) {
            uint8_t *cut = malloc(size + 1u); /* the sanitizer sees who reads behind its end */
            CHECK(cut != NULL);
            memcpy(cut + 1, value, size);
            bool reads = message_read(key_bytes(&key), bytes_of(cut + 1, size), &read);
            free(cut);
            CHECK(reads == (size >= whole - 7)); /* of the payload nothing says how long it was */
        }
        CHECK(!message_read(bytes_of(key.at, 11), bytes_of(value, whole), &read));
    }
}

static void link_cannot_lead_forward(void) {
    message_record_t message = make(MESSAGE_BRIEF), read;
    uint8_t value[MESSAGE_FIXED_SIZE + sizeof TEXT];
    store_key_t key;
    key_message(&key, 3, 42);
    message_write(value, key_bytes(&key), &message);
    key_message(&key, 3, 1); /* one back from there is none */
    CHECK(!message_read(key_bytes(&key), bytes_of(value, message_size(42, &message)), &read));
}

/* LEB128's own examples: DWARF 5, section 7.6, and numbers at the ends of each size. */
static void leb_numbers(void) {
    static const uint8_t examples[] = {2, 127, 0x80, 1, 0x81, 1, 0x82, 1, 0xb9, 0x64};
    static const uint64_t said[] = {2, 127, 128, 129, 130, 12857};
    bytes_t left = bytes_of(examples, sizeof examples);
    uint64_t number;
    for (uint32_t i = 0; i < 6; i++) {
        CHECK(leb_take(&left, &number));
        CHECK_EQ_U64(said[i], number);
    }
    CHECK(left.size == 0 && !leb_take(&left, &number));
    for (uint32_t bits = 0; bits < 64; bits++) {
        for (uint64_t one = (UINT64_C(1) << bits) - 1; one <= UINT64_C(1) << bits; one++) {
            for (uint32_t behind = 0; behind < 9; behind++) {
                uint8_t at[LEB_MAX + 8];
                uint32_t size = (uint32_t)(leb_put(at, one) - at);
                memset(at + size, 0xff, behind);
                CHECK_EQ_U64(leb_size(one), size);
                left = bytes_of(at, size + behind);
                CHECK(leb_take(&left, &number) && left.size == behind);
                CHECK_EQ_U64(one, number);
                left = bytes_of(at, size - 1);
                CHECK(!leb_take(&left, &number));
            }
        }
    }
}

int main(void) {
    RUN("numbers of every size come back, whatever stands behind them", leb_numbers);
    RUN("a message's usual numbers take two thirds of their room", usual_numbers_are_short);
    RUN("any number of a message comes back as it was", any_number_comes_back);
    RUN("a value that was cut off within its numbers or names is none", none_is_read_from_what_was_cut_off);
    RUN("a short link leads back and never forward", link_cannot_lead_forward);
    return TEST_RESULT();
}
