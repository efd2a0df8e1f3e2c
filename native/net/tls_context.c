/* tls_context.c: what connections of one `tls {}` block share: certificates and keys, whom to trust, what is offered;
 * as a client also the last session with each host, so that a link that comes back takes it up again.
 *
 * Sessions are kept by the client alone: the server hands out one ticket, sealed with a key that lives as long as the
 * context, and remembers nothing. Several certificates (the list `certs`) are one SSL_CTX each; the name that the
 * client asks for (SNI) chooses. Renegotiation and compression are off. Not here: handshakes, files.
 */
#include <stdio.h>
#include <stdlib.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include "net/tls_private.h"

#include "base/clock.h"

/* As with Go, 128 bits come first: they are enough, and cost less. */
#define CIPHERS_DEFAULT "ECDHE+AES128+AESGCM:ECDHE+AESGCM:ECDHE+CHACHA20"
#define CIPHERS_13 "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
#define LIST_SIZE 2048u
#define SESSION_SECONDS (24 * 3600)
#define SESSION_ID_CONTEXT "nats"

static const struct {
    const char *go;
    const char *openssl;
} curves[] = {
    {"X25519MLKEM768", "X25519MLKEM768"},
    {"X25519", "X25519"},
    {"CurveP256", "P-256"},
    {"CurveP384", "P-384"},
    {"CurveP521", "P-521"},
};
#define CURVES (sizeof(curves) / sizeof(curves[0]))

static status_t wrong(char reason[TLS_REASON_SIZE], const char *what) {
    char detail[TLS_REASON_SIZE];
    tls_describe_error(detail, sizeof detail);
    snprintf(reason, TLS_REASON_SIZE, "%s%s%.400s", what, detail[0] != 0 ? ": " : "", detail);
    return STATUS_INVALID;
}

/* ---- ciphers and curves that are offered ------------------------------------------------------------------------- */

static bool list_add(char list[LIST_SIZE], const char *name) {
    size_t size = strlen(list);
    int added = snprintf(list + size, LIST_SIZE - size, "%s%s", size != 0 ? ":" : "", name);
    return added > 0 && (size_t)added < LIST_SIZE - size;
}

static bool zero_ended(bytes_t text, char *to, size_t room) {
    if (text.size >= room || (text.size != 0 && memchr(text.at, 0, text.size) != NULL)) {
        return false;
    }
    *bytes_write((uint8_t *)to, text) = 0;
    return true;
}

/* Suites of TLS 1.3 are all on, as with Go; a name of one says nothing more. */
static status_t offer_ciphers(SSL_CTX *one, const tls_material_t *material, char reason[TLS_REASON_SIZE]) {
    char list[LIST_SIZE] = "", name[TLS_NAME_SIZE];
    for (uint32_t i = 0; i < material->cipher_suite_count; i++) {
        if (!zero_ended(material->cipher_suites[i], name, sizeof name)) {
            return wrong(reason, "cipher_suites: a name that is none");
        }
        if (strncmp(name, "TLS_AES_", 8) == 0 || strncmp(name, "TLS_CHACHA20_", 13) == 0) {
            continue;
        }
        const char *known = OPENSSL_cipher_name(name);
        if (strcmp(known, "(NONE)") == 0 || !list_add(list, known)) {
            snprintf(reason, TLS_REASON_SIZE, "cipher_suites: OpenSSL does not know %.100s", name);
            return STATUS_INVALID;
        }
    }
    if (list[0] == 0 && !list_add(list, CIPHERS_DEFAULT)) {
        return STATUS_INVALID;
    }
    return SSL_CTX_set_cipher_list(one, list) == 1 && SSL_CTX_set_ciphersuites(one, CIPHERS_13) == 1
               ? STATUS_OK
               : wrong(reason, "cipher_suites");
}

