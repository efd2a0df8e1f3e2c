/* fuzz_tls.c: what a stranger may send before and in a handshake: the first byte chooses how the server begins and how
 * the rest is cut, the rest is what comes. */
#include "tls_rig.h"

#include "fuzz_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static tls_desk_t *desk;
static tls_context_t *context;

static void set_up(void) {
    tls_pem_t pem;
    tls_rig_certificate(&pem, 300);
    context = tls_rig_context(&pem, 0, NULL, 0);
    if (context == NULL || tls_desk_open(&desk) != STATUS_OK) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int pair[2];
    uint8_t to[4096];
    if (context == NULL) set_up();
    if (size == 0 || size > 60000 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) != 0) return 0;
    tls_wish_t wish = {.flags = data[0] & (SECURE_FIRST | SECURE_OPTIONAL),
                       .wait_ns = (data[0] & 4) != 0 ? 1 : 0,
                       .before = BYTES_LITERAL("INFO {}\r\n")};
    size_t piece = (data[0] & 8) != 0 ? 1 : (size_t)(data[0] >> 4) * 256 + 1;
    tls_t *tls = tls_new(desk, context, &wish);
    if (tls == NULL) abort();
    status_t status = STATUS_AGAIN;
    for (size_t at = 1; at < size && status != STATUS_CLOSED;) {
        size_t part = size - at < piece ? size - at : piece, got = 0, taken = 0;
        if (write(pair[1], data + at, part) != (ssize_t)part) break;
        at += part;
        tls_desk_turn(desk, (int64_t)at);
        (void)tls_desk_next(desk);
        struct iovec text = {.iov_base = to, .iov_len = 3};
        if (transport_tls.send(tls, pair[0], &text, 1, &taken) == STATUS_CLOSED) break;
        status = transport_tls.receive(tls, pair[0], to, sizeof to, &got);
        if (status == STATUS_OK && (got == 0 || got > sizeof to)) abort();
        while (read(pair[1], to, sizeof to) > 0) {
        }
    }
    transport_tls.close(tls, pair[0]);
    if (tls_desk_shaking(desk) != 0) abort();
    close(pair[0]);
    close(pair[1]);
    return 0;
}
