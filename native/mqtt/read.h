/* read.h: bytes to packets, as a function without side effects. Only what a client may send is a packet here.
 *
 *     mqtt_read() --> MQTT_PACKET  *used bytes were one packet
 *                 --> MQTT_MORE    it is not whole yet; call again with the same start and at least *need bytes
 *                 --> MQTT_BAD     the client broke the protocol: *fault says how; the connection is to be closed
 *
 * It allocates nothing and copies nothing; max_packet is its only limit, and a packet whose announced size is over it
 * is refused before its bytes arrive, but for the first nine of a CONNECT, which say its version. What the state of a
 * session forbids (a second CONNECT, an alias that was never set) is not judged here.
 */
#ifndef LEAFD_MQTT_READ_H
#define LEAFD_MQTT_READ_H

#include "mqtt/packet.h"

typedef enum mqtt_verdict { MQTT_PACKET = 1, MQTT_MORE = 0, MQTT_BAD = -1 } mqtt_verdict_t;

typedef struct mqtt_reader {
    mqtt_level_t level;  /* MQTT_UNKNOWN: only CONNECT is taken */
    uint32_t max_packet; /* bytes of a whole packet, its fixed header too */
} mqtt_reader_t;

mqtt_verdict_t mqtt_read(const mqtt_reader_t *reader, bytes_t input, mqtt_packet_t *packet, uint32_t *used,
                         uint32_t *need, mqtt_fault_t *fault);

/* Takes a row off the front of packet->filters, which mqtt_read() has judged. false: there is none left. */
bool mqtt_next_filter(mqtt_kind_t kind, bytes_t *filters, mqtt_filter_t *filter);

#endif
