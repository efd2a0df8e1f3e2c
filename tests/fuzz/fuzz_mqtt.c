/* Invariant: however the same bytes are cut into pieces, the reader reads the same packets and ends the same way, with
 * every slice inside the input (mqtt_transcript.h); and a block of properties that was read is read again the same when
 * it was written.
 *
 * First byte of the input: bits 0 and 1 = level before it (0 = none), bits 2.. = size of the pieces. */
#include <stddef.h>

#include "mqtt_transcript.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void properties_come_back(bytes_t block, uint32_t of) {
    mqtt_properties_t first, second;
    mqtt_fault_t fault;
    buffer_t written, one, two;
    if (!mqtt_read_properties(&block, of, &first, &fault)) {
        return;
    }
    buffer_init(&written, 1 << 16);
    buffer_init(&one, 1 << 20);
    buffer_init(&two, 1 << 20);
    check(mqtt_write_properties(&written, &first) == STATUS_OK);
    bytes_t again = bytes_of(written.at, (uint32_t)written.size);
    check(mqtt_read_properties(&again, of, &second, &fault));
    check(again.size == 0 && first.present == second.present);
    transcript_properties(&one, &first);
    transcript_properties(&two, &second);
    check(one.size == two.size && (one.size == 0 || memcmp(one.at, two.at, (size_t)one.size) == 0));
    buffer_free(&written);
    buffer_free(&one);
    buffer_free(&two);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const mqtt_level_t levels[4] = {MQTT_UNKNOWN, MQTT_3_1_1, MQTT_5, MQTT_5};
    if (size < 1 || size > 4096) {
        return 0;
    }
    bytes_t input = bytes_of(data + 1, (uint32_t)size - 1);
    buffer_t whole, pieces;
    buffer_init(&whole, 1 << 20);
    buffer_init(&pieces, 1 << 20);
    transcript_of(&whole, levels[data[0] & 3], 1000, input, 0);
    transcript_of(&pieces, levels[data[0] & 3], 1000, input, 1 + (uint32_t)(data[0] >> 2));
    check(whole.size == pieces.size);
    check(memcmp(whole.at, pieces.at, (size_t)whole.size) == 0);
    buffer_free(&whole);
    buffer_free(&pieces);
    properties_come_back(input, data[0] & 31u);
    return 0;
}
