/* will.c: see will.h. */
#include "sessions/will.h"

#include <stdlib.h>

#include "base/copies.h"

#define WILL_PIECES (2u + MQTT_TEXTS + 1u)
#define VERSION 1u
#define HEAD 8u
#define FLAG_RETAIN 4u

/* ---- a copy ------------------------------------------------------------------------------------------------------ */

/* All slices of a message, so that they can be copied and pointed to in one piece. */
static uint32_t will_slices(mqtt_message_t *message, bytes_t *slices[WILL_PIECES]) {
    uint32_t count = 0;
    slices[count++] = &message->topic;
    slices[count++] = &message->payload;
    if (message->properties.present != 0) {
        slices[count++] = &message->properties.pairs;
        for (uint32_t i = 0; i < MQTT_TEXTS; i++) {
            slices[count++] = &message->properties.texts[i];
        }
    }
    return count;
}

/* The slice of a text that is not there is empty, and may point anywhere. */
static void without_absent(mqtt_properties_t *properties) {
    static const mqtt_property_t texts[] = {MQTT_CONTENT_TYPE, MQTT_RESPONSE_TOPIC, MQTT_CORRELATION_DATA};
    mqtt_properties_t kept = {.present = properties->present};
    if (mqtt_has(properties, MQTT_USER_PROPERTY)) {
        kept.pairs = properties->pairs;
    }
    memcpy(kept.numbers, properties->numbers, sizeof kept.numbers);
    for (uint32_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (mqtt_has(properties, texts[i])) {
            mqtt_set_text(&kept, texts[i], mqtt_text(properties, texts[i]));
        }
    }
    *properties = kept;
}

will_t *will_new(const mqtt_message_t *message) {
    will_t *will = calloc(1, sizeof(*will));
    bytes_t *slices[WILL_PIECES];
    if (will == NULL) {
        return NULL;
    }
    will->message = *message;
    will->delay = mqtt_number(&message->properties, MQTT_WILL_DELAY, 0);
    without_absent(&will->message.properties);
    uint32_t count = will_slices(&will->message, slices);
    uint64_t size = 1;
    for (uint32_t i = 0; i < count; i++) {
        size += slices[i]->size;
    }
    uint8_t *at = malloc(size);
    if (at == NULL || size > UINT32_MAX) {
        free(at);
        free(will);
        return NULL;
    }
    will->bytes = bytes_of(at, (uint32_t)size);
    for (uint32_t i = 0; i < count; i++) {
        uint8_t *end = bytes_write(at, *slices[i]);
        *slices[i] = bytes_of(at, slices[i]->size);
        at = end;
    }
    return will;
}

void will_free(will_t *will) {
    bytes_release(&will->bytes);
    free(will);
}

uint64_t will_size(const will_t *will) {
    return sizeof(*will) + will->bytes.size;
}

/* ---- as bytes ---------------------------------------------------------------------------------------------------- */

status_t will_write(const will_t *will, buffer_t *out) {
    const mqtt_message_t *message = &will->message;
    uint64_t before = out->size, size = HEAD + (uint64_t)message->topic.size + message->payload.size;
    uint8_t *to;
    status_t status = buffer_reserve(out, size, &to);
    if (status != STATUS_OK) {
        return status;
    }
    to[0] = VERSION;
    to[1] = (uint8_t)(message->qos | (message->retain ? FLAG_RETAIN : 0));
    store_be16(to + 2, (uint16_t)message->topic.size);
    store_be32(to + 4, message->payload.size);
    (void)bytes_write(bytes_write(to + HEAD, message->topic), message->payload);
    out->size += size;
    status = mqtt_write_properties(out, &message->properties);
    if (status != STATUS_OK) {
        out->size = before;
    }
    return status;
}

/* false: these are no such bytes. The message points into them. */
static bool will_parse(bytes_t record, mqtt_message_t *message) {
    mqtt_fault_t fault;
    if (record.size < HEAD || record.at[0] != VERSION || (record.at[1] & 3) == 3 || record.at[1] >= 2 * FLAG_RETAIN) {
        return false;
    }
    uint32_t topic = load_be16(record.at + 2), payload = load_be32(record.at + 4), left = record.size - HEAD;
    if (topic == 0 || topic > left || payload > left - topic) {
        return false;
    }
    bytes_t rest = bytes_after(record, HEAD + topic + payload);
    *message = (mqtt_message_t){.topic = bytes_of(record.at + HEAD, topic),
                                .payload = bytes_of(record.at + HEAD + topic, payload),
                                .qos = record.at[1] & 3,
                                .retain = (record.at[1] & FLAG_RETAIN) != 0};
    return mqtt_read_properties(&rest, MQTT_WILL, &message->properties, &fault) && rest.size == 0;
}

will_t *will_read(bytes_t record, bool *damaged) {
    mqtt_message_t message;
    *damaged = !will_parse(record, &message);
    return *damaged ? NULL : will_new(&message);
}
