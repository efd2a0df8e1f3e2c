/* tls.c: TLS for the load generator's connections, by OpenSSL; and the scenario that shakes hands, again and again. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <openssl/ssl.h>

#include "client.h"
#include "load.h"

static SSL_CTX *context;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_context(void) {
    signal(SIGPIPE, SIG_IGN);
    context = SSL_CTX_new(TLS_client_method());
    if (context == NULL || SSL_CTX_load_verify_locations(context, client_authority, NULL) != 1) {
        die("no authority in %s", client_authority);
    }
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
}

/* -1 with errno as recv and send would have it. */
static ssize_t outcome(client_t *client, int result) {
    switch (SSL_get_error(client->tls, result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE: errno = EAGAIN; return -1;
    case SSL_ERROR_ZERO_RETURN: return 0;
    default: die("TLS failed");
    }
}

void tls_begin(client_t *client, void *session) {
    pthread_once(&once, make_context);
    SSL *ssl = client->tls = SSL_new(context);
    if (ssl == NULL || SSL_set_fd(ssl, client->fd) != 1 || (session != NULL && SSL_set_session(ssl, session) != 1)) {
        die("no memory for TLS");
    }
    for (int result; (result = SSL_connect(ssl)) != 1;) {
        if (outcome(client, result) == 0) {
            die("the server ended the handshake");
        }
        client_wait(client->fd, SSL_get_error(ssl, result) == SSL_ERROR_WANT_WRITE ? POLLOUT : POLLIN);
    }
}

void *tls_session(client_t *client) {
    return SSL_get1_session(client->tls);
}

void tls_forget(void *session) {
    SSL_SESSION_free(session);
}

ssize_t tls_read(client_t *client, void *to, size_t room) {
    size_t got = 0;
    int result = SSL_read_ex(client->tls, to, room, &got);
    return result == 1 ? (ssize_t)got : outcome(client, result);
}

ssize_t tls_write(client_t *client, const void *from, size_t size) {
    size_t taken = 0;
    SSL_set_mode(client->tls, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    int result = SSL_write_ex(client->tls, from, size, &taken);
    return result == 1 ? (ssize_t)taken : outcome(client, result);
}

void tls_end(client_t *client) {
    if (client->tls != NULL) {
        SSL_shutdown(client->tls);
        SSL_free(client->tls);
        client->tls = NULL;
    }
}

/* A connection with its handshake and one PING, so that what comes behind the handshake is the server's work, too.
 * again: the session that it takes up; NULL: none. Returns its own. */
static void *shake(const options_t *options, void *again) {
    client_t client;
    client_dial(&client, options->port);
    tls_begin(&client, again);
    if (again != NULL && !SSL_session_reused(client.tls)) {
        die("the server did not take up the session");
    }
    client_format(&client, "CONNECT {\"verbose\":false}\r\n");
    client_sync(&client);
    void *session = tls_session(&client);
    client_close(&client);
    return session;
}

typedef struct shaker {
    pthread_t thread;
    const options_t *options;
    uint64_t count;
    bool resumed;
} shaker_t;

static void *shake_often(void *argument) {
    const shaker_t *shaker = argument;
    void *session = shake(shaker->options, NULL);
    for (uint64_t i = 0; i < shaker->count; i++) {
        void *next = shake(shaker->options, shaker->resumed ? session : NULL);
        tls_forget(session);
        session = next;
    }
    tls_forget(session);
    return NULL;
}

/* So many at a time as there are connections: one alone measures how long its steps wait for one another. */
static result_t shake_all(const options_t *options, bool resumed) {
    if (client_authority == NULL) {
        die("handshakes need --tls");
    }
    shaker_t *shakers = calloc(options->connections, sizeof *shakers);
    if (shakers == NULL) {
        die("no memory");
    }
    uint64_t each = options->messages / options->connections;
    double started = seconds_now();
    for (uint32_t i = 0; i < options->connections; i++) {
        shakers[i] = (shaker_t){.options = options, .count = each, .resumed = resumed};
        if (pthread_create(&shakers[i].thread, NULL, shake_often, &shakers[i]) != 0) {
            die("no thread");
        }
    }
    for (uint32_t i = 0; i < options->connections; i++) {
        pthread_join(shakers[i].thread, NULL);
    }
    free(shakers);
    return (result_t){.messages = each * options->connections, .seconds = seconds_now() - started};
}

result_t run_idle(const options_t *options) {
    double started = seconds_now();
    for (uint64_t i = 0; i < options->messages; i++) {
        client_t client;
        client_open(&client, options->port);
        free(client.in);
        free(client.out); /* the rest ends with the process */
    }
    return (result_t){.messages = options->messages, .seconds = seconds_now() - started};
}

result_t run_handshake(const options_t *options) {
    return shake_all(options, false);
}

result_t run_resumed(const options_t *options) {
    return shake_all(options, true);
}
