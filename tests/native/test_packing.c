/* test_packing.c: streams that are compressed on the disk: what they save, what is damaged, who must not read them.
 *
 * That all else is as ever, test_store, test_store_crash, test_store_duel and test_store_salvage say, which run with
 * every stream compressed as well.
 */
#include "base/random.h"
#include "disk/env.h"
#include "disk/packer.h"
#include "store_rig.h"
#include "unread_pages.h"

#define COUNT 2000
#define SIZE 1000
#define PACKED_HEAD (VALUE_CRC_SIZE + 1)

static rig_t rig;

/* Telemetry as boxes send it: the same keys, other numbers. */
static bytes_t telemetry(char *to, uint32_t room, uint32_t number) {
    uint32_t size = 0;
    while (size + 120 < room) {
        size += (uint32_t)snprintf(to + size, room - size,
                                   "{\"sensor\":\"temperature\",\"unit\":\"celsius\",\"value\":%u.%u,\"sequence\":%u},",
                                   number % 40, number % 10, number * 7919 + size);
    }
    return bytes_of(to, size);
}

/* What LMDB's pages in use come to, once the store is closed. */
static uint64_t bytes_in_use(void) {
    env_t *env;
    char reason[256];
    env_usage_t usage = {0};
    CHECK_EQ_I64(STATUS_OK, env_open(rig.directory, 64 << 20, false, &env, reason, sizeof reason));
    CHECK_EQ_I64(STATUS_OK, env_usage_exact(env, &usage));
    env_close(env);
    return usage.used_bytes - usage.free_bytes;
}

static uint64_t pack_from; /* of the next one that is filled; 0: dictionaries come at once */

static store_stream_t *fill(uint32_t flags) {
    rig = (rig_t){.options = {.pack_from = pack_from}};
    rig_open(&rig);
    stream_config_t config = rig_config();
    config.flags = flags;
    store_stream_t *stream = rig_stream(&rig, 1, config);
    for (uint32_t i = 1; i <= COUNT; i++) {
        char text[SIZE];
        bytes_t payload = telemetry(text, sizeof text, i);
        const append_t append = {.subject = bytes_of("t.a", 3), .payload = payload};
        CHECK_EQ_I64(APPEND_STORED, store_append(stream, &append, rig.now).verdict);
        store_tick(rig.store, rig.now);
        if (i % 10 == 0) {
            rig_sync(&rig);
        }
        if (i % 200 == 0) {
            rig_checkpoint(&rig); /* or a slow keeper leaves no room */
        }
    }
    rig_checkpoint(&rig);
    return stream;
}

static void check_all(store_stream_t *stream) {
    for (uint32_t i = 1; i <= COUNT; i++) {
        char text[SIZE];
        stored_message_t message;
        CHECK_EQ_I64(ENTRY_FOUND, store_read(stream, i, &message));
        CHECK(bytes_equal(telemetry(text, sizeof text, i), message.payload));
    }
}

static void takes_less_of_the_disk(void) {
    (void)fill(0);
    store_close(rig.store);
    uint64_t plain = bytes_in_use();
    rig_start(&rig);
    rig_close(&rig);
    check_all(fill(STREAM_COMPRESS));
    store_close(rig.store);
    CHECK(bytes_in_use() < plain / 2);
    rig_start(&rig);
    check_all(rig_stream(&rig, 1, rig_config()));
    rig_close(&rig);
}

/* ---- one value --------------------------------------------------------------------------------------------------- */

static uint32_t make_value(uint8_t *value, store_key_t *key, bytes_t payload) {
    const message_record_t message = {.flags = MESSAGE_PACK,
                                      .ts = INT64_C(0x1234567890abcdef),
                                      .born = INT64_C(0x0fedcba098765432),
                                      .previous = UINT64_C(0x1122334455667788),
                                      .subject = bytes_of("t.a", 3),
                                      .payload = payload};
    key_message(key, 1, 7);
    message_write(value, key_bytes(key), &message);
    return message_size(7, &message);
}

/* A dictionary of other readings, of stream 1 and by the id that is asked for. */
static uint8_t dictionary_text[DICTIONARY_TEXT_MAX];
static dictionary_t dictionary;

