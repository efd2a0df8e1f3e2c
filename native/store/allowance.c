/* allowance.c: see allowance.h: limits that change, streams that are charged, levels that somebody is told of.
 */
#include "store/allowance.h"

#include "store/charge.h"
#include "store/core.h"
#include "store/message.h"

void allowance_turn(store_t *store, allowance_t *allowance, uint32_t level) {
    allowance->level = (uint8_t)level;
    allowance_arm(allowance);
    if (!allowance->noted) {
        allowance->noted = true;
        allowance->next = store->news;
        store->news = allowance;
    }
}

void allowance_refuse(store_t *store, allowance_t *allowance) {
    if (allowance->level != ALLOWANCE_LEVEL_FULL) {
        allowance_turn(store, allowance, ALLOWANCE_LEVEL_FULL);
    }
}

/* Its bytes are that one's, so many copies of each. */
static void stream_charge(store_stream_t *stream, allowance_t *allowance, uint32_t copies) {
    allowance_t *before = stream->allowance;
    before->bytes -= stream->log.bytes * stream->copies;
    before->promised -= stream->promised;
    stream->promised = allowance == before ? stream->promised : 0; /* what is under way is soon stored */
    stream->allowance = allowance;
    stream->copies = copies;
    allowance->bytes += stream->log.bytes * copies;
    allowance->promised += stream->promised;
    if (before->bytes < before->clear) {
        allowance_turn(stream->store, before, ALLOWANCE_LEVEL_BELOW);
    }
    if (allowance->bytes > allowance->near) {
        allowance_turn(stream->store, allowance, ALLOWANCE_LEVEL_NEAR);
    }
}

void store_stream_charge(store_stream_t *stream, allowance_t *allowance) {
    if (allowance != stream->allowance) {
        stream_charge(stream, allowance, stream->copies);
    }
}

void allowance_weigh(store_stream_t *stream) {
    uint32_t copies = copies_of(&stream->config);
    if (copies != stream->copies) {
        stream_charge(stream, stream->allowance, copies);
    }
}

void store_stream_promise(store_stream_t *stream, uint64_t bytes) {
    bytes *= stream->copies;
    stream->promised += bytes;
    stream->allowance->promised += bytes;
}

void store_stream_kept(store_stream_t *stream, uint64_t bytes) {
    bytes = number_least(stream->promised, bytes == UINT64_MAX ? bytes : bytes * stream->copies);
    stream->promised -= bytes;
    stream->allowance->promised -= bytes;
}

uint64_t store_stream_size(const store_stream_t *stream, bytes_t subject, bytes_t header, bytes_t payload) {
    message_record_t message = {.subject = subject, .header = header, .payload = payload};
    return stream_message_bytes(stream, &message);
}

void store_allow(store_t *store, allowance_t *allowance, uint64_t limit, uint64_t elsewhere) {
    if (allowance->limit == limit && allowance->elsewhere == elsewhere) {
        return;
    }
    allowance->limit = limit;
    allowance->elsewhere = elsewhere;
    allowance_arm(allowance);
    if (allowance->bytes > allowance->near) {
        allowance_turn(store, allowance, ALLOWANCE_LEVEL_NEAR);
    } else if (allowance->bytes < allowance->clear) {
        allowance_turn(store, allowance, ALLOWANCE_LEVEL_BELOW);
    }
}

allowance_t *store_allowance_next(store_t *store) {
    allowance_t *allowance = store->news;
    if (allowance != NULL) {
        store->news = allowance->next;
        allowance->noted = false;
    }
    return allowance;
}

bool store_stream_lacks(store_stream_t *stream, bytes_t subject, bytes_t header, bytes_t payload) {
    return store_stream_lacks_bytes(stream, store_stream_size(stream, subject, header, payload));
}

bool store_stream_lacks_bytes(store_stream_t *stream, uint64_t bytes) {
    if (LEAF_LIKELY(!allowance_lacks(stream->allowance, bytes * stream->copies))) {
        return false;
    }
    allowance_refuse(stream->store, stream->allowance);
    return true;
}

/* One pass that takes each stream's bytes off, and one that gives them back: what is left between the two is what no
 * stream accounts for. */
bool store_sound(store_t *store) {
    uint64_t bytes = store->sums.bytes;
    uint64_t messages = store->sums.messages;
    bool good = ledgers_sound(store);
    for (uint32_t i = 0; i < store->streams.count; i++) {
        store_stream_t *stream = store->streams.at[i];
        bytes -= stream->log.bytes;
        messages -= stream->log.messages;
        stream->allowance->bytes -= stream->log.bytes * stream->copies;
        good = good && (stream->log.stopped || stream_sound(stream))
               && (stream->corrupt > 0 || stream->log.subjects <= stream->log.messages);
    }
    for (uint32_t i = 0; i < store->streams.count; i++) {
        good = good && store->streams.at[i]->allowance->bytes == 0;
    }
    for (uint32_t i = 0; i < store->streams.count; i++) {
        store->streams.at[i]->allowance->bytes += store->streams.at[i]->log.bytes * store->streams.at[i]->copies;
    }
    return good && bytes == 0 && messages == 0;
}
