/* tls_shake.c: from the first byte of a connection to the end of its handshake; see the drawing in tls.h.
 *
 * Nothing is read before a handshake has its seat: what the peer has sent is looked at where it lies, in the socket,
 * which is told not to report fewer bytes than a whole first record (SO_RCVLOWAT). So 10,000 connections that send
 * half of one cost what 10,000 silent ones cost. Not here: records (tls.c), sessions (tls_context.c),
 * who gets a seat (tls_seats.c).
 */
#include <errno.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include "net/tls_private.h"

#include "base/clock.h"
#include "base/copies.h"

#define HANDSHAKE_RECORD 0x16u
#define RECORD_LENGTH_MAX (TLS_RECORD_MAX + 256u)
#define SHOWN_MAX 12
#define LINE_BYTES (2 * TLS_RECORD_MAX) /* of a connection in line: more than it has to say before it is answered */

/* ---- the end ----------------------------------------------------------------------------------------------------- */

status_t tls_failed(tls_t *tls) {
    tls->stage = STAGE_FAILED;
    tls_list_leave(tls);
    SSL_free(tls->ssl);
    tls->ssl = NULL;
    ERR_clear_error();
    return STATUS_CLOSED;
}

bool tls_hurries(const tls_t *tls) {
    return tls_context_timeout_ns(tls->context) + tls->wait_ns < NS_PER_SECOND;
}

void tls_give_up(tls_t *tls) {
    if (tls_outcome(tls) == TLS_GOING) {
        tls_say(tls, "timeout");
        status_t status = tls_failed(tls);
        (void)status;
    }
}

/* ---- before the handshake ---------------------------------------------------------------------------------------- */

void tls_begin(tls_t *tls) {
    bool server = (tls->context->settings.flags & TLS_CLIENT) == 0;
    bool first = (tls->flags & SECURE_FIRST) != 0;
    if (server && first && tls->wait_ns > 0) {
        tls_await_word(tls);
    } else {
        tls->stage = server && !first ? STAGE_SAYING : STAGE_QUEUED;
    }
}

/* true: it is said. */
static bool say(tls_t *tls, int fd, status_t *status) {
    size_t taken = 0;
    struct iovec rest = {.iov_base = (void *)(uintptr_t)(tls->before.at + tls->before_sent),
                         .iov_len = tls->before.size - tls->before_sent};
    if (rest.iov_len != 0) {
        *status = transport_socket.send(NULL, fd, &rest, 1, &taken);
        tls->before_sent += taken;
    }
    return *status == STATUS_OK && tls->before_sent == tls->before.size;
}

typedef struct look {
    uint8_t at[SHOWN_MAX];
    size_t size;
} look_t;

/* How its input begins, which stays where it is. STATUS_AGAIN: nothing has come. */
static status_t look_at(int fd, look_t *look) {
    ssize_t size = recv(fd, look->at, sizeof look->at, MSG_PEEK | MSG_DONTWAIT);
    look->size = size > 0 ? (size_t)size : 0;
    if (size > 0) {
        return STATUS_OK;
    }
    return size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) ? STATUS_AGAIN : STATUS_CLOSED;
}

static void expect(tls_t *tls, int fd, uint32_t size) {
    int least = (int)size;
    /* Where it cannot be set the loop reports more often. */
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &least, sizeof least);
    tls->awaited = size;
}

/* So many bytes have not come. Told all the same: they will not come any more, or the socket tells of fewer. */
static status_t await(tls_t *tls, int fd, uint32_t size) {
    if (tls->awaited == size) {
        struct pollfd one = {.fd = fd, .events = POLLRDHUP};
        return poll(&one, 1, 0) == 1 ? STATUS_CLOSED : STATUS_AGAIN;
    }
    expect(tls, fd, size);
    return STATUS_AGAIN;
}

