/* alarms.c: see alarms.h.
 */
#include <stdarg.h>
#include <stdio.h>

#include "store/core.h"

void store_alarm(store_t *store, uint32_t code, uint32_t stream, uint64_t seq, const char *format, ...) {
    if (store->alarms.count == STORE_ALARMS_MAX) {
        store->alarms.dropped++;
        return;
    }
    store_alarm_t *alarm = &store->alarms.at[(store->alarms.begin + store->alarms.count) % STORE_ALARMS_MAX];
    store->alarms.count++;
    *alarm = (store_alarm_t){.code = code, .stream = stream, .seq = seq};
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(alarm->text, sizeof alarm->text, format, arguments);
    va_end(arguments);
}

void store_damaged(store_t *store, uint64_t count) {
    store->alarms.damage += count;
}

/* Was that alarmed lately? A consumer asks again for what is pending; and an advisory that follows from an alarm may be
 * stored in the very stream whose index is damaged. */
static bool alarm_was_told(store_t *store, uint32_t stream, uint64_t seq) {
    seq = seq > 0 ? seq : UINT64_MAX;
    for (uint32_t i = 0; i < STORE_TOLD_MAX; i++) {
        if (store->alarms.told[i].seq == seq && store->alarms.told[i].stream == stream) {
            return true;
        }
    }
    store->alarms.told[store->alarms.told_next].stream = stream;
    store->alarms.told[store->alarms.told_next].seq = seq;
    store->alarms.told_next = (store->alarms.told_next + 1) % STORE_TOLD_MAX;
    return false;
}

void store_corrupt(store_t *store, store_stream_t *stream, uint32_t stream_id, uint64_t seq, const char *what) {
    if (stream != NULL) {
        stream->corrupt++; /* each time: a backup sees by it that it lacks something */
    }
    bool again = alarm_was_told(store, stream_id, seq);
    store_damaged(store, !again || seq == 0);
    if (again) {
        return;
    }
    store_alarm(store, ALARM_CORRUPT, stream_id, seq,
                "%s of stream %u fails its checksum (sequence %llu); it is not served", what, stream_id,
                (unsigned long long)seq);
}

bool store_alarm_next(store_t *store, store_alarm_t *alarm) {
    if (store->alarms.count == 0) {
        return false;
    }
    *alarm = store->alarms.at[store->alarms.begin];
    store->alarms.begin = (store->alarms.begin + 1) % STORE_ALARMS_MAX;
    store->alarms.count--;
    return true;
}
