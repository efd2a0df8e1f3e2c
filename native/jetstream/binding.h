/* binding.h: what the commands that make a consumer have in common. Their functions: commands.h.
 */
#ifndef LEAFD_JETSTREAM_BINDING_H
#define LEAFD_JETSTREAM_BINDING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/abi_types.h"
#include "base/bytes.h"
#include "consume/consume.h"
#include "jetstream/js.h"
#include "jetstream/stream.h"

typedef struct consumer_parts {
    consumer_setup_t setup;
    bytes_t definition;
    int64_t backoff[CONSUME_BACKOFF_MAX];
    bytes_t *filters; /* malloc; NULL when there are none; the caller frees them, however it ends */
} consumer_parts_t;

/* Slices point into the command. */
LEAF_MUST_USE status_t binding_parts(const plane_command_t *command, const stream_t *stream, consumer_parts_t *parts);
/* loading: its state is in the store. */
LEAF_MUST_USE status_t binding_new(js_t *js, stream_t *stream, const consumer_setup_t *setup, bool loading,
                                   consumer_binding_t **out);
/* Writes the consumer's definition into the open batch. */
LEAF_MUST_USE status_t binding_define(js_t *js, const stream_t *stream, uint64_t id, uint32_t flags,
                                      bytes_t definition);

#endif