static status_t no_tls(tls_t *tls, const look_t *look) {
    char shown[SHOWN_MAX + 1];
    for (size_t i = 0; i < look->size; i++) {
        shown[i] = (char)(look->at[i] >= ' ' && look->at[i] < 0x7f && look->at[i] != '"' ? look->at[i] : '.');
    }
    shown[look->size] = 0;
    tls_say(tls, "the peer does not begin with a TLS handshake but with \"%s\"", shown);
    return tls_failed(tls);
}

/* STATUS_OK: the first record is there as a whole. */
static status_t first_record(tls_t *tls, int fd) {
    look_t look;
    status_t status = look_at(fd, &look);
    if (status != STATUS_OK) {
        return status;
    }
    if (look.at[0] != HANDSHAKE_RECORD || (look.size > 1 && look.at[1] != 3)) {
        return no_tls(tls, &look);
    }
    if (look.size < TLS_HEADER_SIZE) {
        return await(tls, fd, TLS_HEADER_SIZE);
    }
    uint32_t length = load_be16(look.at + 3);
    if (length == 0 || length > RECORD_LENGTH_MAX) {
        return no_tls(tls, &look);
    }
    int come = 0;
    if (ioctl(fd, FIONREAD, &come) == 0 && (uint32_t)come < TLS_HEADER_SIZE + length) {
        return await(tls, fd, TLS_HEADER_SIZE + length);
    }
    return STATUS_OK;
}

/* ---- seats ------------------------------------------------------------------------------------------------------- */

/* STATUS_OK: it may take a seat now. STATUS_AGAIN: not yet. */
static status_t ask_for_seat(tls_t *tls, int fd) {
    if ((tls->context->settings.flags & TLS_CLIENT) != 0) {
        return tls->desk->spent_ns >= TLS_TURN_NS ? STATUS_AGAIN : STATUS_OK;
    }
    status_t status = first_record(tls, fd);
    if (status != STATUS_OK) {
        return status;
    }
    if (!tls_context_allows(tls->context, tls->desk->now_ns)) {
        tls_say(tls, "more than connection_rate_limit in a second");
        tls->throttled = true;
        return tls_failed(tls);
    }
    if (!tls_may_sit(tls->desk)) {
        tls_stand(tls);
        return await(tls, fd, LINE_BYTES);
    }
    return STATUS_OK;
}

static status_t sit_down(tls_t *tls, int fd) {
    if (tls->awaited != 0) {
        expect(tls, fd, 1);
    }
    tls->ssl = tls_context_session(tls->context, tls);
    BIO *bio = tls->ssl == NULL ? NULL : BIO_new(tls->desk->method);
    if (bio == NULL) {
        tls_say(tls, "no memory");
        return tls_failed(tls);
    }
    BIO_set_data(bio, tls);
    BIO_set_init(bio, 1);
    SSL_set_bio(tls->ssl, bio, bio);
    tls_sit(tls);
    return STATUS_OK;
}

/* ---- the handshake ----------------------------------------------------------------------------------------------- */

static bool is_pinned(const tls_context_t *context, const X509 *certificate) {
    uint8_t digest[EVP_MAX_MD_SIZE];
    uint8_t *der = NULL;
    int size = certificate == NULL ? 0 : i2d_X509_PUBKEY(X509_get_X509_PUBKEY(certificate), &der);
    bool found = false;
    if (size > 0 && EVP_Digest(der, (size_t)size, digest, NULL, EVP_sha256(), NULL) == 1) {
        for (uint32_t i = 0; i < context->pinned_count; i++) {
            found = found || memcmp(context->pinned[i], digest, TLS_PINNED_SIZE) == 0;
        }
    }
    OPENSSL_free(der);
    return found;
}

