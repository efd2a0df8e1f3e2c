/* proxied.c: see proxied.h. Its rules are nats-server's: which families it knows, and what it does with the others. */
#include "net/proxied.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/check.h"
#include "base/copies.h"

#define LOOK 6u /* bytes that tell the versions from each other and from the rest */
#define SIGNATURE "\r\n\r\n\0\r\nQUIT\n"
#define SIGNATURE_SIZE 12u
#define COMMAND_LOCAL 0u /* of a health check of the proxy's own */
#define COMMAND_PROXY 1u
#define FAMILY_NONE 0u
#define FAMILY_4 1u
#define FAMILY_6 2u
#define STREAM 1u
#define ADDRESSES_4 12u
#define ADDRESSES_6 36u
#define WORDS_MAX 6u

static void told_from(int fd, int bytes) {
    /* Where it cannot be set the loop reports more often. */
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes);
}

proxied_t *proxied_new(int fd) {
    proxied_t *proxied = calloc(1, sizeof(*proxied));
    if (proxied != NULL) {
        told_from(fd, LOOK);
    }
    return proxied;
}

void proxied_drop(proxied_t *proxied) {
    bytes_release(&proxied->behind);
    free(proxied);
}

static void proxied_fail(proxied_t *proxied, const char *fault) {
    proxied->stage = PROXIED_FAILED;
    proxied->fault = fault;
}

/* ---- addresses --------------------------------------------------------------------------------------------------- */

static void speaks_for_4(proxied_t *proxied, const uint8_t address[4], uint16_t port) {
    snprintf(proxied->address, sizeof proxied->address, "%u.%u.%u.%u:%u", address[0], address[1], address[2],
             address[3], port);
}

/* An IPv4 address in the clothes of IPv6 is shown as what it is. */
static void speaks_for_6(proxied_t *proxied, const uint8_t address[16], uint16_t port) {
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    if (memcmp(address, mapped, sizeof mapped) == 0) {
        speaks_for_4(proxied, address + sizeof mapped, port);
        return;
    }
    char text[INET6_ADDRSTRLEN] = "";
    (void)inet_ntop(AF_INET6, address, text, sizeof text);
    snprintf(proxied->address, sizeof proxied->address, "[%s]:%u", text, port);
}

/* ---- version 1 --------------------------------------------------------------------------------------------------- */

/* Decimal digits and nothing else. */
static bool port_of(const char *word, uint16_t *port) {
    uint32_t number = 0;
    for (const char *at = word; *at != 0; at++) {
        if (*at < '0' || *at > '9' || number > UINT16_MAX) {
            return false;
        }
        number = number * 10 + (uint32_t)(*at - '0');
    }
    *port = (uint16_t)number;
    return *word != 0 && number <= UINT16_MAX;
}

static bool address_of(const char *word, uint8_t to[16], bool *six) {
    *six = strchr(word, ':') != NULL;
    return inet_pton(*six ? AF_INET6 : AF_INET, word, to) == 1;
}

static uint32_t words_of(char *line, char *words[WORDS_MAX]) {
    uint32_t count = 0;
    char *rest = NULL;
    for (char *word = strtok_r(line, " \t\v\f\r\n", &rest); word != NULL && count < WORDS_MAX;
         word = strtok_r(NULL, " \t\v\f\r\n", &rest)) {
        words[count++] = word;
    }
    return count;
}

