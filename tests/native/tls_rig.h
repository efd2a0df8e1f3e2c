/* tls_rig.h: contexts of TLS for tests, with a certificate that is made at once, and connections over socket pairs.
 *
 * Not here: a peer in a plane (tests/interop has whole servers).
 */
#ifndef LEAFD_TESTS_TLS_RIG_H
#define LEAFD_TESTS_TLS_RIG_H

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/conn.h"
#include "net/tls.h"

#define TLS_RIG_NAME "hub.example"

typedef struct tls_pem {
    char chain[4096];
    char key[4096];
} tls_pem_t;

static inline void tls_rig_text(BIO *from, char *to, size_t room) {
    int size = BIO_read(from, to, (int)room - 1);
    to[size > 0 ? size : 0] = 0;
    BIO_free(from);
}

/* Signed by itself, for TLS_RIG_NAME; valid for so many days from a day ago (negative: it has expired). */
static inline void tls_rig_certificate(tls_pem_t *pem, int days) {
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    X509 *one = X509_new();
    X509_set_version(one, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(one), 1);
    X509_gmtime_adj(X509_getm_notBefore(one), -86400 * 400);
    X509_gmtime_adj(X509_getm_notAfter(one), 86400L * days);
    X509_set_pubkey(one, key);
    X509_NAME *name = X509_get_subject_name(one);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const uint8_t *)"rig", -1, -1, 0);
    X509_set_issuer_name(one, name);
    X509_EXTENSION *names = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, "DNS:" TLS_RIG_NAME);
    X509_add_ext(one, names, -1);
    X509_EXTENSION_free(names);
    X509_sign(one, key, EVP_sha256());
    BIO *to = BIO_new(BIO_s_mem());
    PEM_write_bio_X509(to, one);
    tls_rig_text(to, pem->chain, sizeof pem->chain);
    to = BIO_new(BIO_s_mem());
    PEM_write_bio_PrivateKey(to, key, NULL, NULL, 0, NULL, NULL);
    tls_rig_text(to, pem->key, sizeof pem->key);
    X509_free(one);
    EVP_PKEY_free(key);
}

static inline tls_context_t *tls_rig_context(const tls_pem_t *pem, uint32_t flags, const char *pinned, uint32_t rate) {
    tls_settings_t settings = {.flags = flags, .timeout_ns = NS_PER_SECOND, .connection_rate = rate};
    bytes_t pair[2] = {bytes_of(pem->chain, (uint32_t)strlen(pem->chain)),
                       bytes_of(pem->key, (uint32_t)strlen(pem->key))};
    bytes_t pin = pinned == NULL ? BYTES_NONE : bytes_of(pinned, (uint32_t)strlen(pinned));
    tls_material_t material = {
        .ca = pair[0], .pinned = &pin, .pinned_count = pinned != NULL, .certificates = pair, .certificate_count = 2};
    tls_context_t *context;
    char reason[TLS_REASON_SIZE];
    return tls_context_new(&settings, &material, &context, reason) == STATUS_OK ? context : NULL;
}

#endif