static status_t find_dictionary(void *context, uint32_t stream, uint32_t id, const dictionary_t **found) {
    *found = context != NULL && stream == 1 && id == 300 ? &dictionary : NULL;
    return STATUS_OK;
}

static const finder_t with_dictionary = {.context = &dictionary, .find = find_dictionary};
static const finder_t without = {.find = find_dictionary};

static s2_primer_t *make_dictionary(void) {
    char text[SIZE];
    bytes_t other = telemetry(text, sizeof text, 77);
    (void)bytes_write(dictionary_text, other);
    dictionary = (dictionary_t){.ts = INT64_C(0x1234567890000000),
                                .gap = -INT64_C(0x2222222222222222),
                                .text = bytes_of(dictionary_text, other.size)};
    s2_primer_t *primer = s2_primer_new();
    CHECK(primer != NULL);
    s2_prime(primer, dictionary.text);
    return primer;
}

static bytes_t unpack(unsealed_t *room, const finder_t *finder, const store_key_t *key, bytes_t packed) {
    bytes_t value;
    CHECK_EQ_I64(STATUS_OK, packing_unpack(room, finder, key_bytes(key), packed, &value));
    return value;
}

static bytes_t unpacked(unsealed_t *room, const finder_t *finder, const store_key_t *key, bytes_t packed) {
    return packing_done(DB_MESSAGES, packed) ? unpack(room, finder, key, packed) : packed;
}

static void forget_now_and_then(unsealed_t *room, uint32_t turn) {
    if (turn % 50 == 0) {
        unsealed_forget(room);
    }
}

