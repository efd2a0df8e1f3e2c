/* tls_private.h: what the files tls*.c share: the states, and OpenSSL's types. */
#ifndef LEAFD_NET_TLS_PRIVATE_H
#define LEAFD_NET_TLS_PRIVATE_H

#include <openssl/ssl.h>

#include "base/buffer.h"
#include "net/tls.h"

#define TLS_RECORD_MAX 16384u
#define TLS_RECORD_OVERHEAD 512u /* of a record on the wire: header, padding and tag, generously */
#define TLS_HEADER_SIZE 5u
#define TLS_PINNED_SIZE 32u
#define TLS_SESSIONS 4u
#define TLS_PATIENCES 7u /* from TLS_PATIENCE_NS to 64 times as much */
#define TLS_NAME_SIZE 256u

typedef enum tls_stage {
    STAGE_SAYING = 1,
    STAGE_WAITING,
    STAGE_SNIFFING,
    STAGE_QUEUED,
    STAGE_STANDING,
    STAGE_CALLED,
    STAGE_SHAKING,
    STAGE_OPEN,
    STAGE_PLAIN,
    STAGE_FAILED,
} tls_stage_t;

typedef struct tls_session {
    char name[TLS_NAME_SIZE];
    SSL_SESSION *session;
} tls_session_t;

struct tls_context {
    tls_settings_t settings;
    uint32_t references; /* connections, and the owner */
    uint32_t count;
    uint32_t pinned_count;
    uint32_t next_session;
    SSL_CTX **each; /* one for each certificate; the first serves who asks for no name */
    uint8_t (*pinned)[TLS_PINNED_SIZE];
    tls_session_t sessions[TLS_SESSIONS]; /* as a client: the last one of each host */
    int64_t second_end_ns;                /* of connection_rate */
    uint32_t second_count;
};

typedef struct tls_list {
    tls_t *first;
    tls_t *last;
    uint32_t count;
} tls_list_t;

struct tls_desk {
    BIO_METHOD *method;
    uint8_t *in;          /* TLS_IN_SIZE: what one receive took off the socket */
    uint8_t *gathered;    /* TLS_RECORD_MAX: the text of one record, of several pieces */
    buffer_t out;         /* records on their way to the socket */
    const uint8_t *in_at; /* not read by OpenSSL yet */
    size_t in_left;
    size_t in_max;                      /* so much may come off the socket at once */
    int in_fd;                          /* where more of it comes from; -1: no more in this call */
    bool in_kept;                       /* in_at is in tls->input */
    bool in_closed;                     /* the peer has */
    bool called;                        /* somebody out of the line, in this turn */
    uint32_t updates;                   /* of a peer's keys, in this call */
    uint32_t seats;                     /* so many may shake hands */
    tls_list_t waiting;                 /* for the peer's first word */
    tls_list_t shaking[TLS_PATIENCES];  /* by patience; the longest silent one comes first */
    tls_list_t standing[TLS_PATIENCES]; /* in line for a seat; who came first is the first */
    int64_t now_ns;
    int64_t spent_ns;
};

#define TLS_IN_SIZE (128u * 1024u)
#define TLS_OUT_MANY (8u * TLS_RECORD_MAX) /* so much is written to the socket at once */
#define TLS_OUT_MAX (256u * 1024u)         /* that a peer may leave unread, as its own doing (updates of keys) */

struct tls {
    SSL *ssl; /* NULL before the handshake */
    tls_desk_t *desk;
    tls_context_t *context;
    tls_stage_t stage;
    uint32_t flags;
    bool broken; /* its session must say nothing any more */
    bool throttled;
    bool said;        /* `before` */
    bool held;        /* what is in `output` may wait for the end of this turn */
    uint32_t awaited; /* the socket reports only so many bytes; 0: any number */
    size_t before_sent;
    bytes_t before; /* own copies */
    bytes_t name;
    buffer_t input;   /* records that there was no room for */
    buffer_t output;  /* records that the socket did not take */
    int64_t until_ns; /* WAITING; STANDING: its rank in the line; SHAKING: so long it may be silent in any case */
    int64_t wait_ns;
    uint32_t patience; /* TLS_PATIENCE_NS times this power of two */
    char *reason;
    uint64_t wire_in; /* up to the end of the handshake */
    uint64_t wire_out;
    tls_list_t *list; /* in which it is */
    tls_t *next, *previous;
    void *tag;
};

/* tls_seats.c: what follows for it from the round trip; then each puts it where its name says. */
void tls_be_patient(tls_t *tls, int64_t round_trip_ns);
void tls_await_word(tls_t *tls);
void tls_stand(tls_t *tls);
void tls_sit(tls_t *tls); /* also when something of its peer has come */
void tls_list_leave(tls_t *tls);
/* Whether who has just come gets a seat at once; that of another one, perhaps. */
bool tls_may_sit(tls_desk_t *desk);
/* tls_shake.c: what it does first; then goes on until it is open or has to wait. */
void tls_begin(tls_t *tls);
status_t tls_advance(tls_t *tls, int fd);
status_t tls_failed(tls_t *tls); /* STATUS_CLOSED */
/* tls.c: around each use of the session: what it may read, and what becomes of what it wrote. */
void tls_input_begin(tls_t *tls, int fd, size_t room);
status_t tls_input_end(tls_t *tls);
status_t tls_output_push(tls_t *tls, int fd);
status_t tls_output_hold(tls_t *tls);
/* tls.c: OpenSSL calls it for each message it has read or written. */
void tls_count_updates(int writes, int version, int type, const void *message, size_t size, SSL *ssl, void *none);
/* tls_context.c */
SSL *tls_context_session(tls_context_t *context, const tls_t *tls);
void tls_context_forget(tls_context_t *context, bytes_t name);
bool tls_context_allows(tls_context_t *context, int64_t now_ns);
/* tls_reason.c. error: of SSL_get_error. Empties OpenSSL's queue of errors. */
void tls_explain(tls_t *tls, int error);
void tls_say(tls_t *tls, const char *format, ...) __attribute__((format(printf, 2, 3)));
void tls_describe_error(char *to, size_t room);
int tls_verified(int fine, X509_STORE_CTX *store);
void tls_describe_certificate(const X509 *certificate, char *to, size_t room);

#endif
