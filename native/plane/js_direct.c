/* js_direct.c: direct gets: $JS.API.DIRECT.GET.<stream>[.<subject>], answered with raw messages and header-only statuses.
 *
 *     single      seq | last_by_subj | next_by_subj[+seq] | start_time, or the subject behind the stream's name
 *     batch       up to `batch` messages from seq | start_time, next_by_subj as filter; ends with 204 EOB
 *     multi_last  the last message of each subject that matches, in sequence order; ends with 204 EOB
 *
 * Only what is on disk is served. A batch ends early at max_bytes, which is never more than half of what may be queued to one
 * connection: the client goes on behind Nats-Last-Sequence. Reference: jetstream.md 1.4, 1.5.
 */
#include <stdlib.h>

#include "base/subject.h"
#include "consume/json.h"
#include "plane/js.h"
#include "plane/time_text.h"
#include "wire/headers.h"

#define API_LEVEL 5
#define MULTI_FILTERS_MAX 64u
#define MULTI_RESULTS_MAX 1024u
#define SCAN_STEP 65536u
#define REQUEST_TEXT_MAX 4096u

typedef struct direct {
    plane_t *plane;
    stream_t *stream;
    bytes_t reply;
    bytes_t last_by;
    bytes_t next_by;
    bytes_t multi[MULTI_FILTERS_MAX];
    uint32_t multi_count;
    bool has_multi;
    bool has_time;
    bool has_up_to_time;
    bool no_header;
    uint64_t seq;
    int64_t start_ts;
    uint64_t batch;
    uint64_t max_bytes;
    uint64_t up_to_seq;
    int64_t up_to_ts;
    uint32_t text_size;               /* unescaped strings of the request */
    uint8_t text[REQUEST_TEXT_MAX];
} direct_t;

/* ---- the request ------------------------------------------------------------------------------------------------------ */

static uint32_t hex4(const uint8_t *at) {
    uint32_t value = 0;
    for (uint32_t i = 0; i < 4; i++) {
        uint8_t c = at[i];
        uint32_t digit = c <= '9' ? (uint32_t)(c - '0') : (uint32_t)((c | 0x20) - 'a' + 10);
        value = value * 16 + (digit & 15);
    }
    return value;
}

/* A JSON string between its quotes, escapes resolved into direct->text (subjects are in the basic plane: Go writes > as \u003e). */
static bool unescape(direct_t *direct, bytes_t raw, bytes_t *out) {
    if (raw.size > REQUEST_TEXT_MAX - direct->text_size) {
        return false;
    }
    uint8_t *start = direct->text + direct->text_size;
    uint8_t *to = start;
    for (uint32_t i = 0; i < raw.size; i++) {
        uint8_t c = raw.at[i];
        if (c != '\\' || i + 1 >= raw.size) {
            *to++ = c;
            continue;
        }
        c = raw.at[++i];
        if (c != 'u' || i + 4 >= raw.size) {
            *to++ = c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
            continue;
        }
        uint32_t point = hex4(raw.at + i + 1);
        i += 4;
        if (point < 0x80) {
            *to++ = (uint8_t)point;
        } else if (point < 0x800) {
            *to++ = (uint8_t)(0xc0 | (point >> 6));
            *to++ = (uint8_t)(0x80 | (point & 0x3f));
        } else {
            *to++ = (uint8_t)(0xe0 | (point >> 12));
            *to++ = (uint8_t)(0x80 | ((point >> 6) & 0x3f));
            *to++ = (uint8_t)(0x80 | (point & 0x3f));
        }
    }
    *out = bytes_of(start, (uint32_t)(to - start));
    direct->text_size += out->size;
    return true;
}

/* ["a","b"], already known to be valid JSON. */
static bool read_filters(direct_t *direct, bytes_t array) {
    uint32_t at = 1;
    while (at < array.size) {
        if (array.at[at] == ']' || array.at[at] == ',' || array.at[at] <= ' ') {
            at++;
            continue;
        }
        if (array.at[at] != '"' || direct->multi_count == MULTI_FILTERS_MAX) {
            return false;
        }
        uint32_t start = ++at;
        while (at < array.size && array.at[at] != '"') {
            at += array.at[at] == '\\' ? 2 : 1;
        }
        if (at >= array.size || !unescape(direct, bytes_of(array.at + start, at - start), &direct->multi[direct->multi_count++])) {
            return false;
        }
        at++;
    }
    return true;
}