/* Nothing that is done to it passes for the value, or for another one. */
static void check_damage(const store_key_t *key, bytes_t whole, bytes_t packed) {
    static uint8_t damaged[SIZE + 100];
    unsealed_t room = {0};
    CHECK(packing_wanted(DB_MESSAGES, whole) && !packing_wanted(DB_MESSAGES, packed));
    CHECK(packing_done(DB_MESSAGES, packed) && packed.size < whole.size / 2);
    CHECK(bytes_equal(whole, unpack(&room, &with_dictionary, key, packed)));
    for (uint32_t bit = 0; bit < packed.size * 8; bit++) {
        memcpy(damaged, packed.at, packed.size);
        damaged[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        bytes_t found = unpacked(&room, &with_dictionary, key, bytes_of(damaged, packed.size));
        CHECK(found.size == 0 || bytes_equal(found, whole) || !value_sound(key_bytes(key), found));
        forget_now_and_then(&room, bit);
    }
    for (uint32_t size = PACKED_HEAD; size < packed.size; size++) {
        bytes_t found = unpack(&room, &with_dictionary, key, bytes_of(packed.at, size));
        CHECK(found.size == 0 || !value_sound(key_bytes(key), found));
        forget_now_and_then(&room, size);
    }
    unsealed_forget(&room);
}

static uint8_t packed_at[PACKED_MAX];

static void damage_is_found(void) {
    static uint8_t value[SIZE + 100];
    char text[SIZE];
    store_key_t key;
    s2_encoder_t *encoder = s2_encoder_new(S2_EFFORT_FAST);
    bytes_t whole = bytes_of(value, make_value(value, &key, telemetry(text, sizeof text, 5)));
    check_damage(&key, whole, packing_pack(encoder, whole, packed_at));
    s2_encoder_free(encoder);
}

static void damage_behind_a_dictionary_is_found(void) {
    static uint8_t value[SIZE + 100];
    char text[SIZE];
    store_key_t key;
    unsealed_t room = {0};
    s2_primer_t *primer = make_dictionary();
    bytes_t whole = bytes_of(value, make_value(value, &key, telemetry(text, sizeof text, 5)));
    bytes_t packed = packing_prime(primer, &dictionary, 300, key_bytes(&key), whole, packed_at);
    CHECK(packing_primed(packed));
    check_damage(&key, whole, packed);
    CHECK_EQ_U64(0, unpack(&room, &without, &key, packed).size);
    for (uint32_t at = 0; at < dictionary.text.size; at++) {
        dictionary_text[at] ^= (uint8_t)(1u << (at % 8));
        bytes_t found = unpack(&room, &with_dictionary, &key, packed);
        CHECK(found.size == 0 || bytes_equal(found, whole) || !value_sound(key_bytes(&key), found));
        dictionary_text[at] ^= (uint8_t)(1u << (at % 8));
        forget_now_and_then(&room, at);
    }
    unsealed_forget(&room);
    s2_primer_free(primer);
}

/* Stamps and links of any kind come back: what is near the dictionary's is only shorter. */
static void numbers_come_back(void) {
    static const int64_t stamps[] = {0, 1, -1, INT64_MIN, INT64_MAX, INT64_C(0x1234567890000000)};
    static uint8_t value[400];
    char text[140];
    unsealed_t room = {0};
    store_key_t key;
    s2_primer_t *primer = make_dictionary();
    message_record_t message = {.flags = MESSAGE_PACK,
                                .subject = bytes_of("t.a", 3),
                                .header = bytes_of("NATS/1.0\r\nA: b\r\n\r\n", 18),
                                .payload = telemetry(text, sizeof text, 5)};
    for (uint32_t i = 0; i < 6 * 6 * 6; i++) {
        message.ts = stamps[i % 6];
        message.born = stamps[i / 6 % 6];
        message.previous = (uint64_t)stamps[i / 36];
        message.flags ^= MESSAGE_BRIEF;
        key_message(&key, 1, (uint64_t)stamps[(i + 3) % 6]);
        message_write(value, key_bytes(&key), &message);
        bytes_t whole = bytes_of(value, message_size(load_be64(key.at + 4), &message));
        bytes_t packed = packing_prime(primer, &dictionary, 300, key_bytes(&key), whole, packed_at);
        CHECK(packing_primed(packed) && packed.size < whole.size);
        CHECK(bytes_equal(whole, unpack(&room, &with_dictionary, &key, packed)));
        unsealed_forget(&room);
    }
    s2_primer_free(primer);
}

static void never_grows(void) {
    static uint8_t value[S2_ENCODE_MAX + 100];
    static uint8_t payload[S2_ENCODE_MAX + 10];
    uint64_t state = 88172645463325252u;
    store_key_t key;
    s2_encoder_t *encoder = s2_encoder_new(S2_EFFORT_FAST);
    s2_primer_t *primer = make_dictionary();
    for (uint32_t i = 0; i < sizeof payload; i++) {
        payload[i] = (uint8_t)random_next(&state);
    }
    static const uint32_t sizes[] = {0, 1, 20, 100, 1000, 100000, sizeof payload};
    for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        bytes_t whole = bytes_of(value, make_value(value, &key, bytes_of(payload, sizes[i])));
        CHECK(packing_pack(encoder, whole, packed_at).at == value);
        CHECK(packing_prime(primer, &dictionary, 300, key_bytes(&key), whole, packed_at).size <= whole.size);
    }
    memset(payload, 'a', sizeof payload);
    bytes_t longer = bytes_of(value, make_value(value, &key, bytes_of(payload, sizeof payload)));
    CHECK(packing_pack(encoder, longer, packed_at).at == value);
    CHECK(packing_pack(NULL, longer, packed_at).at == value);
    s2_encoder_free(encoder);
    s2_primer_free(primer);
}

/* ---- dictionaries of a stream ----------------------------------------------------------------------------------- */

/* Another kind of messages for each kind, which the dictionary of one is no help for in another. */
static bytes_t reading(char *to, uint32_t room, uint32_t kind, uint32_t number) {
    uint64_t state = kind * 7919u + 1;
    uint32_t size = 0;
    for (uint32_t field = 0; field < 8; field++) {
        size += (uint32_t)snprintf(to + size, room - size, "\"%08x\":%u,", (unsigned)random_next(&state),
                                   (unsigned)(number * (field + 3) * 31 % 1000));
    }
    return bytes_of(to, size);
}

static void put_readings(store_stream_t *stream, uint32_t kind, uint32_t count) {
    for (uint32_t i = 1; i <= count; i++) {
        char text[200];
        const append_t append = {.subject = bytes_of("t.a", 3), .payload = reading(text, sizeof text, kind, i)};
        CHECK_EQ_I64(APPEND_STORED, store_append(stream, &append, rig.now).verdict);
        if (i % 100 == 0 || i == count) {
            store_tick(rig.store, rig.now);
            rig_checkpoint(&rig);
        }
    }
}

