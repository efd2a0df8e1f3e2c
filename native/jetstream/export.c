/* export.c: streams and consumers as a backup has them, out of the store in bounded steps.
 *
 *   STREAM_EXPORT    some 256 KiB of messages as archive entries; Python asks for each further step
 *   CONSUMER_EXPORT  a consumer's position and what is in flight
 *
 * A step is bounded by bytes and by messages, so that nobody else waits for a backup. Not here:
 * restoring (import.c, binding.c); chunks, compression, flow control, the archive's other entries (Python). Reference:
 * tests/wire/jetstream.md, "Backup".
 */
#include "base/abi_types.h"
#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"
#include "consume/consume.h"
#include "jetstream/commands.h"
#include "jetstream/js.h"
#include "jetstream/stream.h"
#include "store/store.h"
#include "wire/archive.h"

#define EXPORT_BYTES (256u * 1024u)
#define STEP_MESSAGES 4096u
#define PENDING_PAGE 2048u

static uint64_t corrupt_records(const stream_t *stream) {
    stream_state_t state;
    memset(&state, 0, sizeof(state));
    store_stream_state(stream->store, &state);
    return state.corrupt;
}

void stream_export(js_t *js, const plane_command_t *command, stream_t *stream) {
    buffer_t *out = &js->scratch;
    out->size = 0;
    uint64_t visible = store_stream_visible(stream->store);
    uint64_t upto = command->arg2 < visible ? command->arg2 : visible;
    uint64_t from = command->arg == 0 ? 1 : command->arg;
    uint64_t corrupt = corrupt_records(stream);
    status_t status = STATUS_OK;
    bool over = false;
    for (uint32_t step = 0; step < STEP_MESSAGES && out->size < EXPORT_BYTES && status == STATUS_OK && !over; step++) {
        stored_message_t message;
        switch (store_next(stream->store, (filters_t){.patterns = NULL, .count = 0}, &from, upto, 1, &message)) {
        case SEEK_UNKNOWN: status = STATUS_IO; break;
        case SEEK_NONE: over = true; break;
        case SEEK_MORE: break;
        case SEEK_FOUND:
            status = archive_write(out, message.seq, message.ts, message.subject, message.header, message.payload);
            from = message.seq + 1;
        }
    }
    if (corrupt_records(stream) != corrupt) {
        status = STATUS_CORRUPT; /* store_next steps over it; a backup without it would look whole */
    }
    bytes_t payload = status == STATUS_OK ? bytes_of(out->at, (uint32_t)out->size) : BYTES_NONE;
    js_answer(js, command, status, over ? 0 : from, 0, payload);
    out->size = 0;
    buffer_trim(out, 0);
}

/* Answers with the position of a consumer, whose begin may only be known once its messages are counted. */
static void answer_position(js_t *js, const plane_command_t *command, consumer_binding_t *binding, uint64_t seq) {
    (void)seq;
    struct {
        consumer_state_t state;
        pending_entry_t rows[PENDING_PAGE];
    } out;
    consumer_snapshot(binding->consumer, *js->now, &out.state);
    uint32_t count = consumer_export(binding->consumer, command->arg2, *js->now, out.rows, PENDING_PAGE);
    uint64_t last = count == PENDING_PAGE ? out.rows[count - 1].stream_seq : 0;
    uint32_t size = (uint32_t)(sizeof(out.state) + count * sizeof(out.rows[0]));
    js_answer(js, command, STATUS_OK, last, 0, bytes_of(&out, size));
}

void binding_export(js_t *js, const plane_command_t *command, consumer_binding_t *binding) {
    binding_when_counted(js, command, binding, answer_position, 0);
}
