/* commands.h: the commands of control that are JetStream's: one function each, which a row of command/command_table.c
 * names. Body and strings have the shape of that row, and stream and binding are there.
 */
#ifndef LEAFD_JETSTREAM_COMMANDS_H
#define LEAFD_JETSTREAM_COMMANDS_H

#include "base/abi_types.h"
#include "jetstream/stream.h"

/* One that outlives its run: body and extra do not. */
static inline plane_command_t command_kept(const plane_command_t *command) {
    plane_command_t copy = *command;
    copy.body = copy.extra = NULL;
    copy.body_size = copy.extra_size = 0;
    return copy;
}

/* stream.c */
void record_put(js_t *js, const plane_command_t *command);
void stream_bytes(js_t *js, const plane_command_t *command);
void stream_put(js_t *js, const plane_command_t *command);
void stream_remove(js_t *js, const plane_command_t *command, stream_t *stream);

/* stream_jobs.c: these may take many steps. */
void stream_state(js_t *js, const plane_command_t *command, stream_t *stream);
void stream_purge(js_t *js, const plane_command_t *command, stream_t *stream);
void message_get(js_t *js, const plane_command_t *command, stream_t *stream);
void message_delete(js_t *js, const plane_command_t *command, stream_t *stream);

/* fill.c */
void stream_fill(js_t *js, const plane_command_t *command, stream_t *stream);

/* export.c, import.c */
void stream_export(js_t *js, const plane_command_t *command, stream_t *stream);
void stream_import(js_t *js, const plane_command_t *command, stream_t *stream);
void binding_export(js_t *js, const plane_command_t *command, consumer_binding_t *binding);

/* binding.c */
void binding_put(js_t *js, const plane_command_t *command, stream_t *stream);
void binding_remove(js_t *js, const plane_command_t *command, consumer_binding_t *binding);
void binding_state(js_t *js, const plane_command_t *command, consumer_binding_t *binding);
void bindings_state(js_t *js, const plane_command_t *command);
void binding_pause(js_t *js, const plane_command_t *command, consumer_binding_t *binding);
void binding_reset(js_t *js, const plane_command_t *command, consumer_binding_t *binding);
void binding_unpin(js_t *js, const plane_command_t *command, consumer_binding_t *binding);
void binding_begin(js_t *js, const plane_command_t *command, consumer_binding_t *binding);
void binding_spare(js_t *js, const plane_command_t *command, consumer_binding_t *binding);

/* binding_import.c: may take many steps. */
void binding_import(js_t *js, const plane_command_t *command, stream_t *stream);

/* replicated.c */
void stream_group(js_t *js, const plane_command_t *command, stream_t *stream);
void stream_group_look(js_t *js, const plane_command_t *command, stream_t *stream);
void stream_consumers_made(js_t *js, const plane_command_t *command, stream_t *stream);
void stream_group_alter(js_t *js, const plane_command_t *command, stream_t *stream);
void stream_define(js_t *js, const plane_command_t *command, stream_t *stream);
void stream_group_transfer(js_t *js, const plane_command_t *command, stream_t *stream);

/* replicated_stored.c */
void consumers_count(js_t *js, const plane_command_t *command);
void consumers_stored(js_t *js, const plane_command_t *command, stream_t *stream);

/* ingest.c */
void ingest_start(js_t *js, const plane_command_t *command, stream_t *stream);
void ingest_stop(js_t *js, const plane_command_t *command, stream_t *stream);
void ingests_state(js_t *js, const plane_command_t *command);
void ingest_forget(js_t *js, const plane_command_t *command, stream_t *stream);

#endif