/* From `seq` on they are readings of one kind. Returns how many cannot be read. */
static uint32_t check_readings(store_stream_t *stream, uint64_t seq, uint32_t kind, uint32_t count) {
    uint32_t lost = 0;
    for (uint32_t i = 1; i <= count; i++) {
        char text[200];
        stored_message_t message;
        entry_outcome_t status = store_read(stream, seq + i - 1, &message);
        CHECK(status == ENTRY_FOUND || status == ENTRY_DAMAGED);
        CHECK(status != ENTRY_FOUND || bytes_equal(reading(text, sizeof text, kind, i), message.payload));
        lost += status != ENTRY_FOUND;
    }
    return lost;
}

static store_stream_t *begin_compressed(void) {
    rig = (rig_t){0};
    rig_open(&rig);
    stream_config_t config = rig_config();
    config.flags = STREAM_COMPRESS;
    return rig_stream(&rig, 1, config);
}

static store_stream_t *start_again(void) {
    rig_start(&rig);
    stream_config_t config = rig_config();
    config.flags = STREAM_COMPRESS;
    return rig_stream(&rig, 1, config);
}

static env_t *open_closed(void) {
    char reason[256];
    env_t *env;
    store_close(rig.store);
    CHECK_EQ_I64(STATUS_OK, env_open(rig.directory, 64 << 20, false, &env, reason, sizeof reason));
    return env;
}

/* How many of a stream's are sound, in one of the databases. */
static uint32_t count_dictionaries(env_t *env, uint32_t copy, uint32_t *damaged) {
    store_key_t key;
    bytes_t found, value;
    uint32_t count = 0;
    *damaged = 0;
    key_dictionary(&key, 1, 0);
    read_outcome_t outcome = env_seek(env, dictionary_db(copy), key_bytes(&key), &found, &value);
    for (; outcome == READ_FOUND && load_be32(found.at) == 1;
         outcome = env_next(env, dictionary_db(copy), key_bytes(&key), &found, &value)) {
        dictionary_t is;
        bool sound = dictionary_read(found, value, &is);
        count += sound;
        *damaged += !sound;
    }
    return count;
}

static void expect_dictionaries(uint32_t least, uint32_t most) {
    env_t *env = open_closed();
    for (uint32_t copy = 0; copy < DICTIONARY_COPIES; copy++) {
        uint32_t damaged;
        uint32_t count = count_dictionaries(env, copy, &damaged);
        if (count < least || count > most || damaged != 0) {
            FAIL("copy %u: %u dictionaries, %u damaged", (unsigned)copy, (unsigned)count, (unsigned)damaged);
        }
    }
    env_close(env);
}

/* A bit of the first one's. */
static void damage_dictionary(uint32_t copies) {
    env_t *env = open_closed();
    CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
    for (uint32_t copy = 0; copy < copies; copy++) {
        static uint8_t record[DICTIONARY_VALUE_MAX];
        store_key_t key;
        bytes_t value;
        key_dictionary(&key, 1, 1);
        CHECK_EQ_I64(READ_FOUND, env_write_get(env, dictionary_db(copy), key_bytes(&key), &value));
        memcpy(record, value.at, value.size);
        record[value.size / 2] ^= 4;
        CHECK_EQ_I64(STATUS_OK, env_write_put(env, dictionary_db(copy), key_bytes(&key), bytes_of(record, value.size)));
    }
    CHECK_EQ_I64(STATUS_OK, env_write_commit(env));
    env_close(env);
}

#define READINGS 2000
#define FEW 10

static void small_messages_take_less(void) {
    uint64_t sizes[2];
    for (uint32_t i = 0; i < 2; i++) {
        rig = (rig_t){0};
        rig_open(&rig);
        stream_config_t config = rig_config();
        config.flags = i == 1 ? STREAM_COMPRESS : 0;
        put_readings(rig_stream(&rig, 1, config), 1, READINGS);
        store_close(rig.store);
        sizes[i] = bytes_in_use();
        CHECK_EQ_U64(0, check_readings(start_again(), 1, 1, READINGS));
        rig_close(&rig);
    }
    if (sizes[1] > sizes[0] * 3 / 5) {
        FAIL("%u bytes, %u compressed", (unsigned)sizes[0], (unsigned)sizes[1]);
    }
}