static bool read_unsigned(const json_field_t *field, uint64_t *out) {
    int64_t value;
    if (field->kind == JSON_NULL) {
        return true;
    }
    if (field->kind != JSON_NUMBER || !json_integer(field->value, &value) || value < 0) {
        return false;
    }
    *out = (uint64_t)value;
    return true;
}

static bool read_time(const json_field_t *field, int64_t *out, bool *has) {
    if (field->kind == JSON_NULL) {
        return true;
    }
    *has = field->kind == JSON_STRING && time_parse(field->value, out);
    return *has;
}

static bool read_string(direct_t *direct, const json_field_t *field, bytes_t *out) {
    return field->kind == JSON_NULL || (field->kind == JSON_STRING && unescape(direct, field->value, out));
}

static bool read_field(direct_t *direct, const json_field_t *field) {
    if (json_named(field, "seq")) {
        return read_unsigned(field, &direct->seq);
    }
    if (json_named(field, "batch")) {
        return read_unsigned(field, &direct->batch);
    }
    if (json_named(field, "max_bytes")) {
        return read_unsigned(field, &direct->max_bytes);
    }
    if (json_named(field, "up_to_seq")) {
        return read_unsigned(field, &direct->up_to_seq);
    }
    if (json_named(field, "last_by_subj")) {
        return read_string(direct, field, &direct->last_by);
    }
    if (json_named(field, "next_by_subj")) {
        return read_string(direct, field, &direct->next_by);
    }
    if (json_named(field, "start_time")) {
        return read_time(field, &direct->start_ts, &direct->has_time);
    }
    if (json_named(field, "up_to_time")) {
        return read_time(field, &direct->up_to_ts, &direct->has_up_to_time);
    }
    if (json_named(field, "no_hdr")) {
        direct->no_header = field->value.size == 4 && field->kind == JSON_BOOL; /* true */
        return field->kind == JSON_BOOL || field->kind == JSON_NULL;
    }
    if (json_named(field, "multi_last")) {
        direct->has_multi = field->kind == JSON_ARRAY;
        return field->kind == JSON_NULL || (field->kind == JSON_ARRAY && read_filters(direct, field->value));
    }
    return true;
}

static bool read_request(direct_t *direct, bytes_t body) {
    json_error_t error;
    if (!json_valid(body, &error)) {
        return false;
    }
    uint32_t start = 0;
    while (start < body.size && body.at[start] <= ' ') {
        start++;
    }
    if (start == body.size || body.at[start] != '{') {
        return false;
    }
    uint32_t at = 0;
    json_field_t field;
    while (json_next(body, &at, &field)) {
        if (!read_field(direct, &field)) {
            return false;
        }
    }
    return true;
}

static bool conflicting(const direct_t *direct) {
    bool last = direct->last_by.size != 0;
    return (direct->seq != 0 && last) || (direct->seq != 0 && direct->has_time) || (direct->has_time && last)
        || (last && direct->next_by.size != 0) || (last && direct->batch != 0) || (last && direct->has_multi)
        || (direct->next_by.size != 0 && direct->has_multi) || (direct->up_to_seq != 0 && direct->has_up_to_time);
}

/* ---- answers ------------------------------------------------------------------------------------------------------------ */

static void answer_status(const direct_t *direct, const char *status) {
    text_t header;
    header.size = 0;
    text_add_literal(&header, "NATS/1.0 ");
    text_add_literal(&header, status);
    text_add_literal(&header, "\r\n\r\n");
    publish_inside(direct->plane, direct->stream->account, direct->reply, BYTES_NONE, text_bytes(&header), BYTES_NONE);
}

static void text_field(text_t *text, const char *name, uint64_t value) {
    text_add_literal(text, name);
    text_add_number(text, value);
    text_add_literal(text, "\r\n");
}

static void answer_end(const direct_t *direct, uint64_t pending, uint64_t last_seq, uint64_t up_to) {
    text_t header;
    header.size = 0;
    text_add_literal(&header, "NATS/1.0 204 EOB\r\n");
    text_field(&header, "Nats-Num-Pending: ", pending);
    text_field(&header, "Nats-Last-Sequence: ", last_seq);
    if (up_to != 0) {
        text_field(&header, "Nats-UpTo-Sequence: ", up_to);
    }
    text_add_literal(&header, "\r\n");
    publish_inside(direct->plane, direct->stream->account, direct->reply, BYTES_NONE, text_bytes(&header), BYTES_NONE);
}

