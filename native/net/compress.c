/* compress.c: see compress.h: the transport's operations, what is sent, and the memory that a thread has for all. */
#include "net/compress.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "net/compress_private.h"
#include "net/loop.h"
#include "net/outq.h"

#define PACK_MIN 32u /* bytes; fewer are not worth a block */

/* ---- the desk: what all connections share ------------------------------------------------------------------------ */

compress_desk_t *compress_desk_open(void) {
    return calloc(1, sizeof(compress_desk_t));
}

static void drop_in(compress_desk_t *desk) {
    free(desk->in);
    desk->in = NULL;
}

static void drop_out(compress_desk_t *desk) {
    free(desk->text);
    free(desk->out);
    desk->text = desk->out = NULL;
}

static void drop_terse(compress_desk_t *desk) {
    free(desk->terse);
    desk->terse = NULL;
}

static void drop_block(compress_desk_t *desk) {
    free(desk->block);
    desk->block = NULL;
    desk->block_room = 0;
    desk->owner = NULL;
}

static void drop_encoder(compress_desk_t *desk, uint32_t effort) {
    s2_encoder_free(desk->encoders[effort]);
    desk->encoders[effort] = NULL;
}

void compress_desk_close(compress_desk_t *desk) {
    if (desk == NULL) {
        return;
    }
    drop_in(desk);
    drop_out(desk);
    drop_terse(desk);
    drop_block(desk);
    for (uint32_t i = 0; i < EFFORTS; i++) {
        drop_encoder(desk, i);
    }
    free(desk);
}

void compress_desk_idle(compress_desk_t *desk) {
    if (!desk->used_in) drop_in(desk);
    if (!desk->used_out) drop_out(desk);
    if (!desk->used_terse) drop_terse(desk);
    if (!desk->used_block) drop_block(desk);
    desk->used_in = desk->used_out = desk->used_terse = desk->used_block = false;
    for (uint32_t i = 0; i < EFFORTS; i++) {
        if (!desk->used_encoder[i]) drop_encoder(desk, i);
        desk->used_encoder[i] = false;
    }
}

static bool has_out(compress_desk_t *desk) {
    desk->used_out = true;
    if (desk->out == NULL) {
        desk->text = malloc(S2_ENCODE_MAX);
        desk->out = malloc(DESK_OUT);
    }
    if (desk->text == NULL || desk->out == NULL) {
        drop_out(desk);
        return false;
    }
    return true;
}

uint8_t *compress_desk_terse(compress_desk_t *desk) {
    desk->used_terse = true;
    if (desk->terse == NULL) {
        desk->terse = malloc(TERSE_ROOM(TERSE_TEXT_MAX));
    }
    return desk->terse;
}

/* NULL: no memory, so it is not packed. */
static s2_encoder_t *encoder_of(compress_desk_t *desk, uint32_t level) {
    uint32_t effort = level - COMPRESS_FAST;
    desk->used_encoder[effort] = true;
    if (desk->encoders[effort] == NULL) {
        desk->encoders[effort] = s2_encoder_new((s2_effort_t)effort);
    }
    return desk->encoders[effort];
}

_Static_assert(COMPRESS_BETTER - COMPRESS_FAST == S2_EFFORT_BETTER && COMPRESS_BEST - COMPRESS_FAST == S2_EFFORT_BEST,
               "levels and efforts are in the same order");

/* ---- a connection ------------------------------------------------------------------------------------------------ */

static bool begin_terse(compress_t *compress) {
    compress->terse_heard = terse_new();
    compress->terse_said = terse_new();
    return compress->terse_heard != NULL && compress->terse_said != NULL;
}

compress_t *compress_new(compress_desk_t *desk, const compress_wish_t *wish, const transport_t *under,
                         void *under_state) {
    compress_t *compress = calloc(1, sizeof(*compress));
    if (compress == NULL) {
        return NULL;
    }
    compress->desk = desk;
    compress->under = under;
    compress->under_state = under_state;
    compress->block_max = wish->stranger ? COMPRESS_STRANGER_MAX : COMPRESS_BLOCK_MAX;
    compress->plain_left = wish->plain_left;
    compress_change(compress, &wish->how);
    buffer_init(&compress->held, HELD_MAX);
    buffer_count(&compress->held, wish->held);
    buffer_init(&compress->aside, TERSE_TEXT_MAX);
    buffer_count(&compress->aside, wish->held);
    buffer_init(&compress->out, DESK_OUT);
    buffer_count(&compress->out, wish->out);
    if (buffer_append(&compress->held, wish->input.at, wish->input.size) != STATUS_OK
        || (wish->how.terse != 0 && !begin_terse(compress))) {
        compress_drop(compress);
        return NULL;
    }
    compress->ready = wish->input.size != 0; /* it is to be looked at */
    return compress;
}

void compress_drop(compress_t *compress) {
    if (compress->desk->owner == compress) {
        compress->desk->owner = NULL;
    }
    terse_free(compress->terse_heard);
    terse_free(compress->terse_said);
    buffer_free(&compress->held);
    buffer_free(&compress->aside);
    buffer_free(&compress->out);
    free(compress);
}