/* Offers the curves that this OpenSSL has, in the order given. */
static status_t offer_curves(SSL_CTX *one, const tls_material_t *material, char reason[TLS_REASON_SIZE]) {
    char list[LIST_SIZE] = "";
    uint32_t count = material->curve_count != 0 ? material->curve_count : (uint32_t)CURVES;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < CURVES; k++) {
            bytes_t name = bytes_of(curves[k].go, (uint32_t)strlen(curves[k].go));
            bool meant = material->curve_count != 0 ? bytes_equal(name, material->curves[i]) : i == k;
            if (meant && SSL_CTX_set1_groups_list(one, curves[k].openssl) == 1 && !list_add(list, curves[k].openssl)) {
                return STATUS_INVALID;
            }
        }
    }
    ERR_clear_error();
    return SSL_CTX_set1_groups_list(one, list) == 1 ? STATUS_OK
                                                    : wrong(reason, "curve_preferences: none that is known");
}

/* ---- who we are, and whom we trust ------------------------------------------------------------------------------- */

/* Never asks at a terminal. */
static int no_password(char *to, int size, int writing, void *context) {
    (void)to;
    (void)size;
    (void)writing;
    (void)context;
    return -1;
}

static status_t use_pair(SSL_CTX *one, bytes_t chain, bytes_t key, char reason[TLS_REASON_SIZE]) {
    BIO *from = BIO_new_mem_buf(chain.at, (int)chain.size);
    X509 *certificate = from == NULL ? NULL : PEM_read_bio_X509_AUX(from, NULL, no_password, NULL);
    status_t status =
        certificate != NULL && SSL_CTX_use_certificate(one, certificate) == 1 ? STATUS_OK : wrong(reason, "cert_file");
    X509_free(certificate);
    while (status == STATUS_OK && (certificate = PEM_read_bio_X509(from, NULL, no_password, NULL)) != NULL) {
        if (SSL_CTX_add0_chain_cert(one, certificate) != 1) {
            X509_free(certificate);
            status = wrong(reason, "cert_file");
        }
    }
    ERR_clear_error(); /* the end of the file is one */
    BIO_free(from);
    if (status != STATUS_OK) {
        return status;
    }
    from = BIO_new_mem_buf(key.at, (int)key.size);
    EVP_PKEY *secret = from == NULL ? NULL : PEM_read_bio_PrivateKey(from, NULL, no_password, NULL);
    if (secret == NULL || SSL_CTX_use_PrivateKey(one, secret) != 1) {
        status = wrong(reason, "key_file");
    } else if (SSL_CTX_check_private_key(one) != 1) {
        status = wrong(reason, "key_file is not the key of cert_file");
    }
    EVP_PKEY_free(secret);
    BIO_free(from);
    return status;
}

static status_t trust(SSL_CTX *one, bytes_t ca, bool shown, char reason[TLS_REASON_SIZE]) {
    if (ca.size == 0) {
        return SSL_CTX_set_default_verify_paths(one) == 1 ? STATUS_OK : wrong(reason, "the system's authorities");
    }
    BIO *from = BIO_new_mem_buf(ca.at, (int)ca.size);
    uint32_t count = 0;
    X509 *certificate;
    status_t status = from == NULL ? STATUS_NO_MEMORY : STATUS_OK;
    while (status == STATUS_OK && (certificate = PEM_read_bio_X509_AUX(from, NULL, no_password, NULL)) != NULL) {
        if (X509_STORE_add_cert(SSL_CTX_get_cert_store(one), certificate) != 1
            || (shown && SSL_CTX_add_client_CA(one, certificate) != 1)) {
            status = wrong(reason, "ca_file");
        }
        X509_free(certificate);
        count++;
    }
    BIO_free(from);
    if (status == STATUS_OK && count == 0) {
        status = wrong(reason, "ca_file has no certificate");
    }
    ERR_clear_error();
    return status;
}

/* As Go's: what is in the file is trusted, also where it is not a root. */
static void verify(SSL_CTX *one, const tls_settings_t *settings) {
    bool client = (settings->flags & TLS_CLIENT) != 0;
    int how = (settings->flags & TLS_VERIFY) == 0 ? SSL_VERIFY_NONE
              : client                            ? SSL_VERIFY_PEER
                                                  : SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
    SSL_CTX_set_verify(one, how, tls_verified);
    X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(one), X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_TRUSTED_FIRST);
    X509_VERIFY_PARAM_set_hostflags(SSL_CTX_get0_param(one), X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
}

/* ---- sessions ---------------------------------------------------------------------------------------------------- */

