/* lag.c: see lag.h. */
#include "jetstream/lag.h"

#include "text/decimal.h"
#include "text/headers.h"

#define PACE_MAX 1e12

static void learn_pace(lag_t *behind, int64_t mono_ns) {
    int64_t took_ns = mono_ns - behind->mark_ns;
    if (took_ns < LAG_SPAN_NS) {
        return;
    }
    double nearer = (double)behind->mark - (double)behind->messages;
    double sample = nearer * (double)NS_PER_SECOND / (double)took_ns;
    /* The origin may say what it likes. */
    sample = sample > PACE_MAX ? PACE_MAX : sample < -PACE_MAX ? -PACE_MAX : sample;
    /* The mean of the latest: a link that brings much after an outage is not that fast. But a rise, as when the origin
     * was flooded, says nothing of how fast it sinks. */
    behind->pace = behind->paced && behind->pace > 0 && sample > 0 ? (behind->pace + sample) / 2 : sample;
    behind->paced = true;
    behind->mark = behind->messages;
    behind->mark_ns = mono_ns;
}

void lag_begin(lag_t *behind, uint64_t messages, int64_t mono_ns) {
    behind->messages = messages;
    behind->learned_ns = mono_ns;
    behind->known = true;
    behind->quiet = false;
    if (messages == 0) {
        behind->leveled = true;
        behind->level_ns = mono_ns;
    }
}

void lag_learn(lag_t *behind, uint64_t messages, int64_t mono_ns) {
    lag_begin(behind, messages, mono_ns);
    if (!behind->marked) {
        behind->marked = true;
        behind->mark = messages;
        behind->mark_ns = mono_ns;
    } else {
        learn_pace(behind, mono_ns);
    }
}

void lag_heartbeat(lag_t *behind, bytes_t header, bool stalled, int64_t mono_ns) {
    bytes_t value;
    uint64_t pending;
    if (headers_find(header, BYTES_LITERAL("Leafd-Pending"), &value) && decimal_parse(value, &pending)) {
        lag_learn(behind, pending, mono_ns);
        return;
    }
    bool again = behind->quiet;
    if (again && !stalled) {
        lag_learn(behind, 0, mono_ns);
    }
    behind->quiet = !stalled;
}

void lag_tell(const lag_t *behind, int64_t mono_ns, ingest_state_t *out) {
    out->lag = behind->messages;
    out->known_ns = behind->known ? mono_ns - behind->learned_ns : -1;
    out->level_ns = behind->leveled ? mono_ns - behind->level_ns : -1;
    out->pace_milli = behind->paced ? (int64_t)(behind->pace * 1e3) : INT64_MIN;
}