typedef struct batch_place {
    uint64_t pending;
    uint64_t last_seq;
} batch_place_t;

/* The stored headers, then ours. place: the two further fields of a batch, or NULL. */
static bool answer_message(const direct_t *direct, const stored_message_t *message, const batch_place_t *place) {
    plane_t *plane = direct->plane;
    account_t *account = direct->stream->account;
    if (direct->no_header) {
        publish_inside(plane, account, direct->reply, BYTES_NONE, BYTES_NONE, message->payload);
        return true;
    }
    text_t fields;
    fields.size = 0;
    text_add_literal(&fields, "Nats-Stream: ");
    text_add(&fields, direct->stream->name);
    text_add_literal(&fields, "\r\nNats-Subject: ");
    text_add(&fields, message->subject);
    text_add_literal(&fields, "\r\n");
    text_field(&fields, "Nats-Sequence: ", message->seq);
    uint8_t stamp[TIME_TEXT_MAX];
    text_add_literal(&fields, "Nats-Time-Stamp: ");
    text_add(&fields, bytes_of(stamp, time_format(message->ts, stamp)));
    text_add_literal(&fields, "\r\n");
    if (place != NULL) {
        text_field(&fields, "Nats-Num-Pending: ", place->pending);
        text_field(&fields, "Nats-Last-Sequence: ", place->last_seq);
    }
    text_add_literal(&fields, "\r\n");
    bytes_t stored = message->header;
    bool whole = stored.size >= 12 && memcmp(stored.at + stored.size - 4, "\r\n\r\n", 4) == 0;
    bytes_t front = whole ? bytes_of(stored.at, stored.size - 2) : BYTES_LITERAL("NATS/1.0\r\n");
    buffer_t *out = &plane->scratch;
    out->size = 0;
    if (buffer_append(out, front.at, front.size) != STATUS_OK || buffer_append(out, fields.at, fields.size) != STATUS_OK) {
        return false;
    }
    publish_inside(plane, account, direct->reply, BYTES_NONE, bytes_of(out->at, (uint32_t)out->size), message->payload);
    return true;
}

/* ---- looking up --------------------------------------------------------------------------------------------------------- */

static status_t find_next(const direct_t *direct, filters_t filters, uint64_t *from, stored_message_t *out) {
    uint64_t upto = store_stream_visible(direct->stream->store);
    status_t status = STATUS_OK;
    if (filters.count == 1 && !subject_has_wildcard(filters.patterns[0])) {
        /* One look at the subject's head: behind its newest message there is nothing to scan for. */
        status = store_last_by_subject(direct->stream->store, filters.patterns[0], upto, out);
        if (status != STATUS_OK || out->seq < *from) {
            return status == STATUS_OK ? STATUS_NOT_FOUND : status;
        }
        upto = out->seq;
    }
    do {
        status = store_next(direct->stream->store, filters, from, upto, SCAN_STEP, out);
    } while (status == STATUS_AGAIN);
    return status;
}

static uint64_t start_of(const direct_t *direct) {
    if (!direct->has_time) {
        return direct->seq;
    }
    uint64_t seq = 0;
    return store_seq_at_time(direct->stream->store, direct->start_ts, &seq) == STATUS_OK ? seq : UINT64_MAX;
}

static void get_single(const direct_t *direct) {
    store_stream_t *store = direct->stream->store;
    uint64_t visible = store_stream_visible(store);
    stored_message_t message;
    status_t status;
    uint64_t from = start_of(direct);
    if (direct->last_by.size != 0) {
        status = store_last_by_subject(store, direct->last_by, visible, &message);
    } else if (direct->next_by.size != 0) {
        status = find_next(direct, (filters_t){&direct->next_by, 1}, &from, &message);
    } else if (direct->has_time) {
        status = find_next(direct, (filters_t){NULL, 0}, &from, &message);
    } else {
        status = direct->seq > visible ? STATUS_NOT_FOUND : store_read(store, direct->seq, &message);
    }
    if (status != STATUS_OK || !answer_message(direct, &message, NULL)) {
        answer_status(direct, "404 Message Not Found");
    }
}