static tls_session_t *session_of(tls_context_t *context, bytes_t name) {
    for (uint32_t i = 0; i < TLS_SESSIONS; i++) {
        tls_session_t *one = &context->sessions[i];
        if (one->session != NULL && bytes_equal(name, bytes_of(one->name, (uint32_t)strlen(one->name)))) {
            return one;
        }
    }
    return NULL;
}

static int session_came(SSL *ssl, SSL_SESSION *session) {
    tls_t *tls = SSL_get_app_data(ssl);
    tls_context_t *context = tls->context;
    tls_session_t *one = session_of(context, tls->name);
    if (one == NULL) {
        one = &context->sessions[context->next_session++ % TLS_SESSIONS];
        if (!zero_ended(tls->name, one->name, sizeof one->name)) {
            return 0;
        }
    }
    SSL_SESSION_free(one->session);
    one->session = session;
    return 1;
}

void tls_context_forget(tls_context_t *context, bytes_t name) {
    tls_session_t *one = session_of(context, name);
    if (one != NULL) {
        SSL_SESSION_free(one->session);
        one->session = NULL;
    }
}

/* ---- choosing a certificate -------------------------------------------------------------------------------------- */

static int name_asked(SSL *ssl, int *alert, void *argument) {
    (void)alert;
    tls_context_t *context = argument;
    const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    for (uint32_t i = 0; name != NULL && i < context->count; i++) {
        X509 *certificate = SSL_CTX_get0_certificate(context->each[i]);
        if (certificate != NULL
            && X509_check_host(certificate, name, 0, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT, NULL) == 1) {
            SSL_set_SSL_CTX(ssl, context->each[i]);
            break;
        }
    }
    return SSL_TLSEXT_ERR_OK;
}

/* ---- contexts ---------------------------------------------------------------------------------------------------- */

