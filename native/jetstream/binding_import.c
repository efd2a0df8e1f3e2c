/* binding_import.c: a consumer that stands where another one stood, as a backup or another server has it. What travels:
 * consume/transfer.c. How a binding is made: binding.c.
 */
#include <stdlib.h>
#include <string.h>

#include "base/abi_types.h"
#include "base/bytes.h"
#include "consume/consume.h"
#include "jetstream/commands.h"
#include "jetstream/job.h"
#include "jetstream/js.h"
#include "jetstream/binding.h"

#define IMPORTED_ROWS 512u /* a step: each is a look at its message, and a record */

typedef struct position_job {
    job_t job;
    plane_command_t command; /* without body and extra */
    pending_entry_t *rows;
    uint32_t count;
    uint32_t done;
    uint32_t definition_size;
    bool ended;
    uint8_t definition[];
} position_job_t;

static void position_failed(js_t *js, const plane_command_t *command, consumer_binding_t *binding, status_t status) {
    if (binding != NULL) {
        consumer_remove(binding->consumer, *js->now);
        binding_free(js, binding);
    }
    js_done(js, command, status);
}

/* The rows of a step are in a batch before the next step begins, so that no batch has more than one step's. */
static bool position_step(js_t *js, job_t *base) {
    position_job_t *job = (position_job_t *)base;
    stream_t *stream = base->stream;
    consumer_binding_t *binding = binding_find(js, stream, job->command.arg);
    if (binding == NULL) {
        js_done(js, &job->command, STATUS_NOT_FOUND);
        return true;
    }
    js->more = true;
    if (!consumer_import_stored(binding->consumer) || !store_room(js->stores[stream->which_store])) {
        return false;
    }
    status_t status = STATUS_OK;
    if (job->done < job->count) {
        uint32_t upto = job->count - job->done > IMPORTED_ROWS ? job->done + IMPORTED_ROWS : job->count;
        status = consumer_import_rows(binding->consumer, job->rows, job->done, upto, *js->now);
        job->done = upto;
    } else if (!job->ended) {
        consumer_import_end(binding->consumer, *js->now);
        job->ended = true;
        status = binding_define(js, stream, job->command.arg, consumer_setup(binding->consumer)->config.flags,
                                bytes_of(job->definition, job->definition_size));
    } else {
        js_done_durable(js, &job->command, stream->which_store, 0, BYTES_NONE);
        return true;
    }
    if (status != STATUS_OK) {
        position_failed(js, &job->command, binding, status);
        return true;
    }
    return false;
}

static void position_end(js_t *js, job_t *base, status_t status) {
    position_job_t *job = (position_job_t *)base;
    if (status != STATUS_OK) {
        js_done(js, &job->command, status);
    }
    free(job->rows);
    free(job);
}

/* The rows are copied out: the command's bytes live only until it has run, and have no alignment. */
static position_job_t *position_job(const plane_command_t *command, stream_t *stream, bytes_t definition) {
    size_t size = command->body_size - sizeof(consumer_config_t) - sizeof(consumer_state_t);
    position_job_t *job = calloc(1, sizeof(*job) + definition.size);
    pending_entry_t *rows = malloc(size + 1);
    if (job == NULL || rows == NULL) {
        free(job);
        free(rows);
        return NULL;
    }
    memcpy(rows, command->body + sizeof(consumer_config_t) + sizeof(consumer_state_t), size);
    job->job = (job_t){.stream = stream, .step = position_step, .end = position_end};
    job->command = *command;
    job->command.body = job->command.extra = NULL;
    job->command.body_size = job->command.extra_size = 0;
    job->rows = rows;
    job->count = (uint32_t)(size / sizeof(*rows));
    job->definition_size = definition.size;
    (void)bytes_write(job->definition, definition);
    return job;
}

void binding_import(js_t *js, const plane_command_t *command, stream_t *stream) {
    consumer_parts_t parts = {0};
    consumer_binding_t *binding = NULL;
    position_job_t *job = NULL;
    status_t status =
        binding_find(js, stream, command->arg) == NULL ? binding_parts(command, stream, &parts) : STATUS_INVALID;
    if (status == STATUS_OK) {
        job = position_job(command, stream, parts.definition);
        status = job == NULL ? STATUS_NO_MEMORY : binding_new(js, stream, &parts.setup, false, &binding);
    }
    if (status == STATUS_OK) {
        consumer_state_t state;
        memcpy(&state, command->body + sizeof(consumer_config_t), sizeof(state));
        status = consumer_import(binding->consumer, &state, *js->now);
    }
    free(parts.filters);
    if (status == STATUS_OK) {
        job_start(js, &job->job);
        return;
    }
    if (job != NULL) {
        free(job->rows);
        free(job);
    }
    position_failed(js, command, binding, status);
}