void compress_admitted(compress_t *compress) {
    compress->block_max = COMPRESS_BLOCK_MAX;
}

void compress_change(compress_t *compress, const compression_t *how) {
    compress->how = *how;
    if (compress->how.level > COMPRESS_BEST) {
        compress->how.level = COMPRESS_FAST;
    }
}

void compress_round_trip(compress_t *compress, int64_t rtt_ns) {
    compression_t *how = &compress->how;
    const int64_t bounds[] = {how->bound0_ns, how->bound1_ns, how->bound2_ns, how->bound3_ns};
    uint32_t count = how->bounds < 4 ? how->bounds : 4;
    if (count == 0) {
        return;
    }
    uint32_t level = count >= 3 ? COMPRESS_BEST : count - 1;
    for (uint32_t i = count; i-- > 0;) {
        if (rtt_ns <= bounds[i]) {
            level = i;
        }
    }
    how->level = level;
}

uint32_t compress_level(const compress_t *compress) {
    return compress->how.level;
}

bytes_t compress_fault(const compress_t *compress) {
    return compress->fault;
}

/* ---- sending ----------------------------------------------------------------------------------------------------- */

/* Keeps the part of iov that the transport below does not take. */
static status_t push_chunks(compress_t *compress, int fd, const struct iovec *iov, int count) {
    size_t gone = 0;
    status_t status = compress->under->send(compress->under_state, fd, iov, count, &gone);
    for (int i = 0; status == STATUS_OK && i < count; i++) {
        size_t part = gone < iov[i].iov_len ? gone : iov[i].iov_len;
        gone -= part;
        if (part < iov[i].iov_len
            && buffer_append(&compress->out, (const uint8_t *)iov[i].iov_base + part, iov[i].iov_len - part)
                   != STATUS_OK) {
            return STATUS_CLOSED;
        }
    }
    return status;
}

static status_t push_kept(compress_t *compress, int fd) {
    buffer_t *out = &compress->out;
    struct iovec one = {.iov_base = out->at, .iov_len = (size_t)out->size};
    size_t gone = 0;
    status_t status = compress->under->send(compress->under_state, fd, &one, out->size != 0, &gone);
    buffer_consume(out, gone);
    buffer_trim(out, 0);
    return status;
}

/* The first `most` bytes of iov; returns how many there are. */
static size_t cut_iovecs(const struct iovec *iov, int *count, size_t most, struct iovec part[OUTQ_IOVECS]) {
    size_t size = 0;
    int parts = 0;
    for (; parts < *count && parts < OUTQ_IOVECS && size < most; parts++) {
        part[parts] = iov[parts];
        if (part[parts].iov_len > most - size) {
            part[parts].iov_len = most - size;
        }
        size += part[parts].iov_len;
    }
    *count = parts;
    return size;
}

static uint8_t *write_identifier(compress_t *compress, uint8_t *to) {
    if (!compress->introduced) {
        to = bytes_write(to, BYTES_LITERAL("\xff\x06\x00\x00S2sTwO"));
        compress->introduced = true;
    }
    return to;
}

static uint8_t *write_number(uint8_t *to, uint32_t number, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        *to++ = (uint8_t)(number >> (8 * i));
    }
    return to;
}

/* size: of what follows the head. */
static uint8_t *write_chunk_head(uint8_t *to, uint8_t kind, uint32_t size, uint32_t crc) {
    *to++ = kind;
    to = write_number(to, size + CHUNK_CHECKSUM, 3);
    return write_number(to, masked(crc), CHUNK_CHECKSUM);
}

/* The bytes go as they are, from where they are. */
static status_t send_raw(compress_t *compress, int fd, const struct iovec *iov, int count, size_t size) {
    uint8_t head[IDENTIFIER_SIZE + CHUNK_HEAD + CHUNK_CHECKSUM];
    struct iovec all[OUTQ_IOVECS + 1] = {{.iov_base = head}};
    uint32_t crc = 0;
    for (int i = 0; i < count; i++) {
        crc = crc32c(crc, iov[i].iov_base, iov[i].iov_len);
        all[i + 1] = iov[i];
    }
    uint8_t *end = write_chunk_head(write_identifier(compress, head), CHUNK_RAW, (uint32_t)size, crc);
    all[0].iov_len = (size_t)(end - head);
    return push_chunks(compress, fd, all, count + 1);
}

static bytes_t in_one_piece(compress_desk_t *desk, const struct iovec *iov, int count, size_t size) {
    if (count == 1) {
        return bytes_of(iov[0].iov_base, (uint32_t)size);
    }
    uint8_t *to = desk->text;
    for (int i = 0; i < count; i++) {
        to = bytes_write(to, bytes_of(iov[i].iov_base, (uint32_t)iov[i].iov_len));
    }
    return bytes_of(desk->text, (uint32_t)size);
}