static uint64_t bytes_bound(const direct_t *direct) {
    uint64_t most = direct->plane->limits.max_pending / 2;
    return direct->max_bytes != 0 && direct->max_bytes < most ? direct->max_bytes : most;
}

static void get_batch(const direct_t *direct) {
    filters_t filters = {&direct->next_by, direct->next_by.size != 0 ? 1 : 0};
    uint64_t from = start_of(direct);
    uint64_t bound = bytes_bound(direct);
    uint64_t bytes = 0;
    uint64_t sent = 0;
    batch_place_t place = {0, 0};
    stored_message_t message;
    if (find_next(direct, filters, &from, &message) != STATUS_OK) {
        answer_status(direct, "404 Message Not Found");
        return;
    }
    place.pending = store_count(direct->stream->store, filters, message.seq);
    from = message.seq;
    while (sent < direct->batch && bytes < bound && find_next(direct, filters, &from, &message) == STATUS_OK) {
        place.pending -= place.pending != 0;
        uint64_t seq = message.seq;
        bytes += (uint64_t)message.subject.size + message.header.size + message.payload.size;
        if (!answer_message(direct, &message, &place)) {
            break;
        }
        place.last_seq = seq;
        sent++;
        from = seq + 1;
    }
    answer_end(direct, place.pending, place.last_seq, 0);
}

typedef struct last_seqs {
    uint64_t from;
    uint64_t upto;
    uint32_t count;
    bool too_many;
    bool beyond;                       /* a subject's last is behind upto: its last before has to be looked up */
    uint64_t seqs[MULTI_RESULTS_MAX];
} last_seqs_t;

static bool collect_last(void *context, bytes_t subject, uint64_t count, uint64_t last_seq) {
    last_seqs_t *all = context;
    (void)subject;
    (void)count;
    if (last_seq > all->upto) {
        all->beyond = true;
        return true;
    }
    if (last_seq < all->from) {
        return true;
    }
    if (all->count == MULTI_RESULTS_MAX) {
        all->too_many = true;
        return false;
    }
    all->seqs[all->count++] = last_seq;
    return true;
}

typedef struct beyond {
    uint64_t upto;
    buffer_t *out;
    uint32_t count;
} beyond_t;

static bool collect_beyond(void *context, bytes_t subject, uint64_t count, uint64_t last_seq) {
    beyond_t *all = context;
    (void)count;
    if (last_seq <= all->upto) {
        return true;
    }
    uint8_t size[4];
    store_be32(size, subject.size);
    all->count++;
    return all->count <= MULTI_RESULTS_MAX && buffer_append(all->out, size, 4) == STATUS_OK
        && buffer_append(all->out, subject.at, subject.size) == STATUS_OK;
}

/* Subjects whose last message came after upto: what was their last then? */
static void resolve_beyond(const direct_t *direct, bytes_t filter, last_seqs_t *all) {
    buffer_t names;
    buffer_init(&names, 16u << 20);
    beyond_t beyond = {all->upto, &names, 0};
    store_subjects(direct->stream->store, filter, BYTES_NONE, collect_beyond, &beyond);
    for (uint64_t at = 0; at + 4 <= names.size && !all->too_many;) {
        bytes_t subject = bytes_of(names.at + at + 4, load_be32(names.at + at));
        at += 4 + (uint64_t)subject.size;
        stored_message_t message;
        if (store_last_by_subject(direct->stream->store, subject, all->upto, &message) == STATUS_OK) {
            (void)collect_last(all, subject, 1, message.seq);
        }
    }
    buffer_free(&names);
}