/* The line without its end. */
static void read_line(proxied_t *proxied, uint32_t size) {
    char line[PROXIED_LINE_MAX + 1], *words[WORDS_MAX];
    memcpy(line, proxied->at + LOOK, size - LOOK);
    line[size - LOOK] = 0;
    if (memchr(line, 0, size - LOOK) != NULL) {
        proxied_fail(proxied, "invalid v1 format");
        return;
    }
    uint32_t count = words_of(line, words);
    if (count != 0 && strcmp(words[0], "UNKNOWN") == 0) {
        proxied->stage = PROXIED_DONE;
        return;
    }
    uint8_t source[16], destination[16];
    bool source6, destination6;
    uint16_t port, destination_port;
    if (count != 5) {
        proxied_fail(proxied, "invalid v1 format");
    } else if (!address_of(words[1], source, &source6) || !address_of(words[2], destination, &destination6)) {
        proxied_fail(proxied, "invalid address");
    } else if (!port_of(words[3], &port) || !port_of(words[4], &destination_port)) {
        proxied_fail(proxied, "invalid port");
    } else if (strcmp(words[0], "TCP4") == 0 && !source6 && !destination6) {
        speaks_for_4(proxied, source, port);
        proxied->stage = PROXIED_DONE;
    } else if (strcmp(words[0], "TCP6") == 0 && source6 && destination6) {
        speaks_for_6(proxied, source, port);
        proxied->stage = PROXIED_DONE;
    } else {
        bool known = strcmp(words[0], "TCP4") == 0 || strcmp(words[0], "TCP6") == 0;
        proxied_fail(proxied, known ? "addresses of another family than the line says" : "invalid protocol");
    }
}

/* ---- version 2 --------------------------------------------------------------------------------------------------- */

static void skip_the_rest(proxied_t *proxied, uint32_t size) {
    proxied->skip = size;
    proxied->stage = size != 0 ? PROXIED_SKIPPING : PROXIED_DONE;
}

static void read_fixed(proxied_t *proxied) {
    uint8_t version = proxied->at[12] >> 4, command = proxied->at[12] & 15;
    uint8_t family = proxied->at[13] >> 4, protocol = proxied->at[13] & 15;
    uint16_t length = load_be16(proxied->at + 14);
    uint32_t addresses = family == FAMILY_4 ? ADDRESSES_4 : ADDRESSES_6;
    if (memcmp(proxied->at, SIGNATURE, SIGNATURE_SIZE) != 0) {
        proxied_fail(proxied, "invalid signature");
    } else if (version != 2) {
        proxied_fail(proxied, "invalid version");
    } else if (command == COMMAND_LOCAL) {
        skip_the_rest(proxied, length);
    } else if (command != COMMAND_PROXY) {
        proxied_fail(proxied, "unknown command");
    } else if (protocol != STREAM) {
        proxied_fail(proxied, "only STREAM protocol supported");
    } else if (family == FAMILY_NONE) {
        skip_the_rest(proxied, length);
    } else if (family != FAMILY_4 && family != FAMILY_6) {
        proxied_fail(proxied, "unsupported address family");
    } else if (length < addresses) {
        proxied_fail(proxied, "address data too short");
    } else {
        proxied->wanted = PROXIED_FIXED + addresses;
        proxied->skip = length - addresses;
        proxied->stage = PROXIED_ADDRESSES;
    }
}

static void read_addresses(proxied_t *proxied) {
    const uint8_t *at = proxied->at + PROXIED_FIXED;
    if (proxied->wanted == PROXIED_FIXED + ADDRESSES_4) {
        speaks_for_4(proxied, at, load_be16(at + 8));
    } else {
        speaks_for_6(proxied, at, load_be16(at + 32));
    }
    skip_the_rest(proxied, proxied->skip);
}

/* ---- the socket -------------------------------------------------------------------------------------------------- */

/* So many bytes of the header more, at most. */
static status_t take_some(int fd, uint8_t *to, uint32_t most, int flags, uint32_t *got) {
    ssize_t size = recv(fd, to, most, MSG_DONTWAIT | flags);
    *got = size > 0 ? (uint32_t)size : 0;
    if (size > 0) {
        return STATUS_OK;
    }
    return size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) ? STATUS_AGAIN : STATUS_CLOSED;
}

