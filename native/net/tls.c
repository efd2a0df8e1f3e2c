/* tls.c: the records of a connection: what OpenSSL reads and writes on the way between the socket and the text, and
 * the transport's five functions.
 *
 * Read: one recv into the thread's buffer, all its records are opened. Written: the queue's text is cut into records of
 * 16 KB, which leave with one send for each eight of them; what the socket does not take is kept in `output`, and until
 * it is gone nothing more is sealed. So an idle connection has no buffers. OpenSSL sees a BIO over both.
 *
 * Not here: the handshake and before (tls_shake.c).
 */
#include <stdlib.h>

#include <openssl/err.h>

#include "net/tls_private.h"

#include "base/buffer.h"
#include "base/check.h"
#include "base/copies.h"
#include "net/loop.h"

#define CHAIN_BYTES_MAX 65536u /* of certificates that vouch for a peer's */

/* ---- what OpenSSL reads and writes ------------------------------------------------------------------------------- */

static int read_records(BIO *bio, char *to, size_t size, size_t *got) {
    tls_t *tls = BIO_get_data(bio);
    tls_desk_t *desk = tls->desk;
    BIO_clear_retry_flags(bio);
    *got = 0;
    if (desk->updates > TLS_UPDATES_MAX) {
        return 0; /* for good: the connection ends */
    }
    if (desk->in_left == 0 && desk->in_fd >= 0) {
        size_t come = 0;
        status_t status = transport_socket.receive(NULL, desk->in_fd, desk->in, desk->in_max, &come);
        desk->in_fd = -1;
        desk->in_closed = status == STATUS_CLOSED;
        desk->in_at = desk->in;
        desk->in_left = come;
    }
    if (desk->in_left == 0) {
        if (!desk->in_closed) {
            BIO_set_retry_read(bio);
        }
        return 0;
    }
    *got = size < desk->in_left ? size : desk->in_left;
    memcpy(to, desk->in_at, *got);
    desk->in_at += *got;
    desk->in_left -= *got;
    tls->wire_in += *got;
    return 1;
}

static int write_records(BIO *bio, const char *from, size_t size, size_t *written) {
    tls_t *tls = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    *written = 0;
    if (buffer_append(&tls->desk->out, from, size) != STATUS_OK) {
        return 0;
    }
    *written = size;
    tls->wire_out += size;
    return 1;
}

static long control_records(BIO *bio, int what, long number, void *pointer) {
    (void)number;
    (void)pointer;
    if (what == BIO_CTRL_EOF) {
        tls_t *tls = BIO_get_data(bio);
        return tls->desk->in_closed && tls->desk->in_left == 0;
    }
    return what == BIO_CTRL_FLUSH;
}

/* OpenSSL follows as many updates as there are, and never comes back to the caller between them. */
void tls_count_updates(int writes, int version, int type, const void *message, size_t size, SSL *ssl, void *none) {
    (void)version;
    (void)none;
    if (writes == 0 && type == SSL3_RT_HANDSHAKE && size != 0 && *(const uint8_t *)message == SSL3_MT_KEY_UPDATE) {
        tls_t *tls = SSL_get_app_data(ssl);
        tls->desk->updates++;
    }
}

void tls_input_begin(tls_t *tls, int fd, size_t room) {
    tls_desk_t *desk = tls->desk;
    desk->updates = 0;
    desk->out.size = 0;
    desk->in_closed = false;
    desk->in_kept = tls->input.size != 0;
    desk->in_at = desk->in_kept ? tls->input.at : desk->in;
    desk->in_left = (size_t)tls->input.size;
    desk->in_fd = desk->in_kept ? -1 : fd;
    /* A record is longer than its text: little or nothing has to be kept. */
    desk->in_max = room < TLS_IN_SIZE - TLS_RECORD_OVERHEAD ? room + TLS_RECORD_OVERHEAD : TLS_IN_SIZE;
}

status_t tls_input_end(tls_t *tls) {
    tls_desk_t *desk = tls->desk;
    if (desk->in_kept) {
        buffer_consume(&tls->input, tls->input.size - desk->in_left);
        buffer_trim(&tls->input, 0);
        return STATUS_OK;
    }
    return desk->in_left == 0 ? STATUS_OK : buffer_append(&tls->input, desk->in_at, desk->in_left);
}

/* Writes what it can; `from` begins with what is left. */
static status_t push_some(int fd, buffer_t *from) {
    size_t taken = 0;
    struct iovec piece = {.iov_base = from->at, .iov_len = (size_t)from->size};
    if (transport_socket.send(NULL, fd, &piece, from->size != 0, &taken) != STATUS_OK) {
        return STATUS_CLOSED;
    }
    buffer_consume(from, taken);
    return STATUS_OK;
}