static int by_number(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static uint64_t multi_upto(const direct_t *direct) {
    uint64_t visible = store_stream_visible(direct->stream->store);
    if (direct->has_up_to_time) {
        uint64_t seq = 0;
        bool found = store_seq_at_time(direct->stream->store, direct->up_to_ts, &seq) == STATUS_OK;
        return found && seq <= visible ? seq - (seq != 0) : visible;
    }
    return direct->up_to_seq != 0 && direct->up_to_seq < visible ? direct->up_to_seq : visible;
}

static void collect_all(const direct_t *direct, last_seqs_t *all) {
    for (uint32_t i = 0; i < direct->multi_count && !all->too_many; i++) {
        all->beyond = false;
        store_subjects(direct->stream->store, direct->multi[i], BYTES_NONE, collect_last, all);
        if (all->beyond) {
            resolve_beyond(direct, direct->multi[i], all);
        }
    }
    qsort(all->seqs, all->count, sizeof(*all->seqs), by_number);
    uint32_t distinct = 0;
    for (uint32_t i = 0; i < all->count; i++) {
        if (distinct == 0 || all->seqs[i] != all->seqs[distinct - 1]) {
            all->seqs[distinct++] = all->seqs[i];
        }
    }
    all->count = distinct;
}

static void get_multi(const direct_t *direct) {
    last_seqs_t all = {.from = direct->seq, .upto = multi_upto(direct)};
    collect_all(direct, &all);
    if (all.too_many) {
        answer_status(direct, "413 Too Many Results");
        return;
    }
    if (all.count == 0) {
        answer_status(direct, "404 No Results");
        return;
    }
    uint64_t bound = bytes_bound(direct);
    uint64_t bytes = 0;
    batch_place_t place = {all.count, 0};
    for (uint32_t i = 0; i < all.count && bytes < bound && (direct->batch == 0 || i < direct->batch); i++) {
        stored_message_t message;
        place.pending--;
        if (store_read(direct->stream->store, all.seqs[i], &message) != STATUS_OK) {
            continue;
        }
        bytes += (uint64_t)message.subject.size + message.header.size + message.payload.size;
        if (!answer_message(direct, &message, &place)) {
            break;
        }
        place.last_seq = all.seqs[i];
    }
    answer_end(direct, place.pending, place.last_seq, all.upto);
}

/* ---- the target ---------------------------------------------------------------------------------------------------------- */

static bool level_too_high(bytes_t header) {
    bytes_t value;
    if (header.size == 0 || !headers_find(header, BYTES_LITERAL("Nats-Required-Api-Level"), &value)) {
        return false;
    }
    return value.size != 1 || value.at[0] < '0' || value.at[0] > '0' + API_LEVEL;
}

static void direct_body(direct_t *direct, bytes_t body) {
    if (body.size == 0) {
        answer_status(direct, "408 Empty Request");
    } else if (!read_request(direct, body)) {
        answer_status(direct, "408 Malformed Request");
    } else if (direct->seq == 0 && direct->last_by.size == 0 && direct->next_by.size == 0 && !direct->has_multi && !direct->has_time) {
        answer_status(direct, "408 Empty Request");
    } else if (conflicting(direct)) {
        answer_status(direct, "408 Bad Request");
    } else if (direct->has_multi) {
        get_multi(direct);
    } else if (direct->batch != 0) {
        get_batch(direct);
    } else {
        get_single(direct);
    }
}

void js_direct(plane_t *plane, stream_t *stream, const publication_t *publication) {
    const message_t *message = &publication->message;
    if (message->reply.size == 0) {
        return;
    }
    direct_t direct;
    memset(&direct, 0, offsetof(direct_t, text));
    direct.plane = plane;
    direct.stream = stream;
    direct.reply = message->reply;
    if (level_too_high(message->header)) {
        answer_status(&direct, "412 Required Api Level");
        return;
    }
    bytes_t prefix = BYTES_LITERAL("$JS.API.DIRECT.GET.");
    check(bytes_starts(message->subject, prefix));
    bytes_t tail = bytes_of(message->subject.at + prefix.size, message->subject.size - prefix.size);
    if (tail.size == stream->name.size) {
        direct_body(&direct, message->payload);
        return;
    }
    /* $JS.API.DIRECT.GET.<stream>.<subject>: the newest on that subject; the body may only ask for no headers. */
    if (message->payload.size != 0 && !read_request(&direct, message->payload)) {
        answer_status(&direct, "408 Malformed Request");
        return;
    }
    if (direct.seq != 0 || direct.last_by.size != 0 || direct.next_by.size != 0 || direct.has_multi || direct.has_time || direct.batch != 0) {
        answer_status(&direct, "408 Bad Request");
        return;
    }
    direct.last_by = bytes_of(tail.at + stream->name.size + 1, tail.size - stream->name.size - 1);
    get_single(&direct);
}
