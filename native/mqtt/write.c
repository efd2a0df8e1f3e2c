/* write.c: each packet is its fixed header, some bytes of its own, with MQTT 5 a block of properties, and a tail.
 *
 *     fixed header | front | properties | tail
 */
#include "mqtt/write.h"

#include "base/check.h"

#define FRONT 3u
#define REASONS_ONLY_EXPLAIN ((1u << MQTT_REASON_STRING) | (1u << MQTT_USER_PROPERTY))

typedef struct draft {
    uint8_t head; /* kind and flags */
    bytes_t front[FRONT];
    const mqtt_properties_t *properties; /* NULL: the packet has no block */
    bytes_t tail;
} draft_t;

static const mqtt_properties_t none = {.present = 0};

static uint64_t body_size(const draft_t *draft) {
    uint64_t size = draft->tail.size;
    for (uint32_t i = 0; i < FRONT; i++) {
        size += draft->front[i].size;
    }
    if (draft->properties != NULL) {
        uint32_t block = mqtt_properties_size(draft->properties);
        size += mqtt_number_size(block) + (uint64_t)block;
    }
    return size;
}

static bool fits(const mqtt_writer_t *writer, uint64_t body) {
    return body <= MQTT_NUMBER_MAX && 1 + mqtt_number_size((uint32_t)body) + body <= writer->max_packet;
}

/* The fixed header announces `behind` more bytes, which the caller writes. */
static status_t put(const mqtt_writer_t *writer, buffer_t *out, const draft_t *draft, uint32_t behind) {
    uint64_t body = body_size(draft) + behind;
    uint64_t before = out->size;
    uint8_t *to;
    if (!fits(writer, body)) {
        return STATUS_INVALID;
    }
    status_t status = buffer_reserve(out, MQTT_FIXED_MAX + body - behind + 4, &to);
    if (status != STATUS_OK) {
        return status;
    }
    *to = draft->head;
    uint8_t *end = mqtt_put_number(to + 1, (uint32_t)body);
    for (uint32_t i = 0; i < FRONT; i++) {
        end = bytes_write(end, draft->front[i]);
    }
    out->size += (uint64_t)(end - to);
    if (draft->properties != NULL) {
        status = mqtt_write_properties(out, draft->properties);
    }
    if (status == STATUS_OK && draft->tail.size != 0) {
        status = buffer_append(out, draft->tail.at, draft->tail.size);
    }
    if (status != STATUS_OK) {
        out->size = before;
    }
    return status;
}

/* An answer, which goes without its explanations where it would be too large with them. */
static status_t put_answer(const mqtt_writer_t *writer, buffer_t *out, const draft_t *draft) {
    if (draft->properties == NULL || fits(writer, body_size(draft))) {
        return put(writer, out, draft, 0);
    }
    mqtt_properties_t fewer = *draft->properties;
    fewer.present &= ~REASONS_ONLY_EXPLAIN;
    draft_t shorter = *draft;
    shorter.properties = &fewer;
    return put(writer, out, &shorter, 0);
}

static const mqtt_properties_t *or_none(const mqtt_properties_t *properties) {
    return properties != NULL ? properties : &none;
}

static uint8_t packet_head(mqtt_kind_t kind) {
    return (uint8_t)(((uint32_t)kind << 4) | (kind == MQTT_PUBREL ? 2u : 0u));
}

status_t mqtt_write_connack(const mqtt_writer_t *writer, buffer_t *out, bool session_present, mqtt_reason_t reason,
                            const mqtt_properties_t *properties) {
    bool five = writer->level == MQTT_5;
    uint8_t front[2] = {session_present && reason == MQTT_REASON_SUCCESS,
                        five ? (uint8_t)reason : mqtt_return_code(reason)};
    draft_t draft = {
        .head = packet_head(MQTT_CONNACK),
        .front = {bytes_of(front, sizeof front)},
        .properties = five ? or_none(properties) : NULL,
    };
    return put_answer(writer, out, &draft);
}

status_t mqtt_write_publish(const mqtt_writer_t *writer, buffer_t *out, const mqtt_publish_t *publish) {
    uint8_t size[2], id[2];
    check(publish->topic.size <= UINT16_MAX);
    store_be16(size, (uint16_t)publish->topic.size);
    store_be16(id, publish->id);
    draft_t draft = {
        .head = (uint8_t)((MQTT_PUBLISH << 4) | (publish->dup ? MQTT_HEAD_DUP : 0u) | ((uint32_t)publish->qos << 1)
                          | (publish->retain ? 1u : 0u)),
        .front = {bytes_of(size, sizeof size), publish->topic, bytes_of(id, publish->qos != 0 ? sizeof id : 0)},
        .properties = writer->level == MQTT_5 ? or_none(publish->properties) : NULL,
    };
    return put(writer, out, &draft, publish->payload_size);
}

status_t mqtt_write_acknowledgement(const mqtt_writer_t *writer, buffer_t *out, mqtt_kind_t kind, uint16_t id,
                                    mqtt_reason_t reason, const mqtt_properties_t *properties) {
    bool block = writer->level == MQTT_5 && properties != NULL && properties->present != 0;
    bool with_reason = writer->level == MQTT_5 && (block || reason != MQTT_REASON_SUCCESS);
    uint8_t front[3] = {(uint8_t)(id >> 8), (uint8_t)id, (uint8_t)reason};
    draft_t draft = {
        .head = packet_head(kind),
        .front = {bytes_of(front, with_reason ? 3 : 2)},
        .properties = block ? properties : NULL,
    };
    return put_answer(writer, out, &draft);
}

status_t mqtt_write_filters_answer(const mqtt_writer_t *writer, buffer_t *out, mqtt_kind_t kind, uint16_t id,
                                   bytes_t reasons, const mqtt_properties_t *properties) {
    bool five = writer->level == MQTT_5;
    uint8_t front[2] = {(uint8_t)(id >> 8), (uint8_t)id};
    draft_t draft = {
        .head = packet_head(kind),
        .front = {bytes_of(front, sizeof front)},
        .properties = five ? or_none(properties) : NULL,
        .tail = five || kind == MQTT_SUBACK ? reasons : BYTES_NONE,
    };
    status_t status = put_answer(writer, out, &draft);
    if (status == STATUS_OK && !five && kind == MQTT_SUBACK) {
        for (uint8_t *code = out->at + out->size - reasons.size; code < out->at + out->size; code++) {
            *code = *code < 0x80 ? *code : 0x80;
        }
    }
    return status;
}

status_t mqtt_write_pong(buffer_t *out) {
    static const uint8_t pong[2] = {MQTT_PINGRESP << 4, 0};
    return buffer_append(out, pong, sizeof pong);
}

status_t mqtt_write_disconnect(const mqtt_writer_t *writer, buffer_t *out, mqtt_reason_t reason,
                               const mqtt_properties_t *properties) {
    bool block = properties != NULL && properties->present != 0;
    uint8_t front[1] = {(uint8_t)reason};
    draft_t draft = {
        .head = packet_head(MQTT_DISCONNECT),
        .front = {bytes_of(front, block || reason != MQTT_REASON_SUCCESS ? 1 : 0)},
        .properties = block ? properties : NULL,
    };
    return writer->level == MQTT_5 ? put_answer(writer, out, &draft) : STATUS_OK;
}