status_t tls_output_push(tls_t *tls, int fd) {
    buffer_t *out = &tls->desk->out;
    status_t status = STATUS_OK;
    if (tls->output.size == 0 && out->size != 0) {
        status = push_some(fd, out);
    }
    if (status == STATUS_OK && out->size != 0) {
        status = buffer_append(&tls->output, out->at, out->size);
    }
    out->size = 0;
    if (status == STATUS_OK && tls->output.size != 0) {
        status = push_some(fd, &tls->output);
        buffer_trim(&tls->output, 0);
    }
    return status == STATUS_OK ? STATUS_OK : STATUS_CLOSED;
}

/* Holds output: it leaves with what is sent next, or when the socket is found to take something: tls_wanted asks for
 * that. */
status_t tls_output_hold(tls_t *tls) {
    buffer_t *out = &tls->desk->out;
    status_t status = buffer_append(&tls->output, out->at, out->size);
    out->size = 0;
    return status;
}

/* To where the next records go, before them. */
static status_t prepend_held(tls_t *tls) {
    buffer_t *output = &tls->output;
    status_t status = tls->held ? buffer_append(&tls->desk->out, output->at, output->size) : STATUS_OK;
    if (tls->held && status == STATUS_OK) {
        buffer_consume(output, output->size);
        buffer_trim(output, 0);
    }
    tls->held = false;
    return status;
}

/* ---- open connections -------------------------------------------------------------------------------------------- */

static status_t open_receive(tls_t *tls, int fd, uint8_t *to, size_t room, size_t *got) {
    tls_input_begin(tls, fd, room);
    size_t total = 0;
    int error = SSL_ERROR_NONE;
    while (total < room && !tls->broken) {
        size_t part = 0;
        int result = SSL_read_ex(tls->ssl, to + total, room - total, &part);
        if (LEAF_UNLIKELY(result != 1)) {
            error = SSL_get_error(tls->ssl, result);
            break;
        }
        total += part;
    }
    if (error != SSL_ERROR_NONE && error != SSL_ERROR_WANT_READ) {
        tls->broken = true;
        if (tls->desk->updates > TLS_UPDATES_MAX) {
            tls_say(tls, "more than %u updates of its keys at once", TLS_UPDATES_MAX);
        }
        if (error != SSL_ERROR_ZERO_RETURN) {
            tls_explain(tls, error);
        }
    }
    status_t kept = tls_input_end(tls);
    status_t pushed = tls->held && tls->desk->out.size == 0 ? STATUS_OK : tls_output_push(tls, fd);
    tls->broken = tls->broken || kept != STATUS_OK || pushed != STATUS_OK;
    *got = total;
    if (total != 0) {
        return STATUS_OK; /* how it ends is told when this has been acted on */
    }
    return tls->broken ? STATUS_CLOSED : STATUS_AGAIN;
}

typedef struct text_left {
    const struct iovec *piece;
    int count;
    size_t used; /* of the first piece */
} text_left_t;

/* The text of the next record: a part of one piece, or several together. */
static size_t next_text(tls_desk_t *desk, text_left_t *left, const uint8_t **at) {
    size_t size = 0;
    while (left->count > 0 && size < TLS_RECORD_MAX) {
        const uint8_t *from = (const uint8_t *)left->piece->iov_base + left->used;
        size_t here = left->piece->iov_len - left->used;
        size_t part = here < TLS_RECORD_MAX - size ? here : TLS_RECORD_MAX - size;
        bool alone = size == 0 && (part == TLS_RECORD_MAX || left->count == 1);
        if (!alone && part != 0) {
            memcpy(desk->gathered + size, from, part);
        }
        left->used += part;
        size += part;
        if (part == here) {
            left->piece++;
            left->count--;
            left->used = 0;
        }
        if (alone) {
            *at = from;
            return size;
        }
    }
    *at = desk->gathered;
    return size;
}

static status_t open_send(tls_t *tls, int fd, const struct iovec *iov, int count, size_t *taken) {
    tls_desk_t *desk = tls->desk;
    if (prepend_held(tls) != STATUS_OK || (tls->output.size != 0 && tls_output_push(tls, fd) != STATUS_OK)) {
        return STATUS_CLOSED;
    }
    text_left_t left = {.piece = iov, .count = count};
    while (tls->output.size == 0) {
        const uint8_t *at;
        size_t size = next_text(desk, &left, &at), sealed = 0;
        if (size == 0) {
            break;
        }
        int result = SSL_write_ex(tls->ssl, at, size, &sealed);
        if (result != 1 || sealed != size) {
            tls->broken = true;
            tls_explain(tls, SSL_get_error(tls->ssl, result));
            desk->out.size = 0; /* what is there belongs to this connection alone */
            return STATUS_CLOSED;
        }
        *taken += size;
        if (desk->out.size >= TLS_OUT_MANY && tls_output_push(tls, fd) != STATUS_OK) {
            return STATUS_CLOSED;
        }
    }
    return tls_output_push(tls, fd);
}

