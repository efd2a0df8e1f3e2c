/* tls_reason.c: why a handshake failed, in one line for the log: what OpenSSL found, what the peer said (an alert), and
 * for a certificate whose it is and from when to when it holds.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <openssl/err.h>
#include <openssl/x509.h>

#include "net/tls_private.h"

void tls_say(tls_t *tls, const char *format, ...) {
    char text[TLS_REASON_SIZE];
    if (tls->reason != NULL) {
        return; /* the first one is the cause */
    }
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    tls->reason = strdup(text);
}

void tls_describe_error(char *to, size_t room) {
    unsigned long code = ERR_peek_error();
    const char *text = code == 0 ? NULL : ERR_reason_error_string(code);
    snprintf(to, room, "%s", text != NULL ? text : "");
    ERR_clear_error();
}

static void describe_time(const ASN1_TIME *time, char *to, size_t room) {
    struct tm when;
    if (ASN1_TIME_to_tm(time, &when) != 1 || strftime(to, room, "%Y-%m-%d %H:%M:%S UTC", &when) == 0) {
        snprintf(to, room, "?");
    }
}

void tls_describe_certificate(const X509 *certificate, char *to, size_t room) {
    char subject[160] = "", from[32], until[32];
    BIO *memory = BIO_new(BIO_s_mem());
    if (memory != NULL && X509_NAME_print_ex(memory, X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253) >= 0) {
        int size = BIO_read(memory, subject, sizeof subject - 1);
        subject[size > 0 ? size : 0] = 0;
    }
    BIO_free(memory);
    describe_time(X509_get0_notBefore(certificate), from, sizeof from);
    describe_time(X509_get0_notAfter(certificate), until, sizeof until);
    snprintf(to, room, "%s, valid from %s to %s", subject[0] != 0 ? subject : "no subject", from, until);
}

int tls_verified(int fine, X509_STORE_CTX *store) {
    if (fine == 1) {
        return 1;
    }
    const SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    tls_t *tls = SSL_get_app_data(ssl);
    X509 *certificate = X509_STORE_CTX_get_current_cert(store);
    int error = X509_STORE_CTX_get_error(store);
    char text[TLS_REASON_SIZE / 2] = "no certificate";
    if (certificate != NULL) {
        tls_describe_certificate(certificate, text, sizeof text);
    }
    bool name = error == X509_V_ERR_HOSTNAME_MISMATCH || error == X509_V_ERR_IP_ADDRESS_MISMATCH;
    tls_say(tls, "the peer's certificate is refused: %s%s%.*s (%s)", X509_verify_cert_error_string(error),
            name ? ": it is not of " : "", name ? (int)tls->name.size : 0, (const char *)tls->name.at, text);
    if (error == X509_V_ERR_CERT_SIGNATURE_FAILURE) { /* by a namesake: unknown_ca, as Go says, and not decrypt_error */
        X509_STORE_CTX_set_error(store, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY);
    }
    return 0;
}

/* The peer has said why. Where our own certificate has expired, that is why. */
static void explain_alert(tls_t *tls, int alert) {
    const X509 *own = SSL_get_certificate(tls->ssl);
    char text[TLS_REASON_SIZE / 2];
    if (own != NULL && X509_cmp_current_time(X509_get0_notAfter(own)) < 0) {
        tls_describe_certificate(own, text, sizeof text);
        tls_say(tls, "the peer says: %s; our certificate has expired (%s)", SSL_alert_desc_string_long(alert), text);
    } else {
        tls_say(tls, "the peer says: %s", SSL_alert_desc_string_long(alert));
    }
}

void tls_explain(tls_t *tls, int error) {
    unsigned long code = ERR_peek_error();
    int reason = code == 0 ? 0 : ERR_GET_REASON(code);
    if (code != 0 && ERR_GET_LIB(code) == ERR_LIB_SSL && reason > SSL_AD_REASON_OFFSET
        && reason <= SSL_AD_REASON_OFFSET + UINT8_MAX) {
        explain_alert(tls, reason - SSL_AD_REASON_OFFSET);
    } else if (code == 0 || error == SSL_ERROR_SYSCALL || reason == SSL_R_UNEXPECTED_EOF_WHILE_READING) {
        if (tls->stage == STAGE_SHAKING) {
            tls_say(tls, "the peer closed the connection");
        }
    } else {
        char text[TLS_REASON_SIZE / 2];
        tls_describe_error(text, sizeof text);
        tls_say(tls, "%s", text);
    }
    ERR_clear_error();
}
