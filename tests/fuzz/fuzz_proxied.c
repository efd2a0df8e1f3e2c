/* Invariant: whatever comes first on a connection, a PROXY header (versions 1 and 2) or not, is read alike however it
 * is cut; an address is told only by a header that is whole; and not a byte behind the header leaves the socket. Input:
 * the size of a piece, then what is sent. */
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "net/proxied.h"

#define SENT_MAX 4096u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct seen {
    proxied_stage_t stage;
    char address[LISTEN_PEER_SIZE];
    size_t left; /* bytes that stayed in the socket */
} seen_t;

static seen_t play(const uint8_t *data, size_t size, size_t piece) {
    static uint8_t rest[SENT_MAX + 1];
    int pair[2];
    check(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    proxied_t *proxied = proxied_new(pair[0]);
    check(proxied != NULL);
    for (size_t done = 0, part; done < size; done += part) {
        bool over = proxied->stage == PROXIED_DONE || proxied->stage == PROXIED_FAILED;
        part =
            over || size - done < piece ? size - done : piece; /* a socket holds few small pieces that nobody takes */
        check(send(pair[1], data + done, part, 0) == (ssize_t)part);
        uint8_t to[16];
        size_t got = 0;
        status_t status = transport_proxied.receive(proxied, pair[0], to, sizeof to, &got);
        check(got == 0);
        check((status == STATUS_CLOSED) == (proxied->stage == PROXIED_FAILED));
        check((proxied->stage == PROXIED_FAILED) == (proxied->fault != NULL));
    }
    seen_t seen = {.stage = proxied->stage};
    memcpy(seen.address, proxied->address, sizeof seen.address);
    check(memchr(seen.address, 0, sizeof seen.address) != NULL);
    ssize_t left = recv(pair[0], rest, sizeof rest, MSG_DONTWAIT);
    seen.left = left > 0 ? (size_t)left : 0;
    check(seen.left <= size && memcmp(rest, data + size - seen.left, seen.left) == 0);
    transport_proxied.close(proxied, pair[0]);
    close(pair[0]);
    close(pair[1]);
    return seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2 || size > SENT_MAX) return 0;
    seen_t whole = play(data + 1, size - 1, size), cut = play(data + 1, size - 1, data[0] + 1u);
    check(whole.stage == cut.stage);
    if (whole.stage == PROXIED_DONE) {
        check(strcmp(whole.address, cut.address) == 0);
        check(whole.left == cut.left);
    }
    return 0;
}
