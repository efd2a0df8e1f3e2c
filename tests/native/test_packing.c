/* test_packing.c: streams that are compressed on the disk: what they save, what is damaged, who must not read them.
 *
 * That all else is as ever, test_store, test_store_crash, test_store_duel and test_store_salvage say, which run with
 * every stream compressed as well.
 */
#include "base/random.h"
#include "disk/env.h"
#include "disk/packing.h"
#include "store_rig.h"
#include "text/s2_encode.h"

#define COUNT 2000
#define SIZE 1000

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
    env_usage_exact(env, &usage);
    env_close(env);
    return usage.used_bytes - usage.free_bytes;
}

static store_stream_t *fill(uint32_t flags) {
    rig = (rig_t){0};
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
        CHECK_EQ_I64(STATUS_OK, store_read(stream, i, &message));
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
    return message_size(&message);
}

static void damage_is_found(void) {
    static uint8_t value[SIZE + 100];
    static uint8_t damaged[SIZE + 100];
    char text[SIZE];
    store_key_t key;
    unsealed_t room = {0};
    packer_t *packer = packer_new();
    bytes_t whole = bytes_of(value, make_value(value, &key, telemetry(text, sizeof text, 5)));
    bytes_t packed = packing_pack(packer, whole);
    CHECK(packing_wanted(DB_MESSAGES, whole) && !packing_wanted(DB_MESSAGES, packed));
    CHECK(packing_done(DB_MESSAGES, packed) && packed.size < whole.size / 2);
    CHECK(bytes_equal(whole, packing_unpack(&room, packed)));
    for (uint32_t bit = 0; bit < packed.size * 8; bit++) {
        memcpy(damaged, packed.at, packed.size);
        damaged[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        bytes_t found = bytes_of(damaged, packed.size);
        found = packing_done(DB_MESSAGES, found) ? packing_unpack(&room, found) : found;
        CHECK(found.size == 0 || bytes_equal(found, whole) || !value_sound(key_bytes(&key), found));
        unsealed_forget(&room);
    }
    for (uint32_t size = 0; size < packed.size; size++) {
        bytes_t found = packing_unpack(&room, bytes_of(packed.at, size));
        CHECK(found.size == 0 || !value_sound(key_bytes(&key), found));
        unsealed_forget(&room);
    }
    packer_free(packer);
}

static void never_grows(void) {
    static uint8_t value[S2_ENCODE_MAX + 100];
    static uint8_t payload[S2_ENCODE_MAX + 10];
    uint64_t state = 88172645463325252u;
    store_key_t key;
    packer_t *packer = packer_new();
    for (uint32_t i = 0; i < sizeof payload; i++) {
        payload[i] = (uint8_t)random_next(&state);
    }
    static const uint32_t sizes[] = {0, 1, 20, 100, 1000, 100000, sizeof payload};
    for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        bytes_t whole = bytes_of(value, make_value(value, &key, bytes_of(payload, sizes[i])));
        CHECK(packing_pack(packer, whole).at == value);
    }
    memset(payload, 'a', sizeof payload);
    bytes_t longer = bytes_of(value, make_value(value, &key, bytes_of(payload, sizeof payload)));
    CHECK(packing_pack(packer, longer).at == value);
    CHECK(packing_pack(NULL, longer).at == value);
    packer_free(packer);
}

/* ---- who must not read them -------------------------------------------------------------------------------------- */

static uint32_t format_noted(void) {
    env_t *env;
    char reason[256];
    bytes_t value;
    CHECK_EQ_I64(STATUS_OK, env_open(rig.directory, 64 << 20, false, &env, reason, sizeof reason));
    CHECK_EQ_I64(STATUS_OK, env_get(env, DB_META, text(STORE_FORMAT_KEY), &value));
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
    /* Sealed, each entry is a little longer, so that a page that was full becomes two. */
    CHECK(bytes_in_use() < plain * 5 / 2);
    CHECK(bytes_in_use() < (uint64_t)COUNT * SIZE / 3 * 2);
    rig_start(&rig);
    check_all(rig_stream(&rig, 1, rig_config()));
    rig_close(&rig);
    test_keys_given = NULL;
}

int main(void) {
    RUN("a compressed stream takes less than half of the disk, and comes back as it was", takes_less_of_the_disk);
    RUN("no flipped bit and no cut in a compressed value goes unnoticed", damage_is_found);
    RUN("what does not become smaller stays as it is", never_grows);
    RUN("a store with compressed values is given a key and stays compressed", is_encrypted);
    RUN("a leafd that does not know compressed values refuses a store with one", is_noted);
    return TEST_RESULT();
}