static void one_damaged_copy_is_no_loss(void) {
    put_readings(begin_compressed(), 1, READINGS);
    damage_dictionary(1);
    store_stream_t *stream = start_again();
    CHECK_EQ_U64(0, check_readings(stream, 1, 1, READINGS));
    put_readings(stream, 1, 1);
    expect_dictionaries(1, 3); /* it was made whole again */
    rig_start(&rig);
    rig_close(&rig);
}

/* The next page from there on that is the second one of a value with pages of its own, as only dictionaries are here;
 * 0: none. */
static unsigned second_page(unsigned from) {
    static uint8_t file[8 << 20];
    size_t pages = rig_read_at(&rig, "data.mdb", file, sizeof file, 0) / UNREAD_PAGE;
    for (unsigned page = from; page + 1 < pages; page++) {
        uint64_t number;
        uint16_t flags;
        uint32_t count;
        memcpy(&number, file + (size_t)page * UNREAD_PAGE, sizeof number);
        memcpy(&flags, file + (size_t)page * UNREAD_PAGE + 10, sizeof flags);
        memcpy(&count, file + (size_t)page * UNREAD_PAGE + 12, sizeof count);
        if (number == page && flags == 4 && count > 1) return page + 1;
    }
    return 0;
}

/* The other copy has it. What is written goes to the disk, and the store begins again. */
static void a_page_of_one_copy_is_not_given(void) {
    pack_from = 64 << 10; /* large dictionaries */
    store_stream_t *stream = fill(STREAM_COMPRESS);
    pack_from = 0;
    store_close(rig.store);
    char path[RIG_PATH];
    rig_path(&rig, "data.mdb", path);
    unsigned met = 0;
    for (unsigned page = second_page(2); page != 0; page = second_page(page)) {
        unread_pages(path, page, 1, true);
        put_readings(start_again(), 1, 1);
        store_close(rig.store);
        stream = start_again();
        check_all(stream);
        CHECK_EQ_U64(COUNT + 1 + met++, rig_state(stream).messages);
        store_close(rig.store);
        unread_none();
    }
    CHECK(met > 0);
    rig_start(&rig);
    rig_close(&rig);
}

static void two_damaged_copies_are_told(void) {
    put_readings(begin_compressed(), 1, READINGS);
    damage_dictionary(2);
    store_stream_t *stream = start_again();
    CHECK(check_readings(stream, 1, 1, READINGS) > READINGS / 2);
    put_readings(stream, 2, READINGS);
    CHECK_EQ_U64(0, check_readings(stream, READINGS + 1, 2, READINGS));
    store_close(rig.store);
    CHECK_EQ_U64(0, check_readings(start_again(), READINGS + 1, 2, READINGS));
    rig_close(&rig);
}

/* Each life of the store brings another kind of messages, and tries soon. */
static void dictionaries_follow_the_messages(void) {
    store_stream_t *stream = begin_compressed();
    for (uint32_t kind = 1; kind <= 4; kind++) {
        put_readings(stream, kind, READINGS);
        store_close(rig.store);
        stream = start_again();
    }
    for (uint32_t kind = 1; kind <= 4; kind++) {
        CHECK_EQ_U64(0, check_readings(stream, 1 + (uint64_t)(kind - 1) * READINGS, kind, READINGS));
    }
    expect_dictionaries(1, PACKER_LIVE_MAX);
    stream = start_again();
    CHECK_EQ_I64(STATUS_OK, store_stream_remove(stream));
    rig_sync(&rig);
    rig_checkpoint(&rig);
    expect_dictionaries(0, 0);
    rig_start(&rig);
    rig_close(&rig);
}