/* ---- the transport ----------------------------------------------------------------------------------------------- */

static status_t tls_receive(void *state, int fd, uint8_t *to, size_t room, size_t *got) {
    tls_t *tls = state;
    *got = 0;
    if (LEAF_UNLIKELY(tls->stage != STAGE_OPEN)) {
        status_t status = tls_advance(tls, fd);
        if (status != STATUS_OK) {
            return status;
        }
        if (tls->stage == STAGE_PLAIN) {
            return transport_socket.receive(NULL, fd, to, room, got);
        }
    }
    return tls->stage == STAGE_OPEN ? open_receive(tls, fd, to, room, got) : STATUS_AGAIN;
}

static status_t tls_send(void *state, int fd, const struct iovec *iov, int count, size_t *taken) {
    tls_t *tls = state;
    *taken = 0;
    if (LEAF_UNLIKELY(tls->stage != STAGE_OPEN)) {
        if (tls->stage == STAGE_FAILED) {
            /* Plain text is understood as long as nothing else was spoken. */
            return tls->throttled ? transport_socket.send(NULL, fd, iov, count, taken) : STATUS_CLOSED;
        }
        status_t status = tls_advance(tls, fd);
        if (status != STATUS_OK) {
            return status;
        }
        if (tls->stage == STAGE_PLAIN) {
            return transport_socket.send(NULL, fd, iov, count, taken);
        }
    }
    return tls->stage == STAGE_OPEN ? open_send(tls, fd, iov, count, taken) : STATUS_OK;
}

static size_t tls_pending(const void *state) {
    const tls_t *tls = state;
    if (tls->stage != STAGE_OPEN) {
        return (size_t)tls->input.size;
    }
    return (size_t)tls->input.size + (size_t)SSL_pending(tls->ssl) + tls->broken;
}

static uint32_t tls_wanted(const void *state) {
    const tls_t *tls = state;
    switch (tls->stage) {
    case STAGE_SAYING: return LOOP_WRITE;
    case STAGE_WAITING:
    case STAGE_SNIFFING:
    case STAGE_STANDING:
    case STAGE_CALLED: return LOOP_READ;
    case STAGE_QUEUED: return (tls->context->settings.flags & TLS_CLIENT) != 0 ? LOOP_WRITE : LOOP_READ;
    case STAGE_SHAKING: return LOOP_READ | (tls->output.size != 0 ? LOOP_WRITE : 0u);
    case STAGE_OPEN: return tls->output.size != 0 ? LOOP_WRITE : 0u;
    case STAGE_PLAIN:
    case STAGE_FAILED:
    default: return 0;
    }
}