/* Fewer bytes than are asked for come only when no more will. */
static status_t look_for_header(proxied_t *proxied, int fd) {
    uint8_t first[LOOK];
    uint32_t got;
    status_t status = take_some(fd, first, LOOK, MSG_PEEK, &got);
    if (status != STATUS_OK) {
        return status;
    }
    if (memcmp(first, "PROXY ", got) != 0 && memcmp(first, SIGNATURE, got) != 0) {
        proxied->stage = PROXIED_DONE;
    } else if (got == LOOK) {
        proxied->stage = first[0] == 'P' ? PROXIED_LINE : PROXIED_FIXED_HEAD;
    } else {
        return STATUS_AGAIN;
    }
    told_from(fd, 1);
    return STATUS_OK;
}

static status_t take_line(proxied_t *proxied, int fd) {
    uint32_t got;
    status_t status = take_some(fd, proxied->at + proxied->size, PROXIED_LINE_MAX - proxied->size, MSG_PEEK, &got);
    if (status != STATUS_OK) {
        return status;
    }
    uint32_t come = proxied->size + got;
    const uint8_t *end = memmem(proxied->at, come, "\r\n", 2);
    uint32_t size = end != NULL ? (uint32_t)(end - proxied->at) + 2 : come;
    status = take_some(fd, proxied->at + proxied->size, size - proxied->size, 0, &got);
    if (status != STATUS_OK) {
        return status;
    }
    proxied->size = size;
    if (end != NULL) {
        read_line(proxied, size - 2);
    } else if (size == PROXIED_LINE_MAX) {
        proxied_fail(proxied, "v1 line too long");
    }
    return STATUS_OK;
}

static status_t take_binary(proxied_t *proxied, int fd) {
    uint32_t until = proxied->stage == PROXIED_FIXED_HEAD ? PROXIED_FIXED : proxied->wanted, got;
    status_t status = take_some(fd, proxied->at + proxied->size, until - proxied->size, 0, &got);
    if (status != STATUS_OK) {
        return status;
    }
    proxied->size += got;
    if (proxied->size == until) {
        (proxied->stage == PROXIED_FIXED_HEAD ? read_fixed : read_addresses)(proxied);
    }
    return STATUS_OK;
}

static status_t take_skipped(proxied_t *proxied, int fd) {
    uint8_t nowhere[512];
    uint32_t got, most = proxied->skip < sizeof nowhere ? proxied->skip : (uint32_t)sizeof nowhere;
    status_t status = take_some(fd, nowhere, most, 0, &got);
    if (status == STATUS_OK) {
        skip_the_rest(proxied, proxied->skip - got);
    }
    return status;
}

static status_t proxied_receive(void *state, int fd, uint8_t *to, size_t room, size_t *got) {
    proxied_t *proxied = state;
    status_t status = STATUS_OK;
    (void)to;
    (void)room;
    *got = 0;
    while (status == STATUS_OK) {
        switch (proxied->stage) {
        case PROXIED_LOOKING: status = look_for_header(proxied, fd); break;
        case PROXIED_LINE: status = take_line(proxied, fd); break;
        case PROXIED_FIXED_HEAD:
        case PROXIED_ADDRESSES: status = take_binary(proxied, fd); break;
        case PROXIED_SKIPPING: status = take_skipped(proxied, fd); break;
        case PROXIED_DONE: return STATUS_AGAIN;
        case PROXIED_FAILED:
        default: return STATUS_CLOSED;
        }
    }
    return status;
}

static status_t proxied_send(void *state, int fd, const struct iovec *iov, int count, size_t *taken) {
    (void)state;
    return transport_socket.send(NULL, fd, iov, count, taken);
}

static size_t proxied_pending(const void *state) {
    (void)state;
    return 0;
}

static uint32_t proxied_wanted(const void *state) {
    (void)state;
    return 0;
}

static void proxied_close(void *state, int fd) {
    (void)fd;
    proxied_drop(state);
}

const transport_t transport_proxied = {proxied_receive, proxied_send, proxied_pending, proxied_wanted, proxied_close};