/* A dictionary is made of whole messages. */
static void nothing_outlives_a_purge(void) {
    store_stream_t *stream = begin_compressed();
    put_readings(stream, 1, READINGS);
    rig_checkpoint(&rig);
    expect_dictionaries(1, 1);
    stream = start_again();
    uint64_t purged;
    step_outcome_t step;
    store_purge_t purge = {0};
    do {
        CHECK_EQ_I64(STATUS_OK, store_purge(stream, &purge, &purged, &step));
        rig_sync(&rig);
    } while (step != STEP_OVER);
    put_readings(stream, 2, FEW); /* not enough for a dictionary */
    expect_dictionaries(0, 0);
    stream = start_again();
    CHECK_EQ_U64(0, check_readings(stream, READINGS + 1, 2, FEW));
    put_readings(stream, 2, READINGS);
    rig_checkpoint(&rig);
    expect_dictionaries(1, 1);
    rig_start(&rig);
    rig_close(&rig);
}

/* ---- who must not read them -------------------------------------------------------------------------------------- */

static uint32_t format_noted(void) {
    env_t *env;
    char reason[256];
    bytes_t value;
    CHECK_EQ_I64(STATUS_OK, env_open(rig.directory, 64 << 20, false, &env, reason, sizeof reason));
    CHECK_EQ_I64(READ_FOUND, env_get(env, DB_META, text(STORE_FORMAT_KEY), &value));
    CHECK(value_sound(text(STORE_FORMAT_KEY), value));
    uint32_t format = load_be32(value.at + VALUE_CRC_SIZE);
    env_close(env);
    return format;
}

static void is_noted(void) {
    (void)fill(0);
    store_close(rig.store);
    CHECK_EQ_U64(0, format_noted() & STORE_FORMAT_PACKED);
    rig_start(&rig);
    rig_close(&rig);
    (void)fill(STREAM_COMPRESS);
    store_close(rig.store);
    CHECK((format_noted() & ~STORE_FORMAT_SEALED) > STORE_FORMAT);
    rig_start(&rig);
    check_all(rig_stream(&rig, 1, rig_config()));
    rig_close(&rig);
}

/* ---- encryption of what is compressed ---------------------------------------------------------------------------- */

static void is_encrypted(void) {
    static const plane_keys_t key = {.key = (const uint8_t *)"first", .key_size = 5, .cipher = CIPHER_AES};
    int64_t until = 0;
    (void)fill(STREAM_COMPRESS);
    store_close(rig.store);
    uint64_t plain = bytes_in_use();
    test_keys_given = &key;
    rig_start(&rig);
    check_all(rig_stream(&rig, 1, rig_config()));
    while (!rig_alarmed(&rig, "prev_key is not needed any more")) {
        CHECK(patient(&until));
        store_tick(rig.store, rig.now);
        usleep(10000);
    }
    store_close(rig.store);
    uint64_t sealed = bytes_in_use();
    if (sealed > COUNT * SIZE / 2) {
        FAIL("%u bytes, encrypted %u", (unsigned)plain, (unsigned)sealed);
    }
    rig_start(&rig);
    check_all(rig_stream(&rig, 1, rig_config()));
    rig_close(&rig);
    test_keys_given = NULL;
}

int main(void) {
    RUN("a compressed stream takes less than half of the disk, and comes back as it was", takes_less_of_the_disk);
    RUN("no flipped bit and no cut in a compressed value goes unnoticed", damage_is_found);
    RUN("nor does one in a value behind a dictionary, or in the dictionary", damage_behind_a_dictionary_is_found);
    RUN("a message behind a dictionary has its own stamps and links, whatever they are", numbers_come_back);
    RUN("messages of 150 bytes take less than three fifths of the disk", small_messages_take_less);
    RUN("a damaged copy of a dictionary is no loss, and is made whole", one_damaged_copy_is_no_loss);
    RUN("a page of one copy of a dictionary that the disk does not give ends no checkpoint and no start",
        a_page_of_one_copy_is_not_given);
    RUN("where both are damaged no message is another one, and new ones are as ever", two_damaged_copies_are_told);
    RUN("messages of another kind come back, too, and a stream that goes takes its dictionaries with it",
        dictionaries_follow_the_messages);
    RUN("an emptied stream has no dictionary, and then gets a new one", nothing_outlives_a_purge);
    RUN("what does not become smaller stays as it is", never_grows);
    RUN("a store with compressed values is given a key and stays compressed", is_encrypted);
    RUN("a leafd that does not know compressed values refuses a store with one", is_noted);
    return TEST_RESULT();
}