static void tls_close(void *state, int fd) {
    tls_t *tls = state;
    if (tls->stage == STAGE_OPEN && !tls->broken && (tls->output.size == 0 || tls->held)) {
        tls_input_begin(tls, -1, 0);
        if (prepend_held(tls) == STATUS_OK && SSL_shutdown(tls->ssl) >= 0) {
            status_t status = tls_output_push(tls, fd);
            (void)status; /* it is closed anyway */
        }
        tls->desk->out.size = 0;
    }
    if (tls->stage == STAGE_OPEN && tls->reason == NULL) {
        /* A cut connection says no goodbye. Its session is good all the same, and OpenSSL would forget it. */
        SSL_set_shutdown(tls->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    }
    tls_list_leave(tls);
    SSL_free(tls->ssl);
    ERR_clear_error();
    buffer_free(&tls->input);
    buffer_free(&tls->output);
    bytes_release(&tls->before);
    bytes_release(&tls->name);
    free(tls->reason);
    tls_context_release(tls->context);
    free(tls);
}

const transport_t transport_tls = {tls_receive, tls_send, tls_pending, tls_wanted, tls_close};

/* ---- the thread's part ------------------------------------------------------------------------------------------- */

status_t tls_desk_open(tls_desk_t **out) {
    tls_desk_t *desk = calloc(1, sizeof(*desk));
    *out = desk;
    if (desk == NULL) {
        return STATUS_NO_MEMORY;
    }
    tls_desk_seat(desk, 0);
    buffer_init(&desk->out, TLS_OUT_MAX);
    desk->in = malloc(TLS_IN_SIZE);
    desk->gathered = malloc(TLS_RECORD_MAX);
    desk->method = BIO_meth_new(BIO_TYPE_SOURCE_SINK | BIO_get_new_index(), "records");
    if (desk->in == NULL || desk->gathered == NULL || desk->method == NULL
        || BIO_meth_set_read_ex(desk->method, read_records) != 1
        || BIO_meth_set_write_ex(desk->method, write_records) != 1
        || BIO_meth_set_ctrl(desk->method, control_records) != 1) {
        tls_desk_close(desk);
        *out = NULL;
        return STATUS_NO_MEMORY;
    }
    return STATUS_OK;
}

void tls_desk_close(tls_desk_t *desk) {
    if (desk != NULL) {
        BIO_meth_free(desk->method);
        buffer_free(&desk->out);
        free(desk->in);
        free(desk->gathered);
        free(desk);
    }
}

void tls_desk_seat(tls_desk_t *desk, uint64_t bytes) {
    uint64_t seats = bytes / TLS_SEAT_BYTES;
    desk->seats = seats < TLS_SEATS_MIN ? TLS_SEATS_MIN : seats < UINT32_MAX ? (uint32_t)seats : UINT32_MAX;
}

/* ---- a connection's part ----------------------------------------------------------------------------------------- */

tls_t *tls_new(tls_desk_t *desk, tls_context_t *context, const tls_wish_t *wish) {
    tls_t *tls = calloc(1, sizeof(*tls));
    if (tls == NULL) {
        return NULL;
    }
    bytes_t wished[2] = {wish->before, wish->name}, own[2];
    if (!bytes_copy_all(own, wished, 2)) {
        free(tls);
        return NULL;
    }
    *tls = (tls_t){.stage = STAGE_SAYING,
                   .desk = desk,
                   .context = context,
                   .flags = wish->flags,
                   .before = own[0],
                   .name = own[1],
                   .wait_ns = wish->wait_ns,
                   .tag = wish->tag};
    buffer_init(&tls->input, TLS_IN_SIZE);
    buffer_init(&tls->output, TLS_OUT_MAX);
    buffer_count(&tls->output, wish->share);
    tls_be_patient(tls, wish->round_trip_ns);
    context->references++;
    tls_begin(tls);
    return tls;
}

tls_outcome_t tls_outcome(const tls_t *tls) {
    switch (tls->stage) {
    case STAGE_OPEN: return TLS_OPEN;
    case STAGE_PLAIN: return TLS_PLAIN;
    case STAGE_FAILED: return TLS_FAILED;
    default: return TLS_GOING;
    }
}

bytes_t tls_reason(const tls_t *tls) {
    return tls->reason == NULL ? BYTES_NONE : bytes_of(tls->reason, (uint32_t)strlen(tls->reason));
}

bool tls_said_before(const tls_t *tls) {
    return tls->said;
}

bool tls_throttled(const tls_t *tls) {
    return tls->throttled;
}

/* A certificate more, as DER. false: no memory. */
static bool add_certificate(buffer_t *to, const X509 *certificate) {
    uint8_t *der = NULL;
    int size = i2d_X509(certificate, &der);
    bool added = size > 0 && buffer_append(to, der, (uint64_t)size) == STATUS_OK;
    OPENSSL_free(der);
    return added;
}

/* Behind the peer's own, in the order in which each vouches for the one before. All of them or none. */
static bytes_t chain_of(const tls_t *tls) {
    const STACK_OF(X509) *verified = SSL_get0_verified_chain(tls->ssl);
    if (SSL_is_server(tls->ssl) == 0 || verified == NULL) {
        return BYTES_NONE;
    }
    buffer_t buffer;
    buffer_init(&buffer, CHAIN_BYTES_MAX);
    bool whole = true;
    for (int i = 1; i < sk_X509_num(verified) && whole; i++) {
        whole = add_certificate(&buffer, sk_X509_value(verified, i));
    }
    bytes_t chain = whole ? bytes_copy(bytes_of(buffer.at, (uint32_t)buffer.size)) : BYTES_NONE;
    buffer_free(&buffer);
    return chain;
}

void tls_facts(const tls_t *tls, tls_facts_t *out) {
    *out = (tls_facts_t){.version = (uint32_t)SSL_version(tls->ssl),
                         .resumed = SSL_session_reused(tls->ssl) == 1,
                         .cipher = SSL_CIPHER_standard_name(SSL_get_current_cipher(tls->ssl)),
                         .bytes_in = tls->wire_in,
                         .bytes_out = tls->wire_out};
    X509 *certificate = SSL_get0_peer_certificate(tls->ssl);
    uint8_t *der = NULL;
    int size = certificate == NULL ? 0 : i2d_X509(certificate, &der);
    if (size > 0) {
        out->certificate = bytes_copy(bytes_of(der, (uint32_t)size));
        out->chain = chain_of(tls);
    }
    OPENSSL_free(der);
}

void tls_facts_free(tls_facts_t *facts) {
    bytes_release(&facts->certificate);
    bytes_release(&facts->chain);
}
