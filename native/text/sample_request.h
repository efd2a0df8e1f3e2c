/* sample_request.h: whether a request's header asks that its way be measured: the fields of tracers that services pass
 * on (Jaeger, Zipkin, W3C). Which of them count, and what their values say, is the reference's.
 */
#ifndef LEAFD_TEXT_SAMPLE_REQUEST_H
#define LEAFD_TEXT_SAMPLE_REQUEST_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"

#define SAMPLE_FIELDS_MAX 4096u /* bytes of the fields that are told of; beyond it none are */

/* true: it does; out, in place of what it has: the fields that say so and those that belong to them, a line each. */
bool sample_request_read(bytes_t header, buffer_t *out);

#endif