static status_t make_one(tls_context_t *context, const tls_material_t *material, uint32_t number,
                         char reason[TLS_REASON_SIZE]) {
    const tls_settings_t *settings = &context->settings;
    bool client = (settings->flags & TLS_CLIENT) != 0, checks = (settings->flags & TLS_VERIFY) != 0;
    SSL_CTX *one = context->each[number] = SSL_CTX_new(client ? TLS_client_method() : TLS_server_method());
    if (one == NULL) {
        return wrong(reason, "OpenSSL");
    }
    SSL_CTX_set_mode(one, SSL_MODE_RELEASE_BUFFERS);
    /* A cut connection is no error that would cost its session: whole operations are the protocol's business. */
    SSL_CTX_set_options(one, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE
                                 | SSL_OP_PRIORITIZE_CHACHA | SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_num_tickets(one, 1);
    SSL_CTX_set_timeout(one, SESSION_SECONDS);
    SSL_CTX_set_session_cache_mode(one,
                                   client ? SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL : SSL_SESS_CACHE_OFF);
    SSL_CTX_sess_set_new_cb(one, client ? session_came : NULL);
    if (!client) {
        SSL_CTX_set_tlsext_servername_callback(one, name_asked);
        SSL_CTX_set_tlsext_servername_arg(one, context);
    }
    int least = settings->min_version != 0 ? (int)settings->min_version : TLS1_2_VERSION;
    if (SSL_CTX_set_min_proto_version(one, least) != 1
        || SSL_CTX_set_session_id_context(one, (const uint8_t *)SESSION_ID_CONTEXT, sizeof SESSION_ID_CONTEXT - 1)
               != 1) {
        return wrong(reason, "min_version");
    }
    verify(one, settings);
    status_t status = offer_ciphers(one, material, reason);
    if (status == STATUS_OK) {
        status = offer_curves(one, material, reason);
    }
    if (status == STATUS_OK && checks) {
        status = trust(one, material->ca, !client, reason);
    }
    if (status == STATUS_OK && material->certificate_count > number * 2 + 1) {
        status = use_pair(one, material->certificates[number * 2], material->certificates[number * 2 + 1], reason);
    }
    return status;
}

static int digit(uint8_t c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static status_t pin(tls_context_t *context, const tls_material_t *material, char reason[TLS_REASON_SIZE]) {
    context->pinned = calloc(material->pinned_count + 1u, sizeof(*context->pinned));
    if (context->pinned == NULL) {
        return STATUS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < material->pinned_count; i++) {
        bytes_t text = material->pinned[i];
        for (uint32_t k = 0; k < TLS_PINNED_SIZE; k++) {
            int high = text.size == 2 * TLS_PINNED_SIZE ? digit(text.at[2 * k]) : -1;
            int low = text.size == 2 * TLS_PINNED_SIZE ? digit(text.at[2 * k + 1]) : -1;
            if (high < 0 || low < 0) {
                return wrong(reason, "pinned_certs: one is not the hexadecimal SHA-256 of a public key");
            }
            context->pinned[i][k] = (uint8_t)(high * 16 + low);
        }
    }
    context->pinned_count = material->pinned_count;
    return STATUS_OK;
}

status_t tls_context_new(const tls_settings_t *settings, const tls_material_t *material, tls_context_t **out,
                         char reason[TLS_REASON_SIZE]) {
    reason[0] = 0;
    *out = NULL;
    tls_context_t *context = calloc(1, sizeof(*context));
    uint32_t pairs = material->certificate_count / 2;
    if (context != NULL) {
        context->references = 1;
        context->settings = *settings;
        context->count = pairs > 1 ? pairs : 1;
        context->each = calloc(context->count, sizeof(SSL_CTX *));
    }
    if (context == NULL || context->each == NULL) {
        free(context);
        return STATUS_NO_MEMORY;
    }
    status_t status = pin(context, material, reason);
    if (status == STATUS_OK && pairs == 0 && (settings->flags & TLS_CLIENT) == 0) {
        status = wrong(reason, "a server needs cert_file and key_file");
    }
    for (uint32_t i = 0; status == STATUS_OK && i < context->count; i++) {
        status = make_one(context, material, i, reason);
    }
    ERR_clear_error();
    if (status != STATUS_OK) {
        tls_context_release(context);
        return status;
    }
    *out = context;
    return STATUS_OK;
}

void tls_context_release(tls_context_t *context) {
    if (context == NULL || --context->references != 0) {
        return;
    }
    for (uint32_t i = 0; i < TLS_SESSIONS; i++) {
        SSL_SESSION_free(context->sessions[i].session);
    }
    for (uint32_t i = 0; i < context->count; i++) {
        SSL_CTX_free(context->each[i]);
    }
    free(context->each);
    free(context->pinned);
    free(context);
}

int64_t tls_context_timeout_ns(const tls_context_t *context) {
    return context->settings.timeout_ns;
}

bool tls_context_allows(tls_context_t *context, int64_t now_ns) {
    if (context->settings.connection_rate == 0) {
        return true;
    }
    if (now_ns >= context->second_end_ns) {
        context->second_end_ns = now_ns + NS_PER_SECOND;
        context->second_count = 0;
    }
    return context->second_count++ < context->settings.connection_rate;
}

/* As a client: whose certificate it has to be. */
static bool expect_name(SSL *ssl, const tls_t *tls) {
    char name[TLS_NAME_SIZE];
    if (!zero_ended(tls->name, name, sizeof name)) {
        return false;
    }
    X509_VERIFY_PARAM *wanted = SSL_get0_param(ssl);
    bool known = true;
    if (name[0] != 0 && X509_VERIFY_PARAM_set1_ip_asc(wanted, name) != 1) {
        known = X509_VERIFY_PARAM_set1_host(wanted, name, 0) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
    }
    ERR_clear_error();
    return known;
}

SSL *tls_context_session(tls_context_t *context, const tls_t *tls) {
    SSL *ssl = SSL_new(context->each[0]);
    if (ssl == NULL || SSL_set_app_data(ssl, (void *)(uintptr_t)tls) != 1) {
        SSL_free(ssl);
        return NULL;
    }
    SSL_set_msg_callback(ssl, tls_count_updates);
    if ((context->settings.flags & TLS_CLIENT) == 0) {
        SSL_set_accept_state(ssl);
        return ssl;
    }
    SSL_set_connect_state(ssl);
    const tls_session_t *earlier = session_of(context, tls->name);
    if (!expect_name(ssl, tls) || (earlier != NULL && SSL_set_session(ssl, earlier->session) != 1)) {
        SSL_free(ssl);
        return NULL;
    }
    return ssl;
}