/* Judges what OpenSSL does not look at. */
static status_t judge(tls_t *tls) {
    const X509 *certificate = SSL_get0_peer_certificate(tls->ssl);
    if (tls->context->pinned_count != 0 && !is_pinned(tls->context, certificate)) {
        tls_say(tls, "certificate not pinned");
        return tls_failed(tls);
    }
    /* A session that is taken up again shows no certificate: the one it began with may have expired meanwhile. */
    if (certificate != NULL && SSL_session_reused(tls->ssl) == 1 && (tls->context->settings.flags & TLS_VERIFY) != 0
        && X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0) {
        char text[TLS_REASON_SIZE];
        tls_describe_certificate(certificate, text, sizeof text);
        tls_say(tls, "the peer's certificate has expired: %s", text);
        return tls_failed(tls);
    }
    tls->stage = STAGE_OPEN;
    tls_list_leave(tls);
    bytes_release(&tls->before);
    return STATUS_OK;
}

static status_t shake(tls_t *tls, int fd) {
    tls_desk_t *desk = tls->desk;
    int64_t began_ns = clock_mono_ns();
    uint64_t heard = tls->wire_in;
    tls_input_begin(tls, fd, TLS_RECORD_MAX);
    int result = SSL_do_handshake(tls->ssl);
    int error = result == 1 ? SSL_ERROR_NONE : SSL_get_error(tls->ssl, result);
    bool over = error != SSL_ERROR_NONE && error != SSL_ERROR_WANT_READ;
    if (over) {
        tls_explain(tls, error);
        tls_context_forget(tls->context, tls->name);
    }
    /* Text that came with the handshake's end is answered in this turn: the ticket leaves with the answer. */
    tls->held = result == 1 && desk->in_left != 0;
    status_t pushed = tls->held ? tls_output_hold(tls) : tls_output_push(tls, fd); /* an alert goes out, too */
    status_t kept = tls_input_end(tls);
    if (tls->wire_in != heard) {
        tls_sit(tls);
    }
    status_t status = STATUS_AGAIN;
    if (over || kept != STATUS_OK || pushed != STATUS_OK) {
        status = tls_failed(tls);
    } else if (result == 1) {
        status = judge(tls);
    }
    desk->spent_ns += clock_mono_ns() - began_ns;
    return status;
}

/* ---- the handshake, step by step --------------------------------------------------------------------------------- */

static status_t step(tls_t *tls, int fd) {
    look_t look;
    status_t status = STATUS_OK;
    switch (tls->stage) {
    case STAGE_SAYING:
        if (!say(tls, fd, &status)) {
            return status == STATUS_OK ? STATUS_AGAIN : status;
        }
        tls->said = true;
        tls->stage = (tls->flags & SECURE_OPTIONAL) != 0 ? STAGE_SNIFFING : STAGE_QUEUED;
        return STATUS_OK;
    case STAGE_WAITING:
        status = look_at(fd, &look);
        if (status == STATUS_OK) {
            tls_list_leave(tls);
            tls->stage = STAGE_QUEUED;
        }
        return status;
    case STAGE_SNIFFING:
        status = look_at(fd, &look);
        if (status == STATUS_OK) {
            tls->stage = look.at[0] == HANDSHAKE_RECORD ? STAGE_QUEUED : STAGE_PLAIN;
        }
        return status;
    case STAGE_QUEUED: status = ask_for_seat(tls, fd); return status == STATUS_OK ? sit_down(tls, fd) : status;
    case STAGE_STANDING: return await(tls, fd, LINE_BYTES);
    case STAGE_CALLED: return sit_down(tls, fd);
    case STAGE_SHAKING: return tls->desk->spent_ns >= TLS_TURN_NS ? STATUS_AGAIN : shake(tls, fd);
    case STAGE_FAILED: return STATUS_CLOSED;
    case STAGE_OPEN:
    case STAGE_PLAIN:
    default: break;
    }
    return STATUS_AGAIN;
}

status_t tls_advance(tls_t *tls, int fd) {
    while (tls->stage != STAGE_OPEN && tls->stage != STAGE_PLAIN) {
        status_t status = step(tls, fd);
        if (status != STATUS_OK) {
            return status == STATUS_AGAIN ? STATUS_OK : status;
        }
    }
    return STATUS_OK;
}
