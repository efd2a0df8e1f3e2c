/* alarms.c: see alarms.h.
 */
#include <stdarg.h>
#include <stdio.h>

#include "store/copying.h"
#include "store/core.h"
#include "store/fill.h"

#define COPY_AGAIN_NS (600 * NS_PER_SECOND)

/* NULL: there is no room. */
static store_alarm_t *alarm_new(store_t *store, uint32_t code, uint32_t stream, uint64_t seq) {
    if (store->alarms.count == STORE_ALARMS_MAX) {
        store->alarms.dropped++;
        return NULL;
    }
    store_alarm_t *alarm = &store->alarms.at[(store->alarms.begin + store->alarms.count) % STORE_ALARMS_MAX];
    store->alarms.count++;
    *alarm = (store_alarm_t){.code = code, .stream = stream, .seq = seq};
    return alarm;
}

void store_alarm(store_t *store, uint32_t code, uint32_t stream, uint64_t seq, const char *format, ...) {
    store_alarm_t *alarm = alarm_new(store, code, stream, seq);
    if (alarm != NULL) {
        va_list arguments;
        va_start(arguments, format);
        (void)vsnprintf(alarm->text, sizeof alarm->text, format, arguments);
        va_end(arguments);
    }
}

void store_tell_hole(store_t *store, uint32_t stream, const hole_t *hole) {
    store_alarm_t *alarm = alarm_new(store, ALARM_HOLE, stream, hole->from);
    if (alarm != NULL) { /* else the next start finds its record */
        alarm->upto = hole->upto;
        alarm->certain = hole->certain;
    }
}

void store_damaged(store_t *store, uint64_t count) {
    store->alarms.damage += count;
}

void store_damage_mended(store_t *store) {
    store_damaged(store, 1);
    store->alarms.owned++;
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

bool stream_is_shared(const store_stream_t *stream) {
    return stream->timeline.own && stream->copies > 1;
}

/* A copy that is new may be damaged, too. */
void store_ask_for_copy(store_stream_t *stream) {
    store_t *store = stream->store;
    int64_t now = store->turn.now_mono;
    if (!stream_is_shared(stream) || (stream->copy_asked != 0 && now - stream->copy_asked < COPY_AGAIN_NS)) {
        return;
    }
    stream->copy_asked = now;
    store_alarm(store, ALARM_SHARED, stream->id, 0,
                "stream %u is damaged here, and other servers have it, too: it is copied from there once all of them "
                "are up",
                stream->id);
}

/* owner: NULL: it is in no stream that is open. */
static void note_corrupt(store_t *store, const store_stream_t *owner, uint32_t stream_id, uint64_t seq,
                         const char *what) {
    bool again = alarm_was_told(store, stream_id, seq);
    uint64_t count = !again || seq == 0;
    store_damaged(store, count);
    store->alarms.owned += owner != NULL ? count : 0;
    if (!again) {
        store_alarm(store, ALARM_CORRUPT, stream_id, seq,
                    "%s of stream %u fails its checksum (sequence %llu); it is not served", what, stream_id,
                    (unsigned long long)seq);
    }
}

void store_corrupt(store_t *store, store_stream_t *stream, uint32_t stream_id, uint64_t seq, const char *what) {
    note_corrupt(store, stream != NULL ? stream : stream_with(store, stream_id), stream_id, seq, what);
    if (stream != NULL) {
        stream->corrupt++; /* each time: a backup sees by it that it lacks something */
        if (seq != 0) {    /* an index entry is made anew of the messages here */
            store_ask_for_copy(stream);
        }
    }
}

/* Only what a copy brings is worth one; keys of other kinds begin with other numbers. */
static bool record_is_copied(bytes_t key) {
    bool found = false;
    for (uint32_t i = 0; key.size >= 5 && i < COPIED_KINDS; i++) {
        found = found || copied_kinds[i] == key.at[0];
    }
    return found;
}

void store_corrupt_record(store_t *store, bytes_t key) {
    uint32_t stream_id = key.size >= 5 ? load_be32(key.at + 1) : 0;
    store_stream_t *owner = record_is_copied(key) ? stream_with(store, stream_id) : NULL;
    note_corrupt(store, owner, stream_id, 0, "a stored record");
    if (owner != NULL) {
        store_ask_for_copy(owner);
    }
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