static status_t send_packed(compress_t *compress, int fd, const struct iovec *iov, int count, size_t size) {
    compress_desk_t *desk = compress->desk;
    s2_encoder_t *encoder = has_out(desk) ? encoder_of(desk, compress->how.level) : NULL;
    if (encoder == NULL) {
        return send_raw(compress, fd, iov, count, size);
    }
    bytes_t text = in_one_piece(desk, iov, count, size);
    uint8_t *head = desk->out + (compress->introduced ? 0 : IDENTIFIER_SIZE);
    uint8_t *block = head + CHUNK_HEAD + CHUNK_CHECKSUM;
    uint32_t packed = s2_encode(encoder, text, block, text.size);
    if (packed == 0) {
        return send_raw(compress, fd, iov, count, size);
    }
    write_identifier(compress, desk->out);
    write_chunk_head(head, CHUNK_BLOCK, packed, crc32c(0, text.at, text.size));
    struct iovec one = {.iov_base = desk->out, .iov_len = (size_t)(block + packed - desk->out)};
    return push_chunks(compress, fd, &one, 1);
}

/* The lines of messages, said by what is new in them; compressed after that, if it is to be. What terse_write was given
 * has to go out in this form. */
static status_t send_terse(compress_t *compress, int fd, bytes_t text) {
    compress_desk_t *desk = compress->desk;
    bytes_t terse = bytes_of(desk->terse, terse_write(compress->terse_said, text, desk->terse));
    if (terse.size == 0) {
        return STATUS_CLOSED;
    }
    bool packs = compress->how.level != COMPRESS_NONE && terse.size >= PACK_MIN;
    s2_encoder_t *encoder = packs ? encoder_of(desk, compress->how.level) : NULL;
    uint8_t *head = write_identifier(compress, desk->out);
    uint8_t *body = head + CHUNK_HEAD + CHUNK_TERSE_HEAD;
    uint32_t size = encoder == NULL ? 0 : s2_encode(encoder, terse, body, terse.size);
    uint8_t kind = size != 0 ? CHUNK_TERSE_BLOCK : CHUNK_TERSE;
    if (size == 0) {
        bytes_write(body, terse);
        size = terse.size;
    }
    head = write_chunk_head(head, kind, size + CHUNK_LENGTH, crc32c(0, text.at, text.size));
    write_number(head, text.size, CHUNK_LENGTH);
    struct iovec one = {.iov_base = desk->out, .iov_len = (size_t)(body + size - desk->out)};
    return push_chunks(compress, fd, &one, 1);
}

/* Is the other end far, and does it understand that? */
static bool is_terse(const compress_t *compress) {
    const compression_t *how = &compress->how;
    return compress->terse_said != NULL && (how->level != COMPRESS_NONE || how->bounds == 0);
}

static status_t send_chunk(compress_t *compress, int fd, const struct iovec *iov, int count, size_t size) {
    compress_desk_t *desk = compress->desk;
    const compression_t *how = &compress->how;
    if (is_terse(compress) && size >= PACK_MIN && has_out(desk) && compress_desk_terse(desk) != NULL) {
        return send_terse(compress, fd, in_one_piece(desk, iov, count, size));
    }
    for (int i = 0; compress->terse_said != NULL && i < count; i++) {
        terse_pass(compress->terse_said, bytes_of(iov[i].iov_base, (uint32_t)iov[i].iov_len));
    }
    bool packs = how->level != COMPRESS_NONE && size >= PACK_MIN;
    return packs ? send_packed(compress, fd, iov, count, size) : send_raw(compress, fd, iov, count, size);
}

static status_t compress_send(void *state, int fd, const struct iovec *iov, int count, size_t *taken) {
    compress_t *compress = state;
    struct iovec part[OUTQ_IOVECS];
    *taken = 0;
    if (compress->plain_left != 0) {
        (void)cut_iovecs(iov, &count, (size_t)compress->plain_left, part);
        status_t status = compress->under->send(compress->under_state, fd, part, count, taken);
        compress->plain_left -= *taken;
        return status;
    }
    status_t status = push_kept(compress, fd);
    if (status != STATUS_OK || compress->out.size != 0) {
        return status;
    }
    size_t most = is_terse(compress) ? TERSE_TEXT_MAX : S2_ENCODE_MAX;
    size_t size = cut_iovecs(iov, &count, most, part);
    if (size == 0) {
        return STATUS_OK;
    }
    *taken = size;
    return send_chunk(compress, fd, part, count, size);
}

/* ---- the rest of the transport ----------------------------------------------------------------------------------- */

static size_t compress_pending(const void *state) {
    const compress_t *compress = state;
    return (size_t)(compress->ready || compress->ended) + compress->under->pending(compress->under_state);
}

static uint32_t compress_wanted(const void *state) {
    const compress_t *compress = state;
    return (compress->out.size != 0 ? LOOP_WRITE : 0u) | compress->under->wanted(compress->under_state);
}

static void compress_close(void *state, int fd) {
    compress_t *compress = state;
    compress->under->close(compress->under_state, fd);
    compress_drop(compress);
}

const transport_t transport_compress = {compress_receive, compress_send, compress_pending, compress_wanted,
                                        compress_close};
