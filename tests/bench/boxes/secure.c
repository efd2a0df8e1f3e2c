/* secure.c: see boxes.h. TLS as a leaf begins it: behind the first INFO, which says that it is wanted. Certificates are
 * not looked at: the hub is one that we started. Each link shakes hands in full, as after a hub's restart. */
#include "boxes.h"

#include <limits.h>

#include <openssl/ssl.h>

static SSL_CTX *context;

void secure_begin(box_t *box) {
    if (context == NULL) {
        context = SSL_CTX_new(TLS_client_method());
        if (context == NULL) {
            die("TLS could not be set up");
        }
        SSL_CTX_set_verify(context, SSL_VERIFY_NONE, NULL);
        SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
        SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER
                                      | SSL_MODE_RELEASE_BUFFERS);
    }
    box->tls = SSL_new(context);
    if (box->tls == NULL || SSL_set_fd(box->tls, box->fd) != 1) {
        die("no memory for TLS");
    }
    SSL_set_connect_state(box->tls);
}

void secure_end(box_t *box) {
    SSL_free(box->tls);
    box->tls = NULL;
}

static ssize_t outcome(box_t *box, int result) {
    if (result > 0) {
        return result;
    }
    switch (SSL_get_error(box->tls, result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE: errno = EAGAIN; return -1;
    case SSL_ERROR_ZERO_RETURN: return 0;
    default: errno = ECONNRESET; return -1;
    }
}

ssize_t secure_receive(box_t *box, void *to, size_t room) {
    return outcome(box, SSL_read(box->tls, to, room > INT_MAX ? INT_MAX : (int)room));
}

ssize_t secure_send(box_t *box, const void *from, size_t size) {
    return outcome(box, SSL_write(box->tls, from, size > INT_MAX ? INT_MAX : (int)size));
}

bool secure_wants_room(const box_t *box) {
    return box->tls == NULL || SSL_want_write((const SSL *)box->tls);
}
