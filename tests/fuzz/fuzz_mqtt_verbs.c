/* Invariant: whatever a client of MQTT sends, before its login and after it, in whatever pieces: it is read on or
 * closed, control hears of one CONNECT at most, another client beside it lives and gets whole packets, and when both
 * have gone nothing of them is left.
 *
 * First byte of the input: bit 0 = it is let in after a CONNECT of 3.1.1, bit 1 = of 5; bits 2.. = size of the pieces.
 */
#include <stddef.h>

#include "base/check.h"
#include "mqtt_rig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void hand_over(plane_t *plane, uint64_t id, bytes_t sent, uint32_t piece) {
    while (sent.size != 0) {
        peer_t *peer = peer_find(plane, id);
        if (peer == NULL || !peer_is_read(peer)) {
            return;
        }
        uint32_t part = sent.size < piece ? sent.size : piece;
        mqtt_say_bytes(plane, peer, sent.at, part);
        sent = bytes_after(sent, part);
        rig_turn(plane);
        core_backlog(plane);
        rig_turn(plane);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1 || size > 4096) {
        return 0;
    }
    plane_t *plane = mqtt_open(NULL);
    plane->input_work = 64;
    const char *connect = (data[0] & 2) != 0 ? MQTT_CONNECT_5("f") : MQTT_CONNECT_3("f");
    peer_t *beside = mqtt_client_with(plane, MQTT_CONNECT_5("g"), NULL);
    mqtt_feed(plane, beside, "82 07 0001 00 0001'#' 02");
    peer_t *peer = (data[0] & 3) != 0 ? mqtt_client_with(plane, connect, NULL)
                                      : peer_new(plane, -1, CONN_MQTT, 1, rig_text("test:2"));
    check(peer != NULL);
    uint64_t id = peer->id, other = beside->id;
    hand_over(plane, id, bytes_of(data + 1, (uint32_t)size - 1), 1 + (uint32_t)(data[0] >> 2));
    uint32_t logins = 0;
    for (plane_event_t event; rig_event(plane, EVENT_LINE, &event);) {
        logins += event.target == id;
    }
    check(logins <= 1);
    check(peer_find(plane, other) != NULL);
    rig_close(plane);
    return 0;
}
